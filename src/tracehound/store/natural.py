"""The order in which people count: ``rank2`` before ``rank10``."""

from __future__ import annotations

import re
from pathlib import Path

_DIGITS = re.compile(r"([0-9]+)")


def natural(path: Path) -> tuple[tuple[str | int, ...], str]:
    """What paths are sorted by so that numbers in them count by their value."""
    text = str(path)
    pieces = _DIGITS.split(text)
    return tuple(int(piece) if at % 2 else piece for at, piece in enumerate(pieces)), text
