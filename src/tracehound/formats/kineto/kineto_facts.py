"""Facts of a Kineto file: everything that it records of its run besides events."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Literal

import polars as pl

from tracehound.formats.json.array_repair import TIME_AS_TEXT
from tracehound.formats.json.json_document import encode_json, find_value
from tracehound.formats.json.value_columns import parse_count, parse_integer
from tracehound.formats.kineto.arg_values import convert_to_integers, recorded_int64
from tracehound.formats.kineto.first_events import peek_events
from tracehound.formats.kineto.kineto_lanes import recorded_rank
from tracehound.formats.kineto.merged_segments import BASE_TIME_KEY, MergedSegments
from tracehound.formats.kineto.note_counts import FOREIGN_CATEGORIES, UNKNOWN_PHASE
from tracehound.formats.kineto.process_ids import MergedRuns
from tracehound.formats.runtime_names import LAUNCH_CALL, RUNTIME_CALL, runtime_family
from tracehound.formats.torch_names import MODULE_PREFIX
from tracehound.model.file_facts import DeviceProperties, FileFacts, NoDeviceWork, PeekedFacts, ProcessGroup
from tracehound.model.memory_devices import memory_device_name
from tracehound.model.notes import (
    PROFILER_ERROR,
    PROFILER_WARNING,
    Note,
    is_truncated,
    profiler_message_note,
)
from tracehound.model.trace import FileFrames, collect_frame

MERGED_RANKS_KEY: Final = "mergedRanks"
"""Key under which an export of several ranks' files into one lists the ranks."""

CLOCKS_APART_KEY: Final = "clocksApart"
"""Key under which an export of several files into one records that the clocks of their ranks differ."""

_NUMERIC_KEYS: Final = ("rank", "world_size", "pg_count", "pg_size", "ranks")
"""Keys of a job and of its process groups whose values are numbers or lists of numbers, however they are written."""


def normalize_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a file, with numbers of the job and of devices that are floats or text converted to int.

    Every property of a device except its name is a number.
    """
    found, job = dict(metadata), metadata.get("distributedInfo")
    if isinstance(job, Mapping):
        found["distributedInfo"] = _normalize_job(job)
    for name in ("deviceProperties", "computeProperties"):
        if isinstance(listed := metadata.get(name), list):
            found[name] = [_normalize_device(each) if isinstance(each, Mapping) else each for each in listed]
    return found


def _normalize_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """A job or a process group with its numbers as ints."""
    normalized = {name: convert_to_integers(value) if name in _NUMERIC_KEYS else value for name, value in job.items()}
    if isinstance(groups := job.get("pg_config"), list):
        normalized["pg_config"] = [_normalize_job(each) if isinstance(each, Mapping) else each for each in groups]
    return normalized


def _normalize_device(device: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if name == "name" else convert_to_integers(value) for name, value in device.items()}


def collect_file_facts(metadata: Mapping[str, Any], events: MergedSegments) -> FileFacts:
    """Facts of a file, except for `modules` and `host_only`, which need its finished frames."""
    recorded_job, is_single_run = metadata.get("distributedInfo"), not events.file_lanes.runs.is_merged
    job: Mapping[str, Any] = recorded_job if isinstance(recorded_job, Mapping) else {}
    return FileFacts(
        versions={name: str(metadata[name]) for name in sorted(metadata) if name.endswith("_version")},
        exported_window=events.exported_window,
        rank=recorded_rank(job) if is_single_run else None,
        world_size=_recorded_world_size(job),
        backend=_text_or_none(job.get("backend")),
        groups=tuple(_process_groups(job)),
        machine=_text_or_none(metadata.get("host_name")) if is_single_run else None,
        processes=events.file_lanes.processes,
        devices=read_device_properties(metadata),
        span_ns=events.span_ns,
    )


def job_notes(metadata: Mapping[str, Any]) -> tuple[Note, ...]:
    """Notes of the rank and the number of ranks that a file records and that cannot be true."""
    if (job := metadata.get("distributedInfo")) is None:
        return ()
    if not isinstance(job, Mapping):
        return (Note("dropped", "job_impossible", where="distributedInfo"),)
    usable = {"rank": recorded_rank(job), "world_size": _recorded_world_size(job)}
    wrong = [name for name, value in usable.items() if value is None and job.get(name) is not None]
    return tuple(Note("dropped", "job_impossible", where=f"distributedInfo.{name}") for name in wrong)


def _recorded_world_size(job: Mapping[str, Any]) -> int | None:
    """Number of ranks in the ``distributedInfo`` of a file; None if it has none that can be true."""
    world, rank = recorded_int64(job.get("world_size")), recorded_rank(job)
    least = 1 if rank is None else rank + 1
    return world if world is not None and least <= world <= MAX_WORLD_SIZE else None


def _process_groups(job: Mapping[str, Any]) -> Iterator[ProcessGroup]:
    """Process groups that a job lists with their members."""
    for each in _list_or_empty(job.get("pg_config")):
        ranks = (
            [recorded_int64(rank) for rank in _list_or_empty(each.get("ranks"))] if isinstance(each, Mapping) else []
        )
        known = tuple(rank for rank in ranks if rank is not None)
        if isinstance(each, Mapping) and known and len(known) == len(ranks):
            yield ProcessGroup(str(each.get("pg_name")), known)


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def merged_file_notes(metadata: Mapping[str, Any], runs: MergedRuns) -> tuple[Note, ...]:
    """Note that a file has the threads of several ranks, and whether the rank of each thread is known."""
    if runs.has_several_runs:
        marks = tuple(runs.marks)
        return (Note("inferred", "file_of_several_ranks", len(marks), values=(("marks", marks),)),)
    if runs.is_merged:
        return (Note("inferred", "piece_of_merged_file", values=(("mark", runs.marks[0]),)),)
    ranks = _list_or_empty(metadata.get(MERGED_RANKS_KEY))
    if len(ranks) < 2:
        return ()
    return (Note("missing", "ranks_exported_into_one_file", len(ranks)),)


def clock_notes(metadata: Mapping[str, Any]) -> tuple[Note, ...]:
    """Note that the clocks of the ranks differ, if the export that merged their files recorded it."""
    recorded = metadata.get(CLOCKS_APART_KEY)
    if isinstance(recorded, str):  # as earlier versions wrote it
        return (Note("missing", "clocks_apart_in_export", values=(("said", recorded),)),)
    ranks, most = (
        (parse_integer(recorded.get(name)) for name in ("ranks", "most"))
        if isinstance(recorded, dict)
        else (None, None)
    )
    if ranks is None or most is None:
        return ()
    return (Note("missing", "clocks_apart", values=(("ranks", ranks), ("most", most))),)


def profiler_message_notes(metadata: Mapping[str, Any]) -> tuple[Note, ...]:
    """Errors and warnings that Kineto logged while it recorded, and wrote into the file."""
    notes = []
    for key, code in (("ERROR", PROFILER_ERROR), ("WARNING", PROFILER_WARNING)):
        texts = list(dict.fromkeys(each for each in _list_or_empty(metadata.get(key)) if isinstance(each, str)))
        shown, more = texts[:_MAX_MESSAGES], len(texts) - _MAX_MESSAGES
        notes += [profiler_message_note(code, text) for text in (*shown, *([f"{more:,} more"] if more > 0 else []))]
    return tuple(notes)


MAX_WORLD_SIZE: Final = 1_000_000
"""A larger number of ranks is an error in the file."""

_MAX_MESSAGES: Final = 16


def has_module_calls(events: pl.LazyFrame) -> bool:
    """True if calls of modules of a model are among the events: with with_stack=True the profiler records them."""
    frames = collect_frame(events.filter(pl.col("kind") == "python").select(pl.col("name").unique())).to_series()
    return bool(frames.cast(pl.String).str.starts_with(MODULE_PREFIX).any())


def lost_step_notes(frames: FileFrames) -> list[Note]:
    """A note of the steps that are missing between others in a damaged file."""
    if not any(_is_damage(note) for note in frames.notes):
        return []
    marked = frames.steps.filter(~pl.col("inferred"))["step"].unique().sort().to_list()
    if not marked or marked[-1] - marked[0] > _MAX_LOST_STEPS:
        return []
    lost = tuple(sorted(set(range(marked[0], marked[-1])) - set(marked)))
    return [Note("missing", "steps_lost", len(lost), values=(("steps", lost),))] if lost else []


def _is_damage(note: Note) -> bool:
    """True for a note of damaged bytes, in which marks of steps may have been lost."""
    return note.level in ("dropped", "repaired") and note.where.startswith("byte ") and note.code != TIME_AS_TEXT


_MAX_LOST_STEPS: Final = 10_000


def collect_host_only_signs(frames: FileFrames, kinds: Collection[str]) -> NoDeviceWork:
    """Signs of why a file has no device work; its events are of some of these kinds."""
    foreign_events, unknown_phases = (
        sum(note.count for note in frames.notes if note.code == code) for _, code in (FOREIGN_CATEGORIES, UNKNOWN_PHASE)
    )
    runtime, family = _runtime_use(frames.scan) if "runtime" in kinds else ("", "")
    return NoDeviceWork(
        runtime,
        family,
        _types_of_allocating_devices(frames.facets),
        foreign_events,
        unknown_phases,
        is_truncated(frames.notes),
    )


def _types_of_allocating_devices(facets: Mapping[str, pl.LazyFrame]) -> tuple[str, ...]:
    """The types of the devices whose memory was allocated, as their names begin: ``GPU``, ``MPS``."""
    if (allocated := facets.get("allocated")) is None:
        return ()
    types = memory_device_name(pl.col("device")).str.extract(r"^(\S+)").unique().sort()
    return tuple(collect_frame(allocated.filter(pl.col("device") >= 0).select(types)).to_series())


def _runtime_use(events: pl.LazyFrame) -> tuple[Literal["launches", "calls", ""], str]:
    """Use of a device runtime (launches, other calls, or none), and the runtime's family if only one launched."""
    calls = events.filter(pl.col("kind") == "runtime").select(pl.col("name").unique().cast(pl.String))
    names = collect_frame(calls).to_series().drop_nulls().to_list()
    families = {runtime_family(name) for name in names if LAUNCH_CALL.search(name)}
    if families:
        return "launches", families.pop() if len(families) == 1 else ""
    return ("calls" if any(RUNTIME_CALL.search(name) for name in names) else ""), ""


def claims_in_text(text: str, *, complete: bool = False) -> PeekedFacts:
    """Claims in some text of a file, `complete` if it has the end; its `devices` are the names of their models."""
    names = ("distributedInfo", "deviceProperties", "computeProperties")
    metadata = normalize_metadata({name: find_value(name, text) for name in names})
    recorded_job, devices = metadata["distributedInfo"], metadata["deviceProperties"] or metadata["computeProperties"]
    models = [device.get("name") for device in _list_or_empty(devices) if isinstance(device, Mapping)]
    job: Mapping[str, Any] = recorded_job if isinstance(recorded_job, Mapping) else {}
    base_ns = max(parse_count(find_value(BASE_TIME_KEY, text)), 0)
    events = peek_events(text, base_ns, complete=complete)
    return PeekedFacts(
        rank=recorded_rank(job) if not events.merged else None,
        world_size=_recorded_world_size(job),
        backend=_text_or_none(job.get("backend")) or None,
        devices=tuple(name for name in models if isinstance(name, str) and name),
        host=_text_or_none(find_value("host_name", text)) or None,
        process=events.process,
        merged=events.merged,
        start_ns=events.start_ns,
        end_ns=events.end_ns,
        wall=events.wall,
        first_events=events.first_events,
    )


def _list_or_empty(value: object) -> list[object]:
    return value if isinstance(value, list) else []


_MULTIPROCESSOR_KEYS: Final = ("numSms", "multiProcessorCount")
_THREAD_KEYS: Final = ("maxThreadsPerMultiprocessor", "maxThreadsPerMultiProcessor")
_MEMORY_KEYS: Final = ("totalGlobalMem",)
"""Today's keys, and those of 2021."""


def read_device_properties(metadata: Mapping[str, Any]) -> tuple[DeviceProperties, ...]:
    """GPUs that a file lists (``deviceProperties``, formerly ``computeProperties``)."""
    listed = metadata.get("deviceProperties", metadata.get("computeProperties"))
    return tuple(_read_device(each) for each in listed if isinstance(each, Mapping)) if isinstance(listed, list) else ()


def _read_device(properties: Mapping[str, Any]) -> DeviceProperties:
    return DeviceProperties(
        id=recorded_int64(properties.get("id")),
        name=str(properties.get("name", "")),
        multiprocessors=_first_size(properties, _MULTIPROCESSOR_KEYS),
        threads=_first_size(properties, _THREAD_KEYS),
        memory=_first_size(properties, _MEMORY_KEYS),
        compute_major=recorded_int64(properties.get("computeMajor")) or 0,
        warp_size=recorded_int64(properties.get("warpSize")) or 0,
        recorded=encode_json(properties).decode(),
    )


def _first_size(properties: Mapping[str, Any], names: tuple[str, ...]) -> int:
    """Value of the first of these keys that is present; 0 if it is not a valid size."""
    value = recorded_int64(next((properties[name] for name in names if name in properties), None))
    return value if value is not None and 0 < value < 1 << 62 else 0
