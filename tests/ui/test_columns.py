"""Which columns fit, and how wide they are."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest

from tracehound.analysis.result import Column
from tracehound.ui.widgets.columns import GAP, needed, place

COLUMNS = (
    Column("name", "text", ""),
    Column("kind", "text", ""),
    Column("count", "count", ""),
    Column("total", "time", "", brief=False),
    Column("share", "share", "", brief=False),
    Column("event", "id", ""),
)
ROWS = pl.DataFrame(
    {
        "name": [f"a_very_long_kernel_name_that_says_{n}_what_it_does" for n in range(9)],
        "kind": ["kernel"] * 9,
        "count": list(range(9)),
        "total": [n * 10**9 for n in range(9)],
        "share": [n / 40 for n in range(9)],
        "event": list(range(9)),
    }
)


def names(width: int) -> list[str]:
    return [placed.column.name for placed in place(needed(COLUMNS, ROWS), width)]


def test_ids_are_never_shown_and_all_else_is_where_there_is_room() -> None:
    assert names(200) == ["name", "kind", "count", "total", "share"]


def test_columns_that_are_not_brief_make_way_from_the_right() -> None:
    widths = [len(names(width)) for width in range(30, 120)]
    assert widths == sorted(widths)
    assert names(30) == ["name", "kind", "count"]
    assert ["name", "kind", "count", "total"] in [names(width) for width in range(30, 120)]


@pytest.mark.parametrize("width", range(30, 130, 7))
def test_what_is_shown_fits(width: int) -> None:
    last = place(needed(COLUMNS, ROWS), width)[-1]
    assert last.left + last.width <= width


def test_columns_stand_beside_each_other_and_fill_their_width() -> None:
    placed = place(needed(COLUMNS, ROWS), 60)
    for one, other in pairwise(placed):
        assert other.left == one.left + one.width + GAP
    for column in placed:
        assert len(column.fits("x" * 99)) == column.width
        assert len(column.fits("x")) == column.width
    assert placed[0].fits("x").startswith("x"), "text stands on the left"
    assert placed[2].fits("7").endswith("7"), "numbers stand on the right"


def test_no_rows_are_no_reason_to_fail() -> None:
    assert [placed.column.name for placed in place(needed(COLUMNS, ROWS.clear()), 80)] == [
        "name",
        "kind",
        "count",
        "total",
        "share",
    ]
