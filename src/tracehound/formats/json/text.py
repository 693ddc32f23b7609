"""One value out of JSON text that strict decoders refuse.

Owns reading a value leniently and putting right the mistakes that writers of traces make: words that are no JSON,
backslashes, quotes and commas. Knows no event, and nothing of where the text comes from.
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

NO_VALUE: Final = "value_not_json"
CONTROL: Final = "control_character"
NO_UTF8: Final = "bytes_not_utf8"
SURROGATE: Final = "lone_surrogate"
BACKSLASH: Final = "stray_backslash"
QUOTE: Final = "unescaped_quote"
COMMA: Final = "trailing_comma"


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
"""A stretch that ends with a string and needs no mending."""

_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_QUOTE_CLOSES: Final = re.compile(r"\s*(?:[,:}\]]|$)")
_LINE: Final = re.compile(r'"((?:[^"\\\r\n]|\\.)*)"')
_LINE_CLOSES: Final = re.compile(r'[ \t]*(?:,[ \t]*)?(?:\r?\n|"(?:cat|pid|tid|ts|dur|args)"\s*:)')
"""A string on one line, up to its end or another field of the event, so that it may be JSON:
``"name": "{"size": [2, 3]}", "pid":``."""

_KEY: Final = r'"[^"\\]{0,200}"\s*:'
_PATH: Final = re.compile(
    rf'"((?:[^"\\]|\\(?!"\s*(?:,\s*{_KEY}|[}}\]]\s*+(?:[}}\]]|,?\s*$|,\s*(?:{_KEY}|{{\s*(?:}}|{_KEY}))))).)*\\?)"',
    re.DOTALL,
)
"""A string; a backslash before a quote that looks like its last one belongs to a path, as in ``"C:\\dir\\", "ts":``."""

_GOOD_ESCAPES: Final = re.compile(r'(?:[^\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*', re.DOTALL)
_BACKSLASH: Final = re.compile(r'\\(["\\]?)')


class Value(NamedTuple):
    """A value, where in the text it stops, and what had to be put right."""

    value: Any
    stop: int
    kinds: tuple[str, ...] = ()


class Mended(NamedTuple):
    """A text put right, and how; `ends` are where its parts end, `were` where those ended in the original."""

    text: str
    kinds: tuple[str, ...]
    ends: list[int]
    were: list[int]

    def original(self, stop: int) -> int:
        """Where in the original a position in the mended text was."""
        row = bisect_left(self.ends, stop)
        return self.were[row] - (self.ends[row] - stop)


def number(text: str) -> Decimal | float:
    """A number with a point or an exponent: exact, unless no float is near it.

    As a whole number, what one of these says in a few bytes (``1e999999999``) would fill the memory.
    """
    value = float(text)
    return Decimal(text) if value and math.isfinite(value) else value


def _whole(text: str) -> int | float:
    return int(text) if len(text) < _DIGITS else float(text)


STRICT: Final = msgspec.json.Decoder(float_hook=number).decode
"""Bytes of sound JSON -> its value. Raises one of `REFUSALS`."""

REFUSALS: Final = (msgspec.MsgspecError, ValueError, RecursionError)


class Lenient:
    """Reads the value at the start of a text that has no mistake but words and characters that JSON forbids."""

    def __init__(self, parse_float: Callable[[str], Any]) -> None:
        self._constants = 0
        hooks: dict[str, Any] = {"parse_float": parse_float, "parse_constant": self._constant}
        self._strict = json.JSONDecoder(**hooks)
        self._loose = json.JSONDecoder(strict=False, parse_int=_whole, **hooks)

    def read(self, text: str) -> Value:
        """The value. Raises ValueError where there is none, and RecursionError for one that is nested too deeply."""
        self._constants = 0
        kinds = []
        try:
            value, stop = self._strict.raw_decode(text)
        except ValueError as error:  # no JSONDecodeError where a number has more digits than Python converts
            value, stop = self._loose.raw_decode(text)
            if isinstance(error, json.JSONDecodeError):
                kinds.append(CONTROL)
        if self._constants:
            kinds.append(NO_VALUE)
        if not text.isascii() and _ESCAPED_BYTE.search(text, 0, stop):
            kinds.append(NO_UTF8)
        if _MAY_NOT_ENCODE.search(text, 0, stop):
            sound = _encodable(value)
            if sound != value and NO_UTF8 not in kinds:
                kinds.append(SURROGATE)
            value = sound
        return Value(value, stop, tuple(kinds))

    def _constant(self, _: str) -> None:
        self._constants += 1


def repaired(text: str, lenient: Lenient) -> Value:
    """The value at the start of `text` once that is put right. Raises ValueError where nothing helps."""
    for string, closes in ((_STRING, _QUOTE_CLOSES), (_PATH, _QUOTE_CLOSES), (_LINE, _LINE_CLOSES)):
        fixed = mended(text, string, closes)
        try:
            value, stop, kinds = lenient.read(fixed.text)
        except (ValueError, RecursionError):
            continue
        return Value(value, fixed.original(stop), (*fixed.kinds, *kinds))
    raise ValueError("no JSON, and beyond repair")


def mended(text: str, string: re.Pattern[str], closes: re.Pattern[str]) -> Mended:
    """`text` with the mistakes put right that writers of traces make.

    `string` finds the strings in it, `closes` is what follows the last quote of one that has more of them.
    """
    parts: list[str] = []
    kinds: set[str] = set()
    ends, were = list[int](), list[int]()
    size = at = 0
    while at < len(text):
        if sound := _SOUND.match(text, at):
            part, at = sound[0], sound.end()
        elif text[at] == '"':
            part, at = _string(text, at, string, closes, kinds) or (text[at:], len(text))
        else:
            quote = text.find('"', at)
            quote = len(text) if quote < 0 else quote
            part, at = _outside(text[at:quote], kinds), quote
        parts.append(part)
        size += len(part)
        ends.append(size)
        were.append(at)
    return Mended("".join(parts), tuple(sorted(kinds)), ends, were)


def _outside(text: str, kinds: set[str]) -> str:
    """The text between two strings, put right."""
    if not _ODD.search(text):
        return text
    plain, words = _NOT_JSON.subn("null", text)
    plain, commas = _TRAILING_COMMA.subn("", plain)
    if words:
        kinds.add(NO_VALUE)
    if commas:
        kinds.add(COMMA)
    return plain


def _string(
    text: str, quote: int, string: re.Pattern[str], closes: re.Pattern[str], kinds: set[str]
) -> tuple[str, int] | None:
    """The string that starts at `quote`, written properly, and where it ends; None where neither it nor any later ends.

    A quote that `closes` does not follow belongs to the string. Where one backslash escapes nothing, none does: they
    divide the parts of a path.
    """
    at, body = quote + 1, list[str]()
    while match := string.match(text, at - 1):
        body.append(match[1])
        at = match.end()
        if closes.match(text, at):
            break
        kinds.add(QUOTE)
        body.append('\\"')
    else:
        return None
    inside = "".join(body)
    if "\\" in inside and not _GOOD_ESCAPES.fullmatch(inside):
        kinds.add(BACKSLASH)
        inside = _BACKSLASH.sub(lambda match: match[0] if match[1] else "\\\\", inside)
    return f'"{inside}"', at


def _encodable(value: Any) -> Any:  # noqa: ANN401  # any value of JSON, and the same kind back
    """The value with what no text may hold (lone surrogates) replaced."""
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    return value
