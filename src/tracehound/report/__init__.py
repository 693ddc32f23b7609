"""The headless face: `Result` -> text, markdown, csv, json. `WRITERS` is the literal list of forms.

Writers yield lines; who prints them where, and in which colours, is the caller's business.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tracehound.analysis.result import Result
from tracehound.draw.table import Line
from tracehound.errors import TracehoundError
from tracehound.report import csv, explain, hlo, json, markdown, paint, schema, text
from tracehound.report.about import About, Look, about
from tracehound.report.junit import junit
from tracehound.report.page import Page, check, comparison
from tracehound.report.summary import Summary, summarise

READABLE = 1_000
"""Rows of a query that people are shown when they do not say how many."""


@dataclass(frozen=True)
class Writer:
    """One form of a report. `notes` tells whether the form has a place for the notes of a result.

    `readable` is how many rows of a query it shows when nobody says: what people read has an end, data has none.
    """

    name: str
    purpose: str
    result: Callable[[About, Result, Look], Iterator[Line]]
    summary: Callable[[Summary, Look], Iterator[Line]]
    page: Callable[[Page, Look], Iterator[Line]]
    notes: bool = True
    readable: int | None = None


WRITERS: tuple[Writer, ...] = (
    Writer("text", "aligned tables for a terminal", text.result, text.summary, text.page, readable=READABLE),
    Writer(
        "markdown", "tables for issues and notes", markdown.result, markdown.summary, markdown.page, readable=READABLE
    ),
    Writer("csv", "raw numbers for spreadsheets", csv.result, csv.summary, csv.page, notes=False),
    Writer("json", "raw numbers for programs", json.result, json.summary, json.page),
)


def writer(name: str) -> Writer:
    """The writer of that name; TracehoundError with the nearest name when there is none."""
    for candidate in WRITERS:
        if candidate.name == name:
            return candidate
    names = [candidate.name for candidate in WRITERS]
    near = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
    raise TracehoundError(f"no form {name!r}", remedy=hint)


__all__ = [
    "WRITERS",
    "About",
    "Look",
    "Page",
    "Summary",
    "Writer",
    "about",
    "check",
    "comparison",
    "explain",
    "hlo",
    "junit",
    "paint",
    "schema",
    "summarise",
    "writer",
]
