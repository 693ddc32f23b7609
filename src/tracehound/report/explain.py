"""An analysis -> what it answers and how its numbers are defined, in words.

Owns the text of `--list` and `--explain`. Knows no trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tracehound.analysis.result import Analysis, Column
from tracehound.draw.cells import heading
from tracehound.draw.table import Line, wrapped
from tracehound.draw.wrap import fitted


def listing(analyses: Sequence[Analysis], width: int) -> Iterator[Line]:
    """The name of each analysis and its question, which goes on below itself where it is longer than the width."""
    room = max(len(analysis.name) for analysis in analyses)
    told = "\n".join(f"{analysis.name:<{room}}  {analysis.question}" for analysis in analyses)
    return map(Line, fitted(told, width).split("\n"))


def definition(analysis: Analysis, width: int) -> Iterator[Line]:
    """The question, the definition, and what every column means."""
    yield from (Line(line, "title") for line in wrapped(f"{analysis.name}: {analysis.question}", width))
    for paragraph in analysis.definition.split("\n\n"):
        yield Line("")
        yield from (Line(line) for line in _filled(paragraph, width))
    columns = [column for column in analysis.columns if column.unit != "id"]
    yield from _listed("columns", {heading(column): _meaning(column) for column in columns}, width)
    if analysis.settings:
        told = {setting.name: f"{setting.meaning} (default: {setting.default})" for setting in analysis.settings}
        yield from _listed("settings: --set NAME=VALUE", told, width)


def _meaning(column: Column) -> str:
    base = f", of {column.base}" if column.base else ""
    return f"{column.meaning}{base} ({column.unit})"


def _listed(title: str, told: Mapping[str, str], width: int) -> Iterator[Line]:
    """Names and what is said of them, under a title."""
    yield Line("")
    yield Line(title, "head")
    room = max(map(len, told), default=0)
    for name, words in told.items():
        first, *more = wrapped(words, max(width - room - 4, 20))
        yield Line(f"  {name:<{room}}  {first}")
        yield from (Line(f"  {'':<{room}}  {line}") for line in more)


def _filled(paragraph: str, width: int) -> list[str]:
    return [line.strip() for line in wrapped(" ".join(paragraph.split()), min(width, 100))]
