"""Which operator of the forward pass an event of backward() belongs to, by autograd's sequence numbers.

Owns that. Knows no modules and no tables.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.hosts.operator_tree import Tree, rows_of
from tracehound.analysis.result import Share
from tracehound.intervals import Ints
from tracehound.lookup import looked_up
from tracehound.nesting import nearest
from tracehound.trace import collected


class Gradients(NamedTuple):
    """For each call the row of the forward operator whose gradient it works out; -1 for all others.

    `guessed` is how many threads of the forward pass could as well be another: their numbers are the same.
    """

    of: Ints
    guessed: int = 0


def forward_of(share: Share, calls: Tree) -> Gradients:
    """The forward operators of the `calls`.

    Autograd numbers the nodes of its graph, on each thread anew. An operator carries the number that the next node
    gets, so that the last operator which began with a number is the one that made the node. An event of backward()
    carries the number of its node, and that of the thread which made it ("Fwd thread id", which is no thread of the
    trace). Each of these threads is taken for another lane: the one on which most of its numbers are; of several (as
    with nn.DataParallel) one that launches work on the rank's device if its gradients do, and else does not; of these
    the first to begin, for PyTorch counts threads as they begin. A number without a forward operator (it ran before the
    profiler did) leads nowhere, nor does a thread for which no lane is left.
    """
    found = np.full(calls.events.height, -1, np.int64)
    told = share.facet("called").filter(pl.col("sequence") >= 0).select("record", "sequence", "forward")
    numbers = collected(told)
    if numbers.is_empty():
        return Gradients(found)
    records = collected(share.threads.select("lane", "start", "record"))
    numbered = pl.concat([records, looked_up(numbers, "record", records["record"])], how="horizontal")
    known = numbered.with_columns(row=pl.int_range(pl.len()), forward=pl.col("forward").fill_null(0)).filter(
        pl.col("sequence").is_not_null()
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
    if lanes.select("forward", "count").is_duplicated().any():
        lanes = _launching(lanes, share, calls, nodes)
    else:
        lanes = lanes.with_columns(agrees=pl.lit(value=True))
    begun = makers.group_by("lane").agg(pl.col("made").min().alias("begun"))
    lane_of, guessed = _assigned(lanes.join(begun, on="lane"))
    pairs = pairs.join(lane_of, on=["forward", "lane"], how="inner")
    found[pairs["row"].to_numpy()] = pairs["maker"].to_numpy()
    return Gradients(found, guessed)


def _launching(lanes: pl.DataFrame, share: Share, calls: Tree, nodes: pl.DataFrame) -> pl.DataFrame:
    """With `agrees`: whether lane and gradients both launch work on the rank's device, or neither does."""
    launches = collected(share.anytime.select(pl.col("launch").drop_nulls().unique())).to_series()
    rows = rows_of(calls, launches)
    rows = rows[rows >= 0]
    forward = np.zeros(calls.events.height + 1, np.int64)  # of the event at hand, the last for none
    forward[nodes["row"].to_numpy()] = nodes["forward"].to_numpy()
    threads = np.unique(forward[nearest(calls.parent, forward[:-1] > 0)[rows]])
    on_device = np.unique(calls.events["lane"].to_numpy()[rows])
    return lanes.with_columns(
        agrees=pl.col("forward").is_in(threads.tolist()) == pl.col("lane").is_in(on_device.tolist())
    )


def _assigned(lanes: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """To each forward thread another lane: those that agree best first. And how many had several to choose from.

    `lanes` has the columns `forward`, `lane`, `count`, `agrees` and `begun`. One that is left without the lane which it
    could have had, since another chose that among several, counts too.
    """
    lanes = lanes.sort("count", "agrees", "forward", "begun", "lane", descending=[True, True, False, False, False])
    rivals = lanes.group_by("forward", "count", "agrees").agg("lane")
    equals = {tuple(key): set(alike) for *key, alike in rivals.iter_rows()}
    lane_of, taken, guessed = dict[int, int](), set[int](), set[int]()
    for forward, lane, *how in lanes.select("forward", "lane", "count", "agrees").iter_rows():
        if forward in lane_of or lane in taken:
            continue
        alike = equals[forward, *how]
        unsure = {lane_of[other] for other in guessed}
        if len(alike - taken) > 1 or alike & unsure:
            guessed.add(forward)
        lane_of[forward] = lane
        taken.add(lane)
    columns = {"forward": lanes.schema["forward"], "lane": lanes.schema["lane"]}
    return pl.DataFrame(list(lane_of.items()), schema=columns, orient="row"), len(guessed)
