"""Compiles: which function, how often, in which steps, in the vocabularies of JAX, PyTorch/XLA and torch.compile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from building import US, Building, stream, thread
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.analysis.compiles import LOADED_PROGRAMS, UNKNOWN_FUNCTION
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace, Window
from tracehound.store import load_trace, open_trace_files

MAIN, POOL = thread("python"), thread("tf_pool")
EACH = Options(given=(("by", "compilation"),))


def run_compiles(trace: Trace, options: Options | None = None, window: Window | None = None) -> Result:
    return run_analysis(get_analysis("compiles"), trace, window, options)


def compile_rows(b: Building, options: Options | None = None, window: Window | None = None) -> list[dict[str, Any]]:
    return run_compiles(b.trace(), options, window).table.rows(named=True)


def jax(b: Building, function: str, start: float, end: float, step: int | None = None) -> None:
    """A call of a function that is lowered in a tenth of the time, and then compiled."""
    b.event(MAIN, f"PjitFunction({function})", start, end, "runtime", step=step)
    b.event(MAIN, "$compiler.py:1 backend_compile", start, end, "python", step=step)
    middle = start + (end - start) / 10
    b.event(MAIN, "lower_sharding_computation", start, middle, "compile", step=step)
    b.event(MAIN, "backend_compile_and_load", middle, end, "compile", step=step)
    b.event(MAIN, "dce", middle + 1, middle + 2, "compile", step=step)


def test_a_function_is_counted_once_for_each_compilation_whatever_its_stages() -> None:
    b = Building(format="xplane")
    for step in (0, 1, 3):
        b.event(MAIN, "train", step * 100, step * 100 + 90, "step", step=step)
        jax(b, "ragged", step * 100 + 10, step * 100 + 50, step)
    jax(b, "once", 360, 380, 3)
    b.event(stream(), "k", 0, 400)
    first, second = compile_rows(b)
    assert (first["function"], first["count"], first["time"], first["again"]) == ("ragged", 3, 120 * US, True)
    assert (first["steps"], first["duration"], first["start"]) == ("0-1, 3", 36 * US, 14 * US)
    assert first["share"] == pytest.approx(120 / 400)
    assert b.trace().event(first["event"])["name"] == "backend_compile_and_load"
    assert (second["function"], second["count"], second["again"]) == ("once", 1, False)
    assert note_texts(run_compiles(b.trace()).notes) == (
        "compiling took 140 us, 35.0 % of the time, in steps 0-1, 3",
        (
            "compiled more than once: ragged; jax_explain_cache_misses (JAX) or PT_XLA_DEBUG_LEVEL=1 "
            "(PyTorch/XLA) shows why"
        ),
    )


def test_each_compilation_has_its_stage_step_and_thread_in_the_order_of_time() -> None:
    b = Building(format="xplane")
    jax(b, "f", 0, 40, 7)
    found = [(row["stage"], row["step"], row["start"], row["duration"], row["thread"]) for row in compile_rows(b, EACH)]
    assert found == [("lowering", 7, 0, 4 * US, "python"), ("compiling", 7, 4 * US, 36 * US, "python")]


def test_a_window_clips_and_leaves_out() -> None:
    b = Building(format="xplane")
    jax(b, "f", 0, 40)
    jax(b, "g", 60, 100)
    (row,) = compile_rows(b, window=Window(start=20 * US, end=50 * US))
    assert (row["function"], row["time"]) == ("f", 20 * US)
    assert row["share"] == pytest.approx(20 / 30)


def test_threads_that_help_are_no_compilations_of_their_own() -> None:
    b = Building(format="xplane")
    jax(b, "f", 0, 40)
    b.event(POOL, "XLA::TPU emitting for fusion.2", 20, 45, "compile")
    b.event(POOL, "LoadProgramCacheMiss", 50, 60, "compile")
    b.event(POOL, "XLA::TPU run backend", 70, 80, "compile")
    assert {(row["function"], row["time"], row["again"]) for row in compile_rows(b)} == {
        ("f", 40 * US, False),
        (LOADED_PROGRAMS, 10 * US, False),
        (UNKNOWN_FUNCTION, 10 * US, False),
    }


def test_pytorch_xla_names_no_function_but_what_was_annotated() -> None:
    b = Building(format="xplane")
    b.event(MAIN, "train_step", 0, 100, "step", step=4)
    b.event(MAIN, "build_graph", 0, 90, "annotation", step=4)
    b.event(MAIN, "SyncTensorsGraph", 10, 90, "runtime", step=4)
    b.event(MAIN, "XLAGraphExecutor::Compile", 20, 80, "compile", step=4)
    b.event(MAIN, "PjRtComputationClient::Compile", 30, 70, "compile", step=4)
    (row,) = compile_rows(b)
    assert (row["function"], row["count"], row["time"], row["steps"]) == ("build_graph", 1, 60 * US, "4")


def dynamo(b: Building, region: str, start: float, end: float, step: int) -> None:
    b.event(MAIN, "dynamo", start, end, "op", step=step)
    b.event(MAIN, f"dynamo_data: compile_id={region}", start + 1, start + 2, "annotation", step=step)
    b.event(MAIN, "_compile.compile_inner (dynamo_timed)", start + 3, end - 1, "op", step=step)


def test_torch_compile_is_told_by_region_forward_apart_from_backward() -> None:
    b = Building()
    for step in (0, 1):
        b.event(MAIN, f"ProfilerStep#{step}", step * 100, step * 100 + 99, "step", step=step)
    dynamo(b, "0/0", 0, 30, 0)
    b.event(MAIN, "Torch-Compiled Region: 0/0", 31, 34, "op", step=0)
    b.event(MAIN, "CompiledFunctionBackward", 35, 60, "op", step=0)
    b.event(MAIN, "backward._backward_impl (dynamo_timed)", 36, 58, "op", step=0)
    b.event(MAIN, "inductor_compile_data: fn_name=compile_fx_inner, compile_id=0/0", 37, 38, "annotation", step=0)
    dynamo(b, "0/1", 100, 140, 1)
    dynamo(b, "1/0", 150, 160, 1)
    assert [(row["function"], row["count"], row["time"] // US, row["steps"]) for row in compile_rows(b)] == [
        ("Torch-Compiled Region 0", 2, 70, "0-1"),
        ("Torch-Compiled Region 0, backward", 1, 22, "0"),
        ("Torch-Compiled Region 1", 1, 10, "1"),
    ]
    assert note_texts(run_compiles(b.trace()).notes)[1].endswith(
        "compiled more than once: Torch-Compiled Region 0; TORCH_LOGS=recompiles shows why"
    )


def test_a_step_of_the_profiler_is_no_function_but_the_region_that_runs_next_is() -> None:
    b = Building()
    for step, region in enumerate(("0/0", "0/1", None)):
        start = step * 100
        b.event(MAIN, f"ProfilerStep#{step}", start, start + 99, "step", step=step)
        b.event(MAIN, "_compile.compile_inner (dynamo_timed)", start + 10, start + 50, "annotation", step=step)
        b.event(MAIN, "compile_fx_inner (dynamo_timed)", start + 20, start + 40, "annotation", step=step)
        if region:
            b.event(MAIN, f"Torch-Compiled Region: {region}", start + 60, start + 70, "op", step=step)
    b.event(MAIN, "Torch-Compiled Region: 1/0", 310, 320, "op", step=3)
    found = [(row["function"], row["count"], row["steps"]) for row in compile_rows(b)]
    assert found == [("Torch-Compiled Region 0", 2, "0-1"), (UNKNOWN_FUNCTION, 1, "2")]


def test_triton_is_told_by_its_frames_and_nothing_else_of_python_is() -> None:
    b = Building()
    b.event(MAIN, "my kernels", 0, 100, "annotation")
    b.event(MAIN, "triton/compiler/compiler.py(220): compile", 10, 60, "python")
    b.event(MAIN, "triton/compiler/compiler.py(465): __getattribute__", 70, 71, "python")
    b.event(MAIN, "aten::compile_unit", 80, 90, "op")
    (row,) = compile_rows(b)
    assert (row["function"], row["time"]) == ("my kernels", 50 * US)


@pytest.mark.parametrize(("format_", "word"), [("kineto", "with_stack=True"), ("xplane", "host_tracer_level")])
def test_where_nothing_is_recorded_it_says_what_would(format_: str, word: str) -> None:
    b = Building(format=format_)
    b.event(MAIN, "aten::mm", 0, 10, "op")
    b.event(MAIN, "ThreadpoolListener::Record", 2, 3, "compile")
    result = run_compiles(b.trace())
    assert result.table.is_empty()
    assert word in note_texts(result.notes)[0]


def test_five_programs_of_a_cold_start(shared: Path) -> None:
    result = run_compiles(load_trace(open_trace_files([shared / "captures" / "jax" / "collectives_cold"])))
    assert [(row["function"], row["count"], row["steps"]) for row in result.table.rows(named=True)] == [
        (name, 1, "1") for name in ("coll", "scan_prog", "cond_prog", "cb_prog", "opt_update")
    ]
    assert "92.3 % of the time, in step 1" in note_texts(result.notes)[0]
