"""What is remembered of a trace, and that nothing which stands in its place can do harm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from building import US
from exploring import press, read_once, said, settled
from stages import TRACE
from terminal import Terminal
from tracehound.store import open_trace_files, trace_cache
from tracehound.ui.explorer_app import ExplorerApp
from tracehound.ui.state import saved_session
from tracehound.ui.state.saved_session import (
    SavedSession,
    delete_session,
    load_session,
    save_session,
    session_file,
    sessions_folder,
    valid_view,
)
from tracehound.ui.state.view import View

VIEW = View(100 * US, 300 * US, lane=0, event=2, selection=(120 * US, 140 * US), focus=130 * US)

TINY = b'{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1}]}'


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, state: Path, tmp_path: Path) -> None:
    assert sessions_folder() == state / "tracehound" / "sessions"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert sessions_folder() == tmp_path / ".local" / "state" / "tracehound" / "sessions"


def test_what_was_kept_comes_back() -> None:
    path = sessions_folder() / "one.json"
    kept = SavedSession(VIEW, "steps", {"a": View(1, 2, ranks=(0, 3))}, {"pinned": [3], "of": None})
    save_session(path, kept, {"a"})
    assert load_session(path) == kept
    assert path.stat().st_mode & 0o777 == 0o600
    assert sessions_folder().stat().st_mode & 0o777 == 0o700
    assert sessions_folder().parent.stat().st_mode & 0o777 == 0o700
    assert list(sessions_folder().iterdir()) == [path], "nothing half made is left"
    delete_session(path)
    delete_session(path)
    assert load_session(path) == SavedSession()


def test_marks_that_were_set_elsewhere_meanwhile_stay() -> None:
    path, old, new = sessions_folder() / "one.json", View(1, 2), View(3, 4)
    save_session(path, SavedSession(VIEW, marks={"a": old, "b": old}), {"a", "b"})
    save_session(path, SavedSession(VIEW, marks={"a": new, "b": old}), {"a"})  # both began with what was there first
    save_session(path, SavedSession(VIEW, marks={"a": old, "b": old, "c": old}), {"c"})
    assert load_session(path).marks == {"a": new, "b": old, "c": old}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b'{"view": 3}', b'{"view": {"start": "now"}}', b'{"marks": {"a": []}}', b"\xff\xfe",
        b'{"view": {"selection": [1]}}', b"[" * 100_000, b'{"pane": 1}',
    ],
)  # fmt: skip
def test_a_damaged_file_is_none(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_bytes(content)
    assert load_session(path) == SavedSession()


def test_a_place_that_cannot_be_written_costs_nothing(state: Path) -> None:
    state.write_text("a file, and no folder")
    save_session(sessions_folder() / "one.json", SavedSession(VIEW), ())
    delete_session(sessions_folder() / "one.json")
    assert load_session(sessions_folder() / "one.json") == SavedSession()


def test_those_seen_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_session, "MAX_SESSIONS", 3)
    for number in range(5):
        save_session(sessions_folder() / f"{number}.json", SavedSession(), ())
        os.utime(sessions_folder() / f"{number}.json", (number, number))
    assert sorted(path.name for path in sessions_folder().iterdir()) == ["2.json", "3.json", "4.json"]


def test_other_bytes_are_another_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(TINY)
    opening = open_trace_files([path])
    first = session_file(opening)
    assert first == session_file(opening)
    path.write_bytes(TINY + b"\n")
    second = session_file(opening)
    assert None not in (first, second)
    assert first != second
    path.unlink()
    assert session_file(opening) is None


def test_permissions_and_a_later_version_leave_it_the_same_trace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    paths = [tmp_path / "rank0.json", tmp_path / "rank1.json"]
    for path in paths:
        path.write_bytes(TINY)
    opening = open_trace_files(paths)
    first = session_file(opening)
    assert first is not None
    paths[0].chmod(0o600)
    monkeypatch.setattr(trace_cache, "CACHE_SCHEMA", trace_cache.CACHE_SCHEMA + 1)
    assert session_file(opening) == first
    os.utime(paths[1], (1, 1))
    assert session_file(opening) != first


def test_a_view_that_this_trace_has_is_taken_as_it_is() -> None:
    assert valid_view(TRACE, replace(VIEW, ranks=(0,))) == replace(VIEW, ranks=(0,))


@pytest.mark.parametrize(
    "odd",
    [
        {"lane": 99}, {"lane": -1}, {"event": 10**6}, {"event": -3}, {"event": 1 << 40}, {"event": 1 << 90},
        {"ranks": ()}, {"ranks": (9,)}, {"selection": (5, 5)},
        {"selection": (-5, 5)}, {"selection": (1, 1 << 70)}, {"focus": 1 << 70},
    ],
)  # fmt: skip
def test_what_this_trace_has_not_is_left_out(odd: dict[str, object]) -> None:
    (name,) = odd
    view = valid_view(TRACE, replace(VIEW, **odd))  # type: ignore[arg-type]
    assert getattr(view, name) is None
    assert replace(view, **{name: getattr(VIEW, name)}) == VIEW


@pytest.mark.parametrize("bounds", [(5, 5), (9, 1), (-(1 << 80), 1 << 80), (1 << 80, 1 << 81)])
def test_the_picture_lies_inside_the_run(bounds: tuple[int, int]) -> None:
    view = valid_view(TRACE, View(*bounds))
    assert TRACE.span[0] <= view.start < view.end <= TRACE.span[1]


async def test_the_explorer_begins_where_it_ended(samples: Path) -> None:
    app = ExplorerApp(read_once(samples / "torch_stacks"))
    async with app.run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "down", "p", "c", "w", "w", "full_stop", "m", "a", "5")
        view, kept = app.explorer.view, app.explorer.navigation.session_to_save
        assert kept is not None

    app = ExplorerApp(read_once(samples / "torch_stacks"))
    app.explorer.navigation.session = kept
    async with app.run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        assert app.explorer.view == view
        assert app.explorer.pane_stack.active == "annotations"
        assert set(app.explorer.navigation.marks) == {"a"}
        assert "where you were the last time" in said(app.explorer)
        await press(pilot, "u")
        assert app.explorer.view.event is None
        again = app.explorer.navigation.session_to_save
        assert again is not None
        assert again.lanes == kept.lanes
        assert set(again.lanes) >= {"pinned", "color"}


@pytest.mark.thorough
async def test_a_session_of_another_world_does_no_harm(samples: Path) -> None:
    app = ExplorerApp(read_once(samples / "torch_stacks"))
    odd = View(-5, -9, ranks=(7,), lane=44, event=1 << 50, selection=(9, 3), focus=-1)
    app.explorer.navigation.session = SavedSession(
        odd, "no such tab", {"a": odd}, {"folded": 3, "pinned": [4, "none"], "order": 7, "color": [], "hidden": {}}
    )
    async with app.run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        assert app.explorer.pane_stack.active == "overview"
        await press(pilot, "apostrophe", "a", "full_stop")
        assert app.explorer.view.event is not None


@pytest.mark.thorough
def test_from_one_visit_to_the_next(samples: Path, tmp_path: Path) -> None:
    trace, home = str(samples / "torch_stacks"), {"XDG_STATE_HOME": str(tmp_path / "home")}
    files = tmp_path / "home" / "tracehound" / "sessions"
    with Terminal(trace, **home) as terminal:
        terminal.wait_for("host", "quit")
        terminal.press("4")
        terminal.wait_for("ProfilerStep")
        terminal.press("enter")
        terminal.press("q")
        assert terminal.ended() == 0
    assert len(list(files.iterdir())) == 1
    with Terminal(trace, **home) as terminal:
        terminal.wait_for("where you were the last time", "ProfilerStep")
        terminal.press("q")
        assert terminal.ended() == 0
    with Terminal(trace, "--reset", **home) as terminal:
        terminal.wait_for("Findings", "0 fit")
        terminal.press("q")
        assert terminal.ended() == 0


@pytest.mark.thorough
def test_two_explorers_of_one_trace(samples: Path, tmp_path: Path) -> None:
    trace, home = str(samples / "torch_stacks"), {"XDG_STATE_HOME": str(tmp_path / "home")}
    with Terminal(trace, **home) as first, Terminal(trace, **home) as second:
        for terminal, letter in ((first, "x"), (second, "y")):
            terminal.wait_for("host", "quit")
            terminal.press("m", letter)
            terminal.wait_for(f"marked {letter}")
        for terminal in (first, second):
            terminal.press("q")
            assert terminal.ended() == 0
    (file,) = (tmp_path / "home" / "tracehound" / "sessions").iterdir()
    assert set(load_session(file).marks) == {"x", "y"}


@pytest.mark.thorough
def test_without_a_cache_nothing_is_kept(samples: Path, tmp_path: Path) -> None:
    with Terminal(str(samples / "torch_stacks"), "--no-cache", XDG_STATE_HOME=str(tmp_path / "home")) as terminal:
        terminal.wait_for("host", "quit")
        terminal.press("q")
        assert terminal.ended() == 0
    assert not (tmp_path / "home").exists()
