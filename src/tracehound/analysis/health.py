"""What was repaired, dropped, missing or inferred while the trace was read."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, blank
from tracehound.errors import printable
from tracehound.trace import collected

DEFINITION = """\
repaired = damaged input of which everything was kept; dropped = what could not be kept; missing = what the profiler
did not record and an analysis would have used; inferred = what the file does not say and was concluded; info = what
was read and is not shown as an event. Always of the whole run: a window does not narrow it."""

COLUMNS = (
    Column("level", "text", "what happened"),
    Column("count", "count", "how often"),
    Column("what", "text", "to what"),
    Column("where", "text", "the first place"),
)

ORDER = ("dropped", "repaired", "missing", "inferred", "info")


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """One row: how many pieces of device work there are, and how many have no known launch."""
    del options
    lanes = share.lanes.filter(pl.col("work") & pl.col("rank").is_not_null())["lane"].to_list()
    counts = share.device.filter(pl.col("lane").is_in(lanes)).select(
        pl.len().cast(pl.Int64).alias("work"), pl.col("launch").null_count().cast(pl.Int64).alias("orphans")
    )
    threads = share.lanes.filter(pl.col("rank").is_null()).height
    return collected(counts).with_columns(
        pl.lit(share.rank, pl.Int64).alias("rank"), pl.lit(threads, pl.Int64).alias("threads")
    )


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per note, the most serious first."""
    rows: list[tuple[str, int, str, str]] = [
        (note.level, note.count, printable(note.text), printable(note.where)) for note in scene.notes
    ]
    rows.extend(_missing_launches(tables))
    rows.extend(_missing_ranks(scene))
    if scene.ranks.height and scene.steps.is_empty():
        rows.append(("missing", 1, "no steps: neither marked nor to be inferred", ""))
    table = pl.DataFrame(rows, schema=["level", "count", "what", "where"], orient="row") if rows else blank(COLUMNS)
    table = table.sort(
        pl.col("level").replace_strict(dict(zip(ORDER, range(len(ORDER)), strict=True))), maintain_order=True
    )
    return answer(ANALYSIS, table, scene, options, [] if rows else ["nothing to report: all was read as it stands"])


def _missing_launches(tables: Sequence[pl.DataFrame]) -> list[tuple[str, int, str, str]]:
    if not tables:
        return []
    ranks = pl.concat(tables).filter((pl.col("orphans") > 0) & (pl.col("threads") > 0))
    orphans, work = int(ranks["orphans"].sum()), int(ranks["work"].sum())
    if not orphans:
        return []
    where = f"first on rank {ranks['rank'][0]}"
    return [("missing", orphans, f"device events without a known launch, of {work:,}", where)]


def _missing_ranks(scene: Scene) -> list[tuple[str, int, str, str]]:
    worlds = [size for facts in scene.facts if isinstance(size := facts.get("world_size"), int)]
    if not worlds:
        return []
    absent = sorted(set(range(min(max(worlds), 1_000_000))) - set(scene.ranks["rank"].to_list()))
    if not absent:
        return []
    named = ", ".join(map(str, absent[:8])) + (", …" if len(absent) > 8 else "")
    return [("missing", len(absent), f"ranks of a job of {max(worlds):,} are not here: {named}", "")]


ANALYSIS = Analysis(
    name="health",
    title="Health",
    question="What was repaired, dropped, missing or inferred?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
)
