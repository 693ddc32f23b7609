"""Row filters as users write them, as polars conditions: ``self > 1ms and name ~ "all.?reduce"``.

Holds the grammar, the names of columns, and the parsing of values in the unit of a column (``1.5ms``, ``64MiB``,
``20GB/s``, ``10%``). Text without a comparison is searched in all columns of text. Panes and reports use the same
filters.

An unknown value (null, NaN, infinite) passes no comparison, so it passes every negation: ``!=``, ``!~``, `not`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import Final, NoReturn

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.result import TEXT_UNITS, Column, Result, Unit, filter_tree_rows
from tracehound.errors import TracehoundError, printable
from tracehound.model.notes import note
from tracehound.model.old_names import current_name, old_name
from tracehound.model.units import parse_duration

REGEX_SIGN: Final = "~"
"""First character of a search text that is a regular expression."""

MAX_LENGTH: Final = 1_000
"""Most characters of a search text."""

_ERROR_REASON = re.compile(r"^error: (?P<what>[^\n]+)", re.MULTILINE)


def text_matches(text: pl.Expr, needle: str) -> pl.Expr:
    """Condition: the text matches `needle`.

    Raises TracehoundError for a regular expression that polars does not accept.
    """
    needle = needle.strip() if needle.lstrip().startswith(REGEX_SIGN) else needle
    return (
        matches_regex(text, needle[len(REGEX_SIGN) :].strip())
        if needle.startswith(REGEX_SIGN)
        else contains_text(text, needle)
    )


def contains_text(text: pl.Expr, piece: str) -> pl.Expr:
    """Condition: the text contains this piece, in any case."""
    return text.str.to_lowercase().str.contains(check_search_text(piece).lower(), literal=True)


def matches_regex(text: pl.Expr, pattern: str) -> pl.Expr:
    """Condition: a regular expression matches somewhere in the text, in any case; ``(?-i)`` makes the case count."""
    if not pattern:
        raise TracehoundError(
            "a regular expression without a character", remedy=f"write one after {REGEX_SIGN}: all.?reduce"
        )
    anywhere = f"(?i){check_search_text(pattern)}"
    try:
        pl.select(pl.lit("").str.contains(anywhere))
    except pl.exceptions.ComputeError as error:
        reason = _ERROR_REASON.search(str(error))
        what = reason["what"] if reason else "too large"
        raise TracehoundError(f"not a regular expression: {printable(what)}") from error
    return text.str.contains(anywhere)


def check_search_text(text: str) -> str:
    """The text, if polars can hold it; TracehoundError if it is too long or not UTF-8."""
    if len(text) > MAX_LENGTH:
        raise TracehoundError(f"{len(text):,} characters to look for", remedy=f"write at most {MAX_LENGTH:,}")
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise TracehoundError("bytes that are not UTF-8")
    return text


MAX_NESTING: Final = 40
"""Deepest nesting of brackets and `not`."""

_SPACE_PATTERN = re.compile(r"\s*")
_WORD_PATTERN = re.compile(r"""[^\s()<>=!~"'&|]+""")
_QUOTED_PATTERN = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL)
_BARE_PATTERN = re.compile(r"""[^\s()"']+""")
_OPERATORS: Final = "!~|!=|<=|>=|==|<>|[<>=~]"
_OPERATOR_PATTERN = re.compile(_OPERATORS)
_CONJUNCTIONS: Final = ("and", "or")
_OPENING_PATTERN = re.compile(r"(?:(?:and|or|not)\s+)*\(", re.IGNORECASE)

_COMPARISON_PATTERN = re.compile(
    rf"""(?P<left>"[^"]*"|'[^']*'|[^\s()<>=!~"'&|]+)(?P<space>\s*)(?:{_OPERATORS})(?=(?P<after>.?))"""
)
_LEADING_QUOTE_PATTERN = re.compile(r"""\s*(?:not\s+)*["']""", re.IGNORECASE)

_COMPARE_FUNCTIONS: MappingProxyType[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = MappingProxyType(
    {
        "=": pl.Expr.eq, "==": pl.Expr.eq, "!=": pl.Expr.eq, "<>": pl.Expr.eq,
        "<": pl.Expr.lt, "<=": pl.Expr.le, ">": pl.Expr.gt, ">=": pl.Expr.ge,
    }
)  # fmt: skip
"""Comparison of two numbers by operator; the operators in `_NEGATED_OPERATORS` negate it."""

_NEGATED_OPERATORS: Final = ("!=", "<>", "!~")


def filter_condition(text: str, columns: Sequence[Column]) -> pl.Expr:
    """Condition on rows: true or false, never null. Empty text keeps all rows.

    Raises TracehoundError, one line, for an invalid filter on these columns.
    """
    text = check_search_text(text.strip())
    if not text:
        return pl.lit(value=True)
    there = [column for column in columns if column.unit != "id"]
    if text.startswith(REGEX_SIGN) or not (is_comparison(text, there) or _has_open_bracket(text)):
        return _any_text_column(there, partial(text_matches, needle=text))
    return _FilterParser(text, there).parse()


def filter_result(result: Result, text: str, top: int | None = None) -> Result:
    """At most `top` of the rows that pass the filter, in a tree with their ancestors; a note says how many."""
    rows, passed = filter_tree_rows(result.table, result.columns, filter_condition(text, result.columns))
    of, above = result.table.height, rows.height - passed
    row_note = note("rows_filtered", filter=text.strip(), passed=passed, of=of, above=above)
    shown = rows if top is None else rows.head(top)
    all_rows = None if result.all_rows is None and shown.height == rows.height else rows
    return replace(result, table=shown, notes=(row_note, *result.notes), all_rows=all_rows)


def is_comparison(text: str, columns: Sequence[Column]) -> bool:
    """True if the text is more than a search: it compares a column, or starts with a quote.

    It does if a column or a word with spaces precedes an operator; the name of a kernel, ``gemm<float>``, is a search.
    """
    if _LEADING_QUOTE_PATTERN.match(text):
        return True
    words = {word for column in columns for word in [column.name.lower(), *column_heading(column).split()]}
    for match in _COMPARISON_PATTERN.finditer(text):
        spaced = bool(match["space"]) and (not match["after"].strip() or match["after"] in "\"'")
        left = match["left"].strip("\"'").lower()
        if spaced or left in words or column_with_prefix(left, columns):
            return True
    return False


def _has_open_bracket(text: str) -> bool:
    """True if the text starts a condition with a bracket that never closes.

    A later bracket is part of a name, ``void f(int``, and so is one that closes: ``(anonymous namespace)::f(``.
    """
    begun = _OPENING_PATTERN.match(text)
    depth = 0
    for char in text[begun.end() - 1 :] if begun else "":
        depth += (char == "(") - (char == ")")
        if not depth:
            return False
    return depth > 0


def _any_text_column(columns: Sequence[Column], test: Callable[[pl.Expr], pl.Expr]) -> pl.Expr:
    """Condition: any column of text passes the test."""
    tests = [test(pl.col(column.name).cast(pl.String)) for column in columns if column.unit in TEXT_UNITS]
    test(pl.lit(""))  # raises for an invalid text, even without text columns
    return pl.any_horizontal(pl.lit(value=False), *(each.fill_null(value=False) for each in tests))


class _FilterParser:
    """Recursive descent parser of one filter."""

    def __init__(self, text: str, columns: Sequence[Column]) -> None:
        self._text = text
        self._columns = columns
        self._at = 0
        self._depth = 0

    def parse(self) -> pl.Expr:
        """Parse the whole filter."""
        condition = self._parse_or()
        if self._at < len(self._text):
            rest = self._text[self._at :]
            self._raise_error(f"{rest[:20]!r} where and, or or the end should be")
        return condition

    def _parse_or(self) -> pl.Expr:
        parts = [self._parse_and()]
        while self._take_word("or"):
            parts.append(self._parse_and())
        return parts[0] if len(parts) == 1 else pl.any_horizontal(*parts)

    def _parse_and(self) -> pl.Expr:
        parts = [self._parse_operand()]
        while self._take_word("and"):
            parts.append(self._parse_operand())
        return parts[0] if len(parts) == 1 else pl.all_horizontal(*parts)

    def _parse_operand(self) -> pl.Expr:
        """Parse ``not ...``, ``( ... )``, a comparison, a flag, or text."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            self._raise_error(f"more than {MAX_NESTING} brackets in each other")
        if self._take_word("not"):
            part = ~self._parse_operand()
        elif self._take_text("("):
            part = self._parse_or()
            if not self._take_text(")"):
                self._raise_error("a bracket that does not close", "in quotes it is text")
        else:
            part = self._parse_comparison()
        self._depth -= 1
        return part

    def _parse_comparison(self) -> pl.Expr:
        start = self._at
        name, quoted = self._parse_name()
        sign = self._take_match(_OPERATOR_PATTERN)
        if not sign:
            flag = None if quoted else find_column(name, self._columns)
            if flag is not None and flag.unit == "flag":
                return pl.col(flag.name).fill_null(value=False)
            if not name:
                self._raise_error("a column, a text or a bracket should be here")
            return _any_text_column(self._columns, partial(contains_text, piece=name))
        column = find_column(name, self._columns)
        if column is None:
            self._at = start
            self._raise_error(
                f"no column {name!r}" if name else f"nothing before {sign}", suggest_columns(name, self._columns)
            )
        test = self._column_test(column, sign).fill_null(value=False)
        return ~test if sign in _NEGATED_OPERATORS else test

    def _column_test(self, column: Column, sign: str) -> pl.Expr:
        """Condition of the operator and the value after it on a column."""
        if column.unit in (*TEXT_UNITS, "host"):
            return _text_column_test(column, self._text_test(column, sign))
        if sign not in _COMPARE_FUNCTIONS:
            name = column_heading(column)
            self._raise_error(f"{name} is not text", f"compare it: {name} > {example_value(column)}")
        if column.unit == "flag":
            return self._flag_test(column, sign)
        return _COMPARE_FUNCTIONS[sign](_finite_or_null(pl.col(column.name)), self._parse_value(column))

    def _text_test(self, column: Column, sign: str) -> Callable[[pl.Expr], pl.Expr]:
        if sign in ("<", "<=", ">", ">="):
            self._raise_error(f"{column_heading(column)} is text", "compare it with = != ~ or !~")
        start = self._at
        value = self._parse_quoted()
        value = self._take_match(_BARE_PATTERN) or None if value is None else value
        if value is None:
            self._raise_error(
                f"{column_heading(column)} {sign} what?", f'a text: {column_heading(column)} {sign} "gemm"'
            )
        if sign not in (REGEX_SIGN, "!~"):
            return lambda text: text.is_in({value, current_name(value)})
        try:
            matches_regex(pl.lit(""), value)
        except TracehoundError as error:
            self._at = start
            self._raise_error(error.message, error.remedy)
        return partial(matches_regex, pattern=value)

    def _flag_test(self, column: Column, sign: str) -> pl.Expr:
        value = (self._parse_quoted() or self._take_match(_WORD_PATTERN)).lower()
        if sign not in ("=", "==", "!=", "<>") or value not in ("yes", "no", "true", "false"):
            self._raise_error(f"{column_heading(column)} is yes or no", f"{column_heading(column)} = yes")
        return pl.col(column.name) == pl.lit(value in ("yes", "true"))

    def _parse_value(self, column: Column) -> pl.Expr:
        """Parse the number after an operator into the raw unit of the column, or the name of a comparable column."""
        start = self._at
        try:
            if number := self._take_match(NUMBER_PATTERN):
                return pl.lit(parse_amount(column, number, self._take_match(UNIT_PATTERN)))
            name, _ = self._parse_name()
            return _finite_or_null(pl.col(comparable_column(column, name, self._columns).name))
        except TracehoundError as error:
            self._at = start
            self._raise_error(error.message, error.remedy)

    # -- tokens

    def _parse_name(self) -> tuple[str, bool]:
        """Parse a quoted text, or the words up to an operator, a conjunction or a bracket.

        Returns also whether it was quoted.
        """
        quoted = self._parse_quoted()
        if quoted is not None:
            return quoted, True
        words: list[str] = []
        while (word := _WORD_PATTERN.match(self._text, self._at)) and word[0].lower() not in (*_CONJUNCTIONS, "not"):
            words.append(word[0])
            self._at = word.end()
            self._skip_spaces()
        return " ".join(words), False

    def _parse_quoted(self) -> str | None:
        """Parse a quoted text, without its quotes; None if no quote is next."""
        if not self._text.startswith(('"', "'"), self._at):
            return None
        quoted = self._take_match(_QUOTED_PATTERN)
        if not quoted:
            self._raise_error("a quote that does not end")
        return quoted[1:-1].replace(f"\\{quoted[0]}", quoted[0])

    def _take_word(self, word: str) -> bool:
        """Consume this word, if it is next."""
        match = _WORD_PATTERN.match(self._text, self._at)
        if match is None or match[0].lower() != word:
            return False
        self._at = match.end()
        self._skip_spaces()
        return True

    def _take_text(self, sign: str) -> bool:
        if not self._text.startswith(sign, self._at):
            return False
        self._at += len(sign)
        self._skip_spaces()
        return True

    def _take_match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        self._skip_spaces()
        return match[0]

    def _skip_spaces(self) -> None:
        space = _SPACE_PATTERN.match(self._text, self._at)
        self._at = space.end() if space else self._at

    def _raise_error(self, what: str, remedy: str = "") -> NoReturn:
        raise TracehoundError(printable(what), where=f"filter, character {self._at + 1}", remedy=printable(remedy))


def _text_column_test(column: Column, test: Callable[[pl.Expr], pl.Expr]) -> pl.Expr:
    """Test of a text column; of host activity, true if a thread or one of its events passes."""
    if column.unit in TEXT_UNITS:
        return test(pl.col(column.name).cast(pl.String))
    fields = [pl.element().struct.field(name) for name in ("thread", "event", "inside")]
    passes = pl.any_horizontal(*(test(field).fill_null(value=False) for field in fields))
    return pl.col(column.name).list.eval(passes).list.any()


def _finite_or_null(value: pl.Expr) -> pl.Expr:
    return pl.when(value.is_finite()).then(value)


NUMBER_PATTERN: Final = re.compile(r"[+-]?(?:[0-9][0-9_,]*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
UNIT_PATTERN: Final = re.compile(r"(?!(?:and|or)\b)(?:%|[a-zµμ]{1,3}(?:/s)?(?!\w))", re.IGNORECASE)
"""The unit after a number."""

_COMPARED_AS: MappingProxyType[Unit, Unit] = MappingProxyType({"instant": "time", "number": "count", "depth": "count"})
"""Units whose values are compared as those of another unit."""

_BYTE_UNITS = MappingProxyType(
    {
        "": 1, "b": 1,
        "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
        "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
    }
)  # fmt: skip

_FLOP_UNITS = MappingProxyType({"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15})
_UNITS_PER_SECOND = MappingProxyType({"rate": _BYTE_UNITS, "flops": _FLOP_UNITS})

_EXAMPLE_VALUES: MappingProxyType[Unit, str] = MappingProxyType(
    {
        "time": "1.5ms",
        "bytes": "64MiB",
        "rate": "20GB/s",
        "flops": "5T",
        "share": "10%",
        "count": "100",
        "flag": "yes",
        "text": '"gemm"',
    }
)


def column_heading(column: Column) -> str:
    """The name of a column as people write it."""
    return column.name.replace("_", " ")


def example_value(column: Column) -> str:
    """An example of a value of the column."""
    return _EXAMPLE_VALUES.get(_comparison_unit(column), "1")


def find_column(name: str, columns: Sequence[Column]) -> Column | None:
    """The column of that name (or older name), or the only one with that prefix; case does not matter."""
    plain = _plain_name(name)
    return next((each for each in columns if plain in _plain_names(each)), None) or column_with_prefix(plain, columns)


def column_with_prefix(name: str, columns: Sequence[Column]) -> Column | None:
    """The only column whose name, or older name, has this prefix."""
    found = [each for each in columns if name and any(known.startswith(name) for known in _plain_names(each))]
    return found[0] if len(found) == 1 else None


def suggest_columns(name: str, columns: Sequence[Column]) -> str:
    """Hint for an unknown column name."""
    names, plain = [column_heading(each) for each in columns], _plain_name(name)
    close = [other for other in names if plain and _plain_name(other).startswith(plain)]
    close = close or difflib.get_close_matches(plain, names, 1)
    if len(close) == 1:
        return f"did you mean {close[0]}?"
    listed = ", ".join(close or names) or "none"
    return f"there are {listed}; in quotes it is text" if name else f"there are {listed}"


def comparable_column(one: Column, name: str, columns: Sequence[Column]) -> Column:
    """The column of that name, if its values can be compared with those of `one`; else TracehoundError."""
    other = find_column(name, columns)
    if other is None:
        what = (
            f"{name!r} is not a value of {column_heading(one)}"
            if name
            else f"nothing to compare {column_heading(one)} with"
        )
        raise TracehoundError(what, remedy=f"such as {example_value(one)}")
    if _comparison_unit(other) != _comparison_unit(one):
        raise TracehoundError(f"{column_heading(one)} and {column_heading(other)} cannot be compared")
    return other


def parse_amount(of: Column, number: str, unit: str) -> int | float:
    """A value of a column, in raw units; TracehoundError if it is not in a unit of the column."""
    found = _parse_number(of, number, unit)
    return float(found) if abs(found) >= 2**63 else found


def _parse_number(of: Column, number: str, unit: str) -> int | float:
    value = Decimal(number.replace(",", "").replace("_", ""))
    low = unit.lower()
    match _comparison_unit(of):
        case "time":
            return 0 if not value and not unit else parse_duration(f"{number}{unit}")
        case "bytes" if low in _BYTE_UNITS:
            return float(value * _BYTE_UNITS[low])
        case "rate" | "flops" as kind if low.removesuffix("/s") in _UNITS_PER_SECOND[kind]:
            return float(value * _UNITS_PER_SECOND[kind][low.removesuffix("/s")])
        case "share" if unit == "%":
            return float(value / 100)
        case "share" if not unit and abs(value) <= 1:
            return float(value)
        case "count" if not unit:
            return int(value) if abs(value) < 2**63 and value == value.to_integral_value() else float(value)
    raise TracehoundError(
        f"{number}{unit} is not a value of {column_heading(of)}", remedy=f"such as {example_value(of)}"
    )


def _plain_name(name: str) -> str:
    return name.lower().replace("_", " ")


def _plain_names(column: Column) -> list[str]:
    """The name of a column, and its older one if it has one."""
    return [_plain_name(name) for name in (column.name, old_name(column.name)) if name is not None]


def _comparison_unit(of: Column) -> Unit:
    return _COMPARED_AS.get(of.unit, of.unit)
