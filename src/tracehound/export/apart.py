"""A trace as a folder: a file for each that it was read from, which reads back as the ranks and hosts that it was.

Owns how these files are called, and which ranks each has. Writes nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tracehound.trace import Trace, Window

FORM: Final = "json.gz"
"""What is written to a folder unless another form is asked for."""

_ENDS: Final = (".gz", ".json", ".pb", ".xplane")
"""What names of traces end with, from behind."""


def names(files: Sequence[Path], suffix: str) -> list[Path]:
    """A path for each of these files, relative to the folder that is written, all different.

    It lies below as the file lies below the folder that has them all, since folders may tell which rank is which, and
    keeps its name, but for what says how it is encoded; where that is all that told two apart, their whole names.
    """
    whole = [Path(os.path.abspath(file)) for file in files]  # noqa: PTH100, links stay what they are called
    above = os.path.commonpath([file.parent for file in whole]) if whole else ""
    places = [file.relative_to(above) for file in whole]
    short = [place.with_name(_stem(place.name) + suffix) for place in places]
    alike = Counter(short)
    return [
        brief if alike[brief] == 1 else place.with_name(place.name + suffix)
        for brief, place in zip(short, places, strict=True)
    ]


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


def _stem(name: str) -> str:
    """A name without what says how the file is encoded; a name that says nothing else keeps it."""
    stem = name
    for end in _ENDS:
        stem = stem.removesuffix(end)
    return stem or name
