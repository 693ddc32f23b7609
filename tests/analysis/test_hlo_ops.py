"""HLO ops: what runs, what it costs, what bounds it; and ops laid together."""

from __future__ import annotations

from collections import defaultdict

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane, stream, thread
from short import first
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.analysis.hlo.hlo_op_groups import NO_SCOPE, OP_GROUPINGS, scope_parts
from tracehound.draw.notes import note_texts
from tracehound.model.file_facts import FileFacts, PlaneStats
from tracehound.model.trace import Trace, Window
from tracehound.model.units import format_share

OPS = Lane("XLA Ops", 0, "ops", work=True)
MODULES = Lane("XLA Modules", 0, "modules")
PEAK = ("peak", "100G,1GB/s")
"""A device on which a microsecond takes 100,000 operations or 1,000 bytes."""


def op(number: int, name: str, category: str = "loop fusion", **more: object) -> dict[str, object]:
    return {"op": number, "name": name, "category": category, "module": "jit_f", "program": -1, **more}


def run_hlo_ops(trace: Trace, *given: tuple[str, str], window: Window | None = None) -> Result:
    return run_analysis(get_analysis("hlo_ops"), trace, window, Options(given=given))


def rows_by_name(trace: Trace, *given: tuple[str, str], window: Window | None = None) -> dict[str, dict]:
    return {row["name"]: row for row in run_hlo_ops(trace, *given, window=window).table.rows(named=True)}


def single_op(
    trace_ops: list[dict[str, object]], *, kind: str = "op", length: int = 10, facts: FileFacts | None = None
) -> Trace:
    """Each op runs once, one after the other."""
    b = Building(ops=trace_ops, facts=facts or FileFacts(), format="xplane")
    for number, each in enumerate(trace_ops):
        b.event(OPS, str(each["name"]), number * length, (number + 1) * length, kind, op=each["op"])
    return b.trace()


def test_a_loop_and_what_runs_in_it() -> None:
    b = Building(ops=[op(0, "while", "while"), op(1, "dot", "convolution fusion", flops=500_000, bytes_accessed=2_000)])
    b.event(OPS, "while", 0, 100, "op", op=0)
    b.event(OPS, "dot", 10, 30, "op", op=1)
    b.event(OPS, "dot", 40, 60, "op", op=1)
    found = rows_by_name(b.trace(), PEAK)
    assert [(row["count"], row["self"] // US, row["total"] // US) for row in found.values()] == [
        (1, 60, 100),
        (2, 40, 40),
    ]
    dot = found["dot"]
    assert (dot["category"], dot["module"], dot["program"]) == ("convolution fusion", "jit_f", str(2**64 - 1))
    assert (dot["share"], dot["time_share"], dot["mean"]) == (0.4, 0.4, 20 * US)
    assert dot["rate"] == pytest.approx(1e6 / 40e-6)
    assert dot["bandwidth"] == dot["hbm_bandwidth"] == pytest.approx(4000 / 40e-6)
    assert dot["intensity"] == 250
    assert (dot["bound_by"], dot["above"], dot["estimated"], dot["kernels"]) == ("compute", None, False, None)
    assert found["while"]["rate"] is None
    assert found["while"]["bound_by"] is None


def test_ops_that_tie_come_in_the_order_of_their_programs() -> None:
    programs = [104, 101, 103, 105, 102, 100]
    trace = single_op([{**op(number, "dot"), "program": program} for number, program in enumerate(programs)])
    in_order = [str(program) for program in sorted(programs)]
    for way in ("op", "duplicates"):
        assert run_hlo_ops(trace, ("by", way)).table["program"].to_list() == in_order
    (event,) = run_hlo_ops(trace, ("by", "category")).table["event"]
    assert trace.event(event)["start"] == 50 * US, "that of program 100"


def test_ops_far_from_any_peak_are_told_of() -> None:
    near = op(0, "near", flops=900_000, bytes_accessed=100)  # in 10 us, of 1,000,000 and 10,000
    far = op(1, "far", flops=50_000, bytes_accessed=900)
    trace = single_op([near, far, op(2, "nothing"), op(3, "more")])
    told = (
        "below a tenth of every peak: 1 op, 25.0 % of the self time; their bound is only the resource "
        "that they use most"
    )
    assert told in note_texts(run_hlo_ops(trace, PEAK).notes)
    assert rows_by_name(trace, PEAK)["far"]["bound_by"] == "HBM"
    assert not [note for note in note_texts(run_hlo_ops(trace).notes) if "of any peak" in note]
    assert not [note for note in note_texts(run_hlo_ops(single_op([near]), PEAK).notes) if "of any peak" in note]
    sent = single_op([op(0, "all-reduce", "all-reduce", flops=10, bytes_accessed=10)], kind="collective")
    assert not [note for note in note_texts(run_hlo_ops(sent, PEAK).notes) if "of any peak" in note]


def test_a_device_is_idle_when_none_of_the_ops_that_run_at_once_runs() -> None:
    b = Building(ops=[op(0, "dot"), op(1, "dot.1"), op(2, "add")], format="xplane")
    b.event(OPS, "dot", 0, 60, "op", op=0)
    b.event(OPS, "dot.1", 10, 70, "op", op=1)
    b.event(OPS, "add", 90, 100, "op", op=2)
    told = note_texts(run_hlo_ops(b.trace()).notes)[1:3]
    assert told[0] == "idle 20.0 % of 100 us device time"
    assert told[1] == "ops overlap: their self times add up to 162 % of the time in which any runs"
    assert "idle 20.0 % of 100 us device time" in note_texts(run_analysis(get_analysis("ops"), b.trace()).notes)
    narrow = run_hlo_ops(b.trace(), window=Window(50 * US, 80 * US))
    assert note_texts(narrow.notes)[1] == "idle 33.3 % of 30.0 us device time"


def test_copies_on_a_stream_are_no_op_and_no_idleness_either() -> None:
    b = Building(ops=[op(0, "gemm")], format="xplane")
    for lane in (stream(), OPS):
        b.event(lane, "gemm", 0, 50, "kernel", op=0)
    b.event(stream(number=8), "Memcpy DtoD", 60, 90, "copy")
    b.event(stream(), "tail", 99, 100, "kernel")
    assert note_texts(run_hlo_ops(b.trace()).notes)[1] == "idle 19.0 % of 100 us device time; no HLO op runs in 50.0 %"


def test_an_op_runs_again_after_another_or_in_another_run_of_its_module() -> None:
    b = Building(ops=[op(0, "gemm"), op(1, "add")])
    for start in (0, 100):
        b.event(MODULES, "jit_f(1)", start, start + 50, "module")
        for lane in (stream(), OPS):
            for at, number in enumerate((0, 0, 1, 0)):
                b.event(lane, ("gemm", "add")[number], start + 10 * at, start + 10 * at + 9, "kernel", op=number)
    assert {name: (row["count"], row["kernels"]) for name, row in rows_by_name(b.trace()).items()} == {
        "gemm": (4, 6),
        "add": (2, 2),
    }


def test_kernels_of_one_op_are_one_execution_whatever_they_are_called() -> None:
    b = Building(ops=[op(0, "conv", "custom-call", estimated_flops=1_000_000)])
    for start in (0, 100):
        b.event(MODULES, "jit_f(1)", start, start + 50, "module")
        for lane, names in ((stream(), ("im2col", "gemm")), (OPS, ("conv", "conv"))):
            b.event(lane, names[0], start, start + 5, "kernel", op=0)
            b.event(lane, names[1], start + 5, start + 20, "kernel", op=0)
    b.event(stream(), "lost", 60, 80, "kernel")
    result = run_hlo_ops(b.trace(), PEAK)
    (row,) = result.table.rows(named=True)
    assert (row["name"], row["count"], row["kernels"], row["total"] // US) == ("conv", 2, 4, 40)
    assert row["rate"] == pytest.approx(2e6 / 40e-6), "operations are those of executions, not of each kernel"
    assert row["estimated"]
    assert any(
        note.startswith(
            "1 kernel without an HLO op, in no row: 20.0 us, 33.3 % of kernel time (kernels of command "
            "buffers name theirs with XLA_FLAGS=--xla_gpu_enable_command_buffer=)"
        )
        for note in note_texts(result.notes)
    )


def test_what_lies_on_the_host_is_not_bound_by_hbm() -> None:
    """XProf calls such a copy HBM-bound: its cost model counts the bytes at the near end of the link."""
    line = "%copy-done = f32[250]{0} copy-done((f32[250]{0}, f32[250]{0:S(5)}, u32[]{:S(2)}) %copy-start)"
    b = Building(
        ops=[
            op(0, "copy-start", "copy-start", text="%copy-start = (f32[250]{0}) copy-start(f32[250]{0:S(5)} %x)",
               bytes_accessed=1000, hbm_bytes=1000, host_bytes=1000),
            op(1, "copy-done", "copy-done", text=line, bytes_accessed=1000, hbm_bytes=1000, host_bytes=1000),
        ]
    )  # fmt: skip
    for start in (0, 100):
        b.event(OPS, "copy-start", start, start + 1, "transfer", op=0)
        b.event(OPS, "copy-done", start + 10, start + 20, "transfer", op=1)
    found = rows_by_name(b.trace(), PEAK)
    done, start = found["copy-done"], found["copy-start"]
    assert (done["bound_by"], done["hbm_bandwidth"], done["above"]) == ("host link", 0, None)
    assert done["bandwidth"] == pytest.approx(2000 / 40e-6), "bytes belong to the time from start to done"
    assert (start["bandwidth"], start["rate"], start["bound_by"]) == (None, None, None)
    assert start["count"] == 2


_STARTS = "%copy-start = (f32[250]{0}) copy-start(f32[250]{0:S(5)} %x)"
_ENDS = "%copy-done = f32[250]{0} copy-done((f32[250]{0}, f32[250]{0:S(5)}, u32[]{:S(2)}) %copy-start)"


def copied_from_the_host() -> Trace:
    """A copy of 1000 bytes from the host, in flight for 20 us, which the device awaits for 10 of them, and a fusion."""
    costs = {"bytes_accessed": 1000, "hbm_bytes": 1000, "host_bytes": 1000}
    b = Building(
        ops=[
            op(0, "copy-start", "copy-start", text=_STARTS, **costs),
            op(1, "copy-done", "copy-done", text=_ENDS, **costs),
            op(2, "fusion", bytes_accessed=100),
        ]
    )
    for name, start, end, number in (
        ("copy-start", 0, 1, 0), ("fusion", 1, 10, 2), ("copy-done", 10, 20, 1), ("fusion", 20, 30, 2),
    ):  # fmt: skip
        b.event(OPS, name, start, end, "op" if number == 2 else "transfer", op=number)
    return b.trace()


@pytest.mark.parametrize(("window", "waited"), first(2, [((0, 30), 10), ((5, 15), 5), ((12, 18), 6), ((15, 30), 5)]))
def test_a_copy_that_a_window_cuts_keeps_its_bandwidth_and_what_waits_for_it(
    window: tuple[int, int], waited: int
) -> None:
    seen = Window(window[0] * US, window[1] * US)
    found = run_hlo_ops(copied_from_the_host(), PEAK, window=seen)
    (done,) = found.table.filter(pl.col("name") == "copy-done").rows(named=True)
    assert (done["self"], done["bound_by"]) == (waited * US, "host link")
    assert done["bandwidth"] == pytest.approx(1000 / 20e-6)
    part = format_share(waited / (window[1] - window[0]))
    told = note_texts(found.notes).index(f"{part} of the ops' self time waits for host memory")
    assert note_texts(found.notes)[told + 1].endswith(
        "bandwidth of asynchronous copies is over the time from start to done, which includes queueing; "
        "transfers has the speed of links"
    )
    assert run_hlo_ops(copied_from_the_host(), PEAK, ("by", "category"), window=seen).table.filter(
        pl.col("name") == "copy-done"
    )["bandwidth"].to_list() == [pytest.approx(1000 / 20e-6)]


@pytest.mark.parametrize("window", [(0, 8), (3, 7)])
def test_a_copy_whose_end_lies_after_the_window_has_a_bandwidth_and_no_execution(window: tuple[int, int]) -> None:
    found = rows_by_name(copied_from_the_host(), PEAK, window=Window(window[0] * US, window[1] * US))
    done = found["copy-done"]
    assert (done["count"], done["self"], done["total"], done["bound_by"]) == (0, 0, 0, "host link")
    assert done["bandwidth"] == pytest.approx(1000 / 20e-6)
    assert copied_from_the_host().event(done["event"])["name"] == "copy-done"


@given(st.lists(st.tuples(*[st.integers(0, 5)] * 3), min_size=1, max_size=6), st.integers(0, 60), st.integers(1, 60))
def test_the_parts_of_copies_in_a_window_against_a_slow_sum(
    copies: list[tuple[int, int, int]], low: int, length: int
) -> None:
    told = [
        op(0, "copy-start", "copy-start", text=_STARTS),
        op(1, "copy-done", "copy-done", text=_ENDS, bytes_accessed=1000),
    ]
    b = Building(ops=told, unit=1)
    at, high, flight, moved, ran = 0, low + length, 0, 0.0, False
    for started, between, ended in copies:
        until = at + started + between + ended + 1
        b.event(OPS, "copy-start", at, at + started, "transfer", op=0)
        b.event(OPS, "copy-done", until - ended - 1, until, "transfer", op=1)
        inside = max(0, min(until, high) - max(at, low))
        flight, moved = flight + inside, moved + 1000 * inside / (until - at)
        halves = ((at, max(at + started, at + 1)), (until - ended - 1, until))  # one of no length is at its instant
        ran = ran or any(max(a, low) < min(z, high) for a, z in halves)
        at = until
    found = rows_by_name(b.trace(), window=Window(low, high))
    assert ("copy-done" in found) == (ran and flight > 0)
    if "copy-done" in found:
        assert found["copy-done"]["bandwidth"] == pytest.approx(moved / flight * 1e12)


def test_what_copies_move_while_others_run_is_no_rate_of_a_group() -> None:
    """Two copies of 1000 bytes, 30 us each from start to done, that a fusion of 20 us hides."""
    line = "%copy-done = f32[250]{0} copy-done((f32[250]{0}, f32[250]{0}) %copy-start)"
    b = Building(
        ops=[
            op(0, "copy-start", "copy-start", text="%copy-start = (f32[250]{0}) copy-start(f32[250]{0} %x)"),
            op(1, "copy-done", "copy-done", text=line, bytes_accessed=1000),
            op(2, "fusion", "loop fusion", bytes_accessed=400, flops=800),
        ]
    )
    for start in (0, 100):
        b.event(OPS, "copy-start", start, start + 5, "copy", op=0)
        b.event(OPS, "fusion", start + 5, start + 25, "op", op=2)
        b.event(OPS, "copy-done", start + 25, start + 30, "copy", op=1)
    trace = b.trace()
    kinds, programs, ops = (rows_by_name(trace, ("by", way)) for way in ("category", "program", "op"))
    assert kinds["copy-done"]["bandwidth"] == ops["copy-done"]["bandwidth"] == pytest.approx(2000 / 60e-6)
    assert kinds["copy-start"]["bandwidth"] is None
    assert kinds["loop fusion"]["bandwidth"] == pytest.approx(800 / 40e-6)
    (program,) = programs.values()
    assert program["self"] == 60 * US
    assert (program["bandwidth"], program["rate"]) == (pytest.approx(800 / 60e-6), pytest.approx(1600 / 60e-6))
    assert program["intensity"] == 2


def test_what_a_loop_counts_of_the_ops_inside_is_counted_once_in_a_group() -> None:
    loop = op(0, "while", "while", flops=2_000_000, bytes_accessed=40_000)
    b = Building(ops=[loop, op(1, "dot", flops=1_000_000, bytes_accessed=20_000)])
    b.event(OPS, "while", 0, 100, "op", op=0)
    for start in (10, 50):
        b.event(OPS, "dot", start, start + 40, "op", op=1)
    trace = b.trace()
    for way in ("program", "scope", "source", "bound", "rematerialized"):
        (row,) = rows_by_name(trace, ("by", way), PEAK).values()
        assert (row["rate"], row["bandwidth"]) == (pytest.approx(2e6 / 100e-6), pytest.approx(40_000 / 100e-6)), way
        assert row["intensity"] == 50
    kinds = rows_by_name(trace, ("by", "category"), PEAK)
    assert [kinds[name]["rate"] for name in ("while", "loop fusion")] == [pytest.approx(2e10), pytest.approx(2.5e10)]


def test_a_done_without_its_start_has_no_bandwidth() -> None:
    line = "%copy-done = f32[250]{0} copy-done((f32[250]{0}, f32[250]{0}) %copy-start)"
    found = rows_by_name(
        single_op([op(0, "copy-done", "copy-done", text=line, bytes_accessed=1000)], kind="copy"), PEAK
    )
    assert found["copy-done"]["bandwidth"] is None


def test_a_fusion_that_reads_the_host_s_memory_is_bound_by_the_link() -> None:
    found = rows_by_name(
        single_op([op(0, "add", bytes_accessed=2_000_000, hbm_bytes=2_000_000, host_bytes=1_000_000)]), ("peak", "H100")
    )
    assert found["add"]["bound_by"] == "host link"
    assert found["add"]["hbm_bandwidth"] == pytest.approx(1e6 / 10e-6)


def test_collectives_are_bound_by_the_interconnect() -> None:
    found = rows_by_name(
        single_op([op(0, "all-reduce", "all-reduce", bytes_accessed=900, flops=10)], kind="collective"), PEAK
    )
    assert found["all-reduce"]["bound_by"] == "interconnect"


def test_memories_on_the_chip_bound_too() -> None:
    stated = PlaneStats(
        peak_teraflops_per_second=0.1, peak_hbm_bw_gigabytes_per_second=1.0, peak_vmem_rd_bw_gigabytes_per_second=10.0
    )
    made = [op(0, "add", bytes_accessed=90_000, hbm_bytes=1_000, vmem_read=89_000, vmem_written=10**9)]
    found = rows_by_name(single_op(made, facts=FileFacts(planes={"/device:GPU 0": stated})))
    assert found["add"]["bound_by"] == "VMEM read"
    assert found["add"]["hbm_bandwidth"] == pytest.approx(1e8)


def test_what_is_above_the_peak_is_marked() -> None:
    made = [op(0, "flash", "custom-call", flops=10**9, bytes_accessed=20_000), op(1, "add", bytes_accessed=10_000)]
    found = rows_by_name(single_op(made), PEAK)
    assert (found["flash"]["above"], found["add"]["above"]) == ("compute, HBM", None)


def test_a_custom_call_that_counts_nothing_is_estimated_and_other_ops_are_not() -> None:
    made = [
        op(0, "fmha", "custom-call", flops=0, bytes_accessed=0, estimated_flops=700, estimated_bytes=100),
        op(1, "copy", "data formatting", flops=0, bytes_accessed=50, estimated_flops=999, estimated_bytes=999),
        op(2, "mystery", "custom-call"),
    ]
    found = rows_by_name(single_op(made), PEAK)
    assert (found["fmha"]["intensity"], found["fmha"]["estimated"]) == (7, True)
    assert (found["copy"]["rate"], found["copy"]["estimated"]) == (0, False)
    assert (found["mystery"]["rate"], found["mystery"]["bandwidth"], found["mystery"]["bound_by"]) == (None, None, None)


def test_an_estimate_beyond_the_peak_is_none() -> None:
    """A call may read only a part of its operands: pages of a cache, of which there are many."""
    made = [
        op(
            0,
            "paged",
            "custom-call",
            flops=0,
            bytes_accessed=0,
            hbm_bytes=0,
            estimated_flops=10**9,
            estimated_bytes=500,
        )
    ]
    (row,) = rows_by_name(single_op(made), PEAK).values()
    assert (row["rate"], row["bandwidth"], row["above"], row["bound_by"]) == (None, pytest.approx(5e7), None, "HBM")
    made[0] |= {"estimated_bytes": 10**6}
    (row,) = rows_by_name(single_op(made), PEAK).values()
    assert (row["rate"], row["bandwidth"], row["above"], row["bound_by"], row["estimated"]) == (
        None,
        None,
        None,
        None,
        False,
    )


def test_without_a_peak_nothing_is_said_of_bounds() -> None:
    result = run_hlo_ops(single_op([op(0, "add", flops=10, bytes_accessed=10)]))
    assert result.table["bound_by"].to_list() == [None]
    assert any(
        ("the peaks of the device are unknown, so bounds are empty: set them with --peak (v6e, H100, 989T,3.35TB/s)")
        in note
        for note in note_texts(result.notes)
    )


def test_a_window_cuts_time_and_amounts_alike() -> None:
    trace = single_op([op(0, "a", bytes_accessed=1000), op(1, "b", bytes_accessed=1000)])
    found = rows_by_name(trace, PEAK, window=Window(5 * US, 15 * US))
    assert [(row["total"] // US, row["bandwidth"]) for row in found.values()] == [(5, pytest.approx(1e8))] * 2


SCOPED = [
    op(0, "a", framework="jit(f)/layer0/dot", source="m.py:1", flops=3),
    op(1, "b.remat2", framework="jit(f)/layer0/add", source="m.py:1", flops=4),
    op(2, "c", framework="jit(f)/layer1/transpose(jvp(x/y))/dot", source="m.py:9"),
    op(3, "d", "copy"),
]


def ops_in_scopes() -> Trace:
    """Of different lengths."""
    b = Building(ops=SCOPED)
    for number, length in enumerate((10, 30, 20, 5)):
        b.event(OPS, str(SCOPED[number]["name"]), 100 * number, 100 * number + length, "op", op=number)
    return b.trace()


def test_scopes_are_a_tree_depth_first_whose_rows_hold_all_below() -> None:
    found = run_hlo_ops(ops_in_scopes(), ("by", "scope")).table
    assert found.select("depth", "name", "ops", pl.col("self") // US).rows() == [
        (0, "jit(f)", 3, 60), (1, "layer0", 2, 40), (2, "add", 1, 30), (2, "dot", 1, 10),
        (1, "layer1", 1, 20), (2, "transpose(jvp(x/y))", 1, 20), (3, "dot", 1, 20), (0, NO_SCOPE, 1, 5),
    ]  # fmt: skip


def test_scopes_deeper_than_recursion_goes_are_a_tree() -> None:
    deep = "/".join(f"layer{depth}" for depth in range(3_000))
    b = Building(ops=[op(0, "dot.1", "dot", framework=deep)])
    b.event(OPS, "dot.1", 0, 10, "op", op=0)
    found = run_hlo_ops(b.trace(), ("by", "scope")).table
    assert found["depth"].to_list() == list(range(3_000))
    assert found["self"].unique().to_list() == [10 * US]


def test_of_a_tree_the_heaviest_rows_are_shown_with_what_is_above_them() -> None:
    found = run_analysis(get_analysis("hlo_ops"), ops_in_scopes(), None, Options(3, (("by", "scope"),)))
    assert (found.total, found.table["name"].to_list()) == (8, ["jit(f)", "layer0", "add"])


def test_ops_laid_together() -> None:
    trace = single_op(SCOPED)
    assert {name: row["ops"] for name, row in rows_by_name(trace, ("by", "source")).items()} == {
        "m.py:1": 2, "m.py:9": 1, "(not known)": 1,
    }  # fmt: skip
    assert {name: row["ops"] for name, row in rows_by_name(trace, ("by", "rematerialized")).items()} == {
        "computed once": 3, "rematerialized": 1,
    }  # fmt: skip
    assert rows_by_name(trace, ("by", "program"))[f"jit_f({2**64 - 1})"]["self"] == 40 * US
    assert set(rows_by_name(trace, ("by", "framework"))) == {"d", *(str(each["framework"]) for each in SCOPED[:3])}
    layers = rows_by_name(trace, ("by", "source"))["m.py:1"]
    assert layers["rate"] == pytest.approx(7 / 20e-6)


def test_duplicates_are_told_by_the_compiler_or_by_their_lines() -> None:
    told = [op(0, "add"), op(1, "add.1", twin="add"), op(2, "add.2", twin="add"), op(3, "mul")]
    assert set(rows_by_name(single_op(told), ("by", "duplicates"))) == {"add and its 2 duplicates", "mul"}
    lines = [
        op(n, f"fusion.{n}", text=f"%fusion.{n} = f32[{size}]{{0}} fusion(%p.{n}), kind=kLoop, calls=%c.{n}")
        for n, size in enumerate((8, 8, 9))
    ]
    assert set(rows_by_name(single_op(lines), ("by", "duplicates"))) == {"fusion.0 and its duplicate", "fusion.2"}


@pytest.mark.parametrize(("path", "parts"), [
    ("jit(f)/a/b", ["jit(f)", "a", "b"]), ("f(a/b)/c", ["f(a/b)", "c"]), ("", [NO_SCOPE]), ("//", [NO_SCOPE]),
    (")/(", [")", "("]), ("a\0b/c", ["a\0b", "c"]),
])  # fmt: skip
def test_the_scopes_of_a_name(path: str, parts: list[str]) -> None:
    assert scope_parts(path) == parts


def test_a_trace_without_hlo_ops_says_who_has_them() -> None:
    b = Building()
    b.event(stream(), "gemm", 0, 5)
    result = run_hlo_ops(b.trace())
    assert result.table.is_empty()
    assert (
        "no HLO ops: XLA profiles record them (on CPUs with ProfileOptions.host_tracer_level=2 or "
        "more); see ops for kernels and operators"
    ) in note_texts(result.notes)[0]


paths = st.lists(st.sampled_from(["a", "b", "c(d/e)"]), max_size=3).map("/".join)


DRAWN = st.lists(st.tuples(paths, st.sampled_from("xyz"), st.integers(0, 50)), min_size=1, max_size=12)
"""Of each op its scope, its name, and its length in us."""


def in_scopes(drawn: list[tuple[str, str, int]]) -> Trace:
    made = [op(n, f"{name}.{n}", name, framework=path or None, source=name) for n, (path, name, _) in enumerate(drawn)]
    b = Building(ops=made)
    for number, (_, _, length) in enumerate(drawn):
        b.event(OPS, str(made[number]["name"]), 100 * number, 100 * number + length, "op", op=number)
    return b.trace()


@pytest.mark.thorough
@given(DRAWN)
def test_every_way_to_group_keeps_the_time(drawn: list[tuple[str, str, int]]) -> None:
    trace = in_scopes(drawn)
    whole = sum(length for *_, length in drawn) * US
    for way in OP_GROUPINGS:
        found = run_hlo_ops(trace, ("by", way)).table
        roots = found.filter(pl.col("depth").fill_null(0) == 0)
        assert (roots["self"].sum(), roots["ops"].sum()) == (whole, len(drawn))


@given(DRAWN)
def test_scopes_against_a_slow_sum(drawn: list[tuple[str, str, int]]) -> None:
    slow = defaultdict[tuple[str, ...], int](int)
    for path, _, length in drawn:
        parts = scope_parts(path)
        for depth in range(len(parts)):
            slow[tuple(parts[: depth + 1])] += length * US
    tree = run_hlo_ops(in_scopes(drawn), ("by", "scope")).table
    where: list[str] = []
    for name, depth, own in tree.select("name", "depth", "self").iter_rows():
        where[depth:] = [name]
        assert slow.pop(tuple(where)) == own
    assert not slow


def test_kernels_of_a_gpu_that_name_no_op_are_the_reason_where_there_is_none() -> None:
    b = Building(format="xplane")
    b.event(stream(), "loop_add_fusion", 0, 10)
    assert note_texts(run_hlo_ops(b.trace()).notes) == ("no GPU kernel names an HLO op: see ops and kernels",)
    b.event(thread(), "jit_f:XLA GPU module", 0, 5, "runtime")
    (note,) = note_texts(run_hlo_ops(b.trace()).notes)
    assert note.startswith(
        "no GPU kernel names an HLO op: see ops and kernels (kernels of command buffers name theirs with XLA_FLAGS="
    )
