"""Sentences of notes on hosts: launches, operators, modules, annotations, compilations, call paths and threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.draw.notes.sentence_template import SentenceTemplate
from tracehound.model.units import count_noun, format_duration, format_ranges, format_share, join_some

_HOW_TO_EXPLAIN_COMPILATION: Final = {
    "PyTorch": "TORCH_LOGS=recompiles tells why",
    "XLA": "jax_explain_cache_misses (JAX) or PT_XLA_DEBUG_LEVEL=1 (PyTorch/XLA) tells why",
}

_NO_COMPILATIONS: Final = {
    "PyTorch": "torch.compile records its own with ProfilerActivity.CPU (since PyTorch 2.1), Triton only as frames of"
    " Python, with with_stack=True; what comes from a cache records nothing",
    "XLA": "none ran, or host_tracer_level (ProfileOptions) was below 2; a profile that begins before the first step"
    " shows those of the warm-up",
}

_RECORD_HOST: Final = {"PyTorch": "ProfilerActivity.CPU", "XLA": "ProfileOptions.host_tracer_level=2"}
_RECORD_FRAMES: Final = {"PyTorch": "with_stack=True", "XLA": "ProfileOptions.python_tracer_level=1"}
"""Remedies by profiler."""


def _time_compiling(time: int, share_of_time: float | None, steps: tuple[int, ...], ranks: int) -> str:
    whose = "on the host that compiles most, " if ranks > 1 else ""
    part = "" if share_of_time is None else f", {format_share(share_of_time)} of the time"
    numbers = format_ranges(steps)
    when = f", in step{'s' * (not numbers.isdigit())} {numbers}" if steps else ""
    return f"{whose}something was being compiled for {format_duration(time)}{part}{when}"


def _compiled_again(functions: tuple[str, ...], profiler: str) -> str:
    return f"compiled more than once: {join_some(functions, 4)}; {_HOW_TO_EXPLAIN_COMPILATION[profiler]}"


def _no_compilations(profiler: str) -> str:
    return f"no compilation is recorded: {_NO_COMPILATIONS[profiler]}"


def _launches_total(launches: int, short: int, long: int, late: int, queued: int) -> str:
    behind = f", {queued:,} of these behind earlier work" if queued else ""
    return f"{count_noun(launches, 'launch', 'launches')}: {short:,} short, {long:,} long, {late:,} late{behind}"


def _correlation_ids_shared(ids: int) -> str:
    text = count_noun(ids, "correlation id")
    return f"{text} of several calls: the latest that had begun is taken, which may be another process's"


def _outside_modules(unlaunched: int, unknown: int, work: int) -> str:
    """`unknown` is the part of the time outside modules that has no recorded launch."""
    part = _share_of_device_time(unlaunched, work)
    text = f"{part} was launched in no module that is known ({format_duration(unlaunched)})"
    if unknown:
        lost = "all of it" if unknown == unlaunched else format_duration(unknown)
        text += f": {lost} has no recorded launch, which may lie before the recording"
    if unknown < unlaunched:
        rest = "; the rest" if unknown else ":"
        text += f"{rest} by the optimizer, by communication, by replays of graphs, or outside the model"
    return text


def _outside_operators(unlaunched: int, work: int) -> str:
    part = _share_of_device_time(unlaunched, work)
    return f"{part} was launched by no operator that is known ({format_duration(unlaunched)})"


def _outside_frames(unlaunched: int, work: int) -> str:
    part = _share_of_device_time(unlaunched, work)
    return f"{part} was launched in no frame that is known ({format_duration(unlaunched)})"


def _without_launch(unlaunched: int, work: int) -> str:
    return f"{_share_of_device_time(unlaunched, work)} has no known launch ({format_duration(unlaunched)})"


def _share_of_device_time(time: int, work: int) -> str:
    return f"{format_share(time / work)} of the device time"


def _time_recomputed(host: int, device: int) -> str:
    return f"recomputed in backward(): {format_duration(host)} on the host, {format_duration(device)} on the device"


def _threads_by_order(threads: int) -> str:
    whose = "which gradients are theirs was told by the order in which such threads began"
    return (
        f"{count_noun(threads, 'thread')} of the forward pass with numbers of autograd that others have, too: {whose}"
    )


def _record_host_events(profiler: str) -> str:
    return f"profile with {_RECORD_HOST[profiler]}"


def _no_python_frames(profiler: str) -> str:
    return f"no frames of Python: profile with {_RECORD_FRAMES[profiler]}"


def _host_time(time: int) -> str:
    return f"{format_duration(time)} on threads of hosts"


def _lane_busy(events: int, busy: int, window: int) -> str:
    return f"{count_noun(events, 'event')}, busy {format_duration(busy)} of {format_duration(window)}"


SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "no_launches_in_annotations": (
        "device: nothing was launched on the annotations' own threads; what others launch for them is in steps"
    ),
    "launches_of_annotations": (
        "device: what was launched on the annotation's own thread; what autograd launches on its own is in modules"
    ),
    "time_compiling": _time_compiling,
    "compiled_again": _compiled_again,
    "no_compilations": _no_compilations,
    "no_thread_recorded": "no host thread recorded anything",
    "record_threads": "profile with ProfilerActivity.CPU, or host_tracer_level above 0",
    "no_launches": "no launch: no device work here, or the calls that launched it were not recorded",
    "launches_total": _launches_total,
    "device_events_not_counted": "not counted: {events:,} device events without a known launch",
    "device_events_before_launch": (
        "{events:,} device events begin before their launch: the clocks of host and device disagree"
    ),
    "correlation_ids_shared": _correlation_ids_shared,
    "no_queue": "no queue: no device work here, or the calls that launched it were not recorded",
    "queue_without_limit": "a queue of {launches:,} launches: {limit:,} is not a limit here, as HIP has none",
    "queue_nearly_full": (
        "nearly full: up to {launches:,} of {limit:,} launches; the setting limit={near} tells how long"
    ),
    "host_times_only": "no device work here: times are those of the host alone",
    "device_time_outside_modules": _outside_modules,
    "recomputed_in_backward": _time_recomputed,
    "backward_without_sequence_numbers": "backward() ran, but no sequence number of autograd says for which module",
    "forward_threads_by_order": _threads_by_order,
    "no_modules_in_xla_profile": (
        "no modules: an XLA profile has the scopes of HLO ops instead: see hlo_ops with the setting by=scope"
    ),
    "no_modules": "no nn.Module",
    "record_modules": "profile with with_stack=True (with_modules=True alone records none of them)",
    "device_time_outside_operators": _outside_operators,
    "no_operators_in_xla_profile": "no operators: an XLA profile has HLO ops instead: see hlo_ops",
    "no_operators": "no operator",
    "no_sequences_in_xla_profile": "no sequences: an XLA profile has no operators that launch kernels",
    "no_sequences": "no operator here launched {length} kernels or more: choose length or operator",
    "host_time": _host_time,
    "device_time_outside_frames": _outside_frames,
    "device_time_without_launch": _without_launch,
    "frames_of_operators": (
        "frames are those that operators carry as text: they have the time of these operators alone"
    ),
    "no_host_events": "no event of a host thread",
    "record_host_events": _record_host_events,
    "no_python_frames": _no_python_frames,
    "nothing_on_lanes": "nothing ran on these lanes in this window",
    "no_lane_called": "no lane is called {pattern!r}",
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
