"""Host time by call path, and the device work that was launched on each path.

Events become nodes of a tree, one for each path of names, and the trees of several ranks become one. The analysis
chooses which events are nodes and their names. The base of `stacks` and `modules`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.hosts.operator_tree import CallTree, launching_operators, rows_of_ids
from tracehound.analysis.rank_trace import RankTrace
from tracehound.analysis.result import JOINED_EVENTS, SHARED_EVENTS, Options, counted_events_per_group
from tracehound.analysis.timing.device_busy import device_work, parent_rows
from tracehound.formats.torch_names import STEP_MARK
from tracehound.numeric.intervals import Ints, Mask
from tracehound.numeric.nesting import nearest_chosen_ancestor
from tracehound.numeric.self_time import exclusive_starts, self_time
from tracehound.numeric.trees import Trees, group_by_path, sum_groups

HOST_COLUMNS: Final = ("count", "total", "self", "inside", "backward_host")
DEVICE_COLUMNS: Final = ("device_self", "launched", "backward_device")
"""Columns of the host, equal for all ranks that it drives, and of each rank's device."""

RECOMPUTED_PREFIX: Final = "recomputed "
"""Prefix of the name of an event that backward() calls again."""


class EventNames(NamedTuple):
    """Names of events: the number of each event's name, and the names in the order of their numbers."""

    number: Ints
    words: pl.Series


def number_event_names(events: pl.DataFrame, plain: Callable[[pl.Series], pl.Series]) -> EventNames:
    """The names of events after `plain`; names that it makes equal are one."""
    code = events["name"].to_physical().cast(pl.Int64).to_numpy()
    there = np.flatnonzero(np.bincount(code))
    first = np.empty(int(there.max(initial=-1)) + 1, np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    plain_texts = plain(events["name"].gather(first[there]).cast(pl.String))
    words = plain_texts.unique(maintain_order=True)
    number = np.empty(len(first), np.int64)
    number[there] = plain_texts.replace_strict(
        words, pl.int_range(len(words), eager=True), return_dtype=pl.Int64
    ).to_numpy()
    return EventNames(number[code], words)


def plain_names(texts: pl.Series) -> pl.Series:
    """Names without the parts that differ from call to call: addresses of objects, numbers of steps."""
    return texts.str.replace_all(r" at 0x[0-9a-fA-F]+", "").str.replace(STEP_MARK, "$1")


class CalledPaths(NamedTuple):
    """Call paths on the threads of a host, which all ranks that it drives have in common.

    `table` has a row for each thread and path, `node` its row for each event of `calls`, chosen or around (-1 for
    events in no chosen event, and one more -1 at the end). `gradient` has the forward operator of each event.
    """

    calls: CallTree
    node: Ints
    gradient: Ints
    table: pl.DataFrame


def find_call_paths(
    rank_trace: RankTrace,
    calls: CallTree,
    chosen: Mask,
    names: EventNames,
    options: Options,
    forward: Ints | None = None,
    apart: Ints | None = None,
) -> CalledPaths:
    """A row for each thread and path of `chosen` events in the window of the host, ancestors first.

    `lane`, `parent` (its row here, -1: a root), `name`, `kind`; `count`, `total` and `self` (less the chosen events
    inside); `inside`, the operators directly inside; `event`, the longest call, and its length `most`. Times in ps.

    With `forward` (see `operator_tree.find_forward_operators`) `backward_host` is the time of the gradients of the
    operators directly inside, and a chosen event that backward() calls again stays at its path, with
    `RECOMPUTED_PREFIX` before its name. Roots with different numbers in `apart` (one for each event) are different
    nodes; it is a column.
    """
    rows = np.flatnonzero(chosen)
    place = np.full(len(chosen) + 1, -1, np.int64)
    place[rows] = np.arange(len(rows))
    around = np.append(
        place[nearest_chosen_ancestor(calls.parent, chosen)], -1
    )  # index of the chosen event at or around each event
    inside = around[calls.parent[rows]]
    gradient = np.full(len(chosen), -1, np.int64) if forward is None else forward
    placed_in, name, words = _place_recomputed_calls(calls, rows, inside, names, gradient)
    lane = calls.events["lane"].to_numpy()[rows]
    root_numbers = np.zeros(len(chosen), np.int64) if apart is None else apart
    number = np.cumsum(np.append(False, lane[1:] != lane[:-1])[: len(lane)])
    root = number * (int(root_numbers.max(initial=0)) + 1) + root_numbers[rows]
    node, parent, first = group_by_path(Trees(placed_in), name, root)
    of_event = np.append(np.append(node, -1)[around], -1)
    seen = _is_in_window(calls, rank_trace)
    begin, end = _times_in_window(calls, rank_trace, rows, inside)
    length = end - begin
    many = len(parent)
    longest = _longest_event_per_node(node, np.where(seen[rows], length, -1), many)
    within = of_event[calls.parent][calls.operator & seen]
    table = pl.DataFrame(
        {
            "lane": lane[first],
            "apart": root_numbers[rows[first]],
            "parent": parent,
            "name": words.gather(name[first]),
            "kind": calls.events["kind"].gather(rows[first]).cast(pl.String),
            "count": sum_groups(node, seen[rows].astype(np.int64), many),
            "total": sum_groups(node, length, many),
            "self": sum_groups(node, self_time(begin, end, inside), many),
            "inside": sum_groups(within, np.ones_like(within), many),
            "backward_host": sum_groups(*_gradient_times(calls, rank_trace, chosen, of_event, gradient), many),
            "event": calls.events["id"].gather(rows[longest]),
            "most": length[longest],
            **counted_events_per_group(options, np.where(seen[rows], node, -1), calls.events["id"].gather(rows), many),
        }
    )
    return CalledPaths(calls, of_event, gradient, table)


def add_device_work(rank_trace: RankTrace, found: CalledPaths) -> pl.DataFrame:
    """The paths of the rank's host, with the work of the rank's device in the window.

    `device_self` and `launched` of the work launched directly inside, `backward_device` of the work that its gradients
    launched; `rank`, and of that rank all its `work`, the part of it launched in no chosen event (`unlaunched`), and of
    that the part without a known launch (`unknown`). Times in ps.
    """
    many = found.table.height
    done, call = _device_time_and_launcher(rank_trace, found.calls)
    launcher, later = _launching_nodes(found, call)
    return found.table.with_columns(
        pl.Series("device_self", sum_groups(launcher, done, many)),
        pl.Series("launched", sum_groups(launcher, np.ones_like(launcher), many)),
        pl.Series("backward_device", sum_groups(later, done, many)),
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
        pl.lit(int(done.sum()), pl.Int64).alias("work"),
        pl.lit(int(done[(launcher < 0) & (later < 0)].sum()), pl.Int64).alias("unlaunched"),
        pl.lit(int(done[call < 0].sum()), pl.Int64).alias("unknown"),
    )


def _place_recomputed_calls(
    calls: CallTree, rows: Ints, inside: Ints, names: EventNames, gradient: Ints
) -> tuple[Ints, Ints, pl.Series]:
    """For each chosen event the one it belongs in, and its name; and all names.

    An event that backward() calls with nothing around it (as checkpointing does, to recompute activations) belongs in
    the parent of the last earlier call of that name, and has another name there.
    """
    number = names.number[rows]
    if not (gradient >= 0).any():
        return inside, number, names.words
    backward = np.append(nearest_chosen_ancestor(calls.parent, gradient >= 0), -1)[calls.parent[rows]] >= 0
    ordered = pl.DataFrame(
        {
            "name": number,
            "start": calls.events["start"].to_numpy()[rows],
            "inside": inside,
            "place": np.arange(len(rows)),
        }
    ).sort("start", "place")
    again = pl.Series((inside < 0) & backward).gather(ordered["place"])
    found = ordered.filter(again).join_asof(
        ordered.filter(~again).select("name", "start", pl.col("inside").alias("before")),
        on="start", by="name", strategy="backward", allow_exact_matches=False, check_sortedness=False,
    ).filter(pl.col("before").is_not_null())  # fmt: skip
    moved = found["place"].to_numpy()
    placed_in, name = inside.copy(), number.copy()
    placed_in[moved] = found["before"].to_numpy()
    name[moved] += len(names.words)
    return placed_in, name, names.words.append(RECOMPUTED_PREFIX + names.words)


def _is_in_window(calls: CallTree, rank_trace: RankTrace) -> Mask:
    """Mask of the events in the window."""
    rank_trace = rank_trace.with_host_window
    start, end = (calls.events[name].to_numpy() for name in ("start", "end"))
    inside = np.minimum(end, rank_trace.end) > np.maximum(start, rank_trace.start)
    seen: Mask = inside | (start == end) & (start >= rank_trace.start) & (start <= rank_trace.end)
    return seen


def _times_in_window(calls: CallTree, rank_trace: RankTrace, rows: Ints, inside: Ints) -> tuple[Ints, Ints]:
    """Times of these events in the window; time that two of them on a thread share belongs to the earlier one.

    `inside` has the index among them of the one around each, -1 for none. Time shared with other events is theirs: a
    range ends in the frame that ends it.
    """
    rank_trace = rank_trace.with_host_window
    start, end, lane = (calls.events[name].to_numpy()[rows] for name in ("start", "end", "lane"))
    thread = np.cumsum(np.append(False, lane[1:] != lane[:-1])[: len(lane)])
    begin = np.clip(exclusive_starts(start, end, inside, thread), rank_trace.start, rank_trace.end)
    return begin, np.maximum(np.minimum(end, rank_trace.end), begin)


def _device_time_and_launcher(rank_trace: RankTrace, calls: CallTree) -> tuple[Ints, Ints]:
    """The time of each piece of work on the device, in the window, and the row of the event that launched it.

    An HLO op that contains others has its self time. The launcher is the launching call, else the operator that the
    profiler recorded as active; -1 if none is known.
    """
    device = device_work(rank_trace, "launch", "external")
    start, end = (np.clip(device[side].to_numpy(), rank_trace.start, rank_trace.end) for side in ("start", "end"))
    call = rows_of_ids(calls, device["launch"])
    return self_time(start, end, parent_rows(device)), np.where(call >= 0, call, launching_operators(calls, device))


def _launching_nodes(found: CalledPaths, call: Ints) -> tuple[Ints, Ints]:
    """The node in which each piece of work was launched, and the node whose gradient it computes; -1 for none."""
    gradient, launcher = found.gradient, found.node[call]
    if not (gradient >= 0).any():
        return launcher, np.full(len(call), -1, np.int64)
    backward = np.append(nearest_chosen_ancestor(found.calls.parent, gradient >= 0), -1)[call]
    return launcher, np.where(launcher < 0, found.node[np.append(gradient, -1)[backward]], -1)


def _gradient_times(
    calls: CallTree, rank_trace: RankTrace, chosen: Mask, of_event: Ints, gradient: Ints
) -> tuple[Ints, Ints]:
    """For each event of backward() the node whose gradient it computes, and its time without chosen events inside."""
    backward = gradient >= 0
    if not backward.any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    rows = np.flatnonzero(backward | chosen)
    place = np.full(len(chosen) + 1, -1, np.int64)
    place[rows] = np.arange(len(rows))
    inside = np.append(place[nearest_chosen_ancestor(calls.parent, backward | chosen)], -1)[calls.parent[rows]]
    own = self_time(*_times_in_window(calls, rank_trace, rows, inside), inside)
    return of_event[gradient[backward]], own[backward[rows]]


def _longest_event_per_node(node: Ints, length: Ints, count: int) -> Ints:
    """For each node the row of its longest event, of several the first."""
    most = np.full(count, -1, np.int64)
    np.maximum.at(most, node, length)
    rows = np.flatnonzero(length == most[node])[::-1]
    longest = np.zeros(count, np.int64)
    longest[node[rows]] = rows
    return longest


def merge_call_paths(tables: Sequence[pl.DataFrame], threads: Sequence[str] | None = None) -> pl.DataFrame:
    """The nodes of all ranks and threads as trees, depth first, with the largest totals first.

    The ranks of a host have equal calls, which count once, and each its own work. With `threads` (columns that say
    which threads are alike) the trees of other threads stay separate. Columns as above without `parent`, those of
    backward() including all descendants, and `depth`, `device_total` and `launched_total` (including descendants), and
    `ranks`, the number of ranks with a path.
    """
    filled = [table for table in tables if table.height]
    if not filled:
        return pl.DataFrame()
    before = np.cumsum([0, *(table.height for table in filled[:-1])])
    lifted = [
        table.with_columns(
            pl.when(pl.col("parent") >= 0).then(pl.col("parent") + int(rows)).otherwise(-1).alias("parent")
        )
        for table, rows in zip(filled, before, strict=True)
    ]
    once = _merge_equal_paths(
        pl.concat(lifted, how="vertical_relaxed"),
        ["lane"],
        [pl.col(HOST_COLUMNS).first(), SHARED_EVENTS],
        pl.col("rank"),
    )
    ranks = pl.col("rank").explode().n_unique().cast(pl.Int64).alias("ranks")
    return _sort_depth_first(
        _merge_equal_paths(once, threads or [], [pl.col(HOST_COLUMNS).sum(), JOINED_EVENTS], ranks)
    )


def _merge_equal_paths(
    table: pl.DataFrame, roots: Sequence[str], host: Sequence[pl.Expr], rank: pl.Expr
) -> pl.DataFrame:
    """The rows of one path (and of one value of the columns `roots`) as one, ancestors first."""
    name = table["name"].cast(pl.Categorical).to_physical().cast(pl.Int64).to_numpy()
    root = table.select(pl.struct(roots).rank("dense").cast(pl.Int64) if roots else pl.lit(0)).to_series().to_numpy()
    found = group_by_path(Trees(table["parent"].to_numpy()), name, np.broadcast_to(root, len(name)))
    longest = pl.col("event").sort_by("most", "event", descending=[True, False]).first()
    same = [column for column in ("lane", "name", "kind", "thread") if column in table.columns]
    return (
        table.with_columns(pl.Series("node", found.node))
        .group_by("node")
        .agg(pl.col(same).first(), *host, pl.col(DEVICE_COLUMNS).sum(), longest, pl.col("most").max(), rank)
        .sort("node")
        .with_columns(pl.Series("parent", found.parent))
    )


_BACKWARD_COLUMNS: Final = ("backward_host", "backward_device")
_COLUMNS_WITH_DESCENDANTS: Final = ("device_total", *_BACKWARD_COLUMNS)


def _sort_depth_first(table: pl.DataFrame) -> pl.DataFrame:
    """The rows depth first, siblings by their totals: rows with anything in the window, and their ancestors."""
    trees = Trees(table["parent"].to_numpy())
    table = table.with_columns(
        pl.Series("device_total", trees.subtree_sums(table["device_self"].to_numpy())),
        pl.Series("launched_total", trees.subtree_sums(table["launched"].to_numpy())),
        *(pl.Series(name, trees.subtree_sums(table[name].to_numpy())) for name in _BACKWARD_COLUMNS),
        pl.Series("depth", trees.depths),
    )
    place = pl.int_range(pl.len())
    by = table.select(place.sort_by("total", "device_total", "name", descending=[True, True, False])).to_series()
    rank = np.empty(table.height, np.int64)
    rank[by.to_numpy()] = np.arange(table.height)
    did = (
        table.select(pl.any_horizontal(pl.col("count", "launched", *_COLUMNS_WITH_DESCENDANTS) > 0))
        .to_series()
        .to_numpy()
    )
    order, there = trees.sort_siblings(rank), trees.with_ancestors(did)
    return table[order[there[order]]]


class DeviceWorkTotals(NamedTuple):
    """All work on the devices, the part launched in none of the nodes, and of that the part without a known launch.

    In ps over all ranks.
    """

    work: int
    unlaunched: int
    unknown: int


def sum_device_work(tables: Sequence[pl.DataFrame]) -> DeviceWorkTotals:
    """The work on the devices of all ranks."""
    of_ranks = [table.row(0, named=True) for table in tables if table.height]
    return DeviceWorkTotals(*(sum(rank[name] for rank in of_ranks) for name in DeviceWorkTotals._fields))
