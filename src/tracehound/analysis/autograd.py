"""Which operator of the forward pass an event of backward() belongs to, by autograd's sequence numbers.

Owns that. Knows no modules and no tables.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracehound.analysis.operator_tree import Tree
from tracehound.analysis.result import Share
from tracehound.intervals import Ints
from tracehound.trace import collected


def forward_of(share: Share, calls: Tree) -> Ints:
    """For each of the `calls` the row of the forward operator whose gradient it works out; -1 for all others.

    Autograd numbers the nodes of its graph, on each thread anew. An operator carries the number that the next node
    gets, so that the last operator which began with a number is the one that made the node. An event of backward()
    carries the number of its node, and that of the thread which made it ("Fwd thread id", which is no thread of the
    trace): it is taken for the lane on which most of its numbers are. A number without a forward operator (it ran
    before the profiler did) leads nowhere.
    """
    found = np.full(calls.events.height, -1, np.int64)
    told = share.facet("called").filter(pl.col("sequence") >= 0).select("record", "sequence", "forward")
    numbers = collected(told).unique("record", keep="first")
    if numbers.is_empty():
        return found
    records = collected(share.threads.select("lane", "start", "record")).with_row_index("row")
    known = records.join(numbers, on="record", how="inner", maintain_order="left").with_columns(
        pl.col("row").cast(pl.Int64), pl.col("forward").fill_null(0)
    )
    makers = (
        known.filter(pl.col("forward") <= 0)
        .sort("start", "row")
        .group_by("lane", "sequence")
        .agg(pl.col("row").last().alias("maker"), pl.col("start").last().alias("made"))
    )
    nodes = known.filter(pl.col("forward") > 0).select("row", "sequence", "forward", "start")
    pairs = nodes.join(makers, on="sequence", how="inner").filter(pl.col("made") <= pl.col("start"))
    lanes = pairs.group_by("forward", "lane").agg(pl.len().alias("count"))
    chosen = lanes.sort("forward", "count", "lane", descending=[False, True, False]).unique("forward", keep="first")
    pairs = pairs.join(chosen.select("forward", "lane"), on=["forward", "lane"], how="inner")
    found[pairs["row"].to_numpy()] = pairs["maker"].to_numpy()
    return found
