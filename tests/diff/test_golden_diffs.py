"""Comparisons of the project's own captures, byte for byte, and what is known of pairs that other people published.

``pytest --update-golden`` writes the comparisons anew.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from test_run_comparison import compared, opened, steps, verdicts

from samples import sample
from short import some
from tracehound.diff import Comparison, compare_runs, profile_run
from tracehound.model.trace import Trace, Window
from tracehound.report import ReportStyle, find_writer
from tracehound.report.result_page import comparison_page

PAIRS = (
    ("jax_cpu8_b128", "jax_cpu8_b4096"),
    ("torch_xla_single", "torch_xla_spmd4"),
    ("torch_stacks", "jax_cpu8_b128"),
)
PUBLISHED = (
    ("kineto", "resnet50_v100_workers0", "resnet50_v100_workers4"),
    *(
        ("kineto/compare_h100_mi300", f"h100_{model}.json.gz", f"mi300_{model}.json.gz")
        for model in ("bert-small", "qwen1.5-0.5b", "timesformer")
    ),
    ("xla", "tpu_vllm_qwen3_a", "tpu_vllm_qwen3_b"),
)
ROWS, WIDTH = 12, 120


@pytest.mark.parametrize(("baseline", "candidate"), some(PAIRS, PAIRS[1:]))
def test_a_comparison_is_what_it_was(baseline: str, candidate: str, request: pytest.FixtureRequest) -> None:
    held_to_golden(sample(baseline), sample(candidate), f"{baseline} {candidate}", request)


@pytest.mark.parametrize(("folder", "baseline", "candidate"), PUBLISHED)
def test_a_comparison_of_published_runs_is_what_it_was(
    shared: Path, folder: str, baseline: str, candidate: str, request: pytest.FixtureRequest
) -> None:
    traces = (opened(shared / "traces" / folder / name) for name in (baseline, candidate))
    held_to_golden(*traces, f"{baseline} {candidate}", request)


def held_to_golden(baseline: Trace, candidate: Trace, name: str, request: pytest.FixtureRequest) -> None:
    page = comparison_page(compare_runs(profile_run(baseline, Window()), profile_run(candidate, Window()), ROWS), [])
    written = "".join(f"{line.text}\n" for line in find_writer("text").write_page(page, ReportStyle(WIDTH)))
    path = Path(__file__).parent / "golden" / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written, encoding="utf-8")
    assert path.is_file(), "no golden comparison yet: pytest --update-golden"
    assert written.splitlines() == path.read_text(encoding="utf-8").splitlines()


def causes(found: Comparison) -> dict[str, dict[str, object]]:
    (section,) = (each for each in found.sections if each.analysis == "diff-causes")
    return {row["part"]: row for row in section.table.to_dicts()}


def test_more_workers_take_away_the_wait_for_data(shared: Path) -> None:
    found = compared(*(opened(shared / "traces/kineto" / f"resnet50_v100_workers{n}") for n in (0, 4)))
    assert steps(found)["step"]["change"] == pytest.approx(-36.52e9, rel=1e-3)
    loading = causes(found)["idle: data loading"]
    assert loading["baseline"] == pytest.approx(47.5e9, rel=0.01)
    assert (loading["candidate"], loading["verdict"]) == (0, "unclear")
    idle = sum(row["change"] for name, row in causes(found).items() if name.startswith("idle"))  # type: ignore[misc]
    assert idle == pytest.approx(steps(found)["idle"]["change"], abs=len(causes(found)))  # type: ignore[call-overload]
    memory = next(each for each in found.sections if each.analysis == "diff-memory")
    assert memory.table.filter(counter="memory change")["baseline"][0] == pytest.approx(2.6 * 2**30, rel=0.01)


def test_a_tpu_with_other_kernels(shared: Path) -> None:
    tpu = [opened(shared / "traces/xla" / f"tpu_vllm_qwen3_{run}") for run in "ab"]
    found = compare_runs(*(profile_run(trace, Window(ranks=(0,))) for trace in tpu))
    step = steps(found)["step"]
    assert [round(step[side] / 1e7) / 100 for side in ("baseline", "candidate")] == [66.91, 63.49]  # type: ignore[operator]
    kinds = found.categories.table.sort("baseline", descending=True)["category"][0]
    assert kinds == "convolution fusion"
    assert found.categories.table.sort("candidate", descending=True)["category"][0] == "custom-call"
    assert found.waterfall.table["part"].to_list()[:3] == ["baseline step", "convolution fusion", "custom-call"]


@pytest.mark.parametrize(
    ("model", "lengths"),
    [("bert-small", (4.426, 4.007)), ("qwen1.5-0.5b", (35.18, 33.76)), ("timesformer", (382.5, 390.7))],
)
def test_two_devices_meet_under_the_operators_of_their_kernels(
    shared: Path, model: str, lengths: tuple[float, float]
) -> None:
    folder = shared / "traces/kineto/compare_h100_mi300"
    found = compared(*(opened(folder / f"{device}_{model}.json.gz") for device in ("h100", "mi300")))
    step = steps(found)["step"]
    assert [step["baseline"], step["candidate"]] == pytest.approx([each * 1e9 for each in lengths], rel=1e-3)
    met = found.ops.table.filter(pl.col("matched_by").str.contains("path"))
    assert met["operator"].str.contains("aten::linear > ").any()
    assert met.filter((pl.col("baseline") == 0) | (pl.col("candidate") == 0)).is_empty()
    assert set(verdicts(found).values()) <= {"added", "removed"}, "one step each: nothing else can be told"
