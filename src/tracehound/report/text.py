"""Results as text, for people at a terminal: aligned tables that fit the width, with a little drawing.

Owns the layout of the page and what each line of it is (`Line.role`); a face adds colours if it has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tracehound.analysis.result import Result
from tracehound.draw.cells import meanings
from tracehound.draw.chart import bar, line, stacked
from tracehound.draw.notes import note_texts
from tracehound.draw.plots import WORDS
from tracehound.draw.roof import roofline
from tracehound.draw.table import Line, body, caption, notes, table, wrapped
from tracehound.errors import printable
from tracehound.report.about import About, Look, narrowed, sentences
from tracehound.report.summary import Summary
from tracehound.units import count, duration, middle

if TYPE_CHECKING:
    from tracehound.report.page import Page

PARTS = (("compute", "█"), ("communication", "▓"), ("copy", "░"), ("idle", " "))
"""The parts of a rank's time and what they are drawn with."""

RANKS = ("rank", "device", "model", "host", "events", "threads", "host_events")
OPS = ("name", "category", "count", "self", "share")
ALIKE = ("name", "module", "count", "self", "share")
DIVIDED = ("rank", "device", "span", *(f"{part}_share" for part, _ in PARTS))
FINDINGS = ("finding", "cost", "share", "share_of", "evidence", "advice")
GAPS = ("rank", "start", "duration", "after", "why", "why_share", "host")
"""The columns that the page shows; a report has them all. Ops that are called alike are told apart by their modules."""

BAR = 10
ROOF = 24
CURVE = 8
"""How many lines the curve of step lengths takes, and how many steps are worth one."""


def result(facts: About, shown: Result, look: Look) -> Iterator[Line]:
    """Title, table and notes."""
    if shown.analysis == "health":
        yield from caption(shown, look.width, look.unit)
        yield from _sentences(shown, look)
    else:
        yield from table(shown, look.width, look.unit)
    if shown.analysis == "roofline":
        yield from _roof(shown, look)
    untimed = replace(facts.window, start=None, end=None)
    if not untimed.whole:
        yield from notes([narrowed(facts, untimed, look.unit)], look.width)


def summary(page: Summary, look: Look) -> Iterator[Line]:
    """The page: the facts of the trace, then a section for each result."""
    yield Line(middle(page.about.name, look.width), "title")
    for sentence in sentences(page.about, look.unit):
        yield from (Line(words) for words in wrapped(sentence, look.width))
    for shown in page.results:
        yield Line("")
        yield from (_ruled(title.text, look.width) for title in caption(shown, look.width, look.unit))
        yield from _section(page, shown, look)


def page(shown: Page, look: Look) -> Iterator[Line]:
    """The runs, then a section for each result."""
    yield Line(middle(shown.title, look.width), "title")
    for part, run in shown.runs:
        yield from (Line(words) for words in wrapped(f"{part}: {run}", look.width))
    for section in shown.results:
        yield Line("")
        yield from (_ruled(title.text, look.width) for title in caption(section, look.width, look.unit))
        yield from _plain(section, look)


def _section(page: Summary, shown: Result, look: Look) -> Iterator[Line]:
    match shown.analysis:
        case "overview":
            yield from body(_only(shown, RANKS), look.width, look.unit)
            yield from notes(note_texts(shown.notes[1:]), look.width)  # the first is what the heading says
        case "findings":
            yield from _plain(_only(shown, FINDINGS), look)
        case "breakdown":
            yield from _plain(_only(shown, DIVIDED), look)
            yield from _divided(shown, look.width)
        case "steps":
            yield from _plain(shown, look)
            yield from _curve(page.lengths, look)
        case "ops":
            alike = shown.table["name"].is_duplicated().any()
            yield from _with_bars(_only(shown, ALIKE if alike else OPS), look)
        case "gaps":
            yield from _plain(_only(shown, GAPS), look)
        case "health":
            yield from _sentences(shown, look)
        case _:
            yield from _plain(shown, look)


def _only(shown: Result, names: Sequence[str]) -> Result:
    """The result with these of its columns, in its own order."""
    columns = tuple(replace(column, brief=True) for column in shown.columns if column.name in names)
    return replace(shown, columns=columns, table=shown.table.select(column.name for column in columns))


def _plain(shown: Result, look: Look) -> Iterator[Line]:
    if shown.table.height or not shown.notes:
        yield from body(shown, look.width, look.unit)
    yield from _remarks(shown, look)


def _remarks(shown: Result, look: Look) -> list[Line]:
    shares = meanings(shown.columns) if shown.table.height else []
    return notes([*shares, *note_texts(shown.notes)], look.width)


def _ruled(text: str, width: int) -> Line:
    """A heading with a rule up to the width; at most 100 characters of it, which is as far as an eye goes."""
    length = min(width, 100) - len(text) - 1
    return Line(f"{text} {'─' * length}" if length > 2 else text, "title")


def _with_bars(shown: Result, look: Look) -> Iterator[Line]:
    """The table, and at the end of each row a bar for its share of the largest one."""
    if shown.table.is_empty():
        yield from _plain(shown, look)
        return
    shares = [share or 0.0 for share in shown.table["share"].to_list()]
    most = max(shares) or 1.0
    lines = body(shown, look.width - BAR - 2, look.unit)
    width = max(len(row.text) for row in lines)
    rest = iter(shares)
    for row in lines:
        drawn = f"{row.text:<{width}}  {bar(next(rest) / most, BAR)}" if row.role == "row" else row.text
        yield Line(drawn.rstrip(), row.role)
    yield from _remarks(shown, look)


def _divided(shown: Result, width: int) -> Iterator[Line]:
    """A bar for each rank, divided as its time was."""
    glyphs = [glyph for _, glyph in PARTS]
    labels = [f"rank {rank}" for rank in shown.table["rank"].to_list()]
    room = max((len(label) for label in labels), default=0)
    shares = shown.table.select(f"{name}_share" for name, _ in PARTS).rows()
    if not shares or width < room + 20:
        return
    length = min(width, 100) - room - 3
    for label, parts in zip(labels, shares, strict=True):
        yield Line(f"{label:<{room}} |{stacked([part or 0.0 for part in parts], glyphs, length)}|")
    legend = "  ".join(f"{glyph if glyph.strip() else 'blank'} {WORDS.get(name, name)}" for name, glyph in PARTS)
    yield from notes([legend], width)


def _curve(lengths: Sequence[tuple[int, int]], look: Look) -> Iterator[Line]:
    """The length of every step as a curve, from zero, where there are enough of them."""
    if len(lengths) < CURVE:
        return
    numbers, times = zip(*lengths, strict=True)
    most = max(times)
    ticks = [(number, str(number)) for number in (numbers[0], numbers[len(numbers) // 2], numbers[-1])]
    marks = [(0, "0"), (most, duration(most))]
    drawn = line(numbers, times, min(look.width, 100), CURVE, ticks=ticks, marks=marks)
    yield from (Line(text.rstrip()) for text in drawn)
    if drawn:
        yield from notes(["length of each step on its slowest rank, by number of the step"], look.width)


def _roof(shown: Result, look: Look) -> Iterator[Line]:
    """The ops under their device's roof, as the explorer draws it."""
    drawn = roofline(shown, -1, (min(look.width, 100), ROOF))
    yield from (Line(text.rstrip()) for text in ([""] if drawn else []) + drawn)


def _sentences(shown: Result, look: Look) -> Iterator[Line]:
    """Level, count, what and where, as sentences: they are read, not compared."""
    for level, number, what, where in shown.table.select("level", "count", "what", "where").iter_rows():
        place = f" ({where})" if where else ""
        times = f" {count(number)}:" if number > 1 else ":"
        yield from (Line(words) for words in wrapped(printable(f"{level}{times} {what}{place}"), look.width))
    yield from notes(note_texts(shown.notes), look.width)
