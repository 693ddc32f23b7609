"""SQL statements of a user: checked, and rewritten for polars, or refused with the reason and the position.

Owns the rules for allowed statements (a SELECT over the tables, nothing that reads or writes elsewhere), additions to
SQL (a time is written ``1.5ms``) and the positions of words. Knows no table and no trace.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Final, Literal, NoReturn

from msgspec import Struct

from tracehound.errors import TracehoundError
from tracehound.model.old_names import current_name
from tracehound.model.units import MAX_TIME_PS as LONGEST_TIME
from tracehound.model.units import parse_duration

MAX_CHARACTERS: Final = 1 << 16
"""Longer statements are refused: nobody types them, and planning one would take minutes."""

TABLES_COMMAND: Final = "tracehound query --tables"

_FIRST_WORDS = ("select", "with", "from", "values", "(")
_SELECT_MODIFIERS = ("distinct", "all")
"""Keywords that may stand between SELECT and its columns."""

_COLUMN_KEYWORDS = ("end", "on", "where")
"""Keywords of SQL that are also columns: where a value is expected, they are columns."""

_BEFORE_VALUES = frozenset(
    [
        *("select", "distinct", "where", "and", "or", "not", "by", "having", "when", "then", "else", "case", "between"),
        *("like", "in", "on", "as", "using", "qualify", ",", ".", "(", "+", "-", "*", "/", "%", "=", "<", ">", "|"),
    ]
)  # fmt: skip
"""Tokens that a value follows."""

_NEGATION_AFTER = MappingProxyType({"/": "-1 / ", "%": ""})
"""The text for a minus sign behind these tokens, so that it binds correctly; elsewhere it is a factor."""

_PS_DIVISORS = (1e3, 1e6, 1e9, 1e12)
"""Picoseconds of a nanosecond, a microsecond, a millisecond and a second."""

_FILE_FUNCTION = re.compile(r"read|scan", re.IGNORECASE)
"""Part of the names of functions that open files."""

_FORBIDDEN_SIGNS = MappingProxyType(
    {
        ";": ("more than one statement", "write one"),
        "'": ("text that does not end", "close its single quote"),
        '"': ("a quoted name that does not end", 'close its "'),
        "`": ("a quoted name that does not end", "close its `"),
        "$": ("$ has no meaning here", "write text in single quotes"),
    }
)
"""Signs that may not stand alone, with error and remedy."""

_TOKEN_PATTERN: Final = re.compile(
    r"""(?P<space> \s+ | --[^\r\n]* | /\*.*?\*/ )
      | (?P<text> '(?:[^']|'')*' )
      | (?P<quoted> "(?:[^"]|"")*" | `[^`]*` )
      | (?P<time> (?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?\d++)?(?:ps|ns|us|µs|μs|ms|s|sec|min|m)\b )
      | (?P<number> (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)? )
      | (?P<word> [^\W\d]\w* )
      | (?P<sign> . )""",
    re.VERBOSE | re.DOTALL,
)

TokenKind = Literal["space", "text", "quoted", "time", "number", "word", "sign"]


class SqlToken(Struct, frozen=True):
    """A word, number, text or sign of a statement, and the offset at which it starts."""

    kind: TokenKind
    text: str
    start: int

    @property
    def name(self) -> str:
        """A word without its quotes, in small letters; other tokens as they are."""
        return (self.text[1:-1] if self.kind == "quoted" else self.text).lower()


class SqlStatement(Struct, frozen=True):
    """A statement that may run. `text` is the user's, `sql` is for polars.

    `tokens` are those of the text, without spaces and comments; `offset_pairs` map offsets in sql to offsets in text,
    one pair for each rewritten token.
    """

    text: str
    sql: str
    tokens: tuple[SqlToken, ...]
    offset_pairs: tuple[tuple[int, int], ...]

    @property
    def time_divisor(self) -> str:
        """The number, if any, by which something is divided that would turn ps into another unit: 1e9."""
        return next(
            (
                token.text
                for before, token in pairwise(self.tokens)
                if before.text == "/" and token.kind == "number" and float(token.text) in _PS_DIVISORS
            ),
            "",
        )

    def position_of_word(self, word: str) -> str:
        """The first position of a word in the text: ``query, column 8``; empty when it is not there."""
        return next((_position_phrase(self.text, t.start) for t in self.tokens if t.name == word.lower()), "")

    def position_in_text(self, line: int, column: int) -> str:
        """The position in the text of the character with this line and column (from 1) in the sql."""
        offset = sum(len(above) + 1 for above in self.sql.split("\n")[: line - 1]) + column - 1
        at = bisect_right(self.offset_pairs, offset, key=lambda piece: piece[0]) - 1
        return _position_phrase(self.text, self.offset_pairs[at][1])


def parse_statement(text: str) -> SqlStatement:
    """The statement in `text`, ready to run. Raises TracehoundError for one that may not run."""
    if len(text) > MAX_CHARACTERS:
        raise TracehoundError(f"a query of {len(text):,} characters", remedy=f"write at most {MAX_CHARACTERS:,}")
    every = [SqlToken(_token_kind(found.lastgroup), found[0], found.start()) for found in _TOKEN_PATTERN.finditer(text)]
    tokens = [token for token in every if token.kind != "space"]
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    _refuse_forbidden(text, tokens)
    _refuse_empty_select(text, tokens)
    _refuse_time_overflow(text, tokens)
    written = _polars_sql_pieces(every, {token.start for token in tokens}, _with_current_values(tokens))
    starts = accumulate((len(piece) for _, piece in written), initial=0)
    offset_pairs = tuple((low, offset) for low, (offset, _) in zip(starts, written, strict=False))
    return SqlStatement(text, "".join(piece for _, piece in written), tuple(tokens), offset_pairs)


def _token_kind(group: str | None) -> TokenKind:
    """The kind of a token by the group of the pattern that matched."""
    match group:
        case "space" | "text" | "quoted" | "time" | "number" | "word":
            return group
        case _:
            return "sign"


def _refuse_forbidden(text: str, tokens: list[SqlToken]) -> None:
    """Refuse everything but a SELECT, functions that open files, and text that polars reads differently."""
    if not tokens:
        raise TracehoundError("an empty query", remedy=f"write a SELECT; {TABLES_COMMAND} lists the tables")
    if tokens[0].name not in _FIRST_WORDS:
        hint = "put the whole statement in quotes" if len(tokens) == 1 else "only SELECT runs"
        _raise_at_token(
            text, tokens[0], f"{tokens[0].text} is not a SELECT", f"{hint}; {TABLES_COMMAND} lists the tables"
        )
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        if token.text in _FORBIDDEN_SIGNS:
            _raise_at_token(text, token, *_FORBIDDEN_SIGNS[token.text])
        if after is None or token.kind not in ("word", "quoted"):
            continue
        if after.text == "(" and _FILE_FUNCTION.search(token.name):
            _raise_at_token(
                text,
                token,
                f"{token.text}() opens files",
                f"a query sees the tables of the trace alone: {TABLES_COMMAND}",
            )
        if token.text.lower() == "interval":
            _raise_at_token(
                text, token, "INTERVAL is not how times are written here", "write a number and its unit: 1.5ms"
            )
        if after.kind == "text" and after.start == token.start + len(token.text):
            _raise_at_token(text, token, f"text with a prefix, {token.text}'...'", "write it in plain single quotes")


def _refuse_empty_select(text: str, tokens: list[SqlToken]) -> None:
    """Refuse a SELECT of no columns: polars answers it with nothing at all."""
    for at, token in enumerate(tokens):
        if token.text.lower() == "select":
            after = next((word for word in tokens[at + 1 :] if word.text.lower() not in _SELECT_MODIFIERS), None)
            if after is not None and after.text.lower() == "from":
                _raise_at_token(text, after, "no columns between SELECT and FROM", "* stands for all of them")


def _refuse_time_overflow(text: str, tokens: list[SqlToken]) -> None:
    """Refuse a product of numbers and times that is longer than a time can be: polars would wrap it around.

    A token behind a division begins no product: ``duration / 1s * 1000`` is a quotient first.
    """
    product, timed, due = 1.0, False, False
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        divides = before is not None and before.text in ("/", "%")
        if token.kind in ("time", "number") and not due and not divides:
            product *= parse_duration(token.text) if token.kind == "time" else float(token.text)
            timed, due = timed or token.kind == "time", True
            if timed and abs(product) > LONGEST_TIME:
                _raise_at_token(text, token, "longer than a time can be", "divide times by a unit: 10s / 1s is 10")
        elif due and token.text == "*" and after is not None and after.kind in ("time", "number"):
            due = False
        else:
            product, timed, due = 1.0, False, False


def _raise_at_token(text: str, token: SqlToken, what: str, remedy: str) -> NoReturn:
    """Raise TracehoundError with the position of a token."""
    raise TracehoundError(what, where=_position_phrase(text, token.start), remedy=remedy)


def _with_current_values(tokens: list[SqlToken]) -> dict[int, str]:
    """The SQL of some tokens, by their offsets: what is compared with an older name may also be its current one."""
    rewritten: dict[int, str] = {}
    in_list = False
    for before, sign, token in zip([None, None, *tokens], [None, *tokens], tokens, strict=False):
        if token.text == "(":
            in_list = sign is not None and sign.name == "in"
        elif token.kind not in ("text", "number") and token.text != ",":
            in_list = False
        value = token.text[1:-1]
        if token.kind != "text" or current_name(value) == value or before is None or sign is None:
            continue
        both = f"'{value}', '{current_name(value)}'"
        two_signs = before.text in ("!", "=", "<", ">")
        operator = f"{before.text * two_signs}{sign.text}"
        if in_list:
            rewritten[token.start] = both
        elif operator in _OPERATORS_WITH_LIST:
            rewritten |= {before.start: ""} if two_signs else {}
            rewritten |= {sign.start: _OPERATORS_WITH_LIST[operator], token.start: f"({both})"}
    return rewritten


_OPERATORS_WITH_LIST = MappingProxyType({"=": " IN ", "==": " IN ", "!=": " NOT IN ", "<>": " NOT IN "})
"""Operators that compare with a list, in place of those that compare with one value."""


def _polars_sql_pieces(every: list[SqlToken], kept: set[int], rewritten: Mapping[int, str]) -> list[tuple[int, str]]:
    """The sql in pieces, each with its offset in the text."""
    offset_pairs: list[tuple[int, str]] = []
    before = ""
    for token, after in zip(every, [*every[1:], None], strict=True):
        if token.kind == "space":
            offset_pairs.append((token.start, "\n" * token.text.count("\n") or " "))
        elif token.start in kept:
            value = before in _BEFORE_VALUES
            negative = token.text == "-" and value and after is not None and after.kind not in ("number", "space")
            sign = _NEGATION_AFTER.get(before, "-1 * ") if negative else ""
            usual = sign or _polars_sql_of_token(token, value=value)
            offset_pairs.append((token.start, rewritten.get(token.start, usual)))
            before = token.name
    return offset_pairs


def _polars_sql_of_token(token: SqlToken, *, value: bool) -> str:
    """A token in the SQL of polars. A number with decimals is a float there only with an exponent."""
    if token.kind == "time":
        return f"CAST({parse_duration(token.text)} AS INTERVAL)"
    if token.kind == "number":
        return f"{token.text}e0" if "." in token.text and "e" not in token.name else token.text
    if token.kind == "word" and value and token.name in _COLUMN_KEYWORDS:
        return f'"{token.name}"'
    return token.text


def _position_phrase(text: str, offset: int) -> str:
    """The position of an offset, for messages."""
    line, column = text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
    return f"query, line {line}, column {column}" if "\n" in text.strip() else f"query, column {column}"
