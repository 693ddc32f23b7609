"""The sentences of notes: the only place where a code and its values become text.

The text can contain names from a trace, so the caller must make it printable. Modules that compute results must not
import it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.result import Result
from tracehound.draw.notes import (
    device_notes,
    file_notes,
    finding_notes,
    hlo_notes,
    host_notes,
    memory_notes,
    rank_notes,
    step_notes,
    table_notes,
)
from tracehound.draw.notes.sentence_template import SentenceTemplate
from tracehound.errors import printable
from tracehound.model.notes import Note

SENTENCES: Final[Mapping[str, SentenceTemplate]] = MappingProxyType(
    {
        code: sentence
        for group in (
            device_notes,
            file_notes,
            finding_notes,
            hlo_notes,
            host_notes,
            memory_notes,
            rank_notes,
            step_notes,
            table_notes,
        )
        for code, sentence in group.SENTENCES.items()
    }
)
"""The sentence of every code."""


HEADLINE_CODES: Final = (
    "memory_nearly_full", "queue_nearly_full", "waited_for_ranks", "late_without_waits", "no_late_rank",
    "communication_waits", "exposed_total", "group_overlapped", "critical_path_bound", "hlo_ops_wait_for_host_memory",
    "roofline_judged", "time_at_roof", "time_judged", "waits_for_host_copies", "idle_by_cause", "gaps_total",
    "duty_cycle_total", "kernel_time_total", "breakdown_total", "mean_step_parts", "step_times", "step_lengths",
    "mean_step_time", "device_idle", "computation_on_tensor_cores", "launches_total", "work_in_graphs",
    "time_compiling", "executions_total", "program_peak", "device_memory_peak", "allocator_peak", "host_time",
    "lane_busy", "steps_inconclusive", "too_few_steps", "no_difference",
)  # fmt: skip
"""Notes that answer the question of their table, the one that says most first; all others are caveats."""


def split_headline(notes: Sequence[Note]) -> tuple[Note | None, tuple[Note, ...]]:
    """The note that answers the question of a table, if there is one, and all others."""
    codes = [note.code for note in notes]
    at = next((codes.index(code) for code in HEADLINE_CODES if code in codes), None)
    return (None, tuple(notes)) if at is None else (notes[at], (*notes[:at], *notes[at + 1 :]))


def note_text(note: Note) -> str:
    """The sentence of a note."""
    sentence = SENTENCES[note.code]
    values = {name: note_text(value) if isinstance(value, Note) else value for name, value in note.values}
    return sentence.format(**values) if isinstance(sentence, str) else sentence(**values)


def note_texts(notes: Iterable[Note]) -> tuple[str, ...]:
    """The sentences of notes."""
    return tuple(map(note_text, notes))


def render_note_columns(result: Result) -> Result:
    """The result with sentences in its columns of unit `note`, which become columns of text."""
    names = [column.name for column in result.columns if column.unit == "note"]
    if not names:
        return result
    texts = [result.table[name].map_elements(_decode_note_text, pl.String) for name in names]
    columns = tuple(replace(column, unit="text") if column.unit == "note" else column for column in result.columns)
    return replace(result, columns=columns, table=result.table.with_columns(texts))


def _decode_note_text(encoded: str) -> str:
    return printable(note_text(msgspec.json.decode(encoded, type=Note)))
