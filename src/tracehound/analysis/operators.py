"""Which operators of PyTorch take the time, on the host and on the device."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.devices.silence import nothing
from tracehound.analysis.events.busy import work
from tracehound.analysis.events.numbering import Pairs, alike, codes, most, turns
from tracehound.analysis.hosts.operator_tree import Tree, launchers, tree
from tracehound.analysis.members import JOINED, SHARED, grouped
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, share_of, without
from tracehound.analysis.settings import Setting, one_of
from tracehound.forest import Forest
from tracehound.formats.torch_names import MODULE
from tracehound.ids import part_of
from tracehound.intervals import Ints, Mask
from tracehound.lookup import looked_up
from tracehound.nesting import again, nearest
from tracehound.notes import Note, note
from tracehound.own_time import self_time
from tracehound.sums import summed
from tracehound.trace import PROFILERS, collected

BY: Final = Setting(
    "by",
    "name",
    "what tells rows apart besides the operator: nothing more (name), the shapes of its inputs (shape), the operator"
    " that called it (parent), the nearest nn.Module around it (module) or the nearest Python frame (frame)",
    one_of("name", "shape", "parent", "module", "frame"),
)

DEFINITION = """\
Operators are what PyTorch records as such on the host's threads (cpu_op: aten::mm, autograd nodes, custom ops), and the
collectives of gloo, on threads of its own. host total = time from call to return; host self = that less the time of the
operators, ranges and runtime calls directly inside (Python frames are looked through). device self = lengths of the
kernels, copies and memsets launched from inside the operator and from no operator within it: by the launching call,
else by the id of the active operator that the profiler gave them ("External id"). device total = that and the device
self of all operators inside. Lengths are summed, not united: work that overlaps on two streams counts twice. With a
window all times are those inside it; work counts by when it ran, whenever it was launched. share is device self of all
device time, also of work that no operator launched; host share is host self of all operators'. event is the call with
the largest device total, or the longest where nothing was launched.

These are the Self CPU, CPU total, Self CUDA, CUDA total and # of Calls of PyTorch's key_averages() and of
torch_tb_profiler's operator view, but that a total counts no call twice which lies inside a call of the same row.
key_averages() has rows for ranges and runtime calls too, counts two calls as one where all that the outer calls is one
of its own name, and with stacks takes the time of Python frames from the operators around them. TraceLens unites the
kernels of an operator instead of summing them, and leaves out communication."""

COLUMNS = (
    Column("name", "text", "operator"),
    Column("inside", "text", "what it was called in, with by=parent, module or frame; with by=shape, on which shapes"),
    Column("count", "count", "calls"),
    Column("host_self", "time", "on the host, less what it called"),
    Column("host_total", "time", "on the host, from call to return", brief=False),
    Column("host_share", "share", "host self", "the host self time of all operators", brief=False),
    Column("device_self", "time", "of work on the device launched by it, not by operators inside"),
    Column("device_total", "time", "of work on the device launched by it or by operators inside"),
    Column("share", "share", "device self", "the time of all work on the devices"),
    Column("launched", "count", "kernels, copies and memsets launched by it, not by operators inside", brief=False),
    Column("ranks", "count", "ranks on which it ran", brief=False),
    Column("event", "id", "the call with the largest device time"),
)

_KEY: Final = ("name", "inside")
_HOST: Final = ("count", "host_self", "host_total")
_DEVICE: Final = ("device_self", "device_total", "launched")


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each thread and operator; of what other ranks of the same host see too: calls and host times."""
    calls = tree(share)
    if not calls.operator.any():
        return pl.DataFrame()
    device = work(share, "launch", "external")
    clipped = np.minimum(device["end"].to_numpy(), share.end) - np.maximum(device["start"].to_numpy(), share.start)
    by = launchers(calls, device)
    caller = calls.caller
    counted = _measured(calls, caller, by, clipped, share.on_host)
    around = _inside(calls, BY.of(options.given), share)
    number = Pairs(calls.events["name"], _threads(calls)).numbers
    if BY.of(options.given) != "name":
        number, _ = alike(number, codes(around.cast(pl.Categorical)))
    group = np.where(counted.operator, number, -1)
    outer = np.where(again(caller, calls.operator, number), -1, group)
    many = int(number.max()) + 1
    most_of = most(group, counted.device_total, counted.host_total, many)
    there = np.flatnonzero(most_of >= 0)
    row = most_of[there]
    members = grouped(options, np.where(counted.seen, group, -1), calls.events["id"], many)
    return pl.DataFrame(
        {
            "lane": calls.events["lane"].gather(row),
            "event": calls.events["id"].gather(row),
            "name": calls.events["name"].gather(row).cast(pl.String),
            "inside": around.gather(row).cast(pl.String),
            "count": summed(group, counted.seen.astype(np.int64), many)[there],
            **{name: summed(group, getattr(counted, name), many)[there] for name in _SELF},
            **{name: summed(outer, getattr(counted, name), many)[there] for name in _TOTAL},
            "most": counted.device_total[row],
            **{name: each.gather(there) for name, each in members.items()},
        }
    ).with_columns(
        pl.lit(share.rank, pl.Int64).alias("rank"),
        pl.lit(int(clipped.sum()), pl.Int64).alias("work"),
        pl.lit(int(clipped[by < 0].sum()), pl.Int64).alias("unlaunched"),
    )


_SELF: Final = ("host_self", "device_self", "launched")
_TOTAL: Final = ("host_total", "device_total")


def _threads(calls: Tree) -> pl.Series:
    """The number of each event's thread, from 0 on."""
    lane = calls.events["lane"].to_numpy()
    first = np.append(0, turns(lane))
    narrow = np.uint8 if len(first) < 1 << 8 else np.uint32
    return pl.Series(np.repeat(np.arange(len(first), dtype=narrow), np.diff(np.append(first, len(lane)))))


class Counted(NamedTuple):
    """What the events of the host's threads did in a window; of all of them, in their order.

    `operator` marks the operators that ran there, or launched what ran there, `seen` all that ran there. Times are
    those there, ps; the totals are with what each calls, and `launched` counts what it launched itself.
    """

    operator: Mask
    seen: Mask
    host_self: Ints
    host_total: Ints
    device_self: Ints
    device_total: Ints
    launched: Ints


def _measured(calls: Tree, caller: Ints, by: Ints, clipped: Ints, share: Share) -> Counted:
    """What the operators did; `by` has the operator that launched each event of the device.

    The times of the host and those of the device are passes of their own: each has a thread.
    """
    start, end = (calls.events[name].to_numpy() for name in ("start", "end"))
    begin, until, seen = _within(start, end, share)
    frame = (calls.events["kind"] == "python").to_numpy()
    with ThreadPoolExecutor(1) as beside:
        host = beside.submit(self_time, begin, np.where(frame, begin, until) if frame.any() else until, calls.above)
        launched, own = (summed(by, values, len(start)) for values in (np.ones(len(by), np.int64), clipped))
        total = Forest(caller).summed(own)
    return Counted(
        operator=calls.operator if seen.all() else calls.operator & (seen | (Forest(caller).summed(launched) > 0)),
        seen=seen,
        host_self=host.result(),
        host_total=np.maximum(until - begin, 0),
        device_self=own,
        device_total=total,
        launched=launched,
    )


def _within(start: Ints, end: Ints, share: Share) -> tuple[Ints, Ints, Mask]:
    """The times of calls in the window, and which are there: all of the many, where it holds the whole run."""
    if share.start <= start.min() and end.max() <= share.end:
        return start, end, np.ones(len(start), np.bool_)
    begin, until = (np.clip(times, share.start, share.end) for times in (start, end))
    return begin, until, (until > begin) | (start == end) & (start >= share.start) & (start <= share.end)


def _inside(calls: Tree, by: str, share: Share) -> pl.Series:
    """What each event was called in, or with."""
    names = calls.events["name"]
    if by == "name":
        return pl.Series("inside", [None], names.dtype).new_from_index(0, len(names))
    if by == "shape":
        return _shapes(calls, share).alias("inside")
    if by == "parent":
        at = calls.caller
    else:
        frame = calls.events["kind"] == "python"
        chosen = frame & names.cat.starts_with(MODULE) if by == "module" else frame
        at = nearest(calls.parent, chosen.to_numpy())
    return pl.select(pl.when(pl.Series(at >= 0)).then(names.gather(np.maximum(at, 0))).alias("inside")).to_series()


def _shapes(calls: Tree, share: Share) -> pl.Series:
    """The shapes of each event's inputs, as JSON; null where they were not recorded."""
    records = collected(share.threads.select("id", "record"))
    dims = collected(share.facet("called").select("record", "dims"))
    record = looked_up(records, "id", calls.events["id"])["record"]
    return looked_up(dims, "record", record)["dims"]


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per operator over all ranks, the largest device self time first, then the largest host self time."""
    recorded = [number for number, form in enumerate(scene.formats) if PROFILERS[form] == "PyTorch"]
    filled = [table.filter(part_of(pl.col("event")).is_in(recorded)) for table in tables if table.height]
    if not any(table.height for table in filled):
        return without(ANALYSIS, scene, options, _why_empty(scene))
    rows = pl.concat(filled, how="vertical_relaxed")
    ranks = rows.group_by("rank").agg(pl.col("work", "unlaunched").first())
    whole, unlaunched = (int(ranks[name].sum()) for name in ("work", "unlaunched"))
    of_threads = rows.group_by("lane", *_KEY).agg(
        pl.col(_HOST).first(),  # ranks that share a host see the same calls
        pl.col(_DEVICE).sum(),
        pl.col("event").sort_by("most", "rank", descending=[True, False]).first(),
        pl.col("most").max(),
        pl.col("rank"),
        SHARED,
    )
    table = of_threads.group_by(_KEY).agg(
        pl.col(*_HOST, *_DEVICE).sum(),
        pl.col("event").sort_by("most", "host_total", "event", descending=[True, True, False]).first(),
        pl.col("rank").explode().n_unique().cast(pl.Int64).alias("ranks"),
        JOINED,
    )
    on_host = int(table["host_self"].sum())
    works = bool(whole or table["launched"].sum())
    table = table.with_columns(
        share_of("host_self", on_host).alias("host_share"),
        share_of("device_self", whole).alias("share"),
        *(pl.col(name) if works else pl.lit(None, pl.Int64).alias(name) for name in _DEVICE),
    ).sort("device_self", "host_self", *_KEY, descending=[True, True, False, False], nulls_last=True)
    return answer(ANALYSIS, table, scene, options, _notes(whole, unlaunched, works=works))


def _notes(whole: int, unlaunched: int, *, works: bool) -> list[Note]:
    if not works:
        return [note("host_times_only")]
    return [note("device_time_outside_operators", unlaunched=unlaunched, work=whole)] if unlaunched else []


def _why_empty(scene: Scene) -> Note:
    if scene.xla:
        return note("no_operators_in_xla_profile", level="missing")
    return nothing(scene, note("no_operators"), note("record_host_events", profiler="PyTorch"))


ANALYSIS = Analysis(
    name="operators",
    title="Operators",
    question="Which operators of PyTorch take the time, on the host and on the device?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="count",
    settings=(BY,),
)
