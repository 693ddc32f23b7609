"""Time of a TPU by activity: all analyses of one profile agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest
from msgspec.structs import replace

from tracehound.analysis import Result, get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace
from tracehound.store import load_trace, open_trace_files
from xspaces import Event, Line, Plane, Stat, space

US = 1_000_000
"""Picoseconds in a microsecond."""


class Op(NamedTuple):
    """An HLO op of a TPU, and when it runs in every step of 1 ms; us."""

    name: str
    category: str
    line: str
    start: int
    end: int


Opened = Callable[..., Trace]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Opens a profile of these planes."""

    def read(*planes: Plane) -> Trace:
        path = tmp_path / "host0.xplane.pb"
        path.write_bytes(space(Plane("/host:CPU", [Line("main/1", [Event("prepare", 0, US)])]), *planes))
        return load_trace(open_trace_files([path]))

    return read


def core(ops: Sequence[Op], number: int = 0, steps: int = 2) -> Plane:
    """A TPU that runs these ops in every step."""
    whole = {op.name: f"%{op.name} = {op.line}" for op in ops}
    lines = (
        ("Steps", [Event(str(step), step * 1000 * US, 1000 * US) for step in range(steps)]),
        ("XLA Modules", [Event("jit_f(5)", step * 1000 * US, 900 * US) for step in range(steps)]),
        ("XLA Ops", [Event(whole[op.name], (step * 1000 + op.start) * US, (op.end - op.start) * US)
                     for step in range(steps) for op in ops]),
    )  # fmt: skip
    return Plane(
        f"/device:TPU:{number}",
        [Line(name, events, id=at + 1) for at, (name, events) in enumerate(lines)],
        metadata_stats={whole[op.name]: [Stat("hlo_category", 5, op.category)] for op in ops},
        displayed={whole[op.name]: op.name for op in ops},
    )


def counting(late: int, first: int, *, shift: int) -> list[Plane]:
    """Two TPUs that run a program every 1 ms, from the run `first` on, the second beginning its all-reduces later; us.

    The second TPU counts `shift` executions more.
    """
    whole = "%all-reduce.2 = f32[1024]{0} all-reduce(f32[1024]{0} %x), replica_groups={{0,1,2,3}}"
    planes = []
    for number in (0, 1):
        runs = [Stat("run_id", 3, 100 + run + number * shift) for run in range(first, 8)]
        at = [(run * 1000 + 500) * US for run in range(first, 8)]
        modules = [Event("jit_f(5)", start - 300 * US, 800 * US, [run]) for start, run in zip(at, runs, strict=True)]
        reduces = [Event(whole, start + number * late * US, (300 - number * late) * US) for start in at]
        lines = [Line("XLA Modules", modules, id=1), Line("XLA Ops", reduces, id=2)]
        said = {whole: [Stat("hlo_category", 5, "all-reduce")]}
        planes.append(Plane(f"/device:TPU:{number}", lines, metadata_stats=said, displayed={whole: "all-reduce.2"}))
    return planes


def hosts(folder: Path, shift: int) -> Trace:
    """Two hosts of two TPUs; the first execution of the second host was not recorded, and its clock is 1 ms slow."""
    for host, (first, clock) in enumerate(((0, 10_000_000), (1, 9_000_000))):
        session = Plane("Task Environment", stats=[Stat("profile_start_time", 3, 1_700_000_000_000_000_000 + clock)])
        data = space(*counting(20, first, shift=shift), session, hostname=f"h{host}")
        (folder / f"h{host}.xplane.pb").write_bytes(data)
    return load_trace(open_trace_files([folder]))


def test_collectives_of_one_run_are_one_however_far_the_clocks_are_apart(tmp_path: Path) -> None:
    """Only the runs tell that the clocks are apart by as much as a step lasts."""
    clocks = result(hosts(tmp_path, shift=0), "clocks")
    assert clocks.table["shift"].to_list() == [0, 0, 1000 * US, 1000 * US]
    assert not [note for note in note_texts(clocks.notes) if "by their order" in note]


@pytest.mark.thorough
def test_runs_that_tpus_count_each_for_themselves_match_nothing(tmp_path: Path) -> None:
    """Real TPUs do: the first also runs the small programs of its process, and is ahead of the rest."""
    trace = hosts(tmp_path, shift=600)
    calls = result(trace, "collectives")
    assert calls.table["matched"].to_list() == [30]
    assert any(
        "30 calls matched by order (each device numbers its executions on its own)" in note
        for note in note_texts(calls.notes)
    )
    trace = hosts(tmp_path, shift=1)
    assert result(trace, "collectives").table["matched"].to_list() == [30]


def result(trace: Trace, analysis: str) -> Result:
    return run_analysis(get_analysis(analysis), trace)


def time_by_kind(trace: Trace) -> dict[str, int]:
    """Time of the device in a step by activity, us: from breakdown, which must agree with duty_cycle and step_time."""
    row = result(trace, "breakdown").table.row(0, named=True)
    duty = result(trace, "duty_cycle").table.row(0, named=True)
    step = result(trace, "step_time").table.row(0, named=True)
    parts = {"compute": row["compute"], "collectives": row["communication"], "copies": row["copy"]}
    copies = ("input", "output", "device_to_device")
    steps = result(trace, "step_time").table.height
    for told, times in ((duty, 1), (step, steps)):
        also = {"compute": told["compute"], "collectives": told["collectives"], "copies": sum(map(told.get, copies))}
        assert {name: time * times for name, time in also.items()} == parts
    return {name: time // steps // US for name, time in parts.items()}


FUSION = "f32[4]{0} fusion(f32[4]{0} %p), kind=kLoop, calls=%c"
SCATTERED = "((f32[2048]{0}), f32[1024]{0})"


@pytest.mark.parametrize(("start", "done"), [
    ("async-start(f32[2048]{0} %x), calls=%async", "async-done"),
    ("reduce-scatter-start(f32[2048]{0} %x), channel_id=3, replica_groups={{0,1}}", "reduce-scatter-done"),
])  # fmt: skip
def test_a_collective_in_the_generic_asynchronous_form_is_one(opened: Opened, start: str, done: str) -> None:
    trace = opened(
        core(
            [
                Op("reduce-scatter-start.2", "async-start", f"{SCATTERED} {start}", 0, 1),
                Op("fusion.1", "loop fusion", FUSION, 1, 200),
                Op("reduce-scatter-done.2", "async-done",
                   f"f32[1024]{{0}} {done}({SCATTERED} %reduce-scatter-start.2)", 200, 500),
            ]
        )
    )  # fmt: skip
    assert time_by_kind(trace) == {"compute": 199, "collectives": 301, "copies": 0}
    overlap = result(trace, "async_overlap").table.row(0, named=True)
    assert (overlap["kind"], overlap["exposed"] // US, overlap["in_flight"] // US) == ("reduce-scatter", 602, 1000)
    called = result(trace, "collectives").table.row(0, named=True)
    assert (called["collective"], called["count"], called["message"]) == ("reduce_scatter", 2, 8192)


def test_sends_between_devices_are_communication(opened: Opened) -> None:
    sent = "(f32[1024]{0}, u32[], token[])"
    pipeline = [
        Op("send.2", "send", f"{sent} send(f32[1024]{{0}} %x, token[] %t), channel_id=4", 0, 1),
        Op("fusion.1", "loop fusion", FUSION, 1, 200),
        Op("send-done.2", "send-done", f"token[] send-done({sent} %send.2), channel_id=4", 200, 500),
    ]
    trace = opened(core(pipeline))
    assert time_by_kind(trace) == {"compute": 199, "collectives": 301, "copies": 0}
    called = result(trace, "collectives").table.row(0, named=True)
    assert (called["collective"], called["count"], called["message"]) == ("send", 2, 4096)


SLICES = (
    'channel_id=5, is_host_transfer=true, frontend_attributes={_xla_host_transfer_handler_name="xla_megascale_runtime",'
    '_xla_host_transfer_rendezvous="psum.7_0",_xla_megascale_transfer_type="ALL_REDUCE"}'
)


def test_what_slices_exchange_through_their_hosts_is_communication(opened: Opened) -> None:
    """A psum over DCN: XLA calls its halves transfers to and from the host, where the runtime takes them on."""
    buffer = "(f32[1024]{0}, u32[]{:S(2)}, token[])"
    psum = [
        Op("send.2", "host send", f"{buffer} send(f32[1024]{{0}} %x, token[] %t), {SLICES}", 0, 1),
        Op("recv.2", "host recv", f"{buffer} recv(token[] %t), {SLICES}", 1, 2),
        Op("fusion.1", "loop fusion", FUSION, 2, 200),
        Op("send-done.2", "host send-done", f"token[] send-done({buffer} %send.2), {SLICES}", 200, 300),
        Op("recv-done.2", "host recv-done", f"(f32[1024], token[]) recv-done({buffer} %recv.2), {SLICES}", 300, 500),
    ]
    trace = opened(core(psum))
    assert time_by_kind(trace) == {"compute": 198, "collectives": 302, "copies": 0}
    assert result(trace, "transfers").table.is_empty()
    called = result(trace, "collectives").table
    assert called.select("name", "collective", "count", "message").rows() == [
        ("recv.2", "all_reduce recv", 2, 4096), ("send.2", "all_reduce send", 2, 4096),
    ]  # fmt: skip
    assert called["bus"].null_count() == 2, "between which devices it goes nothing tells"


def test_copies_between_memories_are_copies_whatever_their_category(opened: Opened) -> None:
    fetched = "((f32[1024]{0}), f32[256]{0:S(1)}, s32[]{:S(2)})"
    trace = opened(
        core(
            [
                Op("slice-start.2", "async-start", f"{fetched} async-start(f32[1024]{{0}} %x), calls=%async", 0, 1),
                Op("fusion.1", "loop fusion", FUSION, 1, 200),
                Op("slice-done.2", "async-done", f"f32[256]{{0:S(1)}} async-done({fetched} %slice-start.2)", 200, 500),
                Op("copy.3", "data formatting", "f32[4]{0:S(1)} copy(f32[4]{0} %p)", 500, 510),
                Op("copy.4", "data formatting", "f32[2,2]{0,1} copy(f32[2,2]{1,0} %p)", 510, 530),
            ]
        )
    )
    assert time_by_kind(trace) == {"compute": 219, "collectives": 0, "copies": 311}
    transfers = result(trace, "transfers").table.row(0, named=True)
    assert (transfers["copies"], transfers["bytes"], transfers["exposed"] // US) == (4, 2 * (1024 + 16), 2 * 311)


SPARSE = {"Sparse Core Modules": ("jit_f(5)", 50, 600), "Sparse Core Ops": ("gather.9", 100, 500)}


def test_what_sparse_cores_execute_runs_beside_the_ops_of_the_device(opened: Opened) -> None:
    beside = [
        Line(name, [Event(what, (step * 1000 + start) * US, (end - start) * US) for step in range(2)], id=at + 1)
        for at, (name, (what, start, end)) in enumerate(SPARSE.items())
    ]
    trace = opened(
        core([Op("fusion.1", "loop fusion", FUSION, 0, 200), Op("fusion.2", "loop fusion", FUSION, 400, 900)]),
        Plane("/device:TPU:0 SparseCore 0", beside),
    )
    assert time_by_kind(trace) == {"compute": 700, "collectives": 0, "copies": 0}
    assert result(trace, "breakdown").table["idle"].to_list() == [500 * US]
    for analysis in ("ops", "hlo_ops"):
        table = result(trace, analysis)
        rows = [("fusion.2", None, 1000), ("gather.9", "SparseCore", 800), ("fusion.1", None, 400)]
        assert table.table.select("name", "core", pl.col("self") // US).rows() == rows
        assert any(note.startswith("idle 26.3 %") for note in note_texts(table.notes))
    assert result(trace, "programs").table["count"].to_list() == [2]
    assert result(trace, "duty_cycle").table["on_duty"].to_list() == [2 * 900 * US]
    assert all(result(trace, analysis).table.is_empty() for analysis in ("collectives", "async_overlap"))


CUSTOM = "bf16[1024]{0} custom-call(%x)"
TENSOR_CORE = [Op("fusion.1", "loop fusion", FUSION, 0, 200), Op("fusion.2", "loop fusion", FUSION, 400, 900)]


def sparse_core(ops: Sequence[Op], number: int = 0, line: str = "Sparse Core Ops", steps: int = 2) -> Plane:
    """A SparseCore of the first TPU that runs these ops in every step."""
    tensor_core = core(ops, steps=steps)
    (executed,) = (one for one in tensor_core.lines if one.name == "XLA Ops")
    return replace(tensor_core, name=f"/device:TPU:0 SparseCore {number}", lines=[replace(executed, name=line)])


def flights(trace: Trace) -> list[tuple[str, str | None, int, int, int]]:
    """The rows of async_overlap: kind, core, count, and exposed and hidden time in us."""
    table = result(trace, "async_overlap").table
    return table.select("kind", "core", "count", pl.col("exposed", "hidden") // US).rows()


@pytest.mark.parametrize(
    ("name", "category", "text", "line"),
    [
        ("all-gather.7", "all-gather", "bf16[1024]{0} all-gather(%x)", "Sparse Core Ops"),
        ("offloaded_all_gather", "custom-call", CUSTOM, "XLA Ops"),
        ("all-gather-offload.7", "", "", "Sparse Core Ops"),
    ],
)
def test_collectives_of_sparse_cores_are_hidden_while_the_tensor_core_works(
    opened: Opened, name: str, category: str, text: str, line: str
) -> None:
    trace = opened(
        core(TENSOR_CORE),
        sparse_core([Op(name, category, text, 100, 950)], 0, line),
        sparse_core([Op(name, category, text, 300, 600), Op("gather.9", "gather", CUSTOM, 600, 900)], 1, line),
    )
    whole = range(100, 950)  # us of a step in which one of both is in flight
    works = [any(op.start <= at < op.end for op in TENSOR_CORE) for at in whole]
    assert flights(trace) == [("all-gather", "SparseCore", 4, 2 * works.count(False), 2 * works.count(True))]
    (called,) = result(trace, "collectives").table.rows(named=True)
    assert (called["collective"], called["count"], called["total"] // US) == ("all_gather", 4, 2 * (850 + 300))
    ran = result(trace, "ops").table.filter(pl.col("core") == "SparseCore").select("count", pl.col("self") // US)
    assert ran.rows() == [(4, 2 * 1150), (2, 2 * 300)]
    assert time_by_kind(trace) == {"compute": 700, "collectives": 0, "copies": 0}


def test_a_collective_that_the_tensor_core_starts_and_awaits_is_one_call(opened: Opened) -> None:
    text = "bf16[1024]{0} all-gather-done(%all-gather-start.7)"
    halves = [
        Op("all-gather-start.7", "all-gather-start", "(bf16[8]{0}, bf16[1024]{0}) all-gather-start(%x)", 200, 210),
        Op("all-gather-done.7", "all-gather-done", text, 900, 950),
    ]
    offloaded = Op("all-gather.7", "all-gather", "bf16[1024]{0} all-gather(%x)", 250, 940)
    trace = opened(core([*TENSOR_CORE, *halves]), sparse_core([offloaded]))
    assert flights(trace) == [("all-gather", None, 2, 2 * 60, 2 * 690)]
    assert result(trace, "collectives").table.select("count", pl.col("total") // US).rows() == [(2, 2 * 60)]
    assert "all-gather.7" in result(trace, "ops").table["name"].to_list()


def test_sparse_cores_alone_have_ops(opened: Opened) -> None:
    trace = opened(sparse_core([Op("all-gather.7", "all-gather", "bf16[1024]{0} all-gather(%x)", 0, 500)]))
    assert flights(trace) == [("all-gather", "SparseCore", 2, 1000, 0)]
    for analysis in ("ops", "hlo_ops"):
        assert result(trace, analysis).table.select("name", pl.col("self") // US).rows() == [("all-gather.7", 1000)]


def test_offloaded_collectives_of_a_public_report(shared: Path) -> None:
    trace = load_trace(open_trace_files([shared / "cases" / "x02-sparsecore-megascale"]))
    own = [("all-reduce", None, 4, 10_000, 0)]
    assert flights(trace) == [*own, ("all-gather", "SparseCore", 4, 0, 28_000), *own]
    totals = dict(result(trace, "collectives").table.select("name", pl.col("total") // US).iter_rows())
    assert totals == {"all-gather-offload.7": 28_000, "all-reduce.2": 20_000}
    assert [one["idle"] // US for one in result(trace, "breakdown").table.rows(named=True)] == [1800, 1800]
    exposed = result(trace, "findings").table.row(0, named=True)
    assert exposed["finding"].startswith("no computation overlaps all_reduce"), "the all-gather is hidden"
    assert "45.8 % of all communication is hidden" in exposed["evidence"]
