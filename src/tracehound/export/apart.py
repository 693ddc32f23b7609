"""A trace as a folder: a file for each that it was read from, which reads back as the ranks and hosts that it was.

Owns how these files are called, and which ranks each has. Writes nothing.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tracehound.trace import Trace, Window

FORM: Final = "json.gz"
"""What is written to a folder unless another form is asked for."""

_ENDS: Final = (".gz", ".json", ".pb", ".xplane")
"""What names of traces end with, from behind."""


def names(files: Sequence[Path], suffix: str) -> list[Path]:
    """A path for each of these files, relative to the folder that is written, all different.

    A file keeps its name, but for what says how it is encoded; where that is all that told two apart, their whole
    names. It lies in a folder called as its own where such folders are told apart by numbers (``r0``, ``r1``), which
    may be those of ranks; else, for what lies in folders is read as other runs, names of folders come before its own
    where that is not its alone.
    """
    whole = [Path(os.path.abspath(file)) for file in files]  # noqa: PTH100, links stay what they are called
    above = os.path.commonpath([file.parent for file in whole]) if whole else ""
    places = [file.relative_to(above) for file in whole]
    if not _numbered(places):
        places = _flat(places)
    short = [place.with_name(_stem(place.name) + suffix) for place in places]
    alike = Counter(short)
    named = [
        brief if alike[brief] == 1 else place.with_name(place.name + suffix)
        for brief, place in zip(short, places, strict=True)
    ]
    if len(set(named)) == len(named):
        return named
    return [name.with_name(f"{number}-{name.name}") for number, name in enumerate(named)]


def parts_of(trace: Trace, window: Window) -> dict[int, tuple[int, ...]]:
    """The numbers of the parts that have ranks of the window, and these ranks."""
    found = dict[int, tuple[int, ...]]()
    for rank, host in trace.ranks.select("rank", "host").sort("rank").iter_rows():
        if window.ranks is None or rank in window.ranks:
            number = trace.hosts[host].part
            found[number] = (*found.get(number, ()), rank)
    return found


def windows(trace: Trace, window: Window) -> dict[Path, Window]:
    """The window for the ranks of each file, by the path that it was read from."""
    return {trace.parts[number].path: replace(window, ranks=ranks) for number, ranks in parts_of(trace, window).items()}


def _numbered(places: Sequence[Path]) -> bool:
    """Whether each of these lies in a folder, and the names of these differ in their numbers alone."""
    folders = {re.sub(r"[0-9]+", "#", place.parent.name) for place in places}
    return len(folders) == 1 and all(len(place.parts) == 2 for place in places)


def _flat(places: Sequence[Path]) -> list[Path]:
    """The names of these files, each with those of as many folders around it as tell them apart."""
    deepest = max((len(place.parts) for place in places), default=1)
    for depth in range(1, deepest + 1):
        named = [Path("-".join(place.parts[-depth:])) for place in places]
        if len(set(named)) == len(named):
            break
    return named


def _stem(name: str) -> str:
    """A name without what says how the file is encoded; a name that says nothing else keeps it."""
    stem = name
    for end in _ENDS:
        stem = stem.removesuffix(end)
    return stem or name
