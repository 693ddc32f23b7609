"""Kinds of Kineto events by category and name, in every spelling since 2020.

An event is classified by its category first and its name second, never by its process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from tracehound.formats.name_filter import NameFilter
from tracehound.formats.runtime_names import COMMUNICATION_KERNEL, WAIT_CALL, is_communication_kernel, is_wait_call
from tracehound.formats.torch_names import STEP_MARK

LaneRole = Literal["thread", "stream", "annotations", "sync", "none"]
"""Role of the lane of an event: a host thread, a device's lane, or `none` for events that are not drawn."""


class Category(Struct, frozen=True):
    """Kind of the events of a category, the role of their lane, and the device family that the category implies."""

    kind: str
    role: LaneRole
    family: str = ""


_CATEGORIES: Mapping[str, Category] = {
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
    "enqueue": Category("runtime", "thread"),
    "dequeue": Category("runtime", "thread"),
    "node": Category("op", "thread"),
    "session": Category("annotation", "thread"),
    "api": Category("runtime", "thread"),
}
"""Categories by their spelling in lower case; the last five are those of torch_npu and ONNX Runtime."""

_CATEGORIES_BY_SUFFIX = {
    "_runtime": Category("runtime", "thread"),
    "_driver": Category("runtime", "thread"),
    "_sync": Category("sync", "sync"),
}
_UNKNOWN_CATEGORY = Category("other", "thread")
_OVERHEAD_CATEGORIES = ("overhead", "instrumentation")
"""Categories of the profiler's own work."""


def is_unknown_category(spelling: str) -> bool:
    """True for a `cat` that PyTorch does not write: the kind of its events is unknown."""
    return parse_category(spelling) == _UNKNOWN_CATEGORY and spelling.lower() not in _OVERHEAD_CATEGORIES


@lru_cache(1 << 10)
def parse_category(spelling: str) -> Category:
    """Category of a `cat`; an unknown one is treated as work of a host thread."""
    name = spelling.lower()
    if name in _CATEGORIES:
        return _CATEGORIES[name]
    found = next((value for end, value in _CATEGORIES_BY_SUFFIX.items() if name.endswith(end)), _UNKNOWN_CATEGORY)
    return Category(found.kind, found.role, "XPU") if name.startswith("xpu_") else found


_COPY_KERNEL_NAME = re.compile(
    r"^__amd_rocclr_copy|^MEMORY_COPY|^Copy(?:Host|Device)To(?:Host|Device)|^(?:hip)?Memcpy", re.IGNORECASE
)
_MEMSET_KERNEL_NAME = re.compile(r"^__amd_rocclr_fill|^FillBuffer|^(?:hip)?Memset", re.IGNORECASE)
_STEP_NAME = re.compile(STEP_MARK)


def kernel_kind(name: str) -> str:
    """Kind of a kernel by its name: `collective`, `copy` (ROCm copies are kernels), `memset` or `kernel`."""
    if _COPY_KERNEL_NAME.search(name):
        return "copy"
    if _MEMSET_KERNEL_NAME.search(name):
        return "memset"
    return "collective" if is_communication_kernel(name) else "kernel"


_DMA_KERNEL_NAME = re.compile(r"^dma", re.IGNORECASE)


def is_mtia_copy(name: str) -> bool:
    """True for the name of an MTIA kernel that is a copy: MTIA records the work of its DMA engines as kernels."""
    return _DMA_KERNEL_NAME.match(name) is not None


_COMMUNICATION_ENGINE = re.compile(r"(?<![a-z])(?:NIC|STM|RDMA)", re.IGNORECASE)
_COPY_ENGINE = re.compile("DMA", re.IGNORECASE)


def engine_kind(engine: str) -> str:
    """Kind of the work of an engine of Intel Gaudi, by the hardware event: `collective`, `copy` or `kernel`.

    Network ports and their streams communicate, DMA engines copy; MME and TPC compute.
    """
    if _COMMUNICATION_ENGINE.search(engine):
        return "collective"
    return "copy" if _COPY_ENGINE.search(engine) else "kernel"


def runtime_call_kind(name: str) -> str:
    """Kind of a runtime call: `sync` if it waits for the device, else `runtime`."""
    return "sync" if is_wait_call(name) else "runtime"


_RECORD_FUNCTION_NAME = re.compile(r"Optimizer\.\w+#|enumerate\((?:DataLoader|DataPipe)\)#|DistributedDataParallel\.")


def operator_kind(name: str) -> str:
    """Kind of an event with the category of operators.

    In 2021 PyTorch gave that category to its own `record_function` ranges, too.
    """
    return "annotation" if _RECORD_FUNCTION_NAME.match(name) else "op"


def copy_kind(name: str) -> str:
    """Kind of an event with the category of copies: ROCm gives it to fills, too."""
    return "memset" if _MEMSET_KERNEL_NAME.search(name) else "copy"


def step_number(name: str) -> int:
    """Number of the step that a name such as ``ProfilerStep#3`` marks; -1 for other names."""
    match = _STEP_NAME.match(name)
    return int(match[2]) if match else -1


NAMES_WITH_KINDS = NameFilter(
    _COPY_KERNEL_NAME, _MEMSET_KERNEL_NAME, COMMUNICATION_KERNEL, WAIT_CALL, _RECORD_FUNCTION_NAME, _STEP_NAME
)
"""Finds the names that may have another kind than their category, or mark a step."""
