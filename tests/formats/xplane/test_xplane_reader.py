from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from polars.testing import assert_frame_equal

from growth import TOO_FAST, growth
from hloprotos import F32, array, computation, instruction, proto
from short import some
from tracehound.analysis import get_analysis
from tracehound.analysis import run_analysis as analyzed
from tracehound.draw.notes import note_text
from tracehound.errors import TracehoundError
from tracehound.formats import XPLANE, WorkerShard, ignore_progress
from tracehound.formats.protobuf_wire import InflatedFile
from tracehound.formats.spill import Spill
from tracehound.formats.xla.kernel_details import parse_launch_details
from tracehound.formats.xplane import event_decoder, plane_columns, xplane_reader, xspace
from tracehound.formats.xplane.event_decoder import EventRange, decode_event_ranges, find_wanted_stats
from tracehound.formats.xplane.plane_columns import EventStats, TextNumbers
from tracehound.formats.xplane.plane_metadata import read_event_metadata
from tracehound.formats.xplane.plane_rows import COMMON_STATS, OP_NAME_STATS
from tracehound.formats.xplane.xplane_args import PlaneLocations
from tracehound.formats.xplane.xplane_reader import read_claims
from tracehound.formats.xplane.xspace import follow_events, probe_events, read_space
from tracehound.model.notes import Note
from tracehound.model.trace import FileFrames
from tracehound.store.merge_files import merge_file_frames
from xspaces import Event, Line, Plane, Stat, block, integers, space, texts, whole

US = 1_000_000
"""Picoseconds in a microsecond."""


@pytest.fixture
def part(tmp_path: Path) -> Callable[..., FileFrames]:
    """Reads an XSpace of these planes."""

    def read(*planes: Plane, hostname: str = "") -> FileFrames:
        path = tmp_path / "host0.xplane.pb"
        path.write_bytes(space(*planes, hostname=hostname))
        return XPLANE.read(path, ignore_progress)

    return read


def profile(folder: Path) -> FileFrames:
    return XPLANE.read(next(folder.rglob("*.xplane.pb")), ignore_progress)


def on_role(part: FileFrames, role: str) -> pl.DataFrame:
    return part.events.filter(pl.col("lane").is_in(part.lanes.filter(pl.col("role") == role)["lane"].to_list()))


def notes(part: FileFrames) -> str:
    return "\n".join(f"{note.level}: {note_text(note)} {note.where}" for note in part.notes)


# Reading the wire, against the slow, obvious way.

TEXTS = ("hlo_op", "hlo_module", "memcpy_details")
NUMBERS = tuple(name for name in COMMON_STATS + OP_NAME_STATS if name not in TEXTS)
names = st.sampled_from(["a", "%fusion.1 = f32[2]{0} fusion(%x)", "Ω", "b" * 200])
whole_numbers = st.one_of(st.integers(0, 300), st.integers(-(1 << 63), (1 << 63) - 1))
stats = st.lists(
    st.one_of(
        st.builds(Stat, st.sampled_from([*NUMBERS, "other"]), st.sampled_from([3, 4]), whole_numbers),
        st.builds(Stat, st.sampled_from([*TEXTS, "other"]), st.sampled_from([5, 7]), names),
        st.builds(Stat, st.just("other"), st.just(2), st.floats(allow_nan=False)),
        st.builds(Stat, st.just("blob"), st.just(6), st.binary(max_size=150)),
    ),
    max_size=5,
)
times = st.integers(0, 1 << 50)
junk = st.sampled_from([b"", whole(9, 1 << 40), block(77, b"later"), b"\x4d\x00\x00\x00\x00"])
any_events = st.builds(Event, names, times, times, stats, st.sampled_from([None, None, None, 7]), junk)
any_lines = st.builds(
    Line, st.just("line"), st.lists(any_events, max_size=8), st.integers(-5, 5), st.integers(0, 10**6)
)
any_planes = st.builds(
    Plane, st.just("/host:CPU"), st.lists(any_lines, max_size=3),
    metadata_stats=st.dictionaries(names, stats, max_size=3),
    first_id=st.sampled_from([1, -9, -(1 << 62)]),
)  # fmt: skip


@given(any_planes)
def test_events_read_in_bulk_are_what_was_written(plane: Plane) -> None:
    raw = space(plane)
    file = InflatedFile(raw, len(raw))
    (read,) = read_space(file, follow_events).planes
    entries, vocabulary = read_event_metadata(file, read.metadata), TextNumbers()
    stated = EventStats(file, entries, read.stat_names, NUMBERS + TEXTS, vocabulary)
    ranges = [EventRange(at, *one) for at, line in enumerate(read.lines) for one in line.ranges]
    written = [(at, event) for at, line in enumerate(plane.lines) for event in line.events]
    rows = iter(written)
    for part in decode_event_ranges(file, ranges, find_wanted_stats(read.stat_names, NUMBERS + TEXTS)):
        position = read.metadata.positions(part.metadata)
        numbers = {name: stated.int_stat(part, position, name) for name in NUMBERS}
        words = {name: stated.text_stat(part, position, name) for name in TEXTS}
        for row, (at, event) in zip(range(len(part.line)), rows, strict=False):
            shared = plane.metadata_stats.get(event.name, [])
            assert part.is_valid[row]
            assert part.line[row] == at
            assert entries.shown_names[position[row]] == event.name
            assert part.has_time[row] == (event.occurrences is None)
            assert part.start[row] == (event.offset if event.occurrences is None else 0)
            assert part.length[row] == event.duration
            assert raw[part.record[row]] == 4 << 3 | 2
            found = {name: one.values[row] for name, one in numbers.items() if one is not None and one.valid[row]}
            assert found == {name: value for name, value in integers(event, shared).items() if name in NUMBERS}
            said = {
                name: vocabulary.texts[one[row]] for name, one in words.items() if one is not None and one[row] >= 0
            }
            assert said == {name: value for name, value in texts(event, shared).items() if name in TEXTS}
    assert next(rows, None) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(planes=st.lists(any_planes, min_size=1, max_size=2), data=st.data())
def test_no_truncation_and_no_wrong_byte_breaks_the_reader(
    planes: list[Plane], data: st.DataObject, tmp_path: Path
) -> None:
    raw = bytearray(space(*planes))
    cut = data.draw(st.integers(0, len(raw)))
    if data.draw(st.booleans()) and cut:
        raw[cut - 1] ^= data.draw(st.integers(1, 255))
    else:
        del raw[cut:]
    path = tmp_path / "damaged.xplane.pb"
    path.write_bytes(raw)
    try:
        read = XPLANE.read(path, ignore_progress)
    except TracehoundError:
        return
    for record in read.events["record"].drop_nulls().to_list()[:3]:
        XPLANE.reader.args(read, record)


def test_what_lies_before_the_end_of_a_cut_file_is_kept(tmp_path: Path) -> None:
    whole_file = space(
        Plane("/device:TPU:0", [Line("XLA Ops", [Event("%a", 0, 5), Event("%b", 5, 5)])]),
        Plane("/host:CPU", [Line("python", [Event("f", 0, 3), Event("g", 3, 4)])]),
    )
    path = tmp_path / "cut.xplane.pb"
    path.write_bytes(whole_file[: whole_file.rindex(b"python") + len(b"python") + 14])
    read = XPLANE.read(path, ignore_progress)
    assert on_role(read, "ops")["name"].to_list() == ["%a", "%b"]
    assert on_role(read, "thread")["name"].to_list() == ["event 1"]
    assert f"the file ends early; everything before the end was kept byte {path.stat().st_size:,}" in notes(read)
    assert "plane '/host:CPU' has events without names" in notes(read)


def test_an_event_of_a_damaged_length_moves_no_other(tmp_path: Path) -> None:
    """What is behind its end has the numbers of a line's fields: its duration that of the time the line begins."""
    events = [Event(name, 1000 * at, 700, [Stat("size", 4, 5)]) for at, name in enumerate("abcd")]
    sound = space(Plane("/host:CPU", [Line("python", events, timestamp_ns=50), Line("other", [Event("z")])]))
    length = (
        sound.index(block(4, whole(1, 2) + whole(2, 1000) + whole(3, 700) + block(4, whole(1, 1) + whole(4, 5)))) + 1
    )
    damaged = bytearray(sound)
    damaged[length] = 2  # the name, and no more
    found = []
    for content in (sound, bytes(damaged)):
        path = tmp_path / "damaged.xplane.pb"
        path.write_bytes(content)
        read = XPLANE.read(path, ignore_progress)
        found.append(read.events.select("start", pl.col("name").cast(pl.String)).rows())
    before, after = found
    assert set(before) - set(after) == {(51_000, "b")}
    assert [note_text(note) for note in read.notes if note.level == "repaired"] == [
        "damaged event length: some stats of events are shown as events"
    ]


# What the planes mean.


def test_a_tpu_is_a_rank_with_lanes_of_ops_modules_and_asynchronous_ops(part: Callable[..., FileFrames]) -> None:
    copy = "%copy-start.1 = (f32[4]{0:S(5)}, f32[4]{0}, u32[]) copy-start(f32[4]{0} %x)"
    tpu = Plane(
        "/device:TPU:2",
        [
            Line("XLA Modules", [Event("jit_f(7)", 0, 100, [Stat("run_id", 3, 5)])], 1),
            Line("XLA Ops", [Event("%add = f32[4]{0} add(%x, %x)", 0, 60,
                                   [Stat("device_offset_ps", 3, 1000), Stat("device_duration_ps", 3, 50)])], 2),
            Line("Async XLA Ops", [Event(copy, 10, 80)], 3),
            Line("Steps", [Event("12", 0, 100)], 4),
            Line("XLA TraceMe", [Event("dependency-wait", 0, 1)], 5),
        ],
        [Stat("device_type_string", 5, "TPU v6 Lite")],
        {
            "%add = f32[4]{0} add(%x, %x)": [
                Stat("hlo_category", 5, "non-fusion elementwise"), Stat("program_id", 3, (1 << 64) - 7),
                Stat("tf_op", 5, "jit(f)/add:"), Stat("source", 5, "a.py:3"), Stat("flops", 4, 8),
                Stat("bytes_accessed", 4, 48), Stat("deduplicated_name", 5, "%add.1"),
                Stat("memory_access_breakdown", 6, block(1, whole(1, 1) + whole(2, 1) + whole(3, 32))),
            ],
            copy: [Stat("hlo_category", 5, "copy-start")],
        },
        {"%add = f32[4]{0} add(%x, %x)": "add", copy: "copy-start.1"},
    )  # fmt: skip
    sparse = Plane("/device:TPU:2 SparseCore 0", [Line("Sparse Core Ops", [Event("sc", 0, 5)])])
    read = part(tpu, sparse, Plane("/device:TPU:3"), hostname="vm-1")
    assert read.ranks.select("device", "label", "model", "rank").rows() == [(2, "TPU:2", "TPU v6 Lite", None)]
    assert read.hosts == ("vm-1",)
    assert {(lane["name"], lane["role"], lane["work"]) for lane in read.lanes.to_dicts()} == {
        ("XLA Modules", "modules", False), ("XLA Ops", "ops", True), ("Async XLA Ops", "async", False),
        ("Steps", "steps", False), ("XLA TraceMe", "sync", False),
        ("SparseCore 0 Sparse Core Ops", "sparse_ops", False),
    }  # fmt: skip
    (op,) = on_role(read, "ops").filter(pl.col("name") == "add").to_dicts()
    assert (op["kind"], op["device_start"], op["device_end"], op["self"]) == ("op", 1000, 1050, 50)
    told = {name: value for name, value in read.ops.row(op["op"], named=True).items() if value is not None}
    assert told | {"op": 0} == {
        "op": 0, "name": "add", "category": "non-fusion elementwise", "program": -7, "twin": "add.1",
        "framework": "jit(f)/add", "source": "a.py:3", "text": "%add = f32[4]{0} add(%x, %x)", "flops": 8,
        "bytes_accessed": 48, "normalized_flops": 8, "hbm_bytes": 32, "host_bytes": 0,
    }  # fmt: skip
    (copying,) = on_role(read, "async").to_dicts()
    assert (copying["kind"], copying["bytes"]) == ("transfer", 16)
    assert read.steps.select("step", "name", "inferred").rows() == [(12, "12", False)]


def test_a_module_is_launched_by_the_event_that_produced_it(part: Callable[..., FileFrames]) -> None:
    runs = [Event("jit_f(7)", at, 5, [Stat("_ct", 4, 12), Stat("_c", 4, at - 5)]) for at in (10, 20)]
    calls = [
        Event("Enqueue", at, 1, [Stat("_pt", 4, 12), Stat("_p", 3, (at - 4) & (1 << 64) - 1)]) for at in (1, 9, 19)
    ]
    decoys = [Event("Other", at, 1, [Stat("_pt", 4, 7), Stat("_p", 4, at)]) for at in (5, 15)]
    read = part(
        Plane("/device:TPU:0", [Line("XLA Modules", runs)]), Plane("/host:CPU", [Line("main/1", calls + decoys)])
    )
    launches = on_role(read, "modules")["launch"]
    assert read.events["name"].gather(launches).to_list() == ["Enqueue", "Enqueue"]
    assert read.events["start"].gather(launches).to_list() == [9, 19]


@pytest.mark.parametrize("program", [77, (1 << 64) - 5])
def test_without_hlo_an_op_is_of_the_module_that_has_its_program(part: Callable[..., FileFrames], program: int) -> None:
    ops = Line("XLA Ops", [Event("%add.1 = f32[] add()", 10, 5), Event("%add.2 = f32[] add()", 16, 1)])
    stats = {f"%add.{n} = f32[] add()": [Stat("program_id", 3, id_)] for n, id_ in ((1, program), (2, 8))}
    modules = Line("XLA Modules", [Event(f"jit_f({program})", 10, 9)], 2)
    names = {text: text[1:6] for text in stats}
    read = part(Plane("/device:TPU:0", [ops, modules], metadata_stats=stats, displayed=names))
    assert read.ops.select("name", "module").rows() == [("add.1", "jit_f"), ("add.2", None)]


def test_runs_are_compared_by_the_bits_that_devices_keep(part: Callable[..., FileFrames]) -> None:
    run = (5 << 28) + 3
    read = part(
        Plane("/device:TPU:0", [Line("XLA Modules", [Event("jit_f(7)", 10, 5, [Stat("run_id", 3, 3)])])]),
        Plane("/host:CPU", [Line("main/1", [Event("Execute", 1, 2, [Stat("run_id", 4, run)])])]),
    )
    assert on_role(read, "modules")["launch"].to_list() == on_role(read, "thread")["id"].to_list()


def test_ops_have_the_run_of_the_execution_that_they_start_in(part: Callable[..., FileFrames]) -> None:
    runs = [Event("jit_f(7)", at, 10, [Stat("run_id", 3, at)]) for at in (10, 20, 40)]
    ops = [Event("dot", at, 2) for at in (5, 10, 19, 20, 30, 41)] + [Event("dot", 49, 1, [Stat("run_id", 3, 9)])]
    lines = [Line("XLA Modules", runs, id=1), Line("XLA Ops", ops, id=2), Line("Steps", [Event("1", 10, 20)], id=3)]
    read = part(Plane("/device:TPU:0", lines), Plane("/host:CPU", [Line("main/1", [Event("Execute", 11, 2)])]))
    assert on_role(read, "ops")["run"].to_list() == [None, 10, 10, 20, None, 40, 9]
    assert on_role(read, "steps")["run"].to_list() == [None]


def kernel(name: str, at: int, op: str | None, module: str = "jit_f", correlation: int = 0) -> Event:
    own = [Stat("correlation_id", 3, correlation)]
    if op is not None:
        own += [Stat("hlo_op", 7, op), Stat("hlo_module", 7, module), Stat("program_id", 4, 3)]
    return Event(name, at, 4, own)


def test_a_gpu_has_streams_that_work_and_lanes_of_ops_and_modules_made_from_them(
    part: Callable[..., FileFrames],
) -> None:
    gpu = Plane(
        "/device:GPU:1",
        [
            Line("Stream #7(Kernel)", [
                kernel("k1", 0, "while.1::fusion.2", correlation=1), kernel("k2", 10, "dot.1", correlation=2),
                kernel("k1", 20, "while.1::fusion.2", correlation=3), kernel("ncclDevKernel_AllReduce", 30, "psum.1"),
            ], 7),
            Line("Stream #8(MemcpyH2D)", [
                Event("MemcpyH2D", 3, 6, [Stat("memcpy_details", 7, "kind:HtoD num_bytes:4096 dest:0 async:1")]),
            ], 8),
        ],
        [Stat("device_vendor", 5, "AMD"), Stat("compute_cap_major", 4, 9), Stat("compute_cap_minor", 4, 4)],
    )  # fmt: skip
    host = Plane("/host:CPU", [Line("python", [Event("cuLaunchKernel", 0, 1, [Stat("correlation_id", 3, 2)])])])
    read = part(gpu, Plane("/device:GPU:2", stats=[Stat("device_vendor", 5, "AMD")]), host)
    assert read.ranks["label"].to_list() == ["GPU:1"]
    streams, ops, modules = (on_role(read, role) for role in ("stream", "ops", "modules"))
    assert streams["kind"].to_list() == ["kernel", "kernel", "kernel", "collective", "copy"]
    assert streams["bytes"].to_list() == [None, None, None, None, 4096]
    assert ops["name"].to_list() == ["fusion.2", "dot.1", "fusion.2", "psum.1"]
    assert ops["op"].to_list() == streams["op"].to_list()[:4]
    assert modules.select("name", "start", "end").rows() == [("jit_f(3)", 0, 14), ("jit_f(3)", 20, 34)]
    assert read.lanes.filter("work")["role"].to_list() == ["stream", "stream"]
    (launch,) = ops.filter(pl.col("name") == "dot.1")["launch"].to_list()
    assert read.events["name"][launch] == "cuLaunchKernel"


def test_ops_and_modules_that_a_gpu_s_plane_has_already_are_shown_and_count_once(
    part: Callable[..., FileFrames],
) -> None:
    def plane(*ops: str | None) -> Plane:
        kernels = [kernel(f"k{at}", 10 * at, op) for at, op in enumerate(ops)]
        derived = [Event("dot.1", 0, 4), Event("add", 10, 4)]
        lines = [Line("Stream #7(Kernel)", kernels, 7), Line("XLA Ops", derived, 8)]
        return Plane("/device:GPU:0", [*lines, Line("XLA Modules", [Event("jit_f", 0, 14)], 9)])

    read = part(plane("dot.1", "add"))
    assert on_role(read, "ops").select("name", "start").rows() == [("dot.1", 0), ("add", 10)]
    assert on_role(read, "modules").select("name", "start", "end").rows() == [("jit_f(3)", 0, 14)]
    names = read.lanes.filter(pl.col("role") == "other")["name"].to_list()
    assert sorted(names) == ["Recorded XLA Modules", "Recorded XLA Ops"]
    read = part(plane(None, None))
    assert on_role(read, "ops")["name"].to_list() == ["dot.1", "add"]
    assert on_role(read, "modules")["name"].to_list() == ["jit_f"]


def test_counters_of_planes_are_graphs(part: Callable[..., FileFrames]) -> None:
    def sample(name: str, at: int, *values: tuple[str, int, float]) -> Event:
        return Event(name, at, 0, [Stat(arg, kind, value) for arg, kind, value in values])

    power = [sample("power_mw", at, ("power_mw", 2, at / 4)) for at in (10, 30)]
    clock = [sample("clock", 20, ("MHz", 3, 2**63 + 2**20), ("group_id", 4, 5)), sample("clock", 40, ("MHz", 4, -7))]
    bandwidth = [sample("HBM", at, ("counter_value", 2, 1.5)) for at in (5, 15)]
    lost = [sample("power_mw", 35, ("power_mw", 2, float("nan"))), sample("power_mw", 36, ("note", 5, "none"))]
    read = part(
        Plane("/device:GPU:0", [
            Line("Stream #7(Kernel)", [Event("k", 0, 50)], 7), Line("_counters_", [*power, *clock, *lost], 8, 1),
        ]),
        Plane("/device:GPU:1", [Line("Stream #7(Kernel)", [Event("k", 0, 50)], 7), Line("_counters_", bandwidth, 8)]),
    )  # fmt: skip
    assert read.events["name"].to_list() == ["k", "k"]
    lanes = read.lanes.filter(pl.col("role") == "counter")
    assert lanes.select("rank", "name", "unit").rows() == [
        (0, "power_mw", ""), (0, "clock", "MHz"), (1, "HBM", ""),
    ]  # fmt: skip
    told = {name: read.counters.filter(lane=lane) for lane, name in lanes.select("lane", "name").rows()}
    assert told["power_mw"].select("time", "value").rows() == [(1010, 2.5), (1030, 7.5)]
    assert told["clock"].select("time", "value").rows() == [(1020, 2.0**63 + 2**20), (1040, -7)]
    assert told["HBM"].select("time", "value").rows() == [(5, 1.5), (15, 1.5)]
    assert "counter samples, shown as graphs" in notes(read)


def test_what_keeps_nothing_busy_lies_beside_the_streams(part: Callable[..., FileFrames]) -> None:
    def events(*names: str) -> list[Event]:
        return [Event(name, 10 * at, 4) for at, name in enumerate(names)]

    moved = [Stat("memcpy_details", 5, "kind:HtoD num_bytes:64 dest:0 async:0")]
    unified = [Event("UM_BYTES_TRANSFER_HTOD", 0, 4, moved), Event("UM_GPU_PAGE_FAULT", 10, 4)]
    read = part(
        Plane("/device:GPU:0", [
            Line("Stream #14(Compute)", [kernel("RESOURCE", 0, "dot.1")], 14),
            Line("CUPTI overhead", [kernel("k", 0, "dot.1"), *events("BUFFER_FLUSH", "COMPILER")], 15),
            Line("CUPTI overhead", events("INSTRUMENTATION"), 16),
            Line("Stream #0(MemcpyH2D,MemoryResidency)", events("MemcpyH2D", "Memory device", "Memory pinned"), 17),
            Line("Stream #268435457(UnifiedMemory)", unified, 18),
        ]),
        Plane("/device:GPU:1", [Line("Stream #7(Kernel)", events("k"), 7)]),
    )  # fmt: skip
    on = read.events.join(read.lanes.select("lane", "work", on="name"), on="lane")
    assert sorted(
        on.filter("work").with_columns(pl.col("name", "kind").cast(pl.String)).select("on", "name", "kind").rows()
    ) == [
        ("CUPTI overhead", "k", "kernel"),
        ("Stream #0(MemcpyH2D,MemoryResidency)", "MemcpyH2D", "copy"),
        ("Stream #14(Compute)", "RESOURCE", "kernel"),
        ("Stream #268435457(UnifiedMemory)", "UM_BYTES_TRANSFER_HTOD", "copy"),
        ("Stream #7(Kernel)", "k", "kernel"),
    ]
    beside = on.filter(pl.col("on").str.starts_with("Beside"))
    assert sorted(beside["name"]) == [
        "BUFFER_FLUSH", "COMPILER", "INSTRUMENTATION", "Memory device", "Memory pinned", "UM_GPU_PAGE_FAULT",
    ]  # fmt: skip
    assert set(beside["kind"].cast(pl.String)) == {"other"}


def test_kernels_and_memsets_of_a_gpu_tell_how_they_were_launched_and_their_bytes(
    part: Callable[..., FileFrames],
) -> None:
    details = {
        "cuda": "regs:32 static_shared:16 dynamic_shared:1024 grid:11,16,2 block:256,1,1 occ_pct:50",
        "rocm": "grid:8,32,1 block:128,1,1 private_mem:0 group_mem:12800 occ_pct:0",
        "odd": "regs:2191500840 static_shared:32462 dynamic_shared:0 grid:x block:256,1,1 occ_pct:37.5",
    }
    events = [
        Event(name, 10 * at, 5, [Stat("kernel_details", 5, text)]) for at, (name, text) in enumerate(details.items())
    ]
    memset = Event("Memset", 40, 5, [Stat("memset_details", 7, "kind:device num_bytes:4096 value:0")])
    gpu = Plane("/device:GPU:0", [Line("Stream #7(Kernel)", [*events, memset, Event("plain", 50, 5)], 7)],
                [Stat("core_count", 4, 132)])  # fmt: skip
    read = part(gpu)
    assert read.events.filter(pl.col("bytes").is_not_null()).select("name", "bytes").rows() == [("Memset", 4096)]
    told = read.facets["launched"].collect().join(read.events.select("record", "name"), on="record")
    assert told["blocks_per_sm"].to_list() == [pytest.approx(352 / 132), pytest.approx(256 / 132), None]
    assert told.drop("record", "warps_per_sm", "blocks_per_sm").rows() == [
        ("11,16,2", "256,1,1", 32, 1040, 0.5, "cuda"), ("8,32,1", "128,1,1", None, 12800, None, "rocm"),
        (None, "256,1,1", None, None, 0.375, "odd"),
    ]  # fmt: skip


@pytest.mark.parametrize(("op", "executing"), [("while.1::fusion.2", False), ("fusion.2", True)])
def test_turns_of_a_loop_are_no_executions_of_a_module_of_a_gpu(
    part: Callable[..., FileFrames], op: str, *, executing: bool
) -> None:
    kernels, calls = [], []
    for run in range(2):
        for turn in range(3):
            at, id_ = 100 * run + 10 * turn, 10 * run + turn + 1
            kernels.append(kernel("k", 50 + at, op if turn < 2 else "dot.1", correlation=id_))
            calls.append(Event("cuLaunchKernel", at, 1, [Stat("correlation_id", 3, id_)]))
        if executing:
            calls.append(Event("jit_f:XLA GPU module", 100 * run, 40))
    gpu = Plane("/device:GPU:0", [Line("Stream #7(Kernel)", kernels, 7)])
    read = part(gpu, Plane("/host:CPU", [Line("python", calls[:4], 3), Line("python", calls[4:], 3)]))
    assert on_role(read, "modules").select("start", "end").rows() == [(50, 74), (150, 174)]


@pytest.mark.parametrize("named", [True, False])
def test_work_of_graphs_is_in_the_execution_that_launched_it(part: Callable[..., FileFrames], *, named: bool) -> None:
    """Kernels of a graph carry the correlation of its launch, and need not name an op; nor do copies of others."""
    work, calls = [], []
    for run in range(3):
        at, id_ = 100 * run, 10 * run + 1
        details = [Stat("correlation_id", 3, id_), Stat("cuda_graph_id", 3, 7)]
        work += [Event("loop_add_fusion", at + 40, 5, details), Event("gemm", at + 50, 20, details)]
        work += [Event("MemcpyD2H", at + 80, 5, [Stat("correlation_id", 3, id_ + 2)])]
        work += [kernel("k", at + 30, "dot.1", correlation=id_ + 1)] if named else []
        calls += [
            Event("jit_f:XLA GPU module", at, 20),
            Event("cuLaunchKernel", at + 1, 1, [Stat("correlation_id", 3, id_ + 1)]),
            Event("cuGraphLaunch (CudaGraph:7)", at + 5, 2, [Stat("correlation_id", 3, id_)]),
            Event("cuMemcpyDtoHAsync_v2", at + 25, 1, [Stat("correlation_id", 3, id_ + 2)]),
        ]
    gpu = Plane("/device:GPU:0", [Line("Stream #7(Kernel)", work, 7)])
    read = part(gpu, Plane("/host:CPU", [Line("python", calls, 3)]))
    name, first = ("jit_f(3)", 30) if named else ("jit_f", 40)
    runs = on_role(read, "modules").select("name", "start", "end")
    assert runs.rows() == [(name, first, 70), (name, 100 + first, 170), (name, 200 + first, 270)]
    assert on_role(read, "ops").height == (3 if named else 0)
    assert read.steps.select("start", "inferred").rows() == [(first + 100 * run, True) for run in range(3)]


@pytest.mark.parametrize(("ids", "name"), [((), "jit_f"), ((88,), "jit_f(88)"), ((77, 88), "jit_f")])
def test_a_graph_s_program_is_the_only_one_of_its_module_s_name(
    part: Callable[..., FileFrames], ids: tuple[int, ...], name: str
) -> None:
    """What other executions of a module are of says nothing: it is compiled anew for other shapes."""
    launch = [Stat("correlation_id", 3, 1)]
    gpu = Line("Stream #7(Kernel)", [Event("big_add", 40, 5, launch), kernel("k", 60, "dot.1", correlation=2)], 7)
    calls = [
        Event("jit_f:XLA GPU module", 0, 10), Event("cuGraphLaunch", 1, 1, launch),
        Event("jit_f:XLA GPU module", 20, 10), Event("cuLaunchKernel", 21, 1, [Stat("correlation_id", 3, 2)]),
    ]  # fmt: skip
    programs = {f"jit_f({id_})": [Stat("Hlo Proto", 6, proto(computation(1, "main", 1)))] for id_ in ids}
    metadata = Plane("/host:metadata", metadata_stats=programs)
    read = part(Plane("/device:GPU:0", [gpu]), Plane("/host:CPU", [Line("python", calls, 3)]), metadata)
    assert on_role(read, "modules")["name"].to_list() == [name, "jit_f(3)"]


def test_kernels_of_a_command_buffer_are_of_the_ops_after_which_they_are_called(
    part: Callable[..., FileFrames],
) -> None:
    """Unless their program is not there, or two ops could be meant; what names an op of its own keeps it."""
    one = array(F32, 8)
    hlo = proto(
        computation(
            1, "command_buffer", 13,
            instruction(11, "loop_add_fusion.2", "fusion", one), instruction(12, "gemm-fusion", "fusion", one),
            instruction(13, "a.b", "fusion", one), instruction(14, "a_b", "fusion", one),
        ),
        computation(2, "main", 21, instruction(21, "call.4", "call", one), instruction(22, "dot.1", "fusion", one)),
        entry=2,
    )  # fmt: skip
    programs = Plane("/host:metadata", metadata_stats={"jit_f(3)": [Stat("Hlo Proto", 6, hlo)]})
    ran = [
        ("loop_add_fusion_2", "call.4", "loop_add_fusion.2"), ("gemm_fusion.kd", "command_buffer", "gemm-fusion"),
        ("cutlass_gemm", "call.4", "call.4"), ("a_b", "call.4", "call.4"), ("gemm_fusion", "dot.1", "dot.1"),
        ("loop_add_fusion_2", "while.3::call.4", "loop_add_fusion.2"),
    ]  # fmt: skip
    kernels = [kernel(name, 10 * at, op) for at, (name, op, _) in enumerate(ran)]
    bare = [Stat("hlo_module", 7, "jit_f"), Stat("program_id", 4, 3)]
    elsewhere = [Stat("hlo_op", 7, "call.4"), Stat("hlo_module", 7, "jit_g"), Stat("program_id", 4, 5)]
    kernels += [Event("gemm_fusion", 70, 4, bare), Event("gemm_fusion", 80, 4, elsewhere), Event("lost", 90, 4, bare)]
    read = part(Plane("/device:GPU:0", [Line("Stream #7(Kernel)", kernels, 7)]), programs)
    expected = [*(op for *_, op in ran), "gemm-fusion", "call.4"]
    assert on_role(read, "ops")["name"].to_list() == expected
    streams = on_role(read, "stream").join(read.ops.select("op", pl.col("name").alias("of")), on="op", how="left")
    assert streams.sort("start")["of"].to_list() == [*expected, None]


@pytest.mark.parametrize("cut", [1, 5, 40, None])
def test_a_damaged_hlo_proto_is_told_of(part: Callable[..., FileFrames], cut: int | None) -> None:
    sound = proto(computation(1, "main", 10, instruction(10, "x", "parameter", array(F32, 8))))
    stats = {"jit_f(3)": [Stat("Hlo Proto", 6, sound[:cut])], "jit_g(4)": [Stat("Hlo Proto", 6, sound)]}
    core = Plane("/device:TPU:0", [Line("XLA Ops", [Event("a", 0, US)])])
    read = part(Plane("/host:metadata", metadata_stats=stats), core)
    told = [(note.level, note.count, note.where) for note in read.notes if "HLO proto" in note_text(note)]
    assert told == ([] if cut is None else [("dropped", 1, "jit_f")])
    assert [one.damaged for one in read.facts.programs] == [cut is not None, False]


def cpu_op(
    name: str, at: int, until: int, device: int, key: int, run: int = -9, program: str = "jit_f"
) -> tuple[Event, Event]:
    """An op that is dispatched in an instant, and the mark with which it ends."""
    own = [
        Stat("hlo_op", 7, name), Stat("hlo_module", 7, program), Stat("program_id", 4, 3), Stat("run_id", 4, run),
        Stat("device_ordinal", 4, device), Stat("_pt", 4, 0), Stat("_p", 4, key),
    ]  # fmt: skip
    return Event(name, at, 1, own), Event(f"end: {name}", until - 1, 1, [Stat("_ct", 4, 0), Stat("_c", 4, key)])


def test_the_devices_of_a_cpu_are_found_among_the_events_of_its_threads(part: Callable[..., FileFrames]) -> None:
    first, first_end = cpu_op("dot.1", 10, 40, 2048, 1)
    second, second_end = cpu_op("all-reduce.2", 40, 50, 2048, 2)
    other, other_end = cpu_op("dot.1", 12, 30, 2049, 3)
    execute = Event("CommonPjRtLoadedExecutable::Execute (jit_f)", 2, 3, [Stat("run_id", 4, -9)])
    step = Event("train", 0, 60, [Stat("_r", 4, 1), Stat("step_num", 4, 4)])
    host = Plane("/host:CPU", [
        Line("tf_XLAEigen/12", [first, other_end, second_end], 12),
        Line("tf_XLAEigen/13", [other, second, first_end], 13),
        Line("python", [step, execute], -3),
    ])  # fmt: skip
    read = part(host)
    assert read.ranks.select("label", "device").rows() == [("CPU:2048", 2048), ("CPU:2049", 2049)]
    ops, modules = on_role(read, "ops"), on_role(read, "modules")
    assert ops.select("name", "start", "end", "kind", "rank", "step").rows() == [
        ("dot.1", 10, 40, "op", 0, 4), ("all-reduce.2", 40, 50, "collective", 0, 4), ("dot.1", 12, 30, "op", 1, 4),
    ]  # fmt: skip
    assert modules.select("name", "start", "end", "rank").rows() == [("jit_f(3)", 10, 50, 0), ("jit_f(3)", 12, 30, 1)]
    assert read.events["name"].gather(ops["launch"]).unique().to_list() == [execute.name]
    threads = read.lanes.filter(pl.col("role") == "thread").sort("order")
    assert threads["name"].to_list() == ["python", "tf_XLAEigen/12", "tf_XLAEigen/13"]
    assert on_role(read, "thread").height == 8


def test_an_op_of_a_cpu_ends_before_what_needs_it_begins_however_late_its_mark_is(
    part: Callable[..., FileFrames],
) -> None:
    dot, dot_end = cpu_op("dot.1", 10, 95, 0, 1)
    reduce, reduce_end = cpu_op("all-reduce.2", 40, 90, 0, 2)
    hlo = proto(computation(
        1, "main", 20,
        instruction(10, "dot.1", "dot", array(F32, 8)),
        instruction(20, "all-reduce.2", "all-reduce", array(F32, 8), operands=(10,)),
    ))  # fmt: skip
    programs = Plane("/host:metadata", metadata_stats={"jit_f(3)": [Stat("Hlo Proto", 6, hlo)]})
    host = Plane("/host:CPU", [Line("tf_XLAEigen/12", [dot, reduce, reduce_end, dot_end], 12)])
    ops = on_role(part(host, programs), "ops")
    assert ops.select("name", "start", "end").rows() == [("dot.1", 10, 40), ("all-reduce.2", 40, 90)]


def test_no_op_of_a_run_launches_it_nor_what_waits_for_it(part: Callable[..., FileFrames]) -> None:
    ops = [cpu_op(name, at, at + 5, 0, at)[0] for name, at in (("wrapped_broadcast", 20), ("dot.1", 30))]
    wait = Event("ThunkExecutor::Execute (wait for completion)", 10, 50, [Stat("run_id", 4, -9)])
    read = part(Plane("/host:CPU", [Line("python", [wait, *ops])]))
    assert read.events.filter(pl.col("rank").is_not_null())["launch"].to_list() == [None] * 3


def test_programs_of_one_device_are_launched_by_the_calls_of_their_functions_in_turn(
    part: Callable[..., FileFrames],
) -> None:
    """JAX counts the runs of each program from any number, and tells none of them on the thread that calls."""
    execute = "CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice"
    called = [("f", 0), ("<lambda>", 10), ("f", 20), ("f", 30)]
    calls = [Event(f"PjitFunction({name})", at, 5) for name, at in called]
    within = [Event(execute, at + 1, 3) for _, at in called]
    ran = [("jit__lambda", 40, 900), ("jit_f", 50, 7), ("jit_f", 60, 9), ("jit_f", 70, 8)]
    ops = [cpu_op("dot.1", at, at + 5, 0, at, run, program)[0] for program, at, run in ran]
    read = part(Plane("/host:CPU", [Line("python", [each for pair in zip(calls, within, strict=True) for each in pair]),
                                    Line("tf_XLAPjRtCpuClient/1", ops)]))  # fmt: skip
    begun = dict(read.events.select("id", "start").iter_rows())
    for rows in (on_role(read, role).sort("start") for role in ("modules", "ops")):
        assert [begun[launch] for launch in rows["launch"]] == [11, 1, 31, 21]


def test_the_batches_of_keras_are_steps_beside_the_roots_of_tensorflow(part: Callable[..., FileFrames]) -> None:
    root, numbered = Stat("_r", 4, 1), [Stat("step_num", 4, 7)]
    roots = [Event("FunctionRun", 2, 5, [root]), Event("mine", 8, 1, numbered)]
    batches = [Event("Profiled batch", at, 30, [Stat("step_num", 4, at)]) for at in (0, 40)]
    read = part(Plane("/host:CPU", [Line("python", [batches[0], *roots, batches[1]])]))
    assert read.steps.select("step", "start", "end", "inferred").rows() == [(0, 0, 30, False), (40, 40, 70, False)]
    alone = part(Plane("/host:CPU", [Line("python", roots)]))
    assert alone.steps.is_empty()


def test_a_program_that_runs_while_another_does_is_not_launched_with_it(part: Callable[..., FileFrames]) -> None:
    """The runtime tells which run a call is of where several devices take part, and not where one does."""
    launch = Event("CommonPjRtLoadedExecutable::Execute (jit_f)", 5, 3, [Stat("run_id", 4, -9)])
    outer, outer_end = cpu_op("all-reduce.1", 20, 90, 0, 1)
    inner, inner_end = cpu_op("dot.7", 40, 60, 0, 2, run=7)
    pool = Line("tf_XLAPjRtCpuClient/1", [outer, inner, inner_end, outer_end])
    read = part(Plane("/host:CPU", [Line("python", [launch]), pool]))
    ran = [on_role(read, role).sort("start") for role in ("modules", "ops")]
    assert [rows.select("run", "start", "launch").rows() for rows in ran] == [[(-9, 20, 0), (7, 40, None)]] * 2


def test_a_profile_without_devices_still_has_a_rank_to_show_its_host_under(part: Callable[..., FileFrames]) -> None:
    read = part(Plane("/host:CPU", [Line("python", [Event("work", 0, 5)])]))
    assert read.ranks.select("device", "label", "inferred").rows() == [(None, "CPU", True)]
    assert read.events["kind"].to_list() == ["annotation"]


def test_what_runs_inside_a_compilation_belongs_to_it(part: Callable[..., FileFrames]) -> None:
    inside = [Event("TfrtTpuCompiler::Compile", 0, 50), Event("dce", 10, 5), Event("$a.py:1 f", 20, 5)]
    read = part(Plane("/host:CPU", [Line("main/1", [*inside, Event("dce", 60, 5)])]))
    assert read.events["kind"].to_list() == ["compile", "compile", "python", "annotation"]


def test_a_file_that_was_joined_to_itself_is_read_once(tmp_path: Path) -> None:
    device = Plane("/device:TPU:0", [Line("XLA Ops", [Event("a", 0, 1), Event("b", 2, 1)])])
    planes = (device, Plane("/host:CPU", [Line("python", [Event("a", 0, 1)])]))
    path, other = tmp_path / "a.xplane.pb", structs.replace(device, lines=[Line("XLA Ops", [Event("a", 0, 2)])])
    path.write_bytes(space(*planes, hostname="vm"))
    alone = XPLANE.read(path, ignore_progress)
    path.write_bytes(2 * space(*planes, hostname="vm"))
    joined = XPLANE.read(path, ignore_progress)
    assert_same(structs.replace(joined, notes=alone.notes), alone)
    assert (XPLANE.reader.read_claims(path).host, joined.hosts) == ("vm", ("vm",))
    size = len(space(*planes, hostname="vm"))
    told = Note("repaired", "planes_doubled", 2, where=f"byte {size + 2:,}")
    assert set(joined.notes) - set(alone.notes) == {told}
    path.write_bytes(space(*planes, other))
    assert on_role(XPLANE.read(path, ignore_progress), "ops").height == 3


def test_lines_with_one_id_are_one_lane(part: Callable[..., FileFrames]) -> None:
    lines = [
        Line("python", [Event("a", 0, 1)], -7), Line("python", [Event("b", 0, 1)], -7, timestamp_ns=1),
        Line("x", [Event("c", 0, 1)], 8, display_id=4), Line("y", [Event("d", 5, 1)], 9, display_id=4),
    ]  # fmt: skip
    read = part(Plane("/host:CPU", lines))
    assert read.lanes.select("name", "events").rows() == [("python", 2), ("x", 2)]
    assert read.events.select("name", "start").rows() == [("a", 0), ("b", 1000), ("c", 0), ("d", 5)]


def test_events_that_only_count_are_noted_and_not_drawn(part: Callable[..., FileFrames]) -> None:
    read = part(Plane("/host:CPU", [Line("python", [Event("a", occurrences=5), Event("b", 1, 1)])]))
    assert read.events["name"].to_list() == ["b"]
    assert "events that only count occurrences and have no time" in notes(read)


def test_devices_that_did_nothing_are_noted(part: Callable[..., FileFrames]) -> None:
    worked = Plane("/device:TPU:2", [Line("XLA Ops", [Event("%a = f32[] add(%x)", 0, 5)])])
    idle = [Plane("/device:TPU:0"), Plane("/device:TPU:1", [Line("XLA Ops", [])]), Plane("/device:TPU:1 SparseCore 0")]
    read = part(*idle, worked)
    assert [(note.level, note_text(note), note.count) for note in read.notes] == [
        ("missing", "devices without events: TPU:0, TPU:1", 2)
    ]


def test_the_wall_clock_is_that_of_the_session(part: Callable[..., FileFrames]) -> None:
    environment = Plane("Task Environment", stats=[Stat("profile_start_time", 3, 1_741_722_099_081_044_120)])
    host = Plane("/host:CPU", [Line("python", [Event("a", 7, 1)], timestamp_ns=3)])
    read = part(host, environment)
    assert (read.wall_ns, read.events["start"].to_list()) == (1_741_722_099_081_044_120, [3007])


SAID = ("limits", "planes", "programs", "devices", "rank", "world_size", "hostnames", "versions")


@pytest.mark.parametrize(
    ("name", "value"),
    some(product(SAID, [(5, "x"), (3, 7)]), [("limits", (5, "x")), ("rank", (3, 7)), ("versions", (5, "x"))]),
)
def test_what_a_file_says_of_its_environment_is_taken_for_nothing_else(
    part: Callable[..., FileFrames], name: str, value: tuple[int, Any]
) -> None:
    told = [Plane("Task Environment", stats=[Stat(name, *value)]), Plane("/host:metadata", stats=[Stat(name, *value)])]
    device = Plane("/device:TPU:0", [Line("XLA Ops", [Event("%a = f32[] add(%x)", 0, 5)])], stats=[Stat("of", 3, 1)])
    read, plain = part(*told, device), part(device)
    assert read.facts == plain.facts
    assert analyzed(get_analysis("overview"), merge_file_frames("t", [read])).table.height == 1


def test_of_the_environment_the_versions_are_kept(part: Callable[..., FileFrames]) -> None:
    stats = [Stat("jax_version", 5, "0.10"), Stat("cuda_version", 3, 12), Stat("profile_start_time", 3, 1)]
    read = part(Plane("Task Environment", stats=stats), Plane("/host:CPU", [Line("python", [Event("a", 0, 1)])]))
    assert read.facts.versions == {"jax_version": "0.10", "cuda_version": "12"}


def test_lines_that_count_from_1970_are_brought_to_their_first(part: Callable[..., FileFrames]) -> None:
    epoch = 1_741_722_099_081_044_120
    lines = [Line("a", [Event("a", 0, 1)], 1, epoch + 2), Line("b", [Event("b", 5, 1)], 2, epoch)]
    read = part(Plane("/host:CPU", lines))
    assert read.wall_ns == epoch
    assert read.events.sort("name")["start"].to_list() == [2000, 5]


def test_args_are_all_that_an_event_and_its_metadata_carry(part: Callable[..., FileFrames]) -> None:
    own = [Stat("run_id", 4, -5), Stat("share", 2, 0.5), Stat("blob", 6, b"x" * 2048), Stat("both", 7, "own")]
    shared = [Stat("both", 5, "shared"), Stat("tf_op", 5, "jit(f)")]
    plane = Plane("/host:CPU", [Line("python", [Event("g"), Event("full name", 3, 4, own)])],
                  metadata_stats={"full name": shared}, displayed={"full name": "short"})  # fmt: skip
    read = part(Plane("/device:TPU:0", [Line("XLA Ops", [Event("op", 0, 1)])]), plane)
    (record,) = read.events.filter(pl.col("name") == "short")["record"].to_list()
    assert XPLANE.reader.args(read, record) == {
        "long_name": "full name", "both": "own", "tf_op": "jit(f)", "run_id": -5, "share": 0.5, "blob": "<2,048 bytes>",
        "offset_ps": 3, "duration_ps": 4,
    }  # fmt: skip


def test_errors_and_warnings_of_the_profiler_are_passed_on(tmp_path: Path) -> None:
    path = tmp_path / "x.xplane.pb"
    path.write_bytes(space(Plane("/host:CPU", [Line("l", [Event("a", 0, 1)])])) + block(2, "no GPU") + block(3, "slow"))
    text = notes(XPLANE.read(path, ignore_progress))
    assert "the profiler reports an error: no GPU" in text
    assert "the profiler warns: slow" in text


# Recognizing.


def test_an_xspace_is_recognized_whole_or_by_its_beginning() -> None:
    raw = space(Plane("/host:CPU", [Line("python", [Event("event", n, 1) for n in range(20_000)])]))
    assert XPLANE.matches(raw[:65536])
    assert XPLANE.matches(space(Plane("Task Environment")))


@given(st.binary(max_size=400))
def test_random_bytes_are_no_xspace(raw: bytes) -> None:
    assert not XPLANE.matches(raw) or raw.startswith(b"\n")


@pytest.mark.parametrize("raw", [
    b"", b'{"traceEvents": []}', b"[]", block(1, block(1, "jit_f") + block(2, "main")), b"\n\n\n\n\n\n\n",
    block(1, whole(1, 4)), b"SSTABLE\0", block(1, whole(1, 1) + block(2, "\x00\x01")),
])  # fmt: skip
def test_other_things_are_no_xspace(raw: bytes) -> None:
    assert not XPLANE.matches(raw)


def test_a_file_that_went_through_a_converter_of_text_is_named_as_such(tmp_path: Path) -> None:
    raw = space(Plane("/device:TPU:0", [Line("XLA Ops", [Event("%a", n * 1000, 900) for n in range(500)])]))
    path = tmp_path / "mangled.xplane.pb"
    path.write_bytes(raw.decode("utf-8", "replace").encode())
    with pytest.raises(TracehoundError, match="looks text-converted"):
        XPLANE.read(path, ignore_progress)


def test_a_converted_profile_is_told_from_other_files(shared: Path, tmp_path: Path) -> None:
    raw = next((shared / "traces" / "xla" / "tpu_v6e_x4_offload").rglob("*.xplane.pb")).read_bytes()
    path = tmp_path / "mangled.xplane.pb"
    path.write_bytes(raw.decode("utf-8", "replace").encode())
    assert XPLANE.matches(path.read_bytes()[:65536])
    with pytest.raises(TracehoundError, match="looks text-converted"):
        XPLANE.read(path, ignore_progress)


def test_gzip_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "host0.xplane.pb.gz"
    path.write_bytes(gzip.compress(space(Plane("/host:CPU", [Line("l", [Event("a", 0, 1, [Stat("k", 4, 2)])])]))))
    read = XPLANE.read(path, ignore_progress)
    assert read.hosts == ("host0",)
    assert XPLANE.reader.args(read, read.events["record"][0])["k"] == 2


# One file in several shards.


def parts_of(path: Path, of: int, folder: Path | None) -> FileFrames:
    """The file read in so many shards."""
    spill = Spill(folder)
    return XPLANE.reader.finish(
        path,
        [XPLANE.reader.decode(path, WorkerShard(number, of), spill, ignore_progress) for number in range(of)],
        spill,
    )


def assert_same(one: FileFrames, other: FileFrames) -> None:
    for name in ("events", "lanes", "ranks", "steps", "ops"):
        assert_frame_equal(getattr(one, name), getattr(other, name), categorical_as_str=True)
    assert (one.hosts, one.wall_ns, one.facts, one.notes) == (other.hosts, other.wall_ns, other.facts, other.notes)
    assert one.places == other.places


@pytest.fixture
def short_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of a few kilobytes are cut as if they were gigabytes long."""
    monkeypatch.setattr(xspace, "RANGE_BYTES", 1 << 12)
    monkeypatch.setattr(xspace, "SHORT_LINE_BYTES", 1 << 11)
    monkeypatch.setattr(xspace, "FOLLOWED_BYTES", 1 << 10)
    monkeypatch.setattr(event_decoder, "DECODED_BYTES", 1 << 10)
    monkeypatch.setattr(plane_columns, "ROWS_PER_SPILL", 1 << 8)


@pytest.mark.usefixtures("short_ranges")
@pytest.mark.parametrize(
    "folder",
    [
        "traces/xla/tpu_v6e_x4_offload", "traces/xla/jax_rocm_conv_legacy", "captures/jax/b128",
        "captures/jax/collectives_cold", "captures/torch_xla/spmd4",
    ],
)  # fmt: skip
def test_shards_are_the_whole_file_however_many_there_are(shared: Path, tmp_path: Path, folder: str) -> None:
    path = next((shared / folder).rglob("*.xplane.pb"))
    alone = XPLANE.read(path, ignore_progress)
    assert_same(alone, parts_of(path, 3, None))
    assert_same(alone, parts_of(path, 2, tmp_path))


@pytest.mark.usefixtures("short_ranges")
def test_ranges_end_at_ends_of_events(shared: Path) -> None:
    path = next((shared / "traces" / "xla" / "tpu_v6e_x4_offload").rglob("*.xplane.pb"))
    shards = [XPLANE.reader.decode(path, WorkerShard(number, 3), Spill(), ignore_progress) for number in range(3)]
    assert all(shard.result is not None for shard in shards)
    file = InflatedFile(path.read_bytes(), path.stat().st_size)
    probed_lines, followed_lines = (
        [line for plane in read_space(file, extent).planes for line in plane.lines]
        for extent in (probe_events, follow_events)
    )
    for one, other in zip(probed_lines, followed_lines, strict=True):
        assert (one.name, one.id, bool(one.ranges)) == (other.name, other.id, bool(other.ranges))
        if one.ranges:
            assert one.ranges[0][0] == other.ranges[0][0]
            assert one.ranges[-1][1] == other.ranges[-1][1]
    assert max(len(line.ranges) for line in probed_lines) > 10


@pytest.mark.usefixtures("short_ranges")
def test_bytes_that_look_like_events_inside_an_event_deceive_nobody(tmp_path: Path) -> None:
    disguised = b"".join(block(4, whole(1, 1) + whole(2, n) + whole(3, 5)) for n in range(400))
    events = [Event("a", n * 10, 5, [Stat("blob", 6, disguised)]) for n in range(40)]
    path = tmp_path / "host0.xplane.pb"
    path.write_bytes(space(Plane("/host:CPU", [Line("python", events, display_id=9)])))
    torn = [
        XPLANE.reader.decode(path, WorkerShard(number, 2), Spill(), ignore_progress).result is None
        for number in range(2)
    ]
    assert any(torn)
    for read in (XPLANE.read(path, ignore_progress), parts_of(path, 2, None), parts_of(path, 3, tmp_path)):
        assert read.events["start"].to_list() == [n * 10 for n in range(40)]
        assert read.notes == ()


@given(planes=st.lists(any_planes, min_size=1, max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_profile_is_the_same_in_one_shard_and_in_several(planes: list[Plane], tmp_path: Path) -> None:
    for plane in planes:  # equal events of lines that are drawn as one come in the order of the shards
        plane.lines[:] = [structs.replace(line, id=at) for at, line in enumerate(plane.lines)]
    path = tmp_path / "any.xplane.pb"
    path.write_bytes(space(*planes))
    assert_same(parts_of(path, 1, None), parts_of(path, 3, None))


@pytest.mark.parametrize("tables_first", [False, True])
def test_tables_of_names_may_come_before_the_lines_or_after(
    part: Callable[..., FileFrames], *, tables_first: bool
) -> None:
    own = [Stat("hlo_op", 7, "dot.1"), Stat("run_id", 3, 4)]
    read = part(Plane("/host:CPU", [Line("python", [Event("f", 1, 2, own)])], tables_first=tables_first))
    assert read.events.filter(pl.col("op").is_null())["name"].to_list() == ["f"]
    assert on_role(read, "ops")["name"].to_list() == ["dot.1"]
    assert XPLANE.reader.args(read, read.events["record"][0])["hlo_op"] == "dot.1"


def test_gzip_is_inflated_beside_the_spilled_events_and_removed(tmp_path: Path) -> None:
    events = [Event("a", n, 1) for n in range(50)]
    path, folder = tmp_path / "host0.xplane.pb.gz", tmp_path / "spilled"
    folder.mkdir()
    path.write_bytes(gzip.compress(space(Plane("/host:CPU", [Line("l", events)]))))
    assert_same(XPLANE.read(path, ignore_progress), parts_of(path, 2, folder))
    assert not list(folder.glob("inflated*"))


def test_places_can_be_written_down(tpu: FileFrames) -> None:
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(tpu.places), type=PlaneLocations)
    assert again == tpu.places
    record = tpu.events["record"][0]
    assert XPLANE.reader.args(structs.replace(tpu, places=again), record) == XPLANE.reader.args(tpu, record)


def test_a_glance_tells_the_devices_and_hosts(shared: Path, tmp_path: Path) -> None:
    path = next((shared / "traces" / "xla" / "tpu_v6e_x4_offload").rglob("*.xplane.pb"))
    seen = read_claims(path)
    assert seen.devices == ("TPU:0", "TPU:1", "TPU:2", "TPU:3")
    packed = tmp_path / "x.xplane.pb.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_claims(packed) == seen
    assert read_claims(next((shared / "captures" / "jax" / "b128").rglob("*.xplane.pb"))).host


LONG = 100_000
"""Events of a file that is read in several shards, each of as few as these tests let a shard have."""


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_decoder, "DECODED_BYTES", 1 << 16)
    monkeypatch.setattr(xspace, "RANGE_BYTES", 1 << 19)
    monkeypatch.setattr(xplane_reader, "_BYTES_PER_REPORT", 1 << 18)


@cache
def long_space() -> bytes:
    """A file that is read in several shards."""
    return space(Plane("/host:CPU", [Line("l", [Event("a", n, 1) for n in range(LONG)])]))


@pytest.mark.usefixtures("small_shards")
def test_progress_tells_of_all_bytes_and_may_stop_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "x.xplane.pb"
    path.write_bytes(long_space())
    told: list[tuple[int, int]] = []
    XPLANE.read(path, lambda read, events: told.append((read, events)))
    assert told == sorted(told)
    assert 0 < told[0][1] < LONG
    assert told[0][0] < path.stat().st_size

    def stop(_read: int, _events: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        XPLANE.read(path, stop)


@pytest.mark.usefixtures("small_shards")
def test_a_file_that_is_cut_while_it_is_read_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "x.xplane.pb"
    raw = long_space()
    path.write_bytes(raw)

    def cut(_read: int, _events: int) -> None:
        with path.open("r+b") as file:
            file.truncate(len(raw) // 2)

    with pytest.raises(TracehoundError, match="became shorter while it was read"):
        XPLANE.read(path, cut)


# Real profiles.


@pytest.fixture(scope="module")
def tpu(shared: Path) -> FileFrames:
    return profile(shared / "traces" / "xla" / "tpu_v6e_x4_offload")


def hlo_stats(shared: Path, name: str) -> dict[tuple[str, int], tuple[str, int, float, float]]:
    """Category, occurrences, total and self time (us) by op and program, as XProf has them."""
    with (shared / "golden" / "xprof" / name / "hlo_stats.csv").open(newline="") as file:
        return {
            (row["HLO op name"], int(row["Program id"])): (
                row["HLO op category"], round(float(row["#Occurrences"])), float(row["Total time (us)"]),
                float(row["Total self time (us)"]),
            )
            for row in csv.DictReader(file)
        }  # fmt: skip


def ours(part: FileFrames, role: str) -> dict[tuple[str, int], tuple[str, int, float, float]]:
    length = pl.coalesce(pl.col("device_end") - pl.col("device_start"), pl.col("end") - pl.col("start"))
    rows = on_role(part, role).filter(pl.col("op").is_not_null()).group_by("op").agg(
        pl.len(), length.sum() / US, pl.col("self").sum() / US
    ).join(part.ops.select("op", pl.col("name").alias("op_name"), "category", "program"), on="op")  # fmt: skip
    return {
        (name, program % (1 << 64)): (category, count, total, own)
        for _, count, total, own, name, category, program in rows.iter_rows()
    }


def test_tpu_ops_are_those_of_xprof(tpu: FileFrames, shared: Path) -> None:
    expected, found = hlo_stats(shared, "tpu_v6e_x4_offload"), ours(tpu, "ops")
    assert found.keys() == expected.keys()
    for key, (category, count, total, own) in expected.items():
        assert found[key][:2] == (category, count)
        assert found[key][2:] == pytest.approx((total, own), rel=1e-9)
    assert found["copy-done.4", 12190760917235803885][3] == pytest.approx(77_773_215.731, abs=1e-3)
    assert found["all-reduce", 9646411105960254074][1:4:2] == (12, pytest.approx(1_460_345.259, abs=1e-3))


def test_tpu_idle_time_is_that_of_xprof(tpu: FileFrames) -> None:
    ops = on_role(tpu, "ops")
    spans = ops.group_by("rank").agg(pl.col("device_end").max() - pl.col("device_start").min())["device_end"]
    assert spans.sum() / US == pytest.approx(363_729_698.769, abs=1e-3)
    assert 1 - ops["self"].sum() / spans.sum() == pytest.approx(0.13365, abs=5e-6)


def test_every_tpu_module_has_its_launch(tpu: FileFrames) -> None:
    modules = on_role(tpu, "modules")
    assert modules.height == 414
    assert tpu.events["name"].gather(modules["launch"]).to_list() == ["DoEnqueueProgram"] * 414


def test_tpu_steps_are_inferred_from_the_module_that_repeats(tpu: FileFrames) -> None:
    steps = tpu.steps.sort("rank", "start").group_by("rank", maintain_order=True).agg(
        pl.len(), pl.col("start").diff().median() / 1e9, pl.col("inferred").all()
    )  # fmt: skip
    assert steps["len"].to_list() == [100] * 4
    assert steps["start"].to_list() == pytest.approx([784.127, 784.104, 783.961, 783.862], abs=1e-3)
    assert steps["inferred"].all()


def test_tpu_collectives_and_transfers_know_their_bytes(tpu: FileFrames) -> None:
    moving = on_role(tpu, "ops").filter(pl.col("bytes").is_not_null())
    assert set(moving["kind"].to_list()) == {"collective", "transfer"}
    assert moving["bytes"].unique().to_list() == [5 << 30]


def test_gpu_kernels_add_up_to_the_ops_of_xprof(shared: Path) -> None:
    part = profile(shared / "traces" / "xla" / "jax_rocm_conv_legacy")
    expected = hlo_stats(shared, "jax_rocm_conv_legacy")
    for role in ("stream", "ops"):
        found = ours(part, role)
        assert found.keys() == expected.keys()
        for key, (category, count, total, own) in expected.items():
            assert found[key] == (category, count, pytest.approx(total), pytest.approx(own))
    assert on_role(part, "modules")["name"].to_list() == ["jit_forward_3d_conv(15)"] * 5
    assert part.events.filter(pl.col("rank").is_not_null())["launch"].null_count() == 0


@pytest.mark.parametrize("name", ["b128", "b4096"])
def test_jax_on_eight_cpu_devices(shared: Path, name: str) -> None:
    part = profile(shared / "captures" / "jax" / name)
    assert part.ranks["device"].to_list() == list(range(8))
    assert part.steps.select("name", "inferred").unique().rows() == [("train", False)]
    assert part.steps.height == 4
    ops = on_role(part, "ops")
    assert ops["step"].null_count() == 0
    assert ops["launch"].null_count() == 0
    assert on_role(part, "modules").height == 32
    known = ops.join(part.ops.select("op", "category", "framework"), on="op")
    collectives = known.filter(pl.col("kind") == "collective")
    assert set(collectives["category"].to_list()) == {"all-reduce"}
    assert collectives["bytes"].min() > 0
    dispatched = on_role(part, "thread").filter(pl.col("kind") == "op").select("record", pl.col("end").alias("left"))
    both = ops.join(dispatched, on="record")
    assert both.height == ops.height == dispatched.height
    assert (both["end"] - both["left"] > 5 * US).sum() == {"b128": 0, "b4096": 290}[name]


def test_jax_collectives_are_told_by_their_opcode_not_by_their_name(shared: Path) -> None:
    part = profile(shared / "captures" / "jax" / "collectives_warm")
    found = on_role(part, "ops").filter(pl.col("kind") == "collective").join(part.ops.select("op", "category"), on="op")
    names = set(found["name"].cast(pl.String).str.replace(r"\.\d+$", "").to_list())
    assert {"psum", "all_gather", "reduce_scatter"} <= names
    assert {"all-reduce", "all-gather", "reduce-scatter"} <= set(found["category"].to_list())


@pytest.mark.parametrize(("process", "devices"), [("r0", [0, 1]), ("r1", [2048, 2049])])
def test_jax_in_two_processes(shared: Path, process: str, devices: list[int]) -> None:
    assert profile(shared / "captures" / "jax" / "multiproc" / process).ranks["device"].to_list() == devices


@pytest.mark.parametrize(
    ("name", "steps"), [("single", 4), ("single_irdebug", 4), ("spmd4", 4), ("remote_capture", 17)]
)
def test_torch_xla(shared: Path, name: str, steps: int) -> None:
    part = profile(shared / "captures" / "torch_xla" / name)
    assert part.ranks["label"].to_list() == ["CPU:0"]
    assert part.steps.select("name", "inferred").unique().rows() == [("train_step", False)]
    assert part.steps.height == steps
    assert on_role(part, "modules").height == steps


def test_a_cut_profile_keeps_its_devices(shared: Path) -> None:
    part = XPLANE.read(shared / "traces" / "broken" / "truncated.xplane.pb", ignore_progress)
    assert part.ranks.height == 4
    assert on_role(part, "ops").height == 6013
    assert "the file ends early; everything before the end was kept byte 517,624" in notes(part)


def test_every_profile_at_hand_reads_and_gives_its_args(shared: Path) -> None:
    found = [path for folder in ("traces", "captures") for path in sorted((shared / folder).rglob("*.xplane.pb"))]
    assert found
    for path in found:
        assert XPLANE.matches(path.read_bytes()[:65536]), path
        part = XPLANE.read(path, ignore_progress)
        assert part.events.height, path
        for record in part.events.filter(pl.col("record").is_not_null())["record"].gather_every(997).to_list():
            json.dumps(XPLANE.reader.args(part, record))


def test_nothing_else_at_hand_is_taken_for_a_profile(shared: Path) -> None:
    for path in sorted((shared / "traces").rglob("*")):
        if path.is_file() and not path.name.endswith(".xplane.pb"):
            with path.open("rb") as file:
                assert not XPLANE.matches(file.read(65536)), path


def test_one_long_word_of_how_a_kernel_was_launched_takes_as_long_as_it_is() -> None:
    assert growth(lambda size: parse_launch_details(pl.Series([0]), pl.Series(["a" * size])), 16000) < TOO_FAST
