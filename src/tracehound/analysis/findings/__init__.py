"""What costs time in a run, why it is believed, and what helps against it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis import breakdown, kernels, step_parts, step_time, steps, stragglers, transfers
from tracehound.analysis.findings import device, outside, pauses, slow_kernels, time, xla
from tracehound.analysis.findings.executed import executed
from tracehound.analysis.findings.finding import Evidence, Finding, Place
from tracehound.analysis.findings.places import placed, places
from tracehound.analysis.findings.traits import COUNTED, traits
from tracehound.analysis.hosts.compilations import COMPILED
from tracehound.analysis.joint import packed, unpacked
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, blank, without
from tracehound.analysis.share import maps
from tracehound.formats.json.mend import CUT_OFF
from tracehound.formats.salvage import GZIP_ENDS_EARLY
from tracehound.formats.severed import severed
from tracehound.notes import Note, note
from tracehound.units import which_ranks

RULES: Final = (*time.RULES, *xla.RULES, *outside.RULES, *device.RULES, *slow_kernels.RULES)
"""What is looked for."""

DEFINITION = (
    """\
Each row is something that was measured in this trace and that a rule finds worth a look; none is said without evidence.
cost is the time per step (of a run without steps: of the run) that goes to it on an average rank, and so the most that
could be gained; it is empty where that is not known. share is of what share_of names: mostly cost, of an average step
or of the run or window; what passes between steps is a share of the time from step to step, compiling, in steps or not,
one of the run or window, and time in which devices do nothing outside of steps one of the recording. What happens
outside steps costs nothing where there are steps. Communication alone is what breakdown, steps, diff and check call
exposed: no computation runs beside it, whether copies do or not; copies alone are those beside which neither does.
(step_parts gives an instant of copies and communication to the copies.) In a window the steps count that lie in it
whole; where none does, costs are of the window. Costs of different rows may be of the same time; idle time of an XLA
program is told once: what its input, its output, compiling or the host explain is no cost of the pauses in it. start,
rank and the event lead to where it is seen best. The rules:

"""
    + "\n".join(f"{rule.name}: {rule.when}." for rule in RULES)
    + """

The rules with a number are those of the PyTorch TensorBoard plugin, with numbers that are right on today's traces: its
data loader, communication and utilisation come from step times that are wrong since 2023, and its tensor cores know the
names of 2021. Where it advises a larger batch for every idle device, the idle rule says what the device waited for."""
)

COLUMNS: Final = (
    Column("finding", "text", "what costs time"),
    Column("cost", "time", "time per step, or of the run, that goes to it"),
    Column("share", "share", "cost", "what the next column names"),
    Column(
        "share_of", "text", "of what the share is: a step, the run, window or recording, the time from step to step"
    ),
    Column("evidence", "prose", "what was measured"),
    Column("advice", "prose", "what helps as a rule"),
    Column("rank", "number", "rank on which it is seen best", brief=False),
    Column("start", "instant", "where it is seen best", brief=False),
    Column("duration", "time", "how long that stretch is", brief=False),
    Column("event", "id", "event where it is seen best"),
)

_ASKED: Final = {
    "step_parts": (step_parts.ANALYSIS, Options()),
    "steps": (steps.ANALYSIS, Options()),
    "breakdown": (breakdown.ANALYSIS, Options()),
    "idle": (pauses.ANALYSIS, Options()),
    "outside": (outside.ANALYSIS, Options()),
    "kernels": (kernels.ANALYSIS, Options()),
    "transfers": (transfers.ANALYSIS, Options()),
    "stragglers": (replace(stragglers.ANALYSIS, combine=stragglers.with_waits), Options()),
    "step_time": (step_time.ANALYSIS, Options()),
}
"""What rules draw on, by the name under which they find it."""

_OF_STEPS: Final = ("step_parts", "steps", "step_time")
"""Those of which a row is a step, at full length where a window cuts it."""


_NAMING: Final = ("kernels", "transfers")
"""Those that name events of the device without their times."""

_EXECUTED: Final = -3
_TRAITS: Final = -2
_PLACES: Final = -1
"""Where in what a rank gives what it executed is, its traits, and the places of events that others name."""


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """The tables of all analyses that rules draw on, and the traits of the rank."""
    del options
    in_steps = cache(partial(pauses.in_steps, share))
    tables, mine, ran = maps(list(_ASKED.values()), share), traits(share, in_steps), executed(share, in_steps)
    named = [table["event"] for name, table in zip(_ASKED, tables, strict=True) if name in _NAMING and table.height]
    on_host = ("compile_event", "data_parallel_event", "distributed_data_parallel_event")
    where = places(share, [*named, ran["event"], mine["pageable_event"]], [mine[name] for name in on_host])
    return packed([*tables, ran, mine, where])


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """What the rules find, the costliest first, then what has no cost."""
    if not tables:
        return without(ANALYSIS, scene, options, note("no_ranks", level="missing"))
    ranks = [unpacked(table) for table in tables]
    evidence = _evidence(ranks, scene)
    lost = _lost(scene)
    found = [
        _doubted(finding, lost if rule.of_idleness else "") for rule in RULES for finding in evidence.found(rule.find)
    ]
    # an event of a host is in the places of all ranks that it drives: it is told of the first
    where = {row["event"]: row for rank in reversed(ranks) for row in rank[_PLACES].iter_rows(named=True)}
    told = [_row(finding, placed(finding.place, where), evidence.base) for finding in found]
    rows = pl.DataFrame(told, schema=blank(COLUMNS).schema)
    rows = rows.sort("cost", "share", descending=True, nulls_last=True, maintain_order=True)
    return answer(ANALYSIS, rows, scene, options, [*_cut_short(scene), *_notes(evidence, len(found))])


def _evidence(ranks: Sequence[Sequence[pl.DataFrame]], scene: Scene) -> Evidence:
    results = {
        name: analysis.combine([tables[place] for tables in ranks], scene, asked)
        for place, (name, (analysis, asked)) in enumerate(_ASKED.items())
    }
    marks = scene.steps.filter((pl.col("start") >= scene.start) & (pl.col("end") <= scene.end))["event"]
    for name in _OF_STEPS if scene.windowed else ():
        kept = results[name].table.filter(pl.col("event").is_in(marks.implode()))
        results[name] = replace(results[name], table=kept)
    working = results["breakdown"].table["rank"]
    for name in ("step_parts", "steps") if len(working) else ():  # of a silent rank nobody knows what it did
        kept = results[name].table.filter(pl.col("rank").is_in(working.implode()))
        results[name] = replace(results[name], table=kept)
    whole = results["step_parts"].table.filter(~pl.col("partial"))
    if whole.height:
        late = results["stragglers"]
        inside = late.table.filter(pl.col("step").is_in(whole["step"].unique().implode()))
        results["stragglers"] = replace(late, table=inside)
    lengths = (whole if whole.height else results["breakdown"].table.rename({"span": "duration"}))["duration"]
    return Evidence(
        results=results,
        traits=pl.concat([tables[_TRAITS] for tables in ranks]),
        executed=pl.concat([tables[_EXECUTED] for tables in ranks]),
        scene=scene,
        steps=round(whole.height / whole["rank"].n_unique()) if whole.height else 0,
        stretch=round(lengths.to_numpy().mean()) if len(lengths) else 0,
    )


def _row(finding: Finding, place: Place, base: str) -> dict[str, Any]:
    return {
        "finding": finding.what,
        "cost": finding.cost,
        "share": finding.share,
        "share_of": None if finding.share is None else finding.base or base,
        "evidence": finding.evidence,
        "advice": finding.advice,
        "rank": place.rank,
        "start": place.start,
        "duration": place.duration,
        "event": place.event,
    }


def _notes(evidence: Evidence, found: int) -> list[Note]:
    """What the costs are of, and that nothing was found where that is so."""
    if evidence.table("breakdown").is_empty():
        return [note("findings_without_device_work", level="missing"), *_step(evidence)]
    if not found:
        return [note("no_findings", rules=len(RULES))]
    if evidence.scene.windowed and not evidence.steps:
        return [note("costs_of_window")]
    return _step(evidence) or [note("costs_of_run")]


def _lost(scene: Scene) -> str:
    """Of which ranks the file was cut short, as words that end the evidence of idleness; "" where none was."""
    parts = {number for number, notes in enumerate(scene.read) if any(map(_is_cut, notes))}
    of_host = scene.ranks.select("rank", "host").iter_rows()
    ranks = [rank for rank, host in of_host if scene.hosts[host].part in parts]
    return f"; some of it may be work that was lost: the file of {which_ranks(ranks)} was cut short" if ranks else ""


def _doubted(finding: Finding, lost: str) -> Finding:
    return replace(finding, evidence=finding.evidence + lost)


def _cut_short(scene: Scene) -> list[Note]:
    """Which files end before their end: what was lost looks like idleness to the rules."""
    cut = tuple(dict.fromkeys(each.file for each in scene.notes if _is_cut(each)))
    return [note("files_cut_short", level="missing", files=len(cut), first=cut[0])] if cut else []


def _is_cut(read: Note) -> bool:
    return read.code in (GZIP_ENDS_EARLY, CUT_OFF) or severed((read,))


def _step(evidence: Evidence) -> list[Note]:
    return [note("mean_step_time", time=evidence.stretch)] if evidence.steps else []


ANALYSIS: Final = Analysis(
    name="findings",
    title="Findings",
    question="What costs time in this run, how much, and what could be done about it?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    of_host=(*(question for analysis, _ in _ASKED.values() for question in analysis.of_host), COUNTED, COMPILED),
)
