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
from tracehound.report import csv, explain, json, markdown, paint, text
from tracehound.report.about import About, Look, about
from tracehound.report.summary import Summary, summarise


@dataclass(frozen=True)
class Writer:
    """One form of a report. `notes` tells whether the form has a place for the notes of a result."""

    name: str
    purpose: str
    result: Callable[[About, Result, Look], Iterator[Line]]
    summary: Callable[[Summary, Look], Iterator[Line]]
    notes: bool = True


WRITERS: tuple[Writer, ...] = (
    Writer("text", "aligned tables for a terminal", text.result, text.summary),
    Writer("markdown", "tables for issues and notes", markdown.result, markdown.summary),
    Writer("csv", "raw numbers for spreadsheets", csv.result, csv.summary, notes=False),
    Writer("json", "raw numbers for programs", json.result, json.summary),
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


__all__ = ["WRITERS", "About", "Look", "Summary", "Writer", "about", "explain", "paint", "summarise", "writer"]
