"""How much of a device a kernel fills: blocks on each multiprocessor, and warps of those it could hold.

Owns what is recorded of that, what follows from grid, block and the device's properties where it is not, and which
values cannot be true. Knows no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from math import prod
from typing import Final, NamedTuple

import polars as pl

from tracehound.file_facts import DeviceProperties, FileFacts

LAUNCHED: Final = ("grid", "block", "blocks_per_sm", "occupancy")
"""The columns of the facet `launched` that `residency` needs; it also needs `in_threads`: how the grid is told."""

IN_THREADS: Final = ("hipExtModuleLaunchKernel",)
"""Calls whose grid is told in threads (HIP's global work size), and not in blocks."""

_MOST: Final = 1 << 40
"""No grid has more blocks per multiprocessor."""

_THREADS: Final = 2048
"""No multiprocessor holds more threads."""

_SEEN: Final = 0.01
"""So much occupancy is never told as 0: files have whole percent."""


class Device(NamedTuple):
    """What the file says of a device: multiprocessors, threads that one of them holds, bytes of memory; 0: unknown."""

    multiprocessors: int
    threads: int
    memory: int


UNKNOWN: Final = Device(0, 0, 0)


def device(facts: FileFacts, ordinal: int | None) -> Device:
    """The properties of a device of a part, by its ordinal.

    ROCm counts other devices than those it lists: where none has the number, and all are alike, it is one of them.
    """
    found = {Device(each.multiprocessors, each.threads, each.memory) for each in candidates(facts, ordinal)}
    return found.pop() if len(found) == 1 else UNKNOWN


def candidates(facts: FileFacts, ordinal: int | None) -> Sequence[DeviceProperties]:
    """What a part says of a device, by its ordinal: of that one, or of all where none has the number."""
    return [each for each in facts.devices if each.id == ordinal][:1] or facts.devices


def residency(kernels: pl.DataFrame, of: Device) -> pl.DataFrame:
    """For each kernel what it fills, in the same order; null where that is not known.

    `blocks` = blocks of the grid / multiprocessors, as recorded, else (`derived`) by this definition of Kineto's;
    `occupancy` = estimated achieved occupancy as recorded; `limit` = the occupancy that its threads allow at most:
    threads of the grid / threads that all multiprocessors hold, at most 1; `strange` says that a value recorded cannot
    be true (below 0, an occupancy above 1, or of 0 where the blocks hold 1 % of the threads or more, as Kineto has it
    of kernels with more shared memory than 48 KiB): it is taken for none.
    """
    work = _sizes(kernels.select("grid", "block", "in_threads"))
    threads = pl.col("threads")
    told, occupancy = pl.col("blocks_per_sm"), pl.col("occupancy")
    believed = told.is_finite() & (told >= 0) & (told <= _MOST)
    held = (pl.when(believed).then(told) * threads / _THREADS).fill_null(0.0)
    true = occupancy.is_finite() & occupancy.is_between(0, 1) & ((occupancy > 0) | (held < _SEEN))
    per_sm = pl.col("launched") / of.multiprocessors if of.multiprocessors else pl.lit(None, pl.Float64)
    room = of.multiprocessors * of.threads
    return pl.concat([work, kernels.select("blocks_per_sm", "occupancy")], how="horizontal").select(
        pl.when(believed).then(told).otherwise(per_sm).alias("blocks"),
        (~believed.fill_null(value=False) & per_sm.is_not_null()).alias("derived"),
        pl.when(true).then(occupancy).alias("occupancy"),
        ((pl.col("launched") * threads / room).clip(0, 1) if room else pl.lit(None, pl.Float64)).alias("limit"),
        ((told.is_finite() & ~believed) | (occupancy.is_finite() & ~true)).fill_null(value=False).alias("strange"),
    )


def _sizes(work: pl.DataFrame) -> pl.DataFrame:
    """Of each kernel its blocks (`launched`) and the threads of one of them (`threads`); null where that is not told.

    Each text of grid and block is looked at once.
    """
    columns = {"launched": pl.Float64(), "threads": pl.Float64()}
    rows = list[tuple[float | None, float | None]]()
    seen = work.unique(maintain_order=True)
    for grid, block, in_threads in seen.with_columns(pl.col("grid", "block").cast(pl.String)).iter_rows():
        sides, threads = _sides(grid), _sides(block)
        if sides and threads and in_threads:
            sides = [-(-side // thread) for side, thread in zip_longest(sides, threads, fillvalue=1)]
        rows.append((float(prod(sides)) if sides else None, float(prod(threads)) if threads else None))
    told = seen.hstack(pl.DataFrame(rows, columns, orient="row"))
    joined = work.join(told, on=work.columns, how="left", nulls_equal=True, maintain_order="left")
    return joined.select(*columns)


def _sides(text: str | None) -> list[int]:
    """The numbers of ``x,y,z``; nothing for what is none, or not above 0."""
    words = [] if text is None else [side.strip() for side in text.strip("[] ").split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) < 12 for word in words):
        return []
    sides = [int(word) for word in words]
    return sides if all(sides) else []
