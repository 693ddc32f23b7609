"""What was repaired, dropped, missing or inferred while the trace was read."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import polars as pl

from tracehound.analysis.devices.absent import absent
from tracehound.analysis.devices.beside import beside
from tracehound.analysis.devices.silence import why
from tracehound.analysis.ranks.process_groups import lacking
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, blank
from tracehound.notes import Note, note
from tracehound.trace import collected

DEFINITION = """\
repaired = damaged input of which everything was kept; dropped = what could not be kept; missing = what the profiler
did not record and an analysis would have used; inferred = what the file does not say and was concluded; info = what
was read and is not shown as an event. Always of the whole run: a window does not narrow it."""

COLUMNS = (
    Column("level", "text", "what happened"),
    Column("count", "count", "how often"),
    Column("what", "note", "to what"),
    Column("where", "text", "the first place"),
)

ORDER = ("dropped", "repaired", "missing", "inferred", "info")


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """One row: how much device work there is, how much of it has no known launch, and how much runs beside itself."""
    del options
    lanes = share.lanes.filter(pl.col("work") & pl.col("rank").is_not_null())["lane"].to_list()
    counts = share.device.filter(pl.col("lane").is_in(lanes)).select(
        pl.len().cast(pl.Int64).alias("work"), pl.col("launch").null_count().cast(pl.Int64).alias("orphans")
    )
    threads = share.lanes.filter(pl.col("rank").is_null()).height
    return collected(counts).with_columns(
        pl.lit(share.rank, pl.Int64).alias("rank"),
        pl.lit(threads, pl.Int64).alias("threads"),
        pl.lit(beside(share), pl.Int64).alias("beside"),
    )


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per note, the most serious first."""
    found = [*scene.notes, *_missing_launches(tables), *_missing_devices(tables), *lacking(scene)]
    if (missing := absent(scene)) is not None:
        found.append(missing.note)
    if (reason := why(scene.facts)) is not None:
        found.append(Note("missing", "no_device_activity", values=(("why", reason),)))
    if scene.ranks.height and scene.steps.is_empty():
        found.append(Note("missing", "no_steps"))
    rows = [(each.level, each.count, msgspec.json.encode(each).decode(), each.place) for each in found]
    table = pl.DataFrame(rows, schema=["level", "count", "what", "where"], orient="row") if rows else blank(COLUMNS)
    table = table.sort(
        pl.col("level").replace_strict(dict(zip(ORDER, range(len(ORDER)), strict=True))), maintain_order=True
    )
    return answer(ANALYSIS, table, scene, options, [] if rows else [note("nothing_to_report")])


def _missing_launches(tables: Sequence[pl.DataFrame]) -> list[Note]:
    if not tables:
        return []
    ranks = pl.concat(tables).filter((pl.col("orphans") > 0) & (pl.col("threads") > 0))
    orphans, work = int(ranks["orphans"].sum()), int(ranks["work"].sum())
    if not orphans:
        return []
    where, values = f"first on rank {ranks['rank'][0]}", (("events", orphans), ("of", work))
    return [Note("missing", "device_events_without_launch", orphans, where=where, values=values)]


def _missing_devices(tables: Sequence[pl.DataFrame]) -> list[Note]:
    """Devices of one process that a file does not tell apart (PyTorch/XLA on CPUs, SPMD)."""
    ranks = pl.concat(tables).filter(pl.col("beside") > 0) if tables else pl.DataFrame()
    if ranks.is_empty():
        return []
    where = f"first on rank {ranks['rank'][0]}"
    return [Note("missing", "devices_not_told_apart", int(ranks["beside"].sum()), where=where)]


ANALYSIS = Analysis(
    name="health",
    title="Health",
    question="What was repaired, dropped, missing or inferred?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
)
