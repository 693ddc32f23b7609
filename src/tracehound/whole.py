"""Files that appear whole or not at all.

Owns the file beside the place, and that nobody else's is written to on the way. Knows nothing of what is in it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

_BUFFER: Final = 1 << 20


@contextmanager
def whole(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A new file in the folder of `path`, which takes its place when all is written, and is removed when that fails.

    It has the permissions of the file that it replaces, else `mode` as far as the umask lets it; a link stays one, and
    leads to what is new. Raises OSError.
    """
    path = Path(os.path.realpath(path))
    beside = path.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        with open(beside, "xb", _BUFFER, opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
        with suppress(FileNotFoundError):
            beside.chmod(path.stat().st_mode & 0o777)
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
