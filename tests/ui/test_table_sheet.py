"""What is shown of a result, without any widget."""

from __future__ import annotations

import polars as pl
import pytest

from tracehound.analysis.result import Column, Result
from tracehound.draw.notes import note_texts
from tracehound.notes import text_note
from tracehound.ui.state.sheet import Choice, Sheet, effective, refusal

COLUMNS = (
    Column("name", "text", ""),
    Column("count", "count", "", brief=False),
    Column("nothing", "time", ""),
    Column("event", "id", ""),
)
TABLE = pl.DataFrame(
    {"name": ["a", "b", "c"], "count": [2, None, 9], "nothing": [None] * 3, "event": [1, 2, 3]},
    schema_overrides={"nothing": pl.Int64},
)
RESULT = Result("ops", "Ops", COLUMNS, TABLE, 7, (text_note("a note"),))


def test_rows_are_filtered_and_sorted_with_the_unknown_last() -> None:
    assert Sheet(RESULT).rows["name"].to_list() == ["a", "b", "c"]
    assert Sheet(RESULT, order=("count", True)).rows["name"].to_list() == ["c", "a", "b"]
    assert Sheet(RESULT, order=("count", False)).rows["name"].to_list() == ["a", "c", "b"]
    assert Sheet(RESULT, "count > 1", ("count", True)).rows["name"].to_list() == ["c", "a"]


def test_columns_with_values_are_offered_and_wanted_ones_do_not_make_way() -> None:
    assert [column.name for column in Sheet(RESULT).offered] == ["name", "count"]
    wanted = Sheet(RESULT, choice=Choice().with_("count")).columns
    assert [(column.name, column.brief) for column in wanted] == [("name", True), ("count", True)]
    hidden = Choice().with_("count").without("count")
    assert [column.name for column in Sheet(RESULT, choice=hidden).columns] == ["name"]
    assert Sheet(RESULT).without("name", ("name",)) == Choice(), "the only one stays"


def test_what_is_saved_is_what_is_shown_and_says_how() -> None:
    saved = Sheet(RESULT, "count > 1", ("count", True), Choice().without("nothing")).saved
    assert [column.name for column in saved.columns] == ["name", "count", "event"]
    assert saved.table.rows() == [("c", 9, 3), ("a", 2, 1)]
    assert saved.total == 7
    notes = note_texts(saved.notes)
    assert notes == ("where count > 1: 2 of 3 rows", "a note", "hidden: nothing", "sorted by count, falling")


@pytest.mark.parametrize(
    ("text", "last", "holds"),
    [
        ("count > 1", "", "count > 1"),
        ("count >", "count", ""),
        ("count > 1 and", "count > 1", "count > 1"),
        ("gemm", "count > 1", "gemm"),
        ("count >", "size > 1", ""),
        ("", "count > 1", ""),
    ],
)
def test_while_one_types_the_last_comparison_holds(text: str, last: str, holds: str) -> None:
    assert effective(RESULT, text, last) == holds


def test_a_refusal_is_the_reason_and_the_remedy() -> None:
    assert refusal(RESULT, "coun > 1") == ""
    assert refusal(RESULT, "size > 1").startswith("no column 'size'; there are name, count")
