"""Which of the process groups that files list calls are of that name none: told by who can have met whom in time.

Owns that inference. Sees the small tables of `calls`, of which those that name their group are left as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

import polars as pl

from tracehound.analysis.ranks.calls import POINT_TO_POINT, TOGETHER, UNEVEN
from tracehound.trace import schema

HOW: Final = """\
A call that names no group, of ranks whose files list several (gloo, in a mesh; NCCL in CUDA graphs), is of the largest
of these whose ranks here all have such a call at the same place of their steps, and at the same time where they are of
one machine: nobody leaves a collective that all wait for before everybody has come. Where no clock tells, it is matched
with nothing. Calls of one kind on two streams of a rank are of two groups; which stream of another rank is which of
these the order of their numbers tells, or their names where no file lists groups."""

_AMONG_SOME: Final = rf"{POINT_TO_POINT}|^send_recv$"
"""What need not be of all ranks of a group."""

_MOSTLY: Final = 0.9
"""So many of the calls of a kind have to meet: their order may mistake a few that run side by side."""

Groups = Mapping[int, Collection[tuple[int, ...]]]
"""Of every rank the members of the process groups that its file lists."""

_LISTED: Final = schema({"rank": pl.Int64(), "circle": pl.Int64(), "here": pl.Int64(), "text": pl.String()})
_ALL: Final = ""


class Supposed(NamedTuple):
    """Calls with the `members` of groups that were `told`, and those that remain `doubtful`."""

    calls: pl.DataFrame
    told: pl.Series
    doubtful: pl.Series


def supposed(calls: pl.DataFrame, groups: Groups, clocks: pl.DataFrame) -> Supposed:
    """The calls, those that name no group with the members of that of which they must be.

    Those on streams have the `channel` that streams of other ranks have in common with theirs. `clocks` has the
    `machine` of each `rank`: times are compared on its clock alone. Who sends and who receives needs no group.
    """
    several = len({members for listed in groups.values() for members in listed if len(members) > 1}) > 1
    ranks = list(groups) if several else []
    paired = pl.col("collective").cast(pl.String).str.contains(_AMONG_SOME).fill_null(value=False)
    unnamed = pl.all_horizontal(pl.col("group", "members", "size").is_null())
    calls = calls.with_columns(_channel(calls, groups).alias("channel"))
    rows = calls.with_columns((unnamed & ~paired & pl.col("rank").is_in(ranks)).alias("asked"))
    found = _chosen(_placed(rows.filter("asked")), pl.DataFrame(list(_listed(groups)), _LISTED, orient="row"), clocks)
    rows = rows.join(found, on="event", how="left", maintain_order="left")
    members = pl.coalesce(pl.col("text").replace(_ALL, None).cast(pl.Categorical), "members").alias("members")
    told = rows["text"].is_not_null()
    return Supposed(rows.with_columns(members).select(calls.columns), told, rows["asked"] & ~told)


def _channel(calls: pl.DataFrame, groups: Groups) -> pl.Expr:
    """The place of a call's stream among those of its rank with such calls; its name, where a file lists no groups.

    Numbers of streams are those of a process, which may have made others before.
    """
    stream = pl.col("stream").cast(pl.String)
    number = stream.str.extract(r"(\d+)$").cast(pl.Int64)
    place = number.rank("dense").over("rank", "collective").cast(pl.String)
    streaming = calls.filter(pl.col("stream").is_not_null())["rank"].unique()
    return pl.coalesce(place, stream) if set(streaming) <= set(groups) else stream


def _listed(groups: Groups) -> Iterator[tuple[int, int, int, str | None]]:
    """The groups of each rank that differ in who of them is here: how many these are, and the text of all members.

    Of those that differ in others alone none is known: their text is empty if they have all ranks here, else null.
    """
    spelt = dict[tuple[int, ...], set[tuple[int, ...]]]()
    for members in {members for listed in groups.values() for members in listed}:
        spelt.setdefault(tuple(rank for rank in sorted(members) if rank in groups), set()).add(members)
    for number, (here, alike) in enumerate(sorted(spelt.items())):
        unsure = _ALL if len(here) == len(groups) else None
        text = str(list(min(alike))) if len(alike) == 1 else unsure
        yield from ((rank, number, len(here), text) for rank in here if len(here) > 1)


def _placed(rows: pl.DataFrame) -> pl.DataFrame:
    """The calls with their `kind`, which is the same in all steps, and the `meeting` of all calls at one place."""
    even = ~pl.col("collective").cast(pl.String).is_in(UNEVEN).fill_null(value=False)
    kind = pl.struct("collective", "dtype", "channel", pl.when(even).then("bytes").alias("message")).hash()
    rows = rows.with_columns(kind.alias("kind"))
    rows = rows.with_columns(pl.col("event").cum_count().over("kind", "step", "rank").alias("place"))
    rows = rows.with_columns(pl.struct("kind", "step", "place").hash().alias("meeting"))
    in_step = pl.when(pl.col("step").is_not_null()).then("place")
    return rows.with_columns(pl.struct("kind", in_step.alias("place")).hash().alias("kind"))


def _chosen(rows: pl.DataFrame, listed: pl.DataFrame, clocks: pl.DataFrame) -> pl.DataFrame:
    """The `text` of the group of each call (`event`) that all its ranks here agree on."""
    together = pl.col("collective").cast(pl.String).is_in(TOGETHER)
    tried = rows.filter(together).join(clocks, on="rank").join(listed, on="rank")
    possible = (
        tried.group_by("circle", "kind", "meeting", "machine", "here")
        .agg((pl.col("start").max() <= pl.col("end").min()).alias("overlap"), pl.len())
        .group_by("circle", "kind", "meeting", "here")
        .agg(pl.col("overlap").all(), pl.col("len").sum(), (pl.col("len") > 1).any().alias("clocked"))
        .group_by("circle", "kind")
        .agg((pl.col("overlap") & (pl.col("len") == pl.col("here"))).mean().alias("met"), pl.col("clocked").any())
        .filter(pl.col("met") >= _MOSTLY)
    )
    chosen = (
        tried.select("rank", "kind", "circle", "here", "text")
        .unique()
        .join(possible, on=["circle", "kind"])
        .filter(pl.col("clocked") | (pl.len().over("rank", "kind") == 1))
        .filter(pl.col("here") == pl.col("here").max().over("rank", "kind"))
        .filter(pl.len().over("rank", "kind") == 1)
        .filter(pl.len().over("circle", "kind") == pl.col("here"))
    )
    return rows.join(chosen, on=["rank", "kind"]).select("event", "text")
