"""A person's path through the real program, in a pseudo-terminal: from a slow run to what the host did meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import nan
from pathlib import Path
from time import monotonic

import pytest

from exploring import in_full
from terminal import PATIENCE, Terminal


@pytest.fixture(params=[(80, 24), *in_full((200, 50))], ids=["80x24", "200x50"])
def size(request: pytest.FixtureRequest) -> tuple[int, int]:
    return request.param


@pytest.mark.thorough
def test_from_a_gap_to_its_cause(samples: Path, size: tuple[int, int]) -> None:
    columns, rows = size
    with Terminal(str(samples / "jax_cpu8_b128"), columns=columns, rows=rows) as terminal:
        terminal.wait_for("rank 0", "XLA Ops", "all-reduce")

        _until(terminal, lambda screen: _span(screen) > 0)
        whole = _span(terminal.screen)
        terminal.press("T", "w", "w")
        _until(terminal, lambda screen: _span(screen) < whole)
        terminal.press("0")
        _until(terminal, lambda screen: _span(screen) == whole)

        terminal.press("3")
        terminal.wait_for("duration", "before")
        terminal.press("enter")
        screen = terminal.wait_for("filtered to window", "wait_")
        assert "$<unk" in screen, "what waits is named, too"
        terminal.press("escape")

        terminal.press("2")
        terminal.wait_for("category")
        terminal.press("enter")
        first = _place(terminal, 32)
        terminal.press("n")
        terminal.wait_for(f"{first % 32 + 1} of 32")

        terminal.press("/", "forward_b")
        terminal.wait_for("forward_backward", " of 4")
        terminal.press("enter")
        first = _place(terminal, 4)
        terminal.press("n")
        terminal.wait_for(f"{first % 4 + 1} of 4")

        terminal.press("q")
        assert terminal.ended() == 0


@pytest.mark.thorough
def test_from_a_gap_of_pytorch_xla_to_the_words_of_its_host(samples: Path, size: tuple[int, int]) -> None:
    columns, rows = size
    with Terminal(str(samples / "torch_xla_spmd4"), columns=columns, rows=rows) as terminal:
        terminal.wait_for("rank 0", "XLA Ops")
        terminal.press("/", "build_g")
        terminal.wait_for("build_graph", " of 4")
        terminal.press("enter", "0", "3")
        terminal.wait_for("before", "dot.3", "3.551 ms")
        terminal.wait_for("host", "tracing the next step (96.9 %)")
        terminal.press("enter")
        terminal.wait_for("filtered to window", "build_graph")
        terminal.press("q")
        assert terminal.ended() == 0


@pytest.mark.thorough
def test_from_an_op_to_its_line_of_python_and_back(samples: Path) -> None:
    with Terminal(str(samples / "jax_cpu8_b128")) as terminal:
        terminal.wait_for("rank 0", "XLA Ops", "all-reduce")
        terminal.press("T", "j", "j", ".")
        terminal.wait_for("· XLA Ops")
        terminal.press("o")
        terminal.wait_for("Execute (jit_train_step) · ", "launch, ")
        terminal.press("o")
        terminal.wait_for("forward_backward", "around Execute")
        terminal.press("o")
        terminal.wait_for("$jax_train.py:100 train", "around forward_backward")
        terminal.press("i")
        terminal.wait_for("launches in $jax", "1 of 4")
        terminal.press("i")
        terminal.wait_for("jit_train_step(0)", "n_step) 1 of 1,384")
        terminal.press("u", "u")
        terminal.wait_for("$jax_train.py:100 train", "place ")
        terminal.press("g", "step 5", "enter")
        terminal.wait_for("window 127 ms", "0 fit")
        terminal.press("Y")
        terminal.wait_for("copied: tracehound summary ")
        terminal.press("q")
        assert terminal.ended() == 0


@pytest.mark.thorough
def test_the_size_is_that_of_the_terminal_whatever_the_environment_says(samples: Path) -> None:
    with Terminal(str(samples / "jax_cpu8_b128"), COLUMNS="130", LINES="40") as terminal:
        terminal.wait_for("quit")
        assert "quit" in terminal.screen.splitlines()[23]


@pytest.mark.thorough
def test_quitting_while_a_trace_is_read(samples: Path) -> None:
    with Terminal(str(samples / "jax_cpu8_b128")) as terminal:
        terminal.wait_for("quit")
        terminal.press("q")
        assert terminal.ended() == 0


def _until(terminal: Terminal, true: Callable[[str], bool]) -> None:
    """Wait until that is true of the screen."""
    end = monotonic() + PATIENCE
    while not true(terminal.screen):
        assert monotonic() < end, terminal.screen


def _span(screen: str) -> float:
    """The length of what the timeline shows, in ms: written left of the ruler, and no number while that is drawn."""
    match = re.search(r"^ ?(\d+(?:\.\d+)?) (us|ms|s) +│", screen, re.MULTILINE)
    return nan if match is None else float(match[1]) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[match[2]]


def _place(terminal: Terminal, total: int) -> int:
    """Which of so many instances the header names, once it does."""
    named = re.compile(rf"(\d+) of {total}\b")
    _until(terminal, lambda screen: named.search(screen) is not None)
    found = named.search(terminal.screen)
    assert found is not None
    return int(found[1])
