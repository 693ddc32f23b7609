"""Call tree of the operators of a host, the device work that they launched, and forward operators of backward events.

Climbs from an event to the operator around it, past frames and ranges.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.rank_trace import RankTrace
from tracehound.analysis.timing.device_busy import parent_rows
from tracehound.model.trace import collect_contiguous, collect_frame
from tracehound.numeric.id_set import find_rows, look_up_rows
from tracehound.numeric.intervals import Ints, Mask
from tracehound.numeric.nesting import nearest_chosen_ancestor

OPERATOR_KINDS: Final = ("op", "collective")
"""Kinds of host events that are operators; gloo's collectives are, too."""


class CallTree(NamedTuple):
    """All events of a host's threads, sorted by id, and how they call one another, as rows of `events`.

    `parent` has the innermost event around each, `above` the innermost that is no Python frame, `around` the innermost
    operator at or around it (itself, if it is one); -1 without one. `operator` is the mask of operators. `threads` has
    these events with all of their columns.
    """

    events: pl.DataFrame
    parent: Ints
    operator: Mask
    above: Ints
    around: Ints
    threads: pl.LazyFrame

    @property
    def caller(self) -> Ints:
        """The operator that called each event: the innermost around it that is not itself; -1 without one."""
        return np.where(self.operator, np.append(self.around, -1)[self.above], self.around)


def read_call_tree(rank_trace: RankTrace) -> CallTree:
    """The calls on the threads of the rank's host, at any time."""
    events = collect_contiguous(rank_trace.threads, ("id", "parent"))
    parent = parent_rows(events)
    rest = collect_contiguous(rank_trace.threads, ("start", "end"), ("lane", "name", "kind"))
    events = pl.concat([events.select("id"), rest], how="horizontal")
    operator = events["kind"].is_in(OPERATOR_KINDS).to_numpy()
    recorded = (events["kind"] != "python").to_numpy()
    above = parent if recorded.all() else np.append(nearest_chosen_ancestor(parent, recorded), -1)[parent]
    return CallTree(events, parent, operator, above, nearest_chosen_ancestor(above, operator), rank_trace.threads)


def launching_operators(calls: CallTree, work: pl.DataFrame) -> Ints:
    """For each event of a device the row of the operator that launched it, -1 if none is known.

    It is the innermost operator around the launching call, else the one that the profiler recorded as active ("External
    id"). `work` needs the columns `launch` and `external`.
    """
    found = np.append(calls.around, -1)[rows_of_ids(calls, work["launch"])]
    rest = np.flatnonzero((found < 0) & work["external"].is_not_null().to_numpy())
    if len(rest):
        found[rest] = _operators_by_external_id(calls, work["external"][rest].to_numpy())
    return found


def _operators_by_external_id(calls: CallTree, wanted: Ints) -> Ints:
    """Rows of the operators with these external ids, of several the first; -1 without one."""
    ids = collect_frame(calls.threads.select("external"))["external"]
    operators = np.flatnonzero(calls.operator & ids.is_not_null().to_numpy())
    if len(operators) == 0:
        return np.full(len(wanted), -1, np.int64)
    external = ids.fill_null(-1).to_numpy()
    by_id = operators[np.argsort(external[operators], kind="stable")]
    at = by_id[np.minimum(np.searchsorted(external[by_id], wanted), len(by_id) - 1)]
    return np.where(external[at] == wanted, at, -1)


def rows_of_ids(calls: CallTree, ids: pl.Series) -> Ints:
    """Rows of the events with these ids, -1 without one."""
    return find_rows(calls.events["id"].to_numpy(), ids.fill_null(-1).to_numpy())


class ForwardOperators(NamedTuple):
    """For each call the row of the forward operator whose gradient it computes; -1 for all others.

    `guessed` is the number of forward threads that could as well be another: their numbers are equal.
    """

    of: Ints
    guessed: int = 0


def find_forward_operators(rank_trace: RankTrace, calls: CallTree) -> ForwardOperators:
    """The forward operators of the `calls`, by autograd's sequence numbers.

    Autograd numbers the nodes of its graph on each thread separately. An operator carries the number that the next node
    gets, so that the last operator which began with a number made the node. An event of backward() carries the number
    of its node, and that of the thread which made it ("Fwd thread id", which is no thread of the trace). Each of these
    threads is assigned to another lane: the one with most of its numbers; of several (as with nn.DataParallel) one that
    launches work on the rank's device if its gradients do, and else one that does not; of these the first to begin,
    because PyTorch counts threads as they begin. A number without a forward operator (it ran before the profiler did)
    leads nowhere, nor does a thread for which no lane is left.
    """
    found = np.full(calls.events.height, -1, np.int64)
    numbered_calls = rank_trace.facet("called").filter(pl.col("sequence") >= 0).select("record", "sequence", "forward")
    numbers = collect_frame(numbered_calls)
    if numbers.is_empty():
        return ForwardOperators(found)
    records = collect_frame(rank_trace.threads.select("lane", "start", "record"))
    numbered = pl.concat([records, look_up_rows(numbers, "record", records["record"])], how="horizontal")
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
        lanes = _add_launch_agreement(lanes, rank_trace, calls, nodes)
    else:
        lanes = lanes.with_columns(agrees=pl.lit(value=True))
    begun = makers.group_by("lane").agg(pl.col("made").min().alias("begun"))
    lane_of, guessed = _assign_lanes(lanes.join(begun, on="lane"))
    pairs = pairs.join(lane_of, on=["forward", "lane"], how="inner")
    found[pairs["row"].to_numpy()] = pairs["maker"].to_numpy()
    return ForwardOperators(found, guessed)


def _add_launch_agreement(
    lanes: pl.DataFrame, rank_trace: RankTrace, calls: CallTree, nodes: pl.DataFrame
) -> pl.DataFrame:
    """The lanes with `agrees`: lane and gradients both launch work on the rank's device, or neither does."""
    launches = collect_frame(rank_trace.device_anytime.select(pl.col("launch").drop_nulls().unique())).to_series()
    rows = rows_of_ids(calls, launches)
    rows = rows[rows >= 0]
    forward = np.zeros(calls.events.height + 1, np.int64)  # by row, the last for none
    forward[nodes["row"].to_numpy()] = nodes["forward"].to_numpy()
    threads = np.unique(forward[nearest_chosen_ancestor(calls.parent, forward[:-1] > 0)[rows]])
    on_device = np.unique(calls.events["lane"].to_numpy()[rows])
    return lanes.with_columns(
        agrees=pl.col("forward").is_in(threads.tolist()) == pl.col("lane").is_in(on_device.tolist())
    )


def _assign_lanes(lanes: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Assign a different lane to each forward thread, those that agree best first; and count the ambiguous ones.

    `lanes` has the columns `forward`, `lane`, `count`, `agrees` and `begun`. A thread counts as ambiguous, too, if the
    lane it could have had was taken by another ambiguous thread.
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
