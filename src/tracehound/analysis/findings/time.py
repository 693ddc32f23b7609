"""Rules about what steps and devices spend their time on: data, communication, copies, waiting, single slow steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import polars as pl

from tracehound.analysis.findings.advice import (
    BETWEEN_REPLAYS,
    NEW,
    PIPELINE,
    TOPICS,
    UNMARKED,
    WITHIN_REPLAYS,
    advice,
)
from tracehound.analysis.findings.device import compiling
from tracehound.analysis.findings.finding import Evidence, Find, Finding, Place, Rule
from tracehound.analysis.findings.pauses import EARLY, REPLAYED, REPLAYING, meanwhile
from tracehound.analysis.findings.xla import host_bound, input_bound, output_bound, unrecorded
from tracehound.analysis.hosts.activity import PARTS
from tracehound.analysis.hosts.parts import PARTS as PARTS_OF_HOST
from tracehound.analysis.hosts.words import QUIET
from tracehound.analysis.idle import AFTER, BEFORE, EDGES, QUEUED
from tracehound.analysis.ranks.latecomers import Latecomer
from tracehound.analysis.ranks.process_groups import lacking
from tracehound.units import count, duration, plural, rate, which_ranks
from tracehound.units import share as percent

DATA: Final = 0.05
COMMUNICATION: Final = 0.10
COPIES: Final = 0.05
IDLE: Final = 0.03
BUSY: Final = 0.50
LATE: Final = 0.03
FIRST: Final = 0.9
"""Of so much of what waits for memory at the first use of a device that is the reason, and not how it is used later."""
MOST: Final = 0.5
"""What makes up more than so much of something has the advice: graphs replayed, sends and receives, silence."""
SLOW: Final = 1.5
"""A step this many times as long as the median one is slow."""
FEW: Final = 4
"""Of fewer whole steps on a rank nothing says which is usual."""

_WAIT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "host": "the device runs dry: the host launches its work too late",
        "synchronisation": "the device runs dry while the host waits for it",
        "allocation": "the device waits while its memory is allocated or freed",
        "data loading": "the device runs dry while the host fetches data",
        "kernel": "the device pauses between kernels that follow one another",
        "other stream": "streams wait for work on other streams",
        "other": "work was launched in time and does not begin: what it waits for is not recorded",
        "unknown": "the device idles, and no launch is recorded that says why",
        BEFORE: "the device waits for its first work",
        QUEUED: "the first work was launched in time and does not begin: what it waits for is not recorded",
        AFTER: "the device has nothing to do after its last work",
    }
)
"""What idle time of each cause is called."""


_WITHIN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "kernel": _WAIT["kernel"],
        "other": "the device pauses between kernels of a graph for longer than one takes to start",
    }
)
"""The same of idle time within replays of graphs, which waits for nothing outside."""


def _parts(evidence: Evidence) -> pl.DataFrame:
    """The whole steps, with what their time goes to."""
    return evidence.table("step_parts").filter(~pl.col("partial"))


def _of_steps(evidence: Evidence, part: str) -> tuple[float, Place]:
    """The mean of a part of steps, and the step where it is most; nothing without steps."""
    steps = _parts(evidence)
    if steps.is_empty():
        return 0.0, Place()
    worst = steps.row(steps[part].arg_max() or 0, named=True)
    return float(steps[part].to_numpy().mean()), Place.of(worst)


def data_loader(evidence: Evidence) -> Iterator[Finding]:
    """Steps wait for the data loader, where that is not told as the input of an XLA program."""
    cost, place = _of_steps(evidence, "data_loader")
    share = evidence.share(cost)
    if share > DATA and not evidence.found(input_bound):
        most = _parts(evidence)["data_loader"].to_numpy().max()
        yield Finding(
            "steps wait for the data loader",
            f"it takes {duration(round(cost))} of {evidence.whose}, {percent(share)} (at most {duration(int(most))})",
            advice(evidence, "data loading"),
            place,
            round(cost),
            share,
        )


def communication(evidence: Evidence) -> Iterator[Finding]:
    """Devices do nothing but communicate; of a run without devices, the host does."""
    if evidence.table("breakdown").is_empty():
        cost, place = _of_steps(evidence, "communication")
        share = evidence.share(cost)
        if share > COMMUNICATION:
            told = f"it takes {duration(round(cost))} of {evidence.whose}, {percent(share)}"
            yield Finding(
                "processes spend their time in communication",
                f"{told}, whatever other threads do then{_awaited(evidence, cost)}",
                advice(evidence, "communication"),
                place,
                round(cost),
                share,
            )
        return
    yield from _exposed(evidence, "communication", COMMUNICATION, "communication is not hidden behind computation")


def _awaited(evidence: Evidence, cost: float) -> str:
    """Which part of communication may be waiting for late ranks, where any is late by much or not in the trace."""
    told = sum(finding.cost or 0 for finding in late_ranks(evidence))
    part = f"up to {duration(told)}" if told < cost else "all"
    late = f"; {part} of it may be waiting for late ranks" if told else ""
    absent = "; part of it may be waiting for ranks that are not in this trace" if lacking(evidence.scene) else ""
    return late + absent


def copies(evidence: Evidence) -> Iterator[Finding]:
    """Devices do nothing but copy; of XLA's, between which memories."""
    links = evidence.table("transfers")
    if links.is_empty() or not evidence.xla:
        where = " within the device" if evidence.xla else ""
        yield from _exposed(evidence, "copy", COPIES, f"copies{where} are not hidden behind computation")
        return
    cores = int(evidence.table("breakdown")["span"].sum())
    exposed = int(links["exposed"].sum()) / cores if cores else 0.0
    within = int(evidence.spans["copy"].sum()) / max(int(evidence.spans["span"].sum()), 1)
    scale = within / exposed if exposed and evidence.steps else 1.0
    for (source, target), rows in links.group_by("source", "target", maintain_order=True):
        share = int(rows["exposed"].sum()) / cores * scale if cores else 0.0
        if share > COPIES:
            known = rows.filter(pl.col("rate") > 0)
            seconds = float((known["bytes"] / known["rate"]).sum())
            moving = rate(int(known["bytes"].sum()) / seconds) if seconds else "an unknown rate"
            worst = rows.sort("exposed", descending=True).row(0, named=True)
            yield Finding(
                f"the device waits for copies from {source} to {target}",
                f"{percent(share)} of {evidence.time}, at {moving}" + (_LINK if "host" in (source, target) else ""),
                advice(evidence, "copies"),
                Place.of(worst),
                round(share * evidence.stretch),
                share,
            )


_LINK: Final = ": bound by the link to the host, not by the device's memory"


def _exposed(evidence: Evidence, part: str, threshold: float, what: str) -> Iterator[Finding]:
    span = int(evidence.spans["span"].sum())
    share = int(evidence.spans[part].sum()) / span if span else 0.0
    if share > threshold:
        ranks = _by_rank(evidence, part)
        run = evidence.table("breakdown").select("span", part, f"all_{part}").sum()
        handed = _handed(evidence) if part == "communication" else 0.0
        topic = PIPELINE if handed > MOST else {"copy": "HLO copies" if evidence.xla else "copies"}.get(part, part)
        hidden = (run[f"all_{part}"][0] - run[part][0]) / run["span"][0] if run["span"][0] else 0.0
        yield Finding(
            what,
            f"{percent(share)} of {evidence.time} is {part} alone, most on rank {ranks['rank'][0]}:"
            f" {percent(ranks['share'][0])}"
            + (f"; {percent(hidden)} of the devices' time in {evidence.extent} is hidden {part}" if hidden else "")
            + (f"; {percent(handed)} of it are sends and receives" if handed > MOST else "")
            + (_awaited(evidence, share * evidence.stretch) if part == "communication" else ""),
            advice(evidence, topic),
            Place(rank=ranks["rank"][0], event=_longest_of(evidence, part)),
            round(share * evidence.stretch),
            share,
        )


def _handed(evidence: Evidence) -> float:
    """Which part of communication alone are sends and receives."""
    handing, meeting = (int(evidence.traits[name].sum()) for name in ("handing", "meeting"))
    return handing / (handing + meeting) if handing else 0.0


def _by_rank(evidence: Evidence, part: str) -> pl.DataFrame:
    """What share of each rank's time a part takes, the largest first."""
    spans = evidence.spans.group_by("rank").agg(pl.col("span", part).sum()).filter(pl.col("span") > 0)
    shares = spans.select("rank", (pl.col(part) / pl.col("span")).alias("share"))
    return shares.sort("share", "rank", descending=[True, False])


def _longest_of(evidence: Evidence, part: str) -> int | None:
    """The longest execution of communication, or of a copy."""
    ops = evidence.table("kernels")
    wanted = {"communication": "communication", "copy": "memory"}[part]
    found = ops.filter(pl.col("type") == wanted).sort("max", descending=True)
    return int(found["event"][0]) if found.height else None


def waiting(evidence: Evidence) -> Iterator[Finding]:
    """Devices idle, by what they wait for; what rules of the data loader or the host tell is not told twice."""
    spans = evidence.spans
    span = int(spans["span"].sum())
    idle = evidence.table("idle").filter(stream="device").filter(pl.col("rank").is_in(spans["rank"].implode()))
    loading = evidence.found(data_loader) or evidence.found(input_bound)
    known = [part for part, rule in _TOLD.items() if evidence.found(rule)] if evidence.xla else []
    for cause, what in _WAIT.items():
        rows = idle.filter(pl.col("cause") == cause).with_columns(
            other=pl.col("idle") - pl.sum_horizontal(PARTS_OF_HOST)
        )
        told = int(rows.select(pl.sum_horizontal(known).sum()).item()) if known else 0
        share = (int(rows["idle"].sum()) - told) / span if span else 0.0
        if share <= IDLE or (cause == "data loading" and loading) or (cause in _OF_STREAMS and evidence.xla):
            continue
        worst, which = _costing(rows, known, cause, evidence.where)
        why, at = meanwhile(rows)
        if loading and cause in EDGES and TOPICS.get(why) == "data loading":
            continue
        if 2 * told > int(rows["idle"].sum()) or _PART_OF.get(TOPICS.get(why, "")) in known:
            why = at = ""  # that of what other findings tell
        topic = cause if cause in _UNTOLD else TOPICS.get(why, cause)
        early = int(rows[EARLY].sum()) / int(rows["idle"].sum()) if topic == "allocation" else 0.0
        if early >= FIRST:
            when = "before the second step" if evidence.steps > 1 else "before work that runs for the first time"
            topic, at = NEW, "; ".join(filter(None, (at, f"{percent(early)} of that lies {when}")))
        topic, at = _in_graphs(rows, cause, topic, at)
        if topic == "host" and not told and int(rows[QUIET].sum()) > MOST * int(rows["idle"].sum()):
            topic = UNMARKED  # late it is, but nobody knows why
        quiet = (cause in _UNTOLD or topic == UNMARKED) and not at and not told
        yield Finding(
            _WITHIN[cause] if topic == WITHIN_REPLAYS else what,
            f"{percent(share)} of {evidence.time}{_BESIDE if told else ''}; {which}"
            + (f"; {at}" if at else _SILENT if quiet else ""),
            advice(evidence, topic),
            Place.of(worst),
            round(share * evidence.stretch),
            share,
        )


_TOLD: Final[Mapping[str, Find]] = MappingProxyType(
    {"input": input_bound, "output": output_bound, "compile": compiling, "host": host_bound, "other": unrecorded}
)
"""What the host of an XLA program was at, and the rule that tells of it."""

_PART_OF: Final = MappingProxyType({"data loading": "input", "synchronisation": "output", "compiling": "compile"})
"""Which part of the host's time an advice is about."""

_BESIDE: Final = ", beside what other findings tell of"

_UNTOLD: Final = ("other", "unknown", *EDGES)
"""Idle time that says nothing of its reason by itself, and what the host was at all the more."""

_OF_STREAMS: Final = ("other", "unknown")
"""Told of streams alone: pools of threads carry out what XLA launches, and its own rules say what the host did."""

_SILENT: Final = "; nothing is recorded of what the host did meanwhile"


def _in_graphs(pauses: pl.DataFrame, cause: str, topic: str, at: str) -> tuple[str, str]:
    """What helps with these pauses, and what is said of them, where most are within or before replays of graphs."""
    idle = int(pauses["idle"].sum())
    within, before = (int(pauses[part].sum()) / idle for part in (REPLAYING, REPLAYED))
    if cause in _WITHIN and within > MOST:
        return WITHIN_REPLAYS, f"{percent(within)} of that lies within replays of graphs"
    if topic == "host" and before > MOST:
        return BETWEEN_REPLAYS, "; ".join(
            filter(None, (at, f"{percent(before)} of that lies before replays of graphs"))
        )
    return topic, at


def _costing(rows: pl.DataFrame, known: Sequence[str], cause: str, where: str) -> tuple[dict[str, Any], str]:
    """The row of the longest of the pauses that make up most of what is left beside what is known, and which they are.

    Where that is left of pauses of which other findings tell most, nothing is said of how long these are.
    """
    left, told = pl.col("idle") - pl.sum_horizontal(pl.lit(0), *known), pl.col("mainly").is_in(known)
    rest, others = rows.filter(told), rows.filter(~told)
    if 2 * int(rest.select(left.sum()).item()) > int(rows.select(left.sum()).item()):
        worst = _longest(rest)
        return worst, f"what is left of {_many(cause, rest)} in {where}, the longest on rank {worst['rank']}"
    worst = _longest(others)
    longest = f"the longest {duration(worst['duration'])} on rank {worst['rank']}"
    return worst, f"{_many(cause, others)} in {where}, {longest}"


def _longest(pauses: pl.DataFrame) -> dict[str, Any]:
    """The row that has the longest of these pauses."""
    return pauses.row(pauses["duration"].arg_max() or 0, named=True)


def _many(cause: str, pauses: pl.DataFrame) -> str:
    """How many pauses, or which time that is none."""
    if cause in EDGES:
        return f"all that is {BEFORE if cause == QUEUED else cause}"
    return plural(int(pauses["count"].sum()), "pause")


def busy(evidence: Evidence) -> Iterator[Finding]:
    """A device is idle for more than half of the time, and the other findings explain less than half of that."""
    spans, rows = evidence.spans, _by_rank(evidence, "idle").filter(pl.col("share") > 1 - BUSY)
    if rows.is_empty() or evidence.table("breakdown").is_empty():
        return
    share = int(spans["idle"].sum()) / int(spans["span"].sum())
    cost = round(share * evidence.stretch)
    told = sum(finding.cost or 0 for rule in _OF_IDLENESS for finding in evidence.found(rule))
    if 2 * told >= cost:
        return
    named = ", ".join(f"{rank} (busy {percent(1 - idle)})" for rank, idle in rows.head(8).rows())
    yield Finding(
        "devices are idle for more than half of the time",
        f"on rank {named}"
        + (f", and {rows.height - 8} more" if rows.height > 8 else "")
        + f"; on average {duration(cost)} of {evidence.whose}, of which other findings explain {duration(told)}",
        "look at the longest gaps: where nothing in particular keeps the device waiting, a larger batch gives it more"
        " to do at once",
        _longest_pause(evidence, int(rows["rank"][0])),
        cost,
        share,
    )


_OF_IDLENESS: Final = (data_loader, waiting, *_TOLD.values())
"""Rules that say why devices idle."""


def _longest_pause(evidence: Evidence, rank: int) -> Place:
    pauses = evidence.table("idle").filter(stream="device", rank=rank)
    longest = pauses.sort("duration", descending=True, maintain_order=True)
    return Place.of(longest.row(0, named=True)) if longest.height else Place(rank=rank)


def late_ranks(evidence: Evidence) -> Iterator[Finding]:
    """Ranks that others wait for, with what most often made them late."""
    for late in evidence.late:
        cost = evidence.per_step(late.waited, evidence.spans["rank"].n_unique())
        share = evidence.share(cost)
        if share <= LATE:
            continue
        spends = "it spends" if len(late.ranks) == 1 else "their host spends"
        because = f"; {spends} {duration(late.excess)} more in {late.why}" if late.cause else ""
        yield Finding(
            _who_waits(late, evidence.scene.ranks.height),
            f"for {duration(late.stood)}" + (f" in {plural(late.steps, 'step')}" if late.steps else "") + because,
            "give every rank the same work at the same time: compare what the late rank does before the collective with"
            " what another does",
            Place.of(late.worst),
            cost,
            share,
        )


def _who_waits(late: Latecomer, ranks: int) -> str:
    """``rank 6 waits for rank 7``, or ``the other ranks wait for rank 7``, of so many ranks of the trace."""
    if not late.waiting:
        return f"{late.who} wait for one another"
    if len(late.waiting) + len(late.ranks) == ranks:
        return f"the other ranks wait for {late.who}"
    return f"{which_ranks(late.waiting)} wait{'s' * (len(late.waiting) == 1)} for {late.who}"


def slow_steps(evidence: Evidence) -> Iterator[Finding]:
    """Some steps take much longer than the others."""
    steps = _parts(evidence)
    if steps.height < FEW * steps["rank"].n_unique():
        return
    usual = pl.col("duration", *PARTS).median().over("rank").name.prefix("usual_")
    slow = steps.with_columns(usual).filter(pl.col("duration") > SLOW * pl.col("usual_duration"))
    if slow.is_empty():
        return
    worst = slow.sort("duration", descending=True).row(0, named=True)
    grown = {part: worst[part] - worst[f"usual_{part}"] for part in PARTS}
    most = max(grown, key=lambda part: grown[part])
    excess = (slow["duration"] - slow["usual_duration"]).to_numpy().sum()
    cost = evidence.per_step(float(excess), steps["rank"].n_unique())
    yield Finding(
        "some steps take much longer than the others",
        f"{count(slow.height)} of {count(steps.height)}; step {worst['step']} on rank {worst['rank']} takes"
        f" {duration(worst['duration'])} against {duration(round(worst['usual_duration']))}, most of it in"
        f" {most.replace('_', ' ')}",
        "compare one of them with a usual one; first steps, checkpoints, evaluation, garbage collection and recompiling"
        " are the common reasons",
        Place.of(worst),
        cost,
        evidence.share(cost),
    )


_OF_TIME: Final = "of the whole steps' time, of a run (or window) without any of the devices' time in it"

RULES: Final = (
    Rule(
        "data loader",
        f"the data loader takes more than {DATA:.0%} of an average step (TensorBoard plugin, rule 1), and the rule"
        " input does not tell of it",
        data_loader,
        of_idleness=True,
    ),
    Rule(
        "communication",
        f"communication alone takes more than {COMMUNICATION:.0%} {_OF_TIME} (TensorBoard plugin, rule 4; what"
        " runs beside copies it gives to these), or any of the host's where no device was recorded; where more than"
        f" {MOST:.0%} of it are sends and receives, the advice is about pipelines",
        communication,
    ),
    Rule(
        "copies",
        f"copies alone take more than {COPIES:.0%} of that time (XProf's lower threshold for input)",
        copies,
    ),
    Rule(
        "idle",
        f"pauses of one cause, or idle time before the first work or after the last, take more than {IDLE:.0%} of"
        f" that time (XProf's lower threshold for launching). Where {FIRST:.0%} of those that wait for memory lie"
        " before the second whole step (without two of them: before work of a name that has not run yet), the advice is"
        f" to warm up; where more than {MOST:.0%} of those of a cause lie within the replays of CUDA or HIP graphs, or"
        f" before them, it is not to use graphs; where nothing is recorded of the host in more than {MOST:.0%} of those"
        " of late launches, it is to record what it does",
        waiting,
        of_idleness=True,
    ),
    Rule(
        "late ranks",
        f"an average rank waits for one, or for those of one host, for more than {LATE:.0%} of an average step at"
        " collectives, from the median arrival of the others on (as in stragglers), while its device computes nothing",
        late_ranks,
        of_idleness=True,
    ),
    Rule(
        "slow steps",
        f"a whole step takes more than {SLOW} times the median of its rank, where there are {FEW} of each rank on"
        " average",
        slow_steps,
    ),
    Rule(
        "utilisation",
        f"a device is busy for less than {BUSY:.0%} of that time (TensorBoard plugin, rule 5), and the rules of what it"
        " waits for explain less than half of its idleness",
        busy,
        of_idleness=True,
    ),
)
