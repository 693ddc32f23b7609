"""Steps: marks, inference, and the device's state inside them."""

from __future__ import annotations

import pytest

from building import US, Building, Lane, stream, thread
from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.draw.notes import note_text, note_texts
from tracehound.model.trace import Window


def test_marked_steps() -> None:
    b = Building()
    for n in (3, 4):
        b.event(thread(), f"ProfilerStep#{n}", 100 * n, 100 * n + 90, "step", step=n)
        b.event(thread(), "cudaLaunchKernel", 100 * n + 5, 100 * n + 9, "runtime", correlation=n)
        b.event(stream(), "gemm", 100 * n + 20, 100 * n + 65, correlation=n)
    b.event(Lane("stream 7 annotations", 0, "annotations"), "ProfilerStep#3", 320, 365, "annotation")
    trace = b.trace()
    rows = run_analysis(get_analysis("steps"), trace).table.rows(named=True)
    assert [(r["step"], r["duration"] // US, r["busy"], r["idle"] // US) for r in rows] == [
        (3, 90, 0.5, 45),
        (4, 90, 0.5, 45),
    ]
    assert not any(r["inferred"] for r in rows)
    cut = run_analysis(get_analysis("steps"), trace, Window(0, 50 * US)).table.rows(named=True)
    assert [r["step"] for r in cut] == [3]
    assert cut == rows[:1], "a step is shown in full, what its device did after the window too"


def test_late_device_work_belongs_to_the_step_that_launched_it() -> None:
    b = Building()
    b.event(thread(), "ProfilerStep#1", 0, 10, "step", step=1)
    b.event(thread(), "ProfilerStep#2", 10, 20, "step", step=2)
    b.event(thread(), "cudaLaunchKernel", 5, 6, "runtime", correlation=9)
    b.event(stream(), "gemm", 12, 18, correlation=9)
    kernel = b.trace().events().filter(kind="kernel").collect()
    assert kernel["step"].to_list() == [1]


def host_runs_ahead() -> Building:
    """Of step 1, launched at 5 us, 12 us run after its mark: from 10 to 20 on one stream, 15 to 22 on another."""
    b = Building()
    for n in (1, 2):
        b.event(thread(), f"ProfilerStep#{n}", 100 * n - 100, 100 * n - 90, "step", step=n)
    for n, (lane, start, end) in enumerate(((7, 8, 20), (8, 15, 22), (7, 101, 104))):
        b.event(thread(), "cudaLaunchKernel", 5 if n < 2 else 100, 6 if n < 2 else 101, "runtime", correlation=n + 1)
        b.event(stream(number=lane), "gemm", start, end, correlation=n + 1)
    return b


def test_a_step_lasts_until_its_work_is_done_as_in_step_parts() -> None:
    trace = host_runs_ahead().trace()
    result, parts = run_analysis(get_analysis("steps"), trace), run_analysis(get_analysis("step_parts"), trace)
    rows = result.table.rows(named=True)
    assert [(r["duration"] // US, r["busy"], r["idle"] // US) for r in rows] == [(22, 14 / 22, 8), (10, 0.3, 7)]
    assert result.table.select("step", "start", "duration").equals(parts.table.select("step", "start", "duration"))
    said = "steps last to the end of their work; between their marks on the host (bounds=mark) the median is 10.0 us"
    assert said in note_texts(result.notes)
    first = run_analysis(get_analysis("steps"), trace, Window(0, 4 * US))
    assert first.table.rows(named=True) == rows[:1], "what is to be known of it lies after the window"
    assert any(note.startswith(said) for note in note_texts(first.notes))
    second = run_analysis(get_analysis("steps"), trace, Window(100 * US, 110 * US))
    assert not any("marks" in note for note in note_texts(second.notes))


@pytest.mark.parametrize("window", [Window(), Window(0, 100 * US), Window(0, 15 * US)])
def test_a_step_without_work_of_a_device_that_works_is_idle_in_any_window(window: Window) -> None:
    b = Building()
    b.event(thread(), "ProfilerStep#1", 0, 10, "step", step=1)
    b.event(thread(), "cudaLaunchKernel", 5, 6, "runtime", correlation=1)
    b.event(stream(), "gemm", 20, 30, correlation=1)
    marks = Options(given=(("bounds", "mark"),))
    (row,) = run_analysis(get_analysis("steps"), b.trace(), window, marks).table.rows(named=True)
    assert (row["busy"], row["compute"], row["idle"]) == (0.0, 0, 10 * US)


def test_steps_by_their_marks() -> None:
    result = run_analysis(
        get_analysis("steps"), host_runs_ahead().trace(), options=Options(given=(("bounds", "mark"),))
    )
    assert [(r["duration"] // US, r["busy"]) for r in result.table.rows(named=True)] == [(10, 0.2), (10, 0.3)]
    assert not any("until their work" in note for note in note_texts(result.notes))


def test_steps_inferred_from_the_module_that_repeats() -> None:
    b = Building()
    modules = Lane("XLA Modules", 0, "modules")
    ops = Lane("XLA Ops", 0, "ops", work=True)
    b.event(modules, "jit_init", 0, 50, "module")
    for n in range(4):
        b.event(modules, "jit_step", 100 + 30 * n, 120 + 30 * n, "module")
        b.event(ops, "dot", 100 + 30 * n, 115 + 30 * n, "op")
    trace = b.trace()
    rows = run_analysis(get_analysis("steps"), trace).table.rows(named=True)
    assert [(r["step"], r["start"] // US, r["duration"] // US) for r in rows] == [
        (0, 100, 30),
        (1, 130, 30),
        (2, 160, 30),
        (3, 190, 20),
    ]
    assert all(r["inferred"] for r in rows)
    assert [r["partial"] for r in rows] == [False, False, False, True], "nothing tells when the last one ended"
    assert "3 whole steps on 1 rank: each 30.0 us" in note_texts(run_analysis(get_analysis("steps"), trace).notes)
    assert any(note.level == "inferred" and "jit_step" in note_text(note) for note in trace.notes)


def replayed_steps(*more: str) -> list[bool]:
    """Flags of partial steps where a graph is replayed every 100 us, and calls between are annotated."""
    b = Building()
    for n in range(5):
        b.event(thread(), "cudaGraphLaunch", 100 * n, 100 * n + 5, "runtime", correlation=n + 1)
        b.event(stream(), "gemm", 100 * n + 10, 100 * n + 90, correlation=n + 1)
        for name in more:
            b.event(thread(), name, 100 * n - 1, 100 * n + 92, "annotation")
    trace = b.trace()
    return [row["partial"] for row in run_analysis(get_analysis("steps"), trace).table.rows(named=True)]


def test_the_last_replay_has_no_end_and_the_last_annotation_has_one() -> None:
    assert replayed_steps() == [False, False, False, False, True]
    assert replayed_steps("execute_context_0(0)_generation_3(3)") == [False] * 5


def test_no_steps_is_said() -> None:
    b = Building()
    b.event(stream(), "k", 0, 1)
    assert "no steps" in note_texts(run_analysis(get_analysis("steps"), b.trace()).notes)[0]


@pytest.mark.parametrize("analysis", ["steps", "step_parts"])
def test_a_window_without_a_mark_says_nothing_of_the_trace(analysis: str) -> None:
    b = Building()
    b.event(thread("python (1)"), "ProfilerStep#1", 0, 10, "step", step=1)
    b.event(stream(), "k", 0, 40)
    (note,) = note_texts(run_analysis(get_analysis(analysis), b.trace(), Window(20 * US, 30 * US)).notes)
    assert note.startswith("no step is marked in the window; a host that runs ahead may have marked it earlier")


@pytest.mark.parametrize(
    ("form", "how", "source"),
    [
        ("kineto", "profiler.step()", "record_function"),
        ("xplane", "StepTraceAnnotation or StepTrace", "TraceAnnotation or xp.Trace"),
    ],
)
def test_how_steps_and_annotations_are_made_is_said_in_the_words_of_who_recorded(
    form: str, how: str, source: str
) -> None:
    b = Building(format=form)
    b.event(stream(), "gemm", 0, 1)
    for name in ("steps", "step_parts"):
        assert note_texts(run_analysis(get_analysis(name), b.trace()).notes) == (f"no steps: mark them with {how}",)
    by_step = Options(None, (("by", "step"),))
    for name in ("breakdown", "distributed"):
        assert f"no steps: mark them with {how}" in note_texts(
            run_analysis(get_analysis(name), b.trace(), options=by_step).notes
        )
    assert note_texts(run_analysis(get_analysis("annotations"), b.trace()).notes) == (
        f"no annotations: annotate the source with {source}",
    )
