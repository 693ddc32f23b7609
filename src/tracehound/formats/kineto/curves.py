"""Counters of a Kineto file that it does not hold itself: how busy and how full each device is over time.

Owns which curves there are and where their lanes stand. What they mean is in `fill`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.facets import empty
from tracehound.formats.assembly.curves import Floats, bucket, buckets
from tracehound.formats.assembly.fill import curves, drawn, in_threads, means, resident, sums, told
from tracehound.formats.assembly.in_time import Place, in_time, of_lanes
from tracehound.formats.exported import FILLED, FILLS, called, exported
from tracehound.formats.residency import device
from tracehound.formats.torch_names import CURVES
from tracehound.intervals import Ints, union
from tracehound.trace import COUNTERS, LANES, Part, streamed

FEWEST: Final = 16
"""Kernels of a device from which a curve tells more than they do themselves."""

STRETCHES: Final = 1000
"""Stretches of a curve, at most."""

_FIRST: Final = -len(CURVES)
"""The places of these lanes: before the other counters of their rank."""


_OWN: Final = re.compile("utili[sz]ation", re.IGNORECASE)


class _Curve(NamedTuple):
    rank: int
    host: int
    measure: str
    name: str
    order: int
    samples: pl.DataFrame


def with_curves(found: Part) -> Part:
    """The same part with a counter for each curve of each device that runs kernels.

    A file that has counters of utilisation keeps to its own, such as the PyTorch TensorBoard plugin's. Those of an
    export make way for these, which are worked out from the same kernels as in the trace that was exported.
    """
    counters = found.lanes.filter(role="counter")["name"].to_list()
    if any(_OWN.search(name) and not exported(name) for name in counters):
        return found
    first = int(found.lanes["lane"].to_numpy().max(initial=-1)) + 1  # some numbers have no lane: of counters in no time
    made = list(_curves(found))
    found = _without(found, made)
    lanes, samples = [found.lanes], [found.counters]
    for number, curve in enumerate(made, start=first):
        lanes.append(_lane(number, curve))
        samples.append(curve.samples.select(pl.lit(number, pl.Int64).alias("lane"), "time", "value").cast(COUNTERS))
    return replace(found, lanes=pl.concat(lanes), counters=pl.concat(samples))


def _without(found: Part, curves: Sequence[_Curve]) -> Part:
    """The part without what an export wrote of these curves."""
    written = {(curve.rank, called(FILLED, FILLS[curve.measure])) for curve in curves}
    rows = found.lanes.filter(role="counter").select("lane", "rank", "name").iter_rows()
    lanes = [lane for lane, *counter in rows if tuple(counter) in written]
    others = ~pl.col("lane").is_in(lanes)
    return replace(found, lanes=found.lanes.filter(others), counters=found.counters.filter(others))


def _lane(number: int, curve: _Curve) -> pl.DataFrame:
    row = {
        "lane": number, "host": curve.host, "rank": curve.rank, "role": "counter", "work": False, "name": curve.name,
        "process": "", "order": curve.order, "rows": 1, "events": 0, "first": curve.samples["time"][0],
        "last": curve.samples["time"][-1], "unit": "%",
    }  # fmt: skip
    return pl.DataFrame([row], schema=LANES)


def _curves(found: Part) -> Iterator[_Curve]:
    if not found.lanes["work"].any():
        return
    by_threads = in_threads(found.scan.filter(pl.col("rank").is_null() & (pl.col("kind") == "runtime")))
    launched = told(found.facets.get("launched", empty("launched")))
    for row, (host, ordinal) in enumerate(found.ranks.select("host", "device").iter_rows()):
        lanes = _lanes(found, row)
        many, low, high = _span(found.scan, lanes)
        if many < FEWEST:
            continue
        kernels = in_time(found.scan.select(*_READ, "record", by_threads), lanes, _KERNELS, _HELD)
        filled = partial(resident, launched=launched, of=device(found.facts, ordinal))
        measured = _measured(kernels, (low, high), filled)
        for place, (measure, name) in enumerate(CURVES.items(), start=_FIRST):
            if (changes := measured.get(measure)) is not None:
                yield _Curve(row, host, measure, name, place, changes.filter(_changed(changes["value"])))


_KERNELS: Final = pl.col("kind").is_in(["kernel", "collective"]) & (pl.col("end") > pl.col("start"))
"""Those that have a length."""


_READ: Final = ("lane", "start", "end", "kind")


def _span(scan: pl.LazyFrame, lanes: Sequence[Place]) -> tuple[int, int, int]:
    """How many kernels there are on these lanes, when the first begins and when the last ends."""
    span = (pl.len(), pl.col("start").min().fill_null(0), pl.col("end").max().fill_null(0))
    many, low, high = streamed(of_lanes(scan.select(_READ), lanes).filter(_KERNELS).select(*span)).row(0)
    return many, low, high


def _lanes(found: Part, rank: int) -> list[Place]:
    """Where the events are of each lane of a rank that does its work."""
    places = found.lanes.sort("lane").with_columns((pl.col("events").cum_sum() - pl.col("events")).alias("low"))
    mine = places.filter(pl.col("work") & (pl.col("rank") == rank))
    return [Place(*row) for row in mine.select("lane", "low", "events").iter_rows()]


def _measured(
    kernels: Iterable[pl.DataFrame], span: tuple[int, int], filled: Callable[[pl.DataFrame], pl.DataFrame]
) -> dict[str, pl.DataFrame]:
    """The means of each measure that is known, in stretches, with 0 at the end: `time`, and `value` in percent.

    `kernels` come sorted by start, and lie in the `span`; `filled` tells what some of them fill.
    """
    low, high = span
    start, end = buckets(low, high, bucket(high - low, STRETCHES))
    parts = list(_sums(kernels, filled, start, end))
    found = means({name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, start, end)
    percent = {name: (found[name].fill_null(0.0) * 100).round(_DIGITS).to_numpy() for name in CURVES}
    return {
        name: pl.DataFrame(
            {"time": np.append(start[over], end[over][-1]), "value": np.append(percent[name][over], 0.0)}
        )
        for name, over in drawn(found, CURVES).items()
    }


_DIGITS: Final = 9
"""Of percent: what is less is left by adding up in another order, and no change of a curve."""


def _sums(
    kernels: Iterable[pl.DataFrame], filled: Callable[[pl.DataFrame], pl.DataFrame], start: Ints, end: Ints
) -> Iterator[dict[str, Floats]]:
    """The sums of the kernels' curves in stretches that follow one another, some stretches at a time."""
    done, waiting = 0, list[pl.DataFrame]()
    for some in (each for frame in kernels for each in frame.iter_slices(_AT_ONCE)):
        waiting.append(some)
        known = int(np.searchsorted(end, some["start"][-1], side="right"))
        if known > done:
            over = slice(done, known)
            held, done = pl.concat(waiting), known
            yield _summed(held, filled, start[over], end[over])
            waiting = [held.filter(pl.col("end") > int(start[done]))]
    if done < len(start):
        yield _summed(pl.concat(waiting), filled, start[done:], end[done:])


def _summed(
    kernels: pl.DataFrame, filled: Callable[[pl.DataFrame], pl.DataFrame], start: Ints, end: Ints
) -> dict[str, Floats]:
    """The sums of the curves of these kernels in some stretches."""
    low, high = int(start[0]), int(end[-1])
    some = kernels.filter(pl.col("start") < high)
    inside = some.select(pl.col("start", "end").clip(low, high))
    works = union(inside["start"].to_numpy(), inside["end"].to_numpy())
    return sums(curves(pl.concat([inside, filled(some)], how="horizontal")), works, start, end)


_HELD: Final = 1 << 17
"""Events of all lanes of a device that are held at once, about."""

_AT_ONCE: Final = 1 << 16
"""Kernels whose curves are worked out together, about: a kilobyte of memory each."""


def _changed(value: pl.Series) -> pl.Series:
    """Which values differ from the one before; the first and the last count, so that the curve has its ends."""
    changed = value.to_numpy()[1:] != value.to_numpy()[:-1]
    kept = np.append(True, changed)
    kept[-1] = True
    return pl.Series(kept)
