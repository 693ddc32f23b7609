"""The text of a source file.

Owns the care with which it is read: only regular files, of a size that source code has, and nothing that a terminal
would obey.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tracehound.errors import TracehoundError, printable

LARGEST = 8 << 20
"""Bytes above which a file is not shown."""

TAB = 4


def source_text(path: Path) -> list[str]:
    """The lines of a text file, each printable, with tabs as spaces.

    Raises TracehoundError when there is none, or when it is no text: a device, a pipe, a folder, something huge.
    """
    try:
        content = _content(path)
    except OSError as error:
        raise TracehoundError(f"cannot be read: {(error.strerror or str(error)).lower()}", path) from error
    if len(content) > LARGEST:
        raise TracehoundError(f"larger than {LARGEST >> 20} MiB, which is too much for source code", path)
    if b"\0" in content:
        raise TracehoundError("holds zero bytes: not text", path)
    text = content.decode("utf-8-sig", "replace")
    return [printable(line.expandtabs(TAB)) for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]


def _content(path: Path) -> bytes:
    """All bytes, or a few more than `LARGEST`; asked of the open file too, since another may have taken its name."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise TracehoundError("not a regular file", path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise TracehoundError("not a regular file", path)
        return file.read(LARGEST + 1)
