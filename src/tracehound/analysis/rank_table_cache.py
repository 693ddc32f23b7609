"""Cache of the small tables of whole ranks, in the cache folder of the file that they were made from.

Decides which tables may be cached, and their keys. A table that cannot be written is made again next time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

import polars as pl

from tracehound.analysis.rank_trace import RankOutline
from tracehound.analysis.result import Analysis, Options
from tracehound.formats.assembly.arrow_storage import to_arrow_bytes
from tracehound.system.atomic_file import atomic_write

VERSION: Final = 78
"""Raised when the map of any analysis changes its result: older tables are no longer found."""

MAX_ROWS: Final = 20_000
"""Larger tables are not cached."""

_DIGEST_SIZE: Final = 16


def load_or_compute_table(
    analysis: Analysis, options: Options, rank_trace: RankOutline, make: Callable[[], pl.DataFrame]
) -> pl.DataFrame:
    """The table of a rank: the cached one, else that of `make`, which is cached.

    Only tables of whole runs are cached, for files that lie in a cache.
    """
    path = _cache_path(analysis, options, rank_trace)
    if path is None:
        return make()
    with suppress(OSError, ValueError, pl.exceptions.PolarsError):
        return _read_cached_table(path)
    table = make()
    if table.height <= MAX_ROWS:
        _write_cached_table(table, path)
    return table


def load_cached_tables(asked: Sequence[tuple[Analysis, Options]], rank: RankOutline) -> list[pl.DataFrame] | None:
    """The tables of a rank, one for each question; None unless all are cached."""
    paths = [_cache_path(*question, rank) for question in asked]
    with suppress(OSError, ValueError, pl.exceptions.PolarsError):
        tables = [_read_cached_table(path) for path in paths if path is not None]
        return tables if len(tables) == len(paths) else None
    return None


def is_cached(analysis: Analysis, options: Options, rank_trace: RankOutline) -> bool:
    """True if the table of a rank is cached."""
    path = _cache_path(analysis, options, rank_trace)
    return path is not None and path.is_file()


def _cache_path(analysis: Analysis, options: Options, rank_trace: RankOutline) -> Path | None:
    """The file of the cached table; None if it may not be cached, as with the ids of all events."""
    if rank_trace.home is None or rank_trace.windowed or options.members:
        return None
    return rank_trace.home / f"table-{_cache_key(analysis, options, rank_trace)}"


def _read_cached_table(path: Path) -> pl.DataFrame:
    """The table in a file. Raises ValueError if it is damaged: Arrow would panic or return other numbers."""
    data = path.read_bytes()
    digest, content = data[:_DIGEST_SIZE], data[_DIGEST_SIZE:]
    if digest != _hash_content(content):
        raise ValueError("damaged")
    return pl.read_ipc_stream(content)


def _write_cached_table(table: pl.DataFrame, path: Path) -> None:
    with suppress(OSError, pl.exceptions.PolarsError):
        content = to_arrow_bytes(table, "zstd")
        with atomic_write(path) as file:
            file.write(_hash_content(content) + content)


def _hash_content(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_SIZE).digest()


def _cache_key(analysis: Analysis, options: Options, rank_trace: RankOutline) -> str:
    """Key of the analysis, its options, and the file's position in the trace: ids, times and ranks depend on that."""
    said = (
        VERSION,
        analysis.name,
        options,
        rank_trace.rank,
        rank_trace.label,
        rank_trace.start,
        rank_trace.end,
        rank_trace.is_only_rank,
    )
    return _hash_content(repr(said).encode() + rank_trace.frames_hash).hex()
