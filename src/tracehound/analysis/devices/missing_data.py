"""Notes about data that the files lack: devices, device work, steps, annotations, and how to record them.

Finds launches whose device work was not recorded: `unrecorded_launches` counts them for a rank trace. Also finds ranks
that are several devices which their file does not tell apart (PyTorch/XLA on CPUs, SPMD).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, get_args

import polars as pl
from msgspec import Struct

from tracehound.analysis.hosts.launch_calls import HOST_LAUNCHES
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import Analysis, Column, Options, Result, concat_tables, make_result
from tracehound.model.file_facts import FileFacts, NoDeviceWork
from tracehound.model.notes import PROFILER_ERROR, PROFILER_WARNING, Level, Note, note
from tracehound.model.trace import Profiler, collect_frame
from tracehound.model.units import format_instant


def no_steps_note(context: RunContext) -> Note:
    """A note that there are no steps, and how to mark them; or that none is marked in the window."""
    if context.windowed and context.steps.height:
        return note("no_steps_in_window")
    return note("no_steps_marked", profilers=_profiler_names(context))


def no_annotations_note(context: RunContext) -> Note:
    """A note that there are no annotations, and how to make them."""
    return nothing_recorded_note(
        context, note("no_annotations"), note("annotate_source", profilers=_profiler_names(context))
    )


def _profiler_names(context: RunContext) -> tuple[str, ...]:
    """The profilers that recorded the files; all profilers if there is no file."""
    return tuple(sorted(context.profilers or get_args(Profiler)))


def nothing_recorded_note(context: RunContext, what: Note, remedy: Note) -> Note:
    """A note that nothing of a kind is recorded, and how to record it; in a window perhaps only the window has none."""
    return note("nothing_recorded", what=what, remedy=remedy, windowed=context.windowed)


def no_device_activity_reason(facts: Iterable[FileFacts]) -> Note | None:
    """The reason why PyTorch's files have no device activity, if all end early or some show that it was requested.

    Else None.
    """
    known = _host_only_facts(facts)
    if known and all(each.severed for each in known):
        return note("file_ends_within_events")
    launching = {each.family for each in known if each.runtime == "launches"}
    if launching:
        return note("launches_without_device_work", family=launching.pop() if len(launching) == 1 else "")
    return note("calls_without_launches") if any(each.runtime == "calls" for each in known) else None


def _host_only_facts(facts: Iterable[FileFacts]) -> list[NoDeviceWork]:
    return [each.host_only for each in facts if each.host_only is not None]


def no_device_activity_remedy(context: RunContext) -> Note:
    """A note on how to record device activity in PyTorch, or the reason why it was not recorded."""
    return no_device_activity_reason(context.facts) or _record_devices_note(context, context.facts, ("PyTorch",))


def _record_devices_note(context: RunContext, facts: Iterable[FileFacts], profilers: tuple[str, ...]) -> Note:
    """A note on how to record devices, and the events of these files that may be of a device.

    PyTorch lists the devices that a process sees (`listed`), and records their memory (`allocated` has their types).
    """
    found = _host_only_facts(facts)
    return note(
        "record_devices",
        profilers=profilers,
        foreign=sum(each.foreign for each in found),
        unread=sum(each.unread for each in found),
        allocated=tuple(sorted({device for each in found for device in each.allocates})),
        listed=not context.is_pytorch or any(each.devices for each in context.facts),
    )


def ranks_without_activity_notes(context: RunContext, ranks: Collection[int]) -> list[Note]:
    """Notes about ranks without device activity; none without such ranks."""
    if not ranks:
        return []
    hosts = context.ranks.filter(context.ranks["rank"].is_in(list(ranks)))["host"].unique().to_list()
    facts = [context.facts[context.hosts[host].part] for host in hosts]
    reason = no_device_activity_reason(facts)
    if reason is None and context.is_xla and _are_cpus(context, ranks):
        reason = note("no_xla_work_on_cpu")
    reason = reason or _record_devices_note(context, facts, _profiler_names(context))
    return [note("no_device_activity_on_ranks", ranks=tuple(ranks), why=reason)]


def _are_cpus(context: RunContext, ranks: Collection[int]) -> bool:
    """True if the files name no other device than a CPU for these ranks, and have no device that may be theirs."""
    labels = context.ranks.filter(pl.col("rank").is_in(list(ranks)))["label"]
    on_cpu = bool(labels.str.starts_with("CPU").fill_null(value=True).all())
    return on_cpu and not any(map(_count_device_planes, context.facts))


_DEVICE_PLANE: Final = re.compile(r"/device:(?!CPU:|CUSTOM:)\w+:\d+")


class MissingDevices(NamedTuple):
    """A program that runs on `devices` devices, of which `here` were recorded."""

    program: str
    devices: int
    here: int

    @property
    def note(self) -> Note:
        """The note that these devices are missing."""
        values = (("program", self.program), ("devices", self.devices), ("here", self.here))
        return Note("missing", "devices_missing", self.devices - self.here, values=values)


def missing_devices(context: RunContext) -> MissingDevices | None:
    """The program that runs on most devices, if these are more than were recorded; else None.

    A device that was recorded and did nothing counts as recorded. If all CPU devices of a process are drawn as one,
    their number is unknown.
    """
    programs = [(one.devices, one.name) for facts in context.facts for one in facts.programs]
    devices, program = max(programs, default=(0, ""))
    here = max(context.ranks.height, sum(map(_count_device_planes, context.facts)))
    one_cpu = here == 1 and context.ranks["label"].str.starts_with("CPU").any()
    return MissingDevices(program, devices, here) if devices > here > 0 and not one_cpu else None


def _count_device_planes(facts: FileFacts) -> int:
    """The number of devices that a profile has planes of."""
    return sum(_DEVICE_PLANE.fullmatch(name) is not None for name in facts.planes)


def count_concurrent_executions(rank_trace: RankTrace) -> int:
    """The number of executions of HLO ops that begin while the same op runs on the same lane.

    One device never does that. Devices with a clock of their own (TPU) have lanes of their own, and are not examined.
    """
    if "ops" not in rank_trace.lanes["role"].to_list():
        return 0
    lanes = rank_trace.lanes.filter(pl.col("work") & pl.col("rank").is_not_null() & (pl.col("role") == "ops"))
    if lanes.is_empty():
        return 0
    here = pl.col("lane").is_in(lanes["lane"].to_list())
    known = rank_trace.device.filter(here & pl.col("op").is_not_null() & pl.col("device_start").is_null())
    rows = collect_frame(known.select("lane", "op", "start", "end").sort("lane", "op", "start"))
    reach = pl.col("end").cum_max().shift(1).over("lane", "op")
    return int(rows.select((pl.col("start") < reach).sum()).item())


def merged_devices_notes(rows: pl.DataFrame, measured: str) -> list[Note]:
    """A note that names the ranks that are several devices; none: [].

    `rows` have rank and `beside`, from `count_concurrent_executions`. `measured` names the quantity that counts there
    the communication of one device during the computation of another.
    """
    ranks = rows.filter(pl.col("beside") > 0)["rank"].unique().sort().to_list()
    if not ranks:
        return []
    return [note("ranks_of_several_devices", level="missing", ranks=tuple(ranks), measured=measured)]


class UnrecordedLaunches(Struct, frozen=True):
    """Launches of a rank in its window whose device work was not recorded.

    `launches` counts the calls that put work on the device (kernels, graphs, copies), `missing` those of them without
    any recorded work. `captured` counts calls that went into a graph, which have no work of their own: they are not
    among the launches. `shared` counts device events with the correlation id of another event's call, so that their own
    is not known. `first` is the start of the first call whose work is missing (ps), `step` its step; None without one.
    """

    launches: int = 0
    missing: int = 0
    captured: int = 0
    shared: int = 0
    first: int | None = None
    step: int | None = None

    @property
    def share(self) -> float:
        """The fraction of the launches whose work is missing."""
        return self.missing / self.launches if self.launches else 0.0

    @property
    def is_notable(self) -> bool:
        """True if so much work is missing that idle time cannot be trusted."""
        return self.share > NOTABLE_MISSING_SHARE


NOTABLE_MISSING_SHARE: Final = 0.05
"""With a larger fraction of missing work, tables that rest on idle time have a note; usual files have none missing."""

_WARNING_SHARE: Final = 0.01
"""A smaller fraction is no warning in `health`."""


def unrecorded_launches(rank_trace: RankTrace) -> UnrecordedLaunches:
    """Count the launches of a rank whose device work was not recorded, among the calls that begin in its window.

    Costs next to nothing where every launch of the file has work, which the file's facts say; else one pass over the
    names of the host's events and the launches of the device's.
    """
    calls = _launches_in_window(rank_trace)
    missing = calls.filter("missing")
    captured = int(calls["captured"].sum())
    first, step = missing.select("start", "step").row(0) if missing.height else (None, None)
    return UnrecordedLaunches(
        calls.height - captured, missing.height, captured, int(calls["further"].sum()), first, step
    )


def unrecorded_launches_per_step(rank_trace: RankTrace) -> pl.DataFrame:
    """Launches and missing ones for each step: step, launches, missing; no rows where every launch has work.

    Counted as by `unrecorded_launches`. The step is that of the call; null for calls in no step.
    """
    calls = _launches_in_window(rank_trace).filter(~pl.col("captured"))
    return calls.group_by("step").agg(pl.len().cast(pl.Int64).alias("launches"), pl.col("missing").sum()).sort("step")


def _launches_in_window(rank_trace: RankTrace) -> pl.DataFrame:
    """The launches of the rank in its window, sorted by start: start, step, missing, captured."""
    calls = HOST_LAUNCHES.result_for(rank_trace)
    if not rank_trace.windowed:
        return calls
    return calls.filter((pl.col("start") >= rank_trace.start) & (pl.col("start") < rank_trace.end))


def count_launches(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """One row: the rank, and its `UnrecordedLaunches`."""
    del options
    counts = unrecorded_launches(rank_trace)
    return pl.DataFrame(
        [[rank_trace.rank, counts.launches, counts.missing, counts.captured, counts.shared, counts.first, counts.step]],
        {column.name: pl.Int64() for column in LAUNCH_COUNTS.columns},
        orient="row",
    )


def _combine_counts(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    return make_result(LAUNCH_COUNTS, concat_tables(tables), context, options)


LAUNCH_COUNTS: Final = Analysis(
    name="launch_counts",
    title="Launch counts",
    question="How many launches have no recorded device work?",
    definition="The numbers of `UnrecordedLaunches`, for each rank.",
    columns=(
        Column("rank", "count", "rank"),
        Column("launches", "count", "calls that put work on the device"),
        Column("missing", "count", "calls without recorded work"),
        Column("captured", "count", "calls that went into a graph"),
        Column("shared", "count", "device events with the id of another event's call"),
        Column("first", "instant", "start of the first call without work"),
        Column("step", "count", "its step"),
    ),
    per_rank=count_launches,
    combine=_combine_counts,
)
"""Counts launches beside the analyses that rest on their work; it is not offered by itself."""


LAUNCHES_WITHOUT_WORK: Final = "launches_without_work"
"""The code of the note of `health` on launches whose device work was not recorded."""


def unrecorded_work_notes(tables: Sequence[pl.DataFrame], context: RunContext) -> list[Note]:
    """Notes that idle time may be work that was not recorded; none: [].

    On ranks with many launches without work, or since the profiler says that it dropped events. `tables` are those of
    `LAUNCH_COUNTS`.
    """
    dropped = dict[str, int]()  # a file may say it twice
    for each in context.notes:
        if each.code in (PROFILER_ERROR, PROFILER_WARNING) and each.count > 1:
            dropped.setdefault(each.file, each.count)
    notes = [note("profiler_dropped_events", level="missing", events=sum(dropped.values()))] if dropped else []
    counts = concat_tables(tables)
    if counts.is_empty():
        return notes
    notable = counts.filter(pl.col("missing") > NOTABLE_MISSING_SHARE * pl.col("launches"))
    return [*([_missing_work_note("launched_work_missing", notable)] if notable.height else []), *notes]


def missing_work_notes(tables: Sequence[pl.DataFrame]) -> list[Note]:
    """Notes for `health`: launches whose device work was not recorded, and launches captured into graphs."""
    counts = concat_tables(tables)
    if counts.is_empty():
        return []
    notes, lost = list[Note](), counts.filter(pl.col("missing") > 0)
    if lost.height:
        is_warning = bool((lost["missing"] > _WARNING_SHARE * lost["launches"]).any())
        notes.append(_missing_work_note(LAUNCHES_WITHOUT_WORK, lost, "missing" if is_warning else "info"))
    if shared := int(counts["shared"].sum()):
        notes.append(Note("missing", "launch_ids_shared", shared))
    if captured := int(counts["captured"].sum()):
        notes.append(Note("info", "launches_captured", captured))
    return notes


def _missing_work_note(code: str, counts: pl.DataFrame, level: Level = "missing") -> Note:
    """A note with the numbers of these ranks and the first call without work: its rank, step and start."""
    first = counts.sort("first").row(0, named=True)
    missing, launches = int(counts["missing"].sum()), int(counts["launches"].sum())
    values = {
        "missing": missing,
        "launches": launches,
        "ranks": tuple(counts["rank"].unique().sort().to_list()),
        "rank": first["rank"],
        "step": first["step"],
        "at": first["first"],
    }
    step = "" if first["step"] is None else f" in step {first['step']}"
    where = f"first{step} on rank {first['rank']}, at {format_instant(first['first'])}"
    return Note(level, code, missing, where=where, values=tuple(values.items()))
