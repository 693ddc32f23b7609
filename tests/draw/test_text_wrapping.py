"""Sentences on lines, of narrow and of wide signs."""

from __future__ import annotations

import textwrap

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tracehound.draw.text_wrapping import rewrap_text, wrap_text


@given(st.text("ab é漢字🙂-,", max_size=60), st.integers(4, 30), st.sampled_from(["", "  "]))
def test_no_line_is_wider_than_asked_and_nothing_is_lost(text: str, width: int, hang: str) -> None:
    lines = wrap_text(text, width, hang)
    assert all(cell_len(line) <= width for line in lines)
    assert all(line.startswith(hang) for line in lines[1:])
    assert "".join("".join(lines).split()) == "".join(text.split())


@given(st.text("ab -,", max_size=60), st.integers(4, 30))
def test_narrow_signs_are_broken_as_everybody_breaks_them(text: str, width: int) -> None:
    assert wrap_text(text, width, "  ") == textwrap.wrap(text, width, subsequent_indent="  ")


def test_wide_signs_take_two_cells() -> None:
    assert wrap_text("漢字漢字漢字", 8, "  ") == ["漢字漢字", "  漢字"]
    assert wrap_text("a 漢字 漢字", 8) == ["a 漢字", "漢字"]
    assert wrap_text("\u0301", 8) == []


MANUAL = """\
One sentence after another, of words that go on and on until the line has as much as one hundred and twenty cells and a
word on the next.
A line of its own.

commands:
  tool one  what it does, and more of it
  tool --with-a-long-name 'and more'  is told below
"""


def test_a_text_fits_and_keeps_its_shape() -> None:
    assert rewrap_text(MANUAL, 120) == MANUAL
    assert rewrap_text(MANUAL, 40).split("\n") == [
        "One sentence after another, of words",
        "that go on and on until the line has as",
        "much as one hundred and twenty cells and",
        "a word on the next.",
        "A line of its own.",
        "",
        "commands:",
        "  tool one  what it does, and more of it",
        "  tool --with-a-long-name 'and more'",
        "      is told below",
        "",
    ]


@given(st.lists(st.text("ab -:", max_size=130), max_size=6), st.integers(20, 130))
def test_of_a_text_that_is_made_to_fit_nothing_is_lost(lines: list[str], width: int) -> None:
    assert rewrap_text("\n".join(lines), width).split() == "\n".join(lines).split()
