"""What slices fall into which class."""

from __future__ import annotations

from typing import get_args

import polars as pl
import pytest
from msgspec.structs import replace

from building import Building, stream
from tracehound.draw.event_colors import ColorBy, build_coloring, next_coloring
from tracehound.draw.glyphs import ASCII, UNICODE
from tracehound.draw.lane_cache import TimelineRows
from tracehound.draw.lane_cells import cell_bounds, decode_style, draw_lane_row
from tracehound.draw.ruler import build_steps_row
from tracehound.model.trace import KINDS, Trace

NAMES = ["gemm", "add", "gemm", "copy", "add"]
OPS: list[dict[str, object]] = [
    {"op": at, "name": f"o{at}", "category": category} for at, category in enumerate(["fusion", "dot", "fusion", None])
]


def built(ops: list[dict[str, object]]) -> Trace:
    b = Building(ops=ops)
    for at, name in enumerate(NAMES):
        b.event(stream(), name, at * 10, at * 10 + 10, op=min(at, 3) if ops else None)
    b.event(stream(), "ProfilerStep#0", 0, 20, "step", step=0)
    return b.trace()


def classes(trace: Trace, by: ColorBy) -> dict[str, list[int]]:
    rows = TimelineRows(trace, by=by)
    lane = trace.lanes["lane"][0]
    frame = trace.lane(lane).with_columns(pl.col("name").cast(pl.String))
    found: dict[str, list[int]] = {}
    for position, name in enumerate(frame["name"]):
        depth, index = rows.lane(lane).find(position)
        found.setdefault(name, []).append(int(rows.row(lane, depth).kind[index]))
    return found


def test_equal_names_have_equal_classes_whatever_else_is_read() -> None:
    found = classes(built(ops=[]), "name")
    assert all(len(set(codes)) == 1 for codes in found.values())
    pl.Series(["something", "else"], dtype=pl.Categorical)
    assert classes(built(ops=OPS), "name") == found


def test_categories_with_most_ops_come_first_and_none_is_the_last() -> None:
    trace = built(ops=OPS)
    assert build_coloring("category", trace).legend == ((0, "fusion"), (1, "dot"), (7, "other"))
    found = classes(trace, "category")
    assert (found["gemm"], found["add"], found["copy"]) == ([0, 0], [1, 7], [7])


def test_steps_have_the_colors_of_their_line() -> None:
    frame = pl.DataFrame({"step": [3, 4, 10, None], "start": [0, 5, 9, 12], "end": [5, 9, 12, 14]})
    assert build_steps_row(frame, build_coloring("step", built(ops=[]))).kind.tolist() == [3, 4, 3, 7]
    assert len(set(build_steps_row(frame).kind.tolist())) == 1


def test_the_ways_to_color_follow_each_other() -> None:
    ways: list[ColorBy] = ["kind"]
    for _ in range(4):
        ways.append(next_coloring(ways[-1], built(ops=OPS)))
    assert ways == ["kind", "name", "category", "step", "kind"]
    assert next_coloring("name", built(ops=[])) == "step"


@pytest.mark.parametrize("by", get_args(ColorBy))
def test_every_kind_has_cells_in_every_coloring_where_letters_stand_for_colors(by: ColorBy) -> None:
    letters = replace(ASCII, letters=build_coloring(by, built(ops=OPS)).letters)
    assert all(len(letters.fill_characters(kind)) == 9 for kind in KINDS)


@pytest.mark.parametrize("by", ["kind", "name", "category", "step"])
def test_every_class_has_a_hue_and_a_letter_of_its_own(by: ColorBy) -> None:
    trace = built(ops=OPS)
    found = build_coloring(by, trace)
    for codes in classes(trace, by).values():
        for code in codes:
            kind = decode_style(code * 4).kind
            assert found.hues[kind]
            assert found.letters[kind]
    if by != "kind":
        assert len(set(found.letters.values())) == 8


def test_another_coloring_changes_no_text_but_letters() -> None:
    trace = built(ops=OPS)
    lane, bounds = trace.lanes["lane"][0], cell_bounds(0, 50_000_000, 40)
    drawn = {
        by: draw_lane_row(
            TimelineRows(trace, by=by).row(lane, 0), bounds, UNICODE, lambda found: ["x" * 9] * len(found)
        ).text.tolist()
        for by in ("kind", "name", "step")
    }  # fmt: skip
    assert drawn["kind"] == drawn["name"] == drawn["step"]
    assert ASCII.fill_characters("kernel")[-1] == "K"
