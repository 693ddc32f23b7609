"""Time of a device by part of XProf's step time: compute, collectives, input, output, copies inside the device."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.devices.async_ops import match_done_ops
from tracehound.analysis.devices.device_copies import copies_in_hlo, copy_endpoints, copy_kinds
from tracehound.analysis.rank_trace import RankTrace
from tracehound.analysis.timing.device_busy import (
    COMMUNICATION_KINDS,
    COPY_KINDS,
    WORK_COLUMNS,
    device_work,
    parent_rows,
)
from tracehound.formats.xla.op_kinds import HOST_MEMORY_NAME
from tracehound.numeric.intervals import EMPTY_INTERVALS, Intervals, merge, subtract, union
from tracehound.numeric.self_time import self_intervals

DEVICE_PARTS: Final = ("compute", "collectives", "input", "output", "device_to_device")
"""In the order of precedence: of concurrent parts the first counts. The last is copies inside the device."""

_COMPUTE, _COLLECTIVES, _INPUT, _OUTPUT, _COPY = range(len(DEVICE_PARTS))

_PART_COLUMNS: Final = (*WORK_COLUMNS, "op", "name", "launch")
"""Columns of device work that `intervals_per_part` needs."""


def work_with_ops(rank_trace: RankTrace, *more: str) -> pl.DataFrame:
    """The work of the rank's device: columns `_PART_COLUMNS`, and `more`."""
    return device_work(rank_trace, *(name for name in _PART_COLUMNS if name not in WORK_COLUMNS), *more)


def intervals_per_part(rank_trace: RankTrace, events: pl.DataFrame) -> dict[str, Intervals]:
    """Disjoint intervals of the device for each of `DEVICE_PARTS`.

    `events` are from `work_with_ops`. Work around other work counts only with its self time. Copies are the kinds that
    `device_busy` calls copies; those to or from the host are input or output: infeed, outfeed, copies whose HLO line
    names the host's memory, and on GPUs copies on streams by their direction, from their names or the names of the
    calls that launched them.
    """
    owned = self_intervals(events["start"].to_numpy(), events["end"].to_numpy(), parent_rows(events))
    part = _part_of_events(rank_trace, events)[owned.owner]
    found, taken = dict[str, Intervals](), EMPTY_INTERVALS
    for number, name in enumerate(DEVICE_PARTS):
        mine = part == number
        when = union(owned.start[mine], owned.end[mine])
        found[name] = subtract(when, taken)
        taken = merge(taken, when)
    return found


def _part_of_events(rank_trace: RankTrace, events: pl.DataFrame) -> npt.NDArray[np.int64]:
    """The part of each event, as its index in `DEVICE_PARTS`."""
    ran = events["op"].drop_nulls().unique().implode()
    pairs = match_done_ops(rank_trace.ops).filter(
        pl.col("op").is_in(ran)
    )  # the awaited copy may have begun before the window
    ops = rank_trace.ops.filter(pl.col("op").is_in(ran) | pl.col("op").is_in(pairs["started"].implode()))
    said = copies_in_hlo(ops).select("op", _copy_part_column().alias("said"))
    waiting = pairs.join(said, left_on="started", right_on="op").select("op", "said")
    by_op = pl.concat([said, waiting]).unique("op", keep="first", maintain_order=True)
    copies = pl.col("kind").is_in(COPY_KINDS)
    by_name = _parts_by_direction(rank_trace, events.filter(copies & pl.col("op").is_null()))
    joined = events.join(by_op, on="op", how="left", maintain_order="left").join(
        by_name, on="id", how="left", maintain_order="left"
    )
    part = (
        pl.when(pl.col("kind").is_in(COMMUNICATION_KINDS)).then(_COLLECTIVES)
        .when(copies).then(pl.coalesce("said", "named", pl.lit(_COPY)))
        .otherwise(_COMPUTE)
    )  # fmt: skip
    return joined.select(part.cast(pl.Int64)).to_series().to_numpy()


def _parts_by_direction(rank_trace: RankTrace, copies: pl.DataFrame) -> pl.DataFrame:
    """The part of each copy (`id`) by its direction: `named`."""
    kinds = copy_kinds(rank_trace, copies)
    parts = {kind: _copy_part(*copy_endpoints(kind)) for kind in kinds.unique()}
    return copies.select("id", kinds.replace_strict(parts, default=None, return_dtype=pl.Int64).alias("named"))


def _copy_part_column() -> pl.Expr:
    return (
        pl.when(pl.col("source") == HOST_MEMORY_NAME)
        .then(_INPUT)
        .when(pl.col("target") == HOST_MEMORY_NAME)
        .then(_OUTPUT)
        .otherwise(_COPY)
    ).cast(pl.Int64)


def _copy_part(source: str, target: str) -> int:
    return _INPUT if source == HOST_MEMORY_NAME else _OUTPUT if target == HOST_MEMORY_NAME else _COPY
