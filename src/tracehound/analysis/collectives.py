"""Collectives by name, type, process group and size: times, message sizes, bandwidths, and the last rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.analysis_settings import Setting, choice_parser
from tracehound.analysis.clocks import offset_notes
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.ranks import rank_collectives
from tracehound.analysis.ranks.collective_matching import (
    MATCHING_DEFINITION,
    NO_COLLECTIVES_NOTE,
    WAIT_PER_RANK_NOTE,
    WAITS_DEFINITION,
    last_rank_column,
    match_collectives,
)
from tracehound.analysis.ranks.process_groups import missing_rank_notes
from tracehound.analysis.ranks.rank_collectives import rank_calls
from tracehound.analysis.result import (
    Analysis,
    Column,
    Options,
    Result,
    collect_counted_events,
    empty_result,
    make_result,
)
from tracehound.model.notes import Note, note
from tracehound.model.stacked_frames import stacks_of

DEFINITION = f"""\
Collectives are the communication kernels of NCCL, RCCL and similar libraries (by the collective's name that the
profiler recorded, or else by the kernel's name), HLO ops with collective opcodes, and in CPU-only PyTorch traces
gloo's ranges on its threads. Lengths include waiting for the last rank. message is that of one rank; for collectives
that gather or scatter, the larger side. Sums of lengths include what other work hides; exposed communication is in
breakdown.

{MATCHING_DEFINITION}

transfer = the shortest call of a collective on any rank, which is that of the last to come. wait = from the arrival of
a rank to that of the last, at most the length of its call. skew = from the first to the last arrival. Both are on the
common clock of the analysis clocks. last = the rank that came last most often; if several came last at once, none
counts. If only one rank here has the collective, transfer is its whole call, waiting included, and bandwidths are
lower bounds. If ranks of the group have no call here, it is known how long the present ranks waited, but not who came
last: if the row has complete collectives, such a call does not count in transfer, skew, last and the bandwidths. A
call of a TPU's asynchronous collective lasts from the start of its start to the end of its done, and transfer, wait
and skew use that length. total, mean, min and max count only the time of the start and the done, in which the core
does nothing else; async_overlap shows the time in between, which hides the rest. A collective on a TPU's SparseCore is
a call that lasts while it runs there, unless an asynchronous one of the TensorCore starts it and waits for it.

{WAITS_DEFINITION}

{rank_collectives.BANDWIDTH_DEFINITION}

TraceLens has the same transfer ("comm latency"), wait and bandwidths, but matches by order only. The PyTorch
TensorBoard plugin counts the host's range around a collective as communication, too."""

BY_SETTING: Final = Setting(
    "by",
    "size",
    "what a row is: a name, type, group and message size, or all sizes together",
    choice_parser("size", "name"),
)

COLUMNS = (
    Column("name", "text", "kernel, HLO op or range"),
    Column("count", "count", "executions over all ranks", brief=False),
    Column("message", "bytes", "mean message of one rank"),
    Column("total", "time", "sum of lengths, waiting included"),
    Column("mean", "time", "total / count", brief=False),
    Column("min", "time", "shortest", brief=False),
    Column("max", "time", "longest", brief=False),
    Column("transfer", "time", "mean of the shortest call of all ranks (that of the last to come)", brief=False),
    Column("wait", "time", "time from arrival to the last rank's arrival, summed over all ranks"),
    Column("skew", "time", "mean time from the first to the last arrival", brief=False),
    Column("last", "text", "rank that came last most often, and how often", non_key=True),
    Column("algorithm", "rate", "algorithm bandwidth: message / transfer", brief=False),
    Column("bus", "rate", "bus bandwidth of nccl-tests"),
    Column("collective", "text", "collective", brief=False),
    Column("dtype", "text", "type of the elements", brief=False),
    Column("process_group", "text", "process group; the stream or program if none is recorded", brief=False),
    Column("group_size", "count", "ranks of the group", brief=False),
    Column("bytes", "bytes", "messages of all executions together", brief=False),
    Column("sized", "count", "executions whose size is known", brief=False),
    Column("ranks", "count", "ranks here on which it ran", brief=False),
    Column("matched", "count", "executions that were matched with those of other ranks", brief=False),
    Column("event", "id", "the longest"),
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The calls of the rank."""
    del options
    return rank_calls(rank_trace)


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row per name, type, group and size; the largest total first."""
    if not any(table["in_window"].any() for table in stacks_of(tables) if table.height):
        return empty_result(ANALYSIS, context, options, note(NO_COLLECTIVES_NOTE))
    matching = match_collectives(tables, context)
    bounds = pl.col("window_start"), pl.col("window_end")
    wait_in_window = (pl.col("start") + pl.col("wait")).clip(*bounds) - pl.col("start").clip(*bounds)
    rows = matching.calls.with_columns(
        pl.coalesce("description", "group", "stream").alias("process_group"),
        wait_in_window.alias("wait"),
        last_rank_column().over("meeting").alias("latest"),  # both sides of an exchange have their own names and rows
    ).filter("in_window")
    row_keys = ["name", "collective", "dtype", "process_group", "group_size"]
    if BY_SETTING.value_in(options.given) == "size":
        row_keys.append("message")
        rows = rows.with_columns(pl.col("bytes").alias("message"))
    summed = rows.group_by(row_keys).agg(
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
        *collect_counted_events(options, "event"),
    )
    table = summed.join(_average_collectives(rows, row_keys), on=row_keys, how="left", nulls_equal=True).with_columns(
        pl.col("message_mean").alias("message"),
        pl.when(pl.col("sized") > 0).then("bytes").alias("bytes"),
        pl.when(pl.col("matched") > 0).then("wait").alias("wait"),
        rank_collectives.bus_factor_column().alias("factor"),
    )
    order = ("total", "name", "process_group", "message", "collective", "dtype", "group_size")
    rated = table.with_columns(rank_collectives.bandwidth_columns(pl.col("moved"), pl.col("took"))).sort(
        order, descending=[name in ("total", "message") for name in order]
    )
    waits = [note(WAIT_PER_RANK_NOTE)] if rated["wait"].count() else []
    notes = [
        *_notes(rated),
        *offset_notes(matching.clocks),
        *missing_rank_notes(matching.calls, context),
        *matching.notes,
        *waits,
    ]
    return make_result(ANALYSIS, rated, context, options, notes)


def _average_collectives(rows: pl.DataFrame, row_keys: Sequence[str]) -> pl.DataFrame:
    """Averages over whole collectives, by `row_keys`: transfer, skew, and the rank that came last most often."""
    length = pl.col("end") - pl.col("start")
    calls = rows.with_columns(
        pl.struct("meeting", pl.when(pl.col("meeting").is_null()).then("event")).alias("instance"),
        pl.coalesce("transfer", length).alias("transfer"),
        (pl.col("absent").is_null() & ~pl.col("lacked")).alias("whole"),
    )
    complete_calls = calls.filter(pl.col("whole") | ~pl.col("whole").any().over(row_keys))
    collectives = complete_calls.group_by(*row_keys, "instance").agg(
        pl.col("transfer").first(),
        pl.col("bytes").max(),
        (pl.col("last") - pl.col("first")).first().alias("skew"),
        pl.when(pl.col("present").first() > 1).then(pl.col("latest").first()).alias("who"),
    )
    sized = pl.col("bytes") > 0
    last_counts = collectives.filter(pl.col("who").is_not_null()).group_by(*row_keys, "who").len()
    most_often_last = (
        last_counts.sort("len", "who", descending=[True, False]).group_by(row_keys, maintain_order=True).first()
    )
    last_names = most_often_last.select(*row_keys, pl.format("{} ({})", "who", "len").alias("last"))
    return (
        collectives.group_by(row_keys)
        .agg(
            pl.col("transfer").mean().round().cast(pl.Int64),
            pl.col("skew").mean().round().cast(pl.Int64),
            pl.col("transfer").filter(sized).sum().alias("took"),
            pl.col("bytes").filter(sized).sum().alias("moved"),
        )
        .join(last_names, on=row_keys, how="left", nulls_equal=True)
    )


_ASYNC_OP_PATTERN: Final = r"-start|^(?:send|recv)\b"
"""Matches names of ops that start what another op ends."""

_STREAM_PATTERN: Final = r"^stream \d+$"
"""Matches names of streams, which stand in for process groups."""


def _notes(table: pl.DataFrame) -> list[Note]:
    """Notes on what the table leaves open: unknown sizes and groups, unmatched rows, impossible bandwidths."""
    without_size = int(table["count"].sum()) - int(table["sized"].sum())
    notes = [note("sizes_not_recorded", level="missing", executions=without_size)] if without_size else []
    streams = pl.col("process_group").cast(pl.String).str.contains(_STREAM_PATTERN)
    if without_group := int(table.filter(streams)["count"].sum()):
        notes.append(note("process_groups_not_recorded", level="missing", executions=without_group))
    unmatched_rows = table.filter(pl.col("matched") == 0).height
    if unmatched_rows:
        notes.append(note("transfers_include_wait", level="missing", rows=unmatched_rows, of=table.height))
    is_async_half = pl.col("name").cast(pl.String).str.contains(_ASYNC_OP_PATTERN)
    if table.filter(is_async_half & (pl.col("transfer") > pl.col("max"))).height:
        notes.append(note("asynchronous_transfers"))
    impossible_rows = table.filter(pl.col("algorithm").is_null() & (pl.col("took") > 0) & (pl.col("moved") > 0)).height
    if impossible_rows:
        notes.append(note("bandwidths_impossible", rows=impossible_rows))
    return notes


ANALYSIS = Analysis(
    name="collectives",
    title="Collectives",
    question="Which collectives ran, how long did they take, how much did they move, and who came last?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    count_column="count",
    settings=(BY_SETTING,),
)
