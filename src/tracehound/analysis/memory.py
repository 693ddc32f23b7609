"""Small tables of whole ranks, kept beside the part that they were made of, so that they are made once.

Owns when a table may be kept and what tells it from others. Knows no analysis and no layout of the cache but the one
folder. What cannot be written is made again next time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

import polars as pl

from tracehound.analysis.result import Analysis, Options, Share

VERSION: Final = 1
"""Raised whenever an analysis changes what its map gives: older tables are not found any more."""

MOST_ROWS: Final = 20_000
"""A table of more rows is not kept: it is no small one."""


def remembered(analysis: Analysis, options: Options, share: Share, make: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    """The table of a rank: as it was kept, else as `make` gives it, which is kept for the next time.

    Only tables of whole runs are kept, of parts that lie in a cache.
    """
    if share.home is None or share.windowed:
        return make()
    path = share.home / f"table-{_key(analysis, options, share)}.arrow"
    with suppress(OSError, pl.exceptions.PolarsError):
        return pl.read_ipc(path)
    table = make()
    if table.height <= MOST_ROWS:
        _keep(table, path)
    return table


def _keep(table: pl.DataFrame, path: Path) -> None:
    beside = path.with_suffix(f".{os.getpid()}")
    try:
        table.write_ipc(beside, compression="zstd")
        beside.replace(path)
    except (OSError, pl.exceptions.PolarsError):
        with suppress(OSError):
            beside.unlink()


def _key(analysis: Analysis, options: Options, share: Share) -> str:
    """Differs where the question does, or the part's place in the trace: ids, times and ranks are of the trace."""
    lanes = share.lanes.hash_rows(seed=VERSION).to_list()
    said = (VERSION, analysis.name, options, share.rank, share.label, share.start, share.end, lanes, share.steps.rows())
    return blake2b(repr(said).encode(), digest_size=16).hexdigest()
