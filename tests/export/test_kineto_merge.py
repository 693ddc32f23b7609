"""Several ranks in one document: one clock, and nothing of one taken for another's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporting import BASE, document, job, opened, own, points, rank, rows, written, x
from jobs import Rank, files
from short import first
from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.draw.notes import note_text, note_texts
from tracehound.model.trace import Trace, Window
from tracehound.store import load_trace, open_trace_files
from tracehound.store.clock_choice import set_alignment


def of_name(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [event for event in own(found) if event["name"] == name]


def test_ranks_are_on_the_clock_of_the_trace(tmp_path: Path) -> None:
    late = BASE + 20_000  # each file counts from its own base
    found = document(opened(*job(tmp_path, rank(0), rank(1, device=1, base=late, pid=11))))
    assert found["baseTimeNanoseconds"] == BASE + 101_000
    assert found["mergedRanks"] == [0, 1]
    assert [event["ts"] for event in of_name(found, "k0")] == [9, 29]
    assert [event["ts"] for event in of_name(found, "PyTorch Profiler (0)")] == [-1, 19]


def test_processes_are_told_apart_and_named_after_their_rank(tmp_path: Path) -> None:
    found = document(opened(*job(tmp_path, rank(0), rank(1), rank(2, device=2, pid=12))))
    kernels = [(event["pid"], event["args"]["device"]) for event in of_name(found, "k0")]
    assert kernels == [(0, 0), (1, 1), (2, 2)]
    launches = {event["pid"] for event in of_name(found, "cudaLaunchKernel")}
    assert len(launches) == 3
    assert {10, 12} < launches
    labels = {event["pid"]: event["args"]["name"] for event in of_name(found, "process_name")}
    assert set(labels) == {0, 1, 2} | launches
    assert labels[1] == "rank 1: python"
    assert {event["pid"] for event in of_name(found, "PyTorch Profiler (0)")} == {
        "rank 0: Spans", "rank 1: Spans", "rank 2: Spans",
    }  # fmt: skip


def test_arrows_and_launches_stay_with_their_rank(tmp_path: Path) -> None:
    trace = opened(*job(tmp_path, rank(0), rank(1)))
    found = document(trace)
    ends = {event["id"]: event["pid"] for event in own(found) if event["ph"] == "f"}
    assert ends == {"0:1": 0, "0:2": 0, "1:1": 1, "1:2": 1}
    ties = [event["args"]["correlation"] for event in of_name(found, "cudaLaunchKernel")]
    assert ties == [1, 2, (1 << 32) + 1, (1 << 32) + 2]
    out = tmp_path / "out.json"
    written(trace, out)
    again = opened(out)
    launched = again.events().collect().drop_nulls("launch")
    assert launched.height == 4
    calls = [again.event(launch) for launch in launched["launch"]]
    assert [call["correlation"] for call in calls] == launched["correlation"].to_list()


def test_everything_else_of_an_element_stays(tmp_path: Path) -> None:
    odd = x("cpu_op", "aten::mm", 105.5, 2.25, **{"Input Dims": [[1, 2], []], "note": "1.50"})
    found = document(opened(*job(tmp_path, rank(0, files=[odd]), rank(1, files=[odd]))))
    first, second = of_name(found, "aten::mm")
    assert first["args"] == second["args"] == odd["args"]
    assert {**second, "pid": 10, "ts": odd["ts"]} == odd


def test_it_reads_back_as_one_trace_of_all_ranks(tmp_path: Path) -> None:
    trace = opened(*job(tmp_path, rank(0), rank(1, at=150), rank(2, at=90)))
    told = written(trace, tmp_path / "out.json")
    again = opened(tmp_path / "out.json")
    columns = ("name", "start", "end", "kind", "self", "bytes", "rank", "depth")
    assert rows(again, *columns) == rows(trace, *columns)
    assert again.ranks["rank"].to_list() == [0, 1, 2]
    assert again.origin_ns == trace.origin_ns
    assert told.curves == 9


@pytest.mark.parametrize(("ranks", "told"), first(1, (((0, 1), 1), ((1,), 0))))
def test_read_back_health_says_that_it_was_merged(tmp_path: Path, ranks: tuple[int, ...], told: int) -> None:
    out = tmp_path / "out.json"
    written(opened(*job(tmp_path, rank(0), rank(1))), out, Window(ranks=ranks))
    notes = [note_text(note) for note in opened(out).notes]
    assert [
        note.startswith(
            "one file merged from several ranks (rank 0, rank 1); process ids or names tell the ranks apart"
        )
        for note in notes
    ].count(True) == told


def nameless(number: int) -> dict[str, Any]:
    """A rank whose processes have no names, as in files of some versions for ROCm and of the CPU alone."""
    found = rank(number)
    return found | {"traceEvents": [event for event in found["traceEvents"] if event["ph"] != "M"]}


def test_processes_without_names_are_named_after_their_rank(tmp_path: Path) -> None:
    trace = opened(*job(tmp_path, rank(0), nameless(1), nameless(2)))
    written(trace, tmp_path / "out.json")
    again = opened(tmp_path / "out.json")
    assert [host.name.split()[0] for host in again.hosts] == ["python", "process", "process"]
    assert rows(again, "name", "start", "rank") == rows(trace, "name", "start", "rank")
    labels = [event["args"]["name"] for event in of_name(document(trace), "process_name")]
    assert sorted(labels) == ["rank 0: python"] * 2 + ["rank 1: process"] * 2 + ["rank 2: process"] * 2


def test_where_processes_have_no_names_any_more_health_says_that_their_hosts_are_one(tmp_path: Path) -> None:
    found = document(opened(*job(tmp_path, rank(0), rank(1))))
    found["traceEvents"] = [event for event in found["traceEvents"] if event["ph"] != "M"]
    (tmp_path / "out.json").write_text(json.dumps(found))
    again = opened(tmp_path / "out.json")
    assert len(again.hosts) == 1
    assert any(note_text(note).startswith("several ranks exported into one file") for note in again.notes)


def test_a_rank_without_work_on_a_device_stays_a_rank(tmp_path: Path) -> None:
    idle = rank(1)
    idle["traceEvents"] = [event for event in idle["traceEvents"] if event.get("cat") not in ("kernel", "gpu_memcpy")]
    trace = opened(*job(tmp_path, rank(0), idle, rank(2)))
    written(trace, tmp_path / "out.json")
    again = opened(tmp_path / "out.json")
    assert again.ranks.select("rank", "label").rows() == [(0, "GPU 0"), (1, "CPU"), (2, "GPU 2")]
    assert rows(again, "name", "start", "rank") == rows(trace, "name", "start", "rank")


@pytest.mark.thorough
def test_read_back_each_rank_has_its_own_host(tmp_path: Path) -> None:
    trace = opened(*job(tmp_path, rank(0), rank(1, at=150), rank(2, at=90)))
    written(trace, tmp_path / "out.json")
    again = opened(tmp_path / "out.json")
    assert [host.name.split()[0] for host in again.hosts] == ["python"] * 3
    assert again.ranks["host"].to_list() == [0, 1, 2]


def lanes(trace: Trace) -> list[tuple[Any, ...]]:
    """What is on the lanes of a trace, but for its counters."""
    found = trace.lanes.filter(pl.col("role") != "counter")
    return sorted(found.select("rank", pl.col("role").cast(pl.String), "name", "events").rows(), key=repr)


def curves(trace: Trace) -> list[tuple[int | None, str]]:
    return sorted(trace.lanes.filter(role="counter").select("rank", "name").rows(), key=repr)


CURVES = ("Copy bandwidth, HtoD", "Queue length, stream 7", "Utilization, GPU")


def annotated(number: int, device: int = 0, pid: int = 10) -> dict[str, Any]:
    """A rank with a range on its device that does not say which device that is."""
    at = 100.0 + number
    return rank(number, device=device, pid=pid, at=at, files=[x("gpu_user_annotation", "fwd", at + 10, 12, device, 7)])


@pytest.mark.thorough
def test_annotations_and_curves_stay_with_ranks_of_which_each_is_the_first_process_of_its_machine(
    tmp_path: Path,
) -> None:
    trace = opened(*job(tmp_path, *(annotated(number, pid=1) for number in range(3))))
    written(trace, tmp_path / "out.json")
    again = opened(tmp_path / "out.json")
    assert lanes(again) == lanes(trace)
    assert curves(again) == [(number, name) for number in range(3) for name in CURVES]
    pids = {event["pid"] for event in of_name(document(trace), "cudaLaunchKernel")}
    assert len(pids) == 3
    assert not pids & {0, 1, 2}


def test_annotations_stay_with_their_device_where_a_process_has_several(tmp_path: Path) -> None:
    nodes = [annotated(number, pid=500 + number) for number in range(2)]
    for node in nodes:
        del node["distributedInfo"]
        node["traceEvents"] += [
            x("kernel", "other", 115, 10, 1, 7, device=1, stream=7),
            x("gpu_user_annotation", "bwd", 115, 10, 1, 7),
        ]
    trace = opened(*job(tmp_path, *nodes))
    written(trace, tmp_path / "out.json")
    again = opened(tmp_path / "out.json")
    columns = ("name", "start", "end", "rank")
    assert rows(again, *columns) == rows(trace, *columns)
    assert lanes(again) == lanes(trace)
    assert [event["pid"] for event in of_name(document(trace), "other")] == [1, 3]


def test_what_tells_its_device_keeps_its_args(tmp_path: Path) -> None:
    found = document(opened(*job(tmp_path, annotated(0), annotated(1))))
    assert [(event["pid"], event["args"]) for event in of_name(found, "fwd")] == [(0, {}), (1, {})]


@pytest.mark.thorough
def test_a_process_that_is_spelled_as_a_number_and_as_text_stays_one(tmp_path: Path) -> None:
    documents = [rank(number) for number in range(2)]
    for each in documents:
        for event in each["traceEvents"]:
            if event["name"] == "cudaLaunchKernel" and event["args"]["correlation"] == 2:
                event["pid"] = str(event["pid"])
    trace = opened(*job(tmp_path, *documents))
    written(trace, tmp_path / "out.json")
    assert lanes(opened(tmp_path / "out.json")) == lanes(trace)
    assert {type(event["pid"]) for event in of_name(document(trace), "cudaLaunchKernel")} == {int}


def test_counters_follow_the_device_that_they_are_called_after(tmp_path: Path) -> None:
    counter = {"ph": "C", "name": "sm__cycles", "pid": "GPU 0 Counters", "ts": 105, "args": {"": 5}}
    trace = opened(*job(tmp_path, rank(0, files=[counter]), rank(1, files=[counter])))
    written(trace, tmp_path / "out.json")
    for each in (trace, opened(tmp_path / "out.json")):
        assert [number for number, name in curves(each) if name == "sm__cycles"] == [0, 1]
    assert [event["pid"] for event in of_name(document(trace), "sm__cycles")] == [
        "rank 0: GPU 0 Counters", "rank 1: GPU 1 Counters",
    ]  # fmt: skip


def holding(number: int, *kinds: int, device: int = 0) -> dict[str, Any]:
    """A rank with memory of device 0 (of this kind, 0: the host) and with kernels of this one."""
    held = {"Bytes": 64 + number, "Addr": 1, "Device Id": 0, "Total Allocated": 64 + number, "Total Reserved": 128}
    memory = {"ph": "i", "s": "t", "name": "[memory]", "pid": 10, "tid": 10, "ts": 105}
    files = [memory | {"args": held | {"Device Type": kind}} for kind in kinds]
    return rank(number, device=device, files=files)


@pytest.mark.parametrize(("one", "other"), first(2, ((0, 0), (2, 3), (2, 2), (1, 0))))
def test_memory_of_devices_stays_with_their_ranks(tmp_path: Path, one: int, other: int) -> None:
    """Whatever numbers kernels know their devices by: those of ROCm count what memory does not."""
    trace = opened(*job(tmp_path, *(holding(number, 1, device=device) for number, device in enumerate((one, other)))))
    written(trace, tmp_path / "out.json")
    again = opened(tmp_path / "out.json")
    direct, merged = (
        run_analysis(get_analysis("memory"), each).table.drop("device", "event", strict=False)
        for each in (trace, again)
    )
    assert merged.equals(direct)
    assert direct.select("rank", "peak").rows() == [(0, 64), (1, 65)]
    held = ["memory allocated", "memory reserved"]
    assert [each for each in curves(again) if each[1] in held] == [(number, name) for number in (0, 1) for name in held]
    assert not [note for note in again.notes if "memory of several ranks" in note_text(note)]


def test_of_the_memory_of_hosts_health_says_that_it_is_not_told_apart(tmp_path: Path) -> None:
    trace = opened(*job(tmp_path, holding(0, 0, 1), holding(1, 0, 1)))
    assert [event["args"]["Device Id"] for event in of_name(document(trace), "[memory]")] == [0, 0, 0, 1]
    written(trace, tmp_path / "out.json")
    notes = [note for note in opened(tmp_path / "out.json").notes if "memory of several ranks" in note_text(note)]
    assert [note.count for note in notes] == [4]


def waiting(number: int, recorded: int = 2) -> dict[str, Any]:
    """A rank whose second stream waits for an event that its first has recorded before more work was put there."""
    events = [
        x("cuda_runtime", "cudaLaunchKernel", 101, 1, correlation=1),
        x("kernel", "producer", 103, 10, 0, 7, correlation=1, device=0, stream=7),
        x("cuda_runtime", "cudaEventRecord", 102.5, 0.5, correlation=2),
        x("cuda_runtime", "cudaLaunchKernel", 104, 1, correlation=3),
        x("kernel", "later", 113, 40, 0, 7, correlation=3, device=0, stream=7),
        x("cuda_runtime", "cudaStreamWaitEvent", 106, 0.5, correlation=4),
        x("cuda_sync", "Stream Wait Event", 106.2, 0, 0, 20, correlation=4, device=0, stream=20,
          wait_on_stream=7, wait_on_cuda_event_record_corr_id=recorded, wait_on_cuda_event_id=1),
        x("cuda_runtime", "cudaLaunchKernel", 107, 1, correlation=5),
        x("kernel", "consumer", 154, 10, 0, 20, correlation=5, device=0, stream=20),
    ]  # fmt: skip
    names = [event for event in rank(number)["traceEvents"] if event["ph"] == "M"]
    return rank(number) | {"traceEvents": [*names, *events]}


def test_what_is_waited_for_is_that_of_the_same_rank(tmp_path: Path) -> None:
    trace = opened(*job(tmp_path, waiting(0), waiting(1)))
    written(trace, tmp_path / "out.json")
    path, again = (
        run_analysis(get_analysis("critical_path"), each, options=Options(given=(("by", "event"),))).table.drop("event")
        for each in (trace, opened(tmp_path / "out.json"))
    )
    assert again.equals(path)
    assert set(path["rank"]) == {0, 1}
    assert "later" not in path["name"].cast(pl.String).to_list()


def test_no_correlation_stays_none(tmp_path: Path) -> None:
    none = 2**32 - 1
    found = document(opened(*job(tmp_path, waiting(0, none), waiting(1, none))))
    told = [event["args"]["wait_on_cuda_event_record_corr_id"] for event in of_name(found, "Stream Wait Event")]
    assert told == [none, none]


@st.composite
def spelled(draw: st.DrawFn, number: int) -> dict[str, Any]:
    """A rank's document of one device, and perhaps of one that it only touches; ids are spelled in any way."""
    device = draw(st.integers(0, 3))
    found = annotated(number, device, draw(st.sampled_from([1, 2, 3, 10])))
    stray = draw(st.none() | st.integers(0, 3).filter(lambda other: other != device))
    if stray is not None:
        found["traceEvents"] += [
            x("gpu_memset", "Memset (Device)", 112, 0.01, stray, 9, device=stray, stream=9),
            x("gpu_user_annotation", "set", 112, 0.01, stray, 9),
            {"ph": "M", "name": "process_name", "pid": stray, "tid": 0, "ts": 100, "args": {"name": "python"}},
        ]
    silent, texts = draw(st.booleans()), draw(st.sets(st.integers(0, 20)))
    for place, event in enumerate(found["traceEvents"]):
        if silent:
            event.get("args", {}).pop("device", None)
        if place in texts:
            event["pid"] = str(event["pid"])
    return found


@settings(max_examples=settings.default.max_examples // 2)
@given(st.integers(2, 3).flatmap(lambda count: st.tuples(*map(spelled, range(count)))))
def test_whatever_ids_processes_and_devices_have_ranks_read_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, documents: tuple[dict[str, Any], ...]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    trace = opened(*job(folder, *documents))
    written(trace, folder / "out.json")
    again = opened(folder / "out.json")
    columns = ("name", "start", "end", "kind", "self", "bytes", "rank", "depth")
    assert rows(again, *columns) == rows(trace, *columns)
    assert again.ranks["rank"].to_list() == trace.ranks["rank"].to_list()
    unnamed = [(lane[0], lane[1], lane[3]) for lane in lanes(trace)]  # a stray is named after its number
    assert [(lane[0], lane[1], lane[3]) for lane in lanes(again)] == unnamed
    assert curves(again) == [(number, name) for number in range(len(documents)) for name in CURVES]


def test_what_is_known_of_a_device_goes_with_it(tmp_path: Path) -> None:
    properties = {"id": 0, "name": "A100", "numSms": 108, "totalGlobalMem": 1 << 36}
    documents = [{**rank(number), "deviceProperties": [properties, {**properties, "id": 1}]} for number in range(2)]
    found = document(opened(*job(tmp_path, *documents)))
    assert found["deviceProperties"] == [properties, {**properties, "id": 1}]


def test_what_is_known_of_devices_that_are_counted_otherwise_goes_with_them(tmp_path: Path) -> None:
    """ROCm lists other numbers than its events have: what holds for all of them does for each."""
    properties = {"name": "MI300X", "numSms": 304, "totalGlobalMem": 1 << 37}
    listed = [{**properties, "id": 6, "pci": 1}, {**properties, "id": 7, "pci": 2}]
    documents = [{**rank(number), "deviceProperties": listed} for number in range(2)]
    found = document(opened(*job(tmp_path, *documents)))
    assert found["deviceProperties"] == [{**properties, "id": 0}, {**properties, "id": 1}]


def test_a_device_of_which_no_file_says_the_model_has_none_when_it_is_read_back(tmp_path: Path) -> None:
    trace = opened(*job(tmp_path, *({**rank(number), "deviceProperties": []} for number in range(2))))
    written(trace, tmp_path / "out.json")
    again = opened(tmp_path / "out.json")
    assert trace.ranks["model"].to_list() == again.ranks["model"].to_list() == [None, None]


def test_what_all_files_say_of_their_job_stays(tmp_path: Path) -> None:
    said = [{"backend": "nccl", "world_size": 8, "rank": number, "nccl_version": f"2.{number}"} for number in range(2)]
    documents = [{**rank(number), "distributedInfo": about} for number, about in enumerate(said)]
    assert document(opened(*job(tmp_path, *documents)))["distributedInfo"] == {"backend": "nccl", "world_size": 8}
    documents[1]["distributedInfo"] = {"rank": 1, "world_size": 4}
    assert "distributedInfo" not in document(opened(*job(tmp_path, *documents)))


def test_every_rank_has_its_own_curves(tmp_path: Path) -> None:
    found = points(document(opened(*job(tmp_path, rank(0), rank(1, at=150)))))
    assert found[0, "Queue length, stream 7"] == [(0, 1), (1, 2), (9, 1), (29, 0)]
    assert found[1, "Queue length, stream 7"] == [(50, 1), (51, 2), (59, 1), (79, 0)]


def test_of_ranks_that_are_not_asked_for_nothing_is_written(tmp_path: Path) -> None:
    trace = opened(*job(tmp_path, rank(0), rank(1), rank(2)))
    two = document(trace, Window(ranks=(0, 2)))
    assert [event["args"]["device"] for event in of_name(two, "k0")] == [0, 2]
    assert [device["id"] for device in two["deviceProperties"]] == [0, 2]
    assert own(document(trace, Window(ranks=(1,)))) == rank(1)["traceEvents"]


def test_a_window_narrows_every_rank(tmp_path: Path) -> None:
    trace = opened(*job(tmp_path, rank(0), rank(1, at=150)))
    found = document(trace, Window(58_000_000, 60_000_000))
    kept = [(event["name"], event["ts"]) for event in own(found) if event["ph"] == "X"]
    assert kept == [("PyTorch Profiler (0)", -1), ("k0", 59), ("PyTorch Profiler (0)", 49)]


def test_that_clocks_are_written_as_recorded_is_said_where_collectives_tell_otherwise(tmp_path: Path) -> None:
    ranks = [Rank(number, clock=clock) for number, clock in enumerate((0, 3000))]
    for each in ranks:
        for at in range(0, 10_000, 1000):
            each.collective(at, at + 20 + each.rank, at + 500, Seq=at)
    paths = files(tmp_path, *ranks)
    (note,) = note_texts(written(opened(*paths), tmp_path / "out.json").notes)
    assert note.startswith(
        "the clocks of 1 rank are written as recorded: they are off by up to 3.00 ms (from collective end times)"
    )
    (said,) = [note_text(note) for note in opened(tmp_path / "out.json").notes if "clocks" in note_text(note)]
    assert note.startswith(f"{said}; --align collectives")
    apart = json.loads((tmp_path / "out.json").read_bytes())["clocksApart"]
    assert (apart["ranks"], apart["most"] // 10**9) == (1, 3)
    assert written(opened(*paths), tmp_path / "out.json", Window(ranks=(1,))).notes == ()
    aligned = load_trace(set_alignment(open_trace_files(paths), "collectives"))
    assert written(aligned, tmp_path / "out.json").notes == ()
    assert b"clocksApart" not in (tmp_path / "out.json").read_bytes()


@pytest.mark.thorough
def test_two_real_ranks(samples: Path, tmp_path: Path) -> None:
    trace = opened(samples / "torch_ddp_gloo")
    written(trace, tmp_path / "out.json")
    assert rows(opened(tmp_path / "out.json")) == rows(trace)
    json.loads((tmp_path / "out.json").read_bytes())
