"""Charts over time, and bars that are divided: their size, their words, and what they leave out."""

from __future__ import annotations

import pytest

from building import US, Building, stream, thread
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.draw.charts.analysis_charts import draw_chart


def steps(count: int = 4, ranks: int = 1, **given: str) -> Result:
    """Steps of 100 us: half of it a kernel, the rest an operator."""
    b = Building()
    for number in range(count):
        b.event(thread(), f"ProfilerStep#{number}", 100 * number, 100 * number + 100, "step", step=number)
        b.event(thread(), "aten::mm", 100 * number, 100 * number + 100, "op")
        for rank in range(ranks):
            b.event(stream(rank), "k", 100 * number, 100 * number + 50)
    return run_analysis(get_analysis("step_parts"), b.trace(), options=Options(given=tuple(given.items())))


def test_a_step_is_a_bar_of_its_parts() -> None:
    lines = draw_chart(steps(), "duration", 0, (60, 10))
    assert len(lines) == 5
    assert {len(line) for line in lines} == {60}
    bar = lines[0].removeprefix("step 0 ").removesuffix(" 100.0 us")
    assert bar == "█" * (len(bar) // 2) + "c" * (len(bar) - len(bar) // 2)
    assert lines[-1].split() == ["█", "kernel", "c", "cpu"]


def test_bars_that_do_not_fit_are_counted_and_the_cursor_is_among_the_others() -> None:
    lines = draw_chart(steps(20), "duration", 15, (60, 5))
    assert len(lines) == 5
    assert any(line.startswith("step 15 ") for line in lines)
    assert lines[-1].rstrip().endswith("16 more")


def test_ranks_are_told_apart() -> None:
    assert [line[:14] for line in draw_chart(steps(1, 2), "duration", 0, (60, 5))[:2]] == [
        "step 0 rank 0 ",
        "step 0 rank 1 ",
    ]
    averages = draw_chart(steps(3, 2, by="part"), "mean", 0, (60, 5))
    assert [line[:7] for line in averages[:2]] == ["rank 0 ", "rank 1 "]


@pytest.mark.parametrize("size", [(10, 10), (60, 1), (0, 0)])
def test_without_room_there_is_no_chart(size: tuple[int, int]) -> None:
    assert draw_chart(steps(), "duration", 0, size) == []


def curve(**launched: float) -> Result:
    b = Building()
    for number in range(50):
        b.event(stream(), "k", 10 * number, 10 * number + (2 if number < 25 else 10), record=number)
        b.facets.setdefault("launched", []).append({"record": number, **launched})
    return run_analysis(get_analysis("utilization_curve"), b.trace())


def test_a_curve_has_times_shares_and_its_average() -> None:
    lines = draw_chart(curve(), "utilization", 0, (70, 12))
    assert len(lines) == 12
    assert {len(line) for line in lines} == {70}
    assert lines[0].startswith("100 %")
    assert "500.0" in lines[-2]
    assert lines[-1].rstrip() == "rank 0: kernels run, 60.0 % on average"


def test_with_room_the_multiprocessors_stand_below() -> None:
    lines = draw_chart(curve(blocks_per_sm=0.5), "utilization", 0, (70, 20))
    assert len(lines) == 20
    assert lines[9].startswith("rank 0: kernels run")
    assert lines[-1].rstrip() == "rank 0: multiprocessors taken, 30.0 % on average"


def test_a_single_stretch_is_no_curve() -> None:
    b = Building()
    b.event(stream(), "k", 0, 1)
    assert not any(
        "┤" in line
        for line in draw_chart(run_analysis(get_analysis("utilization_curve"), b.trace()), "utilization", 0, (70, 12))
    )


def test_memory_is_drawn_for_the_device_under_the_cursor() -> None:
    b = Building()
    b.event(stream(), "k", 0, 100)
    b.facets["allocated"] = [
        {"record": n, "time": n * US, "device": n % 2 - 1, "bytes": 8, "allocated": 1024 * n, "reserved": 99 * (n % 2)}
        for n in range(40)
    ]
    result = run_analysis(get_analysis("memory_curve"), b.trace())
    assert (
        "CPU: memory allocated, 38.0 KiB at most"
        in draw_chart(result, "allocated", result.table.height - 1, (70, 12))[-1]
    )
    lines = draw_chart(result, "allocated", 0, (70, 20))
    assert lines[-1].rstrip() == "rank 0, GPU 0: memory reserved, 99 B at most"
    assert {len(line) for line in lines} == {70}


@pytest.mark.parametrize(("least", "foot", "told"), [(1, "   0 B", ""), (900, " 900 B", ", scale from 900 B, not 0")])
def test_memory_begins_at_0_or_it_is_told(least: int, foot: str, told: str) -> None:
    b = Building()
    b.event(stream(), "k", 0, 100)
    b.facets["allocated"] = [
        {"record": n, "time": n * US, "device": 0, "bytes": 8, "allocated": size, "reserved": 0}
        for n, size in enumerate((least, 1000, least, 1000))
    ]
    lines = draw_chart(run_analysis(get_analysis("memory_curve"), b.trace()), "allocated", 0, (78, 12))
    assert lines[-4].startswith(f"{foot}┤")
    assert lines[-1].rstrip() == f"rank 0, GPU 0: memory allocated{told}, 1000 B at most"
