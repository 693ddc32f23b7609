"""Files of a folder that repeat the events of another one, as far as their ends tell before they are read."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

from tracehound.model.file_facts import PeekedFacts
from tracehound.model.notes import Note
from tracehound.store.file_names import is_name_of_copy, name_different_processes, original_sort_key
from tracehound.store.trace_files import TraceFile, notes_of_equal_files


def find_copies(files: Sequence[TraceFile], peeked: Mapping[Path, PeekedFacts]) -> dict[Path, Path]:
    """Files that begin with the same events of the same process as another one, each with that original.

    A file merged of several ranks' is no original, and is left out only if the files of all ranks are there. Links are
    no copies: a user makes them for ranks that share a file.
    """
    originals: dict[Hashable, list[TraceFile]] = {}
    copies: dict[Path, Path] = {}
    single = [file for file in files if not peeked[file.path].merged]
    ranks = {facts.rank for file in single if (facts := peeked[file.path]).rank is not None}
    world = max((peeked[file.path].world_size or 0 for file in single), default=0)
    have_all = 0 < world <= len(ranks)
    for file in sorted(files, key=lambda file: (peeked[file.path].merged, *original_sort_key(file.path))):
        facts = peeked[file.path]
        alike = originals.setdefault((facts.process, str(facts.first_events)), [])
        candidates = alike if facts.first_events and (have_all or not facts.merged) else []
        original = next((each for each in candidates if _is_copy(file, each, peeked)), None)
        if original is not None:
            copies[file.path] = original.path
        else:
            alike.append(file)
    return copies


def _is_copy(file: TraceFile, original: TraceFile, peeked: Mapping[Path, PeekedFacts]) -> bool:
    """True if a file repeats another one that has the same process and begins with the same events."""
    facts, others = peeked[file.path], peeked[original.path]
    if facts.process is None and not _are_equal_copies(file, original):
        return False
    if facts.merged:
        return not others.merged
    unlike = facts.rank != others.rank or facts.host != others.host
    return not (unlike or name_different_processes(file.path, original.path) or is_link(file.path, original.path))


def _are_equal_copies(file: TraceFile, original: TraceFile) -> bool:
    """True for files with equal bytes at both ends, of which one is named like a copy of the other."""
    if file.size != original.size or not is_name_of_copy(file.path, original.path):
        return False
    return next(notes_of_equal_files({each.path: each.size for each in (file, original)}), None) is not None


def is_link(one: Path, other: Path) -> bool:
    """True if two paths are of one file."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def notes_of_copies(copies: Mapping[Path, Path]) -> list[Note]:
    """Notes about files that are copies, one for each original."""
    by_original: dict[Path, list[Path]] = {}
    for path, original in copies.items():
        by_original.setdefault(original, []).append(path)
    return [
        Note("info", "copies_left_out", len(paths), file=str(paths[0]), values=(("original", original.name),))
        for original, paths in by_original.items()
    ]
