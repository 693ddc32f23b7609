"""Python frames that have a source line, and the nearest one around an event: in the user's code, else in a library."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.hosts.host_threads import classify_by_name, nearest_marked_ancestor
from tracehound.analysis.hosts.operator_tree import read_call_tree, rows_of_ids
from tracehound.analysis.rank_trace import RankTrace
from tracehound.formats.inductor_names import GENERATED_FILE
from tracehound.formats.name_filter import NameFilter
from tracehound.model.trace import collect_frame
from tracehound.numeric.id_set import look_up_rows
from tracehound.numeric.intervals import Ints

_SOURCE_LINE: Final = re.compile(r"^\$?(?!<)(?P<file>\S+?)(?:\((?P<line>\d+)\): |:\d+ )\S")
_SOURCE_LINES: Final = NameFilter(_SOURCE_LINE)
_USER, _LIBRARY = range(2)
"""Origins of a frame; generated code counts as that of a library."""
_LIBRARY_FILE: Final = re.compile(
    r"(?:^|/)(?:torch|jax|jaxlib|site-packages|dist-packages|lib/python[\d.]+|threading|multiprocessing|concurrent|asyncio"
    r"|contextlib|selectors|queue|runpy|nn/modules)(?:/|\.py|$)"
)


def find_launch_sources(rank_trace: RankTrace, events: pl.Series) -> pl.Series:
    """For each of these events of the device the nearest Python frame in the user's code around its launch, or null."""
    nothing = pl.Series("source", [None], pl.String).new_from_index(0, len(events))
    if events.is_empty():
        return nothing
    launches = look_up_rows(collect_frame(rank_trace.device.select("id", "launch")), "id", events)["launch"]
    calls = read_call_tree(rank_trace)
    frames = nearest_source_frames(calls.events, calls.parent, rows_of_ids(calls, launches), libraries=False)
    if not (frames >= 0).any():
        return nothing
    names = calls.events["name"].gather(pl.Series(frames).set(pl.Series(frames < 0), None))
    return names.cast(pl.String).alias("source")


def nearest_source_frames(events: pl.DataFrame, parent: Ints, row: Ints, *, libraries: bool = True) -> Ints:
    """For each of these rows (-1: none) the row of the nearest frame with a source line, at or around it; -1 without.

    Frames in the user's code come first; with `libraries` those in a library or in generated code stand in for them.
    """
    origin, found = classify_by_name(events, _frame_origin, _SOURCE_LINES), np.full(len(row), -1)
    for is_frame in (origin == _USER, origin >= _USER) if libraries else (origin == _USER,):
        left = np.flatnonzero((found < 0) & (row >= 0))
        at = row[left]
        found[left] = np.where(is_frame[at], at, nearest_marked_ancestor(parent, is_frame, at)) if len(left) else -1
    return found


def _frame_origin(name: str, kind: str) -> int | None:
    """The origin of a Python frame with a source line; None for all other events."""
    match = _SOURCE_LINE.match(name) if kind == "python" else None
    return None if match is None else _LIBRARY if _is_library(match["file"]) else _USER


def _is_library(file: str) -> bool:
    return _LIBRARY_FILE.search(file) is not None or GENERATED_FILE.search(file) is not None
