"""Copies between memories: bytes, rate of the link, and the time in which the device only waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.analysis_settings import Setting, choice_parser
from tracehound.analysis.devices.async_ops import async_op_times
from tracehound.analysis.devices.device_copies import COPY_KEY, MAX_BYTES_PER_SECOND, DeviceCopies, find_device_copies
from tracehound.analysis.devices.missing_data import no_device_activity_remedy, nothing_recorded_note
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import (
    JOINED_EVENTS,
    Analysis,
    Column,
    Options,
    Result,
    concat_tables,
    counted_events_field,
    empty_result,
    make_result,
)
from tracehound.analysis.timing.device_clock import window_length_notes
from tracehound.formats.xla.op_kinds import HOST_MEMORY_NAME
from tracehound.model.notes import Note, note
from tracehound.model.units import PS_PER_S

DEFINITION = """\
A copy goes from one memory to another. On TPUs the layouts in an op's HLO line name the memories: S(5) is host memory,
S(1) VMEM, no S(n) HBM. Copies are pairs of copy-start and copy-done or of async-start and async-done (prefetched
slices), infeed, outfeed, host send and recv, and a copy op between two memories. A pair is in flight from the start of
its start to the end of its done. On GPUs copies are those on the streams; their own names tell the direction, or else
the calls that launched them. Memsets do not count.

in flight = length of the union of these intervals, never their sum, since copies that wait for one another overlap.
exposed = time in which the core does nothing else: on TPUs the self time of the starts and dones themselves, on GPUs
in flight less the time in which a kernel runs. hidden = in flight - exposed. rate = bytes / time in flight, over the
copies with a recorded size and a length above 0, and not faster than 8,000 GB/s by themselves: the speed of the link
while a copy in this direction was in flight, queueing included; notes count the copies that are left out. If a window
cuts copies, the bytes moved inside count: of several pairs in flight between the same memories, the link moves the one
that ends first, and the others wait. On TPUs all times, and the bounds of a window, are on the device's own clock.

XProf takes a wait for host memory (copy-done with S(5)) for HBM-bound work, and counts it as duty. Its
analyze_async_overlap adds up overlapping intervals. A rate above the device's memory bandwidth (as the profile states
it, or else 8,000 GB/s) is dropped, and a note says so.

by=op has a row for each op that copies, over all ranks."""

BY_SETTING: Final = Setting(
    "by", "memory", "what a row is: a pair of memories (of each rank) or an op", choice_parser("memory", "op")
)

HOST_BOUND_SHARE: Final = 0.2
"""A device that waits for host copies for more than this share of its time is bound by them."""

_MEASURE_COLUMNS: Final = (
    Column("copies", "count", "copies"),
    Column("bytes", "bytes", "moved by copies of known size"),
    Column("in_flight", "time", "time in which a copy is in flight; overlaps count once"),
    Column("rate", "rate", "bytes / in flight, of copies of known size"),
    Column("exposed", "time", "time in which the core only waits for them"),
    Column("exposed_share", "share", "exposed", "device time"),
    Column("hidden", "time", "time in flight while the core works", brief=False),
    Column("hidden_share", "share", "hidden", "its time in flight", brief=False),
    Column("event", "id", "the longest wait for one, or on a stream the longest copy"),
)

COLUMNS = (
    Column("rank", "count", "rank"),
    Column("source", "text", "memory that is read"),
    Column("target", "text", "memory that is written"),
    *_MEASURE_COLUMNS,
)

BY_OP_COLUMNS: Final = (
    Column("name", "text", "HLO op, or copy, that starts it"),
    Column("module", "text", "XLA module", brief=False),
    Column("source", "text", "memory that is read"),
    Column("target", "text", "memory that is written"),
    *_MEASURE_COLUMNS,
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each pair of memories, or each op; ps."""
    return measure_copies(find_device_copies(rank_trace), rank_trace.rank, options)


def measure_copies(copies: DeviceCopies, rank: int, options: Options) -> pl.DataFrame:
    """A row for each pair of memories, or each op, of these copies of a rank; ps."""
    by_op = BY_SETTING.value_in(options.given) == "op"
    key = ["source", "target", "name", "module"] if by_op else ["source", "target"]
    if copies.rows.is_empty():
        return pl.DataFrame()
    link = ["source", "target"]
    copies_of_links = _split_copies(copies, link)
    link_rows = pl.DataFrame(
        [{**dict(zip(link, names, strict=True)), **_link_totals(part)} for names, part in copies_of_links.items()]
    )
    rows = [
        {**dict(zip(key, group, strict=True)), **_measure_copies(part, options)}
        for group, part in (_split_copies(copies, key) if by_op else copies_of_links).items()
    ]
    with_host = (pl.col("source") == HOST_MEMORY_NAME) | (pl.col("target") == HOST_MEMORY_NAME)
    return (
        pl.DataFrame(rows, infer_schema_length=None, schema_overrides={"bytes": pl.Int64})
        .join(link_rows, on=link, maintain_order="left")
        .with_columns(
            pl.lit(rank, pl.Int64).alias("rank"),
            pl.lit(copies.end - copies.start, pl.Int64).alias("span"),
            pl.lit(copies.select(with_host).exposed_time()[0], pl.Int64).alias("host_wait"),
        )
    )


def _split_copies(copies: DeviceCopies, key: Sequence[str]) -> dict[tuple[str, ...], DeviceCopies]:
    """The copies of each combination of these columns, in the order of their first copies."""
    groups = copies.rows.select(key).unique(maintain_order=True).rows()
    return {group: copies.select(_key_filter(key, group)) for group in groups}


def _key_filter(key: Sequence[str], group: Sequence[str]) -> pl.Expr:
    return pl.all_horizontal(pl.col(name) == value for name, value in zip(key, group, strict=True))


def _link_totals(copies: DeviceCopies) -> dict[str, float]:
    """Bytes moved from one memory to another, and the time, where sizes and times are known."""
    return {"link_bytes": float(copies.rows["moved"].sum()), "link_time": copies.in_flight_with_rate.length}


def _measure_copies(copies: DeviceCopies, options: Options) -> dict[str, object]:
    """The measures of one group of copies."""
    rows, has_length = copies.rows, pl.col("end") > pl.col("start")
    return {
        "copies": rows.height,
        "bytes": int(rows["bytes"].sum()) if rows["bytes"].count() else None,
        "sized": rows["bytes"].count(),
        "strange": rows.filter(pl.col("moved").is_null() & pl.col("bytes").is_not_null() & has_length).height,
        "moved": float(rows["moved"].sum()),
        "timed": copies.in_flight_with_rate.length,
        **counted_events_field(options, rows["id"]),
        **async_op_times(rows, copies.waits, copies.in_flight.length, *copies.exposed_time()),
    }


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row for each rank and pair of memories, the longest wait first; or for each op over all ranks."""
    by_op = BY_SETTING.value_in(options.given) == "op"
    analysis = ANALYSIS.with_shown_columns(options.given)
    rows = concat_tables(tables)
    if rows.is_empty():
        return empty_result(analysis, context, options, _why_empty(context))
    summed = _sum_over_ranks(rows) if by_op else rows
    speed = pl.col("moved") / pl.col("timed") * PS_PER_S
    peak = _fastest_memory_bandwidth(context)
    table = summed.with_columns(
        pl.when(pl.col("timed") > 0).then(speed).alias("speed"),
        (pl.col("exposed") / pl.col("span")).fill_nan(None).alias("exposed_share"),
        (pl.col("hidden") / pl.col("in_flight")).fill_nan(None).alias("hidden_share"),
    ).with_columns(pl.when(pl.col("speed") <= peak).then("speed").alias("rate"))
    order = (
        ("exposed", "in_flight", "name", "module", "source", "target") if by_op else ("place", "exposed", "in_flight")
    )
    if not by_op:
        table = table.with_columns(pl.col("rank").rle_id().alias("place"))
    table = table.sort(order, descending=[name in ("exposed", "in_flight") for name in order])
    return make_result(
        analysis,
        table,
        context,
        options,
        [
            *_host_link_notes(rows, peak),
            *_unmeasured_copy_notes(rows),
            *_impossible_rate_notes(table, peak),
            *window_length_notes(rows["span"], context),
        ],
    )


def _sum_over_ranks(rows: pl.DataFrame) -> pl.DataFrame:
    total_span = int(rows.group_by("rank").agg(pl.col("span").first())["span"].sum())
    return rows.group_by(COPY_KEY).agg(
        pl.col("copies", "sized", "strange", "moved", "timed", "in_flight", "exposed", "hidden").sum(),
        pl.when(pl.col("bytes").count() > 0).then(pl.col("bytes").sum()).alias("bytes"),
        pl.lit(total_span).alias("span"),
        pl.col("event").sort_by("longest", "event", descending=[True, False]).first(),
        JOINED_EVENTS,
    )


def _fastest_memory_bandwidth(context: RunContext) -> float:
    """Bandwidth of the fastest memory in the profile, bytes per second."""
    bandwidths = [0.0]
    for facts in context.facts:
        for plane in facts.planes.values():
            stated = ((plane.peak_hbm_bw_gigabytes_per_second, 1e9), (plane.memory_bandwidth, 1.0))
            bandwidths += [
                value * unit for value, unit in stated if value is not None and 0 < value * unit < MAX_BYTES_PER_SECOND
            ]
    return max(bandwidths) or MAX_BYTES_PER_SECOND


def _host_link_notes(rows: pl.DataFrame, peak: float) -> list[Note]:
    """Notes on waits for the link to the host, over all ranks."""
    ranks = rows.group_by("rank").agg(pl.col("span", "host_wait").first())
    span, host_wait = int(ranks["span"].sum()), int(ranks["host_wait"].sum())
    host_rows = rows.filter((pl.col("source") == HOST_MEMORY_NAME) | (pl.col("target") == HOST_MEMORY_NAME))
    if host_rows.is_empty() or not span:
        return []
    links = host_rows.unique(["rank", "source", "target"])
    directions = (
        links.group_by("source", "target").agg(pl.col("link_bytes", "link_time").sum()).sort("source", "target")
    )
    speed = pl.col("link_bytes") / pl.col("link_time") * PS_PER_S
    timed = directions.filter((pl.col("link_bytes") > 0) & (pl.col("link_time") > 0)).with_columns(speed.alias("rate"))
    sources, targets, rates = (
        tuple(timed.filter(pl.col("rate") <= peak)[name]) for name in ("source", "target", "rate")
    )
    notes = [note("waits_for_host_copies", wait=host_wait, of=span, sources=sources, targets=targets, rates=rates)]
    if host_wait > HOST_BOUND_SHARE * span:
        notes.append(note("bound_by_host_link", level="inferred"))
    return notes


def _unmeasured_copy_notes(rows: pl.DataFrame) -> list[Note]:
    """Notes on copies that are in no rate."""
    copies, sized, too_fast = (int(rows[name].sum()) for name in ("copies", "sized", "strange"))
    notes = [note("copies_too_fast", copies=too_fast, limit=MAX_BYTES_PER_SECOND)] if too_fast else []
    if not sized:
        return [note("no_copy_sizes", level="missing")]
    if sized < copies:
        notes.append(note("copies_without_size", level="missing", copies=copies - sized, of=copies))
    return notes


def _impossible_rate_notes(table: pl.DataFrame, peak: float) -> list[Note]:
    above_limit = table.filter(pl.col("speed") > peak)
    if above_limit.is_empty():
        return []
    return [note("rows_above_memory_bandwidth", rows=above_limit.height, limit=peak)]


def _why_empty(context: RunContext) -> Note:
    if context.is_pytorch:
        return nothing_recorded_note(context, note("no_copies_on_streams"), no_device_activity_remedy(context))
    return note("no_copies_between_memories", level="missing")


ANALYSIS = Analysis(
    name="transfers",
    title="Transfers",
    question="How fast do copies move bytes between host and device memory, and how long does the device wait?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    count_column="copies",
    device_ops_only=True,
    settings=(BY_SETTING,),
    columns_by_setting={"op": BY_OP_COLUMNS},
)
