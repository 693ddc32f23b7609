"""Results as Markdown tables, for issues and notes; the same words as the text report, uncut.

Names come from a trace: whatever Markdown or HTML would make of them is escaped. In a tree a name has a dot before it
for each level, since spaces would be lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tracehound.analysis.result import Result
from tracehound.analysis.trees import depths, stem
from tracehound.draw.cells import alignment, heading, meanings, readable, words
from tracehound.draw.notes import note_texts
from tracehound.draw.table import UNLIMITED, Line, caption
from tracehound.errors import printable
from tracehound.report.about import About, Look, narrowed, sentences
from tracehound.report.summary import Summary

if TYPE_CHECKING:
    from tracehound.report.page import Page

LEVEL = "· "

_SPECIAL = re.compile(r"([\\`*_\[\]<>|&~#$])")


def result(facts: About, table: Result, look: Look) -> Iterator[Line]:
    """Title, table and notes."""
    untimed = replace(facts.window, start=None, end=None)
    notes = [] if untimed.whole else [narrowed(facts, untimed, look.unit)]
    yield from _section(table, look, notes)


def summary(page: Summary, look: Look) -> Iterator[Line]:
    """The page: the facts of the trace, then a section for each result."""
    yield Line(f"# {escaped(page.about.name)}")
    yield Line("")
    yield from _listed(sentences(page.about, look.unit))
    for table in page.results:
        yield Line("")
        yield from _section(table, look, [])


def page(shown: Page, look: Look) -> Iterator[Line]:
    """The runs, then a section for each result."""
    yield Line(f"# {escaped(shown.title)}")
    yield Line("")
    yield from _listed([f"{part}: {run}" for part, run in shown.runs])
    for table in shown.results:
        yield Line("")
        yield from _section(table, look, [])


def escaped(text: str) -> str:
    """`text` as it stands, whatever it holds."""
    return _SPECIAL.sub(r"\\\1", printable(text))


def _section(table: Result, look: Look, more: Sequence[str]) -> Iterator[Line]:
    title = " ".join(line.text for line in caption(table, UNLIMITED, look.unit))
    columns, stands = readable(table), stem(table.columns)
    yield Line(f"## {escaped(title)}")
    yield Line("")
    if table.table.is_empty():
        yield Line("nothing to show")
    else:
        yield _row([escaped(heading(column)) for column in columns])
        yield _row(["---:" if alignment(column) == "right" else "---" for column in columns])
        cells = (
            [f"{lead}{escaped(word)}" for lead, word in zip(leads, words(table, column, look.unit), strict=True)]
            for column in columns
            for leads in [_leads(table, named=column is stands)]
        )
        yield from (_row(row) for row in zip(*cells, strict=True))
    notes = [*meanings(columns), *note_texts(table.notes), *more]
    if notes:
        yield Line("")
        yield from _listed(notes)


def _leads(table: Result, *, named: bool) -> list[str]:
    """What stands before the words of a column's rows: nothing, but where it is `named` by them in a tree."""
    deep = depths(table.table, table.columns) if named else None
    return [""] * table.table.height if deep is None else [LEVEL * depth for depth in deep.tolist()]


def _row(cells: Sequence[str]) -> Line:
    return Line(f"| {' | '.join(cells)} |")


def _listed(texts: Sequence[str]) -> Iterator[Line]:
    yield from (Line(f"- {escaped(text)}") for text in texts)
