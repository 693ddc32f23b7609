"""What is shown of a result, without any widget."""

from __future__ import annotations

import polars as pl
import pytest
from msgspec.structs import replace

from tracehound.analysis.result import Column, Result
from tracehound.draw.notes import note_texts
from tracehound.model.notes import text_note
from tracehound.ui.state.table_view import ColumnChoice, TableView, effective_filter, filter_error

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
    assert TableView(RESULT).rows["name"].to_list() == ["a", "b", "c"]
    assert TableView(RESULT, order=("count", True)).rows["name"].to_list() == ["c", "a", "b"]
    assert TableView(RESULT, order=("count", False)).rows["name"].to_list() == ["a", "c", "b"]
    assert TableView(RESULT, "count > 1", ("count", True)).rows["name"].to_list() == ["c", "a"]


def test_columns_with_values_are_offered_and_wanted_ones_do_not_make_way() -> None:
    assert [column.name for column in TableView(RESULT).available_columns] == ["name", "count"]
    wanted = TableView(RESULT, choice=ColumnChoice().with_("count")).columns
    assert [(column.name, column.brief) for column in wanted] == [("name", True), ("count", True)]
    hidden = ColumnChoice().with_("count").without("count")
    assert [column.name for column in TableView(RESULT, choice=hidden).columns] == ["name"]
    assert TableView(RESULT).without("name", ("name",)) == ColumnChoice(), "the only one stays"


def test_what_is_saved_is_what_is_shown_and_says_how() -> None:
    saved = TableView(RESULT, "count > 1", ("count", True), ColumnChoice().without("nothing")).result_to_save
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
    assert effective_filter(RESULT, text, last) == holds


def test_a_refusal_is_the_reason_and_the_remedy() -> None:
    assert filter_error(RESULT, "coun > 1") == ""
    assert filter_error(RESULT, "size > 1").startswith("no column 'size'; there are name, count")


def test_alike_ranks_are_folded_after_the_filter_and_saved_unfolded() -> None:
    columns = (Column("rank", "count", "rank"), Column("span", "time", "span"))
    table = pl.DataFrame({"rank": range(16), "span": [100] * 15 + [200]})
    sheet = TableView(Result("breakdown", "Breakdown", columns, table, 16), order=("ranks", True))
    assert sheet.rows.select("ranks", "rank", "span").rows() == [("15", 15, 200), ("0-14", 0, 100)]
    assert [column.name for column in sheet.columns] == ["ranks", "span"]
    assert sheet.text(1, "ranks") == "0-14"
    assert sheet.result_to_save.table["rank"].to_list() == [*range(15, -1, -1)]
    one = replace(sheet, filter="rank = 3")
    assert (one.rows.rows(), one.passing_row_count) == ([(3, 100)], 1)
