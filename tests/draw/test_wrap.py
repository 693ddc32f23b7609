"""Sentences on lines, of narrow and of wide signs."""

from __future__ import annotations

import textwrap

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tracehound.draw.wrap import wrap


@given(st.text("ab é漢字🙂-,", max_size=60), st.integers(4, 30), st.sampled_from(["", "  "]))
def test_no_line_is_wider_than_asked_and_nothing_is_lost(text: str, width: int, hang: str) -> None:
    lines = wrap(text, width, hang)
    assert all(cell_len(line) <= width for line in lines)
    assert all(line.startswith(hang) for line in lines[1:])
    assert "".join("".join(lines).split()) == "".join(text.split())


@given(st.text("ab -,", max_size=60), st.integers(4, 30))
def test_narrow_signs_are_broken_as_everybody_breaks_them(text: str, width: int) -> None:
    assert wrap(text, width, "  ") == textwrap.wrap(text, width, subsequent_indent="  ")


def test_wide_signs_take_two_cells() -> None:
    assert wrap("漢字漢字漢字", 8, "  ") == ["漢字漢字", "  漢字"]
    assert wrap("a 漢字 漢字", 8) == ["a 漢字", "漢字"]
    assert wrap("\u0301", 8) == []
