"""Step time: what steps of XLA programs are made of, partial steps, and all of it against instants."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from building import US, Building, Lane, stream, thread
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.analysis.step_time import STEP_TIME_PARTS
from tracehound.draw.notes import note_texts
from tracehound.model.file_facts import ExportedWindow, FileFacts
from tracehound.model.trace import Trace, Window

CORE = Lane("XLA Ops", 0, "ops", work=True)
MODULES = Lane("XLA Modules", 0, "modules")
MAIN = thread("python")
OTHER = thread("tf_pjrt/7")


def run_step_time(trace: Trace, window: Window | None = None, **chosen: str) -> Result:
    return run_analysis(get_analysis("step_time"), trace, window, Options(given=tuple(sorted(chosen.items()))))


def parts(result: Result, row: int = 0) -> dict[str, int]:
    return {
        name: value // US
        for name, value in result.table.row(row, named=True).items()
        if name in STEP_TIME_PARTS and value
    }


def marked_steps() -> Building:
    b = Building(format="xplane")
    b.event(MAIN, "train", 0, 100, "step", step=1)
    return b


def test_each_instant_goes_to_the_first_part_that_holds() -> None:
    b = marked_steps()
    b.event(MAIN, "shard_args", 0, 20, "transfer")
    b.event(OTHER, "backend_compile", 10, 30, "compile")
    b.event(MAIN, "PjitFunction(f)", 25, 40, "runtime")
    b.event(MAIN, "$train.py:1 main", 0, 100, "python")
    b.event(OTHER, "ThunkExecutor::Execute (wait for completion)", 40, 100, "sync")
    b.event(CORE, "dot", 45, 60, "op")
    b.event(CORE, "all-reduce", 55, 70, "collective")
    b.event(MAIN, "np.asarray(jax.Array)", 65, 80, "transfer")
    assert parts(run_step_time(b.trace())) == {
        "input": 20, "compile": 10, "host": 10, "compute": 15, "collectives": 10, "output": 10, "other": 25,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind", "part"),
    [
        ("input_pipeline", "annotation", "input"),
        ("$dataloader.py:5 next_batch", "python", "input"),
        ("h2d", "annotation", "input"),
        ("PjRtComputationClient::TransferToDevice", "transfer", "input"),
        ("XlaLinearize", "transfer", "input"),
        ("CopyHostToDevice", "transfer", "input"),
        ("PjRtStreamExecutorBuffer::CopyToDeviceHelper::async_copy_to_device", "transfer", "host"),
        ("CopyDeviceToDevice", "transfer", "host"),
        ("PjRtComputationClient::TransferFromDevice", "transfer", "output"),
        ("XlaDelinearize", "transfer", "output"),
        ("XLAGraphExecutor::Compile", "compile", "compile"),
        ("SyncTensorsGraph", "runtime", "host"),
        ("fine_grained_work", "annotation", "host"),
        ("$threading.py:323 wait", "python", "other"),
    ],
)
def test_what_the_host_does_while_the_device_idles(name: str, kind: str, part: str) -> None:
    b = marked_steps()
    b.event(CORE, "dot", 0, 10, "op")
    b.event(MAIN, name, 10, 100, kind)
    assert parts(run_step_time(b.trace())) == {"compute": 10, part: 90}


def test_steps_of_a_gpu_whose_kernels_name_no_op() -> None:
    """TensorFlow without XLA: a device has streams, and neither ops nor modules."""
    b = marked_steps()
    b.event(stream(), "ampere_sgemm", 30, 90)
    assert parts(run_step_time(b.trace())) == {"compute": 60, "other": 40}
    b.format = "kineto"
    (note,) = note_texts(run_step_time(b.trace()).notes)
    assert note.startswith("a PyTorch trace has no XLA programs: see steps for its steps")


def test_without_threads_of_the_host_all_idle_time_is_other() -> None:
    b = Building(format="xplane")
    b.event(Lane("Steps", 0, "steps"), "1", 0, 100, "step", step=1)
    b.event(CORE, "dot", 0, 60, "op")
    assert parts(run_step_time(b.trace())) == {"compute": 60, "other": 40}


@pytest.mark.parametrize(
    ("meanwhile", "part"),
    [
        ("PjRtStreamExecutorBuffer::CopyToDeviceHelper::async_copy_to_device", "host"),
        ("hipMemcpyDtoDAsync", "host"),
        ("CopyToMemorySpace", "host"),
        ("PjRtStreamExecutorClient::LinearizeHostBufferInto", "input"),
        ("ThenExecuteCallback", "input"),
    ],
)
def test_arrays_that_come_from_devices_are_no_input(meanwhile: str, part: str) -> None:
    b = marked_steps()
    b.event(CORE, "dot", 0, 10, "op")
    b.event(MAIN, "shard_args", 10, 100, "transfer")
    b.event(MAIN, "DevicePut", 20, 30, "transfer")
    b.event(OTHER, meanwhile, 25, 95, "transfer" if "opy" in meanwhile or "Linear" in meanwhile else "runtime")
    assert parts(run_step_time(b.trace())) == {"compute": 10, part: 90}


def test_what_is_sent_beside_copies_between_devices_is_input() -> None:
    b = marked_steps()
    b.event(CORE, "dot", 0, 10, "op")
    b.event(MAIN, "shard_args", 10, 100, "transfer")
    b.event(OTHER, "CopyToDeviceHelper", 25, 50, "transfer")
    b.event(OTHER, "BufferFromHostBuffer", 60, 70, "transfer")
    assert parts(run_step_time(b.trace())) == {"compute": 10, "input": 90}


@pytest.mark.parametrize(
    ("meanwhile", "kind", "found"),
    [
        ("log_metrics", "annotation", {"input": 30, "host": 60}),
        ("block_until_ready", "sync", {"input": 30, "host": 60}),
        ("$train.py:9 main", "python", {"input": 90}),
        ("IteratorGetNext", "runtime", {"input": 90}),
    ],
)
def test_what_is_read_ahead_is_input_where_the_program_does_nothing_else(
    meanwhile: str, kind: str, found: dict[str, int]
) -> None:
    b = marked_steps()
    b.event(CORE, "dot", 0, 10, "op")
    b.event(MAIN, meanwhile, 40, 100, kind)
    b.event(OTHER, "Iterator::Prefetch::Map", 0, 100, "runtime")
    assert parts(run_step_time(b.trace())) == {"compute": 10, **found}


def test_a_setting_says_what_loads_data() -> None:
    b = marked_steps()
    b.event(CORE, "dot", 0, 10, "op")
    b.event(MAIN, "my_feeder", 10, 100, "annotation")
    assert parts(run_step_time(b.trace(), loader="feeder")) == {"compute": 10, "input": 90}


def test_a_step_lasts_until_its_work_is_done_and_none_begins_before() -> None:
    b = Building(format="xplane")
    for number in range(3):
        b.event(MAIN, "train", 10 * number, 10 * number + 10, "step", step=number)
        b.event(MAIN, "Execute", 10 * number + 2, 10 * number + 3, "runtime", produces=number)
        b.event(MODULES, "jit_f", 10 + 30 * number, 40 + 30 * number, "module", consumes=number)
        b.event(CORE, "dot", 10 + 30 * number, 40 + 30 * number, "op")
    table = run_step_time(b.trace()).table
    assert [(start // US, length // US) for start, length in table.select("start", "duration").iter_rows()] == [
        (0, 40), (40, 30), (70, 30),
    ]  # fmt: skip
    assert [value // US for value in table["compute"]] == [30, 30, 30]


def steps_with_late_work(ranks: int = 1) -> Building:
    """The steps of TPUs whose profile ended within the fifth, as XProf's own sample has them."""
    b = Building(format="xplane")
    for rank in range(ranks):
        steps, start = Lane("Steps", rank, "steps"), 0.0
        for number, length in enumerate((120_880, 120_120, 120_130, 120_120, 3_050)):
            b.event(steps, str(number), start, start + length, "step", step=number)
            for op in range(10 if length > 10_000 else 1):
                b.event(replace(CORE, rank=rank), "dot", start + 300 * op, start + 300 * op + 200, "op")
            start += length
    return b


def test_a_partial_step_is_shown_and_left_out() -> None:
    """XProf's average of these steps is 96.3 ms."""
    result = run_step_time(steps_with_late_work().trace())
    assert result.table["partial"].to_list() == [False] * 4 + [True]
    assert note_texts(result.notes)[0].startswith("4 whole steps on 1 rank: median 120 ms, p95 121 ms; ")
    assert note_texts(result.notes)[1].startswith("1 partial step left out of these figures: ")
    row = run_step_time(steps_with_late_work().trace(), by="rank").table.row(0, named=True)
    assert (row["steps"], row["partial"]) == (4, 1)
    assert row["p50"] == 120_125 * US
    assert row["mean"] == round((120_880 + 120_120 + 120_130 + 120_120) / 4 * US)
    assert row["compute"] == 2000 * US


def test_a_step_counts_once_on_however_many_ranks() -> None:
    trace = steps_with_late_work(ranks=2).trace()
    for result in (run_step_time(trace), run_analysis(get_analysis("steps"), trace)):
        assert note_texts(result.notes)[0].startswith("4 whole steps on 2 ranks: ")
        assert note_texts(result.notes)[1].startswith("1 partial step left out of these ")


def test_without_device_work_a_short_step_is_partial() -> None:
    b = Building(format="xplane")
    b.event(MODULES, "jit_f", 0, 1, "module")
    for number, length in enumerate((30, 100, 100, 51)):
        b.event(MAIN, "train", 100 * number, 100 * number + length, "step", step=number)
    assert run_step_time(b.trace()).table["partial"].to_list() == [True, False, False, False]


def trace_with_steps(*counts: int, facts: FileFacts | None = None) -> Trace:
    """Steps of 100 us with so many ops each; nothing is recorded beside them."""
    b = Building(format="xplane", facts=facts or FileFacts())
    for number, count in enumerate(counts):
        b.event(MAIN, "train", 100 * number, 100 * number + 100, "step", step=number)
        for op in range(count):
            b.event(CORE, "dot", 100 * number + 10 * op, 100 * number + 10 * op + 5, "op")
    return b.trace()


def test_the_step_at_one_edge_says_nothing_of_that_at_the_other() -> None:
    assert run_step_time(trace_with_steps(2, 9, 9, 9, 7)).table["partial"].to_list() == [
        True,
        False,
        False,
        False,
        True,
    ]
    assert run_step_time(trace_with_steps(2, 9, 9, 9, 8)).table["partial"].to_list() == [
        True,
        False,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("limits", "partial"),
    [
        ([0, 400 * US], [False, False, False, False]),
        ([1, None], [True, False, False, False]),
        ([None, 351 * US], [False, False, False, True]),
        ([250 * US, 320 * US], [True, True, True, True]),
        ([100 * US, 300 * US], [True, False, False, True]),
    ],
)
def test_in_an_export_of_a_window_what_crosses_its_edges_is_partial(
    limits: list[int | None], partial: list[bool]
) -> None:
    facts = FileFacts(exported_window=ExportedWindow(*limits))
    assert run_step_time(trace_with_steps(9, 9, 9, 9, facts=facts)).table["partial"].to_list() == partial
    assert not run_analysis(get_analysis("gaps"), Building(facts=facts).trace()).total, (
        "where nothing is there is no edge"
    )


def test_of_two_steps_none_is_partial() -> None:
    b = Building(format="xplane")
    for number, length in enumerate((100, 1)):
        b.event(MAIN, "train", 100 * number, 100 * number + length, "step", step=number)
        b.event(CORE, "dot", 100 * number, 100 * number + length, "op")
    assert not run_step_time(b.trace()).table["partial"].any()


def test_a_window_keeps_steps_at_full_length() -> None:
    result = run_step_time(steps_with_late_work().trace(), Window(130_000 * US, 140_000 * US))
    assert result.table.select("step", "duration", "partial").rows() == [(1, 120_120 * US, False)]


def test_where_launches_are_unknown_it_is_said() -> None:
    b = marked_steps()
    b.event(CORE, "dot", 0, 10, "op")
    assert any(
        "device work has no recorded launches: it counts for the step in which it ran" in note
        for note in note_texts(run_step_time(b.trace()).notes)
    )


def test_inferred_steps_are_labelled() -> None:
    b = Building(format="xplane")
    for number in range(4):
        b.event(MODULES, "jit_f(9)", 20 * number, 20 * number + 15, "module")
        b.event(CORE, "dot", 20 * number, 20 * number + 15, "op")
    result = run_step_time(b.trace())
    assert [value // US for value in result.table["duration"]] == [20, 20, 20, 15]
    assert note_texts(result.notes)[-1] == "steps are inferred (none are marked): a step is one execution of jit_f(9)"


def test_where_there_are_no_steps_the_reason_is_said() -> None:
    b = Building()
    b.event(MAIN, "ProfilerStep#1", 0, 10, "step", step=1)
    b.event(stream(), "gemm", 0, 10)
    assert "has no XLA programs" in note_texts(run_step_time(b.trace()).notes)[0]
    assert "StepTraceAnnotation" in note_texts(run_step_time(Building(format="xplane").trace()).notes)[0]


_WORK = (("dot", "op"), ("all-reduce", "collective"), ("copy", "copy"))
_HOST = (("DevicePut", "transfer"), ("ToLiteral", "transfer"), ("backend", "compile"), ("Execute", "runtime"))


@pytest.mark.thorough
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 90), st.integers(1, 20)), max_size=6),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 90), st.integers(1, 30)), max_size=6),
)
def test_the_parts_add_up_to_the_step(work: list[tuple[int, int, int]], host: list[tuple[int, int, int]]) -> None:
    b = marked_steps()
    b.event(MODULES, "jit_f", 0, 1, "module")
    order = ("compute", "collectives", "device_to_device", "input", "output", "compile", "host", "other")
    best = [len(order) - 1] * 200
    for number, (which, start, length) in enumerate(work):
        name, kind = _WORK[which]
        b.event(Lane(f"XLA Ops {number}", 0, "ops", work=True), name, start, start + length, kind)
        best[start : start + length] = [min(which, other) for other in best[start : start + length]]
    for number, (which, start, length) in enumerate(host):
        name, kind = _HOST[which]
        b.event(thread(f"worker {number}"), name, start, start + length, kind)
        best[start : start + length] = [min(3 + which, other) for other in best[start : start + length]]
    counted = {name: best[:100].count(number) for number, name in enumerate(order)}
    assert parts(run_step_time(b.trace())) == {name: count for name, count in counted.items() if count}
