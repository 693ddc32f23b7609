"""The facts of a Kineto file: all that it says of its run beside its events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import polars as pl

from tracehound.file_facts import Claims, FileFacts, HostOnly, ProcessGroup
from tracehound.formats.json.columns import integer
from tracehound.formats.json.glance import value_of
from tracehound.formats.kineto.device_properties import device_properties
from tracehound.formats.kineto.lanes import claimed_rank
from tracehound.formats.kineto.members import Members
from tracehound.formats.kineto.tally import FOREIGN, STRANGE
from tracehound.formats.kineto.values import int64, sizes_in
from tracehound.formats.kineto.whole import Whole
from tracehound.formats.runtime_calls import CALL, LAUNCH, family
from tracehound.formats.severed import severed
from tracehound.formats.torch_names import MODULE
from tracehound.notes import Note
from tracehound.trace import Part, collected

MERGED: Final = "mergedRanks"
"""The key under which an export of several ranks' files into one lists them."""

APART: Final = "clocksApart"
"""The key under which an export of several files into one says that the clocks of their ranks are apart, in words."""

_NUMBERED: Final = ("rank", "world_size", "pg_count", "pg_size", "ranks")
"""What of a job and of its groups is a number, or a list of them, however these are spelled."""


def spelled(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says beside its events, with numbers of the job and of devices as such where they are floats or text.

    All that a file tells of a device but its name is a number.
    """
    found, job = dict(metadata), metadata.get("distributedInfo")
    if isinstance(job, Mapping):
        found["distributedInfo"] = _job(job)
    for name in ("deviceProperties", "computeProperties"):
        if isinstance(listed := metadata.get(name), list):
            found[name] = [_device(each) if isinstance(each, Mapping) else each for each in listed]
    return found


def _job(said: Mapping[str, Any]) -> dict[str, Any]:
    """A job, or a group of its ranks."""
    found = {name: sizes_in(value) if name in _NUMBERED else value for name, value in said.items()}
    if isinstance(groups := said.get("pg_config"), list):
        found["pg_config"] = [_job(each) if isinstance(each, Mapping) else each for each in groups]
    return found


def _device(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if name == "name" else sizes_in(value) for name, value in said.items()}


def facts(metadata: Mapping[str, Any], events: Whole) -> FileFacts:
    """The facts of a file, but for those that only its finished frames tell: `modules` and `host_only`."""
    said, one_run = metadata.get("distributedInfo"), not events.placed.members.marked
    job: Mapping[str, Any] = said if isinstance(said, Mapping) else {}
    return FileFacts(
        versions={name: str(metadata[name]) for name in sorted(metadata) if name.endswith("_version")},
        exported_window=events.exported_window,
        rank=claimed_rank(job) if one_run else None,
        world_size=int64(job.get("world_size")),
        backend=_text(job.get("backend")),
        groups=tuple(_groups(job)),
        machine=_text(metadata.get("host_name")) if one_run else None,
        devices=device_properties(metadata),
        span_ns=events.span_ns,
    )


def _groups(job: Mapping[str, Any]) -> Iterator[ProcessGroup]:
    """The process groups that a job lists with their members."""
    for each in _list(job.get("pg_config")):
        ranks = [int64(rank) for rank in _list(each.get("ranks"))] if isinstance(each, Mapping) else []
        known = tuple(rank for rank in ranks if rank is not None)
        if isinstance(each, Mapping) and known and len(known) == len(ranks):
            yield ProcessGroup(str(each.get("pg_name")), known)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def merged(metadata: Mapping[str, Any], whose: Members) -> tuple[Note, ...]:
    """That a file has the threads of several ranks, and whether it is known which are whose."""
    if whose.several:
        marks = tuple(whose.marks)
        return (Note("inferred", "file_of_several_ranks", len(marks), values=(("marks", marks),)),)
    if whose.marked:
        return (Note("inferred", "piece_of_merged_file", values=(("mark", whose.marks[0]),)),)
    ranks = _list(metadata.get(MERGED))
    if len(ranks) < 2:
        return ()
    return (Note("missing", "ranks_exported_into_one_file", len(ranks)),)


def clocks(metadata: Mapping[str, Any]) -> tuple[Note, ...]:
    """That the clocks of the ranks are apart, where an export said so when it put them into one file."""
    said = metadata.get(APART)
    if isinstance(said, str):  # as earlier versions wrote it
        return (Note("missing", "clocks_apart_in_export", values=(("said", said),)),)
    ranks, most = (integer(said.get(name)) for name in ("ranks", "most")) if isinstance(said, dict) else (None, None)
    if ranks is None or most is None:
        return ()
    return (Note("missing", "clocks_apart", values=(("ranks", ranks), ("most", most))),)


def calls_modules(events: pl.LazyFrame) -> bool:
    """Whether modules of a model are among the events: with with_stack=True the profiler records their calls."""
    called = (pl.col("kind") == "python") & pl.col("name").cat.starts_with(MODULE)
    return bool(collected(events.select(called.any())).item())


def host_only(made: Part) -> HostOnly:
    """The signs in a file without device work of why it has none."""
    foreign, unread = (sum(note.count for note in made.notes if note.code == code) for _, code in (FOREIGN, STRANGE))
    runtime, family = _runtime(made.scan)
    return HostOnly(runtime, family, _allocates(made.facets), foreign, unread, severed(made.notes))


def _allocates(facets: Mapping[str, pl.LazyFrame]) -> bool:
    allocated = facets.get("allocated")
    return allocated is not None and bool(collected(allocated.select((pl.col("device") >= 0).any())).item())


def _runtime(events: pl.LazyFrame) -> tuple[Literal["launches", "calls", ""], str]:
    """The most that is called of a device's runtime, and whose runtime launched."""
    called = events.filter(pl.col("kind") == "runtime").select(pl.col("name").unique().cast(pl.String))
    names = collected(called).to_series().drop_nulls().to_list()
    families = {family(name) for name in names if LAUNCH.search(name)}
    if families:
        return "launches", families.pop() if len(families) == 1 else ""
    return ("calls" if any(CALL.search(name) for name in names) else ""), ""


def claims(text: str) -> Claims:
    """The claims in some text of a file; its `devices` are the names of their models."""
    names = ("distributedInfo", "deviceProperties", "computeProperties")
    said = spelled({name: value_of(name, text) for name in names})
    distributed, listed = said["distributedInfo"], said["deviceProperties"] or said["computeProperties"]
    models = [device.get("name") for device in _list(listed) if isinstance(device, Mapping)]
    job: Mapping[str, Any] = distributed if isinstance(distributed, Mapping) else {}
    return Claims(
        rank=claimed_rank(job),
        world_size=int64(job.get("world_size")),
        backend=_text(job.get("backend")) or None,
        devices=tuple(name for name in models if isinstance(name, str) and name),
        host=_text(value_of("host_name", text)) or None,
    )


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
