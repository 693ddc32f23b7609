from __future__ import annotations

import errno
import gc
import gzip
import os
import random
from pathlib import Path

import pytest

from tracehound.draw.notes import note_text
from tracehound.errors import TracehoundError
from tracehound.formats.inflate import open_stream, read_all, read_first_bytes, read_section

TEXT = random.Random(7).randbytes(200_000).hex().encode()


@pytest.fixture
def file(tmp_path: Path):
    def write(data: bytes, name: str = "trace.json") -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


def test_plain_and_gzip_give_the_same_whatever_the_name(file):
    assert read_all(file(TEXT, "a.gz")) == (TEXT, ())
    assert read_all(file(gzip.compress(TEXT), "b.json")) == (TEXT, ())
    assert read_first_bytes(file(gzip.compress(TEXT), "c")) == TEXT[:65536]
    assert read_first_bytes(file(b"ab"), 10) == b"ab"


def test_several_members_are_one_text(file):
    assert read_all(file(gzip.compress(TEXT) + gzip.compress(b"tail"))) == (TEXT + b"tail", ())


@pytest.mark.parametrize("cut", [30, 5_000, 100_000, 215_000])
def test_a_cut_gzip_keeps_what_zlib_can_inflate(file, cut):
    data = gzip.compress(TEXT)[:cut]
    text, notes = read_all(file(data))
    assert TEXT.startswith(text)
    assert len(text) > 1.6 * (cut - 1000)
    (note,) = notes
    assert note.level == "dropped"
    assert f"byte {cut:,}" in note.where


def test_a_damaged_gzip_keeps_what_comes_before(file):
    data = bytearray(gzip.compress(TEXT))
    data[150_000:150_400] = bytes(400)
    text, notes = read_all(file(bytes(data)))
    assert len(notes) == 1
    good = len(os.path.commonprefix([text, TEXT]))
    assert good > 200_000


def test_a_wrong_checksum_loses_nothing(file):
    data = bytearray(gzip.compress(TEXT))
    data[-6] ^= 0xFF
    text, notes = read_all(file(bytes(data)))
    assert text == TEXT
    assert "wrong checksum" in note_text(notes[0])


def test_damage_in_the_second_member(file):
    text, notes = read_all(file(gzip.compress(TEXT) + gzip.compress(TEXT)[:50_000]))
    assert text.startswith(TEXT)
    assert len(text) > len(TEXT)
    assert len(notes) == 1


def test_rubbish_after_the_end_is_noted(file):
    text, notes = read_all(file(gzip.compress(TEXT) + b"rubbish"))
    assert text == TEXT
    assert len(notes) == 1


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_that_is_gone_once_it_is_open_is_read_to_its_end(file, monkeypatch, pack):
    path = file(pack(TEXT))
    stream = open_stream(path)
    monkeypatch.setattr("tracehound.formats.inflate.open_stream", lambda _: stream)
    path.unlink()
    assert read_all(path) == (TEXT, ())


@pytest.mark.parametrize("where", ["tracehound.formats.inflate.GzipSalvage.readinto", "isal.igzip.GzipFile.readinto"])
def test_a_disk_that_fails_is_told_of_in_one_line_behind_a_damage_too(file, monkeypatch, where):
    def failing(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    path = file(gzip.compress(TEXT)[:100_000])
    monkeypatch.setattr(where, failing)
    with pytest.raises(TracehoundError, match="cannot be read: Input/output error"):
        read_all(path)


def test_a_bomb_is_refused_and_the_limit_is_read_from_the_environment(file, monkeypatch):
    path = file(gzip.compress(bytes(3 << 20)))
    for said, enough in (
        ("2M", False),
        ("3M", True),
        (" 3 MiB", True),
        ("3145728", True),
        ("3145727", False),
        ("1t", True),
    ):
        monkeypatch.setenv("TRACEHOUND_MAX_INFLATED", said)
        if enough:
            assert len(read_all(path)[0]) == 3 << 20
            continue
        refusal = r"grows to more than \d,\d+,\d+ bytes.* set TRACEHOUND_MAX_INFLATED to more"
        with pytest.raises(TracehoundError, match=refusal) as error:
            read_all(path)
        assert "\n" not in str(error.value)
    for said in ("lots", "-1", "1e9", "3 apples"):
        monkeypatch.setenv("TRACEHOUND_MAX_INFLATED", said)
        with pytest.raises(TracehoundError, match="is not a size"):
            read_all(path)


def test_a_section_of_a_file_that_has_changed_is_refused(file):
    path = file(TEXT)
    with open_stream(path) as stream:
        state = stream.state
    assert read_section(path, 5, 3, state) == TEXT[5:8]
    path.write_bytes(TEXT[1:])
    with pytest.raises(TracehoundError, match="changed since it was read"):
        read_section(path, 5, 3, state)


def test_a_bomb_behind_a_damage_is_refused_too(file, monkeypatch):
    data = bytearray(gzip.compress(bytes(40_000_000)))
    path = file(bytes(data[:-8]) + b"\xff" * 8)
    monkeypatch.setenv("TRACEHOUND_MAX_INFLATED", "20000000")
    with pytest.raises(TracehoundError, match="grows to more than 20,000,000 bytes"):
        read_all(path)
    monkeypatch.setenv("TRACEHOUND_MAX_INFLATED", "50000000")
    text, notes = read_all(path)
    assert (len(text), len(notes)) == (40_000_000, 1)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_section_lies_where_it_was_cut(file, pack):
    path = file(pack(TEXT))
    assert read_section(path, 123_456, 789) == TEXT[123_456 : 123_456 + 789]
    assert read_section(path, len(TEXT) + 5, 10) == b""


def test_the_position_grows_to_the_size_of_the_file(file):
    path = file(gzip.compress(TEXT))
    with open_stream(path) as stream:
        assert stream.compressed
        stream.skip(len(TEXT) + 1)
        assert stream.position == path.stat().st_size


def test_what_cannot_be_opened_is_one_line(tmp_path, file):
    for path, words in ((tmp_path / "none", "no such file"), (tmp_path, "is a folder"), (file(b""), "is empty")):
        with pytest.raises(TracehoundError, match=words) as error:
            read_first_bytes(path)
        assert "\n" not in str(error.value)
        assert error.value.code == 2


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TracehoundError, match="not a regular file"):
        read_first_bytes(tmp_path / "pipe")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(file):
    path = file(b"x")
    path.chmod(0)
    with pytest.raises(TracehoundError, match="no permission"):
        read_first_bytes(path)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file that opens and cannot be read")
def test_a_file_that_cannot_be_read_is_closed_again():
    with pytest.raises(TracehoundError, match="cannot be opened: Input/output error"):
        open_stream(Path("/proc/self/mem"))
    gc.collect()  # a file left open would warn now
