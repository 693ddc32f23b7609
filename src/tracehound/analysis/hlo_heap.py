"""Heap of each XLA program over its schedule: allocations, releases, and bytes held."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracehound.analysis.hlo.program_buffers import (
    HEAP_KEY,
    buffers_of_rank,
    heap_curve,
    note_no_buffers,
    with_program_titles,
)
from tracehound.analysis.hlo_buffers import PROGRAM_SETTING
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import Analysis, Column, Options, Result, concat_tables, empty_table, make_result
from tracehound.model.notes import note

DEFINITION = """\
A row is an event of a program's heap, in the order in which its schedule runs. position counts events from 0. buffer
is the largest one allocated there, or else the largest one freed. held is all memory held after it, including
parameters, outputs and constants. share is held / the peak. Programs with the highest peaks come first. Events that
change nothing (buffers that share space) have no row.

XProf's timeline has the same numbers one event later: it shows what is held before an event."""

COLUMNS = (
    Column("program", "text", "name of the module and id of the program"),
    Column("space", "text", "memory space: the device's own, the host's, or its number", brief=False),
    Column("position", "number", "event of the heap, from 0"),
    Column("buffer", "text", "buffer that is allocated or freed there"),
    Column("allocated", "bytes", "at this event"),
    Column("freed", "bytes", "at this event"),
    Column("held", "bytes", "memory held after it"),
    Column("share", "share", "held", "the peak of the program in this memory space"),
)


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The events of all heaps."""
    rows = buffers_of_rank(rank_trace)
    program_pattern = PROGRAM_SETTING.value_in(options.given)
    names = rows["module"].unique().to_list()
    rows = rows.filter(pl.col("module").is_in([name for name in names if program_pattern.search(str(name))]))
    if rows.filter(pl.col("first").is_not_null()).is_empty():
        return empty_table(COLUMNS).with_columns(pl.lit(0, pl.Int64).alias("peak"))
    peak = pl.col("held").max().over(HEAP_KEY)
    table = heap_curve(rows).with_columns(peak.alias("peak"), (pl.col("held") / peak).fill_nan(None).alias("share"))
    return with_program_titles(table.with_columns(pl.col("name").alias("buffer"))).select(
        *(column.name for column in COLUMNS), "peak"
    )


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """Each program once, the highest peak first."""
    rows = concat_tables(tables)
    if rows.is_empty():
        program_notes = [note("no_program_called_so")] if any(name == "program" for name, _ in options.given) else []
        reason = note("no_temporary_buffers", level="missing", why=note_no_buffers(context))
        return make_result(ANALYSIS, empty_table(COLUMNS), context, options, [reason, *program_notes])
    rows = rows.unique(maintain_order=True)
    table = rows.sort("peak", "program", "space", "position", descending=[True, False, False, False])
    return make_result(ANALYSIS, table, context, options)


ANALYSIS = Analysis(
    name="hlo_heap",
    title="Heap of programs",
    question="How does the memory of an XLA program grow and shrink, instruction by instruction?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    device_ops_only=True,
    settings=(PROGRAM_SETTING,),
)
