"""Rules about the steps of XLA programs: whether they wait for their input, their output, or the host.

Their thresholds are XProf's. Knows nothing of PyTorch's own traces, which have no such steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.findings.advice import UNMARKED, advice
from tracehound.analysis.findings.finding import Evidence, Finding, Place, Rule
from tracehound.analysis.findings.pauses import spent
from tracehound.analysis.hosts.words import ASLEEP, PYTHON, QUIET
from tracehound.analysis.idle import EDGES
from tracehound.units import count, duration
from tracehound.units import share as percent

HIGH: Final = 0.20
LOW: Final = 0.05
OTHERS: Final = 0.03
HOST: Final = 0.15


def input_bound(evidence: Evidence) -> Iterator[Finding]:
    """Steps wait for their input."""
    share = _share(evidence, "input")
    if share >= LOW and 2 * _copied(evidence, pl.col("source") == "host") < share:
        how = "highly" if share >= HIGH else "moderately"
        yield _of_part(evidence, "input", f"the run is {how} input-bound", "wait for data from the host", "input")


def output_bound(evidence: Evidence) -> Iterator[Finding]:
    """Steps wait for values to go to the host."""
    share = _share(evidence, "output")
    if share >= LOW and 2 * _copied(evidence, pl.col("target") == "host") < share:
        how = "highly" if share >= HIGH else "moderately"
        yield _of_part(
            evidence, "output", f"the run is {how} output-bound", "wait for values to go to the host", "output"
        )


def host_bound(evidence: Evidence) -> Iterator[Finding]:
    """Devices idle while the host does something else, where no launch says whether it launches too late."""
    idle = evidence.table("idle").filter((pl.col("stream") == "device") & ~pl.col("cause").is_in(EDGES))
    unknown = idle.filter(pl.col("cause") == "unknown")
    if _share(evidence, "host") < HOST or unknown["idle"].sum() * 2 < idle["idle"].sum():
        return
    half = 2 * pl.col("time") >= int(unknown["idle"].sum())
    why = spent(unknown).filter(half & (pl.col("why") != QUIET))["why"].to_list()
    most = f", mostly {why[0]}" if why else ""
    words = f"idle while the host does something else{most}"
    yield _of_part(evidence, "host", "the device waits for the host", words, "busy host")


def between_steps(evidence: Evidence) -> Iterator[Finding]:
    """Time passes between a step and the next, in which no work of a step runs: input, most often."""
    pairs = _pairs(evidence)
    total = int((pairs["next"] - pairs["start"]).sum())
    apart = int(pairs["apart"].sum())
    if not total or apart / total < OTHERS:
        return
    worst = pairs.row(pairs["apart"].arg_max() or 0, named=True)
    yield Finding(
        "time passes between steps: the run may be input-bound",
        f"{duration(round(apart / pairs.height))} from the end of a step and its work to the next, on average:"
        f" {percent(apart / total)} of the time from step to step; at most {duration(worst['apart'])}, after step"
        f" {worst['step']}",
        f"{advice(evidence, 'unmarked')}; if it is the input, {advice(evidence, 'input')}",
        Place(worst["end"], worst["apart"], rank=worst["rank"]),
        round(apart / pairs.height),
        apart / total,
        "step to step",
    )


def unrecorded(evidence: Evidence) -> Iterator[Finding]:
    """Devices idle within steps, and nothing is recorded of the host; or only Python, and no launch tells of it."""
    if _share(evidence, "other") < OTHERS or evidence.found(input_bound) or evidence.found(host_bound):
        return
    idle = evidence.table("idle").filter((pl.col("stream") == "device") & ~pl.col("cause").is_in(EDGES))
    late = idle.filter((pl.col("cause") != "unknown") & (pl.col("why") != QUIET))
    if 2 * late["idle"].sum() > idle["idle"].sum():
        return
    if 2 * _in_python(idle) < int(_whole(evidence)["other"].sum()):
        words = "idle while nothing is recorded of the host: it could be input, Python, or both"
        yield _of_part(evidence, "other", "the run may be input-bound", words, UNMARKED)
    elif 2 * _in_python(idle.filter(cause="unknown")) > _in_python(idle):
        asleep = 2 * _in_python(idle, ASLEEP) > _in_python(idle)
        words = f"idle while the host is mostly {ASLEEP if asleep else PYTHON}"
        yield _of_part(evidence, "other", "the device waits for the host", words, "busy host")


def _in_python(pauses: pl.DataFrame, *how: str) -> int:
    """How long the program's thread is in Python that is recorded, at work or asleep, in these rows of `idle`; ps."""
    return int(pauses.select(pl.sum_horizontal(how or (PYTHON, ASLEEP)).sum()).item())


def _whole(evidence: Evidence) -> pl.DataFrame:
    """The whole steps of devices that have work."""
    steps = evidence.table("step_time").filter(~pl.col("partial"))
    return steps.filter((pl.col("compute") + pl.col("collectives") + pl.col("device_to_device")).sum().over("rank") > 0)


def _share(evidence: Evidence, part: str) -> float:
    """What of the time of all whole steps a part takes."""
    steps = _whole(evidence)
    total = float(steps["duration"].to_numpy().sum())
    return float(steps[part].to_numpy().sum()) / total if total else 0.0


def _copied(evidence: Evidence, which: pl.Expr) -> float:
    """The share of the devices' time that waits for copies of programs that offload: no input, and told apart."""
    exposed = int(evidence.table("transfers").filter(which)["exposed"].sum())
    cores = int(evidence.table("breakdown")["span"].sum())
    return exposed / cores if cores else 0.0


def _of_part(evidence: Evidence, part: str, what: str, words: str, topic: str) -> Finding:
    """A part of the steps as a finding, seen best where it is most, with the advice on a topic."""
    steps = _whole(evidence)
    share, times = _share(evidence, part), steps[part].to_numpy()
    worst = steps.row(int(times.argmax()), named=True)
    cost = round(float(times.mean()))
    mean = round(float(steps["duration"].to_numpy().mean()))
    number = count(steps["step"].n_unique())
    return Finding(
        what,
        f"devices {words}: {duration(cost)} of {duration(mean)}, {percent(share)} of {number} whole steps;"
        f" at most {duration(worst[part])}, in step {worst['step']} on rank {worst['rank']}",
        advice(evidence, topic),
        Place.of(worst),
        cost,
        share,
    )


def _pairs(evidence: Evidence) -> pl.DataFrame:
    """Every step of a rank that another follows, with the start of that and the time between them."""
    steps = _whole(evidence).filter(~pl.col("inferred")).sort("rank", "start")
    steps = steps.with_columns(
        (pl.col("start") + pl.col("duration")).alias("end"), pl.col("start").shift(-1).over("rank").alias("next")
    ).drop_nulls("next")
    return steps.with_columns(pl.Series("apart", np.maximum((steps["next"] - steps["end"]).to_numpy(), 0)))


RULES: Final = (
    Rule(
        "input",
        f"input takes {LOW:.0%} (moderately) or {HIGH:.0%} (highly input-bound) of the whole steps of an XLA program"
        " (XProf), and not most of that in copies which a rule of their own tells of",
        input_bound,
        of_idleness=True,
    ),
    Rule(
        "output",
        f"output takes {LOW:.0%} (moderately) or {HIGH:.0%} (highly) of them (XProf)",
        output_bound,
        of_idleness=True,
    ),
    Rule(
        "host",
        f"the host's doings take {HOST:.0%} of them, and launches are not recorded (XProf's upper threshold for"
        " launching and Python)",
        host_bound,
        of_idleness=True,
    ),
    Rule(
        "between steps",
        f"{OTHERS:.0%} of the time from step to step pass between them (XProf's threshold for all others, which it"
        " calls potentially input-bound)",
        between_steps,
        of_idleness=True,
    ),
    Rule(
        "not recorded",
        f"idle time in which nothing is recorded of the host takes {OTHERS:.0%} of the steps (the same), and no"
        " launches tell that it was late; or in which frames of Python alone are recorded",
        unrecorded,
        of_idleness=True,
    ),
)
