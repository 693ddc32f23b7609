"""Results as text, for people at a terminal: aligned tables that fit the width, with a little drawing.

Owns the layout of the page and what each line of it is (`Line.role`); a face adds colours if it has them.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracehound.analysis.result import Result
from tracehound.draw.chart import bar, stacked
from tracehound.draw.table import Line, body, caption, notes, table, wrapped
from tracehound.report.about import About, Look, narrowed, sentences
from tracehound.report.summary import Summary
from tracehound.units import middle

PARTS = (("compute", "█"), ("communication", "▓"), ("copy", "░"), ("idle", " "))
"""The parts of a rank's time and what they are drawn with."""

BAR = 10


def result(facts: About, shown: Result, look: Look) -> Iterator[Line]:
    """Title, table and notes."""
    yield from table(shown, look.width, look.unit)
    if not facts.window.whole:
        yield from notes([narrowed(facts.window, facts.span, look.unit)], look.width)


def summary(page: Summary, look: Look) -> Iterator[Line]:
    """The page: the facts of the trace, then a section for each result."""
    yield Line(middle(page.about.name, look.width), "title")
    for sentence in sentences(page.about, look.unit):
        yield from (Line(line) for line in wrapped(sentence, look.width))
    for shown in page.results:
        yield Line("")
        yield from _section(shown, look)


def _section(shown: Result, look: Look) -> Iterator[Line]:
    yield from (_ruled(line.text, look.width) for line in caption(shown, look.width, look.unit))
    match shown.analysis:
        case "ops":
            yield from _with_bars(shown, look)
        case "breakdown":
            yield from body(shown, look.width, look.unit)
            yield from _divided(shown, look.width)
        case _:
            yield from body(shown, look.width, look.unit)
    yield from notes(shown.notes, look.width)


def _ruled(text: str, width: int) -> Line:
    return Line(f"{text} {'─' * (width - len(text) - 1)}" if len(text) + 4 < width else text, "title")


def _with_bars(shown: Result, look: Look) -> Iterator[Line]:
    """The table, and at the end of each row a bar for its share of the largest one."""
    shares = [share or 0.0 for share in shown.table["share"].to_list()]
    most = max(shares, default=0.0) or 1.0
    head, *rows = body(shown, look.width - BAR - 2, look.unit)
    yield head
    width = max((len(row.text) for row in [head, *rows]), default=0)
    for row, share in zip(rows, shares, strict=False):
        yield Line(f"{row.text:<{width}}  {bar(share / most, BAR)}".rstrip(), row.role)


def _divided(shown: Result, width: int) -> Iterator[Line]:
    """A bar for each rank, divided as its time was."""
    glyphs = [glyph for _, glyph in PARTS]
    labels = [f"rank {rank}" for rank in shown.table["rank"].to_list()]
    room = max((len(label) for label in labels), default=0)
    shares = shown.table.select(f"{name}_share" for name, _ in PARTS).rows()
    if not shares or width < room + 20:
        return
    for label, parts in zip(labels, shares, strict=True):
        drawn = stacked([part or 0.0 for part in parts], glyphs, width - room - 3)
        yield Line(f"{label:<{room}} |{drawn}|")
    legend = "  ".join(f"{glyph} {name}" if glyph.strip() else f"blank {name}" for name, glyph in PARTS)
    yield Line(f"{'':<{room}}  {legend}", "note")
