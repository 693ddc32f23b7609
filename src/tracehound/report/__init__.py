"""The headless face: `Result` -> text, markdown, csv, json. `WRITERS` is the literal list of forms.

Writers yield lines; who prints them where, and in which colours, is the caller's business.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec import Struct

from tracehound.analysis.result import Result
from tracehound.draw.notes import with_sentences
from tracehound.draw.table import Line
from tracehound.errors import TracehoundError
from tracehound.report.about import About, Look, about
from tracehound.report.summary import Summary, summarise

if TYPE_CHECKING:
    from tracehound.report.page import Page

READABLE = 1_000
"""Rows of a query that people are shown when they do not say how many."""


class Writer(Struct, frozen=True):
    """One form of a report. `notes` tells whether the form has a place for the notes of a result.

    `module` has its functions, and is imported when one is wanted. `readable` is how many rows it shows when nobody
    says: what people read has an end, data has none. With a table one `of_trace` tells of the whole trace and of
    the ids of events.
    """

    name: str
    purpose: str
    module: str
    notes: bool = True
    readable: int | None = None
    of_trace: bool = False

    @property
    def result(self) -> Callable[[About, Result, Look], Iterator[Line]]:
        """What writes a table."""
        write: Callable[[About, Result, Look], Iterator[Line]] = import_module(self.module).result
        return lambda facts, result, look: write(facts, with_sentences(result), look)

    @property
    def summary(self) -> Callable[[Summary, Look], Iterator[Line]]:
        """What writes a summary."""
        write: Callable[[Summary, Look], Iterator[Line]] = import_module(self.module).summary
        return write

    @property
    def page(self) -> Callable[[Page, Look], Iterator[Line]]:
        """What writes a page of several results."""
        write: Callable[[Page, Look], Iterator[Line]] = import_module(self.module).page
        return write


WRITERS: tuple[Writer, ...] = (
    Writer("text", "aligned tables for a terminal", "tracehound.report.text", readable=READABLE),
    Writer("markdown", "tables for issues and notes", "tracehound.report.markdown", readable=READABLE),
    Writer("csv", "raw numbers for spreadsheets", "tracehound.report.csv", notes=False),
    Writer("json", "raw numbers for programs", "tracehound.report.json", of_trace=True),
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


__all__ = ["READABLE", "WRITERS", "About", "Look", "Summary", "Writer", "about", "summarise", "writer"]
