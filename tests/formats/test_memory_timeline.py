"""PyTorch's memory timeline: what its rows say, what is wrong with some, and whose it is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from short import first
from tracehound.analysis import ANALYSES, Options, get_analysis, run_analyses, run_analysis
from tracehound.analysis.topics import unavailable_note
from tracehound.diff import compare_runs, judge_run, parse_condition, profile_run
from tracehound.draw.notes import note_text, note_texts
from tracehound.errors import TracehoundError
from tracehound.formats import FORMATS, MEMORY_TIMELINE, detect_format
from tracehound.model.trace import Trace, Window
from tracehound.report import summarize_trace
from tracehound.store import find_files, load_trace, open_trace_files

START = 1_696_966_047_000_000_000
PARAMETER, ACTIVATION, GRADIENT, UNKNOWN = 0, 4, 5, 7
BEFORE, CREATED, VERSION, DESTROYED = 1, 2, 3, 4

ROWS = [
    [-1, BEFORE, 100, PARAMETER],
    [START + 10, CREATED, 50, UNKNOWN],
    [START + 20, VERSION, -50, UNKNOWN],
    [START + 20, VERSION, 50, ACTIVATION],
    [START + 25, VERSION, -50, ACTIVATION],
    [START + 25, VERSION, 50, ACTIVATION],
    [START + 30, CREATED, 30, GRADIENT],
    [START + 40, DESTROYED, -50, ACTIVATION],
]


def opened(folder: Path, rows: object, *, text: str | None = None) -> Trace:
    path = folder / "memory.raw.json.gz"
    path.write_bytes(gzip.compress((json.dumps(rows) if text is None else text).encode()))
    return load_trace(open_trace_files([path]))


def categories(trace: Trace) -> dict[str, tuple[int, int]]:
    """What each category holds at the peak, and at most."""
    table = run_analysis(get_analysis("memory"), trace, options=Options(given=(("by", "category"),))).table
    return {name: (held, most) for name, held, most in table.select("category", "at_peak", "most").iter_rows()}


def test_it_is_recognized_by_its_rows(tmp_path: Path) -> None:
    trace = opened(tmp_path, ROWS)
    assert trace.parts[0].format == "memory_timeline"
    assert detect_format(tmp_path / "memory.raw.json.gz") is MEMORY_TIMELINE
    assert MEMORY_TIMELINE in FORMATS
    assert trace.origin_ns == START + 10
    assert any(
        ("a memory timeline does not name its device (the device of export_memory_timeline): taken for one rank")
        in note_text(note)
        for note in trace.notes
    )


def test_a_byte_order_mark_before_its_rows_changes_nothing(tmp_path: Path) -> None:
    found = categories(opened(tmp_path, ROWS))
    marked = opened(tmp_path, None, text=f"\ufeff{json.dumps(ROWS)}")
    assert categories(marked) == found
    assert [note.level for note in marked.notes] == ["inferred"]


def test_it_lasts_until_its_last_row_even_if_that_changes_nothing(tmp_path: Path) -> None:
    idle = [[START + 90, VERSION, -30, GRADIENT], [START + 90, VERSION, 30, GRADIENT]]
    trace = opened(tmp_path, [*ROWS, *idle])
    assert trace.span == (0, 80_000)
    assert run_analysis(get_analysis("memory"), trace).table.equals(
        run_analysis(get_analysis("memory"), opened(tmp_path, ROWS)).table
    )


def test_what_was_there_before_is_a_timeline_even_if_nothing_changes(tmp_path: Path) -> None:
    idle = [[START + 90, VERSION, -100, PARAMETER], [START + 90, VERSION, 100, PARAMETER]]
    trace = opened(tmp_path, [ROWS[0], *idle])
    assert run_analysis(get_analysis("memory"), trace).table["peak"].to_list() == [100]
    later = opened(tmp_path, [ROWS[0], *idle, [START + 190, CREATED, 50, UNKNOWN]])
    assert later.span == (0, 100_000)


def test_categories_at_the_peak(tmp_path: Path) -> None:
    trace = opened(tmp_path, ROWS)
    (device,) = run_analysis(get_analysis("memory"), trace).table.rows(named=True)
    assert (device["rank"], device["device"], device["peak"], device["at"]) == (0, "unknown device", 180, 20_000)
    assert device["allocations"] == 2, "what was there, or comes to another category, is not given anew"
    assert categories(trace) == {
        "parameter": (100, 100), "activation": (50, 50), "gradient": (30, 30), "unknown": (0, 50),
    }  # fmt: skip


def test_whose_memory_it_is_is_nowhere_claimed(tmp_path: Path) -> None:
    trace = opened(tmp_path, ROWS)
    assert trace.ranks.select("rank", "device", "label").rows() == [(0, None, "unknown device")]
    for name in ("memory", "memory_curve"):
        table = run_analysis(get_analysis(name), trace).table
        assert table["device"].unique().to_list() == ["unknown device"], name


FILLED = ("memory", "memory_curve", "memory_blocks", "overview", "health")


@pytest.mark.parametrize("name", first(6, [each.name for each in ANALYSES if each.name not in FILLED]))
def test_what_needs_a_trace_asks_for_one_and_for_no_option(tmp_path: Path, name: str) -> None:
    trace = opened(tmp_path, ROWS)
    result = run_analysis(get_analysis(name), trace)
    assert not result.total
    assert note_texts(result.notes) == (
        "a memory timeline holds only memory: record a trace, too (export_chrome_trace of the same profiler)",
    )
    assert (unavailable_note(name, trace),) == result.notes


def test_of_several_questions_those_about_memory_are_answered(tmp_path: Path) -> None:
    asked = [(get_analysis(name), Options()) for name in ("distributed", "memory", "steps")]
    assert [result.total for result in run_analyses(asked, opened(tmp_path, ROWS))] == [0, 1, 0]


def test_what_is_missing_of_memory_is_still_said(tmp_path: Path) -> None:
    (note,) = note_texts(run_analysis(get_analysis("memory_blocks"), opened(tmp_path, ROWS)).notes)
    assert "the file has no addresses" in note


def test_its_page_is_about_memory(tmp_path: Path) -> None:
    page = summarize_trace(opened(tmp_path, ROWS), Window())
    assert [result.analysis for result in page.results] == ["overview", "memory", "health"]
    (memory,) = (result for result in page.results if result.analysis == "memory")
    assert memory.table["category"][0] == "parameter"
    assert note_texts(memory.notes)[0] == "unknown device of rank 0 peaks at 180 B, at 0.020 us"


def test_two_are_compared_by_what_their_categories_held_at_most(tmp_path: Path) -> None:
    base = profile_run(opened(tmp_path, ROWS), Window())
    other = profile_run(opened(tmp_path, [*ROWS, [START + 50, CREATED, 60, GRADIENT]]), Window())
    assert base.extent_text == "the whole run on 1 rank, nothing but memory"
    (memory,) = compare_runs(base, other).results
    assert memory.analysis == "diff-memory"
    found = {
        counter: (ours, theirs)
        for counter, ours, theirs in memory.table.select("counter", "baseline", "candidate").rows()
    }
    assert found["gradient"] == (30, 90)
    assert found["memory allocated"] == (180, 190), "at the last instant"
    assert found["activation"] == (50, 50)
    with pytest.raises(TracehoundError, match="nothing was measured"):
        judge_run(base, [parse_condition("idle > 1%")])


def test_it_is_drawn_as_counters_of_the_device(tmp_path: Path) -> None:
    trace = opened(tmp_path, ROWS)
    lanes = trace.lanes.select("rank", "name", "unit", "lane").rows()
    assert [(rank, name, unit) for rank, name, unit, _ in lanes] == [
        (0, name, "bytes") for name in ("memory allocated", "parameter", "activation", "gradient", "unknown")
    ]
    assert trace.samples(lanes[0][3]).rows() == [(0, 150.0), (10_000, 150.0), (20_000, 180.0), (30_000, 130.0)]
    assert trace.samples(lanes[4][3]).rows() == [(0, 50.0), (10_000, 0.0)]


def test_the_curve_ends_where_it_ends(tmp_path: Path) -> None:
    table = run_analysis(get_analysis("memory_curve"), opened(tmp_path, ROWS)).table
    assert table["allocated"].max() == 180
    assert table["reserved"].null_count() == table.height


@pytest.mark.parametrize(
    ("text", "kept", "words"),
    [
        (json.dumps(ROWS)[:-20], 7, "the memory timeline ends early"),
        (json.dumps([*ROWS[:3], "x", [1, 2], [1, 2, 3, 1e300], [1, 1, True, 0]]), 3, "not four whole numbers"),
        (json.dumps(ROWS) + "\n" + json.dumps(ROWS), len(ROWS), "a second recording of"),
    ],
)
def test_what_is_damaged_is_said(tmp_path: Path, text: str, kept: int, words: str) -> None:
    trace = opened(tmp_path, None, text=text)
    assert any(words in note_text(note) for note in trace.notes)
    (device,) = run_analysis(get_analysis("memory"), trace).table.rows(named=True)
    assert device["allocations"] == sum(action == CREATED for _, action, *_ in ROWS[:kept])


@pytest.mark.parametrize("row", [0, 1, 150, 298, 299])
@pytest.mark.parametrize("damage", [b"\xff", b"NaN", b"x", b'"', b"{"])
def test_damage_anywhere_costs_the_rows_that_it_is_in(tmp_path: Path, row: int, damage: bytes) -> None:
    rows = [json.dumps([START + 10 * n, CREATED, 5, GRADIENT]).encode() for n in range(300)]
    middle = len(rows[row]) // 2
    rows[row] = rows[row][:middle] + damage + rows[row][middle + 1 :]
    path = tmp_path / "memory.raw.json"
    path.write_bytes(b"[" + b", ".join(rows) + b"]")
    trace = load_trace(open_trace_files([path]))
    (lost,) = (note for note in trace.notes if note.code == "rows_not_numbers")
    assert (lost.count, lost.where) == (1, f"row {row:,}")
    curve = run_analysis(get_analysis("memory"), trace, None, Options(None, ())).table
    assert curve["allocations"].to_list() == [299]


def test_a_file_with_one_bad_byte(shared: Path) -> None:
    trace = load_trace(open_trace_files([shared / "cases" / "damage" / "memory-one-byte.raw.json"]))
    assert [note.count for note in trace.notes if note.code == "rows_not_numbers"] == [1]


def test_without_a_row_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text("[[1, 1, 5, 7")
    with pytest.raises(TracehoundError):
        MEMORY_TIMELINE.read(path)


def test_beside_a_trace_it_waits_to_be_named(tmp_path: Path) -> None:
    (tmp_path / "m.raw.json").write_text(json.dumps(ROWS))
    assert [file.format for file in find_files.find_trace_files([tmp_path]).files] == [MEMORY_TIMELINE]
    event = {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}))
    found = find_files.find_trace_files([tmp_path])
    assert [file.path.name for file in found.files] == ["t.json"]
    assert any("beside a trace" in note_text(note) for note in found.notes)


def test_a_real_one(shared: Path) -> None:
    """What a loop over its rows tells: the peak, and what activations and parameters held then."""
    path = next((shared / "traces" / "kineto" / "memory_timeline").glob("*.raw.gz"))
    trace = load_trace(open_trace_files([path]))
    held, peak, then = dict.fromkeys(range(8), 0), 0, dict.fromkeys(range(8), 0)
    for _, _, size, category in sorted(json.loads(gzip.decompress(path.read_bytes())), key=lambda row: row[0]):
        held[category] += size
        if sum(held.values()) > peak:
            peak, then = sum(held.values()), dict(held)
    assert run_analysis(get_analysis("memory"), trace).table["peak"].to_list() == [peak]
    found = categories(trace)
    assert found["activation"][0] == then[ACTIVATION]
    assert found["parameter"][0] == then[PARAMETER]


ANY = st.integers(-(2**63), 2**63)


@given(st.lists(st.lists(ANY, min_size=3, max_size=5), min_size=1, max_size=6))
def test_any_numbers_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, rows: list[list[int]]) -> None:
    path = tmp_path_factory.mktemp("any") / "m.json"
    path.write_text(json.dumps(rows))
    try:
        part = MEMORY_TIMELINE.read(path)
    except TracehoundError:
        assert not any(len(row) == 4 and all(abs(v) < 2**61 for v in row) and abs(row[2]) <= 2**44 for row in rows)
        return
    assert part.counters.height
