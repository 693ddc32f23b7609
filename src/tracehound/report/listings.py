"""Listings: analyses (`--list`), definitions (`--explain`), tables of a query (`query --tables`), the cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from tracehound.analysis.result import Analysis, Column
from tracehound.draw.cell_text import column_heading
from tracehound.draw.text_table import TextLine, wrap_sentence
from tracehound.draw.text_wrapping import rewrap_text
from tracehound.errors import printable
from tracehound.model.units import count_noun, format_bytes
from tracehound.store.trace_cache import CacheEntry

if TYPE_CHECKING:
    from tracehound.query import SqlTable


def list_analyses(analyses: Sequence[Analysis], width: int) -> Iterator[TextLine]:
    """The name of each analysis and its question, wrapped to the width."""
    room = max(len(analysis.name) for analysis in analyses)
    text = "\n".join(f"{analysis.name:<{room}}  {analysis.question}" for analysis in analyses)
    return map(TextLine, rewrap_text(text, width).split("\n"))


def explain_analysis(analysis: Analysis, width: int) -> Iterator[TextLine]:
    """The question, the definition, and the meaning of every column."""
    yield from (TextLine(line, "title") for line in wrap_sentence(f"{analysis.name}: {analysis.question}", width))
    for paragraph in analysis.definition.split("\n\n"):
        yield TextLine("")
        yield from (TextLine(line) for line in _fill_paragraph(paragraph, width))
    columns = [column for column in analysis.columns if column.unit != "id"]
    yield from _definition_list(
        "columns", {column_heading(column): _column_meaning(column) for column in columns}, width
    )
    if analysis.settings:
        descriptions = {
            setting.name: f"{setting.meaning} (default: {setting.default})" for setting in analysis.settings
        }
        yield from _definition_list("settings: --set NAME=VALUE", descriptions, width)


def _column_meaning(column: Column) -> str:
    base = f", of {column.base}" if column.base else ""
    return f"{column.meaning}{base} ({column.unit})"


def _definition_list(title: str, descriptions: Mapping[str, str], width: int) -> Iterator[TextLine]:
    """Names and their descriptions, under a title."""
    yield TextLine("")
    yield TextLine(title, "head")
    room = max(map(len, descriptions), default=0)
    for name, words in descriptions.items():
        first, *more = wrap_sentence(words, max(width - room - 4, 20))
        yield TextLine(f"  {name:<{room}}  {first}")
        yield from (TextLine(f"  {'':<{room}}  {line}") for line in more)


def _fill_paragraph(paragraph: str, width: int) -> list[str]:
    return [line.strip() for line in wrap_sentence(" ".join(paragraph.split()), min(width, 100))]


QUERY_TYPES = MappingProxyType(
    {
        "instant": "time",
        "count": "number",
        "id": "number",
        "decimal": "number",
        "rate": "bytes/s",
        "flops": "FLOP/s",
        "host": "list",
        "prose": "text",
    }
)
"""The type of a column in a query by its unit; other units are their own type."""


def list_query_tables(tables: Sequence[SqlTable], width: int) -> Iterator[TextLine]:
    """Every table with its columns: name, type, meaning."""
    for number, table in enumerate(tables):
        if number:
            yield TextLine("")
        yield from (TextLine(line, "title") for line in wrap_sentence(f"{table.name}: {table.meaning}", width))
        room = max(len(column.name) for column in table.columns)
        for column in table.columns:
            kind = QUERY_TYPES.get(column.unit, column.unit)
            words = f"{column.meaning}, of {column.base}" if column.base else column.meaning
            first, *more = wrap_sentence(words, max(width - room - 13, 20))
            yield TextLine(f"  {column.name:<{room}}  {kind:<7}  {first}")
            yield from (TextLine(f"  {'':<{room + 9}}  {line}") for line in more)


def list_cache_entries(entries: Sequence[CacheEntry], root: Path) -> Iterator[TextLine]:
    """A line for each entry, the last used first, and their sum."""
    for entry in entries:
        used = datetime.fromtimestamp(entry.used_ns // 10**9, tz=UTC)
        what = "  (downloaded)" if entry.is_object else ""
        yield TextLine(f"{format_bytes(entry.size):>10}  {used:%Y-%m-%d %H:%M}  {printable(entry.source)}{what}")
    total = format_bytes(sum(entry.size for entry in entries))
    yield TextLine(f"{count_noun(len(entries), 'entry', 'entries')}, {total}, in {printable(str(root))}")
