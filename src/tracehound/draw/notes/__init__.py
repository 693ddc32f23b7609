"""The sentences of notes: the one place where a code and its values become words.

Owns which code says what. What it gives may hold text of a trace: whoever shows it makes it printable. Nothing that
works anything out may import it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.result import Result
from tracehound.draw.notes import (
    comparison,
    copy_notes,
    device_notes,
    files,
    finding_notes,
    hlo_notes,
    host_notes,
    idle_notes,
    memory_notes,
    peak_notes,
    query_notes,
    rank_notes,
    reading,
    recorded,
    step_notes,
    tables,
    utilization_notes,
)
from tracehound.draw.notes.sentence import Sentence
from tracehound.errors import printable
from tracehound.notes import Note

SENTENCES: Final[Mapping[str, Sentence]] = MappingProxyType(
    {
        code: sentence
        for group in (
            comparison,
            copy_notes,
            device_notes,
            files,
            finding_notes,
            hlo_notes,
            host_notes,
            idle_notes,
            memory_notes,
            peak_notes,
            query_notes,
            rank_notes,
            reading,
            recorded,
            step_notes,
            tables,
            utilization_notes,
        )
        for code, sentence in group.SENTENCES.items()
    }
)
"""The sentence of every code."""


def note_text(note: Note) -> str:
    """What a note says."""
    sentence = SENTENCES[note.code]
    values = {name: note_text(value) if isinstance(value, Note) else value for name, value in note.values}
    return sentence.format(**values) if isinstance(sentence, str) else sentence(**values)


def note_texts(notes: Iterable[Note]) -> tuple[str, ...]:
    """What each of these notes says."""
    return tuple(map(note_text, notes))


def with_sentences(result: Result) -> Result:
    """The result with sentences in place of the notes that are rows of it: columns of unit `note` become text."""
    names = [column.name for column in result.columns if column.unit == "note"]
    if not names:
        return result
    texts = [result.table[name].map_elements(_decoded_text, pl.String) for name in names]
    columns = tuple(replace(column, unit="text") if column.unit == "note" else column for column in result.columns)
    return replace(result, columns=columns, table=result.table.with_columns(texts))


def _decoded_text(encoded: str) -> str:
    return printable(note_text(msgspec.json.decode(encoded, type=Note)))
