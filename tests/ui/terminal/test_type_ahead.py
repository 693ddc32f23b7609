"""What is typed faster than a pane or a prompt opens is typed into it all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from exploring import rows_in_full
from terminal import Terminal
from tracehound.ui.bindings.keys import KEYS


@pytest.mark.parametrize(
    ("pane", "burst", "shown"),
    [
        ("T", ":SELECT 6 * 7 * 11 AS x FROM lanes LIMIT 1\r", " 462"),
        *rows_in_full(
            ("T", "5fforward", "of 10 rows with forward"),
            ("T", "MOfaddmm", "rows with addmm"),
            ("T", "4\n", "window "),
            ("T", "/addmm", "addmm"),
            ("T", "gstep 2", "step 2"),
            ("T", "\\thread", "thread"),
            ("T", "2fself > 1ns and name ~ mm", "self > 1ns and name ~ mm"),
            ("2", "fself > 1ns and name ~ mm", "self > 1ns and name ~ mm"),
        ),
    ],
    ids=[
        "query",
        "pane not yet there and filter",
        "menu and filter",
        "Enter before raw mode",
        "search",
        "place",
        "lanes",
        "pane and filter",
        "filter",
    ],
)
def test_all_at_once(pane: str, burst: str, shown: str, samples: Path, tmp_path: Path) -> None:
    with Terminal(str(samples / "torch_stacks"), XDG_STATE_HOME=str(tmp_path)) as terminal:
        terminal.wait_for("Findings", "quit")
        terminal.press(pane)
        terminal.wait_for("quit")
        terminal.press(burst)
        terminal.wait_for(shown)


def test_keys_that_ask_say_so() -> None:
    asking = {key.id for key in KEYS if key.asks}
    assert {"search", "pane.query", "timeline.place", "table.filter", "lanes.filter", "details.find"} <= asking
