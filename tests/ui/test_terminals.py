"""Every screen on every sort of terminal: sixteen colours, none, and ASCII. Meaning never rests on hue alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from rich.color import ColorType
from rich.segment import Segment
from test_details import written
from textual.pilot import Pilot

from exploring import press, settled
from terminal import Terminal
from tracehound.store import open_paths
from tracehound.ui.app import TracehoundApp
from tracehound.ui.bindings.keys import KEYS
from tracehound.ui.bindings.menu import choices
from tracehound.ui.source.finding import Sources

SCREENS = {
    "timeline": ("2", "enter", "T"),
    "tables": ("2", "j"),
    "details": ("slash", *"addmm", "enter", "9", "f", *"forward", "enter"),
    "finding": ("slash", *"addmm", "enter", "9", "f", *"forward"),
    "source": ("slash", *"addmm", "enter", "9", "f", *"model", "enter", "enter"),
    "choice": ("slash", *"addmm", "enter", "O"),
    "message": ("slash", *"addmm", "enter", "9", "y"),
    "nothing": ("9",),
    "help": ("question_mark",),
    "menu": ("M",),
    "settings": ("M", choices(KEYS)["operators"], "B"),
    "columns": ("2", "plus"),
    "palette": ("ctrl+p",),
}
"""How to get to each screen."""


@asynccontextmanager
async def shown(folder: Path, keys: tuple[str, ...], alphabet: str = "unicode") -> AsyncIterator[list[Segment]]:
    app = TracehoundApp(open_paths([written(folder)]), alphabet, sources=Sources((), folder))
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, *keys)
        yield segments(pilot)


def segments(pilot: Pilot[None]) -> list[Segment]:
    return [segment for strip in pilot.app.screen._compositor.render_strips() for segment in strip]


@pytest.fixture
def _sixteen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.usefixtures("_sixteen")
@pytest.mark.parametrize(
    "screen", sorted(SCREENS.keys() - {"palette"})
)  # Textual's, with blank borders in a colour of its own
async def test_sixteen_colours_are_the_terminals_own(tmp_path: Path, screen: str) -> None:
    async with shown(tmp_path, SCREENS[screen]) as cells:
        grounds = {style.bgcolor for _, style, _ in cells if style and style.bgcolor}
        used = grounds | {style.color for text, style, _ in cells if text.strip() and style and style.color}
        assert {colour.type for colour in used} <= {ColorType.DEFAULT, ColorType.STANDARD}
        assert any(colour.type is ColorType.STANDARD for colour in used)


@pytest.mark.usefixtures("_sixteen")
@pytest.mark.parametrize("screen", SCREENS)
async def test_words_and_their_ground_differ(tmp_path: Path, screen: str) -> None:
    async with shown(tmp_path, SCREENS[screen]) as cells:
        for text, style, _ in cells:
            if text.strip() and style is not None and style.color is not None and style.bgcolor is not None:
                assert style.color.is_default or style.color != style.bgcolor, text


@pytest.mark.parametrize("screen", SCREENS)
async def test_without_colour_nothing_is_coloured_and_the_place_is_marked(
    tmp_path: Path, screen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with shown(tmp_path, SCREENS[screen]) as cells:
        styles = [style for text, style, _ in cells if style is not None]
        used = {colour for style in styles for colour in (style.color, style.bgcolor) if colour}
        assert all(colour.is_default for colour in used), used
        assert any(style.reverse or style.underline or style.bold for style in styles)


@pytest.mark.parametrize("screen", SCREENS)
async def test_ascii_is_ascii(tmp_path: Path, screen: str) -> None:
    async with shown(tmp_path, SCREENS[screen], "ascii") as cells:
        text = "".join(text for text, _, _ in cells)
        assert text.isascii(), {char for char in text if not char.isascii()}


@pytest.mark.parametrize("alphabet", ["unicode", "ascii"])
async def test_where_letters_stand_for_colours_help_begins_with_them(
    tmp_path: Path, alphabet: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with shown(tmp_path, ("question_mark",), alphabet) as cells:
        text = "".join(text for text, _, _ in cells)
        assert "K  kernel" in text
        assert "Capital: more than half of the cell; small: less; a point: little." in text


@pytest.mark.parametrize(("locale", "ascii_"), [("C", True), ("POSIX", True), ("C.UTF-8", False)])
def test_a_terminal_in_the_c_locale_gets_ascii(tmp_path: Path, locale: str, *, ascii_: bool) -> None:
    with Terminal(str(written(tmp_path)), LC_ALL=locale) as terminal:
        terminal.wait_for("quit", "gemm")
        assert "\n".join(terminal.display.display).isascii() == ascii_
        terminal.press("q")
