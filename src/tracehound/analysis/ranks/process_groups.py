"""Which ranks meet each other in collectives, who of them is in this trace, and who is not.

Owns the reading of the members of groups, as PyTorch and HLO spell them. Sees the small tables of `calls`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import polars as pl

from tracehound.analysis.ranks.unnamed_groups import supposed
from tracehound.analysis.result import Scene
from tracehound.file_facts import FileFacts
from tracehound.formats.hlo import members as hlo_members
from tracehound.notes import Note, note
from tracehound.trace import schema

_ELIDED: Final = "..."
_HLO: Final = "replica_groups"
_MOST_NOTES: Final = 6
_LARGEST: Final = 1_000_000
"""A job with more ranks than this is none: the number is wrong."""

_PLACED: Final = schema({"members": pl.String(), "number": pl.Int64(), "rank": pl.Int64()})
_KNOWN: Final = schema({"members": pl.String(), "number": pl.Int64(), "expected": pl.List(pl.Int64())})


class Circled(NamedTuple):
    """Calls with the `circle` they belong to, a number that the calls of ranks that meet each other have in common.

    `calls` also has group_size (ranks of the group: what the file says, else as far as this trace tells), fellows (how
    many ranks of this trace are in it), lowest and highest of these, and whether the file of the rank has groups
    `listed`; a `piece` has grown to the whole message, which is null where the size of the group is not known; the
    `stream` is that of the first rank of the circle. `circles` has the ranks of this trace that are `expected` in each
    circle: those the file names, else those that were seen.
    """

    calls: pl.DataFrame
    circles: pl.DataFrame
    notes: tuple[Note, ...]


def circled(calls: pl.DataFrame, scene: Scene, clocks: pl.DataFrame) -> Circled:
    """Put the calls of all ranks, in the schema `CALLS`, into their circles.

    Where calls do not name the members of their group, the file may list those of each group (`distributedInfo`). Where
    it does not either, groups that go by one name are told apart by their sizes alone: what more ranks have a name than
    its size allows are several groups, and nothing tells whose. Of which group calls that name none are is `supposed`,
    by the `clocks` of the ranks (see `machines`).
    """
    files, strangers = _files(scene), _strangers(scene)
    own = {rank: {each.ranks for each in facts.groups if rank in each.ranks} for rank, facts in files.items()}
    groups = {rank: listed for rank, listed in own.items() if listed and rank not in strangers}
    calls, inferred, doubtful = supposed(_listed(calls, files), groups, clocks)
    placed, known = _told(calls, sorted(scene.ranks["rank"].to_list()))
    size = pl.when(_unnamed()).then("size").alias("of_size")
    rows = calls.join(placed, on=["members", "rank"], how="left", maintain_order="left").with_columns(size)
    unmatched = _unmatched(rows, strangers, doubtful)
    alone = unmatched.lost | unmatched.strange | unmatched.merged | unmatched.doubtful
    rows = rows.with_columns(pl.when(alone).then(-1 - pl.col("rank")).otherwise("number").alias("number"))
    rows = rows.with_columns(pl.struct("group", "channel", "members", "of_size", "number").hash().alias("circle"))
    circles = _circles(rows, known, scene)
    ranks = pl.col("expected").list
    of_circle = circles.select(
        "circle", "sure", fellows=ranks.len().cast(pl.Int64), lowest=ranks.first(), highest=ranks.last()
    )
    rows = rows.join(of_circle, on="circle", how="left", maintain_order="left").with_columns(
        pl.coalesce("size", pl.when("sure").then("fellows")).alias("group_size")
    )
    whole = pl.when("piece").then(pl.col("bytes") * pl.col("group_size")).otherwise("bytes")
    rows = rows.with_columns(
        whole.alias("bytes"),
        pl.col("stream").first().over("circle", order_by="rank").alias("stream"),
        pl.col("rank").is_in(list(groups)).alias("listed"),
    ).drop("number", "sure", "of_size", "channel")
    here = rows["in_window"]
    return Circled(rows, circles.drop("sure"), (*_inferred(inferred & here), *unmatched.notes(here, strangers)))


class _Unmatched(NamedTuple):
    """Which calls meet no others, and why; no call is in two.

    Those of whose group the file tells too little, those of another run, those of one of several groups of one name,
    those of which nothing tells of which of several groups they are.
    """

    lost: pl.Series
    strange: pl.Series
    merged: pl.Series
    doubtful: pl.Series

    def notes(self, in_window: pl.Series, strangers: Collection[int]) -> Iterator[Note]:
        """What is to be known of them, as far as they are in the window."""
        lost, strange, merged, doubtful = (int((which & in_window).sum()) for which in self)
        if lost:
            yield note("calls_with_unknown_replica_groups", level="missing", calls=lost)
        if strange:
            yield note("calls_of_another_run", level="missing", calls=strange, ranks=tuple(sorted(strangers)))
        if merged:
            yield note("calls_with_shared_group_name", level="missing", calls=merged)
        if doubtful:
            yield note("calls_without_group", level="missing", calls=doubtful)


def _inferred(which: pl.Series) -> Iterator[Note]:
    """That groups of calls are inferred."""
    if calls := int(which.sum()):
        yield note("process_groups_inferred", level="inferred", calls=calls)


def _unmatched(rows: pl.DataFrame, strangers: Collection[int], doubtful: pl.Series) -> _Unmatched:
    """Of calls with the `number` of their group among those that its members name, or the `of_size` that tells it."""
    strange = rows["rank"].is_in(sorted(strangers))
    lost = rows.select(of_hlo() & pl.col("number").is_null()).to_series() & ~strange
    doubtful = doubtful & ~strange
    left_out = (lost | strange | doubtful).alias("left_out")
    peers = pl.col("source").is_not_null() & pl.col("destination").is_not_null()
    alike = pl.when(~pl.col("left_out")).then("rank").drop_nulls().n_unique().over("group", "members", "of_size")
    many = rows.with_columns(left_out).select((alike > pl.col("of_size")).fill_null(value=False) & ~peers).to_series()
    return _Unmatched(lost, strange, many & ~left_out, doubtful)


def of_hlo() -> pl.Expr:
    """Whether the members of a call's group are spelt as HLO does."""
    return pl.col("members").cast(pl.String).str.starts_with(_HLO).fill_null(value=False)


def _circles(rows: pl.DataFrame, known: pl.DataFrame, scene: Scene) -> pl.DataFrame:
    """The ranks that are `expected` in each `circle`, and whether these are `sure` to be all."""
    seen = rows.group_by("circle", "members", "number").agg(pl.col("rank").unique().sort().alias("seen"))
    here = pl.lit(_complete(scene)) & (pl.col("number").fill_null(0) >= 0)
    return seen.join(known, on=["members", "number"], how="left", maintain_order="left").select(
        "circle",
        pl.coalesce("expected", "seen").alias("expected"),
        (here | pl.col("expected").is_not_null()).alias("sure"),
    )


def _unnamed() -> pl.Expr:
    """Whether a call does not name all ranks of its group."""
    return pl.col("members").cast(pl.String).str.contains(_ELIDED, literal=True).fill_null(value=True)


def _files(scene: Scene) -> dict[int, FileFacts]:
    """The facts of the file of each rank that has one of its own."""
    parts = {rank: scene.hosts[host].part for rank, host in scene.ranks.select("rank", "host").iter_rows()}
    ranks = Counter(parts.values())
    return {rank: scene.facts[part] for rank, part in parts.items() if ranks[part] == 1}


def _listed(calls: pl.DataFrame, files: Mapping[int, FileFacts]) -> pl.DataFrame:
    """The calls, with the members of their groups that the rank's file lists where they do not name them themselves."""
    wanted = calls.filter(_unnamed()).select("rank", "group").unique().cast({"group": pl.String})
    asked = ((rank, group, files.get(rank, FileFacts())) for rank, group in wanted.drop_nulls().iter_rows())
    found = [(rank, group, spelled) for rank, group, facts in asked if (spelled := _members(facts, group))]
    if not found:
        return calls
    listed = pl.DataFrame(found, {"rank": pl.Int64, "group": pl.String, "listed": pl.String}, orient="row")
    listed = listed.cast({"group": pl.Categorical, "listed": pl.Categorical})
    rows = calls.join(listed, on=["rank", "group"], how="left", maintain_order="left")
    members = pl.when(_unnamed()).then(pl.coalesce("listed", "members")).otherwise("members").alias("members")
    return rows.with_columns(members).drop("listed")


def _members(facts: FileFacts, group: str) -> str:
    """The members of a process group that a file lists by its name, as calls spell them; "" where it does not."""
    return next((str(list(each.ranks)) for each in facts.groups if each.name == group), "")


def _strangers(scene: Scene) -> set[int]:
    """The ranks of files that claim a rank which another has: they are of another run, and meet nobody of this one."""
    of_part = dict[int, set[int]]()
    for rank, host in scene.ranks.select("rank", "host").iter_rows():
        of_part.setdefault(scene.hosts[host].part, set()).add(rank)
    found = set[int]()
    for part, ranks in of_part.items():
        claim = scene.facts[part].rank
        if claim is not None and claim not in ranks:
            found |= ranks
    return found


def _told(calls: pl.DataFrame, ranks: Sequence[int]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The groups that spellings of members name: where each rank of this trace is placed, and who is in each group."""
    spelt = calls.select("members").unique(maintain_order=True).drop_nulls().to_series().cast(pl.String).to_list()
    found = [(text, number, group) for text in spelt for number, group in enumerate(_groups(text, ranks))]
    members = pl.col("members").cast(pl.Categorical())
    placed = pl.DataFrame(
        [(text, number, rank) for text, number, group in found for rank in group], _PLACED, orient="row"
    )
    return placed.with_columns(members), pl.DataFrame(found, _KNOWN, orient="row").with_columns(members)


def _groups(text: str, ranks: Sequence[int]) -> list[list[int]]:
    """The ranks of this trace in each group that a spelling names; none where it does not tell.

    The ids of HLO are those of the program's devices: the ranks of this trace in their order, where there are as many.
    """
    if not text.startswith(_HLO):
        return [] if _ELIDED in text else [sorted(_numbers(text) & set(ranks))]
    groups = hlo_members.groups(text)
    if not groups:
        return [list(ranks)]
    ids = sorted(device for group in groups for device in group)
    return [sorted(ranks[device] for device in group) for group in groups] if ids == list(range(len(ranks))) else []


def _complete(scene: Scene) -> bool:
    """Whether this trace has all ranks of the job, as far as its files say how many these are."""
    return not lacking(scene)


def absent(met: pl.DataFrame, circles: pl.DataFrame) -> pl.DataFrame:
    """The collectives (`meeting`) that not all expected ranks have, with these ranks as text."""
    fewer = met.filter(pl.col("present") < pl.col("fellows")).group_by("meeting").agg(
        pl.col("circle").first(), pl.col("rank")
    )  # fmt: skip
    missing = pl.col("expected").list.set_difference("rank").list.sort().cast(pl.List(pl.String))
    return fewer.join(circles, on="circle", how="left").select("meeting", absent=missing.list.join(", "))


def absentees(calls: pl.DataFrame, scene: Scene) -> list[Note]:
    """Notes: the ranks that process groups name and this trace does not have, and those that missed a collective.

    Where no group names any, those that the job had by its size.
    """
    notes: list[Note] = []
    here = set(scene.ranks["rank"].to_list())
    named = calls.filter(pl.col("members").is_not_null()).select("group", "description", "members")
    for group, description, members in named.unique(maintain_order=True).cast(pl.String).rows():
        gone = set() if members.startswith(_HLO) or _ELIDED in members else _numbers(members) - here
        if gone:
            notes.append(
                note(
                    "process_group_ranks_missing",
                    level="missing",
                    group=group or members,
                    description=description or "",
                    ranks=tuple(sorted(gone)),
                )
            )
    if calls.height and not notes:
        notes += lacking(scene)
    more = len(notes) - _MOST_NOTES
    if more > 0:
        notes = [*notes[:_MOST_NOTES], note("more_process_group_ranks_missing", level="missing", groups=more)]
    missed = calls.filter(pl.col("absent").is_not_null()).unique("meeting")
    if missed.height:
        who = sorted({int(rank) for ranks in missed["absent"].unique().to_list() for rank in ranks.split(", ")})
        count = missed.height
        notes.append(note("collectives_without_call", level="missing", collectives=count, ranks=tuple(who)))
    return notes


def lacking(scene: Scene) -> list[Note]:
    """A note of the ranks that the job had by its size and this trace does not have; nothing without any."""
    worlds = [world for facts in scene.facts if (world := facts.world_size) is not None]
    here = set(scene.ranks["rank"].to_list())
    others = sorted(set(range(min(max(worlds, default=0), _LARGEST))) - here)
    values = (("world", max(worlds, default=0)), ("ranks", tuple(others)))
    return [Note("missing", "ranks_missing", len(others), values=values)] if others else []


def _numbers(text: str) -> set[int]:
    return {int(word) for word in re.findall(r"\d{1,9}", text)}
