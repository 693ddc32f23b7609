"""Events out of JSON that strict decoders refuse: damaged by its writer, cut off, or merely unusual.

Owns the slow path: one event after the other, each repaired if it can be, else dropped, and every repair counted.
Knows no event's meaning and reads no file.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from tracehound.trace import Level, Note

BOUNDARY: Final = re.compile(r'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args|id|bp|s)"\s*:)')
"""The end of one event and the start of the next. A string of valid JSON cannot hold a bare quote, so this never lies
inside one; it may lie inside a list of objects among an event's args."""

_ARRAY_END = re.compile(r"\}\s*(?=\])")
_CLOSES = re.compile(r'\]\s*(?:\}\s*|,\s*"[^"]*"\s*:.*|)$', re.DOTALL)
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
_MAY_NOT_ENCODE = re.compile("[\ud800-\udfff]|\\\\u[dD]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_QUOTE_CLOSES = re.compile(r"\s*(?:[,:}\]]|$)")
_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_NOT_JSON = re.compile(
    r"(?<![\w.])[-+]?(?:N/A|nan(?:\([a-z0-9]*\))?|inf(?:inity)?|undefined|none)(?![\w.])", re.IGNORECASE
)
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")
_TRIES = 4
_NEAR_END = 64
_GLANCE = 1000

NO_VALUE: Final = "value that is no JSON (NaN, Infinity, N/A) read as null"

Tally = Callable[[Level, str, int], None]
"""Told of a repair or a drop: level, what, and the byte of the inflated file."""


@dataclass
class Mends:
    """What was repaired and dropped so far: for each kind how often, and the first byte of the inflated file."""

    counts: dict[tuple[Level, str], tuple[int, int]] = field(default_factory=dict)

    def tell(self, level: Level, what: str, at: int) -> None:
        """Count one."""
        count, first = self.counts.get((level, what), (0, at))
        self.counts[level, what] = (count + 1, min(first, at))

    def notes(self) -> tuple[Note, ...]:
        """One note for each kind."""
        return tuple(
            Note(level, what, count, f"byte {first:,}") for (level, what), (count, first) in self.counts.items()
        )


@dataclass(frozen=True)
class Walked:
    """Elements of an array, in order; what was no object, or could not be read, is an empty one.

    `spans` has the bytes of each, counted from the start of the walked bytes. `end` is the byte behind the last element
    that was used, so counted. `ended` says that the array's `]` lies there (`end` is then behind it); `partial` that
    the bytes ended inside an element.
    """

    events: list[dict[str, Any]]
    spans: list[tuple[int, int]]
    end: int
    ended: bool
    partial: bool


def walk(data: bytes, until: int, base: int, tally: Tally, *, final: bool) -> Walked:
    """The elements that start before byte `until` of `data`, the inside of an array that starts between two elements.

    `base` is where `data` lies in the file. `final` says that nothing follows `data`, so that an element without an
    end is dropped and not left for a longer `data`.
    """
    text = data.decode("utf-8", "surrogateescape")
    place, reader = _Places(text), _Reader(text, tally)
    clean = _cleaned if _MAY_NOT_ENCODE.search(text) else dict
    events: list[dict[str, Any]] = []
    spans: list[tuple[int, int]] = []
    end, at = 0, _past_blanks(text, 0)
    while at < len(text) and text[at] != "]" and (start := place.of(at)) < until:
        try:
            value, stop = reader.element(at, base + start)
        except (ValueError, RecursionError) as error:
            if not final and isinstance(error, json.JSONDecodeError) and _open(error, text):
                return Walked(events, spans, end, ended=False, partial=True)
            value, stop = reader.rescued(at, base + start)
        events.append(clean(value) if isinstance(value, dict) else {})
        end = place.of(stop)
        spans.append((start, end))
        at = _past_blanks(text, stop)
    if at < len(text) and text[at] == "]":
        return Walked(events, spans, place.of(at + 1), ended=True, partial=False)
    return Walked(events, spans, end, ended=False, partial=False)


def is_event(text: str, at: int) -> bool:
    """Whether the object at `at` looks like an event: all events have a phase, other lists of objects have none."""
    try:
        value = json.JSONDecoder(strict=False).raw_decode(text, at)[0]
    except (ValueError, RecursionError):
        return '"ph"' in text[at : at + _GLANCE]
    return isinstance(value, dict) and "ph" in value


def parsed(data: bytes) -> object:
    """One value of JSON, mended where needed as `walk` mends. Raises ValueError where it cannot be."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        value: object = json.loads(text, strict=False, parse_constant=_nothing)
    except ValueError:
        value = json.loads(mended(text)[0], strict=False, parse_constant=_nothing)
    return _valid(value)


def _nothing(_: str) -> None:
    return None


def _number(text: str) -> Decimal | float:
    """A number with a point or an exponent: exact, unless no float is near it.

    As a whole number, what one of these says in a few bytes (``1e999999999``) would fill the memory.
    """
    value = float(text)
    return Decimal(text) if value and math.isfinite(value) else value


def mended(text: str) -> tuple[str, set[str]]:
    """`text`, one JSON value, with the mistakes that writers of traces make put right, and which they were."""
    parts: list[str] = []
    kinds: set[str] = set()
    at = 0
    while (quote := text.find('"', at)) >= 0:
        parts.append(_outside(text[at:quote], kinds))
        string, at = _string(text, quote, kinds)
        parts.append(string)
    parts.append(_outside(text[at:], kinds))
    return "".join(parts), kinds


def _outside(text: str, kinds: set[str]) -> str:
    plain, words = _NOT_JSON.subn("null", text)
    plain, commas = _TRAILING_COMMA.subn("", plain)
    if words:
        kinds.add(NO_VALUE)
    if commas:
        kinds.add("trailing comma")
    return plain


def _string(text: str, quote: int, kinds: set[str]) -> tuple[str, int]:
    """The string that starts at `quote`, written properly, and where it ends.

    A quote closes where a comma, colon or bracket follows, and else belongs to the string.
    """
    at, body = quote + 1, list[str]()
    while match := _STRING.match(text, at - 1):
        body.append(match[1])
        at = match.end()
        if _QUOTE_CLOSES.match(text, at):
            break
        kinds.add("unescaped quote in a string")
        body.append('\\"')
    else:
        return text[quote : quote + 1], quote + 1
    inside, escapes = _BAD_ESCAPE.subn(r"\\\\", "".join(body))
    if escapes:
        kinds.add("backslash that escapes nothing")
    return f'"{inside}"', at


class _Reader:
    """Reads single elements of `text`: strictly, then leniently, then repaired."""

    def __init__(self, text: str, tally: Tally) -> None:
        self._text = text
        self._tally = tally
        self._constants = 0
        self._strict = json.JSONDecoder(parse_float=_number, parse_constant=self._constant)
        self._lenient = json.JSONDecoder(strict=False, parse_float=_number, parse_constant=self._constant)

    def element(self, at: int, byte: int) -> tuple[Any, int]:
        """The element at `at` and where it stops. Raises ValueError where it is no JSON."""
        self._constants = 0
        try:
            value, stop = self._strict.raw_decode(self._text, at)
        except ValueError:
            value, stop = self._lenient.raw_decode(self._text, at)
            self._tally("repaired", "control character in a string", byte)
        if self._constants:
            self._tally("repaired", NO_VALUE, byte)
        if _ESCAPED_BYTE.search(self._text, at, stop):
            self._tally("repaired", "bytes that are no UTF-8", byte)
        if not isinstance(value, dict):
            self._tally("dropped", "array element that is no event", byte)
        return value, stop

    def rescued(self, at: int, byte: int) -> tuple[Any, int]:
        """The element at `at`, repaired, and where it stops; None for one that is beyond repair."""
        text, resume = self._text, -1
        for end in itertools.islice(_ends(text, at), _TRIES):
            if resume < 0 and _follows(text, end):
                resume = end
            try:
                fixed, kinds = mended(text[at:end])
                value, stop = self._lenient.raw_decode(fixed)
            except (ValueError, RecursionError):
                continue
            if stop == len(fixed):
                for kind in sorted(kinds):
                    self._tally("repaired", kind, byte)
                return value, end
        if resume < 0:
            resume = next((end for end in _ends(text, at) if _follows(text, end)), len(text))
        lost = "event cut off at the end of the file" if resume == len(text) else "event that is no JSON"
        self._tally("dropped", lost, byte)
        return None, resume

    def _constant(self, _: str) -> None:
        self._constants += 1


def _past_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n,":
        at += 1
    return at


def _ends(text: str, at: int) -> Iterator[int]:
    """Where the element that starts at `at` may end: before another one, or before the end of the array."""
    for match in itertools.chain(BOUNDARY.finditer(text, at), _ARRAY_END.finditer(text, at)):
        yield match.start() + 1


def _follows(text: str, end: int) -> bool:
    """Whether an event follows, or the end of the array and of its object or of the text."""
    at = _past_blanks(text, end)
    return _CLOSES.match(text, at) is not None if text[at : at + 1] == "]" else is_event(text, at)


def _open(error: json.JSONDecodeError, text: str) -> bool:
    return error.pos >= len(text) - _NEAR_END or error.msg.startswith("Unterminated string")


def _cleaned(event: dict[str, Any]) -> dict[str, Any]:
    """The event with what no text may hold (lone surrogates) replaced."""
    return {_valid(key): _valid(item) for key, item in event.items()}


def _valid(value: Any) -> Any:  # noqa: ANN401  # any value of JSON, and the same kind back
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return _cleaned(value)
    if isinstance(value, list):
        return [_valid(item) for item in value]
    return value


class _Places:
    """Byte offsets of positions in a text that was decoded from UTF-8; to be asked in rising order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ascii = text.isascii()
        self._char = 0
        self._byte = 0

    def of(self, char: int) -> int:
        if self._ascii:
            return char
        self._byte += len(self._text[self._char : char].encode("utf-8", "surrogateescape"))
        self._char = char
        return self._byte
