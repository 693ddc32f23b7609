"""Texts of a finding on a cause on the host: title, evidence, certainty, and the report that shows more."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tracehound.analysis.findings.advice import LOADER_WITHOUT_WORKERS, TOPIC_OF_ACTIVITY
from tracehound.analysis.findings.evidence import Certainty, Evidence
from tracehound.analysis.findings.host_causes import HostCause
from tracehound.analysis.findings.kernel_text import NAME_WIDTH, describe_fused_kernel
from tracehound.analysis.hosts.main_activities import BLOCKED_CALL, FIRST_USE, LAUNCHES, LONG_OPERATOR
from tracehound.analysis.hosts.thread_activity import (
    ALLOCATING,
    ASLEEP,
    COLLECTING_GARBAGE,
    COMMUNICATING,
    COMPILING,
    COPYING,
    FILE_IO,
    IN_ANNOTATION,
    LOADER,
    LOADING,
    NOTHING_RECORDED,
    OTHERS,
    PROFILING,
    PROGRAM,
    PYTHON,
    SENDING_INPUTS,
    TRACING,
    VALUE,
    WAITING,
)
from tracehound.analysis.stream_gaps import SHORT_WORK
from tracehound.errors import printable
from tracehound.model.short_names import cut_middle
from tracehound.model.units import count_noun, format_duration, format_ranks
from tracehound.model.units import format_share as percent

_EVERY_STEP_SHARE: Final = 0.8
"""A cause that is in this share of the steps is told per step."""


def costly_host_causes(evidence: Evidence) -> list[HostCause]:
    """The causes with a name of their own that cost enough for a finding.

    Of an XLA program, whose steps have parts, launching and unrecorded time have no name: rules on the parts tell of
    them. Time before the first work needs a reason: something has to come first.
    """
    found = []
    for cause in evidence.host_causes:
        if 2 * cause.edges > cause.idle and cause.doing in UNSPECIFIC_AT_EDGES:
            continue
        if evidence.is_xla and cause.doing in UNSPECIFIC_OF_XLA:
            continue
        if evidence.share_of_base(evidence.per_step(cause.gain, evidence.device_ranks)) > IDLE_SHARE:
            found.append(cause)
    return found


IDLE_SHARE: Final = 0.03
UNSPECIFIC_AT_EDGES: Final = (LAUNCHES, NOTHING_RECORDED, IN_ANNOTATION)
UNSPECIFIC_OF_XLA: Final = (LAUNCHES, NOTHING_RECORDED, TRACING)


def cause_title(cause: HostCause, cost: int, evidence: Evidence) -> str:
    """``Python GC, 200 ms in step 103: the GPU idles 124 ms``: what, how often, where, and what it costs."""
    what, steps, ranks = cause_name(cause), evidence.steps, len(cause.by_rank)
    tiny_kernels = " or runs tiny kernels for" if cause.gain > cause.idle else ""
    costs = f"the {evidence.device_word} idles{tiny_kernels}"
    if not steps:
        often = f", {cause.calls:,} times" if cause.calls > 1 and cause.doing not in _COUNTED_BY_GAPS else ""
        return f"{what}{often}: {costs} {format_duration(cost)}"
    if len(cause.by_step) == 1 and steps > 1:
        (step,) = cause.by_step
        length = f", {format_duration(cause.host_time)}" if cause.host_time and cause.calls == 1 else ""
        lost = format_duration(round(cause.gain / ranks))
        if ranks > 1 and not tiny_kernels:
            return f"{what}{length} in step {step}: {ranks} {evidence.device_word}s idle {lost} each"
        return f"{what}{length} in step {step}: {costs} {lost}"
    where = "" if len(cause.by_step) >= _EVERY_STEP_SHARE * steps else f" in {len(cause.by_step)} of {steps} steps"
    per_step = cause.calls / steps / ranks
    is_counted = cause.name and cause.doing not in _COUNTED_BY_GAPS
    often = f", {per_step:,.0f} a step" if per_step >= 1.5 and is_counted and not where else ""
    return f"{what}{often}{where}: {costs} {format_duration(cost)} per step"


_COUNTED_BY_GAPS: Final = (FIRST_USE, BLOCKED_CALL, LONG_OPERATOR)
"""Causes that are single long ones among many calls of the same name."""


def cause_name(cause: HostCause) -> str:
    """The activity of the host with its recorded name: ``reading a value of the device: aten::item``."""
    inside = f" in {shorten(cause.inside)}" if cause.inside and cause.name else ""
    source = f" ({shorten(cause.frame)})" if cause.frame and cause.frame != cause.name else ""
    others = " and others" if cause.doing == PYTHON and len(cause.calls_by_name) > 1 else ""
    names = " and ".join(map(shorten, list(cause.calls_by_name)[:2]))
    phrase = _PHRASES.get(cause.doing, cause.doing + ": {name}{source}")
    text = phrase.format(
        name=shorten(cause.name) + others, names=names, inside=inside, source=source, around=source or inside
    )
    return text.removesuffix(": ")


_PHRASES: Final[Mapping[str, str]] = {
    COLLECTING_GARBAGE: "Python GC",
    LOADER: "data loading: {name}{source}",
    LOADING: "data loading: {name}{source}",
    COMPILING: "compiling: {name}{around}",
    PROGRAM: "loading GPU modules: {names}{inside}",
    ALLOCATING: "memory allocation: {names}{inside}",
    VALUE: "reading a value of the device: {name}{around}",
    WAITING: "waiting for the device: {name}{around}",
    COPYING: "waiting for a copy: {name}{around}",
    FILE_IO: "file I/O: {name}{around}",
    PYTHON: "Python: {name}{source}",
    ASLEEP: "sleeping or waiting in Python: {name}{source}",
    IN_ANNOTATION: "unrecorded host time in '{name}'",
    NOTHING_RECORDED: "unrecorded host time",
    FIRST_USE: "first use of a kernel: {name}{inside}",
    BLOCKED_CALL: "a call that blocks: {name}{inside}",
    LONG_OPERATOR: "an operator on the CPU: {name}{source}",
    LAUNCHES: "kernel launches can't keep up (CPU-bound): {name}{inside}",
    COMMUNICATING: "waiting for other processes: {name}{inside}",
    OTHERS: "waiting for other processes: {name}{inside}",
    PROFILING: "the profiler: {name}",
    SENDING_INPUTS: "sending inputs to the device: {name}{source}",
    TRACING: "tracing the next step: {name}{source}",
}
"""What a title says of each thing that the host may do."""


def shorten(name: str) -> str:
    """A name for a sentence: printable, without addresses, cut in the middle, or with the operators that it fuses."""
    return describe_fused_kernel(name) or _cut_name(name)


def _cut_name(name: str) -> str:
    return cut_middle(printable(_ADDRESS.sub("", name)), NAME_WIDTH)


_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")


def cause_evidence(cause: HostCause, share: float, evidence: Evidence) -> str:
    """The way from the cause to the lost time, with numbers."""
    parts = [f"{percent(share)} of {evidence.time_phrase}"]
    if len(cause.by_step) == 1 and evidence.steps > 1:
        cost = format_duration(evidence.per_step(cause.gain, evidence.device_ranks))
        parts[0] += f": {cost} on average over {count_noun(evidence.steps, 'step')}"
    if cause.gain > cause.idle:
        idle, short = (
            format_duration(evidence.per_step(time, evidence.device_ranks)) for time in (cause.idle, cause.short_work)
        )
        parts[0] += f": {idle} idle and {short} in kernels shorter than {format_duration(SHORT_WORK)}"
    on_rank = f" on rank {cause.longest['rank']}" if evidence.device_ranks > 1 else ""
    parts.append(f"{count_noun(cause.count, 'gap')}, the longest {format_duration(cause.longest['duration'])}{on_rank}")
    if cause.doing == LAUNCHES and cause.calls_by_name:
        most = sorted(cause.calls_by_name.items(), key=lambda each: -each[1])[:3]
        parts.append("gaps before " + ", ".join(f"{shorten(name)}: {count:,}" for name, count in most))
    elif cause.host_time:
        inside = f" in {_cut_name(cause.inside)}" if cause.inside and cause.inside != cause.name else ""
        parts.append(f"the longest call takes {format_duration(cause.host_time)}{inside}")
    if len(cause.by_rank) < evidence.device_ranks:
        parts.append(f"only on {format_ranks(sorted(cause.by_rank))}")
    if cause.frame and cause.frame != cause.name:
        parts.append(f"source: {shorten(cause.frame)}")
    return "; ".join(parts)


_WAITS_FOR_DEVICE: Final = (VALUE, WAITING, COPYING)
"""Causes that lie before the gaps: the path of the step shows them better than its gaps."""

_NOT_RECORDED: Final = (NOTHING_RECORDED, IN_ANNOTATION)


def cause_topic(cause: HostCause, evidence: Evidence) -> str:
    """The topic of the advice on a cause."""
    if cause.doing in (LOADER, LOADING) and "_SingleProcess" in cause.name and not evidence.is_xla:
        return LOADER_WITHOUT_WORKERS
    if cause.doing == LAUNCHES and int(evidence.rank_traits["frames"].sum()) and not evidence.is_xla:
        return "host with stacks"
    return TOPIC_OF_ACTIVITY.get(cause.doing, "host")


def cause_certainty(cause: HostCause) -> Certainty:
    """The certainty of a cause: recorded, or only that something was not recorded."""
    return "not recorded" if cause.doing in _NOT_RECORDED else "recorded"


def cause_command(cause: HostCause, evidence: Evidence) -> str:
    """The arguments of the report that shows the gaps of the cause, in the step of the longest."""
    step = evidence.step_at(cause.longest["rank"], cause.longest["start"]) if cause.by_step else None
    steps = "" if step is None else f" --step {step}"
    if cause.doing in _WAITS_FOR_DEVICE:
        return f"critical_path --rank {cause.longest['rank']}{steps}"
    return f"gaps --rank {cause.longest['rank']}{steps} --top 10"
