"""The home directory and the current one: where they are, and that nothing fails where there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from terminal import Terminal
from tracehound import config
from tracehound.cli.main import main
from tracehound.store import open_trace_files
from tracehound.system.user_dirs import current_dir, home_dir, xdg_dir
from tracehound.ui.state.saved_session import session_file

UNLISTED = """
import pwd

def unlisted(user):
    raise KeyError(user)

pwd.getpwuid = unlisted
"""
"""What makes a process that of a user whom nobody listed."""


def test_the_current_folder_may_be_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    assert current_dir() == tmp_path / "gone"
    (tmp_path / "gone").rmdir()
    assert current_dir() is None


def trace(samples: Path) -> Path:
    return next((samples / "torch_ddp_gloo").glob("*.json*"))


def test_folders_are_where_the_standard_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home_dir() == tmp_path
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_DATA_HOME", value)
        assert xdg_dir("XDG_DATA_HOME", ".local/share") == tmp_path / ".local" / "share"
    monkeypatch.setenv("XDG_DATA_HOME", "/elsewhere")
    assert xdg_dir("XDG_DATA_HOME", ".local/share") == Path("/elsewhere")


def test_a_home_that_is_empty_is_none_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    listed = home_dir()
    monkeypatch.setenv("HOME", "")
    assert home_dir() == listed
    assert listed is None or listed.is_dir()


def test_a_home_that_does_not_exist_is_not_made(
    monkeypatch: pytest.MonkeyPatch, samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in ("XDG_CACHE_HOME", "TRACEHOUND_CACHE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    assert main(["report", str(trace(samples)), "health"]) == 0
    assert "not cached: there is no home directory" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "made"))
    assert main(["report", str(trace(samples)), "health"]) == 0
    assert (tmp_path / "made" / "tracehound" / "entries").is_dir()


@pytest.mark.usefixtures("homeless")
def test_without_a_home_there_are_only_folders_that_are_named(
    monkeypatch: pytest.MonkeyPatch, samples: Path, tmp_path: Path
) -> None:
    assert (home_dir(), xdg_dir("XDG_DATA_HOME", "x"), config.config_path(), config.read_tables()) == (
        None,
        None,
        None,
        {},
    )
    assert session_file(open_trace_files([trace(samples)])) is None
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert config.config_path() == tmp_path / "tracehound" / "config.toml"


@pytest.mark.usefixtures("homeless")
def test_without_a_home_commands_do_without_a_cache(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(trace(samples)), "health"]) == 0
    assert "not cached: there is no home directory" in capsys.readouterr().out
    assert main(["report", str(trace(samples)), "kernels"]) == 0
    assert main(["cache", "list"]) == 2
    assert capsys.readouterr().err.endswith("no cache here: there is no home directory\n")


@pytest.mark.thorough
def test_without_a_home_the_explorer_starts(samples: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(UNLISTED)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    without = "unset HOME XDG_STATE_HOME XDG_CONFIG_HOME XDG_CACHE_HOME TRACEHOUND_CACHE;"
    with Terminal(str(trace(samples)), before=without, PYTHONPATH=path) as terminal:
        terminal.wait_for("host", "quit")
        terminal.press("q")
        assert terminal.ended() == 0
