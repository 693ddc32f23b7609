"""What calls of devices' runtimes and drivers do, told by their names: launch, wait for the device, copy, or allocate.

Owns these names: of CUDA, HIP, MUSA, MTIA, Ascend's ACL, Cambricon's CNRT and its driver, Level Zero and SYCL's Unified
Runtime. Knows no format and no events.
"""

from __future__ import annotations

import re
from typing import Final

_RUNTIME: Final = r"^(?:cuda|cu|hip|musa|mu|mtia|aclrt|cn|cnrt|xpu|ze)"

CALL: Final = re.compile(_RUNTIME + r"[A-Z]|^ur[A-Z]")
"""Calls of any of them."""

_ZE_COPY: Final = r"^zeCommandListAppend(?:Memory|Image)Copy"
"""Level Zero's copies: of regions, from another context, from images and to them."""

LAUNCH: Final = re.compile(
    _RUNTIME + r"[A-Z]?\w*(?:Launch(?!HostFunc)|Memcpy|Memset)|^urEnqueue|^urBindlessImagesImageCopy"
    rf"|{_ZE_COPY}|^zeCommandListAppendMemory(?:Fill|Prefetch)|^zeCommandQueueExecute|^zeCommandListImmediateAppend"
    r"|^cn(?:rt)?InvokeKernel"
)
"""Calls that put work on a device."""

WAIT: Final = re.compile(r"Synchronize|^ur(?:EventWait|QueueFinish)|^cn(?:rt)?QueueSync|^cnrtSyncDevice")
"""Calls that return when the device is done: with all, with a stream's work, or with what is before an event."""

QUERY: Final = re.compile(_RUNTIME + r"(?:EventQuery|StreamQuery)$|^ze(?:Event|Fence)QueryStatus$")
"""Calls that ask whether it is: who waits may do so over and over."""

COPY: Final = re.compile(
    _RUNTIME + r"Memcpy|^urEnqueue(?:USMMemcpy|Mem(?:Buffer|Image)(?:Read|Write|Copy)|DeviceGlobalVariable)"
    rf"|^urBindlessImagesImageCopy|{_ZE_COPY}"
)
"""Calls for copies."""

BLOCKING: Final = re.compile(_RUNTIME + r"Memcpy(?!\w*Async)")
"""Calls for copies that return when the copy is done."""

ALLOCATION: Final = re.compile(
    _RUNTIME + r"(?:Malloc|Free|HostAlloc|HostMalloc|HostFree|HostRegister|HostUnregister"
    r"|Mem(?:Alloc|Free|Create|Map|Unmap|Release|Address))|^ur[A-Z]\w*(?:Alloc|Free)(?!Info)"
)
"""Calls that take memory from the device or the host, or give it back."""


_FAMILIES: Final = {
    "CUDA": re.compile(r"^(?:cuda|cu)[A-Z]"),
    "ROCm": re.compile(r"^hip[A-Z]"),
    "XPU": re.compile(r"^(?:xpu|ze|ur)[A-Z]"),
}


def family(name: str) -> str:
    """Whose runtime or driver a call of this name belongs to: CUDA, ROCm, XPU; empty for others."""
    return next((each for each, pattern in _FAMILIES.items() if pattern.match(name)), "")


def waits(name: str) -> bool:
    """Whether a call of this name waits for the device."""
    return WAIT.search(name) is not None
