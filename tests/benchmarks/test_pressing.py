"""What a key causes is counted to its last byte, and no silence after it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from explorer import ACTIONS, SOURCE, Action, Size, driven, late, table
from ours import loaded
from pressing import Effect, Terminal

pytestmark = pytest.mark.thorough

TWICE = """
import os, time, tty
tty.setraw(0)
os.write(1, b"ready")
while os.read(0, 1) != b"q":
    os.write(1, b"first")
    until = time.perf_counter() + 0.3
    while time.perf_counter() < until:
        pass
    os.write(1, b"second")
"""


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs /proc")
def test_an_effect_ends_with_its_last_byte() -> None:
    with Terminal((sys.executable, "-c", TWICE), 80, 24, dict(os.environ)) as terminal:
        heard = 0
        while heard < len("ready"):
            heard += terminal.watch(0.1)
        assert heard == len("ready")
        effect = terminal.press("x")
        assert effect.sent == len("firstsecond")
        assert effect.seconds >= 0.3
        assert effect.work > 0
        assert terminal.watch(0.1) == 0


def test_the_explorer_is_driven(tmp_path: Path) -> None:
    loaded(SOURCE, 1, tmp_path)
    actions = [action for action in ACTIONS if action.name in ("pan", "table move")]
    size = Size.of("80x24")
    taken, idle = driven([str(SOURCE), "--jobs", "1", "--cache", str(tmp_path)], size, actions, 2)
    assert [len(taken[action.name]) for action in actions] == [2, 2]
    assert all(effect.sent > 0 and effect.seconds > 0 for effects in taken.values() for effect in effects)
    first, _, pan, move, last = table(actions, taken, idle, size)
    assert (first, pan.split()[0], move.split()[:2], last.split()[0]) == ("80x24", "pan", ["table", "move"], "idle,")


def test_the_table_says_which_targets_are_met() -> None:
    action = Action("move", "j", within=50, bytes=1_500)
    fast, slow = Effect(0.020, 1_000, 0.004), Effect(0.080, 9_000, 0.006)
    lines = table([action], {"move": [fast, fast, slow]}, 7, Size(80, 24))
    assert lines[2].split() == ["move", "20", "80", "4", "50", "MISSED", "1,000", "9,000", "1,500", "met"]
    assert lines[3].split() == ["idle,", "4", "s", "7", "0", "MISSED"]
    assert "nothing happens" in table([action], {"move": [Effect(0, 0, 0)]}, 0, Size(80, 24))[2]


def test_late_is_one_of_the_values() -> None:
    assert late([3.0, 1.0, 2.0]) == 3.0
    assert late(list(range(1, 21))) == 19
