"""Sentences of notes on the rank map: the worst rank by a value, or how near all ranks are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.model.notes import SentenceTemplate
from tracehound.model.units import count_noun, format_duration, format_share

_SUPERLATIVES: Final = {"step_time": "slowest", "busy": "least busy", "late": "latest", "kernel": "slowest"}

_AMOUNTS: Final = {
    "step_time": "mean step {}",
    "busy": "{} of the step",
    "late": "{} late in a mean step",
    "kernel": "mean kernel {}",
}

_MISSING_VALUES: Final = {
    "step_time": "no step has a length",
    "busy": "busy is unknown: no device work was recorded",
    "late": "lateness is unknown: no collective of two ranks was matched in a step",
    "kernel": "no kernel of a step has this in its name: choose a part of a name with kernel=NAME",
}


_NEAR: Final = 0.1
"""Ranks whose means differ from the median by more than this fraction are not about equal."""


def _format_value(value: str, amount: float) -> str:
    return format_share(amount) if value == "busy" else format_duration(round(amount))


def _worst(
    value: str, rank: int, host: str, mean: float, median: float, ranks: int, nearby: int
) -> str:  # fmt: skip
    """`nearby` more ranks are at least half as far from the median."""
    who = f"rank {rank} on {host}" if host else f"rank {rank}"
    who, verb = (f"{who} and {nearby:,} more", "are") if nearby else (who, "is")
    each = " on the first" if nearby else ""
    amount = _AMOUNTS[value].format(_format_value(value, mean))
    return (
        f"{who} {verb} {_SUPERLATIVES[value]}: {amount}{each}, against a median of {_format_value(value, median)} "
        f"over {count_noun(ranks, 'rank')}"
    )


def _even(value: str, median: float, ranks: int, spread: float, base: float) -> str:
    """`spread` is the largest distance of a rank's mean from the median, `base` what it was compared with."""
    middle, over = _format_value(value, median), f"({count_noun(ranks, 'rank')})"
    share = format_share(spread / base if base else 0.0)
    if value == "busy":
        return f"all ranks are about equally busy: {middle} of the step, within {format_share(spread)} of it {over}"
    if value == "late":
        within = f"within {format_duration(round(spread))} in a mean step, {share} of it"
        return f"no rank is much later than the others: {within} {over}"
    what = "kernel" if value == "kernel" else "step"
    if spread > _NEAR * base:
        return f"no rank is much slower than the others: mean {what} {middle}; some are up to {share} faster {over}"
    return f"all ranks are about equally fast: mean {what} {middle}, within {share} {over}"


def _one_rank(rank: int, value: str, mean: float) -> str:
    amount = _AMOUNTS[value].format(_format_value(value, mean))
    return f"rank {rank}: {amount}; open the files of all ranks together to compare them"


def _missing(value: str) -> str:
    return _MISSING_VALUES[value]


SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "rank_map_worst": _worst,
    "rank_map_even": _even,
    "rank_map_of_one_rank": _one_rank,
    "rank_map_without_value": _missing,
    "lateness_not_computed": (
        "lateness is not computed: it compares all {calls:,} collective calls at once; value=late computes it"
    ),
}

HEADLINES: Final = frozenset({"rank_map_worst", "rank_map_even", "rank_map_of_one_rank", "rank_map_without_value"})
"""Codes of notes that answer the question of their table."""
