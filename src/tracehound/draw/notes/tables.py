"""What notes say of any table: the settings that were chosen, and how its rows were filtered and sorted.

Owns these sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.analysis.result import SETTING
from tracehound.draw.notes.sentence import Sentence
from tracehound.errors import printable


def _rows_filtered(filter: str, passed: int, of: int, above: int) -> str:  # noqa: A002, the value's name
    more = f", and {above:,} above them" if above else ""
    return f"where {printable(filter)}: {passed:,} of {of:,} rows{more}"


def _columns_hidden(columns: tuple[str, ...]) -> str:
    return f"hidden: {', '.join(columns)}"


def _rows_sorted(column: str, *, falling: bool) -> str:
    return f"sorted by {column}, {'falling' if falling else 'rising'}"


SENTENCES: Final[Mapping[str, Sentence]] = {
    "text": "{text}",
    SETTING: "with {name}={value}",
    "query_setting_chosen": "{table} with {name}={value}",
    "rows_filtered": _rows_filtered,
    "columns_hidden": _columns_hidden,
    "rows_sorted": _rows_sorted,
}
