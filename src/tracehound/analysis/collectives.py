"""Which collectives ran, how long they took, how much they moved and how fast, and who was waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.clocks import offset_notes
from tracehound.analysis.members import gathered
from tracehound.analysis.ranks import bus
from tracehound.analysis.ranks.calls import calls
from tracehound.analysis.ranks.matched import HOW, NO_COLLECTIVES, THREE_WAITS, WAIT_PER_RANK, latest, matched
from tracehound.analysis.ranks.process_groups import absentees
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, without
from tracehound.analysis.settings import Setting, one_of
from tracehound.notes import Note, note

DEFINITION = f"""\
Collectives are the communication kernels of NCCL, RCCL and their like (by the collective's name that the profiler
recorded, else by the kernel's name), the HLO ops of collective opcodes, and on CPU-only PyTorch runs gloo's ranges on
its threads. The lengths include the wait for the last participant. message is that of one rank: of collectives that
gather or scatter, the larger side. exposed time is in the breakdown: summing lengths counts what other work hides.

{HOW}

transfer = the shortest call of a collective on any rank: what the last to come took. wait = from the arrival of a rank
to that of the last, at most its call; skew = from the first to the last arrival; both on the common clock of the
analysis clocks. last = the rank that came last most often; where several came last at once, none did. Of a collective
that only one rank here has, transfer is that call, its wait included, and the bandwidths are what it is at least. A
collective that other ranks of its group here have no call of tells how long those waited that have one, but not who
came last: where others of the row are whole, it does not count in transfer, skew, last and the bandwidths. A call of an
asynchronous collective of a TPU lasts from the beginning of its start to the end of its done: so long take transfer,
wait and skew. total, mean, min and max count the time of the start and the done alone, in which the core does nothing
else; what lies between, and hides the rest, is in async_overlap.

{THREE_WAITS}

{bus.DEFINITION}

TraceLens has the same transfer ("comm latency"), wait and bandwidths, but matches by order alone. The PyTorch
TensorBoard plugin counts the host's range around a collective as communication, too."""

BY: Final = Setting(
    "by", "size", "what a row is: a name, type, group and message size, or all sizes together", one_of("size", "name")
)

COLUMNS = (
    Column("name", "text", "kernel, HLO op or range"),
    Column("count", "count", "executions over all ranks", brief=False),
    Column("message", "bytes", "message of one rank, on average"),
    Column("total", "time", "sum of lengths, waiting included"),
    Column("mean", "time", "total / count", brief=False),
    Column("min", "time", "shortest", brief=False),
    Column("max", "time", "longest", brief=False),
    Column("transfer", "time", "average of the shortest of all ranks: what the last to come took", brief=False),
    Column("wait", "time", "from the arrival to the last rank's, summed over all ranks"),
    Column("skew", "time", "average from the first to the last arrival", brief=False),
    Column("last", "text", "rank that came last most often, and how often", found=True),
    Column("algorithm", "rate", "algorithm bandwidth: message / transfer", brief=False),
    Column("bus", "rate", "bus bandwidth of nccl-tests"),
    Column("collective", "text", "what it does", brief=False),
    Column("dtype", "text", "type of the elements", brief=False),
    Column("process_group", "text", "process group; where none is recorded, the stream or program", brief=False),
    Column("group_size", "count", "ranks of the group", brief=False),
    Column("bytes", "bytes", "messages of all executions together", brief=False),
    Column("sized", "count", "executions whose size is known", brief=False),
    Column("ranks", "count", "ranks here on which it ran", brief=False),
    Column("matched", "count", "executions that were matched with those of other ranks", brief=False),
    Column("event", "id", "the longest"),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """The calls of the rank."""
    del options
    return calls(share)


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per name, type, group and size; the largest total first."""
    if not any(table["in_window"].any() for table in tables if table.height):
        return without(ANALYSIS, scene, options, note(NO_COLLECTIVES))
    found = matched(tables, scene)
    bounds = pl.col("window_start"), pl.col("window_end")
    waited = (pl.col("start") + pl.col("wait")).clip(*bounds) - pl.col("start").clip(*bounds)
    rows = found.calls.with_columns(
        pl.coalesce("description", "group", "stream").alias("process_group"),
        waited.alias("wait"),
        latest().over("meeting").alias("latest"),  # the sides of an exchange have names, and rows, of their own
    ).filter("in_window")
    alike = ["name", "collective", "dtype", "process_group", "group_size"]
    if BY.of(options.given) == "size":
        alike.append("message")
        rows = rows.with_columns(pl.col("bytes").alias("message"))
    summed = rows.group_by(alike).agg(
        pl.len().cast(pl.Int64).alias("count"),
        pl.col("length").sum().alias("total"),
        pl.col("length").mean().round().cast(pl.Int64).alias("mean"),
        pl.col("length").min().alias("min"),
        pl.col("length").max().alias("max"),
        pl.col("wait").sum(),
        pl.col("bytes").sum(),
        pl.col("bytes").mean().round().cast(pl.Int64).alias("message_mean"),
        pl.col("bytes").count().cast(pl.Int64).alias("sized"),
        pl.col("rank").n_unique().cast(pl.Int64).alias("ranks"),
        pl.col("present").count().cast(pl.Int64).alias("matched"),
        pl.col("event").sort_by("length", "rank", "event", descending=[True, False, False]).first(),
        *gathered(options, "event"),
    )
    table = summed.join(_instances(rows, alike), on=alike, how="left", nulls_equal=True).with_columns(
        pl.col("message_mean").alias("message"),
        pl.when(pl.col("sized") > 0).then("bytes").alias("bytes"),
        pl.when(pl.col("matched") > 0).then("wait").alias("wait"),
        bus.factor().alias("factor"),
    )
    order = ("total", "name", "process_group", "message", "collective", "dtype", "group_size")
    shown = table.with_columns(bus.rates(pl.col("moved"), pl.col("took"))).sort(
        order, descending=[name in ("total", "message") for name in order]
    )
    waits = [note(WAIT_PER_RANK)] if shown["wait"].count() else []
    notes = [*_notes(shown), *offset_notes(found.clocks), *absentees(found.calls, scene), *found.notes, *waits]
    return answer(ANALYSIS, shown, scene, options, notes)


def _instances(rows: pl.DataFrame, alike: Sequence[str]) -> pl.DataFrame:
    """What is true of whole collectives: transfer, skew and who came last, by what is alike."""
    length = pl.col("end") - pl.col("start")
    each = rows.with_columns(
        pl.struct("meeting", pl.when(pl.col("meeting").is_null()).then("event")).alias("instance"),
        pl.coalesce("transfer", length).alias("transfer"),
        (pl.col("absent").is_null() & ~pl.col("lacked")).alias("whole"),
    )
    told = each.filter(pl.col("whole") | ~pl.col("whole").any().over(alike))
    ones = told.group_by(*alike, "instance").agg(
        pl.col("transfer").first(),
        pl.col("bytes").max(),
        (pl.col("last") - pl.col("first")).first().alias("skew"),
        pl.when(pl.col("present").first() > 1).then(pl.col("latest").first()).alias("who"),
    )
    sized = pl.col("bytes") > 0
    last = ones.filter(pl.col("who").is_not_null()).group_by(*alike, "who").len()
    most = last.sort("len", "who", descending=[True, False]).group_by(alike, maintain_order=True).first()
    named = most.select(*alike, pl.format("{} ({})", "who", "len").alias("last"))
    return (
        ones.group_by(alike)
        .agg(
            pl.col("transfer").mean().round().cast(pl.Int64),
            pl.col("skew").mean().round().cast(pl.Int64),
            pl.col("transfer").filter(sized).sum().alias("took"),
            pl.col("bytes").filter(sized).sum().alias("moved"),
        )
        .join(named, on=alike, how="left", nulls_equal=True)
    )


_HALVES: Final = r"-start|^(?:send|recv)\b"
"""How ops are called that begin what another ends."""

_STREAM: Final = r"^stream \d+$"
"""How streams are called, which stand in for process groups."""


def _notes(table: pl.DataFrame) -> list[Note]:
    """What the table cannot tell."""
    unsized = int(table["count"].sum()) - int(table["sized"].sum())
    notes = [note("sizes_not_recorded", level="missing", executions=unsized)] if unsized else []
    streams = pl.col("process_group").cast(pl.String).str.contains(_STREAM)
    if unnamed := int(table.filter(streams)["count"].sum()):
        notes.append(note("process_groups_not_recorded", level="missing", executions=unnamed))
    lone = table.filter(pl.col("matched") == 0).height
    if lone:
        notes.append(note("transfers_include_wait", level="missing", rows=lone, of=table.height))
    halves = pl.col("name").cast(pl.String).str.contains(_HALVES)
    if table.filter(halves & (pl.col("transfer") > pl.col("max"))).height:
        notes.append(note("asynchronous_transfers"))
    absurd = table.filter(pl.col("algorithm").is_null() & (pl.col("took") > 0) & (pl.col("moved") > 0)).height
    if absurd:
        notes.append(note("bandwidths_impossible", rows=absurd))
    return notes


ANALYSIS = Analysis(
    name="collectives",
    title="Collectives",
    question="Which collectives ran, how long did they take, how much did they move, and who came last?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="count",
    settings=(BY,),
)
