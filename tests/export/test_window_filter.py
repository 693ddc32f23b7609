"""What of a file a window wants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporting import document, job, opened, own, points, rank, written, x
from short import first
from tracehound.analysis import get_analysis, run_analysis
from tracehound.draw.notes import note_text, note_texts, render_note_columns
from tracehound.export.window_filter import parse_ps
from tracehound.model.trace import Trace, Window
from tracehound.report.window_arguments import parse_window
from xspaces import Event, Line, Plane, space

US = 1_000_000


def names(found: dict[str, Any]) -> list[str]:
    return [f"{event['ph']} {event['name']}" for event in own(found)]


def test_what_overlaps_is_written_whole(tmp_path: Path) -> None:
    (path,) = job(tmp_path, rank(0, at=0))
    found = document(opened(path), Window(34 * US, 45 * US))  # the trace begins at its first event, at 1 us
    kept = [event for event in own(found) if event["ph"] != "M"]
    assert kept == [
        event
        for event in rank(0, at=0)["traceEvents"]
        if event["ph"] != "M" and event["ts"] <= 46 and event["ts"] + event.get("dur", 0) >= 35
    ]
    assert [event["name"] for event in kept] == ["k1", "PyTorch Profiler (0)"]
    assert points(found) == {
        (0, "Queue length, stream 7"): [(35, 0)],
        (0, "Utilization, GPU"): [(35, 100), (40, 12.5), (41, 0)],
    }


def stepped(number: int, at: float = 1000) -> dict[str, Any]:
    """Five steps of 100 us, each with a kernel that goes on for a while after its mark."""
    events = []
    for step in range(5):
        begin = at + 100 * step
        events += [
            x("user_annotation", f"ProfilerStep#{step}", begin, 90),
            x("cuda_runtime", "cudaLaunchKernel", begin + 10, 1, correlation=step + 100),
            x("kernel", "gemm", begin + 20, 75, 0, 7, correlation=step + 100, device=0, stream=7),
        ]
    return rank(number, at=at, files=events) | {"traceEvents": events}


def partial(trace: Trace) -> dict[int, list[bool]]:
    table = run_analysis(get_analysis("steps"), trace).table.sort("rank", "step")
    return {rank: rows["partial"].to_list() for (rank,), rows in table.group_by("rank", maintain_order=True)}


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (150, 360, [True, False, True]),
        *first(
            1,
            (
                (100, 395, [False, False, False]),
                (150, None, [True, False, False, False]),
                (100, 393, [False, False, True]),
                (None, 395, [False] * 4),
            ),
        ),
    ],
)
def test_steps_that_cross_an_edge_of_the_window_read_back_as_partial(
    tmp_path: Path, low: int | None, high: int | None, expected: list[bool]
) -> None:
    """Alone, several in one file, each in its own, and again."""
    paths = job(tmp_path, stepped(0), stepped(1, at=1000))
    window = Window(*(None if time is None else time * US for time in (low, high)))
    for number, files in enumerate((paths[:1], paths)):
        out = tmp_path / f"out{number}.json"
        written(opened(*files), out, window)
        again = opened(out)
        assert list(partial(again).values()) == [expected] * len(files)
        assert any(
            note_text(note).startswith(
                "exported window of a recording: events outside of it are missing, and steps that cross its "
                "edges are partial"
            )
            for note in again.notes
        )
        written(again, tmp_path / "whole.json")
        assert partial(opened(tmp_path / "whole.json")) == partial(again)
        assert (tmp_path / "whole.json").read_bytes().count(b"exportedWindow") == 1


def test_a_window_of_a_window_has_the_edges_of_both(tmp_path: Path) -> None:
    (path,) = job(tmp_path, stepped(0))
    written(opened(path), tmp_path / "first.json", Window(150 * US))
    first = opened(tmp_path / "first.json")  # which begins with the step that crosses the edge, at 100 us
    written(first, tmp_path / "second.json", Window(None, 260 * US))
    assert document(first, Window(None, 260 * US))["exportedWindow"] == ["1150.000", "1360.000"]
    assert partial(opened(tmp_path / "second.json")) == {0: [True, False, True]}


def test_the_window_of_steps_lasts_until_their_work_has_ended(tmp_path: Path) -> None:
    """The kernel of each goes on for 5 us after its mark."""
    trace = opened(*job(tmp_path, stepped(0)))
    for said, expected in (("2", [False]), ("1-2", [False, False])):
        window = parse_window(trace, steps=said)
        assert document(trace, window)["exportedWindow"][1] == "1295.000"
        written(trace, tmp_path / "out.json", window)
        assert partial(opened(tmp_path / "out.json")) == {0: expected}


def test_the_work_of_a_step_that_is_not_in_the_file_makes_no_other_partial(tmp_path: Path) -> None:
    """The host runs ahead by more than a step: what the device does at first was launched before the window."""
    events = []
    for step in range(6):
        begin, ids = 1000 + 100 * step, [10 * step + place for place in range(5)]
        events.append(x("user_annotation", f"ProfilerStep#{step}", begin, 90))
        events += [
            x("cuda_runtime", "cudaLaunchKernel", begin + 10 + place, 1, correlation=one)
            for place, one in enumerate(ids)
        ]
        events += [
            x("kernel", "gemm", begin + 150 + 15 * place, 10, 0, 7, correlation=one, device=0, stream=7)
            for place, one in enumerate(ids)
        ]
    trace = opened(*job(tmp_path, rank(0, at=1000, files=events) | {"traceEvents": events}))
    for said, expected in (("2-3", [False, False]), ("2-4", [False] * 3), ("3", [False])):
        written(trace, tmp_path / "out.json", parse_window(trace, steps=said))
        assert partial(opened(tmp_path / "out.json")) == {0: expected}


def test_what_is_not_cut_in_time_has_no_window(tmp_path: Path) -> None:
    (path,) = job(tmp_path, stepped(0))
    for window in (Window(), Window(ranks=(0,)), Window(steps=(1, 2))):
        assert "exportedWindow" not in document(opened(path), window)


def test_a_window_of_an_xla_profile_reads_back_as_one(tmp_path: Path) -> None:
    marks = [Event(str(n), 100 * US * n, 100 * US) for n in range(5)]
    ops = [Event("dot", 100 * US * n + 10 * US, 80 * US) for n in range(5)]
    path = tmp_path / "h.xplane.pb"
    path.write_bytes(space(Plane("/device:TPU:0", [Line("Steps", marks, 1), Line("XLA Ops", ops, 2)])))
    for low, high, expected in ((150, 400, [True, False, False]), (100, 301, [False, False, True])):
        written(opened(path), tmp_path / "out.json", Window(low * US, high * US))
        assert partial(opened(tmp_path / "out.json")) == {0: expected}


def test_metadata_and_facts_are_always_there(tmp_path: Path) -> None:
    (path,) = job(tmp_path, rank(0))
    found = document(opened(path), Window(0, US))
    assert [event for event in own(found) if event["ph"] == "M"] == rank(0)["traceEvents"][:3]
    assert found["distributedInfo"] == rank(0)["distributedInfo"]


def test_a_rank_of_a_file_of_several_has_its_host_and_no_other_device(tmp_path: Path) -> None:
    other = x("kernel", "of another", 120, 5, 1, 7, device=1, stream=7)
    (path,) = job(tmp_path, rank(0, files=[other]))
    trace = opened(path)
    assert trace.ranks["device"].to_list() == [0, 1]
    second = trace.ranks["rank"][1]
    assert "X of another" not in names(document(trace, Window(ranks=(0,))))
    of_other = document(trace, Window(ranks=(second,)))
    assert "X of another" in names(of_other)
    assert "X k0" not in names(of_other)
    assert "X cudaLaunchKernel" in names(of_other)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["X", "i", "s", "f", "C"]),
        st.integers(0, 120).map(lambda half: 500 * half),  # ns that a float of the us since 1970 is written with
        st.integers(0, 20_000),
        st.sampled_from(["cpu_op", "user_annotation", "python_function"]),
    ),
    min_size=1,
    max_size=25,
)


@given(
    EVENTS,
    st.integers(0, 60_000),
    st.integers(1, 60_000),
    st.sampled_from([1_500_000_000, 1_695_835_572_943_623]),
    st.sampled_from(["both", "low", "high"]),
)
def test_the_choice_is_that_of_a_slow_loop(
    tmp_path_factory: pytest.TempPathFactory,
    found: list[tuple[str, int, int, str]],
    low: int,
    length: int,
    begin: int,
    bounds: str,
) -> None:
    """Times count from a boot, or from 1970, as in older files; the window may have no end, or no beginning."""
    events = [
        {"ph": phase, "name": f"e{number}", "cat": cat, "pid": 10, "tid": 10, "ts": begin + at / 1000}
        | ({"dur": dur / 1000} if phase == "X" else {})
        for number, (phase, at, dur, cat) in enumerate(found)
    ]
    first = {"ph": "X", "name": "first", "cat": "cpu_op", "pid": 10, "tid": 10, "ts": begin, "dur": 0.0}
    (path,) = job(tmp_path_factory.mktemp("any"), {"schemaVersion": 1, "traceEvents": [first, *events]})
    trace = opened(path)
    last = trace.span[1] // 1000
    low, high = min(low, last), min(low + length, last)
    window = Window(None if bounds == "high" else low * 1000, None if bounds == "low" else high * 1000)
    low, high = -1 if bounds == "high" else low, 10**9 if bounds == "low" else high

    def wanted(phase: str, at: int, dur: int) -> bool:
        end = at + dur if phase == "X" else at
        if phase in ("X", "i") and at < end:
            return at < high and end > low
        return low <= at <= high

    expected = [event for event, (phase, at, dur, _) in zip(events, found, strict=True) if wanted(phase, at, dur)]
    kept = own(document(trace, window))
    assert [event for event in kept if event["name"] != "first"] == expected


def test_a_rank_of_an_old_file_is_all_of_it(tmp_path: Path) -> None:
    """Flows, memory and what has no time too."""
    events = rank(0)["traceEvents"]
    late = [event | {"ts": event["ts"] + 1_695_835_572_943_623} if "ts" in event else event for event in events]
    (path,) = job(tmp_path, rank(0) | {"traceEvents": late})
    trace = opened(path)
    assert (
        names(document(trace, Window(ranks=(0,))))
        == names(document(trace, Window()))
        == [f"{event['ph']} {event['name']}" for event in events]
    )


@pytest.mark.parametrize("word", ["nan", "1e999999999", [], None, "later", 2.0**80])
def test_what_is_no_time_is_none(word: object) -> None:
    with pytest.raises(ArithmeticError):
        parse_ps(word)


def test_times_are_exact() -> None:
    assert parse_ps("1784000000000000.123456") == 1784000000000000123456


def test_a_step_that_was_inferred_is_inferred_from_the_one_execution_in_the_window(tmp_path: Path) -> None:
    steps = [Event("jit_step(7)", 100 * US * n, 70 * US) for n in range(4)]
    other = Event("jit_other(8)", 275 * US, 10 * US)
    path = tmp_path / "h.xplane.pb"
    path.write_bytes(space(Plane("/device:TPU:0", [Line("XLA Modules", [*steps, other], 1)])))
    trace = opened(path)
    assert trace.steps.select("name", "inferred").unique().rows() == [("jit_step(7)", True)]
    written(trace, tmp_path / "first.json", Window(steps=(2,)))
    first = opened(tmp_path / "first.json")
    assert first.steps.select("name", "start", "step", "inferred").rows() == [("jit_step(7)", 0, 0, True)]
    written(first, tmp_path / "second.json")
    assert opened(tmp_path / "second.json").steps.drop("event").equals(first.steps.drop("event"))


@pytest.mark.parametrize("again", first(1, (True, False)))
def test_that_the_file_was_cut_off_is_said_where_its_export_is_read(tmp_path: Path, *, again: bool) -> None:
    (path,) = job(tmp_path, rank(0, at=0))
    whole = document(opened(path))
    text = path.read_text("utf-8")
    path.write_text(text[: text.rindex('"name"')], "utf-8")
    found = document(opened(path))
    assert "severedSource" not in whole
    assert found["severedSource"] is True
    if again:
        (tmp_path / "again.json").write_text(json.dumps(found), "utf-8")
        found = document(opened(tmp_path / "again.json"))
    (tmp_path / "out.json").write_text(json.dumps(found), "utf-8")
    read = opened(tmp_path / "out.json")
    assert any("cut short" in note for note in note_texts(run_analysis(get_analysis("findings"), read).notes))
    health = render_note_columns(run_analysis(get_analysis("health"), read)).table
    assert health.filter(pl.col("what").str.contains("ends within its events"))["level"].to_list() == ["missing"]


def test_that_an_xplane_was_cut_off_is_said_where_its_export_is_read(tmp_path: Path) -> None:
    device = Plane("/device:TPU:0", [Line("XLA Ops", [Event("fusion", n, 1) for n in range(99)])])
    (tmp_path / "vm.xplane.pb").write_bytes(space(device)[:-20])
    (tmp_path / "out.json").write_text(json.dumps(document(opened(tmp_path / "vm.xplane.pb"))), "utf-8")
    notes = opened(tmp_path / "out.json").parts[0].notes
    assert any("exported from a file that ends within its events" in note_text(note) for note in notes)
