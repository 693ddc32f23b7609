"""Sentences of notes on hosts: launches, operators, modules, annotations, compilations, call paths and threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.model.notes import SentenceTemplate
from tracehound.model.units import count_noun, format_duration, format_ranges, format_share, join_some

_HOW_TO_EXPLAIN_COMPILATION: Final = {
    "PyTorch": "TORCH_LOGS=recompiles shows why",
    "XLA": "jax_explain_cache_misses (JAX) or PT_XLA_DEBUG_LEVEL=1 (PyTorch/XLA) shows why",
}

_NO_COMPILATIONS: Final = {
    "PyTorch": "torch.compile records them with ProfilerActivity.CPU (since PyTorch 2.1), Triton only as Python frames"
    " (with_stack=True); results from a cache record nothing",
    "XLA": "none ran, or host_tracer_level (ProfileOptions) was below 2; record the first step, too, to see its own",
}

_RECORD_HOST: Final = {"PyTorch": "ProfilerActivity.CPU", "XLA": "ProfileOptions.host_tracer_level=2"}
_RECORD_FRAMES: Final = {"PyTorch": "with_stack=True", "XLA": "ProfileOptions.python_tracer_level=1"}
"""Remedies by profiler."""


def _time_compiling(time: int, share_of_time: float | None, steps: tuple[int, ...], ranks: int) -> str:
    whose = " on the host that compiles most" if ranks > 1 else ""
    part = "" if share_of_time is None else f", {format_share(share_of_time)} of the time"
    numbers = format_ranges(steps)
    when = f", in step{'s' * (not numbers.isdigit())} {numbers}" if steps else ""
    return f"compiling took {format_duration(time)}{part}{whose}{when}"


def _compiled_again(functions: tuple[str, ...], profiler: str) -> str:
    return f"compiled more than once: {join_some(functions, 4)}; {_HOW_TO_EXPLAIN_COMPILATION[profiler]}"


def _no_compilations(profiler: str) -> str:
    return f"no compilations were recorded: {_NO_COMPILATIONS[profiler]}"


def _launches_total(launches: int, short: int, long: int, late: int, queued: int) -> str:
    behind = f" ({queued:,} queued behind earlier work)" if queued else ""
    return f"{count_noun(launches, 'launch', 'launches')}: {short:,} short, {long:,} long, {late:,} late{behind}"


def _correlation_ids_shared(ids: int) -> str:
    text = count_noun(ids, "correlation id")
    return f"{text} used by several calls: the latest call before the work is taken (it may be another process's)"


def _outside_modules(unlaunched: int, unknown: int, work: int) -> str:
    """`unknown` is the part of the time outside modules that has no recorded launch."""
    part = _share_of_device_time(unlaunched, work)
    text = f"{part} was launched outside of known modules ({format_duration(unlaunched)})"
    if unknown:
        lost = "all of it" if unknown == unlaunched else format_duration(unknown)
        text += f": {lost} without a recorded launch (it may be before the recording)"
    if unknown < unlaunched:
        rest = "; the rest" if unknown else ":"
        text += f"{rest} by the optimizer, communication, graph replays, or code outside of the model"
    return text


def _outside_operators(unlaunched: int, work: int) -> str:
    part = _share_of_device_time(unlaunched, work)
    return f"{part} was launched outside of known operators ({format_duration(unlaunched)})"


def _outside_frames(unlaunched: int, work: int) -> str:
    part = _share_of_device_time(unlaunched, work)
    return f"{part} was launched outside of known frames ({format_duration(unlaunched)})"


def _without_launch(unlaunched: int, work: int) -> str:
    return f"{_share_of_device_time(unlaunched, work)} has no known launch ({format_duration(unlaunched)})"


def _share_of_device_time(time: int, work: int) -> str:
    return f"{format_share(time / work)} of device time"


def _time_recomputed(host: int, device: int) -> str:
    return f"recomputation in backward(): {format_duration(host)} on the host, {format_duration(device)} on the device"


def _threads_by_order(threads: int) -> str:
    whose = "gradients are matched by the order in which the threads began"
    return f"{count_noun(threads, 'forward thread')} with autograd sequence numbers of other threads: {whose}"


def _record_host_events(profiler: str) -> str:
    return f"profile with {_RECORD_HOST[profiler]}"


def _no_python_frames(profiler: str) -> str:
    return f"no Python frames: profile with {_RECORD_FRAMES[profiler]}"


def _host_time(time: int) -> str:
    return f"{format_duration(time)} on host threads"


def _lane_busy(events: int, busy: int, window: int) -> str:
    return f"{count_noun(events, 'event')}, busy {format_duration(busy)} of {format_duration(window)}"


SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "no_launches_in_annotations": (
        "device times are empty: nothing was launched on the annotations' own threads; see steps for other threads"
    ),
    "launches_of_annotations": (
        "device times count launches on the annotation's own thread; see modules for launches by autograd"
    ),
    "time_compiling": _time_compiling,
    "compiled_again": _compiled_again,
    "no_compilations": _no_compilations,
    "no_thread_recorded": "no host threads were recorded",
    "record_threads": "profile with ProfilerActivity.CPU, or host_tracer_level above 0",
    "no_launches": "no launches: no device work, or its launch calls were not recorded",
    "launches_total": _launches_total,
    "device_events_not_counted": "not counted: {events:,} device events without a known launch",
    "device_events_before_launch": (
        "{events:,} device events begin before their launch: host and device clocks disagree"
    ),
    "correlation_ids_shared": _correlation_ids_shared,
    "no_queue": "no queue: no device work, or its launch calls were not recorded",
    "queue_without_limit": "the queue holds up to {launches:,} launches: {limit:,} is no limit here (HIP has none)",
    "queue_nearly_full": (
        "the queue is nearly full: up to {launches:,} of {limit:,} launches; --set limit={near} shows for how long"
    ),
    "host_times_only": "no device work: times are of the host only",
    "device_time_outside_modules": _outside_modules,
    "recomputed_in_backward": _time_recomputed,
    "backward_without_sequence_numbers": "backward() ran, but autograd sequence numbers do not tell for which module",
    "forward_threads_by_order": _threads_by_order,
    "no_modules_in_xla_profile": ("no modules in an XLA profile; for scopes of HLO ops see hlo_ops --set by=scope"),
    "no_modules": "no nn.Module was recorded",
    "record_modules": "profile with with_stack=True (with_modules=True alone does not record them)",
    "device_time_outside_operators": _outside_operators,
    "no_operators_in_xla_profile": "no operators in an XLA profile; see ops for its HLO ops or kernels",
    "no_operators": "no operators",
    "no_sequences_in_xla_profile": "no sequences in an XLA profile: it has no operators that launch kernels",
    "no_sequences": "no operator launched {length} kernels or more: choose another length or operator",
    "host_time": _host_time,
    "device_time_outside_frames": _outside_frames,
    "device_time_without_launch": _without_launch,
    "frames_of_operators": ("frames come from the stacks of operators, and have the time of these operators only"),
    "no_host_events": "no events of host threads",
    "record_host_events": _record_host_events,
    "no_python_frames": _no_python_frames,
    "nothing_on_lanes": "nothing ran on these lanes in this window",
    "no_lane_called": "no lane is named {pattern!r}",
    "lanes_total": "{lanes:,} lanes",
    "lane_busy": _lane_busy,
}

HEADLINES: Final = frozenset(
    {
        "time_compiling",
        "launches_total",
        "queue_nearly_full",
        "host_time",
        "lanes_total",
        "lane_busy",
    }
)
"""Codes of notes that answer the question of their table, or say what its rows were chosen by."""
