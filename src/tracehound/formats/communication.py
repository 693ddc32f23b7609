"""Which GPU kernels move data between devices, told by their names.

Owns these names: NCCL and its kin of other vendors, and the kernels with which inference engines and libraries
communicate without it. Knows no format; categories and args, where a file has them, come before names.
"""

from __future__ import annotations

import re
from functools import lru_cache

_FUSED = re.compile(r"triton_(?:poi|red|per|for|unk|split_scan|mix_order)_")
"""Inductor names a pointwise kernel or a reduction after all that it fuses, be it what follows an all-gather."""

_COMMUNICATION = re.compile(
    r"[nrh]ccl|oneccl|(?<![a-z])(?:xccl|mccl|cncl)|msccl"
    r"|nvshmem|roc_?shmem|ishmem|symm_mem|symmetric_memory::|multimem_"  # symmetric memory
    r"|cross_device_reduce|cross_device_store|quick_?reduce|trtllm_mnnvl"  # vLLM, SGLang, aiter, FlashInfer
    r"|deep_ep::(?!layout)|pplx::|(?<![a-z])a2a_|mori::|ep_?(?:dispatch|combine)_?(?:intra|inter)"  # expert parallelism
    r"|userbuffers|lamport"  # Transformer Engine, TensorRT-LLM
    r"|(?<![a-z])(?:all_?reduce|reduce_?scatter|all_?gather|all_?(?:to|2)_?all)"  # not in small_gather
    r"|(?-i:AllReduce|ReduceScatter|AllGather|AllToAll|All2All)",
    re.IGNORECASE,
)


@lru_cache(1 << 14)
def communicates(kernel: str) -> bool:
    """Whether a kernel of this name moves data between devices, alone or fused with what it computes.

    To look for all these words in a long name takes a while, and the files of a job have the same names.
    """
    return _COMMUNICATION.search(kernel) is not None and _FUSED.match(kernel) is None
