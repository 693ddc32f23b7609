"""Source code in colors: no character is added, lost or moved."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.draw.event_colors import (
    DARK_PALETTE,
    LIGHT_PALETTE,
    NO_COLOR_PALETTE,
    SIXTEEN_COLOR_PALETTE,
    ColorPalette,
)
from tracehound.ui.screens.source_screen import MAX_HIGHLIGHTED, highlight_source

CODE = ["", "@decorated", "def step(x):  # why", '    return "a" + 1', ""]
PALETTES = [DARK_PALETTE, LIGHT_PALETTE, SIXTEEN_COLOR_PALETTE, NO_COLOR_PALETTE]


@pytest.mark.parametrize("palette", PALETTES, ids=lambda palette: palette.name)
@pytest.mark.parametrize("name", ["m.py", "m.cc", "m.cu", "noext", "odd.zzz"])
def test_lines_stay_as_they_are(palette: ColorPalette, name: str) -> None:
    assert ["".join(text for text, _ in line) for line in highlight_source(name, CODE, palette)] == CODE


@given(st.lists(st.text("ab \"'#\\(){}=1\t", max_size=20), min_size=1, max_size=8))
def test_broken_code_too(lines: list[str]) -> None:
    assert ["".join(text for text, _ in line) for line in highlight_source("m.py", lines, DARK_PALETTE)] == lines


def test_sorts_of_words_have_the_hues_of_the_palette() -> None:
    styles = {text: style for line in highlight_source("m.py", CODE, DARK_PALETTE) for text, style in line}
    assert styles["def"].color is not None
    assert styles["def"].color.name == DARK_PALETTE.shades["violet"][0]
    assert styles["step"].color is not None
    assert styles["step"].color.name == DARK_PALETTE.shades["blue"][0]


def test_without_color_words_are_told_apart_by_weight() -> None:
    styles = {text: style for line in highlight_source("m.py", CODE, NO_COLOR_PALETTE) for text, style in line}
    assert styles["def"].bold
    assert styles["# why"].italic
    assert all(style.color is None for style in styles.values())


def test_what_is_too_long_is_shown_plain() -> None:
    [[(text, style)]] = highlight_source("m.py", ["x" * (MAX_HIGHLIGHTED + 1)], DARK_PALETTE)
    assert len(text) == MAX_HIGHLIGHTED + 1
    assert style.color is None
