"""Events out of an array of JSON that a strict decoder refuses: damaged by its writer, cut off, or merely unusual.

Owns the slow path: one element after the other, each repaired if it can be, else dropped, every repair counted, and
where to go on behind what cannot be read. Knows no event's meaning and reads no file.

An element is first decoded strictly, which most survive; only the others are read leniently and then repaired. What
the strict decoder takes is taken as JSON says: of a key that is there twice the last one counts, numbers are exact.
Bytes that are no UTF-8 are found only where they are read: a typed decoder skips what no column needs, and whoever
looks at such an event sees them replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from itertools import islice
from json import JSONDecodeError
from math import isfinite
from typing import Any, Final

from msgspec import Struct, field

from tracehound.formats.json.text import COMMA, REFUSALS, STRICT, Lenient, Value, number, repaired
from tracehound.notes import Level, Note

CUT_OFF: Final = "event_cut_off"
NO_JSON: Final = "event_not_json"
TOO_DEEP: Final = "event_too_deep"
NO_EVENT: Final = "element_not_event"
RUBBISH: Final = "bytes_not_json"
STRAY: Final = "stray_characters"
NO_NAME: Final = "name_not_text"
NO_ARGS: Final = "args_not_object"
TEXT_TIME: Final = "time_as_text"
NO_COMMA: Final = "comma_missing"
COMMAS: Final = "commas_repeated"

_KEYS: Final = "ph|name|cat|pid|tid|ts|dur|args|id|bp|s"
_NEXT: Final = re.compile(rb'\}\s*+,?+\s*+(?=\{\s*"(?:' + _KEYS.encode() + rb')"\s*:)')
"""The end of one event and the start of the next. A string of valid JSON cannot hold a bare quote, so this never lies
inside one; it may lie inside a list of objects among an event's args."""

_START: Final = re.compile(rb'\{\s*"(?:' + _KEYS.encode() + rb')"\s*:')
_END: Final = re.compile(rb'\]\s*+(?:(?:\}\s*+)?+,\s*"|[\s}]*+$)')
"""The end of the array: of the file too, or facts follow. Other brackets end it where no event is behind them."""

_ARRAY_END: Final = re.compile(rb"\}[\s,]*(?=\])")
_GOES_ON: Final = re.compile(rb'\s*(?:\]|,\s*(?:[^"\s]|"[^"]*"\s*[^:\s]))')
"""What follows an element of the array, and does not follow a string or list that damage tore out of something."""

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\]]', re.DOTALL)
_PHASE: Final = re.compile(r'\s*:\s*"')
_BLANKS: Final = re.compile(rb"[\s,]*")
_OPEN, _CLOSE, _COMMA = b"{],"

_GLANCE: Final = 1000
"""Bytes from the start of an object in which its phase is looked for where its brackets tell nothing."""

_WINDOW: Final = 4096
"""Bytes that hold nearly every event; what does not fit is tried again with `_LARGER` times as many."""

_LARGER: Final = 16
_WHOLE: Final = 1 << 16
_NEAR_END: Final = 64

_REPAIRABLE: Final = 1 << 20
"""Bytes of the longest element that is repaired: a longer one has lost its end."""

_DEEPEST: Final = 50
"""Brackets in brackets in which an event is looked for."""

_FEW: Final = 20
"""Up to so many bytes between two events are not worth an event."""

_TRIES: Final = 64

Element = tuple[dict[str, Any] | None, int]
"""An event, or None where there is none to be read, and the byte behind it."""

Tally = Callable[[Level, str, int], None]
"""Told of a repair or a drop: level, code, and the byte of the inflated file."""


Mend = tuple[Level, str, tuple[tuple[str, int | str | bool], ...]]
"""A kind of repair or drop: level, code and values of its note."""


class Mends(Struct):
    """What was repaired and dropped so far: for each kind how often, and the first byte of the inflated file."""

    counts: dict[Mend, tuple[int, int]] = field(default_factory=dict)

    def tell(self, level: Level, code: str, at: int, **values: int | str | bool) -> None:
        """Count one."""
        mend = (level, code, tuple(values.items()))
        count, first = self.counts.get(mend, (0, at))
        self.counts[mend] = (count + 1, min(first, at))

    def notes(self) -> tuple[Note, ...]:
        """One note for each kind."""
        return tuple(
            Note(level, code, count, where=f"byte {first:,}", values=values)
            for (level, code, values), (count, first) in self.counts.items()
        )


class Walked(Struct, frozen=True):
    """Elements of an array, in order; None is what was no object, or could not be read: that was told.

    `spans` has the bytes of each, counted from the start of the walked bytes. `end` is where the next element starts or
    the bytes end, so counted. `ended` says that the array's `]` lies there (`end` is then behind it); `partial` that
    the bytes ended inside an element.
    """

    events: list[dict[str, Any] | None]
    spans: list[tuple[int, int]]
    end: int
    ended: bool
    partial: bool


def walk(data: bytes, until: int, base: int, tally: Tally, *, final: bool) -> Walked:
    """The elements that start before byte `until` of `data`, the inside of an array that starts between two elements.

    `base` is where `data` lies in the file. `final` says that nothing follows `data`, so that an element without an
    end is dropped and not left for a longer `data`.
    """
    walker = _Walker(data, base, tally, final=final)
    events: list[dict[str, Any] | None] = []
    spans: list[tuple[int, int]] = []
    last, at = 0, _past_blanks(data, 0)  # where the blanks before `at` begin
    while at < len(data):
        if data[at] == _CLOSE:
            if not final and len(data) - at < _WINDOW:
                return Walked(events, spans, at, ended=False, partial=True)
            if walker.ends(at):
                if (comma := data.find(_COMMA, last, at)) >= 0:
                    tally("repaired", COMMA, base + comma)
                return Walked(events, spans, at + 1, ended=True, partial=False)
        if at >= until:
            break
        found = walker.element(at)
        if found is None:
            return Walked(events, spans, at, ended=False, partial=True)
        event, end = found
        if not events and data.count(_COMMA, last, at) > 1:
            tally("repaired", COMMAS, base + last)
        events.append(event)
        spans.append((at, end))
        last, at = end, _past_blanks(data, end)
        if event is not None and data.startswith(b"{", at):
            _tell_of_commas(data.count(_COMMA, last, at), base + last, tally)
    return Walked(events, spans, at, ended=False, partial=False)


def _tell_of_commas(commas: int, at: int, tally: Tally) -> None:
    if commas != 1:
        tally("repaired", COMMAS if commas else NO_COMMA, at)


def is_event(text: str, at: int) -> bool:
    """Whether the object at `at` looks like an event: all events have a phase of their own, other objects have none."""
    depth = 0
    for token in _TOKEN.finditer(text, at):
        found = token[0]
        if found in "{[":
            depth += 1
            if depth > _DEEPEST:
                return False
        elif found in "}]":
            depth -= 1
            if depth <= 0:
                return False
        elif depth == 1 and found == '"ph"' and _PHASE.match(text, token.end()):
            return True
    return '"ph"' in text[at : at + _GLANCE]


def parsed(data: bytes) -> Value:
    """One value of JSON, mended where needed as `walk` mends, and what had to be put right.

    Raises ValueError where it cannot be, and RecursionError where it is nested too deeply.
    """
    text, lenient = _text(data).strip(), Lenient(float)
    try:
        found = lenient.read(text)
    except ValueError:
        found = repaired(text, lenient)
    if found.stop < len(text):
        raise ValueError("more than one value")
    return found


def oddities(event: Mapping[str, Any]) -> Iterator[str]:
    """What of an event's fields is not of the type that it should be, and is read all the same.

    Of an event that will be left out, for want of a phase or a time, nothing else is told.
    """
    phase, times = event.get("ph"), [event[key] for key in ("ts", "dur") if isinstance(event.get(key), str)]
    if not isinstance(phase, str) or not phase or not all(map(_is_number, times)):
        return
    if "ts" in event and not isinstance(event["ts"], int | float | str | Decimal):
        return
    if times:
        yield TEXT_TIME
    if not isinstance(event.get("name", ""), str):
        yield NO_NAME
    if not isinstance(event.get("args", event), Mapping):
        yield NO_ARGS


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


class _Walker:
    """Finds single elements in `data`; to be asked in rising order."""

    def __init__(self, data: bytes, base: int, tally: Tally, *, final: bool) -> None:
        self._data = data
        self._base = base
        self._tally = tally
        self._final = final
        self._lenient = Lenient(number)
        self._edge = 0  # the boundary found last
        self._next = 0  # the start of an event found last

    def element(self, at: int) -> Element | None:
        """The element at `at`; None where more bytes are needed to tell."""
        if found := self._strict(at):
            return found
        try:
            found, reaches_end = self._glimpsed(at)
        except RecursionError:
            return self._too_deep(at)
        if found or (reaches_end and not self._final):
            return found
        return self._studied(at)

    def ends(self, at: int) -> bool:
        """Whether the bracket at `at` ends the array; else it is stray, and events follow."""
        return _END.match(self._data, at) is not None or self._event_behind(at) is None

    def _strict(self, at: int) -> Element | None:
        """An element as it should be, with another one behind it."""
        if self._edge <= at:
            match = _NEXT.search(self._data, at)
            self._edge = match.start() + 1 if match else len(self._data) + _WHOLE
        if self._data[at] != _OPEN or self._edge > at + _WHOLE:
            return None
        try:
            return STRICT(self._data[at : self._edge]), self._edge
        except REFUSALS:
            return None

    def _glimpsed(self, at: int) -> tuple[Element | None, bool]:
        """An element that can be read leniently, and whether the bytes ended in it.

        Most are read from a few bytes; only what seems to be longer is looked at further.
        """
        size = _WINDOW
        while True:
            text = _text(self._data[at : at + size])
            try:
                return self._taken(at, text, self._lenient.read(text)), False
            except ValueError as error:
                if not _open(error, text):
                    return None, False
            if at + size >= len(self._data):
                return None, True
            size *= _LARGER

    def _studied(self, at: int) -> Element | None:
        """An element that is damaged; at the latest it ends where the next event starts, and reading goes on there."""
        data, after = self._data, self._event_behind(at)
        if after is None and not self._final:
            return None
        if data[at] == _OPEN and (len(data) if after is None else after) - at <= _REPAIRABLE:
            text = _text(data[at:after])
            try:
                if found := self._taken(at, text, repaired(text, self._lenient)):
                    return found
            except ValueError:
                pass
        end = self._array_end(at) if after is None else after
        if b'"ph"' in data[at:end]:
            self._tally("dropped", CUT_OFF if end == len(data) else NO_JSON, self._base + at)
        elif end - at > _FEW:
            self._tally("dropped", RUBBISH, self._base + at)
        else:
            self._tally("repaired", STRAY, self._base + at)
        return None, end

    def _too_deep(self, at: int) -> Element | None:
        """An element that no decoder can hold; nothing in its depths is an event, so the next follows a bracket."""
        match = _NEXT.search(self._data, at)
        if match is None and not self._final:
            return None
        self._tally("dropped", TOO_DEEP, self._base + at)
        return None, match.end() if match else self._array_end(at)

    def _taken(self, at: int, text: str, found: Value) -> Element | None:
        """The value found at `at`, counted; None for one that has the looks of something torn."""
        end = at + (found.stop if text.isascii() else len(_bytes(text[: found.stop])))
        if isinstance(found.value, dict):
            for kind in found.kinds:
                self._tally("repaired", kind, self._base + at)
            return found.value, end
        if not _GOES_ON.match(self._data, end):
            return None
        self._tally("dropped", NO_EVENT, self._base + at)
        return None, end

    def _event_behind(self, at: int) -> int | None:
        """Where the next event behind `at` starts; not so near to the end that more bytes might tell otherwise."""
        if self._next <= at:
            starts = (match.start() for match in _START.finditer(self._data, at + 1))
            events = (start for start in starts if is_event(_text(self._data[start : start + 4 * _WINDOW]), 0))
            self._next = next(events, len(self._data))
        known = len(self._data) - (0 if self._final else _GLANCE)
        return self._next if self._next < known else None

    def _array_end(self, at: int) -> int:
        """Where the bracket lies that ends the array of a last event without an end of its own, or all the bytes."""
        for match in islice(_ARRAY_END.finditer(self._data, at), _TRIES):
            rest = self._data[match.end() + 1 :].strip()
            if rest in (b"", b"}"):
                return match.end()
            if rest.startswith(b","):
                try:
                    STRICT(b"{" + rest[1:])
                except REFUSALS:
                    continue
                return match.end()
        return len(self._data)


def _open(error: ValueError, text: str) -> bool:
    """Whether this is the error of a text that ends within a value."""
    if not isinstance(error, JSONDecodeError):
        return False
    return error.pos >= len(text) - _NEAR_END or error.msg.startswith("Unterminated string")


def _past_blanks(data: bytes, at: int) -> int:
    match = _BLANKS.match(data, at)
    return match.end() if match else at


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
