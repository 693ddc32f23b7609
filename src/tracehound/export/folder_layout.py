"""The files of an export to a folder: one for each file of the trace, which read back as its ranks and hosts.

Owns the names of these files, and the ranks of each. Writes nothing.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tracehound.model.trace import Trace, Window

FOLDER_FORMAT: Final = "json.gz"
"""The format in a folder unless another one is asked for."""

_TRACE_SUFFIXES: Final = (".gz", ".json", ".pb", ".xplane")
"""Suffixes of trace names, from behind."""


def file_names(files: Sequence[Path], suffix: str) -> list[Path]:
    """A path for each of these files, relative to the folder that is written, all different.

    A file keeps its name, without the suffixes of its encoding; where only those differ, the whole name. It is put in a
    folder with its own folder's name where such folders differ by numbers (``r0``, ``r1``), which may be those of
    ranks. Otherwise subfolders would be read as other runs, so names of folders come before the file's name where that
    is not unique.
    """
    whole = [Path(os.path.abspath(file)) for file in files]  # noqa: PTH100, links stay what they are called
    above = os.path.commonpath([file.parent for file in whole]) if whole else ""
    places = [file.relative_to(above) for file in whole]
    if not _folders_differ_by_number(places):
        places = _flat_names(places)
    short = [place.with_name(_name_without_suffixes(place.name) + suffix) for place in places]
    alike = Counter(short)
    named = [
        brief if alike[brief] == 1 else place.with_name(place.name + suffix)
        for brief, place in zip(short, places, strict=True)
    ]
    if len(set(named)) == len(named):
        return named
    return [name.with_name(f"{number}-{name.name}") for number, name in enumerate(named)]


def ranks_by_part(trace: Trace, window: Window) -> dict[int, tuple[int, ...]]:
    """The numbers of the parts that have ranks of the window, and these ranks."""
    found = dict[int, tuple[int, ...]]()
    for rank, host in trace.ranks.select("rank", "host").sort("rank").iter_rows():
        if window.ranks is None or rank in window.ranks:
            number = trace.hosts[host].part
            found[number] = (*found.get(number, ()), rank)
    return found


def windows_by_file(trace: Trace, window: Window) -> dict[Path, Window]:
    """The window for the ranks of each file, by the path that it was read from."""
    return {
        trace.parts[number].path: replace(window, ranks=ranks) for number, ranks in ranks_by_part(trace, window).items()
    }


def _folders_differ_by_number(places: Sequence[Path]) -> bool:
    """True where each of these is in a folder, and the names of the folders differ in their numbers only."""
    folders = {re.sub(r"[0-9]+", "#", place.parent.name) for place in places}
    return len(folders) == 1 and all(len(place.parts) == 2 for place in places)


def _flat_names(places: Sequence[Path]) -> list[Path]:
    """The names of these files, each with as many names of folders around it as make them unique."""
    deepest = max((len(place.parts) for place in places), default=1)
    for depth in range(1, deepest + 1):
        named = [Path("-".join(place.parts[-depth:])) for place in places]
        if len(set(named)) == len(named):
            break
    return named


def _name_without_suffixes(name: str) -> str:
    """A name without suffixes of an encoding; a name that has nothing else keeps them."""
    stem = name
    for end in _TRACE_SUFFIXES:
        stem = stem.removesuffix(end)
    return stem or name
