"""What the user marked in the source: how long it took, and what it put on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.devices.silence import no_annotations
from tracehound.analysis.events.measured import measured
from tracehound.analysis.hosts.annotated import MARKS, launched_inside
from tracehound.analysis.hosts.call_paths import called, merged, names, nodes, plain, recorded
from tracehound.analysis.hosts.operator_tree import tree
from tracehound.analysis.members import JOINED, gathered
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, without
from tracehound.analysis.settings import Setting, one_of
from tracehound.analysis.share import overlapping
from tracehound.analysis.trees import cut
from tracehound.notes import Note, note
from tracehound.trace import collected

BY: Final = Setting(
    "by",
    "name",
    "what is a row: all annotations of one name (name), or of one name inside the same others (path: a tree)",
    one_of("name", "path"),
)

DEFINITION = """\
Annotations are record_function ranges (PyTorch), TraceAnnotation and xp.Trace ranges (XLA), and marked steps, as they
ran on host threads; "on" tells their shadows on a device (gpu_user_annotation) apart, which span from the first to
the last kernel launched inside and are never added to the host's. total = sum of lengths, self = total less the
annotations and other events nested inside; of a nested call of the same name both count. A window clips.

device = lengths of the kernels, copies and memsets launched inside, at any depth, by the launching call, else by the
operator that the profiler gave them as the active one; busy = when any of these ran; exposed = when any collective
among them ran and no kernel of that device computed; both are summed over devices. Work counts for every annotation
around its launch, once for each name, and by when it ran. HolisticTraceAnalysis gives a kernel to the annotations whose
shadow it lies in, which takes in what others launched meanwhile.

With by=path the annotations of hosts are a tree, steps of any number as one; there self is total less the annotations
directly inside, what two that overlap in part share is the earlier one's, and busy, exposed, shortest and shadows are
left out."""

COLUMNS = (
    Column("name", "text", "the annotation"),
    Column("on", "text", "host thread, or shadow on a device", brief=False),
    Column("count", "count", "times entered"),
    Column("total", "time", "sum of lengths"),
    Column("mean", "time", "total / count"),
    Column("min", "time", "shortest", brief=False),
    Column("max", "time", "longest"),
    Column("self", "time", "less what is nested inside", brief=False),
    Column("device", "time", "of kernels, copies and memsets launched inside"),
    Column("busy", "time", "when any of them ran", brief=False),
    Column("exposed", "time", "when collectives launched inside ran, and no kernel computed", brief=False),
    Column("launched", "count", "kernels, copies and memsets launched inside", brief=False),
    Column("ranks", "count", "ranks, or hosts, on which it ran", brief=False),
    Column("depth", "depth", "how many annotations are around it, with by=path"),
    Column("event", "id", "the first one, with by=path the longest"),
)

_LAUNCHED: Final = ("device", "busy", "exposed", "launched")


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row per lane and name, or per lane and path; ranks of one host give the same rows for its threads."""
    if BY.of(options.given) == "path":
        calls = tree(share)
        chosen = calls.events["kind"].is_in(MARKS).to_numpy()
        if not chosen.any():
            return pl.DataFrame()
        return nodes(share, called(share, calls, chosen, names(calls.events, plain), options))
    marked = pl.col("kind").is_in(MARKS)
    lanes = share.lanes.filter(pl.col("role").is_in(["annotations", "thread", "steps"]))["lane"].to_list()
    on_device = pl.col("rank").is_not_null()
    host = share.on_host
    sides = ((share.device, share), (overlapping(share.threads, host.start, host.end), host))
    rows = (
        pl.concat(_measured(side.filter(pl.col("lane").is_in(lanes)), seen) for side, seen in sides)
        .filter(marked)
        .group_by("lane", pl.col("name").cast(pl.String), on_device.alias("device_lane"))
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("length").sum().alias("total"),
            pl.col("length").min().alias("min"),
            pl.col("length").max().alias("max"),
            pl.col("own").sum().alias("self"),
            pl.col("id").min().alias("event"),  # the events of a lane begin in the order of their ids
            pl.col("start").min(),
            *gathered(options),
        )
        .with_columns(pl.lit(share.rank, pl.Int64).alias("rank"))
    )
    works = bool(share.lanes.filter(pl.col("work") & pl.col("rank").is_not_null()).height)
    if works and (rows.filter(~pl.col("device_lane")).height or _earlier(share)):
        return _with_work(rows, launched_inside(share, tree(share)), share)
    return rows.with_columns(pl.lit(None, pl.Int64).alias(name) for name in _LAUNCHED)


def _earlier(share: Share) -> bool:
    """Whether the host has annotations outside of the window, whose work may run in it."""
    return share.windowed and collected(share.threads.filter(pl.col("kind").is_in(MARKS)).head(1)).height > 0


def _with_work(rows: pl.DataFrame, inside: pl.DataFrame, share: Share) -> pl.DataFrame:
    """The rows with the work that was launched in them; what has only its work in the window was entered 0 times."""
    joined = rows.join(inside, on=["lane", "name"], how="full", coalesce=True, maintain_order="left_right")
    told = joined.with_columns(
        pl.col("device_lane").fill_null(value=False),
        pl.col("count", "total", "self").fill_null(0),
        pl.coalesce("event", "event_right").alias("event"),
        pl.coalesce("start", "start_right").alias("start"),
        pl.lit(share.rank, rows.schema["rank"]).alias("rank"),
    )
    work = pl.when(~pl.col("device_lane")).then(pl.col(_LAUNCHED).fill_null(0))
    return told.with_columns(work).select(*rows.columns, *_LAUNCHED)


def _measured(events: pl.LazyFrame, share: Share) -> pl.DataFrame:
    """The events with their lengths in the window of the share. What is cut needs its children to be measured."""
    read = events.select(_READ)
    found = collected((read if share.windowed else read.filter(pl.col("kind").is_in(MARKS))).sort("id"))
    return measured(found, share.start, share.end)


_READ: Final = ("id", "lane", "rank", "start", "end", "name", "kind", "parent", "self", "device_start", "device_end")


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per name, on hosts and on devices apart, the largest total first; or the tree of those on hosts."""
    if not any(table.height for table in tables):
        return without(ANALYSIS, scene, options, no_annotations(scene))
    if BY.of(options.given) == "path":
        return _of_paths(tables, scene, options)
    rows = pl.concat(tables, how="vertical_relaxed")
    once = rows.unique(["lane", "name"], keep="first", maintain_order=True)
    calls = pl.when(pl.col("count") > 0).then("count")
    work = rows.group_by("lane", "name").agg(_summed(name) for name in _LAUNCHED)
    table = (
        once.drop(_LAUNCHED)
        .join(work, on=["lane", "name"], how="left")
        .group_by("name", "device_lane")
        .agg(
            pl.col("count", "total", "self").sum(),
            pl.col("min").min(),
            pl.col("max").max(),
            pl.col("rank").n_unique().alias("ranks"),
            pl.col("event").sort_by("start", "rank").first(),
            *(_summed(name) for name in _LAUNCHED),
            JOINED,
        )
        .with_columns(
            pl.when("device_lane").then(pl.lit("device")).otherwise(pl.lit("host")).alias("on"),
            (pl.col("total") / calls).round().cast(pl.Int64).alias("mean"),
            pl.lit(0, pl.Int64).alias("depth"),
        )
        .sort("device_lane", "total", "name", descending=[False, True, False])
    )
    return answer(ANALYSIS, table, scene, options, _notes(table, scene))


def _notes(table: pl.DataFrame, scene: Scene) -> list[Note]:
    """What device time leaves out."""
    launched = table.filter(on="host")["launched"].drop_nulls()
    if not len(launched):
        return []
    if not launched.sum():
        return [note("no_launches_in_annotations")]
    if "PyTorch" not in scene.profilers:
        return []
    return [note("launches_of_annotations")]


def _summed(name: str) -> pl.Expr:
    """The sum, unknown where all are."""
    return pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name)


def _of_paths(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The annotations of host threads, depth first."""
    rows = merged(tables)
    works = recorded(tables).work
    calls = pl.when(pl.col("count") > 0).then("count")
    table = rows.with_columns(
        pl.lit("host").alias("on"),
        (pl.col("total") / calls).round().cast(pl.Int64).alias("mean"),
        pl.col("most").alias("max"),
        pl.col("device_total").alias("device") if works else pl.lit(None, pl.Int64).alias("device"),
        pl.col("launched_total").alias("launched") if works else pl.lit(None, pl.Int64).alias("launched"),
        *(pl.lit(None, pl.Int64).alias(name) for name in ("min", "busy", "exposed")),
    )
    result = answer(ANALYSIS, table, scene, replace(options, top=None))
    return cut(result, result.table["total"].to_numpy(), options.top)


ANALYSIS = Analysis(
    name="annotations",
    title="Annotations",
    question="How long did the marked parts of the source take, and what did they put on the device?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="count",
    settings=(BY,),
)
