"""Files that are written completely or not at all, through a temporary file in the same folder."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

_BUFFER_BYTES: Final = 1 << 20


@contextmanager
def atomic_write(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A context that gives a new file, which replaces `path` at the end and is removed if writing fails.

    The new file has the permissions of the old one, else `mode` less the umask. A symbolic link stays a link to the new
    file. Raises OSError.
    """
    path = Path(os.path.realpath(path))
    beside = path.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        with open(beside, "xb", _BUFFER_BYTES, opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
        with suppress(FileNotFoundError):
            beside.chmod(path.stat().st_mode & 0o777)
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
