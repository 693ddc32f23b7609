"""What a terminal sends is keys or nothing, and never the end of the program."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.events import Key, Paste

from terminal import Terminal
from tracehound.ui.terminal.driver import KeyParser

BROKEN = (b"\x1b[1:2;3u", b"\x1b[99999999999u", b"\x1b[97;1;1114112u", b"\x1b[48;0;0;0;0t\x1b[<0;9;9M")
"""Sequences that look like keys, or the mouse, and have numbers that are none."""


def keys(*pieces: bytes) -> str:
    keyboard = KeyParser()
    return "".join(
        event.character or "" for piece in pieces for event in keyboard.feed(piece) if isinstance(event, Key)
    )


def test_characters_may_come_in_pieces() -> None:
    assert keys(b"a\xc3", b"\xa9b") == "aéb"


def test_bytes_that_are_no_text_are_one_unknown_character() -> None:
    assert keys(b"\xe9", b"q") == "\ufffdq"
    assert keys(b"\xff\xfe", b"q") == "\ufffd\ufffdq"


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_sequence_is_dropped(broken: bytes) -> None:
    assert keys(broken + b"q").endswith("q")


def test_a_paste_is_one_piece_whatever_is_in_it() -> None:
    events = list(KeyParser().feed(b"\x1b[200~a\x00\xe9\t" + BROKEN[0] + b"\x1bqb\nc\x1b[201~q"))
    assert [type(event) for event in events] == [Paste, Key]
    assert isinstance(events[0], Paste)
    assert events[0].text == "a\ufffd\t[1:2;3uqb\nc"


@given(st.lists(st.binary() | st.sampled_from([*BROKEN, b"\x1b[", b"\x1b[<", b";", b"u"])))
def test_noise_is_read_to_its_end(pieces: list[bytes]) -> None:
    keyboard = KeyParser()
    for piece in pieces:
        list(keyboard.feed(piece))
        list(keyboard.tick())
    *_, last = keyboard.feed(b"\x1b[201~ q")
    assert isinstance(last, Key)
    assert last.key == "q"


@pytest.mark.thorough
def test_the_explorer_outlives_what_is_no_text(samples: Path) -> None:
    with Terminal(str(samples / "torch_stacks")) as terminal:
        terminal.wait_for("host", "quit")
        for noise in (b"\xe9", b"\x00", b"\xff\x80\x00", *BROKEN[:3]):
            terminal.child.send(noise)
            terminal.drain()
        terminal.press("m", "x")
        terminal.wait_for("marked x")
        terminal.press("q")
        assert terminal.ended() == 0
