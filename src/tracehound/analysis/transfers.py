"""Copies between memories: how much they move, how fast the link is, and how long the device only waits for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from tracehound.analysis.devices.async_ops import kept
from tracehound.analysis.devices.copies import FASTEST, KEY, Copies, copies_of
from tracehound.analysis.devices.silence import nothing, remedy
from tracehound.analysis.events.own_clock import window_apart
from tracehound.analysis.members import JOINED, listed
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, stacked, without
from tracehound.analysis.settings import Setting, one_of
from tracehound.formats.xla.copies import HOST
from tracehound.notes import Note, note
from tracehound.units import PS_PER_S

DEFINITION = """\
A copy goes from one memory to another. On TPUs the layouts in an op's HLO line name the memories: S(5) is the host's,
S(1) VMEM, no S(n) HBM. Copies are the pairs of copy-start and copy-done and of async-start and async-done (slices that
are fetched ahead), infeed, outfeed, host send and recv, and a copy op between two memories. A pair is in flight from
the start of the one op to the end of the other. On GPUs copies are those on the streams, by the direction that their
own names tell, else those of the calls that launched them; memsets are none.

in flight = length of the union of these stretches, never their sum: copies that wait for one another overlap. exposed =
time in which the core does nothing else: on TPUs the self time of the starting and waiting ops themselves; on GPUs in
flight less the time in which a kernel runs. hidden = the rest of in flight. rate = bytes / the time in flight of the
copies whose size the file states and that take any time, less those that would be faster than 8,000 GB/s by themselves:
what the link gave while one in this direction was under way, queueing included; notes say how many are in no rate. Of
the copies that a window cuts those bytes count that were moved inside: of several pairs in flight from one memory to
another at once, the link moves that which ends first, and the others wait. On TPUs all times, and the bounds of a
window, are on the device's own clock.

XProf takes a wait for the host's memory (copy-done with S(5)) for work that is bound by HBM, and counts it as duty. Its
analyze_async_overlap adds up stretches that overlap. A rate above the device's memory bandwidth (as the profile states
it, else 8,000 GB/s) is none: such copies are not measured, and a note says so.

With the setting by=op there is a row for each op that copies, over all ranks."""

BY: Final = Setting("by", "memory", "what a row is: a pair of memories (of each rank) or an op", one_of("memory", "op"))

BOUND: Final = 0.2
"""A device that waits for host copies for more than this share of its time is said to be bound by them."""

_MEASURES: Final = (
    Column("copies", "count", "copies"),
    Column("bytes", "bytes", "moved by copies of known size"),
    Column("in_flight", "time", "a copy is under way, overlaps once"),
    Column("rate", "rate", "bytes / in flight, of copies of known size"),
    Column("exposed", "time", "the core does nothing but wait for them"),
    Column("exposed_share", "share", "exposed", "device time"),
    Column("hidden", "time", "in flight while the core works", brief=False),
    Column("hidden_share", "share", "hidden", "in flight", brief=False),
    Column("event", "id", "the longest wait for one, or on a stream the longest copy"),
)

COLUMNS = (
    Column("rank", "count", "rank"),
    Column("source", "text", "memory from which"),
    Column("target", "text", "memory to which"),
    *_MEASURES,
)

BY_OP: Final = (
    Column("name", "text", "HLO op, or copy, that starts it"),
    Column("module", "text", "XLA module", brief=False),
    Column("source", "text", "memory from which"),
    Column("target", "text", "memory to which"),
    *_MEASURES,
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each pair of memories, or each op; ps."""
    by_op = BY.of(options.given) == "op"
    key = ["source", "target", "name", "module"] if by_op else ["source", "target"]
    found = copies_of(share)
    if found.rows.is_empty():
        return pl.DataFrame()
    link = ["source", "target"]
    ways = pl.DataFrame(
        [{**dict(zip(link, way, strict=True)), **_link(found.only(_equal(link, way)))} for way in _groups(found, link)]
    )
    rows = [
        {**dict(zip(key, group, strict=True)), **_measured(found.only(_equal(key, group)), options)}
        for group in _groups(found, key)
    ]
    with_host = (pl.col("source") == HOST) | (pl.col("target") == HOST)
    return (
        pl.DataFrame(rows, infer_schema_length=None, schema_overrides={"bytes": pl.Int64})
        .join(ways, on=link, maintain_order="left")
        .with_columns(
            pl.lit(share.rank, pl.Int64).alias("rank"),
            pl.lit(found.end - found.start, pl.Int64).alias("span"),
            pl.lit(found.only(with_host).exposed()[0], pl.Int64).alias("host_wait"),
        )
    )


def _groups(found: Copies, key: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return found.rows.select(key).unique(maintain_order=True).iter_rows()


def _equal(key: Sequence[str], group: Sequence[str]) -> pl.Expr:
    return pl.all_horizontal(pl.col(name) == value for name, value in zip(key, group, strict=True))


def _link(found: Copies) -> dict[str, float]:
    """What went from one memory to another in all, and in which time, as far as sizes and times are known."""
    return {"link_bytes": float(found.rows["moved"].sum()), "link_time": found.sized.length}


def _measured(found: Copies, options: Options) -> dict[str, object]:
    """The figures of one group of copies."""
    rows, lasting = found.rows, pl.col("end") > pl.col("start")
    return {
        "copies": rows.height,
        "bytes": int(rows["bytes"].sum()) if rows["bytes"].count() else None,
        "sized": rows["bytes"].count(),
        "strange": rows.filter(pl.col("moved").is_null() & pl.col("bytes").is_not_null() & lasting).height,
        "moved": float(rows["moved"].sum()),
        "timed": found.sized.length,
        **listed(options, rows["id"]),
        **kept(rows, found.waits, found.flight.length, *found.exposed()),
    }


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row for each rank and pair of memories, the longest wait first; or for each op over all ranks."""
    by_op = BY.of(options.given) == "op"
    shown = ANALYSIS.shown(options.given)
    rows = stacked(tables)
    if rows.is_empty():
        return without(shown, scene, options, _nothing(scene))
    grouped = _over_ranks(rows) if by_op else rows
    speed = pl.col("moved") / pl.col("timed") * PS_PER_S
    peak = _peak(scene)
    table = grouped.with_columns(
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
    return answer(
        shown,
        table,
        scene,
        options,
        [
            *_verdict(rows, peak),
            *_doubts(rows),
            *_absurd(table, peak),
            *window_apart(rows["span"], scene),
        ],
    )


def _over_ranks(rows: pl.DataFrame) -> pl.DataFrame:
    whole = int(rows.group_by("rank").agg(pl.col("span").first())["span"].sum())
    return rows.group_by(KEY).agg(
        pl.col("copies", "sized", "strange", "moved", "timed", "in_flight", "exposed", "hidden").sum(),
        pl.when(pl.col("bytes").count() > 0).then(pl.col("bytes").sum()).alias("bytes"),
        pl.lit(whole).alias("span"),
        pl.col("event").sort_by("longest", "event", descending=[True, False]).first(),
        JOINED,
    )


def _peak(scene: Scene) -> float:
    """The fastest memory that the profile knows of, bytes per second."""
    found = [0.0]
    for facts in scene.facts:
        for plane in facts.planes.values():
            stated = ((plane.peak_hbm_bw_gigabytes_per_second, 1e9), (plane.memory_bandwidth, 1.0))
            found += [value * unit for value, unit in stated if value is not None and 0 < value * unit < FASTEST]
    return max(found) or FASTEST


def _verdict(rows: pl.DataFrame, peak: float) -> list[Note]:
    """What the link to the host costs, over all ranks."""
    ranks = rows.group_by("rank").agg(pl.col("span", "host_wait").first())
    span, wait = int(ranks["span"].sum()), int(ranks["host_wait"].sum())
    host = rows.filter((pl.col("source") == HOST) | (pl.col("target") == HOST))
    if host.is_empty() or not span:
        return []
    links = host.unique(["rank", "source", "target"])
    ways = links.group_by("source", "target").agg(pl.col("link_bytes", "link_time").sum()).sort("source", "target")
    speed = pl.col("link_bytes") / pl.col("link_time") * PS_PER_S
    timed = ways.filter((pl.col("link_bytes") > 0) & (pl.col("link_time") > 0)).with_columns(speed.alias("rate"))
    sources, targets, rates = (
        tuple(timed.filter(pl.col("rate") <= peak)[name]) for name in ("source", "target", "rate")
    )
    notes = [note("waits_for_host_copies", wait=wait, of=span, sources=sources, targets=targets, rates=rates)]
    if wait > BOUND * span:
        notes.append(note("bound_by_host_link", level="inferred"))
    return notes


def _doubts(rows: pl.DataFrame) -> list[Note]:
    """How many copies are in no rate, and why."""
    copies, sized, strange = (int(rows[name].sum()) for name in ("copies", "sized", "strange"))
    notes = [note("copies_too_fast", copies=strange, limit=FASTEST)] if strange else []
    if not sized:
        return [note("no_copy_sizes", level="missing")]
    if sized < copies:
        notes.append(note("copies_without_size", level="missing", copies=copies - sized, of=copies))
    return notes


def _absurd(table: pl.DataFrame, peak: float) -> list[Note]:
    beyond = table.filter(pl.col("speed") > peak)
    if beyond.is_empty():
        return []
    return [note("rows_above_memory_bandwidth", rows=beyond.height, limit=peak)]


def _nothing(scene: Scene) -> Note:
    if scene.pytorch:
        return nothing(scene, note("no_copies_on_streams"), remedy(scene))
    return note("no_copies_between_memories", level="missing")


ANALYSIS = Analysis(
    name="transfers",
    title="Transfers",
    question="How fast do copies move bytes between host and device memory, and how long does the device wait?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="copies",
    of_devices=True,
    settings=(BY,),
    by={"op": BY_OP},
)
