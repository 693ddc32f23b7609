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
``{"schema": "tracehound.comparison/1", "tracehound", "title", "runs": {"base": text, "other": text}, "failed": bool or
null, "results": {name: RESULT}}`` with the results ``gate`` (where conditions were given), ``diff``,
``diff-categories``, ``diff-ops`` and, where there is anything of them, ``diff-causes``, ``diff-marks``, ``diff-memory``
and ``diff-counters``; a check of one run is the same with ``tracehound.check/1`` and its ``gate`` alone.
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
from tracehound.draw.table import Line
from tracehound.report.about import About, Look, noted
from tracehound.report.summary import Summary

if TYPE_CHECKING:
    from tracehound.report.page import Page

RESULT = "tracehound.result/1"
SUMMARY = "tracehound.summary/1"

ROWS = 1 << 14
"""So many rows are turned into text at once."""

_NO_ROWS = '\n  "rows": [],\n'
"""Found once: a line break is never part of a text in JSON, and only keys of the document stand so far to the left."""

_HIDDEN = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Characters that JSON allows as they are, and that a terminal obeys or hides."""


def result(facts: About, shown: Result, look: Look) -> Iterator[Line]:
    """The document of one result; `look` is for people and changes nothing here."""
    del look
    head = _written({"schema": RESULT, **_head(facts), **_body(shown, [])})
    if shown.table.is_empty():
        yield Line(head)
        return
    above, _, below = head.partition(_NO_ROWS)
    yield Line(f'{above}\n  "rows": [')
    for start in range(0, shown.table.height, ROWS):
        rows = _written(shown.table.slice(start, ROWS).to_dicts())
        comma = "," if start + ROWS < shown.table.height else ""
        yield Line("  " + rows[len("[\n") : -len("\n]")].replace("\n", "\n  ") + comma)
    yield Line(f"  ],\n{below}")


def summary(page: Summary, look: Look) -> Iterator[Line]:
    """The document of the summary; what there is to doubt of the files is a note of the first result."""
    del look
    first, *rest = page.results
    results = {shown.analysis: _body(shown, shown.table.to_dicts()) for shown in (noted(first, page.about), *rest)}
    yield Line(_written({"schema": SUMMARY, **_head(page.about), "results": results}))


def page(shown: Page, look: Look) -> Iterator[Line]:
    """The document of several results."""
    del look
    runs = dict(shown.runs)
    results = {each.analysis: _body(each, each.table.to_dicts()) for each in shown.results}
    head = {"schema": shown.schema, "tracehound": __version__, "title": shown.title, "runs": runs}
    yield Line(_written({**head, "failed": shown.failed, "results": results}))


def _head(facts: About) -> dict[str, Any]:
    window = facts.window
    start, end = window.within(*facts.span)
    trace = {
        "name": facts.name,
        "files": [asdict(file) for file in facts.files],
        "hosts": list(facts.hosts),
        "ranks": [asdict(rank) for rank in facts.ranks],
        "origin_unix_ns": facts.origin_ns,
        "recorded": facts.recorded,
        "start_ps": facts.span[0],
        "end_ps": facts.span[1],
        "versions": dict(facts.versions),
    }
    return {
        "tracehound": __version__,
        "trace": trace,
        "window": {"start_ps": start, "end_ps": end} if window.timed else None,
        "steps": list(window.steps) if window.steps is not None else None,
        "ranks": list(window.ranks) if window.ranks is not None else None,
    }


def _body(shown: Result, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "analysis": shown.analysis,
        "title": shown.title,
        "columns": [{"name": c.name, "unit": c.unit, "meaning": c.meaning, "base": c.base} for c in shown.columns],
        "rows": rows,
        "rows_total": shown.total,
        "notes": list(note_texts(shown.notes)),
    }


def _written(value: Mapping[str, Any] | Sequence[Any]) -> str:
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
