"""The chart of where a change comes from: bars that hang where the one before ended, in any size."""

from __future__ import annotations

import polars as pl
import pytest
from rich.cells import cell_len

from tracehound.draw.charts.bar_charts import LESS_GLYPH, MORE_GLYPH, TOTAL_GLYPH, draw_waterfall
from tracehound.draw.glyphs import to_ascii

MS = 10**9


def table(*changes: tuple[str, int], baseline: int = 100) -> pl.DataFrame:
    """From a step of `base` ms by these changes, in ms."""
    rows: list[tuple[object, ...]] = [("baseline step", None, baseline * MS, None, "")]
    at = baseline
    for name, change in changes:
        rows.append((name, at * MS, (at + change) * MS, change * MS, "noise"))
        at += change
    rows.append(("candidate step", None, at * MS, (at - baseline) * MS, "slower"))
    schema = {"part": pl.String, "from": pl.Int64, "to": pl.Int64, "change": pl.Int64, "verdict": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def bars(lines: list[str]) -> list[tuple[int, int]]:
    """Where the bar of each row begins and ends."""
    found = []
    for line in lines[:-1]:
        at = [place for place, char in enumerate(line) if char in (TOTAL_GLYPH, MORE_GLYPH, LESS_GLYPH)]
        found.append((at[0], at[-1] + 1) if at else (0, 0))
    return found


def test_kinds_whose_names_are_cut_stay_different() -> None:
    kinds = [f"asynchronous collective {kind} of the second axis" for kind in ("gather", "reduce")]
    lines = draw_waterfall(table(*((kind, 5) for kind in kinds)), (60, 8))
    assert "gather" in lines[1]
    assert "reduce" in lines[2]


def test_each_bar_begins_where_the_one_before_ended() -> None:
    lines = draw_waterfall(table(("idle", -40), ("kernel", 20), ("copy", 10)), (100, 12))
    baseline, idle, kernel, copy, candidate = bars(lines)
    assert idle[1] == baseline[1]
    assert (kernel[0], copy[0]) == (idle[0], kernel[1])
    assert copy[1] == candidate[1]
    assert LESS_GLYPH in lines[1]
    assert MORE_GLYPH in lines[2]
    assert "-40.00 ms" in lines[1]
    assert lines[-1].startswith(f"{TOTAL_GLYPH} step  {MORE_GLYPH} more  {LESS_GLYPH} less; from 0 s to 100 ms")


def test_small_changes_have_a_scale_of_their_own() -> None:
    lines = draw_waterfall(table(("idle", -2), ("kernel", 1)), (100, 12))
    baseline, idle, kernel, candidate = bars(lines)
    assert idle[1] - idle[0] > 10 < 2 * (kernel[1] - kernel[0])
    assert lines[-1].startswith(f"from 97.5 ms, not 0, to 100 ms; {TOTAL_GLYPH} step's end  ")
    assert baseline[1] - baseline[0] == candidate[1] - candidate[0] == 1, "no bar that begins elsewhere than at 0"
    assert (baseline[1], candidate[1]) == (idle[1], kernel[1]), "a mark stands where the step ends"


def test_what_there_is_no_room_for_is_one_row() -> None:
    changes = [(f"op {number}", -number) for number in range(9, 0, -1)]
    lines = draw_waterfall(table(*changes), (80, 7))
    assert len(lines) == 7
    assert "6 others" in lines[4]
    assert "-21.00 ms" in lines[4]
    assert lines[5].startswith("candidate step")


@pytest.mark.parametrize("size", [(width, height) for width in (40, 41, 80, 200) for height in (5, 8, 30)])
@pytest.mark.parametrize(
    "changes", [(), (("a", 0),), (("x" * 90, 5), ("\u6f22\u5b57", -3)), (("all", -100),), (("more", 10**6),)]
)
def test_it_has_the_size_asked_for_and_a_likeness_in_ascii(
    size: tuple[int, int], changes: tuple[tuple[str, int], ...]
) -> None:
    lines = draw_waterfall(table(*changes), size)
    assert 0 < len(lines) <= size[1]
    assert {cell_len(line) for line in lines} == {size[0]}
    assert [cell_len(to_ascii(line)) for line in lines] == [cell_len(line) for line in lines]


@pytest.mark.parametrize("size", [(0, 0), (39, 10), (80, 2), (80, 3)])
def test_no_room_is_no_chart(size: tuple[int, int]) -> None:
    assert draw_waterfall(table(("a", 1), ("b", 2)), size) == []


def test_a_step_of_no_length_is_drawn_too() -> None:
    assert draw_waterfall(table(baseline=0), (60, 10))
