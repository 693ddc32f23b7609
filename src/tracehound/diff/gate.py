"""Conditions under which a comparison fails, or one run: ``step_time > +3%``, ``idle > 20%``, ``op:all-reduce > +1ms``.

Owns their grammar and what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Final, Literal

import polars as pl
from msgspec import Struct

from tracehound.diff.identity import IDENTITY
from tracehound.diff.matching import matched
from tracehound.diff.noise import LEAST
from tracehound.diff.numbers import FEW, UNCLEAR, Pair, Side, more, verdicts
from tracehound.diff.profile import PARTS, Profile, not_alike
from tracehound.diff.quantities import Floats, filled
from tracehound.errors import TracehoundError, printable
from tracehound.units import duration, growth, parse_duration, share

_WHAT: Final = """\
WHAT > LIMIT or WHAT < LIMIT. WHAT is step_time, compute, communication, copy, idle or op:PATTERN (the own time of all
ops whose name or kind has that regular expression in it)."""

ALONE: Final = f"""\
{_WHAT}
LIMIT is 20% (of the step) or 5ms (in a step). A run of which nothing was measured is refused (exit status 2)."""
"""The grammar of conditions on one run."""

GRAMMAR: Final = f"""\
{_WHAT}
LIMIT is +3% (more than the base, in parts of it), +2ms (more than the base), 20% (of the step) or 5ms (in a step). A
limit with a sign needs a base, and fails only where the steps tell the change from chance (one time in a hundred by
chance itself, of thirty-five with 4 steps on a side); with fewer than 4 steps on a side averages decide. Each condition
is tested alone; rows of the tables are tested together, so that each needs stronger evidence. What ops of the pattern
were matched to in the other run counts with them, whatever it is called there. A run of which nothing was measured is
refused (exit status 2), and with a sign one whose steps are something else than the base's."""
"""The grammar of conditions on a comparison."""

_CONDITION: Final = re.compile(r"\s*(op:\s*\S.*?|[A-Za-z_]+)\s*([<>]=?|=+)\s*([+-]?)\s*([0-9.]+)\s*(%|[a-zµ]*)\s*")


class Condition(Struct, frozen=True):
    """One condition: `what` is compared with `limit`, a fraction where `is_share`, else ps; `sign` marks a change."""

    text: str
    what: str
    sense: Literal["<", ">"]
    sign: Literal["", "+", "-"]
    limit: float
    is_share: bool

    @property
    def alone(self) -> bool:
        """Whether it is tested by itself what the tables test with all their rows; the step they test so, too."""
        return bool(self.sign) and self.what != "step_time"


class Verdict(Struct, frozen=True):
    """What came of a condition, and why in one line; `spared` is what is beyond its limit, and may be so by chance.

    The change that it is about was tested `alone`, not together with the rows of a table.
    """

    condition: Condition
    failed: bool
    why: str
    spared: bool = False
    alone: bool = False


def condition(text: str) -> Condition:
    """A condition as people write it. Raises TracehoundError for what is none."""
    match = _CONDITION.fullmatch(text)
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
    if what not in ("step_time", *PARTS) and not what.startswith("op:"):
        names = ", ".join(("step_time", *PARTS, "op:PATTERN"))
        raise TracehoundError(f"{printable(what)!r} cannot be judged", remedy=f"there are {names}")
    if what.startswith("op:"):
        _pattern(what)
    try:
        limit = float(number) / 100 if unit == "%" else float(parse_duration(number + unit))
    except ValueError as error:
        raise TracehoundError(f"not a number: {printable(number)!r}") from error
    if what == "step_time" and unit == "%" and not sign:
        remedy = f"+{number}% is more than the base; or give a time"
        raise TracehoundError(f"{printable(text)!r}: the step is always 100 % of the step", remedy=remedy)
    signed = -limit if sign == "-" else limit
    return Condition(text.strip(), what, "<" if sense == "<" else ">", _sign(sign), signed, unit == "%")


def _sign(text: str) -> Literal["", "+", "-"]:
    return "+" if text == "+" else "-" if text == "-" else ""


def _pattern(what: str) -> re.Pattern[str]:
    try:
        return re.compile(what.removeprefix("op:"), re.IGNORECASE)
    except re.error as error:
        raise TracehoundError(f"not a regular expression: {printable(what)!r}: {error}") from error


def judged_alone(profile: Profile, conditions: Sequence[Condition]) -> list[Verdict]:
    """What comes of conditions on one run. Raises TracehoundError for one that needs a base."""
    for each in conditions:
        if each.sign:
            remedy = "tracehound diff BASE OTHER --fail-on ..."
            raise TracehoundError(f"{each.text!r} compares with a base", remedy=remedy)
    _refuse_empty(conditions, profile)
    _refuse_unknown(conditions, profile)
    return [_level(profile, each) for each in conditions]


def judged(base: Profile, other: Profile, conditions: Sequence[Condition]) -> list[Verdict]:
    """What comes of conditions on a comparison: those without a sign are about the other run alone.

    Raises TracehoundError for one about ops of which neither run has any, and where the runs cannot be held against
    each other.
    """
    _refuse_empty(conditions, base, other)
    if any(each.sign for each in conditions) and (unlike := not_alike(base, other)) is not None:
        of = dict(unlike.values)
        raise TracehoundError(
            f"not alike: of the base {of['base']}, of the other {of['other']} is compared",
            remedy="mark the same steps in both runs, and record both with the same activities",
        )
    _refuse_unknown(conditions, base, other)
    return [_change(base, other, each) if each.sign else _level(other, each) for each in conditions]


def _refuse_empty(conditions: Sequence[Condition], *profiles: Profile) -> None:
    """Of nothing every limit holds."""
    for each in profiles:
        if conditions and not each.steps["duration"].sum():
            raise TracehoundError(
                f"{printable(each.name)}: nothing was measured", remedy="tracehound report PATH health"
            )


def _refuse_unknown(conditions: Sequence[Condition], *profiles: Profile) -> None:
    """A misspelt op would never fail."""
    for each in conditions:
        if each.what.startswith("op:") and not any(_meant(run.ops, each).any() for run in profiles):
            raise TracehoundError(
                f"{each.text!r}: no op has that in its name or kind", remedy="tracehound report PATH ops"
            )


def _level(profile: Profile, asked: Condition) -> Verdict:
    value = _mean(_values(profile, asked))
    whole = _mean(profile.steps["duration"].to_numpy())
    found = value / whole if asked.is_share and whole else value
    words = f"{share(found)} of the step" if asked.is_share else duration(round(found))
    return Verdict(asked, _beyond(found, asked), words)


def _change(base: Profile, other: Profile, asked: Condition) -> Verdict:
    if asked.what.startswith("op:"):
        ours, theirs = _matched(base, other, asked)
    else:
        ours, theirs = _values(base, asked), _values(other, asked)
    before, after = _mean(ours), _mean(theirs)
    if asked.is_share and before == 0:
        found = 0.0 if after == 0 else float("inf")
    else:
        found = (after - before) / before if asked.is_share else after - before
    told = f"{duration(round(before))} to {duration(round(after))}"
    if before:
        told += f" ({growth((after - before) / before)})"
    ((word,),) = verdicts(Pair(filled(ours[:, None]), filled(theirs[:, None])))
    decided = word in ("slower", "faster") or min(len(ours), len(theirs)) < LEAST
    beyond, why = _beyond(found, asked), f"{told}: {_said(word, asked, len(ours), len(theirs))}"
    return Verdict(asked, decided and beyond, why, beyond and not decided, alone=asked.alone and word not in _PLAIN)


def _said(word: str, asked: Condition, base: int, other: int) -> str:
    """The word of the tables for a change, and what the test was where theirs is another one."""
    if word in _PLAIN:
        return word
    said = f"{word} with {base:,} steps against {other:,}" if word == UNCLEAR else word
    return f"{more(said) if asked.what in PARTS else said}{', tested alone' if asked.alone else ''}"


_PLAIN: Final = (FEW, "the same")
"""Words for a change that need no test."""


def _beyond(value: float, asked: Condition) -> bool:
    return value > asked.limit if asked.sense == ">" else value < asked.limit


def _values(profile: Profile, asked: Condition) -> Floats:
    """What is judged, step by step."""
    if not asked.what.startswith("op:"):
        name = "duration" if asked.what == "step_time" else asked.what
        return profile.steps[name].to_numpy()
    sums = profile.ops.filter(_meant(profile.ops, asked)).group_by("step").agg(pl.col("time").sum())
    return profile.steps.join(sums, on="step", how="left")["time"].fill_null(0.0).to_numpy()


def _meant(ops: pl.DataFrame, asked: Condition) -> pl.Series:
    """Which ops a pattern names, by themselves or by their kind."""
    pattern = _pattern(asked.what)
    words = ops.select("name", "category").unique()
    named = [any(map(pattern.search, row)) for row in words.iter_rows()]
    meant = words.with_columns(pl.Series("meant", named, pl.Boolean))
    return ops.join(meant, on=["name", "category"], how="left", maintain_order="left")["meant"]


def _matched(base: Profile, other: Profile, asked: Condition) -> tuple[Floats, Floats]:
    """The time, step by step, of the ops that a pattern names on either side, and of those they were matched to."""
    sides = Side(base, IDENTITY), Side(other, IDENTITY)
    meant = [_meant(side.ops, asked).to_list() for side in sides]
    found = [
        match
        for match in matched(*(side.ops for side in sides))
        if any(of_side[row] for of_side, rows in zip(meant, match.sides, strict=True) for row in rows)
    ]
    ours, theirs = (tuple(chain.from_iterable(match.sides[number] for match in found)) for number in range(2))
    return sides[0].grouped("time", [ours]).block(0, 1)[0], sides[1].grouped("time", [theirs]).block(0, 1)[0]


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0
