"""The summary of a trace on one page, as a list of results for any writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from types import MappingProxyType
from typing import Final

import msgspec
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis import get_analysis, run_analyses
from tracehound.analysis.breakdown import part_share_columns
from tracehound.analysis.result import Column, Options, Result
from tracehound.analysis.timing import other_step_work
from tracehound.analysis.timing.rank_steps import complete_steps
from tracehound.analysis.topics import is_memory_only
from tracehound.draw.notes import render_note_columns
from tracehound.model.notes import Note, note
from tracehound.model.trace import Trace, Window
from tracehound.report.report_header import ReportHeader, build_header
from tracehound.store.trace_files import TWIN_JSON_SKIPPED

SUMMARY_ROWS: Mapping[str, int] = MappingProxyType(
    {"overview": 16, "findings": 5, "breakdown": 16, "steps": 16, "ops": 10, "gaps": 5, "collectives": 5, "health": 10}
)
"""The analyses on the page, in order, with their default numbers of rows."""

MEMORY_SUMMARY_ROWS: Mapping[str, int] = MappingProxyType({"overview": 16, "memory": 16, "health": 10})
"""The analyses on the page of a memory timeline, which has no other data."""

OPTIONAL_ANALYSES = ("findings", "collectives", "health")
"""Analyses that are left out if they have no rows."""

STEP_TIME: Final = "step time"
"""The base of shares on a page about a run with steps."""

STEP_SUMMARY_COLUMNS = (
    Column("rank", "count", "rank"),
    Column("steps", "count", "whole steps"),
    Column("median", "time", "median length"),
    Column("shortest", "time", "shortest step"),
    Column("longest", "time", "longest step"),
    Column("longest_step", "count", "number of the longest step"),
    Column("total", "time", "sum of these steps"),
    Column("busy", "share", "device works", STEP_TIME),
    *part_share_columns(STEP_TIME).values(),
    Column("inferred", "flag", "not marked by the profiler"),
)

_STEP_PARTS: Final = ("compute", "communication", "copy", "idle")


_USUAL_NOTES = (TWIN_JSON_SKIPPED, "flow_events_skipped", "counter_samples", "memory_events")
"""Notes that every profile of a kind has, and that say of no loss; only health shows them."""


class Summary(Struct, frozen=True):
    """The page. `lengths` has each whole step's number and its length on the slowest rank, in ps."""

    about: ReportHeader
    results: tuple[Result, ...]
    lengths: tuple[tuple[int, int], ...] = ()


def summarize_trace(trace: Trace, window: Window, top: int | None = None, executor: Executor | None = None) -> Summary:
    """The page of a trace for a window; with `top`, every table has at most that many rows."""
    page = MEMORY_SUMMARY_ROWS if is_memory_only(trace) else SUMMARY_ROWS
    limits = {name: rows if top is None else top for name, rows in page.items()}
    settings = {"memory": (("by", "category"),)}
    requests = [
        (get_analysis(name), Options(None if name in _LIMITED_AFTERWARDS else limit, settings.get(name, ())))
        for name, limit in limits.items()
    ]
    header, results = build_header(trace, window), []
    lengths: tuple[tuple[int, int], ...] = ()
    for (name, limit), full_result in zip(limits.items(), run_analyses(requests, trace, window, executor), strict=True):
        result = full_result
        if name == "steps":
            lengths = tuple(
                complete_steps(full_result.table).group_by("step").agg(pl.col("duration").max()).sort("step").rows()
            )
            result = summarize_steps(full_result, limit)
        elif name == "health":
            result = _unusual_health_rows(full_result, limit)
        elif name == "overview":
            result = other_step_work.with_other_steps_note(full_result, trace, window)
        if result.total or name not in OPTIONAL_ANALYSES:
            results.append(result)
    return Summary(header, tuple(results), lengths)


_LIMITED_AFTERWARDS = ("steps", "health")
"""Analyses whose rows are limited here, after they are summarized."""


def _unusual_health_rows(health: Result, top: int) -> Result:
    """The rows of health on the page."""
    codes = [msgspec.json.decode(what, type=Note).code for what in health.table["what"].to_list()]
    table = health.table.filter(~pl.Series(codes, dtype=pl.String).is_in(_USUAL_NOTES))
    return render_note_columns(replace(health, table=table.head(top), total=table.height))


def summarize_steps(steps: Result, top: int) -> Result:
    """The whole steps of each rank in one row: number and lengths; partial steps if a rank has no others."""
    longest = pl.col("step").sort_by("duration", "step", descending=[True, False]).first()
    # The busy time of a rank without device activity is unknown, not zero.
    known_time = pl.col("duration").filter(pl.col("busy").is_not_null()).sum()
    busy = (pl.col("busy") * pl.col("duration")).sum() / known_time
    parts = [(pl.col(part).sum() / known_time).fill_nan(None).alias(f"{part}_share") for part in _STEP_PARTS]
    table = (
        steps.table.filter(~pl.col("partial") | pl.col("partial").all().over("rank"))
        .group_by("rank")
        .agg(
            pl.len().cast(pl.Int64).alias("steps"),
            pl.col("duration").median().round().cast(pl.Int64).alias("median"),
            pl.col("duration").min().alias("shortest"),
            pl.col("duration").max().alias("longest"),
            longest.alias("longest_step"),
            pl.col("duration").sum().alias("total"),
            busy.fill_nan(None).alias("busy"),
            *parts,
            pl.col("inferred").any().alias("inferred"),
        )
        .sort("rank")
        .select(column.name for column in STEP_SUMMARY_COLUMNS)
    )
    return replace(steps, columns=STEP_SUMMARY_COLUMNS, table=table.head(top), total=table.height)


def readable_results(page: Summary) -> tuple[Result, ...]:
    """The results of the page for people: all shares of time of a run with steps are of its step time.

    Where the page is of a window, or a rank has no steps, the breakdown keeps its own base.
    """
    results = {result.analysis: result for result in page.results}
    steps, breakdown = results.get("steps"), results.get("breakdown")
    if steps is None or breakdown is None:
        return page.results
    known = steps.table.drop_nulls("idle_share")
    has_steps = known.height and set(breakdown.table["rank"]) <= set(known["rank"])
    if page.about.window.limits_time or not has_steps:
        results["steps"] = _drop_columns(steps, _STEP_PART_COLUMNS)
    else:
        results["breakdown"] = _breakdown_of_steps(breakdown, known)
        results["steps"] = _drop_columns(steps, ("busy", *_STEP_PART_COLUMNS))
    return tuple(results.values())


_STEP_PART_COLUMNS: Final = ("total", *(column.name for column in part_share_columns(STEP_TIME).values()))
"""Columns of the steps from which the breakdown is made."""


def _drop_columns(result: Result, names: Sequence[str]) -> Result:
    columns = tuple(column for column in result.columns if column.name not in names)
    return replace(result, columns=columns, table=result.table.select(column.name for column in columns))


def _breakdown_of_steps(breakdown: Result, steps: pl.DataFrame) -> Result:
    """The breakdown of the whole steps of each rank, with the notes of the breakdown that are true of it."""
    device = breakdown.table.select("rank", "device")
    table = device.join(steps, on="rank", how="left", maintain_order="left")
    columns = (*(breakdown.column(name) for name in ("rank", "device")), *part_share_columns(STEP_TIME).values())
    notes = [each for each in breakdown.notes if each.code not in _NOTES_ON_SPANS]
    if table.height > 1:
        time = table["total"].to_numpy()
        compute, communication, copy, idle = (
            float(table[f"{part}_share"].to_numpy() @ time / time.sum()) for part in _STEP_PARTS
        )
        notes.append(note("breakdown_total", compute=compute, communication=communication, copy=copy, idle=idle))
    return replace(
        breakdown, columns=columns, table=table.select(column.name for column in columns), notes=tuple(notes)
    )


_NOTES_ON_SPANS: Final = ("breakdown_total", "hidden_parts_total")
"""Codes of notes with shares of the span of the work."""
