"""Scanned events give the part that decoded objects give, whatever the events are."""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from test_kineto import SIZED, told

from tracehound.errors import TracehoundError
from tracehound.formats import WHOLE_FILE, ignore_progress
from tracehound.formats.json.array_repair import TIME_AS_TEXT
from tracehound.formats.json.array_window import DEFAULT_SIZES, ChunkSizes
from tracehound.formats.kineto import kineto_reader as kineto
from tracehound.formats.kineto import native_scan as kineto_scan
from tracehound.formats.kineto.json_events import JsonEvent
from tracehound.formats.kineto.native_scan import NativeDecoder, ScannedEvents
from tracehound.formats.spill import Spill
from tracehound.model.trace import FileFrames
from tracehound.numeric import native

pytestmark = pytest.mark.skipif(native.library() is None, reason="nothing is compiled here")


def read(path: Path, sizes: ChunkSizes) -> FileFrames:
    return kineto.build_file_frames(
        path, [kineto.decode_shard(path, WHOLE_FILE, Spill(), ignore_progress, sizes)], Spill()
    )


def both(path: Path, sizes: ChunkSizes = DEFAULT_SIZES) -> tuple[list[object], list[object]]:
    """What a file's part says, read with the scanner, however much it leaves to others, and without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kineto_scan, "_LEFTOVER_RATIO", 0)
        scanned = told(read(path, sizes))
        patch.setattr(kineto, "native_decoder", lambda: None)
        return scanned, told(read(path, sizes))


ODD = st.sampled_from([None, -1, -5, 2.5, "7", "0x1f", True, 2**63, 10**30, [1], {"a": 1}, "nan"])
SMALL = st.integers(0, 5) | st.integers(0, 5) | ODD
TEXTS = st.sampled_from(["", "float", "Long(int)", [[1, 2], []], [["a"], 3], "[[1]]", "a\\n", "é", None])
NAMES = st.sampled_from(
    [
        "aten::mm", "void gemm<float>(int)", "ncclKernel_AllReduce_RING_LL_Sum_float", "Memcpy HtoD (Pageable)",
        "ProfilerStep#3", "record_param_comms", "gloo:all_reduce", "[memory]", "[memory]", "Iteration Start: 3",
        "Record Window End", "cudaGraphLaunch", "ключ", 'say "hi" \\ \n', "Optimizer.step#SGD.step", "",
    ]
)  # fmt: skip
CATEGORIES = st.sampled_from(
    [
        "cpu_op",
        "user_annotation",
        "kernel",
        "gpu_memcpy",
        "Kernel",
        "cuda_runtime",
        "cuda_sync",
        "python_function",
        "Trace",
    ]
)
TIMES = st.integers(0, 10**6).map(lambda ns: ns / 1000) | st.sampled_from([0, 7, 1e3, 0.0625, "5", 2**60, -3])
ARGS: dict[str, st.SearchStrategy] = {
    **dict.fromkeys(("correlation", "External id", "external id", "bytes", "Sequence number", "Fwd thread id"), SMALL),
    **dict.fromkeys(("stream", "device"), st.integers(0, 2) | st.sampled_from([None, "stream 7", 1.5])),
    **dict.fromkeys(("Bytes", "Addr", "Device Type", "Device Id", "Total Allocated", "Total Reserved"), SMALL),
    **dict.fromkeys(("grid", "block"), st.sampled_from([[1, 2, 3], [4], "x", None])),
    **dict.fromkeys(("registers per thread", "shared memory", "blocks per SM", "warps per SM"), SMALL),
    **dict.fromkeys(("Input Dims", "Input type", "Input Strides", "Concrete Inputs", "Call stack"), TEXTS),
    **dict.fromkeys(("est. achieved occupancy %", "theoretical occupancy %"), SMALL),
    "Input dims": TEXTS,
    "Collective name": st.sampled_from(["allreduce", None]),
    "In msg nelems": SMALL,
    "wait_on_stream": SMALL,
    "wait_on_cuda_event_record_corr_id": SMALL,
    "dtype": st.sampled_from(["Float", None]),
    "name": st.sampled_from(["python", 5]),
    "anything": st.sampled_from([{"traceEvents": []}, [{"ph": "X"}, 1e300], "\u2028"]),
}
EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "ph": st.sampled_from(["X"] * 6 + ["i", "i", "s", "t", "f", "M", "C", "I", "B", ""]),
            "name": NAMES,
            "ts": TIMES,
        },
        optional={
            "cat": CATEGORIES,
            "dur": TIMES,
            "pid": st.integers(0, 2) | st.sampled_from(["0", "CUDA functions", None, 1.5]),
            "tid": st.integers(0, 2) | st.sampled_from(["1", "010", "0b11", "stream 7", None]),
            "args": st.lists(st.sampled_from(sorted(ARGS)), max_size=5, unique=True).flatmap(
                lambda names: st.fixed_dictionaries({name: ARGS[name] for name in names})
            ),
        },
    ),
    max_size=20,
)


LAST = [
    {"ph": "X", "name": f"the last {n}", "ts": 10**4, "dur": 1, "cat": "cpu_op", "pid": 9, "tid": 9} for n in (1, 2)
]
"""The last event of a file is decoded by itself."""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS, SIZED, st.sampled_from([None, 2]), st.booleans())
def test_any_events(tmp_path, events, sizes, indent, plain):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [*events, *LAST]}, indent=indent, ensure_ascii=plain))
    scanned, decoded = both(path, sizes)
    assert scanned == decoded


def old(event: dict) -> dict:
    """The event as it was written in 2020."""
    spelled = {"Input Dims": "Input dims", "est. achieved occupancy %": "theoretical occupancy %"}
    args = event.get("args", {})
    return {**event, "args": {spelled.get(name, name): value for name, value in args.items()}}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS, SIZED)
@example(
    [
        {"ph": "i", "name": "[memory]", "ts": 0.0625},
        {"ph": "X", "name": "aten::mm", "ts": 0.0, "cat": "cpu_op", "dur": 0.0, "tid": 0},
        {"ph": "X", "name": "aten::mm", "ts": 0.0},
    ],
    DEFAULT_SIZES,
)
def test_any_old_events(tmp_path, events, sizes):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [*map(old, events), *LAST]}))
    scanned, decoded = both(path, sizes)
    assert scanned == decoded


@pytest.mark.parametrize(
    "text",
    [
        '{"ph":"X","name":"gl\\u006fo:all_reduce","cat":"user_annotation","pid":1,"tid":1,"ts":1,"dur":5,'
        '"args":{"Input Dims":[[2,2]],"Input type":["float"]}}',
        '{"ph":"C","name":"busy","pid":1,"ts":1,"args":{"a":1}},'
        '{"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":1,"args":{"Bytes":5,"Total Allocated":5,"Addr":-5}}',
        '{"ph":"X","name":"k","cat":"kernel","pid":0,"tid":7,"ts":1,"dur":1,"args":{"registers per thread":true}},'
        '{"ph":"X","name":"k","cat":"kernel","pid":0,"tid":7,"ts":3,"dur":1,"args":{"registers per thread":1}}',
        '{"ph":"X","name":"k","cat":"kernel","pid":0,"tid":7,"ts":1,"dur":1,'
        '"args":{"est. achieved occupancy %":null,"theoretical occupancy %":50}}',
    ],
)
def test_one_by_one(tmp_path, text):
    path = tmp_path / "t.json"
    last = ",".join(map(json.dumps, LAST))
    path.write_text(f'{{"traceEvents":[{text},{last}]}}')
    scanned, decoded = both(path)
    assert scanned == decoded


def test_keys_of_lists_that_are_refused_are_forgotten(monkeypatch):
    monkeypatch.setattr(kineto_scan, "_MAX_KEY_BYTES", 100_000)
    scan = kineto_scan.native_decoder()
    for turn in range(100):
        events = [{"ph": "X", "name": f"event {turn} {n}", "args": {"dtype": 1}} for n in range(100)]
        assert isinstance(scan.decode(memoryview(json.dumps(events).encode())), list)
        assert scan._scanner.key_bytes < 200_000


def test_earlier_files_change_nothing(samples: Path) -> None:
    earlier, later = (
        next(samples.glob(pattern)) for pattern in ("torch_stacks/*.json*", "torch_ddp_gloo/rank0*.json*")
    )

    def read_last(*paths: Path) -> list[object]:
        with ThreadPoolExecutor(1) as thread:  # a new one, which knows no file
            return list(thread.map(lambda path: told(read(path, DEFAULT_SIZES)), paths))[-1]

    assert read_last(earlier, later) == read_last(later)


def test_real_files(samples: Path) -> None:
    compare_small(samples.rglob("*.json*"), 200_000)


@pytest.mark.thorough
def test_large_real_files(samples: Path) -> None:
    compare_small(samples.rglob("*.json*"), 3_000_000)


def test_real_files_of_others(shared: Path) -> None:
    compare_small((shared / "traces").rglob("*.json*"), 3_000_000)


def compare_small(paths: Iterable[Path], limit: int) -> None:
    """Read each file of up to so many bytes in both ways."""
    compared = 0
    for path in paths:
        if path.stat().st_size > limit:
            continue
        try:
            scanned, decoded = both(path)
        except TracehoundError:
            continue
        compared += 1
        assert scanned == decoded, path
    assert compared >= 3


def test_events_of_collectives_are_left_over_and_no_others():
    names = ["aten::mm", "record_param_comms", "gloo:barrier", *["aten::add"] * 20]
    found = kineto_scan.native_decoder().decode(
        memoryview(json.dumps([{"ph": "X", "name": name} for name in names]).encode())
    )
    assert isinstance(found, ScannedEvents)
    assert [event.name for event in found.leftovers] == names[1:3]
    disguised = b'[{"ph":"X","name":"gl\\u006fo:barrier"},{"ph":"X","name":"b"}]'
    assert isinstance(kineto_scan.native_decoder().decode(memoryview(disguised)), list)


def test_most_events_of_a_real_trace_are_scanned(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []

    def counted(self: NativeDecoder, data: memoryview) -> object:
        found = decode(self, data)
        counts.append((len(found), len(found.leftovers) if isinstance(found, ScannedEvents) else len(found)))
        return found

    decode = NativeDecoder.decode
    monkeypatch.setattr(NativeDecoder, "decode", counted)
    path = max((samples / "torch_stacks").glob("*.json*"), key=lambda path: path.stat().st_size)
    part = read(path, DEFAULT_SIZES)
    events, left = (sum(column) for column in zip(*counts, strict=True))
    assert left * 50 < events
    assert part.scan.select(pl.len()).collect().item() > 1000


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS, SIZED)
def test_any_events_that_are_read_leniently(tmp_path, events, sizes):
    """As beside damage, and at the end of a file: the same as when all are read at once."""
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [*events, *LAST]}))

    def refused(data: memoryview) -> list[JsonEvent]:
        if bytes(data).strip(b"[] "):
            raise msgspec.ValidationError("damaged")
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kineto, "native_decoder", lambda: None)
        decoded = read(path, sizes)
        patch.setattr(kineto, "decode_events", refused)
        found = read(path, sizes)
    notes = tuple(note for note in found.notes if note.code != TIME_AS_TEXT)  # of arrows, in the one way
    known = tuple(note for note in decoded.notes if note.code != TIME_AS_TEXT)
    assert told(replace(found, notes=notes, places=decoded.places)) == told(replace(decoded, notes=known))
