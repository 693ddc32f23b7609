"""Events out of a JSON array that a strict decoder rejects: damaged by its writer, cut off, or merely unusual.

This is the slow path: one element after the other is repaired if it can be, else dropped, every repair is counted, and
reading resumes behind what cannot be decoded.

An element is first decoded strictly, which most survive; only the others are read leniently and then repaired. The
strict decoder decides as JSON says: of a repeated key the last one counts, numbers are exact. Bytes that are not UTF-8
are found only where they are decoded: a typed decoder skips fields that no column needs, and such an event's args show
them replaced.
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

from tracehound.formats.json.lenient_json import (
    DECODE_ERRORS,
    TRAILING_COMMA,
    LenientDecoder,
    ParsedValue,
    decode_strictly,
    parse_exact_number,
    repair_and_decode,
)
from tracehound.model.notes import EVENTS_WITHOUT_END, Level, Note

EVENT_CUT_OFF: Final = "event_cut_off"
EVENT_NOT_JSON: Final = "event_not_json"
EVENT_TOO_DEEP: Final = "event_too_deep"
ELEMENT_NOT_EVENT: Final = "element_not_event"
BYTES_NOT_JSON: Final = "bytes_not_json"
STRAY_CHARACTERS: Final = "stray_characters"
NAME_NOT_TEXT: Final = "name_not_text"
ARGS_NOT_OBJECT: Final = "args_not_object"
TIME_AS_TEXT: Final = "time_as_text"
COMMA_MISSING: Final = "comma_missing"
EVENTS_WITHOUT_BRACKET: Final = "events_without_bracket"
"""The file begins with an event, as one with one event a line does."""
COMMAS_REPEATED: Final = "commas_repeated"

_KEYS: Final = "ph|name|cat|pid|tid|ts|dur|args|id|bp|s"
_NEXT: Final = re.compile(rb'\}\s*+,?+\s*+(?=\{\s*"(?:' + _KEYS.encode() + rb')"\s*:)')
"""The end of one event and the start of the next. A string of valid JSON cannot hold a bare quote, so this never lies
inside one; it may lie inside a list of objects among an event's args.
"""

_START: Final = re.compile(rb'\{\s*"(?:' + _KEYS.encode() + rb')"\s*:')
_END: Final = re.compile(
    rb'\]\s*+(?:(?:\}\s*+)?+,\s*"|[\s}]*+$|\}\s*+(?!\{\s*"(?:' + _KEYS.encode() + rb')"\s*:)[\[{]\s*[{"])'
)
"""The end of the array: the end of the file, metadata or another document follows. Other brackets end it where no event
follows them.
"""

_ARRAY_END: Final = re.compile(rb"\}[\s,]*(?=\])")
_GOES_ON: Final = re.compile(rb'\s*(?:\]|,\s*(?:[^"\s]|"[^"]*"\s*[^:\s]))')
"""Text that follows an element of the array, but not a string or list that damage tore out of something."""

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\]]', re.DOTALL)
_PHASE: Final = re.compile(r'\s*:\s*"')
_BLANKS: Final = re.compile(rb"[\s,]*")
_OPEN, _CLOSE, _COMMA = b"{],"

_GLANCE: Final = 1000
"""Bytes from the start of an object that are searched for its phase where its brackets do not decide."""

_WINDOW: Final = 4096
"""Bytes that hold nearly every event; larger ones are tried again with `_LARGER` times as many."""

_LARGER: Final = 16
_WHOLE: Final = 1 << 16
_NEAR_END: Final = 64

_REPAIRABLE: Final = 1 << 20
"""The size of the longest element that is repaired: a longer one has lost its end."""

_DEEPEST: Final = 50
"""The nesting depth up to which an event is searched."""

_FEW: Final = 20
"""Up to so many bytes between two events are no lost event."""

_TRIES: Final = 64

Element = tuple[dict[str, Any] | None, int]
"""An event, or None where none can be decoded, and the offset behind it."""

RepairCallback = Callable[[Level, str, int], None]
"""Called for each repair or drop with its level, code, and byte of the inflated file."""


RepairKind = tuple[Level, str, tuple[tuple[str, int | str | bool], ...]]
"""A kind of repair or drop: level, code and values of its note."""


class RepairCounts(Struct):
    """Repairs and drops so far: for each kind the count, and the first byte of the inflated file."""

    counts: dict[RepairKind, tuple[int, int]] = field(default_factory=dict)

    def add_repair(self, level: Level, code: str, at: int, **values: int | str | bool) -> None:
        """Count one repair or drop."""
        self.add_repairs(level, code, at, 1, **values)

    def add_repairs(self, level: Level, code: str, at: int, times: int, **values: int | str | bool) -> None:
        """Count several repairs or drops of one kind, the first of which is at this byte."""
        kind = (level, code, tuple(values.items()))
        count, first = self.counts.get(kind, (0, at))
        self.counts[kind] = (count + times, min(first, at))

    def notes(self) -> tuple[Note, ...]:
        """Return one note for each kind; of a file with one event a line none that it has no commas and no end."""
        codes = {code for _, code, _ in self.counts}
        usual = set[str]()
        if EVENTS_WITHOUT_BRACKET in codes:
            usual = {COMMA_MISSING} if EVENT_CUT_OFF in codes else {COMMA_MISSING, EVENTS_WITHOUT_END}
        return tuple(
            Note(level, code, count, where=f"byte {first:,}", values=values)
            for (level, code, values), (count, first) in self.counts.items()
            if code not in usual
        )


class LenientElements(Struct, frozen=True):
    """Elements of an array, in order; None for one that was no object, or could not be decoded: that was reported.

    `spans` has the bytes of each, relative to the given data. `end` is the start of the next element or the end of the
    data, likewise. `ended` says that the array's `]` lies there (`end` is then behind it); `partial` that the data
    ended inside an element.
    """

    events: list[dict[str, Any] | None]
    spans: list[tuple[int, int]]
    end: int
    ended: bool
    partial: bool


def read_elements_leniently(
    data: bytes, until: int, base: int, report: RepairCallback, *, final: bool
) -> LenientElements:
    """Read the elements that start before byte `until` of `data`, the inside of an array from between two elements on.

    `base` is the offset of `data` in the file. `final` says that nothing follows `data`, so that an element without an
    end is dropped and not left for longer data.
    """
    reader = _ElementReader(data, base, report, final=final)
    events: list[dict[str, Any] | None] = []
    spans: list[tuple[int, int]] = []
    last, at = 0, _skip_blanks(data, 0)  # where the blanks before `at` begin
    while at < len(data):
        if data[at] == _CLOSE:
            if not final and len(data) - at < _WINDOW:
                return LenientElements(events, spans, at, ended=False, partial=True)
            if reader.is_array_end(at):
                if (comma := data.find(_COMMA, last, at)) >= 0:
                    report("repaired", TRAILING_COMMA, base + comma)
                return LenientElements(events, spans, at + 1, ended=True, partial=False)
        if at >= until:
            break
        found = reader.read_element(at)
        if found is None:
            return LenientElements(events, spans, at, ended=False, partial=True)
        event, end = found
        if not events and data.count(_COMMA, last, at) > 1:
            report("repaired", COMMAS_REPEATED, base + last)
        events.append(event)
        spans.append((at, end))
        last, at = end, _skip_blanks(data, end)
        if event is not None and data.startswith(b"{", at):
            _report_commas(data.count(_COMMA, last, at), base + last, report)
    return LenientElements(events, spans, at, ended=False, partial=False)


def _report_commas(commas: int, at: int, tally: RepairCallback) -> None:
    if commas != 1:
        tally("repaired", COMMAS_REPEATED if commas else COMMA_MISSING, at)


def is_event_object(text: str, at: int) -> bool:
    """Return whether the object at `at` looks like an event: events have a phase of their own, other objects none."""
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


def parse_leniently(data: bytes) -> ParsedValue:
    """Parse one value of JSON, repaired where needed, with the kinds of repairs.

    Raises ValueError where it cannot be repaired, and RecursionError where it is nested too deeply.
    """
    text, lenient = _decode_text(data).strip(), LenientDecoder(float)
    try:
        found = lenient.decode(text)
    except ValueError:
        found = repair_and_decode(text, lenient)
    if found.stop < len(text):
        raise ValueError("more than one value")
    return found


def find_wrong_types(event: Mapping[str, Any]) -> Iterator[str]:
    """Yield the codes of an event's fields that have a wrong type and are accepted all the same.

    An event that will be left out, without a phase or a time, is not reported further.
    """
    phase, times = event.get("ph"), [event[key] for key in ("ts", "dur") if isinstance(event.get(key), str)]
    if not isinstance(phase, str) or not phase or not all(map(_is_number, times)):
        return
    if "ts" in event and not isinstance(event["ts"], int | float | str | Decimal):
        return
    if times:
        yield TIME_AS_TEXT
    if not isinstance(event.get("name", ""), str):
        yield NAME_NOT_TEXT
    if not isinstance(event.get("args", event), Mapping):
        yield ARGS_NOT_OBJECT


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


class _ElementReader:
    """Reads single elements in `data`, at rising offsets."""

    def __init__(self, data: bytes, base: int, tally: RepairCallback, *, final: bool) -> None:
        self._data = data
        self._base = base
        self._tally = tally
        self._final = final
        self._lenient = LenientDecoder(parse_exact_number)
        self._edge = 0  # the boundary found last
        self._next = 0  # the start of an event found last

    def read_element(self, at: int) -> Element | None:
        """Read the element at `at`; None where more bytes are needed to decide."""
        if found := self._read_strictly(at):
            return found
        try:
            found, reaches_end = self._read_leniently(at)
        except RecursionError:
            return self._skip_too_deep(at)
        if found or (reaches_end and not self._final):
            return found
        return self._read_damaged(at)

    def is_array_end(self, at: int) -> bool:
        """Return whether the bracket at `at` ends the array; else it is stray, and events follow."""
        return _END.match(self._data, at) is not None or self._next_event_start(at) is None

    def _read_strictly(self, at: int) -> Element | None:
        """Read an element that is sound and followed by another one."""
        if self._edge <= at:
            match = _NEXT.search(self._data, at)
            self._edge = match.start() + 1 if match else len(self._data) + _WHOLE
        if self._data[at] != _OPEN or self._edge > at + _WHOLE:
            return None
        try:
            return decode_strictly(self._data[at : self._edge]), self._edge
        except DECODE_ERRORS:
            return None

    def _read_leniently(self, at: int) -> tuple[Element | None, bool]:
        """Read an element that can be decoded leniently; also return whether the bytes ended in it.

        Most are read from a few bytes; only longer ones need more.
        """
        size = _WINDOW
        while True:
            text = _decode_text(self._data[at : at + size])
            try:
                return self._accept_value(at, text, self._lenient.decode(text)), False
            except ValueError as error:
                if not _is_unterminated(error, text):
                    return None, False
            if at + size >= len(self._data):
                return None, True
            size *= _LARGER

    def _read_damaged(self, at: int) -> Element | None:
        """Read a damaged element; it ends at the latest where the next event starts, and reading resumes there."""
        data, after = self._data, self._next_event_start(at)
        if after is None and not self._final:
            return None
        if data[at] == _OPEN and (len(data) if after is None else after) - at <= _REPAIRABLE:
            text = _decode_text(data[at:after])
            try:
                if found := self._accept_value(at, text, repair_and_decode(text, self._lenient)):
                    return found
            except ValueError:
                pass
        end = self._find_array_end(at) if after is None else after
        if b'"ph"' in data[at:end]:
            self._tally("dropped", EVENT_CUT_OFF if end == len(data) else EVENT_NOT_JSON, self._base + at)
        elif end - at > _FEW:
            self._tally("dropped", BYTES_NOT_JSON, self._base + at)
        else:
            self._tally("repaired", STRAY_CHARACTERS, self._base + at)
        return None, end

    def _skip_too_deep(self, at: int) -> Element | None:
        """Drop an element too deep for any decoder; nothing inside is an event, so the next one follows a bracket."""
        match = _NEXT.search(self._data, at)
        if match is None and not self._final:
            return None
        self._tally("dropped", EVENT_TOO_DEEP, self._base + at)
        return None, match.end() if match else self._find_array_end(at)

    def _accept_value(self, at: int, text: str, found: ParsedValue) -> Element | None:
        """Report the value found at `at` and return it; None for one that seems torn out of something."""
        end = at + (found.stop if text.isascii() else len(_encode_text(text[: found.stop])))
        if isinstance(found.value, dict):
            for kind in found.kinds:
                self._tally("repaired", kind, self._base + at)
            return found.value, end
        if not _GOES_ON.match(self._data, end):
            return None
        self._tally("dropped", ELEMENT_NOT_EVENT, self._base + at)
        return None, end

    def _next_event_start(self, at: int) -> int | None:
        """Return the start of the next event behind `at`; not so near to the end that more bytes might change it."""
        if self._next <= at:
            starts = (match.start() for match in _START.finditer(self._data, at + 1))
            events = (
                start for start in starts if is_event_object(_decode_text(self._data[start : start + 4 * _WINDOW]), 0)
            )
            self._next = next(events, len(self._data))
        known = len(self._data) - (0 if self._final else _GLANCE)
        return self._next if self._next < known else None

    def _find_array_end(self, at: int) -> int:
        """Return the bracket that ends the array behind a last event without an end, or the end of the data."""
        for match in islice(_ARRAY_END.finditer(self._data, at), _TRIES):
            rest = self._data[match.end() + 1 :].strip()
            if rest in (b"", b"}"):
                return match.end()
            if rest.startswith(b","):
                try:
                    decode_strictly(b"{" + rest[1:])
                except DECODE_ERRORS:
                    continue
                return match.end()
        return len(self._data)


def _is_unterminated(error: ValueError, text: str) -> bool:
    """Return whether this is the error of a text that ends within a value."""
    if not isinstance(error, JSONDecodeError):
        return False
    return error.pos >= len(text) - _NEAR_END or error.msg.startswith("Unterminated string")


def _skip_blanks(data: bytes, at: int) -> int:
    match = _BLANKS.match(data, at)
    return match.end() if match else at


def _decode_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
