"""A device's own clock beside the trace's: where instants lie on it, and no share above 1 in a window that cuts ops."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane, thread
from short import first
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.analysis.timing.device_clock import DeviceClock, fit_device_clock
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace, Window
from tracehound.numeric.intervals import Intervals

CORE = Lane("XLA Ops", 0, "ops", work=True)
HOST = "(f32[4]{0}, f32[4]{0:S(5)}, u32[])"


def op(number: int, name: str, category: str, text: str) -> dict[str, object]:
    return {
        "op": number, "name": name, "category": category, "module": "jit_f", "program": 1, "framework": None,
        "source": None, "text": f"%{name} = {text}", "flops": None, "bytes_accessed": None,
    }  # fmt: skip


OPS = [
    op(0, "copy-start", "copy-start", f"{HOST} copy-start(f32[4]{{0:S(5)}} %a)"),
    op(1, "copy-done", "copy-done", f"f32[4]{{0}} copy-done({HOST} %copy-start)"),
    op(2, "fusion", "loop fusion", "f32[4]{0} fusion(f32[4]{0} %a)"),
]


def clock(*known: tuple[int, int]) -> DeviceClock:
    trace, own = np.array(known, np.int64).T
    return DeviceClock(trace, own)


def test_instants_between_known_ones_lie_evenly() -> None:
    told = clock((10, 1000), (20, 1010), (40, 1015))
    instants = np.array([0, 10, 13, 20, 28, 40, 47])
    for side in (told.to_device_start, told.to_device_end):
        assert side(instants).tolist() == [990, 1000, 1003, 1010, 1012, 1015, 1022]


def test_own_time_that_passes_at_one_instant_lies_between_its_opening_and_its_closing() -> None:
    told = clock((0, 0), (10, 10), (10, 25), (20, 35))
    assert told.to_device_start(np.array([10, 12])).tolist() == [10, 27]
    assert told.to_device_end(np.array([10, 12])).tolist() == [25, 27]
    moved = told.to_device_intervals(Intervals(np.array([5, 15]), np.array([10, 20])))
    assert (moved.start.tolist(), moved.end.tolist()) == ([5, 30], [25, 35])


def test_without_the_clock_of_one_event_there_is_none() -> None:
    events = pl.DataFrame(
        {"start": [0, 5], "end": [5, 9], "device_start": [100, None], "device_end": [104, None]},
        schema=dict.fromkeys(("start", "end", "device_start", "device_end"), pl.Int64),
    )
    assert fit_device_clock(events) is None
    assert fit_device_clock(events.head(0)) is None
    assert fit_device_clock(events.head(1)) is not None


def cut_copy() -> Trace:
    """A wait of 40 us on the trace's clock, which was set anew within it: on the device's own it lasts 20 us."""
    b = Building(format="xplane", ops=OPS)
    for name, start, end, own, number in (
        ("copy-start", 0, 2, (100, 102), 0), ("copy-done", 2, 42, (102, 122), 1), ("fusion", 42, 50, (122, 142), 2),
    ):  # fmt: skip
        kind = "op" if name == "fusion" else "transfer"
        b.event(CORE, name, start, end, kind, op=number, device_start=own[0] * US, device_end=own[1] * US)
    return b.trace()


def test_types_of_work_and_what_overlaps_are_told_by_the_device_s_own_clock() -> None:
    types = run_analysis(get_analysis("kernel_types"), cut_copy()).table.filter(pl.col("rank").is_not_null())
    assert dict(types.select("type", "time").iter_rows()) == {"memory": 22 * US, "computation": 20 * US}
    row = run_analysis(get_analysis("breakdown"), cut_copy()).table.row(0, named=True)
    assert row["compute"] == 20 * US
    both = run_analysis(get_analysis("overlap"), cut_copy(), None, Options(given=(("first", "memory"),))).table.row(
        0, named=True
    )
    assert (both["first"], both["second"], both["both"]) == (22 * US, 20 * US, 0)
    cut = run_analysis(get_analysis("kernel_types"), cut_copy(), Window(22 * US, 46 * US)).table.filter(
        pl.col("rank").is_not_null()
    )
    assert dict(cut.select("type", "time").iter_rows()) == {"memory": 10 * US, "computation": 10 * US}


@pytest.mark.parametrize(
    ("window", "own", "waited"), first(2, [((22, 32), 5, 5), ((42, 46), 10, 0), ((22, 46), 20, 10), ((0, 2), 2, 2)])
)
def test_a_window_lies_on_the_device_s_own_clock(window: tuple[int, int], own: int, waited: int) -> None:
    trace, seen = cut_copy(), Window(window[0] * US, window[1] * US)
    asked = ("hlo_ops", "transfers", "async_overlap", "duty_cycle", "breakdown")
    results = {name: run_analysis(get_analysis(name), trace, seen) for name in asked}
    table = results["hlo_ops"].table
    halves = table.filter(pl.col("name") != "fusion")
    assert (halves["self"].sum(), table["self"].sum()) == (waited * US, own * US)
    assert table["time_share"].sum() == pytest.approx(1)
    for name in ("hlo_ops", "duty_cycle", "breakdown"):
        assert any("own clocks" in note for note in note_texts(results[name].notes)) == (own != window[1] - window[0])
    duty = results["duty_cycle"].table.row(0, named=True)
    assert [duty[name] // US for name in ("time", "input", "compute", "idle")] == [own, waited, own - waited, 0]
    parts = results["breakdown"].table.row(0, named=True)
    assert [parts[name] // US for name in ("span", "copy", "compute", "idle")] == [own, waited, own - waited, 0]
    if waited:
        for name in ("transfers", "async_overlap"):
            assert results[name].table["exposed"].to_list() == [waited * US]
            assert results[name].table["exposed_share"].to_list() == pytest.approx([waited / own])


Executed = list[tuple[int, int, int, int]]
"""Of each op in turn: the pause before it and its length, on the trace's clock, and both on the device's own."""

EXECUTED = st.lists(st.tuples(*[st.integers(0, 9)] * 4), min_size=1, max_size=12)


@pytest.mark.parametrize("cut", first(1, [15, 25, 35]))
def test_windows_side_by_side_last_as_long_as_both(cut: int) -> None:
    """The clocks drift apart where nothing runs: an edge there is one instant, whichever side is looked at."""
    b = Building(format="xplane", ops=OPS)
    for start, end, own in ((0, 10, 100), (40, 50, 200)):
        b.event(CORE, "fusion", start, end, "op", op=2, device_start=own * US, device_end=(own + 10) * US)
    trace = b.trace()
    windows = Window(0, cut * US), Window(cut * US, 50 * US), Window(0, 50 * US)
    for name, column in (("breakdown", "span"), ("breakdown", "idle"), ("duty_cycle", "time")):
        first, second, both = (
            run_analysis(get_analysis(name), trace, window).table[column].item() for window in windows
        )
        assert first + second == both
    assert run_analysis(get_analysis("breakdown"), trace, windows[0]).table["span"].item() == (10 + 3 * (cut - 10)) * US


@pytest.mark.thorough
@given(EXECUTED, st.integers(0, 60), st.integers(1, 60))
def test_no_share_of_a_window_is_above_1(executed: Executed, start: int, length: int) -> None:
    b = Building(format="xplane", unit=1, ops=OPS)
    trace, own = 0, 500
    for number, (pause, lasting, own_pause, own_lasting) in enumerate(executed):
        trace, own = trace + pause, own + own_pause
        told = {"op": number % 3, "device_start": own, "device_end": own + own_lasting}
        b.event(CORE, str(OPS[number % 3]["name"]), trace, trace + lasting, ("transfer", "op")[number % 3 == 2], **told)
        trace, own = trace + lasting, own + own_lasting
    built = b.trace()
    for name in ("hlo_ops", "ops", "transfers", "async_overlap", "duty_cycle", "breakdown"):
        _no_share_is_above_1(run_analysis(get_analysis(name), built, Window(start, start + length)))
        _no_share_is_above_1(run_analysis(get_analysis(name), built))


def _no_share_is_above_1(result: Result) -> None:
    for column in result.columns:
        if column.unit == "share":
            told = result.table[column.name].drop_nulls()
            assert told.is_between(0, 1 + 1e-12).all(), (result.analysis, column.name, told)
    if "time_share" in result.table.columns:
        assert (result.table["time_share"].sum() or 0) <= 1 + 1e-9


@given(EXECUTED, st.integers(-5, 130))
def test_instants_against_a_slow_walk(executed: Executed, instant: int) -> None:
    rows, trace, own = [], 0, 500
    for pause, lasting, own_pause, own_lasting in executed:
        trace, own = trace + pause, own + own_pause
        rows.append((trace, trace + lasting, own, own + own_lasting))
        trace, own = trace + lasting, own + own_lasting
    events = pl.DataFrame(rows, schema=["start", "end", "device_start", "device_end"], orient="row")
    told = fit_device_clock(events)
    assert told is not None
    known = sorted((at, there) for row in rows for at, there in ((row[0], row[2]), (row[1], row[3])))
    before = [each for each in known if each[0] < instant]
    same = [there for at, there in known if at == instant]
    after = [each for each in known if each[0] > instant]
    if same:
        wanted = (min(same), max(same))
    elif not before:
        wanted = (after[0][1] - (after[0][0] - instant),) * 2
    elif not after:
        wanted = (before[-1][1] + instant - before[-1][0],) * 2
    else:
        (low, low_own), (high, high_own) = before[-1], after[0]
        wanted = (round(low_own + (instant - low) / (high - low) * (high_own - low_own)),) * 2
    found = tuple(int(side(np.array([instant]))[0]) for side in (told.to_device_start, told.to_device_end))
    assert all(abs(a - b) <= 1 for a, b in zip(found, wanted, strict=True))


MODULES = Lane("XLA Modules", 0, "modules")
MAIN = Lane("main")


def drifting() -> Trace:
    """Four executions of 20 us, 2 us apart, by the device's clock; the trace's was set anew within two of them."""
    b = Building(format="xplane", ops=OPS)
    for number, (start, length) in enumerate(((0, 20), (22, 30), (54, 10), (66, 20))):
        b.event(MODULES, "jit_f(1)", start, start + length, "module")
        half, own = length // 2, 1000 + 22 * number
        for name, op_, low, high, at in (
            ("copy-start", 0, start, start + 1, own),
            ("copy-done", 1, start + 1, start + half, own + 1),
            ("fusion", 2, start + half, start + length, own + 10),
        ):
            until = own + {0: 1, 1: 10, 2: 20}[op_]
            kind = "op" if op_ == 2 else "transfer"
            b.event(CORE, name, low, high, kind, op=op_, device_start=at * US, device_end=until * US)
    b.event(MAIN, "TransferToDevice", 20, 22, "transfer")
    b.event(MAIN, "PjRtCompile", 63, 66, "compile")
    return b.trace()


APART = "lengths of {} are on the device's own clock; "


def test_steps_and_programs_of_a_device_last_as_long_as_its_own_clock_says() -> None:
    trace = drifting()
    steps, times, parts_of, programs = (
        run_analysis(get_analysis(name), trace) for name in ("steps", "step_time", "step_parts", "programs")
    )
    assert [value // US for value in steps.table["start"]] == [0, 22, 54, 66]
    for result in (steps, times, parts_of):
        assert [value // US for value in result.table["duration"]] == [22, 22, 22, 20]
        assert any(
            note == APART.format("steps") + ("2 of 4 differ on the trace's clock (12.0 us to 32.0 us)")
            for note in note_texts(result.notes)
        )
    assert [value // US for value in steps.table["idle"]] == [2, 2, 2, 0]
    assert [value // US for value in steps.table["compute"]] == [10] * 4
    parts = times.table.select("compute", "input", "compile", "other").rows()
    assert [[value // US for value in row] for row in parts] == [
        [10, 12, 0, 0], [10, 10, 0, 2], [10, 10, 2, 0], [10, 10, 0, 0],
    ]  # fmt: skip
    parts = parts_of.table.select("kernel", "copy", "other").rows()
    assert [[value // US for value in row] for row in parts] == [[10, 10, 2]] * 3 + [[10, 10, 0]]
    (program,) = programs.table.rows(named=True)
    assert [program[name] // US for name in ("min", "max", "period", "gap")] == [20, 20, 22, 2]
    assert APART.format("executions") + "2 of 4 differ on the trace's clock (10.0 us to 30.0 us)" in note_texts(
        programs.notes
    )


def test_the_breakdown_of_steps_is_that_of_the_device_s_own_clock() -> None:
    result = run_analysis(get_analysis("breakdown"), drifting(), None, Options(given=(("by", "step"),)))
    assert [value // US for value in result.table["start"]] == [0, 22, 54, 66]
    lengths = {"span": [22, 22, 22, 20], "compute": [10] * 4, "copy": [10] * 4, "idle": [2, 2, 2, 0]}
    assert {part: [value // US for value in result.table[part]] for part in lengths} == lengths
    assert APART.format("steps") + ("2 of 4 differ on the trace's clock (12.0 us to 32.0 us)") in note_texts(
        result.notes
    )
    cut = run_analysis(
        get_analysis("breakdown"), drifting(), Window(37 * US, 59 * US), Options(given=(("by", "step"),))
    ).table
    assert [[value // US for value in cut[part]] for part in ("start", "span", "compute", "idle")] == [
        [37, 54], [12, 10], [10, 0], [2, 0],
    ]  # fmt: skip


def test_gaps_lie_where_the_timeline_has_them_and_a_note_says_what_the_device_idles_by_its_own_clock() -> None:
    b = Building(format="xplane", ops=OPS)
    for start, own in ((0, 100), (30, 112)):
        b.event(CORE, "fusion", start, start + 10, "op", op=2, device_start=own * US, device_end=(own + 10) * US)
    result, parts = (run_analysis(get_analysis(name), b.trace()) for name in ("gaps", "breakdown"))
    assert result.table.select("start", "duration").rows() == [(10 * US, 20 * US)]
    assert parts.table.select("span", "idle").rows() == [(22 * US, 2 * US)]
    assert note_texts(result.notes)[1] == (
        "gaps are on the trace's clock; on the devices' own clocks, as in breakdown, idle time is 2.00 "
        "us, 9.09 % of 22.0 us"
    )
    b.event(CORE, "fusion", 42, 52, "op", op=2, device_start=142 * US, device_end=152 * US)
    assert len(run_analysis(get_analysis("gaps"), b.trace()).notes) == 1, "22 us by either"


def test_steps_that_the_host_marks_are_the_host_s() -> None:
    b = Building(format="xplane", ops=OPS)
    b.event(MAIN, "train", 0, 40, "step", step=1)
    b.event(MAIN, "train", 40, 60, "step", step=2)
    b.event(CORE, "fusion", 5, 35, "op", op=2, device_start=100 * US, device_end=110 * US)
    for name in ("steps", "step_time"):
        result = run_analysis(get_analysis(name), b.trace())
        assert [value // US for value in result.table["duration"]] == [40, 20]
        assert not any("own clock" in note for note in note_texts(result.notes))


@given(EXECUTED)
def test_executions_against_a_slow_sum(executed: Executed) -> None:
    """An execution is its op here: so long it lasted, and so long after the one before, whatever the trace says."""
    b = Building(format="xplane", unit=1, ops=OPS)
    trace, own, lengths, ends, gaps = 0, 500, list[int](), list[int](), list[int]()
    for pause, lasting, own_pause, own_lasting in executed:
        trace, own = trace + pause + 1, own + own_pause  # no two at one instant
        b.event(MODULES, "jit_f(1)", trace, trace + lasting + 1, "module")
        b.event(CORE, "fusion", trace, trace + lasting + 1, "op", op=2, device_start=own, device_end=own + own_lasting)
        gaps.append(own - ends[-1] if ends else 0)
        trace, own = trace + lasting + 1, own + own_lasting
        lengths.append(own_lasting)
        ends.append(own)
    table = run_analysis(get_analysis("programs"), b.trace(), None, Options(given=(("by", "execution"),))).table
    assert table["duration"].to_list() == lengths
    assert table["gap"].fill_null(0).to_list() == gaps


ASYNC = Lane("Async XLA Ops", 0, "async")


@pytest.mark.parametrize("window", first(2, [(None,), ((22, 46),), ((42, 46),), ((0, 2),)]))
def test_kernels_and_parts_of_ranks_are_told_by_the_clock_that_breakdown_is_told_by(
    window: tuple[int, int] | None,
) -> None:
    seen = Window(window[0] * US, window[1] * US) if window else None
    parts, used, ranks = (
        run_analysis(get_analysis(name), cut_copy(), seen) for name in ("breakdown", "utilization", "distributed")
    )
    told, of_rank = parts.table.row(0, named=True), ranks.table.row(0, named=True)
    assert (of_rank["span"], of_rank["computation"]) == (told["span"], told["compute"])
    assert of_rank["other"] == told["span"] - told["compute"]
    row = used.table.row(0, named=True)
    assert (row["span"], row["utilization"]) == (told["span"], pytest.approx(told["compute_share"]))
    for result in (used, ranks):
        assert [note for note in note_texts(result.notes) if "own clocks" in note] == [
            n for n in note_texts(parts.notes) if "own clocks" in n
        ]
    by_kernel = run_analysis(get_analysis("utilization"), cut_copy(), seen, Options(given=(("by", "kernel"),))).table
    assert by_kernel["total"].sum() == told["compute"]
    curve = run_analysis(get_analysis("utilization_curve"), cut_copy(), seen, Options(given=(("bucket", "1s"),))).table
    assert curve["utilization"].to_list() == pytest.approx([told["compute_share"]])
    assert curve["duration"].to_list() == [(window[1] - window[0] if window else 50) * US]


def test_kernels_have_the_lengths_of_the_device_s_own_clock() -> None:
    b = Building(format="xplane", ops=OPS)
    b.event(CORE, "fusion", 0, 0, "op", op=2, device_start=100 * US, device_end=110 * US)
    b.event(CORE, "fusion", 5, 10, "op", op=2, device_start=110 * US, device_end=120 * US)
    result = run_analysis(get_analysis("utilization"), b.trace())
    row = result.table.row(0, named=True)
    assert (row["span"], row["utilization"], row["kernels"]) == (20 * US, 1.0, 2)
    assert not [note for note in note_texts(result.notes) if "without a length" in note]


def test_what_ranks_wait_and_transfer_adds_up_to_communication_on_the_devices_own_clocks() -> None:
    b = Building(format="xplane")
    for rank, (start, own) in enumerate(((0, (100, 120)), (10, (300, 305)))):
        lane = Lane("XLA Ops", rank, "ops", work=True)
        b.event(lane, "all-reduce", start, 40, "collective", device_start=own[0] * US, device_end=own[1] * US)
    rows = run_analysis(get_analysis("distributed"), b.trace()).table
    found = rows.select("span", "communication", "transfer", "synchronizing") / US
    assert found.rows() == [(20, 20, 5, 15), (5, 5, 5, 0)]


def test_copies_in_flight_last_as_long_as_by_the_device_s_own_clock() -> None:
    b = Building(format="xplane", ops=OPS)
    for start, end, own in ((0, 10, (100, 110)), (10, 50, (110, 130))):
        b.event(CORE, "fusion", start, end, "op", op=2, device_start=own[0] * US, device_end=own[1] * US)
    b.event(ASYNC, "async-copy", 0, 30, "transfer", bytes=2_000_000)
    b.event(ASYNC, "async-copy", 30, 30, "transfer", bytes=2_000_000, device_start=120 * US, device_end=122 * US)
    row = run_analysis(get_analysis("bandwidth"), b.trace()).table.row(0, named=True)
    assert (row["unmeasured"], row["busy"], row["share"]) == (0, 22 * US, pytest.approx(22 / 30))
    assert (row["max"], row["at"]) == (10**12, 30 * US)
    cut = run_analysis(get_analysis("bandwidth"), b.trace(), Window(20 * US, 50 * US)).table.row(0, named=True)
    assert (cut["busy"], cut["share"]) == (7 * US, pytest.approx(7 / 15))
    assert cut["bytes"] == 2_000_000 // 4 + 2_000_000


@pytest.mark.thorough
@given(EXECUTED, st.integers(0, 60), st.integers(1, 60))
def test_all_that_tell_of_busy_time_agree(executed: Executed, start: int, length: int) -> None:
    b = Building(format="xplane", unit=1, ops=OPS)
    trace, own = 0, 500
    kinds = ("transfer", "op", "collective")
    for number, (pause, lasting, own_pause, own_lasting) in enumerate(executed):
        trace, own = trace + pause, own + own_pause
        told = {"op": 2, "device_start": own, "device_end": own + own_lasting}
        b.event(CORE, "fusion", trace, trace + lasting, kinds[number % 3], **told)
        trace, own = trace + lasting, own + own_lasting
    built = b.trace()
    for window in (None, Window(start, start + length)):
        parts, used, ranks = (
            run_analysis(get_analysis(name), built, window).table
            for name in ("breakdown", "utilization", "distributed")
        )
        assert ranks["span"].to_list() == parts["span"].to_list()
        assert ranks["computation"].to_list() == parts["compute"].to_list()
        assert (ranks["communication"] + ranks["overlap"]).to_list() == parts["all_communication"].to_list()
        assert ranks["unmatched"].to_list() == parts["all_communication"].to_list()
        for kernels, span, utilization in used.select("kernels", "span", "utilization").rows():
            worked = parts["compute"].item() + parts["all_communication"].item() if kernels else 0
            assert (span, utilization or 0) == (parts["span"].item(), pytest.approx(worked / span if span else 0))


STEPS_LINE = Lane("Steps", 0, "steps")


def marked_by_host_and_device(line_end: float) -> Trace:
    """Two steps of a host, each with one op of 60 us; the device's own line Steps ends at `line_end` us."""
    b = Building(format="xplane", ops=[{"op": 0, "name": "dot", "category": "dot"}])
    for step, start in ((0, 0), (1, 100)):
        b.event(thread(), "train", start, start + 50, "step", step=step)
        b.event(Lane("XLA Ops", 0, "ops", work=True), "dot", start + 20, start + 80, "op", op=0, step=step)
    b.event(STEPS_LINE, "0", 10, 90)
    b.event(STEPS_LINE, "1", 110, line_end)
    return b.trace()


def test_xprofs_idle_time_includes_the_steps_line_around_the_ops() -> None:
    """Ops run from 20 to 180 us and idle for 40 us; the line begins 10 us before them and ends 20 us after them."""
    for name in ("ops", "hlo_ops", "duty_cycle"):
        notes = note_texts(run_analysis(get_analysis(name), marked_by_host_and_device(200)).notes)
        assert any("idle 25.0 %" in note for note in notes), name
        assert "XProf counts the whole Steps line as device time: idle 36.8 % of 190 us" in notes, name
        cut = run_analysis(get_analysis(name), marked_by_host_and_device(200), Window(30 * US, 170 * US))
        assert not any("XProf" in note for note in note_texts(cut.notes)), "a window has its own length"


def test_the_length_of_steps_by_the_devices_own_line_is_noted_if_it_differs() -> None:
    notes = note_texts(run_analysis(get_analysis("steps"), marked_by_host_and_device(190)).notes)
    assert any(note.endswith("on the devices' own Steps line, as in XProf, the median is 80.0 us") for note in notes)
    b = Building(format="xplane", ops=[{"op": 0, "name": "dot", "category": "dot"}])
    b.event(Lane("XLA Ops", 0, "ops", work=True), "dot", 10, 80, "op", op=0)
    b.event(STEPS_LINE, "0", 0, 90, "step", step=0)
    alone = note_texts(run_analysis(get_analysis("steps"), b.trace()).notes)
    assert not any("Steps line" in note for note in alone), "these are the steps"


def test_an_xla_process_on_a_cpu_gets_no_advice_about_devices() -> None:
    b = Building(format="xplane")
    b.event(thread(), "main", 0, 10)
    (note,) = note_texts(run_analysis(get_analysis("breakdown"), b.trace()).notes)
    assert note.startswith("no device activity was recorded on rank 0: no compiled program ran while recording")
