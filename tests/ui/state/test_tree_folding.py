"""Trees in tables: folded, sorted, filtered."""

from __future__ import annotations

import polars as pl
from msgspec.structs import replace
from textual.app import App, ComposeResult

from results import plain, tree
from tracehound.analysis.result import Result
from tracehound.draw.glyphs import ASCII, UNICODE, Glyphs
from tracehound.ui.state.table_view import TableView
from tracehound.ui.state.tree_folding import DEFAULT_FOLDS, MAX_OPEN_ROWS, FoldState
from tracehound.ui.widgets.result_table import ResultTable


def calls(sheet: TableView) -> list[str]:
    return sheet.visible_rows["call"].to_list()


def many() -> Result:
    """60 roots with two rows in each and one more in the first of them."""
    rows = [row for n in range(60) for row in ((f"root{n}", 0), ("one", 1), ("deep", 2), ("two", 1))]
    table = pl.DataFrame(rows, schema=["call", "depth"], orient="row")
    table = table.with_columns(total=pl.int_range(pl.len()), event=pl.int_range(pl.len()))
    return replace(tree(), table=table.select("call", "total", "depth", "event"), total=table.height)


def test_a_small_tree_is_open_and_a_large_one_shows_as_many_levels_as_fit() -> None:
    assert len(calls(TableView(tree()))) == 7
    assert calls(TableView(many())) == [f"root{n}" for n in range(60)]
    assert many().table.height > MAX_OPEN_ROWS
    assert TableView(many()).rows.height == many().table.height, "what is saved is all of it"


def test_sorting_sorts_siblings_and_what_is_unknown_comes_last() -> None:
    assert calls(TableView(tree(), order=("total", False))) == [
        "worker", "load", "main", "save", "train", "forward", "backward",
    ]  # fmt: skip
    unknown = tree().table.with_columns(pl.when(pl.col("call") != "train").then("total").alias("total"))
    assert calls(TableView(replace(tree(), table=unknown), order=("total", True)))[:3] == ["main", "save", "train"]


def test_a_filter_keeps_what_is_above_and_opens_it() -> None:
    sheet = TableView(many(), "deep and total > 100ps")
    assert sheet.passing_row_count == 35
    assert calls(sheet)[:4] == ["root25", "one", "deep", "root26"]


def test_a_row_is_folded_whatever_the_order() -> None:
    sheet = TableView(tree())
    assert sheet.tree is not None
    folds, row = sheet.tree.apply_fold_key(1, "turn")
    assert row == 1
    assert calls(TableView(tree(), folds=folds)) == ["main", "train", "save", "worker", "load"]
    assert calls(TableView(tree(), order=("total", True), folds=folds)) == ["main", "train", "save", "worker", "load"]
    assert calls(TableView(tree(), order=("call", True), folds=folds)) == ["worker", "load", "main", "train", "save"]


def test_keys_go_in_and_out() -> None:
    def after(place: int, way: str, folds: FoldState = DEFAULT_FOLDS) -> tuple[list[str], int]:
        sheet = TableView(tree(), folds=folds)
        assert sheet.tree is not None
        turned, row = sheet.tree.apply_fold_key(place, way)  # type: ignore[arg-type]
        return calls(TableView(tree(), folds=turned)), row

    everything = calls(TableView(tree()))
    assert after(3, "outward") == (everything, 1), "from a leaf to the row around it"
    assert after(1, "outward") == (["main", "train", "save", "worker", "load"], 1)
    assert after(0, "inward") == (everything, 1), "into an open one"
    assert after(0, "inward", FoldState(0)) == (["main", "train", "save", "worker"], 0)
    assert after(2, "inward") == after(2, "turn") == (everything, 2), "nothing is in a leaf"
    assert after(5, "less") == (["main", "train", "save", "worker", "load"], 5)
    assert after(0, "less", FoldState(0)) == (["main", "worker"], 0)
    assert after(0, "more", FoldState(0))[0] == ["main", "train", "save", "worker", "load"]


def test_a_table_of_no_tree_has_none() -> None:
    assert TableView(plain()).tree is None
    assert TableView(plain()).visible_rows.height == 3


class Tables(App[None]):
    """One table."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self.table = ResultTable(glyphs)

    def compose(self) -> ComposeResult:
        yield self.table


def lines(table: ResultTable) -> list[str]:
    return [table.render_line(y).text.rstrip() for y in range(table.size.height) if table.render_line(y).text.strip()]


async def test_a_tree_in_a_table() -> None:
    app = Tables(UNICODE)
    async with app.run_test(size=(40, 12)) as pilot:
        table = app.table
        table.result = tree()
        table.focus()
        await pilot.pause()
        assert lines(table) == [
            " call               total",
            " ▾ main          90.00 ms",
            "   ▾ train       60.00 ms",
            "       forward   25.00 ms",
            "       backward  35.00 ms",
            "     save        20.00 ms",
            " ▾ worker        40.00 ms",
            "     load        40.00 ms",
        ]
        await pilot.press("j", "j", "j", "H", "H")
        assert lines(table)[2:4] == ["   ▸ train       60.00 ms", "     save        20.00 ms"]
        assert table.row is not None
        assert table.row["call"] == "train"
        await pilot.press("(", "(")
        assert [line.split()[1] for line in lines(table)[1:]] == ["main", "worker"]
        assert table.row["call"] == "main", "the folded row that it is in"
        await pilot.press(")", ")", "j")
        assert table.row["call"] == "train"
        assert len(lines(table)) == 8
        await pilot.click(ResultTable, offset=(1, 1))
        assert [line.strip(" ▾▸").split()[0] for line in lines(table)[1:]] == ["main", "worker", "load"]


async def test_a_tree_in_ascii() -> None:
    app = Tables(ASCII)
    async with app.run_test(size=(40, 12)) as pilot:
        app.table.result = tree()
        app.table.focus()
        await pilot.press("j", "e")
        assert [line[:12].rstrip() for line in lines(app.table)[1:]] == [
            " - main", "   + train", "     save", " - worker", "     load",
        ]  # fmt: skip
