"""Prefill and decode, by the names that engines give their steps."""

from __future__ import annotations

import polars as pl
import pytest

from building import Building, stream, thread
from growth import TOO_FAST, growth
from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.analysis.timing.rank_steps import inference_phase, inference_phases, inferred_steps_note
from tracehound.draw.notes import note_text

MAIN = thread("python (1)")


@pytest.mark.parametrize(
    ("name", "which"),
    [
        ("execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785)", "decode"),
        ("execute_8192_context_9(sq8155sk8430)_generation_37(sq37sk34489)", "mixed"),
        ("execute_context_2(3)_generation_0(0)", "prefill"),
        ("execute_context_0(0)_generation_0(0)", None),
        ("step[DECODE bs=32]", "decode"),
        ("step[EXTEND bs=1 toks=3]", "prefill"),
        ("step[MIXED bs=3]", "mixed"),
        ("my_prefill_step", "prefill"),
        ("decoder layer", None),
        ("forward", None),
    ],
)
def test_phase_of_a_name(name: str, which: str | None) -> None:
    assert inference_phase(name) == which


def test_phases_of_names_keep_their_order() -> None:
    assert inference_phases(pl.Series(["prefill", None, "x", "decode"])).to_list() == ["prefill", None, None, "decode"]


def test_steps_that_bear_different_names_are_told_of_by_one_of_them() -> None:
    alike, unlike = (
        note_text(inferred_steps_note(pl.Series(names))) for names in (["loop", "loop"], ["loop0", "loop1"])
    )
    assert alike == "steps are inferred (none are marked): a step is one execution of loop"
    assert unlike == "steps are inferred (none are marked): a step is an annotation such as loop0"


def test_averages_tell_the_phases_apart() -> None:
    b = Building()
    for number, (word, took) in enumerate((("EXTEND", 60), ("DECODE", 10), ("DECODE", 20))):
        b.event(MAIN, f"step[{word} bs={number}]", 100 * number, 100 * number + 100, "annotation")
        b.event(MAIN, "cudaLaunchKernel", 100 * number, 100 * number + 1, "runtime", correlation=number)
        b.event(stream(), "k", 100 * number + 1, 100 * number + 1 + took, correlation=number)
    trace = b.trace()
    assert run_analysis(get_analysis("step_parts"), trace).table["phase"].to_list() == ["prefill", "decode", "decode"]
    result = run_analysis(get_analysis("step_parts"), trace, options=Options(given=(("by", "part"),)))
    assert result.column("share").base.endswith("in that phase"), "those of each phase add up to 1"
    phases = result.table.group_by("phase").agg(pl.col("share").sum())
    assert phases["share"].to_list() == pytest.approx([1, 1])
    kernels = result.table.filter(pl.col("part") == "kernel")
    assert kernels.select("phase", "mean").rows() == [("decode", 15_000_000), ("prefill", 60_000_000)]


def test_a_long_number_in_a_name_takes_as_long_as_it_is() -> None:
    assert growth(lambda size: inference_phase("context_" + "1" * size)) < TOO_FAST
