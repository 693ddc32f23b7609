"""Buffers in memory at the peak of each XLA program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import Setting, choice_parser, parse_pattern
from tracehound.analysis.hlo.program_buffers import buffers_of_rank, note_no_buffers, with_program_titles
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
from tracehound.model.notes import note

GROUPINGS: Final = ("buffer", "framework", "source", "opcode")
BY_SETTING: Final = Setting(
    "by", GROUPINGS[0], "rows: buffers, or groups by framework op, source line or opcode", choice_parser(*GROUPINGS)
)
PROGRAM_SETTING: Final = Setting(
    "program", "", "only programs whose names match this regular expression", parse_pattern
)

DEFINITION = """\
A row is a buffer that is held at the peak of its program (see hlo_memory), the largest first, programs with the
highest peaks first. A buffer is a result of an instruction or a part of it: copy-start{0} is the first part of the
result of copy-start. bytes are those of XLA's buffer assignment, unpadded those of its elements only, padding the
rest; share is of the peak. role tells why it is held: temporary from event first to event last of the heap (- : to the
end), or parameter, output and constant, which are held all the time.

by=framework, source or opcode has one row for the buffers of one framework op, source line or opcode: buffers counts
them, and the other columns are those of the largest. Of more than 20,000 buffers at a peak only the largest have their
shape, framework op and source."""

COLUMNS = (
    Column("program", "text", "name of the module and id of the program"),
    Column("space", "text", "memory space: the device's own, the host's, or its number", brief=False),
    Column("buffer", "text", "instruction and the part of its result; or the group"),
    Column("role", "text", "temporary, parameter, output or constant"),
    Column("bytes", "bytes", "that it takes"),
    Column("share", "share", "of it", "the peak of the program in this memory space"),
    Column("buffers", "count", "number of buffers in the row", brief=False),
    Column("unpadded", "bytes", "of its elements", brief=False),
    Column("padding", "bytes", "that tiles add"),
    Column("opcode", "text", "opcode of the instruction"),
    Column("shape", "text", "its shape, with layout"),
    Column("framework", "text", "the framework's name of the instruction", brief=False),
    Column("source", "text", "the line of source that it comes from"),
    Column("first", "number", "event of the heap that allocates it", brief=False),
    Column("last", "number", "event that frees it", brief=False),
)

_BRIEF_WITH_SPACES: Final = {"space": True, "role": False}
_COLUMNS_WITH_SPACES: Final = tuple(
    replace(column, brief=_BRIEF_WITH_SPACES.get(column.name, column.brief)) for column in COLUMNS
)
"""The columns for several memory spaces: a narrow screen keeps `space`, as shares are of each space's peak."""


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The buffers at the peaks of all programs."""
    rows = buffers_of_rank(rank_trace).filter("peak")
    if rows.is_empty():
        return empty_table(COLUMNS).with_columns(pl.lit(0, pl.Int64).alias("peak"))
    program_pattern = PROGRAM_SETTING.value_in(options.given)
    names = rows["module"].unique().to_list()
    rows = rows.filter(pl.col("module").is_in([name for name in names if program_pattern.search(name)]))
    with_peak = rows.with_columns(pl.col("bytes").sum().over("program", "module", "space").alias("peak"))
    unpadded = pl.coalesce("unpadded", "bytes")
    table = with_program_titles(with_peak).with_columns(
        pl.col("name").alias("buffer"),
        pl.col("sort").cast(pl.String).alias("role"),
        pl.col("opcode").cast(pl.String),
        pl.lit(1, pl.Int64).alias("buffers"),
        (pl.col("bytes") - unpadded).clip(lower_bound=0).alias("padding"),
        (pl.col("bytes") / pl.col("peak")).fill_nan(None).alias("share"),
    )
    return _group_buffers(table, BY_SETTING.value_in(options.given)).select(
        *(column.name for column in COLUMNS), "peak"
    )


def _group_buffers(rows: pl.DataFrame, grouping: str) -> pl.DataFrame:
    """A row for each group of buffers, with the columns of the largest one."""
    if grouping == "buffer":
        return rows
    with_group = rows.with_columns(pl.col(grouping).fill_null("unknown").alias("buffer"))
    sums = [pl.col(name).sum() for name in ("bytes", "share", "buffers", "unpadded", "padding")]
    columns_of_largest = ("role", "opcode", "shape", "framework", "source", "first", "last", "peak")
    return (
        with_group.sort("bytes", "name", descending=[True, False])
        .group_by("program", "space", "buffer", maintain_order=True)
        .agg(*sums, *(pl.col(name).first() for name in columns_of_largest))
    )


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """Each program once, the highest peak first; within a program the largest buffers first."""
    rows = concat_tables(tables)
    if rows.is_empty():
        program_notes = (
            [] if not any(name == "program" for name, _ in options.given) else [note("no_program_called_so")]
        )
        return empty_result(ANALYSIS, context, options, note_no_buffers(context), *program_notes)
    rows = rows.unique(maintain_order=True)
    order = ["peak", "program", "space", "bytes", "buffer"]
    table = rows.sort(order, descending=[True, False, False, True, False])
    analysis = replace(ANALYSIS, columns=_COLUMNS_WITH_SPACES if table["space"].n_unique() > 1 else COLUMNS)
    return make_result(analysis, table, context, options)


ANALYSIS = Analysis(
    name="hlo_buffers",
    title="Buffers at the peak",
    question="What is in memory at the peak of an XLA program, by size, by op, by source line?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    device_ops_only=True,
    settings=(BY_SETTING, PROGRAM_SETTING),
)
