"""What a format is: how a file is recognised, read, and asked for the args of one event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracehound.trace import Part

Progress = Callable[[int, int], None]
"""Told how many bytes of the file were read and how many events were found so far, several times a second. What it
raises stops the reading and is passed on: that is how a reader is cancelled."""


@dataclass(frozen=True)
class Format:
    """One kind of file.

    `matches` looks at the first 64 KiB of the inflated file. `read` decodes all of it; it raises TracehoundError when
    nothing can be kept, and notes in the part what it repaired, dropped or missed. `args` gives everything that the
    event at a `record` carries in the file, decoded then and there.
    """

    name: str
    title: str
    matches: Callable[[bytes], bool]
    read: Callable[[Path, Progress], Part]
    args: Callable[[Part, int], dict[str, Any]]


def silent(read: int, events: int) -> None:
    """A `Progress` that nobody listens to."""
