"""Failures of obstore, whose messages are dumps of many lines, as errors of one line."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from tracehound.errors import printable
from tracehound.remote.bucket_settings import BucketSettings
from tracehound.remote.object_url import ObjectUrl
from tracehound.remote.redaction import redact
from tracehound.remote.remote_error import FailureReason, RemoteError

MAX_ERROR_CHARS: Final = 200
"""Characters of an unknown failure that are shown."""

_STATUS: Final = re.compile(r"status(?: code)?: (\d{3})")
_CODE: Final = re.compile(r"<Code>([A-Za-z]+)</Code>")

_NO_BUCKET: Final = frozenset({"NoSuchBucket", "ContainerNotFound", "InvalidBucketName", "InvalidResourceName"})
_NO_OBJECT: Final = frozenset({"NoSuchKey", "BlobNotFound"})
_WRONG_REGION: Final = frozenset(
    {"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
)
_THROTTLED: Final = frozenset(
    {"SlowDown", "ServerBusy", "TooManyRequests", "RequestLimitExceeded", "Throttling", "ThrottlingException"}
)
_BAD_CREDENTIALS: Final = {
    "ExpiredToken": "the session token has expired",
    "TokenRefreshRequired": "the session token has expired",
    "InvalidToken": "the session token is not valid",
    "InvalidAccessKeyId": "the access key does not exist",
    "SignatureDoesNotMatch": "the secret key is wrong",
    "RequestTimeTooSkewed": "the clock of this machine is wrong",
    "AuthenticationFailed": "the key, signature or token is wrong or expired",
    "InvalidAuthenticationInfo": "the token is wrong or expired",
}
"""Codes of S3 and Azure for credentials that are wrong by themselves, whatever the object is."""

_NEEDED: Final = {
    "s3": "it needs s3:GetObject and s3:ListBucket",
    "gs": "it needs the role Storage Object Viewer, and a virtual machine the scope of storage",
    "az": "it needs the role Storage Blob Data Reader",
}

_CREDENTIAL_SIGNS: Final = (
    "instance credentials",
    "instance metadata",
    "/latest/api/token",
    "/latest/meta-data",
    "/computemetadata/",
    "/metadata/identity",
    "oauth2",
    "/token in ",
    "tokenrequest",
    "webidentity",
    "azure cli",
    "azureclicredential",
    "credential provider",
    "federated",
)
"""Parts of a message, in lower case, that come up while credentials are fetched."""


def translate_error(error: BaseException, url: ObjectUrl, settings: BucketSettings, endpoint: str = "") -> RemoteError:
    """The failure of a request for `url`, in one line, without secrets."""
    text = str(error)
    status_match, code_match = _STATUS.search(text), _CODE.search(text)
    status, code = int(status_match[1]) if status_match else 0, code_match[1] if code_match else ""
    reason = _reason(type(error).__name__, text, status, code)
    message, remedy = _sentence(reason, url, settings, endpoint, text, code)
    return RemoteError(f"{url}: {message}" if reason != "no_bucket" else message, reason=reason, remedy=remedy)


def _reason(kind: str, text: str, status: int, code: str) -> FailureReason:  # noqa: PLR0911, one row a reason
    if code in _NO_BUCKET:
        return "no_bucket"
    if code in _WRONG_REGION or "redirect without LOCATION" in text or status == 301:
        return "wrong_region"
    if code in _THROTTLED or status in (429, 503):
        return "throttled"
    if any(sign in text.lower() for sign in _CREDENTIAL_SIGNS):
        return "no_credentials"
    if code in _NO_OBJECT or kind == "FileNotFoundError" or status == 404:
        return "no_object"
    if status in (412, 416) or kind == "PreconditionError":
        return "changed"
    if status in (401, 403) or code in _BAD_CREDENTIALS or kind in ("PermissionDeniedError", "UnauthenticatedError"):
        return "denied"
    if "kind: Connect" in text or "ConnectError" in text:
        return "unreachable"
    if re.search(r"kind: (?:Timeout|Decode|Body|Interrupted|Request)", text):
        return "lost"
    return "refused"


def _sentence(  # noqa: PLR0911, one row a reason
    reason: FailureReason, url: ObjectUrl, settings: BucketSettings, endpoint: str, text: str, code: str
) -> tuple[str, str]:
    """The message and the remedy."""
    host = printable(urlsplit(endpoint).netloc.rpartition("@")[2]) or "the server"
    match reason:
        case "no_bucket":
            at = f" at {host}" if endpoint else ""
            return f"{url.bucket_text}: no such {'container' if url.scheme == 'az' else 'bucket'}{at}", ""
        case "no_object":
            return "no such object", ""
        case "changed":
            return "the object changed while it was read", "read it again"
        case "denied":
            return _denial(url, settings, code)
        case "no_credentials":
            return f"no credentials from {settings.source}{_because(text)}", "or --anonymous for a public bucket"
        case "wrong_region":
            region = settings.config.get("region", "")
            return f"the bucket is not in the region {region}", "set AWS_REGION to the region of the bucket"
        case "throttled":
            return "the server asks for fewer requests (throttled)", "try again later"
        case "unreachable":
            return f"no connection to {host}{_network_cause(text)}", ""
        case "lost":
            return f"the connection to {host} broke", "try again"
        case _:
            return f"the request failed: {_first_line(text)}", ""


def _denial(url: ObjectUrl, settings: BucketSettings, code: str) -> tuple[str, str]:
    if not settings.source:
        return "access denied: the bucket is not public, or there is no such object", "set credentials"
    if why := _BAD_CREDENTIALS.get(code):
        return f"access denied: {why} ({settings.source})", ""
    return f"access denied for {settings.source}", _NEEDED.get(url.scheme, "")


def _network_cause(text: str) -> str:
    lower = text.lower()
    if "dns error" in lower or "failed to lookup address" in lower:
        return ": unknown host"
    if "connection refused" in lower:
        return ": connection refused"
    if "certificate" in lower or "unknownissuer" in lower:
        return ": its TLS certificate is not trusted"
    return ": no answer" if "timedout" in lower or "timed out" in lower else ""


def _because(text: str) -> str:
    cause = _network_cause(text)
    return cause or f": {_first_line(text)}"


def _first_line(text: str) -> str:
    """The first line of a message: no dump, no body of an answer, no address of a request, no secret."""
    line = re.split(r"[\r\n]|<\?xml|<Error|<!doctype|<html", text.strip(), maxsplit=1)[0]
    line = re.sub(r"Error performing \w+ \S+ in \S+?(?:, after .*?retry_timeout: \S+)?\s+- ", "", line)
    return printable(redact(line)).strip(" :-")[:MAX_ERROR_CHARS]
