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

_CREDENTIAL_SIGNS: Final = re.compile(
    r"Error performing token request|performing POST REDACTED|External \w+ credential provider|AzureCli \{"
    r"|/latest/(?:api/token|meta-data/iam)"
)
"""Parts of messages that come up while credentials are fetched."""

_BROKEN: Final = re.compile(r"kind: (?:Timeout|Decode|Body|Interrupted|Request)\b")


def translate_error(error: BaseException, url: ObjectUrl, settings: BucketSettings, endpoint: str = "") -> RemoteError:
    """The failure of a request for `url`, in one line, without secrets."""
    text = str(error)
    status_match, code_match = _STATUS.search(text), _CODE.search(text)
    status, code = int(status_match[1]) if status_match else 0, code_match[1] if code_match else ""
    reason = _reason(type(error).__name__, text, status, code)
    if reason == "wrong_region" and url.scheme != "s3":
        reason = "refused"
    message, remedy = _sentence(reason, url, settings, endpoint, text, status, code)
    return RemoteError(message if reason == "no_bucket" else f"{url}: {message}", reason=reason, remedy=remedy)


def translate_settings_error(error: BaseException, url: ObjectUrl, settings: BucketSettings) -> RemoteError:
    """The failure of obstore to make a store: a key that is no key, a file that is none."""
    message = f"{url.bucket_text}: settings that are not valid: {_first_line(str(error)).rstrip('.')}"
    if settings.source:
        return RemoteError(f"{message} ({settings.source})", reason="refused")
    remedy = "unset GOOGLE_APPLICATION_CREDENTIALS" if "OpenCredentials" in str(error) else ""
    return RemoteError(message, reason="refused", remedy=remedy)


def _reason(kind: str, text: str, status: int, code: str) -> FailureReason:
    conditions: tuple[tuple[FailureReason, bool], ...] = (
        ("no_credentials", _CREDENTIAL_SIGNS.search(text) is not None),
        ("no_bucket", code in _NO_BUCKET),
        ("wrong_region", code in _WRONG_REGION or status == 301 or "redirect without LOCATION" in text),
        ("throttled", code in _THROTTLED or status in (429, 503)),
        ("no_object", code in _NO_OBJECT or status == 404 or kind == "FileNotFoundError"),
        ("changed", status in (412, 416) or kind == "PreconditionError"),
        ("denied", code in _BAD_CREDENTIALS or status in (401, 403) or kind == "PermissionDeniedError"),
        ("unreachable", "kind: Connect" in text or "ConnectError" in text),
        ("lost", status == 0 and _BROKEN.search(text) is not None),
    )
    return next((reason for reason, holds in conditions if holds), "refused")


def _sentence(  # noqa: PLR0911, one row a reason
    reason: FailureReason,
    url: ObjectUrl,
    settings: BucketSettings,
    endpoint: str,
    text: str,
    status: int,
    code: str,
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
            why = _network_cause(text) or f": {_first_line(text)}"
            return f"no credentials from {settings.source}{why}", "--anonymous reads a public bucket without them"
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
            return _refusal(text, status, code), ""


def _refusal(text: str, status: int, code: str) -> str:
    if "empty path segment" in text:
        return "a key with an empty part (//) is there, which is not read: name a folder or an object without it"
    if "invalid path" in text or "Could not parse path" in text:
        return "a key with .., or with control characters, is not read: name a folder or an object without it"
    if status >= 500:
        return f"the server failed ({status})"
    if status:
        return f"the server refuses the request ({' '.join(filter(None, (str(status), code)))})"
    return f"the request failed: {_first_line(text)}"


def _denial(url: ObjectUrl, settings: BucketSettings, code: str) -> tuple[str, str]:
    if not settings.source:
        return "access denied: the bucket is not public, or there is no such object", "read it with credentials"
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


def _first_line(text: str) -> str:
    """The first line of a message: no dump, no body of an answer, no address of a request, no secret."""
    line = re.split(r"[\r\n]|<\?xml|<Error|<!doctype|<html", text.strip(), maxsplit=1)[0]
    line = re.sub(r"^Generic \w+ error: ", "", line)
    line = re.sub(r"Error performing \w+ \S+ in \S+?(?:, after .*?retry_timeout: \S+)?\s+- ", "", line)
    return printable(redact(line)).strip(" :-")[:MAX_ERROR_CHARS]
