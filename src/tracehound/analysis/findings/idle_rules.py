"""Rules on idle time of devices: its causes, and low utilization."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import polars as pl

from tracehound.analysis.findings.advice import (
    BETWEEN_REPLAYS,
    FIRST_USE,
    TOPIC_OF_ACTIVITY,
    UNMARKED,
    WITHIN_REPLAYS,
    advice,
)
from tracehound.analysis.findings.device_rules import find_compiling
from tracehound.analysis.findings.evidence import Evidence, FindFunction, Finding, FindingLocation, Rule
from tracehound.analysis.findings.idle_in_steps import BEFORE_REPLAY, EARLY, REPLAYING, main_host_activity
from tracehound.analysis.findings.time_rules import MAIN_PART_SHARE, find_data_loader_wait, part_share_by_rank
from tracehound.analysis.findings.xla_rules import (
    find_host_bound,
    find_input_bound,
    find_output_bound,
    find_unrecorded_idle,
)
from tracehound.analysis.hosts.host_time_parts import PART_NAMES as PARTS_OF_HOST
from tracehound.analysis.hosts.thread_activity import NOTHING_RECORDED
from tracehound.analysis.idle import AFTER_LAST_WORK, BEFORE_FIRST_WORK, EDGES, FIRST_WORK_QUEUED
from tracehound.model.units import count_noun, format_duration
from tracehound.model.units import format_share as percent

IDLE_SHARE: Final = 0.03
BUSY_SHARE: Final = 0.50
FIRST_USE_SHARE: Final = 0.9
"""Above this share of waits for memory at the first use of a device, that is the reason for the waits."""

_IDLE_TITLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "host": "the device runs dry: the host launches its work too late",
        "synchronization": "the device runs dry while the host waits for it",
        "allocation": "the device waits while its memory is allocated or freed",
        "data loading": "the device runs dry while the host fetches data",
        "kernel": "the device pauses between kernels that follow one another",
        "other stream": "streams wait for work on other streams",
        "other": "work was launched in time and does not begin: what it waits for is not recorded",
        "unknown": "the device idles, and no launch is recorded that says why",
        BEFORE_FIRST_WORK: "the device waits for its first work",
        FIRST_WORK_QUEUED: "the first work was launched in time and does not begin: what it waits for is not recorded",
        AFTER_LAST_WORK: "the device has nothing to do after its last work",
    }
)
"""Titles of findings by the cause of the idle time."""


_IDLE_IN_GRAPH_TITLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "kernel": _IDLE_TITLES["kernel"],
        "other": "the device pauses between kernels of a graph for longer than one takes to start",
    }
)
"""Titles for idle time within replays of graphs, which waits for nothing outside of them."""


def find_idle_causes(evidence: Evidence) -> Iterator[Finding]:
    """Devices are idle, by cause; time that the rules on data loading or the host report is left out."""
    device_times = evidence.device_times
    total_span = int(device_times["span"].sum())
    idle = evidence.table("idle").filter(stream="device").filter(pl.col("rank").is_in(device_times["rank"].implode()))
    loading = evidence.findings_of(find_data_loader_wait) or evidence.findings_of(find_input_bound)
    explained_parts = (
        [part for part, rule in _RULE_OF_HOST_PART.items() if evidence.findings_of(rule)] if evidence.is_xla else []
    )
    for cause, title in _IDLE_TITLES.items():
        rows = idle.filter(pl.col("cause") == cause).with_columns(
            other=pl.col("idle") - pl.sum_horizontal(PARTS_OF_HOST)
        )
        explained = int(rows.select(pl.sum_horizontal(explained_parts).sum()).item()) if explained_parts else 0
        share = (int(rows["idle"].sum()) - explained) / total_span if total_span else 0.0
        if (
            share <= IDLE_SHARE
            or (cause == "data loading" and loading)
            or (cause in _CAUSES_OF_STREAMS and evidence.is_xla)
        ):
            continue
        longest_gap, gaps_phrase = _costliest_gaps(rows, explained_parts, cause, evidence.where_phrase)
        activity, activity_phrase = main_host_activity(rows)
        if loading and cause in EDGES and TOPIC_OF_ACTIVITY.get(activity) == "data loading":
            continue
        if (
            2 * explained > int(rows["idle"].sum())
            or _HOST_PART_OF_TOPIC.get(TOPIC_OF_ACTIVITY.get(activity, "")) in explained_parts
        ):
            activity = activity_phrase = ""  # other findings report it
        topic = cause if cause in _CAUSES_WITHOUT_REASON else TOPIC_OF_ACTIVITY.get(activity, cause)
        early_share = int(rows[EARLY].sum()) / int(rows["idle"].sum()) if topic == "allocation" else 0.0
        if early_share >= FIRST_USE_SHARE:
            early_phrase = (
                "before the second step" if evidence.steps > 1 else "before work that runs for the first time"
            )
            topic, activity_phrase = (
                FIRST_USE,
                "; ".join(filter(None, (activity_phrase, f"{percent(early_share)} of that lies {early_phrase}"))),
            )
        topic, activity_phrase = _topic_in_graphs(rows, cause, topic, activity_phrase)
        if (
            topic == "host"
            and not explained
            and int(rows[NOTHING_RECORDED].sum()) > MAIN_PART_SHARE * int(rows["idle"].sum())
        ):
            topic = UNMARKED  # it is late, for an unknown reason
        nothing_recorded = (
            (cause in _CAUSES_WITHOUT_REASON or topic == UNMARKED) and not activity_phrase and not explained
        )
        yield Finding(
            _IDLE_IN_GRAPH_TITLES[cause] if topic == WITHIN_REPLAYS else title,
            f"{percent(share)} of {evidence.time_phrase}{_BESIDE_OTHERS_CLAUSE if explained else ''}; {gaps_phrase}"
            + (f"; {activity_phrase}" if activity_phrase else _NOTHING_RECORDED_CLAUSE if nothing_recorded else ""),
            advice(evidence, topic),
            FindingLocation.from_row(longest_gap),
            round(share * evidence.base_time),
            share,
        )


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

_HOST_PART_OF_TOPIC: Final = MappingProxyType(
    {"data loading": "input", "synchronization": "output", "compiling": "compile"}
)
"""The part of the host's time that a topic of advice is about."""

_BESIDE_OTHERS_CLAUSE: Final = ", beside what other findings tell of"

_CAUSES_WITHOUT_REASON: Final = ("other", "unknown", *EDGES)
"""Causes that do not name a reason themselves, so that the host's activity does."""

_CAUSES_OF_STREAMS: Final = ("other", "unknown")
"""Causes reported for PyTorch only: thread pools carry out XLA's launches, and its own rules cover the host."""

_NOTHING_RECORDED_CLAUSE: Final = "; nothing is recorded of what the host did meanwhile"


def _topic_in_graphs(gap_rows: pl.DataFrame, cause: str, topic: str, activity_phrase: str) -> tuple[str, str]:
    """Topic of the advice, and the phrase, for gaps that are mostly within or before replays of graphs."""
    idle = int(gap_rows["idle"].sum())
    within, before_replay = (int(gap_rows[part].sum()) / idle for part in (REPLAYING, BEFORE_REPLAY))
    if cause in _IDLE_IN_GRAPH_TITLES and within > MAIN_PART_SHARE:
        return WITHIN_REPLAYS, f"{percent(within)} of that lies within replays of graphs"
    if topic == "host" and before_replay > MAIN_PART_SHARE:
        return BETWEEN_REPLAYS, "; ".join(
            filter(None, (activity_phrase, f"{percent(before_replay)} of that lies before replays of graphs"))
        )
    return topic, activity_phrase


def _costliest_gaps(
    rows: pl.DataFrame, explained_parts: Sequence[str], cause: str, where_phrase: str
) -> tuple[dict[str, Any], str]:
    """The row of the longest unexplained gap, and a phrase on the gaps that make up most of the unexplained time.

    Where most of that is left over from gaps that other findings explain, the phrase has no length.
    """
    unexplained, is_explained = (
        pl.col("idle") - pl.sum_horizontal(pl.lit(0), *explained_parts),
        pl.col("mainly").is_in(explained_parts),
    )
    mostly_explained, others = rows.filter(is_explained), rows.filter(~is_explained)
    if 2 * int(mostly_explained.select(unexplained.sum()).item()) > int(rows.select(unexplained.sum()).item()):
        longest_gap = _row_of_longest_gap(mostly_explained)
        return (
            longest_gap,
            f"what is left of {_gap_count_phrase(cause, mostly_explained)} in {where_phrase}, the longest on rank"
            f" {longest_gap['rank']}",
        )
    longest_gap = _row_of_longest_gap(others)
    longest = f"the longest {format_duration(longest_gap['duration'])} on rank {longest_gap['rank']}"
    return longest_gap, f"{_gap_count_phrase(cause, others)} in {where_phrase}, {longest}"


def _row_of_longest_gap(gap_rows: pl.DataFrame) -> dict[str, Any]:
    """The row with the longest of these gaps."""
    return gap_rows.row(gap_rows["duration"].arg_max() or 0, named=True)


def _gap_count_phrase(cause: str, gap_rows: pl.DataFrame) -> str:
    """The number of gaps, or the time before or after the work."""
    if cause in EDGES:
        return f"all that is {BEFORE_FIRST_WORK if cause == FIRST_WORK_QUEUED else cause}"
    return count_noun(int(gap_rows["count"].sum()), "pause")


def find_low_utilization(evidence: Evidence) -> Iterator[Finding]:
    """A device is idle for more than half of the time, and other findings explain less than half of that."""
    device_times, idle_ranks = (
        evidence.device_times,
        part_share_by_rank(evidence, "idle").filter(pl.col("share") > 1 - BUSY_SHARE),
    )
    if idle_ranks.is_empty() or evidence.table("breakdown").is_empty():
        return
    share = int(device_times["idle"].sum()) / int(device_times["span"].sum())
    cost = round(share * evidence.base_time)
    explained = sum(finding.cost or 0 for rule in _IDLE_TIME_RULES for finding in evidence.findings_of(rule))
    if 2 * explained >= cost:
        return
    ranks_phrase = ", ".join(f"{rank} (busy {percent(1 - idle)})" for rank, idle in idle_ranks.head(8).rows())
    yield Finding(
        "devices are idle for more than half of the time",
        f"on rank {ranks_phrase}"
        + (f", and {idle_ranks.height - 8} more" if idle_ranks.height > 8 else "")
        + f"; on average {format_duration(cost)} of {evidence.base_phrase}, of which other findings explain"
        f" {format_duration(explained)}",
        "look at the longest gaps: where nothing in particular keeps the device waiting, a larger batch gives it more"
        " to do at once",
        _longest_gap_location(evidence, int(idle_ranks["rank"][0])),
        cost,
        share,
    )


_IDLE_TIME_RULES: Final = (find_data_loader_wait, find_idle_causes, *_RULE_OF_HOST_PART.values())
"""Rules that explain idle time of devices."""


def _longest_gap_location(evidence: Evidence, rank: int) -> FindingLocation:
    device_gaps = evidence.table("idle").filter(stream="device", rank=rank)
    longest = device_gaps.sort("duration", descending=True, maintain_order=True)
    return FindingLocation.from_row(longest.row(0, named=True)) if longest.height else FindingLocation(rank=rank)


IDLE_CAUSE_RULE: Final = Rule(
    "idle",
    f"pauses of one cause, or idle time before the first work or after the last, take more than {IDLE_SHARE:.0%} of"
    f" that time (XProf's lower threshold for launching). Where {FIRST_USE_SHARE:.0%} of those that wait for memory"
    " lie before the second whole step (without two of them: before work of a name that has not run yet), the advice"
    f" is to warm up; where more than {MAIN_PART_SHARE:.0%} of those of a cause lie within the replays of CUDA or HIP"
    " graphs, or before them, it is not to use graphs; where nothing is recorded of the host in more than"
    f" {MAIN_PART_SHARE:.0%} of those of late launches, it is to record what it does",
    find_idle_causes,
    about_idle_time=True,
)

LOW_UTILIZATION_RULE: Final = Rule(
    "utilization",
    f"a device is busy for less than {BUSY_SHARE:.0%} of that time (TensorBoard plugin, rule 5), and the rules of what"
    " it waits for explain less than half of its idleness",
    find_low_utilization,
    about_idle_time=True,
)
