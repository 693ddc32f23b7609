from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tracehound.formats.xla.compiler_events import mark_compilations
from tracehound.formats.xla.op_executions import (
    add_launching_calls,
    find_module_executions,
    innermost_op_column,
    merge_ops_by_execution,
    outermost_loop_column,
)
from tracehound.model.trace import KIND

SCHEMA = {
    "device": pl.Int64, "start": pl.Int64, "end": pl.Int64, "name": pl.String, "module": pl.String,
    "program": pl.Int64, "run": pl.Int64, "correlation": pl.Int64,
}  # fmt: skip


def ops(*rows: tuple[str, int, int], module: str | None = "jit_f", program: int | None = 1, run: int | None = None,
        device: int = 0) -> pl.DataFrame:  # fmt: skip
    made = [(device, start, end, name, module, program, run, start) for name, start, end in rows]
    return pl.DataFrame(made, schema=SCHEMA, orient="row")


def host_events(*rows: tuple[int, int, int, str, int | None]) -> pl.DataFrame:
    schema = {"lane": pl.Int64, "start": pl.Int64, "end": pl.Int64, "name": pl.String, "correlation": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def spans(frame: pl.DataFrame) -> list[tuple[int, int]]:
    return frame.select("start", "end").rows()


def test_a_run_is_one_execution_whatever_the_order() -> None:
    frame = pl.concat(
        [ops(("b", 50, 60), ("a", 10, 20), run=7), ops(("a", 30, 35), run=8), ops(("a", 31, 33), run=8, device=3)]
    )
    assert find_module_executions(frame).rows() == [
        (0, 10, 60, "jit_f(1)", 7, 1, 10), (0, 30, 35, "jit_f(1)", 8, 1, 30), (3, 31, 33, "jit_f(1)", 8, 1, 31),
    ]  # fmt: skip


def test_a_run_is_one_execution_whichever_calls_are_known() -> None:
    frame = pl.concat([ops(("a", 0, 1), ("b", 1, 2), run=1), ops(("a", 5, 6), ("b", 6, 7), run=2)])
    assert spans(find_module_executions(frame.with_columns(pl.Series("call", [0, 0, None, 1])))) == [(0, 2), (5, 7)]


def test_without_runs_an_execution_begins_with_the_modules_first_op() -> None:
    frame = ops(("a", 0, 1), ("loop", 1, 2), ("loop", 2, 3), ("a", 5, 6), ("loop", 6, 7), ("a", 7, 8))
    assert spans(find_module_executions(frame)) == [(0, 3), (5, 7), (7, 8)]


def test_the_first_op_of_another_device_begins_nothing_while_earlier_ops_run() -> None:
    frame = ops(("a", 0, 1), ("b", 1, 9), ("a", 2, 3), ("b", 4, 8), ("a", 20, 21), ("b", 21, 30))
    assert spans(find_module_executions(frame)) == [(0, 9), (20, 30)]


def test_the_turns_of_a_loop_in_which_a_module_begins_are_one_execution() -> None:
    turns = [("a", 0, 1), ("b", 1, 2), ("a", 2, 3), ("b", 3, 4), ("c", 4, 5)]
    frame = ops(*turns, *((name, start + 10, end + 10) for name, start, end in turns))
    loop = pl.when(pl.col("name") != "c").then(pl.lit("while.1")).alias("loop")
    assert spans(find_module_executions(frame.with_columns(loop))) == [(0, 5), (10, 15)]


def test_ops_that_one_call_of_their_module_launched_are_one_execution() -> None:
    frame = ops(("a", 10, 11), ("a", 12, 13), ("a", 14, 15), ("a", 16, 17), ("a", 18, 19))
    frame = frame.with_columns(pl.Series("correlation", [1, 2, 3, 9, 4]))
    host = host_events(
        (0, 0, 3, "jit_f:XLA GPU module", None), (0, 1, 2, "cuLaunchKernel", 1), (0, 2, 3, "cuLaunchKernel", 2),
        (0, 4, 8, "jit_f:XLA GPU module", None), (0, 5, 6, "cuLaunchKernel", 3), (0, 7, 8, "cuLaunchKernel", 4),
        (1, 4, 8, "jit_g:XLA GPU module", None), (0, 9, 9, "cuLaunchKernel", 9),
    )  # fmt: skip
    called = add_launching_calls(frame, host)
    assert called["call"].to_list() == [0, 0, 1, None, 1]
    assert spans(find_module_executions(called)) == [(10, 13), (14, 19)]


def test_what_an_execution_launches_after_one_inside_of_it_is_its_own() -> None:
    frame = ops(("a", 10, 11), ("b", 12, 13), ("a", 14, 15)).with_columns(pl.Series("correlation", [1, 2, 3]))
    module = pl.Series("module", ["jit_f", "jit_g", "jit_f"], frame.schema["module"])
    host = host_events(
        (0, 0, 9, "jit_f:XLA GPU module", None), (0, 1, 2, "cuGraphLaunch", 1),
        (0, 3, 6, "jit_g:XLA GPU module", None), (0, 4, 5, "cuGraphLaunch", 2), (0, 7, 8, "cuGraphLaunch", 3),
    )  # fmt: skip
    called = add_launching_calls(frame.with_columns(module), host)
    assert called["call"].to_list() == [0, 1, 0]


def test_another_module_is_another_execution() -> None:
    frame = pl.concat([ops(("a", 0, 1), ("b", 4, 5)), ops(("c", 2, 3), module="jit_g", program=None)])
    assert find_module_executions(frame)["name"].to_list() == ["jit_f(1)", "jit_g", "jit_f(1)"]


def test_ops_without_a_module_are_in_no_execution() -> None:
    assert find_module_executions(ops(("a", 0, 1), module=None)).is_empty()


def test_a_negative_program_is_written_as_the_file_writes_it() -> None:
    assert find_module_executions(ops(("a", 0, 1), program=-1))["name"].to_list() == [f"jit_f({(1 << 64) - 1})"]


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 30), st.sampled_from(["r0", "r1", "c0", "c1", ""])), max_size=20
    ),
    st.integers(0, 20),
)
def test_the_executions_of_the_executions_of_parts(rows: list[tuple[int, int, str]], cut: int) -> None:
    """A run or a call is told as `r1` or `c1`; where an op has neither, its part is not summed up."""
    made = [
        ops(
            ("a", start, start + 2), module=f"jit_{module}", run=int(told[1]) if told[:1] == "r" else None
        ).with_columns(pl.lit(int(told[1]) if told[:1] == "c" else None, pl.Int64).alias("call"))
        for module, start, told in rows
    ]
    every = pl.concat([ops().with_columns(pl.lit(None, pl.Int64).alias("call")), *made])
    parts = [merge_ops_by_execution(part) for part in (every[:cut], every[cut:])]
    known = [runs for runs in parts if runs is not None]
    assert (len(known) == len(parts)) == all(told for _, _, told in rows)
    if len(known) == len(parts):
        assert find_module_executions(pl.concat(known)).rows() == find_module_executions(every).rows()


def test_the_innermost_op_of_a_kernel() -> None:
    assert pl.select(innermost_op_column(pl.lit("while.1::call.2::fusion.3"))).item() == "fusion.3"


def test_the_outermost_loop_around_the_op_of_a_kernel() -> None:
    names = ["while.1::call.2::while.3::fusion.3", "call.2::while.3::fusion.3", "call.2::while.3", "fusion.3"]
    assert pl.Series(names).to_frame("n").select(outermost_loop_column(pl.col("n"))).to_series().to_list() == [
        "while.1", "while.3", None, None,
    ]  # fmt: skip


def test_a_compilation_takes_in_what_starts_inside_it_on_its_thread() -> None:
    rows = [
        (0, 0, 10, "compile"), (0, 5, 6, "annotation"), (0, 5, 6, "python"), (0, 10, 12, "annotation"),
        (1, 5, 6, "annotation"),
    ]  # fmt: skip
    frame = pl.DataFrame(
        rows, schema={"lane": pl.Int64, "start": pl.Int64, "end": pl.Int64, "kind": KIND}, orient="row"
    )
    kinds = mark_compilations(frame)["kind"].to_list()
    assert kinds == ["compile", "compile", "python", "annotation", "annotation"]
