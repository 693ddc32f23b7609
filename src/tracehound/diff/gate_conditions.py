"""Conditions under which a comparison fails, or one run: ``step_time > +3%``, ``idle > 20%``, ``op:all-reduce > +1ms``.

Owns their grammar and their evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Final, Literal

import polars as pl
from msgspec import Struct

from tracehound.diff.comparable_work import common_phases, steps_of_phase
from tracehound.diff.comparison_numbers import (
    TOO_FEW,
    UNCLEAR,
    QuantityPair,
    RunOpQuantities,
    as_more_or_less,
    judge_changes,
)
from tracehound.diff.op_identity import IDENTITY_COLUMNS, match_ops
from tracehound.diff.run_profile import STEP_PARTS, RunProfile, note_unlike_runs
from tracehound.diff.step_statistics import MIN_STEPS, Floats, quantities_of_array
from tracehound.errors import TracehoundError, printable
from tracehound.model.units import CELL_DIGITS, format_duration, format_growth, format_share, parse_duration

_QUANTITY_GRAMMAR: Final = """\
WHAT > LIMIT or WHAT < LIMIT. WHAT is step_time, compute, communication, copy, idle or op:PATTERN (the self time of all
ops whose name or kind matches that regular expression)."""

SINGLE_RUN_GRAMMAR: Final = f"""\
{_QUANTITY_GRAMMAR}
LIMIT is 20% (of step time) or 5ms (per step). A run without any measurement is refused (exit status 2)."""
"""The grammar of conditions on one run."""

COMPARISON_GRAMMAR: Final = f"""\
{_QUANTITY_GRAMMAR}
LIMIT is +3% (more than the baseline), +2ms (more than the baseline), 20% (of step time) or 5ms (per step). A limit with
a sign is about the change from the baseline. It fails only if the steps tell the change from noise (wrong in one of a
hundred, of thirty-five with 4 steps in a run); with fewer than 4 steps in a run the means decide. Each condition is
tested by itself; table rows are tested together and need stronger evidence. Ops that match the pattern count with the
ops that they were matched to in the other run, whatever their names. A run without any measurement is refused (exit
status 2), and, for a limit with a sign, a run whose steps are of another kind than the baseline's."""
"""The grammar of conditions on a comparison."""

_CONDITION_PATTERN: Final = re.compile(
    r"\s*(op:\s*\S.*?|[A-Za-z_]+)\s*([<>]=?|=+)\s*([+-]?)\s*([0-9.]+)\s*(%|[a-zµ]*)\s*"
)


class GateCondition(Struct, frozen=True):
    """One condition: `what` is compared with `limit`, a fraction where `is_share`, else ps; a `sign` means a change."""

    text: str
    what: str
    sense: Literal["<", ">"]
    sign: Literal["", "+", "-"]
    limit: float
    is_share: bool

    @property
    def is_tested_alone(self) -> bool:
        """True where the change is tested by itself, not with all rows of a table; the step always is."""
        return bool(self.sign) and self.what != "step_time"


class GateVerdict(Struct, frozen=True):
    """The verdict on a condition, with its reason in one line; `may_be_chance`: beyond its limit, perhaps by chance.

    With `is_tested_alone` the change was tested by itself, not together with the rows of a table.
    """

    condition: GateCondition
    failed: bool
    why: str
    may_be_chance: bool = False
    alone: bool = False


def parse_condition(text: str) -> GateCondition:
    """The condition in a text. Raises TracehoundError for other text."""
    match = _CONDITION_PATTERN.fullmatch(text)
    if match is None:
        raise TracehoundError(f"not a condition: {printable(text)!r}", remedy="such as 'step_time > +3%'; see --help")
    what, sense, sign, number, unit = match.groups()
    if sense not in ("<", ">"):
        raise TracehoundError(f"not a condition: {printable(text)!r}: {sense} is neither > nor <", remedy="see --help")
    if not unit:
        raise TracehoundError(
            f"not a condition: {printable(text)!r} has no unit", remedy=f"such as {number}% or {number}ms"
        )
    what = f"op:{what[3:].lstrip()}" if what.startswith("op:") else what.lower()
    if what not in ("step_time", *STEP_PARTS) and not what.startswith("op:"):
        names = ", ".join(("step_time", *STEP_PARTS, "op:PATTERN"))
        raise TracehoundError(f"{printable(what)!r} cannot be judged", remedy=f"there are {names}")
    if what.startswith("op:"):
        _compile_op_pattern(what)
    try:
        limit = float(number) / 100 if unit == "%" else float(parse_duration(number + unit))
    except ValueError as error:
        raise TracehoundError(f"not a number: {printable(number)!r}") from error
    if what == "step_time" and unit == "%" and not sign:
        remedy = f"+{number}% is more than the baseline; or give a time"
        raise TracehoundError(f"{printable(text)!r}: the step is always 100 % of the step", remedy=remedy)
    signed = -limit if sign == "-" else limit
    return GateCondition(text.strip(), what, "<" if sense == "<" else ">", _limit_sign(sign), signed, unit == "%")


def _limit_sign(text: str) -> Literal["", "+", "-"]:
    """The sign of a limit."""
    return "+" if text == "+" else "-" if text == "-" else ""


def _compile_op_pattern(what: str) -> re.Pattern[str]:
    """The regular expression of ``op:PATTERN``. Raises TracehoundError for an invalid one."""
    try:
        return re.compile(what.removeprefix("op:"), re.IGNORECASE)
    except re.error as error:
        raise TracehoundError(f"not a regular expression: {printable(what)!r}: {error}") from error


def judge_run(profile: RunProfile, conditions: Sequence[GateCondition]) -> list[GateVerdict]:
    """Verdicts on conditions about one run. Raises TracehoundError for one that needs a baseline."""
    for each in conditions:
        if each.sign:
            remedy = "tracehound diff BASELINE CANDIDATE --fail-on ..."
            raise TracehoundError(f"{each.text!r} compares with a baseline", remedy=remedy)
    _refuse_unmeasured_runs(conditions, profile)
    _refuse_unknown_ops(conditions, profile)
    return [_judge_level(profile, each) for each in conditions]


def judge_comparison(
    baseline: RunProfile, candidate: RunProfile, conditions: Sequence[GateCondition]
) -> list[GateVerdict]:
    """Verdicts on conditions about a comparison: those without a sign are about the candidate only.

    Raises TracehoundError for one about ops that neither run has, and where the runs cannot be compared.
    """
    _refuse_unmeasured_runs(conditions, baseline, candidate)
    if any(each.sign for each in conditions) and (unlike := note_unlike_runs(baseline, candidate)) is not None:
        of = dict(unlike.values)
        raise TracehoundError(
            f"the runs are not alike: baseline {of['baseline']}, candidate {of['candidate']}",
            remedy="mark the same steps in both runs, and record both with the same activities",
        )
    _refuse_unknown_ops(conditions, baseline, candidate)
    return [
        _judge_change_in_phases(baseline, candidate, each) if each.sign else _judge_level(candidate, each)
        for each in conditions
    ]


def _refuse_unmeasured_runs(conditions: Sequence[GateCondition], *profiles: RunProfile) -> None:
    """Refuse runs without measurements: they would pass every limit."""
    for each in profiles:
        if conditions and not each.steps["duration"].sum():
            raise TracehoundError(
                f"{printable(each.name)}: nothing was measured", remedy="tracehound report PATH health"
            )


def _refuse_unknown_ops(conditions: Sequence[GateCondition], *profiles: RunProfile) -> None:
    """Refuse patterns that match no op: a misspelled one would never fail."""
    for each in conditions:
        if each.what.startswith("op:") and not any(_ops_of_pattern(run.ops, each).any() for run in profiles):
            raise TracehoundError(
                f"{each.text!r}: no op has that in its name or kind", remedy="tracehound report PATH ops"
            )


def _judge_level(profile: RunProfile, condition: GateCondition) -> GateVerdict:
    """The verdict on a condition about one run."""
    value = _mean_or_zero(_values_by_step(profile, condition))
    whole = _mean_or_zero(profile.steps["duration"].to_numpy())
    level = value / whole if condition.is_share and whole else value
    words = f"{format_share(level, CELL_DIGITS)} of the step" if condition.is_share else _format_time(level)
    return GateVerdict(condition, _exceeds_limit(level, condition), words)


def _judge_change_in_phases(baseline: RunProfile, candidate: RunProfile, condition: GateCondition) -> GateVerdict:
    """The verdict on a condition about a change: where steps have phases of inference, it must hold in none of them."""
    phases = common_phases(baseline, candidate)
    if not phases:
        return _judge_change(baseline, candidate, condition)
    verdicts = [
        _judge_change(steps_of_phase(baseline, phase), steps_of_phase(candidate, phase), condition) for phase in phases
    ]
    failed = any(verdict.failed for verdict in verdicts)
    why = "; ".join(f"{phase}: {verdict.why}" for phase, verdict in zip(phases, verdicts, strict=True))
    may_be_chance = not failed and any(verdict.may_be_chance for verdict in verdicts)
    return GateVerdict(condition, failed, why, may_be_chance, any(verdict.alone for verdict in verdicts))


def _format_time(time: float) -> str:
    """A time in ps to compare with a limit."""
    return format_duration(round(time), digits=CELL_DIGITS)


def _judge_change(baseline: RunProfile, candidate: RunProfile, condition: GateCondition) -> GateVerdict:
    """The verdict on a condition about a change."""
    if condition.what.startswith("op:"):
        ours, theirs = _matched_op_times(baseline, candidate, condition)
    else:
        ours, theirs = _values_by_step(baseline, condition), _values_by_step(candidate, condition)
    before, after = _mean_or_zero(ours), _mean_or_zero(theirs)
    if condition.is_share and before == 0:
        change = 0.0 if after == 0 else float("inf")
    else:
        change = (after - before) / before if condition.is_share else after - before
    change_text = f"{_format_time(before)} to {_format_time(after)}"
    if before:
        change_text += f" ({format_growth((after - before) / before, CELL_DIGITS)})"
    ((word,),) = judge_changes(QuantityPair(quantities_of_array(ours[:, None]), quantities_of_array(theirs[:, None])))
    decided = word in ("slower", "faster") or min(len(ours), len(theirs)) < MIN_STEPS
    beyond, why = (
        _exceeds_limit(change, condition),
        f"{change_text}: {_change_phrase(word, condition, len(ours), len(theirs))}",
    )
    return GateVerdict(
        condition,
        decided and beyond,
        why,
        beyond and not decided,
        alone=condition.is_tested_alone and word not in _UNTESTED_WORDS,
    )


def _change_phrase(word: str, condition: GateCondition, baseline: int, candidate: int) -> str:
    """The verdict of the tables on a change, and the test where it differs from theirs."""
    if word in _UNTESTED_WORDS:
        return word
    phrase = f"{word} with {baseline:,} steps against {candidate:,}" if word == UNCLEAR else word
    changed = as_more_or_less(phrase) if condition.what in STEP_PARTS else phrase
    return f"{changed}{', tested alone' if condition.is_tested_alone else ''}"


_UNTESTED_WORDS: Final = (TOO_FEW, "the same")
"""Verdicts on a change that need no test."""


def _exceeds_limit(value: float, condition: GateCondition) -> bool:
    """True where a value exceeds the limit."""
    return value > condition.limit if condition.sense == ">" else value < condition.limit


def _values_by_step(profile: RunProfile, condition: GateCondition) -> Floats:
    """The values of the condition's quantity, step by step."""
    if not condition.what.startswith("op:"):
        name = "duration" if condition.what == "step_time" else condition.what
        return profile.steps[name].to_numpy()
    sums = profile.ops.filter(_ops_of_pattern(profile.ops, condition)).group_by("step").agg(pl.col("time").sum())
    return profile.steps.join(sums, on="step", how="left")["time"].fill_null(0.0).to_numpy()


def _ops_of_pattern(ops: pl.DataFrame, condition: GateCondition) -> pl.Series:
    """A mask of the ops that match a pattern, by name or by kind."""
    pattern = _compile_op_pattern(condition.what)
    words = ops.select("name", "category").unique()
    named = [any(map(pattern.search, row)) for row in words.iter_rows()]
    masks = words.with_columns(pl.Series("meant", named, pl.Boolean))
    return ops.join(masks, on=["name", "category"], how="left", maintain_order="left")["meant"]


def _matched_op_times(baseline: RunProfile, candidate: RunProfile, condition: GateCondition) -> tuple[Floats, Floats]:
    """Time, step by step, of the ops that match a pattern in either run, and of those that they were matched to."""
    sides = RunOpQuantities(baseline, IDENTITY_COLUMNS), RunOpQuantities(candidate, IDENTITY_COLUMNS)
    masks = [_ops_of_pattern(side.ops, condition).to_list() for side in sides]
    matches = [
        match
        for match in match_ops(*(side.ops for side in sides))
        if any(of_side[row] for of_side, rows in zip(masks, match.sides, strict=True) for row in rows)
    ]
    ours, theirs = (tuple(chain.from_iterable(match.sides[number] for match in matches)) for number in range(2))
    return sides[0].sum_groups("time", [ours]).dense_columns(0, 1)[0], sides[1].sum_groups(
        "time", [theirs]
    ).dense_columns(0, 1)[0]


def _mean_or_zero(values: Floats) -> float:
    """The mean, 0 without values."""
    return float(values.mean()) if len(values) else 0.0
