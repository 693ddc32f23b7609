"""The one exception that users see.

Owns the shape of an error message: which file, where in it, what is wrong and what to do, on one line.
Knows nothing of formats or of how a face prints it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

BAD_INPUT = 2
"""Exit status of a run whose input could not be used."""


@dataclass(eq=False)
class TracehoundError(Exception):
    """Something the user can act on; printed as one line, never as a traceback.

    `path` is the file it is about, `where` the place in it (``byte 1,024``, ``event 17``) and `remedy` what to do.
    """

    message: str
    path: Path | None = None
    where: str = ""
    remedy: str = ""
    code: int = BAD_INPUT

    def __str__(self) -> str:
        place = ", ".join(part for part in (str(self.path) if self.path else "", self.where) if part)
        text = f"{place}: {self.message}" if place else self.message
        apart = " " if text.endswith("?") else "; "
        return printable(f"{text}{apart}{self.remedy}" if self.remedy else text)


def starved(error: BaseException) -> bool:
    """Whether there was too little memory: a thread that cannot be started has no room for its stack."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "start new thread" in str(error))


def file_name(path: Path) -> str:
    """The name of a file as a text that can be shown and written, whatever bytes it is made of."""
    return printable(path.name)


def printable(text: str) -> str:
    """`text` on one line, with what a terminal would obey (control characters) or hide (direction marks) made visible.

    A trace is untrusted: an event's name may hold escape sequences.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() else _visible(c) for c in text)


def _visible(char: str) -> str:
    code = ord(char)
    if char in "\t\n\r":
        return " "
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"
