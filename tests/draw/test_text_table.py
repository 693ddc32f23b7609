"""A table fits its width, aligned, and says what it leaves out."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from results import EVERY_UNIT, LONG, empty, every_unit, plain
from tracehound.analysis import get_analysis
from tracehound.analysis.result import Column, Result
from tracehound.diff.comparison_tables import OP_COLUMNS
from tracehound.draw.name_shortening import shorten_name
from tracehound.draw.notes import note_text, note_texts
from tracehound.draw.text_table import NAME_WIDTH, UNLIMITED_WIDTH, TextLine, body_lines, caption_lines, table_lines
from tracehound.model.notes import note, text_note


def texts(lines: list[TextLine]) -> list[str]:
    return [line.text for line in lines]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_asked(width: int) -> None:
    lines = table_lines(every_unit(), width)
    assert max(cell_len(line.text) for line in lines) <= width
    assert sum(line.role == "row" for line in lines) == 3  # wide content never wraps


def test_numbers_are_aligned_under_their_heading() -> None:
    lines = texts(body_lines(plain(3), 40))
    assert lines == ["name     total", "op0   1.000 ms", "op1   2.000 ms", "op2   3.000 ms"]


def test_a_table_without_limits_shows_everything() -> None:
    lines = texts(body_lines(every_unit(), UNLIMITED_WIDTH))
    assert LONG in lines[1]
    assert "77.77 s" in lines[1]
    assert "python 123: aten::addmm 62 %" in lines[1]
    assert not any("no room" in line for line in lines)
    assert "event" not in lines[0]


def test_a_narrow_table_keeps_the_brief_columns_and_names_the_others() -> None:
    lines = texts([line for line in table_lines(every_unit(), 60) if line.role not in ("detail", "title")])
    assert lines[0].split() == ["name", "start", "total", "share", "calls"]
    assert lines[1].startswith("vectorized_")  # the template goes before the name is cut
    assert lines[4:6] == ["hidden columns: category, size, bandwidth, inferred (--width", "  0 shows all)"]


def test_columns_with_nothing_in_any_row_make_way_first_and_are_named_by_themselves() -> None:
    columns = (Column("step", "count", ""), *(Column(name, "time", "") for name in ("kernel", "wait", "copy")))
    columns += (Column("cpu", "time", "", brief=False), Column("rest", "time", "", brief=False))
    rows = pl.DataFrame({"step": [0], "kernel": [7 * 10**9], "wait": [0], "copy": [0], "cpu": [10**9], "rest": [10**9]})
    result = Result("steps", "Steps", columns, rows, 1)
    assert "wait" in texts(body_lines(result, 60))[0]
    told = texts(table_lines(result, 26))[1:]
    assert told[0].split() == ["step", "kernel", "cpu"]
    assert told[2:] == ["hidden columns: rest; all", "  zero: wait, copy", "  (--width 0 shows all)"]


def test_of_a_time_that_is_taken_apart_what_is_next_to_nothing_makes_way_before_what_is_not() -> None:
    columns = (Column("duration", "time", ""), Column("ahead", "time", "", brief=False))
    columns += tuple(
        Column(name, "time", "", brief=name != "output", is_part=True)
        for name in ("compute", "input", "output", "host")
    )
    times = {"duration": 784, "ahead": 90, "compute": 24, "input": 577, "output": 182, "host": 1e-3}
    rows = pl.DataFrame({name: [int(time * 10**9)] * 2 for name, time in times.items()})
    told = texts(table_lines(Result("step_time", "Step time", columns, rows, 2), 44))
    assert told[1].split() == ["duration", "compute", "input", "output"]
    assert told[-2:] == ["hidden columns: ahead, host (--width 0 shows", "  all)"]
    even = rows.with_columns(pl.col("compute").alias("host"), pl.col("host").alias("output"))
    told = texts(table_lines(Result("step_time", "Step time", columns, even, 2), 44))
    assert told[1].split() == ["duration", "compute", "input", "host"]


@pytest.mark.parametrize("width", range(24, 90, 3))
def test_names_stay_readable_while_there_are_other_columns_to_leave_out(width: int) -> None:
    columns = tuple(Column(name, "text", "") for name in ("name", "class", "bound"))
    columns += (Column("total", "time", ""), Column("rate", "rate", ""))
    words = [f"a_{'very_' * n}long_kernel_name" for n in (1, 5)]
    frame = pl.DataFrame({"name": words, "class": words, "bound": ["memory"] * 2, "total": [1, 2], "rate": [1, 2]})
    lines = texts(body_lines(Result("x", "X", columns, frame, 2), width))
    head = lines[0].split()
    assert head == ["name", "class", "bound", "total", "rate"][: len(head)], "the last ones make way first"
    if len(head) > 1:
        assert lines[0].index("class") >= min(NAME_WIDTH, width // 3)
    assert max(map(len, lines)) <= width


def test_a_heading_breaks_where_its_cells_are_narrower() -> None:
    columns = (Column("op", "text", "x"), Column("time_share", "share", "x"))
    frame = pl.DataFrame({"op": ["gemm"], "time_share": [0.5]})
    lines = texts(body_lines(Result("x", "X", columns, frame, 1), 40))
    assert lines == ["         time", "op      share", "gemm  50.00 %"]


def test_what_the_host_did_has_lines_of_its_own_where_it_has_no_column() -> None:
    lines = [line.text for line in table_lines(every_unit(), 60) if line.role == "detail"]
    assert lines == ["    python 123: aten::addmm 62 %", "    data␛loader: epoch: read, parse 30 %"]
    assert not any(line.role == "detail" for line in table_lines(every_unit(), UNLIMITED_WIDTH))


def test_the_times_by_which_rows_come_are_the_last_to_make_way() -> None:
    columns = (Column("name", "text", ""), Column("count", "count", ""), Column("mean", "time", ""))
    columns += (Column("self", "time", ""),)
    times = {"mean": [1, 3, 2], "self": [4 * 10**9, 2 * 10**9, 10**9]}
    rows = pl.DataFrame({"name": ["a", "b", "c"], "count": [1, 2, 3], **times})
    result = Result("ops", "Ops", columns, rows, 3)
    assert texts(body_lines(result, 15)) == ["name      self", "a     4.000 ms", "b     2.000 ms", "c     1.000 ms"]
    assert texts(body_lines(result, 8))[0] == "name"
    unordered = replace(result, table=rows[[1, 0, 2]])
    assert texts(body_lines(unordered, 15))[0] == "name  count"


def test_a_very_narrow_table_keeps_its_first_column() -> None:
    lines = texts(body_lines(every_unit(), 8))
    assert lines[0] == "name"
    assert all(len(line) <= 8 for line in lines)


def test_the_caption_has_the_window_and_the_cut() -> None:
    title = "Ops · window 10.000 ms to 20.000 ms · 3 of 12 rows · share: % of the self time of all ops"
    assert texts(caption_lines(every_unit(), 100)) == [title]
    assert texts(caption_lines(every_unit(), 100, "us"))[0].startswith("Ops · window 10,000.000 us to 20,000.000 us")
    assert texts(caption_lines(plain(), 100)) == ["Plain"]


def two_bases() -> Result:
    bases = Column("busy", "share", "", "the step"), Column("idle", "share", "", "the step")
    columns = (*bases, Column("hidden", "share", "", "all copies"))
    return Result("x", "X", columns, pl.DataFrame([[0.5], [0.25], [0.1]], schema=["busy", "idle", "hidden"]), 1)


def test_shares_of_several_bases_are_explained_below_the_table() -> None:
    lines = texts(table_lines(two_bases(), 100))
    assert lines[0] == "X"
    assert lines[-2:] == ["busy, idle: % of the step", "hidden: % of all copies"]
    same = replace(two_bases(), columns=two_bases().columns[:2])
    assert texts(table_lines(same, 100))[0] == "X · % of the step"
    assert not any(line.startswith("hidden:") for line in texts(table_lines(two_bases(), 12))), "it is not shown"


def test_the_headline_is_first_lost_data_is_always_shown_and_several_caveats_are_counted() -> None:
    caveats = (note("wait_per_rank"), note("tested_alone"))
    lost = note("sizes_not_recorded", level="missing", executions=2)
    result = replace(plain(1), notes=(caveats[0], lost, note("no_difference"), caveats[1]))
    lines = table_lines(result, 200, all_notes=False)
    assert [(line.role, line.text) for line in lines if line.role in ("headline", "warning", "note")] == [
        ("headline", note_text(note("no_difference"))),
        ("warning", note_text(lost)),
        ("note", "2 notes (--notes shows them)"),
    ]
    assert lines[1].role == "headline"
    assert texts(table_lines(result, 200))[-2:] == list(note_texts(caveats))
    single = replace(result, notes=caveats[:1])
    assert texts(table_lines(single, 200, all_notes=False))[-1] == note_text(caveats[0])
    empty_result = replace(result, table=result.table.clear(), total=0)
    assert texts(table_lines(empty_result, 200, all_notes=False))[-2:] == list(note_texts(caveats))


def test_a_table_without_rows_says_so() -> None:
    assert texts(body_lines(empty(), 80)) == ["  nothing to show"]


def test_wide_characters_keep_the_columns_in_place() -> None:
    _, *rows = texts(body_lines(every_unit(), UNLIMITED_WIDTH))
    ends = [row.rindex(words) + len(words) for row, words in zip(rows, ("12.346 ms", "0.000 us"), strict=False)]
    assert cell_len(rows[0][: ends[0]]) == cell_len(rows[1][: ends[1]])


@given(st.text(max_size=80), st.integers(4, 90))
def test_a_fitted_name_fits(text: str, width: int) -> None:
    assert cell_len(shorten_name(text, width)) <= width


@given(st.integers(16, 250))
def test_every_width_is_kept_and_more_width_never_loses_a_column(width: int) -> None:
    lines = body_lines(every_unit(), width)
    assert max(cell_len(line.text) for line in lines) <= width
    fewer, more = (len(body_lines(every_unit(), w)[0].text.split()) for w in (width, width + 1))
    assert fewer <= more <= len(EVERY_UNIT)


def test_an_empty_table_says_only_why_it_is_empty() -> None:
    result = every_unit()
    nothing = replace(result, table=result.table.clear(), total=0, notes=(text_note("no gap here"),))
    assert [line.text for line in table_lines(nothing, 60)][1:] == ["  nothing to show", "no gap here"]


_VALUES: dict[str, object] = {
    "text": "void a_kernel_with_a_long_name<float>(int)", "time": 123_400_000_000, "instant": 1_234_567_000_000,
    "bytes": 12 << 20, "count": 1234, "number": 123, "share": 0.1234, "rate": 123.4e9, "flops": 215e12,
    "decimal": 12.5, "difference": 12_000_000, "flag": True, "depth": 0, "id": 0,
}  # fmt: skip
_SHORT = {"last": "12 (345)", "bound_by": "compute", "call": "cudaLaunchKernel"}


def test_a_verdict_can_be_read_on_80_columns() -> None:
    found = {"name": "volta_sgemm_128x64_relu_interior_nn_v1", "operator": "CudnnConvolutionBackward > aten::conv"}
    times = {"base": 123_400_000, "other": 456_700_000, "change": 333_300_000}
    rows = [{**found, **times, "verdict": "slower, more often"}, {**found, **times, "operator": "b" * 40}]
    names = [column for column in OP_COLUMNS if column.name in rows[0]]
    table = pl.DataFrame(rows).select(column.name for column in names)
    lines = [line.text for line in body_lines(Result("diff-ops", "Ops", tuple(names), table, 2), 80)]
    assert lines[-2].endswith("+333.3 us  slower, more often")
    assert "verdict" in lines[-3]


@pytest.mark.parametrize(
    ("analysis", "unused", "answers"),
    [
        ("operator_roofline", (), ("rate", "of peak", "bound by")),
        ("collectives", (), ("message", "total", "wait", "last", "bus")),
        ("distributed", (), ("computation", "overlap", "communication", "synchronizing", "waiting")),
        ("launches", ("kernel", "stream", "at"), ("call time", "delay", "short", "long", "late")),
        ("hlo_ops", ("core",), ("self", "rate", "bandwidth", "bound by")),
    ],
)
def test_what_an_analysis_is_asked_for_fits_80_columns(
    analysis: str, unused: tuple[str, ...], answers: tuple[str, ...]
) -> None:
    """Names are cut and what explains makes way, before any of these goes."""
    columns = get_analysis(analysis).columns
    row = {each.name: _SHORT.get(each.name, _VALUES[each.unit]) for each in columns} | dict.fromkeys(unused)
    rows = pl.DataFrame([row]).cast(dict.fromkeys(unused, pl.Int64))
    lines = texts(table_lines(Result(analysis, analysis, columns, rows, 1), 80))
    assert max(map(cell_len, lines)) <= 80
    missing = " ".join(lines).partition("hidden columns: ")[2]
    assert missing
    table = [line.text for line in table_lines(Result(analysis, analysis, columns, rows, 1), 80) if line.role == "head"]
    for answer in answers:
        assert answer not in missing.split(" (")[0].replace("  ", " ").split(", "), answer
        assert all(word in " ".join(table) for word in answer.split()), answer


def test_names_that_are_cut_are_still_told_apart() -> None:
    names = ["void sgemm_of_a_long_name<float, 1024>(float*)", "void sgemm_of_a_long_name<float, 128>(float*)"]
    rows = pl.DataFrame({"name": names, "self": [2_000_000, 1_000_000]})
    columns = (Column("name", "text", "what"), Column("self", "time", "how long"))
    lines = [line.text for line in body_lines(Result("ops", "Ops", columns, rows, 2), 36)]
    assert lines[1:] == ["sgemm_of_a_long_name<1024>  2.000 us", "sgemm_of_a_long_name<128>   1.000 us"]
