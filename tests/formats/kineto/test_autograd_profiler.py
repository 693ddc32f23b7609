"""Files of the autograd profiler before Kineto: two processes, a device for each thread, arrows in place of ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from exporting import opened, written
from tracehound.analysis import Result, get_analysis, run_analysis
from tracehound.draw.notes import note_text
from tracehound.formats import WHOLE_FILE, ignore_progress
from tracehound.formats.json.array_window import DEFAULT_SIZES, ChunkSizes
from tracehound.formats.kineto import kineto_reader
from tracehound.formats.spill import Spill
from tracehound.model.trace import FileFrames, Trace, collect_frame


def op(name: str, ts: float, dur: float, tid: object = 1) -> dict[str, Any]:
    return {"name": name, "ph": "X", "ts": ts, "dur": dur, "tid": tid, "pid": "CPU functions", "args": {}}


def launched(number: int, by: dict[str, Any], ts: float, dur: float, device: int = 0) -> list[dict[str, Any]]:
    """An arrow from an operator to what it launched, and that, as PyTorch 1.4 to 1.7 write them."""
    arrow = {"id": number, "cat": "cpu_to_cuda", "args": {}}
    place = {"tid": device, "pid": "CUDA functions"}
    return [
        {"name": by["name"], "ph": "s", "ts": by["ts"], "tid": by["tid"], "pid": by["pid"], **arrow},
        {"name": f"    {by['name']}", "ph": "f", "ts": ts, **place, **arrow},
        {"name": f"{by['name']} kernel", "ph": "X", "ts": ts, "dur": dur, **place, "args": {}},
    ]


def recording(at: float = 0.0) -> list[dict[str, Any]]:
    """Two threads that drive a device each; one operator launches two kernels, one inside it begins when it does."""
    outer, inner, other = op("linear", at + 10, 60), op("addmm", at + 10, 40), op("mul", at + 90, 20, tid=2)
    return [
        op("empty", at, 5),
        outer,
        *launched(0, outer, at + 60.5, 4),
        *launched(1, outer, at + 66.25, 3),
        inner,
        *launched(2, inner, at + 20.125, 30),
        other,
        *launched(3, other, at + 95.0625, 8, device=1),
    ]


LAUNCHES = [("addmm kernel", "addmm"), ("linear kernel", "linear"), ("linear kernel", "linear"), ("mul kernel", "mul")]


def read(folder: Path, events: list[dict[str, Any]], sizes: ChunkSizes = DEFAULT_SIZES) -> FileFrames:
    path = folder / "t.json"
    path.write_text(json.dumps(events))
    return kineto_reader.build_file_frames(
        path, [kineto_reader.decode_shard(path, WHOLE_FILE, Spill(folder), ignore_progress, sizes)], Spill(folder)
    )


def launches(events: pl.DataFrame) -> list[tuple[str, str | None]]:
    """The kernels, each with what launched it."""
    of = dict(events.select("id", pl.col("name").cast(pl.String)).iter_rows())
    kernels = events.filter(pl.col("kind") == "kernel").select(pl.col("name").cast(pl.String), "launch")
    return sorted((name, of.get(launch)) for name, launch in kernels.iter_rows())


def report(trace: Trace, name: str) -> Result:
    return run_analysis(get_analysis(name), trace)


def test_it_is_no_other_profilers(tmp_path: Path) -> None:
    assert not [
        note_text(note)
        for note in read(tmp_path, recording()).notes
        if ("events with categories unknown to PyTorch (or none), shown on host threads: from another profiler?")
        in note_text(note)
    ]
    other = {**op("x", 1, 2), "pid": "functions"}
    assert [
        note.count
        for note in read(tmp_path, [other]).notes
        if ("events with categories unknown to PyTorch (or none), shown on host threads: from another profiler?")
        in note_text(note)
    ] == [1]


def test_that_its_times_on_devices_hold_one_another_is_said(tmp_path: Path) -> None:
    """It times operators there, by events before and behind each, and not kernels."""
    assert [
        note.count
        for note in read(tmp_path, recording()).notes
        if (
            "operators timed on devices by the autograd profiler: nested operators count in both, so totals count twice"
        )
        in note_text(note)
    ] == [4]
    assert not [
        note
        for note in read(tmp_path, [op("x", 1, 2)]).notes
        if (
            "operators timed on devices by the autograd profiler: nested operators count in both, so totals count twice"
        )
        in note_text(note)
    ]


def test_every_thread_of_the_devices_is_a_device(tmp_path: Path) -> None:
    got = read(tmp_path, recording())
    assert got.ranks.select("device", "label").rows() == [(0, "GPU 0"), (1, "GPU 1")]
    streams = got.lanes.filter(pl.col("role") == "stream")
    assert streams.select("rank", "name", "stream").rows() == [(0, "stream", None), (1, "stream", None)]


def test_arrows_tell_who_launched_what(tmp_path: Path) -> None:
    got = read(tmp_path, recording())
    assert launches(got.events) == LAUNCHES


@pytest.mark.parametrize("sizes", [ChunkSizes(80, 300, 64), ChunkSizes(300, 500, 100), ChunkSizes(200, 70, 90)])
def test_wherever_the_file_is_cut(tmp_path: Path, sizes: ChunkSizes) -> None:
    assert launches(read(tmp_path, recording(), sizes).events) == LAUNCHES


def test_in_the_order_of_time(tmp_path: Path) -> None:
    """As a tool may have put them: what starts together by its phase, so that a kernel stands before its arrow."""
    events = sorted(recording(), key=lambda event: (event["ts"], event["ph"] == "s", event["ph"] == "f"))
    got = launches(read(tmp_path, events).events)
    assert [kernel for kernel, by in got if by is None] == []
    assert ("mul kernel", "mul") in got


def test_damaged_arrows_lead_nowhere(tmp_path: Path) -> None:
    events = recording()
    events[2] |= {"ts": "soon"}
    events[6] |= {"id": None, "tid": [1]}
    got = launches(read(tmp_path, events).events)
    assert ("linear kernel", None) in got
    assert ("mul kernel", "mul") in got


def test_operators_have_the_time_of_their_kernels(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(recording()))
    rows = report(opened(path), "operators").table.select("name", "device_self", "launched").rows()
    us = 10**6
    assert sorted(rows) == [("addmm", 30 * us, 1), ("empty", 0, 0), ("linear", 7 * us, 2), ("mul", 8 * us, 1)]


def test_exported_into_one_file(tmp_path: Path) -> None:
    """The names of processes get the rank before them, and arrows the number of the file."""
    paths = [tmp_path / f"rank{number}.json" for number in range(2)]
    for number, path in enumerate(paths):
        path.write_text(json.dumps(recording(float(number))))
    trace = opened(*paths)
    out = tmp_path / "out.json"
    written(trace, out)
    again = opened(out)
    assert again.ranks["device"].to_list() == trace.ranks["device"].to_list() == [0, 1, 0, 1]
    events = collect_frame(again.events())
    assert launches(events) == launches(collect_frame(trace.events())) == sorted(LAUNCHES * 2)
    kinds = [
        frame["kind"].cast(pl.String).value_counts(sort=True).rows()
        for frame in (events, collect_frame(trace.events()))
    ]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize("files", [1, 2])
def test_exported_each_device_has_its_own_curves(tmp_path: Path, files: int) -> None:
    paths = [tmp_path / f"rank{number}.json" for number in range(files)]
    for number, path in enumerate(paths):
        path.write_text(json.dumps(recording(float(number))))
    out = tmp_path / "out.json"
    written(opened(*paths), out)
    again = opened(out)
    curves = again.lanes.filter(role="counter", name="Utilization, GPU")
    assert sorted(curves["rank"].to_list()) == again.ranks["rank"].to_list() == list(range(2 * files))


def test_arrows_without_any_event_in_time(tmp_path: Path) -> None:
    events = [{**event, "ts": "soon"} if event["ph"] == "X" else event for event in recording()]
    assert read(tmp_path, events).events.is_empty()


def test_merged_by_a_script(tmp_path: Path) -> None:
    """Each run numbers its own arrows, so that one id means several."""
    events = [{**event, "pid": f"[TP0{number}] {event['pid']}"} for number in range(2) for event in recording()]
    got = read(tmp_path, events)
    assert got.ranks.select("host", "device").rows() == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert launches(got.events) == sorted(LAUNCHES * 2)
