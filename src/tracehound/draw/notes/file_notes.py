"""Sentences of notes on the files of a trace: their clocks and ranks, and what was repaired, dropped or inferred."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.model.notes import SentenceTemplate
from tracehound.model.units import count_noun, format_duration, format_ranges, join_some


def _placed_by_collectives(exact: int) -> str:
    return f"clock aligned by collective end times (±{format_duration(exact)}): see clocks"


def _numbered_by_names(rank: int, files: int, ranks: tuple[int, ...]) -> str:
    return f"{files} files claim rank {rank}: numbered by file name, as {format_ranges(ranks)}"


def _numbered_anew(rank: int, files: int, ranks: tuple[int, ...]) -> str:
    return f"{files} files claim rank {rank}: all but the first are renumbered, as {format_ranges(ranks)}"


def _older_recordings(opened: str, names: tuple[str, ...]) -> str:
    return f"older recordings of the same processes not opened ({join_some(names, 4)}; opened: {opened}): {_OTHER_RUN}"


def _newer_recordings(opened: str, names: tuple[str, ...]) -> str:
    return f"newer recordings of the same processes not opened ({join_some(names, 4)}; opened: {opened}): {_OTHER_RUN}"


_OTHER_RUN: Final = "--run NAME opens one"


def _runs_opened_together(runs: tuple[str, ...]) -> str:
    return (
        f"runs {join_some(runs, 6)} opened as one run: they are of different hosts and overlap in time;"
        " --run NAME opens one alone"
    )


def _ranks_not_recorded(*, from_names: bool) -> str:
    how = "file name" if from_names else "order of the file names"
    return f"the file records no rank: taken from the {how}"


def _devices_differ(models: tuple[str, ...]) -> str:
    return f"the files are of different devices ({join_some(models, 4)}), and not all name their job"


def _hardly_one_run(*, apart: bool, unlike: bool) -> str:
    devices = "their devices differ" if apart else "the files are of different devices"
    why = ["the files do not overlap in time"] * apart + [devices] * unlike
    remedy = "all numbers are of these files together; open one file, or choose with --rank"
    return f"probably not one run: {', and '.join(why)}; {remedy}"


def _clocks_apart(ranks: int, most: int) -> str:
    clocks = f"the clocks of {count_noun(ranks, 'rank')} are written as recorded"
    return f"{clocks}: they are off by up to {format_duration(most)} (from collective end times)"


def _file_of_several_ranks(marks: tuple[str, ...]) -> str:
    text = "process ids or names tell the ranks apart"
    return f"one file merged from several ranks ({join_some(marks, 4)}); {text}"


def _steps_inferred(source: str, name: str) -> str:
    how = {
        "module": f"the repeating module {name}",
        "optimizer": f"the ends of {name}",
        "graph": f"graph replays ({name})",
        "annotation": f"annotations such as {name}",
    }
    return f"no step marks: steps are inferred from {how[source]}"


def _chrome_form_of_xla(*, has_links: bool, has_ends: bool) -> str:
    lost = ["wall clock", "HLO modules", "memory", "device facts"]
    lost += [] if has_links else ["links from host to device"]
    lost += [] if has_ends else ["true ends of ops on CPUs"]
    text = f"no {', '.join(lost[:-1])}, nor {lost[-1]}"
    return f"XLA profile as trace.json: {text}; the xplane.pb has them"


def _devices_without_events(names: tuple[str, ...]) -> str:
    return f"devices without events: {join_some(names, 8)}"


def _steps_lost(steps: tuple[int, ...]) -> str:
    return f"steps whose marks were lost with damaged parts of the file: {format_ranges(steps)}"


def _several_writers(processes: tuple[str, ...]) -> str:
    return (
        f"processes that mark steps or launch work in one file ({join_some(processes, 4)}): they wrote it together, and"
        " it is read as one rank; give each rank a file of its own"
    )


def _plane_without_names(plane: str) -> str:
    what = f"plane {plane!r}" if plane else "a plane without a name"
    return f"{what} has events without names"


def _metadata_repaired(kind: str) -> str:
    return f"metadata beside the events: {SENTENCES[kind]}"


def _another_recording(*, bytes: int, exact: bool) -> str:  # noqa: A002, the value's name
    size = f"{'' if exact else 'more than '}{bytes:,} bytes"
    return f"a second recording of {size} follows in the file: split the file and open both"


SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "files_apart_in_time": "the files do not overlap in time: each is shown from its own first event",
    "placed_by_collectives": _placed_by_collectives,
    "files_at_their_starts": "--align start: each file is shown from its own first event",
    "files_without_wall_clock": "not every file has a wall clock: each is shown from its own first event",
    "memory_timeline_beside_trace": "memory timeline beside a trace not opened: open it by name",
    "older_recordings": _older_recordings,
    "newer_recordings": _newer_recordings,
    "copies_left_out": "the same events as {original}, a copy or made from it: not counted",
    "twin_json_skipped": "JSON beside the xplane of its host not read: it normally has the same events",
    "not_cached": "not cached: {why}",
    "file_not_read": "file not read: {why}",
    "path_refused": "{why}",
    "companion_file": "{why}",
    "no_events_recorded": "no events were recorded in this file, and none is lost",
    "host_without_events": "no events and no devices recorded on this host: not a rank",
    "run_opened": "run {run} opened; --run NAME opens another",
    "runs_opened_together": _runs_opened_together,
    "traces_in_subfolder": ("traces in a subfolder not read: name the subfolder, too, if they belong together"),
    "equal_files": "identical files count as separate ranks: is one a copy?",
    "rank_claimed_numbered_by_names": _numbered_by_names,
    "rank_claimed_numbered_anew": _numbered_anew,
    "ranks_not_recorded": _ranks_not_recorded,
    "devices_differ": _devices_differ,
    "devices_of_one_rank": "several devices in a file of one rank: the busiest one is taken as the rank's",
    "devices_without_rank": "several devices and no rank recorded: devices are numbered in order",
    "clocks_apart": _clocks_apart,
    "clocks_written_as_recorded": ("{clocks}; --align collectives writes them corrected"),
    "hardly_one_run": _hardly_one_run,
    "counter_samples": "counter samples, shown as graphs",
    "memory_events": "memory allocations and frees, shown as graphs of allocated memory",
    "memory_without_totals": "memory events without totals: graphs show memory allocated since the start",
    "memory_without_size": "memory events without a size, or without a device type (counted as host memory)",
    "memory_without_address": "memory events without an address",
    "memory_of_several_ranks": "memory of several ranks in one file cannot be told apart",
    "events_on_another_device": (
        "events on another device than the rank's (under 1 % of the time): shown, not counted as its work"
    ),
    "counter_without_number": "counter samples without a time or a numeric value",
    "counter_far_away": "counter samples at time 0, or more than a day from the events",
    "flow_events_skipped": "flow events skipped (links come from correlation ids)",
    "foreign_categories": (
        "events with categories unknown to PyTorch (or none), shown on host threads: from another profiler?"
    ),
    "operators_timed_on_devices": (
        "operators timed on devices by the autograd profiler: nested operators count in both, so totals count twice"
    ),
    "events_without_name": "events without a name",
    "events_without_thread": "host events without a thread, shown on a thread of their own",
    "element_without_phase": "array elements without a phase",
    "unknown_phase_pytorch": "events of a phase that PyTorch does not write",
    "event_without_time": "events without a valid time",
    "event_at_zero": "events at time 0, far from all others",
    "event_far_away": "events that last a day, or are a day from the others",
    "negative_duration": "negative durations, read as 0",
    "event_without_duration": "complete events without a duration, read as 0",
    "id_too_large": "ids of more than 63 bits, ignored",
    "event_cut_off": "event cut off at the end of the file",
    "event_not_json": "events that are not valid JSON",
    "event_too_deep": "events nested too deeply",
    "element_not_event": "array elements that are not events",
    "bytes_not_json": "bytes that are not valid JSON",
    "stray_characters": "stray characters between events",
    "name_not_text": "names that are not text",
    "args_not_object": "args that are not an object, ignored",
    "time_as_text": "times stored as text, read as numbers",
    "comma_missing": "missing commas between events",
    "commas_repeated": "repeated commas between events",
    "size_out_of_range": "sizes below 0 or above 16 TiB, read as unknown",
    "correlation_ids_repeated": "correlation ids used by several calls: the latest call before the work is taken",
    "device_events_doubled": (
        "device events that occur twice and count twice: the file may hold the same recording twice"
    ),
    "kernel_ends_cut": (
        "kernels or copies with impossible ends, each containing later kernels of its stream: cut at the next start on"
        " the stream (details show the recorded duration)"
    ),
    "step_numbers_repeated": "steps that repeat an earlier number, renumbered",
    "events_without_end": "the array of events has no end",
    "file_ends_early": "the file ends early; everything before the end was kept",
    "source_ends_early": "exported from a file that ends within its events; missing data may be in the lost part",
    "value_not_json": "values that are not valid JSON (NaN, Infinity, N/A), read as null",
    "control_character": "control characters in strings",
    "bytes_not_utf8": "bytes that are not UTF-8",
    "lone_surrogate": "incomplete characters (lone surrogates) in strings",
    "stray_backslash": "stray backslashes",
    "unescaped_quote": "unescaped quotes in strings",
    "trailing_comma": "trailing commas",
    "file_of_several_ranks": _file_of_several_ranks,
    "piece_of_merged_file": "part of a file merged from several ranks: {mark}",
    "ranks_exported_into_one_file": (
        "several ranks exported into one file count as one host: export to a folder to keep hosts apart"
    ),
    "clocks_apart_in_export": "{said}",
    "clock_impossible": "implausible clock, not used",
    "job_impossible": "implausible fact of the job, not used",
    "rows_far_away": "rows more than a day from the others",
    "memory_timeline_ends_early": "the memory timeline ends early",
    "rows_not_numbers": "rows that are not four whole numbers",
    "rows_too_large": "rows of more than 16 TiB",
    "memory_timeline_of_one_rank": (
        "a memory timeline does not name its device (the device of export_memory_timeline): taken for one rank"
    ),
    "exported_window": (
        "exported window of a recording: events outside of it are missing, and steps that cross its edges are partial"
    ),
    "steps_inferred": _steps_inferred,
    "annotations_not_steps": "annotations on other threads with the names of steps, not counted as steps",
    "gzip_damaged": "gzip {what}; {inflated:,} inflated bytes before it were kept",
    "counter_sample_impossible": "counter samples without a valid time or a numeric value",
    "unknown_phase_xla": "events of a phase that XLA does not write",
    "event_time_impossible": "events without a valid time",
    "writer_limit_reached": ("exactly {events:,} events, the writer's limit: later events are missing"),
    "chrome_form_of_xla": _chrome_form_of_xla,
    "planes_doubled": "planes that occur twice, byte for byte, read once",
    "events_without_time": "events that only count occurrences and have no time",
    "hosts_without_device": "hosts without a device in their files: shown as hosts, they are no ranks",
    "steps_lost": _steps_lost,
    "several_writers": _several_writers,
    "edge_alone": "begins of events without an end, or ends without a begin",
    "written_by": "written by {writer}, whose rows are read as those of PyTorch's profiler",
    "events_damaged": "damaged events",
    "device_events_unnamed": (
        "device events whose names were lost with a damaged part of the file: on lanes named 'Beside ...', in no table"
    ),
    "hlo_proto_damaged": "damaged HLO proto: its program is shown as far as it can be read",
    "profiler_error": "the profiler reports an error: {text}",
    "profiler_warning": "the profiler warns: {text}",
    "devices_without_events": _devices_without_events,
    "message_damaged": "{message} is damaged from here on ({error}); the rest of it was left out",
    "plane_without_event_names": _plane_without_names,
    "event_length_damaged": ("damaged event length: some stats of events are shown as events"),
    "events_without_bracket": "the file begins with an event and not with a list (one event a line): read as a list",
    "events_not_named": "the array of events has no name",
    "first_byte_damaged": "the first byte of the file is damaged",
    "events_end_early": "the array of events seems to end here, but events of it follow: they were kept",
    "events_behind_end": "events behind one of many early ends of the array: not read",
    "events_of_another_recording": ("events behind the end of this recording, which belong to another one: not read"),
    "bytes_behind_events": "bytes after the array of events that are not valid JSON",
    "zeros_at_end": "zeros at the end of the file, ignored",
    "metadata_not_json": "metadata that is not valid JSON",
    "event_in_second_array": "events in a second array of that name",
    "metadata_repaired": _metadata_repaired,
    "another_recording_behind": _another_recording,
    "gzip_ends_early": "gzip ends early; {inflated:,} inflated bytes before it were kept",
}

WARNINGS: Final = frozenset(
    {
        "devices_differ",
        "files_apart_in_time",
        "files_without_wall_clock",
        "hardly_one_run",
        "clocks_apart",
        "clocks_apart_in_export",
        "equal_files",
        "older_recordings",
        "newer_recordings",
        "runs_opened_together",
        "file_ends_early",
        "source_ends_early",
        "events_without_end",
        "gzip_ends_early",
        "writer_limit_reached",
        "clock_impossible",
    }
)
"""Codes of notes on lost or doubtful data, whatever their level."""
