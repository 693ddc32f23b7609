"""Whether a rank is several devices that its file does not tell apart (PyTorch/XLA on CPUs, SPMD).

Owns how that is known.
"""

from __future__ import annotations

import polars as pl

from tracehound.analysis.result import Share
from tracehound.trace import collected


def beside(share: Share) -> int:
    """How many executions of HLO ops begin while the same op runs on the same lane, which one device never does.

    Devices with a clock of their own (TPU) have lanes of their own, and are not asked.
    """
    lanes = share.lanes.filter(pl.col("work") & pl.col("rank").is_not_null() & (pl.col("role") == "ops"))
    if lanes.is_empty():
        return 0
    here = pl.col("lane").is_in(lanes["lane"].to_list())
    known = share.device.filter(here & pl.col("op").is_not_null() & pl.col("device_start").is_null())
    rows = collected(known.select("lane", "op", "start", "end").sort("lane", "op", "start"))
    reach = pl.col("end").cum_max().shift(1).over("lane", "op")
    return int(rows.select((pl.col("start") < reach).sum()).item())
