"""What differs between two runs: just what was planted, and it adds up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace
from runs import MODEL, Kernel, changed, measured, run

import samples as captures
from building import Building, Lane, stream, thread
from short import first, some
from tracehound.diff import Comparison, RunProfile, compare_runs, profile_run
from tracehound.diff.run_profile import STEP_PARTS
from tracehound.draw.notes import note_texts
from tracehound.model.trace import OPS, Trace, Window
from tracehound.store import load_trace, make_read_context, open_trace_files

SEEDS = first(1, range(5))


def compared(baseline: Trace, candidate: Trace) -> Comparison:
    return compare_runs(measured(baseline), measured(candidate))


def verdicts(found: Comparison) -> dict[str, str]:
    """The ops that changed, and how."""
    rows = found.ops.table.select("name", "verdict").rows()
    return {name: verdict for name, verdict in rows if verdict in ("slower", "faster", "added", "removed")}


def steps(found: Comparison) -> dict[str, dict[str, object]]:
    return {row["part"]: row for row in found.step.table.to_dicts()}


def opened(*paths: Path) -> Trace:
    with make_read_context(1, None) as shop:
        return load_trace(open_trace_files(list(paths), None, shop))


@pytest.fixture(
    scope="module",
    params=some(
        ("torch_ddp_gloo", "jax_cpu8_b128", "torch_xla_spmd4", "torch_stacks"), ("torch_ddp_gloo", "torch_xla_spmd4")
    ),
)
def sample(request: pytest.FixtureRequest) -> Trace:
    return captures.sample(request.param)


def test_a_run_against_itself_differs_in_nothing(sample: Trace) -> None:
    found = compared(sample, sample)
    for result in (found.step, found.categories, found.ops):
        assert result.table.height
        assert set(result.table["verdict"]) == {"the same"}
        assert not result.table["change"].to_numpy().any()
    assert "no difference" in note_texts(found.ops.notes)
    assert set(found.ops.table["matched_by"]) == {"the same in all"}


def test_the_parts_add_up_to_the_step(sample: Trace) -> None:
    lengths = measured(sample).steps
    parts = lengths.select(pl.sum_horizontal(STEP_PARTS)).to_series()
    assert np.allclose(parts, lengths["duration"], rtol=1e-12, atol=1)
    assert lengths.select(pl.min_horizontal(STEP_PARTS)).to_series().min() >= 0  # type: ignore[operator]


@pytest.mark.parametrize(
    ("baseline", "candidate"), first(1, (("torch_xla_single", "torch_xla_spmd4"), ("jax_cpu8_b128", "jax_cpu8_b4096")))
)
def test_the_differences_of_ops_and_of_idle_time_add_up_to_that_of_the_step(baseline: str, candidate: str) -> None:
    found = compared(captures.sample(baseline), captures.sample(candidate))
    step = steps(found)
    whole = int(found.ops.table["exposed_change"].sum()) + step["idle"]["change"]  # type: ignore[operator]
    assert abs(whole - step["step"]["change"]) <= found.ops.table.height  # type: ignore[operator]  # each is rounded
    assert abs(sum(step[part]["change"] for part in STEP_PARTS) - step["step"]["change"]) <= len(STEP_PARTS)  # type: ignore[misc, operator]
    kinds = int(found.categories.table["exposed_change"].sum())
    assert abs(kinds - int(found.ops.table["exposed_change"].sum())) <= found.ops.table.height


@pytest.mark.parametrize(
    ("baseline", "candidate", "scope"),
    first(
        2,
        (
            ("executions of jit_f", "executions of jit_g", "in an average execution"),
            ("steps", "the window", "in an average step against in the window"),
            ("steps", "steps", "in an average step"),
            ("the whole run", "the whole run", "in the whole run"),
        ),
    ),
)
def test_what_figures_are_of_is_said_of_both_runs(baseline: str, candidate: str, scope: str) -> None:
    sides = (replace(measured(run()), what=what) for what in (baseline, candidate))
    assert compare_runs(*sides).scope == scope


@pytest.mark.parametrize("seed", SEEDS)
def test_noise_is_no_change(seed: int) -> None:
    found = compared(run(seed=seed), run(seed=seed + 100))
    assert verdicts(found) == {}
    assert steps(found)["step"]["verdict"] in ("noise", "unclear", "perhaps faster", "perhaps slower")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (changed(2, length=144.0), {"gemm_nn": "slower"}),
        (changed(0, length=150.0), {"gemm_nt": "faster"}),
        (changed(3, length=120.0), {"ncclDevKernel_AllReduce": "slower"}),
        (MODEL[:4] + MODEL[5:], {"elementwise_add": "removed"}),
        ((*MODEL, Kernel("ncclDevKernel_Broadcast", "c10d::broadcast_", 60, kind="collective", number=9)),
         {"ncclDevKernel_Broadcast": "added"}),
        (changed(4, kind="kernel", name="elementwise_add_42"), {}),
    ],
    ids=["slower", "faster", "collective", "removed", "added", "renamed"],
)  # fmt: skip
def test_a_planted_change_is_the_only_one(seed: int, model: tuple[Kernel, ...], expected: dict[str, str]) -> None:
    found = compared(run(seed=seed), run(model, seed=seed + 100))
    assert verdicts(found) == expected
    if expected:
        assert found.ops.table["name"][0] in expected, "the largest effect comes first"


@pytest.mark.parametrize("seed", SEEDS)
def test_one_step_that_idles_changes_no_op(seed: int) -> None:
    found = compared(run(seed=seed), run(seed=seed + 100, stretch=(3, 900)))
    assert verdicts(found) == {}
    idle = steps(found)["idle"]
    assert 100 < idle["change"] / 1e6 < 125  # type: ignore[operator]
    assert idle["verdict"] == "unclear", "one step of eight may well be chance, and may not"
    assert any(
        note.startswith("unclear: steps vary too much for 8 against 8 (see median and spread); record more steps")
        for note in note_texts(found.step.notes)
    )


def test_one_kernel_split_in_three_is_one_match() -> None:
    parts = tuple(Kernel(f"fused_part_{name}", "aten::linear", 80) for name in "abc")
    found = compared(run(), run((*parts, *MODEL[1:])))
    row = found.ops.table.filter(pl.col("operator") == "aten::linear").row(0, named=True)
    assert (row["baseline_ops"], row["candidate_ops"], row["matched_by"]) == (1, 3, "call path and category")
    assert row["verdict"] == "slower, more often"
    assert row["name"] == "gemm_nt"


def test_what_the_other_run_calls_an_op_is_told_where_that_is_something_else() -> None:
    names = ["name", "category", "candidate_name", "candidate_category"]
    candidate = changed(0, changed(4, name="vectorized_add"), name="quantized_matmul", kind="copy")
    found = compared(run(noise=0), run(candidate, noise=0))
    rows = {row[0]: row[1:] for row in found.ops.table.select(names).iter_rows()}
    assert rows.pop("gemm_nt") == ("kernel", "quantized_matmul", "copy")
    assert rows.pop("elementwise_add") == ("kernel", "vectorized_add", None)
    assert {row[1:] for row in rows.values()} == {(None, None)}
    assert note_texts(found.ops.notes)[-1] == (
        "matched across categories: 1 op, 200 us against 200 us; gemm_nt (kernel) is quantized_matmul "
        "(copy) in the candidate"
    )
    assert note_texts(found.categories.notes) == (
        "2 ops have another category in the other run: each run's ops count in its own categories",
    )
    assert found.ops.column("candidate_name").brief
    rare = compared(run(noise=0), run(changed(6, name="Memcpy HtoD (Pinned)"), noise=0))
    assert not rare.ops.column("candidate_name").brief
    assert not rare.ops.table.drop_nulls("candidate_name").is_empty()
    same = compared(run(), run())
    assert not [
        note for note in (*note_texts(same.categories.notes), *note_texts(same.ops.notes)) if "categories" in note
    ]


def test_with_few_steps_nobody_can_tell() -> None:
    found = compared(run(steps=3), run(changed(0, length=400.0), steps=9))
    assert set(found.ops.table["verdict"]) == {"too few steps"}
    assert any("too few steps" in note for note in note_texts(found.step.notes))


def hlo(numbers: tuple[int, ...], suffix: str = "", rank: int = 0, module: str = "jit_step(12)") -> Trace:
    """A rank of a TPU with ops whose names carry these numbers."""
    built = Building("hlo", claim=rank, format="xplane")
    lane, modules = Lane("XLA Ops", 0, "ops", work=True), Lane("XLA Modules", 0, "modules")
    shapes = (
        "f32[8,128]{{1,0}} fusion(f32[8] %param.{0}), kind=kLoop, calls=%fused.{0}",
        "f32[8]{{0}} copy(f32[8] %fusion.{0})",
    )
    for at, number in enumerate(numbers):
        name, scope = ("fusion", "jit(step)/mul") if at % 2 == 0 else ("copy", "")
        text = f"%{name}.{number}{suffix} = {shapes[at % 2].format(number)}"
        known = {"op": at, "name": f"{name}.{number}{suffix}", "category": name, "module": module, "program": number,
                 "framework": scope, "source": None, "text": text, "flops": None, "bytes_accessed": None}  # fmt: skip
        built.ops.append({key: known.get(key) for key in OPS})
    for step in range(5):
        begin = step * 1000
        for at in range(len(numbers)):
            row = built.ops[at]
            built.event(lane, str(row["name"]), begin + at * 100, begin + at * 100 + 80 + at, "op", op=at)
        built.event(modules, module, begin, begin + 900, "module")
    return built.trace()


def test_numbers_suffixes_and_names_of_ranks_do_not_matter() -> None:
    found = compared(hlo((1, 2, 3)), hlo((701, 9, 55), ".clone.remat3", 5, "jit_step(99)"))
    assert set(found.ops.table["verdict"]) == {"the same"}
    assert found.ops.table["baseline_ops"].to_list() == found.ops.table["candidate_ops"].to_list()
    assert not found.ops.table["change"].to_numpy().any()


def test_hidden_communication_costs_the_step_nothing() -> None:
    def overlapping(length: float) -> Trace:
        built = Building()
        for step in range(5):
            begin = step * 1000
            built.event(stream(0, 7), "gemm", begin, begin + 500)
            built.event(stream(0, 9), "nccl", begin + 100, begin + 100 + length, "collective")
            built.event(Lane("marks"), "s", begin, begin + 900, "step", step=step)
        return built.trace()

    found = compared(overlapping(200), overlapping(300))
    row = found.ops.table.filter(name="nccl").row(0, named=True)
    assert (row["change"], row["exposed_change"], row["verdict"]) == (100_000_000, 0, "slower")
    assert steps(found)["step"]["verdict"] == "the same"


def test_a_run_without_steps_is_one_stretch() -> None:
    built = Building()
    built.event(stream(), "gemm", 0, 100)
    built.event(stream(), "gemm", 150, 250)
    found = measured(built.trace())
    assert found.what == "the whole run"
    assert found.steps.select("duration", "compute", "idle").row(0) == (250e6, 200e6, 50e6)
    assert found.ops.select("count", "time").row(0) == (2, 200e6)


def test_a_window_keeps_the_steps_inside() -> None:
    trace = run(steps=6)
    _, start, end = trace.steps.sort("start").select("step", "start", "end").row(2)
    assert profile_run(trace, Window(start, end)).steps["step"].to_list() == [2]


def test_nothing_at_all_compares_with_nothing() -> None:
    found = compared(Building().trace(), Building().trace())
    assert found.ops.table.is_empty()
    assert set(found.step.table["verdict"]) == {"the same"}


def test_what_has_no_ops_matches_nothing() -> None:
    empty, full = Building(), Building()
    empty.event(thread(), "epoch", 0, 100, "annotation")
    full.event(stream(), "gemm", 0, 100)
    for baseline, candidate, without in ((empty, full, "baseline"), (full, empty, "candidate")):
        told = note_texts(compared(baseline.trace(), candidate.trace()).ops.notes)
        assert f"no ops matched: no op takes any time in the {without}" in told


def test_real_pairs_read_true(shared: Path) -> None:
    workers = compared(*(opened(shared / "traces/kineto" / f"resnet50_v100_workers{n}") for n in (0, 4)))
    step = steps(workers)
    assert step["step"]["verdict"] == "perhaps faster", "two of six steps are as slow as before"
    assert step["idle"]["change"] < -38e9 < -30e9 < step["compute"]["change"] - 30e9  # type: ignore[operator]
    tpu = compared(*(opened(shared / "traces/xla" / f"tpu_vllm_qwen3_{run}") for run in "ab"))
    assert tpu.baseline.what == "executions of jit_step_fun"
    kinds = {row["category"]: row for row in tpu.categories.table.to_dicts()}
    assert kinds["convolution fusion"]["candidate"] == 0
    assert kinds["custom-call"]["candidate"] > kinds["custom-call"]["baseline"] > 0


def test_every_table_of_times_has_medians_and_spreads() -> None:
    baseline, candidate = run(seed=1), run(changed(0, length=260.0), seed=2)
    found, profiles = compared(baseline, candidate), [measured(each) for each in (baseline, candidate)]
    row = found.ops.table.row(by_predicate=pl.col("name") == "gemm_nt", named=True)
    for side, each in zip(("baseline", "candidate"), profiles, strict=True):
        times = each.ops.filter(name="gemm_nt")["time"].to_numpy()
        assert row[f"{side}_median"] == pytest.approx(np.median(times), abs=1)
        assert row[f"{side}_spread"] == pytest.approx(np.std(times, ddof=1), abs=1)
    spreads = {"baseline_median", "candidate_median", "baseline_spread", "candidate_spread"}
    assert all(spreads <= set(result.table.columns) for result in (found.step, found.categories, *found.sections))


def test_what_takes_more_time_only_because_it_runs_more_often_is_told() -> None:
    thrice = (*(MODEL[0] for _ in range(3)), *MODEL[1:])
    assert MODEL[0].name == "gemm_nt"
    found = compared(run(noise=0), run(thrice, noise=0))
    row = found.ops.table.row(by_predicate=pl.col("name") == "gemm_nt", named=True)
    assert row["change"] == 2 * row["baseline"] > 0
    assert (row["baseline_count"], row["candidate_count"], row["verdict"]) == (1, 3, "slower, more often")


def test_what_takes_much_more_time_and_runs_a_little_more_often_is_slower() -> None:
    slow = (*(replace(MODEL[0], length=5 * MODEL[0].length) for _ in range(2)), *MODEL[1:])
    found = compared(run(noise=0), run(slow, noise=0))
    row = found.ops.table.row(by_predicate=pl.col("name") == "gemm_nt", named=True)
    assert (row["baseline_count"], row["candidate_count"], row["verdict"]) == (1, 2, "slower")


def test_what_runs_more_often_in_the_same_time_is_told() -> None:
    halves = (*(Kernel("gemm_nt", "aten::linear", 100, pause) for pause in (5, 0)), *MODEL[1:])
    found = compared(run(noise=0), run(halves, noise=0))
    row = found.ops.table.row(by_predicate=pl.col("name") == "gemm_nt", named=True)
    assert (row["change"], row["baseline_count"], row["candidate_count"], row["verdict"]) == (0, 1, 2, "more often")
    assert "no difference" not in note_texts(found.ops.notes)
    causes = next(section for section in found.sections if section.analysis == "diff-causes").table
    assert causes.row(by_predicate=pl.col("part") == "launches", named=True)["verdict"] == "more"
    assert set(compared(run(halves), run(halves, seed=3)).ops.table["verdict"]) <= {"the same", "noise", "unclear"}


def test_a_category_that_one_run_alone_has_is_removed_or_added() -> None:
    baseline, candidate = run(), run([kernel for kernel in MODEL if kernel.kind != "copy"])
    for found, word in ((compared(baseline, candidate), "removed"), (compared(candidate, baseline), "added")):
        told = dict(found.categories.table.select("category", "verdict").iter_rows())
        assert told["copy"] == word
        assert word not in {said for category, said in told.items() if category != "copy"}
        assert found.waterfall.table.filter(part="copy")["verdict"].to_list() == [word]


def test_memsets_are_copies_in_the_step_and_in_the_categories() -> None:
    model = (*MODEL, Kernel("Memset (Device)", "aten::zero_", 10, kind="memset"))
    found = compared(run(model), run((*model[:-1], replace(model[-1], length=25))))
    (copies,) = found.categories.table.filter(pl.col("category").is_in(["copy", "memset"])).to_dicts()
    part = steps(found)["copy"]
    assert (copies["category"], copies["verdict"], part["verdict"]) == ("copy", "slower", "more")
    assert copies["exposed_change"] == part["change"]
    assert set(found.ops.table["category"]) >= {"copy", "memset"}


@pytest.mark.parametrize(("longer", "told"), [(0.009, {"noise"}), (0.011, {"slower"})])
def test_what_no_table_prints_is_no_change(longer: float, told: set[str]) -> None:
    """Of steps that are all alike every change is sure; here by a part of 100 us."""
    model = (*MODEL[:-1], Kernel("gemm", "aten::mm", 100))
    found = compared(run(model, noise=0), run((*model[:-1], replace(model[-1], length=100 + longer)), noise=0))
    assert set(found.ops.table.filter(name="gemm")["verdict"]) == told
    assert found.step.table["verdict"][0] == "noise", "of the step it is a smaller part"


def loaded(*levels: float) -> RunProfile:
    """A run whose steps are all alike, but for the level of a counter in each."""
    found = measured(run(noise=0, steps=len(levels)))
    named = {"step": found.steps["step"], "topic": "counters", "name": "load", "count": 1.0}
    measures = pl.DataFrame(named | {"value": list(map(float, levels))})
    return replace(found, measures=measures.cast(found.measures.schema).select(found.measures.columns))


@pytest.mark.parametrize(("last", "told", "notes"), [(9.001, "noise", 0), (12.0, "unclear", 1)])
def test_why_something_is_unclear_is_said_where_it_is(last: float, told: str, notes: int) -> None:
    found = compare_runs(loaded(1, 9, 1, 9, 1, 9), loaded(1, 9, 1, 9, 1, last))
    load = found.sections[-1]
    assert load.table.select("counter", "verdict").rows() == [("load", told)]
    assert [
        result.analysis
        for result in found.results
        for note in note_texts(result.notes)
        if note.startswith("unclear: steps vary too much")
    ] == (["diff-counters"] * notes)
