"""The bars of a flame graph: where they lie, which frames have one, and what is written on them."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from results import plain, tree
from tracehound.draw.charts.flame_graph import ROOT_BAR, FlameGraph, build_flame_graph, split_frame_name
from tracehound.errors import TracehoundError

EVERY = 2.0


def of(rows: list[tuple[str, int, int]], least: float = EVERY) -> FlameGraph:
    """The graph of (name, weight, depth)."""
    table = pl.DataFrame(rows, schema=["call", "total", "depth"], orient="row").with_columns(event=pl.lit(0))
    shape = build_flame_graph(replace(tree(), table=table.select("call", "total", "depth", "event")), "total", least)
    assert shape is not None
    return shape


def drawn(shape: FlameGraph, zoom: int, width: int) -> list[str]:
    """Each line as text: the first letter of a bar's frame, as often as it is wide."""
    lines = []
    for line in shape.lines(zoom, width):
        text = [" "] * width
        for bar in line:
            text[bar.left : bar.right] = ["*" if bar.row == ROOT_BAR else shape.names[bar.row][0]] * (
                bar.right - bar.left
            )
        lines.append("".join(text).rstrip())
    return lines


STORY = [("main", 80, 0), ("train", 60, 1), ("load", 20, 2), ("forward", 30, 2), ("save", 10, 1), ("worker", 20, 0)]


def test_bars_lie_under_their_callers_the_heaviest_first() -> None:
    assert drawn(of(STORY), ROOT_BAR, 20) == [
        "********************",
        "mmmmmmmmmmmmmmmmwwww",
        "ttttttttttttss",
        "ffffffllll",
    ]


def test_a_zoomed_frame_is_as_wide_as_the_line_under_those_around_it() -> None:
    assert drawn(of(STORY), 1, 12) == ["*" * 12, "m" * 12, "t" * 12, "ffffffllll"]
    assert drawn(of(STORY), 3, 4) == ["****", "mmmm", "tttt", "ffff"]


def test_frames_that_only_pass_on_are_part_of_their_callers_bar() -> None:
    chain = [("a.py(1): main", 100, 0), ("b.py(2): wrap", 99, 1), ("c.py(3): work", 50, 2), ("d.py(4): rest", 40, 2)]
    shape = of(chain, 0.98)
    assert [len(line) for line in shape.lines(ROOT_BAR, 100)] == [1, 1, 2]
    assert shape.merged_rows(0) == [0, 1]
    assert shape.label(0, 40) == "main › wrap"
    assert shape.label(2, 40) == "work  c.py:3"
    assert shape.label(2, 8) == "work"
    assert shape.bar_of(1) == 0
    assert shape.ancestors(2) == [ROOT_BAR, 0, 2]
    assert [len(line) for line in of(chain).lines(ROOT_BAR, 100)] == [1, 1, 1, 2]


def test_a_caller_weighs_at_least_what_it_called() -> None:
    shape = of([("a", 10, 0), ("b", 30, 1)])
    assert shape.total == 30
    assert drawn(shape, ROOT_BAR, 3) == ["***", "aaa", "bbb"]


def test_what_weighs_nothing_has_no_bar() -> None:
    assert drawn(of([("a", 0, 0), ("b", 0, 1)]), ROOT_BAR, 5) == ["*****"]
    assert drawn(of([("a", 1000, 0), ("b", 1, 1)]), ROOT_BAR, 5) == ["*****", "aaaaa"]
    assert of([("a", 0, 0)]).share(0) == 0


def test_shares_are_of_all_or_of_a_frame() -> None:
    shape = of(STORY)
    assert (shape.share(1), shape.share(1, 0), shape.share(ROOT_BAR)) == (0.6, 0.75, 1)


def test_a_search_finds_names() -> None:
    shape = of(STORY)
    assert [shape.names[row] for row in range(6) if shape.rows_matching("AI")[row]] == ["main", "train"]
    assert [shape.names[row] for row in range(6) if shape.rows_matching("~^.o")[row]] == ["load", "forward", "worker"]
    with pytest.raises(TracehoundError):
        shape.rows_matching("~(")


def test_a_table_of_no_tree_has_no_flame() -> None:
    assert build_flame_graph(plain(), "total") is None


@pytest.mark.parametrize(
    ("name", "short", "place"),
    [
        ("torch/nn/modules/linear.py(124): forward", "forward", "linear.py:124"),
        ("C:\\src\\train.py(7): <module>", "<module>", "train.py:7"),
        ("$literals.py:133 __array_finalize__", "__array_finalize__", "literals.py:133"),
        ("<built-in method append of list object>", "append", ""),
        ("<built-in function len>", "len", ""),
        ("$builtins isinstance", "isinstance", ""),
        ("nn.Module: Linear_0", "Linear_0", ""),
        ("aten::mm", "aten::mm", ""),
        ("evil\x1b[31m", "evil␛[31m", ""),
        ("", "", ""),
    ],
)
def test_frames_are_called_by_their_functions(name: str, short: str, place: str) -> None:
    assert split_frame_name(name) == (short, place)


FRAMES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 50), st.integers(0, 5)), min_size=1, max_size=30)


@given(FRAMES, st.integers(-1, 29), st.integers(1, 60), st.sampled_from([0.5, 0.98, EVERY]))
def test_bars_never_overlap_and_lie_inside_their_callers(
    rows: list[tuple[str, int, int]], zoom: int, width: int, least: float
) -> None:
    shape = of([(name, weight, depth if n else 0) for n, (name, weight, depth) in enumerate(rows)], least)
    zoom = shape.bar_of(min(zoom, len(rows) - 1)) if zoom >= 0 else ROOT_BAR
    lines = shape.lines(zoom, width)
    assert [bar.row for line in lines[: len(shape.ancestors(zoom))] for bar in line] == shape.ancestors(zoom)
    where = {bar.row: bar for line in lines for bar in line}
    for line in lines:
        assert all(0 <= bar.left < bar.right <= width for bar in line)
        assert all(one.right <= two.left for one, two in pairwise(line))
        for bar in line:
            above = where[shape.ancestors(bar.row)[-2]] if bar.row != ROOT_BAR else bar
            assert above.left <= bar.left
            assert bar.right <= above.right
    assert len(where) == sum(map(len, lines)), "no frame has two bars"


def test_a_result_has_one_bar_for_each_row_where_there_is_room() -> None:
    shape = build_flame_graph(tree(), "total", EVERY)
    assert shape is not None
    assert len(shape.names) == sum(len(line) for line in shape.lines(ROOT_BAR, 200)) - 1
