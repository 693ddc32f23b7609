"""Counters as lanes: what their samples say, and whose they are."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.draw.notes import note_text
from tracehound.formats import CHROME, KINETO, WHOLE_FILE, ignore_progress
from tracehound.formats.assembly.counter_samples import CounterKey, counter_titles, finite_number
from tracehound.formats.json.array_window import DEFAULT_SIZES, ChunkSizes
from tracehound.formats.kineto import kineto_reader as kineto
from tracehound.formats.spill import Spill
from tracehound.model.trace import FileFrames, Window
from tracehound.query import answer_query, prepare_query
from tracehound.store import merge_file_frames
from tracehound.store.saved_frames import load_frames as loaded
from tracehound.store.saved_frames import save_frames

BASE = 1_700_000_000_000_000_000
US = 1_000_000


def kernel(ts: float, device: int = 0) -> dict:
    args = {"device": device, "stream": 7}
    return {"ph": "X", "cat": "kernel", "name": "k", "pid": device, "tid": 7, "ts": ts, "dur": 1, "args": args}


def op(ts: float) -> dict:
    return {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 10, "tid": 10, "ts": ts, "dur": 1}


def sample(name: str, ts: object, args: object, pid: object = 0) -> dict:
    return {"ph": "C", "name": name, "pid": pid, "ts": ts, "args": args}


def memory(ts: float, allocated: object, reserved: object, device: int = 0, kind: int = 1) -> dict:
    held = {"Total Allocated": allocated, "Total Reserved": reserved, "Device Id": device, "Device Type": kind}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 10, "tid": 10, "ts": ts, "args": held}


def delta(ts: float, size: object, kind: int = 1) -> dict:
    args = {"Bytes": size, "Device Id": 0, "Device Type": kind}
    return {"ph": "i", "name": "[memory]", "pid": 10, "tid": 10, "ts": ts, "args": args}


def read(folder: Path, events: list[dict], sizes: ChunkSizes = DEFAULT_SIZES) -> FileFrames:
    path = folder / "rank0.json"
    path.write_text(json.dumps({"schemaVersion": 1, "baseTimeNanoseconds": BASE, "traceEvents": events}))
    return kineto.build_file_frames(
        path, [kineto.decode_shard(path, WHOLE_FILE, Spill(), ignore_progress, sizes)], Spill()
    )


def graphs(part: FileFrames) -> dict[str, list[tuple[int, float]]]:
    """By name of the lane: time (us) and value."""
    return {
        row["name"]: [
            (time // US, value) for lane, time, value in part.counters.iter_rows() if lane == row["lane"]
        ]
        for row in part.lanes.filter(role="counter").to_dicts()
    }  # fmt: skip


def notes(part: FileFrames) -> set[tuple[str, str, int]]:
    return {(note.level, note_text(note).split(",")[0], note.count) for note in part.notes}


def test_a_counter_is_a_lane_of_its_device(tmp_path):
    part = read(tmp_path, [kernel(0), op(0), sample("GPU 0 Utilization", 1, {"GPU Utilization": 0.5}),
                           sample("GPU 0 Utilization", 3, {"GPU Utilization": 1})])  # fmt: skip
    assert graphs(part) == {"GPU 0 Utilization": [(1, 0.5), (3, 1.0)]}
    lane = part.lanes.filter(role="counter").row(0, named=True)
    assert (lane["rank"], lane["host"], lane["work"], lane["events"], lane["rows"], lane["unit"]) == (
        0, 0, False, 0, 1, "",
    )  # fmt: skip
    assert (lane["first"], lane["last"]) == (1 * US, 3 * US)
    assert notes(part) == {("info", "counter samples", 2)}


def test_whose_a_counter_is(tmp_path):
    part = read(tmp_path, [kernel(0, 1), kernel(0, 3), sample("by process", 1, {"v": 1}, 3),
                           sample("by its name", 1, {"v": 1}, "GPU 1 Counters"), sample("host", 1, {"v": 1}, 4711),
                           sample("GPU 3 Utilization", 1, {"v": 1}, "x"),
                           sample("no process", 1, {"v": 1}, None)])  # fmt: skip
    ranks = dict(part.lanes.filter(role="counter").select("name", "rank").iter_rows())
    assert ranks == {"by process": 1, "by its name": 0, "host": None, "GPU 3 Utilization": 1, "no process": None}


def test_values_of_one_event_are_counters_of_their_own(tmp_path):
    part = read(tmp_path, [kernel(0), sample("mem", 1, {"used": 1, "free": 9}), sample("queue", 1, {"launches": 4})])
    assert graphs(part) == {"mem: used": [(1, 1.0)], "mem: free": [(1, 9.0)], "queue": [(1, 4.0)]}
    assert dict(part.lanes.filter(role="counter").select("name", "unit").iter_rows())["queue"] == "launches"


def test_samples_are_in_the_order_of_time_and_the_last_of_equals_holds(tmp_path):
    part = read(tmp_path, [kernel(0), *(sample("c", ts, {"": value}) for ts, value in [(5, 1), (2, 2), (5, 3)])])
    assert graphs(part) == {"c": [(2, 2.0), (5, 1.0), (5, 3.0)]}


def test_memory_is_drawn_for_each_allocator(tmp_path):
    part = read(tmp_path, [kernel(0), memory(1, 100, 400), memory(2, 60, 400), memory(2, 8, 0, -1, 0)])
    assert graphs(part) == {
        "memory allocated": [(1, 100.0), (2, 60.0)],
        "memory reserved": [(1, 400.0), (2, 400.0)],
        "CPU memory allocated": [(2, 8.0)],
    }
    whose = dict(part.lanes.filter(role="counter").select("name", "rank").iter_rows())
    assert whose == {"memory allocated": 0, "memory reserved": 0, "CPU memory allocated": None}
    assert set(part.lanes.filter(role="counter")["unit"]) == {"bytes"}


def test_memory_of_a_device_that_does_nothing_is_drawn_with_the_host(tmp_path):
    part = read(tmp_path, [op(0), memory(1, 100, 400, 2)])
    assert set(graphs(part)) == {"GPU 2 memory allocated", "GPU 2 memory reserved"}


def test_memory_events_without_totals_are_added_up(tmp_path):
    part = read(tmp_path, [kernel(0), delta(3, -40), delta(1, 100), delta(5, 10), delta(5, 7, 0)])
    assert graphs(part) == {"memory change": [(1, 100.0), (3, 60.0), (5, 70.0)], "CPU memory change": [(5, 7.0)]}
    assert ("inferred", "memory events without totals: graphs show memory allocated since the start", 4) in notes(part)


def test_what_is_no_number_is_left_out_and_counted(tmp_path):
    odd = [float("nan"), float("inf"), "many", None, [1], {"a": 1}, True, 10**400]
    events = [kernel(0), *(sample("c", at, {"v": value}) for at, value in enumerate(odd)),
              sample("c", 20, {"v": "2.5"}), sample("c", 21, {"v": 10**300}), sample("c", 22, {}),
              sample("c", 23, None),
              sample("c", 24, {"v": 1, "w": "x"}), sample("c", "soon", {"v": 1}), memory(25, "much", 5)]  # fmt: skip
    part = read(tmp_path, events)
    assert graphs(part) == {
        "c": [(20, 2.5), (21, 1e300), (24, 1.0)], "memory reserved": [(25, 5.0)],
    }  # fmt: skip
    assert ("dropped", "counter samples without a time or a numeric value", len(odd) + 5) in notes(part)


def test_a_sample_far_from_all_events_is_left_out(tmp_path):
    part = read(
        tmp_path, [kernel(1e10), sample("c", 1e10, {"v": 1}), sample("c", 1e13, {"v": 1}), sample("c", 0, {"v": 1})]
    )
    assert graphs(part) == {"c": [(0, 1.0)]}
    assert ("dropped", "counter samples at time 0", 2) in notes(part)
    (where,) = (note.where for note in part.notes if "a day" in note_text(note))
    assert where.endswith("event 2")


def test_a_file_of_nothing_but_counters_has_their_time(tmp_path):
    trace = merge_file_frames("", [read(tmp_path, [sample("c", ts, {"v": ts}, 10) for ts in (5, 9)])])
    assert trace.span == (0, 4 * US)
    assert trace.samples(trace.lanes["lane"][0]).rows() == [(0, 5.0), (4 * US, 9.0)]


def test_counters_of_several_files_keep_their_lanes_and_move_with_their_clocks(tmp_path):
    parts = []
    for rank, at in ((0, 0), (1, 1)):
        (folder := tmp_path / f"r{rank}").mkdir()
        parts.append(read(folder, [op(at), sample("c", at + 1, {"v": rank}, 10)]))
    trace = merge_file_frames("", parts)
    lanes = trace.lanes.filter(role="counter")["lane"].to_list()
    assert [trace.samples(lane).rows() for lane in lanes] == [[(1 * US, 0.0)], [(2 * US, 1.0)]]
    assert trace.samples(trace.lanes.filter(role="thread")["lane"][0]).height == 0


@given(
    st.lists(st.tuples(st.integers(0, 50), st.sampled_from(["a", "b"]), st.integers(-9, 9)), max_size=60),
    st.sampled_from([64, 300, 1 << 12]),
)
def test_cutting_a_file_changes_nothing(tmp_path_factory, found, segment):
    folder = tmp_path_factory.mktemp("cut")
    events = [op(0), *(sample(name, ts, {"v": value}) for ts, name, value in found)]
    expected: dict[str, list[tuple[int, float]]] = {}
    for ts, name, value in sorted(found, key=lambda each: each[0]):
        expected.setdefault(name, []).append((ts, float(value)))
    assert graphs(read(folder, events, ChunkSizes(segment))) == expected


def test_a_part_from_the_cache_has_its_counters(tmp_path):
    part = read(tmp_path, [kernel(0), sample("c", 1, {"v": 2}), memory(3, 5, 9)])
    (folder := tmp_path / "kept").mkdir()
    save_frames(part, folder)
    again = loaded(folder, part.path)
    assert again.counters.equals(part.counters)
    assert again.lanes.equals(part.lanes)


def test_a_query_sees_counters(tmp_path):
    trace = merge_file_frames(
        "", [read(tmp_path, [kernel(0), *(sample("q", ts, {"launches": ts}) for ts in (1, 4, 9))])]
    )
    found = answer_query(prepare_query("SELECT lane, time, value, unit, rank FROM counters"), trace)
    assert found.table.rows() == [("q", ts * US, float(ts), "launches", 0) for ts in (1, 4, 9)]
    inside = answer_query(prepare_query("SELECT value FROM counters"), trace, Window(2 * US, 9 * US))
    assert inside.table.rows() == [(4.0,)]


def test_analyses_do_not_take_a_counter_for_a_thread(tmp_path):
    trace = merge_file_frames("", [read(tmp_path, [kernel(0), sample("c", 1, {"v": 2}, 4711)])])
    found = answer_query(prepare_query("SELECT what FROM health WHERE level = 'missing'"), trace)
    assert [row for row in found.table["what"] if "launch" in row] == []


def test_an_xla_trace_may_have_counters(tmp_path):
    path = tmp_path / "node.trace.json.gz"
    names = [{"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
             for pid, name in ((3, "/device:TPU:0"), (7, "/host:CPU"))]  # fmt: skip
    lines = [{"ph": "M", "pid": 3, "tid": 1, "name": "thread_name", "args": {"name": "XLA Ops"}}]
    events = [{"ph": "X", "pid": 3, "tid": 1, "name": "add", "ts": 10, "dur": 5, "args": {"hlo_category": "add"}},
              sample("Queue length", 12, {"launches": "3"}, 3), sample("load", 12.5, {"v": 1.5}, 7),
              sample("load", 13, {"v": "NaN"}, 7), sample("load", 1e30, {"v": 1}, 7), {}]  # fmt: skip
    head = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}}
    path.write_bytes(gzip.compress(json.dumps({**head, "traceEvents": [*names, *lines, *events]}).encode()))
    part = CHROME.read(path, ignore_progress)
    assert graphs(part) == {"Queue length": [(12, 3.0)], "load": [(12, 1.5)]}
    assert dict(part.lanes.filter(role="counter").select("name", "rank").iter_rows()) == {
        "Queue length": 0, "load": None,
    }  # fmt: skip
    assert {(note.level, note.count) for note in part.notes if "counter" in note_text(note)} == {
        ("info", 2),
        ("dropped", 2),
    }


def test_names_and_units():
    series = [
        CounterKey(0, "a", "x"), CounterKey(0, "a", "y"), CounterKey(1, "a", "x"), CounterKey(0, "GPU 0 Load", "Load"),
              CounterKey(0, "", "x"), CounterKey(0, "b", "")]  # fmt: skip
    assert [*counter_titles(series).values()] == [
        ("a: x", ""),
        ("a: y", ""),
        ("a", "x"),
        ("GPU 0 Load", ""),
        ("x", "x"),
        ("b", ""),
    ]


@pytest.mark.parametrize("value", [None, True, "", "1e999", float("nan"), -float("inf"), 10**400, [], {}, b"1"])
def test_no_number(value):
    assert finite_number(value) is None


def test_real_counters(shared):
    kineto_files = shared / "traces" / "kineto"
    metrics = KINETO.read(kineto_files / "gpu_counters" / "gpu_metrics_expected.json", ignore_progress)
    assert {name: len(found) for name, found in graphs(metrics).items()} == {
        "GPU 0 Utilization": 16, "GPU 0 Est. SM Efficiency": 62,
    }  # fmt: skip
    held = graphs(KINETO.read(kineto_files / "cpu_only_memory" / "trace.json", ignore_progress))
    events = json.loads((kineto_files / "cpu_only_memory" / "trace.json").read_bytes())["traceEvents"]
    expected = [event["args"]["Total Allocated"] for event in events if event["name"] == "[memory]"]
    assert [value for _, value in held["CPU memory allocated"]] == expected
