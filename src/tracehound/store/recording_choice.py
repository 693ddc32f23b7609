"""The choice of one recording among the files of a folder and its subfolders, before any of them is read."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

from tracehound.model.file_facts import PeekedFacts
from tracehound.store.file_copies import find_copies, notes_of_copies
from tracehound.store.file_names import ascend_folder, dated_name, process_words
from tracehound.store.recordings import RecordedFile, find_recordings, left_out_paths
from tracehound.store.trace_files import RANK_PER_FILE_FORMAT, FoundFiles, TraceFile, peek


def choose_recording(files: Sequence[TraceFile], run: str | None) -> FoundFiles:
    """The files of one recording among all files of a folder and its subfolders, and notes about the others.

    Copies of files are left out, and files merged of others; then all recordings but that called `run`, without it but
    the newest that most processes have. Raises TracehoundError if there are recordings, but none of that name.
    """
    kineto = [file for file in files if file.format.name == RANK_PER_FILE_FORMAT]
    if _are_named_apart([file.path for file in kineto]):
        return FoundFiles(tuple(files), ())
    peeked = {file.path: peek(file) for file in kineto}
    repeats = find_copies(kineto, peeked)
    notes = notes_of_copies(repeats)
    recorded = [_recorded_file(path, facts, peeked) for path, facts in peeked.items() if path not in repeats]
    left, known, is_known = dict[Path, None](), list[str](), False
    for dated in (True, False):
        if recordings := find_recordings([file for file in recorded if file.dated == dated]):
            wanted = run if run is not None and recordings.chosen(run) else None
            is_known = is_known or wanted is not None
            known += [each.name for each in recordings.recordings]
            paths, more = left_out_paths(recordings, wanted)
            left |= paths
            notes += more
    kept = tuple(file for file in files if file.path not in left and file.path not in repeats)
    return FoundFiles(kept, tuple(notes), run_found=is_known, runs=tuple(known))


def _are_named_apart(paths: Sequence[Path]) -> bool:
    """True if the names of files say that each is of another process, so that none has to be looked at.

    Files of different folders are of different processes: the caller has chosen folders that belong together.
    """
    folders: dict[Path, list[Hashable]] = {}
    for path in paths:
        dated = dated_name(path)
        folders.setdefault(path.parent, []).append(dated[0] if dated else process_words(path))
    return not any(path for path in paths if ascend_folder(path)) and all(
        len(names) == 1 or (all(names) and len(set(names)) == len(names)) for names in folders.values()
    )


def _recorded_file(path: Path, facts: PeekedFacts, peeked: Mapping[Path, PeekedFacts]) -> RecordedFile:
    """A file with its process and its times, from its name if that has a time, else from its ends."""
    if dated := dated_name(path):
        several = sum(1 for other in peeked if (found := dated_name(other)) and found[0] == dated[0]) > 1
        return RecordedFile(path, (dated[0], facts.rank if several else None), dated[1], dated=True)
    if facts.merged or (facts.process is None and facts.rank is None):
        return RecordedFile(path)
    process = (path.parent, facts.host, facts.rank, facts.process, process_words(path))
    return RecordedFile(path, process, facts.start_ns, facts.end_ns, facts.wall)
