"""A statement as a person wrote it -> one that polars takes, or what is wrong with it and where.

Owns which statements are allowed (a SELECT over the tables, nothing that reads or writes elsewhere), what is added to
SQL (a time is written ``1.5ms``) and the places of words. Knows no table and no trace.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Final, Literal, NoReturn

from msgspec import Struct

from tracehound.errors import TracehoundError
from tracehound.units import LONGEST as LONGEST_TIME
from tracehound.units import parse_duration

LONGEST: Final = 1 << 16
"""Characters of a statement; what is longer nobody wrote, and it would be planned for minutes."""

TABLES: Final = "tracehound query --tables"

_FIRST = ("select", "with", "from", "values", "(")
_HOW_MANY = ("distinct", "all")
"""What may stand between SELECT and its columns."""

_COLUMNS = ("end", "on", "where")
"""Words of SQL that are also columns: they are taken for the column where a value is expected."""

_BEFORE_VALUES = frozenset(
    [
        *("select", "distinct", "where", "and", "or", "not", "by", "having", "when", "then", "else", "case", "between"),
        *("like", "in", "on", "as", "using", "qualify", ",", ".", "(", "+", "-", "*", "/", "%", "=", "<", ">", "|"),
    ]
)  # fmt: skip
"""What a value follows."""

_NEGATED = MappingProxyType({"/": "-1 / ", "%": ""})
"""How a sign is written behind these, so that it binds as it should; else it is a factor, which times take, too."""

_FROM_PS = (1e3, 1e6, 1e9, 1e12)
"""Picoseconds of a nanosecond, a microsecond, a millisecond and a second."""

_FILES = re.compile(r"read|scan", re.IGNORECASE)
"""In the names of functions that open files."""

_STRAY = MappingProxyType(
    {
        ";": ("more than one statement", "write one"),
        "'": ("text that does not end", "close its single quote"),
        '"': ("a quoted name that does not end", 'close its "'),
        "`": ("a quoted name that does not end", "close its `"),
        "$": ("$ has no meaning here", "write text in single quotes"),
    }
)
"""Signs that may not stand alone, and what to say of them."""

_TOKEN: Final = re.compile(
    r"""(?P<space> \s+ | --[^\r\n]* | /\*.*?\*/ )
      | (?P<text> '(?:[^']|'')*' )
      | (?P<quoted> "(?:[^"]|"")*" | `[^`]*` )
      | (?P<time> (?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?\d++)?(?:ps|ns|us|µs|μs|ms|s|sec|min|m)\b )
      | (?P<number> (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)? )
      | (?P<word> [^\W\d]\w* )
      | (?P<sign> . )""",
    re.VERBOSE | re.DOTALL,
)

Kind = Literal["space", "text", "quoted", "time", "number", "word", "sign"]


class Token(Struct, frozen=True):
    """A word, number, text or sign of a statement, and the offset at which it starts."""

    kind: Kind
    text: str
    start: int

    @property
    def name(self) -> str:
        """A word without its quotes, in small letters; of other tokens, as they are."""
        return (self.text[1:-1] if self.kind == "quoted" else self.text).lower()


class Statement(Struct, frozen=True):
    """One that was found fit to run. `text` is what the person wrote, `sql` what polars gets.

    `tokens` are those of the text, without spaces and comments; `pieces` says which offset of the text each stretch of
    the sql comes from: pairs of offsets in sql and text.
    """

    text: str
    sql: str
    tokens: tuple[Token, ...]
    pieces: tuple[tuple[int, int], ...]

    @property
    def converts(self) -> str:
        """The number, if any, by which something is divided that would turn ps into another unit: 1e9."""
        return next(
            (
                token.text
                for before, token in pairwise(self.tokens)
                if before.text == "/" and token.kind == "number" and float(token.text) in _FROM_PS
            ),
            "",
        )

    def place(self, word: str) -> str:
        """Where the word first stands in the text: ``query, column 8``; empty when it does not."""
        return next((_place(self.text, t.start) for t in self.tokens if t.name == word.lower()), "")

    def place_of(self, line: int, column: int) -> str:
        """Where in the text the character stands that has this line and column (from 1) in the sql."""
        offset = sum(len(above) + 1 for above in self.sql.split("\n")[: line - 1]) + column - 1
        at = bisect_right(self.pieces, offset, key=lambda piece: piece[0]) - 1
        return _place(self.text, self.pieces[at][1])


def read(text: str) -> Statement:
    """The statement in `text`, fit to run; TracehoundError when it is none that may."""
    if len(text) > LONGEST:
        raise TracehoundError(f"a query of {len(text):,} characters", remedy=f"write at most {LONGEST:,}")
    every = [Token(_kind(found.lastgroup), found[0], found.start()) for found in _TOKEN.finditer(text)]
    tokens = [token for token in every if token.kind != "space"]
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    _allow(text, tokens)
    _refuse_no_columns(text, tokens)
    _refuse_too_long(text, tokens)
    written = _written(every, {token.start for token in tokens})
    starts = accumulate((len(piece) for _, piece in written), initial=0)
    pieces = tuple((low, offset) for low, (offset, _) in zip(starts, written, strict=False))
    return Statement(text, "".join(piece for _, piece in written), tuple(tokens), pieces)


def _kind(group: str | None) -> Kind:
    match group:
        case "space" | "text" | "quoted" | "time" | "number" | "word":
            return group
        case _:
            return "sign"


def _allow(text: str, tokens: list[Token]) -> None:
    """Refuse what is not a SELECT, and whatever would open a file or be read otherwise by polars than here."""
    if not tokens:
        raise TracehoundError("an empty query", remedy=f"write a SELECT; {TABLES} lists the tables")
    if tokens[0].name not in _FIRST:
        hint = "put the whole statement in quotes" if len(tokens) == 1 else "only SELECT runs"
        _refuse(text, tokens[0], f"{tokens[0].text} is not a SELECT", f"{hint}; {TABLES} lists the tables")
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        if token.text in _STRAY:
            _refuse(text, token, *_STRAY[token.text])
        if after is None or token.kind not in ("word", "quoted"):
            continue
        if after.text == "(" and _FILES.search(token.name):
            _refuse(text, token, f"{token.text}() opens files", f"a query sees the tables of the trace alone: {TABLES}")
        if token.text.lower() == "interval":
            _refuse(text, token, "INTERVAL is not how times are written here", "write a number and its unit: 1.5ms")
        if after.kind == "text" and after.start == token.start + len(token.text):
            _refuse(text, token, f"text with a prefix, {token.text}'...'", "write it in plain single quotes")


def _refuse_no_columns(text: str, tokens: list[Token]) -> None:
    """Refuse a SELECT of no columns: polars answers it with nothing at all."""
    for at, token in enumerate(tokens):
        if token.text.lower() == "select":
            after = next((word for word in tokens[at + 1 :] if word.text.lower() not in _HOW_MANY), None)
            if after is not None and after.text.lower() == "from":
                _refuse(text, after, "no columns between SELECT and FROM", "* stands for all of them")


def _refuse_too_long(text: str, tokens: list[Token]) -> None:
    """Refuse a product of numbers and times that is longer than a time can be: polars would wrap it around.

    What stands behind a division begins none: ``duration / 1s * 1000`` is a quotient first.
    """
    product, timed, due = 1.0, False, False
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        divides = before is not None and before.text in ("/", "%")
        if token.kind in ("time", "number") and not due and not divides:
            product *= parse_duration(token.text) if token.kind == "time" else float(token.text)
            timed, due = timed or token.kind == "time", True
            if timed and abs(product) > LONGEST_TIME:
                _refuse(text, token, "longer than a time can be", "divide times by a unit: 10s / 1s is 10")
        elif due and token.text == "*" and after is not None and after.kind in ("time", "number"):
            due = False
        else:
            product, timed, due = 1.0, False, False


def _refuse(text: str, token: Token, what: str, remedy: str) -> NoReturn:
    raise TracehoundError(what, where=_place(text, token.start), remedy=remedy)


def _written(every: list[Token], kept: set[int]) -> list[tuple[int, str]]:
    """The sql in pieces, each with its offset in the text."""
    pieces: list[tuple[int, str]] = []
    before = ""
    for token, after in zip(every, [*every[1:], None], strict=True):
        if token.kind == "space":
            pieces.append((token.start, "\n" * token.text.count("\n") or " "))
        elif token.start in kept:
            value = before in _BEFORE_VALUES
            negative = token.text == "-" and value and after is not None and after.kind not in ("number", "space")
            sign = _NEGATED.get(before, "-1 * ") if negative else ""
            pieces.append((token.start, sign or _piece(token, value=value)))
            before = token.name
    return pieces


def _piece(token: Token, *, value: bool) -> str:
    """A token in the SQL of polars. A number with decimals is a float there only with an exponent."""
    if token.kind == "time":
        return f"CAST({parse_duration(token.text)} AS INTERVAL)"
    if token.kind == "number":
        return f"{token.text}e0" if "." in token.text and "e" not in token.name else token.text
    if token.kind == "word" and value and token.name in _COLUMNS:
        return f'"{token.name}"'
    return token.text


def _place(text: str, offset: int) -> str:
    line, column = text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
    return f"query, line {line}, column {column}" if "\n" in text.strip() else f"query, column {column}"
