from __future__ import annotations

import gzip
import json
from typing import Any

import polars as pl
import pytest

from tracehound.draw.notes import note_text
from tracehound.formats import CHROME, XPLANE, ignore_progress
from tracehound.formats.json.value_columns import INVALID
from tracehound.formats.xla_json import trace_json_lanes as chrome_rows
from tracehound.formats.xla_json import trace_json_reader as chrome
from tracehound.formats.xla_json.trace_json_events import (
    parse_hash,
    parse_hashes,
    parse_whole_number,
    parse_whole_numbers,
)

PROCESSES = {3: "/device:TPU:0", 701: "/host:CPU"}
THREADS = {(3, 1): "Steps", (3, 2): "XLA Modules", (3, 3): "XLA Ops", (3, 4): "Async XLA Ops", (701, 9): "python/9"}


def meta(processes: dict, threads: dict) -> list[dict]:
    named = [{"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}} for pid, name in processes.items()]
    return named + [
        {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}
        for (pid, tid), name in threads.items()
    ]


def x(pid: int, tid: int, name: str, ts: float, dur: float, **args: str) -> dict:
    return {"ph": "X", "pid": pid, "tid": tid, "ts": ts, "dur": dur, "name": name, **({"args": args} if args else {})}


@pytest.fixture
def part(tmp_path):
    def read(events: list[dict], processes: dict = PROCESSES, threads: dict = THREADS):
        path = tmp_path / "node7.trace.json.gz"
        document = {
            "displayTimeUnit": "ns",
            "metadata": {"highres-ticks": True},
            "traceEvents": [*meta(processes, threads), *events, {}],
        }
        path.write_bytes(gzip.compress(json.dumps(document).encode()))
        assert CHROME.matches(json.dumps(document).encode())
        return CHROME.read(path, ignore_progress)

    return read


def events_of(part) -> list[dict]:
    lanes = part.lanes.select("lane", pl.col("name").alias("on"), "role", "work")
    return part.events.join(lanes, on="lane").sort("record", "lane").to_dicts()


def test_sparse_cores_run_beside_the_ops_of_their_device(part):
    processes = {3: "/device:TPU:0", 23: "/device:TPU:0 SparseCore 0"}
    threads = {(3, 2): "XLA Modules", (3, 3): "XLA Ops", (23, 1): "Sparse Core Modules", (23, 2): "Sparse Core Ops"}
    got = part(
        [
            x(3, 2, "jit_f(5)", 0, 9), x(3, 3, "fusion.1", 7, 2, hlo_category="loop fusion"),
            x(23, 1, "jit_f(5)", 1, 5), x(23, 2, "gather.9", 2, 5, hlo_category="gather"),
        ], processes, threads,
    )  # fmt: skip
    assert {(lane["name"], lane["role"], lane["work"]) for lane in got.lanes.to_dicts()} == {
        ("XLA Modules", "modules", False), ("XLA Ops", "ops", True),
        ("SparseCore 0 Sparse Core Modules", "sparse_modules", False),
        ("SparseCore 0 Sparse Core Ops", "sparse_ops", False),
    }  # fmt: skip
    assert got.ranks["label"].to_list() == ["TPU:0"]
    (gather,) = (event for event in events_of(got) if event["name"] == "gather.9")
    assert got.ops["category"][gather["op"]] == "gather"
    assert got.ops["module"].to_list() == ["jit_f", "jit_f"]


def test_processes_are_of_the_hosts_that_a_file_tells_of(part):
    """The names of hosts stand behind those of their processes alone."""
    processes = {3: "/device:TPU:0", 23: "/device:TPU:0 SparseCore 0", 701: "/host:CPU 0", 702: "/host:CPU 0"}
    threads = {(3, 3): "XLA Ops", (23, 2): "Sparse Core Ops", (701, 9): "python/9", (702, 9): "python/9"}
    whose = {3: 5, 23: 5, 701: 2, 702: 5}
    told = [
        {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name, "host": whose[pid], "hostname": "0"}}
        for pid, name in processes.items()
    ]
    ran = [x(pid, tid, "dot.1", 1, 2) for pid, tid in threads]
    got = part([*told, *ran], processes, threads)
    assert got.hosts == ("0", "0")
    assert got.ranks.select("host", "label").rows() == [(1, "TPU:0")]
    lanes = got.lanes.sort("order").select("host", "process", "name").rows()
    assert sorted(lanes) == [
        (0, "/host:CPU", "python/9"),
        (1, "/device:TPU:0", "XLA Ops"),
        (1, "/device:TPU:0 SparseCore 0", "SparseCore 0 Sparse Core Ops"),
        (1, "/host:CPU", "python/9"),
    ]


def test_devices_are_ranks_in_their_own_order(part):
    processes, threads = {3: "/device:TPU:1", 4: "/device:TPU:0"}, {(3, 3): "XLA Ops", (4, 3): "XLA Ops"}
    got = part([x(pid, 3, "fusion.1", 7, 2, hlo_category="loop fusion") for pid in (3, 4)], processes, threads)
    assert got.ranks["label"].to_list() == ["TPU:0", "TPU:1"]


def test_an_execution_is_launched_by_the_enqueue_on_its_own_device(part):
    """Runs are numbered on each device alone; the third device's enqueue lies before the profile."""
    processes = {3: "/device:TPU:0", 4: "/device:TPU:1", 5: "/device:TPU:2", 701: "/host:CPU"}
    threads = {(device, 2): "XLA Modules" for device in (3, 4, 5)} | {(701, 9): "python/9"}
    got = part(
        [
            *(x(device, 2, "jit_f(5)", 20, 9, run_id=str((1 << 28) + 7)) for device in (3, 4, 5)),
            x(701, 9, "DoEnqueueProgram", 5, 2, run_id="7", device_ordinal="1"),
            x(701, 9, "DoEnqueueProgram", 1, 2, run_id="7", device_ordinal="0"),
            {"ph": "M", "pid": 4, "name": "process_labels", "args": {"labels": "TPU v6 Lite"}},
        ], processes, threads,
    )  # fmt: skip
    start = dict(got.events.select("id", "start").rows())
    told = [start.get(event["launch"]) for event in events_of(got) if event["kind"] == "module"]
    assert told == [1_000_000, 5_000_000, None]
    assert got.ranks["model"].to_list() == ["TPU", "TPU v6 Lite", "TPU"]


def test_an_op_that_has_its_run_is_launched_with_the_execution_that_it_is_in(part):
    """As an export writes it; another event of the host has the run, too, when all is over."""
    processes, threads = (
        {3: "/device:TPU:0", 701: "/host:CPU"},
        {(3, 2): "XLA Modules", (3, 3): "XLA Ops", (701, 9): "p"},
    )
    got = part(
        [
            x(3, 2, "jit_f(5)", 20, 9, run_id="7"),
            x(3, 3, "fusion.1", 21, 2, run_id="7", hlo_category="loop fusion"),
            x(701, 9, "DoEnqueueProgram", 1, 2, run_id="7", device_ordinal="0"),
            x(701, 9, "CompleteCallbacks", 30, 2, run_id="7"),
        ], processes, threads,
    )  # fmt: skip
    start = dict(got.events.select("id", "start").rows())
    told = {event["name"]: (start.get(event["launch"]), event["run"]) for event in events_of(got)}
    assert told["jit_f(5)"] == told["fusion.1"] == (1_000_000, 7)


@pytest.mark.parametrize(
    ("device", "run", "lost"),
    [
        ("TPU", "7", "memory, nor device facts;"),
        ("TPU", "8", "device facts, nor links from host to device;"),
        ("CPU", "7", "device facts, nor true ends of ops on CPUs;"),
        ("CPU", "8", "device facts, links from host to device, nor true ends of ops on CPUs;"),
    ],
)
def test_what_is_lost_is_what_is_not_there(part, device, run, lost):
    got = part(
        [
            x(3, 2, "jit_f(5)", 20, 9, run_id="7"),
            x(701, 9, "DoEnqueueProgram", 1, 2, run_id=run, device_ordinal="0"),
        ], {3: f"/device:{device}:0", 701: "/host:CPU"}, {(3, 2): "XLA Modules", (701, 9): "p"},
    )  # fmt: skip
    (told,) = (note_text(note) for note in got.notes if note.level == "missing")
    assert lost in told


def test_planes_and_lines_of_a_tpu(part):
    big = str(2**64 - 5)
    got = part(
        [
            x(3, 1, "17", 0, 10),
            x(3, 2, f"jit_step({big})", 0, 9, run_id=str((1 << 28) + 77)),
            x(3, 3, "fusion.1", 1, 2.5, hlo_category="loop fusion", bytes_accessed="640", model_flops="1000",
              long_name="%fusion.1 = f32[8] fusion(f32[8] %p)", tf_op="jit(step)/add:", source="a.py:3",
              device_offset_ps="5000000", device_duration_ps="2400000"),
            x(3, 3, "all-reduce.2", 4, 0.000002, hlo_category="all-reduce",
              long_name="%all-reduce.2 = f32[16]{0} all-reduce(f32[16]{0} %x)"),
            x(3, 4, "copy-start.1", 5, 1, hlo_category="copy-start"),
            x(701, 9, "train", 0, 10, step_num="4", _r="1"),
            x(701, 9, "$a.py:1 f", 1, 2),
            x(701, 9, "PjitFunction(step)", 3, 2, run_id="77"),
        ]
    )  # fmt: skip
    rows = [(e["name"], e["kind"], e["on"], e["role"], e["work"]) for e in events_of(got)]
    assert rows == [
        ("17", "step", "Steps", "steps", False),
        (f"jit_step({big})", "module", "XLA Modules", "modules", False),
        ("fusion.1", "op", "XLA Ops", "ops", True),
        ("all-reduce.2", "collective", "XLA Ops", "ops", True),
        ("copy-start.1", "copy", "Async XLA Ops", "async", False),
        ("train", "step", "python/9", "thread", False),
        ("$a.py:1 f", "python", "python/9", "thread", False),
        ("PjitFunction(step)", "runtime", "python/9", "thread", False),
    ]
    by_name = {e["name"]: e for e in events_of(got)}
    fusion, reduce = by_name["fusion.1"], by_name["all-reduce.2"]
    assert (fusion["end"] - fusion["start"], fusion["device_start"], fusion["device_end"]) == (
        2500000,
        5000000,
        7400000,
    )
    assert (reduce["end"] - reduce["start"], reduce["bytes"]) == (2, 64)
    assert by_name[f"jit_step({big})"]["run"] == 77
    told = got.ops.filter(pl.col("name") == "fusion.1").row(0, named=True)
    assert {name: value for name, value in told.items() if value is not None} == {
        "op": fusion["op"], "name": "fusion.1", "category": "loop fusion", "module": "jit_step", "program": -5,
        "framework": "jit(step)/add", "source": "a.py:3", "text": "%fusion.1 = f32[8] fusion(f32[8] %p)",
        "flops": 1000, "bytes_accessed": 640, "host_bytes": 0, "hbm_bytes": 640,
    }  # fmt: skip
    assert got.ranks["label"].to_list() == ["TPU:0"]
    assert got.hosts == ("node7",)
    assert got.wall_ns is None
    assert got.steps["step"].to_list() == [4]
    assert [note.level for note in got.notes] == ["missing"]
    assert chrome.read_args(got, fusion["record"])["args"]["source"] == "a.py:3"


def test_streams_of_a_gpu_do_the_work_and_give_lanes_of_ops_and_modules(part):
    got = part(
        [
            x(3, 5, "gemm_kernel", 0, 4, hlo_op="outer::dot.3", hlo_module="jit_f", correlation_id="9"),
            x(3, 5, "MemcpyH2D", 5, 1),
            x(701, 9, "cuLaunchKernel", 0, 1, correlation_id="9"),
        ],
        {3: "/device:GPU:0", 701: "/host:CPU"},
        {(3, 5): "Stream #13(Kernel)", (701, 9): "main/9"},
    )
    rows = {(e["name"], e["kind"], e["role"], e["work"]) for e in events_of(got)}
    assert rows == {
        ("gemm_kernel", "kernel", "stream", True),
        ("MemcpyH2D", "copy", "stream", True),
        ("cuLaunchKernel", "runtime", "thread", False),
        ("dot.3", "op", "ops", False),
        ("jit_f", "module", "modules", False),
    }
    assert got.lanes.filter(pl.col("role") == "stream")["stream"].to_list() == [13]


def test_streams_of_a_gpu_that_run_at_once_have_lanes_of_ops_of_their_own(part):
    got = part(
        [
            x(3, 5, "gemm", 0, 9, hlo_op="dot.1", hlo_module="jit_f"),
            x(3, 6, "nccl", 2, 3, hlo_op="all-reduce.1", hlo_module="jit_f"),
            x(4, 5, "gemm", 0, 9, hlo_op="dot.1", hlo_module="jit_f"),
        ],
        {3: "/device:GPU:0", 4: "/device:GPU:1"},
        {(3, 5): "Stream #14(Compute)", (3, 6): "Stream #20(Compute)", (4, 5): "Stream #14(Compute)"},
    )
    ops = [(e["on"], e["rank"], e["self"] // 10**6) for e in events_of(got) if e["role"] == "ops"]
    assert ops == [
        ("XLA Ops of Stream #14(Compute)", 0, 9), ("XLA Ops of Stream #20(Compute)", 0, 3), ("XLA Ops", 1, 9),
    ]  # fmt: skip
    assert [(e["rank"], e["name"]) for e in events_of(got) if e["role"] == "modules"] == [(0, "jit_f"), (1, "jit_f")]


DERIVED = {
    (3, 5): "Stream #14(Compute)", (3, 6): "Stream #20(Compute)", (3, 7): "XLA Modules - from #14",
    (3, 8): "XLA Modules - from #20", (3, 9): "XLA Ops - from #14", (3, 10): "XLA Ops - from #20",
}  # fmt: skip


def test_where_kernels_name_their_ops_what_xprof_derived_from_each_stream_is_set_aside(part):
    got = part(
        [
            x(3, 5, "gemm", 0, 9, hlo_op="dot.1", hlo_module="jit_f"), x(3, 9, "dot.1", 0, 9),
            x(3, 6, "nccl", 2, 3, hlo_op="psum.1", hlo_module="jit_f"), x(3, 10, "psum.1", 2, 3),
            x(3, 7, "jit_f(5)", 0, 9), x(3, 8, "jit_f(5)", 2, 3),
        ], {3: "/device:GPU:0"}, DERIVED,
    )  # fmt: skip
    assert [(e["name"], e["self"] // 10**6) for e in events_of(got) if e["role"] == "ops"] == [
        ("dot.1", 9),
        ("psum.1", 3),
    ]
    assert [(e["name"], e["start"], e["end"]) for e in events_of(got) if e["role"] == "modules"] == [
        ("jit_f", 0, 9000000)
    ]
    aside = {e["on"] for e in events_of(got) if e["role"] == "other"}
    assert aside == {f"Recorded XLA {what} - from #{stream}" for what in ("Ops", "Modules") for stream in (14, 20)}


def test_ops_of_a_stream_are_of_its_own_modules(part):
    got = part(
        [
            x(3, 7, "jit_f(5)", 0, 20), x(3, 8, "jit_g(6)", 2, 8), x(3, 9, "dot.1", 3, 2), x(3, 10, "psum.1", 4, 2),
            x(3, 9, "add", 12, 2),
        ], {3: "/device:GPU:0"}, DERIVED,
    )  # fmt: skip
    assert dict(got.ops.select("name", "module").rows()) == {"dot.1": "jit_f", "add": "jit_f", "psum.1": "jit_g"}


def test_what_keeps_nothing_busy_lies_beside_the_streams(part):
    got = part(
        [
            x(3, 5, "k", 0, 4), x(3, 5, "BUFFER_FLUSH", 5, 4),
            x(3, 6, "MemcpyH2D", 0, 4), x(3, 6, "Memory device", 0, 40), x(3, 7, "Memory device", 0, 4),
        ], {3: "/device:GPU:0"},
        {(3, 5): "CUPTI overhead", (3, 6): "Stream #0(MemcpyH2D,MemoryResidency)", (3, 7): "Stream #7(Kernel)"},
    )  # fmt: skip
    rows = [(e["name"], e["kind"], e["on"], e["work"]) for e in events_of(got)]
    assert rows == [
        ("k", "kernel", "CUPTI overhead", True),
        ("BUFFER_FLUSH", "other", "Beside CUPTI overhead", False),
        ("MemcpyH2D", "copy", "Stream #0(MemcpyH2D,MemoryResidency)", True),
        ("Memory device", "other", "Beside Stream #0(MemcpyH2D,MemoryResidency)", False),
        ("Memory device", "kernel", "Stream #7(Kernel)", True),
    ]


def test_kernels_and_copies_of_a_gpu_tell_how_they_were_launched_and_their_bytes(part):
    details = "regs:32 static_shared:16 dynamic_shared:8 grid:11,16,2 block:256,1,1 occ_pct:50"
    got = part(
        [
            x(3, 5, "k", 0, 4, hlo_op="call.1::psum.3", hlo_category="all-reduce", kernel_details=details),
            x(3, 5, "plain", 5, 1),
            x(3, 5, "MemcpyH2D", 7, 1, memcpy_details="kind_src:host kind_dst:device size:1024 dest:0 async:1"),
            x(3, 5, "Memset", 9, 1, memset_details="kind:device num_bytes:4096 value:0"),
        ],
        {3: "/device:GPU:0"},
        {(3, 5): "Stream #13(Kernel)"},
    )
    told = got.facets["launched"].collect().join(got.events.select("record", "name", "lane"), on="record")
    assert told.select("grid", "block", "registers", "shared", "occupancy").unique().rows() == [
        ("11,16,2", "256,1,1", 32, 24, 0.5)
    ]
    assert told["name"].cast(pl.String).unique().sort().to_list() == ["k", "psum.3"]
    rows = {e["name"]: (e["kind"], e["bytes"], e["op"] is None) for e in events_of(got) if e["role"] == "stream"}
    assert rows == {
        "k": ("collective", None, False),
        "plain": ("kernel", None, True),
        "MemcpyH2D": ("copy", 1024, True),
        "Memset": ("memset", 4096, True),
    }


def test_turns_of_a_loop_are_no_executions_of_a_module_of_a_gpu(part):
    events = []
    for run in range(2):
        for turn, op in enumerate(["while.1::a", "while.1::a", "b"]):
            key = str(10 * run + turn + 1)
            at = 100 * run + 10 * turn
            events += [x(3, 5, "k", 50 + at, 4, hlo_op=op, hlo_module="jit_f")]
            events += [x(3, 5, "k", 300 + at, 4, hlo_op="a", hlo_module="jit_g", correlation_id=key)]
            events += [x(701, 9, "cuLaunchKernel", 100 * run + turn, 1, correlation_id=key)]
        events += [x(701, 9, "jit_g:XLA GPU module", 100 * run, 20)]
    got = part(events, {3: "/device:GPU:0", 701: "/host:CPU"}, {(3, 5): "Stream #13(Kernel)", (701, 9): "main/9"})
    modules = [(e["name"], e["start"] // 10**6, e["end"] // 10**6) for e in events_of(got) if e["role"] == "modules"]
    assert sorted(modules) == [("jit_f", 50, 74), ("jit_f", 150, 174), ("jit_g", 300, 324), ("jit_g", 400, 424)]


@pytest.mark.parametrize("named", [True, False])
def test_work_of_graphs_is_in_the_execution_that_launched_it(part, named):
    events = []
    for run in range(2):
        at, key = 100 * run, str(10 * run + 1)
        events += [x(3, 5, "loop_add_fusion", at + 40, 5, correlation_id=key), x(3, 5, "free", at + 90, 5)]
        events += [x(3, 5, "gemm", at + 50, 20, correlation_id=key)]
        if named:
            events += [
                x(3, 5, "k", at + 30, 5, hlo_op="a", hlo_module="jit_f", program_id="9", correlation_id="5" + key)
            ]
        events += [x(701, 9, "jit_f:XLA GPU module", at, 20), x(701, 9, "cuGraphLaunch", at + 5, 2, correlation_id=key)]
        events += [x(701, 9, "cuLaunchKernel", at + 2, 1, correlation_id="5" + key)]
    got = part(events, {3: "/device:GPU:0", 701: "/host:CPU"}, {(3, 5): "Stream #13(Kernel)", (701, 9): "main/9"})
    modules = [(e["name"], e["start"] // 10**6, e["end"] // 10**6) for e in events_of(got) if e["role"] == "modules"]
    name, first = ("jit_f(9)", 30) if named else ("jit_f", 40)
    assert sorted(modules) == [(name, first, 70), (name, 100 + first, 170)]


def test_devices_of_a_cpu_are_derived_from_its_threads(part):
    got = part(
        [
            x(701, 9, "dot.1", 0, 4, hlo_op="dot.1", hlo_module="jit_f", run_id="-5", device_ordinal="2049"),
            x(701, 9, "psum.1", 5, 4, hlo_op="all-reduce.1", hlo_module="jit_f", run_id="-5", device_ordinal="2049"),
            x(701, 9, "dot.1", 2, 4, hlo_op="dot.1", hlo_module="jit_f", run_id="-5", device_ordinal="2048"),
        ],
        {701: "/host:CPU"},
        {(701, 9): "tf_XLAEigen/9"},
    )
    assert got.ranks["label"].to_list() == ["CPU:2048", "CPU:2049"]
    on_devices = got.events.filter(pl.col("rank").is_not_null()).sort("rank", "kind", "start")
    assert on_devices.select("rank", pl.col("name").cast(pl.String), "kind", pl.col("end") // 10**6).rows() == [
        (0, "dot.1", "op", 6),
        (0, "jit_f", "module", 6),
        (1, "all-reduce.1", "collective", 9),
        (1, "dot.1", "op", 4),
        (1, "jit_f", "module", 9),
    ]


def test_a_file_that_the_writer_cut_is_told(part, monkeypatch):
    monkeypatch.setattr(chrome_rows, "WRITER_LIMITS", (3,))
    got = part([x(701, 9, "a", n, 1) for n in range(3)])
    assert "exactly 3 events" in " ".join(note_text(note) for note in got.notes)
    assert len(part([x(701, 9, "a", n, 1) for n in range(4)]).notes) == 1


def test_times_that_are_none_are_dropped(part):
    none = {key: value for key, value in x(701, 9, "e", 1, 1).items() if key != "ts"}
    timed = [x(701, 9, "a", 1, 1), x(701, 9, "b", "soon", 1), x(701, 9, "c", 1, -2), x(701, 9, "d", 10**18, 1)]
    got = part([*timed, none])
    assert got.events["name"].to_list() == ["a", "c"]
    assert [(note.level, note.count) for note in got.notes][:2] == [("dropped", 3), ("repaired", 1)]


def test_it_says_the_same_as_the_xplane_beside_it(shared):
    folder = next((shared / "captures" / "jax" / "b128").glob("plugins/profile/*"))
    ours = CHROME.read(folder / "vm.trace.json.gz", ignore_progress)
    full = XPLANE.read(folder / "vm.xplane.pb", ignore_progress)
    assert ours.ranks["label"].to_list() == full.ranks["label"].to_list()
    counts = [
        part.events.filter(pl.col("rank").is_not_null())
        .group_by("rank", pl.col("name").cast(pl.String).str.replace(r"\(\d+\)$", ""))
        .len()
        .sort(pl.all())
        .rows()
        for part in (ours, full)
    ]
    assert counts[0] == counts[1]
    assert ours.steps["step"].to_list() == full.steps["step"].to_list()


def test_collectives_that_are_called_as_in_jax_are_those_of_the_xplane_beside_it(shared):
    folder = next((shared / "captures" / "jax" / "collectives_warm").glob("plugins/profile/*"))
    files = (
        CHROME.read(folder / "vm.trace.json.gz", ignore_progress),
        XPLANE.read(folder / "vm.xplane.pb", ignore_progress),
    )
    ours, full = (
        set(each.events.filter(kind="collective").get_column("name").cast(pl.String).to_list()) for each in files
    )
    assert ours == full
    assert {"psum.7", "ppermute.3", "all_gather.3", "reduce_scatter.7"} < ours


def test_real_files_of_tpus(shared):
    paths = sorted((shared / "traces" / "xla").glob("tpu_vllm*/plugins/profile/*/*.trace.json.gz"))
    assert len(paths) == 2
    for path, total in zip(paths, (10312, 11203), strict=True):
        got = CHROME.read(path, ignore_progress)
        assert got.events.height == total
        assert got.ranks["label"].to_list() == ["TPU:0", "TPU:1"]
        steps = got.events.filter((pl.col("rank") == 0) & pl.col("name").cast(pl.String).str.contains("jit_step_fun"))
        longest = (steps["end"] - steps["start"]).max()
        assert round(longest / 10**9, 2) == (66.91 if total == 10312 else 63.49)


def test_instants_last_as_long_as_in_the_xplane(part):
    """XLA's writer gives an event of no length 1 ps: it would cut the own time of what is around it in two."""
    events = [x(701, 9, "Execute", 1, 8), x(701, 9, "ThreadpoolListener::Record", 3, 1e-6), x(701, 9, "Wait", 5, 2e-6)]
    got = part(events).events.sort("start")
    assert (got["end"] - got["start"]).to_list() == [8_000_000, 0, 2]
    whose = {"ph": "M", "pid": 3, "name": "process_name", "args": {"name": PROCESSES[3], "rank": 0}}
    exported = part([whose, x(3, 3, "dot.1", 0, 1), *events]).events.sort("start")
    assert (exported["end"] - exported["start"]).to_list() == [1_000_000, 8_000_000, 1, 2]


def test_an_event_of_a_strange_phase_is_noted(part):
    event = x(3, 3, "fusion.1", 1, 2)
    got = part([event, {**event, "ph": "x"}, {key: value for key, value in event.items() if key != "ph"}])
    assert got.events.height == 1
    assert [(n.count, n.where) for n in got.notes if n.level == "dropped"] == [(2, "event 8")]


@pytest.mark.parametrize("number", ["1099511627776", "-9" * 12, "9" * 400])
def test_a_step_number_that_cannot_be_marks_no_step(part, number):
    got = part([x(701, 9, "train", 0, 5, step_num="3"), x(701, 9, "train", 5, 5, step_num=number)])
    assert got.events.height == 2
    assert got.steps["step"].to_list() == [3]


@pytest.mark.parametrize("digits", ["9" * 12, "9" * 20, "9" * 400, "9" * 5000], ids=len)
def test_numbers_in_names_that_cannot_be_are_names(part, digits):
    processes = {**PROCESSES, 5: f"/device:TPU:{digits}"}
    threads = {**THREADS, (5, 1): "XLA Ops", (3, 8): f"Stream #{digits}", (3, 9): f"XLA Modules #{digits}"}
    events = [
        x(3, 2, f"jit_step({digits})", 0, 50),
        x(3, 3, "all-reduce.2", 1, 2, hlo_category="all-reduce",
          long_name=f"%all-reduce.2 = f32[{digits},{digits},8]{{0}} all-reduce(f32[16]{{0}} %x)"),
        x(5, 1, "fusion.1", 4, 2), x(3, 8, "gemm", 8, 2), x(3, 1, digits, 0, 50),
    ]  # fmt: skip
    got = part(events, processes, threads)
    assert got.events.filter(pl.col("record").is_not_null())["record"].n_unique() == len(events)
    assert got.ranks["device"].to_list() == [0]
    assert got.events["bytes"].to_list() == [None] * got.events.height


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (["3", None, "-4"], [3, None, -4]),
        (["3", "x", "", 5, 2.5, "1e3"], [3, None, None, 5, 2, None]),
        ([str(2**63), str(2**62), str(2**62 - 1), str(-(2**62))], [None, None, 2**62 - 1, None]),
        ([float("inf"), "9" * 30], [None, None]),
        ([None], [None]),
        ([], []),
    ],
)
def test_numbers_in_args_of_any_spelling(values, numbers):
    assert parse_whole_numbers(values).tolist() == [INVALID if number is None else number for number in numbers]
    assert [parse_whole_number(value) for value in values] == numbers


_SIGNED = [("7", 7), (-1, -1), ("-6255983156473747731", -6255983156473747731), (2**63 - 1, 2**63 - 1)]
_UNSIGNED = [(12190760917235803885, -6255983156473747731), (str(2**64 - 1), -1), (2**62, 2**62)]
_NONE = [(2**64, None), (-(2**63), None), ("x", None), (None, None), ("", None)]


@pytest.mark.parametrize("said", [_SIGNED, _SIGNED + _UNSIGNED, _SIGNED + _UNSIGNED + _NONE, []])
def test_ids_that_are_hashes_take_all_of_64_bits(said: list[tuple[Any, int | None]]) -> None:
    values, numbers = [value for value, _ in said], [number for _, number in said]
    assert [parse_hash(value) for value in values] == numbers
    assert parse_hashes(values).tolist() == [INVALID if number is None else number for number in numbers]
