"""Sentences of notes on the files of a trace: their clocks and ranks, and what was repaired, dropped or inferred."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.draw.notes.sentence_template import SentenceTemplate
from tracehound.model.units import count_noun, format_duration, format_ranges, join_some


def _placed_by_collectives(exact: int) -> str:
    return f"placed by the ends of collectives, to within {format_duration(exact)}: see clocks"


def _numbered_by_names(rank: int, files: int, ranks: tuple[int, ...]) -> str:
    return f"rank {rank} is claimed by {files} files: they are numbered by their names, as {format_ranges(ranks)}"


def _numbered_anew(rank: int, files: int, ranks: tuple[int, ...]) -> str:
    return f"rank {rank} is claimed by {files} files: all but the first are numbered anew, as {format_ranges(ranks)}"


def _ranks_not_recorded(*, from_names: bool) -> str:
    how = "from the file name" if from_names else "from the order of the files' names"
    return f"no rank recorded in the file: taken {how}"


def _devices_differ(models: tuple[str, ...]) -> str:
    return f"files of different devices, of which not all say that they are of one job: {join_some(models, 4)}"


def _hardly_one_run(*, apart: bool, unlike: bool) -> str:
    devices = "their devices differ" if apart else "files of different devices"
    why = ["the files do not overlap in time"] * apart + [devices] * unlike
    remedy = "all that is told is of them together: name one file, or choose with --rank"
    return f"hardly one run: {', and '.join(why)}; {remedy}"


def _clocks_apart(ranks: int, most: int) -> str:
    clocks = f"the clocks of {count_noun(ranks, 'rank')} are written as recorded"
    return f"{clocks}, off by up to {format_duration(most)} as the ends of collectives tell"


def _file_of_several_ranks(marks: tuple[str, ...]) -> str:
    text = "which process is whose is told by their ids or names"
    return f"merged of the files of several ranks: {join_some(marks, 4)}; {text}"


def _steps_inferred(source: str, name: str) -> str:
    how = {
        "module": f"the repeating module {name}",
        "optimizer": f"the ends of {name}",
        "graph": f"replays of graphs, {name}",
        "annotation": f"annotations such as {name}",
    }
    return f"no step marks; steps inferred from {how[source]}"


def _chrome_form_of_xla(*, has_links: bool, has_ends: bool) -> str:
    lost = ["wall clock", "HLO modules", "memory", "device facts"]
    lost += [] if has_links else ["links from host to device"]
    lost += [] if has_ends else ["true ends of ops on CPUs"]
    text = f"no {', '.join(lost[:-1])}, nor {lost[-1]}"
    return f"this is the Chrome form of an XLA profile: {text}; an xplane.pb has them"


def _devices_without_events(names: tuple[str, ...]) -> str:
    return f"devices without an event: {join_some(names, 8)}"


def _plane_without_names(plane: str) -> str:
    what = f"plane {plane!r}" if plane else "a plane without a name"
    return f"{what} has events but not their names"


def _metadata_repaired(kind: str) -> str:
    return f"facts around the events: {SENTENCES[kind]}"


def _another_recording(*, bytes: int, exact: bool) -> str:  # noqa: A002, the value's name
    size = f"{'' if exact else 'more than '}{bytes:,} bytes"
    return f"another recording behind the first, of {size}: split the file there, and open both"


SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "files_apart_in_time": "the files do not overlap in time: each is drawn from its own first event",
    "placed_by_collectives": _placed_by_collectives,
    "files_at_their_starts": "--align start: each is drawn from its own first event",
    "files_without_wall_clock": "not every file has a wall clock: each is drawn from its own first event",
    "memory_timeline_beside_trace": "a memory timeline beside a trace: open it by its name",
    "older_recordings": "recordings older than the one that is opened: each opens by its name",
    "newer_recordings": (
        "recordings newer than the one that is opened, which has more processes: each opens by its name"
    ),
    "twin_json_skipped": "JSON beside the xplane of its host is not read: it is made of that as a rule",
    "not_cached": "not kept in the cache: {why}",
    "file_not_read": "file not read: {why}",
    "path_refused": "{why}",
    "companion_file": "{why}",
    "run_opened": "run {run} opened; --run NAME opens another",
    "traces_in_subfolder": (
        "traces in a subfolder are not read with those beside it: name it, too, if they belong together"
    ),
    "equal_files": "equal files, each counted as ranks of its own: is one a copy?",
    "rank_claimed_numbered_by_names": _numbered_by_names,
    "rank_claimed_numbered_anew": _numbered_anew,
    "ranks_not_recorded": _ranks_not_recorded,
    "devices_differ": _devices_differ,
    "devices_of_one_rank": "several devices in a file of one rank: it is that of the one that works most",
    "devices_without_rank": "several devices and no rank recorded: they are counted through",
    "clocks_apart": _clocks_apart,
    "clocks_written_as_recorded": (
        "{clocks}: read back, nothing corrects them; --align collectives writes them corrected"
    ),
    "hardly_one_run": _hardly_one_run,
    "counter_samples": "counter samples, drawn as graphs",
    "memory_events": "memory allocations and frees, drawn as graphs of what is held",
    "memory_without_totals": "memory events without totals: drawn is what was allocated since the start",
    "memory_without_size": "memory events without a size, or without a kind of device, which is then the host",
    "memory_without_address": "memory events without an address, of which others have one",
    "memory_of_several_ranks": "memory of several ranks in one file, which is not told apart",
    "events_on_another_device": (
        "events of under 1 % of the time, on another device than that of the rank: drawn with it, not counted as "
        "its work"
    ),
    "counter_without_number": "counter sample without a time, or with a value that is not a number",
    "counter_far_away": "counter sample at time 0 or more than a day from the events",
    "flow_events_skipped": "flow arrows, not drawn: ids tell what they tie, calls and kernels, forward and backward",
    "foreign_categories": (
        "events of categories that PyTorch does not write (or of none), drawn on threads of the host: of another "
        "profiler?"
    ),
    "operators_timed_on_devices": (
        "operators timed on devices by the autograd profiler: each has those inside it in its time, and totals "
        "count them again"
    ),
    "events_without_name": "events without a name",
    "events_without_thread": "events of the host without a thread, drawn on one of their own",
    "element_without_phase": "array element without a phase",
    "unknown_phase_pytorch": "event of a phase that PyTorch does not write",
    "event_without_time": "event without a time, or with one that cannot be",
    "event_at_zero": "event at time 0, far from all others",
    "event_far_away": "event that lasts a day, or is as far from the others",
    "negative_duration": "negative duration read as 0",
    "event_without_duration": "complete event without a duration, read as 0",
    "id_too_large": "id of more than 63 bits, read as none",
    "event_cut_off": "event cut off at the end of the file",
    "event_not_json": "event that is not JSON",
    "event_too_deep": "event with too many brackets in brackets",
    "element_not_event": "array element that is not an event",
    "bytes_not_json": "stretch of bytes that are not JSON",
    "stray_characters": "stray characters between events",
    "name_not_text": "name that is not text",
    "args_not_object": "args that are not an object, read as none",
    "time_as_text": "time that is text read as a number",
    "comma_missing": "no comma between two events",
    "commas_repeated": "more than one comma between two events",
    "size_out_of_range": "size below 0 or of more than 16 TiB: read as unknown",
    "correlation_ids_repeated": "correlation ids of several calls: the latest that had begun is meant",
    "device_events_doubled": (
        "device events that are in the file twice, which count twice: it may hold the same recording twice"
    ),
    "kernel_ends_cut": (
        "kernels or copies with impossible ends, each containing later kernels of its stream: cut at the next start on"
        " the stream (details show the recorded duration)"
    ),
    "step_numbers_repeated": "steps with a number that an earlier one has: numbered anew",
    "events_without_end": "the array of events has no end",
    "file_ends_early": "the file ends early; what lies before was kept",
    "source_ends_early": "exported from a file that ends within its events, and what is missing may be just that",
    "value_not_json": "value that is not JSON (NaN, Infinity, N/A) read as null",
    "control_character": "control character in a string",
    "bytes_not_utf8": "bytes that are not UTF-8",
    "lone_surrogate": "half of a character (a lone surrogate) in a string",
    "stray_backslash": "backslash that escapes nothing",
    "unescaped_quote": "unescaped quote in a string",
    "trailing_comma": "trailing comma",
    "file_of_several_ranks": _file_of_several_ranks,
    "piece_of_merged_file": "a piece of a file merged of several ranks' files: {mark}",
    "ranks_exported_into_one_file": (
        "several ranks exported into one file, their hosts count as one: an export to a folder keeps them apart"
    ),
    "clocks_apart_in_export": "{said}",
    "clock_impossible": "clock that cannot be true: not used",
    "rows_far_away": "rows that are a day from the others",
    "memory_timeline_ends_early": "the memory timeline breaks off",
    "rows_not_numbers": "rows that are not four whole numbers",
    "rows_too_large": "rows of more than 16 TiB",
    "memory_timeline_of_one_rank": (
        "a memory timeline does not say whose memory it tells (export_memory_timeline's device): taken for one rank"
    ),
    "exported_window": (
        "a window of a recording, exported: what lay outside is not in it, and steps that cross its edges are partial"
    ),
    "steps_inferred": _steps_inferred,
    "annotations_not_steps": "annotations on other threads that are called as those of the steps: they are no steps",
    "gzip_damaged": "gzip {what}; {inflated:,} inflated bytes before it were kept",
    "counter_sample_impossible": "counter sample with a value that is not a number, or without a time that can be true",
    "unknown_phase_xla": "event of a phase that XLA does not write",
    "event_time_impossible": "event without a time that can be true",
    "writer_limit_reached": (
        "exactly {events:,} events, the most that the writer keeps: those after the last one are missing"
    ),
    "chrome_form_of_xla": _chrome_form_of_xla,
    "planes_doubled": "planes that are in the file twice, byte for byte: read once",
    "events_without_time": "events that only count occurrences have no place in time",
    "events_damaged": "damaged events",
    "hlo_proto_damaged": "damaged HLO proto: its program is told as far as it can be read",
    "profiler_error": "the profiler reports an error: {text}",
    "profiler_warning": "the profiler warns: {text}",
    "devices_without_events": _devices_without_events,
    "message_damaged": "{message} makes no sense from here on ({error}); the rest of it was left out",
    "plane_without_event_names": _plane_without_names,
    "event_length_damaged": (
        "fields of an event among those of its line: its length is damaged, and its stats are drawn as events"
    ),
    "events_not_named": "the array of events is not named",
    "first_byte_damaged": "the first byte of the file is damaged",
    "bytes_behind_events": "bytes behind the array of events that are not JSON",
    "zeros_at_end": "zeros at the end of the file, left out",
    "metadata_not_json": "facts around the events that are not JSON",
    "event_in_second_array": "event in a second array of that name",
    "metadata_repaired": _metadata_repaired,
    "another_recording_behind": _another_recording,
    "gzip_ends_early": "gzip ends early; {inflated:,} inflated bytes before it were kept",
}
