"""Charts of results whose rows are parts of something, and of operators on two sides."""

from __future__ import annotations

import polars as pl
import pytest
from rich.cells import cell_len

from tracehound.analysis.result import Column, Result
from tracehound.draw.charts import analysis_charts
from tracehound.draw.glyphs import to_ascii

US = 10**6


def idle(causes: int = 2) -> Result:
    columns = (Column("rank", "count", ""), Column("stream", "text", ""), Column("cause", "text", ""),
               Column("idle", "time", ""))  # fmt: skip
    rows = [(0, "device", f"cause {number}", (causes - number) * US) for number in range(causes)]
    rows += [(1, "stream 7", "cause 1", 5 * US)]
    return Result("idle", "Idle", columns, pl.DataFrame(rows, schema=[c.name for c in columns], orient="row"), 3)


def operators() -> Result:
    names = ("name", "host_self", "device_self")
    rows = [("aten::mm", 10 * US, 40 * US), ("aten::add", 20 * US, 0), ("aten::t", 1 * US, None)]
    columns = (Column("name", "text", ""), Column("host_self", "time", ""), Column("device_self", "time", ""))
    return Result("operators", "Operators", columns, pl.DataFrame(rows, schema=names, orient="row"), 3)


def test_a_stream_is_divided_by_the_causes_of_its_pauses() -> None:
    lines = analysis_charts.draw_chart(idle(), "", 0, (60, 8))
    label = len("rank 1 stream 7")
    assert lines[0] == f"{'rank 0 device':<{label}} " + "█" * 15 + "▓" * 29
    assert lines[1] == f"{'rank 1 stream 7':<{label}} " + "▓" * 44 or lines[1].count("█") == 44
    assert "idle by cause; shares of rank 0 device" in lines[-1]


def test_shares_are_of_the_row_under_the_cursor() -> None:
    assert "100 %" in " ".join(analysis_charts.draw_chart(idle(), "", 2, (60, 8)))
    assert "shares of rank 1 stream 7" in analysis_charts.draw_chart(idle(), "", 2, (60, 8))[-1]


def test_many_parts_share_the_last_sign() -> None:
    lines = analysis_charts.draw_chart(idle(9), "", 0, (60, 12))
    assert ": other" in " ".join(lines)
    assert lines[0].count(":") > 0


def test_operators_are_told_on_both_sides_to_one_scale() -> None:
    lines = analysis_charts.draw_chart(operators(), "", 0, (80, 6))
    assert "self on the host" in lines[0]
    host, device = lines[1].split("us")[1:3]
    assert device.count("█") == pytest.approx(4 * host.count("█"), abs=4)
    assert lines[-1].startswith("self time of operators; the longest bar is 40.0 us")


@pytest.mark.parametrize("result", [idle(), idle(9), operators()])
@pytest.mark.parametrize("size", [(24, 3), (47, 9), (90, 20), (10, 1)])
def test_a_chart_has_the_size_asked_for(result: Result, size: tuple[int, int]) -> None:
    lines = analysis_charts.draw_chart(result, "", 1, size)
    assert len(lines) <= size[1]
    for line in lines:
        assert cell_len(line) == size[0]
        assert to_ascii(line).isascii()
