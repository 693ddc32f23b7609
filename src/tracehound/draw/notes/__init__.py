"""The sentences of notes: the only place where a code and its values become text.

The text can contain names from a trace, so the caller must make it printable. Modules that compute results must not
import it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis.result import Result
from tracehound.draw.notes import (
    device_notes,
    file_notes,
    finding_notes,
    hlo_notes,
    host_notes,
    memory_notes,
    rank_map_notes,
    rank_notes,
    step_notes,
    table_notes,
)
from tracehound.errors import printable
from tracehound.model.notes import WARNING_LEVELS, Note, NoteRole, SentenceTemplate

_NOTE_MODULES: Final = (
    device_notes,
    file_notes,
    finding_notes,
    hlo_notes,
    host_notes,
    memory_notes,
    rank_map_notes,
    rank_notes,
    step_notes,
    table_notes,
)

SENTENCES: Final[Mapping[str, SentenceTemplate]] = MappingProxyType(
    {code: sentence for module in _NOTE_MODULES for code, sentence in module.SENTENCES.items()}
)
"""The sentence of every code."""

HEADLINES: Final = frozenset[str]().union(*(getattr(module, "HEADLINES", ()) for module in _NOTE_MODULES))
"""Codes of notes that answer the question of their table."""

WARNINGS: Final = frozenset[str]().union(*(getattr(module, "WARNINGS", ()) for module in _NOTE_MODULES))
"""Codes of notes on lost or doubtful data, whatever their level."""


class NotesByRole(Struct, frozen=True):
    """Notes of a table by role, in their order: those that are always shown, and the caveats, which may be folded."""

    headlines: tuple[Note, ...] = ()
    warnings: tuple[Note, ...] = ()
    caveats: tuple[Note, ...] = ()


def note_role(note: Note) -> NoteRole:
    """The role of a note, by its level and code."""
    if note.level in WARNING_LEVELS or note.code in WARNINGS:
        return "warning"
    return "headline" if note.code in HEADLINES else "caveat"


def group_notes_by_role(notes: Iterable[Note]) -> NotesByRole:
    """Notes by their role."""
    groups: dict[NoteRole, list[Note]] = {"headline": [], "warning": [], "caveat": []}
    for note in notes:
        groups[note_role(note)].append(note)
    return NotesByRole(tuple(groups["headline"]), tuple(groups["warning"]), tuple(groups["caveat"]))


CAPTION_HEADLINES: Final = (
    "rank_map_worst", "rank_map_even", "rank_map_of_one_rank", "rank_map_without_value",
    "memory_nearly_full", "queue_nearly_full", "waited_for_ranks", "late_without_waits", "no_late_rank",
    "communication_waits", "exposed_total", "group_overlapped", "critical_path_bound", "hlo_ops_wait_for_host_memory",
    "roofline_judged", "time_at_roof", "time_judged", "waits_for_host_copies", "idle_by_cause", "gaps_total",
    "duty_cycle_total", "kernel_time_total", "breakdown_total", "mean_step_parts", "step_times", "step_lengths",
    "mean_step_time", "device_idle", "computation_on_tensor_cores", "launches_total", "work_in_graphs",
    "time_compiling", "executions_total", "program_peak", "device_memory_peak", "allocator_peak", "host_time",
    "lane_busy", "steps_inconclusive", "too_few_steps", "no_difference",
)  # fmt: skip
"""Codes of notes that answer the question of their table, in order of preference where only one has room."""


def split_headline(notes: Sequence[Note]) -> tuple[Note | None, tuple[Note, ...]]:
    """The one note that a caption shows first, if there is one, and all others."""
    codes = [note.code for note in notes]
    at = next((codes.index(code) for code in CAPTION_HEADLINES if code in codes), None)
    return (None, tuple(notes)) if at is None else (notes[at], (*notes[:at], *notes[at + 1 :]))


def note_text(note: Note) -> str:
    """The sentence of a note."""
    sentence = SENTENCES[note.code]
    values = {name: note_text(value) if isinstance(value, Note) else value for name, value in note.values}
    return sentence.format(**values) if isinstance(sentence, str) else sentence(**values)


def note_texts(notes: Iterable[Note]) -> tuple[str, ...]:
    """The sentences of notes."""
    return tuple(map(note_text, notes))


class NoteTexts(Struct, frozen=True):
    """The sentences of a table's notes by role. `folded` caveats are only counted."""

    headlines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    folded: int = 0


def fold_notes(notes: Iterable[Note], *, unfolded: bool = False) -> NoteTexts:
    """The sentences of notes; several caveats are folded unless all are wanted (`unfolded`)."""
    groups = group_notes_by_role(notes)
    hidden = len(groups.caveats) > 1 and not unfolded
    return NoteTexts(
        headlines=note_texts(groups.headlines),
        warnings=note_texts(groups.warnings),
        caveats=() if hidden else note_texts(groups.caveats),
        folded=len(groups.caveats) if hidden else 0,
    )


def separate_repeated_notes(results: Sequence[Result]) -> tuple[list[Result], list[Note]]:
    """The results of one page without the notes that several of them have, and these notes, each once."""
    counts = Counter(note for result in results for note in dict.fromkeys(result.notes))
    repeated = [note for note, times in counts.items() if times > 1]
    kept = [replace(result, notes=tuple(n for n in result.notes if n not in repeated)) for result in results]
    return kept, repeated


def render_note_columns(result: Result) -> Result:
    """The result with sentences in its columns of unit `note`, which become columns of text."""
    names = [column.name for column in result.columns if column.unit == "note"]
    if not names:
        return result
    columns = tuple(replace(column, unit="text") if column.unit == "note" else column for column in result.columns)
    texts = pl.col(names).map_elements(_decode_note_text, pl.String)
    all_rows = None if result.all_rows is None else result.all_rows.with_columns(texts)
    return replace(result, columns=columns, table=result.table.with_columns(texts), all_rows=all_rows)


def _decode_note_text(encoded: str) -> str:
    return printable(note_text(msgspec.json.decode(encoded, type=Note)))
