"""A filter as a person writes it -> a condition on the rows of a result: ``self > 1ms and name ~ "all.?reduce"``.

Owns its grammar, how a column is meant, and how a value is written for its unit. Text that compares nothing is looked
for in every column of texts. Knows no face: panes and reports filter with the same words.

A value that is not known (null, NaN, infinite) passes no comparison, so it passes every negation:
``!=``, ``!~``, `not`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, NoReturn

import polars as pl
from msgspec.structs import replace

from tracehound.analysis import meant
from tracehound.analysis.needle import SIGN, checked, found, holding, matching
from tracehound.analysis.result import TEXTS, Column, Result
from tracehound.analysis.trees import passing
from tracehound.errors import TracehoundError, printable
from tracehound.notes import note

DEEPEST: Final = 40
"""Brackets and `not` in each other; nobody writes more."""

_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"""[^\s()<>=!~"'&|]+""")
_QUOTED = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL)
_BARE = re.compile(r"""[^\s()"']+""")
_SIGNS: Final = "!~|!=|<=|>=|==|<>|[<>=~]"
_SIGN = re.compile(_SIGNS)
_JOINTS: Final = ("and", "or")
_OPENED = re.compile(r"(?:(?:and|or|not)\s+)*\(", re.IGNORECASE)

_COMPARISON = re.compile(rf"""(?P<left>"[^"]*"|'[^']*'|[^\s()<>=!~"'&|]+)(?P<space>\s*)(?:{_SIGNS})(?=(?P<after>.?))""")
_QUOTE_FIRST = re.compile(r"""\s*(?:not\s+)*["']""", re.IGNORECASE)

_COMPARE: MappingProxyType[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = MappingProxyType(
    {
        "=": pl.Expr.eq, "==": pl.Expr.eq, "!=": pl.Expr.eq, "<>": pl.Expr.eq,
        "<": pl.Expr.lt, "<=": pl.Expr.le, ">": pl.Expr.gt, ">=": pl.Expr.ge,
    }
)  # fmt: skip
"""What a sign asks of two numbers; those of `_NEGATED` are the negation of it."""

_NEGATED: Final = ("!=", "<>", "!~")


def condition(text: str, columns: Sequence[Column]) -> pl.Expr:
    """What holds for the rows that the filter keeps: true or false, never null. Empty text keeps all.

    Raises TracehoundError, one line, for whatever is no filter on these columns.
    """
    text = checked(text.strip())
    if not text:
        return pl.lit(value=True)
    there = [column for column in columns if column.unit != "id"]
    if text.startswith(SIGN) or not (compares(text, there) or _unfinished(text)):
        return _anywhere(there, partial(found, needle=text))
    return _Reader(text, there).condition()


def kept(result: Result, text: str, top: int | None = None) -> Result:
    """At most `top` of the rows that the filter keeps, in a tree with those above them; a note says how many."""
    rows, passed = passing(result.table, result.columns, condition(text, result.columns))
    of, above = result.table.height, rows.height - passed
    told = note("rows_filtered", filter=text.strip(), passed=passed, of=of, above=above)
    return replace(result, table=rows if top is None else rows.head(top), notes=(told, *result.notes))


def compares(text: str, columns: Sequence[Column]) -> bool:
    """Whether it is more than text: a column or a spaced word stands before a sign, or it begins with a quote.

    So the name of a kernel, ``gemm<float>``, is text.
    """
    if _QUOTE_FIRST.match(text):
        return True
    words = {word for column in columns for word in [column.name.lower(), *meant.heading(column).split()]}
    for match in _COMPARISON.finditer(text):
        spaced = bool(match["space"]) and (not match["after"].strip() or match["after"] in "\"'")
        left = match["left"].strip("\"'").lower()
        if spaced or left in words or meant.begun(left, columns):
            return True
    return False


def _unfinished(text: str) -> bool:
    """Whether it begins a condition with a bracket that never closes.

    A bracket further on is part of a name, ``void f(int``, and so is one that closes: ``(anonymous namespace)::f(``.
    """
    begun = _OPENED.match(text)
    depth = 0
    for char in text[begun.end() - 1 :] if begun else "":
        depth += (char == "(") - (char == ")")
        if not depth:
            return False
    return depth > 0


def _anywhere(columns: Sequence[Column], test: Callable[[pl.Expr], pl.Expr]) -> pl.Expr:
    """Whether any column of texts passes."""
    tests = [test(pl.col(column.name).cast(pl.String)) for column in columns if column.unit in TEXTS]
    test(pl.lit(""))  # what is wrong with it is told even where there is nothing to look in
    return pl.any_horizontal(pl.lit(value=False), *(each.fill_null(value=False) for each in tests))


class _Reader:
    """Reads one filter from left to right."""

    def __init__(self, text: str, columns: Sequence[Column]) -> None:
        self._text = text
        self._columns = columns
        self._at = 0
        self._depth = 0

    def condition(self) -> pl.Expr:
        """All of it."""
        whole = self._either()
        if self._at < len(self._text):
            rest = self._text[self._at :]
            self._refuse(f"{rest[:20]!r} where and, or or the end should be")
        return whole

    def _either(self) -> pl.Expr:
        parts = [self._both()]
        while self._word("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else pl.any_horizontal(*parts)

    def _both(self) -> pl.Expr:
        parts = [self._operand()]
        while self._word("and"):
            parts.append(self._operand())
        return parts[0] if len(parts) == 1 else pl.all_horizontal(*parts)

    def _operand(self) -> pl.Expr:
        """``not ...``, ``( ... )``, a comparison, a flag, or text."""
        self._depth += 1
        if self._depth > DEEPEST:
            self._refuse(f"more than {DEEPEST} brackets in each other")
        if self._word("not"):
            part = ~self._operand()
        elif self._take("("):
            part = self._either()
            if not self._take(")"):
                self._refuse("a bracket that does not close", "in quotes it is text")
        else:
            part = self._comparison()
        self._depth -= 1
        return part

    def _comparison(self) -> pl.Expr:
        start = self._at
        name, quoted = self._name()
        sign = self._match(_SIGN)
        if not sign:
            flag = None if quoted else meant.column(name, self._columns)
            if flag is not None and flag.unit == "flag":
                return pl.col(flag.name).fill_null(value=False)
            if not name:
                self._refuse("a column, a text or a bracket should be here")
            return _anywhere(self._columns, partial(holding, piece=name))
        column = meant.column(name, self._columns)
        if column is None:
            self._at = start
            self._refuse(f"no column {name!r}" if name else f"nothing before {sign}", meant.near(name, self._columns))
        test = self._test(column, sign).fill_null(value=False)
        return ~test if sign in _NEGATED else test

    def _test(self, column: Column, sign: str) -> pl.Expr:
        """What the sign and the value after it ask of a column."""
        if column.unit in (*TEXTS, "host"):
            return _asked(column, self._text_test(column, sign))
        if sign not in _COMPARE:
            name = meant.heading(column)
            self._refuse(f"{name} is not text", f"compare it: {name} > {meant.example(column)}")
        if column.unit == "flag":
            return self._flag_test(column, sign)
        return _COMPARE[sign](_finite(pl.col(column.name)), self._amount(column))

    def _text_test(self, column: Column, sign: str) -> Callable[[pl.Expr], pl.Expr]:
        if sign in ("<", "<=", ">", ">="):
            self._refuse(f"{meant.heading(column)} is text", "compare it with = != ~ or !~")
        start = self._at
        value = self._quoted()
        value = self._match(_BARE) or None if value is None else value
        if value is None:
            self._refuse(f"{meant.heading(column)} {sign} what?", f'a text: {meant.heading(column)} {sign} "gemm"')
        if sign not in (SIGN, "!~"):
            return lambda text: text == value
        try:
            matching(pl.lit(""), value)
        except TracehoundError as error:
            self._at = start
            self._refuse(error.message, error.remedy)
        return partial(matching, pattern=value)

    def _flag_test(self, column: Column, sign: str) -> pl.Expr:
        value = (self._quoted() or self._match(_WORD)).lower()
        if sign not in ("=", "==", "!=", "<>") or value not in ("yes", "no", "true", "false"):
            self._refuse(f"{meant.heading(column)} is yes or no", f"{meant.heading(column)} = yes")
        return pl.col(column.name) == pl.lit(value in ("yes", "true"))

    def _amount(self, column: Column) -> pl.Expr:
        """The number after a sign, in the raw unit of the column, or another column of such values."""
        start = self._at
        try:
            if number := self._match(meant.NUMBER):
                return pl.lit(meant.amount(column, number, self._match(meant.UNIT)))
            name, _ = self._name()
            return _finite(pl.col(meant.comparable(column, name, self._columns).name))
        except TracehoundError as error:
            self._at = start
            self._refuse(error.message, error.remedy)

    # -- words

    def _name(self) -> tuple[str, bool]:
        """A quoted text, or the words up to a sign, a joint or a bracket; and whether it was quoted."""
        quoted = self._quoted()
        if quoted is not None:
            return quoted, True
        words: list[str] = []
        while (word := _WORD.match(self._text, self._at)) and word[0].lower() not in (*_JOINTS, "not"):
            words.append(word[0])
            self._at = word.end()
            self._skip()
        return " ".join(words), False

    def _quoted(self) -> str | None:
        """A quoted text without its quotes; None where no quote is next."""
        if not self._text.startswith(('"', "'"), self._at):
            return None
        quoted = self._match(_QUOTED)
        if not quoted:
            self._refuse("a quote that does not end")
        return quoted[1:-1].replace(f"\\{quoted[0]}", quoted[0])

    def _word(self, word: str) -> bool:
        """Take this word, if it is next."""
        match = _WORD.match(self._text, self._at)
        if match is None or match[0].lower() != word:
            return False
        self._at = match.end()
        self._skip()
        return True

    def _take(self, sign: str) -> bool:
        if not self._text.startswith(sign, self._at):
            return False
        self._at += len(sign)
        self._skip()
        return True

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        self._skip()
        return match[0]

    def _skip(self) -> None:
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at

    def _refuse(self, what: str, remedy: str = "") -> NoReturn:
        raise TracehoundError(printable(what), where=f"filter, character {self._at + 1}", remedy=printable(remedy))


def _asked(column: Column, test: Callable[[pl.Expr], pl.Expr]) -> pl.Expr:
    """The test of a text; of what host threads did, whether a thread or one of its events passes."""
    if column.unit in TEXTS:
        return test(pl.col(column.name).cast(pl.String))
    fields = [pl.element().struct.field(name) for name in ("thread", "event", "inside")]
    passes = pl.any_horizontal(*(test(field).fill_null(value=False) for field in fields))
    return pl.col(column.name).list.eval(passes).list.any()


def _finite(value: pl.Expr) -> pl.Expr:
    return pl.when(value.is_finite()).then(value)
