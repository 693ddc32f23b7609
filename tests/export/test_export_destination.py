"""Where an export goes: what may be written over, and what is left behind when it fails."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

from tracehound.errors import TracehoundError
from tracehound.export.export_destination import named_folder, parse_destination, parse_new_destination


def test_a_file_takes_its_place_when_it_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    with parse_new_destination(str(out), []).open_for_writing() as file:
        file.write(b"new")
        assert not out.exists()
    assert out.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    out.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), parse_destination(str(out), []).open_for_writing() as file:
        file.write(b"%d" % (1 / 0))
    assert out.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_a_file_that_exists_is_replaced_only_where_that_was_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    out.write_bytes(b"old")
    with pytest.raises(TracehoundError, match="exists already; --force replaces it"):
        parse_new_destination(str(out), [])
    with parse_destination(str(out), []).open_for_writing() as file:
        file.write(b"new")
    assert out.read_bytes() == b"new"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_bytes(b"old")
    (tmp_path / "link.json").symlink_to("real.json")
    with parse_destination(str(tmp_path / "link.json"), []).open_for_writing() as file:
        file.write(b"new")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_bytes() == b"new"


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no names for open files")
@pytest.mark.parametrize("word", ["/dev/fd/{}", "/proc/self/fd/{}"])
def test_a_pipe_is_written_to_by_the_name_that_the_shell_gives_it(word: str) -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as reader:
        with os.fdopen(write, "wb"), parse_new_destination(word.format(write), []).open_for_writing() as file:
            file.write(b"rows")
        assert reader.read() == b"rows"


@pytest.mark.parametrize("word", ["trace.json", "link.json", "hard.json"])
def test_the_trace_itself_is_never_written_over(tmp_path: Path, word: str) -> None:
    source = tmp_path / "trace.json"
    source.write_bytes(b"{}")
    (tmp_path / "link.json").symlink_to(source)
    (tmp_path / "hard.json").hardlink_to(source)
    with pytest.raises(TracehoundError, match="is the trace that is read"):
        parse_destination(str(tmp_path / word), [source])


def test_a_folder_and_what_lies_in_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TracehoundError, match="is a folder"):
        parse_destination(str(tmp_path), [])
    with pytest.raises(TracehoundError, match="no such folder"):
        parse_destination(str(tmp_path / "none" / "out.json"), [])


def test_a_name_that_is_too_long_is_one_line(tmp_path: Path) -> None:
    word = str(tmp_path / ("n" * 260 + ".json"))
    assert named_folder(word) is None
    with pytest.raises(TracehoundError, match="cannot be written: file name too long"):
        parse_new_destination(word, [])
    with pytest.raises(TracehoundError, match="cannot be written: file name too long"):
        parse_new_destination(f"{word}/a.json", [], named_folder(f"{word}/"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_one_line() -> None:
    with (
        pytest.raises(TracehoundError, match="cannot be written: no space left on device"),
        parse_new_destination("/dev/full", []).open_for_writing() as file,
    ):
        file.write(b"x")
    for sink in (pl.LazyFrame.sink_parquet, pl.LazyFrame.sink_ipc, pl.LazyFrame.sink_csv):
        with (
            pytest.raises(TracehoundError, match="no space left on device"),
            parse_new_destination("/dev/full", []).open_for_writing() as file,
        ):
            sink(pl.LazyFrame({"a": range(10**5)}), file)


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with parse_new_destination(str(pipe), []).open_for_writing() as file:
            file.write(b"through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
