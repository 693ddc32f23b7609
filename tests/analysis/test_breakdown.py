"""The breakdown, by hand and against a slow count of every instant."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane, beside, stream, thread
from jobs import Rank, files, job
from short import first
from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.analysis.breakdown import WORK_IN_PART_OF_RECORDING
from tracehound.draw.notes import note_texts, render_note_columns
from tracehound.model.file_facts import FileFacts, NoDeviceWork
from tracehound.model.trace import Window
from tracehound.store import load_trace, open_trace_files

KINDS = st.sampled_from(["kernel", "collective", "copy", "memset", "other"])
EVENTS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 1), KINDS, st.integers(0, 30), st.integers(1, 9)), max_size=14
)


def breakdown(trace, window=None, **given):
    return run_analysis(get_analysis("breakdown"), trace, window, Options(None, tuple(given.items())))


@pytest.mark.parametrize("analysis", ["breakdown", "distributed"])
def test_steps_by_their_marks_say_how_much_of_their_work_runs_later(analysis: str) -> None:
    b = Building()
    b.event(thread(), "ProfilerStep#1", 0, 20, "step", step=1)
    for number, (start, end) in enumerate(((10, 30), (30, 60))):
        b.event(thread(), "cudaLaunchKernel", 1 + number, 2 + number, "runtime", correlation=number)
        b.event(stream(), "gemm", start, end, correlation=number)
    notes = note_texts(run_analysis(get_analysis(analysis), b.trace(), None, Options(None, (("by", "step"),))).notes)
    told = "80.0 % of the work that the steps launched ran outside of their marks"
    assert [note.startswith(told) for note in notes].count(True) == 1
    quiet = note_texts(
        run_analysis(get_analysis(analysis), b.trace(), Window(0, 15 * US), Options(None, (("by", "step"),))).notes
    )
    assert not any("outside of their marks" in note for note in quiet)


def test_hidden_communication_is_compute() -> None:
    b = Building()
    b.event(stream(0, 7), "gemm", 10, 30)
    b.event(stream(0, 20), "ncclDevKernel_AllReduce", 20, 50, "collective")
    b.event(stream(0, 7), "Memcpy HtoD", 45, 60, "copy")
    b.event(stream(0, 7), "relu", 70, 80)
    b.event(thread(), "aten::mm", 0, 500, "op")
    row = breakdown(b.trace()).table.row(0, named=True)
    assert {k: row[k] for k in ("span", "compute", "communication", "copy", "idle")} == {
        "span": 70 * US, "compute": 30 * US, "communication": 20 * US, "copy": 10 * US, "idle": 10 * US,
    }  # fmt: skip
    assert row["all_communication"] == 30 * US
    assert row["all_copy"] == 15 * US


def test_a_container_counts_only_with_its_own_time() -> None:
    """An HLO while around a collective must not hide it."""
    b = Building()
    ops = Lane("XLA Ops", 0, "ops", work=True)
    b.event(ops, "while", 0, 100, "op")
    b.event(ops, "all-reduce", 20, 60, "collective")
    row = breakdown(b.trace()).table.row(0, named=True)
    assert (row["compute"], row["communication"], row["idle"]) == (60 * US, 40 * US, 0)


def test_lanes_that_are_no_work_do_not_count() -> None:
    b = Building()
    b.event(stream(), "gemm", 0, 10)
    b.event(Lane("sync", 0, "sync"), "Stream Sync", 10, 90, "sync")
    b.event(stream(), "gemm", 90, 100)
    assert breakdown(b.trace()).table["idle"].to_list() == [80 * US]


def test_no_device_is_said() -> None:
    b = Building()
    b.event(thread(), "aten::mm", 0, 10, "op")
    result = breakdown(b.trace())
    assert result.table.is_empty()
    assert "no device activity" in note_texts(result.notes)[0]


@pytest.mark.parametrize(
    ("calls", "said"),
    first(
        4,
        [
            ((), "profile with ProfilerActivity.CUDA (or XPU)"),
            (
                ("cudaGetDeviceCount", "cudaLaunchHostFunc"),
                (
                    "runtime calls were recorded, but no launches: did the device have work while the profiler was "
                    "active (see its schedule)?"
                ),
            ),
            (("cudaGetDeviceCount", "cudaLaunchKernel"), "another tool (Nsight Systems, DCGM) may hold CUPTI"),
            (
                ("hipExtModuleLaunchKernel",),
                (
                    "launches were recorded, but none of the work that they launched: the GPU may have been used "
                    "before PyTorch registered with ROCm's profiler (newer versions register at once), or another "
                    "tool (rocprofv3) may hold it"
                ),
            ),
            (("zeInit", "zeCommandListAppendMemoryCopy"), "none of the work that they launched: some versions of PTI"),
            (("urEnqueueKernelLaunch",), "none of the work that they launched: some versions of PTI"),
            (("cnInvokeKernel",), "none of the work that they launched: another tool may hold the device's profiler"),
            (("musaLaunchKernel",), "none of the work that they launched: another tool may hold the device's profiler"),
            (("hipLaunchKernel", "cuLaunchKernel"), "launched: another tool may hold the device's profiler"),
        ],
    ),
)
def test_why_nothing_was_recorded_of_a_device_whose_runtime_was(
    tmp_path: Path, calls: tuple[str, ...], said: str
) -> None:
    """A file with calls of the runtime was recorded with the device, too."""
    rank = Rank(0)
    rank.host("aten::mm", 0, 10)
    for number, name in enumerate(calls):
        rank.host(name, number, number + 1, "cuda_runtime")
    trace = job(tmp_path, rank)
    (note,) = note_texts(breakdown(trace).notes)
    assert note.startswith("no device activity was recorded on rank 0: ")
    assert said in note
    assert said in note_texts(run_analysis(get_analysis("utilization"), trace).notes)[0]
    health = render_note_columns(run_analysis(get_analysis("health"), trace)).table
    missing = [what for what in health["what"] if what.startswith("device activity: ")]
    assert [said in what for what in missing] == ([True] if calls else [])


def test_memory_of_a_device_proves_that_there_is_one(tmp_path: Path) -> None:
    rank = Rank(0)
    rank.host("aten::mm", 0, 10)
    said = "no device activity was recorded on rank 0: {}profile with ProfilerActivity.CUDA{}"
    held = {"Addr": 1, "Bytes": 512, "Total Allocated": 512, "Device Id": -1, "Device Type": 0}
    rank.events.append({"ph": "i", "name": "[memory]", "pid": 100, "tid": 1, "ts": 5, "args": held})
    assert list(note_texts(breakdown(job(tmp_path, rank)).notes)) == [said.format("", " (or XPU)")]
    held |= {"Device Id": 0, "Device Type": 1}
    proof = "device memory was allocated, but no device work was recorded: "
    assert list(note_texts(breakdown(job(tmp_path, rank)).notes)) == [said.format(proof, "")]
    assert proof in note_texts(run_analysis(get_analysis("utilization"), job(tmp_path, rank)).notes)[0]
    b = Building()
    b.event(thread(), "aten::mm", 0, 10, "op")
    assert list(note_texts(breakdown(b.trace()).notes)) == [said.format("if it has a GPU, ", " (or XPU)")]
    b.facts = FileFacts(host_only=NoDeviceWork(allocates=("GPU",)))
    assert list(note_texts(breakdown(b.trace()).notes)) == [said.format(proof, "")]


@pytest.mark.parametrize(
    ("device_type", "advice"),
    [
        (12, "profile with ProfilerActivity.XPU"),
        (13, "PyTorch's profiler records no work on MPS; record it with Instruments (torch.mps.profiler)"),
        (15, "profile with ProfilerActivity.HPU"),
        (20, "profile with ProfilerActivity.PrivateUse1"),
        (10, "profile with ProfilerActivity.CUDA (or XPU)"),
    ],
)
def test_the_advice_fits_the_device_whose_memory_was_allocated(device_type: int, advice: str, tmp_path: Path) -> None:
    rank = Rank(0)
    rank.host("aten::mm", 0, 10)
    held = {"Addr": 1, "Bytes": 512, "Total Allocated": 512, "Device Id": 0, "Device Type": device_type}
    rank.events.append({"ph": "i", "name": "[memory]", "pid": 100, "tid": 1, "ts": 5, "args": held})
    (said,) = note_texts(breakdown(job(tmp_path, rank)).notes)
    assert said.endswith(f"device memory was allocated, but no device work was recorded: {advice}")


def test_of_a_file_that_is_cut_off_the_rest_may_have_the_devices(tmp_path: Path) -> None:
    rank = Rank(0)
    rank.kernel("gemm", 0, 5, 10)
    rank.events.sort(key=lambda event: event.get("cat") == "kernel")
    (path,) = files(tmp_path, rank)
    text = path.read_text()
    path.write_text(text[: text.index('"kernel"')])
    trace = load_trace(open_trace_files([path]))
    said = "the file ends within its events; missing data may be in the lost part"
    assert list(note_texts(breakdown(trace).notes)) == [f"no device activity was recorded on rank 0: {said}"]
    assert (
        f"device activity: {said}"
        in render_note_columns(run_analysis(get_analysis("health"), trace)).table["what"].to_list()
    )


def test_events_of_strange_phases_may_be_the_devices(tmp_path: Path) -> None:
    """As where a converter wrote asynchronous events, which begin and end on any thread."""
    rank = Rank(0)
    rank.host("aten::mm", 0, 10)
    rank.events += [rank.events[-1] | {"ph": phase} for phase in "be"]
    (note,) = note_texts(breakdown(job(tmp_path, rank)).notes)
    assert note == (
        "no device activity was recorded on rank 0: 2 events with phases unknown to PyTorch were not read and may be"
        " from another profiler; else profile with ProfilerActivity.CUDA (or XPU)"
    )


def test_events_of_another_profiler_may_be_the_devices(tmp_path: Path) -> None:
    """Ascend's has no categories of PyTorch's on what runs on its NPU."""
    rank = Rank(0)
    rank.host("aten::mm", 0, 10)
    rank.host("aclnnMatmul_MatMulV2", 12, 20, "AI_CORE")
    (note,) = note_texts(breakdown(job(tmp_path, rank)).notes)
    assert note == (
        "no device activity was recorded on rank 0: 1 event with categories unknown to PyTorch may be from another"
        " profiler; else profile with ProfilerActivity.CUDA (or XPU)"
    )


def test_a_kernel_inside_another_on_its_stream_hides_it_not() -> None:
    """Graphs and programmatic launches let kernels of one stream run at once."""
    b = Building()
    b.event(stream(), "gemm", 0, 100)
    b.event(stream(), "ncclDevKernel_AllReduce", 20, 60, "collective")
    row = breakdown(b.trace()).table.row(0, named=True)
    assert (row["compute"], row["communication"], row["all_communication"]) == (100 * US, 0, 40 * US)


def test_every_step_of_every_rank() -> None:
    b = Building()
    for step, start in ((3, 0), (4, 100)):
        b.event(thread(), f"ProfilerStep#{step}", start, start + 100, "step", step=step)
    b.event(stream(0), "gemm", 20, 120)
    b.event(stream(1), "gemm", 150, 160)
    b.event(stream(1, 20), "nccl", 155, 195, "collective")
    trace = b.trace()
    result = breakdown(trace, by="step")
    assert [
        (row["step"], row["rank"], *(row[name] // US for name in ("start", "span", "compute", "communication", "idle")))
        for row in result.table.rows(named=True)
    ] == [
        (3, 0, 0, 100, 80, 0, 20),
        (3, 1, 0, 100, 0, 0, 100),
        (4, 0, 100, 100, 20, 0, 80),
        (4, 1, 100, 100, 10, 35, 55),
    ]
    assert note_texts(result.notes)[0].startswith(
        "overall: compute 27.5 %, exposed communication 8.75 %, exposed copy 0 %"
    )
    assert trace.event(result.table["event"][3])["name"] == "ProfilerStep#4"
    clipped = breakdown(trace, Window(110 * US, 155 * US), by="step").table
    assert clipped.select("step", "rank", "start", "span", "compute").rows() == [
        (4, 0, 110 * US, 45 * US, 10 * US), (4, 1, 110 * US, 45 * US, 5 * US),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("until", "told"),
    [(40, ["device work spans 39.0 us of 100 us recorded (39.0 %)"]), (91, [])],
)
def test_a_recording_longer_than_its_work_is_told_of(until: int, told: list[str]) -> None:
    b = Building()
    b.event(thread(), "main", 0, 100, "op")
    b.event(stream(0), "gemm", 1, 11)
    b.event(stream(1), "gemm", until - 10, until)
    assert (
        list(note_texts(note for note in breakdown(b.trace()).notes if note.code == WORK_IN_PART_OF_RECORDING)) == told
    )
    assert not any("recorded" in note for note in note_texts(breakdown(b.trace(), Window(0, 90 * US)).notes))


@pytest.mark.parametrize("begun", [5, 10])
def test_several_devices_that_are_one_rank_are_told_of(begun: int) -> None:
    told = [
        note
        for note in note_texts(breakdown(beside(begun).trace()).notes)
        if note.startswith(
            "rank 0 holds several devices (the file does not tell which of them ran an HLO op): "
            "communication of one during computation of another counts as hidden"
        )
    ]
    assert len(told) == (begun < 10)


def test_without_steps_that_is_said() -> None:
    b = Building()
    b.event(stream(), "gemm", 0, 10)
    b.event(stream(), "relu", 10, 20)
    result = breakdown(b.trace(), by="step")
    assert result.table.is_empty()
    assert note_texts(result.notes)[0].startswith("no steps: mark them with profiler.step()")


@given(EVENTS, st.tuples(st.integers(0, 20), st.integers(1, 20)))
def test_every_instant(events: list[tuple[int, int, str, int, int]], bounds: tuple[int, int]) -> None:
    b = Building(unit=1)
    for rank in (0, 1):
        b.event(stream(rank, 1), "first", 0, 1)  # every rank exists, whatever is drawn
    for rank, number, kind, start, length in events:
        b.event(stream(rank, number), "k", start, start + length, kind)
    window = Window(bounds[0], bounds[0] + bounds[1])
    trace = b.trace()
    low, high = window.clip_bounds(*trace.span)
    for where, result in ((None, breakdown(trace)), ((low, high), breakdown(trace, window))):
        for row in result.table.iter_rows(named=True):
            mine = [(k, s, s + n) for r, _, k, s, n in events if r == row["rank"]] + [("kernel", 0, 1)]
            first, last = where or (min(s for _, s, _ in mine), max(e for _, _, e in mine))
            assert _parts(row) == _slow(mine, first, last)
            assert sum(_parts(row)) == row["span"] == last - first


def _parts(row: dict[str, int]) -> tuple[int, ...]:
    return row["compute"], row["communication"], row["copy"], row["idle"]


def _slow(events: list[tuple[str, int, int]], first: int, last: int) -> tuple[int, int, int, int]:
    parts = [0, 0, 0, 0]
    for t in range(first, last):
        running = {kind for kind, start, end in events if start <= t < end}
        if running & {"kernel", "other"}:
            parts[0] += 1
        elif "collective" in running:
            parts[1] += 1
        elif running:
            parts[2] += 1
        else:
            parts[3] += 1
    return (parts[0], parts[1], parts[2], parts[3])
