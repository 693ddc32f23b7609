"""Use of the device by kernels: of the run, of each step, or by kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import Setting, choice_parser
from tracehound.analysis.devices.missing_data import no_device_activity_remedy, no_steps_note, nothing_recorded_note
from tracehound.analysis.devices.occupancy import OCCUPANCY_DEFINITION as FILLED
from tracehound.analysis.devices.occupancy import (
    DeviceOccupancy,
    has_kernels,
    measure_occupancy,
    measured_time_columns,
    steps_only_notes,
)
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import (
    Analysis,
    Column,
    Options,
    Result,
    collect_counted_events,
    concat_tables,
    empty_result,
    make_result,
)
from tracehound.analysis.timing.device_busy import COPY_KINDS
from tracehound.analysis.timing.device_clock import clock_difference_notes, window_length_notes
from tracehound.analysis.timing.rank_steps import step_intervals
from tracehound.model.notes import Note, note

DEFINITION = f"""\
{FILLED}

The span of a run is from the start of its first step to the end of its last, each to the end of its device work;
without steps from the first work to the last; or the window. by=step has a row for each step of each rank. by=kernel
has a row for each kernel: its measures are averages over the time in which it runs, with the SM efficiency of that
kernel alone."""

BY_SETTING: Final = Setting(
    "by",
    "run",
    "what a row is: the run of a rank, a step of a rank, or a kernel of a rank",
    choice_parser("run", "step", "kernel"),
)

_SPAN_COLUMNS: Final = (
    Column("utilization", "share", "kernels run", "the span"),
    Column("sm_efficiency", "share", "multiprocessors taken by blocks", "the span"),
)
_OCCUPANCY_COLUMNS: Final = (
    Column("occupancy", "share", "estimated achieved occupancy", "the warps that the device holds, while kernels run"),
    Column("blocks_per_sm", "decimal", "blocks of the grid on each multiprocessor, averaged over kernel time"),
    Column(
        "occupancy_limit",
        "share",
        "upper limit of occupancy, from the number of threads",
        "the threads that the device holds",
        brief=False,
    ),
    Column("known", "share", "kernels whose blocks are known", "kernel time", brief=False),
    Column("derived", "flag", "blocks per SM are computed, not recorded", brief=False),
)

COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("device", "text", "what the rank runs on", brief=False),
    Column("span", "time", "first step to last, or first work to last, or the window"),
    *_SPAN_COLUMNS,
    *_OCCUPANCY_COLUMNS,
    Column("kernels", "count", "kernels that have a length"),
)
BY_STEP_COLUMNS: Final = (
    Column("step", "count", "number of the step"),
    Column("rank", "count", "rank"),
    Column("start", "instant", "start of the step", brief=False),
    Column("duration", "time", "from the step's mark to the end of its work"),
    *_SPAN_COLUMNS,
    *_OCCUPANCY_COLUMNS,
    Column("event", "id", "the mark of the step"),
)
BY_KERNEL_COLUMNS: Final = (
    Column("name", "text", "kernel"),
    Column("rank", "count", "rank"),
    Column("count", "count", "executions that have a length"),
    Column("total", "time", "sum of lengths"),
    Column("share", "share", "this kernel", "the time of all kernels of the rank"),
    Column("sm_efficiency", "share", "multiprocessors taken by its blocks", "its time"),
    *_OCCUPANCY_COLUMNS,
    Column("event", "id", "the longest execution"),
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The rows of a rank; none where no kernel runs."""
    row_kind = BY_SETTING.value_in(options.given)
    device = measure_occupancy(
        replace(rank_trace, device=rank_trace.device_anytime) if row_kind == "step" else rank_trace
    )
    if device.kernels.is_empty() and not (rank_trace.windowed and has_kernels(rank_trace)):
        return pl.DataFrame()
    rows = {"run": _run_row, "step": _step_rows, "kernel": _kernel_rows}[row_kind](rank_trace, device, options)
    low, high = device.own_span
    if row_kind == "step" and rows.height:
        low, high = map(int, rows.select(pl.col("from").min(), pl.col("until").max()).row(0))
    elif row_kind == "kernel":
        low, high = _kernel_bounds(rank_trace, device)
    counts = device.kernel_counts(low, high)
    run_columns = {"kernels": counts["all kernels"], "derived": counts["derived kernels"] > 0}
    return rows.with_columns(**({} if row_kind == "kernel" else run_columns)).with_columns(
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
        pl.lit(rank_trace.label, pl.String).alias("device"),
        pl.lit(rank_trace.capacity.multiprocessors, pl.Int64).alias("multiprocessors"),
        **counts,
        **measured_time_columns(rank_trace, device),
    )


def _kernel_bounds(rank_trace: RankTrace, device: DeviceOccupancy) -> tuple[int, int]:
    """The bounds in which single kernels are counted: those of the window, or none."""
    return device.own_span if rank_trace.windowed else (0, np.iinfo(np.int64).max)


def _run_row(rank_trace: RankTrace, device: DeviceOccupancy, options: Options) -> pl.DataFrame:
    del rank_trace, options
    start, end = (np.array([bound], np.int64) for bound in device.own_span)
    return device.mean_measures(start, end).with_columns(pl.Series("span", end - start))


def _step_rows(rank_trace: RankTrace, device: DeviceOccupancy, options: Options) -> pl.DataFrame:
    """A row for each step, with its bounds on the device's own clock (`from`, `until`) and its traced length."""
    del options
    if rank_trace.steps.is_empty():
        return pl.DataFrame()
    steps_in_window = step_intervals(rank_trace, device.events.filter(~pl.col("kind").is_in(COPY_KINDS)), "work")
    if rank_trace.windowed:
        steps_in_window = steps_in_window.filter(rank_trace.is_chosen_step)
    start, end = steps_in_window["start"].to_numpy(), steps_in_window["end"].to_numpy()
    device_start, device_end = device.to_device_clock(start, end)
    steps = steps_in_window.select(pl.col("step").cast(pl.Int64), "start", "event").with_columns(
        pl.Series("duration", device_end - device_start),
        pl.Series("traced", end - start),
        pl.Series("from", device_start),
        pl.Series("until", device_end),
    )
    return pl.concat([steps, device.mean_measures(device_start, device_end)], how="horizontal")


def _kernel_rows(rank_trace: RankTrace, device: DeviceOccupancy, options: Options) -> pl.DataFrame:
    """Averages over the time of each kernel that lies in the window, or in the run."""
    low, high = _kernel_bounds(rank_trace, device)
    length = (pl.col("end").clip(upper_bound=high) - pl.col("start").clip(lower_bound=low)).alias("length")
    rows = device.kernels.with_columns(length).filter((pl.col("start") < high) & (pl.col("end") > low))

    def mean(value: pl.Expr) -> pl.Expr:
        weight = pl.col("length").filter(value.is_not_null()).sum()
        return ((value * pl.col("length")).sum() / weight).fill_nan(None)

    blocks = pl.col("blocks")
    return (
        rows.group_by("name", maintain_order=True)
        .agg(
            pl.col("id").n_unique().cast(pl.Int64).alias("count"),
            pl.col("length").sum().alias("total"),
            mean(blocks.clip(upper_bound=1.0)).alias("sm_efficiency"),
            mean(pl.col("occupancy")).alias("occupancy"),
            mean(blocks).alias("blocks_per_sm"),
            mean(pl.col("limit")).alias("occupancy_limit"),
            (pl.col("length").filter(blocks.is_not_null()).sum() / pl.col("length").sum())
            .fill_nan(None)
            .alias("known"),
            pl.col("derived").any(),
            pl.col("id").get(pl.col("length").arg_max()).alias("event"),
            *collect_counted_events(options, pl.col("id").unique(maintain_order=True)),
        )
        .with_columns(
            (pl.col("total") / pl.col("total").sum()).fill_nan(None).alias("share"), pl.col("name").cast(pl.String)
        )
    )


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The rows of all ranks: by rank, by step and rank, or the kernels that take the most time first."""
    row_kind = BY_SETTING.value_in(options.given)
    analysis = ANALYSIS.with_shown_columns(options.given)
    rows = concat_tables(tables)
    if rows.is_empty():
        return empty_result(analysis, context, options, _why_empty(row_kind, context))
    order = {"run": ["rank"], "step": ["step", "rank", "start"], "kernel": ["total", "name", "rank"]}[row_kind]
    table = rows.sort(order, descending=[name == "total" for name in order])
    only_run_notes = steps_only_notes(rows) if row_kind == "run" else []
    notes = [
        *_total_notes(table, row_kind),
        *only_run_notes,
        *measure_doubt_notes(rows, context),
        *_clock_notes(table, row_kind, context),
    ]
    return make_result(analysis, table, context, options, notes)


def _clock_notes(table: pl.DataFrame, row_kind: str, context: RunContext) -> list[Note]:
    """A note where steps, or the window, have other lengths on the clocks of the devices."""
    if row_kind == "step":
        return clock_difference_notes("steps", table["duration"], table["traced"])
    return window_length_notes(table["span"], context) if row_kind == "run" else []


def _why_empty(row_kind: str, context: RunContext) -> Note:
    if row_kind == "step" and context.steps.is_empty():
        return no_steps_note(context)
    return nothing_recorded_note(context, note("no_kernels"), no_device_activity_remedy(context))


def _total_notes(table: pl.DataFrame, row_kind: str) -> list[Note]:
    """A note with the share of kernel time over all ranks, or all steps."""
    if row_kind == "kernel" or table.height < 2:
        return []
    length = table["span" if row_kind == "run" else "duration"]
    total_length = int(length.sum())
    busy = float((table["utilization"] * length).sum())
    return [note("kernel_time_total", share=busy / total_length)] if total_length else []


def measure_doubt_notes(rows: pl.DataFrame, context: RunContext) -> list[Note]:
    """Notes on measures that were not recorded, derived, or implausible; `rows` has columns of `per_rank`."""
    ranks = rows.unique("rank", keep="first", maintain_order=True)
    if not ranks["all kernels"].sum():
        return [note("no_kernels_in_window")]
    impossible, instant = (int(ranks[f"{name} kernels"].sum()) for name in ("strange", "instant"))
    notes = _gpu_notes(rows, ranks) if _may_have_gpus(ranks, context) else [note("no_gpus")]
    if instant:
        notes.append(note("kernels_without_length", kernels=instant))
    if impossible:
        notes.append(note("kernel_values_impossible", values=impossible))
    of_all, occupied = (int(ranks[name].sum()) for name in ("kernel time", "occupied time"))
    if 0 < occupied < _MOSTLY_KNOWN * of_all:
        notes.append(note("occupancy_of_part", level="missing", share=occupied / of_all))
    return notes


def _may_have_gpus(ranks: pl.DataFrame, context: RunContext) -> bool:
    """True if some of these ranks may be GPUs."""
    labels = context.ranks.filter(pl.col("rank").is_in(ranks["rank"].to_list()))["label"]
    return not labels.str.contains("^(TPU|CPU)").all()


def _gpu_notes(rows: pl.DataFrame, ranks: pl.DataFrame) -> list[Note]:
    """Notes on SM efficiency and occupancy that are unknown or derived."""
    notes = []
    kernels, derived, impossible = (int(ranks[f"{name} kernels"].sum()) for name in ("all", "derived", "strange"))
    if rows["occupancy"].null_count() == rows.height:
        limited = rows["occupancy_limit"].null_count() < rows.height
        code = "occupancy_impossible" if impossible else "occupancy_not_recorded"
        notes.append(note(code, level="missing", limited=limited))
    if derived:
        sms = tuple(sorted(set(ranks["multiprocessors"].to_list()) - {0}))
        notes.append(
            note("blocks_per_sm_derived", level="inferred", derived=derived, kernels=kernels, multiprocessors=sms)
        )
    if rows["blocks_per_sm"].null_count() == rows.height:
        notes.append(note("blocks_per_sm_unknown", level="missing"))
    elif (known_share := float(rows["known"].drop_nulls().to_numpy().min())) < _MOSTLY_KNOWN:
        notes.append(note("kernels_without_grid", level="missing", share=1 - known_share, rows=rows.height))
    return notes


_MOSTLY_KNOWN: Final = 0.999
"""Where a smaller share of the kernel time is known, efficiency is a lower bound and has a note."""

ANALYSIS = Analysis(
    name="utilization",
    title="Utilization",
    question="How well do kernels use the device: utilization, SM efficiency, occupancy?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    rests_on_recorded_work=True,
    count_column="count",
    settings=(BY_SETTING,),
    columns_by_setting={"step": BY_STEP_COLUMNS, "kernel": BY_KERNEL_COLUMNS},
)
