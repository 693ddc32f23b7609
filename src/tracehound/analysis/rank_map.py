"""Step time, busy share, lateness and mean kernel time of each rank in each step, to find the rank that is slow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis import kernels, steps
from tracehound.analysis.analysis_settings import ChosenSettings, Setting, parse_whole_number
from tracehound.analysis.clocks import offset_notes
from tracehound.analysis.devices.missing_data import no_steps_note
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.ranks.collective_matching import match_collectives, no_shared_collectives_notes
from tracehound.analysis.ranks.last_arrivals import (
    LATENESS_DEFINITION,
    is_send_or_receive,
    last_arrivals,
    sends_and_receives_notes,
)
from tracehound.analysis.ranks.process_groups import smallest_groups
from tracehound.analysis.ranks.rank_collectives import rank_calls_in_steps
from tracehound.analysis.ranks.rank_step_values import (
    BY_SETTING,
    KERNEL_SETTING,
    LATENESS_NOT_COMPUTED,
    VALUE_SETTING,
    headline_note,
    order_rows,
    shown_value,
)
from tracehound.analysis.result import (
    Analysis,
    Column,
    Options,
    Result,
    concat_tables,
    empty_result,
    make_result,
)
from tracehound.analysis.timing.device_busy import FOREVER
from tracehound.analysis.timing.rank_steps import PARTIAL_STEPS_DEFINITION as PARTIAL
from tracehound.analysis.timing.rank_steps import inferred_steps_note, partial_steps_notes
from tracehound.formats.assembly.arrow_storage import to_arrow_bytes
from tracehound.model.notes import Note, note
from tracehound.model.stacked_frames import StackedFrames, stacks_of
from tracehound.model.units import format_ranks

DEFINITION = f"""\
A row for each rank and step, with four values. The map shows one of them (the setting value), a row of characters for
each rank or for several ranks; a cell for several ranks or steps shows the worst of them. All rows are in csv and json.

step time and busy are duration and busy of the analysis steps: a step lasts from its mark to the end of the work that
it launched, and busy is the share of that time in which the device works. A window keeps the steps whose marks overlap
it, at full length.

{LATENESS_DEFINITION} It is that of stragglers, without its setting least: 0 for a rank that came last to no
collective of the step, empty for one without a matched collective in the step. Sends and receives are left out.
Collectives outside of all steps count for no row, and a window keeps those in it. Ranks of a synchronous job wait for
each other, so a slow one makes the steps of all ranks longer: late tells which one it is.

Lateness is the only value that compares calls of different ranks: it needs the calls of all ranks in memory at once,
some 600 bytes each. If these are more than the setting calls, it is computed only where the map shows it (value=late).

kernel = mean length, as in kernels, of the kernels of the step whose names contain the setting kernel, in any case.
A kernel belongs to the step that launched it (without a known launch to the one in which it began). count has their
number. kernel=NAME alone shows this value.

The mean of a rank is that of its steps (of kernel that of all executions). by=value puts the rank with the worst mean
first: the longest times, the smallest busy share. by=host puts the ranks of one machine together, by=group those of
one process group. process_group is the smallest group of several ranks that the file of the rank lists with it
(distributedInfo of PyTorch), empty if it lists none.

{PARTIAL}"""

CALLS_SETTING: Final = Setting(
    "calls",
    "2,000,000",
    "most collective calls of all ranks for which lateness is computed without value=late",
    parse_whole_number,
)

COLUMNS = (
    Column("rank", "count", "rank"),
    Column("host", "text", "machine or process that drives it"),
    Column("process_group", "text", "smallest process group of several ranks with it", brief=False),
    Column("device", "text", "what the rank runs on", brief=False),
    Column("step", "count", "number of the step"),
    Column("start", "instant", "start of the step since the trace began", brief=False),
    Column("step_time", "time", "from the step's mark to the end of its work"),
    Column("busy", "share", "device works", "the step"),
    Column("late", "time", "time from the median arrival of the others to its own where it came last"),
    Column("kernel", "time", "mean length of the chosen kernels in the step"),
    Column("count", "count", "executions of these kernels", brief=False),
    Column("partial", "flag", "the recording began or ended inside the step, or its end is unknown", brief=False),
    Column("inferred", "flag", "the step is not marked by the profiler", brief=False),
    Column("event", "id", "the mark of the step"),
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """One row with two tables as bytes: `steps`, some numbers for each step, and the `calls` of collectives.

    The calls are compressed, some 30 bytes each, and `call_count` is their number: they are read only for lateness.
    """
    rows = _measure_steps(rank_trace, KERNEL_SETTING.value_in(options.given))
    calls = pl.DataFrame() if rank_trace.is_only_rank or rows.is_empty() else rank_calls_in_steps(rank_trace)
    return pl.DataFrame(
        {
            "steps": [to_arrow_bytes(rows, "zstd")],
            "calls": [to_arrow_bytes(calls, "zstd") if calls.height else b""],
            "call_count": [calls.height],
        }
    )


def _measure_steps(rank_trace: RankTrace, kernel: str) -> pl.DataFrame:
    """A row for each step: its time and busy share as in `steps`, and the mean length of the chosen kernels; ps."""
    rows = steps.per_rank(rank_trace, Options()).select(
        "rank",
        "step",
        "name",
        "start",
        pl.col("duration").alias("step_time"),
        pl.when("works").then(pl.col("work") / pl.col("duration")).fill_nan(None).alias("busy"),
        "partial",
        "unended",
        "inferred",
        "event",
    )
    return rows.join(_kernels_of_steps(rank_trace, kernel), on="step", how="left", maintain_order="left")


def _kernels_of_steps(rank_trace: RankTrace, kernel: str) -> pl.DataFrame:
    """For each `step` with kernels whose names contain a text their mean length `kernel` (ps) and their `count`."""
    if not kernel:
        return pl.DataFrame(schema={"step": pl.Int64, "kernel": pl.Int64, "count": pl.Int64})
    whole = replace(rank_trace, device=rank_trace.device_anytime, start=-FOREVER, end=FOREVER)
    rows = kernels.kernel_executions(whole, "step")
    names = rows["name"].unique().cast(pl.String).drop_nulls()
    chosen = names.filter(names.str.to_lowercase().str.contains(kernel.lower(), literal=True))
    return (
        rows.filter(pl.col("name").cast(pl.String).is_in(chosen.implode()) & pl.col("step").is_not_null())
        .group_by(pl.col("step").cast(pl.Int64))
        .agg(
            (pl.col("length").sum() / pl.len()).round().cast(pl.Int64).alias("kernel"),
            pl.len().cast(pl.Int64).alias("count"),
        )
    )


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row for each rank and step, by rank, by host, by process group, or the rank with the worst mean first."""
    packed = pl.concat(stacks_of(tables)) if tables else pl.DataFrame()
    steps_of_ranks = StackedFrames(map(pl.read_ipc_stream, packed["steps"] if tables else ()))
    rows = concat_tables(steps_of_ranks)
    if rows.is_empty():
        return empty_result(ANALYSIS, context, options, no_steps_note(context))
    value = shown_value(options.given)
    lateness, notes = _lateness(packed, context, options.given)
    hosts = context.ranks.select(
        pl.col("rank").cast(pl.Int64),
        pl.col("host").replace_strict({at: host.name for at, host in enumerate(context.hosts)}, return_dtype=pl.String),
        pl.col("label").alias("device"),
        pl.col("rank")
        .replace_strict(_group_texts(context), default=None, return_dtype=pl.String)
        .alias("process_group"),
    )
    table = rows.join(hosts, on="rank", how="left").join(lateness, on=("rank", "step"), how="left")
    table = order_rows(table, value, BY_SETTING.value_in(options.given))
    marks = [inferred_steps_note(rows.filter("inferred")["name"])] if rows["inferred"].any() else []
    sentences = [headline_note(table, value), *partial_steps_notes(rows, "mean"), *marks, *notes]
    return make_result(ANALYSIS, table, context, options, sentences)


def _group_texts(context: RunContext) -> dict[int, str]:
    """The smallest process group of each rank with its members: ``3: ranks 0, 8``."""
    groups = smallest_groups(context)
    texts = {group: f"{group.name}: {format_ranks(group.ranks)}" for group in set(groups.values())}
    return {rank: texts[group] for rank, group in groups.items()}


def _lateness(packed: pl.DataFrame, context: RunContext, given: ChosenSettings) -> tuple[pl.DataFrame, list[Note]]:
    """For each `rank` and `step` with a matched collective how `late` the rank was, in ps; and notes."""
    unknown = pl.DataFrame(schema={"rank": pl.Int64, "step": pl.Int64, "late": pl.Int64})
    count, most = int(packed["call_count"].sum()), CALLS_SETTING.value_in(given)
    if not count:
        return unknown, []
    if count > most and shown_value(given) != "late":
        return unknown, [note(LATENESS_NOT_COMPUTED, calls=count, most=most)]
    calls_of_ranks = StackedFrames(pl.read_ipc_stream(data) for data in packed["calls"] if data)
    matching = match_collectives(calls_of_ranks, context)
    calls = matching.multi_rank_calls
    if calls.is_empty():
        return unknown, no_shared_collectives_notes(matching, context)
    left_out = is_send_or_receive(calls)
    met = calls.filter(~left_out)
    late = last_arrivals(met).select("rank", "step", "late")
    found = met.select("rank", "step").unique().join(late, on=("rank", "step"), how="left")
    notes = [*offset_notes(matching.clocks), *sends_and_receives_notes(left_out), *matching.notes]
    return found.drop_nulls("step").with_columns(pl.col("late").fill_null(0)), notes


ANALYSIS = Analysis(
    name="rank_map",
    title="Rank map",
    question="Which rank is slow, less busy or late, and in which steps?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    rests_on_recorded_work=True,
    settings=(VALUE_SETTING, BY_SETTING, KERNEL_SETTING, CALLS_SETTING),
    combine_settings=("value", "by", "calls"),
)
