"""Whether kernels of a GPU may have run in command buffers of XLA, where they may name no op, and what helps.

Owns how that is known. Knows no ops and no programs.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from tracehound.analysis.graphs import LAUNCH
from tracehound.analysis.result import Share
from tracehound.formats.xla.lanes import EXECUTING
from tracehound.trace import collected

NAMING: Final = "XLA_FLAGS=--xla_gpu_enable_command_buffer="
"""What has XLA launch each kernel by itself on a GPU: in a graph none names its op."""


def buffered(share: Share) -> bool:
    """Whether the rank executes modules of XLA, or its host says that it does so or launches graphs."""
    if share.lanes.filter(pl.col("rank").is_not_null() & (pl.col("role") == "modules")).height:
        return True
    calls = share.threads.filter(pl.col("kind") == "runtime").select(pl.col("name").unique().cast(pl.String))
    found = collected(calls.filter(pl.col("name").str.contains(f"{EXECUTING}$|{LAUNCH}")))
    return found.height > 0
