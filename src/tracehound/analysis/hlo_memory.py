"""Peak memory of each XLA program, and the instruction at which it is reached."""

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
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import (
    Analysis,
    Column,
    Options,
    Result,
    concat_tables,
    empty_result,
    empty_table,
    make_result,
)
from tracehound.model.notes import Note, note

DEFINITION = """\
The buffer assignment in a program's HLO proto tells where XLA placed buffers, and in which order its heap allocates
and frees them; that order is replayed here, event by event. The space of a buffer is held until the last buffer that
shares it is freed. peak is the most memory held at once in a memory space: the heap's maximum, plus buffers that last
while the program runs (parameters, outputs and constants), each allocation with its largest buffer. Thread-local
buffers do not count. position is the event of the heap, from 0, at which the maximum is first reached, and at is the
instruction that allocates there; a program with only lasting buffers has no position. allocated is the size of the
heap as XLA laid it out, gaps included.

unpadded counts the same buffers by the elements of their shapes, without padding to tiles (8 x 128 and similar);
padding is the share that this adds. Host memory (space 5 in layouts) has rows of its own.

XProf's memory viewer has the same peaks and positions (20,480.00003 MiB at position 3 for jit_f of a TPU that
offloads); its peaks for CPUs also include alignment of the heap (92 of 622,728 bytes in one program). It shows one
memory space at a time, and counts padding of lasting buffers as unpadded, so its unpadded peak may be higher. The peak
is what the compiler planned for one program, without other memory on the device (other programs' buffers, live
arrays); allocator has the memory that was really held, if it was recorded."""

COLUMNS = (
    Column("program", "text", "name of the module and id of the program"),
    Column("space", "text", "memory space: the device's own, the host's, or its number"),
    Column("ranks", "count", "ranks that executed ops of it here"),
    Column("peak", "bytes", "most memory held at once"),
    Column("position", "number", "event of the heap, from 0, at which the peak is reached"),
    Column("at", "text", "instruction that allocates there"),
    Column("buffers", "count", "buffers held at the peak"),
    Column("unpadded", "bytes", "peak without the padding of tiles", brief=False),
    Column("padding", "share", "padding of tiles", "the peak"),
    Column("temporary", "bytes", "part of the peak: intermediate results"),
    Column("parameters", "bytes", "part of the peak: parameters", brief=False),
    Column("outputs", "bytes", "part of the peak: results", brief=False),
    Column("constants", "bytes", "part of the peak: constants", brief=False),
    Column("largest", "text", "the largest buffer at the peak"),
    Column("share", "share", "the largest buffer", "the peak", brief=False),
)

_BUFFER_SORTS = {"temporary": "temporary", "parameters": "parameter", "outputs": "output", "constants": "constant"}


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each program and memory space."""
    del options
    rows = buffers_of_rank(rank_trace)
    if rows.is_empty():
        return empty_table(COLUMNS).with_columns(pl.lit(0, pl.Int64).alias("id"))
    at_peak = rows.filter("peak").sort("bytes", "name", descending=[True, False])
    summed = at_peak.group_by(HEAP_KEY, maintain_order=True).agg(
        pl.col("ran").any().cast(pl.Int64).alias("ranks"),
        pl.col("bytes").sum().alias("peak"),
        pl.col("first").max().alias("position"),
        pl.len().cast(pl.Int64).alias("buffers"),
        pl.coalesce("unpadded", "bytes").sum().alias("unpadded"),
        *(pl.col("bytes").filter(pl.col("sort") == sort).sum().alias(name) for name, sort in _BUFFER_SORTS.items()),
        pl.col("name").first().alias("largest"),
        (pl.col("bytes").first() / pl.col("bytes").sum()).alias("share"),
    )
    peak_instructions = heap_curve(rows).select(*HEAP_KEY, "position", pl.col("name").alias("at"))
    with_position = summed.join(peak_instructions, on=[*HEAP_KEY, "position"], how="left", maintain_order="left")
    padded = (1 - pl.col("unpadded") / pl.col("peak")).clip(0, 1)
    return with_program_titles(
        with_position.with_columns(padded.alias("padding"), pl.col("program").alias("id"))
    ).select(*(column.name for column in COLUMNS), "id")  # fmt: skip


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """Each program once, the highest peak first."""
    rows = concat_tables(tables)
    if rows.is_empty():
        return empty_result(ANALYSIS, context, options, note_no_buffers(context))
    other_columns = [name for name in rows.columns if name != "ranks"]
    table = rows.group_by(other_columns, maintain_order=True).agg(pl.col("ranks").sum())
    table = table.sort("peak", "program", "space", descending=[True, False, False])
    return make_result(ANALYSIS, table, context, options, _notes(table))


def _notes(table: pl.DataFrame) -> list[Note]:
    """Notes on the program with the highest peak, and on host memory."""
    first = table.row(0, named=True)
    notes = [note("program_peak", program=first["program"], peak=first["peak"], space=first["space"])]
    hosted = table.filter(pl.col("space") == "host")["peak"].max()
    if isinstance(hosted, int):
        notes.append(note("host_memory_of_programs", peak=hosted))
    return [*notes, note("peaks_in_hlo_buffers_and_hlo_heap")]


ANALYSIS = Analysis(
    name="hlo_memory",
    title="Memory of programs",
    question="How much memory does each XLA program need at its peak, and at which instruction?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    device_ops_only=True,
)
