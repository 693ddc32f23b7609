"""Whether a rank is several devices that its file does not tell apart (PyTorch/XLA on CPUs, SPMD).

Owns how that is known, and what it makes of numbers.
"""

from __future__ import annotations

import polars as pl

from tracehound.analysis.result import Share
from tracehound.trace import collected
from tracehound.units import which_ranks


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


def several(rows: pl.DataFrame, so: str) -> list[str]:
    """Which ranks (of rows with rank, and `beside` as above) are several devices, and what is so of them; none: []."""
    ranks = rows.filter(pl.col("beside") > 0)["rank"].unique().sort().to_list()
    if not ranks:
        return []
    one = f"{which_ranks(ranks)} {'is' if len(ranks) == 1 else 'are each'} several devices in one"
    return [f"{one}: which of them ran an HLO op is not recorded: what one communicates while another computes {so}"]
