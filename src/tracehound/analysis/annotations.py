"""What the user marked in the source, and how long it took."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracehound.analysis.measured import measured
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, blank
from tracehound.analysis.share import overlapping
from tracehound.trace import collected

DEFINITION = """\
Annotations are record_function ranges (PyTorch), TraceAnnotation and xp.Trace ranges (XLA), and marked steps, as they
ran on host threads; "on" tells their shadows on a device (gpu_user_annotation) apart, which span from the first to
the last kernel launched inside and are never added to the host's. total = sum of lengths, self = total less the
annotations and other events nested inside; of a nested call of the same name both count. A window clips."""

COLUMNS = (
    Column("name", "text", "the annotation"),
    Column("on", "text", "host thread, or shadow on a device", brief=False),
    Column("count", "count", "times entered"),
    Column("total", "time", "sum of lengths"),
    Column("average", "time", "total / count"),
    Column("min", "time", "shortest", brief=False),
    Column("max", "time", "longest"),
    Column("self", "time", "less what is nested inside", brief=False),
    Column("ranks", "count", "ranks, or hosts, on which it ran", brief=False),
    Column("event", "id", "the first one"),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row per lane and name; ranks of one host give the same rows for its threads."""
    del options
    marked = pl.col("kind").is_in(["annotation", "step"])
    lanes = share.lanes.filter(pl.col("role").is_in(["annotations", "thread", "steps"]))["lane"].to_list()
    on_device = pl.col("rank").is_not_null()
    both = pl.concat([share.device, overlapping(share.threads, share.start, share.end)])
    both = both if share.windowed else both.filter(marked)  # what is cut needs its children to be measured
    events = collected(both.filter(pl.col("lane").is_in(lanes)).sort("id"))
    return (
        measured(events, share.start, share.end)
        .filter(marked)
        .group_by("lane", pl.col("name").cast(pl.String), on_device.alias("device"))
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("length").sum().alias("total"),
            pl.col("length").min().alias("min"),
            pl.col("length").max().alias("max"),
            pl.col("own").sum().alias("self"),
            pl.col("id").sort_by("start", "id").first().alias("event"),
            pl.col("start").min(),
        )
        .with_columns(pl.lit(share.rank, pl.Int64).alias("rank"))
    )


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per name, on hosts and on devices apart, the largest total first."""
    if not any(table.height for table in tables):
        note = "no annotations: mark the source with record_function, TraceAnnotation or xp.Trace"
        return answer(ANALYSIS, blank(COLUMNS), scene, options, [note])
    once = pl.concat(tables).unique(["lane", "name"], keep="first", maintain_order=True)
    table = (
        once.group_by("name", "device")
        .agg(
            pl.col("count", "total", "self").sum(),
            pl.col("min").min(),
            pl.col("max").max(),
            pl.col("rank").n_unique().alias("ranks"),
            pl.col("event").sort_by("start", "rank").first(),
        )
        .with_columns(
            pl.when("device").then(pl.lit("device")).otherwise(pl.lit("host")).alias("on"),
            (pl.col("total") / pl.col("count")).round().cast(pl.Int64).alias("average"),
        )
        .sort("device", "total", "name", descending=[False, True, False])
    )
    return answer(ANALYSIS, table, scene, options)


ANALYSIS = Analysis(
    name="annotations",
    title="Annotations",
    question="How long did the marked parts of the source take?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
)
