"""Meaning of the names in an XLA profile: lines, HLO categories, host events, GPU events.

Covers JAX, PyTorch/XLA and their runtimes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from tracehound.formats.runtime_names import is_communication_kernel

EventKind = Literal[
    "kernel", "collective", "copy", "memset", "op", "runtime", "annotation", "step", "module", "python", "sync",
    "transfer", "compile", "other",
]  # fmt: skip
LineRole = Literal["steps", "modules", "ops", "stream", "async", "sync", "scope", "counter", "other"]
LaneRole = LineRole | Literal["sparse_steps", "sparse_modules", "sparse_ops"]

NO_COMMAND_BUFFERS_FLAG: Final = "XLA_FLAGS=--xla_gpu_enable_command_buffer="
"""The XLA flag that launches each kernel by itself on a GPU: kernels in a graph do not name their op."""

DEVICE_TYPE: Final = r"(?!CPU:|CUSTOM:)[A-Za-z][A-Za-z0-9_]{0,30}"
"""Pattern of the types of devices that PJRT plugins register: TPU, GPU, XPU, NPU, METAL, NEURON and others.

The CPU's ops run on threads of its host. Planes of ``CUSTOM`` types show something beside the devices.
"""

_LINE_ROLES: tuple[tuple[str, LineRole], ...] = (
    (r"stream\b|cupti overhead$", "stream"),
    (r"(async xla ops|host offload ops)$", "async"),
    (r"(xla ops( of stream\b.*)?|sparse core ops)$", "ops"),
    (r"(xla modules|sparse core modules)$", "modules"),
    (r"(steps|sparse core steps)$", "steps"),
    (r"(xla traceme|tensor core sync flag|sparse core syncs)$", "sync"),
    (r"((framework|tensorflow) (name scope|ops)|source code)$", "scope"),
    (r"_counters_$", "counter"),
)
_LINE_ROLE_PATTERNS = tuple((re.compile(pattern), role) for pattern, role in _LINE_ROLES)
_DERIVED_LINE_SUFFIX = re.compile(r" - from #.*$")
_SOURCE_STREAM = re.compile(r" - from #(\d{1,18})(?!\d)")
_SPARSE_CORE_PREFIX = re.compile(r"^sparsecore \w+ ", re.IGNORECASE)


def role_of_line(name: str) -> LineRole:
    """Role of a line of a device plane: ``XLA Ops`` -> ops, ``Stream #7(Kernel)`` -> stream."""
    base_name = _SPARSE_CORE_PREFIX.sub("", _DERIVED_LINE_SUFFIX.sub("", name)).strip().lower()
    return next((role for pattern, role in _LINE_ROLE_PATTERNS if pattern.match(base_name)), "other")


def role_of_lane(role: LineRole, part: str) -> LaneRole:
    """Role of the lane of a line with this role, on a device or a part of one (``SparseCore 0``).

    A device's steps, modules and ops are those of its TensorCore. Those of its SparseCores have roles of their own.
    """
    return _SPARSE_ROLES.get(role, role) if part else role


_SPARSE_ROLES: Final[Mapping[LineRole, LaneRole]] = {
    "steps": "sparse_steps",
    "modules": "sparse_modules",
    "ops": "sparse_ops",
}

_DEVICE_PLANE_PART: Final = re.compile(r"/device:\w+:\d+ (\S+)")


def core_type_of_plane(plane: str) -> str:
    """Type of the core that a plane shows: ``SparseCore`` of ``/device:TPU:0 SparseCore 1``; "" for a whole device."""
    match = _DEVICE_PLANE_PART.match(plane)
    return match[1] if match else ""


def ops_lane_name(stream: str, streams: int) -> str:
    """Name of the lane of ops derived from a stream's kernels; `streams` counts the device's streams that name ops."""
    return "XLA Ops" if streams == 1 else f"XLA Ops of {stream}"


def recorded_lane_name(line: str) -> str:
    """Name of the lane of a recorded line of ops or modules that is shown beside lanes derived from kernels."""
    return f"Recorded {line}"


def source_stream_of_line(line: str) -> int | None:
    """Stream from which XProf derived a line: 14 of ``XLA Ops - from #14``; None if not in its name."""
    match = _SOURCE_STREAM.search(line)
    return int(match[1]) if match else None


_INSTANCE_SUFFIX = re.compile(r"(\.(\d+|clone|remat\d*|sunk|kd))+$")


def opcode_of_name(name: str) -> str:
    """Probable opcode of an HLO op by its name: ``%all-reduce.22`` -> ``all-reduce``, and also for ``psum.7``.

    It is a guess: names may follow the framework. An HLO proto is more reliable.
    """
    base_name = _INSTANCE_SUFFIX.sub("", name.lstrip("%"))
    return _OPCODE_OF_PRIMITIVE.get(base_name, base_name)


_OPCODE_OF_PRIMITIVE: Final = {
    "psum": "all-reduce",
    "psum2": "all-reduce",
    "psum_invariant": "all-reduce",
    "pmax": "all-reduce",
    "pmin": "all-reduce",
    "all_gather": "all-gather",
    "all_gather_invariant": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "all_to_all": "all-to-all",
    "ragged_all_to_all": "ragged-all-to-all",
    "ppermute": "collective-permute",
}
"""JAX's collective primitives, after which XLA names the ops made from them, and the opcodes of these ops."""


def kernel_name_of_op(op: str) -> str:
    """Kernel name that XLA makes from an op's name, unless it is taken; on ROCm ``.kd`` may follow."""
    return re.sub(r"[^A-Za-z0-9_$]", "_", op)


_GPU_COPY_NAME = re.compile(
    r"mem_?cpy|^um_bytes_transfer|^copy(device|host|buffer)|rocclr_copy|copyimage", re.IGNORECASE
)
_GPU_MEMSET_NAME = re.compile(r"mem_?set|rocclr_fill|^fillbuffer", re.IGNORECASE)


def kind_of_gpu_event(name: str) -> EventKind:
    """Kind of an event on a GPU's stream, by the name of its kernel."""
    if is_communication_kernel(name):
        return "collective"
    if _GPU_COPY_NAME.search(name):
        return "copy"
    return "memset" if _GPU_MEMSET_NAME.search(name) else "kernel"


_HOST_EVENT_KINDS: tuple[tuple[EventKind, str], ...] = (
    ("python", r"^\$"),
    ("other", r"^ThreadpoolListener::|^end: "),
    (
        "sync",
        r"\bWait|\(wait |::Await\b|block_until_ready|block_on|Synchronize|StreamSync|EventSync|Rendezvous|Barrier\b"
        r"|Acquire semaphore|SemaphoreAcquire",
    ),
    (
        "compile",
        r"Compil|compile|trace_to_jaxpr|lower_sharding|XLA::TPU |LSRAv|HLO (passes|optimization)|Codegen|ThunkEmitter"
        r"|Pass(es)?( \(\S+\))?$|^mlir::|hlo normalization|^JF |LoadProgramCacheMiss|^MLIR|LLVM|SplitModule"
        r"|RunInvariantCheckers|TaskDispatcher::dispatch",
    ),
    (
        "transfer",
        r"Transfer(To|From|Shards|Literal)|H2D|D2H|D2D|CopyTo|copy_to_host|ToLiteral|BufferFromHost|FromHostBuffer"
        r"|DevicePut|device_put|[Mm]emcpy|[Ll]inearize|Transpose(Plan)?::|ParallelTranspose|MapDmaBuffer|np\.asarray"
        r"|copy_array_to_devices|GetDataShard|[Ii]nfeed|[Oo]utfeed|shard_arg|cpu_data_to_xla_device",
    ),
    (
        "runtime",
        r"::|^PjitFunction\(|:XLA GPU module$|^(cu|cuda|hip|nvtx)[A-Z]|^[A-Z][A-Za-z0-9]*[a-z][A-Z]\w*|^DCE$"
        r"|ParseArguments|PJRT_|ExecuteReplicated|Execut|Enqueue|^\[\d+\] |^Handle (inputs?|outputs?)\b"
        r"|^Memory(Alloc|Dealloc)ation|^Release semaphore|^Build buffer|^Resolve constant|ExtractIRAndPrepare"
        r"|ActualLoad|ReadSyncFlag|^Thunk|^Inliner$|^update_placeholder$|_get_xla_sharding_specs",
    ),
)
_HOST_EVENT_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _HOST_EVENT_KINDS)
_COMPILER_THREAD = re.compile(r"compiler|codegen", re.IGNORECASE)
_RUNTIME_THREAD = re.compile(
    r"tf_|tfrt|pjrt|py_xla|EventFD|switchto|Host Threads|grpc|llvm|ThreadPool|work_?queue", re.IGNORECASE
)


def thread_class(thread: str) -> str:
    """Class of a host thread by its name: ``compiler``, ``tf_`` (a runtime's pool), or ""."""
    if _COMPILER_THREAD.search(thread):
        return "compiler"
    return "tf_" if _RUNTIME_THREAD.match(thread) else ""


def kind_of_host_event(name: str, thread: str = "") -> EventKind:
    """Kind of an event on a host thread: known names of the runtimes, else the user's annotation.

    Steps are found by their stats, not by name. Compiler passes have names that a user could have chosen: events inside
    a compilation belong to it, which the caller checks.
    """
    for kind, pattern in _HOST_EVENT_PATTERNS[:2]:
        if pattern.search(name):
            return kind
    if _COMPILER_THREAD.search(thread):
        return "compile"
    for kind, pattern in _HOST_EVENT_PATTERNS[2:]:
        if pattern.search(name):
            return kind
    return "runtime" if _RUNTIME_THREAD.match(thread) else "annotation"


def kind_of_device_event(role: LineRole, name: str) -> EventKind:
    """Kind of an event on a device's line that is neither an op nor on a stream, by the role of the line."""
    if role == "modules":
        return "module"
    if role == "steps":
        return "step"
    if role == "scope":
        return "annotation"
    if role == "sync" or name in {"dependency-wait", "barrier-cores"}:
        return "sync"
    return "other"


_PROGRAM_THREAD = re.compile(r"(python\d*(\.\d+)?|main|MainThread)\b")


def is_program_thread(thread: str) -> bool:
    """True for the program's own thread, which is shown before the runtimes' pools."""
    return _PROGRAM_THREAD.match(thread) is not None


_LINE_WITH_IDLE_EVENTS: Final = re.compile(
    r"stream\b.*\b(memoryresidency|unifiedmemory)\b|cupti overhead$", re.IGNORECASE
)

_IDLE_EVENT: Final = re.compile(
    r"Memory \S+$|UM_(?!BYTES_TRANSFER_)|(DRIVER_)?COMPILER$|BUFFER_FLUSH$|INSTRUMENTATION$|RESOURCE$|<UNKNOWN>$"
    r"|(RUNTIME_TRIGGERED_MODULE|LAZY_FUNCTION)_LOADING$|COMMAND_BUFFER_FULL$|ACTIVITY_BUFFER_REQUEST$"
    r"|UVM_ACTIVITY_INIT$"
)
"""Events on GPU streams that keep nothing busy: lifetimes of memory, page faults, overhead of CUPTI.

CUPTI's collector names a line after its events: ``Stream #0(MemcpyH2D,MemoryResidency)``, or ``CUPTI overhead``."""


def may_have_idle_events(line: str) -> bool:
    """True if a line of this name may have events that keep nothing busy, besides work."""
    return _LINE_WITH_IDLE_EVENTS.match(line) is not None


def is_idle_event(name: str) -> bool:
    """True if an event of this name, on such a line, keeps nothing busy."""
    return _IDLE_EVENT.match(name) is not None


def side_lane_name(line: str) -> str:
    """Name of the lane for the idle events of a line."""
    return f"Beside {line}"
