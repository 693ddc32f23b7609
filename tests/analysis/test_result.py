"""A filter leaves a tree: what passes and what is above it."""

from __future__ import annotations

import polars as pl

from results import plain, tree
from tracehound.analysis import row_filter
from tracehound.analysis.result import depth_column, indented_column, row_depths
from tracehound.draw.notes import note_texts


def test_a_filter_keeps_what_is_above_a_row_and_says_how_many() -> None:
    kept = row_filter.filter_result(tree(), "back")
    assert kept.table["call"].to_list() == ["main", "train", "backward"]
    assert note_texts(kept.notes) == ("where back: 1 of 7 rows, and 2 above them",)
    assert note_texts(row_filter.filter_result(tree(), "depth = 0").notes) == ("where depth = 0: 2 of 7 rows",)
    assert row_filter.filter_result(tree(), "").table.height == 7


def test_a_cut_keeps_whole_rows_from_the_top() -> None:
    kept = row_filter.filter_result(tree(), "total < 50ms", 2)
    assert kept.table["call"].to_list() == ["main", "train"]
    assert kept.shown_rows_text == "2 of 7 rows"


def test_a_tree_is_known_by_its_depths() -> None:
    assert row_depths(tree().table, tree().columns).tolist() == [0, 1, 2, 2, 1, 0, 1]  # type: ignore[union-attr]
    assert row_depths(plain().table, plain().columns) is None
    assert (depth_column(plain().columns), indented_column(plain().columns)) == (None, None)
    named = indented_column(tree().columns)
    assert named is not None
    assert named.name == "call"
    unknown = tree().table.with_columns(pl.lit(None, pl.Int64).alias("depth"))
    assert row_depths(unknown, tree().columns) is None, "a setting would have made it one"
