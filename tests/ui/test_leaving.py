"""Leaving the real program while it reads: at once, with nothing left behind."""

from __future__ import annotations

import os
import signal
import termios
import time
from collections.abc import Callable
from gzip import decompress
from itertools import product
from pathlib import Path

import orjson
import pytest

from exploring import in_full, rows_in_full
from terminal import PATIENCE, Terminal
from tracehound.ui.state.saved_session import load_session
from tracehound.ui.terminal.end_signals import END_SIGNALS


def large(path: Path, source: Path) -> Path:
    """A file that keeps workers busy for a while: the events of a real one, many times."""
    document = orjson.loads(decompress(source.read_bytes()))
    events = b",".join(orjson.dumps(event) for event in document["traceEvents"])
    with path.open("wb") as out:
        out.write(b'{"traceEvents":[')
        while out.tell() < 60_000_000:
            out.write(events + b",")
        out.write(events + b"]}")
    return path


def descendants(pid: int) -> set[int]:
    """The processes that a process started, and those that they started."""
    parents = dict[int, int]()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(folder.name)] = int(fields[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def until(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.02)
    return False


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize(("key", "cached"), rows_in_full(("q", True), ("q", False), ("\x03", True), ("\x03", False)))
def test_leaving_ends_the_workers_and_leaves_nothing_behind(
    tmp_path: Path, samples: Path, key: str, *, cached: bool
) -> None:
    path = large(tmp_path / "big.json", next((samples / "torch_stacks").glob("*.json.gz")))
    places = {"TMPDIR": str(tmp_path), "TRACEHOUND_CACHE": str(tmp_path / "cache")}
    options = [] if cached else ["--no-cache"]
    with Terminal(str(path), "--jobs", "2", *options, **places) as terminal:
        terminal.wait_for("reading")
        pid = terminal.child.pid
        assert until(lambda: len(descendants(pid)) >= 2), "a worker, and what watches over its resources"
        helpers = descendants(pid)
        terminal.press(key)
        assert terminal.ended() == 0
        assert not terminal.display.cursor.hidden
        assert termios.tcgetattr(terminal.child.child_fd)[3] & termios.ECHO, "the terminal is as it was"
        assert until(lambda: not any(map(alive, helpers)))
    left = {found.name for found in tmp_path.iterdir()}
    assert left <= {"big.json", "cache"}
    if cached:
        assert list((tmp_path / "cache" / "entries").iterdir()) == []
        assert list((tmp_path / "cache" / "work").iterdir()) == []


@pytest.mark.parametrize("redirected", ["2>{log}", *in_full("2>/dev/null", "2>&-")])
@pytest.mark.thorough
def test_the_explorer_opens_wherever_stderr_goes(samples: Path, tmp_path: Path, redirected: str) -> None:
    log = tmp_path / "log"
    with Terminal(str(samples / "torch_stacks"), redirected=redirected.format(log=log)) as terminal:
        terminal.wait_for("host", "quit")
        terminal.press("q")
        assert terminal.ended() == 0
    assert not log.exists() or log.read_text() == "", "a screen is drawn where a person looks"


SLOW = """
import time
import tracehound.store.find_files as find
listed = find._recognize_listed_file
def slowly(*asked):
    time.sleep(0.1)
    return listed(*asked)
find._recognize_listed_file = slowly
"""


@pytest.mark.parametrize(
    ("command", "key", "status"), [("", "q", 0), *rows_in_full(("", "\x03", 130), ("summary", "\x03", 130))]
)
@pytest.mark.thorough
def test_a_search_that_takes_long_says_so_and_can_be_left(tmp_path: Path, command: str, key: str, status: int) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW)
    (tmp_path / "large").mkdir()
    for number in range(1000):
        (tmp_path / "large" / f"{number}").write_text("no trace")
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    with Terminal(*filter(None, (command, str(tmp_path / "large"))), columns=200, PYTHONPATH=path) as terminal:
        terminal.wait_for(f"looking for traces in {tmp_path / 'large'}, ", " files so far")
        terminal.press(key)
        assert terminal.ended() == status
        assert termios.tcgetattr(terminal.child.child_fd)[3] & termios.ECHO
        assert "looking" not in terminal.screen, "the line goes away"


def marked(samples: Path, tmp_path: Path, **given: str) -> Terminal:
    """The explorer of a trace in which a mark was set."""
    terminal = Terminal(str(samples / "torch_stacks"), XDG_STATE_HOME=str(tmp_path), **given)
    terminal.wait_for("host", "quit")
    terminal.press("m", "x")
    terminal.wait_for("marked x")
    return terminal


def marks(tmp_path: Path) -> set[str]:
    """The marks that are remembered."""
    return {mark for file in tmp_path.glob("tracehound/sessions/*") for mark in load_session(file).marks}


@pytest.mark.parametrize("after", ["m", *in_full("g", "'")])
@pytest.mark.thorough
def test_keys_behind_the_one_that_leaves_do_nothing(samples: Path, after: str) -> None:
    with Terminal(str(samples / "torch_ddp_gloo")) as terminal:
        terminal.wait_for("host", "quit")
        terminal.press(f"q{after}")
        assert terminal.ended() == 0


FAULTS = {
    "compose": "def compose(self): rows = list(range(10**5)); raise NameError('boom')",
    "callback": "def on_mount(self): self.call_later(lambda: boom)",
    "worker": "def on_mount(self): self.run_worker(lambda: boom, thread=True)",
}


@pytest.mark.parametrize(
    ("where", "debug"),
    rows_in_full(*product(FAULTS, ("", "1"))),
)
def test_a_fault_is_one_line_and_what_was_marked_is_kept(samples: Path, tmp_path: Path, where: str, debug: str) -> None:
    method = FAULTS[where].partition("(")[0].removeprefix("def ")
    words = (
        f"from tracehound.ui.screens.text_dialogs import HelpScreen\n{FAULTS[where]}\nHelpScreen.{method} = {method}\n"
    )
    (tmp_path / "sitecustomize.py").write_text(words)
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    log = tmp_path / "log"
    with marked(samples, tmp_path, redirected=f"2>{log}", PYTHONPATH=path, TRACEHOUND_DEBUG=debug) as terminal:
        terminal.press("?")
        assert terminal.ended() == (1 if debug else 70)
        assert not terminal.display.cursor.hidden
    said = log.read_text()
    assert "boom" in said.splitlines()[-1]
    if debug:
        assert "sitecustomize.py" in said
    else:
        assert said.startswith("tracehound: a fault of the program or of its cache: NameError: ")
        assert said.count("\n") == 1
    assert marks(tmp_path) == {"x"}


@pytest.mark.parametrize("number", [END_SIGNALS[0], *in_full(*END_SIGNALS[1:])])
def test_who_is_told_to_end_leaves_as_with_q(samples: Path, tmp_path: Path, number: int) -> None:
    with marked(samples, tmp_path) as terminal:
        os.kill(terminal.child.pid, number)
        assert terminal.ended() == 128 + number
        assert not terminal.display.cursor.hidden
        assert not {1000 << 5, 1006 << 5} & terminal.display.mode, "no mouse is reported"
        assert termios.tcgetattr(terminal.child.child_fd)[3] & termios.ECHO
    assert marks(tmp_path) == {"x"}


@pytest.mark.thorough
def test_who_is_told_to_end_and_hangs_ends_all_the_same(samples: Path, tmp_path: Path) -> None:
    hang = "def on_mount(self):\n    while True: pass\n"
    (tmp_path / "sitecustomize.py").write_text(
        "from tracehound.ui.terminal import end_signals\n"
        "from tracehound.ui.screens.text_dialogs import HelpScreen\n"
        f"{hang}HelpScreen.on_mount, end_signals.LAST_SIGNALS = on_mount, 0.5\n"
    )
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    with marked(samples, tmp_path, PYTHONPATH=path) as terminal:
        terminal.press("?")
        time.sleep(0.5)
        os.kill(terminal.child.pid, signal.SIGTERM)
        assert terminal.ended() == 128 + signal.SIGTERM


@pytest.mark.parametrize("before", ["", *in_full("trap '' HUP;")])
@pytest.mark.thorough
def test_a_terminal_that_goes_away(samples: Path, tmp_path: Path, before: str) -> None:
    with marked(samples, tmp_path, before=before) as terminal:
        terminal.child.ptyproc.fileobj.close()
        assert until(lambda: not terminal.child.isalive())
        assert terminal.child.exitstatus == 128 + signal.SIGHUP
    assert marks(tmp_path) == {"x"}


@pytest.mark.thorough
def test_what_was_ignored_at_the_start_stays_ignored(samples: Path, tmp_path: Path) -> None:
    with marked(samples, tmp_path, before="trap '' HUP;") as terminal:
        os.kill(terminal.child.pid, signal.SIGHUP)
        terminal.press("m", "y")
        terminal.wait_for("marked y")
        terminal.press("q")
        assert terminal.ended() == 0


JOB = 'set -m; "$0" -m tracehound "$@"; echo "stopped: $?"; read line; fg; exit $?;'
"""A shell with job control, which has the program go on after a line."""


@pytest.mark.parametrize(
    ("keys", "shown"), [("", "quit"), *rows_in_full(("?", "Esc closes"), ("/", "part of any"), (":", "SELECT"))]
)
@pytest.mark.thorough
def test_suspending_gives_the_terminal_back_until_the_shell_goes_on(samples: Path, keys: str, shown: str) -> None:
    with Terminal(str(samples / "torch_stacks"), before=JOB) as terminal:
        terminal.wait_for("host", "quit")
        terminal.press(*keys)
        terminal.wait_for(shown)
        terminal.press("\x1a")
        terminal.wait_for("stopped: ")
        assert not terminal.display.cursor.hidden
        assert not {1000 << 5, 1006 << 5} & terminal.display.mode, "no mouse is reported"
        assert termios.tcgetattr(terminal.child.child_fd)[3] & termios.ECHO
        terminal.display.reset()
        terminal.press("enter")
        terminal.wait_for("torch_stacks ", shown)
        terminal.press("escape", "escape", "q")
        assert terminal.ended() == 0


ENDED = """set -m; "$0" -m tracehound "$@"; echo "stopped: $?"; stty sane -echo; read line; {meanwhile}
kill -TERM %1; kill -CONT %1
until wait %1; [ $? = 143 ]; do sleep 0.1; done; echo "ended: 143"; read line; exit;"""
"""The same, which ends the program while it is stopped."""


@pytest.mark.parametrize("meanwhile", ["", "bg; sleep 1; bg; sleep 1;"])
@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGSTOP])
@pytest.mark.thorough
def test_who_is_stopped_can_be_told_to_end(samples: Path, tmp_path: Path, number: int, meanwhile: str) -> None:
    with marked(samples, tmp_path, before=ENDED.format(meanwhile=meanwhile)) as terminal:
        pid = min(descendants(terminal.child.pid))
        os.kill(pid, number)
        terminal.wait_for("stopped: ")
        terminal.press("enter")
        terminal.wait_for("ended: 143")
        assert not {1000 << 5, 1006 << 5} & terminal.display.mode, "no mouse is reported"
        assert not termios.tcgetattr(terminal.child.child_fd)[3] & termios.ECHO, "the shell has the terminal"
    assert marks(tmp_path) == {"x"}


@pytest.mark.thorough
def test_nothing_is_suspended_that_no_shell_could_bring_back(samples: Path) -> None:
    with Terminal(str(samples / "torch_stacks")) as terminal:
        terminal.wait_for("host", "quit")
        terminal.press("\x1a")
        terminal.wait_for("no shell waits here")
        terminal.press("q")
        assert terminal.ended() == 0
