"""Which rank is late, by how much in each step, and what made it late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.clocks import offset_notes
from tracehound.analysis.devices.exposed import exposed
from tracehound.analysis.ranks.activities import ACTIVITIES, activities
from tracehound.analysis.ranks.calls import CALLS, HANDED_ON, OF_STEPS, calls_of_steps
from tracehound.analysis.ranks.causes import DEFINITION as CAUSES
from tracehound.analysis.ranks.causes import Cause, Causes
from tracehound.analysis.ranks.latecomers import WAITS, latecomers
from tracehound.analysis.ranks.matched import HOW, THREE_WAITS, matched, nothing_met
from tracehound.analysis.ranks.process_groups import absentees
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, blank
from tracehound.analysis.settings import Setting, length
from tracehound.intervals import union
from tracehound.notes import Note, note
from tracehound.trace import schema

DEFINITION = f"""\
A row for each step and rank that came last at a collective of it, the latest first. {HOW}
{OF_STEPS}

late = the time from the median arrival of the other ranks to its own, at all collectives of the step to which it came
last, counted once where they overlap: what the others could have saved at most. Arrivals are on the common clock of the
analysis clocks. most = the same at the collective where it is longest, and at = that collective; lasts = how many it
came last to, of which each by more than nothing. Shorter latenesses than the setting least are left out. How long a
rank was waited for, as the first note says, is the part of that in which any of the others had nothing to compute: what
overlaps computation, as the buckets of a backward pass do, waits for nobody yet. Sends and receives are left out: who
receives depends on what it is sent, and the stages of a pipeline take turns.

{THREE_WAITS}

{CAUSES}

HolisticTraceAnalysis' stragglers are ranks that start the last large NCCL kernel of a step late; it tells no cause, and
misses all kernels since NCCL 2.19. TraceLens counts how often each rank came last."""

LEAST: Final = Setting("least", "20us", "a rank that is late by less in a step is left out: jitter", length)

_MANY: Final = 3
"""Lateness that is so many times the longest of its parts comes of many of them."""

EXPLAINED: Final = 200
"""Of so many rows the cause is looked for; the rest have none."""

COLUMNS = (
    Column("step", "number", "step"),
    Column("rank", "number", "rank that came last"),
    Column("late", "time", "from the median arrival of the others to its own, over the step, overlaps once"),
    Column("cause", "text", "what it did longer than the others before that"),
    Column("excess", "time", "how much longer"),
    Column("took", "time", "own time of that on the rank", brief=False),
    Column("usual", "time", "median of the same on the other ranks", brief=False),
    Column("side", "text", "host or device"),
    Column("inside", "text", "what the cause is nested in", brief=False),
    Column("at", "text", "collective at which it was latest"),
    Column("most", "time", "how late it was there", brief=False),
    Column("lasts", "count", "collectives of the step to which it came last"),
    Column("start", "instant", "start of the longest wait for it", brief=False),
    Column("duration", "time", "length of that wait", brief=False),
    Column("event", "id", "the cause; without one the call of the collective"),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """The calls of the rank, and (with a value in `call`) what it did before each, where others may wait for it.

    Then the calls have the stretches in which they are `exposed`, too.
    """
    del options
    mine = calls_of_steps(share)
    if not mine.height:
        return mine
    if share.alone:
        return pl.concat([mine, pl.DataFrame(schema=ACTIVITIES)], how="diagonal")
    told = mine.join(exposed(share, mine), on="event", how="left", maintain_order="left")
    return pl.concat([told, activities(share, mine)], how="diagonal")


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per step and rank, the latest first."""
    table, notes = _rows(tables, scene, options)
    return answer(ANALYSIS, table, scene, options, notes)


def with_waits(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The same, whose table has the columns of `WAITS`, too, as `latecomers` wants it."""
    table, notes = _rows(tables, scene, options)
    return replace(answer(ANALYSIS, table, scene, options, notes), table=table)


def _rows(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> tuple[pl.DataFrame, list[Note]]:
    filled = [table for table in tables if table.height]
    done = [table.filter(pl.col("call").is_not_null()).select(ACTIVITIES.names()) for table in filled]
    found = matched([_calls(table) for table in filled], scene)
    met = found.met
    if met.is_empty():
        return pl.DataFrame(schema={**blank(COLUMNS).schema, **WAITS}), nothing_met(found, scene)
    handed = met["collective"].cast(pl.String).is_in(HANDED_ON).fill_null(value=False)
    late = _late(met.filter(~handed))
    bare = pl.concat([table.filter(pl.col("call").is_null()).select("event", "exposed") for table in filled])
    shown = _waited(late.filter(pl.col("late") >= LEAST.of(options.given)), met, bare)
    table = _explained(shown, met, Causes(found.calls, pl.concat(done)))
    few, least = late.height - shown.height, LEAST.of(options.given)
    jitter = [note("short_latenesses_left_out", latenesses=few, least=least)] if few else []
    return table, [
        *_notes(table, met, scene),
        *offset_notes(found.clocks),
        *jitter,
        *_left_out(int(handed.sum())),
        *absentees(met, scene),
        *found.notes,
    ]


def _calls(table: pl.DataFrame) -> pl.DataFrame:
    return table.filter(pl.col("call").is_null()).select(CALLS.names())


def _late(met: pl.DataFrame) -> pl.DataFrame:
    """A row for each step and rank that came last to a collective."""
    lasts = met.filter((pl.col("arrived") == pl.col("last")) & (pl.col("late") > 0))
    began = (pl.col("arrived") - pl.col("late")).alias("began")
    rows = []
    for (step, rank), each in lasts.with_columns(began).partition_by("step", "rank", as_dict=True).items():
        worst = each.sort("late", "event", descending=[True, False]).row(0, named=True)
        waits = union(each["began"].to_numpy(), each["arrived"].to_numpy())
        rows.append(
            {
                "step": step,
                "rank": rank,
                "late": waits.length,
                "at": worst["name"],
                "most": worst["late"],
                "lasts": each["meeting"].n_unique(),
                "start": worst["start"] - worst["late"],
                "duration": worst["late"],
                "call": worst["event"],
                "meeting": worst["meeting"],
                "calls": each["event"].to_list(),
            }
        )
    return pl.DataFrame(rows, schema=_LATE, infer_schema_length=None).sort(
        "late", "step", "rank", descending=[True, False, False]
    )


_LATE: Final = schema(
    {
        "step": pl.Int64(),
        "rank": pl.Int64(),
        "late": pl.Int64(),
        "at": pl.String(),
        "most": pl.Int64(),
        "lasts": pl.Int64(),
        "start": pl.Int64(),
        "duration": pl.Int64(),
        "call": pl.Int64(),
        "meeting": pl.UInt64(),
        "calls": pl.List(pl.Int64()),
    }
)


def _waited(late: pl.DataFrame, met: pl.DataFrame, bare: pl.DataFrame) -> pl.DataFrame:
    """The rows with `WAITS`: when each was late, and which ranks waited in that time with nothing to compute.

    `bare` has the stretches in which calls are `exposed`.
    """
    calls = late.select("step", "rank", event="calls").explode("event")
    lates = calls.join(met.select("event", "meeting", end="arrived", length="late"), on="event")
    lates = lates.with_columns((pl.col("end") - pl.col("length")).alias("start"))
    others = met.select("meeting", "arrived", "wait", call="event", other="rank")
    both = lates.join(others, on="meeting").filter(pl.col("rank") != pl.col("other"))
    pieces = bare.explode("exposed").drop_nulls().unnest("exposed")
    waits = both.join(pieces, left_on="call", right_on="event").with_columns(
        pl.max_horizontal("start", pl.col("arrived") + pl.col("after")).alias("start"),
        (pl.col("arrived") + pl.min_horizontal("wait", "until")).alias("end"),
    )
    waits = waits.filter(pl.col("start") < pl.col("end"))
    told = [
        lates.group_by("step", "rank").agg(pl.struct("start", "end").alias("lates")),
        waits.group_by("step", "rank").agg(pl.struct(pl.col("other").alias("rank"), "start", "end").alias("waits")),
    ]
    for each in told:
        late = late.join(each, on=["step", "rank"], how="left", nulls_equal=True, maintain_order="left")
    return late.cast(pl.Schema({**late.schema, **WAITS}))


def _explained(late: pl.DataFrame, met: pl.DataFrame, causes: Causes) -> pl.DataFrame:
    """The rows with what made them late."""
    wanted = late.head(EXPLAINED)
    there = met.filter(pl.col("meeting").is_in(wanted["meeting"].to_list())).partition_by("meeting", as_dict=True)
    found: list[Cause | None] = []
    for row in wanted.rows(named=True):
        others = there[row["meeting"],].filter(pl.col("rank") != row["rank"])
        delays, ranks = (others["start"] - others["issued"]).to_list(), others["rank"].to_list()
        if row["late"] > _MANY * row["most"]:
            found.append(causes.of_many(row["rank"], row["calls"], row["late"], ranks))
        else:
            found.append(causes.of(row["rank"], row["call"], row["most"], ranks, delays))
    said = pl.DataFrame([_said(cause) for cause in found], schema=_SAID)
    whole = pl.concat([wanted, said], how="horizontal")
    rest = pl.concat([whole, late.slice(wanted.height)], how="diagonal")
    return rest.with_columns(pl.coalesce("event", "call").alias("event"))


_SAID: Final = {
    "cause": pl.String, "excess": pl.Int64, "took": pl.Int64, "usual": pl.Int64, "side": pl.String,
    "inside": pl.String, "event": pl.Int64,
}  # fmt: skip


def _said(cause: Cause | None) -> dict[str, Any]:
    if cause is None:
        return dict.fromkeys(_SAID)
    return {
        "cause": cause.name, "excess": cause.excess, "took": cause.took, "usual": cause.usual, "side": cause.where,
        "inside": cause.inside, "event": cause.event,
    }  # fmt: skip


def _notes(table: pl.DataFrame, met: pl.DataFrame, scene: Scene) -> list[Note]:
    """Whom the others waited for most, in how many steps, and why."""
    if table.is_empty():
        return [note("no_late_rank")]
    worst = latecomers(table, scene.ranks)[0]
    marked = met["step"].drop_nulls().n_unique()
    looked = table.head(EXPLAINED)["cause"]
    blind = looked.null_count()
    unknown = [note("causes_unknown", level="missing", rows=blind, of=looked.len())] if blind else []
    ranks, steps, late, stood = worst.ranks, worst.steps, worst.late, worst.stood
    if not stood:
        return [note("late_without_waits", ranks=ranks, time=late, steps=steps, of=marked), *unknown]
    cause, excess = worst.cause, worst.excess
    waited = note("waited_for_ranks", ranks=ranks, time=stood, steps=steps, of=marked, cause=cause, excess=excess)
    return [waited, *unknown, note("waited_for_counted_once")]


def _left_out(handed: int) -> list[Note]:
    return [note("sends_and_receives_left_out", calls=handed)] if handed else []


ANALYSIS = Analysis(
    name="stragglers",
    title="Stragglers",
    question="Which rank is late, by how much in each step, and what made it late?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    settings=(LEAST,),
)
