"""Slices of columns that become tables, in memory that is used again."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracehound.formats.xplane import plane_columns
from tracehound.formats.xplane.plane_columns import NullableInts, RowBuffer, TextNumbers
from tracehound.model.trace import KIND_CODES, KINDS


def known(*values: int | None) -> NullableInts:
    return NullableInts(np.array([value or 0 for value in values]), np.array([value is not None for value in values]))


def test_what_a_slice_lacks_is_missing() -> None:
    buffer, texts = RowBuffer(), TextNumbers()
    kinds = np.array([KIND_CODES["op"], KIND_CODES["copy"]])
    names = np.array([texts.number("b"), texts.number("a")])
    buffer.add(2, {"name": names, "kind": kinds, "run": None, "hlo_op": None})
    buffer.add(2, {"name": names[::-1], "kind": kinds, "run": known(7, None), "hlo_op": np.array([3, 4])})
    buffer.add(2, {"name": names, "kind": kinds, "run": None, "hlo_op": None, "bytes": known(1, 2)})
    frame = buffer.take_table(texts).frame()
    assert frame.with_columns(pl.col("name", "kind").cast(pl.String)).to_dict(as_series=False) == {
        "name": ["b", "a", "a", "b", "b", "a"],
        "kind": ["op", "copy"] * 3,
        "run": [None, None, 7, None, None, None],
        "hlo_op": [-1, -1, 3, 4, -1, -1],
        "bytes": [None, None, None, None, 1, 2],
    }
    assert frame["kind"].dtype == pl.Enum(KINDS)


def test_a_table_has_only_what_came_since_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much the memory grew, and whatever is left in it."""
    monkeypatch.setattr(plane_columns, "ROWS_PER_SPILL", 4)
    buffer, texts = RowBuffer(), TextNumbers()
    buffer.add(3, {"start": np.arange(3), "run": known(1, 2, 3)})
    assert not buffer.is_full
    buffer.add(30, {"start": np.arange(3, 33), "run": known(*range(30))})
    assert buffer.is_full
    first = buffer.take_table(texts).frame()
    assert first["start"].to_list() == list(range(33))
    assert first["run"].to_list() == [1, 2, 3, *range(30)]
    buffer.add(1, {"start": np.array([9])})
    buffer.add(1, {"start": np.array([8]), "run": known(5)})
    assert buffer.take_table(texts).frame().rows() == [(9, None), (8, 5)]
    assert first["start"].to_list() == list(range(33))


def test_some_of_a_table() -> None:
    buffer = RowBuffer()
    buffer.add(3, {"start": np.array([1, 2, 3]), "end": np.array([4, 5, 6]), "run": known(None, 7, 8)})
    some = buffer.take_table(TextNumbers()).select("run", "absent", "start").take(np.array([True, False, True]))
    assert some.frame().to_dict(as_series=False) == {"run": [None, 8], "start": [1, 3]}
