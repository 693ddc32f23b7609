"""The rank map in characters: its lines, its legend, and the words about a cell."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace
from test_rank_matrix import SECOND, table

from tracehound.analysis.rank_map import ANALYSIS
from tracehound.analysis.result import SETTING_NOTE, Result
from tracehound.draw.charts.rank_heat_map import (
    LEVEL_GLYPHS,
    MapLine,
    describe_bins,
    describe_cell,
    draw_axis,
    draw_cells,
    draw_legend,
    draw_rank_map,
    line_width,
    row_label,
)
from tracehound.draw.charts.rank_matrix import MapView, RankMapData, bin_map
from tracehound.draw.glyphs import to_ascii
from tracehound.model.notes import note
from tracehound.report import ReportStyle
from tracehound.report.text_report import _write_rank_map


def text(line: MapLine) -> str:
    return "".join(piece for piece, _ in line)


def result(rows: pl.DataFrame, **given: str) -> Result:
    notes = tuple(note(SETTING_NOTE, name=name, value=value) for name, value in given.items())
    return Result("rank_map", "Rank map", ANALYSIS.columns, rows, rows.height, notes)


def test_the_map_of_few_ranks() -> None:
    assert [line.rstrip() for line in draw_rank_map(result(table(3, 4)), 0, (60, 12))] == [
        "    step 10      11      12      13",
        "  rank 0 ∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙",
        "  rank 1 ████████████████████████████████",
        "  rank 2 ∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙",
        " step time: ∙ below 1.10 s ░ ▒ ▓ █ from 1.40 s",
        " by rank, 3 ranks in 4 steps",
    ]


def test_busy_is_worst_where_it_is_small_and_blanks_are_explained() -> None:
    rows = table(3, 4).filter((pl.col("rank") != 0) | (pl.col("step") != 12))
    lines = draw_rank_map(result(rows, value="busy", by="value"), 0, (100, 12))
    assert lines[1].startswith("  rank 1 ████")
    assert lines[2].rstrip() == "  rank 0 ∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙∙        ∙∙∙∙∙∙∙∙"
    assert lines[-2].rstrip() == (
        " busy: ∙ from 82.0 % ░ below 82.0 % ▒ below 74.0 % ▓ below 66.0 % █ below 58.0 %   blank: no value"
    )


def test_thousands_of_ranks_take_a_page_and_the_slow_one_is_seen() -> None:
    rows = table(1024, 100, slow=517)
    lines = draw_rank_map(result(rows), 0, (100, 36))
    assert [line[:14].strip() for line in lines[1:-2]] == ["0-516", "rank 517", "518-1023"]
    assert ["█" in line for line in lines[1:-2]] == [False, True, False]
    facts = "cell: worst of 2 steps, neighbors that look alike share a line, by rank, 1,024 ranks in 100 steps"
    assert lines[-1].strip() == facts
    assert {len(line) for line in lines} == {100}


def test_ranks_of_more_kinds_than_lines_are_binned_before_bins_share_a_line() -> None:
    every_other = pl.col("step_time") * (1 + pl.col("rank") % 2)
    lines = draw_rank_map(result(table(64, 4, slow=65).with_columns(every_other)), 0, (100, 36))
    assert [line.split()[0] for line in lines[1:-2]] == ["0-63"]
    assert lines[-1].strip().startswith("cell: worst of 2 ranks, neighbors that look alike share a line")


def test_levels_differ_in_ascii() -> None:
    assert len({to_ascii(glyph) for glyph in LEVEL_GLYPHS}) == len(LEVEL_GLYPHS)
    assert to_ascii(LEVEL_GLYPHS) == ".-+=#"
    assert [text for text, _ in draw_cells(np.array([0, 0, 4, -1, 4]), 2)] == ["∙∙∙∙", "██", "  ", "██"]


@pytest.mark.parametrize(
    ("by", "lines", "wanted"),
    [
        ("rank", 8, ["rank 0", "rank 1", "rank 2", "rank 3", "rank 4"]),
        ("rank", 3, ["0-1", "2-3", "rank 4"]),
        ("host", 3, ["node0 0-1", "node1 2-3", "node2 4"]),
        ("host", 2, ["node0 +1 0-3", "node2 4"]),
        ("value", 3, ["rank 1 +1", "rank 2 +1", "rank 4"]),
        ("group", 5, ["group 1: 0", "group 1: 2", "group 1: 4", "group 2: 1", "group 2: 3"]),
        ("group", 3, ["group 1: 0 +1", "group 1 +1", "group 2: 3"]),
    ],
)
def test_a_label_says_which_ranks_a_line_has(by: str, lines: int, wanted: list[str]) -> None:
    groups = pl.when(pl.col("rank") % 2 == 0).then(pl.lit("1: ranks 0, 2, 4")).otherwise(pl.lit("2: ranks 1, 3"))
    found = RankMapData(table(5, 2).with_columns(process_group=groups)).matrix("step_time", by)
    bins = bin_map(found, MapView(), lines, 40)
    assert [row_label(found, bins, line) for line in range(bins.counts[0])] == wanted


def test_the_cell_under_the_cursor_in_words() -> None:
    data = RankMapData(table(64, 40, slow=37))
    found = data.matrix("step_time", "rank")
    bins = bin_map(found, MapView(), 8, 20)
    assert describe_bins(bins) == "cell: worst of 8 ranks x 2 steps"
    facts = describe_cell(found, MapView(row=33, column=5), bins)
    assert facts == [
        "rank 37",
        "step 14",
        "step time 1.50 s",
        "+50.0 % from the median 1.00 s",
        "node18",
        "worst of the cell",
    ]
    busy = data.matrix("busy", "rank")
    assert describe_cell(busy, MapView(row=37), bin_map(busy, MapView(), 64, 80))[2:] == [
        "busy 50.0 %", "-40 points from the median 90.0 %", "node18",
    ]  # fmt: skip
    late = data.matrix("late", "rank")
    assert describe_cell(late, MapView(row=37), bin_map(late, MapView(), 64, 80))[3] == "+500 ms from the median 0 s"
    none = data.matrix("kernel", "rank")
    assert describe_cell(none, MapView(), bin_map(none, MapView(), 64, 80)) == ["rank 0", "step 10", "no mean kernel"]


def test_the_axis_marks_the_cell_of_the_cursor() -> None:
    found = RankMapData(table(2, 30)).matrix("step_time", "rank")
    bins = bin_map(found, MapView(), 2, 30)
    assert text(draw_axis(found, bins, 6, 4, "v")) == "  step 10  v   18      26      34    "
    assert describe_bins(bins) == ""


@pytest.mark.parametrize("width", [24, 40, 60, 80, 120])
def test_a_legend_fits(width: int) -> None:
    line = draw_legend(RankMapData(table(2, 3)).matrix("late", "rank"), width)
    assert line_width(line) <= max(width, 46)
    assert all(glyph in text(line) for glyph in LEVEL_GLYPHS)


def test_no_room_or_no_value_no_map() -> None:
    assert draw_rank_map(result(table(3, 4)), 0, (20, 12)) == []
    assert draw_rank_map(result(table(3, 4)), 0, (80, 3)) == []
    assert draw_rank_map(result(table(3, 4), value="kernel"), 0, (80, 20)) == []


def test_the_report_has_the_headline_the_map_and_the_worst_ranks() -> None:
    rows = table(64, 4, slow=37)
    cut = replace(result(rows, value="late"), table=rows.head(40), total=rows.height, all_rows=rows)
    lines = [line.text for line in _write_rank_map(cut, ReportStyle(80))]
    assert lines[0] == "Rank map"
    assert any(line.split()[:2] == ["rank", "37"] and "█" in line for line in lines)
    at = next(
        number for number, line in enumerate(lines) if line.startswith("Worst ranks · 2 groups of ranks (64 rows)")
    )
    assert [line.split()[0] for line in lines[at + 3 :]] == ["37", "0-36,"]
    assert max(map(len, lines)) <= 80
    assert SECOND
