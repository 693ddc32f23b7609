"""What is sent makes a terminal show what was to be shown, however little that is."""

from __future__ import annotations

import random

import pyte
import pytest
from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from exploring import in_full
from tracehound.ui.terminal.driver import COLOR_SYSTEMS, ScreenContents

WIDTH, HEIGHT = 40, 6
STYLES = [
    None,
    Style(bold=True, color="bright_red", bgcolor="black"),
    Style(color="bright_red", bgcolor="black"),
    Style(color="cyan", bgcolor="black"),
    Style(color="red"),
    Style(reverse=True, underline=True),
    Style(bgcolor="blue"),
]
"""In colors that every terminal has: rich keeps what it made of a style for the first one."""

WORDS = ["a", "kernel", " " * 7, "▏▂▃", "内核", "é", "x内y"]


class Screen:
    """A terminal that is told everything, or only what a paper says."""

    def __init__(self) -> None:
        self.screen = pyte.Screen(WIDTH, HEIGHT)
        self.stream = pyte.Stream(self.screen)

    @property
    def shown(self) -> list[list[pyte.screens.Char]]:
        return [[self.screen.buffer[y][x] for x in range(WIDTH)] for y in range(HEIGHT)]


def line(rng: random.Random) -> Strip:
    strip = Strip([Segment(rng.choice(WORDS), rng.choice(STYLES)) for _ in range(rng.randint(1, 12))])
    return strip.crop_extend(0, WIDTH, rng.choice(STYLES))


def told(y: int, strip: Strip) -> str:
    """The same in Textual's words."""
    return f"\x1b[{y + 1};1H{strip.render(Console(color_system='256', force_terminal=True))}"


@pytest.mark.parametrize("seed", [*range(5), *in_full(*range(5, 30))])
def test_a_terminal_shows_the_same_as_if_it_was_told_everything(seed: int) -> None:
    rng, paper, mine, theirs = random.Random(seed), ScreenContents(), Screen(), Screen()
    lines = [line(rng) for _ in range(HEIGHT)]
    for _ in range(20):
        changed = sorted(rng.sample(range(HEIGHT), rng.randint(1, HEIGHT)))
        for y in changed:
            kept = rng.randint(0, WIDTH) if rng.random() < 0.5 else 0
            lines[y] = Strip.join([lines[y].crop(0, kept), line(rng).crop(kept, WIDTH)])
        mine.stream.feed(paper.encode_changes([(y, 0, lines[y]) for y in changed], WIDTH, ColorSystem.EIGHT_BIT))
        for y in changed:
            theirs.stream.feed(told(y, lines[y]))
        assert mine.shown == theirs.shown


ORANGE = Style(color="#ff8800", bgcolor="#101010")
BLUE = Style(color="#00aaff", bgcolor="#101010")


def test_what_is_there_is_not_sent() -> None:
    paper, system = ScreenContents(), ColorSystem.EIGHT_BIT
    strip, other = (Strip([Segment("kernel ", BLUE), Segment(word, ORANGE)]) for word in ("copy", "cope"))
    assert "kernel" in paper.encode_changes([(1, 3, strip)], WIDTH, system)
    assert paper.encode_changes([(1, 3, strip)], WIDTH, system) == ""
    assert paper.encode_changes([(1, 3, other)], WIDTH, system) == "\x1b[2;14H\x1b[38;5;208;48;5;233me\x1b[39;49m"
    paper.forget()
    assert "kernel" in paper.encode_changes([(1, 3, other)], WIDTH, system)


def test_a_style_is_told_by_what_differs_from_the_one_before() -> None:
    bold = ORANGE + Style(bold=True)
    strip = Strip([Segment("a", ORANGE), Segment("b", BLUE), Segment("c", bold), Segment("d")])
    sent = ScreenContents().encode_changes([(0, 0, strip)], WIDTH, ColorSystem.EIGHT_BIT)
    orange = "38;5;208;48;5;233"
    assert sent == f"\x1b[1;1H\x1b[{orange}ma\x1b[38;5;39mb\x1b[0;1;{orange}mc\x1b[0md"


@pytest.mark.parametrize(
    ("system", "codes"),
    [("standard", "91;40"), ("256", "38;5;208;48;5;233"), ("truecolor", "38;2;255;136;0;48;2;16;16;16")],
)
def test_colors_are_those_that_the_terminal_has(system: str, codes: str) -> None:
    sent = ScreenContents().encode_changes([(0, 0, Strip([Segment("a", ORANGE)]))], WIDTH, COLOR_SYSTEMS[system])
    assert sent == f"\x1b[1;1H\x1b[{codes}ma\x1b[39;49m"


def test_a_letter_and_its_accent_are_one_cell() -> None:
    paper, screen = ScreenContents(), Screen()
    for text in ("one e\u0301 two", "one e\u0301 ten"):
        screen.stream.feed(paper.encode_changes([(0, 0, Strip([Segment(text)]))], WIDTH, ColorSystem.EIGHT_BIT))
        assert screen.screen.display[0].rstrip() == text.replace("e\u0301", "é", 1)


def test_another_width_is_another_screen() -> None:
    paper, strip = ScreenContents(), Strip([Segment("kernel")])
    paper.encode_changes([(0, 0, strip)], WIDTH, ColorSystem.EIGHT_BIT)
    assert "kernel" in paper.encode_changes([(0, 0, strip)], WIDTH + 1, ColorSystem.EIGHT_BIT)
