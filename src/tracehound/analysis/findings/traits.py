"""What rules want to know of a rank beside the results of other analyses.

Owns the traits and how they are read off the events. Knows no rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.devices.allocations import holding
from tracehound.analysis.devices.exposed import exposed
from tracehound.analysis.hosts.compilations import LOADED, UNKNOWN, called, compilations, times_compiled
from tracehound.analysis.hosts.words import LAZY
from tracehound.analysis.ranks.calls import HANDED_ON, calls
from tracehound.analysis.result import OfHost, Share
from tracehound.analysis.settings import Given
from tracehound.intervals import Intervals, covered, union
from tracehound.trace import collected

TRAITS: Final = {
    "rank": pl.Int64,
    "window": pl.Int64,  # how long that of its host lasts, ps
    "data_parallel": pl.Int64,  # calls of DataParallel's forward
    "data_parallel_event": pl.Int64,  # the longest of them
    "distributed_data_parallel": pl.Int64,
    "distributed_data_parallel_event": pl.Int64,
    "nccl": pl.Int64,  # operators and ranges of NCCL's collectives
    "lazy": pl.Int64,  # calls by which PyTorch/XLA is known
    "softmax": pl.Int64,  # calls of softmax, and not of its logarithm
    "batched": pl.Int64,  # batched products
    "fallback": pl.Int64,  # attention that no fused kernel takes
    "pageable": pl.Int64,  # ps of copies from and to pageable memory of the host, in whole steps or the window
    "pageable_event": pl.Int64,  # the longest of them
    "compiling": pl.Int64,  # ps in which any thread compiles
    "compiling_in_steps": pl.Int64,  # what of it lies in whole steps; null without any
    "compilations": pl.Int64,  # how often, as the analysis compiles counts
    "compile_event": pl.Int64,  # the longest
    "compiled": pl.String,  # the function that it is of
    "recompiled": pl.String,  # the function that was compiled most often
    "recompilations": pl.Int64,  # how often
    "handing": pl.Int64,  # ps of sends and receives beside which nothing is computed, in whole steps or the window
    "meeting": pl.Int64,  # the same of all other communication, where there is any of these
    "peak": pl.Int64,  # most bytes that the device's allocator ever held
    "peak_time": pl.Int64,
}
"""The columns of the traits, a row for each rank."""

_NAMES: Final = {
    "data_parallel": r"^DataParallel\.forward$",
    "distributed_data_parallel": r"^DistributedDataParallel\.forward$",
    "nccl": r"^(?:nccl:|c10d::)",
    "lazy": LAZY.pattern,
    "softmax": r"^aten::_softmax$",
    "batched": r"^aten::(?:bmm|baddbmm)$",
    "fallback": r"^aten::_scaled_dot_product_attention_math$",
}
_PLACED: Final = ("data_parallel", "distributed_data_parallel")
_PAGEABLE: Final = r"(?i)memcpy.*pageable"


def traits(share: Share, in_steps: Callable[[], Intervals | None]) -> pl.DataFrame:
    """The traits of a rank, in its window; `in_steps` tells when it is in a whole step, None where it has none."""
    return pl.concat(
        [
            pl.DataFrame({"rank": [share.rank], "window": [share.on_host.end - share.on_host.start]}),
            COUNTED.of(share),
            _pageable(share, in_steps),
            _compiling(share, in_steps),
            _handing(share, in_steps),
            _peak(share),
        ],
        how="horizontal",
    ).select(pl.col(column).cast(dtype) for column, dtype in TRAITS.items())


def _counted(share: Share, given: Given) -> pl.DataFrame:
    del given
    telling = share.threads.filter(pl.col("kind").is_in(["op", "annotation", "runtime"]))
    inside = telling.filter((pl.col("start") < share.end) & (pl.col("end") > share.start))
    length = pl.col("end") - pl.col("start")
    longest = pl.col("id").sort_by(length, "id", descending=[True, False]).first()
    counts = collected(inside.group_by("name").agg(pl.len(), length.max().alias("length"), longest.alias("event")))
    counts, name = counts.sort("length", "event", descending=[True, False]), pl.col("name").cast(pl.String)
    return counts.select(
        *(pl.col("len").filter(name.str.contains(pattern)).sum().cast(pl.Int64).alias(trait)
          for trait, pattern in _NAMES.items()),
        *(pl.col("event").filter(name.str.contains(_NAMES[trait])).first().alias(f"{trait}_event")
          for trait in _PLACED),
    )  # fmt: skip


COUNTED: Final = OfHost(_counted)
"""How often the threads of a host are in an operator, annotation or call that `_NAMES` has, in the window: one row.

Of those in `_PLACED` the longest event, too.
"""


def _pageable(share: Share, in_steps: Callable[[], Intervals | None]) -> pl.DataFrame:
    """How long copies take from and to memory that is not pinned: in whole steps, without any in the window."""
    copies = _unpinned(share.device).with_columns(_length(share))
    if copies.height and (steps := in_steps()) is not None:
        copies = _unpinned(share.anytime)
        lengths = covered(steps, copies["start"].to_numpy(), copies["end"].to_numpy())
        copies = copies.with_columns(pl.Series("length", lengths))
    longest = copies.sort("length", "id", descending=[True, False])["id"].first()
    return pl.DataFrame({"pageable": [copies["length"].sum()], "pageable_event": [longest]})


def _unpinned(events: pl.LazyFrame) -> pl.DataFrame:
    copies = collected(events.filter(pl.col("kind") == "copy").select("id", "name", "start", "end"))
    return copies.filter(pl.col("name").cast(pl.String).str.contains(_PAGEABLE))


def _compiling(share: Share, in_steps: Callable[[], Intervals | None]) -> pl.DataFrame:
    """What was compiled on the threads of the host, and when any of them did."""
    found = compilations(share).with_columns(_length(share.on_host))
    longest = found.sort("length", "event", descending=[True, False]).head(1)
    start, end = (found[side].clip(share.on_host.start, share.on_host.end).to_numpy() for side in ("start", "end"))
    when, steps = union(start, end), in_steps() if found.height else None
    within = None if steps is None else int(covered(steps, when.start, when.end).sum())
    times = times_compiled(found.with_columns(called()), "function")
    often = times.filter(~pl.col("function").is_in([UNKNOWN, LOADED]))
    often = often.sort("count", "function", descending=[True, False]).head(1)
    return pl.DataFrame(
        {
            "compiling": [when.length],
            "compiling_in_steps": [within],
            "compilations": [int(times["count"].sum())],
            "compile_event": [longest["event"].first()],
            "compiled": [longest["function"].first()],
            "recompiled": [often["function"].first()],
            "recompilations": [often["count"].first()],
        },
        schema={name: TRAITS[name] for name in _OF_COMPILING},
    )


_OF_COMPILING: Final = (
    "compiling", "compiling_in_steps", "compilations", "compile_event", "compiled", "recompiled", "recompilations",
)  # fmt: skip


def _length(share: Share) -> pl.Expr:
    """How long an event lasts in the window."""
    return (pl.col("end").clip(share.start, share.end) - pl.col("start").clip(share.start, share.end)).alias("length")


def _handing(share: Share, in_steps: Callable[[], Intervals | None]) -> pl.DataFrame:
    """How long sends and receives, and all else, are exposed; 0 for both where no send or receive is recorded."""
    said = share.facet("communicated").filter(pl.col("collective").cast(pl.String).is_in(HANDED_ON))
    if collected(said.select("record").head(1)).is_empty():
        return pl.DataFrame({"handing": [0], "meeting": [0]})
    steps = in_steps()
    when = union(np.array([share.start]), np.array([share.end])) if steps is None else steps
    mine = calls(share)
    bare = exposed(share, mine).explode("exposed").unnest("exposed") if mine.height else pl.DataFrame()
    found = {"handing": 0, "meeting": 0}
    if bare.height:
        begun = bare.join(mine.select("event", "start", pl.col("collective").cast(pl.String)), on="event")
        handed = pl.col("collective").is_in(HANDED_ON).fill_null(value=False)
        for name, which in (("handing", handed), ("meeting", ~handed)):
            rows = begun.filter(which).with_columns(
                pl.col("start") + pl.col("after"), end=pl.col("start") + pl.col("until")
            )
            stretches = union(*(rows.sort("start")[each].to_numpy() for each in ("start", "end")))
            found[name] = int(covered(stretches, when.start, when.end).sum())
    return pl.DataFrame(found, schema=dict.fromkeys(found, pl.Int64))


def _peak(share: Share) -> pl.DataFrame:
    """The most that the allocator of the rank's device held, by its own word."""
    told = collected(share.facet("allocated").filter(pl.col("device") >= 0).drop_nulls("allocated"))
    most = holding(told.sort("time", "record"), share).sort("allocated", "time", descending=[True, False]).head(1)
    found = (most["allocated"][0], most["time"][0]) if most.height else (None, None)
    return pl.DataFrame({"peak": [found[0]], "peak_time": [found[1]]}, schema={"peak": pl.Int64, "peak_time": pl.Int64})
