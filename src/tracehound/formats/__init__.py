"""Bytes of one file -> a `Part`. `FORMATS` is the literal list of what can be read.

A format is recognised by the first bytes of a file, never by its name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tracehound.errors import TracehoundError
from tracehound.formats import signs
from tracehound.formats.format import Format
from tracehound.formats.inflate import beginning
from tracehound.formats.unknown import CompanionError, cut_short, likeness

KINETO: Final = Format(
    "kineto", "PyTorch profiler trace (Kineto JSON)", signs.kineto, "tracehound.formats.kineto.reader"
)
CHROME: Final = Format(
    "chrome", "XLA profile, Chrome form (trace.json)", signs.chrome, "tracehound.formats.chrome.reader"
)
XPLANE: Final = Format("xplane", "XLA profile (xplane.pb)", signs.xplane, "tracehound.formats.xla.xplane")

MEMORY_TIMELINE: Final = Format(
    "memory_timeline",
    "PyTorch memory timeline (raw.json.gz)",
    signs.memory_timeline,
    "tracehound.formats.memory_timeline",
)

FORMATS: Final = (KINETO, CHROME, XPLANE, MEMORY_TIMELINE)


def recognise(path: Path) -> Format:
    """The format of the file, by its first bytes.

    Raises TracehoundError for what cannot be opened, and for what is no trace: then it says what the file looks like,
    as a CompanionError where such a file belongs beside traces, or where its gzip is damaged.
    """
    start, damage = beginning(path)
    for candidate in FORMATS:
        if candidate.matches(start):
            return candidate
    if damage is not None:
        raise cut_short(path, start, damage)
    found = likeness(start)
    kind = CompanionError if found.companion else TracehoundError
    raise kind(f"not a trace: looks like {found.looks}", path, remedy=found.remedy)
