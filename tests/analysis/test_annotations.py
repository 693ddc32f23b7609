"""Annotations: their own time, what was launched inside, and how they nest."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane, stream, thread
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace, Window

MAIN = thread("python (1)")


def run_annotations(trace: Trace, window: Window | None = None, top: int | None = None, **chosen: str) -> Result:
    return run_analysis(get_analysis("annotations"), trace, window, Options(top, tuple(sorted(chosen.items()))))


def annotation_rows(shown: Result, *columns: str) -> dict[tuple[str, str], list[Any]]:
    rows = shown.table.iter_rows(named=True)
    return {(row["name"], row["on"]): [_us(row[column]) for column in columns] for row in rows}


def _us(value: Any) -> Any:
    return value // US if isinstance(value, int) and value >= US else value


def training_step() -> Building:
    """A step around forward and exchange, which launch a kernel and a collective that overlap."""
    b = Building()
    b.event(MAIN, "ProfilerStep#1", 0, 100, "step")
    b.event(MAIN, "forward", 10, 40, "annotation")
    b.event(MAIN, "cudaLaunchKernel", 12, 14, "runtime", correlation=1)
    b.event(MAIN, "exchange", 50, 60, "annotation")
    b.event(MAIN, "cudaLaunchKernel", 52, 54, "runtime", correlation=2)
    b.event(stream(), "gemm", 60, 80, correlation=1)
    b.event(stream(number=9), "nccl", 70, 100, "collective", correlation=2)
    b.event(Lane("ranges 7", 0, "annotations"), "forward", 60, 80, "annotation")
    return b


def test_work_counts_for_every_annotation_around_its_launch() -> None:
    rows = annotation_rows(
        run_annotations(training_step().trace()), "total", "self", "device", "busy", "exposed", "launched"
    )
    assert rows == {
        ("ProfilerStep#1", "host"): [100, 60, 50, 40, 20, 2],
        ("forward", "host"): [30, 28, 20, 20, 0, 1],
        ("exchange", "host"): [10, 8, 30, 30, 20, 1],
        ("forward", "device"): [20, 20, None, None, None, None],
    }


def test_a_path_of_ranges_has_their_lengths_whatever_frames_begin_and_end_them() -> None:
    """PyTorch's ranges begin in the frame of __enter__, and end in that of __exit__."""
    b = Building()
    b.event(MAIN, "train.py(7): main", 0, 100, "python")
    b.event(MAIN, "profiler.py(918): __enter__", 10, 20, "python")
    b.event(MAIN, "forward", 15, 60, "annotation")
    b.event(MAIN, "profiler.py(932): __exit__", 55, 65, "python")
    trace = b.trace()
    assert annotation_rows(run_annotations(trace), "total") == {("forward", "host"): [45]}
    assert annotation_rows(run_annotations(trace, by="path"), "total", "self", "max") == {
        ("forward", "host"): [45, 45, 45]
    }


def test_an_op_around_others_is_one_that_was_launched() -> None:
    b = Building(format="xplane")
    ops = Lane("XLA Ops", 0, "ops", work=True)
    b.event(MAIN, "forward", 10, 40, "annotation")
    b.event(MAIN, "Execute", 12, 14, "runtime", correlation=1)
    b.event(ops, "while", 60, 100, "op", correlation=1)
    b.event(ops, "dot", 70, 80, "op", correlation=1)
    assert annotation_rows(run_annotations(b.trace()), "device", "busy", "launched") == {
        ("forward", "host"): [40, 40, 2]
    }


def test_a_rank_on_which_nothing_works_is_beside_one_that_works() -> None:
    b = training_step()
    b.event(Lane("ranges 7", 1, "annotations"), "forward", 0, 10, "annotation")
    rows = annotation_rows(run_annotations(b.trace()), "total", "device", "busy", "exposed", "launched")
    assert rows["ProfilerStep#1", "host"] == [100, 50, 40, 20, 2]
    assert rows["forward", "device"] == [30, None, None, None, None]


def test_of_nested_ones_of_one_name_work_counts_once() -> None:
    b = Building()
    b.event(MAIN, "block", 0, 100, "annotation")
    b.event(MAIN, "block", 10, 50, "annotation")
    b.event(MAIN, "cudaLaunchKernel", 20, 21, "runtime", correlation=1)
    b.event(stream(), "gemm", 30, 40, correlation=1)
    assert annotation_rows(run_annotations(b.trace()), "count", "total", "device", "launched") == {
        ("block", "host"): [2, 140, 10, 1]
    }


def test_of_nested_ops_the_innermost_runs() -> None:
    ops = Lane("XLA Ops", 0, "ops", work=True)
    b = Building(format="xplane")
    b.event(MAIN, "train", 0, 100, "annotation")
    b.event(MAIN, "execute", 20, 21, "runtime", correlation=1)
    b.event(ops, "while", 30, 90, correlation=1)
    b.event(ops, "dot", 30, 50, correlation=1)
    b.event(ops, "all-reduce", 50, 80, "collective", correlation=1)
    for by, columns in (("name", ("device", "busy", "exposed", "launched")), ("path", ("device",))):
        assert (
            annotation_rows(run_annotations(b.trace(), by=by), *columns)["train", "host"]
            == [60, 60, 30, 3][: len(columns)]
        )


def test_in_a_window_work_counts_by_when_it_ran() -> None:
    rows = annotation_rows(
        run_annotations(training_step().trace(), Window(75 * US, 90 * US)), "device", "busy", "exposed"
    )
    assert rows["ProfilerStep#1", "host"] == [5 + 15, 15, 10]


def test_annotations_can_be_a_tree() -> None:
    b = training_step()
    b.event(MAIN, "ProfilerStep#2", 100, 150, "step")
    b.event(MAIN, "forward", 110, 120, "annotation")
    shown = run_annotations(b.trace(), by="path")
    assert shown.table.select("name", "depth", "count").rows() == [
        ("ProfilerStep", 0, 2), ("forward", 1, 2), ("exchange", 1, 1),
    ]  # fmt: skip
    assert annotation_rows(shown, "total", "self", "mean", "max", "device", "launched") == {
        ("ProfilerStep", "host"): [150, 100, 75, 100, 50, 2],
        ("forward", "host"): [40, 40, 20, 30, 20, 1],
        ("exchange", "host"): [10, 10, 10, 10, 30, 1],
    }
    assert run_annotations(b.trace(), by="path", top=2).table["name"].to_list() == ["ProfilerStep", "forward"]


def test_ranks_of_one_host_share_its_annotations_and_add_their_work() -> None:
    b = training_step()
    b.event(MAIN, "cudaLaunchKernel", 20, 21, "runtime", correlation=3)
    b.event(stream(1), "gemm", 60, 61, correlation=3)
    rows = annotation_rows(run_annotations(b.trace()), "count", "total", "device", "launched")
    assert rows["forward", "host"] == [1, 30, 21, 2]


def test_without_a_device_nothing_is_said_of_one() -> None:
    b = Building()
    b.event(MAIN, "forward", 10, 40, "annotation")
    assert annotation_rows(run_annotations(b.trace()), "total", "device", "launched") == {
        ("forward", "host"): [30, None, None]
    }
    assert annotation_rows(run_annotations(b.trace(), by="path"), "total", "device") == {
        ("forward", "host"): [30, None]
    }


def test_a_trace_without_any_says_how_to_make_them() -> None:
    b = Building()
    b.event(MAIN, "aten::mm", 10, 40, "op")
    for by in ("name", "path"):
        shown = run_annotations(b.trace(), by=by)
        assert shown.table.is_empty()
        assert "record_function" in note_texts(shown.notes)[0]


def test_work_in_a_window_counts_for_an_annotation_that_ended_before() -> None:
    b = Building()
    b.event(MAIN, "forward", 0, 10, "annotation")
    b.event(MAIN, "cudaLaunchKernel", 2, 4, "runtime", correlation=1)
    b.event(stream(), "gemm", 20, 60, correlation=1)
    shown = run_annotations(b.trace(), Window(30 * US, 50 * US))
    assert annotation_rows(shown, "count", "total", "mean", "device") == {("forward", "host"): [0, 0, None, 20]}
    assert b.trace().event(shown.table["event"][0])["name"] == "forward"


HOST = st.lists(
    st.tuples(
        st.sampled_from(["annotation", "op"]), st.sampled_from("ab"), st.integers(0, 20), st.integers(1, 20),
        st.integers(0, 1),
    ),
    min_size=1, max_size=12,
)  # fmt: skip
WORK = st.lists(
    st.tuples(
        st.integers(0, 14),
        st.integers(0, 50),
        st.integers(0, 9),
        st.sampled_from(["kernel", "collective", "copy"]),
        st.integers(7, 8),
    ),
    max_size=8,
)


@given(HOST, WORK, st.tuples(st.integers(0, 30), st.integers(1, 30)))
def test_against_a_loop(
    host: list[tuple[str, str, int, int, int]], work: list[tuple[int, int, int, str, int]], span: tuple[int, int]
) -> None:
    """Of two threads with annotations of the same names, and two streams."""
    b = Building()
    for i, (kind, name, start, length, one) in enumerate(host):
        b.event((MAIN, thread("worker"))[one], name, start, start + length, kind, correlation=i)
    for call, start, length, kind, number in work:
        b.event(stream(0, number), "work", start, start + length, kind, correlation=call)
    trace = b.trace()
    window = Window(span[0] * US, (span[0] + span[1]) * US)
    expected = _slow(trace, *window.clip_bounds(*trace.span))
    rows = annotation_rows(run_annotations(trace, window), "device", "busy", "exposed", "launched")
    assert all((name, "host") in rows for name in expected)
    for (name, _), row in rows.items():
        assert [value or 0 for value in row] == expected[name]


def _slow(trace: Trace, low: int, high: int) -> dict[str, list[int]]:
    """Microsecond by microsecond: device, busy, exposed, launched of each name."""
    events = {row["id"]: row for row in trace.events().collect().iter_rows(named=True)}
    found: dict[str, list[int]] = defaultdict(lambda: [0] * 4)
    busy, exposed = defaultdict[str, set[int]](set), defaultdict[str, set[int]](set)
    device = [e for e in events.values() if e["rank"] is not None]
    ticks = {e["id"]: set(range(max(e["start"], low) // US, min(e["end"], high) // US)) for e in device}
    computing = set().union(*(ticks[e["id"]] for e in device if e["kind"] == "kernel"))
    for event in device:
        around, up = set(), event["launch"]
        while up is not None:
            around |= {events[up]["name"]} if events[up]["kind"] == "annotation" else set()
            up = events[up]["parent"]
        runs = ticks[event["id"]]
        instant = event["start"] == event["end"] and low <= event["start"] <= high
        for name in around if runs or instant else ():
            found[name][0] += len(runs)
            found[name][3] += 1
            busy[name] |= runs
            exposed[name] |= runs - computing if event["kind"] == "collective" else set()
    for name, counted in found.items():
        counted[1:3] = len(busy[name]), len(exposed[name])
    return found


def test_that_other_threads_launch_is_said() -> None:
    """As in steps of PyTorch/XLA; where one launch is inside, the note would be false."""
    b = Building()
    b.event(MAIN, "step", 0, 100, "annotation")
    b.event(thread("worker"), "call", 10, 20, "runtime", correlation=1)
    b.event(stream(0, 7), "k", 30, 60, "kernel", correlation=1)
    said = "device times are empty: nothing was launched on the annotations' own threads; see steps for other threads"
    assert said in note_texts(run_annotations(b.trace()).notes)[-1]
    b.event(MAIN, "call", 40, 50, "runtime", correlation=2)
    b.event(stream(0, 7), "k", 70, 80, "kernel", correlation=2)
    assert not any(said in note for note in note_texts(run_annotations(b.trace()).notes))
