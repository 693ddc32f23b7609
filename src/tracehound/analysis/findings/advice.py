"""What to do about idle time, communication and copies, in the words of the framework.

Owns these words. Knows no number.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tracehound.analysis.findings.finding import Evidence
from tracehound.analysis.hosts.words import ALLOCATING, COMPILING, COPYING, LOADER, LOADING, VALUE
from tracehound.analysis.idle import AFTER, BEFORE, QUEUED

_FIRST: Final = (
    "record more steps after a few that are not recorded: the first of a recording pays for what others do not; where"
    " every step begins so, prepare the next while the device still works"
)
_LAST: Final = (
    "record more steps, to tell whether each ends so; what the host does until the end (logging, checkpoints, reading"
    " values) could run while the device works"
)

_UNSAID: Final = (
    "look at the place: work from before the recording, of another process or of a library that is not traced may hold"
    " the device; record some steps later, and without other jobs on the device"
)
_NEW: Final = (
    "the first use of a device allocates and loads what is there later: warm up before what is measured (a few steps),"
    " or record later steps"
)
_UNKNOWN: Final = (
    "record what the host does, too (ProfilerActivity.CPU, or the host tracer): launches tell what was waited for"
)

_WITHIN_REPLAYS: Final = (
    "the host has no part in it, and more graphs do not help: fewer and larger kernels in the graph (capture what is"
    " fused or compiled), or a larger batch"
)

_PIPELINE: Final = (
    "who receives waits for the stage before it: shorten the bubbles of the pipeline (more micro-batches, an"
    " interleaved schedule), and balance the stages"
)

_ALIKE: Final = "loading data, reading metrics, checkpoints and sleeping look the same as long as nothing is recorded"
_UNMARKED: Final = f"annotate what the program does there ({{}}) and record again: {_ALIKE}"
_INPUT: Final = (
    "prefetch batches to the device ({}), do less for each sample or do it ahead of time, send fewer and larger arrays"
)
_OUTPUT: Final = "fetch values seldom, of earlier steps, and asynchronously ({})"
_BUSY_HOST: Final = (
    "see what the host was at in the report gaps: trace less often ({}), have no reading of values within the loop,"
    " and let the host run ahead"
)

_STEADY: Final = (
    "record a steady stretch alone ({}); where the run itself waits so, look at the place for what the host does there"
)

NEW: Final = "first use"
PIPELINE: Final = "pipeline"
UNMARKED: Final = "unmarked"
WITHIN_REPLAYS: Final = "within replays"
BETWEEN_REPLAYS: Final = "between replays"

_PYTORCH: Final[Mapping[str, str]] = MappingProxyType(
    {
        "host": "launch less and earlier: torch.compile or CUDA graphs, fused optimizers, a larger batch; look at what"
        " the host does in the gaps",
        "synchronisation": "do not read values of the device within a step (.item(), .cpu(), printing a loss, nonzero);"
        " copy with non_blocking=True from pinned memory",
        "allocation": "keep the caching allocator from giving memory back: no empty_cache() within steps, less"
        " fragmentation (expandable_segments), equal shapes in every step",
        "compiling": "compile before the loop begins; keep shapes, types and static arguments the same; see the report"
        " compiles",
        "data loading": "more num_workers (with persistent_workers and pin_memory), a larger prefetch_factor, less work"
        " for each sample",
        "kernel": "fewer and larger kernels: torch.compile, fused operators, CUDA graphs",
        "other stream": "look whether the order that events impose is needed, and whether what is waited for could"
        " begin earlier",
        "other": _UNSAID,
        "unknown": _UNKNOWN,
        BEFORE: _FIRST,
        QUEUED: _UNSAID,
        NEW: _NEW,
        WITHIN_REPLAYS: _WITHIN_REPLAYS,
        PIPELINE: _PIPELINE,
        BETWEEN_REPLAYS: "the work is in graphs already: prepare the inputs of the next while one runs, launch it"
        " before the last has ended, and wait for the device less often; look at what the host does in the gaps",
        AFTER: _LAST,
        "outside": _STEADY.format("torch.profiler.schedule, with wait and warmup, and step() in the loop"),
        UNMARKED: "record what the host does there, too (ProfilerActivity.CPU, with_stack=True, record_function around"
        f" parts of the program): {_ALIKE}",
        "communication": "overlap it (larger buckets, an earlier start, more streams), send less (lower precision,"
        " gradient accumulation), or give each device a larger batch",
        "copies": "copy from pinned memory with non_blocking=True on a stream of their own, prefetch, or keep the data"
        " on the device",
    }
)
_AHEAD: Final = (
    "have the host run ahead: no block_until_ready or conversion to NumPy within the loop, several steps in"
    " one program (lax.scan), a larger batch; look at what the host does in the gaps, and annotate what loads data"
)
_XLA: Final[Mapping[str, str]] = MappingProxyType(
    {
        "host": _AHEAD,
        "synchronisation": "fetch values of the device seldom, and of earlier steps; donate buffers instead of copying",
        "allocation": "equal shapes in every step, donated buffers",
        "compiling": "compile before the loop begins; keep shapes, types and static arguments the same; see the report"
        " compiles",
        "data loading": "prefetch to the device (a second batch in flight), more workers in the input pipeline, less"
        " work for each sample",
        "kernel": "fewer and larger programs: jit what runs apart, scan over steps",
        "other stream": "look whether what is waited for could begin earlier",
        "other": _UNSAID,
        "unknown": _UNKNOWN,
        BEFORE: _FIRST,
        QUEUED: _UNSAID,
        NEW: _NEW,
        WITHIN_REPLAYS: _WITHIN_REPLAYS,
        PIPELINE: _PIPELINE,
        BETWEEN_REPLAYS: _AHEAD,
        AFTER: _LAST,
        "outside": _STEADY.format("jax.profiler.start_trace and stop_trace around steps after the first"),
        "communication": "overlap it (the latency hiding scheduler, asynchronous collectives), shard otherwise, or give"
        " each device a larger batch",
        "HLO copies": "see which ops they are (hlo_ops, data formatting): transposes and copies of layouts; donate"
        " buffers, keep parameters in the layout in which they are used, transpose once and outside the loop",
        "copies": "keep what is moved on the device, or move it earlier: offload less, prefetch it a layer ahead,"
        " donate buffers",
        "input": _INPUT.format("flax prefetch_to_device, tf.data prefetch(AUTOTUNE), Grain with worker_count above 0"),
        "output": _OUTPUT.format("copy_to_host_async"),
        UNMARKED: _UNMARKED.format("jax.profiler.TraceAnnotation"),
        "busy host": _BUSY_HOST.format("several steps in one program, lax.scan"),
    }
)
_LAZY_AHEAD: Final = (
    "have the host run ahead: no .item(), .cpu() or printing of tensors within the step, one torch_xla.sync() a step,"
    " and less to trace (torch_xla.compile, scan of torch_xla.experimental over equal layers); a larger batch; look at"
    " what the host does in the gaps, and annotate what loads data"
)
_LAZY: Final[Mapping[str, str]] = MappingProxyType(
    {
        **_XLA,
        "host": _LAZY_AHEAD,
        BETWEEN_REPLAYS: _LAZY_AHEAD,
        "synchronisation": "do not read values of tensors within a step (.item(), .cpu(), printing a loss): that ends"
        " the graph there and waits for it; fetch them seldom, of earlier steps (xm.add_step_closure)",
        "allocation": "equal shapes in every step",
        "compiling": "compile before the loop begins; keep shapes and types the same, and what the step does (no"
        " branches on values of tensors); see the report compiles",
        "kernel": "fewer and larger programs: one torch_xla.sync() a step, or less often",
        "input": _INPUT.format("MpDeviceLoader, whose DataLoader has num_workers above 0"),
        "output": _OUTPUT.format("xm.add_step_closure"),
        UNMARKED: _UNMARKED.format("xp.Trace"),
        "outside": _STEADY.format("xp.start_trace and stop_trace around steps after the first"),
        "busy host": _BUSY_HOST.format("torch_xla.compile, scan of torch_xla.experimental, fewer torch_xla.sync calls"),
    }
)
"""What helps, in the words of the framework. That of `_LAZY` is PyTorch/XLA."""


TOPICS: Final[Mapping[str, str]] = MappingProxyType(
    {
        LOADER: "data loading",
        LOADING: "data loading",
        VALUE: "synchronisation",
        COPYING: "synchronisation",
        ALLOCATING: "allocation",
        COMPILING: "compiling",
    }
)
"""Whose advice helps where the host was mostly at this."""


def advice(evidence: Evidence, topic: str) -> str:
    """What helps with this cause of idle time, with `communication`, `copies`, `compiling`, or another topic here.

    Parts of steps are of XLA's programs alone: `input`, `output`, and a `busy host`.
    """
    return (_LAZY if evidence.lazy else _XLA if evidence.xla else _PYTORCH)[topic]
