"""Every screen on every sort of terminal: sixteen colors, none, and ASCII. Meaning never rests on hue alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.color import ColorType
from rich.segment import Segment
from test_details import written
from textual.pilot import Pilot
from textual.screen import Screen

from exploring import in_full, press, rows_in_full, settled
from terminal import Terminal
from tracehound.store import open_trace_files
from tracehound.ui.base_app import CommandPaletteScreen
from tracehound.ui.bindings.keys import KEYS
from tracehound.ui.explorer_app import ExplorerApp
from tracehound.ui.panes.choice_dialogs import ColumnsDialog, SettingsDialog
from tracehound.ui.panes.pane_menu import menu_keys
from tracehound.ui.screens.explorer_screen import ExplorerScreen
from tracehound.ui.screens.menu_screen import MenuScreen
from tracehound.ui.screens.source_screen import SourceLineDialog, SourceScreen
from tracehound.ui.screens.text_dialogs import HelpScreen
from tracehound.ui.source_files import SourceFolders

SCREENS: dict[str, tuple[tuple[str, ...], type[Screen[Any]]]] = {
    "nothing": (("9",), ExplorerScreen),
    "timeline": (("2", "enter", "T"), ExplorerScreen),
    "tables": (("2", "j"), ExplorerScreen),
    "help": (("question_mark",), HelpScreen),
    "menu": (("M",), MenuScreen),
    "settings": (("M", menu_keys(KEYS)["operators"], "B"), SettingsDialog),
    "columns": (("2", "plus"), ColumnsDialog),
    "palette": (("ctrl+p",), CommandPaletteScreen),
    "finding": (("slash", *"addmm", "enter", "9", "f", *"forward"), ExplorerScreen),
    "details": (("9", "f", *"forward", "enter"), ExplorerScreen),
    "source": (("9", "f", *"model", "enter", "enter"), SourceScreen),
    "choice": (("O",), SourceLineDialog),
    "message": (("9", "y"), ExplorerScreen),
}
"""How to get to each screen, one after the other."""


@asynccontextmanager
async def exploring(folder: Path, alphabet: str = "unicode") -> AsyncIterator[Pilot[None]]:
    app = ExplorerApp(open_trace_files([written(folder)]), alphabet, sources=SourceFolders((), folder))
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        yield pilot


async def walked(pilot: Pilot[None]) -> AsyncIterator[tuple[str, list[Segment]]]:
    """What each screen shows."""
    for screen, (keys, kind) in SCREENS.items():
        await press(pilot, *keys)
        assert isinstance(pilot.app.screen, kind), screen
        yield screen, segments(pilot)
        await press(pilot, "escape")


def segments(pilot: Pilot[None]) -> list[Segment]:
    return [segment for strip in pilot.app.screen._compositor.render_strips() for segment in strip]


@pytest.fixture
def _sixteen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def foreign(cells: list[Segment]) -> bool:
    """Whether a screen has colors that are not the terminal's own sixteen, or none of these."""
    grounds = {style.bgcolor for _, style, _ in cells if style and style.bgcolor}
    used = grounds | {style.color for text, style, _ in cells if text.strip() and style and style.color}
    kinds = {color.type for color in used}
    return not kinds <= {ColorType.DEFAULT, ColorType.STANDARD} or ColorType.STANDARD not in kinds


def unreadable(cells: list[Segment]) -> list[str]:
    """Texts in the color of their ground."""
    return [
        text
        for text, style, _ in cells
        if text.strip() and style and style.color and style.bgcolor
        if not style.color.is_default and style.color == style.bgcolor
    ]


@pytest.mark.parametrize("alphabet", ["ascii", *in_full("unicode")])
@pytest.mark.usefixtures("_sixteen")
async def test_sixteen_colors_are_the_terminals_own_and_words_and_their_ground_differ(
    tmp_path: Path, alphabet: str
) -> None:
    async with exploring(tmp_path, alphabet) as pilot:
        async for screen, cells in walked(pilot):
            assert alphabet == "unicode" or all(text.isascii() for text, _, _ in cells), screen
            assert screen == "palette" or not foreign(cells), screen  # that is Textual's, with blank borders of its own
            assert unreadable(cells) == [], screen


@pytest.mark.thorough
async def test_without_color_nothing_is_colored_and_the_place_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with exploring(tmp_path) as pilot:
        async for screen, cells in walked(pilot):
            styles = [style for text, style, _ in cells if style is not None]
            used = {color for style in styles for color in (style.color, style.bgcolor) if color}
            assert all(color.is_default for color in used), (screen, used)
            assert any(style.reverse or style.underline or style.bold for style in styles), screen


@pytest.mark.parametrize("alphabet", ["unicode", *in_full("ascii")])
@pytest.mark.thorough
async def test_where_letters_stand_for_colors_help_begins_with_them(
    tmp_path: Path, alphabet: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with exploring(tmp_path, alphabet) as pilot:
        await press(pilot, "question_mark")
        text = "".join(text for text, _, _ in segments(pilot))
        assert "K  kernel" in text
        assert "Capital: more than half of the cell; small: less; a point: little." in text


@pytest.mark.parametrize(("locale", "ascii_"), [("C", True), *rows_in_full(("POSIX", True), ("C.UTF-8", False))])
@pytest.mark.thorough
def test_a_terminal_in_the_c_locale_gets_ascii(tmp_path: Path, locale: str, *, ascii_: bool) -> None:
    with Terminal(str(written(tmp_path)), LC_ALL=locale) as terminal:
        terminal.wait_for("quit", "gemm")
        assert "\n".join(terminal.display.display).isascii() == ascii_
        terminal.press("q")


def test_textual_is_imported_after_its_environment_is_set() -> None:
    """Textual reads `TEXTUAL_FPS` when it is imported, and `launch` sets it before that."""
    code = "import sys, tracehound.ui.launch; print('textual' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
