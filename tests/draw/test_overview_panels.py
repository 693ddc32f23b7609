"""The parts of the overview: what they say in how little room, and where they stand."""

from __future__ import annotations

import polars as pl
import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from results import every_unit
from tracehound.analysis import findings
from tracehound.analysis.breakdown import WORK_IN_PART_OF_RECORDING
from tracehound.analysis.result import Column, Result, empty_table
from tracehound.draw import overview_panels
from tracehound.draw.charts.analysis_charts import BREAKDOWN_GLYPHS
from tracehound.draw.overview_panels import PanelArea, distribute_height, place_panels
from tracehound.model.notes import note, text_note

MS = 10**9


def text(said: overview_panels.OverviewPanel) -> list[str]:
    return ["".join(piece for piece, _ in line).rstrip() for line in said.lines]


def steps(*lengths: int, inferred: bool = False) -> Result:
    names = {"step": "count", "duration": "time", "partial": "flag", "inferred": "flag"}
    columns = tuple(Column(name, unit, "") for name, unit in names.items())
    rows = [(step, length * MS, False, inferred) for step, length in enumerate(lengths)]
    table = pl.DataFrame(rows, schema=list(names), orient="row")
    return Result("steps", "Steps", columns, table, table.height)


def breakdown(*idle: float) -> Result:
    names = [f"{name}_share" for name in BREAKDOWN_GLYPHS]
    columns = (Column("rank", "count", ""), Column("span", "time", ""), *(Column(name, "share", "") for name in names))
    rows = [(rank, 100 * MS, 1 - part, 0.0, 0.0, part) for rank, part in enumerate(idle)]
    table = pl.DataFrame(rows, schema=["rank", "span", *names], orient="row")
    return Result("breakdown", "Breakdown", columns, table, table.height)


def health(*rows: tuple[str, int, str]) -> Result:
    columns = (Column("level", "text", ""), Column("count", "count", ""), Column("what", "text", ""))
    table = pl.DataFrame(list(rows), schema=["level", "count", "what"], orient="row")
    return Result("health", "Health", columns, table, table.height, () if rows else (text_note("nothing to report"),))


def test_steps_are_columns_and_the_slow_ones_stand_out() -> None:
    said = overview_panels.draw_panel(steps(10, 10, 30, 10), 44, 4)
    assert said.note == "4, median 10.0 ms"
    assert text(said)[-1] == "longest 30.0 ms: step 2, steps 0 to 3"
    sorts = [sort for piece, sort in said.lines[2] if piece.strip()]
    assert sorts == ["dim", "bar", "bar", "slow", "bar"], "the axis, then the steps"
    assert [line.count("█") for line in text(said)[:3]] == [7, 7, 28], "the others are a third as high"
    assert [line.split("│")[0].strip() for line in text(said)[:3]] == ["30.00 ms", "", "0"]


def test_steps_that_are_nearly_equal_are_no_wall() -> None:
    near = [1000, 1004, 1001, 1003, 1002]
    said = text(overview_panels.draw_panel(steps(*near), 60, 7))
    assert said[0].startswith(" 1.004 s│")
    assert said[5].startswith("999.0 ms│"), "a quarter of the spread below the shortest, and said to be so"
    tops = [len([line for line in said[:6] if line[9 + 8 * at : 10 + 8 * at].strip()]) for at in range(5)]
    assert tops == [2, 6, 3, 5, 4], "as high as they last"
    closer = text(overview_panels.draw_panel(_scaled(steps(10_000, 10_001), 1000), 60, 7))
    assert [line.split("│")[0].strip() for line in (closer[0], closer[5])] == ["10.00 ms", "0"], "as good as equal"


def _scaled(result: Result, by: int) -> Result:
    return replace(result, table=result.table.with_columns(pl.col("duration") // by))


def test_one_step_of_several_ranks_has_a_column_for_each() -> None:
    one = steps(12, 15, 30, 18)
    ranks = one.table.with_columns(step=pl.lit(10), rank=pl.int_range(4))
    said = overview_panels.draw_panel(replace(one, table=ranks), 60, 5)
    assert said.note == "step 10 on 4 ranks"
    assert text(said)[-1] == "12.0 ms (rank 0) to 30.0 ms (rank 2), median 16.5 ms"
    assert [sort for piece, sort in said.lines[3] if piece.strip()] == ["dim", "bar", "bar", "slow", "bar"]


def test_steps_of_several_ranks_are_those_of_the_slowest() -> None:
    one = steps(10, 20, 30)
    said = overview_panels.draw_panel(replace(one, table=pl.concat([one.table, steps(40, 10, 10).table])), 44, 4)
    assert said.note == "3, median 15.0 ms", "of all ranks, as the summary has it"
    wide = overview_panels.draw_panel(replace(one, table=pl.concat([one.table, steps(40, 10, 10).table])), 80, 4)
    assert text(wide)[-1] == "longest 40.0 ms: step 0, steps 0 to 2, each on its slowest rank"


def test_partial_steps_are_not_among_them() -> None:
    every = steps(5, 10, 12, 90)
    edges = every.table.with_columns(partial=pl.col("step").is_in([0, 3]))
    said = overview_panels.draw_panel(replace(every, table=edges), 44, 4)
    assert said.note == "2 whole, median 11.0 ms"
    assert text(said)[-1] == "longest 12.0 ms: step 2, steps 1 to 2"
    said = overview_panels.draw_panel(replace(every, table=edges.filter("partial")), 44, 4)
    assert said.note == "2, median 47.5 ms", "where there are no others"


def test_of_many_steps_the_slow_one_is_never_lost() -> None:
    said = overview_panels.draw_panel(steps(*[10] * 500, 90, *[10] * 499), 40, 5)
    slow = [piece for line in said.lines[:-1] for piece, sort in line if sort == "slow"]
    assert "█" in slow
    assert "step 500" in text(said)[-1]


def test_steps_that_are_inferred_are_said_to_be() -> None:
    said = text(overview_panels.draw_panel(steps(10, 10, inferred=True), 44, 4))
    assert said[-1].startswith("longest 10.0 ms: step 0 (inferred)")


def test_a_breakdown_says_that_devices_work_in_little_of_the_recording() -> None:
    words = "device work spans 1.00 ms of 9.00 ms recorded (11.1 %)"
    of_work = note(WORK_IN_PART_OF_RECORDING, worked=MS, recorded=9 * MS)
    result = replace(breakdown(0.5, 0.25), notes=(text_note("all together: idle"), of_work))
    assert overview_panels.count_wanted_lines(result) == 5
    assert text(overview_panels.draw_panel(result, 80, 5))[-1] == words
    assert len(overview_panels.draw_panel(result, 80, 5).lines) == 5
    assert words not in text(overview_panels.draw_panel(result, 80, 3)), "the bars come first"


def test_a_breakdown_has_a_bar_for_each_rank_and_one_for_all() -> None:
    said = overview_panels.draw_panel(breakdown(0.5, 0.25), 60, 6)
    assert [line.split()[:1] for line in text(said)[:3]] == [["all"], ["rank"], ["rank"]]
    assert text(said)[0].endswith("62.5 % busy")
    assert text(said)[1].endswith("50.0 % busy")
    assert "█comp 62 " in text(said)[-1]


def test_of_many_ranks_those_that_idle_most_are_shown() -> None:
    said = overview_panels.draw_panel(breakdown(*[0.1] * 40, 0.9, *[0.1] * 23), 39, 4)
    assert said.note == "% of first to last work, idlest of 64 ranks"
    windowed = overview_panels.draw_panel(breakdown(0.5), 39, 4, windowed=True)
    assert windowed.note == "% of it", "the window, which the title names"
    assert text(said)[0].startswith("all")
    assert text(said)[1].startswith("rank 40")
    assert len(said.lines) == 4


def test_a_single_rank_is_not_summed_up() -> None:
    said = overview_panels.draw_panel(breakdown(0.5), 39, 4)
    assert [line.split()[0] for line in text(said)] == ["rank", "█comp"]


def test_health_tells_the_worst_first_and_counts_what_is_no_problem() -> None:
    infos = [("info", 700, f"flow events {number}") for number in range(8)]
    rows = health(
        ("dropped", 3, "events without a time, which no lane can show at all"), ("missing", 1, "shapes"), *infos
    )
    assert overview_panels.count_wanted_lines(rows) == 5, "two lines for each problem"
    said = overview_panels.draw_panel(rows, 30, 6)
    assert text(said)[0] == "dropped  3: events without a"
    assert said.lines[0][0][1] == "bad"
    assert text(said)[-2:] == ["missing  shapes", "8 infos"]
    cut = overview_panels.draw_panel(rows, 30, 2)
    assert cut.note == "1 more"
    assert text(cut)[1:] == ["8 infos"]
    well = text(overview_panels.draw_panel(health(*infos), 40, 6))
    assert well == ["nothing dropped, repaired or missing", "8 infos"]


@pytest.mark.parametrize("width", [24, 40, 60])
def test_ops_that_differ_in_their_templates_can_be_told_apart(width: int) -> None:
    name = "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, {}, true, 1>(float, float)"
    rows = [(name.format(size), share, 1) for size, share in ((128, 0.4), (32, 0.3))]
    columns = (Column("name", "text", ""), Column("share", "share", ""), Column("self", "time", ""))
    table = pl.DataFrame(rows, schema=["name", "share", "self"], orient="row")
    first, second = text(overview_panels.draw_panel(Result("ops", "Ops", columns, table, 2), width, 4))
    assert ("<128>" in first, "<32>" in second) == (True, True)
    if width == 60:
        assert first.count("█") == 6, "40 % of 15"


def test_what_is_empty_says_why() -> None:
    assert text(overview_panels.draw_panel(health(), 40, 3)) == ["nothing to report"]


def test_shares_of_findings_say_of_what_they_are() -> None:
    def told(*bases: str) -> tuple[str, list[str]]:
        table = pl.DataFrame(
            [{"finding": f"slow {at}", "share": 0.5, "share_of": base} for at, base in enumerate(bases)]
        )
        columns = findings.COLUMNS
        result = Result(
            "findings", "Findings", columns, pl.concat([empty_table(columns), table], how="diagonal"), len(bases)
        )
        said = overview_panels.draw_panel(result, 60, len(bases))
        return said.note, [line.strip() for line in text(said)]

    assert told("step", "step") == ("% of step time", ["50.0 % slow 0", "50.0 % slow 1"])
    assert told("step", "recording") == (
        "% of step time",
        ["50.0 % slow 0", "50.0 % slow 1 (of the recording)"],
    )


def test_the_first_finding_has_its_whole_title() -> None:
    titles = ("communication is not hidden behind computation", "the device runs dry", "steps vary")
    table = pl.DataFrame([{"finding": title, "share": 0.5, "share_of": "step"} for title in titles])
    columns = findings.COLUMNS
    result = Result("findings", "Findings", columns, pl.concat([empty_table(columns), table], how="diagonal"), 3)
    said = overview_panels.draw_panel(result, 38, 3)
    assert text(said) == [
        "  50.0 % communication is not hidden",
        "         behind computation",
        "  50.0 % the device runs dry",
    ]
    assert {sort for line in said.lines[:2] for piece, sort in line if piece.strip()} == {"strong", "headline"}
    assert said.note == "% of step time, 1 more"
    evidence = replace(result, table=result.table.with_columns(evidence=pl.lit("measured in 4 of 4 steps")))
    assert text(overview_panels.draw_panel(evidence, 38, 5))[2:] == [
        "         measured in 4 of 4 steps",
        "  50.0 % the device runs dry",
        "  50.0 % steps vary",
    ], "titles come before evidence"
    assert overview_panels.draw_panel(evidence, 38, 2).note == "% of step time, 2 more"


def test_findings_that_begin_alike_stay_different_where_they_are_cut() -> None:
    ways = ("from host to HBM", "from HBM to host")
    table = pl.DataFrame([{"finding": f"the device waits for copies {way}", "share": 0.5} for way in ways])
    columns = findings.COLUMNS
    result = Result("findings", "Findings", columns, pl.concat([empty_table(columns), table], how="diagonal"), 2)
    first, second = text(overview_panels.draw_panel(result, 34, 2))
    assert first != second
    assert max(map(cell_len, (first, second))) <= 34


@pytest.mark.parametrize(
    "result",
    [steps(5, 7), breakdown(0.2, 0.4, 0.1), health(("info", 1, "é" * 90)), replace(every_unit(), analysis="other")],
)
@pytest.mark.parametrize("size", [(29, 0), (12, 1), (24, 3), (39, 4), (90, 20)])
def test_no_part_is_larger_than_asked_for(result: Result, size: tuple[int, int]) -> None:
    said = overview_panels.draw_panel(result, *size)
    assert len(said.lines) <= size[1]
    for line in text(said):
        assert cell_len(line) <= size[0]
        assert line.isprintable()


WISHES = {"findings": 4, "breakdown": 3, "steps": 12, "ops": 70, "health": 2}


@pytest.mark.parametrize(("width", "columns"), [(50, 1), (79, 2), (142, 3)])
def test_parts_stand_in_as_many_columns_as_fit(width: int, columns: int) -> None:
    places = place_panels(WISHES, width, 30)
    assert len({place.left for place in places}) == columns
    assert {place.part for place in places} == set(WISHES)


@pytest.mark.parametrize("height", [1, 3, 7, 10, 22, 60])
@pytest.mark.parametrize("width", [20, 79, 142, 300])
def test_parts_never_overlap_nor_leave_the_screen(width: int, height: int) -> None:
    places = place_panels(WISHES, width, height)
    cells = [(x, y) for each in places for x in (each.left, each.left + each.width - 1) for y in _lines(each)]
    assert len(set(cells)) == len(cells)
    assert all(0 <= x < width and 0 <= y < height for x, y in cells)


def _lines(place: PanelArea) -> range:
    return range(place.top, place.top + place.height)


def test_room_goes_to_those_that_want_it() -> None:
    assert distribute_height([3, 20, 5], 20) == [3, 12, 5]
    assert distribute_height([3, 4], 20) == [3, 4]
    assert distribute_height([9, 9], 6) == [3, 3]
    assert distribute_height([9, 2], 9) == [7, 2], "none has more than it wants"


def test_findings_have_evidence_and_advice_in_full_where_both_fit() -> None:
    columns = findings.COLUMNS
    evidence, advice = "24 gaps, the longest 19.2 ms on rank 2 " * 3, "use larger batches " * 4
    row = {"finding": "slow", "share": 0.5, "evidence": evidence.strip(), "advice": advice.strip()}
    table = pl.concat([empty_table(columns), pl.DataFrame([row])], how="diagonal")
    result = Result("findings", "Findings", columns, table, 1)
    shown = " ".join(" ".join(text(overview_panels.draw_panel(result, 38, 12))).split())
    assert shown == f"50.0 % slow {evidence.strip()} advice: {advice.strip()}"
    less = text(overview_panels.draw_panel(result, 38, 6))
    assert len(less) == 6
    assert less[3].endswith("…"), "no more than three lines of evidence, so that the advice begins"
    assert less[4].strip().startswith("advice: use")
