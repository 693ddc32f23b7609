"""Bars of the amount that answers a table's question."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from rich.cells import cell_len

from tracehound.analysis import ANALYSES, get_analysis
from tracehound.analysis.result import Column, Result, empty_table
from tracehound.diff import comparison_tables as compared
from tracehound.draw.charts import analysis_charts, bar_charts
from tracehound.draw.charts.bar_charts import LESS_GLYPH, MORE_GLYPH
from tracehound.draw.charts.stacked_bars import ROW_PART_GLYPHS, draw_stacked_bars
from tracehound.draw.glyphs import to_ascii

MS = 10**9


def result(analysis: str, rows: list[dict[str, object]]) -> Result:
    """Rows of an analysis of which only some columns are known."""
    columns = get_analysis(analysis).columns
    schema = empty_table(columns).schema
    return Result(analysis, analysis, columns, pl.DataFrame(rows, schema=schema), len(rows))


def test_what_is_drawn_is_declared_of_columns_that_there_are() -> None:
    declared = {analysis.name: analysis.columns for analysis in ANALYSES}
    declared |= {
        "diff": compared.STEP_COLUMNS, "diff-ops": compared.OP_COLUMNS, "diff-categories": compared.CATEGORY_COLUMNS,
        "diff-causes": compared.CAUSE_COLUMNS, "diff-marks": compared.ANNOTATION_COLUMNS,
        "diff-memory": compared.MEMORY_COLUMNS, "diff-counters": compared.COUNTER_COLUMNS,
    }  # fmt: skip
    for analysis, names in [
        *bar_charts.ANSWER_COLUMNS.items(),
        *((name, tuple(parts)) for name, parts in ROW_PART_GLYPHS.items()),
    ]:
        assert {*names} <= {column.name for column in declared[analysis]}, analysis


@pytest.mark.parametrize(
    ("analysis", "row", "drawn"),
    [
        ("hlo_memory", {"program": "jit_f", "ranks": 4, "peak": 3 << 30}, "peak: most"),
        ("hlo_buffers", {"program": "jit_f", "buffer": "p", "bytes": 3 << 30}, "bytes: that it takes"),
        ("memory_operators", {"operator": "aten::mm", "count": 9, "self_allocation_size": 8}, "self allocation size"),
        ("memory_blocks", {"operator": "aten::mm", "size": 9, "duration": MS}, "size"),
        ("bandwidth", {"kind": "HtoD", "bytes": 9, "mean": 1e9}, "mean: bytes / busy"),
        ("operator_roofline", {"name": "aten::mm", "device_time": 9, "efficiency": 0.5}, "efficiency"),
        ("operator_roofline", {"name": "aten::mm", "device_time": 9, "rate": 1e9}, "rate"),
        ("collective_calls", {"number": 0, "name": "nccl", "duration": MS, "late": 7}, "late"),
        ("clocks", {"rank": 0, "shift": -7, "exact": 9}, "shift"),
        ("overview", {"rank": 0, "lanes": 2, "events": 9}, "events"),
        ("overview", {"rank": 0, "lanes": 0, "events": 0, "host_events": 9}, "host events"),
        ("transfers", {"rank": 0, "source": "host", "in_flight": MS, "rate": 1e9}, "rate"),
        ("gaps", {"rank": 0, "start": 0, "duration": MS}, "duration"),
    ],
)
def test_the_column_that_answers_is_drawn(analysis: str, row: dict[str, object], drawn: str) -> None:
    lines = analysis_charts.draw_chart(result(analysis, [row]), "", 0, (78, 8))
    assert len(lines) == 2
    assert lines[-1].startswith(drawn)


def test_a_column_that_was_chosen_is_drawn() -> None:
    memory = result("hlo_memory", [{"program": "jit_f", "ranks": 4, "peak": 3 << 30}])
    assert analysis_charts.draw_chart(memory, "ranks", 0, (78, 8))[-1].startswith("ranks")
    hidden = result("overlap", [{"rank": 0, "second": MS, "exposed": MS, "both": MS}])
    assert analysis_charts.draw_chart(hidden, "second", 0, (78, 8))[-1].startswith("second")
    assert analysis_charts.draw_chart(hidden, "rank", 0, (78, 8))[-1].startswith("█ exposed  ░ hidden"), (
        "a rank is no amount"
    )


def test_differences_go_both_ways_from_the_middle() -> None:
    columns = (Column("part", "text", ""), Column("base", "time", ""), Column("change", "difference", "other - base"))
    rows = [("kernel", 9, 40 * MS), ("copy", 9, -20 * MS), ("idle", 9, 0), ("other", 9, None)]
    table = pl.DataFrame(rows, schema=[column.name for column in columns], orient="row")
    lines = analysis_charts.draw_chart(Result("diff", "Step", columns, table, 4), "", 0, (60, 8))
    more, less, none, unknown = lines[:4]
    assert more.index("│") == less.index("│") == none.index("│")
    assert more.count(MORE_GLYPH) == pytest.approx(2 * less.count(LESS_GLYPH), abs=1)
    assert less.index(LESS_GLYPH) < less.index("│") < more.index(MORE_GLYPH)
    assert not {MORE_GLYPH, LESS_GLYPH} & {*none, *unknown}
    assert {cell_len(line) for line in lines} == {60}
    assert all(to_ascii(line).isascii() for line in lines)


def test_the_bar_of_a_share_is_of_all_that_it_is_a_share_of() -> None:
    columns = (Column("name", "text", ""), Column("self", "time", ""), Column("share", "share", "part", "device time"))
    table = pl.DataFrame({"name": ["a", "b"], "self": [30, 10], "share": [0.3, 0.1]})
    known = Result("ops", "Ops", columns, table, 2)
    first, second, note = analysis_charts.draw_chart(known, "share", 0, (60, 8))
    room = 60 - len("a ") - len(" 30.00 %")
    assert (first.count("█"), second.count("█")) == (int(0.3 * room), int(0.1 * room))
    assert note.rstrip() == "share (full bar 100.00 %): part, of device time"
    longest, _, note = analysis_charts.draw_chart(known, "self", 0, (60, 8))
    assert longest.count("█") == 60 - len("a ") - len(" 30 ps"), "of times the longest one"
    assert note.rstrip() == "self"
    beyond = Result("ops", "Ops", columns, table.with_columns(pl.col("share") * 5), 2)
    first, *_, note = analysis_charts.draw_chart(beyond, "share", 0, (60, 8))
    assert note.startswith("share (full bar 150.00 %)")
    assert first.count("█") == 60 - len("a ") - len(" 150.00 %")


def test_nothing_to_draw_is_said_in_one_line() -> None:
    said = analysis_charts.draw_chart(result("hlo_memory", [{"program": "jit_f", "peak": 0}]), "", 0, (78, 8))
    assert [line.rstrip() for line in said] == ["nothing to draw: peak is 0 in every row"]
    words = Result("query", "Query", (Column("a", "text", ""),), pl.DataFrame({"a": ["b"]}), 1)
    assert analysis_charts.draw_chart(words, "", 0, (78, 8))[0].rstrip() == "nothing to draw: no column holds amounts"


def test_parts_of_a_row_stand_in_its_bar() -> None:
    rows = [{"rank": n, "computation": 4 * MS, "overlap": 2 * MS, "communication": MS, "other": MS} for n in (0, 1)]
    lines = analysis_charts.draw_chart(result("distributed", rows), "", 0, (78, 8))
    bar = lines[0].removeprefix("rank 0 ").removesuffix(" 8.000 ms")
    assert [bar.count(glyph) for glyph in "█▒▓∙"] == pytest.approx(
        [len(bar) / 2, *[len(bar) / n for n in (4, 8, 8)]], abs=1
    )
    assert lines[1].startswith("rank 1 ")
    assert lines[-1].split("  ")[:4] == ["█ computation", "▒ overlap", "▓ exposed communication", "∙ other"]


def test_a_queue_is_as_long_as_it_ever_was() -> None:
    rows = [
        {"rank": 0, "stream": f"stream {n}", "span": MS, "mean": 2.5, "p50": n, "p99": 2 * n, "max": 4 * n}
        for n in (4, 8)
    ]
    short, long, legend = analysis_charts.draw_chart(result("queue", rows), "", 0, (78, 8))
    assert short.rstrip().endswith("mean 2.50, max 16")
    assert long.count("█") == pytest.approx(2 * short.count("█"), abs=1)
    assert long.count("░") == pytest.approx(2 * long.count("█"), abs=1)
    assert legend.split("  ")[:3] == ["█ p50", "▒ to p99", "░ to max"]


def test_a_heap_is_a_curve_of_what_it_holds_from_0() -> None:
    rows = [
        {"program": program, "space": "device", "position": n, "held": held << 20}
        for program in ("jit_f", "jit_g")
        for n, held in enumerate((8, 9, 8, 9) if program == "jit_f" else (1, 64))
    ]
    heap = result("hlo_heap", rows)
    lines = analysis_charts.draw_chart(heap, "", 0, (78, 10))
    assert lines[0].startswith("9.00 MiB")
    assert lines[-4].startswith("     0 B")
    assert lines[-1].startswith("jit_f device, bytes held")
    assert "held: " in analysis_charts.draw_chart(heap, "", 5, (78, 10))[-1], "two points are rather bars"


def test_a_legend_is_on_as_many_lines_as_it_takes_and_there_is_room_for() -> None:
    glyphs = dict(zip(("one part", "another one", "the third", "rest"), "█▓░∙", strict=True))
    names, parts = [f"step {n}" for n in range(9)], np.full((9, 4), MS)
    *_, first, second = draw_stacked_bars(names, parts, glyphs, 0, (40, 9))
    assert (first.rstrip(), second.rstrip()) == ("█ one part  ▓ another one  ░ the third", "∙ rest  2 more")
    assert draw_stacked_bars(names, parts, glyphs, 0, (40, 4))[-1].rstrip() == "█ one part  ▓ another one  …  6 more"
    assert all(cell_len(line) == 40 for line in draw_stacked_bars(names, parts, glyphs, 0, (40, 9)))
