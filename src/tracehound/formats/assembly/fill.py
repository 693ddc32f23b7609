"""How full a device is over time: kernels at work, multiprocessors taken, warps held.

Owns these quantities for the kernels of one device, and their means over stretches of time. Knows no lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.formats.assembly.curves import Curve, Floats, stacked
from tracehound.formats.residency import IN_THREADS, LAUNCHED, Device, residency
from tracehound.intervals import Intervals, Ints, covered
from tracehound.lookup import looked_up
from tracehound.trace import collected

MEASURES: Final = ("utilisation", "sm_efficiency", "occupancy", "blocks_per_sm", "occupancy_limit")


def in_threads(calls: pl.LazyFrame) -> pl.Expr:
    """Whether the grid of a kernel is told in threads, by its launch; `calls` are those of the host."""
    by_threads = collected(calls.filter(pl.col("name").is_in(IN_THREADS)).select("id")).to_series()
    return pl.col("launch").is_in(by_threads.implode()).fill_null(value=False).alias("in_threads")


class Told(NamedTuple):
    """What the facet `launched` tells that `resident` needs, in the order of records.

    Rows that lie on disk are read as they are wanted; `marks` has the record of every `_STRIDE`-th of them, and the
    last.
    """

    rows: pl.DataFrame | pl.LazyFrame
    marks: Ints

    def around(self, records: Ints) -> pl.DataFrame:
        """The rows with these records, and some more."""
        if not len(records):
            return collected(self.rows.lazy().slice(0, 0))
        low, high = int(records.min()), int(records.max())
        first = max(int(np.searchsorted(self.marks, low)) - 1, 0) * _STRIDE
        last = int(np.searchsorted(self.marks, high, side="right")) * _STRIDE
        return collected(self.rows.lazy().slice(first, max(last - first, 0)))


def told(launched: pl.LazyFrame) -> Told:
    """What that facet tells; rows that are not in the order of records are in memory."""
    rows, step = launched.select("record", *LAUNCHED), _STRIDE * _AT_ONCE
    marks, last, low = [np.empty(0, np.int64)], np.iinfo(np.int64).min, 0
    while len(record := collected(rows.slice(low, step).select("record")).to_series().to_numpy()):
        if record[0] < last or (record[1:] < record[:-1]).any():
            known = collected(rows).sort("record", maintain_order=True)
            return Told(known, np.append(known["record"].gather_every(_STRIDE).to_numpy(), known["record"][-1]))
        marks.append(record[::_STRIDE])
        last, low = int(record[-1]), low + step
    return Told(rows, np.append(np.concatenate(marks), last))


_STRIDE: Final = 1 << 10
_AT_ONCE: Final = 1 << 6
"""So many strides of a facet are looked at together."""


def resident(kernels: pl.DataFrame, launched: Told, of: Device) -> pl.DataFrame:
    """What each kernel fills, by `residency`, in the order of the kernels.

    `kernels` need `record` and `in_threads`; `launched` is what is `told` of them and others.
    """
    wanted = kernels["record"]
    around = launched.around(wanted.drop_nulls().to_numpy())
    return residency(looked_up(around, "record", wanted).with_columns(kernels["in_threads"]), of)


def curves(kernels: pl.DataFrame) -> dict[str, Curve]:
    """The sums over the kernels that run at each instant; `kernels` have `start`, `end` and what `residency` tells."""
    start, end = kernels["start"].to_numpy(), kernels["end"].to_numpy()

    heights = {"runs": np.ones(kernels.height)}
    for name in ("blocks", "occupancy", "limit"):
        heights[name] = kernels[name].fill_null(0.0).to_numpy()
        heights[f"has {name}"] = kernels[name].is_not_null().cast(pl.Float64).to_numpy()
    found = stacked(start, end, heights)
    return {**found, "taken": found["blocks"].capped(1.0)}


def sums(of: Mapping[str, Curve], works: Intervals, start: Ints, end: Ints) -> dict[str, Floats]:
    """Height times time (ps) of each curve in each stretch `[start, end)`, and how long kernels run there (`works`)."""
    found = {name: curve.integral(start, end) for name, curve in of.items()}
    return {**found, "works": covered(works, start, end).astype(np.float64)}


def means(of: Mapping[str, Floats], start: Ints, end: Ints) -> pl.DataFrame:
    """For each stretch `[start, end)` the `MEASURES`, and what part of the kernels' time has known blocks (`known`).

    `of` has the `sums` of their curves. Null where a measure is not known; where no kernel runs no multiprocessor is
    taken, if blocks are known of any.
    """
    length = (end - start).astype(np.float64)
    known = of["has blocks"] > 0
    if known.any():
        known |= of["runs"] == 0
    return pl.DataFrame(
        {
            "utilisation": _ratio(of["works"], length),
            "sm_efficiency": np.where(known, _ratio(of["taken"], length), np.nan),
            "occupancy": _ratio(of["occupancy"], of["has occupancy"]),
            "blocks_per_sm": _ratio(of["blocks"], of["has blocks"]),
            "occupancy_limit": _ratio(of["limit"], of["has limit"]),
            "known": _ratio(of["has blocks"], of["runs"]),
        }
    ).with_columns(pl.all().fill_nan(None))


def drawn(found: pl.DataFrame, measures: Iterable[str]) -> dict[str, slice]:
    """The measures that make a curve, and the stretches over which it goes; `found` is what `means` gives.

    A curve has no gaps, and 0 is false where kernels run of which nothing is told: it begins behind those at the
    beginning and ends before those at the end. Where more than one in `_SELDOM` is left between, it is none.
    """
    busy = (found["utilisation"] > 0).to_numpy()
    curves = dict[str, slice]()
    for name in measures:
        lacking = busy & found[name].is_null().to_numpy()
        known = np.flatnonzero(busy & ~lacking)
        if not len(known):
            continue
        first, last = int(known[0]), int(known[-1]) + 1
        over = slice(first if lacking[:first].any() else 0, last if lacking[last:].any() else len(busy))
        if np.count_nonzero(lacking[over]) * _SELDOM <= np.count_nonzero(busy[over]):
            curves[name] = over
    return curves


_SELDOM: Final = 50
"""One stretch in so many may lack a measure: in a chart that is not seen."""


def _ratio(part: Floats, whole: Floats) -> Floats:
    ratio: Floats = np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0)
    return ratio
