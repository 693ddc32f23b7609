"""What a person writes to find text -> a condition on a column of texts.

Owns the one way in which the program looks for text: a piece of it, or ``~`` and a regular expression, in any
case. Knows no table. The dialect of regular expressions is that of polars, Rust's: no look-around, and time that does
not explode.
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from tracehound.errors import TracehoundError, printable

SIGN: Final = "~"
"""What a needle begins with that is a regular expression."""

LONGEST: Final = 1_000
"""Characters of what a person types to find something."""

_REASON = re.compile(r"^error: (?P<what>[^\n]+)", re.MULTILINE)


def found(text: pl.Expr, needle: str) -> pl.Expr:
    """Whether a text has the needle; TracehoundError when it is a regular expression that polars does not take."""
    needle = needle.strip() if needle.lstrip().startswith(SIGN) else needle
    return matching(text, needle[len(SIGN) :].strip()) if needle.startswith(SIGN) else holding(text, needle)


def holding(text: pl.Expr, piece: str) -> pl.Expr:
    """Whether a text has this piece, in any case."""
    return text.str.to_lowercase().str.contains(checked(piece).lower(), literal=True)


def matching(text: pl.Expr, pattern: str) -> pl.Expr:
    """Whether a regular expression matches somewhere in a text, in any case; ``(?-i)`` in it makes the case count."""
    if not pattern:
        raise TracehoundError("a regular expression without a character", remedy=f"write one after {SIGN}: all.?reduce")
    anywhere = f"(?i){checked(pattern)}"
    try:
        pl.select(pl.lit("").str.contains(anywhere))
    except pl.exceptions.ComputeError as error:
        reason = _REASON.search(str(error))
        what = reason["what"] if reason else "too large"
        raise TracehoundError(f"not a regular expression: {printable(what)}") from error
    return text.str.contains(anywhere)


def checked(text: str) -> str:
    """The text, if polars can hold it; TracehoundError when it is none or nobody wrote it."""
    if len(text) > LONGEST:
        raise TracehoundError(f"{len(text):,} characters to look for", remedy=f"write at most {LONGEST:,}")
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise TracehoundError("bytes that are not UTF-8")
    return text
