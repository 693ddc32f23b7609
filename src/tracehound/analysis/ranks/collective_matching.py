"""Collective calls of all ranks, matched by process group and sequence number, with arrivals, waits and transfers.

Sees the small tables of `rank_collectives`, and no events. `clock_offsets` estimates the clocks of the ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.rank_trace import RunContext
from tracehound.analysis.ranks import process_groups
from tracehound.analysis.ranks.clock_offsets import estimate_clock_offsets, rank_clocks
from tracehound.analysis.ranks.looked_up_columns import add_columns_of
from tracehound.analysis.ranks.process_groups import (
    assign_calls_to_groups,
    has_hlo_members,
    missing_job_ranks_notes,
    missing_rank_notes,
    missing_ranks_by_collective,
)
from tracehound.analysis.ranks.rank_collectives import (
    CALL_SCHEMA,
    POINT_TO_POINT_PATTERN,
    SYNCHRONIZING_KINDS,
    UNEVEN_KINDS,
)
from tracehound.model.notes import Note, note
from tracehound.model.stacked_frames import stacks_of
from tracehound.numeric.intervals import Ints, Mask

MATCHING_DEFINITION: Final = f"""\
Calls on different ranks are one collective if they have the same process group, the same collective and the same
sequence number in it (XLA: the same execution of the program by its run_id, HLO op and replica group). If a file has
no sequence numbers, or its devices count executions on their own (equal run_ids are rare among them, or at different
times), calls are matched by their order among those of that group (or else stream), collective, type, size and step.
They are matched only if they overlap in time: by the files' wall clocks, the recordings must overlap, and without
steps the calls themselves. If a rank lacks calls or has too many, calls are matched to those that end nearest. The
ranks of a group are those that a call names, or else those that the file lists for its name; if neither tells, and
more ranks have calls than the group's size allows, nothing is matched, since these are several groups.
{process_groups.UNNAMED_GROUPS_DEFINITION} Sends are matched to receives by both ranks and their order in the step; if
the file names no peers, only those of two ranks are matched, by order. A kernel for several of them
(batch_isend_irecv, all-to-all in a graph) without known peers is not matched in a group of more than two, unless no
file lists the groups of its rank. Calls that no other rank has stay unmatched, and are counted. If a group has ranks
that are not in this trace, last is the last of those here, and transfer may include waiting for the others. A window
keeps the collectives of which any rank here has a call in it, with the calls of all ranks."""

WAITS_DEFINITION: Final = """\
Three numbers measure waiting for the last rank. wait (arrivals, collectives, collective_calls) is per rank: from its
arrival to that of the last rank, even while it computes something else. Over ranks it adds up. The waiting in the
headline of stragglers is the time in which at least one of the other ranks had nothing to compute meanwhile, counted
once for all ranks: the cost of the lateness. synchronizing (distributed) is the time by which a rank's calls are
longer than the shortest call of the same collective, even while it computes, without waiting that is hidden by
transfers of other collectives. It needs no common clock."""

WAIT_PER_RANK_NOTE: Final = "wait_per_rank"
"""Code of the note under a table of waits."""

_OVERLAPPING_KINDS: Final = (*SYNCHRONIZING_KINDS, "send_recv")
"""Collectives whose calls overlap in time. Ranks that only send or receive may leave before others come."""

_BY_PEERS, _BY_PAIR, _BY_NUMBER, _BY_RUN, _BY_ORDER = range(5)
"""How a call is matched: by both ranks, as the only pair, by its sequence number, by its XLA execution, by order."""

_MEDIAN_COLUMNS: Final = ("arrived", "present", "place")
_INTERNAL_COLUMNS: Final = (
    "circle", "fellows", "lowest", "highest", "alike", "order", "how", "place", "applied", "machine", "begun",
    "closed", "listed",
)  # fmt: skip


NO_COLLECTIVES_NOTE: Final = "no_collectives"
"""Code of the note that there is nothing to match."""


class MatchedCalls(NamedTuple):
    """The calls of all ranks, those of one collective with equal `meeting`, and the clocks of the ranks.

    In a window the calls are those in it, and those of other ranks in the same collectives, at any time. `calls` has
    the columns of `CALL_SCHEMA` and: meeting (null: no other rank here has it), present (ranks that have it), arrived
    and ended (start and end on the common clock, ps), transfer (the shortest of its calls: the time of the last rank),
    wait (from arrival to the last rank's, at most the call), late (arrival less the median of the others'), first, last
    (first and last arrival), group_size (ranks of the group: from the file, else those seen here), absent (text: the
    ranks of this trace that should have it and do not), lacked (its group has other ranks here, and none of them has
    it: they did not record the same).
    """

    calls: pl.DataFrame
    clocks: pl.DataFrame
    notes: tuple[Note, ...]

    @property
    def multi_rank_calls(self) -> pl.DataFrame:
        """The calls of collectives of two or more ranks."""
        return self.calls.filter(pl.col("meeting").is_not_null())


def match_collectives(tables: Sequence[pl.DataFrame], context: RunContext) -> MatchedCalls:
    """Match the calls of these ranks, in the schema `CALL_SCHEMA`."""
    rows = _concat_calls(tables)
    parts = rank_clocks(context)
    rows, circles, notes = assign_calls_to_groups(rows, context, parts)
    rows = _use_machine_clocks(_assign_collective_ids(add_columns_of(parts, rows, "rank")))
    parts = parts.update(rows.select("rank", "part").unique(), on="rank")
    rows = _match_nearest_ends(_drop_impossible_matches(rows, walled=context.has_wall_clock))
    found = estimate_clock_offsets(rows)
    rows = add_columns_of(found.select("part", "applied"), rows, "part").with_columns(
        (pl.col("start") + pl.col("applied")).alias("arrived"), (pl.col("end") + pl.col("applied")).alias("ended")
    )
    rows = rows.filter(
        pl.when(pl.col("meeting").is_null()).then("in_window").otherwise(pl.col("in_window").any().over("meeting"))
    )
    notes = (
        *notes,
        *_incomplete_notes(rows, complete=not missing_job_ranks_notes(context)),
        *_unmatched_notes(rows),
        *_matched_by_order_notes(rows),
    )
    return MatchedCalls(_add_waits(rows, circles), _clocks_per_rank(found, parts), notes)


def _concat_calls(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The calls of all ranks, in the order of ranks and of issue."""
    filled = (table.select(CALL_SCHEMA.names()) for table in stacks_of(tables) if table.height)
    return pl.concat([pl.DataFrame(schema=CALL_SCHEMA), *filled], rechunk=True)


def last_rank_column() -> pl.Expr:
    """Aggregation of the calls of one collective: the rank that came last, null if several came last at once."""
    at_last = pl.col("rank").filter(pl.col("arrived") == pl.col("last"))
    return pl.when(at_last.n_unique() == 1).then(at_last.first())


def no_shared_collectives_notes(found: MatchedCalls, context: RunContext) -> list[Note]:
    """Notes on why no collective has two ranks: obstacles first, then remedies."""
    if found.calls.is_empty() and not found.notes:
        return [note(NO_COLLECTIVES_NOTE)]
    several = context.ranks.height > 1 and not found.notes
    why = note("devices_merged" if _has_concurrent_ops(found.calls) else "open_all_ranks")
    alone = note("no_shared_collectives", level="missing", why=None if several else why)
    return [*found.notes, alone, *missing_rank_notes(found.calls, context)]


def _has_concurrent_ops(calls: pl.DataFrame) -> bool:
    """True if an HLO op of a rank overlaps itself, which it never does on one device.

    See `missing_data.count_concurrent_executions`.
    """
    ordered = calls.filter(has_hlo_members(calls) & calls["device_start"].is_null()).sort(
        "rank", "group", "name", "start"
    )
    reach = pl.col("end").cum_max().shift(1).over("rank", "group", "name")
    return bool(ordered.select((pl.col("start") < reach).any()).item())


def _clocks_per_rank(found: pl.DataFrame, parts: pl.DataFrame) -> pl.DataFrame:
    return parts.join(found, on="part", how="left", maintain_order="left")


def _assign_collective_ids(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the `meeting` from their numbers or their order, and whether it is by `order` alone."""
    two = pl.col("fellows") == 2
    does = pl.col("collective").cast(pl.String)
    paired = does.str.contains(POINT_TO_POINT_PATTERN)
    peers = paired & pl.col("source").is_not_null() & pl.col("destination").is_not_null()
    other = pl.when(pl.col("rank") == pl.col("lowest")).then(pl.col("highest"))
    sender = pl.when(does.str.ends_with("send")).then("rank").otherwise(
        other.otherwise(pl.col("lowest"))
    )  # fmt: skip
    among_all = ~pl.col("listed") | pl.col("group").is_not_null() | (pl.col("group_size") == 2).fill_null(value=False)
    exchange = (does == "send_recv") & ~among_all
    size = pl.when(~does.is_in(UNEVEN_KINDS) & ~paired).then("bytes")
    nothing = pl.lit(None, pl.Int64)
    how = (
        pl.when(peers).then(pl.lit(_BY_PEERS))
        .when(paired & two).then(pl.lit(_BY_PAIR))
        .when(paired | exchange).then(pl.lit(None))
        .when(pl.col("sequence").is_not_null()).then(pl.lit(_BY_NUMBER))
        .when(pl.col("run").is_not_null() & pl.lit(_runs_agree(rows))).then(pl.lit(_BY_RUN))
        .otherwise(pl.lit(_BY_ORDER))
    )  # fmt: skip
    rows = rows.with_columns(how.cast(pl.Int8).alias("how"), sender.alias("sender"), size.alias("message"))
    by_order = pl.col("how").is_in([_BY_PEERS, _BY_PAIR, _BY_ORDER])
    alike = pl.struct(
        "circle",
        "how",
        "sparse",
        pl.when(~paired).then("collective").alias("what"),
        pl.when(by_order & ~paired).then("dtype").alias("type"),
        pl.when(by_order).then("message").alias("message"),
        pl.when(pl.col("how") == _BY_PEERS)
        .then("source")
        .when(pl.col("how") == _BY_PAIR)
        .then("sender")
        .alias("source"),
        pl.when(pl.col("how") == _BY_PEERS).then("destination").otherwise(nothing).alias("destination"),
        pl.when(pl.col("how") == _BY_NUMBER)
        .then("sequence")
        .when(pl.col("how") == _BY_RUN)
        .then("run")
        .alias("number"),
        pl.when(pl.col("how") == _BY_RUN).then("name").alias("op"),
    ).hash()
    rows = rows.with_columns(alike.alias("alike"), by_order.alias("order"))
    stepped = pl.when("order").then("step")
    rows = rows.with_columns(pl.struct("alike", stepped.alias("step")).hash().alias("within"))
    instance, even = _number_instances(rows["within"].to_numpy(), rows["rank"].to_numpy())
    rows = rows.with_columns(pl.Series("instance", instance))
    known = pl.col("how").is_not_null() & (pl.Series(even) | ~pl.col("order"))
    meeting = pl.when(known).then(pl.struct("within", "instance").hash()).alias("meeting")
    return rows.with_columns(meeting).drop("within", "instance", "sender", "message")


def _number_instances(key: npt.NDArray[np.uint64], rank: Ints) -> tuple[Ints, Mask]:
    """The number of each call among those of its rank with the same key, and whether all ranks have as many of them.

    A rank has mostly one call of a key: a group for each would take ten times the memory of one sort.
    """
    order = np.lexsort((rank, key))
    sorted_key, sorted_rank = key[order], rank[order]
    is_new_key = np.append(True, sorted_key[1:] != sorted_key[:-1])[: len(order)]
    first = np.flatnonzero(is_new_key | np.append(True, sorted_rank[1:] != sorted_rank[:-1])[: len(order)])
    counts = np.diff(first, append=len(order))
    of_key = np.flatnonzero(is_new_key[first])
    is_even = np.minimum.reduceat(counts, of_key) == np.maximum.reduceat(counts, of_key) if len(order) else of_key > 0
    instance, even = np.empty(len(order), np.int64), np.empty(len(order), np.bool_)
    instance[order] = np.arange(len(order)) - np.repeat(first, counts)
    even[order] = np.repeat(np.repeat(is_even, np.diff(of_key, append=len(first))), counts)
    return instance, even


def _use_machine_clocks(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the clock of their machine for their `part`, if its calls are matched by order alone.

    Order may mix up similar calls: the devices of a machine differ by less than that.
    """
    numbered = (pl.col("how").is_in([_BY_NUMBER, _BY_RUN]) & (pl.col("fellows") > 1)).any().over("part")
    return rows.with_columns(pl.when(numbered).then("part").otherwise("machine").alias("part"))


def _runs_agree(rows: pl.DataFrame) -> bool:
    """True if equal runs (XLA) are one execution: for half the calls, another rank has the same op in the same run.

    That is a rank of the same file, if there is one, with a call at the same time. Each TPU counts its own executions:
    one that also ran another program has other numbers than the rest from then on.
    """
    numbered_calls = rows.filter(pl.col("run").is_not_null() & (pl.col("fellows") > 1))
    alike = ("circle", "collective", "name", "run", "turn")
    rank = pl.col("rank")
    disjoint = (pl.col("start").max() > pl.col("end").min()).over(*alike, "part") & _must_overlap()
    beside = (rank.n_unique().over(*alike, "part") > 1) & ~disjoint
    neighbors = rank.n_unique().over("circle", "part") > 1
    numbered = numbered_calls.with_columns(pl.col("event").cum_count().over(*alike[:-1], "rank").alias("turn"))
    met = numbered.select(pl.when(neighbors).then(beside).otherwise(rank.n_unique().over(alike) > 1)).to_series()
    return numbered_calls.height > 0 and 2 * int(met.sum()) >= numbered_calls.height


def _drop_impossible_matches(rows: pl.DataFrame, *, walled: bool) -> pl.DataFrame:
    """The rows without the meetings by order that uncorrected wall clocks exclude.

    Clocks of machines may differ by more than the length of a call: if the step limits the candidates, or calls need
    not overlap, only the recordings have to overlap.
    """
    calls = pl.lit(walled) & pl.col("step").is_null() & _must_overlap()
    alone = pl.col("begun").max().over("meeting") > pl.col("closed").min().over("meeting")
    disjoint = (pl.col("start").max().over("meeting") > pl.col("end").min().over("meeting")) & calls
    ruled_out = pl.col("order") & (alone.fill_null(value=False) | disjoint)
    return rows.with_columns(pl.when(~ruled_out).then("meeting").alias("meeting"))


def _must_overlap() -> pl.Expr:
    return pl.col("collective").cast(pl.String).is_in(_OVERLAPPING_KINDS).fill_null(value=True)


def _match_nearest_ends(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with meetings for calls that order alone cannot match: with the overlapping call that ends nearest.

    A meeting by order whose calls do not overlap on a common clock is dropped.
    """
    if not rows["order"].any():
        return rows
    shift = estimate_clock_offsets(rows).select("part", "applied")
    rows = add_columns_of(shift, rows, "part")
    begin, until = pl.col("start") + pl.col("applied"), pl.col("end") + pl.col("applied")
    disjoint = (begin.max().over("meeting") > until.min().over("meeting")) & pl.col("order") & _must_overlap()
    rows = rows.with_columns(
        pl.when(~disjoint).then("meeting").alias("meeting"), until.alias("until"), begin.alias("begin")
    )
    loose = rows.filter(pl.col("order") & pl.col("meeting").is_null())
    if loose.is_empty():
        return rows.drop("applied", "until", "begin")
    counts = loose.group_by("alike", "rank").len().sort("len", "rank", descending=[True, False])
    most = counts.unique("alike", keep="first", maintain_order=True).select("alike", leader="rank")
    led = loose.join(most, on="alike").sort("until")
    anchors = led.filter(pl.col("rank") == pl.col("leader")).select(
        "alike", "until", anchor="event", opens="begin", first="begun", last="closed"
    )
    closes = anchors.with_columns(closes="until")
    nearest = (
        led.join_asof(closes, on="until", by="alike", strategy="nearest", check_sortedness=False)
        .filter((pl.col("opens") <= pl.col("until")) & (pl.col("closes") >= pl.col("begin")))
        .filter(((pl.col("first") <= pl.col("closed")) & (pl.col("last") >= pl.col("begun"))).fill_null(value=True))
        .sort((pl.col("until") - pl.col("closes")).abs(), "event")
        .unique(["anchor", "rank"], keep="first", maintain_order=True)
        .select("event", found=pl.struct("alike", "anchor").hash())
    )
    return (
        add_columns_of(nearest, rows, "event")
        .with_columns(pl.coalesce("meeting", "found").alias("meeting"))
        .drop("applied", "until", "begin", "found")
    )


def _add_waits(rows: pl.DataFrame, circles: pl.DataFrame) -> pl.DataFrame:
    """The rows with the times of their collective; calls that no other rank has are in none."""
    is_met = pl.col("meeting").is_not_null()
    rows = rows.with_columns(pl.when(pl.col("rank").n_unique().over("meeting") > 1).then("meeting").alias("meeting"))
    lacked = ~is_met & (pl.col("fellows") > 1) & (pl.col("how") != _BY_PEERS).fill_null(value=False)
    rows = rows.with_columns(lacked.alias("lacked")).with_row_index("row")
    length = pl.col("end") - pl.col("start")
    met = rows.select("row", "meeting", "arrived", "rank", "how", "circle", "fellows", length=length).filter(is_met)
    met = met.sort("meeting", "arrived", "rank").with_columns(
        pl.len().over("meeting").cast(pl.Int64).alias("present"),
        pl.col("length").min().over("meeting").alias("transfer"),
        pl.col("arrived").min().over("meeting").alias("first"),
        pl.col("arrived").max().over("meeting").alias("last"),
        (pl.int_range(pl.len()).over("meeting")).alias("place"),
    )
    median = pl.Series(_median_of_others(*(met[name].to_numpy() for name in _MEDIAN_COLUMNS)))
    met = met.with_columns(
        (pl.col("last") - pl.col("arrived")).clip(upper_bound="length").alias("wait"),
        (pl.col("arrived") - median).alias("late"),
    )
    absent = missing_ranks_by_collective(met.filter(pl.col("how") != _BY_PEERS), circles)
    times = met.select("row", "present", "transfer", "first", "last", "wait", "late")
    rows = rows.drop(_INTERNAL_COLUMNS, strict=False)
    return add_columns_of(absent, add_columns_of(times, rows, "row").drop("row"), "meeting")


def _median_of_others(arrived: Ints, size: Ints, place: Ints) -> Ints:
    """For each call the median arrival of the other calls of its collective.

    The rows are sorted by collective and arrival; `size` is the number of its calls, `place` the number of those
    before. Without the call itself the calls at or after it move up by one; the median is the mean of the middle two.
    """
    first = np.arange(len(arrived)) - place
    middle = ((size - 2) // 2, (size - 1) // 2)
    low, high = (arrived[first + position + (position >= place)] for position in middle)
    return np.asarray(low + (high - low) // 2)


def _shared_calls(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("meeting").is_not_null() & (pl.col("rank").n_unique().over("meeting") > 1))


def _incomplete_notes(rows: pl.DataFrame, *, complete: bool) -> list[Note]:
    """Notes on collectives with ranks that are not in this trace, or may be if their size is unknown."""
    met = _shared_calls(rows).filter(~pl.col("how").is_in([_BY_PEERS, _BY_PAIR]))
    surely = met.filter(pl.col("group_size") > pl.col("fellows"))["meeting"].n_unique()
    maybe = 0 if complete else met.filter(pl.col("group_size").is_null())["meeting"].n_unique()
    return [
        note("collectives_incomplete", level="missing", collectives=count, sure=sure)
        for count, sure in ((surely, True), (maybe, False))
        if count
    ]


def _matched_by_order_notes(rows: pl.DataFrame) -> list[Note]:
    """Notes on calls matched by order alone, for lack of numbers or peers."""
    met = _shared_calls(rows)
    pairs, others = (met.filter(pl.col("how") == how) for how in (_BY_PAIR, _BY_ORDER))
    numbered = others["run"].count() > 0
    found = []
    if others.height:
        found.append(note("calls_matched_by_order", level="inferred", calls=others.height, numbered=numbered))
    if pairs.height:
        found.append(note("sends_and_receives_matched_by_order", level="inferred", calls=pairs.height))
    return found


def _unmatched_notes(rows: pl.DataFrame) -> list[Note]:
    """Notes on calls that no other rank has, though their group has more ranks here."""
    alone = rows.filter((pl.col("rank").n_unique().over("meeting") < 2) | pl.col("meeting").is_null())
    alone = alone.filter(pl.col("fellows") > 1)
    if alone.is_empty():
        return []
    kinds = alone["collective"].cast(pl.String).fill_null("").unique().sort().to_list()
    blind = alone.filter(pl.col("how").is_null())
    single = blind["collective"].cast(pl.String).str.contains(POINT_TO_POINT_PATTERN).any()
    recordable = bool(single) and not blind["run"].count()
    numbers = {"calls": alone.height, "without_peers": blind.height, "recordable": recordable}
    return [note("calls_not_matched", level="missing", kinds=tuple(kinds), **numbers)]
