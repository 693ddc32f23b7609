"""Findings: recoverable time in a run, with evidence and advice."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis import breakdown, step_time, steps, stragglers
from tracehound.analysis.analysis_run import MAX_EVENTS_IN_MEMORY, map_rank, with_events_in_memory
from tracehound.analysis.findings import (
    device_rules,
    host_time_rules,
    idle_in_steps,
    idle_outside_steps,
    idle_rules,
    kernel_rules,
    rank_rules,
    step_rules,
    transfer_rules,
    xla_rules,
)
from tracehound.analysis.findings.classified_kernels import CLASSIFIED_KERNELS
from tracehound.analysis.findings.evidence import Evidence, Finding, FindingLocation
from tracehound.analysis.findings.rank_evidence import (
    COLLECTIVE_SCHEMA,
    HOST_CALL_COUNTS,
    collective_calls_by_size,
    complete_location,
    event_times,
    kernel_times_in_steps,
    rank_traits,
    step_kernel_factors,
)
from tracehound.analysis.hosts import host_time_parts
from tracehound.analysis.hosts.host_compilations import HOST_COMPILATIONS
from tracehound.analysis.hosts.host_threads import share_threads_in_memory
from tracehound.analysis.hosts.main_activities import chosen_loader
from tracehound.analysis.hosts.step_causes import STEP_CAUSE_SCHEMA, find_step_causes
from tracehound.analysis.hosts.thread_activity import PROGRAM_ACTIVITIES
from tracehound.analysis.idle import DELAY_SETTING
from tracehound.analysis.packed_tables import RankTables, pack_tables, unpack_ranks
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import Analysis, Column, Options, Result, empty_result, empty_table, make_result
from tracehound.formats.inflate import GZIP_ENDS_EARLY
from tracehound.formats.json.array_repair import EVENT_CUT_OFF
from tracehound.model.notes import Note, is_truncated, note
from tracehound.model.stacked_frames import stacks_of
from tracehound.model.units import format_ranks
from tracehound.system.malloc import return_free_memory

RULES: Final = (
    *idle_rules.IDLE_CAUSE_RULES,
    *host_time_rules.RULES,
    *rank_rules.RULES,
    *transfer_rules.RULES,
    *step_rules.RULES,
    idle_rules.LOW_UTILIZATION_RULE,
    *xla_rules.RULES,
    *idle_outside_steps.RULES,
    *device_rules.RULES,
    *kernel_rules.RULES,
)
"""All rules, in the order in which the definition lists them."""

DEFINITION = (
    """\
Each row is one cause of lost time, with the name under which the trace has it: an event, an operator, a Python frame,
an annotation, a rank. A class of causes (CPU-bound, unrecorded host time) stands only where no name is recorded. What
a cause explains in turn (late ranks, waiting collectives, slow steps) stands under it as effects and has no row of
its own: no time is in two rows, unless a row says so. certainty says whether the cause was recorded, inferred by a
rule, or not recorded.

cost is the time per step (of a run without steps: of the run) that the run would win on an average rank without the
cause, by the rule; it is empty where that is not known. A late rank costs what the ranks win that wait for it. share
is of what share_of names: mostly cost, of an average step or of the run or window; time between steps is a share of
the time from step to step, compiling one of the run or window, and devices that do nothing outside of steps one of
the recording. Costs outside of steps count nothing where there are steps. Communication alone is what breakdown,
steps, diff and check call exposed: no computation runs beside it, whether copies do or not; copies alone are those
beside which neither does. (step_parts gives an instant of copies and communication to the copies.) In a window the
steps count that lie in it whole; where none does, costs are of the window. Costs of kernels (tensor cores, layouts,
attention) may be of the same time as others. next is what `tracehound report PATH` takes to
show more; start, rank and event lead to what shows it best. The rules:

"""
    + "\n".join(f"{rule.name}: {rule.condition}." for rule in RULES)
    + """

The rules with a number are those of the PyTorch TensorBoard plugin, with numbers that are right on today's traces: its
data loader, communication and utilization come from step times that are wrong since 2023, and its tensor cores know the
names of 2021. Where it advises a larger batch for every idle device, the rules here say what the device waited for."""
)

COLUMNS: Final = (
    Column("finding", "text", "the cause of lost time"),
    Column("cost", "time", "time per step, or of the run, that could be won"),
    Column("share", "share", "cost", "what the next column names"),
    Column(
        "share_of", "text", "of what the share is: a step, the run, window or recording, the time from step to step"
    ),
    Column("evidence", "prose", "what was measured"),
    Column("effects", "prose", "what it causes in turn"),
    Column("advice", "prose", "what to do about it"),
    Column("rank", "number", "rank that shows it best", brief=False),
    Column("start", "instant", "start of the interval that shows it best", brief=False),
    Column("duration", "time", "length of that interval", brief=False),
    Column("event", "id", "event that shows it best"),
    Column("certainty", "text", "recorded, inferred, or not recorded: how sure the cause is", brief=False),
    Column("next", "prose", "the command that shows more of it"),
)

_SOURCE_ANALYSES: Final = {
    "step_parts": step_rules.HOST_STEP_PARTS,
    "steps": steps.ANALYSIS,
    "breakdown": breakdown.ANALYSIS,
    "outside": idle_outside_steps.ANALYSIS,
    "kernels": CLASSIFIED_KERNELS,
    "transfers": transfer_rules.TRANSFERS,
    "stragglers": rank_rules.STRAGGLERS,
    "step_time": step_time.ANALYSIS,
    "idle": idle_in_steps.ANALYSIS,
}
"""The analyses that rules draw on, by the name under which `Evidence.results` has them; the one with most rows last."""

SETTINGS: Final = (host_time_parts.LOADER_SETTING, DELAY_SETTING, stragglers.LEAST_SETTING)
"""Settings of the source analyses that findings take, too."""


def _source_analyses(options: Options) -> dict[str, tuple[Analysis, Options]]:
    """The source analyses, each with those of the chosen settings that it has."""
    return {name: (analysis, _options_of(analysis, options)) for name, analysis in _SOURCE_ANALYSES.items()}


def _options_of(analysis: Analysis, options: Options) -> Options:
    own = {setting.name for setting in analysis.settings}
    return Options(None, tuple(choice for choice in options.given if choice[0] in own))


_STEP_ANALYSES: Final = ("step_parts", "steps", "step_time")
"""Analyses with a row per step, at full length where a window cuts it."""


_ANALYSES_WITHOUT_TIMES: Final = ("kernels", "transfers")
"""Analyses that name device events without their times."""

_STEP_CAUSES_INDEX, _COLLECTIVES_INDEX, _STEP_FACTORS_INDEX, _KERNEL_TIMES_INDEX, _TRAITS_INDEX, _EVENT_TIMES_INDEX = (
    range(-6, 0)
)
"""Positions of the tables of a rank after those of the source analyses."""

_KERNELS_INDEX: Final = list(_SOURCE_ANALYSES).index("kernels")

_NOTABLE_COMMUNICATION: Final = 0.05
"""Share of exposed communication above which a rank's collectives are looked at."""


_MAX_DEVICE_EVENTS: Final = 1 << 21
"""Up to this many events of a device are read once for all source analyses; they take some 280 MB."""


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The tables of all source analyses, and the rank's kernel times, traits and event times, in one bundle."""
    rank_trace = with_events_in_memory(rank_trace, _MAX_DEVICE_EVENTS)
    if PROGRAM_ACTIVITIES.known_result(rank_trace) is None:  # else all that needs the threads of the host is known
        rank_trace = share_threads_in_memory(rank_trace)
    in_steps = cache(partial(idle_in_steps.whole_step_intervals, rank_trace))
    questions = _source_analyses(options)
    idle_question = questions.pop("idle")
    with ThreadPoolExecutor(1, "tracehound idle") as thread:  # it takes about as long as all the others together
        idle_table = thread.submit(map_rank, [idle_question], rank_trace)
        source_tables = dict(zip(questions, map_rank(list(questions.values()), rank_trace), strict=True))
        traits = rank_traits(rank_trace, in_steps)
        (source_tables["idle"],) = idle_table.result()
    has_many_events = int(rank_trace.lanes["events"].sum()) > MAX_EVENTS_IN_MEMORY
    if has_many_events:
        return_free_memory()
    kernel_times = kernel_times_in_steps(rank_trace, in_steps)
    kernel_factors = step_kernel_factors(rank_trace)
    tables = [source_tables[name] for name in _SOURCE_ANALYSES]
    device_events = [
        table["event"]
        for name, table in zip(_SOURCE_ANALYSES, tables, strict=True)
        if name in _ANALYSES_WITHOUT_TIMES and table.height
    ]
    host_event_columns = ("compile_event", "data_parallel_event", "distributed_data_parallel_event")
    times = event_times(
        rank_trace,
        [*device_events, kernel_times["event"], traits["pageable_event"]],
        [traits[name] for name in host_event_columns],
    )
    breakdown_row = tables[list(_SOURCE_ANALYSES).index("breakdown")]
    works = bool((breakdown_row["lanes"] > 0).any())
    communicates = works and bool(
        (breakdown_row["communication"] > _NOTABLE_COMMUNICATION * breakdown_row["span"]).any()
    )
    collectives = (
        collective_calls_by_size(rank_trace, in_steps) if communicates else pl.DataFrame(schema=COLLECTIVE_SCHEMA)
    )
    step_causes = (
        pl.DataFrame(schema=STEP_CAUSE_SCHEMA)
        if works
        else find_step_causes(rank_trace, _whole_steps_of_host(rank_trace), chosen_loader(options.given))
    )
    every = [*tables, step_causes, collectives, kernel_factors, kernel_times, traits, times]
    by_name = {_KERNELS_INDEX, len(every) + _KERNEL_TIMES_INDEX}
    return pack_tables(
        _names_as_text(table, return_memory=has_many_events) if number in by_name else table
        for number, table in enumerate(every)
    )


def _names_as_text(table: pl.DataFrame, *, return_memory: bool) -> pl.DataFrame:
    """The table with names that mean the same in every process; memory of the one before may go back first."""
    if return_memory:
        return_free_memory()
    return table.cast({pl.Categorical: pl.String})


def _whole_steps_of_host(rank_trace: RankTrace) -> pl.DataFrame:
    """The marks of steps that lie whole in the window; without any the window."""
    inside = (pl.col("start") >= rank_trace.start) & (pl.col("end") <= rank_trace.end)
    steps = rank_trace.steps.filter(inside).sort("start") if rank_trace.steps.height else pl.DataFrame()
    if steps.height:
        later = pl.col("end").cum_max().shift(1)
        return steps.filter((pl.col("start") >= later).fill_null(value=True)).select("step", "start", "end", "event")
    window = rank_trace.with_host_window
    whole = {"step": [0], "start": [window.start], "end": [window.end], "event": [None]}
    return pl.DataFrame(whole, schema_overrides={"event": pl.Int64})


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The findings of all rules, the costliest first, then those without a cost."""
    if not tables:
        return empty_result(ANALYSIS, context, options, note("no_ranks", level="missing"))
    tables_of_ranks = unpack_ranks(tables)
    return_free_memory()  # that of what was packed
    evidence = _gather_evidence(tables_of_ranks, context, options)
    lost_work = _lost_work_clause(context)
    findings = [
        _add_clause(finding, lost_work if rule.about_idle_time else "")
        for rule in RULES
        for finding in evidence.findings_of(rule.find)
    ]
    # an event of a host is in the tables of all ranks that it drives: the first rank counts
    shown = pl.Series([finding.location.event for finding in findings], dtype=pl.Int64).drop_nulls()
    known_times = stacks_of(tables_of_ranks[_EVENT_TIMES_INDEX])
    event_rows = pl.concat(rows.filter(pl.col("event").is_in(shown.implode())) for rows in known_times)
    times = {row["event"]: row for row in event_rows.reverse().iter_rows(named=True)}
    finding_rows = [
        _finding_row(finding, complete_location(finding.location, times), evidence.base_word) for finding in findings
    ]
    rows = pl.DataFrame(finding_rows, schema=empty_table(COLUMNS).schema)
    rows = rows.sort("cost", "share", descending=True, nulls_last=True, maintain_order=True)
    return make_result(ANALYSIS, rows, context, options, [*_cut_file_notes(context), *_notes(evidence, len(findings))])


def _gather_evidence(tables: Sequence[RankTables], context: RunContext, options: Options) -> Evidence:
    """The evidence in the tables of all ranks, for each place in a bundle."""
    results = {
        name: analysis.combine(tables[place], context, own_options)
        for place, (name, (analysis, own_options)) in enumerate(_source_analyses(options).items())
    }
    step_marks = context.steps.filter((pl.col("start") >= context.start) & (pl.col("end") <= context.end))["event"]
    for name in _STEP_ANALYSES if context.windowed else ():
        chosen_rows = results[name].table.filter(pl.col("event").is_in(step_marks.implode()))
        results[name] = replace(results[name], table=chosen_rows)
    working_ranks = results["breakdown"].table["rank"]
    for name in ("step_parts", "steps") if len(working_ranks) else ():  # nothing is known of a rank without work
        chosen_rows = results[name].table.filter(pl.col("rank").is_in(working_ranks.implode()))
        results[name] = replace(results[name], table=chosen_rows)
    results["whole_steps"] = step_rules.select_whole_steps(results)
    whole_steps = results["whole_steps"].table
    if whole_steps.height:
        late_rows = results["stragglers"]
        in_whole_steps = late_rows.table.filter(pl.col("step").is_in(whole_steps["step"].unique().implode()))
        results["stragglers"] = replace(late_rows, table=in_whole_steps)
    elif context.windowed:
        late_rows = results["stragglers"]
        clipped = rank_rules.clip_waits(late_rows.table, context.start, context.end)
        results["stragglers"] = replace(late_rows, table=clipped)
    lengths = (whole_steps if whole_steps.height else results["breakdown"].table.rename({"span": "duration"}))[
        "duration"
    ]
    rank_traits = pl.concat(stacks_of(tables[_TRAITS_INDEX]))
    return Evidence(
        results=results,
        rank_traits=rank_traits,
        kernel_times=tables[_KERNEL_TIMES_INDEX],
        step_factors=pl.concat(stacks_of(tables[_STEP_FACTORS_INDEX])),
        step_causes=pl.concat(stacks_of(tables[_STEP_CAUSES_INDEX])),
        collectives=_sum_collectives(pl.concat(stacks_of(tables[_COLLECTIVES_INDEX]))),
        context=context,
        steps=round(whole_steps.height / whole_steps["rank"].n_unique()) if whole_steps.height else 0,
        base_time=round((lengths if len(lengths) else rank_traits["window"]).to_numpy().mean()),
    )


def _sum_collectives(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls of all ranks by kind and size, the kind with most exposed time first.

    The fastest call of any rank is the one that waited least for the others.
    """
    sizes = calls.group_by("collective", "group_size", "message").agg(
        pl.col("count", "total", "exposed").sum(), pl.col("fastest").min()
    )
    of_kind = (pl.col(name).sum().over("collective") for name in ("exposed", "total"))
    return sizes.sort(*of_kind, "collective", "total", descending=[True, True, False, True])


def _finding_row(finding: Finding, place: FindingLocation, base: str) -> dict[str, Any]:
    return {
        "finding": finding.title,
        "cost": finding.cost,
        "share": finding.share,
        "share_of": None if finding.share is None else finding.base or base,
        "evidence": finding.evidence + ("; inferred" if finding.certainty == "inferred" else ""),
        "advice": finding.advice,
        "rank": place.rank,
        "start": place.start,
        "duration": place.duration,
        "event": place.event,
        "certainty": finding.certainty,
        "effects": "; ".join(finding.effects),
        "next": finding.command,
    }


def _notes(evidence: Evidence, found: int) -> list[Note]:
    """A note on the base of the costs, or that nothing was found, after one on ranks that are not judged."""
    held = (
        [note("idle_time_not_judged", level="missing", ranks=evidence.untrusted_ranks)]
        if evidence.untrusted_ranks
        else []
    )
    return [*held, *_base_notes(evidence, found)]


def _base_notes(evidence: Evidence, found: int) -> list[Note]:
    if evidence.table("breakdown").is_empty():
        return [note("findings_without_device_work", level="missing"), *_step_time_notes(evidence)]
    if not found:
        return [note("no_findings", rules=len(RULES))]
    if evidence.context.windowed and not evidence.steps:
        return [note("costs_of_window")]
    return _step_time_notes(evidence) or [note("costs_of_run")]


def _lost_work_clause(context: RunContext) -> str:
    """Clause that ends the evidence of idle time, naming the ranks whose file was cut short; "" where none was."""
    parts = {number for number, notes in enumerate(context.file_notes) if any(map(_reports_cut_file, notes))}
    rank_hosts = context.ranks.select("rank", "host").iter_rows()
    ranks = [rank for rank, host in rank_hosts if context.hosts[host].part in parts]
    return f"; some of it may be work that was lost: the file of {format_ranks(ranks)} was cut short" if ranks else ""


def _add_clause(finding: Finding, lost: str) -> Finding:
    return replace(finding, evidence=finding.evidence + lost)


def _cut_file_notes(context: RunContext) -> list[Note]:
    """A note on files that were cut short: to the rules, lost work looks like idle time."""
    cut_files = tuple(dict.fromkeys(each.file for each in context.notes if _reports_cut_file(each)))
    return [note("files_cut_short", level="missing", files=len(cut_files), first=cut_files[0])] if cut_files else []


def _reports_cut_file(read: Note) -> bool:
    return read.code in (GZIP_ENDS_EARLY, EVENT_CUT_OFF) or is_truncated((read,))


def _step_time_notes(evidence: Evidence) -> list[Note]:
    return [note("mean_step_time", time=evidence.base_time)] if evidence.steps else []


ANALYSIS: Final = Analysis(
    name="findings",
    title="Findings",
    question="What costs time in this run, how much, and what could be done about it?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    rests_on_recorded_work=True,
    settings=SETTINGS,
    host_computations=(
        *(question for analysis in _SOURCE_ANALYSES.values() for question in analysis.host_computations),
        HOST_CALL_COUNTS,
        HOST_COMPILATIONS,
    ),
)
