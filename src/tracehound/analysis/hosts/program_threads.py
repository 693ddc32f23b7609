"""Which threads of a host run the program, and which one of them leads.

Owns how that is told by marks of steps, annotations and names.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.hosts.threads import on_lanes
from tracehound.analysis.result import Share
from tracehound.formats.xla.names import leads
from tracehound.intervals import Mask
from tracehound.trace import collected

_MARKS: Final = ("step", "annotation", "python")
_JITTED: Final = "PjitFunction("


def program_lanes(share: Share) -> frozenset[int]:
    """The lanes of the program's threads on a host; none where no thread is known."""
    marked = collected(share.threads.filter(pl.col("kind") == "step").select(pl.col("lane").unique())).to_series()
    return frozenset(marked.to_list() or {main_thread(share)} - {-1})


def of_program(lane: pl.Series, program: Collection[int]) -> Mask:
    """Which events are on threads of the program, by their lanes; all, where no such thread is known."""
    return np.isin(lane.to_numpy(), list(program)) if program else np.ones(len(lane), np.bool_)


def main_thread(share: Share) -> int:
    """The lane of the thread that runs the program: it has the marks of steps, else annotations and Python.

    One that is named like a program's own comes before others with more of these, if it has any, or calls what was
    jitted: a process may have a thread ``main`` that only waits for the one at work.
    """
    marked = (
        share.threads.filter(pl.col("kind").is_in(_MARKS))
        .group_by("lane")
        .agg((pl.col("kind") == "step").sum().alias("steps"), pl.len().alias("marks"))
    )
    of_host = share.lanes.filter(pl.col("rank").is_null()).select(
        "lane", "events", pl.col("name").map_elements(leads, return_dtype=pl.Boolean).alias("leads")
    )
    known = of_host.join(collected(marked), on="lane", how="left").with_columns(pl.col("steps", "marks").fill_null(0))
    named = on_lanes(share, known.filter(pl.col("leads") & (pl.col("marks") == 0))["lane"].to_list())
    calling = collected(named.filter(pl.col("name").cat.starts_with(_JITTED)).select(pl.col("lane").unique()))
    at_work = pl.col("leads") & ((pl.col("marks") > 0) | pl.col("lane").is_in(calling["lane"].implode()))
    order = ["steps", "acts", "marks", "leads", "events", "lane"]
    found = known.with_columns(at_work.alias("acts")).sort(order, descending=[True] * 5 + [False])
    return int(found["lane"][0]) if found.height else -1
