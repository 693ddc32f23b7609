"""Copies of a rank between memories: direction, bytes, and the time in which the device only waits for them.

Copies are ops that start and await them on a TPU's cores, or events on the streams of a GPU. The direction is spelled
by a copy's own name, else by the call that launched it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.devices.async_ops import exposed_time, find_async_ops
from tracehound.analysis.hosts.host_threads import host_events_by_id
from tracehound.analysis.rank_trace import RankTrace, overlapping_events
from tracehound.analysis.timing.device_busy import COPY_KINDS, busy_intervals_in_window, device_work
from tracehound.analysis.timing.row_groups import NameKindPairs, category_codes, group_rows
from tracehound.formats.xla.op_kinds import HOST_MEMORY_NAME, parse_copy
from tracehound.model.trace import collect_frame
from tracehound.model.units import PS_PER_S
from tracehound.numeric.id_set import look_up_rows
from tracehound.numeric.intervals import EMPTY_INTERVALS, Intervals, Ints, merge, subtract, union


class DeviceCopies(NamedTuple):
    """The copies of a rank, and the time in which its device only waits for them.

    `rows` has a row for each copy, `waits` for each interval that a core spends on one (`own` is its self time); both
    with the columns `COPY_KEY`. Streams have no such intervals, but `work` that hides copies. `start` and `end` bound
    the device's time. All times are on the device's own clock, if it has one; ps.
    """

    rows: pl.DataFrame
    waits: pl.DataFrame
    work: Intervals | None
    start: int
    end: int

    @property
    def in_flight(self) -> Intervals:
        """Intervals with a copy in flight."""
        return union(self.rows["start"].to_numpy(), self.rows["end"].to_numpy())

    @property
    def in_flight_with_rate(self) -> Intervals:
        """Intervals with a copy in flight whose rate is known."""
        rows = self.rows.drop_nulls("moved")
        return union(rows["start"].to_numpy(), rows["end"].to_numpy())

    def select(self, mine: pl.Expr) -> DeviceCopies:
        """The copies for which the expression on columns of `COPY_KEY` is true."""
        return self._replace(rows=self.rows.filter(mine), waits=self.waits.filter(mine))

    def exposed_time(self) -> tuple[int, int]:
        """The time in which the device only waits for them, and the part of their time in flight that is not hidden.

        Ps.
        """
        if self.work is not None:
            alone = subtract(self.in_flight, self.work).length
            return alone, alone
        return exposed_time(self.waits, self.start, self.end)


COPY_KEY: Final = ("source", "target", "name", "module")
_COPY_COLUMNS: Final = ("id", "start", "end", "bytes", "moved", *COPY_KEY)


def find_device_copies(rank_trace: RankTrace) -> DeviceCopies:
    """The copies of a rank, clipped to the window."""
    found = _core_copies(rank_trace)
    return found if found.rows.height else _stream_copies(rank_trace)


def _core_copies(rank_trace: RankTrace) -> DeviceCopies:
    """The copies that the cores' own ops start and wait for (TPU)."""
    cores = find_async_ops(rank_trace)
    if cores is None:
        return NO_COPIES
    hlo_copies = copies_in_hlo(cores.ops)
    return DeviceCopies(
        _clip_queued_copies(cores.all_ops.join(hlo_copies, on="op"), cores.start, cores.end).select(_COPY_COLUMNS),
        cores.core_times.join(hlo_copies, on="op").select("id", "start", "end", "own", *COPY_KEY),
        None,
        cores.start,
        cores.end,
    )


def copies_in_hlo(ops: pl.DataFrame) -> pl.DataFrame:
    """Copies in the HLO lines of ops: `op`, `source`, `target`, `bytes` of one, `name`, `module`.

    Ops that wait for a copy have no row.
    """
    may_copy = pl.concat_str("category", "text", separator=" ", ignore_nulls=True).str.contains(_COPY_TEXT_PATTERN)
    rows = [
        (op, *copy, name, module or "")
        for op, name, category, module, text in ops.filter(may_copy)
        .select("op", "name", "category", "module", "text")
        .iter_rows()
        if (copy := parse_copy(name, category or "", text or "")) is not None
    ]
    names = ("op", "source", "target", "bytes", "name", "module")
    return pl.DataFrame(rows, schema={name: _HLO_COPY_TYPES.get(name, pl.String()) for name in names}, orient="row")


_COPY_TEXT_PATTERN: Final = r"\b(copy|copy-start|async-start)\(|\b(infeed|outfeed|send|recv)\b"
"""Pattern in the category and line of ops that copy; other ops need no closer look."""

_HLO_COPY_TYPES: Final[Mapping[str, pl.DataType]] = {"op": pl.Int64(), "bytes": pl.Int64()}


def _stream_copies(rank_trace: RankTrace) -> DeviceCopies:
    """The copies on the device's streams (GPU)."""
    streams = rank_trace.lanes.filter(pl.col("rank").is_not_null() & pl.col("work") & (pl.col("role") == "stream"))
    events = device_work(rank_trace, "lane", "name", "bytes", "launch")
    mine = (
        pl.col("lane").is_in(streams["lane"].to_list())
        & pl.col("kind").is_in(COPY_KINDS)
        & (pl.col("kind") != "memset")
    )
    rows = events.filter(mine)
    if rows.is_empty():
        return NO_COPIES
    number, kinds = _number_copy_kinds(rank_trace, rows)
    sources, targets = zip(*map(copy_endpoints, kinds), strict=True)
    state = busy_intervals_in_window(events, rank_trace)
    copies = rows.with_columns(
        pl.col("name").cast(pl.String),
        pl.Series("source", sources).gather(number),
        pl.Series("target", targets).gather(number),
        pl.lit("").alias("module"),
    )
    inside = _clip_even_copies(copies, rank_trace.start, rank_trace.end).select(_COPY_COLUMNS)
    return DeviceCopies(inside, NO_COPIES.waits, merge(state.compute, state.communication), state.start, state.end)


MAX_BYTES_PER_SECOND: Final = 8e12
"""No memory is faster."""

_SHARE_IN_WINDOW: Final = (pl.col("high") - pl.col("low")) / (pl.col("end") - pl.col("start"))
"""The part of a copy's time in the window, and so of its bytes, if it is unknown when they move."""


def _clip_even_copies(copies: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """The copies clipped to the window, with the bytes that they moved there."""
    return _clip_copies(copies, start, end, _SHARE_IN_WINDOW)


def _clip_queued_copies(copies: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """The copies clipped to the window, where most of the time between both halves of a copy is waiting in a queue.

    Of the copies in flight at once between two memories, the link moves the one that ends first.
    """
    inside = collect_frame(overlapping_events(copies.lazy(), start, end))
    if not ((inside["start"] < start) | (inside["end"] > end)).any():
        return _clip_copies(inside, start, end, _SHARE_IN_WINDOW)
    beside = (pl.col("start") < inside["end"].max()) & (pl.col("end") > inside["start"].min())
    links = copies.filter(beside).partition_by("source", "target", maintain_order=True)
    parts = [link.with_columns(pl.Series("part", _link_time_shares(link, start, end), pl.Float64)) for link in links]
    return _clip_copies(pl.concat(parts).sort("start", "id"), start, end, pl.coalesce("part", _SHARE_IN_WINDOW))


def _clip_copies(copies: pl.DataFrame, start: int, end: int, part: pl.Expr) -> pl.DataFrame:
    """The copies clipped to the window, from `low` to `high`; `part` is the share of its bytes that each moves there.

    `moved` are these bytes as a fraction, null for a copy without a valid rate: zero length, or beyond
    `MAX_BYTES_PER_SECOND`.
    """
    bounds = pl.col("start").clip(lower_bound=start).alias("low"), pl.col("end").clip(upper_bound=end).alias("high")
    length = pl.col("end") - pl.col("start")
    plausible = (length > 0) & (pl.col("bytes") * PS_PER_S <= MAX_BYTES_PER_SECOND * length)
    moved = pl.when(plausible).then(pl.col("bytes") * part.clip(upper_bound=1)).alias("moved")
    bytes_in_window = (
        pl.when(part < 1).then((pl.col("bytes") * part).round().cast(pl.Int64)).otherwise("bytes").alias("bytes")
    )
    return (
        collect_frame(overlapping_events(copies.lazy(), start, end))
        .with_columns(bounds)
        .with_columns(pl.col("low").alias("start"), pl.col("high").alias("end"), moved, bytes_in_window)
    )


def _link_time_shares(link: pl.DataFrame, low: int, high: int) -> list[float | None]:
    """For each copy of a link the share of its moving time that lies in `[low, high)`; None if it has no such time.

    `link` has start and end.
    """
    begins, ends = link["start"].to_list(), link["end"].to_list()
    time, inside = [0] * len(begins), [0] * len(begins)
    order = sorted(range(len(begins)), key=begins.__getitem__)
    waiting: list[tuple[int, int]] = []
    for row, until in zip(order, [*(begins[other] for other in order[1:]), max(ends)], strict=True):
        heappush(waiting, (ends[row], row))
        now = begins[row]
        while waiting and now < until:
            last, first = waiting[0]
            then = min(last, until)
            if now < then:
                time[first] += then - now
                inside[first] += max(min(then, high) - max(now, low), 0)
                now = then
            if last <= now:
                heappop(waiting)
    return [part / whole if whole else None for part, whole in zip(inside, time, strict=True)]


NO_COPIES: Final = DeviceCopies(
    pl.DataFrame(
        schema={
            **dict.fromkeys(_COPY_COLUMNS, pl.Int64()),
            "moved": pl.Float64(),
            **dict.fromkeys(COPY_KEY, pl.String()),
        }
    ),
    pl.DataFrame(
        schema={**dict.fromkeys(("id", "start", "end", "own"), pl.Int64()), **dict.fromkeys(COPY_KEY, pl.String())}
    ),
    EMPTY_INTERVALS,
    0,
    0,
)


DEVICE_MEMORY: Final = "device"
UNKNOWN_MEMORY: Final = "unknown"

_MEMORY_OF_LETTER: Final[Mapping[str, str]] = {
    "H": HOST_MEMORY_NAME,
    "D": DEVICE_MEMORY,
    "P": "other device",
    "A": "array",
}
_DIRECTION_IN_NAME: Final = re.compile(
    r"(?i:co?py).*?(?<!2)([HDPAMS])(?:(?i:ost|evice|eer|rray)_?)?(?:[tT][oO]|2)_?([HDPAMS])"  # 2D is no direction
)
_HOST_LETTERS: Final = str.maketrans("MS", "HH")
"""XPUs name pageable memory (M) and memory shared with the device (S) apart from pinned memory (H)."""

_UNIFIED_MEMORY_NAME: Final = re.compile(r"UM_BYTES_TRANSFER_([HD])TO([HD])$")
"""CUPTI's names for copies of unified memory."""

_DIRECTION_PATTERN: Final = re.compile(r"([HDPA])to([HDPA])")
_TRAILING_NUMBER: Final = re.compile(r"(?:\.\d+)+$")


def copy_direction(name: str) -> str | None:
    """The direction in the name of a copy, or of its call: `HtoD`; None without one."""
    match = _DIRECTION_IN_NAME.search(name) or _UNIFIED_MEMORY_NAME.match(name)
    return f"{match[1]}to{match[2]}".translate(_HOST_LETTERS) if match else None


def copy_kind(name: str, kind: str, call: str | None = None) -> str:
    """The kind of a copy or memset for users, by its name and the name of its call.

    It is its direction, by its own name or else by the call's; without one its name, less the number at its end.
    """
    if kind == "memset":
        return "memset"
    return copy_direction(name) or copy_direction(call or "") or _TRAILING_NUMBER.sub("", name)


def copy_kinds(rank_trace: RankTrace, copies: pl.DataFrame) -> pl.Series:
    """`copy_kind` of each of these events of the rank's device; reads `name`, `kind` and `launch`."""
    number, kinds = _number_copy_kinds(rank_trace, copies)
    return pl.Series("told", kinds, pl.String).gather(number)


def _number_copy_kinds(rank_trace: RankTrace, copies: pl.DataFrame) -> tuple[Ints, list[str]]:
    """For each of these events the position of its `copy_kind` in a list, which may have one more than once."""
    pairs = NameKindPairs(copies["name"], copies["kind"])
    named = _as_strings(copies[pairs.rows].select("name", "kind"))
    without_direction = np.array(
        [kind != "memset" and copy_direction(name) is None for name, kind in named.rows()], bool
    )
    launches = copies["launch"].filter(pl.Series(without_direction[pairs.pair_numbers]))
    if launches.is_empty():
        return pairs.pair_numbers, [copy_kind(name, kind) for name, kind in named.rows()]
    calls = collect_frame(host_events_by_id(rank_trace, launches).select(launch="id", call="name"))
    call = look_up_rows(calls, "launch", copies["launch"])["call"]
    number, first = group_rows(pairs.pair_numbers, category_codes(call))
    called = _as_strings(pl.DataFrame([copies["name"], copies["kind"], call])[first])
    return number, [copy_kind(*row) for row in called.rows()]


def _as_strings(named: pl.DataFrame) -> pl.DataFrame:
    return named.select(pl.all().cast(pl.String)).with_columns(pl.col("name").fill_null(""))


def copy_endpoints(kind: str) -> tuple[str, str]:
    """Source and target memory of a copy of this kind on a stream."""
    match = _DIRECTION_PATTERN.fullmatch(kind)
    if match is None:
        return (UNKNOWN_MEMORY, UNKNOWN_MEMORY)
    return (DEVICE_MEMORY if match[1] == "P" else _MEMORY_OF_LETTER[match[1]], _MEMORY_OF_LETTER[match[2]])
