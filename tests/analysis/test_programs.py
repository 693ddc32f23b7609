"""Programs: executions, the gaps between them, and what the host enqueued when."""

from __future__ import annotations

import statistics
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane, stream, thread
from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.analysis.programs import ANALYSIS, BY_EXECUTION_COLUMNS
from tracehound.analysis.result import Result
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace, Window

MODULES = Lane("XLA Modules", 0, "modules")
MAIN = thread("main/1")


def run_programs(trace: Trace, window: Window | None = None, by: str = "program") -> Result:
    return run_analysis(get_analysis("programs"), trace, window, Options(given=(("by", by),)))


def add_enqueued_execution(b: Building, name: str, called: float, start: float, end: float, number: int) -> None:
    """An execution and the host event that produced it."""
    b.event(MAIN, "DoEnqueueProgram", called, called + 1, "runtime", produces=number)
    b.event(MODULES, name, start, end, "module", consumes=number, run=number)


def test_one_row_for_each_program() -> None:
    b = Building(format="xplane")
    add_enqueued_execution(b, "jit_f(7)", 0, 10, 30, 1)
    add_enqueued_execution(b, "jit_f(7)", 5, 31, 61, 2)
    add_enqueued_execution(b, "jit_g(8)", 80, 90, 95, 3)
    rows = run_programs(b.trace()).table.rows(named=True)
    assert [(r["name"], r["program"], r["count"], r["ranks"]) for r in rows] == [
        ("jit_f", "7", 2, 1),
        ("jit_g", "8", 1, 1),
    ]
    f, g = ({name: value // US if value else value for name, value in r.items() if name in _TIMES} for r in rows)
    assert f == {
        "total": 50, "min": 20, "p50": 25, "mean": 25, "max": 30, "period": 21, "gap": 1, "gaps": 1, "ahead": 18,
        "max_ahead": 26,
    }  # fmt: skip
    assert (g["gap"], g["gaps"], g["period"], g["ahead"]) == (29, 29, None, 10)
    assert rows[0]["share"] == pytest.approx(50 / 55)
    assert [(r["enqueued"], r["dry"]) for r in rows] == [(2, 0), (1, 1)]


_TIMES = ("total", "min", "p50", "mean", "max", "period", "gap", "gaps", "ahead", "max_ahead")


def test_one_row_for_each_execution() -> None:
    b = Building(format="xplane")
    add_enqueued_execution(b, "jit_f(7)", 0, 10, 30, 1)
    add_enqueued_execution(b, "jit_g(8)", 5, 30, 40, 2)
    add_enqueued_execution(b, "jit_f(7)", 50, 60, 61, 3)
    rows = run_programs(b.trace(), by="execution").table.rows(named=True)
    assert [
        (r["name"], r["number"], r["start"] // US, r["duration"] // US, r["gap"], r["ahead"] // US, r["dry"])
        for r in rows
    ] == [
        ("jit_f", 1, 10, 20, None, 10, None),
        ("jit_g", 1, 30, 10, 0, 25, False),
        ("jit_f", 2, 60, 1, 20 * US, 10, True),
    ]
    assert [r["enqueue"] for r in rows] == ["DoEnqueueProgram"] * 3


def test_what_launches_call_a_delay_and_late_has_other_names_here() -> None:
    """A delay begins as a call ends, and what is late has a long one: executions are told by other times."""
    launches = {column.name for column in get_analysis("launches").columns}
    assert {"delay", "late"} <= launches
    for columns in (ANALYSIS.columns, BY_EXECUTION_COLUMNS):
        names = {column.name for column in columns}
        assert {"ahead", "dry"} <= names
        assert not names & {"delay", "late"}


def test_an_execution_that_begins_before_its_enqueue_tells_nothing_of_the_host() -> None:
    b = Building(format="xplane")
    add_enqueued_execution(b, "jit_f(7)", 20, 10, 30, 1)
    result = run_programs(b.trace())
    row = result.table.row(0, named=True)
    assert (row["enqueued"], row["ahead"], row["dry"]) == (1, None, None)
    assert any(
        "1 executions begin before their enqueue (clocks or run ids disagree): ahead and dry are unknown" in note
        for note in note_texts(result.notes)
    )


def test_a_window_keeps_executions_at_full_length_with_the_gap_before_them() -> None:
    b = Building(format="xplane")
    for number in range(3):
        add_enqueued_execution(b, "jit_f(7)", 10 * number, 100 * number, 100 * number + 80, number)
    row = run_programs(b.trace(), Window(150 * US, 190 * US)).table.row(0, named=True)
    assert (row["count"], row["total"] // US, row["gap"] // US) == (1, 80, 20)


def test_a_profile_without_enqueues_says_so() -> None:
    b = Building(format="xplane")
    b.event(MODULES, "SyncTensorsGraph.9(0)", 0, 5, "module")
    result = run_programs(b.trace())
    assert result.table.select("enqueued", "dry", "ahead").row(0) == (0, None, None)
    assert any(
        "no enqueue is known for 1 executions: it came before the recording, or no id leads to it" in note
        for note in note_texts(result.notes)
    )


def test_what_a_pytorch_trace_has_instead_is_said() -> None:
    b = Building()
    b.event(stream(), "gemm", 0, 5)
    assert (
        "a PyTorch trace has no XLA programs; graphs lists what is launched as a whole"
        in note_texts(run_programs(b.trace()).notes)[0]
    )
    assert "device tracing did not start" in note_texts(run_programs(Building(format="xplane").trace()).notes)[0]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from("fg"), st.integers(0, 20), st.integers(1, 30), st.integers(0, 9)),
        min_size=1,
        max_size=20,
    )
)
def test_all_of_it_against_a_loop(steps: list[tuple[int, str, int, int, int]]) -> None:
    b = Building(format="xplane")
    at = defaultdict[int, int](lambda: 50)
    expected = defaultdict[str, list[tuple[int, int | None, int | None, bool | None]]](list)
    begun = dict[tuple[int, str], int]()
    for number, (rank, name, pause, length, ahead) in enumerate(steps):
        first = rank not in at
        before, start = at[rank], at[rank] + pause
        b.event(MAIN, "Enqueue", start - ahead, start - ahead, "runtime", produces=number)
        b.event(Lane(f"XLA Modules {rank}", rank, "modules"), name, start, start + length, "module", consumes=number)
        at[rank] = start + length
        last = begun.get((rank, name))
        begun[rank, name] = start
        gap = None if first else pause
        late = None if first else start - ahead >= before
        expected[name].append((length, gap, None if last is None else start - last, late))
    for row in run_programs(b.trace()).table.rows(named=True):
        lengths, gaps, intervals, late = zip(*expected[row["name"]], strict=True)
        assert (row["count"], row["total"], row["max"]) == (len(lengths), sum(lengths) * US, max(lengths) * US)
        assert row["p50"] == statistics.median(lengths) * US
        for name, values in (("gap", gaps), ("period", intervals)):
            known = [value for value in values if value is not None]
            assert row[name] == (statistics.median(known) * US if known else None)
        decided = [value for value in late if value is not None]
        assert row["dry"] == (sum(decided) if decided else None)


@pytest.mark.parametrize("call", ["jit_f:XLA GPU module", "cuGraphLaunch", ""])
def test_kernels_of_a_gpu_that_name_no_op_are_the_reason_where_there_is_no_program(call: str) -> None:
    """Command buffers are spoken of where XLA executes or graphs are launched, not in runs of TensorFlow without."""
    b = Building(format="xplane")
    b.event(stream(), "loop_add_fusion", 0, 10)
    b.event(thread(), call or "cuLaunchKernel", 0, 5, "runtime")
    (note,) = note_texts(run_analysis(get_analysis("programs"), b.trace()).notes)
    hint = (
        (
            "no executions of XLA programs: no GPU kernel names an HLO op; kernels of command buffers do "
            "with XLA_FLAGS=--xla_gpu_enable_command_buffer="
        )
        if call
        else ""
    )
    assert note == (hint or "no executions of XLA programs: no GPU kernel names an HLO op")
