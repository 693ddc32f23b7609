"""Whether a rank is several devices that its file does not tell apart (PyTorch/XLA on CPUs, SPMD).

Owns how that is known, and what it makes of numbers.
"""

from __future__ import annotations

import polars as pl

from tracehound.analysis.result import Share
from tracehound.notes import Note, note
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


def several(rows: pl.DataFrame, measured: str) -> list[Note]:
    """Which ranks (of rows with rank, and `beside` as above) are several devices; none: [].

    `measured` is what counts there of that which one of them communicates while another computes.
    """
    ranks = rows.filter(pl.col("beside") > 0)["rank"].unique().sort().to_list()
    if not ranks:
        return []
    return [note("ranks_of_several_devices", level="missing", ranks=tuple(ranks), measured=measured)]
