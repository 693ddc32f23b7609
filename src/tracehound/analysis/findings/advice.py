"""Advice on causes of lost time, in the terms of PyTorch, JAX and PyTorch/XLA."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tracehound.analysis.findings.evidence import Evidence
from tracehound.analysis.hosts.main_activities import BLOCKED_CALL, LAUNCHES, LONG_OPERATOR
from tracehound.analysis.hosts.main_activities import FIRST_USE as FIRST_USE_OF_KERNEL
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
from tracehound.analysis.idle import AFTER_LAST_WORK, BEFORE_FIRST_WORK, FIRST_WORK_QUEUED

FIRST_USE: Final = "first use"
PIPELINE: Final = "pipeline"
UNMARKED: Final = "unmarked"
WITHIN_REPLAYS: Final = "within replays"
BETWEEN_REPLAYS: Final = "between replays"
LOADER_WITHOUT_WORKERS: Final = "loader without workers"
MISSING_CORRELATIONS: Final = "missing correlations"
COPIES_IN_DEVICE: Final = "copies within the device"
PAGEABLE_COPIES: Final = "pageable copies"
LATE_COMMUNICATION: Final = "late communication"
SMALL_COLLECTIVES: Final = "small collectives"
SLOW_LINK: Final = "slow link"
SLOW_CLOCK: Final = "slow clock"

_NOT_RECORDED: Final = "data loading, reading metrics, checkpoints and sleeping look the same where nothing is recorded"
_ANNOTATE: Final = f"annotate what the program does there ({{}}) and record again: {_NOT_RECORDED}"
_INPUT: Final = (
    "prefetch batches to the device ({}); do less work per sample or do it ahead of time; send fewer, larger arrays"
)
_OUTPUT: Final = "read values less often, from earlier steps, and asynchronously ({})"
_BUSY_HOST: Final = (
    "see the report gaps for what the host does; trace less often ({}), read no values inside the loop, and let the"
    " host run ahead"
)
_RECORD_STEADY_PART: Final = (
    "record a few steady steps only ({}); if the run itself waits like this, inspect what the host does in this"
    " interval"
)
_SHAPES: Final = (
    "compile before the loop begins; keep shapes, types and static arguments the same; see the report compiles"
)

_COMMON: Final[Mapping[str, str]] = MappingProxyType(
    {
        "garbage collection": "call gc.freeze() after the model is built; call gc.disable() and then gc.collect() every"
        " N steps on all ranks at once",
        "file I/O": "write checkpoints and logs in a background thread or asynchronously, or less often",
        "Python": "do less Python per step: move it out of the loop, into a worker process, or vectorize it",
        "asleep": "inspect this interval: a sleep, a lock or a queue holds the thread that launches work; prefetch what"
        " it waits for, or move the wait off this thread",
        "other processes": "another process or rank is late, or the collective runs on the CPU; compare what the ranks"
        " do before it (stragglers)",
        "profiler": "the profiler itself takes this time: record fewer steps, without stacks or shapes",
        "operator on the CPU": "move this operator to the device, or run it ahead of time on another thread",
        "loading modules": "this is the first use of these kernels: warm up before you measure (a few steps); with"
        " CUDA, CUDA_MODULE_LOADING=EAGER loads all modules at the start",
        "blocked call": "inspect this interval: such a call blocks when its queue is full, when it allocates memory,"
        " and at its first use; warm up before you measure",
        BEFORE_FIRST_WORK: "record more steps, after a few that are not recorded: the first step of a recording often"
        " starts late. If every step starts like this, prepare the next step while the device still works",
        FIRST_WORK_QUEUED: "inspect this interval: work from before the recording, of another process, or of a library"
        " that is not traced may hold the device; record some steps later",
        AFTER_LAST_WORK: "run logging, checkpoints and reading of values while the device works on the next step;"
        " record more steps to see whether every step ends like this",
        "other": "inspect this interval: work from before the recording, of another process, or of a library that is"
        " not traced may hold the device; record some steps later, without other jobs on the device",
        MISSING_CORRELATIONS: "the device events have no correlation ids that lead to their launches: a newer profiler"
        " or driver of this device may record them; compare the gaps with the host's threads by time (gaps)",
        FIRST_USE: "the first use of a device allocates and loads what later steps reuse: warm up before you measure (a"
        " few steps), or record later steps",
        WITHIN_REPLAYS: "the host has no part in it, and more graphs do not help: capture fewer and larger kernels"
        " (fused or compiled), or use a larger batch",
        PIPELINE: "the receiver waits for the pipeline stage before it: use more micro-batches or an interleaved"
        " schedule, and balance the stages",
        "other stream": "check whether this order between streams is needed, and whether the awaited work could start"
        " earlier",
        SLOW_CLOCK: "check the clocks, power limit and temperature of this device (nvidia-smi -q -d PERFORMANCE,"
        " rocm-smi, DCGM), and other jobs on it",
    }
)
"""Advice that holds for all frameworks."""

_PYTORCH: Final[Mapping[str, str]] = MappingProxyType(
    {
        **_COMMON,
        "host": "launch fewer kernels: torch.compile, CUDA graphs, fused or foreach optimizers, a larger batch; record"
        " Python stacks (with_stack=True) to see where the host spends its time",
        "value": "do not read values of the device inside a step (.item(), .cpu(), float(loss), printing, nonzero):"
        " keep them on the device and read them every N steps",
        "synchronization": "remove the synchronization from the step (torch.cuda.synchronize, .item(), blocking"
        " copies), or do it every N steps",
        "blocking copy": "copy from pinned memory with non_blocking=True",
        "allocation": "stop the caching allocator from returning memory: no empty_cache() inside steps, less"
        " fragmentation (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True), the same shapes in every step",
        "compiling": _SHAPES,
        "data loading": "use more num_workers (with persistent_workers and pin_memory), a larger prefetch_factor, less"
        " work per sample",
        LOADER_WITHOUT_WORKERS: "num_workers is 0, so the main process loads each batch itself: set num_workers to 4 or"
        " more, with persistent_workers=True and pin_memory=True",
        COPIES_IN_DEVICE: "avoid the copies: write results in place, keep tensors contiguous (look for .contiguous(),"
        " .clone(), cat), or let torch.compile fuse them",
        "unknown": "record what the host does, too (ProfilerActivity.CPU, or the host tracer)",
        SLOW_LINK: "check the link between these ranks: NCCL_DEBUG=INFO shows the transport in use, nccl-tests what it"
        " can do",
        "host with stacks": "launch fewer kernels: torch.compile, CUDA graphs, fused or foreach optimizers, a larger"
        " batch; host and stacks show in which Python functions the time goes",
        "kernel": "launch fewer and larger kernels: torch.compile, fused operators, CUDA graphs",
        BETWEEN_REPLAYS: "the work is in graphs already: prepare the inputs of the next graph while one runs, launch it"
        " before the last one ends, and wait for the device less often",
        "outside": _RECORD_STEADY_PART.format("torch.profiler.schedule with wait and warmup, and step() in the loop"),
        UNMARKED: "record what the host does there (with_stack=True, record_function around parts of the program):"
        f" {_NOT_RECORDED}",
        "unrecorded": "record what the host does there (with_stack=True, record_function around parts of the program):"
        f" {_NOT_RECORDED}",
        "communication": "overlap it (larger buckets, an earlier start, more streams), send less (lower precision,"
        " gradient accumulation), or use a larger batch per device",
        LATE_COMMUNICATION: "start it during the backward pass: gradients in several buckets (DDP bucket_cap_mb, FSDP"
        " prefetch), find_unused_parameters=False, no all-reduce after the loop",
        SMALL_COLLECTIVES: "merge them: larger buckets (DDP bucket_cap_mb), coalesced or flattened tensors",
        "copies": "prefetch on a stream of its own, copy less, or keep the data on the device",
        PAGEABLE_COPIES: "use pinned memory (pin_memory=True in the DataLoader, tensor.pin_memory()) and"
        " non_blocking=True",
    }
)
_XLA_RUN_AHEAD: Final = (
    "let the host run ahead: no block_until_ready and no conversion to NumPy inside the loop, several steps in one"
    " program (lax.scan), a larger batch"
)
_XLA_COMMUNICATION: Final = (
    "overlap it (latency hiding scheduler, asynchronous collectives), shard differently, or use a"
    " larger batch per device"
)
_XLA_LOADING: Final = (
    "prefetch to the device (a second batch in flight), use more workers in the input pipeline, less work per sample"
)
_HLO_COPIES: Final = (
    "see which ops they are (hlo_ops, data formatting): transposes and layout copies; donate buffers,"
    " keep parameters in the layout in which they are used, transpose once outside of the loop"
)
_XLA: Final[Mapping[str, str]] = MappingProxyType(
    {
        **_COMMON,
        "host": _XLA_RUN_AHEAD,
        "host with stacks": _XLA_RUN_AHEAD,
        "unknown": "record what the host does, too (the host tracer)",
        "compiling": _SHAPES,
        LATE_COMMUNICATION: _XLA_COMMUNICATION,
        SMALL_COLLECTIVES: "merge them: fewer, larger arrays per collective (XLA's combiner thresholds)",
        SLOW_LINK: "check the link between these devices, and the mesh: keep large collectives inside a host or slice",
        COPIES_IN_DEVICE: _HLO_COPIES,
        PAGEABLE_COPIES: "prefetch arrays to the device a batch ahead, and send fewer, larger ones",
        "value": "do not read values of the device in every step (float(loss), np.asarray, print): read them every N"
        " steps, or those of an earlier step (copy_to_host_async)",
        "synchronization": "remove block_until_ready from the loop; read values of the device rarely, and from earlier"
        " steps",
        "blocking copy": "prefetch arrays to the device a batch ahead (flax prefetch_to_device)",
        "allocation": "keep the same shapes in every step; donate buffers",
        "data loading": _XLA_LOADING,
        LOADER_WITHOUT_WORKERS: _XLA_LOADING,
        "kernel": "run fewer and larger programs: jit what runs separately, scan over steps",
        BETWEEN_REPLAYS: _XLA_RUN_AHEAD,
        "outside": _RECORD_STEADY_PART.format("jax.profiler.start_trace and stop_trace around steps after the first"),
        "communication": _XLA_COMMUNICATION,
        "HLO copies": _HLO_COPIES,
        "copies": "keep the data on the device, or move it earlier: offload less, prefetch it a layer ahead, donate"
        " buffers",
        "input": _INPUT.format("flax prefetch_to_device, tf.data prefetch(AUTOTUNE), Grain with worker_count above 0"),
        "output": _OUTPUT.format("copy_to_host_async"),
        UNMARKED: _ANNOTATE.format("jax.profiler.TraceAnnotation"),
        "unrecorded": _ANNOTATE.format("jax.profiler.TraceAnnotation, or ProfileOptions.python_tracer_level=1"),
        "busy host": _BUSY_HOST.format("several steps in one program, lax.scan"),
    }
)
_PYTORCH_XLA_RUN_AHEAD: Final = (
    "let the host run ahead: no .item(), .cpu() or printing of tensors inside the step, one torch_xla.sync() a step,"
    " and less to trace (torch_xla.compile, scan of torch_xla.experimental over equal layers); a larger batch"
)
_PYTORCH_XLA: Final[Mapping[str, str]] = MappingProxyType(
    {
        **_XLA,
        "host": _PYTORCH_XLA_RUN_AHEAD,
        "host with stacks": _PYTORCH_XLA_RUN_AHEAD,
        "blocking copy": "send batches to the device ahead of time (MpDeviceLoader)",
        BETWEEN_REPLAYS: _PYTORCH_XLA_RUN_AHEAD,
        "value": "do not read values of tensors inside a step (.item(), .cpu(), printing a loss): that ends the graph"
        " there and waits for it; read them rarely, from earlier steps (xm.add_step_closure)",
        "synchronization": "do not read values of tensors inside a step (.item(), .cpu(), printing a loss): that ends"
        " the graph there and waits for it; read them rarely, from earlier steps (xm.add_step_closure)",
        "allocation": "keep the same shapes in every step",
        "compiling": "compile before the loop begins; keep shapes and types the same, and what the step does (no"
        " branches on values of tensors); see the report compiles",
        "kernel": "run fewer and larger programs: one torch_xla.sync() a step, or less often",
        "input": _INPUT.format("MpDeviceLoader with a DataLoader that has num_workers above 0"),
        "output": _OUTPUT.format("xm.add_step_closure"),
        UNMARKED: _ANNOTATE.format("xp.Trace"),
        "unrecorded": _ANNOTATE.format("xp.Trace"),
        "outside": _RECORD_STEADY_PART.format("xp.start_trace and stop_trace around steps after the first"),
        "busy host": _BUSY_HOST.format("torch_xla.compile, scan of torch_xla.experimental, fewer torch_xla.sync calls"),
    }
)
"""Advice by topic for PyTorch/XLA; `_XLA` is for JAX, `_PYTORCH` for PyTorch."""

TOPIC_OF_ACTIVITY: Final[Mapping[str, str]] = MappingProxyType(
    {
        LOADER: "data loading",
        LOADING: "data loading",
        VALUE: "value",
        WAITING: "synchronization",
        COPYING: "blocking copy",
        ALLOCATING: "allocation",
        COMPILING: "compiling",
        PROGRAM: "loading modules",
        FIRST_USE_OF_KERNEL: "loading modules",
        BLOCKED_CALL: "blocked call",
        COLLECTING_GARBAGE: "garbage collection",
        FILE_IO: "file I/O",
        PYTHON: "Python",
        ASLEEP: "asleep",
        IN_ANNOTATION: "unrecorded",
        NOTHING_RECORDED: "unrecorded",
        LONG_OPERATOR: "operator on the CPU",
        LAUNCHES: "host",
        COMMUNICATING: "other processes",
        OTHERS: "other processes",
        PROFILING: "profiler",
        SENDING_INPUTS: "blocking copy",
        TRACING: "host",
    }
)
"""The topic of the advice by what the host does."""


def advice(evidence: Evidence, topic: str) -> str:
    """The advice on a topic: a cause of idle time, `communication`, `copies`, `compiling`, or another topic here.

    Only XLA's programs have the topics `input`, `output`, and `busy host`.
    """
    return (_PYTORCH_XLA if evidence.is_pytorch_xla else _XLA if evidence.is_xla else _PYTORCH)[topic]
