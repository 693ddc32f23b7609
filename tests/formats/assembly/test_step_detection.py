"""Steps that nothing marks: from an engine's annotations, from iterations, from optimizers, from graphs."""

from __future__ import annotations

import polars as pl
from hypothesis import example, given
from hypothesis import strategies as st

from building import US, Building, Lane, stream, thread
from tracehound.draw.notes import note_text
from tracehound.formats.assembly.step_detection import steps_from_recurrence
from tracehound.model.trace import STEPS, Trace

MAIN = thread("python (1)")


def told(trace: Trace) -> list[tuple[int, int, int, str]]:
    """Number, start and end (us) and the name of what told each step."""
    rows = trace.steps.select("step", "start", "end", "name", "inferred").rows()
    assert all(inferred for *_, inferred in rows)
    return [(step, start // US, end // US, name) for step, start, end, name, _ in rows]


def marks(trace: Trace) -> list[tuple[str, int]]:
    """Name and start (us) of the events that told the steps."""
    events = [trace.event(event) for event in trace.steps["event"].to_list()]
    return [(str(event["name"]), event["start"] // US) for event in events]


def test_an_engine_marks_every_step_be_it_the_only_one() -> None:
    b = Building()
    outer = "execute_32_context_0(sq0sk0)_generation_32(sq32sk32785)"
    b.event(MAIN, outer, 0, 50, "annotation")
    b.event(MAIN, "step[DECODE bs=32]", 1, 49, "annotation")
    b.event(MAIN, "hipGraphLaunch", 2, 3, "runtime")
    trace = b.trace()
    assert told(trace) == [(0, 0, 50, outer)]
    assert marks(trace) == [(outer, 0)]
    assert any("annotations such as execute_32" in note_text(note) for note in trace.notes)


def test_annotations_that_follow_one_another_and_cover_the_time_are_iterations() -> None:
    b = Building()
    for number in range(4):
        b.event(MAIN, f"iteration {number}", 100 * number, 100 * number + 80, "annotation")
        b.event(MAIN, "forward", 100 * number + 10, 100 * number + 40, "annotation")
        b.event(MAIN, "enumerate(DataLoader)#x.__next__", 100 * number + 80, 100 * number + 100, "annotation")
    b.event(stream(), "k", 10, 20)
    trace = b.trace()
    assert told(trace) == [(n, 100 * n, 100 * n + 80, f"iteration {n}") for n in range(4)]
    assert trace.events().filter(kind="kernel").collect()["step"].to_list() == [0]


def test_of_threads_that_run_the_same_loop_the_first_tells_the_steps_and_the_others_are_counted() -> None:
    """The first has fewer where it runs less of them: then the one with most does."""
    for left, expected in ((0, MAIN.name), (1, "worker 1")):
        b = Building()
        b.event(MAIN, "main", 0, 400, "annotation")
        for number in range(4 - left):
            b.event(MAIN, "loop", 100 * number + 20, 100 * number + 90, "annotation")
        for number in range(4):
            for worker in (1, 2):
                b.event(thread(f"worker {worker}"), "loop", 100 * number + worker, 100 * number + 99, "annotation")
        trace = b.trace()
        lanes = {trace.event(event)["lane"] for event in trace.steps["event"].to_list()}
        assert trace.lanes.filter(pl.col("lane").is_in(lanes))["name"].to_list() == [expected]
        others = [note.count for note in trace.notes if "on other threads" in note_text(note)]
        assert others == [8 - left]


def test_annotations_that_are_rare_overlap_or_leave_most_of_the_time_are_none() -> None:
    b = Building()
    for number in range(2):
        b.event(MAIN, "twice", 100 * number, 100 * number + 100, "annotation")
    for number in range(5):
        b.event(MAIN, "overlapping", 20 * number, 20 * number + 30, "annotation")
        b.event(thread("other"), "short", 100 * number, 100 * number + 5, "annotation")
    assert b.trace().steps.is_empty()


def test_a_step_of_training_ends_with_that_of_the_optimizer() -> None:
    b = Building()
    for number in range(3):
        b.event(MAIN, "Optimizer.zero_grad#SGD.zero_grad", 100 * number, 100 * number + 5, "annotation")
        b.event(MAIN, "Optimizer.step#SGD.step", 100 * number + 80, 100 * number + 90, "annotation")
    trace = b.trace()
    assert told(trace) == [(0, 90, 190, "Optimizer.step#SGD.step"), (1, 190, 290, "Optimizer.step#SGD.step")]
    assert [start for _, start in marks(trace)] == [180, 280]


def test_a_replay_of_a_graph_lasts_until_the_next() -> None:
    b = Building()
    for number in range(3):
        b.event(MAIN, "cudaGraphLaunch", 10 * number, 10 * number + 2, "runtime", correlation=number)
        b.event(stream(), "node", 10 * number + 5, 10 * number + 12, correlation=number)
    trace = b.trace()
    assert told(trace) == [
        (0, 0, 10, "cudaGraphLaunch"),
        (1, 10, 20, "cudaGraphLaunch"),
        (2, 20, 22, "cudaGraphLaunch"),
    ]
    assert [start for _, start in marks(trace)] == [0, 10, 20]
    assert any(
        "no step marks: steps are inferred from graph replays (cudaGraphLaunch)" in note_text(note)
        for note in trace.notes
    )


def test_marks_and_modules_come_first() -> None:
    for lane, name, kind, more in (
        (MAIN, "ProfilerStep#7", "step", {"step": 7}),
        (Lane("XLA Modules", 0, "modules"), "jit_step", "module", {}),
    ):
        b = Building()
        for number in range(4):
            b.event(MAIN, "train", 100 * number, 100 * number + 100, "annotation")
            b.event(lane, name, 100 * number, 100 * number + 50, kind, **more)
        assert set(b.trace().steps["name"]) == {name}


def test_annotations_on_devices_tell_nothing() -> None:
    b = Building()
    shadows = Lane("stream 7 annotations", 0, "annotations")
    for number in range(4):
        b.event(shadows, "train", 100 * number, 100 * number + 100, "annotation")
        b.event(stream(), "k", 100 * number, 100 * number + 100)
    assert b.trace().steps.is_empty()


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.integers(0, 40),
        st.integers(0, 10),
        st.sampled_from(["a", "b 1", "b 2", "step[DECODE bs=1]", "Optimizer.step#Adam", "cudaGraphLaunch", "nccl:x"]),
    ),
    max_size=20,
)


@given(EVENTS)
@example([(0, 0, 0, "Optimizer.step#Adam")] * 2 + [(0, 0, 1, "Optimizer.step#Adam")])
def test_any_events_give_steps_in_order_each_with_its_event(events: list[tuple[int, int, int, str]]) -> None:
    b = Building()
    for lane, start, length, name in events:
        kind = "runtime" if name == "cudaGraphLaunch" else "annotation"
        b.event(thread(f"thread {lane}"), name, start, start + length, kind)
    steps = b.trace().steps
    assert steps["step"].to_list() == list(range(steps.height))
    assert steps["event"].null_count() == 0
    assert (steps["end"] >= steps["start"]).all()
    assert (steps["start"].shift(-1) >= steps["end"]).drop_nulls().all()
    engine = [name for *_, name in events if name.startswith("step[")]
    assert bool(engine) == (steps.height > 0 and steps["name"][0].startswith("step["))


def test_nothing_gives_no_steps() -> None:
    columns = {"host": pl.Int64, "lane": pl.Int64, "start": pl.Int64, "end": pl.Int64, "name": pl.String}
    found = steps_from_recurrence(pl.DataFrame(schema={**columns, "kind": pl.String}))
    assert found.is_empty()
    assert found.schema == STEPS
