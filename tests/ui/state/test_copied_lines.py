"""The command lines that the explorer copies."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from tracehound.model.trace import Window
from tracehound.ui.state import equivalent_commands

WORDS = [
    "plain",
    "two words",
    "it's",
    "x\x03\x1breboot now\u202e",
    "back\\slash'\x7f",
    "line\nend",
    "\udcff.json",
    "λ$HOME",
]


@pytest.mark.parametrize("word", WORDS)
def test_a_copied_line_is_one_that_no_terminal_obeys_and_means_what_was_shown(word: str) -> None:
    line = equivalent_commands.query_command(["run"], word, Window())
    assert line.isprintable()
    said = subprocess.run(["/bin/bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True).stdout
    assert said.split(b"\0")[:-1] == [b"tracehound", b"query", b"run", word.encode(errors="surrogateescape")]


def test_what_prints_is_quoted_as_everywhere() -> None:
    assert equivalent_commands.query_command(["a b"], "it's", Window()) == shlex.join(
        ["tracehound", "query", "a b", "it's"]
    )
