"""Counters of a Kineto file that it does not hold itself: how busy and how full each device is over time.

Owns which curves there are and where their lanes stand. What they mean is in `fill`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.formats.assembly.curves import bucket, buckets
from tracehound.formats.assembly.fill import curves, drawn, in_threads, means, resident
from tracehound.formats.residency import device
from tracehound.formats.torch_names import CURVES
from tracehound.intervals import union
from tracehound.trace import COUNTERS, LANES, Part, collected

FEWEST: Final = 16
"""Kernels of a device from which a curve tells more than they do themselves."""

STRETCHES: Final = 1000
"""Stretches of a curve, at most."""

_FIRST: Final = -len(CURVES)
"""The places of these lanes: before the other counters of their rank."""


_OWN: Final = "(?i)utili[sz]ation"


class _Curve(NamedTuple):
    rank: int
    host: int
    name: str
    order: int
    samples: pl.DataFrame


def with_curves(found: Part) -> Part:
    """The same part with a counter for each curve of each device that runs kernels.

    A file that has counters of utilisation keeps to its own: the PyTorch TensorBoard plugin's, or those of an export.
    """
    if found.lanes.filter(role="counter")["name"].str.contains(_OWN).any():
        return found
    lanes, samples = [found.lanes], [found.counters]
    first = int(found.lanes["lane"].to_numpy().max(initial=-1)) + 1  # some numbers have no lane: of counters in no time
    for number, curve in enumerate(_curves(found), start=first):
        lanes.append(_lane(number, curve))
        samples.append(curve.samples.select(pl.lit(number, pl.Int64).alias("lane"), "time", "value").cast(COUNTERS))
    return replace(found, lanes=pl.concat(lanes), counters=pl.concat(samples))


def _lane(number: int, curve: _Curve) -> pl.DataFrame:
    told = {
        "lane": number, "host": curve.host, "rank": curve.rank, "role": "counter", "work": False, "name": curve.name,
        "process": "", "order": curve.order, "rows": 1, "events": 0, "first": curve.samples["time"][0],
        "last": curve.samples["time"][-1], "unit": "%",
    }  # fmt: skip
    return pl.DataFrame([told], schema=LANES)


def _curves(found: Part) -> Iterator[_Curve]:
    working = found.lanes.filter(pl.col("work") & pl.col("rank").is_not_null())
    of_kernels = pl.col("lane").is_in(working["lane"].to_list()) & pl.col("kind").is_in(["kernel", "collective"])
    columns = ("rank", "start", "end", "launch", "record")
    kernels = collected(found.scan.filter(of_kernels & (pl.col("end") > pl.col("start"))).select(columns))
    if kernels.is_empty():
        return
    calls = in_threads(found.scan.filter(pl.col("rank").is_null() & (pl.col("kind") == "runtime")))
    launched = collected(found.facets["launched"]) if "launched" in found.facets else _NOTHING_TOLD
    for row, (host, ordinal) in enumerate(found.ranks.select("host", "device").iter_rows()):
        mine = kernels.filter(pl.col("rank") == row)
        if mine.height < FEWEST:
            continue
        filled = resident(mine, launched, calls, device(found.facts, ordinal))
        measured = _measured(pl.concat([mine.drop("record"), filled], how="horizontal"))
        for place, (measure, name) in enumerate(CURVES.items(), start=_FIRST):
            if (changes := measured.get(measure)) is not None:
                yield _Curve(row, host, name, place, changes.filter(_changed(changes["value"])))


_NOTHING_TOLD: Final = pl.DataFrame(
    schema={
        "record": pl.Int64,
        "grid": pl.String,
        "block": pl.String,
        "blocks_per_sm": pl.Float64,
        "occupancy": pl.Float64,
    }
)


def _measured(kernels: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The means of each measure that is known, in stretches, with 0 at the end: `time`, and `value` in percent."""
    low, high = int(kernels["start"].to_numpy().min()), int(kernels["end"].to_numpy().max())
    start, end = buckets(low, high, bucket(high - low, STRETCHES))
    works = union(kernels["start"].to_numpy(), kernels["end"].to_numpy())
    found = means(works, curves(kernels), start, end)
    return {
        name: pl.DataFrame(
            {
                "time": np.append(start[over], end[over][-1]),
                "value": np.append(found[name].fill_null(0.0).to_numpy()[over] * 100, 0.0),
            }
        )
        for name, over in drawn(found, CURVES).items()
    }


def _changed(value: pl.Series) -> pl.Series:
    """Which values differ from the one before; the first and the last count, so that the curve has its ends."""
    changed = value.to_numpy()[1:] != value.to_numpy()[:-1]
    kept = np.append(True, changed)
    kept[-1] = True
    return pl.Series(kept)
