"""How an editor is told which line to show."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.errors import TracehoundError
from tracehound.ui.terminal.outside_programs import editor_command, editor_words


@pytest.mark.parametrize(
    ("set_to", "told"),
    [
        ("vim", ["vim", "+12", "/a/b.py"]),
        ("/usr/bin/nvim -R", ["/usr/bin/nvim", "-R", "+12", "/a/b.py"]),
        ("emacsclient -nw", ["emacsclient", "-nw", "+12", "/a/b.py"]),
        ("code --wait", ["code", "--wait", "--goto", "/a/b.py:12"]),
        ("hx", ["hx", "/a/b.py:12"]),
        ("'/opt/my editor/ed' -x", ["/opt/my editor/ed", "-x", "/a/b.py"]),
    ],
)
def test_spellings(set_to: str, told: list[str]) -> None:
    assert editor_command(editor_words({"EDITOR": set_to}), Path("/a/b.py"), 12) == told


def test_visual_comes_first() -> None:
    assert editor_words({"VISUAL": "hx", "EDITOR": "vim"}) == ["hx"]
    assert editor_words({"VISUAL": " ", "EDITOR": "vim"}) == ["vim"]


@pytest.mark.parametrize(("environ", "why"), [({}, "no editor is set"), ({"EDITOR": "vim '"}, "EDITOR cannot be read")])
def test_no_editor(environ: dict[str, str], why: str) -> None:
    with pytest.raises(TracehoundError, match=why):
        editor_words(environ)


def test_a_relative_file_is_never_passed_on() -> None:
    with pytest.raises(ValueError, match="-c"):
        editor_command(["vim"], Path("-c"), 1)


@given(
    st.sampled_from(["vim", "code", "hx", "ed"]),
    st.text(min_size=1).filter(lambda name: "/" not in name and name != "."),
)
def test_no_name_becomes_an_option_or_a_second_word(program: str, name: str) -> None:
    words = editor_command([program], Path("/srv") / name, 3)
    assert words[0] == program
    assert sum(name in word for word in words[1:]) >= 1
    assert all(word.startswith("/") or word in ("+3", "--goto") for word in words[1:])
