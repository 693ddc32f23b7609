"""What rows are called beside a chart: by as few columns as tell them apart, in the room that there is."""

from __future__ import annotations

import polars as pl
import pytest
from rich.cells import cell_len

from results import every_unit
from tracehound.analysis.result import Column, Result
from tracehound.draw.charts.bar_charts import label_columns, row_labels

RANK, STEP = Column("rank", "count", ""), Column("step", "count", "")
SOURCE, TARGET = Column("source", "text", ""), Column("target", "text", "")
START, BYTES = Column("start", "instant", ""), Column("bytes", "bytes", "")
NUMBER = Column("number", "number", "")
MS = 10**9


def result(*columns: Column, rows: list[tuple[object, ...]]) -> Result:
    table = pl.DataFrame(rows, schema=[column.name for column in columns], orient="row")
    return Result("x", "X", columns, table, table.height)


def told(found: Result, width: int = 90) -> list[str]:
    return [label.rstrip() for label in row_labels(found, found.table, width)]


def test_ranks_stand_before_a_name_where_there_are_several() -> None:
    both = [(0, "host", 1), (1, "host", 2)]
    assert told(result(RANK, SOURCE, BYTES, rows=both)) == ["rank 0 host", "rank 1 host"]
    assert told(result(RANK, SOURCE, BYTES, rows=[(0, "host", 1), (0, "device", 2)])) == ["host", "device"]
    assert told(result(RANK, BYTES, rows=[(None, 1), (3, 2)])) == ["all ranks", "rank 3"]
    assert told(result(RANK, BYTES, rows=[(5, 1)])) == ["rank 5"]


def test_rows_that_look_alike_have_another_text() -> None:
    rows = [(0, "device", "host", 1), (0, "device", "device", 2), (0, "host", "device", 3)]
    assert told(result(RANK, SOURCE, TARGET, BYTES, rows=rows)) == ["device host", "device device", "host device"]


def test_a_text_that_is_the_same_in_all_rows_says_nothing() -> None:
    program, buffer = Column("program", "text", ""), Column("buffer", "text", "")
    assert told(result(program, buffer, BYTES, rows=[("jit_f", "p.1", 1), ("jit_f", "p.2", 1)])) == ["p.1", "p.2"]
    assert told(result(program, BYTES, rows=[("jit_f", 1), ("jit_f", 2)])) == ["jit_f", "jit_f"]


def test_what_no_text_tells_apart_has_its_number_or_its_time() -> None:
    name = Column("name", "text", "")
    calls = result(NUMBER, STEP, name, BYTES, rows=[(n, n // 2, "all-reduce", 1) for n in range(4)])
    assert told(calls) == [f"number {n} step {n // 2} all-reduce" for n in range(4)]
    pauses = result(RANK, START, SOURCE, BYTES, rows=[(n % 2, n * MS, "gemm", 1) for n in range(4)])
    assert told(pauses)[3] == "rank 1 gemm at 3.000 ms"


def test_a_name_that_is_not_brief_is_told_only_where_it_must_be() -> None:
    name = Column("name", "text", "", brief=False)
    steps = result(STEP, name, BYTES, rows=[(n, f"ProfilerStep#{n}", 1) for n in range(3)])
    assert told(steps) == ["step 0", "step 1", "step 2"]


def test_a_tree_says_by_its_branches_what_its_rows_are() -> None:
    module, depth = Column("module", "text", ""), Column("depth", "depth", "")
    kind = Column("kind", "text", "")
    tree = result(module, kind, depth, BYTES, rows=[("a", "x", 0, 1), ("b", "y", 1, 1), ("a", "y", 0, 1)])
    assert [column.name for column in label_columns(tree)] == ["module"]


def test_texts_that_share_the_room_are_cut_where_they_are_alike() -> None:
    rows = [(f"jit_train_step_{n}(1234567890)", f"multiply_reduce_fusion.{n}_of_many", n) for n in (1, 1, 2)]
    rows[1] = (rows[1][0], "multiply_reduce_fusion.9_of_many", 1)
    both = result(SOURCE, TARGET, BYTES, rows=rows)
    assert len(set(told(both, 60))) == 3
    assert {cell_len(label) for label in row_labels(both, both.table, 60)} == {30}


@pytest.mark.parametrize("width", [24, 40, 78, 200])
def test_labels_of_any_rows_are_alike_in_width(width: int) -> None:
    found = every_unit()
    drawn = row_labels(found, found.table, width)
    assert len({cell_len(label) for label in drawn}) == 1
    assert cell_len(drawn[0]) <= width // 2
    assert all(label.isprintable() for label in drawn)
    assert row_labels(found, found.table.clear(), width) == []
