"""Host time by call path, and the device work that was launched on each path.

Owns how events become nodes of a tree, one for each path of names, and how the trees of several ranks become one. Which
events are nodes and what they are called is the analysis' business. The base of `stacks` and `modules`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.events.busy import local_parent, work
from tracehound.analysis.hosts.operator_tree import Tree, launchers, rows_of
from tracehound.analysis.members import JOINED, SHARED, grouped
from tracehound.analysis.result import Options, Share
from tracehound.forest import Forest, paths
from tracehound.formats.torch_names import STEP
from tracehound.intervals import Ints, Mask
from tracehound.nesting import nearest
from tracehound.own_time import self_time, unshared
from tracehound.sums import summed

HOST: Final = ("count", "total", "self", "inside", "backward_host")
DEVICE: Final = ("device_self", "launched", "backward_device")
"""What is counted on the host, the same for all ranks that it drives, and what on the device of each."""

AGAIN: Final = "recomputed "
"""What stands before the name of an event that backward() calls once more."""


class Names(NamedTuple):
    """What events are called: the number of each event's name, and the names in the order of their numbers."""

    number: Ints
    words: pl.Series


def names(events: pl.DataFrame, plain: Callable[[pl.Series], pl.Series]) -> Names:
    """The names of events as `plain` makes them of texts; names that it makes equal are one."""
    code = events["name"].to_physical().cast(pl.Int64).to_numpy()
    there = np.flatnonzero(np.bincount(code))
    first = np.empty(int(there.max(initial=-1)) + 1, np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    told = plain(events["name"].gather(first[there]).cast(pl.String))
    words = told.unique(maintain_order=True)
    number = np.empty(len(first), np.int64)
    number[there] = told.replace_strict(words, pl.int_range(len(words), eager=True), return_dtype=pl.Int64).to_numpy()
    return Names(number[code], words)


def plain(told: pl.Series) -> pl.Series:
    """Names without what makes each call another: addresses of objects, numbers of steps."""
    return told.str.replace_all(r" at 0x[0-9a-fA-F]+", "").str.replace(STEP, "$1")


class Called(NamedTuple):
    """What was called on the threads of a host, path by path, which all ranks that it drives have in common.

    `table` has a row for each thread and path, `node` the row of each event of `calls`, chosen or around (and at the
    end, for none, -1 as for what is in no chosen event). `gradient` has what each event works out the gradient of.
    """

    calls: Tree
    node: Ints
    gradient: Ints
    table: pl.DataFrame


def called(
    share: Share,
    calls: Tree,
    chosen: Mask,
    names: Names,
    options: Options,
    forward: Ints | None = None,
    apart: Ints | None = None,
) -> Called:
    """A row for each thread and path of `chosen` events in the window of the host, those above first.

    `lane`, `parent` (its row here, -1: a root), `name`, `kind`; `count`, `total` and `self` (less the chosen events
    inside); `inside`, the operators directly inside; `event`, the longest call, and its length `most`. Times in ps.

    With `forward` (see `autograd.forward_of`) `backward_host` is what the gradients of what was called directly inside
    took, and a chosen event that backward() calls again stands where it stood, with `AGAIN` before its name. Roots with
    other numbers in `apart` (which has one for each event) are other nodes; it is a column.
    """
    rows = np.flatnonzero(chosen)
    place = np.full(len(chosen) + 1, -1, np.int64)
    place[rows] = np.arange(len(rows))
    around = np.append(place[nearest(calls.parent, chosen)], -1)  # at or around each event, the place of a chosen one
    inside = around[calls.parent[rows]]
    gradient = np.full(len(chosen), -1, np.int64) if forward is None else forward
    stands, name, words = _standing(calls, rows, inside, names, gradient)
    lane = calls.events["lane"].to_numpy()[rows]
    told = np.zeros(len(chosen), np.int64) if apart is None else apart
    number = np.cumsum(np.append(False, lane[1:] != lane[:-1])[: len(lane)])
    root = number * (int(told.max(initial=0)) + 1) + told[rows]
    node, parent, first = paths(Forest(stands), name, root)
    of_event = np.append(np.append(node, -1)[around], -1)
    seen = _seen(calls, share)
    begin, end = _times(calls, share, rows, inside)
    length = end - begin
    many = len(parent)
    longest = _longest(node, np.where(seen[rows], length, -1), many)
    within = of_event[calls.parent][calls.operator & seen]
    table = pl.DataFrame(
        {
            "lane": lane[first],
            "apart": told[rows[first]],
            "parent": parent,
            "name": words.gather(name[first]),
            "kind": calls.events["kind"].gather(rows[first]).cast(pl.String),
            "count": summed(node, seen[rows].astype(np.int64), many),
            "total": summed(node, length, many),
            "self": summed(node, self_time(begin, end, inside), many),
            "inside": summed(within, np.ones_like(within), many),
            "backward_host": summed(*_gradients(calls, share, chosen, of_event, gradient), many),
            "event": calls.events["id"].gather(rows[longest]),
            "most": length[longest],
            **grouped(options, np.where(seen[rows], node, -1), calls.events["id"].gather(rows), many),
        }
    )
    return Called(calls, of_event, gradient, table)


def nodes(share: Share, found: Called) -> pl.DataFrame:
    """The paths of the rank's host, with the work of the rank's device in the window.

    `device_self` and `launched` of what was launched directly inside, `backward_device` of what the gradients of what
    was called there launched; `rank`, and of that rank all its `work`, what of it was launched in no chosen event
    (`unlaunched`), and of that what no launch is known of (`unknown`). Times in ps.
    """
    many = found.table.height
    done, call = _work(share, found.calls)
    launcher, later = _launchers(found, call)
    return found.table.with_columns(
        pl.Series("device_self", summed(launcher, done, many)),
        pl.Series("launched", summed(launcher, np.ones_like(launcher), many)),
        pl.Series("backward_device", summed(later, done, many)),
        pl.lit(share.rank, pl.Int64).alias("rank"),
        pl.lit(int(done.sum()), pl.Int64).alias("work"),
        pl.lit(int(done[(launcher < 0) & (later < 0)].sum()), pl.Int64).alias("unlaunched"),
        pl.lit(int(done[call < 0].sum()), pl.Int64).alias("unknown"),
    )


def _standing(calls: Tree, rows: Ints, inside: Ints, names: Names, gradient: Ints) -> tuple[Ints, Ints, pl.Series]:
    """Of each chosen event the one that it stands in, and its name; and all names.

    What backward() calls and nothing around it, as checkpointing does to have its inner values again, stands in what
    the last call of that name before it was in, and has another name there.
    """
    number = names.number[rows]
    if not (gradient >= 0).any():
        return inside, number, names.words
    backward = np.append(nearest(calls.parent, gradient >= 0), -1)[calls.parent[rows]] >= 0
    told = pl.DataFrame(
        {
            "name": number,
            "start": calls.events["start"].to_numpy()[rows],
            "inside": inside,
            "place": np.arange(len(rows)),
        }
    ).sort("start", "place")
    again = pl.Series((inside < 0) & backward).gather(told["place"])
    found = told.filter(again).join_asof(
        told.filter(~again).select("name", "start", pl.col("inside").alias("before")),
        on="start", by="name", strategy="backward", allow_exact_matches=False, check_sortedness=False,
    ).filter(pl.col("before").is_not_null())  # fmt: skip
    moved = found["place"].to_numpy()
    stands, name = inside.copy(), number.copy()
    stands[moved] = found["before"].to_numpy()
    name[moved] += len(names.words)
    return stands, name, names.words.append(AGAIN + names.words)


def _seen(calls: Tree, share: Share) -> Mask:
    """Which events lie in the window."""
    share = share.on_host
    start, end = (calls.events[name].to_numpy() for name in ("start", "end"))
    inside = np.minimum(end, share.end) > np.maximum(start, share.start)
    seen: Mask = inside | (start == end) & (start >= share.start) & (start <= share.end)
    return seen


def _times(calls: Tree, share: Share, rows: Ints, inside: Ints) -> tuple[Ints, Ints]:
    """When each of these events runs in the window: time that two of them on a thread share is the earlier one's.

    `inside` has the place among them of the one around each, -1 for none. What they share with others is theirs: a
    range ends in the frame that ends it.
    """
    share = share.on_host
    start, end, lane = (calls.events[name].to_numpy()[rows] for name in ("start", "end", "lane"))
    thread = np.cumsum(np.append(False, lane[1:] != lane[:-1])[: len(lane)])
    begin = np.clip(unshared(start, end, inside, thread), share.start, share.end)
    return begin, np.maximum(np.minimum(end, share.end), begin)


def _work(share: Share, calls: Tree) -> tuple[Ints, Ints]:
    """The time of each piece of work on the device, in the window, and the row of the event that launched it.

    An HLO op that contains others has the time that they leave it. What launched it is the launching call, else the
    operator that the profiler called the active one; -1 where none is known.
    """
    device = work(share, "launch", "external")
    start, end = (np.clip(device[side].to_numpy(), share.start, share.end) for side in ("start", "end"))
    call = rows_of(calls, device["launch"])
    return self_time(start, end, local_parent(device)), np.where(call >= 0, call, launchers(calls, device))


def _launchers(found: Called, call: Ints) -> tuple[Ints, Ints]:
    """The node in which each piece of work was launched, and the one whose gradient it works out; -1 for none."""
    gradient, launcher = found.gradient, found.node[call]
    if not (gradient >= 0).any():
        return launcher, np.full(len(call), -1, np.int64)
    backward = np.append(nearest(found.calls.parent, gradient >= 0), -1)[call]
    return launcher, np.where(launcher < 0, found.node[np.append(gradient, -1)[backward]], -1)


def _gradients(calls: Tree, share: Share, chosen: Mask, of_event: Ints, gradient: Ints) -> tuple[Ints, Ints]:
    """For each event of backward() the node whose gradient it works out, and its time without chosen events inside."""
    backward = gradient >= 0
    if not backward.any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    rows = np.flatnonzero(backward | chosen)
    place = np.full(len(chosen) + 1, -1, np.int64)
    place[rows] = np.arange(len(rows))
    inside = np.append(place[nearest(calls.parent, backward | chosen)], -1)[calls.parent[rows]]
    own = self_time(*_times(calls, share, rows, inside), inside)
    return of_event[gradient[backward]], own[backward[rows]]


def _longest(node: Ints, length: Ints, count: int) -> Ints:
    """Of each node the row of its longest event, of several the first."""
    most = np.full(count, -1, np.int64)
    np.maximum.at(most, node, length)
    rows = np.flatnonzero(length == most[node])[::-1]
    longest = np.zeros(count, np.int64)
    longest[node[rows]] = rows
    return longest


def merged(tables: Sequence[pl.DataFrame], threads: Sequence[str] | None = None) -> pl.DataFrame:
    """The nodes of all ranks and threads as trees, depth first, with the largest totals first.

    Ranks that share a host see the same calls, which count once, and each its own work. With `threads` (columns that
    say which threads are alike) the trees of others stay apart. Columns as above without `parent`, those of backward()
    with all below, and `depth`, `device_total` and `launched_total` (with all below, too), and `ranks`, how many ranks
    a path is on.
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
    once = _grouped(pl.concat(lifted, how="vertical_relaxed"), ["lane"], [pl.col(HOST).first(), SHARED], pl.col("rank"))
    ranks = pl.col("rank").explode().n_unique().cast(pl.Int64).alias("ranks")
    return _ordered(_grouped(once, threads or [], [pl.col(HOST).sum(), JOINED], ranks))


def _grouped(table: pl.DataFrame, roots: Sequence[str], host: Sequence[pl.Expr], rank: pl.Expr) -> pl.DataFrame:
    """The rows of one path (and of one value of the columns `roots`) as one, those above first."""
    name = table["name"].cast(pl.Categorical).to_physical().cast(pl.Int64).to_numpy()
    root = table.select(pl.struct(roots).rank("dense").cast(pl.Int64) if roots else pl.lit(0)).to_series().to_numpy()
    found = paths(Forest(table["parent"].to_numpy()), name, np.broadcast_to(root, len(name)))
    longest = pl.col("event").sort_by("most", "event", descending=[True, False]).first()
    same = [column for column in ("lane", "name", "kind", "thread") if column in table.columns]
    return (
        table.with_columns(pl.Series("node", found.node))
        .group_by("node")
        .agg(pl.col(same).first(), *host, pl.col(DEVICE).sum(), longest, pl.col("most").max(), rank)
        .sort("node")
        .with_columns(pl.Series("parent", found.parent))
    )


_BACKWARD: Final = ("backward_host", "backward_device")
_BELOW: Final = ("device_total", *_BACKWARD)


def _ordered(table: pl.DataFrame) -> pl.DataFrame:
    """The rows depth first, those in one row by their totals: of what did anything in the window, and what is above."""
    trees = Forest(table["parent"].to_numpy())
    table = table.with_columns(
        pl.Series("device_total", trees.summed(table["device_self"].to_numpy())),
        pl.Series("launched_total", trees.summed(table["launched"].to_numpy())),
        *(pl.Series(name, trees.summed(table[name].to_numpy())) for name in _BACKWARD),
        pl.Series("depth", trees.level),
    )
    place = pl.int_range(pl.len())
    by = table.select(place.sort_by("total", "device_total", "name", descending=[True, True, False])).to_series()
    rank = np.empty(table.height, np.int64)
    rank[by.to_numpy()] = np.arange(table.height)
    did = table.select(pl.any_horizontal(pl.col("count", "launched", *_BELOW) > 0)).to_series().to_numpy()
    order, there = trees.sorted(rank), trees.with_above(did)
    return table[order[there[order]]]


class Recorded(NamedTuple):
    """All work on the devices, what of it was launched in none of the nodes, and of that what no launch is known of.

    In ps over all ranks.
    """

    work: int
    unlaunched: int
    unknown: int


def recorded(tables: Sequence[pl.DataFrame]) -> Recorded:
    """The work on the devices of all ranks."""
    of_ranks = [table.row(0, named=True) for table in tables if table.height]
    return Recorded(*(sum(rank[name] for rank in of_ranks) for name in Recorded._fields))
