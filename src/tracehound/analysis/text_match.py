"""Text search as polars conditions: a substring, or ``~`` and a regular expression, in any case.

All searches of the program work this way. Regular expressions are those of polars (Rust): no look-around, linear time.
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from tracehound.errors import TracehoundError, printable

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
