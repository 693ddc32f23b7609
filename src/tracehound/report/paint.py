"""Lines -> a stream, with colours where the stream is a terminal that wants them.

Owns which colour a role has. The sixteen colours of the terminal itself, so that they suit its background.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TextIO

from tracehound.draw.plain import in_ascii
from tracehound.draw.table import Line, Role

_CODES: Mapping[Role, str] = MappingProxyType(
    {"title": "1;36", "head": "1", "note": "2", "caption": "2", "detail": "36"}
)


def plainly(line: Line) -> str:
    """The line as it is."""
    return line.text


def coloured(line: Line) -> str:
    """The line with the colour of its role."""
    code = _CODES.get(line.role)
    return f"\x1b[{code}m{line.text}\x1b[0m" if code and line.text else line.text


def ascii_of(line: Line) -> Line:
    """The line with nothing beyond ASCII."""
    return Line(in_ascii(line.text), line.role)


def colours(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether a stream wants colours: a terminal, not a dumb one, and NO_COLOR not set to anything."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM", "dumb") != "dumb"


def write(lines: Iterable[Line], stream: TextIO, paint: Callable[[Line], str]) -> None:
    """Print the lines one by one; raises BrokenPipeError as soon as nobody reads them."""
    for line in lines:
        stream.write(f"{paint(line)}\n")
