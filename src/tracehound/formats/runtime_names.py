"""Names of runtime calls, communication kernels and allocators, and what each name means.

Calls: of CUDA, HIP, MUSA, MTIA, Ascend's ACL, Cambricon's CNRT and its driver, Level Zero and SYCL's Unified Runtime.
Communication kernels: NCCL and its kin of other vendors, and the kernels with which inference engines and libraries
communicate without it; categories and args, where a file has them, come before names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import polars as pl

_RUNTIME_PREFIX: Final = r"^(?:cuda|cu|hip|musa|mu|mtia|aclrt|cn|cnrt|xpu|ze)"

RUNTIME_CALL: Final = re.compile(_RUNTIME_PREFIX + r"[A-Z]|^ur[A-Z]")
"""Any call of these runtimes and drivers."""

_ZE_COPY: Final = r"^zeCommandListAppend(?:Memory|Image)Copy"
"""Level Zero's copies: of regions, from another context, from images and to them."""

LAUNCH_CALL: Final = re.compile(
    _RUNTIME_PREFIX + r"[A-Z]?\w*(?:Launch(?!HostFunc)|Memcpy|Memset)|^urEnqueue|^urBindlessImagesImageCopy"
    rf"|{_ZE_COPY}|^zeCommandListAppendMemory(?:Fill|Prefetch)|^zeCommandQueueExecute|^zeCommandListImmediateAppend"
    r"|^cn(?:rt)?InvokeKernel"
)
"""Calls that put work on a device."""

RECORDED_LAUNCH_CALL: Final = re.compile(
    r"^(?:cuda|cu|hip|musa|mu)(?=[A-Z])(?!\w*(?:Memset|Graph(?!Launch)|HostFunc))\w*(?:Launch|Memcpy)"
    r"|^urEnqueue(?:KernelLaunch|USMMemcpy|MemBuffer(?:Read|Write|Copy))|^zeCommandListAppend(?:LaunchKernel|MemoryCopy)"
)
"""Calls whose work profilers record, with the same correlation id: launches of kernels and of graphs, and copies.

Not memsets: a memset of 0 bytes has no work, and no file says how many bytes a call sets.
"""

SINGLE_KERNEL_CALL: Final = re.compile(r"^(?!\w*(?:Graph|MultiDevice))\w*Launch(?!HostFunc)")
"""Those of these calls that launch one kernel."""

CAPTURE_START_CALL: Final = re.compile(r"^(?:cuda|cu|hip|musa|mu)StreamBeginCapture")
CAPTURE_END_CALL: Final = re.compile(r"^(?:cuda|cu|hip|musa|mu)StreamEndCapture")
"""Calls between which launches go into a graph, and not to the device."""

CAPTURE_START_FUNCTION: Final = re.compile(r"\bcapture_begin\b")
CAPTURE_END_FUNCTION: Final = re.compile(r"\bcapture_end\b")
"""PyTorch's functions around these calls, as the profiler names their frames."""

WAIT_CALL: Final = re.compile(r"Synchronize|^ur(?:EventWait|QueueFinish)|^cn(?:rt)?QueueSync|^cnrtSyncDevice")
"""Calls that return when the device is done: with all, with a stream's work, or with what is before an event."""

QUERY_CALL: Final = re.compile(_RUNTIME_PREFIX + r"(?:EventQuery|StreamQuery)$|^ze(?:Event|Fence)QueryStatus$")
"""Calls that ask whether the device is done; a program may poll with them."""

COPY_CALL: Final = re.compile(
    _RUNTIME_PREFIX + r"Memcpy|^urEnqueue(?:USMMemcpy|Mem(?:Buffer|Image)(?:Read|Write|Copy)|DeviceGlobalVariable)"
    rf"|^urBindlessImagesImageCopy|{_ZE_COPY}"
)
"""Calls for copies."""

BLOCKING_COPY_CALL: Final = re.compile(_RUNTIME_PREFIX + r"Memcpy(?!\w*Async)")
"""Calls for copies that return when the copy is done."""

ALLOCATION_CALL: Final = re.compile(
    _RUNTIME_PREFIX + r"(?:Malloc|Free|HostAlloc|HostMalloc|HostFree|HostRegister|HostUnregister"
    r"|Mem(?:Alloc|Free|Create|Map|Unmap|Release|Address))|^ur[A-Z]\w*(?:Alloc|Free)(?!Info)"
)
"""Calls that allocate or free memory of the device or the host."""


_FAMILIES: Final = {
    "CUDA": re.compile(r"^(?:cuda|cu)[A-Z]"),
    "ROCm": re.compile(r"^hip[A-Z]"),
    "XPU": re.compile(r"^(?:xpu|ze|ur)[A-Z]"),
}


def runtime_family(name: str) -> str:
    """Return the family of a call's runtime or driver: CUDA, ROCm, XPU; empty for others."""
    return next((each for each, pattern in _FAMILIES.items() if pattern.match(name)), "")


def is_wait_call(name: str) -> bool:
    """Return whether a call of this name waits for the device."""
    return WAIT_CALL.search(name) is not None


_FUSED_KERNEL = re.compile(r"triton_(?:poi|red|per|for|unk|split_scan|mix_order)_")
"""Inductor names a pointwise or reduction kernel after everything fused into it, even an all-gather that it only
follows.
"""

COMMUNICATION_KERNEL: Final = re.compile(
    r"[nrh]ccl|oneccl|(?<![a-z])(?:xccl|mccl|cncl)|msccl"
    r"|nvshmem|roc_?shmem|ishmem|symm_mem|symmetric_memory::|multimem_"  # symmetric memory
    r"|cross_device_reduce|cross_device_store|quick_?reduce|trtllm_mnnvl"  # vLLM, SGLang, aiter, FlashInfer
    r"|deep_ep::(?!layout)|pplx::|(?<![a-z])a2a_|mori::|ep_?(?:dispatch|combine)_?(?:intra|inter)"  # expert parallelism
    r"|userbuffers|lamport"  # Transformer Engine, TensorRT-LLM
    r"|hybrid_?ep::\w*(?:dispatch|combine)|(?<![a-z])(?:moe|ep|expert)_?(?:comm_?)?(?:a2a|dispatch|combine)|moe_comm::"
    r"|(?:one|two|multi|double|single)_?shot_?(?:all_?)?(?:reduce|gather)"
    r"|(?<![a-z])(?:all_?reduce|reduce_?scatter|all_?gather|all_?(?:to|2)_?all)"  # not in small_gather
    r"|(?-i:All_?[Rr]educe|Reduce_?[Ss]catter|All_?[Gg]ather|All_?(?:[Tt]o|2)_?[Aa]ll|(?<=[a-z])A2A)",
    re.IGNORECASE,
)
"""Kernels that move data between devices, and those named after what is fused into them."""


@lru_cache(1 << 14)
def is_communication_kernel(kernel: str) -> bool:
    """Return whether a kernel of this name moves data between devices, alone or fused with computation.

    Cached: the search in a long name is slow, and the files of a job have the same names.
    """
    return COMMUNICATION_KERNEL.search(kernel) is not None and _FUSED_KERNEL.match(kernel) is None


def allocator_columns() -> Sequence[pl.Expr]:
    """Expressions over the facet `held`: the allocator's `name` and its device (`ordinal`).

    The name is empty where only the device is known. A host's allocator (``CPU_0_bfc``, ``xla_gpu_host_bfc``) has no
    device.
    """
    allocator = pl.col("allocator").cast(pl.String)
    ordinal = allocator.str.extract(r"(?i)^(?:gpu|tpu|device)_(\d{1,6})_").cast(pl.Int64)
    return allocator.fill_null("").alias("name"), pl.coalesce(pl.col("device").cast(pl.Int64), ordinal).alias("ordinal")
