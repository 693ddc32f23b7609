"""XLA command buffers on GPUs, in which kernels may not name their op, and the flag that turns them off.

Knows no ops and no programs.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from tracehound.analysis.graphs import LAUNCH_PATTERN
from tracehound.analysis.rank_trace import RankTrace
from tracehound.formats.xla.op_executions import EXECUTION_EVENT_SUFFIX
from tracehound.model.trace import collect_frame

NO_COMMAND_BUFFERS_FLAG: Final = "XLA_FLAGS=--xla_gpu_enable_command_buffer="
"""The XLA flag that launches each kernel by itself on a GPU: kernels in a graph do not name their op."""


def may_use_command_buffers(rank_trace: RankTrace) -> bool:
    """True where the rank executes modules of XLA, or its host executes them or launches graphs."""
    if rank_trace.lanes.filter(pl.col("rank").is_not_null() & (pl.col("role") == "modules")).height:
        return True
    calls = rank_trace.threads.filter(pl.col("kind") == "runtime").select(pl.col("name").unique().cast(pl.String))
    found = collect_frame(calls.filter(pl.col("name").str.contains(f"{EXECUTION_EVENT_SUFFIX}$|{LAUNCH_PATTERN}")))
    return found.height > 0
