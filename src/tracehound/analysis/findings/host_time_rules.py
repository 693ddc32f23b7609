"""Rules on the time of steps on the host, in runs without device work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tracehound.analysis.findings.advice import advice
from tracehound.analysis.findings.cause_text import cause_certainty, cause_name, cause_topic
from tracehound.analysis.findings.evidence import Evidence, Finding, FindingLocation, Rule
from tracehound.analysis.findings.host_causes import HostCause, collect_host_causes
from tracehound.analysis.findings.rank_rules import names_late_ranks
from tracehound.analysis.findings.step_rules import slow_step_effects
from tracehound.analysis.hosts.thread_activity import COMMUNICATING, IN_ANNOTATION, NOTHING_RECORDED, PYTHON
from tracehound.model.units import count_noun, format_duration
from tracehound.model.units import format_share as percent

NAMED_SHARE: Final = 0.05
GENERAL_SHARE: Final = 0.15
"""Python, annotations and unrecorded time are in every step: they must take more than what has a name of its own."""

_GENERAL: Final = (PYTHON, IN_ANNOTATION, NOTHING_RECORDED)


def find_host_time(evidence: Evidence) -> Iterator[Finding]:
    """Steps spend time on the program's own thread on other things than operators and communication."""
    if evidence.table("breakdown").height:
        return
    ranks = max(int(evidence.step_causes["rank"].n_unique()), 1)
    for cause in collect_host_causes(evidence.step_causes, ()):
        cost = evidence.per_step(cause.idle, ranks)
        share = evidence.share_of_base(cost)
        if cause.doing == COMMUNICATING or names_late_ranks(cause, evidence):
            continue
        if share > (GENERAL_SHARE if cause.doing in _GENERAL else NAMED_SHARE):
            yield _host_time_finding(cause, cost, share, evidence)


def _host_time_finding(cause: HostCause, cost: int, share: float, evidence: Evidence) -> Finding:
    per = " per step" if evidence.steps else ""
    calls = f", {count_noun(cause.calls, 'call')}" if cause.calls else ""
    steps = f" in {count_noun(len(cause.by_step), 'step')}" if evidence.steps > 1 else ""
    source = f"; source: {cause.frame}" if cause.frame and cause.frame != cause.name else ""
    return Finding(
        f"{cause_name(cause)}: {format_duration(cost)}{per}",
        f"{percent(share)} of {evidence.base_phrase}{steps}{calls}; the trace has no device work, this is time of the"
        f" program's own thread{source}",
        advice(evidence, cause_topic(cause, evidence)),
        FindingLocation.from_row(cause.longest),
        cost,
        share,
        certainty=cause_certainty(cause),
        effects=slow_step_effects(cause, evidence),
        command=f"host --rank {cause.longest['rank']}"
        + (f" --step {next(iter(cause.by_step))}" if cause.by_step else ""),
    )


RULES: Final = (
    Rule(
        "host time",
        f"in a run without device work one thing that is no operator takes more than {NAMED_SHARE:.0%} of the steps'"
        f" time on the program's own thread; Python, an annotation, or time without any event more than"
        f" {GENERAL_SHARE:.0%}",
        find_host_time,
    ),
)
