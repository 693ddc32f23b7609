"""Every unit has words, a side and no surprises."""

from __future__ import annotations

from typing import get_args

import polars as pl
import pytest

from results import EVERY_UNIT, every_unit
from tracehound.analysis.result import Column, Unit
from tracehound.draw.cell_text import (
    column_alignment,
    column_heading,
    columns_without_ids,
    describe_share_bases,
    format_cell,
    format_column,
    format_host_activity,
    mark_distinguishing_column_brief,
    naming_column,
)


def column(unit: Unit) -> Column:
    return Column("any_name", unit, "meaning")


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        ("text", "aten::mm", "aten::mm"),
        ("text", "evil\x1b[2J\n", "evil␛[2J "),
        ("text", "", "–"),
        ("time", 12_345_678, "12.35 us"),
        ("time", -1_500_000_000, "-1.500 ms"),
        ("instant", 12_345_678_901, "12.346 ms"),
        ("bytes", 15 * 2**30, "15.0 GiB"),
        ("rate", 26.4e9, "26.4 GB/s"),
        ("share", 0.133654, "13.37 %"),
        ("share", float("nan"), "–"),
        ("rate", float("inf"), "–"),
        ("count", 1312, "1,312"),
        ("count", 2.5, "2.50"),
        ("flag", True, "yes"),
        ("flag", False, "no"),
        ("id", 17, ""),
        ("id", None, ""),
        ("host", [], "–"),
        (
            "host",
            [{"thread": "py", "event": "aten::addmm", "inside": None, "share": 0.62, "time": 1}],
            "py: aten::addmm 62 %",
        ),
    ],
)
def test_words_of_a_unit(unit: Unit, value: object, expected: str) -> None:
    assert format_cell(column(unit), value) == expected


@pytest.mark.parametrize("unit", [u for u in get_args(Unit) if u != "id"])
def test_no_value_reads_as_a_dash(unit: Unit) -> None:
    assert format_cell(column(unit), None) == "–"


def test_a_fixed_unit_is_for_times_alone() -> None:
    assert format_cell(column("time"), 1_500_000, "us") == "1.500 us"
    assert format_cell(column("instant"), 1_500_000, "ns") == "1,500 ns"
    assert format_cell(column("count"), 1_500_000, "us") == "1,500,000"


def cover(thread: str, event: str, share: float) -> dict[str, object]:
    return {"thread": thread, "event": event, "inside": None, "share": share, "time": 1}


def test_every_host_thread_has_its_own_words() -> None:
    found = [cover("main (1)", "forward", 0.5), cover("loader", "read", 0.4), cover("main (1)", "backward", 0.3)]
    assert format_host_activity(found) == ["main (1): forward 50 %, backward 30 %", "loader: read 40 %"]
    assert format_cell(column("host"), found) == "main (1): forward 50 %, backward 30 %; loader: read 40 %"
    assert format_host_activity(None) == []


def test_threads_of_a_pool_that_did_the_same_are_told_together() -> None:
    found = [cover(f"tasks/{n}", "MapDmaBuffer", 0.4 - n / 100) for n in range(9)] + [
        cover("tasks/9", "Linearize", 0.1)
    ]
    assert format_host_activity(found) == ["tasks ×9: MapDmaBuffer up to 40 %", "tasks/9: Linearize 10 %"]


def test_many_host_threads_are_counted_not_listed() -> None:
    found = [cover(f"t{n}", f"e{n}", 0.5) for n in range(6)]
    assert format_host_activity(found)[-2:] == ["t3: e3 50 %", "2 more threads"]
    assert format_host_activity(found[:5])[-1] == "1 more thread"


def test_names_of_host_events_share_the_width() -> None:
    found = [cover("t", "a" * 40, 0.5), cover("t", "b" * 40, 0.25)]
    assert format_host_activity(found, 60) == ["t: aaaaaaaaaaaaaa…aaaaaaa 50 %, bbbbbbbbbbbbbb…bbbbbbb 25 %"]
    (narrow,) = format_host_activity(found, 40)
    assert narrow == f"t: {'a' * 20}…{'a' * 10} 50 %", "where names would not stay readable the last event makes way"
    assert format_host_activity(found, 20) == ["t: aaaaaaa…aaa 50 %"], "no share is cut off"


def test_numbers_stand_on_the_right() -> None:
    sides = {unit: column_alignment(column(unit)) for unit in get_args(Unit)}
    assert {unit for unit, side in sides.items() if side == "left"} == {"text", "prose", "note", "flag", "host"}


def test_ids_are_followed_but_never_shown() -> None:
    assert [c.name for c in columns_without_ids(every_unit())] == [c.name for c in EVERY_UNIT if c.name != "event"]


def test_cells_of_a_column_come_from_the_raw_table() -> None:
    result = every_unit()
    assert format_column(result, result.column("total"), "s") == ["77.773215731 s", "0.000000000 s", "–"]
    host = format_column(result, result.column("host"))[0]
    assert host == "python 123: aten::addmm 62 %; data␛loader: epoch: read, parse 30 %"
    assert all(text.isprintable() for c in result.columns for text in format_column(result, c))


def test_a_share_says_of_what() -> None:
    assert column_heading(Column("time_share", "share", "x")) == "time share"
    assert describe_share_bases(EVERY_UNIT) == ["share: % of the self time of all ops"]
    alike = [Column(f"{name}_share", "share", "it runs", "span") for name in ("compute", "idle")]
    assert describe_share_bases(alike) == ["compute share, idle share: % of span"]


def test_a_row_is_named_by_its_name_else_by_what_tells_it_apart() -> None:
    columns = [Column(name, "text", "") for name in ("thread", "event", "inside")] + [Column("count", "count", "")]
    assert naming_column(columns, {"thread": 1, "event": 5, "inside": 5, "count": 9}) == "event"
    assert naming_column([*columns, Column("name", "text", "")], {"name": 1}) == "name"
    assert naming_column(columns[3:], {"count": 9}) == ""
    address = Column("address", "text", "", brief=False)
    assert naming_column([*columns, address], {"thread": 1, "event": 5, "inside": 5, "address": 99}) == "event"
    assert naming_column([address], {"address": 99}) == "address", "where nothing else does"


@pytest.mark.parametrize(
    ("rows", "tells"),
    [
        ([("a", "x", "1"), ("b", "x", "2")], None),  # names tell
        ([("a", "x", "1"), ("a", "y", "2")], "module"),  # the first of two that tell as much
        ([("a", "x", "1"), ("a", "x", "2"), ("b", "y", "2")], "program"),
        ([("a", "x", "1"), ("a", "x", "1")], None),  # nothing does
        ([("a", "x", "1"), *((str(row), "y", "2") for row in range(18)), ("0", "x", "1")], None),  # names tell most
        ([("a", "x", "1"), *((str(row), "y", "2") for row in range(17)), ("0", "x", "1")], "module"),
    ],
)
def test_what_tells_rows_of_one_name_apart(rows, tells):
    table = pl.DataFrame(rows, schema=["name", "module", "program"], orient="row")
    columns = [Column(name, "text", name, brief=name == "name") for name in table.columns]
    kept = {column.name for column in mark_distinguishing_column_brief(columns, table) if column.brief}
    assert kept == {"name"} | ({tells} if tells else set())
    tree = [Column("depth", "depth", "how deep"), *columns]
    assert mark_distinguishing_column_brief(tree, table.with_columns(depth=0)) == tuple(tree)
    assert mark_distinguishing_column_brief(columns[1:], table) == tuple(columns[1:])


def test_what_is_found_of_rows_does_not_tell_them_apart() -> None:
    table = pl.DataFrame({"name": ["mm", "mm"], "last": ["0 (2)", "1 (3)"], "group": ["stream 1", "stream 2"]})
    columns = [
        Column("name", "text", "kernel"),
        Column("last", "text", "who came last", non_key=True),
        Column("group", "text", "whose it is", brief=False),
    ]
    told = [column.name for column in mark_distinguishing_column_brief(columns, table) if column.brief]
    assert told == ["name", "group", "last"], "what tells rows apart stands behind the name"
