"""Results as JSON, for programs: raw numbers, every one with its unit.

The shape of one result is ``tracehound.result/1``; a program should look at ``schema`` first. Keys are only ever added
within a version. The order of keys and rows is the same for the same input.

``{"schema": "tracehound.result/1", "tracehound": version, "trace": TRACE, "analysis": name, "title": text,
"window": {"start_ps": int, "end_ps": int} or null, "steps": [int] or null, "ranks": [int] or null, "columns": [{"name",
"unit", "meaning", "base"}], "rows": [{column name: value}], "rows_total": int, "notes": [text]}``

``window``, ``steps`` and ``ranks`` are what the caller narrowed the report to: with steps every rank has a window of
its own, of its own steps, within ``window``. ``rows_total`` counts the rows before ``--where`` and ``--top``.
``unit`` is a `Unit`; docs/headless.md says of each what its values are. A value that is unknown is null. The
``analysis`` of a query is ``query``.

``TRACE`` is ``{"name", "files": [{"path", "format", "size"}], "hosts": [text], "ranks": [{"rank", "device", "model",
"host", "inferred"}], "origin_unix_ns": int or null, "recorded": text, "start_ps": int, "end_ps": int, "versions":
{name: text}}``.

The summary is ``{"schema": "tracehound.summary/1", "tracehound", "trace", "window", "steps", "ranks", "results":
{analysis: RESULT}}``, where RESULT is the shape above without the keys that the page already has. A comparison is
``{"schema": "tracehound.comparison/1", "tracehound", "title", "runs": {"baseline": text, "candidate": text},
"headline": FACTS or null, "failed": bool or null, "results": {name: RESULT}}`` with the results ``gate`` (where
conditions were given), ``diff``, ``diff-categories``, ``diff-ops`` and, where there is anything of them,
``diff-phases``, ``diff-ranks``, ``diff-idle``, ``diff-causes``, ``diff-marks``, ``diff-memory`` and ``diff-counters``;
a check of one run is the same with ``tracehound.check/1`` and its ``gate`` alone. FACTS are those of
`diff.headline_facts`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson
from msgspec.structs import asdict

from tracehound import __version__
from tracehound.analysis.result import Result
from tracehound.draw.notes import note_texts
from tracehound.draw.text_table import TextLine
from tracehound.model.old_names import OLD_COMPARISON_KEYS
from tracehound.report.report_header import ReportHeader, ReportStyle, add_doubt_note
from tracehound.report.summary_page import Summary

if TYPE_CHECKING:
    from tracehound.report.result_page import ResultPage

RESULT_SCHEMA = "tracehound.result/1"
SUMMARY_SCHEMA = "tracehound.summary/1"

ROWS_PER_CHUNK = 1 << 14
"""Rows converted to text at once."""

_EMPTY_ROWS_KEY = '\n  "rows": [],\n'
"""Occurs once: line breaks are never part of text in JSON, and only keys of the document have this indentation."""

_CONTROL_CHARACTERS = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Characters that are valid in JSON, but that a terminal hides or executes."""


def write_result(header: ReportHeader, result: Result, style: ReportStyle) -> Iterator[TextLine]:
    """The document of one result; `style` is not used."""
    del style
    document_head = _dump_json({"schema": RESULT_SCHEMA, **_document_head(header), **_result_body(result, [])})
    if result.table.is_empty():
        yield TextLine(document_head)
        return
    above, _, below = document_head.partition(_EMPTY_ROWS_KEY)
    yield TextLine(f'{above}\n  "rows": [')
    for start in range(0, result.table.height, ROWS_PER_CHUNK):
        rows = _dump_json(result.table.slice(start, ROWS_PER_CHUNK).to_dicts())
        comma = "," if start + ROWS_PER_CHUNK < result.table.height else ""
        yield TextLine("  " + rows[len("[\n") : -len("\n]")].replace("\n", "\n  ") + comma)
    yield TextLine(f"  ],\n{below}")


def write_summary(page: Summary, style: ReportStyle) -> Iterator[TextLine]:
    """The document of the summary; doubts about the files are a note of the first result."""
    del style
    first, *rest = page.results
    results = {
        shown.analysis: _result_body(shown, shown.table.to_dicts())
        for shown in (add_doubt_note(first, page.about), *rest)
    }
    yield TextLine(_dump_json({"schema": SUMMARY_SCHEMA, **_document_head(page.about), "results": results}))


def write_page(page: ResultPage, style: ReportStyle) -> Iterator[TextLine]:
    """The document of several results."""
    del style
    runs = _with_old_names(dict(page.runs))
    results = {
        each.analysis: _result_body(each, [_with_old_names(row) for row in each.table.to_dicts()])
        for each in page.results
    }
    sentences = {"sentences": list(note_texts(page.headline))}
    headline = None if page.facts is None else {**page.facts, **sentences}
    head = {"schema": page.schema, "tracehound": __version__, "title": page.title, "runs": runs}
    yield TextLine(_dump_json({**head, "headline": headline, "failed": page.failed, "results": results}))


def _with_old_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with those of renamed keys under their older names, too: programs may still read these."""
    older = {old: values[name] for name, old in OLD_COMPARISON_KEYS.items() if name in values}
    return {**values, **older}


def _document_head(header: ReportHeader) -> dict[str, Any]:
    window = header.window
    start, end = window.clip_bounds(*header.span)
    trace = {
        "name": header.name,
        "files": [asdict(file) for file in header.files],
        "hosts": list(header.hosts),
        "ranks": [asdict(rank) for rank in header.ranks],
        "origin_unix_ns": header.origin_ns,
        "recorded": header.recording_start_text,
        "start_ps": header.span[0],
        "end_ps": header.span[1],
        "versions": dict(header.versions),
    }
    return {
        "tracehound": __version__,
        "trace": trace,
        "window": {"start_ps": start, "end_ps": end} if window.limits_time else None,
        "steps": list(window.steps) if window.steps is not None else None,
        "ranks": list(window.ranks) if window.ranks is not None else None,
    }


def _result_body(result: Result, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "analysis": result.analysis,
        "title": result.title,
        "columns": [{"name": c.name, "unit": c.unit, "meaning": c.meaning, "base": c.base} for c in result.columns],
        "rows": rows,
        "rows_total": result.total,
        "notes": list(note_texts(result.notes)),
    }


def _dump_json(value: Mapping[str, Any] | Sequence[Any]) -> str:
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    return _CONTROL_CHARACTERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
