"""URLs of objects, as users write them: ``s3://BUCKET/KEY``, ``gs://``, ``az://``, ``abfss://``, ``https://``."""

from __future__ import annotations

import re
from typing import Any, Final, Literal, cast
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from tracehound.errors import TracehoundError, printable
from tracehound.remote.redaction import HIDDEN, redact

Scheme = Literal["s3", "gs", "az", "http", "https"]

SCHEMES: Final[dict[str, Scheme]] = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "az",
    "azure": "az",
    "abfs": "az",
    "abfss": "az",
    "wasb": "az",
    "wasbs": "az",
    "http": "http",
    "https": "https",
}
"""Every scheme that is read, and the one that is used for it."""

PUBLIC_AZURE_SUFFIX: Final = ".blob.core.windows.net"

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)

_BUCKET: Final = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]*")
"""A bucket or a container; those of Azure that begin with ``$`` have names of their own (``$web``)."""

_AZURE_HOST: Final = re.compile(r"([A-Za-z0-9-]+)\.(?:dfs|blob)\.([A-Za-z0-9.-]+)")


class ObjectUrl(Struct, frozen=True):
    """An object, a folder of objects, or a bucket.

    `bucket` is a bucket, a container, or the host of a web server with its port. `account` is that of Azure, or its
    host where the account is not in the public cloud, and empty if the environment names it. `key` has no slash in
    front; it is empty for the whole bucket, and that of a folder may end with one. `query` and `login`
    (``USER:PASSWORD``) are of web servers: both are passwords, so no text that is made of the URL has them. They do
    travel in its pickle.
    """

    scheme: Scheme
    bucket: str
    key: str = ""
    account: str = ""
    query: str = ""
    login: str = ""

    def __str__(self) -> str:
        """The URL as one line that is safe to print; ``?...`` stands for a query."""
        if self.account:
            head = f"abfss://{self.bucket}@{self.account_host.replace('.blob.', '.dfs.', 1)}"
        else:
            head = f"{self.scheme}://{self.bucket}"
        return printable(f"{head}/{self.key}{f'?{HIDDEN}' if self.query else ''}")

    def __repr__(self) -> str:
        """`str`: the query stays out of tracebacks as well."""
        return f"ObjectUrl({str(self)!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """`repr` for pretty printers; that of msgspec shows all fields."""
        return [("url", str(self))]

    @property
    def is_web(self) -> bool:
        """True for one object of a web server, which has no listing."""
        return self.scheme in ("http", "https")

    @property
    def account_host(self) -> str:
        """The host of the account; empty if the URL names none."""
        return self.account if not self.account or "." in self.account else self.account + PUBLIC_AZURE_SUFFIX

    @property
    def bucket_text(self) -> str:
        """The bucket alone, safe to print: ``s3://traces``."""
        return str(replace(self, key="", query="")).removesuffix("/")

    def join(self, key: str) -> ObjectUrl:
        """Another key of the same bucket. A query is not passed on: it opens one object."""
        return replace(self, key=key, query="")


def is_url(text: str) -> bool:
    """True if the text begins with a scheme that is read."""
    match = _URL.match(text)
    return match is not None and match[1].lower() in SCHEMES


def parse_url(text: str) -> ObjectUrl:
    """The object that a URL names. Raises TracehoundError for a malformed one, or for a scheme that is not read."""
    match = _URL.match(text)
    shown = printable(redact(text))
    if match is None:
        raise TracehoundError(f"{shown!r} is no URL", remedy="write s3://BUCKET/KEY, gs://, az:// or https://")
    scheme, rest = match[1].lower(), match[2]
    if scheme not in SCHEMES:
        raise TracehoundError(f"{shown}: {scheme}:// is not read", remedy="download it first")
    if not rest.isprintable():
        raise TracehoundError(f"{shown}: the URL has control characters")
    if SCHEMES[scheme] in ("http", "https"):
        return _parse_web_url(text, shown)
    place, _, key = rest.partition("/")
    if SCHEMES[scheme] == "az":
        return _parse_azure_url(place, key, shown)
    if "@" in place or (":" in place and "@" in rest):
        remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" if scheme.startswith("s3") else "remove them"
        raise TracehoundError(f"{shown}: keys in a URL are not read", remedy=remedy)
    return ObjectUrl(SCHEMES[scheme], _checked_bucket(place, shown), key.lstrip("/"))


def bucket_form(url: ObjectUrl) -> ObjectUrl | None:
    """The object of a bucket that a web address of a cloud means; None for any other host.

    The bucket's own URL is read with credentials, the web address without.
    """
    host, path = url.bucket.lower(), unquote(url.key)
    first, _, rest = path.partition("/")
    if match := re.fullmatch(r"(?:(.+)\.)?s3(?:[.-](?:dualstack\.)?[a-z0-9-]+)?\.amazonaws\.com(?:\.cn)?", host):
        return ObjectUrl("s3", match[1], path) if match[1] else ObjectUrl("s3", first, rest)
    if match := re.fullmatch(r"(?:(.+)\.)?storage\.(?:googleapis|cloud\.google)\.com", host):
        return ObjectUrl("gs", match[1], path) if match[1] else ObjectUrl("gs", first, rest)
    if match := re.fullmatch(r"([a-z0-9-]+)\.(?:blob|dfs)\.core\.windows\.net", host):
        return ObjectUrl("az", first, rest, account=match[1])
    return None


def _parse_azure_url(place: str, key: str, shown: str) -> ObjectUrl:
    container, at, host = place.partition("@")
    account = ""
    if at:
        match = _AZURE_HOST.fullmatch(host)
        if match is None or ":" in container:
            remedy = "write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY"
            raise TracehoundError(f"{shown} names no account of Azure", remedy=remedy)
        full = f"{match[1]}.blob.{match[2]}".lower()
        account = full.removesuffix(PUBLIC_AZURE_SUFFIX)
    return ObjectUrl("az", _checked_bucket(container, shown), key.lstrip("/"), account=account)


def _parse_web_url(text: str, shown: str) -> ObjectUrl:
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname
    except ValueError as error:
        raise TracehoundError(f"{shown} is a malformed URL") from error
    if not host:
        raise TracehoundError(f"{shown} names no host", remedy="write https://HOST/PATH")
    place = (f"[{host}]" if ":" in host else host) + (f":{port}" if port is not None else "")
    login = parts.netloc.rpartition("@")[0]
    scheme = cast("Scheme", parts.scheme.lower())
    return ObjectUrl(scheme, place, parts.path.lstrip("/"), query=parts.query, login=login)


def _checked_bucket(name: str, shown: str) -> str:
    if not name:
        raise TracehoundError(f"{shown} names no bucket", remedy="write SCHEME://BUCKET/KEY")
    if not _BUCKET.fullmatch(name):
        raise TracehoundError(f"{shown}: {printable(redact(name))!r} is no name of a bucket")
    return name
