"""Which calls on different ranks are one collective, and when each rank came to it.

Owns the matching and what follows from it for single calls: who waited, and how long the transfer took. Sees the small
tables of `calls`, and no events. The clocks of the ranks are `offsets`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.ranks import unnamed_groups
from tracehound.analysis.ranks.calls import CALLS, POINT_TO_POINT, TOGETHER, UNEVEN
from tracehound.analysis.ranks.machines import clocks
from tracehound.analysis.ranks.offsets import offsets
from tracehound.analysis.ranks.process_groups import absent, absentees, circled, lacking, of_hlo
from tracehound.analysis.result import Scene
from tracehound.intervals import Ints
from tracehound.notes import Note, note

HOW: Final = f"""\
Calls on different ranks are one collective when they have the same process group, the same collective and the same
sequence number in it (XLA: the same execution of the program by its run_id, HLO op and replica group). Where a file has
no sequence numbers, or its devices count executions each for themselves (equal run_ids are rare among them, or at
different times), calls are matched by their order among those of that group (else stream), collective, type, size and
step, and only where they overlap in time: by the wall clocks that the files have, whatever order would make of these,
the recordings do, and without steps the calls themselves. Calls that a rank lacks or has too many are matched to those
that end nearest. The ranks of a group are those that a call names, else those that the file lists for its name; where
neither tells, what more ranks have than the size of their group allows is matched with nothing: it is several groups.
{unnamed_groups.HOW}
Sends are matched to receives by both ranks and their order in the step, those of two ranks by their order alone where
the file names no peers. A kernel for several of them (batch_isend_irecv, all-to-all in a graph) of which nothing tells
the peers is matched with nothing in a group of more than two, unless no file lists the groups of its rank. What no
other rank has stays unmatched, and is counted. Where a group has ranks that are not in this trace, the last to come is
the last of those that are, and what is called transfer may be waiting for the others. A window keeps the collectives
that any rank here has a call of in it, with the calls of all."""

THREE_WAITS: Final = """\
Three numbers tell of waiting for the last rank. wait (arrivals, collectives, collective_calls) is each rank's own, from
its arrival to that of the last, also while it computes something else; over ranks it adds up. waited for (the first
note of stragglers) is the time in which any of the others had nothing to compute meanwhile, once however many they are:
what the lateness cost. synchronising (distributed) is the time by which a rank's calls are longer than the shortest of
the same collective, also while it computes, without what transfers of others hide: it needs no common clock."""

WAIT_PER_RANK: Final = "wait_per_rank"
"""The note under a table of waits."""

_AT_ONCE: Final = (*TOGETHER, "send_recv")
"""Collectives whose calls overlap in time. Who only sends or receives may leave before others come."""

_PEERS, _PAIR, _NUMBER, _RUN, _ORDER = range(5)
"""How a call is matched: by both ranks, as the only pair, by its sequence number, by its XLA execution, by order."""

_PLACES: Final = ("arrived", "present", "place")
_INTERNAL: Final = (
    "circle", "fellows", "lowest", "highest", "alike", "order", "how", "place", "applied", "machine", "begun",
    "closed", "listed",
)  # fmt: skip


NO_COLLECTIVES: Final = "no_collectives"
"""The note that there is nothing to match."""


class Matched(NamedTuple):
    """The calls of all ranks, those of one collective by the same `meeting`, and the clocks of the ranks.

    Of a window the calls are those in it, and those of other ranks that are the same collectives, whenever they ran.
    `calls` has the columns of `CALLS` and: meeting (null: no other rank here has it), present (ranks that have it),
    arrived and ended (start and end on the common clock, ps), transfer (the shortest of its calls: what the last to
    come took), wait (from arrival to the last rank's, at most the call), late (arrival less the median of the others'),
    first, last (first and last arrival), group_size (ranks of the group: what the file says, else those seen here),
    absent (text: the ranks of this trace that should have it and do not), lacked (its group has other ranks here, and
    none of them has it: what they recorded is not the same).
    """

    calls: pl.DataFrame
    clocks: pl.DataFrame
    notes: tuple[Note, ...]

    @property
    def met(self) -> pl.DataFrame:
        """The calls of collectives of two ranks and more."""
        return self.calls.filter(pl.col("meeting").is_not_null())


def matched(tables: Sequence[pl.DataFrame], scene: Scene) -> Matched:
    """Match the calls of these ranks, in the schema `CALLS`."""
    filled = [table.select(CALLS.names()) for table in tables if table.height]
    rows = pl.concat(filled) if filled else pl.DataFrame(schema=CALLS)
    parts = clocks(scene)
    rows, circles, notes = circled(rows, scene, parts)
    rows = _on_machines(_keyed(rows.join(parts, on="rank", how="left", maintain_order="left")))
    parts = parts.update(rows.select("rank", "part").unique(), on="rank")
    rows = _nearest(_at_one_time(rows, walled=scene.walled))
    found = offsets(rows)
    rows = rows.join(found.select("part", "applied"), on="part", how="left", maintain_order="left").with_columns(
        (pl.col("start") + pl.col("applied")).alias("arrived"), (pl.col("end") + pl.col("applied")).alias("ended")
    )
    rows = rows.filter(
        pl.when(pl.col("meeting").is_null()).then("in_window").otherwise(pl.col("in_window").any().over("meeting"))
    )
    notes = (*notes, *_larger(rows, complete=not lacking(scene)), *_unmatched(rows), *_by_order(rows))
    return Matched(_timed(rows, circles), _by_rank(found, parts), notes)


def latest() -> pl.Expr:
    """Of the calls of one collective: the rank that came last, null where several came last at once."""
    at_last = pl.col("rank").filter(pl.col("arrived") == pl.col("last"))
    return pl.when(at_last.n_unique() == 1).then(at_last.first())


def nothing_met(found: Matched, scene: Scene) -> list[Note]:
    """Why no collective is of two ranks: what hinders the matching first, then what helps."""
    if found.calls.is_empty() and not found.notes:
        return [note(NO_COLLECTIVES)]
    several = scene.ranks.height > 1 and not found.notes
    why = note("devices_merged" if _beside(found.calls) else "open_all_ranks")
    alone = note("no_shared_collectives", level="missing", why=None if several else why)
    return [*found.notes, alone, *absentees(found.calls, scene)]


def _beside(calls: pl.DataFrame) -> bool:
    """Whether HLO ops of a rank run beside themselves, which those of one device never do (`devices.beside`)."""
    ordered = calls.filter(of_hlo() & pl.col("device_start").is_null()).sort("rank", "group", "name", "start")
    reach = pl.col("end").cum_max().shift(1).over("rank", "group", "name")
    return bool(ordered.select((pl.col("start") < reach).any()).item())


def _by_rank(found: pl.DataFrame, parts: pl.DataFrame) -> pl.DataFrame:
    return parts.join(found, on="part", how="left", maintain_order="left")


def _keyed(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the `meeting` that their numbers or their order give them, and whether it is by `order` alone."""
    two = pl.col("fellows") == 2
    does = pl.col("collective").cast(pl.String)
    paired = does.str.contains(POINT_TO_POINT)
    peers = paired & pl.col("source").is_not_null() & pl.col("destination").is_not_null()
    other = pl.when(pl.col("rank") == pl.col("lowest")).then(pl.col("highest"))
    sender = pl.when(does.str.ends_with("send")).then("rank").otherwise(
        other.otherwise(pl.col("lowest"))
    )  # fmt: skip
    among_all = ~pl.col("listed") | pl.col("group").is_not_null() | (pl.col("group_size") == 2).fill_null(value=False)
    exchange = (does == "send_recv") & ~among_all
    size = pl.when(~does.is_in(UNEVEN) & ~paired).then("bytes")
    nothing = pl.lit(None, pl.Int64)
    how = (
        pl.when(peers).then(pl.lit(_PEERS))
        .when(paired & two).then(pl.lit(_PAIR))
        .when(paired | exchange).then(pl.lit(None))
        .when(pl.col("sequence").is_not_null()).then(pl.lit(_NUMBER))
        .when(pl.col("run").is_not_null() & pl.lit(_counted_alike(rows))).then(pl.lit(_RUN))
        .otherwise(pl.lit(_ORDER))
    )  # fmt: skip
    rows = rows.with_columns(how.cast(pl.Int8).alias("how"), sender.alias("sender"), size.alias("message"))
    by_order = pl.col("how").is_in([_PEERS, _PAIR, _ORDER])
    alike = pl.struct(
        "circle",
        "how",
        pl.when(~paired).then("collective").alias("what"),
        pl.when(by_order & ~paired).then("dtype").alias("type"),
        pl.when(by_order).then("message").alias("message"),
        pl.when(pl.col("how") == _PEERS).then("source").when(pl.col("how") == _PAIR).then("sender").alias("source"),
        pl.when(pl.col("how") == _PEERS).then("destination").otherwise(nothing).alias("destination"),
        pl.when(pl.col("how") == _NUMBER).then("sequence").when(pl.col("how") == _RUN).then("run").alias("number"),
        pl.when(pl.col("how") == _RUN).then("name").alias("op"),
    ).hash()
    rows = rows.with_columns(alike.alias("alike"), by_order.alias("order"))
    stepped = pl.when("order").then("step")
    rows = rows.with_columns(pl.struct("alike", stepped.alias("step")).hash().alias("within"))
    rows = rows.with_columns(pl.col("event").cum_count().over("within", "rank").alias("instance"))
    counts = rows.group_by("within", "rank").len().group_by("within").agg((pl.col("len").n_unique() == 1).alias("even"))
    meeting = pl.struct("within", "instance").hash()
    return (
        rows.join(counts, on="within", how="left", maintain_order="left")
        .with_columns(
            pl.when(pl.col("how").is_not_null() & (pl.col("even") | ~pl.col("order"))).then(meeting).alias("meeting")
        )
        .drop("even", "within", "instance", "sender", "message")
    )


def _on_machines(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the clock of their machine for their `part`, where nothing but order matches the calls of that.

    Of calls that are alike order may take one for another: what devices of a machine differ by is less than that.
    """
    numbered = (pl.col("how").is_in([_NUMBER, _RUN]) & (pl.col("fellows") > 1)).any().over("part")
    return rows.with_columns(pl.when(numbered).then("part").otherwise("machine").alias("part"))


def _counted_alike(rows: pl.DataFrame) -> bool:
    """Whether equal runs (XLA) are one execution: of half the calls, another rank has the same op in the same run.

    That is a rank of the same file, where there is one, with a call at the same time. TPUs count what each of them
    executes: one that also ran a program of its own has other numbers than the rest from then on.
    """
    told = rows.filter(pl.col("run").is_not_null() & (pl.col("fellows") > 1))
    alike = ("circle", "collective", "name", "run", "turn")
    rank = pl.col("rank")
    apart = (pl.col("start").max() > pl.col("end").min()).over(*alike, "part") & _at_once()
    beside = (rank.n_unique().over(*alike, "part") > 1) & ~apart
    neighbours = rank.n_unique().over("circle", "part") > 1
    numbered = told.with_columns(pl.col("event").cum_count().over(*alike[:-1], "rank").alias("turn"))
    met = numbered.select(pl.when(neighbours).then(beside).otherwise(rank.n_unique().over(alike) > 1)).to_series()
    return told.height > 0 and 2 * int(met.sum()) >= told.height


def _at_one_time(rows: pl.DataFrame, *, walled: bool) -> pl.DataFrame:
    """The rows without the meetings by order that wall clocks rule out, before these are corrected by any.

    Clocks of machines may be apart by more than a call lasts: where the step tells which calls may meet, or these need
    not overlap, only the recordings have to.
    """
    calls = pl.lit(walled) & pl.col("step").is_null() & _at_once()
    alone = pl.col("begun").max().over("meeting") > pl.col("closed").min().over("meeting")
    apart = (pl.col("start").max().over("meeting") > pl.col("end").min().over("meeting")) & calls
    ruled_out = pl.col("order") & (alone.fill_null(value=False) | apart)
    return rows.with_columns(pl.when(~ruled_out).then("meeting").alias("meeting"))


def _at_once() -> pl.Expr:
    return pl.col("collective").cast(pl.String).is_in(_AT_ONCE).fill_null(value=True)


def _nearest(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with meetings for those that order alone does not place: with what overlaps and ends nearest.

    A meeting by order whose calls do not overlap on a common clock is none.
    """
    if not rows["order"].any():
        return rows
    shift = offsets(rows).select("part", "applied")
    rows = rows.join(shift, on="part", how="left", maintain_order="left")
    begin, until = pl.col("start") + pl.col("applied"), pl.col("end") + pl.col("applied")
    apart = (begin.max().over("meeting") > until.min().over("meeting")) & pl.col("order") & _at_once()
    rows = rows.with_columns(
        pl.when(~apart).then("meeting").alias("meeting"), until.alias("until"), begin.alias("begin")
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
        rows.join(nearest, on="event", how="left", maintain_order="left")
        .with_columns(pl.coalesce("meeting", "found").alias("meeting"))
        .drop("applied", "until", "begin", "found")
    )


def _timed(rows: pl.DataFrame, circles: pl.DataFrame) -> pl.DataFrame:
    """The rows with what their collective tells of each call; those that no other rank has are in none."""
    together = pl.col("rank").n_unique().over("meeting")
    alone = pl.col("meeting").is_null() | (together < 2)
    rows = rows.with_columns(pl.when(~alone).then("meeting").alias("meeting"))
    lone, met = rows.filter(pl.col("meeting").is_null()), rows.filter(pl.col("meeting").is_not_null())
    lone = lone.with_columns(lacked=(pl.col("fellows") > 1) & (pl.col("how") != _PEERS).fill_null(value=False))
    met = met.sort("meeting", "arrived", "rank").with_columns(
        pl.len().over("meeting").cast(pl.Int64).alias("present"),
        (pl.col("end") - pl.col("start")).min().over("meeting").alias("transfer"),
        pl.col("arrived").min().over("meeting").alias("first"),
        pl.col("arrived").max().over("meeting").alias("last"),
        (pl.int_range(pl.len()).over("meeting")).alias("place"),
    )
    met = met.with_columns(
        (pl.col("last") - pl.col("arrived")).clip(upper_bound=pl.col("end") - pl.col("start")).alias("wait"),
        (pl.col("arrived") - pl.Series(_median_of_others(*(met[name].to_numpy() for name in _PLACES)))).alias("late"),
    ).join(absent(met.filter(pl.col("how") != _PEERS), circles), on="meeting", how="left", maintain_order="left")
    return (
        pl.concat([met.with_columns(lacked=pl.lit(value=False)), lone], how="diagonal_relaxed")
        .drop(_INTERNAL, strict=False)
        .sort("rank", "issued", "start", "event")
    )


def _median_of_others(arrived: Ints, size: Ints, place: Ints) -> Ints:
    """For each call the median arrival of the other calls of its collective.

    The rows are sorted by collective and arrival; `size` has how many calls it has, `place` how many are before.
    Without the call itself what is at or after it moves up by one; the median is the mean of the middle two.
    """
    first = np.arange(len(arrived)) - place
    middle = ((size - 2) // 2, (size - 1) // 2)
    low, high = (arrived[first + position + (position >= place)] for position in middle)
    return np.asarray(low + (high - low) // 2)


def _met(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("meeting").is_not_null() & (pl.col("rank").n_unique().over("meeting") > 1))


def _larger(rows: pl.DataFrame, *, complete: bool) -> list[Note]:
    """How many collectives have ranks that are not in this trace, or may have where nothing tells their size."""
    met = _met(rows).filter(~pl.col("how").is_in([_PEERS, _PAIR]))
    surely = met.filter(pl.col("group_size") > pl.col("fellows"))["meeting"].n_unique()
    maybe = 0 if complete else met.filter(pl.col("group_size").is_null())["meeting"].n_unique()
    return [
        note("collectives_incomplete", level="missing", collectives=count, sure=sure)
        for count, sure in ((surely, True), (maybe, False))
        if count
    ]


def _by_order(rows: pl.DataFrame) -> list[Note]:
    """How many calls were matched by order alone, for want of numbers or of peers."""
    met = _met(rows)
    pairs, others = (met.filter(pl.col("how") == how) for how in (_PAIR, _ORDER))
    numbered = others["run"].count() > 0
    found = []
    if others.height:
        found.append(note("calls_matched_by_order", level="inferred", calls=others.height, numbered=numbered))
    if pairs.height:
        found.append(note("sends_and_receives_matched_by_order", level="inferred", calls=pairs.height))
    return found


def _unmatched(rows: pl.DataFrame) -> list[Note]:
    """How many calls no other rank has, though their group has more ranks here."""
    alone = rows.filter((pl.col("rank").n_unique().over("meeting") < 2) | pl.col("meeting").is_null())
    alone = alone.filter(pl.col("fellows") > 1)
    if alone.is_empty():
        return []
    kinds = alone["collective"].cast(pl.String).fill_null("").unique().sort().to_list()
    blind = alone.filter(pl.col("how").is_null())
    single = blind["collective"].cast(pl.String).str.contains(POINT_TO_POINT).any()
    recordable = bool(single) and not blind["run"].count()
    numbers = {"calls": alone.height, "without_peers": blind.height, "recordable": recordable}
    return [note("calls_not_matched", level="missing", kinds=tuple(kinds), **numbers)]
