"""How much of its time each device is on duty, as XProf says, and how much of it is useful."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.devices.parts import PARTS, device_parts, device_work
from tracehound.analysis.events.core_time import on_own_clock, rest_time
from tracehound.analysis.events.own_clock import CLOCKED, window_apart
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, stacked, without
from tracehound.formats.xla.names import SPARSE_CORE_MODULES, SPARSE_CORE_OPS
from tracehound.intervals import Intervals, clip, union
from tracehound.notes import Note, note
from tracehound.trace import collected

DEFINITION = """\
duty cycle = XProf's "TPU duty cycle": the time in which any op of the line XLA Ops runs, but for infeed, outfeed, sends
to and receives from the host, waits of the category async-done (for a slice, a SparseCore or a collective that has no
opcode of its own) and the own time of megacore fusions, of the time from the first to the last of all ops and modules.
While ops of its SparseCores run a device is on duty, too. Waiting for a copy (copy-done) and for the other devices in
most collectives (all-reduce, all-gather-done) count as duty, so it says nothing of how well a device is used. Unlike in
XProf a custom call of which no operations are counted is on duty: it may well compute. On GPUs and CPUs, of which XProf
has none, the same of all work on streams, or of all ops.

The other shares are of the device time, from the first to the last of its work, or of the window (on TPUs on the
device's own clock, as XProf's idle time): compute = any op runs that is no collective and no copy: the useful share.
collectives = collectives run or are waited for, and nothing is computed (exposed). input, output = the device only
waits for the host's memory: infeed, host to device copies; outfeed, device to host. device to device = it only waits
for copies within the device: these three are what breakdown calls copy. idle = nothing runs: 1 - the union of all ops,
XProf's device idle time. They add up to 1. All together is the sum over devices of the one by that of the other, as in
XProf, where both cores of a chip count as one device; here each counts."""

_OFF_DUTY: Final = (
    "infeed", "outfeed", "host send", "host send-done", "host recv", "host recv-done", "async-done", "megacore fusion",
)  # fmt: skip
"""HLO categories that XProf takes for off duty."""

_SHARES: Final = {
    "compute": "computation runs: the useful share",
    "collectives": "collectives run and no computation (exposed)",
    "input": "only copies from the host run, or are waited for",
    "output": "only copies to the host run, or are waited for",
    "device_to_device": "only copies within the device run, or are waited for",
}

COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("device", "text", "what the rank runs on"),
    Column("span", "time", "from the first to the last work, modules included"),
    Column("on_duty", "time", "any op runs but infeed, outfeed, transfers to the host and async-done", brief=False),
    Column("duty_cycle", "share", "on duty, as XProf counts", "span"),
    Column("time", "time", "device time: from the first to the last work", brief=False),
    *(Column(name, "time", meaning, brief=False) for name, meaning in _SHARES.items()),
    Column("idle", "time", "nothing runs", brief=False),
    *(Column(f"{name}_share", "share", _SHARES[name], "device time") for name in ("compute", "collectives")),
    Column("idle_share", "share", "nothing runs", "device time"),
    *(
        Column(f"{name}_share", "share", _SHARES[name], "device time", brief=name != "device_to_device")
        for name in ("input", "output", "device_to_device")
    ),
)
"""Where a line has no room for all, the shares at the right make way."""


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """One row; ps."""
    del options
    events = device_work(share, "lane", *CLOCKED)
    whose = {"rank": share.rank, "device": share.label}
    if events.is_empty():
        rest = rest_time(share)
        idle = {"span": rest, "on_duty": 0, "time": rest, **dict.fromkeys(PARTS, 0), "idle": rest}
        return pl.DataFrame([{**whose, **idle}]) if rest else pl.DataFrame()
    own = on_own_clock(events, share)
    on, span = _duty(share, events)
    parts = {name: clip(when, own.start, own.end).length for name, when in device_parts(share, own.events).items()}
    told = {"span": span, "on_duty": on, "time": own.time, **parts, "idle": own.time - own.used}
    return pl.DataFrame([{**whose, **told}])


def _duty(share: Share, events: pl.DataFrame) -> tuple[int, int]:
    """The time on duty, and the time from the first to the last op or module."""
    off = share.ops.filter(pl.col("category").is_in(_OFF_DUTY))["op"].implode()
    lanes = share.lanes.filter(pl.col("rank").is_not_null())
    sparse = _times(share, lanes.filter(pl.col("name").str.contains(SPARSE_CORE_OPS)))
    working = events.filter(~pl.col("op").is_in(off).fill_null(value=False)).select("start", "end")
    on = _inside(pl.concat([working, sparse]), share)
    if share.windowed:
        return on.length, share.end - share.start
    ran = (pl.col("role") == "modules") | pl.col("name").str.contains(SPARSE_CORE_MODULES)
    runs = _times(share, lanes.filter(ran))
    every = pl.concat([events.select("start", "end"), sparse, runs])
    return on.length, int(every["end"].to_numpy().max() - every["start"].to_numpy().min())


def _times(share: Share, lanes: pl.DataFrame) -> pl.DataFrame:
    """Start and end of the events on these lanes."""
    return collected(share.device.filter(pl.col("lane").is_in(lanes["lane"].to_list())).select("start", "end"))


def _inside(events: pl.DataFrame, share: Share) -> Intervals:
    return clip(union(events["start"].to_numpy(), events["end"].to_numpy()), share.start, share.end)


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per rank, in their order."""
    table = stacked(tables)
    if table.is_empty():
        return without(ANALYSIS, scene, options, note("no_device_profiled", level="missing"))
    table = table.with_columns(
        (pl.col("on_duty") / pl.col("span")).fill_nan(None).alias("duty_cycle"),
        *((pl.col(name) / pl.col("time")).fill_nan(None).alias(f"{name}_share") for name in (*PARTS, "idle")),
    )
    return answer(ANALYSIS, table, scene, options, [*_notes(table), *window_apart(table["time"], scene)])


def _notes(table: pl.DataFrame) -> list[Note]:
    """All devices together."""
    span, time = int(table["span"].sum()), int(table["time"].sum())
    if not span or not time:
        return []
    parts = ((name, int(table[name].sum())) for name in (*PARTS, "idle"))
    return [
        note("duty_cycle_total", on_duty=int(table["on_duty"].sum()), span=span),
        Note("info", "device_time_total", values=(("time", time), *parts)),
    ]


ANALYSIS = Analysis(
    name="duty_cycle",
    title="Duty cycle",
    question="How much of its time is each device on duty, as XProf counts, and how much of that is useful?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
)
