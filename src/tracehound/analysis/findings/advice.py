"""Advice on idle time, communication and copies, in the words of the framework."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tracehound.analysis.findings.evidence import Evidence
from tracehound.analysis.hosts.thread_activity import ALLOCATING, COMPILING, COPYING, LOADER, LOADING, VALUE
from tracehound.analysis.idle import AFTER_LAST_WORK, BEFORE_FIRST_WORK, FIRST_WORK_QUEUED

_BEFORE_FIRST_WORK: Final = (
    "record more steps after a few that are not recorded: the first of a recording pays for what others do not; where"
    " every step begins so, prepare the next while the device still works"
)
_AFTER_LAST_WORK: Final = (
    "record more steps, to tell whether each ends so; what the host does until the end (logging, checkpoints, reading"
    " values) could run while the device works"
)

_WAIT_NOT_RECORDED: Final = (
    "look at the place: work from before the recording, of another process or of a library that is not traced may hold"
    " the device; record some steps later, and without other jobs on the device"
)
_WARM_UP: Final = (
    "the first use of a device allocates and loads what is there later: warm up before what is measured (a few steps),"
    " or record later steps"
)
_RECORD_HOST: Final = (
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

_LOOKS_ALIKE: Final = (
    "loading data, reading metrics, checkpoints and sleeping look the same as long as nothing is recorded"
)
_ANNOTATE: Final = f"annotate what the program does there ({{}}) and record again: {_LOOKS_ALIKE}"
_INPUT: Final = (
    "prefetch batches to the device ({}), do less for each sample or do it ahead of time, send fewer and larger arrays"
)
_OUTPUT: Final = "fetch values seldom, of earlier steps, and asynchronously ({})"
_BUSY_HOST: Final = (
    "see what the host was at in the report gaps: trace less often ({}), have no reading of values within the loop,"
    " and let the host run ahead"
)

_RECORD_STEADY_PART: Final = (
    "record a steady stretch alone ({}); where the run itself waits so, look at the place for what the host does there"
)

FIRST_USE: Final = "first use"
PIPELINE: Final = "pipeline"
UNMARKED: Final = "unmarked"
WITHIN_REPLAYS: Final = "within replays"
BETWEEN_REPLAYS: Final = "between replays"

_PYTORCH: Final[Mapping[str, str]] = MappingProxyType(
    {
        "host": "launch less and earlier: torch.compile or CUDA graphs, fused optimizers, a larger batch; look at what"
        " the host does in the gaps",
        "synchronization": "do not read values of the device within a step (.item(), .cpu(), printing a loss, nonzero);"
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
        "other": _WAIT_NOT_RECORDED,
        "unknown": _RECORD_HOST,
        BEFORE_FIRST_WORK: _BEFORE_FIRST_WORK,
        FIRST_WORK_QUEUED: _WAIT_NOT_RECORDED,
        FIRST_USE: _WARM_UP,
        WITHIN_REPLAYS: _WITHIN_REPLAYS,
        PIPELINE: _PIPELINE,
        BETWEEN_REPLAYS: "the work is in graphs already: prepare the inputs of the next while one runs, launch it"
        " before the last has ended, and wait for the device less often; look at what the host does in the gaps",
        AFTER_LAST_WORK: _AFTER_LAST_WORK,
        "outside": _RECORD_STEADY_PART.format("torch.profiler.schedule, with wait and warmup, and step() in the loop"),
        UNMARKED: "record what the host does there, too (ProfilerActivity.CPU, with_stack=True, record_function around"
        f" parts of the program): {_LOOKS_ALIKE}",
        "communication": "overlap it (larger buckets, an earlier start, more streams), send less (lower precision,"
        " gradient accumulation), or give each device a larger batch",
        "copies": "copy from pinned memory with non_blocking=True on a stream of their own, prefetch, or keep the data"
        " on the device",
    }
)
_XLA_RUN_AHEAD: Final = (
    "have the host run ahead: no block_until_ready or conversion to NumPy within the loop, several steps in"
    " one program (lax.scan), a larger batch; look at what the host does in the gaps, and annotate what loads data"
)
_XLA: Final[Mapping[str, str]] = MappingProxyType(
    {
        "host": _XLA_RUN_AHEAD,
        "synchronization": "fetch values of the device seldom, and of earlier steps; donate buffers instead of copying",
        "allocation": "equal shapes in every step, donated buffers",
        "compiling": "compile before the loop begins; keep shapes, types and static arguments the same; see the report"
        " compiles",
        "data loading": "prefetch to the device (a second batch in flight), more workers in the input pipeline, less"
        " work for each sample",
        "kernel": "fewer and larger programs: jit what runs apart, scan over steps",
        "other stream": "look whether what is waited for could begin earlier",
        "other": _WAIT_NOT_RECORDED,
        "unknown": _RECORD_HOST,
        BEFORE_FIRST_WORK: _BEFORE_FIRST_WORK,
        FIRST_WORK_QUEUED: _WAIT_NOT_RECORDED,
        FIRST_USE: _WARM_UP,
        WITHIN_REPLAYS: _WITHIN_REPLAYS,
        PIPELINE: _PIPELINE,
        BETWEEN_REPLAYS: _XLA_RUN_AHEAD,
        AFTER_LAST_WORK: _AFTER_LAST_WORK,
        "outside": _RECORD_STEADY_PART.format("jax.profiler.start_trace and stop_trace around steps after the first"),
        "communication": "overlap it (the latency hiding scheduler, asynchronous collectives), shard otherwise, or give"
        " each device a larger batch",
        "HLO copies": "see which ops they are (hlo_ops, data formatting): transposes and copies of layouts; donate"
        " buffers, keep parameters in the layout in which they are used, transpose once and outside the loop",
        "copies": "keep what is moved on the device, or move it earlier: offload less, prefetch it a layer ahead,"
        " donate buffers",
        "input": _INPUT.format("flax prefetch_to_device, tf.data prefetch(AUTOTUNE), Grain with worker_count above 0"),
        "output": _OUTPUT.format("copy_to_host_async"),
        UNMARKED: _ANNOTATE.format("jax.profiler.TraceAnnotation"),
        "busy host": _BUSY_HOST.format("several steps in one program, lax.scan"),
    }
)
_PYTORCH_XLA_RUN_AHEAD: Final = (
    "have the host run ahead: no .item(), .cpu() or printing of tensors within the step, one torch_xla.sync() a step,"
    " and less to trace (torch_xla.compile, scan of torch_xla.experimental over equal layers); a larger batch; look at"
    " what the host does in the gaps, and annotate what loads data"
)
_PYTORCH_XLA: Final[Mapping[str, str]] = MappingProxyType(
    {
        **_XLA,
        "host": _PYTORCH_XLA_RUN_AHEAD,
        BETWEEN_REPLAYS: _PYTORCH_XLA_RUN_AHEAD,
        "synchronization": "do not read values of tensors within a step (.item(), .cpu(), printing a loss): that ends"
        " the graph there and waits for it; fetch them seldom, of earlier steps (xm.add_step_closure)",
        "allocation": "equal shapes in every step",
        "compiling": "compile before the loop begins; keep shapes and types the same, and what the step does (no"
        " branches on values of tensors); see the report compiles",
        "kernel": "fewer and larger programs: one torch_xla.sync() a step, or less often",
        "input": _INPUT.format("MpDeviceLoader, whose DataLoader has num_workers above 0"),
        "output": _OUTPUT.format("xm.add_step_closure"),
        UNMARKED: _ANNOTATE.format("xp.Trace"),
        "outside": _RECORD_STEADY_PART.format("xp.start_trace and stop_trace around steps after the first"),
        "busy host": _BUSY_HOST.format("torch_xla.compile, scan of torch_xla.experimental, fewer torch_xla.sync calls"),
    }
)
"""Advice by topic for PyTorch/XLA; `_XLA` is for JAX, `_PYTORCH` for PyTorch."""


TOPIC_OF_ACTIVITY: Final[Mapping[str, str]] = MappingProxyType(
    {
        LOADER: "data loading",
        LOADING: "data loading",
        VALUE: "synchronization",
        COPYING: "synchronization",
        ALLOCATING: "allocation",
        COMPILING: "compiling",
    }
)
"""The topic of the advice by the main activity of the host."""


def advice(evidence: Evidence, topic: str) -> str:
    """The advice on a topic: a cause of idle time, `communication`, `copies`, `compiling`, or another topic here.

    Only XLA's programs have the topics `input`, `output`, and `busy host`.
    """
    return (_PYTORCH_XLA if evidence.is_pytorch_xla else _XLA if evidence.is_xla else _PYTORCH)[topic]
