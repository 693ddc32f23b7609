"""What leaves the program, in a pseudo-terminal: the clipboard, the editor, and a terminal that was disturbed."""

from __future__ import annotations

import base64
import os
import re
import signal
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from test_details import written

from terminal import PATIENCE, Terminal

EDITOR = """
import sys, pathlib
pathlib.Path(sys.argv[1]).write_text("\\n".join(sys.argv[2:]))
print("EDITING", end="", flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written(tmp_path)
    return tmp_path


def details(folder: Path, **environment: str) -> Terminal:
    """The details of the operator that model.py calls, with a cursor on that line.

    Without the end of Textual's words about the keyboard, which the screen of the tests would show.
    """
    arguments = ("--source-map", f".={folder}", str(folder / "worker0.json"))
    terminal = Terminal(*arguments, **environment)
    feed = terminal.stream.feed
    terminal.stream.feed = lambda data: feed(re.sub(rb"\x1b\[[<>=]\d*u", b"", data))
    terminal.wait_for("rank 0", "gemm")
    terminal.press("/", "addmm")
    terminal.wait_for("1 of 1")
    terminal.press("enter", "9")
    terminal.wait_for("find", "Python stack")
    terminal.press("f", "model")
    terminal.wait_for("model 1 of 1")
    terminal.press("enter")
    terminal.drain(0.5)
    return terminal


def _wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.thorough
def test_the_editor_gets_the_file_as_one_word_and_the_screen_comes_back(folder: Path) -> None:
    script = folder / "editor.py"
    script.write_text(EDITOR)
    words = folder / "words"
    with details(folder, EDITOR=f"{sys.executable} {script} {words}", VISUAL="") as terminal:
        before = terminal.wait_for("model 1 of 1")
        terminal.press("e")
        _wait_until(words.exists)
        _wait_until(lambda: terminal.screen == before)
        assert words.read_text() == str(folder / "model.py")
        terminal.press("q")
        assert terminal.ended() == 0


@pytest.mark.thorough
def test_an_editor_that_is_not_there_is_said(folder: Path) -> None:
    with details(folder, VISUAL="/no/such/editor") as terminal:
        terminal.press("e")
        terminal.wait_for("cannot be started")
        terminal.press("q")
        assert terminal.ended() == 0


@pytest.mark.thorough
def test_the_clipboard_is_set_by_the_terminal(folder: Path) -> None:
    with details(folder) as terminal:
        sent = bytearray()
        feed = terminal.stream.feed

        def listen(data: bytes) -> None:
            sent.extend(data)
            feed(data)

        terminal.stream.feed = listen
        terminal.press("y")
        terminal.wait_for("copied 21 characters")
        assert b"\x1b]52;c;" + base64.b64encode(b"model.py(40): forward") in bytes(sent)


@pytest.mark.thorough
def test_a_disturbed_terminal_is_drawn_again(folder: Path) -> None:
    with details(folder) as terminal:
        before = terminal.wait_for("model 1 of 1")
        terminal.stream.feed(b"\x1b[2J\x1b[5;5Hsomething else wrote here")
        assert terminal.screen != before
        terminal.press("\x0c")
        _wait_until(lambda: terminal.screen == before)


@pytest.mark.thorough
def test_after_a_stop_everything_is_drawn_again(folder: Path) -> None:
    with details(folder) as terminal:
        before = terminal.wait_for("model 1 of 1")
        os.kill(terminal.child.pid, signal.SIGTSTP)
        terminal.drain(0.5)
        terminal.stream.feed(b"\x1b[2J\x1b[Hshell prompt")
        os.kill(terminal.child.pid, signal.SIGCONT)
        _wait_until(lambda: terminal.screen == before)
        terminal.press("q")
        assert terminal.ended() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
@pytest.mark.thorough
def test_who_is_stopped_from_outside_goes_on_and_leaves_the_terminal_as_it_was(folder: Path) -> None:
    echoing = termios.ECHO | termios.ICANON
    with details(folder) as terminal:
        before, threads = terminal.wait_for("model 1 of 1"), Path(f"/proc/{terminal.child.pid}/task")
        count = len(list(threads.iterdir()))
        for _ in range(4):
            os.kill(terminal.child.pid, signal.SIGSTOP)
            terminal.drain(0.2)
            terminal.stream.feed(b"\x1b[2J\x1b[Hshell prompt")
            os.kill(terminal.child.pid, signal.SIGCONT)
            _wait_until(lambda: terminal.screen == before)
        assert len(list(threads.iterdir())) < count + 4
        terminal.press("q")
        assert terminal.ended() == 0
        assert termios.tcgetattr(terminal.child.child_fd)[3] & echoing == echoing


@pytest.mark.thorough
def test_a_frame_that_changes_nothing_sends_nothing(folder: Path) -> None:
    with Terminal(str(folder / "worker0.json")) as terminal:
        written_out, feed = bytearray(), terminal.stream.feed
        terminal.stream.feed = lambda data: (written_out.extend(data), feed(data))[1]
        terminal.wait_for("rank 0", "gemm")
        terminal.press("w", "w", "2", "1", "4", ".", ".", "s", "9", "9")
        terminal.drain(0.5)
        assert not re.search(rb"(\x1b\[\d+;\d+H)\1", written_out)
