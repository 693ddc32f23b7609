from __future__ import annotations

import gzip
import json
import pickle
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from decimal import Decimal
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from types import FrameType

import msgspec
import orjson
import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from short import first, some
from tracehound.draw.notes import note_text
from tracehound.errors import TracehoundError
from tracehound.formats import KINETO, WHOLE_FILE, Progress, WorkerShard, ignore_progress
from tracehound.formats.inflate import read_all
from tracehound.formats.json.array_segments import JsonChunk
from tracehound.formats.json.array_window import DEFAULT_SIZES, ChunkSizes
from tracehound.formats.kineto import kineto_reader as kineto
from tracehound.formats.kineto.json_events import CounterEvent, InstantEvent
from tracehound.formats.kineto.segment_columns import SegmentColumns
from tracehound.formats.kineto.segment_facets import KnownCombinations
from tracehound.formats.spill import Spill
from tracehound.model.facet_schemas import empty_facet
from tracehound.model.trace import FileFrames

BASE = 1_700_000_000_000_000_000


def decoded(path: Path, progress: Progress = ignore_progress, sizes: ChunkSizes = DEFAULT_SIZES) -> FileFrames:
    """The file, cut that way."""
    return kineto.build_file_frames(path, [kineto.decode_shard(path, WHOLE_FILE, Spill(), progress, sizes)], Spill())


def by_shards(path: Path, count: int, sizes: ChunkSizes, folder: Path) -> FileFrames:
    """The file, decoded as by `count` processes."""
    spill = Spill(folder)
    folder.mkdir(exist_ok=True)
    shards = [
        kineto.decode_shard(path, WorkerShard(number, count), spill, ignore_progress, sizes) for number in range(count)
    ]
    return kineto.build_file_frames(path, pickle.loads(pickle.dumps(shards)), spill)  # noqa: S301  # our own


def told(part: FileFrames) -> list[object]:
    """All that a part says, to be compared."""
    events = part.events.with_columns(pl.col("name").cast(pl.String))
    frames = [frame.rows() for frame in (events, part.lanes, part.ranks, part.steps, part.ops)]
    facets = {name: rows(facet) for name, facet in sorted(part.facets.items())}
    frames.append(part.counters.rows())
    return [*frames, facets, part.hosts, part.wall_ns, part.facts, part.notes, part.places.tolist()]


def rows(facet: pl.LazyFrame) -> list[tuple]:
    """The rows of a facet, its categories as text."""
    return facet.with_columns(pl.col(pl.Categorical).cast(pl.String)).collect().rows()


def write(path: Path, events: list[dict], **around: object) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, "baseTimeNanoseconds": BASE, **around, "traceEvents": events}))
    return path


def x(cat: str, name: str, ts: float, dur: float, pid: object = 10, tid: object = 10, **args: object) -> dict:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def gpu(cat: str, name: str, ts: float, dur: float, **args: object) -> dict:
    return x(cat, name, ts, dur, 0, 7, **{"device": 0, "stream": 7, **args})


@pytest.fixture
def part(tmp_path):
    def read(events: list[dict], **around: object) -> FileFrames:
        return KINETO.read(write(tmp_path / "t.json", events, **around), ignore_progress)

    return read


def events_of(part: FileFrames) -> list[dict]:
    lanes = part.lanes.select("lane", pl.col("name").alias("on"), "role", "work")
    return part.events.join(lanes, on="lane").sort("record").to_dicts()


def test_every_kind_lands_on_its_lane(part):
    got = part(
        [
            x("user_annotation", "ProfilerStep#3", 0, 90),
            x("cpu_op", "aten::mm", 1, 20, **{"External id": 5}),
            x("cuda_runtime", "cudaLaunchKernel", 2, 3, correlation=7, **{"External id": 5}),
            x("python_function", "f.py(1): g", 0, 50),
            gpu("kernel", "gemm", 30, 10, correlation=7, **{"External id": 5}),
            gpu("gpu_memcpy", "Memcpy HtoD", 41, 2, bytes=640),
            gpu("gpu_memset", "Memset (Device)", 44, 1, bytes=8),
            gpu("kernel", "ncclDevKernel_AllReduce", 46, 4, stream=20),
            x("gpu_user_annotation", "ProfilerStep#3", 30, 12, 0, 7),
            x("cuda_sync", "Stream Sync", 50, 5, 0, 1000007, stream=7, device=0),
            x("overhead", "Lazy Function Loading", 60, 1, -1, 0),
            x("Trace", "PyTorch Profiler (0)", -5, 100, "Spans", "PyTorch Profiler"),
            {"ph": "i", "name": "Record Window End", "ts": 10**12, "pid": "", "tid": ""},
            {"ph": "i", "cat": "cpu_instant_event", "name": "mark", "ts": 70, "pid": 10, "tid": 10},
            {"ph": "M", "name": "thread_name", "pid": 10, "tid": 10, "ts": 0, "args": {"name": "thread 10 (python)"}},
            {"ph": "M", "name": "process_name", "pid": 10, "tid": 0, "ts": 0, "args": {"name": "python3"}},
        ],
        deviceProperties=[{"id": 0, "name": "NVIDIA X"}],
        distributedInfo={"rank": 3, "world_size": 8, "backend": "nccl"},
        host_name="node1",
    )
    rows = [(e["name"], e["kind"], e["on"], e["role"], e["work"], e["step"]) for e in events_of(got)]
    assert rows == [
        ("ProfilerStep#3", "step", "python (10)", "thread", False, 3),
        ("aten::mm", "op", "python (10)", "thread", False, 3),
        ("cudaLaunchKernel", "runtime", "python (10)", "thread", False, 3),
        ("f.py(1): g", "python", "python (10)", "thread", False, 3),
        ("gemm", "kernel", "stream 7", "stream", True, 3),
        ("Memcpy HtoD", "copy", "stream 7", "stream", True, 3),
        ("Memset (Device)", "memset", "stream 7", "stream", True, 3),
        ("ncclDevKernel_AllReduce", "collective", "stream 20", "stream", True, 3),
        ("ProfilerStep#3", "annotation", "ranges 7", "annotations", False, 3),
        ("Stream Sync", "sync", "sync 7", "sync", False, 3),
        ("Lazy Function Loading", "other", "thread 0", "thread", False, 3),
        ("mark", "other", "python (10)", "thread", False, 3),
    ]
    assert got.ranks.rows(named=True) == [
        {"rank": 3, "host": 0, "device": 0, "label": "GPU 0", "model": "NVIDIA X", "inferred": False}
    ]
    assert got.hosts == ("node1: python3 (10)",)
    assert got.wall_ns == BASE
    assert got.facts.world_size == 8
    assert got.facts.span_ns == (BASE - 5000, 100_000)
    assert got.steps.select("step", "rank", "inferred").rows() == [(3, None, False)]
    gemm = got.events.filter(pl.col("name") == "gemm").row(0, named=True)
    launch = got.events.filter(pl.col("id") == gemm["launch"])
    assert launch["name"].to_list() == ["cudaLaunchKernel"]
    assert gemm["external"] == 5
    assert kineto.read_args(got, gemm["record"])["args"]["correlation"] == 7


def test_spellings_of_2020_and_2021(part):
    got = part(
        [
            x("Operator", "ProfilerStep#2", 0, 90, 67844, "4093687616"),
            x("Operator", "aten::mm", 1, 5, 67844, "4093687616", **{"External id": 2}),
            x("Runtime", "cudaLaunchKernel", 2, 3, 67844, "4093687616", correlation=9, **{"external id": 2}),
            x("Kernel", "gemm", 30, 10, 0, "stream 7", correlation=9, **{"external id": 2}),
            x("Memcpy", "Memcpy HtoD", 40, 1, 0, "stream 7", device=0, stream=7, bytes=16),
            {"ph": "M", "name": "thread_name", "pid": 67844, "tid": 4093687616, "args": {"name": "thread 1 (py)"}},
        ],
        computeProperties=[{"id": 0, "name": "Tesla V100"}],
    )
    rows = [(e["name"], e["kind"], e["on"], e["external"]) for e in events_of(got)]
    assert rows == [
        ("ProfilerStep#2", "step", "py (4093687616)", None),
        ("aten::mm", "op", "py (4093687616)", 2),
        ("cudaLaunchKernel", "runtime", "py (4093687616)", 2),
        ("gemm", "kernel", "stream 7", 2),
        ("Memcpy HtoD", "copy", "stream 7", None),
    ]
    assert got.lanes.filter(pl.col("role") == "stream").height == 1
    assert got.ranks["model"].to_list() == ["Tesla V100"]


def test_a_correlation_id_that_comes_again_means_the_call_that_had_begun_last(part):
    """Each process counts its own, and some begin anew."""
    got = part(
        [
            x("cuda_runtime", "cudaLaunchKernel", 0, 5, 1, 1, correlation=7),
            gpu("kernel", "a", 10, 5, correlation=7),
            x("cuda_runtime", "cudaLaunchKernel", 100, 5, 2, 2, correlation=7),
            gpu("kernel", "b", 110, 5, correlation=7, device=1),
            gpu("kernel", "c", 120, 5, correlation=7, device=1),
            x("cuda_runtime", "cudaLaunchKernel", 200, 9, 1, 1, correlation=7),
            x("cuda_driver", "cuLaunchKernel", 201, 5, 1, 1, correlation=7),
            gpu("kernel", "d", 210, 5, correlation=7),
        ]
    )
    start = dict(got.events.select("id", "start").rows())
    kernels = got.events.filter(pl.col("launch").is_not_null())
    found = {
        name: start[launch] // 10**6 for name, launch in kernels.select(pl.col("name").cast(pl.String), "launch").rows()
    }
    assert found == {"a": 0, "b": 100, "c": 100, "d": 200}
    (note,) = [note for note in got.notes if "correlation" in note_text(note)]
    assert (note.level, note.count) == ("inferred", 1)


@pytest.mark.parametrize("apart", [1, 2**40])
def test_ids_that_no_event_of_a_device_has_mean_nothing(part, apart):
    """As those of calls that launch nothing, and however far apart the others lie."""
    got = part(
        [
            x("cuda_runtime", "cudaEventQuery", 0, 1, 1, 1, correlation=2 * apart),
            x("cuda_runtime", "cudaEventQuery", 2, 1, 1, 1, correlation=2 * apart),
            x("cuda_runtime", "cudaLaunchKernel", 4, 1, 1, 1, correlation=1),
            x("cuda_runtime", "cudaLaunchKernel", 6, 1, 1, 1, correlation=3 * apart),
            gpu("kernel", "a", 10, 5, correlation=1),
            gpu("kernel", "b", 20, 5, correlation=3 * apart),
            gpu("kernel", "c", 30, 5, correlation=4 * apart),
        ]
    )
    start = dict(got.events.select("id", "start").rows())
    kernels = got.events.filter(kind="kernel").select(pl.col("name").cast(pl.String), "launch")
    assert {name: start.get(launch) for name, launch in kernels.rows()} == {"a": 4 * 10**6, "b": 6 * 10**6, "c": None}
    assert not [note for note in got.notes if "correlation" in note_text(note)]


@pytest.mark.parametrize(("more", "claims"), [(1, (5, None)), (2, (5, None)), (3, (None, 5))])
def test_of_two_devices_the_recorded_rank_is_that_of_the_one_that_works(part, more, claims):
    got = part(
        [gpu("kernel", "a", 10 * at, 1, device=3) for at in range(more)]
        + [gpu("kernel", "b", 10 * at + 2, 1, device=1) for at in range(2)],
        distributedInfo={"rank": 5},
        deviceProperties=[{"id": 1, "name": "one"}, {"id": 3, "name": "three"}],
    )
    assert got.ranks.select("rank", "device", "label", "model", "inferred").rows() == [
        (claims[0], 1, "GPU 1", "one", claims[0] is None),
        (claims[1], 3, "GPU 3", "three", claims[1] is None),
    ]


def touched(length: float) -> list[dict]:
    """Two large kernels of a rank on GPU 1, and as many calls that set memory of another."""
    return [gpu("kernel", "gemm", 1000 * at, 900, device=1) for at in range(2)] + [
        each
        for at in range(2)
        for each in (
            x("cuda_runtime", "cudaMemsetAsync", 1000 * at, 5, correlation=at),
            gpu("gpu_memset", "Memset", 1000 * at + 10, length, correlation=at),
        )
    ]


def test_a_device_that_a_rank_only_touches_is_no_rank_and_keeps_none_busy(part):
    got = part(touched(length=8), distributedInfo={"rank": 1})
    assert got.ranks.select("rank", "device", "inferred").rows() == [(1, 1, False)]
    lanes = got.lanes.filter(role="stream").select("rank", "name", "work", "events")
    assert lanes.rows() == [(0, "stream 7", True, 2), (0, "GPU 0 stream 7", False, 2)]
    memset = got.events.filter(pl.col("name").cast(pl.String) == "Memset")
    assert memset["launch"].null_count() == 0
    assert [(note.level, note.count) for note in got.notes if "another device" in note_text(note)] == [("info", 2)]


def test_a_device_that_does_more_or_whose_rank_is_unknown_is_a_rank(part):
    for got in (part(touched(length=20), distributedInfo={"rank": 1}), part(touched(length=8))):
        assert got.ranks["device"].to_list() == [0, 1]
        assert got.lanes.filter(role="stream")["work"].all()
        assert not [note for note in got.notes if "another device" in note_text(note)]


def test_devices_that_are_no_gpus(part):
    assert part([gpu("mtia_ccp_events", "k", 0, 1)]).ranks["label"].to_list() == ["MTIA 0"]
    assert part([x("xpu_runtime", "r", 0, 1), gpu("kernel", "k", 0, 1)]).ranks["label"].to_list() == ["XPU 0"]
    assert part([x("cpu_op", "a", 0, 1)]).ranks["label"].to_list() == ["CPU"]


def test_what_the_dma_engines_of_an_mtia_do_are_copies(part):
    names = ("dma_h2d", "pe_exe:addmm", "hccl_allreduce")
    got = part([gpu("mtia_ccp_events", name, 10 * at, 5) for at, name in enumerate(names)])
    assert got.events["kind"].to_list() == ["copy", "kernel", "collective"]
    assert part([gpu("kernel", "dma_h2d", 0, 5)]).events["kind"].to_list() == ["kernel"]


def test_a_wait_on_a_device_without_work_is_the_hosts(part):
    got = part([x("cpu_op", "a", 0, 1), x("cuda_sync", "Context Sync", 0, 1, 0, -1, stream=4294967295, device=0)])
    lane = got.lanes.filter(pl.col("role") == "sync").row(0, named=True)
    assert (lane["rank"], lane["stream"], lane["name"]) == (None, None, "sync")


@pytest.mark.parametrize("stream", [2**31, 2**32, 140_234_567_890_123_456, 2**63 - 2])
def test_streams_with_the_addresses_of_rocm_stay_apart(stream, part):
    got = part([gpu("kernel", "a", 0, 5, stream=stream), gpu("kernel", "b", 1, 5, stream=stream + 1)])
    assert sorted(got.lanes.filter("work")["stream"]) == [stream, stream + 1]


def test_no_stream_of_cupti_is_none(part):
    for stream in (2**32 - 1, 2**63, 2**64 - 1):
        got = part([gpu("kernel", "a", 0, 5, stream=stream)])
        assert got.lanes.filter("work")["stream"].to_list() == [None]


@pytest.mark.parametrize(
    ("job", "where"),
    [
        ({"rank": 2**63, "world_size": 2}, ["distributedInfo.rank"]),
        ({"rank": -1, "world_size": 0}, ["distributedInfo.rank", "distributedInfo.world_size"]),
        ({"rank": "0", "world_size": 2**62}, ["distributedInfo.world_size"]),
        ({"rank": 1.0, "world_size": "4"}, []),
        ({"backend": "nccl"}, []),
        ([], ["distributedInfo"]),
        (None, []),
    ],
)
def test_facts_of_a_job_that_cannot_be_true_are_not_used(job, where, part):
    got = part([x("cpu_op", "a", 0, 1)], distributedInfo=job)
    assert [note.where for note in got.notes if note.code == "job_impossible"] == where
    if where:
        assert got.facts.world_size in (None, 2)


def test_bytes_of_collectives(part):
    comms = {"Collective name": "allgather", "dtype": "BFloat16", "In msg nelems": 10, "Out msg nelems": 80}
    got = part(
        [
            x("cpu_op", "record_param_comms", 0, 5, **{"External id": 44}, **comms),
            gpu("kernel", "secret_kernel", 6, 5, **{"External id": 44}),
            gpu("kernel", "ncclDevKernel_AllGather", 12, 5, **comms),
            gpu("kernel", "ncclKernel_AllReduce", 20, 5),
        ]
    )
    assert [(e["kind"], e["bytes"]) for e in events_of(got)] == [
        ("op", 160), ("collective", 160), ("collective", 160), ("collective", None),
    ]  # fmt: skip


def test_an_operator_far_away_makes_a_kernel_a_collective(tmp_path):
    kernels = [gpu("kernel", f"secret {n}", 10 * n, 5, **{"External id": n}) for n in range(40)]
    comms = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 10, "Out msg nelems": 10}
    operator = x("cpu_op", "record_param_comms", 0, 5, **{"External id": 7}, **comms)
    path = write(tmp_path / "t.json", [*kernels, operator])
    for got in (
        decoded(path, ignore_progress, ChunkSizes(300, 500, 64)),
        by_shards(path, 2, ChunkSizes(300, 500, 64), tmp_path / "s"),
    ):
        collectives = got.events.filter(pl.col("kind") == "collective")
        assert collectives.select(pl.col("name").cast(pl.String), "bytes").rows() == [("secret 7", 40)]
        assert got.events.filter(pl.col("kind") == "kernel").height == 39


def test_gloo_is_a_collective_only_where_no_device_works(part):
    gloo = x("user_annotation", "gloo:all_reduce", 0, 5, **{"Input Dims": [[100]], "Input type": ["float"]})
    assert [(e["kind"], e["bytes"]) for e in events_of(part([gloo]))] == [("collective", 400)]
    with_gpu = events_of(part([gloo, gpu("kernel", "k", 0, 1)]))
    assert [e["kind"] for e in with_gpu] == ["annotation", "kernel"]


def test_rocm_spellings(part):
    got = part(
        [
            x("cuda_runtime", "hipMemcpyWithStream", 0, 5, stream="0x0", bytes="616", correlation="12"),
            gpu("kernel", "__amd_rocclr_copyBuffer.kd", 6, 1, stream=0, correlation=12),
            gpu("gpu_memcpy", "FillBuffer", 8, 1, stream=0),
        ]
    )
    assert [e["kind"] for e in events_of(got)] == ["runtime", "copy", "memset"]
    assert [e["correlation"] for e in events_of(got)] == [12, 12, None]


def test_times_are_exact_in_every_spelling(tmp_path):
    text = (
        '{"schemaVersion": 1, "deviceProperties": [], "traceEvents": ['
        '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1712195495501688.123,"dur":1.001},'
        '{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":"1712195495501690.457","dur":"0.5"},'
        '{"ph":"X","cat":"cpu_op","name":"c","pid":1,"tid":1,"ts":1712195495501700,"dur":2},'
        '{"ph":"X","cat":"cpu_op","name":"d","pid":1,"tid":1,"ts":1.7121954955018e15,"dur":0}]}'
    )
    path = tmp_path / "t.json"
    path.write_text(text)
    got = decoded(path, ignore_progress)
    assert got.wall_ns == 1712195495501688123
    assert got.events["start"].to_list() == [0, 2_334_000, 11_877_000, 111_877_000]
    assert (got.events["end"] - got.events["start"]).to_list() == [1_001_000, 500_000, 2_000_000, 0]


ODD = [b'"1712195495501690.5"', b"1.7121954955017e15", b"1712195495501700", b"null", b'"soon"', b"-1", b"[1]", b"1e400"]


@pytest.mark.parametrize(("odd", "row"), some(product(ODD, (49, 0, 25)), product(ODD[::2], (49,))))
def test_one_start_of_another_spelling_changes_no_other(tmp_path, row, odd):
    path, starts = tmp_path / "t.json", [b"171219549550%04d.%03d" % (1000 + n, n) for n in range(50)]
    starts[row] = odd
    event = b'{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": %s, "dur": 0.5}'
    path.write_bytes(b'{"traceEvents": [' + b",\n".join(event % start for start in starts) + b"]}")
    whole, cut = decoded(path), decoded(path, sizes=ChunkSizes(400, 2000, 120))
    assert told(cut)[0] == told(whole)[0]
    assert [(note_text(note), note.count) for note in cut.notes] == [
        (note_text(note), note.count) for note in whole.notes
    ]
    good = {int(start.replace(b".", b"")) for n, start in enumerate(starts) if n != row}
    assert good <= {whole.wall_ns + start // 1000 for start in whole.events["start"].to_list()}


def test_times_that_cannot_be_true_are_left_out(part):
    hour = 3600 * 10**6
    good = [x("cpu_op", f"op{n}", 2000 * hour + n, 1) for n in range(5)]
    bad = [
        x("cpu_op", "zero", 0, 1),
        x("cpu_op", "far", 2 * 10**13, 1),
        x("cpu_op", "huge", 10**30, 1),
        x("cpu_op", "endless", 2000 * hour, 10**14),
        x("cpu_op", "none", "soon", 1),
        x("cpu_op", "reversed", 2000 * hour + 9, -4),
    ]
    got = part(good + bad)
    assert got.events["name"].to_list() == ["op0", "op1", "op2", "op3", "op4", "reversed"]
    assert got.events["end"].max() == 9 * 10**6
    notes = {note_text(note): (note.level, note.count, note.where) for note in got.notes}
    assert notes == {
        "negative durations, read as 0": ("repaired", 1, "event 10"),
        "events without a valid time": ("dropped", 2, "event 7"),
        "events at time 0, far from all others": ("dropped", 1, "event 5"),
        "events that last a day, or are a day from the others": ("dropped", 2, "event 6"),
    }


def test_a_trace_that_starts_at_zero_keeps_its_first_event(part):
    assert part([x("cpu_op", "a", 0, 1), x("cpu_op", "b", 5, 1)]).events.height == 2


def test_odd_ids(part):
    huge = 2**64 + 3
    got = part(
        [
            x("cpu_op", "a", 0, 1, huge, huge, **{"External id": 2**63, "correlation": -1}),
            x("cpu_op", "b", 1, 1, "worker", "main"),
            x("cpu_op", "c", 2, 1, None, None),
            x("cpu_op", "d", 3, 1, -5, [1]),
        ]
    )
    assert set(got.lanes["thread"]) == {"", str(huge), "[1]", "main"}
    assert got.events["external"].to_list() == [None] * 4


def test_what_is_not_drawn_is_counted(part):
    got = part(
        [
            x("cpu_op", "a", 0, 1),
            {"ph": "s", "id": 1, "cat": "ac2g", "name": "ac2g", "pid": 10, "tid": 10, "ts": 1},
            {"ph": "B", "name": "b", "pid": 10, "tid": 10, "ts": 1},
            {},
        ]
    )
    assert got.events["name"].to_list() == ["a"]
    assert sorted((note.level, note.count) for note in got.notes) == [
        ("dropped", 1), ("dropped", 1), ("info", 1),
    ]  # fmt: skip


def test_no_events_at_all(part):
    with pytest.raises(TracehoundError, match="holds no trace events"):
        part([])
    got = part([{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}}])
    assert got.events.height == 0
    assert got.ranks["label"].to_list() == ["CPU"]
    assert got.wall_ns is None


def test_the_autograd_profilers_own_list(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(
        json.dumps(
            [
                {"name": "add", "ph": "X", "ts": 1.5, "dur": 2, "tid": 1, "pid": "CPU functions", "args": {}},
                {"name": "add", "ph": "s", "ts": 1.5, "tid": 1, "pid": "CPU functions", "id": 0, "cat": "cpu_to_cuda"},
                {"name": "add", "ph": "X", "ts": 3, "dur": 2, "tid": 0, "pid": "CUDA functions", "args": {}},
            ]
        )
    )
    assert KINETO.matches(path.read_bytes())
    got = KINETO.read(path, ignore_progress)
    assert [(e["kind"], e["role"]) for e in events_of(got)] == [("op", "thread"), ("kernel", "stream")]


def test_progress_can_cancel(tmp_path):
    class Stop(Exception):  # noqa: N818  # it is no error
        pass

    def stop(read: int, events: int) -> None:
        assert (read > 0, events > 0) == (True, True)
        raise Stop

    path = write(tmp_path / "t.json", [x("cpu_op", f"op {n}", n, 1) for n in range(500)])
    with pytest.raises(Stop):
        decoded(path, stop, ChunkSizes(1000))


def obvious(text: bytes) -> list[tuple]:
    """Record, start and length (ns) and name of every drawn event, the slow way."""
    document = json.loads(text, parse_float=Decimal)
    events = document if isinstance(document, list) else document["traceEvents"]
    rows = []
    for record, event in enumerate(events):
        if event.get("ph") not in ("X", "i") or event.get("cat") == "Trace":
            continue
        if event["ph"] == "i" and (
            event["name"] in ("[memory]", "Record Window End") or event["name"].startswith("Iteration Start")
        ):
            continue
        start, length = int(Decimal(event["ts"]) * 1000), int(Decimal(event.get("dur", 0)) * 1000)
        rows.append((record, start, max(length, 0), event["name"]))
    return rows


def fast(path: Path, sizes: ChunkSizes = DEFAULT_SIZES) -> list[tuple]:
    """Record, start, length as it is in the file (ns) and name of the events."""
    got = decoded(path, ignore_progress, sizes)
    cut = got.facets.get("cut", empty_facet("cut"))
    events = got.events.join(cut.collect(), on="record", how="left").sort("record")
    length = pl.coalesce("recorded_duration", pl.col("end") - pl.col("start"))
    return events.select("record", pl.col("start") // 1000, length // 1000, pl.col("name").cast(pl.String)).rows()


SIZED = st.sampled_from([ChunkSizes(80, 300, 64), ChunkSizes(500, 1000, 100), ChunkSizes(200, 70, 90), DEFAULT_SIZES])

TIMES = st.integers(0, 2**40).map(lambda ns: ns / 1000) | st.integers(0, 2**30) | st.integers(0, 2**40).map(
    lambda ns: str(Decimal(ns) / 1000)
)  # fmt: skip
EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "ph": st.sampled_from(["X", "X", "i", "s", "M", "C"]),
            "cat": st.sampled_from(["cpu_op", "kernel", "Operator", "Runtime", "gpu_memcpy", "odd", "Trace"]),
            "name": st.sampled_from(["a", "[memory]", "ProfilerStep#1", 'say "hi"', '},{"ph":"X"', "ключ"]),
            "pid": st.integers(0, 3) | st.sampled_from(["0", "Spans"]),
            "tid": st.integers(0, 3) | st.sampled_from(["stream 7", "1"]),
            "ts": TIMES,
            "dur": TIMES,
        },
        optional={
            "args": st.fixed_dictionaries(
                {},
                optional={
                    "correlation": st.integers(-1, 9),
                    "External id": st.integers(0, 9),
                    "stream": st.integers(-1, 3) | st.sampled_from(["0x0", None]),
                    "device": st.integers(0, 2) | st.none(),
                    "bytes": st.integers(0, 99) | st.just("12"),
                    "l": st.just([{"name": 1}, {"name": 2}]),
                },
            )
        },
    ),
    max_size=20,
)


def kernel_at(ts: float, dur: float) -> dict[str, object]:
    return {"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": "stream 7", "ts": ts, "dur": dur}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS.filter(bool), SIZED, st.sampled_from([None, 2]))
@example([kernel_at(0.0, 1.003), kernel_at(0.001, 0.001)], DEFAULT_SIZES, None)  # the first has an impossible end
def test_any_events_give_the_frames_of_the_obvious_loop(tmp_path, events, sizes, indent):
    path = tmp_path / "t.json"
    text = json.dumps({"traceEvents": events, "distributedInfo": {"rank": 1}}, indent=indent)
    path.write_text(text)
    expected = obvious(text.encode())
    origin = min((start for _, start, _, _ in expected), default=0)
    assert fast(path, sizes) == [(r, start - origin, length, name) for r, start, length, name in expected]
    with nullcontext() if expected else suppress(TracehoundError):  # nothing is left of the file
        KINETO.read(path, ignore_progress)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS.filter(bool), SIZED, st.integers(2, 4), st.booleans())
def test_several_processes_find_what_one_finds(tmp_path, events, sizes, count, late):
    path = tmp_path / "t.json"
    strays = [
        x("cpu_op", "zero", 0, 1),
        x("cpu_op", "far", 10**14, 1),
        x("kernel", "k", 10**8, 1, **{"External id": 3}),
    ]
    params = x("cpu_op", "record_param_comms", 7, 5, **{"External id": 3, "dtype": "Int", "In msg nelems": 10})
    around = {"baseTimeNanoseconds": BASE, "distributedInfo": {"rank": 1}}
    document = {"traceEvents": [*strays, *events, params], **around}
    path.write_text(json.dumps(document if late else dict(reversed(document.items()))))
    assert told(by_shards(path, count, sizes, tmp_path / "spill")) == told(decoded(path, ignore_progress, sizes))


def test_several_processes_find_what_one_finds_in_real_files(shared, tmp_path):
    broken = [path for path in sorted((shared / "traces" / "broken").iterdir()) if "trace" in path.name]
    paths = [path for path in [*files(shared), *broken] if path.stat().st_size < 150_000]
    assert len(paths) > 15
    for path in paths:
        sizes = ChunkSizes(20_000, 150_000)
        try:
            once = decoded(path, ignore_progress, sizes)
        except TracehoundError:
            continue
        assert told(by_shards(path, 3, sizes, tmp_path / "spill")) == told(once), path
        assert told(decoded(path)) == [*told(once)[:-1], decoded(path).places.tolist()], path


def files(shared: Path) -> list[Path]:
    found = [*(shared / "traces" / "kineto").glob("*/*"), *(shared / "captures" / "torch").glob("*/*.pt.trace.json*")]
    return sorted(path for path in found if "memory_timeline" not in path.name)


def test_every_real_file_is_read_without_loss(shared):
    paths = files(shared)
    assert len(paths) > 30
    for path in paths:
        text, _ = read_all(path)
        assert KINETO.matches(text[:65536]), path
        document = orjson.loads(text)
        events = document if isinstance(document, list) else document["traceEvents"]
        drawn = [e for e in events if e.get("ph") in ("X", "i") and e.get("cat") != "Trace"]
        own = ("[memory]", "Record Window End", "Iteration Start: PyTorch Profiler")
        got = KINETO.read(path, ignore_progress)
        assert got.events.height == sum(e["ph"] == "X" or e["name"] not in own for e in drawn), path
        assert not [note for note in got.notes if note.level in ("dropped", "repaired")], path


def test_real_files_are_exact_to_the_nanosecond(shared):
    small = [path for path in files(shared) if path.stat().st_size < 150_000]
    assert len(small) > 8
    for path in small:
        expected = obvious(read_all(path)[0])
        origin = min(start for _, start, _, _ in expected)
        assert fast(path, ChunkSizes(1 << 17)) == [
            (r, start - origin, length, name) for r, start, length, name in expected
        ], path


@pytest.mark.parametrize(
    ("name", "events", "level"),
    [
        ("truncated_gzip.pt.trace.json.gz", 1331, "dropped"),
        ("nan_infinity_args.pt.trace.json", 450, "repaired"),
        ("windows_unescaped_backslash.pt.trace.json", 450, "repaired"),
        ("bare_list.json", 300, None),
        ("odd_field_types.pt.trace.json", 300, "repaired"),
        ("legacy_autograd_two_string_pids.json", 2, "info"),
        ("plain_json_named_gz.pt.trace.json.gz", 450, None),
    ],
)
def test_broken_files_give_what_can_be_read(shared, name, events, level):
    got = KINETO.read(shared / "traces" / "broken" / name, ignore_progress)
    assert got.events.height == events
    assert {note.level for note in got.notes} >= ({level} if level else set())
    for record in got.events["record"].sort()[[0, -1]]:
        assert kineto.read_args(got, record)["ph"] == "X"


@pytest.mark.parametrize("seed", first(1, range(10)))
def test_random_damage_ends_in_a_part_or_in_one_line(tmp_path, seed):
    random = Random(seed)
    events = [x("cpu_op", f"op {n}", n, 1, l=[{"name": "a"}, {"name": n}], t='q"\\') for n in range(40)]
    sound = json.dumps({"schemaVersion": 1, "traceEvents": events, "distributedInfo": {"rank": 2}}).encode()
    for _ in range(10):
        data = bytearray(sound)
        for _ in range(random.randint(1, 4)):
            at, size = random.randrange(len(data)), random.randint(0, 30)
            data[at : at + size] = random.choice(
                [b"", b'"', b"}", b"]", b"\\", b"\xff", b"{", b'},{"ph":', b"NaN", b"\0"]
            )
        path = tmp_path / "t.json"
        path.write_bytes(data)
        try:
            got = decoded(
                path, ignore_progress, random.choice([ChunkSizes(100, 500, 100), ChunkSizes(1000), ChunkSizes(100_000)])
            )
        except TracehoundError:
            continue
        for record in got.events["record"].to_list():
            assert kineto.read_args(got, record)["ph"] == "X"


def test_args_of_an_event_in_gzip(shared):
    path = shared / "traces" / "kineto" / "hta_nccl_a100" / "nccl_data.json.gz"
    got = KINETO.read(path, ignore_progress)
    document = json.loads(gzip.decompress(path.read_bytes()))
    for row in got.events.sample(5, seed=3).iter_rows(named=True):
        assert kineto.read_args(got, row["record"]) == document["traceEvents"][row["record"]]


HUGE = ("1e999999999", "-1e999999999", "1e99999999999999999999", "1e-99999999999999999999")
FIELDS = ("ts", "dur", "tid", "correlation", "bytes")


@pytest.mark.parametrize(
    ("field", "number"), some(product(FIELDS, HUGE), [*zip(FIELDS, HUGE, strict=False), ("bytes", HUGE[0])])
)
def test_a_number_that_nothing_can_hold_costs_no_time(tmp_path, field, number):
    event = gpu("kernel", "gemm", 1, 2, correlation=1, bytes=8)
    spelled = json.dumps({**event, field: 0} if field in event else {**event, "args": {**event["args"], field: 0}})
    path = write(tmp_path / "t.json", [gpu("kernel", "first", 1, 2), "HERE"])
    path.write_text(path.read_text().replace('"HERE"', spelled.replace(f'"{field}": 0', f'"{field}": {number}')))
    part = KINETO.read(path, ignore_progress)
    lost = field in ("ts", "dur") and "e-" not in number
    assert part.events.height == (1 if lost else 2)
    assert [note.level for note in part.notes] == (["dropped"] if lost else [])


@pytest.mark.parametrize("device", [-1, 2**31, 2**63 - 1, "none"])
def test_a_device_that_cannot_be_is_the_first(part, device):
    got = part([gpu("kernel", "gemm", 1, 2, device=device), gpu("kernel", "gemm", 5, 2)])
    assert got.ranks["device"].to_list() == [0]
    assert got.events.height == 2


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python run for it, those of a loop each time; a time would tell of the machine, too."""
    count = 0

    def traced(frame: FrameType, what: str, value: object) -> Callable[..., object]:
        nonlocal count
        del frame, value
        count += what == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_the_work_for_threads_grows_with_their_number_alone(part):
    def named(count: int) -> None:
        names = [
            {"ph": "M", "name": "process_name", "pid": n, "tid": 0, "args": {"name": f"p{n}"}} for n in range(count)
        ]
        got = part([*names, *(x("cpu_op", "a", n, 1, pid=n, tid=n + 1) for n in range(count))])
        assert got.lanes["process"].to_list() == [f"p{n}" for n in range(count)]

    named(10)  # what is done once is done
    few, many, most = (lines_run(partial(named, count)) for count in (100, 400, 700))
    assert (most - many) < 1.2 * (many - few), "a look at every other thread for each makes it twice as much"


@pytest.mark.parametrize("phase", ["b", "", "X"])
def test_an_instant_is_no_event_that_lacks_its_duration(tmp_path: Path, phase: str) -> None:
    """However it is read: with the whole slice, beside an unknown phase, or leniently as the last of the file."""
    mark = {"ph": "i", "cat": "cpu_instant_event", "name": "mark", "pid": 10, "tid": 10, "ts": 1}
    events = [
        x("cpu_op", "a", 0, 3),
        mark,
        {"ph": phase, "cat": "cpu_op", "name": "odd", "pid": 10, "tid": 10, "ts": 2},
    ]
    notes = {note_text(note) for note in KINETO.read(write(tmp_path / "t.json", [*events, mark])).notes}
    assert ("complete events without a duration, read as 0" in notes) == (phase == "X")


def test_every_phase_is_read_the_same_beside_one_that_is_unknown(tmp_path: Path) -> None:
    """A slice with such a phase is decoded in another way."""
    args = {"Device Type": 1, "Device Id": 0, "Bytes": 512, "Addr": 7, "Total Allocated": 512}
    events = [
        {"ph": "M", "name": "process_name", "pid": 10, "tid": 0, "args": {"name": "train.py"}},
        x("cpu_op", "aten::add", 0, 3, **{"Input Dims": [[2]], "Input type": ["float"], "Sequence number": 5}),
        gpu("kernel", "k", 1, 1, correlation=4, grid=[1, 1, 1], block=[32, 1, 1]),
        {"ph": "i", "name": "[memory]", "pid": 10, "tid": 10, "ts": 2, "args": args},
        {"ph": "I", "cat": "cpu_instant_event", "name": "mark", "pid": 10, "tid": 10, "ts": 2},
        {"ph": "C", "name": "load", "pid": 10, "ts": 2, "args": {"value": 3}},
        *({"ph": phase, "id": 4, "pid": 10, "tid": 10, "ts": 0, "cat": "ac2g", "name": "ac2g"} for phase in "stf"),
    ]
    plain = KINETO.read(write(tmp_path / "plain.json", [*events, x("cpu_op", "end", 9, 1)]))
    odd = KINETO.read(write(tmp_path / "odd.json", [*events, x("cpu_op", "end", 9, 1), {"ph": "b", "name": "odd"}]))
    assert [note for note in odd.notes if "phase" not in note_text(note)] == list(plain.notes)
    assert told(odd)[:6] == told(plain)[:6]
    assert odd.counters.equals(plain.counters)
    assert odd.hosts == plain.hosts == ("train.py (10)",)


def test_times_are_spelled_out_once_for_all_samples_of_a_slice() -> None:
    """Memory and counters in turn, at times that a float cannot hold: a slice is decoded again for them once."""
    elements = [kind(name="[memory]", ts=1.7e15 + 0.5) for _ in range(50) for kind in (InstantEvent, CounterEvent)]
    asked = []

    def starts() -> list[int]:
        asked.append(1)
        return [1_700_000_000_000_000 + number for number in range(len(elements))]

    columns = SegmentColumns(KnownCombinations())
    raw = msgspec.Raw(b'{"args":{"a":1}}')
    columns.add(JsonChunk(elements, starts, starts, lambda: [raw] * len(elements), lambda _: False))
    assert len(asked) == 1
    assert columns.samples.finish().time.tolist()[:2] == [1_700_000_000_000_001_000, 1_700_000_000_000_003_000]


def test_the_process_of_a_trace_without_host_events_has_its_name(tmp_path: Path) -> None:
    named = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
        for pid, name in ((4321, "train.py"), (0, "train.py"), ("Spans", "Spans"))
    ]
    span = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler",
            "ts": 0, "dur": 9}  # fmt: skip
    part = KINETO.read(write(tmp_path / "t.json", [*named, gpu("kernel", "k", 1, 1), span]))
    assert part.hosts == ("train.py (4321)",)


def test_a_facet_has_all_its_columns_though_a_segment_lacks_some(tmp_path: Path) -> None:
    """The first segment tells of shapes alone, the second of sequence numbers alone."""
    shapes = [x("cpu_op", "a", n, 1, **{"Input Dims": [[n]], "Input type": ["float"]}) for n in range(40)]
    numbers = [x("cpu_op", "b", 40 + n, 1, **{"Sequence number": n}) for n in range(40)]
    path = write(tmp_path / "t.json", shapes + numbers)
    one = KINETO.read(path)
    small = ChunkSizes(chunk=512, segment=2048, preview=256)
    (tmp_path / "pieces").mkdir()
    for part in (decoded(path, sizes=small), by_shards(path, 2, small, tmp_path / "pieces")):
        assert rows(part.facets["called"]) == rows(one.facets["called"])
    assert len(rows(one.facets["called"])) == 80


def test_events_of_no_category_of_pytorch_are_told_of(tmp_path: Path) -> None:
    """As another profiler writes them, which calls its file a trace of PyTorch's."""
    alike = {"ph": "X", "pid": 1, "tid": 2, "dur": 5}
    known = [{**alike, "ts": at, "name": "aten::mm", "cat": cat} for at, cat in ((1, "cpu_op"), (9, "Overhead"))]
    strange = [{**alike, "ts": at, "name": "MatMulV2", **cat} for at, cat in ((20, {}), (30, {"cat": "AI_CORE"}))]
    part = decoded(write(tmp_path / "t.json", [*known, *strange]))
    (note,) = (note for note in part.notes if "categories" in note_text(note))
    assert (note.level, note.count) == ("info", 2)
    assert not [note for note in decoded(write(tmp_path / "u.json", known)).notes if "categories" in note_text(note)]


def test_events_without_a_name_or_a_thread_are_told_of(tmp_path: Path) -> None:
    nameless = [{**x("cpu_op", "", 10 * n, 5), "name": name} for n, name in enumerate(("", None), 1)]
    nameless.append({key: value for key, value in x("kernel", "", 30, 5, device=0, stream=7).items() if key != "name"})
    threadless = {key: value for key, value in x("cpu_op", "b", 40, 5).items() if key != "tid"}
    for events in ([*nameless, threadless], [*nameless, threadless, *(x("cpu_op", "c", n, 1) for n in range(50, 90))]):
        part = decoded(write(tmp_path / "t.json", [x("cpu_op", "a", 0, 5), *events]))
        notes = {note_text(note).partition(",")[0]: note.count for note in part.notes if "without a" in note_text(note)}
        assert notes == {"events without a name": 3, "host events without a thread": 1}
        assert "no thread" in part.lanes["name"].to_list()
    assert not [note for note in decoded(write(tmp_path / "u.json", [x("cpu_op", "a", 0, 5)])).notes if note.count]


def test_errors_and_warnings_that_kineto_logged_are_notes(tmp_path: Path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    warnings = [f"WARNING:2026-05-22 CuptiActivityProfiler.cpp:976] {number} events dropped" for number in range(2, 22)]
    path = write(tmp_path / "a.json", [kernel], INFO=["Processing"], WARNING=[*warnings, warnings[0], 7], ERROR=["no"])
    notes = [(note.level, note.count, note_text(note)) for note in decoded(path).notes]
    assert notes[:2] == [
        ("missing", 1, "the profiler reports an error: no"),
        ("missing", 2, f"the profiler warns: {warnings[0]}"),
    ]
    assert [text for *_, text in notes[16:18]] == [
        f"the profiler warns: {warnings[15]}",
        "the profiler warns: 4 more",
    ]
    assert decoded(write(tmp_path / "b.json", [kernel], WARNING="text", ERROR={"a": 1})).notes == ()


def test_copies_keep_the_bandwidth_that_the_file_states(tmp_path: Path) -> None:
    """However it is decoded: by the scanner, and as objects."""
    told = [0.5652173913043478, None, "0.25", 1e-9, True, float("nan"), 400]
    copy = {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    events = [
        {**copy, "ts": number, "args": {"bytes": 8, "memory bandwidth (GB/s)": value}}
        for number, value in enumerate(told)
    ]
    kernels = [{**copy, "cat": "kernel", "name": "k", "ts": 100 + number} for number in range(40)]
    scanned = decoded(write(tmp_path / "a.json", [*events, *kernels])).facets["copied"].collect()
    lonely = [decoded(write(tmp_path / f"{n}.json", [event])).facets.get("copied") for n, event in enumerate(events)]
    assert scanned.rows() == [(0, told[0]), (2, 0.25), (3, 1e-9), (6, 400.0)]
    assert [None if facet is None else facet.collect().rows() for facet in lonely] == [
        [(0, told[0])], None, [(0, 0.25)], [(0, 1e-9)], None, None, [(0, 400.0)],
    ]  # fmt: skip
