"""Which of the traces that lie in one folder are opened with it: of what tells the same twice, one.

Owns what is the same: the two forms of an XLA profile, recordings of one run, memory timelines beside traces. Knows
nothing of how files are found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from tracehound.errors import TracehoundError
from tracehound.notes import Note
from tracehound.store.found import Finding, Found
from tracehound.store.spans import others

_XLA_NAME = re.compile(r"(?P<host>.*)\.(?P<form>xplane\.pb|trace\.json)(\.gz)?")

TWINS: Final = "twin_json_skipped"
"""The note of files that every profile of XLA has."""


def preferred(files: Sequence[Found]) -> Finding:
    """Those of a folder's files that are opened with it, and what is said of the others."""
    notes: list[Note] = []
    traces = [file for file in files if file.format.name != "memory_timeline"]
    if traces and len(traces) < len(files):
        beside = [file.path for file in files if file not in traces]
        notes.append(Note("info", "memory_timeline_beside_trace", len(beside), file=str(beside[0])))
    kept = {file.path: file for file in _without_twins(traces or files)}
    if twins := [file.path for file in traces if file.path not in kept]:
        notes.append(Note("info", TWINS, len(twins), file=twins[0].name))
    older, newer = others(list(kept), lambda path: claim(kept[path]))
    if older:
        notes.append(Note("info", "older_recordings", len(older), file=str(older[-1])))
    if newer:
        notes.append(Note("inferred", "newer_recordings", len(newer), file=str(newer[-1])))
    left = {*older, *newer}
    return Finding(tuple(file for path, file in kept.items() if path not in left), tuple(notes))


def _without_twins(files: Iterable[Found]) -> list[Found]:
    files = list(files)
    complete = {m["host"] for f in files if f.format.name == "xplane" and (m := _XLA_NAME.fullmatch(f.path.name))}
    return [
        f
        for f in files
        if not (f.format.name == "chrome" and (m := _XLA_NAME.fullmatch(f.path.name)) and m["host"] in complete)
    ]


def claim(file: Found) -> int | None:
    """The rank that the ends of a file record; None without one."""
    try:
        return file.format.reader.glance(file.path).rank
    except TracehoundError:
        return None
