"""Which columns fit, and how wide they are."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest

from tracehound.analysis.result import Column
from tracehound.draw.name_shortening import MOST_COMPARED_NAMES
from tracehound.draw.text_table import NAME_WIDTH
from tracehound.ui.widgets.table_columns import (
    COLUMN_GAP,
    arrange_columns,
    measure_columns,
    place_columns,
    scroll_offset_to_column,
    shorten_distinctly,
    visible_columns,
)

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
        "kind": ["kernel", "copy", "kernel"] * 3,
        "count": list(range(9)),
        "total": [n * 10**9 for n in range(9)],
        "share": [n / 40 for n in range(9)],
        "event": list(range(9)),
    }
)


def names(width: int) -> list[str]:
    return [placed.column.name for placed in place_columns(measure_columns(COLUMNS, ROWS), width)]


def test_ids_are_never_shown_and_all_else_is_where_there_is_room() -> None:
    assert names(200) == ["name", "kind", "count", "total", "share"]


def test_columns_that_are_not_brief_make_way_from_the_right() -> None:
    widths = [len(names(width)) for width in range(30, 120)]
    assert widths == sorted(widths)
    assert names(30) == ["name", "kind", "count"]
    assert ["name", "kind", "count", "total"] in [names(width) for width in range(30, 120)]


def test_a_text_that_is_the_same_in_every_row_makes_way_before_what_is_measured() -> None:
    columns = (Column("step", "count", ""), Column("name", "text", ""), Column("busy", "time", ""))
    rows = pl.DataFrame({"step": [0, 1], "name": ["jit_f(12190760917235803885)"] * 2, "busy": [10**9, 2 * 10**9]})

    def shown(rows: pl.DataFrame, width: int, *wanted: str) -> list[str]:
        return [placed.column.name for placed in place_columns(measure_columns(columns, rows, wanted), width)]

    assert shown(rows, 60) == ["step", "name", "busy"]
    assert shown(rows, 30) == ["step", "busy"]
    assert shown(rows, 30, "name") == ["step", "name", "busy"], "unless somebody chose it"
    assert shown(rows[:1], 30) == ["step", "name", "busy"]
    assert shown(rows.with_columns(name=pl.lit("a") + pl.col("name").shift(1, fill_value="")), 30)[1] == "name"


def test_what_tells_rows_of_one_name_apart_is_in_sight_beside_it() -> None:
    measured = [Column(name, "time", "") for name in ("base", "other", "change", "exposed")]
    columns = (Column("name", "text", ""), *measured, Column("operator", "text", "", brief=False))
    rows = pl.DataFrame({
        "name": ["fusion"] * 8 + ["broadcast_subtract_fusion_and_1_more"],
        **{each.name: [10**9 + n for n in range(9)] for each in measured},
        "operator": [f"jit(train_step)/jvp(layer{n})/mlp/dot_general" for n in range(9)],
    })  # fmt: skip
    first, second, *_ = arrange_columns(measure_columns(columns, rows), rows, 60)
    assert (first.column.name, second.column.name) == ("name", "operator")
    assert len({second.fit_text(text) for text in rows["operator"]}) == 9


def test_columns_that_are_0_in_every_row_make_way_first_unless_they_are_wanted() -> None:
    columns = (Column("step", "count", ""), *(Column(name, "time", "") for name in ("kernel", "wait", "copy", "cpu")))
    more = (Column("rest", "time", "", brief=False), Column("late", "count", ""))
    rows = pl.DataFrame({"step": [0, 0], "kernel": [1, 2], "wait": [0, 0], "copy": [0, None], "cpu": [3, 0]})
    rows = rows.with_columns(rest=pl.col("cpu"), late=pl.lit(0))

    def shown(width: int, *wanted: str) -> list[str]:
        return [placed.column.name for placed in place_columns(measure_columns((*columns, *more), rows, wanted), width)]

    every = ["step", "kernel", "wait", "copy", "cpu", "rest", "late"]
    assert shown(200) == every
    widths = [shown(width) for width in range(60, 10, -1)]
    assert every[:-1] in widths
    assert ["step", "kernel", "cpu", "rest"] in widths, "before what is not brief"
    assert widths[-1] == ["step", "kernel", "cpu"], "what says which a row is stays, though it is 0"
    assert ["step", "kernel", "wait", "cpu"] in [shown(width, "wait") for width in range(60, 10, -1)]


@pytest.mark.parametrize("width", range(10, 130, 7))
def test_what_is_in_sight_fits(width: int) -> None:
    last = visible_columns(place_columns(measure_columns(COLUMNS, ROWS), width), 0, width)[-1]
    assert last.left + last.width <= width


def test_headings_of_numbers_are_cut_where_all_columns_fit_then() -> None:
    rows = pl.DataFrame({"rank": [0], "communication_share": [0.2], "copy_share": [0.1], "idle_share": [0.3]})
    columns = [Column("rank", "count", ""), *(Column(name, "share", "") for name in rows.columns[1:])]

    def widths(width: int) -> list[int]:
        return [placed.width for placed in place_columns(measure_columns(columns, rows), width)]

    whole = [4, 19, 10, 10]
    assert [widths(width) for width in (49, 48, 42)] == [whole, [4, 18, 10, 10], [4, 12, 10, 10]]
    assert widths(41) == whole, "one is beyond the edge in any case"


@pytest.mark.parametrize("width", range(30, 130, 7))
def test_names_are_cut_last_and_never_beyond_recognition(width: int) -> None:
    name, kind = place_columns(measure_columns(COLUMNS, ROWS), width)[:2]
    assert name.width >= min(NAME_WIDTH, width // 3)
    assert kind.width == len("kernel")


def test_many_short_columns_do_not_take_the_room_of_names() -> None:
    columns = (*COLUMNS[:2], *(Column(f"count_{n}", "count", "") for n in range(8)))
    rows = ROWS.select("name", "kind", *(ROWS["count"].alias(column.name) for column in columns[2:]))
    places = place_columns(measure_columns(columns, rows), 79)
    assert len(places) == len(columns)
    seen = visible_columns(places, 0, 79)
    assert 3 < len(seen) < len(places)
    whole = seen[-1].left + seen[-1].width
    assert whole == 79, "the name has the cells that the next column has no room in"
    assert places[0].width > NAME_WIDTH
    left = scroll_offset_to_column(places, "count_7", 0, 79)
    there = visible_columns(places, left, 79)
    assert (there[0], there[-1].column.name) == (places[0], "count_7"), "names stay where others are scrolled to"
    assert there[-1].left + there[-1].width <= 79
    assert scroll_offset_to_column(places, "name", left, 79) == left, "it is in sight wherever one is"
    assert visible_columns(places, scroll_offset_to_column(places, "kind", left, 79), 79) == seen


def test_where_a_name_would_leave_no_room_all_is_scrolled() -> None:
    columns = (COLUMNS[0], *(Column(f"total_{n}", "time", "") for n in range(4)))
    rows = ROWS.select("name", *(ROWS["total"].alias(column.name) for column in columns[1:]))
    places = place_columns(measure_columns(columns, rows), 11)
    there = visible_columns(places, scroll_offset_to_column(places, "total_3", 0, 11), 11)
    assert [placed.column.name for placed in there] == ["total_3"]


def test_a_column_that_is_wider_than_the_line_is_shown_cut() -> None:
    places = place_columns(measure_columns(COLUMNS[:1], ROWS), 80)
    assert visible_columns(places, 0, 9) == places


def test_columns_stand_beside_each_other_and_fill_their_width() -> None:
    placed = place_columns(measure_columns(COLUMNS, ROWS), 60)
    for one, other in pairwise(placed):
        assert other.left == one.left + one.width + COLUMN_GAP
    for column in placed:
        assert len(column.fit_text("x" * 99)) == column.width
        assert len(column.fit_text("x")) == column.width
    assert placed[0].fit_text("x").startswith("x"), "text stands on the left"
    assert placed[2].fit_text("7").endswith("7"), "numbers stand on the right"


def test_different_names_look_different_where_they_are_cut() -> None:
    columns = [Column("name", "text", "what"), Column("self", "time", "how long")]
    kinds = [f"void sgemm<float, {size}, 5, true>(int, float const*, float*)" for size in (128, 1024)]
    rows = pl.DataFrame({"name": kinds, "self": [1, 2]})
    name, _ = shorten_distinctly(place_columns(measure_columns(columns, rows), 40), rows)
    assert [name.fit_text(kind).rstrip() for kind in kinds] == ["sgemm<128>", "sgemm<1024>"]
    many = pl.DataFrame(
        {
            "name": [f"{kinds[0]}{number}" for number in range(MOST_COMPARED_NAMES + 1)],
            "self": range(MOST_COMPARED_NAMES + 1),
        }
    )
    name, _ = shorten_distinctly(place_columns(measure_columns(columns, many), 40), many)
    assert not name.short, "nobody sees so many together"


def test_names_without_their_templates_leave_their_cells_to_others() -> None:
    columns = [Column("before", "text", ""), Column("after", "text", ""), Column("self", "time", "", brief=False)]
    kinds = [f"void at::native::{name}<float, 5>(int, {'float const*, ' * 9})" for name in ("gemm", "vectorized_copy")]
    plain = [f"a_name_without_a_template_that_ends_in_{number}" for number in (1, 2)]
    rows = pl.DataFrame({"before": kinds, "after": plain, "self": [1, 2]})
    before, after, self = arrange_columns(measure_columns(columns, rows), rows, 70)
    assert [before.fit_text(kind).rstrip() for kind in kinds] == ["gemm", "vectorized_copy"]
    assert (before.width, after.width, self.column.name) == (len("vectorized_copy"), len(plain[0]), "self")


def test_no_rows_are_no_reason_to_fail() -> None:
    assert [placed.column.name for placed in place_columns(measure_columns(COLUMNS, ROWS.clear()), 80)] == [
        "name",
        "kind",
        "count",
        "total",
        "share",
    ]


def test_parts_that_are_next_to_nothing_make_way_before_those_that_are_not() -> None:
    parts = [
        Column("compute", "time", "", is_part=True),
        Column("output", "time", "", brief=False, is_part=True),
        Column("host", "time", "", is_part=True),
    ]
    rows = pl.DataFrame({"compute": [24 * 10**9], "output": [182 * 10**9], "host": [10**6]})
    assert [placed.column.name for placed in place_columns(measure_columns(parts, rows), 20)] == ["compute", "output"]
