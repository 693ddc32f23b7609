"""Objects in the cache: which of their bytes are there, whoever downloaded them."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tracehound.store.cached_object import CachedObject, open_cached_object

SIZE = 40


@given(st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)).map(sorted), max_size=6), st.data())
def test_missing_ranges_are_the_bytes_that_nobody_wrote(ranges: list[list[int]], data: st.DataObject):
    cached = CachedObject(Path(), SIZE, 0)
    written = set[int]()
    for start, end in ranges:
        cached.mark_downloaded(start, end)
        written.update(range(start, end))
    start, end = sorted((data.draw(st.integers(0, SIZE)), data.draw(st.integers(0, SIZE))))
    missing = [at for first, after in cached.missing_ranges(start, end) for at in range(first, after)]
    assert missing == [at for at in range(start, end) if at not in written]
    assert cached.downloaded == len(written)


def test_what_one_process_wrote_another_one_finds(tmp_path: Path):
    one = open_cached_object(tmp_path, 10, modified_ns=5_000_000_000)
    one.write(2, b"cde")
    one.write(7, b"hij")
    assert one.path.stat().st_mtime_ns == 5_000_000_000
    one.save_ranges()
    other = open_cached_object(tmp_path, 10, modified_ns=5_000_000_000)
    assert other.missing_ranges(0, 10) == [(0, 2), (5, 7)]
    other.write(0, b"ab")
    other.write(5, b"fg")
    assert other.is_complete
    assert other.path.read_bytes() == b"abcdefghij"


def test_one_process_downloads_at_a_time_and_the_next_one_takes_it_over(tmp_path: Path):
    one, other = (open_cached_object(tmp_path, 3, modified_ns=0) for _ in range(2))
    with one.try_lock() as ours:
        assert ours
        with other.try_lock() as theirs:
            assert not theirs
        one.write(0, b"abc")
        one.save_ranges()
    with other.try_lock() as theirs:
        assert theirs
        assert other.is_complete


def test_damaged_ranges_and_a_lost_file_are_downloaded_again(tmp_path: Path):
    one = open_cached_object(tmp_path, 3, modified_ns=0)
    one.write(0, b"abc")
    one.save_ranges()
    (tmp_path / "ranges").write_text("[[0,")
    assert open_cached_object(tmp_path, 3, modified_ns=0).missing_ranges(0, 3) == [(0, 3)]
    one.save_ranges()
    one.path.unlink()
    assert open_cached_object(tmp_path, 3, modified_ns=0).missing_ranges(0, 3) == [(0, 3)]
