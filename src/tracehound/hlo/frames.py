"""Where instructions come from: the stacks of source lines that made them.

Owns the field numbers of StackFrameIndex. Files, functions, places and frames are numbered from 1 in it.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from tracehound.formats.hlo.fields import Message
from tracehound.formats.hlo.instructions import FRAME_ID, SOURCE_FILE, SOURCE_LINE
from tracehound.hlo.instruction import Instruction

FILES, FUNCTIONS, PLACES, STACK = 1, 2, 3, 4
PLACE, PARENT = 1, 2
FILE, FUNCTION, LINE = 1, 2, 3

DEEPEST = 256
"""Frames of a stack that are shown; a stack that leads back to itself is endless."""


class Frame(NamedTuple):
    """One line of source; `function` is empty where the file does not say."""

    file: str
    line: int
    function: str = ""

    @property
    def text(self) -> str:
        """``model.py:42``."""
        return f"{self.file}:{self.line}" if self.line else self.file


class Frames(Struct, frozen=True):
    """The table of a module: the line of each frame, and the number of the frame that called it."""

    lines: tuple[Frame, ...] = ()
    parents: tuple[int, ...] = ()

    def stack(self, instruction: Instruction) -> tuple[Frame, ...]:
        """The frames of an instruction, the innermost first."""
        metadata = instruction.metadata
        if metadata is None:
            return ()
        found = self._followed(metadata.number(FRAME_ID))
        if found or not metadata.text(SOURCE_FILE):
            return found
        return (Frame(metadata.text(SOURCE_FILE), metadata.number(SOURCE_LINE)),)

    def _followed(self, number: int) -> tuple[Frame, ...]:
        found: list[Frame] = []
        while 0 < number <= len(self.lines) and len(found) < DEEPEST:
            found.append(self.lines[number - 1])
            number = self.parents[number - 1]
        return tuple(one for one in found if one.file)


def frames_of(index: Message | None) -> Frames:
    """The frames of a StackFrameIndex."""
    if index is None:
        return Frames()
    files, functions = index.texts(FILES), index.texts(FUNCTIONS)
    places = [
        Frame(_nth(files, place.number(FILE)), place.number(LINE), _nth(functions, place.number(FUNCTION)))
        for place in index.all(PLACES)
    ]
    stack = [(frame.number(PLACE), frame.number(PARENT)) for frame in index.all(STACK)]
    nowhere = Frame("", 0)
    lines = tuple(places[at - 1] if 0 < at <= len(places) else nowhere for at, _ in stack)
    return Frames(lines, tuple(parent for _, parent in stack))


def _nth(texts: list[str], number: int) -> str:
    return texts[number - 1] if 0 < number <= len(texts) else ""
