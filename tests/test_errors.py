"""What a user reads when something is wrong."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.errors import TracehoundError, printable


def test_an_error_says_where_what_and_the_remedy() -> None:
    error = TracehoundError("the file ends early", path=Path("a.json"), where="byte 1,024", remedy="copy it again")
    assert str(error) == "a.json, byte 1,024: the file ends early; copy it again"
    assert str(TracehoundError("nothing to read")) == "nothing to read"
    assert error.code == 2


def test_an_error_is_one_line_whatever_the_file_is_called() -> None:
    assert str(TracehoundError("bad", path=Path("a\n\x1b[31mb"))) == "a ␛[31mb: bad"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("aten::mm", "aten::mm"),
        ("größe µs 中", "größe µs 中"),
        ("a\tb\nc\rd", "a b c d"),
        ("\x1b[2J", "␛[2J"),
        ("\x7f\x00", "␡␀"),
        ("\x9b31m", "�31m"),
        ("abc\u202edef", "abc�def"),
        ("\ud800", "�"),
    ],
)
def test_what_a_terminal_would_obey_is_made_visible(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_printable_text_is_printable_and_as_long(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown) == len(text)
    assert not any(unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in shown)
