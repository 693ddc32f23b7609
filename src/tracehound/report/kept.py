"""What the cache holds -> lines of text.

Owns that listing. Knows no layout of the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tracehound.draw.table import Line
from tracehound.errors import printable
from tracehound.store.cache import Entry
from tracehound.units import bytes_, plural


def listing(entries: Sequence[Entry], root: Path) -> Iterator[Line]:
    """A line for each entry, the last used first, and their sum."""
    for entry in entries:
        used = datetime.fromtimestamp(entry.used_ns // 10**9, tz=UTC)
        yield Line(f"{bytes_(entry.size):>10}  {used:%Y-%m-%d %H:%M}  {printable(entry.source)}")
    total = bytes_(sum(entry.size for entry in entries))
    yield Line(f"{plural(len(entries), 'entry', 'entries')}, {total}, in {printable(str(root))}")
