"""A bucket or a web server, whichever cloud it is of: objects are listed, read in ranges and written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from tracehound.remote.bucket_store import open_bucket
from tracehound.remote.object_info import AccessOptions, ObjectInfo
from tracehound.remote.object_url import ObjectUrl
from tracehound.remote.remote_error import FailureReason, RemoteError
from tracehound.remote.web_store import WebStore

__all__ = ["AccessOptions", "FailureReason", "ObjectInfo", "RemoteError", "RemoteStore", "open_store"]


class RemoteStore(Protocol):
    """The objects of one bucket. Every method raises RemoteError; all may be called from several threads."""

    def head(self, key: str) -> ObjectInfo:
        """Size and version of one object."""

    def list_objects(self, prefix: str) -> Iterator[list[ObjectInfo]]:
        """All objects in the folder `prefix` and below, a page at a time, in the order of the bucket."""

    def list_folder(self, prefix: str) -> tuple[list[str], list[ObjectInfo]]:
        """The folders (keys that end with a slash) and the objects in the folder `prefix`, not those below."""

    def read_range(self, info: ObjectInfo, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` to before `end`, in order, about 256 KiB at a time.

        Raises RemoteError: `changed` if the object is no longer that of `info`, `lost` if the connection breaks.
        """

    def write_file(self, key: str, file: Path) -> None:
        """Upload a file; an object of this key is replaced at once when all of it has arrived."""


def open_store(url: ObjectUrl, access: AccessOptions, environ: Mapping[str, str] = os.environ) -> RemoteStore:
    """The bucket or the web server of a URL, with the credentials that the environment has.

    Raises RemoteError if there are no credentials (`no_credentials`) or no package to read buckets (`not_installed`).
    """
    return WebStore(url) if url.is_web else open_bucket(url, access, environ)
