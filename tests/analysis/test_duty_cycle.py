"""Duty cycle and the parts of a device's time: stories on TPU, GPU and CPU, and all of it against instants."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from building import US, Building, Lane, copied_by, stream, thread
from tracehound.analysis import Result, get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.draw.text_table import table_lines
from tracehound.model.trace import Trace, Window
from tracehound.model.units import CELL_DIGITS, format_duration, format_share

CORE = Lane("XLA Ops", 0, "ops", work=True)
MODULES = Lane("XLA Modules", 0, "modules")
PARTS = ("compute", "collectives", "input", "output", "device_to_device", "idle")


def op(number: int, name: str, category: str, text: str = "") -> dict[str, object]:
    return {
        "op": number, "name": name, "category": category, "module": "jit_f", "program": 1, "framework": None,
        "source": None, "text": f"%{name} = {text}" if text else None, "flops": None, "bytes_accessed": None,
    }  # fmt: skip


HOST = "(f32[4]{0}, f32[4]{0:S(5)}, u32[])"
VMEM = "((f32[8]{0}), f32[4]{0:S(1)}, s32[])"
OPS = [
    op(0, "infeed", "infeed"),
    op(1, "copy-start", "copy-start", f"{HOST} copy-start(f32[4]{{0:S(5)}} %a)"),
    op(2, "copy-done", "copy-done", f"f32[4]{{0}} copy-done({HOST} %copy-start)"),
    op(3, "slice-start", "async-start", f"{VMEM} async-start(f32[8]{{0}} %a), calls=%c"),
    op(4, "slice-done", "async-done", f"f32[4]{{0:S(1)}} async-done({VMEM} %slice-start)"),
    op(5, "outfeed", "outfeed"),
    op(6, "megacore_fusion", "megacore fusion"),
]


def run_duty_cycle(trace: Trace, window: Window | None = None) -> Result:
    return run_analysis(get_analysis("duty_cycle"), trace, window)


def parts(result: Result) -> list[int]:
    return [value // US for value in result.table.select(PARTS).row(0)]


def test_waits_are_on_duty_and_feeds_are_not() -> None:
    b = Building(format="xplane", ops=OPS)
    b.event(MODULES, "jit_f(1)", 0, 100, "module")
    b.event(CORE, "infeed", 5, 15, "transfer", op=0)
    b.event(CORE, "copy-start", 15, 16, "transfer", op=1)
    b.event(CORE, "dot", 16, 30, "op")
    b.event(CORE, "copy-done", 30, 40, "transfer", op=2)
    b.event(CORE, "all-reduce", 40, 60, "collective")
    b.event(CORE, "slice-start", 60, 61, "copy", op=3)
    b.event(CORE, "slice-done", 61, 65, "copy", op=4)
    b.event(CORE, "outfeed", 70, 73, "transfer", op=5)
    result = run_duty_cycle(b.trace())
    assert parts(result) == [14, 20, 21, 3, 5, 5]
    row = result.table.row(0, named=True)
    assert (row["span"] // US, row["on_duty"] // US, row["time"] // US) == (100, 46, 68)
    assert row["duty_cycle"] == pytest.approx(0.46)
    assert row["compute_share"] == pytest.approx(14 / 68)
    assert note_texts(result.notes)[0] == "overall: duty cycle 46.0 % of 100 us"
    assert "idle 7.35 %" in note_texts(result.notes)[1]


def test_a_device_is_on_duty_while_its_sparse_cores_are() -> None:
    b = Building(format="xplane", ops=OPS)
    b.event(MODULES, "jit_f(1)", 0, 100, "module")
    b.event(CORE, "dot", 10, 30, "op")
    b.event(CORE, "slice-done", 40, 90, "copy", op=4)
    b.event(Lane("SparseCore 0 Sparse Core Ops", 0, "sparse_ops"), "gather", 20, 60, "op")
    result = run_duty_cycle(b.trace())
    assert result.table["on_duty"].to_list() == [50 * US]
    assert parts(result) == [20, 0, 0, 0, 50, 10]


def test_only_what_runs_inside_a_megacore_fusion_is_on_duty() -> None:
    b = Building(format="xplane", ops=OPS)
    b.event(CORE, "megacore_fusion", 0, 10, "op", op=6)
    b.event(CORE, "dot", 2, 6, "op")
    assert run_duty_cycle(b.trace()).table["on_duty"].to_list() == [4 * US]


def test_idle_time_is_that_of_the_devices_own_clock() -> None:
    b = Building(format="xplane")
    for start, end, own in ((0, 10, 1000), (20, 30, 1018)):
        b.event(CORE, "dot", start, end, "op", device_start=own * US, device_end=(own + 10) * US)
    row = run_duty_cycle(b.trace()).table.row(0, named=True)
    assert (row["span"] // US, row["on_duty"] // US) == (30, 20)
    assert (row["time"] // US, row["compute"] // US, row["idle"] // US) == (28, 20, 8)


def test_a_window_is_the_time_of_all_shares() -> None:
    b = Building(format="xplane")
    for start in (0, 30):
        b.event(CORE, "dot", start, start + 10, "op", device_start=start * US, device_end=(start + 10) * US)
    row = run_duty_cycle(b.trace(), Window(5 * US, 25 * US)).table.row(0, named=True)
    assert (row["span"], row["time"], row["on_duty"], row["idle"]) == (20 * US, 20 * US, 5 * US, 15 * US)


def test_a_wait_for_a_copy_that_began_before_the_window_keeps_its_direction() -> None:
    b = Building(format="xplane", ops=OPS)
    b.event(CORE, "copy-start", 0, 1, "transfer", op=1)
    b.event(CORE, "copy-done", 1, 21, "transfer", op=2)
    b.event(CORE, "slice-start", 21, 22, "copy", op=3)
    b.event(CORE, "slice-done", 22, 40, "copy", op=4)
    trace = b.trace()
    assert parts(run_duty_cycle(trace, Window(10 * US, 20 * US))) == [0, 0, 10, 0, 0, 0]
    assert parts(run_duty_cycle(trace, Window(15 * US, 30 * US))) == [0, 0, 6, 0, 9, 0]
    assert parts(run_duty_cycle(trace, Window(25 * US, 30 * US))) == [0, 0, 0, 0, 5, 0]


def test_on_streams_copies_go_by_their_direction() -> None:
    b = Building()
    b.event(stream(), "gemm", 0, 10)
    b.event(stream(number=8), "Memcpy HtoD (Pageable -> Device)", 5, 15, "copy")
    b.event(stream(number=8), "Memcpy DtoH (Device -> Pageable)", 15, 17, "copy")
    b.event(stream(number=8), "Memset (Device)", 17, 18, "memset")
    b.event(stream(number=8), "ncclDevKernel_AllReduce", 20, 30, "collective")
    assert parts(run_duty_cycle(b.trace())) == [10, 10, 5, 2, 1, 2]


def test_a_copy_whose_name_tells_no_way_goes_the_way_of_its_call() -> None:
    calls = ("hipMemcpyHtoDAsync", "hipMemcpyHtoDAsync", "hipMemcpyDtoHAsync", "hipMemcpyDtoDAsync", None)
    row = run_analysis(get_analysis("duty_cycle"), copied_by(*calls).trace()).table.row(0, named=True)
    assert [row[part] // US for part in ("input", "output", "device_to_device")] == [20, 10, 20]


def test_no_device_is_said() -> None:
    assert (
        "no device work was recorded: were devices profiled?" in note_texts(run_duty_cycle(Building().trace()).notes)[0]
    )


def test_what_breakdown_calls_copy_is_told_apart_by_where_it_goes() -> None:
    b = Building()
    for number, name in enumerate(["Memcpy HtoD", "Memcpy DtoH", "Memcpy DtoD", "Memset (Device)"]):
        start = 20 * number
        b.event(stream(), name, start, start + 10 + number, "memset" if "Memset" in name else "copy")
    row = run_analysis(get_analysis("duty_cycle"), b.trace()).table.row(0, named=True)
    assert [row[part] // US for part in ("input", "output", "device_to_device")] == [10, 11, 25]
    assert run_analysis(get_analysis("breakdown"), b.trace()).table["copy"].to_list() == [46 * US]


_KINDS = (("gemm", "kernel"), ("nccl", "collective"), ("Memcpy HtoD", "copy"), ("Memcpy DtoH", "copy"), ("x", "copy"))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=12))
def test_every_instant_belongs_to_one_part(work: list[tuple[int, int, int]]) -> None:
    b = Building()
    first = [9] * 80
    for number, (kind, start, length) in enumerate(work):
        name, what = _KINDS[kind]
        b.event(stream(number=number), name, start, start + length, what)
        first[start : start + length] = [min(kind, other) for other in first[start : start + length]]
    low, high = min(start for _, start, _ in work), max(start + length for _, start, length in work)
    within = first[low:high]
    assert parts(run_duty_cycle(b.trace())) == [*(within.count(kind) for kind in range(5)), within.count(9)]


WORK = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50), st.integers(1, 9)), min_size=1, max_size=6)


@pytest.mark.thorough
@given(WORK, st.integers(0, 50), st.integers(1, 20))
def test_a_device_that_rests_for_all_of_a_window_is_idle_in_it(
    work: list[tuple[int, int, int]], low: int, length: int
) -> None:
    b = Building(format="xplane", ops=[OPS[0] | {"name": "dot", "category": "dot"}])
    b.event(thread(), "main", 0, 100, "annotation")
    for rank, start, lasting in work:
        b.event(replace(CORE, rank=rank), "dot", start, start + lasting, "op", op=0)
    trace, window = b.trace(), Window(low * US, (low + length) * US)
    busy = {
        rank: sum(any(r == rank and s <= at < s + n for r, s, n in work) for at in range(low, low + length))
        for rank, *_ in work
    }
    duty = run_analysis(get_analysis("duty_cycle"), trace, window).table
    assert duty["span"].to_list() == [length * US] * len(busy)
    assert (duty["on_duty"] // US).to_list() == [busy[rank] for rank in sorted(busy)]
    assert (duty["idle"] // US).to_list() == [length - busy[rank] for rank in sorted(busy)]
    if any(busy.values()):
        device_time = length * len(busy)
        idle = f"idle {format_share(1 - sum(busy.values()) / device_time)} of {format_duration(device_time * US)}"
        for name in ("ops", "hlo_ops"):
            assert any(
                note.startswith(idle) for note in note_texts(run_analysis(get_analysis(name), trace, window).notes)
            ), name


def test_at_eighty_columns_other_shares_make_way_before_that_of_idle_time() -> None:
    b = Building(format="xplane", ops=OPS)
    kinds = {"infeed": "transfer", "dot": "op", "all-reduce": "collective", "outfeed": "transfer", "add": "op"}
    for number, (name, kind) in enumerate(kinds.items()):
        b.event(CORE, name, number * 10, number * 10 + 7, kind, op={"infeed": 0, "outfeed": 5}.get(name))
    result = run_duty_cycle(b.trace())
    long = pl.lit("NVIDIA H100 80GB HBM3").alias("device")
    lines = [line.text for line in table_lines(replace(result, table=result.table.with_columns(long)), 80)]
    assert "output share" in " ".join(lines).partition("hidden columns")[2]
    idle = result.table["idle_share"][0]
    assert any(format_share(idle, CELL_DIGITS) in line for line in lines if "NVIDIA" in line)
