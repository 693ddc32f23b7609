"""Rules on the steps of XLA programs that wait for their input, their output, or the host.

The thresholds are XProf's. PyTorch's own traces have no such steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.findings.advice import UNMARKED, advice
from tracehound.analysis.findings.cause_text import costly_host_causes
from tracehound.analysis.findings.evidence import Evidence, Finding, FindingLocation, Rule
from tracehound.analysis.findings.idle_in_steps import host_activity_times
from tracehound.analysis.hosts.host_time_parts import PART_NAMES
from tracehound.analysis.hosts.thread_activity import ASLEEP, NOTHING_RECORDED, PYTHON
from tracehound.analysis.idle import EDGES, FIRST_WORK_QUEUED
from tracehound.model.units import format_count, format_duration
from tracehound.model.units import format_share as percent

HIGHLY_BOUND_SHARE: Final = 0.20
MODERATELY_BOUND_SHARE: Final = 0.05
MIN_OTHER_SHARE: Final = 0.03
HOST_BOUND_SHARE: Final = 0.15


def find_input_bound(evidence: Evidence) -> Iterator[Finding]:
    """Steps wait for their input."""
    share = _part_share(evidence, "input")
    if share >= MODERATELY_BOUND_SHARE and 2 * _copy_wait_share(evidence, pl.col("source") == "host") < share:
        degree = "highly" if share >= HIGHLY_BOUND_SHARE else "moderately"
        yield _part_finding(
            evidence, "input", f"the run is {degree} input-bound", "wait for data from the host", "input"
        )


def find_output_bound(evidence: Evidence) -> Iterator[Finding]:
    """Steps wait for values to go to the host."""
    share = _part_share(evidence, "output")
    if share >= MODERATELY_BOUND_SHARE and 2 * _copy_wait_share(evidence, pl.col("target") == "host") < share:
        degree = "highly" if share >= HIGHLY_BOUND_SHARE else "moderately"
        yield _part_finding(
            evidence, "output", f"the run is {degree} output-bound", "wait for values to go to the host", "output"
        )


def find_host_bound(evidence: Evidence) -> Iterator[Finding]:
    """Devices are idle while the host does something else, and no launch shows whether it was late."""
    idle = evidence.table("idle").filter((pl.col("stream") == "device") & ~pl.col("cause").is_in(EDGES))
    unknown = idle.filter(pl.col("cause") == "unknown")
    if _part_share(evidence, "host") < HOST_BOUND_SHARE or unknown["idle"].sum() * 2 < idle["idle"].sum():
        return
    most_of_idle = 2 * pl.col("time") >= int(unknown["idle"].sum())
    main_activities = (
        host_activity_times(unknown).filter(most_of_idle & (pl.col("why") != NOTHING_RECORDED))["why"].to_list()
    )
    activity_phrase = f", mostly {main_activities[0]}" if main_activities else ""
    words = f"idle while the host does something else{activity_phrase}"
    yield _part_finding(evidence, "host", "the device waits for the host", words, "busy host")


def find_time_between_steps(evidence: Evidence) -> Iterator[Finding]:
    """Time passes between steps in which no work of a step runs: most often input."""
    pairs = _step_pairs(evidence)
    total = int((pairs["next"] - pairs["start"]).sum())
    between = int(pairs["apart"].sum())
    if not total or between / total < MIN_OTHER_SHARE:
        return
    worst = pairs.row(pairs["apart"].arg_max() or 0, named=True)
    yield Finding(
        "time passes between steps: the run may be input-bound",
        f"{format_duration(round(between / pairs.height))} from the end of a step and its work to the next, on"
        f" average: {percent(between / total)} of the time from step to step; at most"
        f" {format_duration(worst['apart'])}, after step {worst['step']}",
        f"{advice(evidence, 'unmarked')}; if it is the input, {advice(evidence, 'input')}",
        FindingLocation(worst["end"], worst["apart"], rank=worst["rank"]),
        round(between / pairs.height),
        between / total,
        "step to step",
        certainty="not recorded",
        command=f"gaps --rank {worst['rank']} --top 10",
    )


def find_unrecorded_idle(evidence: Evidence) -> Iterator[Finding]:
    """Devices are idle within steps with nothing recorded of the host; or only Python, and no launches."""
    if (
        _part_share(evidence, "other") < MIN_OTHER_SHARE
        or evidence.findings_of(find_input_bound)
        or evidence.findings_of(find_host_bound)
    ):
        return
    idle = evidence.table("idle").filter((pl.col("stream") == "device") & ~pl.col("cause").is_in(EDGES))
    explained_gaps = idle.filter((pl.col("cause") != "unknown") & (pl.col("why") != NOTHING_RECORDED))
    if 2 * explained_gaps["idle"].sum() > idle["idle"].sum():
        return
    if 2 * _time_in_python(idle) < int(_whole_steps(evidence)["other"].sum()):
        words = "idle while nothing is recorded of the host: it could be input, Python, or both"
        yield _part_finding(evidence, "other", "the run may be input-bound", words, UNMARKED)
    elif 2 * _time_in_python(idle.filter(cause="unknown")) > _time_in_python(idle):
        asleep = 2 * _time_in_python(idle, ASLEEP) > _time_in_python(idle)
        words = f"idle while the host is mostly {ASLEEP if asleep else PYTHON}"
        yield _part_finding(evidence, "other", "the device waits for the host", words, "busy host")


def _time_in_python(gap_rows: pl.DataFrame, *activities: str) -> int:
    """Time of the program's thread in recorded Python, working or asleep, in these rows of `idle`; ps."""
    return int(gap_rows.select(pl.sum_horizontal(activities or (PYTHON, ASLEEP)).sum()).item())


def _whole_steps(evidence: Evidence) -> pl.DataFrame:
    """The whole steps of devices that have work."""
    steps = evidence.table("step_time").filter(~pl.col("partial"))
    return steps.filter((pl.col("compute") + pl.col("collectives") + pl.col("device_to_device")).sum().over("rank") > 0)


def _part_share(evidence: Evidence, part: str) -> float:
    """The share of a part in the time of all whole steps, without what findings on named causes tell of."""
    steps = _whole_steps(evidence)
    total = float(steps["duration"].to_numpy().sum())
    named = sum(cause.parts.get(part, 0) for cause in costly_host_causes(evidence))
    if part == "other":
        queued = evidence.device_idle.filter(pl.col("cause").is_in(_QUEUED))
        named += int(queued["idle"].sum()) - int(queued.select(pl.col(PART_NAMES)).sum().sum_horizontal().item())
    return max(float(steps[part].to_numpy().sum()) - named, 0.0) / total if total else 0.0


_QUEUED: Final = ("other", "kernel", FIRST_WORK_QUEUED)
"""Causes of idle time after work was launched in time: it is not the host that keeps the device waiting."""


def _copy_wait_share(evidence: Evidence, condition: pl.Expr) -> float:
    """The share of the devices' time that waits for copies of programs that offload, which is no input."""
    exposed = int(evidence.table("transfers").filter(condition)["exposed"].sum())
    device_time = int(evidence.table("breakdown")["span"].sum())
    return exposed / device_time if device_time else 0.0


def _part_finding(evidence: Evidence, part: str, title: str, words: str, topic: str) -> Finding:
    """A finding on a part of the steps, located where it is longest, with the advice on a topic."""
    steps = _whole_steps(evidence)
    share, times = _part_share(evidence, part), steps[part].to_numpy()
    worst = steps.row(int(times.argmax()), named=True)
    mean = round(float(steps["duration"].to_numpy().mean()))
    cost = round(share * mean)
    number = format_count(steps["step"].n_unique())
    return Finding(
        title,
        f"devices {words}: {format_duration(cost)} of {format_duration(mean)}, {percent(share)} of {number} whole"
        f" steps; at most {format_duration(worst[part])}, in step {worst['step']} on rank {worst['rank']}",
        advice(evidence, topic),
        FindingLocation.from_row(worst),
        cost,
        share,
        certainty="not recorded" if part == "other" else "recorded",
        command=f"step_time --rank {worst['rank']}",
    )


def _step_pairs(evidence: Evidence) -> pl.DataFrame:
    """Each step of a rank that has a next one, with the start of that and the time between them."""
    steps = _whole_steps(evidence).filter(~pl.col("inferred")).sort("rank", "start")
    steps = steps.with_columns(
        (pl.col("start") + pl.col("duration")).alias("end"), pl.col("start").shift(-1).over("rank").alias("next")
    ).drop_nulls("next")
    return steps.with_columns(pl.Series("apart", np.maximum((steps["next"] - steps["end"]).to_numpy(), 0)))


RULES: Final = (
    Rule(
        "input",
        f"input takes {MODERATELY_BOUND_SHARE:.0%} (moderately) or {HIGHLY_BOUND_SHARE:.0%} (highly input-bound) of"
        " the whole steps of an XLA program (XProf), and not most of that in copies which a rule of their own tells"
        " of",
        find_input_bound,
        about_idle_time=True,
    ),
    Rule(
        "output",
        f"output takes {MODERATELY_BOUND_SHARE:.0%} (moderately) or {HIGHLY_BOUND_SHARE:.0%} (highly) of them (XProf)",
        find_output_bound,
        about_idle_time=True,
    ),
    Rule(
        "host",
        f"the host's doings take {HOST_BOUND_SHARE:.0%} of them, and launches are not recorded (XProf's upper"
        " threshold for launching and Python)",
        find_host_bound,
        about_idle_time=True,
    ),
    Rule(
        "between steps",
        f"{MIN_OTHER_SHARE:.0%} of the time from step to step pass between them (XProf's threshold for all others,"
        " which it calls potentially input-bound)",
        find_time_between_steps,
        about_idle_time=True,
    ),
    Rule(
        "not recorded",
        f"idle time in which nothing is recorded of the host takes {MIN_OTHER_SHARE:.0%} of the steps (the same), and"
        " no launches tell that it was late; or in which frames of Python alone are recorded",
        find_unrecorded_idle,
        about_idle_time=True,
    ),
)
