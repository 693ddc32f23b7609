"""Bars of steps of XLA programs and of devices, divided as their time is."""

from __future__ import annotations

import pytest

from building import Building, Lane, thread
from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.draw.charts.analysis_charts import draw_chart
from tracehound.model.trace import Trace

CORE = Lane("XLA Ops", 0, "ops", work=True)


@pytest.fixture
def traced() -> Trace:
    b = Building(format="xplane")
    for step, length in ((1, 40), (2, 20), (3, 20)):
        start = 50 * step
        b.event(thread(), "train", start, start + length, "step", step=step)
        b.event(thread(), "shard_args", start, start + length // 4, "transfer")
        b.event(CORE, "dot", start + length // 4, start + length // 2, "op")
        b.event(CORE, "all-reduce", start + length // 2, start + length, "collective")
    return b.trace()


def lines(traced: Trace, analysis: str, size: tuple[int, int], **chosen: str) -> list[str]:
    result = run_analysis(get_analysis(analysis), traced, options=Options(given=tuple(chosen.items())))
    return draw_chart(result, "", 0, size)


def test_a_bar_for_each_step(traced: Trace) -> None:
    drawn = lines(traced, "step_time", (56, 5))
    assert [line.rstrip() for line in drawn] == [
        "step 1 " + "█" * 10 + "▓" * 20 + "i" * 10 + " 40.00 us",
        "step 2 " + "█" * 5 + "▓" * 10 + "i" * 5 + " " * 20 + " 20.00 us",
        "step 3 " + "█" * 5 + "▓" * 10 + "i" * 5 + " " * 20 + " 20.00 us",
        "█ compute  ▓ collectives  i input",
    ]


def test_a_bar_for_each_rank_is_its_average_step(traced: Trace) -> None:
    drawn = lines(traced, "step_time", (60, 5), by="rank")
    assert drawn[0].startswith("rank 0 █")
    assert drawn[0].rstrip().endswith("26.67 us")


def test_a_bar_for_each_device(traced: Trace) -> None:
    bar, legend = lines(traced, "duty_cycle", (60, 3))
    assert bar.startswith("rank 0 █")
    assert bar.rstrip().endswith("110.0 us")
    assert legend.rstrip() == "█ compute  ▓ collectives  ∙ idle"


def test_nothing_is_drawn_without_room_or_rows(traced: Trace) -> None:
    assert lines(traced, "duty_cycle", (20, 3)) == []
    assert lines(Building(format="xplane").trace(), "step_time", (80, 5)) == []
