"""How the clocks of the ranks differ, told by the ends of their collectives, and how exactly that is known.

Owns the estimate and when it is better than the trace's own clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Final

import polars as pl

from tracehound.analysis.ranks.calls import TOGETHER
from tracehound.trace import schema

FEWEST: Final = 3
"""Fewer collectives than this tell nothing of a clock."""

BETTER: Final = 2
"""The ends must agree this many times better for an offset to be applied."""

SAMPLE: Final = 200_000
"""At most about so many calls are looked at, of collectives that are spread over the run."""

ROUNDS: Final = 8
"""So often the circles' opinions of a part are put together."""

CLOSE: Final = 1_000
"""Ends that are no farther apart (ps) agree."""

CLOCKS: Final = schema(
    {
        "part": pl.Int64(),
        "matched": pl.Int64(),  # collectives that tell of it
        "offset": pl.Int64(),  # to be added to its times, so that they are those of the first part
        "applied": pl.Int64(),  # the same where it is applied, else 0
        "own": pl.Int64(),  # median distance of its ends from the collectives' without an offset
        "left": pl.Int64(),  # the same with it: how exact it is
        "drift": pl.Int64(),  # how much the distance grows from the first to the last third of the collectives
    }
)
"""What is known of the clock of each part (file) of a trace; ps."""


def offsets(rows: pl.DataFrame) -> pl.DataFrame:
    """The clock of every part among these calls (columns meeting, circle, collective, part, end), as `CLOCKS`.

    Nobody leaves a collective of `TOGETHER` before everybody has come, so it ends at one moment for all, but for what
    the last bytes take. In each circle of ranks that meet, the offset of a part is the median, over their collectives,
    of the distance of its end from the median end of all. Circles that share a part are put together by it.
    """
    parts = rows.select("part").unique().drop_nulls().sort("part")
    ends = _ends(rows).with_columns((pl.col("end").median().over("meeting") - pl.col("end")).alias("distance"))
    within = ends.group_by("circle", "part").agg(pl.col("distance").median(), pl.len().alias("count"))
    known = _joined(within.sort("count", "circle", "part", descending=[True, False, False]))
    told = pl.DataFrame({"part": list(known), "offset": list(known.values())}, {"part": pl.Int64, "offset": pl.Float64})
    found = parts.join(told, on="part", how="left").with_columns(pl.col("offset").fill_null(0).round().cast(pl.Int64))
    moved = ends.join(found, on="part").with_columns((pl.col("end") + pl.col("offset")).alias("moved"))
    left = moved.with_columns((pl.col("moved").median().over("meeting") - pl.col("moved")).alias("distance"))
    first = int(found["offset"][0]) if found.height else 0
    return _judged(found.with_columns(pl.col("offset") - first), ends, left)


def _ends(rows: pl.DataFrame) -> pl.DataFrame:
    """The end of each part at a sample of the collectives that two parts or more have."""
    ends = (
        rows.filter(pl.col("meeting").is_not_null() & pl.col("collective").cast(pl.String).is_in(TOGETHER))
        .group_by("meeting", "part")
        .agg(pl.col("circle").first(), pl.col("end").max())
        .filter(pl.len().over("meeting") > 1)
    )
    every = 1 + ends.height // SAMPLE
    return ends.filter(pl.col("meeting").hash() % every == 0).sort("end", "meeting", "part")


Circles = Mapping[int, Sequence[tuple[int, float]]]
"""Of every circle the parts in it, and how far each would have to move to end with the others."""


def _joined(within: pl.DataFrame) -> dict[int, float]:
    """One offset for each part that all circles agree on as well as they can."""
    circles = {
        circle: list(zip(rows["part"].to_list(), rows["distance"].to_list(), strict=True))
        for (circle,), rows in within.partition_by("circle", as_dict=True, maintain_order=True).items()
    }
    of_part: dict[int, list[int]] = {}
    for circle, members in circles.items():
        for part, _ in members:
            of_part.setdefault(part, []).append(circle)
    offset = dict[int, float]()
    for begin in sorted(of_part):
        if begin not in offset:
            _spread(begin, circles, of_part, offset)
    for _ in range(ROUNDS):
        offset = _agreed(circles, of_part, offset)
    return offset


def _spread(begin: int, circles: Circles, of_part: Mapping[int, Sequence[int]], offset: dict[int, float]) -> None:
    """Give offsets to all parts that circles lead to from one, those first that know most; its own is 0."""
    offset[begin] = 0.0
    ahead, seen = deque(of_part[begin]), set[int]()
    while ahead:
        circle = ahead.popleft()
        if circle in seen:
            continue
        seen.add(circle)
        level = _level(circles[circle], offset)
        for part, distance in circles[circle]:
            if part not in offset:
                offset[part] = level + distance
                ahead.extend(of_part[part])


def _agreed(circles: Circles, of_part: Mapping[int, Sequence[int]], offset: Mapping[int, float]) -> dict[int, float]:
    """The mean of what the circles of each part say, by where the offsets put these."""
    sums = dict.fromkeys(offset, 0.0)
    for members in circles.values():
        level = _level(members, offset)
        for part, distance in members:
            sums[part] += level + distance
    return {part: total / len(of_part[part]) for part, total in sums.items()}


def _level(members: Sequence[tuple[int, float]], offset: Mapping[int, float]) -> float:
    """Where the ends of a circle lie by the parts whose offset is known."""
    return mean(offset[part] - distance for part, distance in members if part in offset)


def _judged(offset: pl.DataFrame, own: pl.DataFrame, left: pl.DataFrame) -> pl.DataFrame:
    """The offsets with how exact they are, and which of them are applied."""
    distance = pl.col("distance")
    third = (pl.len() // 3).clip(lower_bound=1)
    before = own.group_by("part").agg(pl.len().cast(pl.Int64).alias("matched"), distance.abs().median().alias("own"))
    after = left.group_by("part", maintain_order=True).agg(
        distance.abs().median().alias("left"),
        (distance.tail(third).median() - distance.head(third).median()).alias("drift"),
    )
    table = (
        offset.join(before, on="part", how="left")
        .join(after, on="part", how="left")
        .with_columns(
            pl.col("matched").fill_null(0), *(pl.col(name).round().cast(pl.Int64) for name in ("own", "left", "drift"))
        )
    )
    better = (pl.col("matched") >= FEWEST) & (pl.col("own") > BETTER * pl.col("left")) & (pl.col("own") >= CLOSE)
    applied = pl.when(better.fill_null(value=False)).then("offset").otherwise(0).alias("applied")
    return table.with_columns(applied).select(CLOCKS.names()).cast(CLOCKS).sort("part")
