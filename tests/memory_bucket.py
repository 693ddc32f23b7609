"""A bucket in memory, for what servers do seldom: connections that break, objects that change, keys that are odd."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tracehound.remote.object_info import AccessOptions, ObjectInfo
from tracehound.remote.object_url import ObjectUrl
from tracehound.remote.remote_error import RemoteError

PIECE = 1 << 16
PAGE = 3


class MemoryBucket:
    """Objects by their keys. `before_read` is called before each range is read, and may change the bucket or raise."""

    def __init__(self, objects: dict[str, bytes] | None = None) -> None:
        self.objects = dict(objects or {})
        self.reads: list[tuple[str, int, int]] = []
        self.breaks_after: int | None = None
        """Bytes after which each connection breaks."""
        self.before_read: Callable[[ObjectInfo], None] = lambda _: None
        self._guard = threading.Lock()

    def open(self, url: ObjectUrl, access: AccessOptions) -> MemoryBucket:
        """This bucket for any URL, as `open_store` gives one."""
        del url, access
        return self

    def add_folder(self, folder: Path, prefix: str) -> None:
        """Add the files of a folder."""
        for file in folder.rglob("*"):
            if file.is_file():
                self.objects[f"{prefix}{file.relative_to(folder).as_posix()}"] = file.read_bytes()

    def head(self, key: str) -> ObjectInfo:
        """Size and version of one object."""
        if key not in self.objects:
            raise RemoteError(f"no such object: {key}", reason="no_object")
        content = self.objects[key]
        return ObjectInfo(key, len(content), hashlib.md5(content, usedforsecurity=False).hexdigest(), 10**18)

    def list_objects(self, prefix: str) -> Iterator[list[ObjectInfo]]:
        """All objects below a prefix, some a page."""
        keys = sorted(key for key in self.objects if key.startswith(prefix))
        for at in range(0, len(keys), PAGE):
            yield [self.head(key) for key in keys[at : at + PAGE]]

    def list_folder(self, prefix: str) -> tuple[list[str], list[ObjectInfo]]:
        """The folders and objects directly below a prefix."""
        keys = [key for key in sorted(self.objects) if key.startswith(prefix)]
        below = {key: key[len(prefix) :] for key in keys}
        folders = dict.fromkeys(f"{prefix}{rest.split('/')[0]}/" for rest in below.values() if "/" in rest)
        return list(folders), [self.head(key) for key, rest in below.items() if "/" not in rest]

    def read_range(self, info: ObjectInfo, start: int, end: int) -> Iterator[bytes]:
        """The bytes of a range, in small pieces."""
        with self._guard:
            self.reads.append((info.key, start, end))
        self.before_read(info)
        if self.head(info.key).etag != info.etag:
            raise RemoteError("the object changed", reason="changed")
        content = self.objects[info.key]
        for at in range(start, end, PIECE):
            if self.breaks_after is not None and at - start >= self.breaks_after:
                raise RemoteError("the connection broke", reason="lost")
            yield content[at : min(at + PIECE, end)]

    def write_file(self, key: str, file: Path) -> None:
        """Store a file."""
        self.objects[key] = file.read_bytes()
