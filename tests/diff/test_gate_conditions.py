"""Conditions: what they say, and when they fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from runs import changed, measured, run

from jobs import Rank, job
from tracehound.cli.main import main
from tracehound.diff import (
    RunProfile,
    compare_runs,
    incomplete_run_notes,
    judge_comparison,
    judge_run,
    parse_condition,
    profile_run,
    save_baseline,
)
from tracehound.draw.notes import note_texts
from tracehound.errors import TracehoundError
from tracehound.model.notes import Note
from tracehound.model.trace import Window
from tracehound.model.units import format_duration
from tracehound.report.result_page import comparison_page

BASE = measured(run())
SAME = measured(run(seed=5))
SLOWER = measured(run(changed(0, length=300.0), seed=6))


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("step_time > +3%", True),
        ("step_time > +30%", False),
        ("step_time > +50us", True),
        ("step_time>+5ms", False),
        ("step_time < +3%", False),
        ("step_time > 500us", True),
        ("step_time < 500 us", False),
        ("compute > 10%", True),
        ("idle > 20 %", False),
        ("op:gemm_nt > +10%", True),
        ("op:GEMM > +10%", True),
        ("op:softmax > +10%", False),
        ("Step_Time > +3 %", True),
        ("op:gemm.n > 100us", True),
        ("communication > +1%", False),
    ],
)
def test_a_slower_run(text: str, failed: bool) -> None:  # noqa: FBT001
    (verdict,) = judge_comparison(BASE, SLOWER, [parse_condition(text)])
    assert verdict.failed is failed, verdict.why


@pytest.mark.parametrize("text", ["step_time > +0%", "op:gemm > +0.01%", "idle > +0.1us", "compute < -0.01%"])
def test_noise_fails_nothing(text: str) -> None:
    (verdict,) = judge_comparison(BASE, SAME, [parse_condition(text)])
    assert not verdict.failed
    assert ": noise" in verdict.why or ": the same" in verdict.why


def test_what_few_steps_cannot_tell_is_unclear() -> None:
    baseline, candidate = (measured(run(steps=5, noise=0.4, seed=seed)) for seed in (2, 3))
    step, idle = judge_comparison(
        baseline, candidate, [parse_condition("step_time > +0%"), parse_condition("copy > +0%")]
    )
    assert step.why.endswith(": unclear with 5 steps against 5")
    assert idle.why.endswith(": unclear with 5 steps against 5, tested alone")


def test_what_passes_because_it_may_be_chance_is_told_with_what_is_stricter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    baseline, candidate = tmp_path / "base.json", tmp_path / "other.json"
    save_baseline(measured(run(steps=5, noise=0.4, seed=2)), baseline)
    save_baseline(measured(run(changed(0, length=300.0), steps=5, noise=0.4, seed=3)), candidate)
    conditions = ("step_time > +0%", "step_time > +900%")
    assert (
        main(["diff", str(baseline), str(candidate), *(word for text in conditions for word in ("--fail-on", text))])
        == 0
    )
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tracehound: passed: step_time > +0%: ")
    assert "it may be chance: record more steps, or give a limit without a sign" in line


@pytest.mark.parametrize(("baseline", "candidate"), [(BASE, SAME), (BASE, SLOWER), (SLOWER, BASE)])
def test_the_reason_of_the_step_is_the_verdict_of_the_table(baseline: RunProfile, candidate: RunProfile) -> None:
    (gate,) = judge_comparison(baseline, candidate, [parse_condition("step_time > +0%")])
    verdict = compare_runs(baseline, candidate).step.table["verdict"][0]
    assert gate.why.endswith(f": {verdict}")


def test_what_is_tested_alone_is_said() -> None:
    """Of 4 steps against 4 the surest that a part can be is not sure among all rows of the tables."""
    baseline, candidate = measured(run(steps=4)), measured(run(changed(3, length=300.0), steps=4, seed=6))
    (gate,) = judge_comparison(baseline, candidate, [parse_condition("communication > +10%")])
    assert gate.failed
    assert gate.why.endswith(": more, tested alone")
    (note,) = note_texts(comparison_page(compare_runs(baseline, candidate), [gate]).results[0].notes)
    assert note.startswith("tested alone: ")


def test_faster_fails_where_that_is_asked_for() -> None:
    (verdict,) = judge_comparison(SLOWER, BASE, [parse_condition("step_time < -3%")])
    assert verdict.failed


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", [8, 30])
def test_noise_fails_at_most_as_often_as_stated(seeds: int) -> None:
    runs = [measured(run(noise=0.05, seed=seed)) for seed in range(seeds)]
    pairs = [(runs[at], runs[at + 1]) for at in range(len(runs) - 1)]
    asked = [parse_condition("step_time > +0%")]
    assert sum(judge_comparison(*pair, asked)[0].failed for pair in pairs) <= 1


def test_few_steps_are_judged_by_their_averages_and_that_is_said() -> None:
    few = measured(run(changed(0, length=300.0), steps=2))
    (verdict,) = judge_comparison(BASE, few, [parse_condition("step_time > +3%")])
    assert verdict.failed
    assert "too few steps" in verdict.why
    (same,) = judge_comparison(few, few, [parse_condition("step_time > -5%")])
    assert same.failed


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a condition"),
        ("idle", "not a condition"),
        ("idle >", "not a condition"),
        ("idle > 3", "has no unit; such as 3% or 3ms"),
        ("idle >= 3%", ">= is neither > nor <"),
        ("idle > 3 parsecs", "is not a time"),
        ("idle > 1.2.3%", "not a number"),
        ("idleness > 3%", "cannot be judged"),
        ("op: > 3%", "not a condition"),
        ("op:\t > 3%", "not a condition"),
        ("op:( > 3%", "not a regular expression"),
        ("idle = 3%", "not a condition"),
        ("idle > +\x1b[31m3%", "not a condition"),
        ("step_time > 5%", "the step is always 100 % of the step"),
    ],
)
def test_what_is_no_condition_is_said_in_one_line(text: str, why: str) -> None:
    with pytest.raises(TracehoundError) as raised:
        parse_condition(text)
    assert why in str(raised.value)
    assert "\x1b" not in str(raised.value)


def test_a_pattern_that_no_op_has_is_an_error() -> None:
    for judge in (lambda asked: judge_comparison(BASE, SLOWER, asked), lambda asked: judge_run(SLOWER, asked)):
        with pytest.raises(TracehoundError, match="no op has that in its name"):
            judge([parse_condition("op:nothing > 5ms")])
    for text in ("op:gemm_nt < -90%", "op: gemm_nt < -90%"):
        assert not judge_comparison(BASE, SLOWER, [parse_condition(text)])[0].failed


def test_one_run_has_no_base() -> None:
    assert judge_run(SLOWER, [parse_condition("idle > 1%")])[0].failed
    with pytest.raises(TracehoundError, match="compares with a baseline"):
        judge_run(SLOWER, [parse_condition("idle > +1%")])


def test_an_op_is_judged_with_what_it_was_matched_to() -> None:
    renamed = measured(run(changed(0, name="gemm_nt_v2", length=240.0), seed=7))
    for pattern in ("gemm_nt$", "gemm_nt_v2"):
        (verdict,) = judge_comparison(BASE, renamed, [parse_condition(f"op:{pattern} > +10%")])
        assert verdict.failed, verdict.why
    assert not judge_comparison(BASE, renamed, [parse_condition("op:gemm_nt > +30%")])[0].failed


def test_a_pattern_may_be_a_kind() -> None:
    (verdict,) = judge_comparison(BASE, SLOWER, [parse_condition("op:^copy$ > 10us")])
    assert verdict.failed
    copies = SLOWER.ops.filter(category="copy")["time"].sum() / SLOWER.steps.height
    assert verdict.why == format_duration(round(copies))


def test_what_is_not_alike_is_not_judged() -> None:
    asked = [parse_condition("step_time > +3%")]
    on_host = replace(SLOWER, of="operators on the host")
    whole = replace(SLOWER, what="the whole run")
    for candidate, why in (
        (on_host, "of the candidate operators on the host"),
        (whole, "of the candidate the whole run"),
    ):
        with pytest.raises(TracehoundError, match=why):
            judge_comparison(BASE, candidate, asked)
        assert not judge_comparison(BASE, candidate, [parse_condition("step_time > 1s")])[0].failed, (
            "without a sign it is about one run"
        )
        assert any(why in note for note in note_texts(compare_runs(BASE, candidate).step.notes))


def test_nothing_passes_no_gate() -> None:
    nothing = replace(BASE, steps=BASE.steps.clear(), ops=BASE.ops.clear(), measures=BASE.measures.clear())
    for judge in (lambda asked: judge_comparison(BASE, nothing, asked), lambda asked: judge_run(nothing, asked)):
        with pytest.raises(TracehoundError, match="nothing was measured"):
            judge([parse_condition("idle > 5ms")])
    assert compare_runs(nothing, BASE).step.table.height == compare_runs(BASE, nothing).step.table.height == 5


def test_what_a_run_lacks_is_told() -> None:
    first = Note("dropped", "event_cut_off", file="x.json", where="byte 7")
    cut = replace(SLOWER, missing_data=(first, Note("dropped", "event_not_json", 2)))
    line = "the candidate is not whole: event cut off at the end of the file (x.json, byte 7), and 1 more; see health"
    assert line in note_texts(compare_runs(BASE, cut).step.notes)
    assert note_texts(incomplete_run_notes({"candidate": cut})) == (line,)
    counted = replace(cut, missing_data=cut.missing_data[1:])
    assert note_texts(incomplete_run_notes({"baseline": counted})) == (
        "the baseline is not whole: event that is not JSON (2); see health",
    )
    assert incomplete_run_notes({"baseline": BASE}) == []


@pytest.mark.parametrize(
    ("here", "told"), [((0, 1), ("of the job's 4 ranks not in this trace: ranks 2-3",)), ((0,), ())]
)
def test_ranks_that_are_missing_beside_others_are_told_of(
    tmp_path: Path, here: tuple[int, ...], told: tuple[str, ...]
) -> None:
    ranks = [Rank(number, 4) for number in here]
    for rank in ranks:
        rank.collective(5, 10, 20)
    assert note_texts(profile_run(job(tmp_path, *ranks), Window()).missing_data) == told
