"""The text of a source file; what is none is refused without harm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.errors import TracehoundError
from tracehound.ui.source_files import MAX_SOURCE_BYTES, read_source_lines


def test_lines_are_printable(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_bytes(b"\xef\xbb\xbfa\tb\r\nc\x1b[31m\rd\xff\n")
    assert read_source_lines(path) == ["a   b", "c␛[31m", "d\ufffd", ""]


def test_what_is_no_source_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "binary").write_bytes(b"\x7fELF\0")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(MAX_SOURCE_BYTES + 1)
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name, why in (
        ("pipe", "not a regular"), ("device", "not a regular"), (".", "not a regular file"), ("binary", "zero bytes"),
        ("huge", "larger than"), ("none", "no such file"), ("loop", "cannot be read"),
    ):  # fmt: skip
        with pytest.raises(TracehoundError, match=why):
            read_source_lines(tmp_path / name)


def test_a_link_to_a_file_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "m.py")
    assert read_source_lines(tmp_path / "link") == ["x"]


@given(st.binary(max_size=200).filter(lambda content: b"\0" not in content))
def test_any_bytes_become_printable_lines(content: bytes) -> None:
    path = Path(os.environ["TRACEHOUND_CACHE"]) / "any.py"
    path.write_bytes(content)
    assert all(line.isprintable() for line in read_source_lines(path))
