"""How the memory of each program of XLA grows and shrinks while it runs."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracehound.analysis.hlo.buffers import HEAP, assigned, curve, titled, why_without
from tracehound.analysis.hlo_buffers import PROGRAM
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, blank, stacked
from tracehound.notes import note

DEFINITION = """\
A row is an event of the heap of a program, in the order in which its schedule runs: position counts the events from
0, buffer is the largest that is allocated there, else the largest that is freed, held is all that is there after it,
parameters, outputs and constants included. share is held over the peak. Programs with the highest peaks come first.
Events that change nothing (buffers that share a place) have no row.

XProf's timeline has the same numbers one event later: it tells what is there before an event."""

COLUMNS = (
    Column("program", "text", "name of the module and id of the program"),
    Column("space", "text", "memory space: the device's own, the host's, or its number", brief=False),
    Column("position", "number", "event of the heap, from 0"),
    Column("buffer", "text", "what is allocated there, or freed"),
    Column("allocated", "bytes", "at this event"),
    Column("freed", "bytes", "at this event"),
    Column("held", "bytes", "all that is there after it"),
    Column("share", "share", "held", "the peak of the program in this memory space"),
)


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """The curves of all heaps."""
    rows = assigned(share)
    wanted = PROGRAM.of(options.given)
    names = rows["module"].unique().to_list()
    rows = rows.filter(pl.col("module").is_in([name for name in names if wanted.search(str(name))]))
    if rows.filter(pl.col("first").is_not_null()).is_empty():
        return blank(COLUMNS).with_columns(pl.lit(0, pl.Int64).alias("peak"))
    peak = pl.col("held").max().over(HEAP)
    made = curve(rows).with_columns(peak.alias("peak"), (pl.col("held") / peak).fill_nan(None).alias("share"))
    return titled(made.with_columns(pl.col("name").alias("buffer"))).select(
        *(column.name for column in COLUMNS), "peak"
    )


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """Each program once, the one that needs most first."""
    rows = stacked(tables)
    if rows.is_empty():
        asked = [note("no_program_called_so")] if any(name == "program" for name, _ in options.given) else []
        why = note("no_temporary_buffers", level="missing", why=why_without(scene))
        return answer(ANALYSIS, blank(COLUMNS), scene, options, [why, *asked])
    rows = rows.unique(maintain_order=True)
    table = rows.sort("peak", "program", "space", "position", descending=[True, False, False, False])
    return answer(ANALYSIS, table, scene, options)


ANALYSIS = Analysis(
    name="hlo_heap",
    title="Heap of programs",
    question="How does the memory of an XLA program grow and shrink, instruction by instruction?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    of_devices=True,
    settings=(PROGRAM,),
)
