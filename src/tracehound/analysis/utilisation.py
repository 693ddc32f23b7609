"""How well kernels use the device: of the run, of each step, or by kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.devices.filled import DEFINITION as FILLED
from tracehound.analysis.devices.filled import Filled, filled, of_steps, runs_kernels, spans
from tracehound.analysis.devices.silence import no_steps, nothing, remedy
from tracehound.analysis.events.busy import COPY
from tracehound.analysis.events.own_clock import clocks_apart, window_apart
from tracehound.analysis.members import gathered
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, stacked, without
from tracehound.analysis.settings import Setting, one_of
from tracehound.analysis.spans.stretches import stretches
from tracehound.notes import Note, note

DEFINITION = f"""\
{FILLED}

The span of a run is from the start of its first step to the end of its last, each as long as its device work; without
steps from the first work to the last; or the window. by=step has a row for each step of each rank, by=kernel for each
kernel: there the measures are averages over the time in which it runs, SM efficiency of the one kernel alone."""

BY: Final = Setting(
    "by",
    "run",
    "what a row is: the run of a rank, a step of a rank, or a kernel of a rank",
    one_of("run", "step", "kernel"),
)

_OF_SPAN: Final = (
    Column("utilisation", "share", "kernels run", "span"),
    Column("sm_efficiency", "share", "multiprocessors taken by blocks", "span"),
)
_FILLED: Final = (
    Column("occupancy", "share", "estimated achieved occupancy", "the warps that the device holds, while kernels run"),
    Column("blocks_per_sm", "decimal", "blocks of the grid on each multiprocessor, averaged over kernel time"),
    Column(
        "occupancy_limit", "share", "occupancy at most, by threads", "the threads that the device holds", brief=False
    ),
    Column("known", "share", "kernels whose blocks are known", "kernel time", brief=False),
    Column("derived", "flag", "blocks per SM not recorded but derived", brief=False),
)

COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("device", "text", "what the rank runs on", brief=False),
    Column("span", "time", "first step to last, or first work to last, or the window"),
    *_OF_SPAN,
    *_FILLED,
    Column("kernels", "count", "kernels that have a length"),
)
BY_STEP: Final = (
    Column("step", "count", "number of the step"),
    Column("rank", "count", "rank"),
    Column("start", "instant", "start of the step", brief=False),
    Column("duration", "time", "length of the step, until its work is done"),
    *_OF_SPAN,
    *_FILLED,
    Column("event", "id", "the mark of the step"),
)
BY_KERNEL: Final = (
    Column("name", "text", "kernel"),
    Column("rank", "count", "rank"),
    Column("count", "count", "executions that have a length"),
    Column("total", "time", "sum of lengths"),
    Column("share", "share", "this kernel", "the time of all kernels of the rank"),
    Column("sm_efficiency", "share", "multiprocessors taken by its blocks", "its time"),
    *_FILLED,
    Column("event", "id", "the longest execution"),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """The rows of a rank; none where no kernel runs."""
    by = BY.of(options.given)
    device = filled(replace(share, device=share.anytime) if by == "step" else share)
    if device.kernels.is_empty() and not (share.windowed and runs_kernels(share)):
        return pl.DataFrame()
    rows = {"run": _run, "step": _steps, "kernel": _kernels}[by](share, device, options)
    low, high = device.own_span
    if by == "step" and rows.height:
        low, high = map(int, rows.select(pl.col("from").min(), pl.col("until").max()).row(0))
    elif by == "kernel":
        low, high = _reach(share, device)
    counts = device.counts(low, high)
    of_all = {"kernels": counts["all kernels"], "derived": counts["derived kernels"] > 0}
    return rows.with_columns(**({} if by == "kernel" else of_all)).with_columns(
        pl.lit(share.rank, pl.Int64).alias("rank"),
        pl.lit(share.label, pl.String).alias("device"),
        pl.lit(share.properties.multiprocessors, pl.Int64).alias("multiprocessors"),
        **counts,
        **spans(share, device),
    )


def _reach(share: Share, device: Filled) -> tuple[int, int]:
    """The bounds in which kernels are counted one by one: those of the window, or none."""
    return device.own_span if share.windowed else (0, np.iinfo(np.int64).max)


def _run(share: Share, device: Filled, options: Options) -> pl.DataFrame:
    del share, options
    start, end = (np.array([bound], np.int64) for bound in device.own_span)
    return device.measures(start, end).with_columns(pl.Series("span", end - start))


def _steps(share: Share, device: Filled, options: Options) -> pl.DataFrame:
    """Of each step also when it lasts on the device's own clock (`from`, `until`), and how long on the trace's."""
    del options
    if share.steps.is_empty():
        return pl.DataFrame()
    found = stretches(share, device.events.filter(~pl.col("kind").is_in(COPY)), "work")
    if share.windowed:
        found = found.filter(share.chosen)
    start, end = found["start"].to_numpy(), found["end"].to_numpy()
    begin, until = device.own(start, end)
    steps = found.select(pl.col("step").cast(pl.Int64), "start", "event").with_columns(
        pl.Series("duration", until - begin),
        pl.Series("traced", end - start),
        pl.Series("from", begin),
        pl.Series("until", until),
    )
    return pl.concat([steps, device.measures(begin, until)], how="horizontal")


def _kernels(share: Share, device: Filled, options: Options) -> pl.DataFrame:
    """Averages over the time of each kernel that lies in the window, or in the run."""
    low, high = _reach(share, device)
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
            *gathered(options, pl.col("id").unique(maintain_order=True)),
        )
        .with_columns(
            (pl.col("total") / pl.col("total").sum()).fill_nan(None).alias("share"), pl.col("name").cast(pl.String)
        )
    )


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The rows of all ranks: by rank, by step and rank, or the kernels that take the most time first."""
    by = BY.of(options.given)
    shown = ANALYSIS.shown(options.given)
    rows = stacked(tables)
    if rows.is_empty():
        return without(shown, scene, options, _nothing(by, scene))
    order = {"run": ["rank"], "step": ["step", "rank", "start"], "kernel": ["total", "name", "rank"]}[by]
    table = rows.sort(order, descending=[name == "total" for name in order])
    alone = of_steps(rows) if by == "run" else []
    notes = [*_whole(table, by), *alone, *doubts(rows, scene), *_clocks(table, by, scene)]
    return answer(shown, table, scene, options, notes)


def _clocks(table: pl.DataFrame, by: str, scene: Scene) -> list[Note]:
    """Where steps, or the window, last otherwise on the clocks of the devices."""
    if by == "step":
        return clocks_apart("steps", table["duration"], table["traced"])
    return window_apart(table["span"], scene) if by == "run" else []


def _nothing(by: str, scene: Scene) -> Note:
    if by == "step" and scene.steps.is_empty():
        return no_steps(scene)
    return nothing(scene, note("no_kernels"), remedy(scene))


def _whole(table: pl.DataFrame, by: str) -> list[Note]:
    """What all ranks together use, or all steps."""
    if by == "kernel" or table.height < 2:
        return []
    length = table["span" if by == "run" else "duration"]
    whole = int(length.sum())
    busy = float((table["utilisation"] * length).sum())
    return [note("kernel_time_total", share=busy / whole)] if whole else []


def doubts(rows: pl.DataFrame, scene: Scene) -> list[Note]:
    """What of the measures was not recorded, derived, or not believed; `rows` has columns of `per_rank`."""
    ranks = rows.unique("rank", keep="first", maintain_order=True)
    if not ranks["all kernels"].sum():
        return [note("no_kernels_in_window")]
    strange, instant = (int(ranks[f"{name} kernels"].sum()) for name in ("strange", "instant"))
    notes = _of_gpus(rows, ranks) if _gpus(ranks, scene) else [note("no_gpus")]
    if instant:
        notes.append(note("kernels_without_length", kernels=instant))
    if strange:
        notes.append(note("kernel_values_impossible", values=strange))
    of_all, occupied = (int(ranks[name].sum()) for name in ("kernel time", "occupied time"))
    if 0 < occupied < _KNOWN * of_all:
        notes.append(note("occupancy_of_part", level="missing", share=occupied / of_all))
    return notes


def _gpus(ranks: pl.DataFrame, scene: Scene) -> bool:
    """Whether some of these ranks may be GPUs."""
    labels = scene.ranks.filter(pl.col("rank").is_in(ranks["rank"].to_list()))["label"]
    return not labels.str.contains("^(TPU|CPU)").all()


def _of_gpus(rows: pl.DataFrame, ranks: pl.DataFrame) -> list[Note]:
    """What of SM efficiency and occupancy is not known, or derived."""
    notes = []
    kernels, derived, strange = (int(ranks[f"{name} kernels"].sum()) for name in ("all", "derived", "strange"))
    if rows["occupancy"].null_count() == rows.height:
        limited = rows["occupancy_limit"].null_count() < rows.height
        why = "occupancy_impossible" if strange else "occupancy_not_recorded"
        notes.append(note(why, level="missing", limited=limited))
    if derived:
        sms = tuple(sorted(set(ranks["multiprocessors"].to_list()) - {0}))
        notes.append(
            note("blocks_per_sm_derived", level="inferred", derived=derived, kernels=kernels, multiprocessors=sms)
        )
    if rows["blocks_per_sm"].null_count() == rows.height:
        notes.append(note("blocks_per_sm_unknown", level="missing"))
    elif (known := float(rows["known"].drop_nulls().to_numpy().min())) < _KNOWN:
        notes.append(note("kernels_without_grid", level="missing", share=1 - known, rows=rows.height))
    return notes


_KNOWN: Final = 0.999
"""Where less of the kernels' time is known, efficiency is a lower bound worth a note."""

ANALYSIS = Analysis(
    name="utilisation",
    title="Utilisation",
    question="How well do kernels use the device: utilisation, SM efficiency, occupancy?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="count",
    settings=(BY,),
    by={"step": BY_STEP, "kernel": BY_KERNEL},
)
