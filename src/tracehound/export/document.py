"""A document of Chrome trace events that is being written, as every viewer of them reads it.

Owns its commas and brackets, and how times are written: in microseconds with as many digits as they have, which never
pass through a float. Knows no trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO, Final

from tracehound.formats.json.elements import encoded
from tracehound.units import PS_PER_US

MARK: Final = b'"by":"tracehound"'
"""What events carry that are no part of the trace but worked out from it."""

NEXT: Final = b",\n"

_EVENTS: Final = b'"traceEvents": ['


class Document:
    """Write it with `begin`, then `add` as often as needed, then `end`; facts are what stands around the events.

    Those that are `known` before go behind all others, and in the place of what others say under their names.
    """

    def __init__(self, file: BinaryIO, known: Mapping[str, Any]) -> None:
        self._file = file
        self._known = known
        self._begun = False
        self._empty = True

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Open the list of events, unless it is open."""
        if self._begun:
            return
        self._begun = True
        facts = {name: value for name, value in facts.items() if name not in self._known}
        self._file.write(b"{\n" + b"".join(_fact(name, value) + NEXT for name, value in facts.items()) + _EVENTS)

    def add(self, texts: bytes) -> None:
        """Add events, each as JSON, with `NEXT` between them; no text is no event."""
        if texts:
            self._file.write(b"\n" if self._empty else NEXT)
            self._file.write(texts)
            self._empty = False

    def end(self, facts: Mapping[str, Any]) -> None:
        """Close the list; further facts go behind it."""
        behind = {**facts, **self._known}
        self._file.write(b"\n]" + b"".join(NEXT + _fact(name, value) for name, value in behind.items()) + b"\n}\n")


def _fact(name: str, value: object) -> bytes:
    return encoded(name) + b": " + encoded(value)


def us(ps: int) -> str:
    """A time in microseconds: to the nanosecond, or to the picosecond where it has any."""
    sign, ps = ("-", -ps) if ps < 0 else ("", ps)
    whole, rest = divmod(ps, PS_PER_US)
    return f"{sign}{whole}.{rest // 1000:03}" if rest % 1000 == 0 else f"{sign}{whole}.{rest:06}"
