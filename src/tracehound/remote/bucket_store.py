"""Objects of S3, Google Cloud Storage and Azure.

The only module that knows obstore, which is imported when it is used.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec.structs import replace as replace_fields

from tracehound.remote.aws_settings import find_aws_settings
from tracehound.remote.azure_settings import find_azure_settings
from tracehound.remote.bucket_errors import translate_error, translate_settings_error
from tracehound.remote.bucket_region import find_bucket_region
from tracehound.remote.bucket_settings import BucketSettings, check_endpoints
from tracehound.remote.google_settings import find_google_settings
from tracehound.remote.google_upload import upload_to_emulator
from tracehound.remote.object_info import AccessOptions, ObjectInfo
from tracehound.remote.object_url import ObjectUrl
from tracehound.remote.remote_error import RemoteError

Answer = TypeVar("Answer")

PIECE_BYTES: Final = 1 << 18
"""The least size of the pieces in which an object arrives, but for the last."""

PAGE_OBJECTS: Final = 1000
"""Objects of one page of a listing."""

PART_BYTES: Final = 16 << 20
"""The parts in which a large file is uploaded; S3 takes 10,000 of them."""

CONNECT_SECONDS: Final = 4
SILENCE_SECONDS: Final = 30
"""Seconds without a byte after which a connection counts as broken."""

REQUEST_HOURS: Final = 12
"""No request takes longer; a slow download does take long."""

QUICK_RETRIES: Final = 2
"""Retries of a request whose connection breaks or whose server fails, within a second."""

THROTTLE_WAITS: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0)
"""Seconds between the tries of a request that the server throttles."""

_FIND_SETTINGS: Final = {"s3": find_aws_settings, "gs": find_google_settings, "az": find_azure_settings}


def open_bucket(url: ObjectUrl, access: AccessOptions, environ: Mapping[str, str]) -> BucketStore:
    """The bucket of a URL. Raises RemoteError without obstore or without credentials."""
    import_obstore()
    settings = _FIND_SETTINGS[url.scheme](url, access, environ)
    check_endpoints(url.bucket_text, settings)
    return BucketStore(url, settings)


def import_obstore() -> Any:  # noqa: ANN401, without types
    """The module `obstore`. Raises RemoteError where it is not installed."""
    try:
        import obstore  # noqa: PLC0415, imported when used
        import obstore.exceptions  # noqa: PLC0415
        import obstore.store  # noqa: PLC0415
    except ImportError as error:
        message = "buckets need the package obstore, which is not installed"
        remedy = "pip install 'tracehound[cloud]', or pip install obstore"
        raise RemoteError(message, reason="not_installed", remedy=remedy) from error
    module: Any = obstore  # may be absent where types are checked
    return module


class BucketStore:
    """One bucket, with the settings that were found for it."""

    def __init__(self, url: ObjectUrl, settings: BucketSettings) -> None:
        self.url = url
        self.settings = settings
        self._obstore: Any = import_obstore()
        self._failures = (self._obstore.exceptions.BaseError, OSError, ValueError, RuntimeError)
        self._store = self._make_store()
        self._entering = threading.Lock()

    def __repr__(self) -> str:
        """The bucket and the origin of the credentials."""
        return f"BucketStore({self.url.bucket_text!r}, {self.settings!r})"

    def head(self, key: str) -> ObjectInfo:
        """Size and version of one object."""
        try:
            return self._attempt(key, lambda store: _info(self._obstore.head(store, key)))
        except RemoteError as error:
            if error.reason not in ("no_object", "denied", "refused"):
                raise
        # the answer to HEAD has no body; that to GET says what is wrong
        return self._attempt(key, lambda store: _info(self._obstore.get(store, key).meta))

    def list_objects(self, prefix: str) -> Iterator[list[ObjectInfo]]:
        """All objects in the folder `prefix` and below, a page at a time."""
        folder = prefix.strip("/")
        pages: Any = None
        last: str | None = None

        def next_page(store: Any) -> Any:  # noqa: ANN401, obstore's
            nonlocal pages
            if pages is None:
                pages = iter(self._obstore.list(store, folder or None, offset=last, chunk_size=PAGE_OBJECTS))
            try:
                return next(pages, None)
            except self._failures:
                pages = None  # the next try begins behind the last object that arrived
                raise

        while (page := self._attempt(prefix, next_page, listing=True)) is not None:
            last = page[-1]["path"]
            yield [_info(meta) for meta in page if meta["path"] != folder]  # some tools make an object of a folder

    def list_folder(self, prefix: str) -> tuple[list[str], list[ObjectInfo]]:
        """The folders and the objects in the folder `prefix`, not those below."""
        folder = prefix.strip("/")
        answer = self._attempt(
            prefix, lambda store: self._obstore.list_with_delimiter(store, folder or None), listing=True
        )
        folders = [f"{path}/" for path in answer["common_prefixes"]]
        return folders, [_info(meta) for meta in answer["objects"] if meta["path"] != folder]

    def read_range(self, info: ObjectInfo, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` to before `end`, in order."""
        end = min(end, info.size)
        if start >= end:
            return
        options: dict[str, Any] = {"range": (start, end)}
        if info.etag:
            options["if_match"] = info.etag
        answer = self._attempt(info.key, lambda store: self._obstore.get(store, info.key, options=options))
        if not _is_same(info, _info(answer.meta)):
            raise self._error_of(info.key, "changed", "the object changed while it was read", "read it again")
        pieces = self._translated(info.key, lambda: iter(answer.stream(min_chunk_size=PIECE_BYTES)))
        arrived = 0
        while (piece := self._translated(info.key, lambda: next(pieces, None))) is not None:
            arrived += len(piece)
            yield bytes(piece)
        if arrived != end - start:
            message = f"{arrived:,} of {end - start:,} bytes arrived"
            raise self._error_of(info.key, "lost", message, "try again")

    def write_file(self, key: str, file: Path) -> None:
        """Upload a file, in parts where it is large."""
        with file.open("rb") as source:  # before the request: an error of the file is none of the bucket
            source.read(1)
        if self.settings.is_emulator:
            upload_to_emulator(self._endpoint, self.url.join(key), file)
            return
        self._attempt(key, lambda store: self._obstore.put(store, key, file, chunk_size=PART_BYTES))

    def _attempt(self, key: str, request: Callable[[Any], Answer], *, listing: bool = False) -> Answer:
        """The answer to a request, which is repeated when the server throttles, or in the region of the bucket."""
        waits = iter(THROTTLE_WAITS)
        while True:
            store = self._store
            try:
                return self._translated(key, partial(request, store), listing=listing)
            except RemoteError as error:
                wait = next(waits, None) if error.reason == "throttled" else None
                if wait is not None:
                    time.sleep(wait)
                elif error.reason != "wrong_region" or not self._enter_region(store):
                    raise

    def _translated(self, key: str, request: Callable[[], Answer], *, listing: bool = False) -> Answer:
        try:
            return request()
        except BaseException as error:
            if not isinstance(error, self._failures) and type(error).__name__ != "PanicException":  # of Rust
                raise
            failure = translate_error(error, self.url.join(key), self.settings, self._endpoint)
            if listing and failure.reason == "no_object":
                bucket = self.url.bucket_text
                failure = RemoteError(f"{bucket}: no such bucket", reason="no_bucket")
            raise failure from None  # the dump of obstore has the addresses of requests in it

    def _enter_region(self, store: Any) -> bool:  # noqa: ANN401, obstore's
        """Go on in the region of the bucket after `store` failed; False if it is not found, or is the one in use."""
        with self._entering:
            if self._store is not store:
                return True  # another thread was quicker
            region = find_bucket_region(self._endpoint, self.url.bucket)
            if not region or region == self.settings.config.get("region"):
                return False
            self.settings = replace_fields(self.settings, config=self.settings.config | {"region": region})
            self._store = self._make_store()
            return True

    @property
    def _endpoint(self) -> str:
        config = self.settings.config
        match self.url.scheme:
            case "s3":
                return str(config.get("endpoint") or f"https://s3.{config.get('region')}.amazonaws.com")
            case "gs":
                return str(config.get("base_url") or "https://storage.googleapis.com")
            case _:
                return str(config.get("endpoint") or f"https://{config.get('account_name')}.blob.core.windows.net")

    def _make_store(self) -> Any:  # noqa: ANN401, obstore's
        stores = self._obstore.store
        make = {"s3": stores.S3Store, "gs": stores.GCSStore, "az": stores.AzureStore}[self.url.scheme]
        client: dict[str, Any] = {
            "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
            "read_timeout": timedelta(seconds=SILENCE_SECONDS),
            "timeout": timedelta(hours=REQUEST_HOURS),
        }
        if self.settings.allow_http:
            client["allow_http"] = True
        if self.settings.headers:
            client["default_headers"] = self.settings.headers
        if self.settings.certificates:
            client["root_certificate"] = self.settings.certificates
        retry = {"max_retries": QUICK_RETRIES, "retry_timeout": timedelta(minutes=1)}
        more = {} if self.settings.credentials is None else {"credential_provider": self.settings.credentials}
        try:
            return make(self.url.bucket, config=self.settings.config, client_options=client, retry_config=retry, **more)
        except self._failures as error:
            raise translate_settings_error(error, self.url, self.settings) from None

    def _error_of(self, key: str, reason: Any, message: str, remedy: str) -> RemoteError:  # noqa: ANN401, a reason
        return RemoteError(f"{self.url.join(key)}: {message}", reason=reason, remedy=remedy)


def _info(meta: Any) -> ObjectInfo:  # noqa: ANN401, obstore's
    modified: datetime = meta["last_modified"]
    return ObjectInfo(
        meta["path"], meta["size"], _quote_etag(meta["e_tag"] or ""), int(modified.timestamp()) * 1_000_000_000
    )


def _quote_etag(etag: str) -> str:
    """The etag as it is in a header: listings of Azure have it without quotes."""
    return etag if not etag or etag.startswith(('"', "W/")) else f'"{etag}"'


def _is_same(before: ObjectInfo, now: ObjectInfo) -> bool:
    """True if both are one version: by their etags, else by size and time of change."""
    if before.etag and now.etag:
        return before.etag == now.etag
    return (before.size, before.modified_ns) == (now.size, now.modified_ns)
