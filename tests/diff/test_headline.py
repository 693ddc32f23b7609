"""The headline of a comparison: it names what was planted, on the ranks where it was, and its parts add up."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from runs import MODEL, changed, measured, run

from building import US, Building, Lane, stream, thread
from short import first, some
from tracehound.diff import (
    Comparison,
    RunProfile,
    compare_runs,
    judge_comparison,
    load_baseline,
    parse_condition,
    profile_run,
    save_baseline,
)
from tracehound.diff.comparable_work import parse_amounts, work_ratio
from tracehound.diff.comparison_numbers import MAX_SPREAD, MIN_COVERED, MIN_FACTOR, MIN_KERNELS, kernel_time_factor
from tracehound.diff.headline import Headline, mean_step_parts
from tracehound.diff.op_identity import BY_CLASS, NO_MATCH
from tracehound.draw.notes import note_texts
from tracehound.errors import TracehoundError
from tracehound.model.trace import Trace, Window
from tracehound.report import ReportStyle, find_writer
from tracehound.report.result_page import comparison_page
from tracehound.store import merge_file_frames

KERNELS = (("sgemm_nt", 400.0), ("elementwise_add", 150.0), ("softmax_warp", 90.0), ("layer_norm_kernel", 60.0))
"""Kernels of a step of each rank, and their lengths in us."""


class Plan(Struct, frozen=True):
    """A job to be built; `wait` is an event of the host before the first launch of a step: name, kind, length in us.

    `slow` is the factor of all kernels. With `ranks` it has a collective that ends when all have come; `at` are the
    ranks that wait and are slow, None for all of them, `step` the step in which they do, None for each.
    """

    ranks: int = 1
    steps: int = 6
    wait: tuple[str, str, float] = ("", "", 0)
    slow: float = 1.0
    at: int | None = None
    step: int | None = None
    noise: float = 0.002
    seed: int = 0

    def applies(self, rank: int, step: int) -> bool:
        return self.at in (None, rank) and self.step in (None, step)


def job(plan: Plan) -> Trace:
    """The trace of a plan: the host launches all work of a step at once, and the device does it one by one."""
    built = [Building("job", claim=rank, wall_ns=0, path=Path(f"rank{rank}.json")) for rank in range(plan.ranks)]
    rng, begin, count = random.Random(plan.seed), 0.0, 0
    for step in range(plan.steps):
        arrivals = []
        for rank, each in enumerate(built):
            name, kind, length = plan.wait if plan.applies(rank, step) else ("", "", 0)
            now = begin + 5
            if length:
                each.event(thread(), name, now, now + length, kind)
            now += length
            called = now
            for kernel, usual in KERNELS:
                count += 1
                took = usual * (plan.slow if plan.applies(rank, step) else 1) * (1 + rng.gauss(0, plan.noise))
                each.event(thread(), f"aten::{kernel}", called, called + 2, "op")
                each.event(thread(), "cudaLaunchKernel", called + 0.5, called + 1, "runtime", correlation=count)
                each.event(stream(rank), kernel, now + 4, now + 4 + took, correlation=count)
                now, called = now + 4 + took, called + 2
            arrivals.append((now, called))
        end = max(now for now, _ in arrivals) + 20
        for rank, each in enumerate(built):
            now, called = arrivals[rank]
            if plan.ranks > 1:
                count += 1
                each.event(thread(), "cudaLaunchKernel", called + 0.5, called + 1, "runtime", correlation=count)
                each.event(stream(rank, 9), "ncclDevKernel_AllReduce", now, end, "collective", correlation=count)
            each.event(Lane("marks"), f"ProfilerStep#{step}", begin, end + 1, "step", step=step)
        begin = end + 1
    return merge_file_frames("job", [each.part() for each in built])


def headline_of(baseline: Trace | RunProfile, candidate: Trace | RunProfile) -> Headline:
    found = compared(baseline, candidate).headline
    assert found is not None
    return found


def compared(baseline: Trace | RunProfile, candidate: Trace | RunProfile, **more: object) -> Comparison:
    sides = (each if isinstance(each, RunProfile) else profile_run(each, Window()) for each in (baseline, candidate))
    return compare_runs(*sides, **more)  # type: ignore[arg-type]


def named(headline: Headline) -> list[tuple[str, float]]:
    """The parts that the headline names, and their changes in us."""
    return [(part.detail or part.name, part.change / US) for part in headline.main_parts]


HEALTHY = {ranks: job(Plan(ranks, seed=9)) for ranks in (1, 3)}


WAITS = (
    (("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "annotation", 500), "data loading"),
    (("Python GC", "python", 500), "Python GC"),
    (("<built-in function collect>", "python", 500), "Python GC"),
    (("train.py(7): augment", "python", 500), "train.py(7): augment"),
    (("cudaMalloc", "runtime", 500), "allocation"),
)
ON_RANKS = [(ranks, *wait) for ranks in (1, 3) for wait in WAITS]
ONCE_EACH = [(3 if number == 1 else 1, *wait) for number, wait in enumerate(WAITS)]


@pytest.mark.parametrize(("ranks", "wait", "name"), some(ON_RANKS, ONCE_EACH))
def test_what_was_planted_is_named_with_its_cost_and_its_rank(
    ranks: int, wait: tuple[str, str, float], name: str
) -> None:
    planted = job(Plan(ranks, wait=wait, at=ranks - 1))
    found, back = headline_of(HEALTHY[ranks], planted), headline_of(planted, HEALTHY[ranks])
    for headline, sign in ((found, 1), (back, -1)):
        ((first_name, change),) = named(headline)
        assert first_name == name
        assert change == pytest.approx(sign * 500, rel=0.06), "a gap of which loading is most is all put down to it"
        assert headline.change / US == pytest.approx(sign * 500, rel=0.02)
        assert (headline.late_ranks, headline.waiting) == (((2,), 2) if ranks == 3 else ((), 0))
    assert (found.verdict, back.verdict) == ("slower", "faster")


@pytest.mark.parametrize("seed", first(2, range(5)))
def test_the_parts_add_up_to_the_change(seed: int) -> None:
    rng = random.Random(seed)
    wait = (rng.choice(["Python GC", "train.py(7): augment", "cudaMalloc"]), "python", rng.uniform(0, 300))
    plan = Plan(rng.choice([1, 2, 4]), wait=wait, slow=rng.uniform(0.8, 1.3), at=rng.choice([None, 0]), seed=seed)
    baseline, candidate = (measured(job(each)) for each in (Plan(plan.ranks, seed=seed + 50), plan))
    headline = headline_of(baseline, candidate)
    assert sum(mean_step_parts(candidate).values()) == pytest.approx(candidate.steps["duration"].mean(), abs=10)
    of_ranks = candidate.rank_parts.group_by("rank").agg(pl.col("time").sum())["time"]
    assert np.allclose(of_ranks, candidate.steps["duration"].mean(), rtol=1e-3), "ranks have steps of one length"
    error = 0.002 * headline.candidate if headline.late_ranks else 10
    assert sum(part.change for part in headline.parts) == pytest.approx(headline.change, abs=error)


def test_all_kernels_slower_by_one_factor_are_one_part() -> None:
    found = compared(HEALTHY[1], job(Plan(slow=1.2)))
    headline = found.headline
    assert headline is not None
    assert headline.kernels is not None
    assert headline.kernels.factor == pytest.approx(1.2, rel=0.01)
    assert (headline.kernels.by_rank, headline.kernels.by_step) == ((), ())
    assert [name for name, _ in named(headline)] == ["all kernels"]
    assert set(found.ops.table["verdict"]) == {"as all kernels"}
    assert "all kernels 1.2 times as long: clocks or a slower device" in note_texts(found.headline_notes)


def test_the_ranks_and_steps_of_a_factor_are_named() -> None:
    on_rank = headline_of(HEALTHY[3], job(Plan(3, slow=1.15, at=1))).kernels
    in_step = headline_of(HEALTHY[1], job(Plan(slow=1.8, step=4))).kernels
    assert on_rank is not None
    assert in_step is not None
    ((rank, factor),), ((step, step_factor),) = on_rank.by_rank, in_step.by_step
    assert (rank, step) == (1, 4)
    assert (factor, step_factor) == (pytest.approx(1.15, rel=0.01), pytest.approx(1.8, rel=0.01))


def test_the_rank_that_changed_comes_first() -> None:
    found = compared(HEALTHY[3], job(Plan(3, wait=("Python GC", "python", 500), at=1)))
    (ranks,) = (each.table for each in found.sections if each.analysis == "diff-ranks")
    assert ranks["rank"][0] == 1
    assert (ranks["idle_change"] / US).to_list() == pytest.approx([500, 0, 0], abs=2)
    assert (ranks["communication_change"] / US).to_list() == pytest.approx([0, 500, 500], abs=5)
    parts = ranks.select(pl.sum_horizontal("^(compute|communication|copy|idle)_change$")).to_series()
    assert (parts - ranks["change"]).abs().max() <= 4, "each is rounded"
    assert not [each for each in compared(HEALTHY[1], HEALTHY[1]).sections if each.analysis == "diff-ranks"]


def test_one_slow_kernel_is_named_and_is_no_factor_of_all() -> None:
    headline = headline_of(run(seed=1), run(changed(0, length=400.0), seed=2))
    assert headline.kernels is None
    (part,) = headline.main_parts
    assert (part.name, part.detail, part.factor) == ("gemm", "gemm_nt", pytest.approx(2, rel=0.02))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(1, 1e9), st.floats(0.5, 2), st.integers(0, 3), st.integers(0, 3)), max_size=8),
    st.floats(0.8, 1.3),
)
def test_the_factor_is_the_weighted_mean_of_ratios(rows: list[tuple[float, float, int, int]], whole: float) -> None:
    time = [row[0] for row in rows], [row[0] * whole * (1 + (row[1] - 1) / 20) for row in rows]
    count = [row[2] for row in rows], [row[3] for row in rows]
    found = kernel_time_factor(
        (np.array(time[0]), np.array(time[1])),
        (np.array(count[0], float), np.array(count[1], float)),
        np.ones(len(rows)),
    )
    usable = [at for at in range(len(rows)) if count[0][at] == count[1][at]]
    covered = all(sum(side[at] for at in usable) >= MIN_COVERED * sum(side) for side in time)
    if len(usable) < MIN_KERNELS or not covered:
        assert found is None
        return
    weights = [math.sqrt(time[0][at] * time[1][at]) for at in usable]
    ratios = [math.log(time[1][at] / time[0][at]) for at in usable]
    mean = sum(w * r for w, r in zip(weights, ratios, strict=True)) / sum(weights)
    spread = math.sqrt(sum(w * (r - mean) ** 2 for w, r in zip(weights, ratios, strict=True)) / sum(weights))
    limits = abs(abs(mean) - math.log(MIN_FACTOR)), abs(spread - MAX_SPREAD * abs(mean))
    if min(limits) < 1e-9:
        return
    uniform = abs(mean) >= math.log(MIN_FACTOR) and spread <= MAX_SPREAD * abs(mean)
    assert found == (pytest.approx(math.exp(mean)) if uniform else None)


def test_an_unclear_change_is_explained_all_the_same() -> None:
    found = compared(HEALTHY[1], job(Plan(wait=("Python GC", "python", 2000), step=3)))
    assert found.headline is not None
    assert found.headline.verdict == "unclear"
    lines = note_texts(found.headline_notes)
    assert "inconclusive: steps vary too much for 6 against 6; record more" in lines[0]
    assert lines[1].startswith("why: Python GC +33")
    assert lines[2].startswith("step 3 of the candidate takes 2.7")


def test_a_run_against_itself_did_not_change() -> None:
    lines = note_texts(compared(HEALTHY[3], HEALTHY[3]).headline_notes)
    assert lines[0].startswith("no change: step time 7")
    assert lines[1].startswith("compared: 6 steps against 6, 3 ranks each, Test GPU, 100 % of op time in both runs")
    assert len(lines) == 2


def test_parts_that_offset_one_another_are_named() -> None:
    other = changed(0, changed(1, length=100.0), length=150.0)
    lines = note_texts(compared(run(seed=1, noise=1e-4), run(other, seed=2, noise=1e-4)).headline_notes)
    assert lines[0].endswith("no change beyond chance")
    assert lines[1].startswith("but parts of it changed: ")
    assert "GEMMs (gemm_nt 0.75 times as long) -50" in lines[1]
    assert "softmax kernels (softmax_warp 2 times as long) +50" in lines[1]


def test_few_steps_are_inconclusive_and_explained() -> None:
    lines = note_texts(compared(job(Plan(steps=1)), job(Plan(steps=1, slow=1.5))).headline_notes)
    assert lines[0].endswith("inconclusive: only 1 against 1; record at least 4 of each")
    assert lines[1].startswith("why: all kernels 1.5 times as long +")


def serving(prefills: int, decodes: int, *, decode: float = 200, seed: int = 0) -> Trace:
    """A server: steps of prefill of 2 ms among steps of decode, in us, with 1 % of noise."""
    built, now, rng = Building(), 0.0, random.Random(seed)
    names = ["execute_context_1(512)_generation_0(0)"] * prefills + ["execute_context_0(0)_generation_8(8)"] * decodes
    rng.shuffle(names)
    for step, name in enumerate(names):
        length = (2000 if "context_1" in name else decode) * (1 + rng.gauss(0, 0.01))
        built.event(thread(), "cudaLaunchKernel", now + 1, now + 2, "runtime", correlation=step)
        built.event(stream(), "gemm_nt", now + 5, now + 5 + length, correlation=step)
        built.event(Lane("marks"), name, now, now + length + 8, "step", step=step)
        now += length + 8
    return built.trace()


def test_the_mix_of_prefill_and_decode_is_no_change() -> None:
    found = compared(serving(4, 40), serving(12, 30, seed=1))
    assert found.headline is not None
    assert found.headline.phase == "prefill", "of both runs together it takes more time"
    assert found.headline.verdict in ("noise", "unclear")
    (phases,) = (each for each in found.sections if each.analysis == "diff-phases")
    assert phases.table.select("phase", "baseline_count", "candidate_count").rows() == [
        ("prefill", 4, 12),
        ("decode", 40, 30),
    ]
    assert not set(phases.table["verdict"]) & {"slower", "faster"}
    assert not [text for text in note_texts(found.step.notes) if "more than its median step" in text]


def test_a_phase_is_compared_by_itself() -> None:
    baseline, candidate = serving(4, 40), serving(12, 30, decode=260, seed=1)
    decode = compared(baseline, candidate, given=(("phase", "decode"),)).headline
    assert decode is not None
    assert (decode.phase, decode.steps, decode.verdict) == ("decode", (40, 30), "slower")
    assert decode.change / US == pytest.approx(60, rel=0.05)
    with pytest.raises(TracehoundError, match="not both runs have steps of phase 'mixed'"):
        compared(baseline, candidate, given=(("phase", "mixed"),))
    gate = [parse_condition("step_time > +5%")]
    (verdict,) = judge_comparison(measured(baseline), measured(candidate), gate)
    assert verdict.failed
    assert "decode: " in verdict.why
    assert "prefill: " in verdict.why
    (verdict,) = judge_comparison(measured(baseline), measured(serving(12, 30, seed=1)), gate)
    assert not verdict.failed


def shapes(*rows: tuple[str, str]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"name": pl.String, "dims": pl.String}, orient="row")


@pytest.mark.parametrize(
    ("baseline", "candidate", "flops", "expected"),
    [
        ([("mm", "[[32,64],[64,8]]")], [("mm", "[[128,64],[64,8]]")], None, (32, 128)),
        ([("mm", "[[32,64],[64,8]]")], [("mm", "[[128,64],[64,8]]")], (1e9, 4e9), (32, 128)),
        ([("mm", "[[32,64],[64,8]]")], [("mm", "[[128,64],[64,8]]")], (1e9, 1e9), None),
        ([("mm", "[[32,64],[64,8]]")], [("mm", "[[32,128],[128,8]]")], None, None),
        ([("mm", "[[32,64]]"), ("add", "[[32,64]]")], [("mm", "[[64,64]]"), ("add", "[[32,64]]")], None, (32, 64)),
        ([("mm", "[[32,64]]")], [("mm", "[[32,64]]")], None, None),
        ([("mm", "[[32,64]]")], [("bmm", "[[64,64]]")], None, None),
        ([("mm", "no shapes")], [("mm", "[[64,64]]")], None, None),
        ([("mm", "[[0,64],[]]")], [("mm", "[[64,64],[]]")], None, None),
    ],
)
def test_the_ratio_of_work_is_that_of_the_batch(
    baseline: list[tuple[str, str]],
    candidate: list[tuple[str, str]],
    flops: tuple[float, float] | None,
    expected: tuple[int, int] | None,
) -> None:
    found = work_ratio(shapes(*baseline), shapes(*candidate), flops)
    assert (None if found is None else (found.before, found.after)) == expected


def test_the_time_of_a_sample_is_told() -> None:
    given = (("samples", "10,40"),)
    found = compared(run(noise=0), run([replace(each, length=each.length * 2) for each in MODEL], noise=0), given=given)
    assert found.headline is not None
    before, after = found.headline.baseline, found.headline.candidate
    (line,) = [text for text in note_texts(found.headline_notes) if text.startswith("time per sample")]
    assert f"({(after / 40) / (before / 10) * 100 - 100:+.3g} %)" in line
    assert parse_amounts("64") == (64, 64)
    for text in ("0", "-1", "many", "1,2,3", "nan", "inf", "1e99"):
        with pytest.raises(TracehoundError):
            parse_amounts(text)


def test_products_that_another_device_names_otherwise_are_one_match() -> None:
    theirs = (
        changed(0, changed(2, name="volta_sgemm_128x64_tn", operator="CompiledBackward"), name="volta_sgemm_32x128_nn",
                operator="CompiledFunction")
    )  # fmt: skip
    found = compared(
        run(changed(0, changed(2, name="ampere_sgemm_64x64_tn"), name="ampere_sgemm_128x128_nn")), run(theirs)
    )
    row = found.ops.table.filter(matched_by=BY_CLASS).row(0, named=True)
    assert (row["baseline_ops"], row["candidate_ops"]) == (2, 2)
    assert NO_MATCH not in found.ops.table["matched_by"].to_list()
    (gemm,) = found.categories.table.filter(category="gemm").rows(named=True)
    assert gemm["baseline"] == pytest.approx(gemm["candidate"], rel=0.02)
    added = compared(run(), run((*MODEL, replace(MODEL[0], name="ampere_sgemm_64x64_tn", operator="aten::new"))))
    assert added.ops.table.filter(verdict="added")["name"].to_list() == ["ampere_sgemm_64x64_tn"]


def test_the_headline_comes_first_in_every_form() -> None:
    found = compared(HEALTHY[3], job(Plan(3, wait=("Python GC", "python", 500), at=0)))
    page = comparison_page(found, [])
    text, markdown, document = (
        [line.text for line in find_writer(name).write_page(page, ReportStyle(120))]
        for name in ("text", "markdown", "json")
    )
    assert text[1].startswith("step time 7")
    assert text[2].startswith("why: Python GC +50")
    assert "on rank 0; the other 2 ranks wait in communication meanwhile" in " ".join(text[2:4])
    assert markdown[2].startswith("- step time 7")
    data = json.loads("".join(document))
    headline = data["headline"]
    assert (headline["verdict"], headline["sure"], headline["parts_of_ranks"]) == ("slower", True, [0])
    assert headline["parts"][0]["name"] == "Python GC"
    assert headline["change_ps"] == pytest.approx(500 * US, rel=0.02)
    assert data["runs"]["base"] == data["runs"]["baseline"], "keys of older versions are still there"
    row = data["results"]["diff"]["rows"][0]
    assert (row["base"], row["other_median"]) == (row["baseline"], row["candidate_median"])


def test_a_saved_baseline_has_the_same_headline(tmp_path: Path) -> None:
    baseline = measured(HEALTHY[3])
    candidate = measured(job(Plan(3, wait=("Python GC", "python", 500), at=0)))
    save_baseline(baseline, tmp_path / "main.json")
    again = load_baseline(tmp_path / "main.json")
    assert again is not None
    saved, found = headline_of(again, candidate), headline_of(baseline, candidate)
    assert saved.main_parts == found.main_parts
    assert replace(saved, parts=()) == replace(found, parts=()), "only ops behind a part are unknown"
    document = json.loads((tmp_path / "main.json").read_bytes())
    for name in ("rank_parts", "shapes", "devices", "phases"):
        del document[name]
    (tmp_path / "older.json").write_text(json.dumps(document))
    older = load_baseline(tmp_path / "older.json")
    assert older is not None
    assert headline_of(older, candidate).change == headline_of(baseline, candidate).change
    document["rank_parts"] = {"rank": [0], "phase": [""], "part": ["idle"], "name": ["x"], "time": [1e30]}
    (tmp_path / "older.json").write_text(json.dumps(document))
    with pytest.raises(TracehoundError, match="damaged"):
        load_baseline(tmp_path / "older.json")
