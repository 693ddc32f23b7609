"""Process groups: the ranks that meet in collectives, those in this trace, and those missing.

Parses the members of groups as PyTorch and HLO spell them, and infers the group of calls that name none from the times
at which ranks can have met. Sees the small tables of `rank_collectives`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.rank_trace import RunContext
from tracehound.analysis.ranks.looked_up_columns import add_columns_of, match_texts
from tracehound.analysis.ranks.rank_collectives import POINT_TO_POINT_PATTERN, SYNCHRONIZING_KINDS, UNEVEN_KINDS
from tracehound.formats.hlo import replica_groups as hlo_members
from tracehound.model.file_facts import FileFacts, ProcessGroup
from tracehound.model.notes import Note, note
from tracehound.model.trace import schema

_ELIDED_MEMBERS: Final = "..."
_HLO_PREFIX: Final = "replica_groups"
_MAX_NOTES: Final = 6

_GROUP_OF_RANK: Final = schema({"members": pl.Int64(), "number": pl.Int64(), "rank": pl.Int64()})
_GROUP_RANKS: Final = schema({"members": pl.Int64(), "number": pl.Int64(), "expected": pl.List(pl.Int64())})
"""`members` is the row of a spelling."""


class GroupedCalls(NamedTuple):
    """Calls with their `circle`, a number that the calls of ranks in one group have in common.

    `calls` also has group_size (ranks of the group: from the file, else as far as this trace tells), fellows (number of
    its ranks in this trace), lowest and highest of these, and `listed`, whether the file of the rank lists groups; a
    `piece` has grown to the whole message, which is null if the size of the group is unknown; the `stream` is that of
    the first rank of the circle. `circles` has the ranks of this trace `expected` in each circle: those in the file,
    else those seen.
    """

    calls: pl.DataFrame
    circles: pl.DataFrame
    notes: tuple[Note, ...]


def assign_calls_to_groups(calls: pl.DataFrame, context: RunContext, clocks: pl.DataFrame) -> GroupedCalls:
    """Assign the calls of all ranks, in the schema `CALL_SCHEMA`, to their groups.

    If calls do not name the members of their group, the file may list those of each group (`distributedInfo`).
    Otherwise groups of one name are distinguished by their sizes alone: if more ranks have a name than its size allows,
    it is several groups, and their members are unknown. Engines of a data-parallel server number their ranks and groups
    alike: members become ranks of this trace, and calls of two engines are in no circle together. `infer_groups` finds
    the group of calls that name none, by the `clocks` of the ranks (see `clock_offsets.rank_clocks`).
    """
    files, strangers = _facts_per_rank(context), _ranks_of_other_runs(context)
    own = {rank: {each.ranks for each in facts.groups if rank in each.ranks} for rank, facts in files.items()}
    groups = {rank: listed for rank, listed in own.items() if listed and rank not in strangers}
    calls = _renumber_members(calls, context)
    calls, inferred, doubtful = infer_groups(_add_listed_members(calls, files), groups, clocks)
    placed, known = _parse_members(calls, sorted(context.ranks["rank"].to_list()))
    size = pl.when(_lacks_members(calls)).then("size").alias("of_size")
    rows = add_columns_of(placed, calls, "members", "rank").with_columns(
        size,
        pl.col("rank").replace_strict(_engine_of_rank(context), default=None, return_dtype=pl.Int64).alias("engine"),
    )
    unmatched = _find_unmatched_calls(rows, strangers, doubtful)
    alone = unmatched.lost | unmatched.strange | unmatched.merged | unmatched.doubtful
    rows = rows.with_columns(pl.when(alone).then(-1 - pl.col("rank")).otherwise("number").alias("number"))
    spelling = pl.col("members").to_physical()  # the text may list thousands of ranks
    rows = rows.with_columns(
        pl.struct("group", "channel", spelling, "of_size", "number", "engine").hash().alias("circle")
    )
    circles = _ranks_per_group(rows, known, context)
    ranks = pl.col("expected").list
    of_circle = circles.select(
        "circle", "sure", fellows=ranks.len().cast(pl.Int64), lowest=ranks.first(), highest=ranks.last()
    )
    rows = add_columns_of(of_circle, rows, "circle").with_columns(
        pl.coalesce("size", pl.when("sure").then("fellows")).alias("group_size")
    )
    full_bytes = pl.when("piece").then(pl.col("bytes") * pl.col("group_size")).otherwise("bytes")
    rows = rows.with_columns(
        full_bytes.alias("bytes"),
        pl.col("stream").first().over("circle", order_by="rank").alias("stream"),
        pl.col("rank").is_in(list(groups)).alias("listed"),
    ).drop("number", "sure", "of_size", "channel", "engine")
    here = rows["in_window"]
    return GroupedCalls(
        rows, circles.drop("sure"), (*_inferred_groups_notes(inferred & here), *unmatched.notes(here, strangers))
    )


class _UnmatchedCalls(NamedTuple):
    """Masks of calls that meet no others, by reason; no call is in two.

    Calls whose group the file does not tell, calls of another run, calls of one of several groups of one name, and
    calls that may be of any of several groups.
    """

    lost: pl.Series
    strange: pl.Series
    merged: pl.Series
    doubtful: pl.Series

    def notes(self, in_window: pl.Series, strangers: Collection[int]) -> Iterator[Note]:
        """Notes about those in the window."""
        lost, strange, merged, doubtful = (int((which & in_window).sum()) for which in self)
        if lost:
            yield note("calls_with_unknown_replica_groups", level="missing", calls=lost)
        if strange:
            yield note("calls_of_another_run", level="missing", calls=strange, ranks=tuple(sorted(strangers)))
        if merged:
            yield note("calls_with_shared_group_name", level="missing", calls=merged)
        if doubtful:
            yield note("calls_without_group", level="missing", calls=doubtful)


def _inferred_groups_notes(which: pl.Series) -> Iterator[Note]:
    """A note that groups of calls are inferred."""
    if calls := int(which.sum()):
        yield note("process_groups_inferred", level="inferred", calls=calls)


def _find_unmatched_calls(rows: pl.DataFrame, strangers: Collection[int], doubtful: pl.Series) -> _UnmatchedCalls:
    """Masks of unmatched calls, which have the `number` of their group among the listed ones, or its `of_size`."""
    strange = rows["rank"].is_in(sorted(strangers))
    lost = has_hlo_members(rows) & rows["number"].is_null() & ~strange
    doubtful = doubtful & ~strange
    left_out = (lost | strange | doubtful).alias("left_out")
    peers = pl.col("source").is_not_null() & pl.col("destination").is_not_null()
    alike = (
        pl.when(~pl.col("left_out")).then("rank").drop_nulls().n_unique().over("group", "members", "of_size", "engine")
    )
    many = rows.with_columns(left_out).select((alike > pl.col("of_size")).fill_null(value=False) & ~peers).to_series()
    return _UnmatchedCalls(lost, strange, many & ~left_out, doubtful)


def smallest_groups(context: RunContext) -> dict[int, ProcessGroup]:
    """For each rank the smallest process group of several ranks that its file lists with it; the first of equal ones.

    Ranks whose files list no group are left out.
    """
    found = dict[int, ProcessGroup]()
    for rank, facts in _facts_per_rank(context).items():
        listed = [group for group in facts.groups if rank in group.ranks and len(group.ranks) > 1]
        if listed:
            found[rank] = min(listed, key=lambda group: len(group.ranks))
    return found


def has_hlo_members(calls: pl.DataFrame) -> pl.Series:
    """True for each call whose group has its members spelled as in HLO."""
    return match_texts(calls["members"], lambda text: text.str.starts_with(_HLO_PREFIX), missing=False)


def _ranks_per_group(rows: pl.DataFrame, known: pl.DataFrame, context: RunContext) -> pl.DataFrame:
    """The ranks `expected` in each `circle`, and whether these are `sure` to be all."""
    seen = rows.group_by("circle", "members", "number").agg(pl.col("rank").unique().sort().alias("seen"))
    here = pl.lit(_has_all_ranks(context)) & (pl.col("number").fill_null(0) >= 0)
    return seen.join(known, on=["members", "number"], how="left", maintain_order="left").select(
        "circle",
        pl.coalesce("expected", "seen").alias("expected"),
        (here | pl.col("expected").is_not_null()).alias("sure"),
    )


def _lacks_members(calls: pl.DataFrame) -> pl.Series:
    """True for each call that does not name all ranks of its group."""
    return match_texts(calls["members"], lambda text: text.str.contains(_ELIDED_MEMBERS, literal=True), missing=True)


def _facts_per_rank(context: RunContext) -> dict[int, FileFacts]:
    """The facts of the file of each rank that has one of its own."""
    parts = {rank: context.hosts[host].part for rank, host in context.ranks.select("rank", "host").iter_rows()}
    ranks = Counter(parts.values())
    engines = context.engine_ranks or ({},) * len(context.facts)
    return {
        rank: _renumber_groups(context.facts[part], engines[part]) for rank, part in parts.items() if ranks[part] == 1
    }


def _renumber_groups(facts: FileFacts, ranks: Mapping[int, int]) -> FileFacts:
    """The facts of a file of an engine with its groups in ranks of this trace, as far as these are here."""
    if not ranks:
        return facts
    groups = (replace(group, ranks=tuple(ranks[one] for one in group.ranks if one in ranks)) for group in facts.groups)
    return replace(facts, groups=tuple(groups))


def _engine_of_rank(context: RunContext) -> dict[int, int]:
    """For each rank of an engine the lowest rank of that engine."""
    return {rank: min(ranks.values()) for ranks in context.engine_ranks if ranks for rank in ranks.values()}


def _renumber_members(calls: pl.DataFrame, context: RunContext) -> pl.DataFrame:
    """The calls with the members of groups of engines in ranks of this trace, as far as these are here."""
    found = []
    numbers = {rank: ranks for ranks in context.engine_ranks for rank in ranks.values()}
    for rank, members in calls.select("rank", "members").unique().drop_nulls().cast({"members": pl.String}).iter_rows():
        if (ranks := numbers.get(rank)) and _ELIDED_MEMBERS not in members and not members.startswith(_HLO_PREFIX):
            here = sorted(ranks[one] for one in _parse_numbers(members) if one in ranks)
            found.append((rank, members, str(here)))
    if not found:
        return calls
    renumbered = pl.DataFrame(found, {"rank": pl.Int64, "members": pl.String, "here": pl.String}, orient="row")
    renumbered = renumbered.cast({"members": pl.Categorical, "here": pl.Categorical})
    rows = add_columns_of(renumbered, calls, "rank", "members")
    return rows.with_columns(pl.coalesce("here", "members").alias("members")).drop("here")


def _add_listed_members(calls: pl.DataFrame, files: Mapping[int, FileFacts]) -> pl.DataFrame:
    """The calls with the group members that the rank's file lists, if they do not name them themselves."""
    is_wanted = _lacks_members(calls)
    wanted = calls.filter(is_wanted).select("rank", "group").unique().cast({"group": pl.String})
    asked = ((rank, group, files.get(rank, FileFacts())) for rank, group in wanted.drop_nulls().iter_rows())
    known = ((rank, group, _listed_members(facts, group)) for rank, group, facts in asked)
    found = [(rank, group, members) for rank, group, members in known if members is not None]
    if not found:
        return calls
    numbers = {members: number for number, members in enumerate({members for _, _, members in found})}
    spelled = pl.Series([str(list(members)) for members in numbers]).cast(pl.Categorical)  # each once: it may be long
    rows_found = [(rank, group, numbers[members]) for rank, group, members in found]
    listed = pl.DataFrame(rows_found, {"rank": pl.Int64, "group": pl.String, "number": pl.Int64}, orient="row").select(
        "rank", pl.col("group").cast(pl.Categorical), pl.lit(spelled).gather(pl.col("number")).alias("listed")
    )
    rows = add_columns_of(listed, calls, "rank", "group")
    members = pl.when(is_wanted).then(pl.coalesce("listed", "members")).otherwise("members").alias("members")
    return rows.with_columns(members).drop("listed")


def _listed_members(facts: FileFacts, group: str) -> tuple[int, ...] | None:
    """The members of a process group that a file lists by its name; None if it does not."""
    return next((each.ranks for each in facts.groups if each.name == group), None)


def _ranks_of_other_runs(context: RunContext) -> set[int]:
    """The ranks of files that claim another file's rank: they are of another run, and meet nobody of this one."""
    of_part = dict[int, set[int]]()
    for rank, host in context.ranks.select("rank", "host").iter_rows():
        of_part.setdefault(context.hosts[host].part, set()).add(rank)
    found = set[int]()
    for part, ranks in of_part.items():
        claim, engine = context.facts[part].rank, context.engine_ranks[part] if context.engine_ranks else {}
        if claim is not None and claim not in ranks and not engine:
            found |= ranks
    return found


def _parse_members(calls: pl.DataFrame, ranks: Sequence[int]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The groups in spellings of members: the group of each rank of this trace, and the ranks of each group."""
    spellings = calls.select("members").unique(maintain_order=True).drop_nulls().to_series().cast(pl.String).to_list()
    members_of_groups = [
        (spelling, number, group)
        for spelling, text in enumerate(spellings)
        for number, group in enumerate(_groups_of_text(text, ranks))
    ]
    placed = [(spelling, number, rank) for spelling, number, group in members_of_groups for rank in group]
    spelled = pl.lit(pl.Series(spellings, dtype=pl.String).cast(pl.Categorical))  # each once: it may be long
    of_rank, of_group = (
        pl.DataFrame(rows, columns, orient="row").with_columns(members=spelled.gather(pl.col("members")))
        for rows, columns in ((placed, _GROUP_OF_RANK), (members_of_groups, _GROUP_RANKS))
    )
    return of_rank, of_group


def _groups_of_text(text: str, ranks: Sequence[int]) -> list[list[int]]:
    """The ranks of this trace in each group of a spelling; none if it does not tell.

    The ids of HLO are those of the program's devices: the ranks of this trace in their order, if there are as many.
    """
    if not text.startswith(_HLO_PREFIX):
        return [] if _ELIDED_MEMBERS in text else [sorted(_parse_numbers(text) & set(ranks))]
    groups = hlo_members.parse_groups(text)
    if not groups:
        return [list(ranks)]
    ids = sorted(device for group in groups for device in group)
    return [sorted(ranks[device] for device in group) for group in groups] if ids == list(range(len(ranks))) else []


def _has_all_ranks(context: RunContext) -> bool:
    """True if this trace has all ranks of the job, as far as its files tell."""
    return not missing_job_ranks_notes(context)


def missing_ranks_by_collective(met: pl.DataFrame, circles: pl.DataFrame) -> pl.DataFrame:
    """The collectives (`meeting`) that not all expected ranks have, with these ranks as text."""
    fewer = met.filter(pl.col("present") < pl.col("fellows")).group_by("meeting").agg(
        pl.col("circle").first(), pl.col("rank")
    )  # fmt: skip
    missing = pl.col("expected").list.set_difference("rank").list.sort().cast(pl.List(pl.String))
    return fewer.join(circles, on="circle", how="left").select("meeting", absent=missing.list.join(", "))


def missing_rank_notes(calls: pl.DataFrame, context: RunContext) -> list[Note]:
    """Notes about ranks that process groups name and this trace lacks, and ranks that missed a collective.

    If no group names any, the ranks that the job had by its size.
    """
    notes: list[Note] = []
    here = set(context.ranks["rank"].to_list())
    named = calls.filter(pl.col("members").is_not_null()).select("group", "description", "members")
    for group, description, members in named.unique(maintain_order=True).cast(pl.String).rows():
        gone = (
            set() if members.startswith(_HLO_PREFIX) or _ELIDED_MEMBERS in members else _parse_numbers(members) - here
        )
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
        notes += missing_job_ranks_notes(context)
    more = len(notes) - _MAX_NOTES
    if more > 0:
        notes = [*notes[:_MAX_NOTES], note("more_process_group_ranks_missing", level="missing", groups=more)]
    missed = calls.filter(pl.col("absent").is_not_null()).unique("meeting")
    if missed.height:
        who = sorted({int(rank) for ranks in missed["absent"].unique().to_list() for rank in ranks.split(", ")})
        count = missed.height
        notes.append(note("collectives_without_call", level="missing", collectives=count, ranks=tuple(who)))
    return notes


def missing_job_ranks_notes(context: RunContext) -> list[Note]:
    """A note about the ranks that the job had by its size and this trace lacks; nothing without any."""
    worlds = [world for facts in context.facts if (world := facts.world_size) is not None]
    here = set(context.ranks["rank"].to_list())
    others = sorted(set(range(max(worlds, default=0))) - here)
    values = (("world", max(worlds, default=0)), ("ranks", tuple(others)))
    return [Note("missing", "ranks_missing", len(others), values=values)] if others else []


def _parse_numbers(text: str) -> set[int]:
    return {int(word) for word in re.findall(r"\d{1,9}", text)}


UNNAMED_GROUPS_DEFINITION: Final = """\
A call without a group, of ranks whose files list several (gloo, in a mesh; NCCL in CUDA graphs), belongs to the
largest listed group whose ranks here all have such a call at the same place of their steps, and at the same time if
they are of one machine: nobody leaves a collective before everybody has come. If no clock tells, it is not matched.
Calls of one kind on two streams of a rank belong to two groups; the order of stream numbers tells which streams of two
ranks belong together, or stream names if no file lists groups."""

_PAIRWISE_PATTERN: Final = rf"{POINT_TO_POINT_PATTERN}|^send_recv$"
"""Collectives that need not be of all ranks of a group."""

_MIN_MEETING_SHARE: Final = 0.9
"""This share of the calls of a kind has to meet: their order may mix up a few that run side by side."""

ListedGroups = Mapping[int, Collection[tuple[int, ...]]]
"""For each rank the members of the process groups that its file lists."""

_LISTED_SCHEMA: Final = schema({"rank": pl.Int64(), "circle": pl.Int64(), "here": pl.Int64()})
_TEXT_SCHEMA: Final = schema({"circle": pl.Int64(), "text": pl.String()})
_ALL_RANKS: Final = ""


class InferredGroups(NamedTuple):
    """Calls with the `members` of inferred groups; masks of the calls that were `told`, and that remain `doubtful`."""

    calls: pl.DataFrame
    told: pl.Series
    doubtful: pl.Series


def infer_groups(calls: pl.DataFrame, groups: ListedGroups, clocks: pl.DataFrame) -> InferredGroups:
    """The calls, those that name no group with the members of the group that they must be of.

    Those on streams have the `channel` that streams of other ranks have in common with theirs. `clocks` has the
    `machine` of each `rank`: only times of one machine are compared. Sends and receives need no group.
    """
    several = len({members for listed in groups.values() for members in listed if len(members) > 1}) > 1
    ranks = list(groups) if several else []
    paired = pl.col("collective").cast(pl.String).str.contains(_PAIRWISE_PATTERN).fill_null(value=False)
    unnamed = pl.all_horizontal(pl.col("group", "members", "size").is_null())
    calls = calls.with_columns(_stream_channel(calls, groups).alias("channel"))
    rows = calls.with_columns((unnamed & ~paired & pl.col("rank").is_in(ranks)).alias("asked"))
    distinct = list(_distinct_listed_groups(groups)) if several else []
    circles = [(rank, number, len(here)) for number, (here, _) in enumerate(distinct) for rank in here if len(here) > 1]
    chosen = _choose_groups(
        _number_calls(rows.filter("asked")), pl.DataFrame(circles, _LISTED_SCHEMA, orient="row"), clocks
    )
    texts = pl.DataFrame([(number, text) for number, (_, text) in enumerate(distinct)], _TEXT_SCHEMA, orient="row")
    found = chosen.join(texts.cast({"text": pl.Categorical}), on="circle").select("event", "text")
    rows = add_columns_of(found, rows, "event")
    members = pl.coalesce(pl.when(pl.col("text") != _ALL_RANKS).then("text"), "members").alias("members")
    is_inferred = rows["text"].is_not_null()
    return InferredGroups(rows.with_columns(members).select(calls.columns), is_inferred, rows["asked"] & ~is_inferred)


def _stream_channel(calls: pl.DataFrame, groups: ListedGroups) -> pl.Expr:
    """The index of a call's stream among those of its rank with such calls; its name, if a file lists no groups.

    Numbers of streams are those of a process, which may have made others before.
    """
    stream = pl.col("stream").cast(pl.String)
    number = stream.str.extract(r"(\d+)$").cast(pl.Int64)
    place = number.rank("dense").over("rank", "collective").cast(pl.String)
    streaming = calls.filter(pl.col("stream").is_not_null())["rank"].unique()
    return pl.coalesce(place, stream) if set(streaming) <= set(groups) else stream


def _distinct_listed_groups(groups: ListedGroups) -> Iterator[tuple[tuple[int, ...], str | None]]:
    """The groups that differ in their ranks here: these, and the text of all members.

    Of groups that differ only in ranks elsewhere none is known: their text is empty if they have all ranks here, else
    null.
    """
    spelt = dict[tuple[int, ...], set[tuple[int, ...]]]()
    for members in {members for listed in groups.values() for members in listed}:
        spelt.setdefault(tuple(rank for rank in sorted(members) if rank in groups), set()).add(members)
    for here, alike in sorted(spelt.items()):
        unsure = _ALL_RANKS if len(here) == len(groups) else None
        yield here, str(list(min(alike))) if len(alike) == 1 else unsure


def _number_calls(rows: pl.DataFrame) -> pl.DataFrame:
    """The calls with their `kind`, which is equal in all steps, and the `meeting` of all calls at one position."""
    even = ~pl.col("collective").cast(pl.String).is_in(UNEVEN_KINDS).fill_null(value=False)
    kind = pl.struct("collective", "dtype", "channel", pl.when(even).then("bytes").alias("message")).hash()
    rows = rows.with_columns(kind.alias("kind"))
    rows = rows.with_columns(pl.col("event").cum_count().over("kind", "step", "rank").alias("place"))
    rows = rows.with_columns(pl.struct("kind", "step", "place").hash().alias("meeting"))
    in_step = pl.when(pl.col("step").is_not_null()).then("place")
    return rows.with_columns(pl.struct("kind", in_step.alias("place")).hash().alias("kind"))


def _choose_groups(rows: pl.DataFrame, listed: pl.DataFrame, clocks: pl.DataFrame) -> pl.DataFrame:
    """The group (`circle`) of each call (`event`) that all its ranks here agree on."""
    together = pl.col("collective").cast(pl.String).is_in(SYNCHRONIZING_KINDS)
    tried = rows.filter(together).join(clocks, on="rank").join(listed, on="rank")
    possible = (
        tried.group_by("circle", "kind", "meeting", "machine", "here")
        .agg((pl.col("start").max() <= pl.col("end").min()).alias("overlap"), pl.len())
        .group_by("circle", "kind", "meeting", "here")
        .agg(pl.col("overlap").all(), pl.col("len").sum(), (pl.col("len") > 1).any().alias("clocked"))
        .group_by("circle", "kind")
        .agg((pl.col("overlap") & (pl.col("len") == pl.col("here"))).mean().alias("met"), pl.col("clocked").any())
        .filter(pl.col("met") >= _MIN_MEETING_SHARE)
    )
    chosen = (
        tried.select("rank", "kind", "circle", "here")
        .unique()
        .join(possible, on=["circle", "kind"])
        .filter(pl.col("clocked") | (pl.len().over("rank", "kind") == 1))
        .filter(pl.col("here") == pl.col("here").max().over("rank", "kind"))
        .filter(pl.len().over("rank", "kind") == 1)
        .filter(pl.len().over("circle", "kind") == pl.col("here"))
    )
    return rows.join(chosen, on=["rank", "kind"]).select("event", "circle")
