"""The exception that users see, and text that is safe to print.

An error message is one line: the file, the position in it, what is wrong and what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

EXIT_BAD_INPUT = 2
"""Exit status of a run whose input or arguments could not be used."""


@dataclass(eq=False)
class TracehoundError(Exception):
    """An error that the user can act on; printed as one line, never as a traceback.

    `path` is the file that it is about, `where` the position in it (``byte 1,024``, ``event 17``), and `remedy` what to
    do.
    """

    message: str
    path: Path | None = None
    where: str = ""
    remedy: str = ""
    code: int = EXIT_BAD_INPUT

    def __str__(self) -> str:
        place = ", ".join(part for part in (path_text(self.path) if self.path else "", self.where) if part)
        text = f"{place}: {self.message}" if place else self.message
        apart = " " if text.endswith("?") else "; "
        return printable(f"{text}{apart}{self.remedy}" if self.remedy else text)


def is_out_of_memory(error: BaseException) -> bool:
    """True if the error means too little memory: a thread that cannot be started has no room for its stack."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "start new thread" in str(error))


def printable_file_name(path: Path) -> str:
    """The name of a file as text that can be shown and written, whatever bytes the name has."""
    return printable(path.name)


def printable(text: str) -> str:
    """`text` on one line, with control characters and invisible characters (direction marks) replaced by visible ones.

    A trace is untrusted: the name of an event may hold escape sequences.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() else _visible_char(c) for c in text)


def _visible_char(char: str) -> str:
    code = ord(char)
    if char in "\t\n\r":
        return " "
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


URL_FOLDER: Final = "tracehound-urls"
"""The folder below which the path of a local file spells the URL of the object that it stands for.

See `store.object_mirror`, which makes these paths.
"""

EMPTY_URL_PART: Final = "%"
"""The name in such a path for an empty part of a URL."""


def is_url_path(path: Path) -> bool:
    """True if a path stands for a URL."""
    return URL_FOLDER in path.parts


def path_text(path: Path | str) -> str:
    """The path as users know it: the URL that it stands for, if it does."""
    text = str(path)
    _, folder, below = text.partition(f"/{URL_FOLDER}/")
    if not folder:
        return text
    scheme, *parts = below.split("/")
    return f"{scheme}://{'/'.join('' if part == EMPTY_URL_PART else unquote(part) for part in parts)}"
