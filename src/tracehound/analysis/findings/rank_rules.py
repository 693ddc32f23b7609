"""Rules on ranks that others wait for: who is late, why, and what the others would win."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import polars as pl
from msgspec.structs import replace

from tracehound.analysis import stragglers
from tracehound.analysis.findings.advice import SLOW_CLOCK, advice
from tracehound.analysis.findings.cause_text import (
    cause_certainty,
    cause_command,
    cause_evidence,
    cause_name,
    cause_topic,
    shorten,
)
from tracehound.analysis.findings.evidence import Certainty, Evidence, Finding, FindingLocation, Rule
from tracehound.analysis.findings.host_causes import HostCause
from tracehound.analysis.findings.rank_evidence import length_factors
from tracehound.analysis.findings.step_rules import MIN_AGREEMENT, whole_step_parts
from tracehound.analysis.findings.transfer_rules import OF_LATE_RANKS, gain_of_others
from tracehound.analysis.hosts.thread_activity import LOADER, LOADING, event_activity
from tracehound.analysis.packed_tables import pack_tables
from tracehound.analysis.rank_trace import RankTrace
from tracehound.analysis.ranks.lateness import LAUNCH_DELAY, LateRanks, time_waited_for
from tracehound.analysis.result import Options
from tracehound.model.short_names import shorten_kernel_name
from tracehound.model.units import count_noun, format_duration, format_ranks
from tracehound.model.units import format_share as percent


def collect_calls_of_several_ranks(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The rows of `stragglers`; of a rank alone none, for nobody waits for it here."""
    return pack_tables([]) if rank_trace.is_only_rank else stragglers.per_rank(rank_trace, options)


STRAGGLERS: Final = replace(
    stragglers.ANALYSIS,
    name="late ranks",
    per_rank=collect_calls_of_several_ranks,
    combine=stragglers.combine_with_waits,
)
"""The analysis `stragglers` with the waits, under a name of its own, which is the key of its cached tables."""


def clip_waits(rows: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """The rows of late ranks with the part of their waits that lies in a window (ps)."""
    inside = [pl.element().struct.field(name).clip(start, end) for name in ("start", "end")]
    is_inside = pl.element().struct.field("start") < pl.element().struct.field("end")
    lates = pl.col("lates").list.eval(pl.struct(*inside)).list.eval(pl.element().filter(is_inside))
    waits = pl.col("waits").list.eval(pl.struct(pl.element().struct.field("rank"), *inside))
    return rows.with_columns(lates, waits.list.eval(pl.element().filter(is_inside))) if rows.height else rows


LATE_SHARE: Final = 0.03
_SLOW_RANK_STRETCH: Final = 1.03
"""Kernels of a late rank that are longer by a smaller factor are not called slow."""


def causes_of_late_ranks(evidence: Evidence) -> list[HostCause]:
    """The causes on the host that make ranks late: findings on these ranks tell of them."""
    return [cause for group in _costly_groups(evidence) if (cause := _host_cause_of(group, evidence)) is not None]


def names_late_ranks(cause: HostCause, evidence: Evidence) -> bool:
    """True if a finding on late ranks tells of this cause, and these have most of it."""
    return any(
        group.cause == cause.name and 2 * sum(cause.by_rank.get(rank, 0) for rank in group.ranks) >= cause.idle
        for group in _costly_groups(evidence)
    )


def _costly_groups(evidence: Evidence) -> list[LateRanks]:
    """The late ranks that have a finding of their own: where lateness moves from rank to rank, only the main ones."""
    total = sum(group.waited for group in evidence.late_groups)
    waited_for = [group for group in evidence.late_groups if group.time_lost]
    main = [group for group in waited_for if 2 * group.waited >= total or len(waited_for) <= _MAX_GROUPS]
    return [group for group in main if evidence.share_of_base(gain_of_others(group, evidence)) > LATE_SHARE]


_MAX_GROUPS: Final = 2
"""Up to as many late ranks, or hosts, have a finding each; of more, one that is waited for most of the time."""


def _host_cause_of(group: LateRanks, evidence: Evidence) -> HostCause | None:
    """The cause on the host of the lateness of these ranks: one that they alone have, and for long enough."""
    for cause in evidence.host_causes:
        here = sum(cause.by_rank.get(rank, 0) for rank in group.ranks)
        if here >= OF_LATE_RANKS * cause.idle and 2 * here >= group.time_lost * len(group.ranks):
            return cause
    return None


def _late_text(group: LateRanks) -> str:
    """``rank 2``, or ``ranks 2-3 (same host)``."""
    return f"rank {group.ranks[0]}" if len(group.ranks) == 1 else f"{format_ranks(group.ranks)} (same host)"


class _Reason(NamedTuple):
    """The reason why ranks are late, in the texts of their finding."""

    text: str
    evidence: str
    advice: str
    certainty: Certainty
    command: str


def find_late_ranks(evidence: Evidence) -> Iterator[Finding]:
    """Ranks that others wait for, each with the cause of its lateness."""
    costly = _costly_groups(evidence)
    for group in costly:
        gain = gain_of_others(group, evidence)
        share = evidence.share_of_base(gain)
        reason = _reason(group, evidence)
        others = _waiting_text(group, evidence.context.ranks.height)
        per = " per step" if evidence.steps else ""
        yield Finding(
            f"{reason.text}; {others} {format_duration(gain)}{per}",
            f"{percent(share)} of {evidence.time_phrase}"
            + (f" in {count_noun(group.steps, 'step')}" if group.steps else "")
            + (f"; {reason.evidence}" if reason.evidence else ""),
            reason.advice,
            _location(group, evidence),
            gain,
            share,
            certainty=reason.certainty,
            effects=(f"communication on {format_ranks(group.waiting)} waits for {_late_text(group)}",)
            if group.waiting
            else (),
            command=reason.command,
        )
    yield from _find_moving_lateness(evidence, costly)


def _location(group: LateRanks, evidence: Evidence) -> FindingLocation:
    cause = _host_cause_of(group, evidence)
    return FindingLocation.from_row(cause.longest if cause else group.latest_row)


def _waiting_text(group: LateRanks, ranks: int) -> str:
    """``the other ranks wait``, or ``rank 6 waits``; `ranks` is their number in the trace."""
    if not group.waiting or len(group.waiting) + len(group.ranks) == ranks:
        return "the other ranks wait"
    return f"{format_ranks(group.waiting)} wait{'s' * (len(group.waiting) == 1)}"


def _reason(group: LateRanks, evidence: Evidence) -> _Reason:
    """The reason of lateness: the host, slower kernels, one activity, or the entry into the step."""
    cause = _host_cause_of(group, evidence)
    late = f"{_late_text(group)} {'is' if len(group.ranks) == 1 else 'are'} late"
    command = "stragglers"
    if cause is not None:
        topic = cause_topic(cause, evidence)
        own_share = evidence.share_of_base(evidence.per_step(cause.gain, len(group.ranks)))
        return _Reason(
            f"{late}: {cause_name(cause)}",
            f"there the {evidence.device_word} idles {cause_evidence(cause, own_share, evidence)}",
            advice(evidence, topic),
            cause_certainty(cause),
            cause_command(cause, evidence),
        )
    if (factor := _kernel_factor(group, evidence)) is not None:
        return _Reason(
            f"{_late_text(group)}: all kernels take {factor:.3g} times as long as on the other ranks",
            "kernels of every name are longer by about this factor, so the clock or another job is the reason",
            advice(evidence, SLOW_CLOCK),
            "inferred",
            "kernels --set by=rank",
        )
    explains = 2 * group.excess >= group.time_lost
    if group.cause and group.cause != LAUNCH_DELAY and explains:
        where = "their host spends" if len(group.ranks) > 1 else "it spends"
        excess = evidence.per_step(group.excess, 1)
        per = " per step" if evidence.steps else ""
        return _Reason(
            f"{late}: {shorten(shorten_kernel_name(group.cause))}",
            f"{where} {format_duration(excess)}{per} more in {group.cause_text} than the other ranks",
            _advice_on_activity(group, evidence),
            "recorded",
            command,
        )
    if entry := _late_entry(group, evidence):
        return _Reason(f"{_late_text(group)} {entry[0]}", entry[1], _ENTRY_ADVICE, "inferred", command)
    why = "the work waits in the device's queue" if group.cause == LAUNCH_DELAY else ""
    if group.cause and not explains:
        part = format_duration(evidence.per_step(group.excess, 1))
        why = f"it spends {part} more in {group.cause_text} than the other ranks, which explains less than half of it"
    return _Reason(
        f"{late}; the trace does not show why", why, "compare what the late rank does before the collective with what"
        " the"
        " others do; record Python stacks", "not recorded", command,
    )  # fmt: skip


def _advice_on_activity(group: LateRanks, evidence: Evidence) -> str:
    """Advice on what the late ranks do longer than the others: loading data, a kernel, or something else."""
    activity = event_activity(group.cause or "", "annotation")
    if activity in (LOADER, LOADING) or re.search(LOADING_WORDS, group.cause or ""):
        return advice(evidence, "data loading")
    if evidence.kernels.filter(pl.col("name") == group.cause).height:
        return (
            "compare the shapes and counts of this kernel between ranks (kernels --set by=rank): if they differ,"
            " balance the work; if not, check the clock of the device and other jobs on it"
        )
    return "compare what the late rank does before the collective with the others; give every rank the same work"


LOADING_WORDS: Final = r"(?i)^(?:data|load|fetch|batch|input|infeed)\b"

_ENTRY_ADVICE: Final = "record more steps: what made the rank late lies before the first recorded step, and may be the"
" start of the profiler"


def _kernel_factor(group: LateRanks, evidence: Evidence) -> float | None:
    """The factor by which all kernels of a late rank are longer than on the others; None if they are not."""
    factors = length_factors(evidence.computation_times, "rank")
    mine = factors.filter(pl.col("rank").is_in(list(group.ranks)))
    slow = mine.filter((pl.col("factor") >= _SLOW_RANK_STRETCH) & (pl.col("agreement") >= MIN_AGREEMENT))
    return float(slow["factor"].to_numpy().max()) if slow.height and slow.height == mine.height else None


def _late_entry(group: LateRanks, evidence: Evidence) -> tuple[str, str] | None:
    """That ranks entered the step of their largest lateness later than the others, and by how much."""
    step = group.latest_row.get("step")
    starts = whole_step_parts(evidence).filter(pl.col("step") == step).select("rank", "start")
    mine = starts.filter(pl.col("rank").is_in(list(group.ranks)))["start"]
    others = starts.filter(~pl.col("rank").is_in(list(group.ranks)))["start"]
    if step is None or mine.is_empty() or others.is_empty():
        return None
    late = int(mine.to_numpy().min()) - round(float(others.to_numpy().mean()))
    if 2 * late < int(group.latest_row["most"]):
        return None
    first = int(whole_step_parts(evidence)["step"].to_numpy().min()) == step
    before = "; the reason lies before the recording" if first else ""
    return f"entered step {step} {format_duration(late)} late{before}", "it did so after the median of the other ranks"


def _find_moving_lateness(evidence: Evidence, costly: list[LateRanks]) -> Iterator[Finding]:
    """Ranks that are late in turn, none of them for long, or many at the same time."""
    rest = [group for group in evidence.late_groups if group not in costly and group.time_lost]
    waited = time_waited_for(rest)
    gain = evidence.per_step(waited, evidence.context.ranks.height)
    share = evidence.share_of_base(gain)
    if len(rest) < 2 or share <= LATE_SHARE:
        return
    ranks = sorted({rank for group in rest for rank in group.ranks})
    causes = list(dict.fromkeys(shorten(group.cause) for group in rest if group.cause))
    per = " per step" if evidence.steps else ""
    if sum(group.waited for group in rest) > _AT_ONCE * waited:
        what, who = "several ranks are late at once", f"{format_ranks(ranks)} are late, often at the same collectives"
    else:
        what = "lateness moves from rank to rank"
        who = f"{format_ranks(ranks)} are late in turn, most often {rest[0].ranks_text}"
    why = f"; they spend more time in {', '.join(causes[:3])}" if causes else ""
    yield Finding(
        f"{what}; an average rank waits {format_duration(gain)}{per}",
        f"{percent(share)} of {evidence.time_phrase}; {who}{why}",
        "uneven work (lengths of samples, garbage collection, noise of the machine) makes another rank late each time:"
        " balance the work per step, collect garbage on all ranks at once, pin processes to cores",
        FindingLocation.from_row(rest[0].latest_row),
        gain,
        share,
        certainty="recorded" if causes else "not recorded",
        command="stragglers",
    )


_AT_ONCE: Final = 1.5
"""Ranks are late at once if the others wait for this many of them on average."""

RULES: Final = (
    Rule(
        "late ranks",
        f"other ranks wait for one, or for those of one host, for more than {LATE_SHARE:.0%} of an average step at"
        " collectives, from the median arrival of the others on (as in stragglers), while they compute nothing; or for"
        f" several in turn. All kernels of a rank are slow if {MIN_AGREEMENT:.0%} of their time is longer by one factor"
        f" of at least {_SLOW_RANK_STRETCH}",
        find_late_ranks,
        about_idle_time=True,
    ),
)
