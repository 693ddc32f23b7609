"""One object of a web server, read in ranges: a plain file, or what a signed URL of a cloud opens."""

from __future__ import annotations

import base64
import re
import socket
import ssl
import time
from collections.abc import Iterator
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote
from urllib.request import Request

from msgspec import Struct

from tracehound.errors import printable
from tracehound.remote.object_info import ObjectInfo
from tracehound.remote.object_url import ObjectUrl, bucket_form
from tracehound.remote.remote_error import FailureReason, RemoteError
from tracehound.remote.web_connection import SILENCE_SECONDS, make_opener

PIECE_BYTES: Final = 1 << 18
"""The size of the pieces in which an object arrives."""

QUICK_WAITS: Final = (0.2, 0.5)
"""Seconds between the tries of a request that meets a failing server or a broken connection."""

THROTTLE_WAITS: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0)
"""Seconds between the tries of a request that the server throttles."""

ERROR_BODY_BYTES: Final = 4096
"""Bytes of the body of an error that are looked at."""

_CONTENT_RANGE: Final = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")

_SAFE: Final = "/%:@!$&'()*+,;=~?"
"""Characters that stay as they are in an address; what was encoded stays so, for it may be signed."""


class WebAnswer(Struct):
    """The answer to a request for a range: the object, the place of its first byte there, and the bytes."""

    info: ObjectInfo
    first: int
    body: HTTPResponse | None


class WebStore:
    """The object of a web address. Other keys of the same host are read as well, without the query."""

    def __init__(self, url: ObjectUrl) -> None:
        self.url = url
        self._opener = make_opener()

    def __repr__(self) -> str:
        """The address without its query."""
        return f"WebStore({str(self.url)!r})"

    def head(self, key: str) -> ObjectInfo:
        """Size and version of the object. The first byte is asked for: a signed URL is valid for GET alone."""
        answer = self._open(key, 0, 1, "")
        if answer.body is not None:
            answer.body.close()
        return answer.info

    def list_objects(self, prefix: str) -> Iterator[list[ObjectInfo]]:
        """Web servers do not list objects."""
        raise self._no_listing(prefix)

    def list_folder(self, prefix: str) -> tuple[list[str], list[ObjectInfo]]:
        """Web servers do not list objects."""
        raise self._no_listing(prefix)

    def read_range(self, info: ObjectInfo, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` to before `end`, in order; a server without ranges sends what is before them, too."""
        end = min(end, info.size)
        if start >= end:
            return
        answer = self._open(info.key, start, end, info.etag)
        if answer.body is None:
            raise self._changed(info.key)
        with answer.body:
            if not _is_same(info, answer.info):
                raise self._changed(info.key)
            at = answer.first
            while at < end:
                piece = self._read_piece(info.key, answer.body, at, min(PIECE_BYTES, end - at))
                at += len(piece)
                if at > start:
                    yield piece[-(at - start) :]

    def write_file(self, key: str, file: Path) -> None:
        """Web servers take no uploads from here."""
        message = f"{self._url_of(key)}: {file.name} is not uploaded: web servers are only read"
        raise RemoteError(message, reason="refused", remedy="write to s3://, gs:// or az://")

    def _read_piece(self, key: str, body: HTTPResponse, at: int, size: int) -> bytes:
        try:
            piece = body.read(size)
        except (OSError, HTTPException):
            piece = b""
        if not piece:
            message = f"{self._url_of(key)}: the connection broke at byte {at:,}"
            raise RemoteError(message, reason="lost", remedy="try again")
        return piece

    def _open(self, key: str, start: int, end: int, etag: str) -> WebAnswer:
        """The answer to a request for a range, which is repeated for a while where that may help."""
        quick, slow = iter(QUICK_WAITS), iter(THROTTLE_WAITS)
        url = self._url_of(key)
        while True:
            try:
                with_range = _make_request(url, start, end, etag)
                return _read_head(url, self._opener.open(with_range, timeout=SILENCE_SECONDS))
            except HTTPError as error:
                info = _empty_object(key, error.headers) if error.code == 416 else None
                if info is not None:
                    error.close()
                    return WebAnswer(info, 0, None)
                failure, wait = _translate_status(url, error)
                error.close()
            except (OSError, HTTPException) as error:
                failure, wait = _translate_network(url, error)
            if wait is not None:
                least = next(slow if failure.reason == "throttled" else quick, None)
                wait = None if least is None else max(least, min(wait, THROTTLE_WAITS[-1]))
            if wait is None:
                raise failure
            time.sleep(wait)

    def _url_of(self, key: str) -> ObjectUrl:
        return self.url if key == self.url.key else self.url.join(key)

    def _changed(self, key: str) -> RemoteError:
        message = f"{self._url_of(key)}: the object changed while it was read"
        return RemoteError(message, reason="changed", remedy="read it again")

    def _no_listing(self, prefix: str) -> RemoteError:
        bucket = bucket_form(self.url.join(prefix))
        form = f"write {bucket}" if bucket else "for a bucket write s3://, gs:// or az://"
        message = f"{self._url_of(prefix)}: a web server does not list its files"
        return RemoteError(message, reason="no_listing", remedy=f"name each file, or {form}")


def _make_request(url: ObjectUrl, start: int, end: int, etag: str) -> Request:
    address = f"{url.scheme}://{url.bucket}/{quote(url.key, safe=_SAFE.replace('?', ''))}"
    if url.query:
        address += f"?{quote(url.query, safe=_SAFE)}"
    request = Request(address, headers={"Range": f"bytes={start}-{end - 1}", "User-Agent": "tracehound"})  # noqa: S310
    if etag and not etag.startswith("W/"):
        request.add_header("If-Match", etag)
    if url.login:
        login = base64.b64encode(unquote(url.login).encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {login}")
    return request


def _read_head(url: ObjectUrl, response: HTTPResponse) -> WebAnswer:
    """The head of an answer. Raises RemoteError, and closes the connection, if it has no size."""
    headers, first, size = response.headers, 0, _content_length(response)
    match = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", "").strip()) if response.status == 206 else None
    if match is not None:
        first = int(match[1] or 0)
        size = None if match[2] == "*" else int(match[2])
    if size is None or (response.status == 206 and match is None):
        response.close()
        raise RemoteError(
            f"{url}: the server does not say how large it is", reason="refused", remedy="download it first"
        )
    info = ObjectInfo(url.key, size, headers.get("ETag", ""), _modified_ns(headers), has_ranges=match is not None)
    return WebAnswer(info, first, response)


def _content_length(response: HTTPResponse) -> int | None:
    """The size of a whole object; None if the server does not say."""
    text = response.headers.get("Content-Length", "")
    return int(text) if text.isdigit() else None


def _empty_object(key: str, headers: Message) -> ObjectInfo | None:
    """The object without a byte, of which no range can be sent; None if the answer is about another one."""
    if headers.get("Content-Range", "").replace(" ", "") != "bytes*/0":
        return None
    return ObjectInfo(key, 0, headers.get("ETag", ""), _modified_ns(headers))


def _modified_ns(headers: Message) -> int:
    try:
        return int(parsedate_to_datetime(headers.get("Last-Modified", "")).timestamp()) * 1_000_000_000
    except (ValueError, OverflowError):
        return 0


def _is_same(before: ObjectInfo, now: ObjectInfo) -> bool:
    """True if both are one version: by their etags where both have one, by size and time of change."""
    if before.etag and now.etag and before.etag.removeprefix("W/") != now.etag.removeprefix("W/"):
        return False
    return (before.size, before.modified_ns) == (now.size, now.modified_ns)


def _translate_status(url: ObjectUrl, error: HTTPError) -> tuple[RemoteError, float | None]:
    """The failure, and the seconds to wait before another try; None if none would help."""
    body = _error_body(error)
    code = re.search(r"<Code>([A-Za-z]+)</Code>", body)
    wait: float | None = None
    reason: FailureReason = "refused"
    match error.code:
        case 401 | 403:
            return _denial(url, error.code, body), None
        case 404 | 410:
            reason, message, remedy = "no_object", "no such object", ""
        case 412 | 416:
            reason, message, remedy = "changed", "the object changed while it was read", "read it again"
        case 429 | 503:
            after = error.headers.get("Retry-After", "")
            wait = float(after) if after.isdigit() else 0.0
            reason, message, remedy = "throttled", "the server asks for fewer requests (throttled)", "try again later"
        case 408 | 500 | 502 | 504:
            wait, message, remedy = 0.0, f"the server failed ({error.code})", "try again later"
        case _:
            why = code[1] if code else str(error.reason)
            message, remedy = f"the server refuses the request ({error.code} {printable(why)[:80]})", ""
    return RemoteError(f"{url}: {message}", reason=reason, remedy=remedy), wait


def _error_body(error: HTTPError) -> str:
    try:
        return error.read(ERROR_BODY_BYTES).decode(errors="replace")
    except (OSError, HTTPException, ValueError):  # a redirect has closed it
        return ""


def _denial(url: ObjectUrl, status: int, body: str) -> RemoteError:
    bucket = bucket_form(url)
    if url.query:
        expired = "expired" in body.lower() or "not valid in the specified time" in body.lower()
        why = "the signed URL has expired" if expired else "access denied, with the query of the URL"
        remedy = "make a new signed URL" if bucket is None else f"make a new signed URL, or write {bucket}"
    elif bucket is not None:
        why, remedy = "access denied, without credentials", f"write {bucket}, which is read with them"
    else:
        why = "access denied"
        remedy = "write https://USER:PASSWORD@HOST/PATH" if status == 401 and not url.login else ""
    return RemoteError(f"{url}: {why}", reason="denied", remedy=remedy)


def _translate_network(url: ObjectUrl, error: BaseException) -> tuple[RemoteError, float | None]:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        message = f"no connection to {url.bucket}: its TLS certificate is not trusted"
        return RemoteError(f"{url}: {message}", reason="unreachable"), None
    if isinstance(cause, TimeoutError):
        return RemoteError(f"{url}: no answer from {url.bucket}", reason="unreachable"), None
    if isinstance(cause, socket.gaierror):
        return RemoteError(f"{url}: no connection to {url.bucket}: unknown host", reason="unreachable"), 0.0
    if isinstance(cause, ConnectionRefusedError):
        return RemoteError(f"{url}: no connection to {url.bucket}: connection refused", reason="unreachable"), 0.0
    if isinstance(cause, ConnectionError | HTTPException):
        message = f"{url}: the connection to {url.bucket} broke"
        return RemoteError(message, reason="lost", remedy="try again"), 0.0
    return RemoteError(f"{url}: no connection to {url.bucket}", reason="unreachable"), 0.0
