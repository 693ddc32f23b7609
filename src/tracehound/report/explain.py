"""An analysis -> what it answers and how its numbers are defined, in words.

Owns the text of `--list` and `--explain`. Knows no trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tracehound.analysis.result import Analysis
from tracehound.draw.cells import heading
from tracehound.draw.table import Line, wrapped


def listing(analyses: Sequence[Analysis]) -> Iterator[Line]:
    """A line for each analysis: its name and its question."""
    room = max(len(analysis.name) for analysis in analyses)
    return (Line(f"{analysis.name:<{room}}  {analysis.question}") for analysis in analyses)


def definition(analysis: Analysis, width: int) -> Iterator[Line]:
    """The question, the definition, and what every column means."""
    yield from (Line(line, "title") for line in wrapped(f"{analysis.name}: {analysis.question}", width))
    for paragraph in analysis.definition.split("\n\n"):
        yield Line("")
        yield from (Line(line) for line in _filled(paragraph, width))
    yield Line("")
    yield Line("columns", "head")
    columns = [column for column in analysis.columns if column.unit != "id"]
    room = max((len(heading(column)) for column in columns), default=0)
    for column in columns:
        base = f", of {column.base}" if column.base else ""
        words = f"{column.meaning}{base} ({column.unit})"
        first, *more = wrapped(words, max(width - room - 4, 20))
        yield Line(f"  {heading(column):<{room}}  {first}")
        yield from (Line(f"  {'':<{room}}  {line}") for line in more)


def _filled(paragraph: str, width: int) -> list[str]:
    return [line.strip() for line in wrapped(" ".join(paragraph.split()), min(width, 100))]
