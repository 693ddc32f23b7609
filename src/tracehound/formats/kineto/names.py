"""What Kineto's categories, names and data types mean, in every spelling since 2020.

Owns these tables. An event is classified by its category first and its name second, never by its process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Literal

from msgspec import Struct

from tracehound.formats.communication import communicates
from tracehound.formats.runtime_calls import waits
from tracehound.formats.torch_names import STEP, type_size

Row = Literal["thread", "stream", "annotations", "sync", "none"]


class Category(Struct, frozen=True):
    """What a category says: kind of its events, the lane they are drawn on, and the family of devices it implies.

    Row `thread` is a host's; `none` is not drawn.
    """

    kind: str
    row: Row
    family: str = ""


_PLAIN: Mapping[str, Category] = {
    "cpu_op": Category("op", "thread"),
    "operator": Category("op", "thread"),
    "user_annotation": Category("annotation", "thread"),
    "python_function": Category("python", "thread"),
    "python": Category("python", "thread"),
    "runtime": Category("runtime", "thread"),
    "driver": Category("runtime", "thread"),
    "kernel": Category("kernel", "stream"),
    "gpu_memcpy": Category("copy", "stream"),
    "memcpy": Category("copy", "stream"),
    "gpu_memset": Category("memset", "stream"),
    "memset": Category("memset", "stream"),
    "mtia_ccp_events": Category("kernel", "stream", "MTIA"),
    "hpu_op": Category("kernel", "stream", "HPU"),
    "collective_comm": Category("collective", "stream"),
    "gpu_user_annotation": Category("annotation", "annotations"),
    "cuda_event": Category("sync", "sync"),
    "trace": Category("other", "none"),
}
_BY_END = {
    "_runtime": Category("runtime", "thread"),
    "_driver": Category("runtime", "thread"),
    "_sync": Category("sync", "sync"),
}
_OTHER = Category("other", "thread")
_OVERHEAD = ("overhead", "instrumentation")
"""Categories of the profiler's own work, which is nothing else."""


def foreign(spelling: str) -> bool:
    """Whether a `cat` is none that PyTorch writes: what its events are is not known, wherever they are drawn."""
    return category(spelling) == _OTHER and spelling.lower() not in _OVERHEAD


def category(spelling: str) -> Category:
    """What a `cat` means; one that is unknown is a host's."""
    name = spelling.lower()
    if name in _PLAIN:
        return _PLAIN[name]
    found = next((value for end, value in _BY_END.items() if name.endswith(end)), _OTHER)
    return Category(found.kind, found.row, "XPU") if name.startswith("xpu_") else found


_COPY = re.compile(
    r"^__amd_rocclr_copy|^MEMORY_COPY|^Copy(?:Host|Device)To(?:Host|Device)|^(?:hip)?Memcpy", re.IGNORECASE
)
_FILL = re.compile(r"^__amd_rocclr_fill|^FillBuffer|^(?:hip)?Memset", re.IGNORECASE)
_STEP = re.compile(STEP)


def kernel_kind(name: str) -> str:
    """Kind of a kernel by its name: `collective`, `copy` (ROCm copies are kernels), `memset` or `kernel`."""
    if _COPY.search(name):
        return "copy"
    if _FILL.search(name):
        return "memset"
    return "collective" if communicates(name) else "kernel"


_DMA = re.compile(r"^dma", re.IGNORECASE)


def moves_on_mtia(name: str) -> bool:
    """Whether a kernel of an MTIA of this name is a copy: its DMA engines' work is filed among the kernels."""
    return _DMA.match(name) is not None


def call_kind(name: str) -> str:
    """Kind of a call of the runtime: `sync` where it waits for the device, else `runtime`."""
    return "sync" if waits(name) else "runtime"


_MARKED = re.compile(r"Optimizer\.\w+#|enumerate\((?:DataLoader|DataPipe)\)#|DistributedDataParallel\.")


def operator_kind(name: str) -> str:
    """Kind of what is categorised as an operator: PyTorch's own marks (`record_function`) were so in 2021."""
    return "annotation" if _MARKED.match(name) else "op"


def copy_kind(name: str) -> str:
    """Kind of what is categorised as a copy: ROCm files fills there too."""
    return "memset" if _FILL.search(name) else "copy"


def step_number(name: str) -> int:
    """The step that a mark of this name marks, -1 for what is no mark."""
    match = _STEP.match(name)
    return int(match[2]) if match else -1


def message_bytes(elements_in: int, elements_out: int, dtype: object) -> int:
    """Size of a collective's message in bytes: the larger of what goes in and what comes out of one rank.

    For all-reduce and broadcast these are equal; for all-gather it is the output, for reduce-scatter the input.
    -1 where the file does not tell.
    """
    size = max(elements_in, elements_out) * type_size(dtype)
    return _true_size(size)


def tensor_bytes(dims: object, types: object) -> int:
    """Bytes of the tensors among an operator's inputs, by `Input Dims` and `Input type`; -1 without any."""
    if not isinstance(dims, Sequence) or not isinstance(types, Sequence):
        return -1
    total = sum(_elements(shape) * type_size(dtype) for shape, dtype in zip(dims, types, strict=False))
    return _true_size(total)


def _true_size(size: int) -> int:
    return size if 0 < size < 2**63 else -1


def _elements(shape: object) -> int:
    if not isinstance(shape, list):
        return 0
    tensors = [inner for inner in shape if isinstance(inner, list)] or [shape]
    return sum(prod(size for size in sizes if isinstance(size, int)) for sizes in tensors)


_THREAD = re.compile(r"(?:thread\s+)?(-?\d+)(?:\s*\((.*)\))?\s*$")


def thread_name(recorded: str, tid: object) -> str:
    """A thread's name for people: ``thread 5714 (python)`` becomes ``python (5714)``, no name ``thread 5714``.

    `tid` is None where the file gives events no thread.
    """
    match = _THREAD.match(recorded.strip())
    own = (match[2] if match else recorded.strip()) or ""
    if tid is None:
        return own or "no thread"
    if not own:
        return f"thread {tid}"
    return own if str(tid) in own else f"{own} ({tid})"
