"""Notes about data that the files lack: devices, device work, steps, annotations, and how to record them.

Also finds ranks that are several devices which their file does not tell apart (PyTorch/XLA on CPUs, SPMD).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple, get_args

import polars as pl

from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.model.file_facts import FileFacts, NoDeviceWork
from tracehound.model.notes import Note, note
from tracehound.model.trace import Profiler, collect_frame


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
    """The reason why PyTorch's files have no device activity, if they end early or show that it was requested.

    Else None.
    """
    known = _host_only_facts(facts)
    if any(each.severed for each in known):
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

    PyTorch lists the devices that a process sees (`listed`), and records their memory (`allocated`).
    """
    found = _host_only_facts(facts)
    return note(
        "record_devices",
        profilers=profilers,
        foreign=sum(each.foreign for each in found),
        unread=sum(each.unread for each in found),
        allocated=any(each.allocates for each in found),
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


_DEVICE_PLANE: Final = re.compile(r"/device:(?:TPU|GPU):\d+")


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
