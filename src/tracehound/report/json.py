"""Results as JSON, for programs: raw numbers, every one with its unit.

The shape of one result is ``tracehound.result/1``; a program should look at ``schema`` first. Keys are only ever added
within a version. The order of keys and rows is the same for the same input.

``{"schema": "tracehound.result/1", "tracehound": version, "trace": TRACE, "analysis": name, "title": text,
"window": {"start_ps": int, "end_ps": int} or null, "ranks": [int] or null, "columns": [{"name", "unit", "meaning",
"base"}], "rows": [{column name: value}], "rows_total": int, "notes": [text]}``

``window`` and ``ranks`` are what the caller narrowed the report to. ``rows_total`` counts the rows before ``--top``.
``unit`` is one of text, time (ps), instant (ps since time 0), bytes, count, share (a fraction of ``base``), rate (bytes
per second), flag (true or false), id (an event of this trace: equal ids are the same event) and host (a list of
``{"thread", "event", "share", "time"}``). A value that is unknown is null.

``TRACE`` is ``{"name", "files": [{"path", "format", "size"}], "hosts": [text], "ranks": [{"rank", "device", "model",
"host", "inferred"}], "origin_unix_ns": int or null, "recorded": text, "start_ps": int, "end_ps": int, "versions":
{name: text}}``.

The summary is ``{"schema": "tracehound.summary/1", "tracehound", "trace", "window", "ranks", "results": {analysis:
RESULT}}``, where RESULT is the shape above without the keys that the page already has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import orjson

from tracehound import __version__
from tracehound.analysis.result import Result
from tracehound.draw.table import Line
from tracehound.report.about import About, Look
from tracehound.report.summary import Summary

RESULT = "tracehound.result/1"
SUMMARY = "tracehound.summary/1"

_HIDDEN = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Characters that JSON allows as they are, and that a terminal obeys or hides."""


def result(facts: About, shown: Result, look: Look) -> Iterator[Line]:
    """The document of one result; `look` is for people and changes nothing here."""
    del look
    yield _document({"schema": RESULT, **_head(facts), **_body(shown)})


def summary(page: Summary, look: Look) -> Iterator[Line]:
    """The document of the summary."""
    del look
    results = {shown.analysis: _body(shown) for shown in page.results}
    yield _document({"schema": SUMMARY, **_head(page.about), "results": results})


def _head(facts: About) -> dict[str, Any]:
    window = facts.window
    timed = window.start is not None or window.end is not None
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
        "window": {"start_ps": start, "end_ps": end} if timed else None,
        "ranks": list(window.ranks) if window.ranks is not None else None,
    }


def _body(shown: Result) -> dict[str, Any]:
    return {
        "analysis": shown.analysis,
        "title": shown.title,
        "columns": [{"name": c.name, "unit": c.unit, "meaning": c.meaning, "base": c.base} for c in shown.columns],
        "rows": shown.table.to_dicts(),
        "rows_total": shown.total,
        "notes": list(shown.notes),
    }


def _document(document: Mapping[str, Any]) -> Line:
    text = orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()
    return Line(_HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text))
