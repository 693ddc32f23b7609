"""How trees look in reports."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from results import tree
from tracehound.draw.text_table import LEAST_INDENT, TreeIndents, body_lines, fit_tree_indents
from tracehound.model.trace import Window
from tracehound.report import ReportHeader, ReportStyle, find_writer


def written(form: str) -> list[str]:
    about = ReportHeader("x", (), (), (), None, (0, 1), {}, Window())
    return "\n".join(line.text for line in find_writer(form).write_result(about, tree(), ReportStyle(80))).splitlines()


def test_names_are_moved_in_and_the_depth_has_no_column() -> None:
    assert [line.text for line in body_lines(tree(), 80)] == [
        "call             total",
        "main          90.00 ms",
        "  train       60.00 ms",
        "    forward   25.00 ms",
        "    backward  35.00 ms",
        "  save        20.00 ms",
        "worker        40.00 ms",
        "  load        40.00 ms",
    ]


def test_names_are_cut_before_what_leads_in() -> None:
    named = tree().table.with_columns(pl.format("{}_of_all_the_layers", "call").alias("call"))
    lines = [line.text for line in body_lines(replace(tree(), table=named), 30)]
    assert lines[3:5] == ["    forward_of…ayers  25.00 ms", "    backward_o…ayers  35.00 ms"]


def test_markdown_has_a_dot_for_each_level_and_csv_the_number() -> None:
    assert "| · · backward | 35.00 ms |" in "\n".join(written("markdown"))
    assert written("csv")[:3] == ["call,total_ps,depth,event", "main,90000000000,0,1", "train,60000000000,1,2"]
    assert '"unit": "depth"' in "\n".join(written("json"))


@given(st.integers(0, 300), st.integers(1, 250))
def test_names_have_two_thirds_of_the_line_however_deep_they_lie(deepest: int, width: int) -> None:
    chosen = fit_tree_indents(deepest, width)
    leads = [chosen.indent_at_depth(depth) for depth in range(deepest + 1)]
    assert max(map(len, leads)) <= max(LEAST_INDENT, width // 3)
    assert all(len(one) <= len(two) for one, two in pairwise(leads))
    assert len(set(leads)) == len(leads), "no two levels look alike"


def test_what_is_too_deep_has_its_level_as_a_number() -> None:
    assert fit_tree_indents(30, 30).indent_at_depth(10) == " " * 10
    assert fit_tree_indents(30, 30).indent_at_depth(11) == "       11 "
    assert TreeIndents().indent_at_depth(None) == TreeIndents().indent_at_depth(-3) == ""


@pytest.mark.parametrize("width", [8, 20, 40, 80])
def test_a_deep_tree_keeps_its_line(width: int) -> None:
    deep = pl.DataFrame({"call": ["a_name"] * 90, "total": [1] * 90, "depth": range(90), "event": [0] * 90})
    lines = body_lines(replace(tree(), table=deep), width)
    assert max(cell_len(line.text) for line in lines) <= width
    assert width < 20 or all("a" in line.text for line in lines[1:])
