"""The configuration file: where it is, what it says, and where it is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from short import first
from terminal import Terminal
from tracehound.config import config_path, read_tables, setting_line
from tracehound.errors import EXIT_BAD_INPUT, TracehoundError


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CONFIG_HOME", value)
        assert config_path() == tmp_path / ".config" / "tracehound" / "config.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert config_path() == tmp_path / "tracehound" / "config.toml"


def test_no_file_says_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert read_tables() == {}
    (tmp_path / "tracehound").write_text("a file, and no folder")
    assert read_tables() == {}


def test_tables(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[keys]\nquit = "x"\n[kernels.classes]\nattention = ["flash"]\n')
    assert read_tables(path) == {"keys": {"quit": "x"}, "kernels": {"classes": {"attention": ["flash"]}}}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[keys]\nquit = \n", "line 2, column 8: not TOML: invalid value"),
        (b"[keys\n", "line 1, column 6: not TOML: expected"),
        (b"a = 1\na = 2\n", "not TOML: cannot overwrite a value"),
        (b"a = \"\xff\"", "byte 5: not UTF-8"),
        (b"\x1b[2J", "not TOML"),
        (b'# mine\ntheme = "nord"\n', "line 2: nothing is called 'theme'; there are [keys] and [kernels.classes]"),
        (b"[keys]\n[key]\nquit = 'x'\n", "line 2: nothing is called 'key'; did you mean [keys]?"),
        (b"[kernels.clases]\n", "line 1: nothing is called 'kernels.clases'; did you mean [kernels.classes]?"),
        (b"key.quit = 'x'\n", "line 1: nothing is called 'key'"),
        (b"[keys]\nquit='x'\n['a\x7f b']\n", "not TOML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(content: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    with pytest.raises(TracehoundError) as raised:
        read_tables(path)
    assert str(raised.value).startswith(f"{path}, ")
    assert why in str(raised.value)
    assert str(raised.value).isprintable()
    assert raised.value.code == EXIT_BAD_INPUT


def test_a_folder_in_its_place_is_said(tmp_path: Path) -> None:
    with pytest.raises(TracehoundError, match="is a directory"):
        read_tables(tmp_path)


def test_the_line_of_a_setting_however_it_is_spelt(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        '# quit = 1\nname = 3\n[keys]\nquit = "x"\ntimeline . fit="y"\n\'timeline.left\' = ["z"]\n'
        "[keys.table]\n  first = 'g'\n[[ other ]]\nquit = 4\n"
    )
    lines = ["name", "keys.quit", "keys.timeline.fit", "keys.timeline.left", "keys.table.first", "other.quit"]
    assert [setting_line(path, line) for line in lines] == [f"line {n}" for n in (2, 4, 5, 6, 8, 10)]
    assert setting_line(path, "keys.none") == ""


LARGE = b"# " + bytes(1 << 20)
DEEP = {
    "list": b"a = " + b"[" * 20_000,
    "table": b"a = " + b"{a = " * 5_000,
    "name": b"a." * 20_000 + b"a = 1",
    "quoted": b'"a" . ' * 5_000 + b"a = 1",
}


def odd(kind: str, path: Path) -> Path:
    """Something that is no configuration file, with the name of one."""
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(path)
        case "large":
            path.write_bytes(LARGE)
        case _:
            path.write_bytes(DEEP[kind])
    return path


ODD = {
    "pipe": "not a regular file",
    "device": "not a regular file",
    "folder": "is a directory",
    "loop": "too many levels of symbolic links",
    "large": "larger than 64 KiB, which is too much for a configuration file",
    **dict.fromkeys(DEEP, "nested too deep"),
}


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_such_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = odd(kind, tmp_path / "config.toml")
    with pytest.raises(TracehoundError) as raised:
        read_tables(path)
    assert str(raised.value) == f"{path}: {ODD[kind]}"
    assert raised.value.code == EXIT_BAD_INPUT


def test_a_number_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f"a = {'1' * 5_000}")
    with pytest.raises(TracehoundError, match="not TOML"):
        read_tables(path)


@pytest.mark.parametrize("kind", first(1, ("pipe", "device", "list")))
@pytest.mark.parametrize("command", first(1, ("report {} kernels", "{}")))
def test_every_command_refuses_it(kind: str, command: str, samples: Path, tmp_path: Path) -> None:
    (tmp_path / "tracehound").mkdir()
    path = odd(kind, tmp_path / "tracehound" / "config.toml")
    words = command.format(samples / "torch_stacks").split()
    with Terminal(*words, columns=250, XDG_CONFIG_HOME=str(tmp_path)) as terminal:
        assert terminal.ended() == EXIT_BAD_INPUT
        assert terminal.screen.strip() == f"tracehound: {path}: {ODD[kind]}"
