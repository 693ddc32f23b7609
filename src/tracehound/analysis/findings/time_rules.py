"""Rules on the time of steps and devices: data loading, communication, copies, late ranks, slow steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from tracehound.analysis.findings.advice import (
    PIPELINE,
    advice,
)
from tracehound.analysis.findings.evidence import Evidence, Finding, FindingLocation, Rule
from tracehound.analysis.findings.xla_rules import (
    find_input_bound,
)
from tracehound.analysis.hosts.rank_time_parts import TIME_PARTS
from tracehound.analysis.ranks.lateness import LateRanks
from tracehound.analysis.ranks.process_groups import missing_job_ranks_notes
from tracehound.model.units import count_noun, format_bandwidth, format_count, format_duration, format_ranks
from tracehound.model.units import format_share as percent

DATA_LOADER_SHARE: Final = 0.05
COMMUNICATION_SHARE: Final = 0.10
COPY_SHARE: Final = 0.05
LATE_SHARE: Final = 0.03
MAIN_PART_SHARE: Final = 0.5
"""Above this share, the advice is on that part: replays of graphs, sends and receives, time without records."""
SLOW_STEP_FACTOR: Final = 1.5
"""A step is slow if it takes this many times the median."""
MIN_STEPS_PER_RANK: Final = 4
"""With fewer whole steps on a rank no step is called slow."""


def _whole_step_parts(evidence: Evidence) -> pl.DataFrame:
    """The whole steps, with the parts of their time."""
    return evidence.table("step_parts").filter(~pl.col("partial"))


def _mean_step_part(evidence: Evidence, part: str) -> tuple[float, FindingLocation]:
    """The mean of a part over steps, and the location of the step where it is longest; 0 without steps."""
    steps = _whole_step_parts(evidence)
    if steps.is_empty():
        return 0.0, FindingLocation()
    longest = steps.row(steps[part].arg_max() or 0, named=True)
    return float(steps[part].to_numpy().mean()), FindingLocation.from_row(longest)


def find_data_loader_wait(evidence: Evidence) -> Iterator[Finding]:
    """Steps wait for the data loader, unless the rule on the input of XLA programs reports it."""
    cost, place = _mean_step_part(evidence, "data_loader")
    share = evidence.share_of_base(cost)
    if share > DATA_LOADER_SHARE and not evidence.findings_of(find_input_bound):
        maximum = _whole_step_parts(evidence)["data_loader"].to_numpy().max()
        yield Finding(
            "steps wait for the data loader",
            f"it takes {format_duration(round(cost))} of {evidence.base_phrase}, {percent(share)} (at most"
            f" {format_duration(int(maximum))})",
            advice(evidence, "data loading"),
            place,
            round(cost),
            share,
        )


def find_exposed_communication(evidence: Evidence) -> Iterator[Finding]:
    """Devices do nothing but communicate; in a run without devices, hosts do."""
    if evidence.table("breakdown").is_empty():
        cost, place = _mean_step_part(evidence, "communication")
        share = evidence.share_of_base(cost)
        if share > COMMUNICATION_SHARE:
            cost_phrase = f"it takes {format_duration(round(cost))} of {evidence.base_phrase}, {percent(share)}"
            yield Finding(
                "processes spend their time in communication",
                f"{cost_phrase}, whatever other threads do then{_late_ranks_clause(evidence, cost)}",
                advice(evidence, "communication"),
                place,
                round(cost),
                share,
            )
        return
    yield from _find_exposed_part(
        evidence, "communication", COMMUNICATION_SHARE, "communication is not hidden behind computation"
    )


def _late_ranks_clause(evidence: Evidence, cost: float) -> str:
    """Clause on the part of communication that may be waiting for late or missing ranks."""
    explained = sum(finding.cost or 0 for finding in find_late_ranks(evidence))
    amount_phrase = f"up to {format_duration(explained)}" if explained < cost else "all"
    late_clause = f"; {amount_phrase} of it may be waiting for late ranks" if explained else ""
    missing_ranks_clause = (
        "; part of it may be waiting for ranks that are not in this trace"
        if missing_job_ranks_notes(evidence.context)
        else ""
    )
    return late_clause + missing_ranks_clause


def find_exposed_copies(evidence: Evidence) -> Iterator[Finding]:
    """Devices do nothing but copy; for XLA with the memories of the copies."""
    links = evidence.table("transfers")
    if links.is_empty() or not evidence.is_xla:
        place_phrase = " within the device" if evidence.is_xla else ""
        yield from _find_exposed_part(
            evidence, "copy", COPY_SHARE, f"copies{place_phrase} are not hidden behind computation"
        )
        return
    device_time = int(evidence.table("breakdown")["span"].sum())
    exposed = int(links["exposed"].sum()) / device_time if device_time else 0.0
    exposed_in_steps = int(evidence.device_times["copy"].sum()) / max(int(evidence.device_times["span"].sum()), 1)
    scale = exposed_in_steps / exposed if exposed and evidence.steps else 1.0
    for (source, target), rows in links.group_by("source", "target", maintain_order=True):
        share = int(rows["exposed"].sum()) / device_time * scale if device_time else 0.0
        if share > COPY_SHARE:
            timed_rows = rows.filter(pl.col("rate") > 0)
            seconds = float((timed_rows["bytes"] / timed_rows["rate"]).sum())
            rate_phrase = format_bandwidth(int(timed_rows["bytes"].sum()) / seconds) if seconds else "an unknown rate"
            worst = rows.sort("exposed", descending=True).row(0, named=True)
            yield Finding(
                f"the device waits for copies from {source} to {target}",
                f"{percent(share)} of {evidence.time_phrase}, at {rate_phrase}"
                + (_HOST_LINK_CLAUSE if "host" in (source, target) else ""),
                advice(evidence, "copies"),
                FindingLocation.from_row(worst),
                round(share * evidence.base_time),
                share,
            )


_HOST_LINK_CLAUSE: Final = ": bound by the link to the host, not by the device's memory"


def _find_exposed_part(evidence: Evidence, part: str, threshold: float, title: str) -> Iterator[Finding]:
    total_span = int(evidence.device_times["span"].sum())
    share = int(evidence.device_times[part].sum()) / total_span if total_span else 0.0
    if share > threshold:
        ranks = part_share_by_rank(evidence, part)
        run = evidence.table("breakdown").select("span", part, f"all_{part}").sum()
        send_receive_share = _send_receive_share(evidence) if part == "communication" else 0.0
        topic = (
            PIPELINE
            if send_receive_share > MAIN_PART_SHARE
            else {"copy": "HLO copies" if evidence.is_xla else "copies"}.get(part, part)
        )
        hidden = (run[f"all_{part}"][0] - run[part][0]) / run["span"][0] if run["span"][0] else 0.0
        yield Finding(
            title,
            f"{percent(share)} of {evidence.time_phrase} is {part} alone, most on rank {ranks['rank'][0]}:"
            f" {percent(ranks['share'][0])}"
            + (
                f"; {percent(hidden)} of the devices' time in {evidence.extent_phrase} is hidden {part}"
                if hidden
                else ""
            )
            + (
                f"; {percent(send_receive_share)} of it are sends and receives"
                if send_receive_share > MAIN_PART_SHARE
                else ""
            )
            + (_late_ranks_clause(evidence, share * evidence.base_time) if part == "communication" else ""),
            advice(evidence, topic),
            FindingLocation(rank=ranks["rank"][0], event=_longest_event(evidence, part)),
            round(share * evidence.base_time),
            share,
        )


def _send_receive_share(evidence: Evidence) -> float:
    """Share of sends and receives in exposed communication."""
    handing, meeting = (int(evidence.rank_traits[name].sum()) for name in ("handing", "meeting"))
    return handing / (handing + meeting) if handing else 0.0


def part_share_by_rank(evidence: Evidence, part: str) -> pl.DataFrame:
    """Share of a part in each rank's time, the largest first."""
    device_times = evidence.device_times.group_by("rank").agg(pl.col("span", part).sum()).filter(pl.col("span") > 0)
    shares = device_times.select("rank", (pl.col(part) / pl.col("span")).alias("share"))
    return shares.sort("share", "rank", descending=[True, False])


def _longest_event(evidence: Evidence, part: str) -> int | None:
    """Event of the longest communication kernel, or the longest copy."""
    ops = evidence.table("kernels")
    kernel_type = {"communication": "communication", "copy": "memory"}[part]
    longest_first = ops.filter(pl.col("type") == kernel_type).sort("max", descending=True)
    return int(longest_first["event"][0]) if longest_first.height else None


def find_late_ranks(evidence: Evidence) -> Iterator[Finding]:
    """Ranks that others wait for, with the most frequent cause."""
    for late_group in evidence.late_groups:
        cost = evidence.per_step(late_group.waited, evidence.device_times["rank"].n_unique())
        share = evidence.share_of_base(cost)
        if share <= LATE_SHARE:
            continue
        spends = "it spends" if len(late_group.ranks) == 1 else "their host spends"
        because = (
            f"; {spends} {format_duration(late_group.excess)} more in {late_group.cause_text}"
            if late_group.cause
            else ""
        )
        yield Finding(
            _late_ranks_title(late_group, evidence.context.ranks.height),
            f"for {format_duration(late_group.time_lost)}"
            + (f" in {count_noun(late_group.steps, 'step')}" if late_group.steps else "")
            + because,
            "give every rank the same work at the same time: compare what the late rank does before the collective with"
            " what another does",
            FindingLocation.from_row(late_group.latest_row),
            cost,
            share,
        )


def _late_ranks_title(late_group: LateRanks, ranks: int) -> str:
    """``rank 6 waits for rank 7``, or ``the other ranks wait for rank 7``; `ranks` is their number in the trace."""
    if not late_group.waiting:
        return f"{late_group.ranks_text} wait for one another"
    if len(late_group.waiting) + len(late_group.ranks) == ranks:
        return f"the other ranks wait for {late_group.ranks_text}"
    return f"{format_ranks(late_group.waiting)} wait{'s' * (len(late_group.waiting) == 1)} for {late_group.ranks_text}"


def find_slow_steps(evidence: Evidence) -> Iterator[Finding]:
    """Some steps take much longer than the others."""
    steps = _whole_step_parts(evidence)
    if steps.height < MIN_STEPS_PER_RANK * steps["rank"].n_unique():
        return
    medians = pl.col("duration", *TIME_PARTS).median().over("rank").name.prefix("usual_")
    slow = steps.with_columns(medians).filter(pl.col("duration") > SLOW_STEP_FACTOR * pl.col("usual_duration"))
    if slow.is_empty():
        return
    worst = slow.sort("duration", descending=True).row(0, named=True)
    growth = {part: worst[part] - worst[f"usual_{part}"] for part in TIME_PARTS}
    grown_most = max(growth, key=lambda part: growth[part])
    excess = (slow["duration"] - slow["usual_duration"]).to_numpy().sum()
    cost = evidence.per_step(float(excess), steps["rank"].n_unique())
    yield Finding(
        "some steps take much longer than the others",
        f"{format_count(slow.height)} of {format_count(steps.height)}; step {worst['step']} on rank {worst['rank']}"
        f" takes {format_duration(worst['duration'])} against {format_duration(round(worst['usual_duration']))}, most"
        f" of it in {grown_most.replace('_', ' ')}",
        "compare one of them with a usual one; first steps, checkpoints, evaluation, garbage collection and recompiling"
        " are the common reasons",
        FindingLocation.from_row(worst),
        cost,
        evidence.share_of_base(cost),
    )


_TIME_BASE_TEXT: Final = "of the whole steps' time, of a run (or window) without any of the devices' time in it"

EXPOSED_TIME_RULES: Final = (
    Rule(
        "data loader",
        f"the data loader takes more than {DATA_LOADER_SHARE:.0%} of an average step (TensorBoard plugin, rule 1), and"
        " the rule input does not tell of it",
        find_data_loader_wait,
        about_idle_time=True,
    ),
    Rule(
        "communication",
        f"communication alone takes more than {COMMUNICATION_SHARE:.0%} {_TIME_BASE_TEXT} (TensorBoard plugin, rule 4;"
        " what runs beside copies it gives to these), or any of the host's where no device was recorded; where more"
        f" than {MAIN_PART_SHARE:.0%} of it are sends and receives, the advice is about pipelines",
        find_exposed_communication,
    ),
    Rule(
        "copies",
        f"copies alone take more than {COPY_SHARE:.0%} of that time (XProf's lower threshold for input)",
        find_exposed_copies,
    ),
)
"""Rules on data loading, communication and copies."""

RANK_AND_STEP_RULES: Final = (
    Rule(
        "late ranks",
        f"an average rank waits for one, or for those of one host, for more than {LATE_SHARE:.0%} of an average step at"
        " collectives, from the median arrival of the others on (as in stragglers), while its device computes nothing",
        find_late_ranks,
        about_idle_time=True,
    ),
    Rule(
        "slow steps",
        f"a whole step takes more than {SLOW_STEP_FACTOR} times the median of its rank, where there are"
        f" {MIN_STEPS_PER_RANK} of each rank on average",
        find_slow_steps,
    ),
)
"""Rules on late ranks and slow steps."""
