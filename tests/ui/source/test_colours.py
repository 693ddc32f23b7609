"""Source code in colours: no character is added, lost or moved."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.draw.palette import DARK, LIGHT, NO_COLOUR, SIXTEEN, Palette
from tracehound.ui.source.colours import MOST, coloured

CODE = ["", "@decorated", "def step(x):  # why", '    return "a" + 1', ""]
PALETTES = [DARK, LIGHT, SIXTEEN, NO_COLOUR]


@pytest.mark.parametrize("palette", PALETTES, ids=lambda palette: palette.name)
@pytest.mark.parametrize("name", ["m.py", "m.cc", "m.cu", "noext", "odd.zzz"])
def test_lines_stay_as_they_are(palette: Palette, name: str) -> None:
    assert ["".join(text for text, _ in line) for line in coloured(name, CODE, palette)] == CODE


@given(st.lists(st.text("ab \"'#\\(){}=1\t", max_size=20), min_size=1, max_size=8))
def test_broken_code_too(lines: list[str]) -> None:
    assert ["".join(text for text, _ in line) for line in coloured("m.py", lines, DARK)] == lines


def test_sorts_of_words_have_the_hues_of_the_palette() -> None:
    styles = {text: style for line in coloured("m.py", CODE, DARK) for text, style in line}
    assert styles["def"].color is not None
    assert styles["def"].color.name == DARK.shades["violet"][0]
    assert styles["step"].color is not None
    assert styles["step"].color.name == DARK.shades["blue"][0]


def test_without_colour_words_are_told_apart_by_weight() -> None:
    styles = {text: style for line in coloured("m.py", CODE, NO_COLOUR) for text, style in line}
    assert styles["def"].bold
    assert styles["# why"].italic
    assert all(style.color is None for style in styles.values())


def test_what_is_too_long_is_shown_plain() -> None:
    [[(text, style)]] = coloured("m.py", ["x" * (MOST + 1)], DARK)
    assert len(text) == MOST + 1
    assert style.color is None
