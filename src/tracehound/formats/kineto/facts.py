"""What a Kineto file says of the run beside its events.

Owns the names under which the rest of the program finds these facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from tracehound.formats.json.columns import integer
from tracehound.formats.json.glance import value_of
from tracehound.formats.kineto.lanes import claimed_rank
from tracehound.formats.kineto.members import Members
from tracehound.formats.kineto.tally import FOREIGN, STRANGE
from tracehound.formats.kineto.values import sizes_in
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

_OPTIONS: Final = ("record_shapes", "with_stack", "profile_memory", "with_flops", "with_modules")
_LEVELS: Final = ("ERROR", "WARNING", "INFO")


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


def facts(metadata: Mapping[str, Any], span_ns: tuple[int, int] | None, whose: Members) -> dict[str, Any]:
    """The facts of a file; a key is missing where the file says nothing, or (merged of several) says it of one alone.

    `rank` is the one that the file claims, `world_size` and `backend` are those of the job, `distributed` and `devices`
    what the file has of it and of its devices, `options` the profiler's, `versions` those of drivers and libraries,
    `span_ns` start (wall clock, or the file's own) and length of the profiler's span in ns, `log` the profiler's own
    warnings.
    """
    distributed = metadata.get("distributedInfo")
    if whose.marked and isinstance(distributed, Mapping):
        distributed = {name: value for name, value in distributed.items() if name != "rank"}
    found: dict[str, Any] = {
        "options": {name: bool(metadata[name]) for name in _OPTIONS if name in metadata},
        "versions": {name: metadata[name] for name in sorted(metadata) if name.endswith("_version")},
        "devices": metadata.get("deviceProperties", metadata.get("computeProperties")),
        "distributed": distributed,
        "span_ns": span_ns,
        "log": _log(metadata),
    }
    if isinstance(distributed, Mapping):
        found["rank"] = claimed_rank(distributed)
        found["world_size"] = distributed.get("world_size")
        found["backend"] = distributed.get("backend")
    of_run = ("Framework",) if whose.marked else ("host_name", "trace_id", "Framework")
    found.update({name: metadata[name] for name in of_run if name in metadata})
    return {name: value for name, value in found.items() if value not in (None, {}, [])}


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


def unrecorded(made: Part) -> dict[str, Any]:
    """What a file without work of devices tells of why.

    `runtime` says what calls of a device's runtime there are: "launches", else "calls" that launch nothing, else "";
    `family` whose launches these are (`runtime_calls.family`; empty for others and for several); `allocates` whether
    memory of a device was allocated, `foreign` how many events may be another profiler's, `unread` how many have phases
    that PyTorch does not write, `severed` whether the file ends within its events, or was exported from one that does.
    """
    counts = {
        name: sum(note.count for note in made.notes if note.code == code)
        for name, (_, code) in {"foreign": FOREIGN, "unread": STRANGE}.items()
    }
    return {**_runtime(made.scan), "allocates": _allocates(made.facets), **counts, "severed": severed(made.notes)}


def _allocates(facets: Mapping[str, pl.LazyFrame]) -> bool:
    allocated = facets.get("allocated")
    return allocated is not None and bool(collected(allocated.select((pl.col("device") >= 0).any())).item())


def _runtime(events: pl.LazyFrame) -> dict[str, str]:
    called = events.filter(pl.col("kind") == "runtime").select(pl.col("name").unique().cast(pl.String))
    names = collected(called).to_series().drop_nulls().to_list()
    families = {family(name) for name in names if LAUNCH.search(name)}
    if families:
        return {"runtime": "launches", "family": families.pop() if len(families) == 1 else ""}
    return {"runtime": "calls" if any(CALL.search(name) for name in names) else ""}


def claims(text: str) -> dict[str, Any]:
    """What some text of a file claims: `rank`, `world_size`, `backend`, `devices` (names) and `host`, where it does."""
    names = ("distributedInfo", "deviceProperties", "computeProperties")
    said = spelled({name: value_of(name, text) for name in names})
    distributed, listed = said["distributedInfo"], said["deviceProperties"] or said["computeProperties"]
    models = [device.get("name") for device in _list(listed) if isinstance(device, Mapping)]
    of_job = distributed if isinstance(distributed, Mapping) else {}
    world, backend, host = of_job.get("world_size"), of_job.get("backend"), value_of("host_name", text)
    found: dict[str, Any] = {
        "rank": claimed_rank(distributed),
        "world_size": world if isinstance(world, int) else None,
        "backend": backend if isinstance(backend, str) else None,
        "devices": [name for name in models if isinstance(name, str) and name],
        "host": host if isinstance(host, str) else None,
    }
    return {name: value for name, value in found.items() if value not in (None, [], "")}


def _log(metadata: Mapping[str, Any]) -> list[str]:
    """Lines of the profiler's log that speak of trouble: errors, warnings, and what was dropped."""
    lines = [(level, str(line)) for level in _LEVELS for line in _list(metadata.get(level))]
    return [line for level, line in lines if level != "INFO" or "drop" in line.lower()]


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
