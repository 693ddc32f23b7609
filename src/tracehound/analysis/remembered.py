"""Small tables of whole ranks, kept beside the part that they were made of, so that they are made once.

Owns when a table may be kept and what tells it from others. Knows no analysis and no layout of the cache but the one
folder. What cannot be written is made again next time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

import polars as pl

from tracehound.analysis.result import Analysis, Options, Share
from tracehound.stream import stream
from tracehound.whole import whole

VERSION: Final = 63
"""Raised whenever an analysis changes what its map gives: older tables are not found any more."""

MOST_ROWS: Final = 20_000
"""A table of more rows is not kept: it is no small one."""

_DIGEST: Final = 16


def remembered(analysis: Analysis, options: Options, share: Share, make: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    """The table of a rank: as it was kept, else as `make` gives it, which is kept for the next time.

    Only tables of whole runs are kept, of parts that lie in a cache.
    """
    path = _place(analysis, options, share)
    if path is None:
        return make()
    with suppress(OSError, ValueError, pl.exceptions.PolarsError):
        return _kept(path)
    table = make()
    if table.height <= MOST_ROWS:
        _keep(table, path)
    return table


def is_kept(analysis: Analysis, options: Options, share: Share) -> bool:
    """Whether the table of a rank was kept."""
    path = _place(analysis, options, share)
    return path is not None and path.is_file()


def _place(analysis: Analysis, options: Options, share: Share) -> Path | None:
    """The file in which the table is kept; None where it may not be, as where it names all events."""
    if share.home is None or share.windowed or options.members:
        return None
    return share.home / f"table-{_key(analysis, options, share)}"


def _kept(path: Path) -> pl.DataFrame:
    """The table in a file. Raises ValueError where that is damaged: Arrow would panic or tell other numbers."""
    said = path.read_bytes()
    digest, content = said[:_DIGEST], said[_DIGEST:]
    if digest != _digest(content):
        raise ValueError("damaged")
    return pl.read_ipc_stream(content)


def _keep(table: pl.DataFrame, path: Path) -> None:
    with suppress(OSError, pl.exceptions.PolarsError):
        content = stream(table, "zstd")
        with whole(path) as file:
            file.write(_digest(content) + content)


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST).digest()


def _key(analysis: Analysis, options: Options, share: Share) -> str:
    """Differs where the question does, or the part's place in the trace: ids, times and ranks are of the trace."""
    said = (VERSION, analysis.name, options, share.rank, share.label, share.start, share.end, share.alone)
    return _digest(repr(said).encode() + share.place).hex()
