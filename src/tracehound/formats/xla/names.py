"""What the names in an XLA profile mean: lines, HLO categories, host events, GPU events.

Owns the vocabulary of JAX, PyTorch/XLA and their runtimes. Pure functions of names; knows no bytes and no frames.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from tracehound.formats.communication import communicates

Kind = Literal[
    "kernel", "collective", "copy", "memset", "op", "runtime", "annotation", "step", "module", "python", "sync",
    "transfer", "compile", "other",
]  # fmt: skip
Role = Literal["steps", "modules", "ops", "stream", "async", "sync", "scope", "counter", "other"]

_ROLES: tuple[tuple[str, Role], ...] = (
    (r"stream\b|cupti overhead$", "stream"),
    (r"(async xla ops|host offload ops)$", "async"),
    (r"(xla ops( of stream\b.*)?|sparse core ops)$", "ops"),
    (r"(xla modules|sparse core modules)$", "modules"),
    (r"(steps|sparse core steps)$", "steps"),
    (r"(xla traceme|tensor core sync flag|sparse core syncs)$", "sync"),
    (r"((framework|tensorflow) (name scope|ops)|source code)$", "scope"),
    (r"_counters_$", "counter"),
)
_ROLE_PATTERNS = tuple((re.compile(pattern), role) for pattern, role in _ROLES)
_DERIVED = re.compile(r" - from #.*$")
_ORIGIN = re.compile(r" - from #(\d{1,18})(?!\d)")
_QUALIFIER = re.compile(r"^sparsecore \w+ ", re.IGNORECASE)


def role_of_line(name: str) -> Role:
    """What a line of a device plane shows: ``XLA Ops`` -> ops, ``Stream #7(Kernel)`` -> stream."""
    bare = _QUALIFIER.sub("", _DERIVED.sub("", name)).strip().lower()
    return next((role for pattern, role in _ROLE_PATTERNS if pattern.match(bare)), "other")


def role_of_lane(role: Role, part: str) -> Role:
    """The role of the lane of a line with this role, on a device or a part of one (``SparseCore 0``).

    A device's ops and modules are those of its TensorCore. What its SparseCores execute runs beside them, and is shown.
    """
    return "other" if part and role in ("ops", "modules") else role


def lane_of_ops(stream: str, streams: int) -> str:
    """The name of the lane of ops that is made of a stream's kernels; `streams` is how many of the device name ops."""
    return "XLA Ops" if streams == 1 else f"XLA Ops of {stream}"


def recorded(line: str) -> str:
    """The name of a lane of role other, for a line of ops or modules that is shown beside lanes made of the kernels."""
    return f"Recorded {line}"


def origin_of_line(line: str) -> int | None:
    """The stream from which XProf derived a line: 14 of ``XLA Ops - from #14``; None of lines that say none."""
    found = _ORIGIN.search(line)
    return int(found[1]) if found else None


SPARSE_CORE_OPS, SPARSE_CORE_MODULES = r"(?i)\bsparse core ops$", r"(?i)\bsparse core modules$"
"""How the names of lanes end that show what SparseCores execute."""

_INSTANCE = re.compile(r"(\.(\d+|clone|remat\d*|sunk|kd))+$")


def opcode_of_name(name: str) -> str:
    """What an HLO op's name suggests of its opcode: ``%all-reduce.22`` -> ``all-reduce``, ``psum.7``, too.

    Only a guess: names may follow the framework. Trust an HLO proto first.
    """
    bare = _INSTANCE.sub("", name.lstrip("%"))
    return _PRIMITIVES.get(bare, bare)


_PRIMITIVES: Final = {
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
"""JAX's primitives that communicate, after which XLA names the ops that it makes of them, and the opcodes of these."""


def kernel_name(op: str) -> str:
    """How XLA calls the kernel that it makes of an op, unless another is called so; on ROCm ``.kd`` may follow."""
    return re.sub(r"[^A-Za-z0-9_$]", "_", op)


_GPU_COPY = re.compile(r"mem_?cpy|^um_bytes_transfer|^copy(device|host|buffer)|rocclr_copy|copyimage", re.IGNORECASE)
_GPU_MEMSET = re.compile(r"mem_?set|rocclr_fill|^fillbuffer", re.IGNORECASE)


def kind_of_gpu_event(name: str) -> Kind:
    """The kind of an event on a GPU's stream, by the name of its kernel."""
    if communicates(name):
        return "collective"
    if _GPU_COPY.search(name):
        return "copy"
    return "memset" if _GPU_MEMSET.search(name) else "kernel"


_HOST: tuple[tuple[Kind, str], ...] = (
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
_HOST_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _HOST)
_COMPILER_THREAD = re.compile(r"compiler|codegen", re.IGNORECASE)
_RUNTIME_THREAD = re.compile(
    r"tf_|tfrt|pjrt|py_xla|EventFD|switchto|Host Threads|grpc|llvm|ThreadPool|work_?queue", re.IGNORECASE
)


def thread_class(thread: str) -> str:
    """A name that says as much of what runs on a thread as its own, one of three."""
    if _COMPILER_THREAD.search(thread):
        return "compiler"
    return "tf_" if _RUNTIME_THREAD.match(thread) else ""


def kind_of_host_event(name: str, thread: str = "") -> Kind:
    """The kind of an event on a host thread: what the runtimes are known to write, else the user's annotation.

    Steps are told by their stats, not by their name. Passes of the compiler have names that a user could have chosen:
    what lies inside a compilation belongs to it, which is for the caller to see.
    """
    for kind, pattern in _HOST_PATTERNS[:2]:
        if pattern.search(name):
            return kind
    if _COMPILER_THREAD.search(thread):
        return "compile"
    for kind, pattern in _HOST_PATTERNS[2:]:
        if pattern.search(name):
            return kind
    return "runtime" if _RUNTIME_THREAD.match(thread) else "annotation"


def kind_of_device_event(role: Role, name: str) -> Kind:
    """The kind of an event on a device's line that is neither an op nor on a stream, by what the line shows."""
    if role == "modules":
        return "module"
    if role == "steps":
        return "step"
    if role == "scope":
        return "annotation"
    if role == "sync" or name in {"dependency-wait", "barrier-cores"}:
        return "sync"
    return "other"


_LEADS = re.compile(r"(python\d*(\.\d+)?|main|MainThread)\b")


def leads(thread: str) -> bool:
    """Whether the thread is the program's own: it is shown before the runtimes' pools."""
    return _LEADS.match(thread) is not None
