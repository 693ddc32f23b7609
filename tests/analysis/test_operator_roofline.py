"""The roofline of operators: which calls count, with which kernels, against which peak; and what cannot be judged."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace

from building import US, Building, stream, thread
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.model.facet_schemas import FACET_SCHEMAS
from tracehound.model.trace import Trace
from tracehound.store import merge_file_frames

MAIN = thread("python (1)")
PEAK = ("peak", "bf16:100G,f32:10G,tf32:50G,1GB/s")
MM = {"dims": "[[1000,100],[100,100]]", "types": '["c10::BFloat16","c10::BFloat16"]', "concrete": '["",""]'}
"""20 M operations, 420 kB: 200 us of computing at 100 GFLOP/s, 420 us of moving at 1 GB/s."""


def build_with_inputs(b: Building, *said: dict[str, Any]) -> Trace:
    """The trace, with what the calls of these records were called with."""
    called = pl.DataFrame(said, schema=FACET_SCHEMAS["called"])
    return merge_file_frames("t", [replace(b.part(), facets={"called": called.lazy()})])


def call(b: Building, name: str, start: float, end: float, kernel: str, length: float, **more: object) -> int:
    """An operator that launches a kernel; its record."""
    number = len(b.rows)
    b.event(MAIN, name, start, end, "op", record=number, **more)
    launch(b, start + 1, kernel, length)
    return number


def launch(b: Building, at: float, kernel: str, length: float, kind: str = "kernel") -> None:
    number = len(b.rows)
    b.event(MAIN, "cudaLaunchKernel", at, at + 1, "runtime", correlation=number)
    b.event(stream(), kernel, at + 100, at + 100 + length, kind, correlation=number)


def run_operator_roofline(trace: Trace, *given: tuple[str, str]) -> Result:
    return run_analysis(get_analysis("operator_roofline"), trace, None, Options(given=given or (PEAK,)))


def test_a_product_is_held_against_the_peak_and_the_roof() -> None:
    b = Building()
    record = call(b, "aten::mm", 0, 10, "cutlass_gemm", 840)
    result = run_operator_roofline(build_with_inputs(b, {"record": record, **MM}))
    (row,) = result.table.rows(named=True)
    assert (row["name"], row["shapes"], row["dtype"], row["count"]) == ("aten::mm", MM["dims"], "bfloat16", 1)
    assert row["flops"] == 20_000_000
    assert row["rate"] == pytest.approx(20e6 / 840e-6)
    assert row["bandwidth"] == pytest.approx(420e3 / 840e-6)
    assert row["of_peak"] == pytest.approx(200 / 840)
    assert (row["bound_by"], row["efficiency"], row["above"]) == ("memory", pytest.approx(0.5), False)
    assert row["kernel"] == "cutlass_gemm"
    assert note_texts(result.notes)[:2] == (
        "covers 100 % of device time",
        "at the roof, these operators would take 50.0 % of their time",
    )


def test_the_innermost_known_operator_counts_with_all_that_is_launched_inside() -> None:
    b = Building()
    b.event(MAIN, "aten::linear", 0, 50, "op", record=900)
    record = call(b, "aten::mm", 5, 40, "gemm", 600)
    b.event(MAIN, "aten::copy_", 20, 30, "op", record=901)
    launch(b, 22, "splitk_reduce", 100)
    trace = build_with_inputs(b, {"record": record, **MM}, {"record": 900, **MM})
    (row,) = run_operator_roofline(trace).table.rows(named=True)
    assert (row["name"], row["device_time"], row["kernel"]) == ("aten::mm", 700 * US, "gemm")


def test_what_is_launched_beside_the_innermost_operator_is_not_its_work_again() -> None:
    """A bias that is added after a product: the operations of the outer operator are those of the inner one."""
    b = Building()
    b.event(MAIN, "aten::linear", 0, 50, "op", record=900)
    record = call(b, "aten::mm", 5, 20, "gemm", 600)
    b.event(MAIN, "aten::add_", 25, 40, "op", record=901)
    launch(b, 30, "elementwise", 200)
    result = run_operator_roofline(build_with_inputs(b, {"record": record, **MM}, {"record": 900, **MM}))
    (row,) = result.table.rows(named=True)
    assert (row["name"], row["device_time"]) == ("aten::mm", 600 * US)
    judged = "covers 75.0 % of device time; the rest: 25.0 % in kernels of other operators, or of none"
    assert note_texts(result.notes)[0] == judged


def test_calls_with_the_same_inputs_are_one_row() -> None:
    b = Building()
    first = call(b, "aten::mm", 0, 10, "gemm", 840)
    second = call(b, "aten::mm", 2000, 2010, "gemm", 420)
    third = call(b, "aten::mm", 4000, 4010, "gemm", 300)
    smaller = {**MM, "dims": "[[100,100],[100,100]]"}
    trace = build_with_inputs(
        b, *({"record": record, **MM} for record in (first, second)), {"record": third, **smaller}
    )
    one, other = run_operator_roofline(trace).table.rows(named=True)
    assert (one["count"], one["device_time"], one["efficiency"]) == (2, 1260 * US, pytest.approx(840 / 1260))
    assert trace.event(one["event"])["start"] == trace.event(one["event"])["start"] == 0
    assert (other["count"], other["shapes"]) == (1, smaller["dims"])


def test_operators_that_tie_come_in_the_order_of_their_types() -> None:
    b, types, said = Building(), ["float", "c10::Half", "double", "c10::BFloat16"], []
    for number, name in enumerate(types):
        record = call(b, "aten::mm", 1000 * number, 1000 * number + 10, "gemm", 840)
        said.append({"record": record, **MM, "types": f'["{name}","{name}"]'})
    found = run_operator_roofline(build_with_inputs(b, *said)).table
    assert found["device_time"].n_unique() == 1
    assert found["dtype"].to_list() == ["bfloat16", "half", "double", "float"]


@pytest.mark.parametrize(
    ("kernel", "dtype", "of_peak"), [("ampere_sgemm_32x32", "float", 2000 / 4000), ("hmma_gemm", "tf32", 400 / 4000)]
)
def test_numbers_of_32_bits_are_held_against_tf32_where_tensor_cores_compute(
    kernel: str, dtype: str, of_peak: float
) -> None:
    b = Building()
    record = call(b, "aten::mm", 0, 10, kernel, 4000)
    (row,) = run_operator_roofline(
        build_with_inputs(b, {"record": record, **MM, "types": '["float","float"]'})
    ).table.rows(named=True)
    assert (row["dtype"], row["of_peak"]) == (dtype, pytest.approx(of_peak))


def test_what_is_faster_than_the_device_is_marked_and_judged_by_nothing() -> None:
    b = Building()
    record = call(b, "aten::mm", 0, 10, "gemm", 100)
    result = run_operator_roofline(build_with_inputs(b, {"record": record, **MM}))
    (row,) = result.table.rows(named=True)
    assert (row["above"], row["of_peak"], row["efficiency"]) == (True, None, None)
    assert note_texts(result.notes)[0] == "covers 0 % of device time; the rest: 100 % above the peak"


def test_what_has_nothing_to_compute_is_judged_by_what_it_moves() -> None:
    b = Building()
    record = call(b, "aten::mm", 0, 10, "fill", 500)
    nothing = call(b, "aten::mm", 2000, 2010, "fill", 100)
    empty = {**MM, "dims": "[[0,0],[0,0]]"}
    result = run_operator_roofline(
        build_with_inputs(b, {"record": record, **MM, "dims": "[[1000,0],[0,100]]"}, {"record": nothing, **empty}),
    )
    one, none = result.table.rows(named=True)
    assert (one["flops"], one["rate"], one["intensity"]) == (0, 0, 0)
    assert (one["bound_by"], one["efficiency"]) == ("memory", pytest.approx(200e3 / 1e9 / 500e-6))
    assert (none["flops"], none["intensity"], none["bound_by"], none["efficiency"]) == (0, None, None, 0)
    assert note_texts(result.notes)[0] == "covers 100 % of device time"


def test_it_says_what_could_not_be_judged_and_why() -> None:
    b = Building()
    record = call(b, "aten::mm", 0, 10, "gemm", 500)
    call(b, "aten::mm", 1000, 1010, "gemm", 200)
    call(b, "aten::relu", 2000, 2010, "elementwise", 200)
    launch(b, 3000, "Memcpy DtoH", 100, "copy")
    (note, *_) = note_texts(run_operator_roofline(build_with_inputs(b, {"record": record, **MM})).notes)
    assert note == (
        "covers 50.0 % of device time; the rest: 10.0 % communication and copies; 20.0 % in known "
        "operators without complete input shapes (record_shapes=True); 20.0 % in kernels of other "
        "operators, or of none"
    )


def test_a_device_without_known_peaks_has_rates_and_no_shares() -> None:
    b = Building()
    record = call(b, "aten::mm", 0, 10, "gemm", 840)
    result = run_analysis(get_analysis("operator_roofline"), build_with_inputs(b, {"record": record, **MM}))
    (row,) = result.table.rows(named=True)
    assert row["rate"] == pytest.approx(20e6 / 840e-6)
    assert (row["of_peak"], row["efficiency"], row["bound_by"]) == (None, None, None)
    assert (
        "covers 0 % of device time; the rest: 100 % on devices without known peaks (set them: --peak 989T,3.35TB/s)"
    ) in note_texts(result.notes)[0]


def test_runs_without_operators_or_devices_say_so() -> None:
    b = Building()
    launch(b, 0, "gemm", 10)
    assert note_texts(run_operator_roofline(b.trace()).notes)[0].startswith(
        "no known operators: profile with ProfilerActivity.CPU and record_shapes=True"
    )
    host = Building()
    host.event(MAIN, "aten::mm", 0, 10, "op")
    assert (
        note_texts(run_operator_roofline(host.trace()).notes)[0]
        == "no device activity: if it has a GPU, profile with ProfilerActivity.CUDA (or XPU)"
    )
