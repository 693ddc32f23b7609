"""XLA profiles out of the model, in the form that XLA itself writes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from exporting import document, opened, own, rows, written
from samples import sample
from short import first
from tracehound.draw.notes import note_text
from tracehound.errors import TracehoundError
from tracehound.model.trace import Trace, Window, collect_frame
from xspaces import Event, Line, Plane, Stat, space

MS = 10**9


def placed(trace: Trace) -> list[tuple[object, ...]]:
    """Every event with where it is drawn."""
    lanes = trace.lanes.select("lane", "rank", "role", "work", pl.col("name").alias("row"))
    events = collect_frame(trace.events()).join(lanes, on="lane", suffix="_of_lane")
    columns = ("row", "role", "work", "rank_of_lane", "name", "start", "end", "kind", "step", "device_start", "run")
    plain = [pl.col(name).cast(pl.String) if name in ("name", "role", "kind") else pl.col(name) for name in columns]
    return sorted(events.select(plain).rows(), key=repr)


def enqueued(trace: Trace) -> list[tuple[object, ...]]:
    """The executions of programs on TPUs with the starts of what launched them."""
    tpus = trace.ranks.filter(pl.col("label").str.starts_with("TPU"))["rank"].to_list()
    calls = trace.events().select(launch="id", called="start")
    runs = trace.events().filter((pl.col("kind") == "module") & pl.col("rank").is_in(tpus))
    told = collect_frame(runs.join(calls, on="launch").select("rank", "start", "called"))
    assert told.height or not tpus
    return sorted(told.rows())


@pytest.mark.parametrize("name", first(1, ("torch_xla_spmd4", "jax_cpu8_b128", "torch_xla_remote")))
def test_a_profile_reads_back_as_it_was(tmp_path: Path, name: str) -> None:
    trace = sample(name)
    told = written(trace, tmp_path / "out.json")
    again = opened(tmp_path / "out.json")
    assert again.parts[0].format == "chrome"
    assert placed(again) == placed(trace)
    assert told.events == trace.lanes["events"].sum()
    assert again.ranks.select("rank", "label").equals(trace.ranks.select("rank", "label"))
    assert [note_text(note) for note in again.notes if note.level == "dropped"] == []


def test_accelerators_of_real_profiles_read_back(shared: Path, tmp_path: Path) -> None:
    for name in ("jax_rocm_gemm", "jax_rocm_conv_legacy", "tpu_v6e_x4_offload"):
        trace = opened(shared / "traces" / "xla" / name)
        out = tmp_path / f"{name}.json"
        told = written(trace, out)
        again = opened(out)
        assert placed(again) == placed(trace), name
        assert told.curves > 0
        assert again.ranks.select("rank", "label", "model").equals(trace.ranks.select("rank", "label", "model"))
        assert enqueued(again) == enqueued(trace), "each execution is launched by the same host event"
        assert [note_text(note) for note in again.notes if note.level == "dropped"] == []


@cache
def of_eight() -> dict[str, Any]:
    """What is written of eight devices."""
    return document(sample("jax_cpu8_b128"))


def test_an_event_says_what_the_model_knows() -> None:
    trace, found = sample("jax_cpu8_b128"), of_eight()
    processes = {event["pid"]: event["args"]["name"] for event in own(found) if event["name"] == "process_name"}
    assert set(processes.values()) == {f"/device:CPU:{number}" for number in range(8)} | {"/host:CPU"}
    threads = {
        (event["pid"], event["tid"]): event["args"]["name"] for event in own(found) if event["name"] == "thread_name"
    }
    assert len(threads) == trace.lanes.height
    op = next(e for e in own(found) if e["ph"] == "X" and "hlo_category" in e["args"])
    assert processes[op["pid"]].startswith("/device:")
    assert threads[op["pid"], op["tid"]] == "XLA Ops"
    assert {"hlo_op", "hlo_module", "run_id"} <= set(op["args"])


def test_times_are_exact_to_the_picosecond() -> None:
    trace = sample("jax_cpu8_b128")
    events = [event for event in own(of_eight()) if event["ph"] == "X"]
    told = sorted((round(event["ts"] * 1e6), round(event["dur"] * 1e6)) for event in events)
    assert told == sorted(collect_frame(trace.events().select("start", pl.col("end") - pl.col("start"))).rows())


def test_a_window_keeps_whole_what_overlaps_it() -> None:
    trace = sample("jax_cpu8_b128")
    low, high = trace.span[1] // 3, trace.span[1] // 2
    lanes = trace.lanes_of([2])["lane"].to_list()
    inside = collect_frame(trace.events(lanes).filter((pl.col("start") < high) & (pl.col("end") > low)))
    events = [event for event in own(document(trace, Window(low, high, ranks=(2,)))) if event["ph"] == "X"]
    long = inside.filter(pl.col("end") > pl.col("start"))
    assert len(events) >= long.height > 0
    assert sum(round(event["dur"] * 1e6) for event in events) == (inside["end"] - inside["start"]).sum()


@pytest.mark.parametrize("window", first(1, (Window(ranks=(3, 5)), Window(150 * MS, 160 * MS), Window(ranks=(3,)))))
def test_a_part_keeps_the_ranks_of_its_devices(tmp_path: Path, window: Window) -> None:
    """Also of devices that have no event in it: numbered by their first events they would be others."""
    trace = sample("jax_cpu8_b128")
    written(trace, tmp_path / "out.json", window)
    again = opened(tmp_path / "out.json")
    wanted = sorted(window.ranks or trace.ranks["rank"])
    assert again.ranks.select("rank", "label").rows() == [(rank, f"CPU:{rank}") for rank in wanted]


@pytest.mark.thorough
def test_several_hosts_keep_their_devices_apart(samples: Path, tmp_path: Path) -> None:
    trace = opened(samples / "jax_cpu8_b128", samples / "jax_cpu8_b4096")
    assert len(trace.parts) == 2
    written(trace, tmp_path / "out.json")
    again = opened(tmp_path / "out.json")
    assert again.ranks.height == trace.ranks.height == 16
    columns = ("name", "start", "end", "self", "depth")
    assert rows(again, *columns) == rows(trace, *columns)


def test_several_hosts_are_several_where_they_are_read_back(tmp_path: Path) -> None:
    """JAX numbers the runs of all processes of a job alike, and they may run on one machine."""
    for number, (long, called) in enumerate(((200, 10), (170, 40))):
        run = Stat("run_id", 4, 7)
        calls = [
            Event("train", 0, long, [Stat("step_num", 4, 3)]),
            Event("PjRtCpuClient::Execute", called, 20, [run, Stat("_p", 3, 5), Stat("_pt", 4, 1)]),
        ]
        executed = [Stat("hlo_op", 5, "dot.1"), Stat("hlo_module", 5, "jit_f"), Stat("device_ordinal", 4, number)]
        pool = [Event("take", called + 30, 90, [Stat("_c", 3, 5), Stat("_ct", 4, 1)])]
        pool.append(Event("dot.1", called + 40, 50, [*executed, run]))
        lines = [Line("python", calls, 1), Line("tf_XLAEigen/5", pool, 2)]
        folder = tmp_path / f"r{number}"
        folder.mkdir()
        (folder / "vm.xplane.pb").write_bytes(space(Plane("/host:CPU", lines), hostname="0"))
    trace = opened(tmp_path / "r0" / "vm.xplane.pb", tmp_path / "r1" / "vm.xplane.pb")
    written(trace, tmp_path / "out.json")
    again = opened(tmp_path / "out.json")
    assert [host.name for host in again.hosts] == ["0", "0"]
    assert again.ranks.select("rank", "host").rows() == trace.ranks.select("rank", "host").rows() == [(0, 0), (1, 1)]
    threads = [of.lanes.filter(pl.col("rank").is_null()).select("host", "process", "name") for of in (trace, again)]
    assert sorted(threads[0].rows()) == sorted(threads[1].rows()) != []
    assert placed(again) == placed(trace)
    assert launched(again) == launched(trace) == [(0, 10), (1, 40)]
    steps = ("host", "step", "start", "end")
    assert again.steps.select(steps).rows() == trace.steps.select(steps).rows() == [(0, 3, 0, 200), (1, 3, 0, 170)]


def launched(trace: Trace) -> list[tuple[object, ...]]:
    """The ops of devices, by their ranks, with the starts of what launched them."""
    calls = trace.events().select(launch="id", called="start")
    ops = trace.events().filter((pl.col("kind") == "op") & pl.col("rank").is_not_null())
    return sorted(collect_frame(ops.join(calls, on="launch").select("rank", "called")).rows())


def test_kinds_of_traces_do_not_mix(samples: Path) -> None:
    trace = opened(samples / "jax_cpu8_b128", samples / "torch_ddp_gloo")
    with pytest.raises(TracehoundError, match="export each alone"):
        document(trace)


def test_counters_of_the_trace_are_written_too_and_those_of_an_export_anew(tmp_path: Path) -> None:
    named = [
        {"ph": "M", "name": "process_name", "pid": 3, "args": {"name": "/device:TPU:0"}},
        {"ph": "M", "name": "thread_name", "pid": 3, "tid": 1, "args": {"name": "XLA Ops"}},
    ]
    for host in ("a", "b"):
        op = {"ph": "X", "name": "fusion", "pid": 3, "tid": 1, "ts": 1, "dur": 2, "args": {"hlo_category": "fusion"}}
        samples = [{"ph": "C", "name": "power", "pid": 3, "ts": ts, "args": {"watts": ts * 1.5}} for ts in (1, 2)]
        samples.append(
            {"ph": "C", "name": "Queue length, gone", "pid": 3, "ts": 1, "by": "tracehound", "args": {"launches": 1}}
        )
        (tmp_path / f"{host}.trace.json").write_text(json.dumps({"traceEvents": [*named, op, *samples]}))
    trace = opened(tmp_path / "a.trace.json", tmp_path / "b.trace.json")
    written(trace, tmp_path / "out.json")
    again = opened(tmp_path / "out.json")
    counters = again.lanes.filter(pl.col("role") == "counter")
    assert counters.select("rank", "name", "unit").rows() == [(0, "power", "watts"), (1, "power", "watts")]
    assert [again.samples(lane).rows() for lane in counters["lane"]] == [[(0, 1.5), (1_000_000, 3.0)]] * 2


def test_streams_of_a_gpu_read_back_with_their_ops_bytes_and_launches(tmp_path: Path) -> None:
    """Of each of two streams the lane of ops, once; how kernels were launched; and what copies moved."""
    how = "regs:64 static_shared:16 dynamic_shared:8 grid:{},1,1 block:128,1,1 occ_pct:{}"
    copied = [Stat("memcpy_details", 7, "kind:HtoD num_bytes:4096 dest:0 async:1")]

    def kernel(op: str, at: int, grid: int, percent: float) -> Event:
        told = {"hlo_op": op, "hlo_module": "jit_f", "kernel_details": how.format(grid, percent)}
        return Event(f"k {op}", at, 50, [Stat(name, 5, text) for name, text in told.items()])

    gpu = Plane(
        "/device:GPU:0",
        [
            Line("Stream #14(Compute)", [kernel("dot.1", 0, 100, 37.5), kernel("add", 60, 400, 7)], 14),
            Line("Stream #20(Compute)", [kernel("all-reduce.1", 20, 8, 100), Event("plain", 80, 9)], 20),
            Line("Stream #13(MemcpyH2D)", [Event("MemcpyH2D", 5, 9, copied)], 13),
        ],
        [Stat("core_count", 4, 132)],
    )
    calls = [Event("cuMemcpyHtoDAsync", 0, 4, copied), Event("train", 0, 300)]
    path = tmp_path / "h.xplane.pb"
    path.write_bytes(space(gpu, Plane("/host:CPU", [Line("python", calls)])))
    trace = opened(path)
    written(trace, tmp_path / "out.json")
    again = opened(tmp_path / "out.json")
    assert placed(again) == placed(trace)
    columns = ("name", "start", "end", "kind", "self", "bytes")
    assert rows(again, *columns) == rows(trace, *columns)
    told = [
        collect_frame(of.events([lane for lane, role in of.lanes.select("lane", "role").rows() if role == "stream"]))
        .join(collect_frame(of.facets[0]["launched"]), on="record")
        .with_columns(pl.col("name", "grid", "block").cast(pl.String))
        .select("name", "grid", "block", "registers", "shared", "blocks_per_sm", "occupancy")
        .sort("name")
        for of in (trace, again)
    ]
    assert told[0].row(0) == ("k add", "400,1,1", "128,1,1", 64, 24, 400 / 132, 0.07)
    assert told[1].rows() == told[0].rows()


def test_xla_s_own_json_is_copied(shared: Path, tmp_path: Path) -> None:
    path = next((shared / "traces" / "xla" / "tpu_vllm_qwen3_a").rglob("*.trace.json.gz"))
    trace = opened(path)
    out = tmp_path / path.name.removesuffix(".gz")
    written(trace, out)
    again = opened(out)
    assert again.events().collect().equals(trace.events().collect())
    assert [note_text(note) for note in again.notes if note.level != "info"] == [
        note_text(note) for note in trace.notes
    ]
    assert json.loads(out.read_bytes())["displayTimeUnit"]
