"""Operators by time: costs of each call on host and device, and a comparison with a simple loop."""

from __future__ import annotations

from collections import defaultdict

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from building import US, Building, Lane, stream, thread
from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.model.facet_schemas import FACET_SCHEMAS
from tracehound.model.trace import Trace, Window
from tracehound.store import merge_file_frames

MAIN = thread("python (1)")


def linear() -> Building:
    """aten::linear around aten::addmm, which launches two kernels; the first itself, the second in a Python frame."""
    b = Building()
    b.event(MAIN, "aten::linear", 0, 100, "op")
    b.event(MAIN, "aten::addmm", 10, 90, "op")
    b.event(MAIN, "cudaLaunchKernel", 20, 30, "runtime", correlation=1)
    b.event(MAIN, "model.py(7): forward", 40, 80, "python")
    b.event(MAIN, "cudaLaunchKernel", 50, 55, "runtime", correlation=2)
    b.event(stream(), "gemm", 100, 300, correlation=1)
    b.event(stream(), "bias", 300, 340, correlation=2)
    return b


def operator_rows(trace: Trace, window: Window | None = None, **chosen: str) -> dict[tuple[str, str | None], dict]:
    result = run_analysis(get_analysis("operators"), trace, window, Options(given=tuple(sorted(chosen.items()))))
    return {(row["name"], row["inside"]): row for row in result.table.iter_rows(named=True)}


def microseconds(row: dict) -> list[int]:
    return [row[name] // US for name in ("host_self", "host_total", "device_self", "device_total")]


def test_a_kernel_belongs_to_the_innermost_operator_and_counts_for_all_around_it() -> None:
    rows = operator_rows(linear().trace())
    assert microseconds(rows["aten::addmm", None]) == [80 - 10 - 5, 80, 240, 240]
    assert microseconds(rows["aten::linear", None]) == [20, 100, 0, 240]
    assert rows["aten::addmm", None]["launched"] == 2
    assert rows["aten::addmm", None]["share"] == 1
    assert rows["aten::linear", None]["share"] == 0


def test_work_that_no_operator_launched_is_told() -> None:
    b = linear()
    b.event(MAIN, "cudaGraphLaunch", 200, 210, "runtime", correlation=3)
    b.event(stream(), "node", 400, 640, correlation=3)
    result = run_analysis(get_analysis("operators"), b.trace())
    assert note_texts(result.notes) == ("50.0 % of device time was launched outside of known operators (240 us)",)
    assert result.table["share"].to_list() == [0.5, 0]


def test_the_id_of_the_active_operator_stands_in_for_a_launch_that_was_not_recorded() -> None:
    b = linear()
    b.event(MAIN, "aten::relu", 200, 210, "op", external=9)
    b.event(stream(), "elementwise", 400, 410, external=9)
    b.event(stream(), "stray", 500, 520, external=11)
    row = operator_rows(b.trace())["aten::relu", None]
    assert microseconds(row) == [10, 10, 10, 10]


def test_a_call_inside_one_of_the_same_name_is_no_part_of_the_total_once_more() -> None:
    b = Building()
    b.event(MAIN, "aten::to", 0, 100, "op")
    b.event(MAIN, "aten::_to_copy", 10, 90, "op")
    b.event(MAIN, "aten::to", 20, 80, "op")
    b.event(MAIN, "cudaMemcpyAsync", 30, 40, "runtime", correlation=1)
    b.event(stream(), "Memcpy", 100, 110, "copy", correlation=1)
    row = operator_rows(b.trace())["aten::to", None]
    assert (row["count"], microseconds(row)) == (2, [70, 100, 10, 10])


def test_in_a_window_times_are_clipped_and_work_counts_by_when_it_ran() -> None:
    rows = operator_rows(linear().trace(), Window(50 * US, 150 * US))
    assert microseconds(rows["aten::addmm", None]) == [40 - 5, 40, 50, 50]
    later = operator_rows(linear().trace(), Window(200 * US, 400 * US))
    assert (later["aten::addmm", None]["count"], *microseconds(later["aten::addmm", None])) == (0, 0, 0, 140, 140)


def test_rows_can_be_told_apart_by_what_they_were_called_in() -> None:
    b = Building()
    b.event(MAIN, "nn.Module: Linear_0", 0, 100, "python")
    b.event(MAIN, "linear.py(7): forward", 0, 100, "python")
    b.event(MAIN, "aten::linear", 10, 90, "op")
    b.event(MAIN, "aten::addmm", 20, 80, "op")
    b.event(MAIN, "aten::addmm", 200, 250, "op")
    trace = b.trace()
    assert {key[1] for key in operator_rows(trace)} == {None}
    assert {key[1] for key in operator_rows(trace, by="parent") if key[0] == "aten::addmm"} == {None, "aten::linear"}
    assert {key[1] for key in operator_rows(trace, by="module")} == {None, "nn.Module: Linear_0"}
    assert {key[1] for key in operator_rows(trace, by="frame")} == {None, "linear.py(7): forward"}


def test_rows_can_be_told_apart_by_shape() -> None:
    b = Building()
    for number, record in enumerate((5, 6, 7)):
        b.event(MAIN, "aten::mm", number * 10, number * 10 + 9, "op", record=record)
    said = [{"record": 5, "dims": "[[1]]"}, {"record": 6, "dims": "[[1]]"}]
    called = pl.DataFrame(said, schema=FACET_SCHEMAS["called"]).lazy()
    trace = merge_file_frames("t", [replace(b.part(), facets={"called": called})])
    shown = run_analysis(get_analysis("operators"), trace, None, Options(given=(("by", "shape"),))).table
    assert dict(shown.select("inside", "count").rows()) == {"[[1]]": 2, None: 1}


def test_ranks_of_one_host_share_its_calls_and_add_their_work() -> None:
    b = linear()
    b.event(MAIN, "aten::mul", 110, 140, "op")
    b.event(MAIN, "cudaLaunchKernel", 120, 130, "runtime", correlation=3)
    b.event(stream(1), "mul", 200, 210, correlation=3)
    b.event(MAIN, "aten::mul", 150, 180, "op")
    b.event(MAIN, "cudaLaunchKernel", 160, 170, "runtime", correlation=4)
    b.event(stream(0), "mul", 400, 430, correlation=4)
    trace = b.trace()
    row = operator_rows(trace)["aten::mul", None]
    assert (row["count"], row["ranks"], row["launched"], microseconds(row)) == (2, 2, 2, [40, 60, 40, 40])
    assert trace.event(row["event"])["start"] == 150 * US


def test_without_a_device_there_are_host_times_alone() -> None:
    b = Building()
    b.event(MAIN, "aten::mm", 0, 10, "op")
    result = run_analysis(get_analysis("operators"), b.trace())
    (row,) = result.table.iter_rows(named=True)
    assert (row["host_self"], row["host_share"], row["device_self"], row["share"]) == (10 * US, 1, None, None)
    assert note_texts(result.notes) == ("no device work: times are of the host only",)


@pytest.mark.parametrize(
    ("form", "word"),
    [
        ("xplane", "no operators in an XLA profile; see ops for its HLO ops or kernels"),
        ("kineto", "ProfilerActivity.CPU"),
    ],
)
def test_an_empty_table_says_why(form: str, word: str) -> None:
    b = Building(format=form)
    b.event(stream(), "dot.1", 0, 10)
    if form == "xplane":
        b.event(MAIN, "dot.1", 0, 10, "op")
    result = run_analysis(get_analysis("operators"), b.trace())
    assert result.table.is_empty()
    assert word in note_texts(result.notes)[0]


def test_an_empty_window_is_not_taken_for_an_empty_recording() -> None:
    note = note_texts(run_analysis(get_analysis("operators"), linear().trace(), Window(5000 * US, 5001 * US)).notes)[0]
    assert note == "no operators in the window (if there are none at all, profile with ProfilerActivity.CPU)"


HOST = st.lists(
    st.tuples(
        st.integers(0, 1), st.sampled_from(["op", "python", "runtime", "annotation"]), st.sampled_from("ab"),
        st.integers(0, 20), st.integers(1, 20),
    ),
    min_size=1, max_size=14,
)  # fmt: skip
WORK = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50), st.integers(0, 9)), max_size=8)


@given(HOST, WORK, st.tuples(st.integers(0, 30), st.integers(1, 30)), st.sampled_from(["name", "parent"]))
def test_against_a_loop(
    host: list[tuple[int, str, str, int, int]], work: list[tuple[int, int, int]], span: tuple[int, int], by: str
) -> None:
    b = Building()
    for i, (number, kind, name, start, length) in enumerate(host):
        b.event(Lane(f"thread {number}"), name, start, start + length, kind, correlation=i)
    for call, start, length in work:
        b.event(stream(), "kernel", start, start + length, correlation=call)
    trace = b.trace()
    window = Window(span[0] * US, (span[0] + span[1]) * US)
    found = {key: _row_numbers(row) for key, row in operator_rows(trace, window, by=by).items()}
    assert found == _slow(trace, *_bounds(trace, window), by)


def _bounds(trace: Trace, window: Window) -> tuple[int, int]:
    return window.clip_bounds(*trace.span)


def _row_numbers(row: dict) -> list[int]:
    names = ("count", "host_self", "host_total", "device_self", "device_total", "launched")
    return [row[name] or 0 for name in names]


Key = tuple[str, str | None]


def _slow(trace: Trace, low: int, high: int, by: str) -> dict[Key, list[int]]:
    """Event by event, up the parents; by=parent tells apart what each was called in."""
    events = {row["id"]: row for row in trace.events().collect().iter_rows(named=True)}
    length = {i: max(min(e["end"], high) - max(e["start"], low), 0) for i, e in events.items()}
    found: dict[Key, list[int]] = defaultdict(lambda: [0] * 6)

    def around(i: int | None, *kinds: str) -> list[int]:
        chain = []
        while i is not None:
            chain += [i] if events[i]["kind"] in kinds else []
            i = events[i]["parent"]
        return chain

    def key(i: int) -> Key:
        outer = around(events[i]["parent"], "op")
        return events[i]["name"], events[outer[0]]["name"] if outer and by == "parent" else None

    inside = defaultdict[int, set[int]](set)
    for i, event in events.items():
        if event["kind"] in ("op", "runtime", "annotation"):
            for outer in around(event["parent"], "op", "runtime", "annotation")[:1]:
                inside[outer] |= set(range(max(event["start"], low), min(event["end"], high), US))
        if length[i] or _instant(event, low, high):
            _add(found, [key(outer) for outer in around(event["launch"], "op")], length[i])
    for i, event in events.items():
        if event["kind"] == "op" and length[i]:
            own = length[i] - US * len(inside[i])
            again = key(i) in {key(outer) for outer in around(event["parent"], "op")}
            _count(found[key(i)], own, 0 if again else length[i])
    return found


def _count(row: list[int], own: int, total: int) -> None:
    row[:3] = row[0] + 1, row[1] + own, row[2] + total


def _instant(event: dict, low: int, high: int) -> bool:
    return event["start"] == event["end"] and low <= event["start"] <= high


def _add(found: dict[Key, list[int]], around: list[Key], length: int) -> None:
    """Add a kernel of this length, launched inside operators of these rows."""
    for one in around[:1]:
        found[one][3] += length
        found[one][5] += 1
    for one in set(around):
        found[one][4] += length
