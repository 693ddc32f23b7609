"""Frames that are stacked, and rows that are sliced by a key, are those that went in."""

from __future__ import annotations

import errno
import os

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tracehound.model import spill_file, stacked_frames
from tracehound.model.row_slices import RowSlices
from tracehound.model.spill_file import SpillFile
from tracehound.model.stacked_frames import StackedFrames, stacks_of

FRAMES = st.lists(
    st.one_of(
        st.lists(st.integers(0, 3), max_size=3).map(lambda values: pl.DataFrame({"a": values}, {"a": pl.Int64})),
        st.lists(st.text("xy"), max_size=3).map(lambda values: pl.DataFrame({"b": values}, {"b": pl.String})),
        st.just(pl.DataFrame()),
    ),
    max_size=12,
)


@given(frames=FRAMES, spilled=st.booleans(), in_memory=st.sampled_from([0, 1000, 1 << 20]))
def test_each_frame_is_found_again(frames: list[pl.DataFrame], *, spilled: bool, in_memory: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stacked_frames, "STACK_SIZE", 4)
        patch.setattr(spill_file, "MAX_BYTES_IN_MEMORY", in_memory)
        stacked = StackedFrames(frames, spilled=spilled)
    assert len(stacked) == len(frames)
    assert stacked.heights == [frame.height for frame in frames]
    for number, frame in enumerate(frames):
        assert_frame_equal(stacked[number], frame)
    assert_frame_equal(
        pl.concat([pl.DataFrame(), *stacks_of(stacked)], how="diagonal"),
        pl.concat([pl.DataFrame(), *frames], how="diagonal"),
    )


def test_alike_frames_share_one() -> None:
    stacked = StackedFrames(pl.DataFrame({"a": [number]}) for number in range(stacked_frames.STACK_SIZE))
    assert len(list(stacked.stacks())) == 1
    assert stacked[-1].item() == stacked_frames.STACK_SIZE - 1


def test_what_cannot_be_written_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill_file, "MAX_BYTES_IN_MEMORY", 3)
    spill = SpillFile()
    in_file = [spill.add(b"first"), spill.add(b"second")]

    def fill_disk(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", fill_disk)
    in_memory = spill.add(b"third")
    assert [each.content for each in (*in_file, in_memory)] == [b"", b"", b"third"]
    assert [each.read() for each in (*in_file, in_memory)] == [b"first", b"second", b"third"]


@given(keys=st.lists(st.integers(-2, 2)))
def test_rows_of_a_key_keep_their_order(keys: list[int]) -> None:
    frame = pl.DataFrame({"key": keys, "row": range(len(keys))}, {"key": pl.Int32, "row": pl.Int64})
    groups = RowSlices(frame, pl.col("key"))
    for key in range(-3, 4):
        assert_frame_equal(groups.rows(key), frame.filter(pl.col("key") == key))
