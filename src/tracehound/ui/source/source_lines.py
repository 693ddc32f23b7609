"""Lines of source code that a trace names.

Owns the spellings: Kineto's ``file.py(12): function``, the Python tracer of XLA's ``$file.py:12 function``, and
``file.py:12:4`` of HLO. What is named is not looked for here. Everything named is as untrusted as the trace.
"""

from __future__ import annotations

import re

from msgspec import Struct

_FILE = r"(?P<file>[^\n;]{1,4096}?)"
_LINE = r"(?P<line>\d{1,9})"
_LINE_PATTERNS = tuple(
    re.compile(spelling)
    for spelling in (
        rf"{_FILE}\({_LINE}\): ?(?P<what>.*)",
        rf"\${_FILE}:{_LINE} (?P<what>.*)",
        rf"{_FILE}:{_LINE}(?::\d{{1,9}})?(?P<what>)",
    )
)
"""Each matches a whole frame of a stack."""


class SourceLine(Struct, frozen=True):
    """A line (from 1) of a file as the trace names it, and the function that it is in; empty where that is unknown."""

    file: str
    line: int
    what: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}"
        return f"{place} {self.what}" if self.what else place


def parse_source_line(words: str) -> SourceLine | None:
    """The source line that `words` are, as a whole; None when they are something else, or code without a file."""
    for spelling in _LINE_PATTERNS:
        match = spelling.fullmatch(words)
        if match and int(match["line"]) > 0 and _is_file(match["file"]):
            return SourceLine(match["file"], int(match["line"]), match["what"])
    return None


def split_stack(stack: str) -> list[str]:
    """The frames of a stack that is written as one text, in its order: one on each line, or between semicolons."""
    parts = stack.splitlines() if "\n" in stack else stack.split(";")
    return [part.strip() for part in parts if part.strip()]


def _is_file(file: str) -> bool:
    """True if a name can be a file's: ``<frozen importlib>`` and built-ins are none, nor is a time like 12:30."""
    return file.strip() == file and not file.startswith("<") and ("." in file or "/" in file or "\\" in file)
