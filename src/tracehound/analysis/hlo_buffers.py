"""What is in memory at the peak of each program of XLA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.hlo.buffers import assigned, titled, why_without
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, blank, stacked, without
from tracehound.analysis.settings import Setting, one_of, pattern
from tracehound.notes import note

WAYS: Final = ("buffer", "framework", "source", "opcode")
BY: Final = Setting("by", WAYS[0], "buffer, framework, source or opcode: what a row stands for", one_of(*WAYS))
PROGRAM: Final = Setting("program", "", "only programs whose names match this regular expression", pattern)

DEFINITION = """\
A row is a buffer that is there at the peak of its program (hlo_memory says when that is), the largest first, programs
with the highest peaks before others. A buffer is a result of an instruction or a part of it: copy-start{0} is the
first part of what copy-start gives. bytes are those that XLA's buffer assignment gives it, unpadded those of its
elements alone, padding the rest; share is of the peak. sort says why it is there: a temporary one from event first to
event last of the heap (- : to the end), parameters, outputs and constants all the time.

With by=framework, source or opcode the buffers of one framework op, source line or opcode are one row: buffers counts
them, and the other columns are those of the largest. Of more than 20,000 buffers in a peak only the largest have
their shape, framework op and source."""

COLUMNS = (
    Column("program", "text", "name of the module and id of the program"),
    Column("space", "text", "memory space: the device's own, the host's, or its number", brief=False),
    Column("buffer", "text", "instruction, and which part of its result; or what the row stands for"),
    Column("role", "text", "temporary, parameter, output or constant"),
    Column("bytes", "bytes", "that it takes"),
    Column("share", "share", "of it", "the peak of the program in this memory space"),
    Column("buffers", "count", "how many buffers the row stands for", brief=False),
    Column("unpadded", "bytes", "of its elements", brief=False),
    Column("padding", "bytes", "that tiles add"),
    Column("opcode", "text", "what the instruction does"),
    Column("shape", "text", "its shape, with layout"),
    Column("framework", "text", "the framework's name of the instruction", brief=False),
    Column("source", "text", "the line of source that it comes from"),
    Column("first", "number", "event of the heap that allocates it", brief=False),
    Column("last", "number", "event that frees it", brief=False),
)

_BRIEF: Final = {"space": True, "role": False}
_OF_SEVERAL: Final = tuple(replace(column, brief=_BRIEF.get(column.name, column.brief)) for column in COLUMNS)
"""The same of several memory spaces, which are told apart on a narrow screen: shares are of the peaks of each."""


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """The buffers at the peaks of all programs."""
    rows = assigned(share).filter("peak")
    if rows.is_empty():
        return blank(COLUMNS).with_columns(pl.lit(0, pl.Int64).alias("peak"))
    wanted = PROGRAM.of(options.given)
    names = rows["module"].unique().to_list()
    rows = rows.filter(pl.col("module").is_in([name for name in names if wanted.search(name)]))
    there = rows.with_columns(pl.col("bytes").sum().over("program", "module", "space").alias("peak"))
    bare = pl.coalesce("unpadded", "bytes")
    made = titled(there).with_columns(
        pl.col("name").alias("buffer"),
        pl.col("sort").cast(pl.String).alias("role"),
        pl.col("opcode").cast(pl.String),
        pl.lit(1, pl.Int64).alias("buffers"),
        (pl.col("bytes") - bare).clip(lower_bound=0).alias("padding"),
        (pl.col("bytes") / pl.col("peak")).fill_nan(None).alias("share"),
    )
    return _grouped(made, BY.of(options.given)).select(*(column.name for column in COLUMNS), "peak")


def _grouped(rows: pl.DataFrame, by: str) -> pl.DataFrame:
    """A row for each of what is asked for, with what the largest of its buffers has."""
    if by == "buffer":
        return rows
    named = rows.with_columns(pl.col(by).fill_null("unknown").alias("buffer"))
    sums = [pl.col(name).sum() for name in ("bytes", "share", "buffers", "unpadded", "padding")]
    rest = ("role", "opcode", "shape", "framework", "source", "first", "last", "peak")
    return (
        named.sort("bytes", "name", descending=[True, False])
        .group_by("program", "space", "buffer", maintain_order=True)
        .agg(*sums, *(pl.col(name).first() for name in rest))
    )


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """Each program once, the one that needs most first, in it the largest buffers."""
    rows = stacked(tables)
    if rows.is_empty():
        asked = [] if not any(name == "program" for name, _ in options.given) else [note("no_program_called_so")]
        return without(ANALYSIS, scene, options, why_without(scene), *asked)
    rows = rows.unique(maintain_order=True)
    order = ["peak", "program", "space", "bytes", "buffer"]
    table = rows.sort(order, descending=[True, False, False, True, False])
    shown = replace(ANALYSIS, columns=_OF_SEVERAL if table["space"].n_unique() > 1 else COLUMNS)
    return answer(shown, table, scene, options)


ANALYSIS = Analysis(
    name="hlo_buffers",
    title="Buffers at the peak",
    question="What is in memory at the peak of an XLA program, by size, by op, by source line?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    of_devices=True,
    settings=(BY, PROGRAM),
)
