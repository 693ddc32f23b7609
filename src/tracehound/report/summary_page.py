"""The summary of a trace on one page, as a list of results for any writer."""

from __future__ import annotations

from collections.abc import Mapping
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
from tracehound.model.notes import Note
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

STEP_PARTS: Final = ("compute", "communication", "copy", "idle")
"""The parts of which the steps have a share each."""

_USUAL_NOTES = (TWIN_JSON_SKIPPED, "flow_events_skipped", "counter_samples", "memory_events")
"""Notes that every profile of a kind has, and that say of no loss; only health shows them."""


class Summary(Struct, frozen=True):
    """The page. `lengths` has each whole step's number and its length on the slowest rank, in ps.

    `top` is the number of rows that was asked for, if any.
    """

    about: ReportHeader
    results: tuple[Result, ...]
    lengths: tuple[tuple[int, int], ...] = ()
    top: int | None = None


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
            result = other_step_work.with_other_steps_note(_cut_rows(full_result, limit), trace, window)
        elif name == "breakdown":
            result = _cut_rows(full_result, limit)
        if result.total or name not in OPTIONAL_ANALYSES:
            results.append(result)
    return Summary(header, tuple(results), lengths, top)


_LIMITED_AFTERWARDS = ("overview", "breakdown", "steps", "health")
"""Analyses whose rows are limited here: people see groups of all ranks."""


def _cut_rows(result: Result, top: int) -> Result:
    """At most `top` rows, and all of them beside."""
    return replace(result, table=result.table.head(top), total=result.table.height, all_rows=result.table)


def _unusual_health_rows(health: Result, top: int) -> Result:
    """The rows of health on the page."""
    codes = [msgspec.json.decode(what, type=Note).code for what in health.table["what"].to_list()]
    table = health.table.filter(~pl.Series(codes, dtype=pl.String).is_in(_USUAL_NOTES))
    return _cut_rows(render_note_columns(replace(health, table=table)), top)


def summarize_steps(steps: Result, top: int) -> Result:
    """The whole steps of each rank in one row: number and lengths; partial steps if a rank has no others."""
    longest = pl.col("step").sort_by("duration", "step", descending=[True, False]).first()
    # The busy time of a rank without device activity is unknown, not zero.
    known_time = pl.col("duration").filter(pl.col("busy").is_not_null()).sum()
    busy = (pl.col("busy") * pl.col("duration")).sum() / known_time
    parts = [(pl.col(part).sum() / known_time).fill_nan(None).alias(f"{part}_share") for part in STEP_PARTS]
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
    return _cut_rows(replace(steps, columns=STEP_SUMMARY_COLUMNS, table=table), top)
