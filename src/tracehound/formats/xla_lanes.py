"""Lanes of HLO ops and modules where a profile has none: on CPUs and GPUs.

Owns how the executions of ops and modules are found again among host events and kernels. Works on frames, whatever
format they were read from; knows no bytes.

A frame of ops has a row per event that names an HLO op: `device` (Int64, ordinal), `start`, `end` (ps), `name` (of the
op), `module` (String), `program`, `run` and `correlation` (Int64); the last four may be null. Further columns stay.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracehound.intervals import union

SCOPE = "::"
"""Joins the names of the ops around an op, outermost first, in a GPU kernel's ``hlo_op``."""

END_MARK = "end: "
"""How the CPU runtime names the event with which an op that runs elsewhere ends."""


def leaf_op(hlo_op: pl.Expr) -> pl.Expr:
    """The innermost op of a kernel's ``hlo_op``."""
    return hlo_op.str.split(SCOPE).list.last()


def with_true_ends(ops: pl.DataFrame, marks: pl.DataFrame) -> pl.DataFrame:
    """The ops, each until its end mark: the event of an op on a CPU may be no more than its dispatch.

    `marks` are the events named ``end: <op>`` with `consumes` and `end`; an op is joined to the mark that consumes what
    it `produces`, and ends with the later of the two: an op that ran where it was dispatched is marked just before its
    end. An op without a mark keeps its end.
    """
    closing = marks.filter(pl.col("consumes").is_not_null()).group_by("consumes").agg(pl.col("end").max().alias("mark"))
    return (
        ops.join(closing, left_on="produces", right_on="consumes", how="left", maintain_order="left")
        .with_columns(pl.max_horizontal("end", "mark").alias("end"))
        .drop("mark")
    )


def executions(ops: pl.DataFrame) -> pl.DataFrame:
    """One row per execution of a module on a device: `device`, `start`, `end`, `name`, `run`, `program`, `correlation`.

    Ops of one run are one execution, from the first start to the last end. Where the profile has no runs, an execution
    begins when the module changes, or when the op comes again with which the module first began and all earlier ops
    have ended. Named ``module(program)`` as on TPUs; launched by what launched the first op.
    """
    known = ops.filter(pl.col("module").is_not_null())
    numbered = known.with_columns(
        pl.when(pl.col("run").is_null()).then(_turn(known)).otherwise(-1).alias("turn")
    )  # fmt: skip
    return (
        numbered.group_by("device", "module", "program", "run", "turn")
        .agg(pl.col("correlation").sort_by("start").first(), pl.col("start").min(), pl.col("end").max())
        .select("device", "start", "end", _module_name(), "run", "program", "correlation")
        .sort("device", "start")
    )


def _module_name() -> pl.Expr:
    named = pl.col("module").cast(pl.String)
    number = pl.col("program").reinterpret(signed=False).cast(pl.String)
    return (
        pl.when(number.is_null())
        .then(named)
        .otherwise(pl.concat_str(named, pl.lit("("), number, pl.lit(")")))
        .alias("name")
    )


def _turn(ops: pl.DataFrame) -> pl.Series:
    """For each op the number of the execution it belongs to, by order of start on its device."""
    module = ["device", "module", "program"]
    ordered = ops.select(*module, "start", "end", "name").with_row_index("row").sort("device", "start")
    marked = ordered.with_columns(
        pl.col("end").cum_max().shift(1).over("device").fill_null(-1).alias("reach"),
        pl.col("name").first().over(module).alias("opening"),
        pl.struct("module", "program").rle_id().over("device").alias("stretch"),
    ).with_columns(
        (
            (pl.col("stretch") != pl.col("stretch").shift(1).over("device").fill_null(-1))
            | ((pl.col("name") == pl.col("opening")) & (pl.col("start") >= pl.col("reach")))
        ).alias("begins")
    )
    turns = marked.with_columns(pl.col("begins").cast(pl.Int64).cum_sum().over("device").alias("turn"))
    return turns.sort("row")["turn"]


OVERRULED = ("annotation", "runtime", "transfer", "other")
"""Kinds of host events that belong to a compilation where one is under way."""


def with_compilations(events: pl.DataFrame) -> pl.DataFrame:
    """Host events (`lane`, `start`, `kind`, sorted or not) whose kind is ``compile`` where a compilation is under way.

    Passes of the compiler have names that say nothing (``dce``, ``fusion``); they lie inside the compilation.
    """
    compiling = events.filter(pl.col("kind") == "compile")
    if compiling.is_empty():
        return events
    lane, start = events["lane"].to_numpy(), events["start"].to_numpy()
    inside = np.zeros(len(lane), bool)
    for (number,), rows in compiling.partition_by("lane", as_dict=True).items():
        spans = union(rows["start"].to_numpy(), rows["end"].to_numpy())
        mine = np.flatnonzero(lane == number)
        at = np.searchsorted(spans.start, start[mine], side="right") - 1
        if len(spans.start):
            inside[mine] = (at >= 0) & (start[mine] < spans.end[np.maximum(at, 0)])
    overruled = pl.Series(inside) & events["kind"].is_in(OVERRULED)
    compile_kind = pl.lit("compile", events.schema["kind"])
    return events.with_columns(pl.when(overruled).then(compile_kind).otherwise(pl.col("kind")).alias("kind"))
