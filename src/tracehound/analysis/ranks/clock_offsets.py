"""Clock offsets of ranks, estimated from the ends of their collectives, and their accuracy.

Ranks of one file have one clock, and so have processes of one machine whose times are the machine's own. Decides when
the estimate is better than the trace's own clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from statistics import mean
from typing import Final

import polars as pl

from tracehound.analysis.rank_trace import RunContext
from tracehound.analysis.ranks.rank_collectives import SYNCHRONIZING_KINDS
from tracehound.model.file_facts import FileFacts
from tracehound.model.trace import schema

MIN_COLLECTIVES: Final = 3
"""With fewer collectives no offset is estimated."""

MIN_IMPROVEMENT: Final = 2
"""An offset is applied if the ends agree this many times better with it."""

MAX_SAMPLED_CALLS: Final = 200_000
"""About this many calls are used at most, of collectives spread over the run."""

AVERAGING_ROUNDS: Final = 8
"""Rounds in which the offsets of a file in several groups are averaged."""

AGREEING_DISTANCE: Final = 1_000
"""Ends at most this far apart (ps) agree."""

OFFSET_SCHEMA: Final = schema(
    {
        "part": pl.Int64(),
        "matched": pl.Int64(),  # collectives it was estimated from
        "offset": pl.Int64(),  # added to its times to get those of the first part
        "applied": pl.Int64(),  # the offset if it is applied, else 0
        "own": pl.Int64(),  # median distance of its ends from the collectives' without an offset
        "left": pl.Int64(),  # that distance with the offset: its accuracy
        "drift": pl.Int64(),  # growth of the distance from the first to the last third of the collectives
    }
)
"""The clock of each part (file) of a trace; ps."""


def estimate_clock_offsets(rows: pl.DataFrame) -> pl.DataFrame:
    """The clock of every part among these calls (columns meeting, circle, collective, part, end), in `OFFSET_SCHEMA`.

    Nobody leaves a collective of `SYNCHRONIZING_KINDS` before everybody has come, so it ends at one moment for all,
    apart from the time of the last bytes. In each group of ranks that meet, the offset of a part is the median, over
    their collectives, of the distance of its end from the median end of all. Groups that share a part are combined by
    it.
    """
    parts = rows.select("part").unique().drop_nulls().sort("part")
    ends = _sample_ends(rows).with_columns((pl.col("end").median().over("meeting") - pl.col("end")).alias("distance"))
    within = ends.group_by("circle", "part").agg(pl.col("distance").median(), pl.len().alias("count"))
    known = _combine_groups(within.sort("count", "circle", "part", descending=[True, False, False]))
    known_offsets = pl.DataFrame(
        {"part": list(known), "offset": list(known.values())}, {"part": pl.Int64, "offset": pl.Float64}
    )
    found = parts.join(known_offsets, on="part", how="left").with_columns(
        pl.col("offset").fill_null(0).round().cast(pl.Int64)
    )
    moved = ends.join(found, on="part").with_columns((pl.col("end") + pl.col("offset")).alias("moved"))
    left = moved.with_columns((pl.col("moved").median().over("meeting") - pl.col("moved")).alias("distance"))
    first = int(found["offset"][0]) if found.height else 0
    return _assess_offsets(found.with_columns(pl.col("offset") - first), ends, left)


def _sample_ends(rows: pl.DataFrame) -> pl.DataFrame:
    """The end of each part at a sample of the collectives that two or more parts have."""
    ends = (
        rows.filter(pl.col("meeting").is_not_null() & pl.col("collective").cast(pl.String).is_in(SYNCHRONIZING_KINDS))
        .group_by("meeting", "part")
        .agg(pl.col("circle").first(), pl.col("end").max())
        .filter(pl.len().over("meeting") > 1)
    )
    every = 1 + ends.height // MAX_SAMPLED_CALLS
    return ends.filter(pl.col("meeting").hash() % every == 0).sort("end", "meeting", "part")


GroupDistances = Mapping[int, Sequence[tuple[int, float]]]
"""For each group its parts, and how far each would have to move to end with the others."""


def _combine_groups(within: pl.DataFrame) -> dict[int, float]:
    """One offset for each part that fits all groups as well as possible."""
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
            _propagate_offsets(begin, circles, of_part, offset)
    for _ in range(AVERAGING_ROUNDS):
        offset = _average_offsets(circles, of_part, offset)
    return offset


def _propagate_offsets(
    begin: int, circles: GroupDistances, of_part: Mapping[int, Sequence[int]], offset: dict[int, float]
) -> None:
    """Give offsets to all parts that are connected with one by groups, breadth first; its own is 0."""
    offset[begin] = 0.0
    ahead, seen = deque(of_part[begin]), set[int]()
    while ahead:
        circle = ahead.popleft()
        if circle in seen:
            continue
        seen.add(circle)
        level = _mean_group_end(circles[circle], offset)
        for part, distance in circles[circle]:
            if part not in offset:
                offset[part] = level + distance
                ahead.extend(of_part[part])


def _average_offsets(
    circles: GroupDistances, of_part: Mapping[int, Sequence[int]], offset: Mapping[int, float]
) -> dict[int, float]:
    """For each part the mean of the offsets that its groups imply."""
    sums = dict.fromkeys(offset, 0.0)
    for members in circles.values():
        level = _mean_group_end(members, offset)
        for part, distance in members:
            sums[part] += level + distance
    return {part: total / len(of_part[part]) for part, total in sums.items()}


def _mean_group_end(members: Sequence[tuple[int, float]], offset: Mapping[int, float]) -> float:
    """Mean end of a group, by its parts with a known offset."""
    return mean(offset[part] - distance for part, distance in members if part in offset)


def _assess_offsets(offset: pl.DataFrame, own: pl.DataFrame, left: pl.DataFrame) -> pl.DataFrame:
    """The offsets with their accuracy, and the choice of those that are applied."""
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
    better = (
        (pl.col("matched") >= MIN_COLLECTIVES)
        & (pl.col("own") > MIN_IMPROVEMENT * pl.col("left"))
        & (pl.col("own") >= AGREEING_DISTANCE)
    )
    applied = pl.when(better.fill_null(value=False)).then("offset").otherwise(0).alias("applied")
    return table.with_columns(applied).select(OFFSET_SCHEMA.names()).cast(OFFSET_SCHEMA).sort("part")


def rank_clocks(context: RunContext) -> pl.DataFrame:
    """The clock of each `rank`: the first `part` (file) of the trace that has it, and the first of its `machine`.

    `begun` and `closed` bound the recording of the rank on the wall clock, if its file has one (Unix, ns).

    PyTorch's times of host events are those of the machine's clock, so that its processes share it, as long as the
    trace is on the wall clock. Times of devices are converted from their own clocks, process by process: on one machine
    they differ by some microseconds.
    """
    part = [context.hosts[host].part for host in context.ranks["host"].to_list()]
    driving = {at for at, device in zip(part, context.ranks["device"].to_list(), strict=True) if device is not None}
    every = set(part)
    own, together = _first_part_of_machine(context, every - driving), _first_part_of_machine(context, every)
    begun, ended = (
        zip(*(context.wall_clock_bounds[at] or (None, None) for at in part), strict=True) if part else ((), ())
    )
    columns = {
        "part": [own.get(at, at) for at in part],
        "machine": [together[at] for at in part],
        "begun": begun,
        "closed": ended,
    }
    return pl.DataFrame({"rank": context.ranks["rank"], **columns}, strict=False).cast(pl.Int64)


def _first_part_of_machine(context: RunContext, parts: Collection[int]) -> dict[int, int]:
    """For each of these parts the first of the same machine: itself, if none is known."""
    first = dict[str, int]()
    names = {at: machine_name(context.facts[at]) if context.has_wall_clock else "" for at in sorted(parts)}
    return {at: first.setdefault(name, at) if name else at for at, name in names.items()}


def machine_name(facts: FileFacts) -> str:
    """The name of the machine that a PyTorch file records; "" without one, or for one that any machine may have."""
    name = facts.machine
    return name if name is not None and not name.startswith("localhost") else ""
