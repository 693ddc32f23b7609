"""The page that sums a trace up."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from building import Building, stream, thread
from results import plain
from short import first
from tracehound.analysis import get_analysis, run_analysis
from tracehound.analysis.result import Result, empty_table
from tracehound.draw.notes import note_text
from tracehound.draw.text_table import TextLine
from tracehound.model.file_facts import FileFacts
from tracehound.model.notes import Note, note
from tracehound.model.trace import FileState, Window
from tracehound.report import ReportStyle, Summary, build_header, find_writer, summarize_trace
from tracehound.report.readable_summary import readable_results
from tracehound.report.summary_page import SUMMARY_ROWS, summarize_steps
from tracehound.store import merge_file_frames
from tracehound.store.merge_files import not_one_run_note
from tracehound.store.trace_files import TWIN_JSON_SKIPPED


def built() -> Building:
    b = Building(
        "job\x1b[2J",
        wall_ns=1_700_000_000_000_000_000,
        facts=FileFacts(versions={"cuda_runtime_version": "12040"}),
        notes=(Note("repaired", "text", 3, "built.json", "byte 1,024", (("text", "a \x1b bad event"),)),),
    )
    b.event(stream(), "gemm_with_a_name_that_is_far_too_long_for_any_table_of_eighty_columns", 0, 60)
    b.event(stream(), "ncclDevKernel_AllReduce", 60, 80, "collective")
    b.event(stream(), "Memcpy HtoD", 90, 95, "copy")
    b.event(stream(), "gemm", 95, 100)
    b.event(thread(), "aten::mm", 0, 85, "op")
    b.event(thread(), "aten::copy_", 85, 100, "op")
    return b


@cache
def page(top: int | None = None) -> Summary:
    return summarize_trace(built().trace(), Window(), top)


def lines(look: ReportStyle) -> list[TextLine]:
    return list(find_writer("text").write_summary(page(), look))


def test_the_page_asks_its_questions_in_order() -> None:
    assert [result.analysis for result in page().results] == list(SUMMARY_ROWS)


def test_the_page_shows_no_more_rows_than_asked_for() -> None:
    assert all(result.table.height <= 1 for result in page(top=1).results)
    (ops,) = [result for result in page(top=1).results if result.analysis == "ops"]
    assert ops.shown_rows_text == "1 of 4 rows"


def test_the_page_says_what_helps_against_what_it_found() -> None:
    b = Building()
    b.event(thread(), "ProfilerStep#1", 0, 100, "step", step=1)
    b.event(thread(), "aten::mm", 0, 90, "op", correlation=1)
    b.event(stream(), "gemm", 90, 95, correlation=1)
    shown = [
        line.text.strip()
        for line in find_writer("text").write_summary(summarize_trace(b.trace(), Window()), ReportStyle(80))
    ]
    assert any(line.startswith("advice ") for line in shown)


def test_the_page_leaves_out_what_there_is_not() -> None:
    b = Building()
    b.event(stream(), "gemm", 0, 1)
    names = [result.analysis for result in summarize_trace(b.trace(), Window()).results]
    assert "collectives" not in names
    assert "gaps" in names


@pytest.mark.parametrize("width", first(2, (40, 120, 80, 200)))
def test_the_page_fits_its_width(width: int) -> None:
    assert max(cell_len(line.text) for line in lines(ReportStyle(width))) <= width
    assert all(line.text.isprintable() for line in lines(ReportStyle(width)))


def test_the_page_says_what_the_trace_is() -> None:
    text = [line.text for line in lines(ReportStyle(80))]
    assert text[0] == "job␛[2J"
    assert text[1] == "kineto, 1 file, 0 B · 1 host · 1 rank · 100 us long"
    assert text[2] == "recorded 2023-11-14 22:13:20 UTC"
    assert text[3] == "cuda runtime 12040"


def test_the_page_says_by_what_files_were_joined() -> None:
    parts = []
    for name, wall in (("a.json", 0), ("b.json", 3_600_000_000_000)):
        b = Building(path=Path(name), wall_ns=wall)
        b.event(stream(), "gemm", 0, 1)
        parts.append(b.part())
    trace = merge_file_frames("job", parts)
    text = [line.text for line in find_writer("text").write_summary(summarize_trace(trace, Window()), ReportStyle(80))]
    assert "the files do not overlap in time: each is shown from its own first event" in text
    assert not any(line.startswith("2 kineto files") for line in text), "the heading has said that"


@pytest.mark.parametrize(
    ("wall", "models", "claims", "why"),
    first(
        3,
        (
            (0, ("H100", "MI300X"), (0, 1), ""),
            (0, ("H100", "MI300X"), (None, None), "the files are of different devices"),
            (3600, ("H100", "MI300X"), (None, 1), "the files do not overlap in time, and their devices differ"),
            (0, ("H100", "H100"), (None, None), ""),
            (3600, ("H100", "H100"), (0, 1), ""),
            (3600, ("H100", "H100"), (None, None), "the files do not overlap in time"),
        ),
    ),
)
def test_files_that_are_hardly_of_one_run_are_told_of_on_top(
    wall: int, models: tuple[str, str], claims: tuple[int | None, int | None], why: str
) -> None:
    parts = []
    for at, (model, claim) in enumerate(zip(models, claims, strict=True)):
        b = Building(path=Path(f"{'ab'[at]}.json"), wall_ns=at * wall * 10**9, claim=claim)
        b.event(stream(), "gemm", 0, 1)
        made = b.part()
        parts.append(made.with_frames(ranks=made.ranks.with_columns(model=pl.lit(model))))
    trace = merge_file_frames("job", parts)
    page = summarize_trace(trace, Window())
    text = [line.text for line in find_writer("text").write_summary(page, ReportStyle(400))]
    told = f"probably not one run: {why}; all numbers"
    assert text[1].startswith(told if why else "kineto, 2 files")
    marked = [line.text for line in find_writer("markdown").write_summary(page, ReportStyle(400))]
    assert [sum("probably not one run" in line for line in form) for form in (text, marked)] == [bool(why)] * 2
    document = json.loads("".join(line.text for line in find_writer("json").write_summary(page, ReportStyle(400))))
    notes = next(iter(document["results"].values()))["notes"]
    assert notes[0].startswith(told) if why else not any("not one run" in note for note in notes)
    assert build_header(trace, Window(ranks=(0,))).doubt is None
    assert build_header(trace, Window(ranks=(0, 1))).doubt == build_header(trace, Window()).doubt


def test_only_those_of_the_files_that_are_looked_at_are_told_of() -> None:
    parts = []
    for at, (wall, model, claim) in enumerate([(0, "A", None), (0, "A", None), (3600, "A", 7), (3600, "B", 8)]):
        b = Building(path=Path(f"{at}.json"), wall_ns=wall * 10**9, claim=claim)
        b.event(stream(), "gemm", 0, 1)
        made = b.part()
        parts.append(made.with_frames(ranks=made.ranks.with_columns(model=pl.lit(model))))
    trace = merge_file_frames("job", parts)
    assert not_one_run_note(trace) == note("hardly_one_run", apart=True, unlike=True)
    assert not_one_run_note(trace, (0, 7)) == note("hardly_one_run", apart=True, unlike=False)
    assert not_one_run_note(trace, (0, 1)) is None, "these overlap"
    assert not_one_run_note(trace, (7, 8)) is None, "these have ranks"


def test_a_file_has_the_size_that_it_had_when_it_was_read() -> None:
    b = Building(path=Path("gone.json"))
    b.event(stream(), "gemm", 0, 1)
    read, noted = b.part(), replace(b.part(), state=FileState(1234, 5))
    assert [file.size for file in build_header(merge_file_frames("job", [read, noted]), Window()).files] == [None, 1234]


def test_versions_come_from_either_family_and_all_that_occur_are_named() -> None:
    parts = []
    kineto = [{"cuda_runtime_version": runtime} for runtime in ("12040", "12060", "12040")]
    for versions in (*kineto, {"jax_version": "0.10", "cpu_version": "cpu"}):
        b = Building(facts=FileFacts(versions=versions))
        b.event(stream(), "gemm", 0, 1)
        parts.append(b.part())
    told = build_header(merge_file_frames("mixed", parts), Window())
    assert told.versions == {"cuda runtime": "12040 or 12060", "jax": "0.10"}


def test_the_page_divides_the_time_of_a_rank_to_scale() -> None:
    (drawn,) = [line.text for line in lines(ReportStyle(49)) if line.text.startswith("rank 0 |")]
    inside = drawn[len("rank 0 |") : -1]
    assert len(inside) == 40
    assert [inside.count(glyph) for glyph in "█▓░ "] == [26, 8, 2, 4]  # 65, 20, 5 and 10 of 100 us


def test_the_page_names_what_the_host_did_in_the_longest_gap() -> None:
    text = [line.text for line in lines(ReportStyle(80))]
    gap = next(n for n, line in enumerate(text) if line.startswith("   0") and "Memcpy HtoD" in line)
    assert text[gap].endswith("Memcpy HtoD  running operators  100.00 %")
    assert text[gap].split()[:5] == ["0", "80.000", "us", "10.00", "us"]
    assert text[gap + 1] == "    python: aten::copy_ 50 %, aten::mm 50 %"


def test_the_page_says_what_was_repaired() -> None:
    assert "repaired 3: a ␛ bad event (built.json, byte 1,024)" in [line.text for line in lines(ReportStyle(80))]


def test_the_page_says_nothing_of_the_json_that_every_profile_of_xla_has() -> None:
    b = Building(format="xplane")
    b.event(stream(), "gemm", 0, 1)
    trace = b.trace()
    usual, other = Note("info", TWIN_JSON_SKIPPED, 1, "host.trace.json.gz"), Note("dropped", "event_not_json", 2)
    for notes, rows in (((usual,), 1), ((other, usual), 2)):
        noted = replace(trace, notes=notes)
        (page,) = [each for each in summarize_trace(noted, Window()).results if each.analysis == "health"]
        assert note_text(usual) not in page.table["what"].to_list()
        assert page.total == page.table.height == rows, "and that there are no steps"


def test_a_page_of_a_window_says_so() -> None:
    narrow = summarize_trace(built().trace(), Window(0, 50_000_000, (0,)))
    text = [line.text for line in find_writer("text").write_summary(narrow, ReportStyle(100))]
    assert "only 0.000 us to 50.000 us, rank 0" in text


@pytest.mark.parametrize("form", ["text", "markdown", "csv", "json"])
def test_an_empty_trace_has_a_page(form: str) -> None:
    empty = summarize_trace(merge_file_frames("empty", []), Window())
    assert list(find_writer(form).write_summary(empty, ReportStyle(80)))


def test_steps_are_spread_over_one_row_for_each_rank() -> None:
    steps = get_analysis("steps")
    rows = [
        {"step": step, "rank": rank, "duration": length, "busy": busy, "inferred": True}
        for rank, busy in ((0, 0.5), (1, None))
        for step, length in ((7, 100), (8, 300), (9, 200))
    ]
    whole = empty_table(steps.columns)
    frame = pl.DataFrame(rows, schema_overrides={"busy": pl.Float64})
    missing = [pl.lit(None, kind).alias(name) for name, kind in whole.schema.items() if name not in frame.columns]
    result = run_analysis(steps, merge_file_frames("none", []))
    table = frame.with_columns(missing).select(whole.columns)
    found = summarize_steps(type(result)("steps", "Steps", steps.columns, table, 6), 16)
    names = ("rank", "steps", "median", "shortest", "longest", "longest_step", "total", "busy", "inferred")
    assert found.table.select(names).rows() == [
        (0, 3, 200, 100, 300, 8, 600, 0.5, True),
        (1, 3, 200, 100, 300, 8, 600, None, True),
    ]
    assert found.total == 2
    assert summarize_steps(result, 16).table.is_empty()


def test_many_steps_are_drawn_as_a_curve() -> None:
    some = page()
    curve = tuple((number, 10**9 + number) for number in range(20))
    text = [
        line.text
        for line in find_writer("text").write_summary(Summary(some.about, some.results, curve), ReportStyle(80))
    ]
    assert any(line.startswith("1.00 ms┤") for line in text)
    assert "length of each step on its slowest rank, by number of the step" in text
    assert "length of each step" not in "".join(line.text for line in lines(ReportStyle(80)))


def results_with_notes() -> tuple[Result, ...]:
    shared = note("calls_matched_by_order", level="inferred", calls=2, numbered=False)
    lost = note("collectives_without_call", level="missing", collectives=1, ranks=(1,))
    return tuple(
        Result(name, name, plain(1).columns, plain(1).table, 1, (shared, lost, *more))
        for name, more in (
            ("distributed", (note("communication_waits", waiting=0.5, every=True), note("overlap_included", **HALF))),
            ("collectives", (note("wait_per_rank"),)),
        )
    )


HALF = {"computation": 0.5, "communication": 0.5}


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_what_several_sections_note_is_said_once_at_the_end(form: str) -> None:
    sections = replace(page(), results=results_with_notes())
    folded, full = (
        [
            line.text.replace("\\", "")
            for line in find_writer(form).write_summary(sections, ReportStyle(400, all_notes=all_notes))
        ]
        for all_notes in (False, True)
    )
    lost, waits = (note_text(each.notes[n]) for each, n in ((sections.results[0], 1), (sections.results[0], 2)))
    for shown in (folded, full):
        assert sum(lost in line for line in shown) == 1
        assert any(line.strip("*") == waits for line in shown), "the headline stands alone"
    assert any("notes (--notes shows them)" in line for line in folded) or form == "markdown"
    matched = [sum("matched by" in line for line in shown) for shown in (folded, full)]
    assert matched == [form == "markdown", 1], "a single caveat is not folded"
    assert not any("--notes" in line for line in full)


def page_of_steps(window: Window) -> Summary:
    """Two ranks with two steps; rank 1 works long before them, which its step time leaves out."""
    b = Building()
    for rank in (0, 1):
        host = thread(rank)
        for step, start in ((1, 1000), (2, 1100 + 10 * rank)):
            b.event(host, f"ProfilerStep#{step}", start, start + 100, "step", step=step)
            b.event(host, "aten::mm", start, start + 90, "op", correlation=step + 10 * rank)
            b.event(stream(rank), "gemm", start + 20, start + 60 + 10 * rank, correlation=step + 10 * rank)
    b.event(stream(1), "warm up", 0, 500)
    return summarize_trace(b.trace(), window)


def test_a_page_with_steps_has_one_base_for_shares_of_time() -> None:
    summary = page_of_steps(Window())
    results = {result.analysis: result for result in readable_results(summary)}
    breakdown = results["breakdown"]
    assert {column.base for column in breakdown.columns if column.unit == "share"} == {"step time"}
    steps = next(result for result in summary.results if result.analysis == "steps").table
    for row, step in zip(breakdown.table.rows(named=True), steps.rows(named=True), strict=True):
        parts = [row[f"{part}_share"] for part in ("compute", "communication", "copy", "idle")]
        assert sum(parts) == pytest.approx(1)
        assert row["idle_share"] == pytest.approx(1 - step["busy"])
    assert "busy" not in results["steps"].table.columns, "its complement is in the breakdown"
    text = [line.text for line in find_writer("text").write_summary(summary, ReportStyle(100))]
    assert any(line.startswith("Breakdown · % of step time") for line in text)


def test_a_page_of_a_window_keeps_the_span_as_base() -> None:
    summary = page_of_steps(Window(1_000_000_000, 1_150_000_000))
    (breakdown,) = [result for result in readable_results(summary) if result.analysis == "breakdown"]
    assert {column.base for column in breakdown.columns if column.unit == "share"} == {
        "the span (from first to last device work, or the window)"
    }
