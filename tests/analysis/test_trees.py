"""A filter leaves a tree: what passes and what is above it."""

from __future__ import annotations

import polars as pl

from results import plain, tree
from tracehound.analysis import where
from tracehound.analysis.trees import depth_of, depths, stem
from tracehound.draw.notes import note_texts


def test_a_filter_keeps_what_is_above_a_row_and_says_how_many() -> None:
    kept = where.kept(tree(), "back")
    assert kept.table["call"].to_list() == ["main", "train", "backward"]
    assert note_texts(kept.notes) == ("where back: 1 of 7 rows, and 2 above them",)
    assert note_texts(where.kept(tree(), "depth = 0").notes) == ("where depth = 0: 2 of 7 rows",)
    assert where.kept(tree(), "").table.height == 7


def test_a_cut_keeps_whole_rows_from_the_top() -> None:
    kept = where.kept(tree(), "total < 50ms", 2)
    assert kept.table["call"].to_list() == ["main", "train"]
    assert kept.cut == "2 of 7 rows"


def test_a_tree_is_known_by_its_depths() -> None:
    assert depths(tree().table, tree().columns).tolist() == [0, 1, 2, 2, 1, 0, 1]  # type: ignore[union-attr]
    assert depths(plain().table, plain().columns) is None
    assert (depth_of(plain().columns), stem(plain().columns)) == (None, None)
    named = stem(tree().columns)
    assert named is not None
    assert named.name == "call"
    unknown = tree().table.with_columns(pl.lit(None, pl.Int64).alias("depth"))
    assert depths(unknown, tree().columns) is None, "a setting would have made it one"
