"""Which devices of a job are not in the files that are open, by what its programs were compiled for.

Owns the comparison of a program's device assignment with the devices that were recorded.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tracehound.analysis.result import Scene
from tracehound.file_facts import FileFacts
from tracehound.notes import Note

_DEVICE: Final = re.compile(r"/device:(?:TPU|GPU):\d+")


class Absent(NamedTuple):
    """A program runs on so many devices, of which so many are here."""

    program: str
    devices: int
    here: int

    @property
    def note(self) -> Note:
        """The note that these devices are missing."""
        values = (("program", self.program), ("devices", self.devices), ("here", self.here))
        return Note("missing", "devices_missing", self.devices - self.here, values=values)


def absent(scene: Scene) -> Absent | None:
    """The program that runs on most devices, where that is more than were recorded; None where nothing is missing.

    A device that was recorded and did nothing is here. Where all CPU devices of a process are drawn as one, nobody
    knows how many there were.
    """
    told = [(one.devices, one.name) for facts in scene.facts for one in facts.programs]
    devices, program = max(told, default=(0, ""))
    here = max(scene.ranks.height, sum(map(_planes, scene.facts)))
    one_cpu = here == 1 and scene.ranks["label"].str.starts_with("CPU").any()
    return Absent(program, devices, here) if devices > here > 0 and not one_cpu else None


def _planes(facts: FileFacts) -> int:
    """How many devices a profile has planes of."""
    return sum(_DEVICE.fullmatch(name) is not None for name in facts.planes)
