"""One palette for kinds, everywhere."""

from __future__ import annotations

import pytest
from msgspec.structs import asdict
from rich.color import Color

from tracehound.draw.event_colors import (
    DARK_PALETTE,
    KIND_HUES,
    KIND_LETTERS,
    LIGHT_PALETTE,
    NO_COLOR_PALETTE,
    SIXTEEN_COLOR_PALETTE,
    TINTS_PER_HUE,
    ColorPalette,
    choose_palette,
    kind_legend,
)
from tracehound.draw.glyphs import ASCII, FILL_LEVELS, MONO, UNICODE, Glyphs, split_into_cells
from tracehound.model.trace import KINDS


def test_every_kind_has_a_hue_and_a_letter_of_its_own() -> None:
    assert set(KIND_HUES) == set(KIND_LETTERS) == set(KINDS)
    assert len(set(KIND_LETTERS.values())) == len(KINDS)
    assert all(letter.lower() in kind for kind, letter in KIND_LETTERS.items())


def test_no_more_than_seven_hues_and_gray() -> None:
    assert len(set(KIND_HUES.values()) - {"gray"}) <= 7


@pytest.mark.parametrize("palette", [DARK_PALETTE, LIGHT_PALETTE], ids=lambda palette: palette.name)
def test_names_can_be_read_on_every_shade(palette: ColorPalette) -> None:
    """Contrast of at least 4.5 between a slice's color and what is written on it, as accessibility guides ask."""
    for kind in KINDS:
        for tint in range(TINTS_PER_HUE):
            colors = (palette.text_color_on(KIND_HUES[kind]), palette.kind_color(kind, tint) or "")
            dark, light = sorted(map(luminance, colors))
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (kind, colors)


def luminance(color: str) -> float:
    parts = [part / 255 for part in Color.parse(color).get_truecolor()]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_what_fits_a_terminal() -> None:
    assert choose_palette(None, dark=True) is NO_COLOR_PALETTE
    assert choose_palette("standard", dark=True) is SIXTEEN_COLOR_PALETTE
    assert choose_palette("256", dark=True) is DARK_PALETTE
    assert choose_palette("truecolor", dark=False) is LIGHT_PALETTE
    assert NO_COLOR_PALETTE.kind_color("kernel") is None


def test_hues_stay_apart_in_sixteen_colors() -> None:
    colors = {hue: shades[0] for hue, shades in SIXTEEN_COLOR_PALETTE.shades.items()}
    assert len(set(colors.values())) == len(colors)


def test_legend_in_order() -> None:
    assert kind_legend(["copy", "kernel"]) == [("K", "kernel"), ("Y", "copy")]


@pytest.mark.parametrize("glyphs", [UNICODE, MONO, ASCII], ids=lambda glyphs: glyphs.name)
def test_alphabets_are_one_cell_wide(glyphs: Glyphs) -> None:
    single = [value for name, value in asdict(glyphs).items() if name not in ("name", "fill", "levels", "letters")]
    assert all(len(value) == 1 for value in single)
    assert len(glyphs.levels) == len(set(glyphs.levels)) == FILL_LEVELS + 1
    assert all(len(glyphs.fill_characters(kind)) == FILL_LEVELS + 1 for kind in KINDS)


def test_ascii_is_ascii() -> None:
    assert all(value.isascii() for value in asdict(ASCII).values() if isinstance(value, str))
    assert all(ASCII.fill_characters(kind).isascii() for kind in KINDS)
    assert ASCII.to_alphabet("µs … 训 ×4 a › b") == "us ~ ? x4 a > b"
    assert ASCII.cut("a_very_long_name_indeed", 14).isascii()


@pytest.mark.parametrize("glyphs", [UNICODE, MONO, ASCII], ids=lambda glyphs: glyphs.name)
def test_no_control_character_passes(glyphs: Glyphs) -> None:
    words = glyphs.to_alphabet("a\x1b[31mred\x07\n")
    assert "\x1b" not in words
    assert "\x07" not in words
    assert "\n" not in words


def test_columns_of_wide_text() -> None:
    assert split_into_cells("训练", 3) == ["训", "", " "]
    assert split_into_cells("训练", 5) == ["训", "", "练", "", " "]
    assert split_into_cells("ab", 3) == ["a", "b", " "]
