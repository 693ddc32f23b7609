"""One value out of JSON text that strict decoders reject.

A value is decoded leniently, and the mistakes that trace writers make are repaired: words that are no JSON,
backslashes, quotes and commas.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec

VALUE_NOT_JSON: Final = "value_not_json"
CONTROL_CHARACTER: Final = "control_character"
BYTES_NOT_UTF8: Final = "bytes_not_utf8"
LONE_SURROGATE: Final = "lone_surrogate"
STRAY_BACKSLASH: Final = "stray_backslash"
UNESCAPED_QUOTE: Final = "unescaped_quote"
TRAILING_COMMA: Final = "trailing_comma"


_DIGITS: Final = 400
_ESCAPED_BYTE: Final = re.compile("[\udc80-\udcff]")
_MAY_NOT_ENCODE: Final = re.compile("[\ud800-\udfff]|\\\\u[dD]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

_NOT_JSON: Final = re.compile(
    r"(?<![\w.])[-+]?(?:N/A|nan(?:\([a-z0-9]*\))?|inf(?:inity)?|1\.#[a-z]+|undefined|none)(?![\w.])", re.IGNORECASE
)
_TRAILING_COMMA: Final = re.compile(r",(?=\s*[}\]])")
_ODD: Final = re.compile(r"[-+A-Za-z]|1\.#|,\s*[}\]]")

_SOUND: Final = re.compile(r'(?:(?:[\s\d.:{}\[\]eE+-]|,(?!\s*[}\]])|true|false|null)*"[^"\\]*"(?=\s*[,:}\]]))+')
"""A part that ends with a string and needs no repair."""

_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_QUOTE_CLOSES: Final = re.compile(r"\s*(?:[,:}\]]|$)")
_LINE: Final = re.compile(r'"((?:[^"\\\r\n]|\\.)*)"')
_LINE_CLOSES: Final = re.compile(r'[ \t]*(?:,[ \t]*)?(?:\r?\n|"(?:cat|pid|tid|ts|dur|args)"\s*:)')
"""A string on one line, up to its end or another field of the event, so that it may be JSON: ``"name": "{"size": [2,
3]}", "pid":``.
"""

_KEY: Final = r'"[^"\\]{0,200}"\s*:'
_PATH: Final = re.compile(
    rf'"((?:[^"\\]|\\(?!"\s*(?:,\s*{_KEY}|[}}\]]\s*+(?:[}}\]]|,?\s*$|,\s*(?:{_KEY}|{{\s*(?:}}|{_KEY}))))).)*\\?)"',
    re.DOTALL,
)
"""A string; a backslash before a quote that looks like its last one belongs to a path, as in ``"C:\\dir\\", "ts":``."""

_GOOD_ESCAPES: Final = re.compile(r'(?:[^\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*', re.DOTALL)
_BACKSLASH: Final = re.compile(r'\\(["\\]?)')


class ParsedValue(NamedTuple):
    """A value, its end in the text, and the kinds of repairs."""

    value: Any
    stop: int
    kinds: tuple[str, ...] = ()


class RepairedText(NamedTuple):
    """A repaired text and the kinds of repairs.

    `ends` are the ends of its parts, `original_ends` those in the original.
    """

    text: str
    kinds: tuple[str, ...]
    ends: list[int]
    original_ends: list[int]

    def original_position(self, stop: int) -> int:
        """Return the position in the original of a position in the repaired text."""
        row = bisect_left(self.ends, stop)
        return self.original_ends[row] - (self.ends[row] - stop)


def parse_exact_number(text: str) -> Decimal | float:
    """Parse a number with a point or an exponent: as a Decimal, unless it is zero or infinite as a float.

    An exact integer written with an exponent (``1e999999999``) would fill the memory.
    """
    value = float(text)
    return Decimal(text) if value and math.isfinite(value) else value


def _parse_whole_number(text: str) -> int | float:
    return int(text) if len(text) < _DIGITS else float(text)


decode_strictly: Final = msgspec.json.Decoder(float_hook=parse_exact_number).decode
"""Decode bytes of sound JSON. Raises one of `DECODE_ERRORS`."""

DECODE_ERRORS: Final = (msgspec.MsgspecError, ValueError, RecursionError)


class LenientDecoder:
    """Decodes the value at the start of a text whose only mistakes are words and characters that JSON forbids."""

    def __init__(self, parse_float: Callable[[str], Any]) -> None:
        self._constants = 0
        hooks: dict[str, Any] = {"parse_float": parse_float, "parse_constant": self._constant}
        self._strict = json.JSONDecoder(**hooks)
        self._loose = json.JSONDecoder(strict=False, parse_int=_parse_whole_number, **hooks)

    def decode(self, text: str) -> ParsedValue:
        """Decode the value.

        Raises ValueError where there is none, and RecursionError for one that is nested too deeply.
        """
        self._constants = 0
        kinds = []
        try:
            value, stop = self._strict.raw_decode(text)
        except ValueError as error:  # no JSONDecodeError where a number has more digits than Python converts
            value, stop = self._loose.raw_decode(text)
            if isinstance(error, json.JSONDecodeError):
                kinds.append(CONTROL_CHARACTER)
        if self._constants:
            kinds.append(VALUE_NOT_JSON)
        if not text.isascii() and _ESCAPED_BYTE.search(text, 0, stop):
            kinds.append(BYTES_NOT_UTF8)
        if _MAY_NOT_ENCODE.search(text, 0, stop):
            sound = _replace_surrogates(value)
            if sound != value and BYTES_NOT_UTF8 not in kinds:
                kinds.append(LONE_SURROGATE)
            value = sound
        return ParsedValue(value, stop, tuple(kinds))

    def _constant(self, _: str) -> None:
        self._constants += 1


def repair_and_decode(text: str, lenient: LenientDecoder) -> ParsedValue:
    """Repair the value at the start of `text` and decode it. Raises ValueError where nothing helps."""
    for string, closes in ((_STRING, _QUOTE_CLOSES), (_PATH, _QUOTE_CLOSES), (_LINE, _LINE_CLOSES)):
        repaired = repair_text(text, string, closes)
        try:
            value, stop, kinds = lenient.decode(repaired.text)
        except (ValueError, RecursionError):
            continue
        return ParsedValue(value, repaired.original_position(stop), (*repaired.kinds, *kinds))
    raise ValueError("no JSON, and beyond repair")


def repair_text(text: str, string: re.Pattern[str], closes: re.Pattern[str]) -> RepairedText:
    """Repair the mistakes in `text` that writers of traces make.

    `string` finds the strings in it, `closes` matches what follows the last quote of a string with several quotes.
    """
    parts: list[str] = []
    kinds: set[str] = set()
    ends, original_ends = list[int](), list[int]()
    size = at = 0
    while at < len(text):
        if sound := _SOUND.match(text, at):
            part, at = sound[0], sound.end()
        elif text[at] == '"':
            part, at = _repair_string(text, at, string, closes, kinds) or (text[at:], len(text))
        else:
            quote = text.find('"', at)
            quote = len(text) if quote < 0 else quote
            part, at = _repair_outside_strings(text[at:quote], kinds), quote
        parts.append(part)
        size += len(part)
        ends.append(size)
        original_ends.append(at)
    return RepairedText("".join(parts), tuple(sorted(kinds)), ends, original_ends)


def _repair_outside_strings(text: str, kinds: set[str]) -> str:
    """Repair the text between two strings."""
    if not _ODD.search(text):
        return text
    plain, words = _NOT_JSON.subn("null", text)
    plain, commas = _TRAILING_COMMA.subn("", plain)
    if words:
        kinds.add(VALUE_NOT_JSON)
    if commas:
        kinds.add(TRAILING_COMMA)
    return plain


def _repair_string(
    text: str, quote: int, string: re.Pattern[str], closes: re.Pattern[str], kinds: set[str]
) -> tuple[str, int] | None:
    """Return the string that starts at `quote`, repaired, and its end; None where neither it nor any later one ends.

    A quote that `closes` does not follow belongs to the string. Where one backslash escapes nothing, none does: they
    separate the parts of a path.
    """
    at, body = quote + 1, list[str]()
    while match := string.match(text, at - 1):
        body.append(match[1])
        at = match.end()
        if closes.match(text, at):
            break
        kinds.add(UNESCAPED_QUOTE)
        body.append('\\"')
    else:
        return None
    inside = "".join(body)
    if "\\" in inside and not _GOOD_ESCAPES.fullmatch(inside):
        kinds.add(STRAY_BACKSLASH)
        inside = _BACKSLASH.sub(lambda match: match[0] if match[1] else "\\\\", inside)
    return f'"{inside}"', at


def _replace_surrogates(value: Any) -> Any:  # noqa: ANN401  # any value of JSON, and the same kind back
    """Replace lone surrogates, which no text may hold, in the value."""
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_replace_surrogates(key): _replace_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace_surrogates(item) for item in value]
    return value
