"""Rules on idle time of devices: its causes on the host and on the device, and low utilization."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import polars as pl

from tracehound.analysis.findings.advice import (
    BETWEEN_REPLAYS,
    FIRST_USE,
    MISSING_CORRELATIONS,
    WITHIN_REPLAYS,
    advice,
)
from tracehound.analysis.findings.cause_text import (
    IDLE_SHARE,
    UNSPECIFIC_AT_EDGES,
    UNSPECIFIC_OF_XLA,
    cause_certainty,
    cause_command,
    cause_evidence,
    cause_title,
    cause_topic,
    costly_host_causes,
)
from tracehound.analysis.findings.device_rules import compiled_functions_text, find_compiling
from tracehound.analysis.findings.evidence import Evidence, FindFunction, Finding, FindingLocation, Rule
from tracehound.analysis.findings.host_causes import HostCause
from tracehound.analysis.findings.idle_in_steps import BEFORE_REPLAY, EARLY, REPLAYING, main_host_activity
from tracehound.analysis.findings.rank_rules import causes_of_late_ranks
from tracehound.analysis.findings.step_rules import slow_step_effects
from tracehound.analysis.findings.transfer_rules import MAIN_PART_SHARE, has_pageable_finding, part_share_by_rank
from tracehound.analysis.findings.xla_rules import (
    find_host_bound,
    find_input_bound,
    find_output_bound,
    find_unrecorded_idle,
)
from tracehound.analysis.hosts.main_activities import LAUNCHES
from tracehound.analysis.hosts.thread_activity import ALLOCATING, COMPILING, COPYING
from tracehound.analysis.idle import AFTER_LAST_WORK, BEFORE_FIRST_WORK, EDGES, FIRST_WORK_QUEUED
from tracehound.model.units import count_noun, format_duration
from tracehound.model.units import format_share as percent

EDGE_SHARE: Final = 0.10
"""Idle time before the first work of a recording is often its beginning alone: it must take more than other causes."""
MIN_KNOWN_LAUNCHES: Final = 0.5
"""If fewer launches of a rank's work were recorded, nothing tells whether work was launched in time."""
BUSY_SHARE: Final = 0.50
FIRST_USE_SHARE: Final = 0.9
"""Above this share of waits for memory at the first use of a device, that is the reason for the waits."""


def find_host_causes(evidence: Evidence) -> Iterator[Finding]:
    """The host keeps devices idle: a finding for each recorded name."""
    explained = causes_of_late_ranks(evidence)
    if has_pageable_finding(evidence):
        explained += [cause for cause in evidence.host_causes if cause.doing == COPYING]
    for cause in costly_host_causes(evidence):
        if cause not in explained:
            cost = min(evidence.per_step(cause.gain, evidence.device_ranks), evidence.base_time)
            yield _host_cause_finding(cause, cost, evidence)
    for cause in evidence.host_causes if evidence.is_xla else ():
        is_told = cause in explained or cause.doing not in UNSPECIFIC_OF_XLA or 2 * cause.edges > cause.idle
        if is_told or _is_launch_unknown(cause, evidence):
            continue
        told = sum(cause.parts[part] for part, rule in _RULE_OF_HOST_PART.items() if evidence.findings_of(rule))
        cost = evidence.per_step(cause.gain - told, evidence.device_ranks)
        if evidence.share_of_base(cost) > IDLE_SHARE:
            yield _host_cause_finding(cause, cost, evidence)


def _is_launch_unknown(cause: HostCause, evidence: Evidence) -> bool:
    """True if most gaps of launches that can't keep up end with work whose launch is not known."""
    rows = _rows_of(cause, evidence).filter(pl.col("cause") == "unknown")
    return cause.doing == LAUNCHES and 2 * int(rows["idle"].sum()) > cause.idle


_RULE_OF_HOST_PART: Final[Mapping[str, FindFunction]] = MappingProxyType(
    {
        "input": find_input_bound,
        "output": find_output_bound,
        "compile": find_compiling,
        "host": find_host_bound,
        "other": find_unrecorded_idle,
    }
)
"""The rule that reports each part of the host's time for an XLA program."""


def _host_cause_finding(cause: HostCause, cost: int, evidence: Evidence) -> Finding:
    share = evidence.share_of_base(cost)
    topic = cause_topic(cause, evidence)
    text = cause_evidence(cause, share, evidence)
    if cause.doing == ALLOCATING and _early_share(cause, evidence) >= FIRST_USE_SHARE:
        topic = FIRST_USE
        text += f"; {percent(_early_share(cause, evidence))} of it before " + (
            "the second step" if evidence.steps > 1 else "work that runs for the first time"
        )
    if cause.doing == LAUNCHES and (before := _replay_share(cause, evidence)) > MAIN_PART_SHARE:
        topic = BETWEEN_REPLAYS
        text += f"; {percent(before)} of it before replays of graphs"
    if cause.doing == COMPILING:
        text += compiled_functions_text(evidence)
    return Finding(
        cause_title(cause, cost, evidence),
        text,
        advice(evidence, topic),
        FindingLocation.from_row(cause.longest),
        cost,
        share,
        certainty=cause_certainty(cause),
        effects=slow_step_effects(cause, evidence),
        command=cause_command(cause, evidence),
    )


def _rows_of(cause: HostCause, evidence: Evidence) -> pl.DataFrame:
    return evidence.device_idle.filter(pl.col("doing") == cause.doing)


def _early_share(cause: HostCause, evidence: Evidence) -> float:
    return int(_rows_of(cause, evidence)[EARLY].sum()) / cause.idle


def _replay_share(cause: HostCause, evidence: Evidence) -> float:
    return int(_rows_of(cause, evidence)[BEFORE_REPLAY].sum()) / cause.idle


def find_device_causes(evidence: Evidence) -> Iterator[Finding]:
    """Idle time that no cause on the host explains, by what the next work waited for."""
    unexplained = evidence.device_idle.filter(pl.col("doing").fill_null("") == "")
    unexplained = _without_unknown_launches(unexplained, evidence)
    for cause, title in _TITLES.items():
        rows = unexplained.filter(cause=cause)
        total = int(rows["idle"].sum())
        if cause == BEFORE_FIRST_WORK:
            edges = [
                each
                for each in evidence.host_causes
                if 2 * each.edges > each.idle and each.doing in UNSPECIFIC_AT_EDGES
            ]
            total += sum(each.edges for each in edges)
            rows = evidence.device_idle.filter(cause=cause)
        cost = evidence.per_step(total, evidence.device_ranks)
        share = evidence.share_of_base(cost)
        if share <= (EDGE_SHARE if cause == BEFORE_FIRST_WORK else IDLE_SHARE) or rows.is_empty():
            continue
        if cause in _CAUSES_OF_STREAMS and evidence.is_xla:
            continue
        longest = rows.row(rows["duration"].arg_max() or 0, named=True)
        _, activity_phrase = main_host_activity(rows)
        within = int(rows[REPLAYING].sum()) / max(int(rows["idle"].sum()), 1)
        in_graphs = cause in _TITLES_IN_GRAPHS and within > MAIN_PART_SHARE
        if in_graphs:
            activity_phrase = f"{percent(within)} of it within replays of graphs"
        gaps = "" if cause in EDGES else f"; {count_noun(int(rows['count'].sum()), 'gap')}"
        yield Finding(
            _TITLES_IN_GRAPHS[cause] if in_graphs else title.format(device=evidence.device_word),
            f"{percent(share)} of {evidence.time_phrase}{gaps}, the longest {format_duration(longest['duration'])} on"
            f" rank {longest['rank']}" + (f"; {activity_phrase}" if activity_phrase else ""),
            advice(evidence, WITHIN_REPLAYS if in_graphs else _topic_of(cause, evidence)),
            FindingLocation.from_row(longest),
            cost,
            share,
            certainty="recorded" if cause == "kernel" or in_graphs else "not recorded",
            command=f"gaps --rank {longest['rank']} --top 10",
        )


def _without_unknown_launches(rows: pl.DataFrame, evidence: Evidence) -> pl.DataFrame:
    """The rows, with "unknown" as the cause of gaps on ranks where nothing tells whether work was launched in time."""
    known = evidence.rank_traits.select("rank", "launches_known")
    few = known.filter(pl.col("launches_known") < MIN_KNOWN_LAUNCHES)["rank"]
    is_guess = pl.col("rank").is_in(few.implode()) & pl.col("cause").is_in(["other", FIRST_WORK_QUEUED])
    return rows.with_columns(pl.when(is_guess).then(pl.lit("unknown")).otherwise("cause").alias("cause"))


def _topic_of(cause: str, evidence: Evidence) -> str:
    """The topic of the advice on a cause that is not on the host."""
    is_host_recorded = int(evidence.rank_traits["operators"].sum()) > 0
    return MISSING_CORRELATIONS if cause == "unknown" and is_host_recorded else cause


_TITLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "kernel": "short gaps between kernels that follow one another",
        "other stream": "streams wait for work of other streams",
        "other": "queued work starts late; the trace does not show why",
        "unknown": "the {device} idles; no launch is recorded that shows why",
        BEFORE_FIRST_WORK: "the {device} idles before its first kernel",
        FIRST_WORK_QUEUED: "the first work was queued and starts late; the trace does not show why",
        AFTER_LAST_WORK: "idle tail: no device work after the last kernel",
    }
)
"""Titles by the cause of idle time, where the host is not the cause."""

_TITLES_IN_GRAPHS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "kernel": "short gaps between the kernels of graphs",
        "other": "gaps between the kernels of a graph that are longer than a kernel takes to start",
    }
)
"""Titles for idle time within replays of graphs, which waits for nothing outside of them."""

_CAUSES_OF_STREAMS: Final = ("unknown",)
"""Causes reported for PyTorch only: thread pools carry out XLA's launches, and its own rules cover the host."""


def find_low_utilization(evidence: Evidence) -> Iterator[Finding]:
    """A device is idle for more than half of the time, and other findings explain less than half of that."""
    idle_ranks = part_share_by_rank(evidence, "idle").filter(pl.col("share") > 1 - BUSY_SHARE)
    idle_ranks = idle_ranks.filter(~pl.col("rank").is_in(evidence.untrusted_ranks))
    if idle_ranks.is_empty() or evidence.table("breakdown").is_empty():
        return
    share = int(evidence.device_times["idle"].sum()) / int(evidence.device_times["span"].sum())
    cost = round(share * evidence.base_time)
    named = sum(cause.idle for cause in costly_host_causes(evidence))
    others = sum(finding.cost or 0 for rule in _IDLE_TIME_RULES for finding in evidence.findings_of(rule))
    explained = evidence.per_step(named, evidence.device_ranks) + others
    if 2 * explained >= cost:
        return
    ranks_phrase = ", ".join(f"{rank} (busy {percent(1 - idle)})" for rank, idle in idle_ranks.head(8).rows())
    yield Finding(
        f"the {evidence.device_word} is idle for more than half of the time",
        f"on rank {ranks_phrase}"
        + (f", and {idle_ranks.height - 8} more" if idle_ranks.height > 8 else "")
        + f"; on average {format_duration(cost)} of {evidence.base_phrase}, of which other findings explain"
        f" {format_duration(explained)}",
        "inspect the longest gaps; if nothing in particular keeps the device waiting, a larger batch gives it more to"
        " do at once",
        _longest_gap_location(evidence, int(idle_ranks["rank"][0])),
        cost,
        share,
        certainty="not recorded",
        command=f"gaps --rank {idle_ranks['rank'][0]} --top 10",
    )


_IDLE_TIME_RULES: Final[tuple[FindFunction, ...]] = (
    find_device_causes,
    find_input_bound,
    find_output_bound,
    find_host_bound,
    find_unrecorded_idle,
)
"""Rules that explain idle time of devices, beside causes on the host."""


def _longest_gap_location(evidence: Evidence, rank: int) -> FindingLocation:
    longest = evidence.device_idle.filter(rank=rank).sort("duration", descending=True, maintain_order=True)
    return FindingLocation.from_row(longest.row(0, named=True)) if longest.height else FindingLocation(rank=rank)


IDLE_CAUSE_RULES: Final = (
    Rule(
        "host causes",
        f"the host keeps devices idle for more than {IDLE_SHARE:.0%} of that time with one thing (XProf's lower"
        " threshold"
        " for launching): an event that covers more than half of the time from the start of a gap to the launch that"
        " ends it, else what the thread does for most of it. Where the host only launches work, and would have launched"
        " it in time without waiting for the device before, the last wait is the cause",
        find_host_causes,
        about_idle_time=True,
    ),
    Rule(
        "device causes",
        f"gaps with one cause that is not on the host take more than {IDLE_SHARE:.0%} of that time; idle time before"
        f" the first work more than {EDGE_SHARE:.0%}, since a recording often begins so",
        find_device_causes,
        about_idle_time=True,
    ),
)

LOW_UTILIZATION_RULE: Final = Rule(
    "utilization",
    f"a device is busy for less than {BUSY_SHARE:.0%} of that time (TensorBoard plugin, rule 5), and the rules of what"
    " it waits for explain less than half of its idle time",
    find_low_utilization,
    about_idle_time=True,
)
