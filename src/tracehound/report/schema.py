"""The tables of a query -> what they hold, in words.

Owns the text of `tracehound query --tables`. Knows no trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType

from tracehound.draw.table import Line, wrapped
from tracehound.query import Table

TYPES = MappingProxyType(
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
"""What a column is to the reader; of other units, the name of the unit. Text, flags and times differ in a query."""


def definitions(tables: Sequence[Table], width: int) -> Iterator[Line]:
    """Every table with its columns: name, type, meaning."""
    for number, table in enumerate(tables):
        if number:
            yield Line("")
        yield from (Line(line, "title") for line in wrapped(f"{table.name}: {table.meaning}", width))
        room = max(len(column.name) for column in table.columns)
        for column in table.columns:
            kind = TYPES.get(column.unit, column.unit)
            words = f"{column.meaning}, of {column.base}" if column.base else column.meaning
            first, *more = wrapped(words, max(width - room - 13, 20))
            yield Line(f"  {column.name:<{room}}  {kind:<7}  {first}")
            yield from (Line(f"  {'':<{room + 9}}  {line}") for line in more)
