from __future__ import annotations

import gzip
import os
import random
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from tracehound.errors import TracehoundError
from tracehound.formats.inflate import open_stream, read_section
from tracehound.store.event_args import RandomAccessFile

TEXT = random.Random(3).randbytes(600_000).hex().encode()
SPACING = 100_000


def places() -> list[tuple[int, int]]:
    choose = random.Random(5)
    near = [(0, 10), (len(TEXT) - 5, 5), (len(TEXT) - 5, 500), (len(TEXT) + 5, 10), (7, len(TEXT))]
    return near + [(choose.randrange(len(TEXT)), choose.choice([1, 700, 250_000])) for _ in range(60)]


@pytest.fixture
def file(tmp_path):
    def write(data: bytes):
        path = tmp_path / "trace"
        path.write_bytes(data)
        return path

    return write


PACKED = [
    TEXT,
    gzip.compress(TEXT),
    b"".join(gzip.compress(TEXT[at : at + 170_000]) for at in range(0, len(TEXT), 170_000)),
    gzip.compress(TEXT[:300_000]) + bytes(5000) + gzip.compress(TEXT[300_000:]) + bytes(100_000),
]


@pytest.mark.parametrize("data", PACKED, ids=["plain", "gzip", "members", "padded"])
def test_sections_are_the_same_from_points_and_without(file, data):
    points = RandomAccessFile(file(data), spacing=SPACING)
    wanted = [TEXT[at : at + size] for at, size in places()]
    assert [points.section(at, size) for at, size in places()] == wanted
    points.build()
    assert [points.section(at, size) for at, size in places()] == wanted


def test_a_point_stands_at_least_every_spacing_and_a_piece(file):
    points = RandomAccessFile(file(gzip.compress(TEXT)), spacing=SPACING)
    told: list[tuple[int, int]] = []
    points.build(lambda used, made: told.append((used, made)))
    assert told == sorted(told)
    assert told[-1] == (points.path.stat().st_size, len(TEXT))
    made = [point.inflated_count for point in points._points]
    assert len(made) > 5
    assert max(after - before for before, after in pairwise(made)) <= SPACING + (1 << 18)


def test_a_stopped_pass_goes_on_where_it_was(file):
    class Stop(Exception):  # noqa: N818  # it is no error
        pass

    def stop(_: int, made: int) -> None:
        if made > 500_000:
            raise Stop

    points = RandomAccessFile(file(gzip.compress(TEXT)), spacing=SPACING)
    with pytest.raises(Stop):
        points.build(stop)
    before = points._points
    points.build()
    assert points._points[: len(before)] == before
    assert len(points._points) > len(before)
    assert [points.section(at, size) for at, size in places()] == [TEXT[at : at + size] for at, size in places()]


@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_damaged_file_gives_what_comes_before_the_damage(file, damage):
    data = bytearray(gzip.compress(TEXT))
    data = data[:400_000] if damage == "cut" else data[:400_000] + bytes(300) + data[400_300:]
    path = file(bytes(data))
    points = RandomAccessFile(path, spacing=SPACING)
    points.build()
    assert [points.section(at, size) for at, size in places()] == [
        read_section(path, at, size) for at, size in places()
    ]
    assert points.section(600_000, 100) == TEXT[600_000:600_100]


def test_neighbors_are_taken_from_what_was_inflated_last(file, monkeypatch):
    points = RandomAccessFile(file(gzip.compress(TEXT)), spacing=SPACING)
    points.build()
    points.section(500_000, 50_000)
    monkeypatch.setattr(points, "_inflate_section", None)  # were it called, this would fail
    assert points.section(540_000, 1000) == TEXT[540_000:541_000]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("change", ["size", "time"])
def test_a_file_that_has_changed_is_refused(file, pack, change):
    path = file(pack(TEXT))
    with open_stream(path) as stream:
        points = RandomAccessFile(path, stream.state, SPACING)
    points.build()
    assert points.section(500_000, 10) == TEXT[500_000:500_010]
    if change == "size":
        path.write_bytes(path.read_bytes() + b" ")
    os.utime(path, ns=(1, points.state.mtime_ns + (change == "time")))
    for ask in (points.build, lambda: points.section(500_000, 10), lambda: points.section(0, 10)):
        with pytest.raises(TracehoundError, match="the file has changed since it was read; open it again"):
            ask()


def test_sections_while_the_points_are_made(file):
    points = RandomAccessFile(file(gzip.compress(TEXT)), spacing=SPACING)
    with ThreadPoolExecutor(3) as pool:
        building = pool.submit(points.build)
        got = list(pool.map(lambda place: points.section(*place), places()))
        building.result()
    assert got == [TEXT[at : at + size] for at, size in places()]
