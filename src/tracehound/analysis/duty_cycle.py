"""Duty cycle of each device, as XProf defines it, and the parts of its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.devices.device_time_parts import DEVICE_PARTS, intervals_per_part, work_with_ops
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import Analysis, Column, Options, Result, concat_tables, empty_result, make_result
from tracehound.analysis.timing.device_clock import (
    DEVICE_TIMES,
    idle_window_length,
    time_outside_work,
    window_length_notes,
    work_on_device_clock,
    xprof_idle_notes,
)
from tracehound.model.notes import Note, note
from tracehound.model.trace import collect_frame
from tracehound.numeric.intervals import Intervals, clip, union

DEFINITION = """\
duty cycle is XProf's "TPU duty cycle": the share of time in which any op of the line XLA Ops runs. These do not count:
infeed, outfeed, sends to and receives from the host, waits of the category async-done (for a slice, a SparseCore, or a
collective without an opcode of its own), and the self time of megacore fusions. Its base is the time from the first to
the last op or module. A device whose SparseCores run ops is on duty, too. Waiting for a copy (copy-done) and for other
devices in most collectives (all-reduce, all-gather-done) counts as duty, so the duty cycle does not tell how well a
device is used. Unlike in XProf, a custom call without counted operations is on duty, since it may well compute. XProf
has no duty cycle of GPUs and CPUs; there all work on streams counts, or all ops.

The other shares are of device time: from the first to the last work, or the window (on TPUs on the device's own clock,
as XProf's idle time). compute: any op runs that is no collective and no copy. This is the useful share. collectives:
collectives run or are waited for, and nothing is computed (exposed). input and output: the device only waits for host
memory (infeed and host to device copies; outfeed and device to host copies). device to device: it only waits for
copies within the device. breakdown calls these three copy. idle: nothing runs, 1 - the union of all ops, as XProf's
device idle time; if a device has a line Steps, XProf also counts the time of that line outside of all ops, and a note
has its figure. The shares add up to 1. The overall figure divides sums over devices, as in XProf, where both cores of
a chip are one device; here each core is one."""

_OFF_DUTY_CATEGORIES: Final = (
    "infeed", "outfeed", "host send", "host send-done", "host recv", "host recv-done", "async-done", "megacore fusion",
)  # fmt: skip
"""HLO categories that XProf counts as off duty."""

_SHARE_MEANINGS: Final = {
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
    Column("on_duty", "time", "any op runs, except infeed, outfeed, transfers to the host and async-done", brief=False),
    Column("duty_cycle", "share", "on duty, as XProf counts", "the span"),
    Column("time", "time", "device time: from the first to the last work", brief=False),
    *(Column(name, "time", meaning, brief=False) for name, meaning in _SHARE_MEANINGS.items()),
    Column("idle", "time", "nothing runs", brief=False),
    *(Column(f"{name}_share", "share", _SHARE_MEANINGS[name], "device time") for name in ("compute", "collectives")),
    Column("idle_share", "share", "nothing runs", "device time"),
    *(
        Column(f"{name}_share", "share", _SHARE_MEANINGS[name], "device time", brief=name != "device_to_device")
        for name in ("input", "output", "device_to_device")
    ),
)
"""Where a line has no room for all, the shares at the right are left out first."""


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """One row; ps."""
    del options
    events = work_with_ops(rank_trace, "lane", *DEVICE_TIMES)
    rank_columns = {"rank": rank_trace.rank, "device": rank_trace.label}
    if events.is_empty():
        idle_time = idle_window_length(rank_trace)
        idle = {
            "outside": 0,
            "span": idle_time,
            "on_duty": 0,
            "time": idle_time,
            **dict.fromkeys(DEVICE_PARTS, 0),
            "idle": idle_time,
        }
        return pl.DataFrame([{**rank_columns, **idle}]) if idle_time else pl.DataFrame()
    device_clock_work = work_on_device_clock(events, rank_trace)
    on_duty, span = _time_on_duty(rank_trace, events)
    parts = {
        name: clip(intervals, device_clock_work.start, device_clock_work.end).length
        for name, intervals in intervals_per_part(rank_trace, device_clock_work.events).items()
    }
    times = {
        "outside": time_outside_work(events, rank_trace),
        "span": span,
        "on_duty": on_duty,
        "time": device_clock_work.device_time,
        **parts,
        "idle": device_clock_work.device_time - device_clock_work.busy_time,
    }
    return pl.DataFrame([{**rank_columns, **times}])


def _time_on_duty(rank_trace: RankTrace, events: pl.DataFrame) -> tuple[int, int]:
    """The time on duty, and the time from the first to the last op or module."""
    off_duty_ops = rank_trace.ops.filter(pl.col("category").is_in(_OFF_DUTY_CATEGORIES))["op"].implode()
    lanes = rank_trace.lanes.filter(pl.col("rank").is_not_null())
    sparse_core_times = _event_times(rank_trace, lanes.filter(pl.col("role") == "sparse_ops"))
    working = events.filter(~pl.col("op").is_in(off_duty_ops).fill_null(value=False)).select("start", "end")
    on_duty = _union_in_window(pl.concat([working, sparse_core_times]), rank_trace)
    if rank_trace.windowed:
        return on_duty.length, rank_trace.end - rank_trace.start
    module_times = _event_times(rank_trace, lanes.filter(pl.col("role").is_in(["modules", "sparse_modules"])))
    all_times = pl.concat([events.select("start", "end"), sparse_core_times, module_times])
    return on_duty.length, int(all_times["end"].to_numpy().max() - all_times["start"].to_numpy().min())


def _event_times(rank_trace: RankTrace, lanes: pl.DataFrame) -> pl.DataFrame:
    """Start and end of the events on these lanes."""
    return collect_frame(rank_trace.device.filter(pl.col("lane").is_in(lanes["lane"].to_list())).select("start", "end"))


def _union_in_window(events: pl.DataFrame, rank_trace: RankTrace) -> Intervals:
    return clip(union(events["start"].to_numpy(), events["end"].to_numpy()), rank_trace.start, rank_trace.end)


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row per rank, in the order of ranks."""
    table = concat_tables(tables)
    if table.is_empty():
        return empty_result(ANALYSIS, context, options, note("no_device_profiled", level="missing"))
    table = table.with_columns(
        (pl.col("on_duty") / pl.col("span")).fill_nan(None).alias("duty_cycle"),
        *((pl.col(name) / pl.col("time")).fill_nan(None).alias(f"{name}_share") for name in (*DEVICE_PARTS, "idle")),
    )
    return make_result(
        ANALYSIS, table, context, options, [*_notes(table), *window_length_notes(table["time"], context)]
    )


def _notes(table: pl.DataFrame) -> list[Note]:
    """Notes with the sums over all devices."""
    span, time = int(table["span"].sum()), int(table["time"].sum())
    if not span or not time:
        return []
    parts = ((name, int(table[name].sum())) for name in (*DEVICE_PARTS, "idle"))
    return [
        note("duty_cycle_total", on_duty=int(table["on_duty"].sum()), span=span),
        Note("info", "device_time_total", values=(("time", time), *parts)),
        *xprof_idle_notes(int(table["idle"].sum()), time, int(table["outside"].sum())),
    ]


ANALYSIS = Analysis(
    name="duty_cycle",
    title="Duty cycle",
    question="How much of its time is each device on duty, as XProf counts, and how much of that is useful?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    rests_on_recorded_work=True,
)
