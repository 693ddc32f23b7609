"""Devices of any type, ops that two lines show, and planes that lost the names of their events."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.analysis.result import Result
from tracehound.errors import TracehoundError
from tracehound.model.trace import Trace
from tracehound.store import load_trace, open_trace_files
from xspaces import Event, Line, Plane, Stat, space

MS = 10**9
HLO_OP = Stat("hlo_op", 5, "fusion.9")


def read(path: Path) -> Trace:
    return load_trace(open_trace_files([path]))


def analyze(path: Path, analysis: str) -> Result:
    return run_analysis(get_analysis(analysis), read(path), None, Options(None, ()))


def events(name: str, *stats: Stat) -> list[Event]:
    return [Event(name, 10 * MS * number, 7 * MS, list(stats)) for number in range(4)]


@pytest.mark.parametrize("device", ["XPU:0", "NPU:3", "METAL:0", "neuron:1", "FPGA_2:0", "GPU:0"])
@pytest.mark.parametrize("stream_names_ops", [False, True])
def test_a_device_of_any_type_runs_the_ops_of_its_lines_once(
    device: str,
    stream_names_ops: bool,  # noqa: FBT001, a parameter
    tmp_path: Path,
) -> None:
    lines = [
        Line("XLA Ops", events("fusion.9", HLO_OP), id=1),
        Line("Stream #7(Compute)", events("matmul", *([HLO_OP] if stream_names_ops else [])), id=7),
    ]
    path = tmp_path / "h0.xplane.pb"
    path.write_bytes(space(Plane(f"/device:{device}", lines), hostname="h0"))
    table = analyze(path, "ops").table
    assert table.select("name", "count", "self").rows() == [("fusion.9", 4, 28 * MS)]
    assert read(path).ranks["label"].to_list() == [device]
    assert analyze(path, "breakdown").table["compute"].to_list() == [28 * MS]


def test_a_device_with_a_line_of_ops_alone_is_one(tmp_path: Path) -> None:
    path = tmp_path / "h0.xplane.pb"
    path.write_bytes(space(Plane("/device:NPU:0", [Line("XLA Ops", events("fusion.9"))]), hostname="h0"))
    assert analyze(path, "ops").table.select("name", "count", "self").rows() == [("fusion.9", 4, 28 * MS)]


def test_planes_beside_the_devices_are_none(tmp_path: Path) -> None:
    planes = [Plane(f"/device:{name}", [Line("XLA Ops", events("a"))]) for name in ("CUSTOM:0", "CPU:0", "TPU:0")]
    path = tmp_path / "h0.xplane.pb"
    path.write_bytes(space(*planes))
    assert read(path).ranks["label"].to_list() == ["TPU:0"]


def test_a_plugin_that_shows_its_work_on_two_lines(shared: Path) -> None:
    folder = shared / "cases" / "x03-plugin-XPU"
    assert analyze(folder, "ops").table.select("name", "count", "self").rows() == [("fusion.9", 4, 28 * MS)]
    steps = analyze(folder, "steps").table
    assert steps.height == 4
    assert all(0.7 < share < 0.71 for share in steps["busy"].to_list())


@pytest.mark.parametrize("device", ["TPU:0", "GPU:0", "XPU:0"])
@pytest.mark.parametrize("kept", [0.62, 0.8, 0.97])
def test_events_whose_names_were_lost_are_in_no_table(device: str, kept: float, tmp_path: Path) -> None:
    names = [f"fusion.{number}" for number in range(40)]
    ops = [Event(name, 10 * MS * number, 7 * MS) for number, name in enumerate(names)]
    whole = space(Plane(f"/device:{device}", [Line("XLA Ops", ops)]))
    path = tmp_path / "h0.xplane.pb"
    path.write_bytes(whole[: int(len(whole) * kept)])
    table = analyze(path, "ops").table
    named = set(table["name"]) if table.height else set()
    assert named <= set(names)
    trace = read(path)
    (note,) = (note for note in trace.notes if note.code == "device_events_unnamed")
    assert note.count == 40 - len(named)


def test_of_hosts_in_part_nothing_is_told_that_was_lost(shared: Path) -> None:
    folder = shared / "cases" / "x04-partial-hosts"
    trace = read(folder)
    assert trace.ranks["label"].to_list() == ["TPU:0", "TPU:3"]
    assert analyze(folder, "ops").table["name"].to_list() == ["fusion.1", "all-reduce.2", "barrier-cores.1"]
    assert analyze(folder, "breakdown").table["rank"].to_list() == [0]
    assert {"device_events_unnamed", "hosts_without_device"} <= {note.code for note in trace.notes}


def test_a_profile_in_riegeli_records_is_named_with_what_to_do(shared: Path) -> None:
    folder = shared / "cases" / "x05-containers" / "riegeli"
    with pytest.raises(TracehoundError, match=r"no trace in this folder \(h0.xplane.riegeli: .*Riegeli"):
        read(folder)
    with pytest.raises(TracehoundError, match="Riegeli") as refused:
        read(folder / "h0.xplane.riegeli")
    assert "jax.profiler.start_trace" in refused.value.remedy


def test_the_network_of_a_slice_is_a_lane_of_its_device(tmp_path: Path) -> None:
    planes = [
        Plane("/device:TPU:1", [Line("XLA Ops", events("a"))]),
        Plane(
            "/device:CUSTOM:Megascale Trace",
            [Line("device_1", events("all-reduce.2_DCN")), Line("other", events("b"), id=2)],
        ),
    ]
    path = tmp_path / "h0.xplane.pb"
    path.write_bytes(space(*planes))
    lanes = read(path).lanes.filter(role="other")
    assert sorted(lanes.select("name", "rank").rows()) == [("network device_1", 0), ("network other", None)]
    overview = run_analysis(get_analysis("overview"), load_trace(open_trace_files([path])))
    assert overview.table.select("threads", "host_events").rows() == [(0, 0)]  # no lane of it is a thread of the host
