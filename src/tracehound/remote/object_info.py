"""A remote object as a listing shows it, and the options of access to it."""

from __future__ import annotations

from msgspec import Struct


class ObjectInfo(Struct, frozen=True):
    """An object: its key in the bucket, its size in bytes, its version (`etag`, may be empty), its time of change.

    The etag has its quotes, also where a listing leaves them out. `has_ranges` is False if the server sends only the
    whole object; then one request should read all of it.
    """

    key: str
    size: int
    etag: str = ""
    modified_ns: int = 0
    has_ranges: bool = True


class AccessOptions(Struct, frozen=True):
    """Options of access: without credentials (`anonymous`); at the reader's expense (`requester_pays`)."""

    anonymous: bool = False
    requester_pays: bool = False
