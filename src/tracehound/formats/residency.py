"""How much of a device a kernel fills: blocks on each multiprocessor, and warps of those it could hold.

Owns what is recorded of that, what follows from grid, block and the device's properties where it is not, and which
values cannot be true. Knows no time.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Final, NamedTuple

import polars as pl

LAUNCHED: Final = ("grid", "block", "blocks_per_sm", "occupancy")
"""The columns of the facet `launched` that `residency` needs; it also needs `call`, the name of the launching call."""

_IN_THREADS: Final = ("hipExtModuleLaunchKernel",)
"""Calls whose grid is told in threads (HIP's global work size), and not in blocks."""

_MOST: Final = 1 << 40
"""No grid has more blocks per multiprocessor."""


class Device(NamedTuple):
    """What the file says of a device: multiprocessors, threads that one of them holds, bytes of memory; 0: unknown."""

    multiprocessors: int
    threads: int
    memory: int


UNKNOWN: Final = Device(0, 0, 0)


def device(facts: Mapping[str, Any], ordinal: int | None) -> Device:
    """The properties of a device of a part, by its ordinal.

    ROCm counts other devices than those it lists: where none has the number, and all are alike, it is one of them.
    """
    listed = facts.get("devices")
    known = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    mine = [_properties(each) for each in known if each.get("id") == ordinal]
    alike = {_properties(each) for each in known}
    return mine[0] if mine else alike.pop() if len(alike) == 1 else UNKNOWN


def _properties(listed: Mapping[str, Any]) -> Device:
    values = (listed.get(name) for name in ("numSms", "maxThreadsPerMultiprocessor", "totalGlobalMem"))
    return Device(*(v if isinstance(v, int) and not isinstance(v, bool) and 0 < v < 1 << 62 else 0 for v in values))


def residency(kernels: pl.DataFrame, of: Device) -> pl.DataFrame:
    """For each kernel what it fills, in the same order; null where that is not known.

    `blocks` = blocks of the grid / multiprocessors, as recorded, else (`derived`) by this definition of Kineto's;
    `occupancy` = estimated achieved occupancy as recorded; `limit` = the occupancy that its threads allow at most:
    threads of the grid / threads that all multiprocessors hold, at most 1; `strange` says that a value recorded cannot
    be true (below 0, an occupancy above 1): it is taken for none.
    """
    grid, block = (_extents(kernels[name]) for name in ("grid", "block"))
    in_threads = kernels["call"].cast(pl.String).is_in(_IN_THREADS).fill_null(value=False)
    work = pl.DataFrame({"grid": grid, "block": block, "in_threads": in_threads})
    blocks, threads = pl.col("grid"), pl.col("block")
    launched = pl.when("in_threads").then((blocks / threads).ceil()).otherwise(blocks)
    told, occupancy = pl.col("blocks_per_sm"), pl.col("occupancy")
    believed = told.is_finite() & (told >= 0) & (told <= _MOST)
    true = occupancy.is_finite() & occupancy.is_between(0, 1)
    per_sm = launched / of.multiprocessors if of.multiprocessors else pl.lit(None, pl.Float64)
    room = of.multiprocessors * of.threads
    return (
        pl.concat([work, kernels.select("blocks_per_sm", "occupancy")], how="horizontal")
        .with_columns(launched.alias("launched"))
        .select(
            pl.when(believed).then(told).otherwise(per_sm).alias("blocks"),
            (~believed.fill_null(value=False) & per_sm.is_not_null()).alias("derived"),
            pl.when(true).then(occupancy).alias("occupancy"),
            ((pl.col("launched") * threads / room).clip(0, 1) if room else pl.lit(None, pl.Float64)).alias("limit"),
            ((told.is_finite() & ~believed) | (occupancy.is_finite() & ~true)).fill_null(value=False).alias("strange"),
        )
    )


def _extents(texts: pl.Series) -> pl.Series:
    """The products of ``x,y,z``; null for what is none, or not above 0."""
    spelled = texts.cast(pl.String)
    known = {text: _product(text) for text in spelled.unique().drop_nulls().to_list()}
    return spelled.replace_strict(known, default=None, return_dtype=pl.Float64)


def _product(text: str) -> float | None:
    sides = text.strip("[] ").split(",")
    if not all(side.strip().isascii() and side.strip().isdigit() and len(side.strip()) < 12 for side in sides):
        return None
    return float(prod(int(side) for side in sides)) or None
