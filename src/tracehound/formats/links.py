"""Which host event launched which device event.

Owns the joins: by correlation id (Kineto, CUPTI, roctracer), by producer and consumer (TraceMe contexts) and by run id
(one execution of an XLA module). Knows no bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

Rows = npt.NDArray[np.int64]


def launches(raw: pl.DataFrame, lanes: pl.DataFrame, parent: Rows) -> Rows:
    """For every event the row of the host event that enqueued it, -1 where none is known.

    `raw` has the schema `RAW`, sorted; `lanes` has a row per lane. Only events on a rank's lanes have a launch. In
    order of trust: equal `correlation`; the host event whose `produces` is this event's `consumes`; the first host
    event of the same `run`; and for an op, the launch of the module execution on its rank in which it starts. One
    launch may have many device events (a graph).
    """
    on_device = lanes["rank"].is_not_null().gather(raw["lane"])
    rows = raw.select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("row"),
        "lane", "start", "end", "kind", "correlation", "produces", "consumes", "run", on_device.alias("device"),
    )  # fmt: skip
    host, device = rows.filter(~pl.col("device")), rows.filter(pl.col("device"))
    launch = np.full(raw.height, -1, np.int64)
    calls = host.filter(pl.col("kind").is_in(["runtime", "transfer", "op", "other"]))
    for here, there, among in (
        ("run", "run", host),
        ("consumes", "produces", host),
        ("correlation", "correlation", calls),
    ):
        found = _join(device, here, among, there)
        launch[found["row"].to_numpy()] = found["launch"].to_numpy()
    _inherit(launch, rows, lanes)
    _from_parent(launch, parent, on_device.to_numpy())
    return launch


def _join(device: pl.DataFrame, here: str, host: pl.DataFrame, there: str) -> pl.DataFrame:
    """(row, launch) of device events whose `here` is the `there` of a host event; of several the first."""
    calls = (
        host.filter(pl.col(there).is_not_null())
        .sort(pl.col("kind") != "runtime", "start", maintain_order=True)
        .unique(there, keep="first", maintain_order=True)
        .select(pl.col(there).alias("key"), pl.col("row").alias("launch"))
    )
    wanted = device.filter(pl.col(here).is_not_null()).select("row", pl.col(here).alias("key"))
    return wanted.join(calls, on="key").select("row", "launch")


def _inherit(launch: Rows, rows: pl.DataFrame, lanes: pl.DataFrame) -> None:
    """Give events without a launch that of the module execution, on the same rank, in which they start."""
    modules = lanes.filter((pl.col("role") == "modules") & pl.col("rank").is_not_null())
    lane, start, end = rows["lane"].to_numpy(), rows["start"].to_numpy(), rows["end"].to_numpy()
    rank_of = lanes["rank"].fill_null(-1).to_numpy()[lane]
    for module_lane, rank in modules.select("lane", "rank").iter_rows():
        runs = np.flatnonzero(lane == module_lane)
        orphans = np.flatnonzero((rank_of == rank) & (launch < 0) & (lane != module_lane))
        at = np.searchsorted(start[runs], start[orphans], side="right") - 1
        inside = (at >= 0) & (start[orphans] < end[runs[np.maximum(at, 0)]])
        launch[orphans[inside]] = launch[runs[at[inside]]]


def _from_parent(launch: Rows, parent: Rows, on_device: npt.NDArray[np.bool_]) -> None:
    """Give what nests inside a launched event its launch."""
    while True:
        orphans = np.flatnonzero((launch < 0) & (parent >= 0) & on_device)
        inherited = launch[parent[orphans]]
        known = inherited >= 0
        if not known.any():
            return
        launch[orphans[known]] = inherited[known]
