"""The summary as people read it: shares of one base, and what ranks and files have in common in one row.

The data of the page, for csv and json, is in `summary_page`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.breakdown import part_share_columns
from tracehound.analysis.result import Result
from tracehound.draw.folded_rows import fold_rows
from tracehound.draw.rank_groups import MANY_RANKS, MOST_GROUPS, group_ranks
from tracehound.model.notes import note
from tracehound.report.report_header import ReportStyle
from tracehound.report.summary_page import STEP_PARTS, STEP_TIME, Summary


def fold_result(result: Result, style: ReportStyle) -> Result:
    """One result for people: `--notes` names every file of a message."""
    return result if style.all_notes and result.analysis == "health" else fold_rows(result)


def readable_results(page: Summary) -> tuple[Result, ...]:
    """The results of the page for people: all shares of time of a run with steps are of its step time.

    Where the page is of a window, or a rank has no steps, the breakdown keeps its own base. What several ranks or files
    have in common is one row. Of many ranks, tables of ranks have a row for each group of ranks that are alike, other
    tables fewer rows, and only the first finding has all its sentences.
    """
    many, sections = len(page.about.ranks) > MANY_RANKS, {result.analysis: result for result in page.results}
    limits = {name: sections[name].table.height for name in _ALIKE_COLUMNS if name in sections}
    if many and page.top is None:
        sections = {name: _shorten_section(result) for name, result in sections.items()}
    sections = {name: _fold_section(result) for name, result in sections.items()}
    sections |= {name: _with_all_rows(sections[name]) for name in limits}
    sections |= _with_shares_of_step_time(page, sections)
    for name, limit in limits.items():
        if many and limit:
            sections[name] = _group_by_ranks(sections[name], min(limit, page.top or MOST_GROUPS))
        else:
            sections[name] = replace(sections[name], table=sections[name].table.head(limit))
    return tuple(_without_file_names(section) if many else section for section in sections.values())


def _fold_section(result: Result) -> Result:
    """The result with one row for what several ranks or files have in common, and no more rows than before."""
    if result.analysis in _ALIKE_COLUMNS:
        return result
    if result.analysis != "health":
        return fold_rows(result)
    folded = fold_rows(_with_all_rows(result))
    return replace(folded, table=folded.table.head(result.table.height))


def _without_file_names(result: Result) -> Result:
    """Health without the names of files where a message is of several; the report of health has them."""
    if "files" not in result.table.columns:
        return result
    where = pl.when(pl.col("files") > 1).then(pl.lit("")).otherwise("where").alias("where")
    return replace(result, table=result.table.with_columns(where))


def _shorten_section(result: Result) -> Result:
    """A result on a page of many ranks: fewer rows, the first finding in full, of gaps and messages the main facts."""
    table = result.table.head(_ROWS_OF_MANY_RANKS.get(result.analysis, result.table.height))
    match result.analysis:
        case "findings":
            is_first = pl.int_range(pl.len()) == 0
            texts = [column.name for column in result.columns if column.unit == "prose"]
            table = table.with_columns(pl.when(is_first).then(pl.col(texts)).otherwise(pl.lit("")))
        case "gaps":
            result = _drop_columns(result, ("host",))
    return replace(result, table=table.select(column.name for column in result.columns))


_ROWS_OF_MANY_RANKS: Final[Mapping[str, int]] = MappingProxyType(
    {"findings": 3, "ops": 5, "gaps": 3, "collectives": 3, "health": 5}
)
"""Rows of a page of many ranks for people at most: it fits a screen or two. csv and json have all."""


def _with_shares_of_step_time(page: Summary, results: Mapping[str, Result]) -> dict[str, Result]:
    """Steps and breakdown with shares of one base, where the page has both."""
    steps, breakdown = results.get("steps"), results.get("breakdown")
    if steps is None or breakdown is None:
        return {}
    known = steps.table.drop_nulls("idle_share")
    has_steps = known.height and set(breakdown.table["rank"]) <= set(known["rank"])
    if page.about.window.limits_time or not has_steps:
        return {"steps": _drop_columns(steps, _STEP_PART_COLUMNS)}
    shown_steps = _drop_columns(steps, ("busy", *_STEP_PART_COLUMNS))
    return {"steps": shown_steps, "breakdown": _breakdown_of_steps(breakdown, known)}


_ALIKE_COLUMNS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "overview": ("model", "events"),
        "breakdown": tuple(f"{part}_share" for part in STEP_PARTS),
        "steps": ("median", "longest"),
    }
)
"""Tables with a row for each rank, and the columns in which ranks of one group are alike."""

_GROUP_SUMMARIES: Final[Mapping[str, Mapping[str, pl.Expr]]] = MappingProxyType(
    {
        "breakdown": {"least_idle": pl.col("least_idle").min(), "most_idle": pl.col("most_idle").max()},
        "steps": {
            "shortest": pl.col("shortest").min(),
            "longest": pl.col("longest").max(),
            "longest_step": pl.col("longest_step").sort_by("longest", descending=True).first(),
        },
    }
)
"""Columns that are no median of the group's ranks."""


def _with_all_rows(result: Result) -> Result:
    return replace(result, table=result.uncut_table, all_rows=None)


def _group_by_ranks(result: Result, most: int) -> Result:
    """A row for each group of ranks; in the breakdown with the least and the most idle rank of the group."""
    if result.analysis == "breakdown":
        idle = result.column("idle_share")
        bounds = (("least_idle", "the group's least idle rank"), ("most_idle", "the group's most idle rank"))
        columns = (*result.columns, *(replace(idle, name=name, meaning=meaning) for name, meaning in bounds))
        copies = (pl.col("idle_share").alias(name) for name, _ in bounds)
        result = replace(result, columns=columns, table=result.table.with_columns(*copies))
    name = result.analysis
    grouped = group_ranks(result, _ALIKE_COLUMNS[name], summaries=_GROUP_SUMMARIES.get(name), most=most)
    if name == "breakdown" and _are_equally_idle(grouped.table):
        return _drop_columns(grouped, ("least_idle", "most_idle"))
    return grouped


def _are_equally_idle(groups: pl.DataFrame) -> bool:
    """True if the shares of the ranks of each group look the same."""
    apart = (groups["most_idle"] - groups["least_idle"]).fill_null(0.0).to_numpy()
    return bool((apart < _SAME_SHARE).all())


_SAME_SHARE: Final = 0.00005


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
            float(table[f"{part}_share"].to_numpy() @ time / time.sum()) for part in STEP_PARTS
        )
        notes.append(note("breakdown_total", compute=compute, communication=communication, copy=copy, idle=idle))
    return replace(
        breakdown, columns=columns, table=table.select(column.name for column in columns), notes=tuple(notes)
    )


_NOTES_ON_SPANS: Final = ("breakdown_total", "hidden_parts_total")
"""Codes of notes with shares of the span of the work."""
