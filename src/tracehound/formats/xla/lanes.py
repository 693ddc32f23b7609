"""Lanes of HLO ops and modules where a profile has none: on CPUs and GPUs.

Owns how the executions of ops and modules are found again among host events and kernels. Works on frames, whatever
format they were read from; knows no bytes.

A frame of ops has a row per event that names an HLO op: `device` (Int64, ordinal), `start`, `end` (ps), `name` (of the
op), `module` (text), `program`, `run` and `correlation` (Int64); the last four may be null. On GPUs it may also have
`loop` (see `outer_loop`) and `call` (see `with_calls`). Further columns stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from tracehound.intervals import union
from tracehound.nesting import nesting
from tracehound.own_time import one_at_a_time

SCOPE = "::"
"""Joins the names of the ops around an op, outermost first, in a GPU kernel's ``hlo_op``."""

EXECUTING = ":XLA GPU module"
"""What follows a module's name in the name of the host event in which an execution of it is launched on a GPU."""

END_MARK = "end: "
"""How the CPU runtime names the event with which an op that runs elsewhere ends."""


def leaf_op(hlo_op: pl.Expr) -> pl.Expr:
    """The innermost op of a kernel's ``hlo_op``."""
    return hlo_op.str.split(SCOPE).list.last()


def outer_loop(hlo_op: pl.Expr) -> pl.Expr:
    """The outermost loop around the innermost op of a kernel's ``hlo_op``, null for none."""
    return hlo_op.str.extract(r"(?:^|::)(while(?:\.[^:]*)?)::")


def with_calls(ops: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """The ops with `call`: which of the host's executions of their module launched each, null where that is unknown.

    `host` has events of the host's threads: `lane`, `start`, `end`, `name` and `correlation`. An op's launch is that of
    its correlation which began last before it; the execution is the innermost around that, on its thread, and of its
    module.
    """
    around = _around_launches(ops, host)
    mine = ops["module"] == around["executing"].cast(ops.schema["module"])
    return ops.with_columns(pl.select(pl.when(mine).then(around["call"]).alias("call")).to_series())


def of_calls(ops: pl.DataFrame) -> pl.DataFrame:
    """Which programs the ops with a `call` are of: `call`, `module`, `program` and `run`, each set once."""
    return _of_modules(ops).select(_CALLED.names()).cast(_CALLED).unique(maintain_order=True)


def in_calls(
    work: pl.DataFrame, ops: Sequence[pl.DataFrame], host: pl.DataFrame, programs: Mapping[str, int]
) -> pl.DataFrame:
    """Work that names no op as ops of the executions that launched it, with `call`; what none launched is left out.

    Such are the kernels of a graph, which XLA launches as one (a command buffer). `work` has what tells an op but for
    `module`, `program` and `run`: the first is that of the execution, the others are those of `ops` with the same call,
    else the program is that of the module in `programs`, if it is there.
    """
    around = _around_launches(work, host)
    known = around["call"].is_not_null()
    module = pl.col("executing").cast(pl.Categorical).alias("module")
    found = work.filter(known).hstack(around.filter(known).select("call", module))
    named = pl.concat([pl.DataFrame(schema=_CALLED), *map(of_calls, ops)]).drop("module").drop_nulls("call")
    told = found.join(
        named.unique("call", keep="first", maintain_order=True), on="call", how="left", maintain_order="left"
    )
    only = pl.col("module").cast(pl.String).replace_strict(programs, default=None, return_dtype=pl.Int64)
    return told.with_columns(pl.coalesce("program", only).alias("program"))


def _around_launches(ops: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """Of each op the execution in which the host launched it: its number, `call`, and its module, `executing`.

    Of executions inside of others, the innermost: one goes on when those in it have returned.
    """
    running = (
        host.filter(pl.col("name").cast(pl.String).str.ends_with(EXECUTING))
        .select("lane", "start", "end", _executing().alias("executing"))
        .sort("lane", "start", -pl.col("end"), maintain_order=True)
        .with_row_index("call")
        .cast({"call": pl.Int64})
    )
    lane, start, end = (running[name].cast(pl.Int64).to_numpy() for name in ("lane", "start", "end"))
    begins = np.flatnonzero(np.append(True, lane[1:] != lane[:-1])[: len(lane)])
    owned = one_at_a_time(start, end, nesting(start, end, begins).parent, lane)
    inner = running[owned.owner].with_columns(pl.Series("start", owned.start), pl.Series("until", owned.end))
    launches = host.filter(pl.col("correlation").is_not_null()).select("lane", "start", "correlation").sort("start")
    inside = (
        launches.join_asof(inner.sort("start"), on="start", by="lane", check_sortedness=False)
        .filter(pl.col("start") < pl.col("until"))
        .select("correlation", "start", "call", "executing")
    )
    return (
        ops.select("correlation", "start")
        .with_row_index("row")
        .sort("start")
        .join_asof(inside, on="start", by="correlation", check_sortedness=False)
        .sort("row")
        .select("call", "executing")
    )


def _executing() -> pl.Expr:
    return pl.col("name").cast(pl.String).str.strip_suffix(EXECUTING)


def executions(ops: pl.DataFrame) -> pl.DataFrame:
    """One row per execution of a module on a device: `device`, `start`, `end`, `name`, `run`, `program`, `correlation`.

    Ops of one run are one execution, from the first start to the last end, and so are those of one `call`; an op whose
    call is unknown is of that of the op before. Where neither is known, an execution begins when the module changes, or
    when the op comes again with which the module first began and all earlier ops have ended. Where that lies in a loop
    the loop stands for it: its turns begin nothing, so that executions of a module that is one loop and no more are
    taken for one. Named ``module(program)`` as on TPUs; launched by what launched the first op.
    """
    known = _of_modules(ops)
    call = pl.col("call").forward_fill().over(_MODULE, order_by="start")
    called = known.with_columns(pl.when(pl.col("run").is_null()).then(call).alias("call"))
    turn = pl.when(_UNTOLD).then(_turn(called)) if called.select(_UNTOLD.any()).item() else pl.lit(None, pl.Int64)
    return (
        _as_one(called.with_columns(turn.alias("turn")))
        .select("device", "start", "end", _module_name(), "run", "program", "correlation")
        .sort("device", "start", "end", "run", "name", descending=[False, False, True, False, False])
    )


def by_execution(ops: pl.DataFrame) -> pl.DataFrame | None:
    """The ops of each execution as one, where all have a run or a call; None where some have neither.

    Of any parts of some ops these have, together, the `executions` of them all.
    """
    known = _of_modules(ops)
    if known.select(_UNTOLD.any()).item():
        return None
    call = pl.when(pl.col("run").is_null()).then("call")
    return _as_one(known.with_columns(call.alias("call"), pl.lit(None, pl.Int64).alias("turn"))).drop("turn")


def _of_modules(ops: pl.DataFrame) -> pl.DataFrame:
    """The ops that have a module, with all columns that may tell their executions."""
    missing = [name for name in _MAYBE if name not in ops.columns]
    return ops.with_columns(pl.lit(None, _MAYBE[name]).alias(name) for name in missing).filter(
        pl.col("module").is_not_null()
    )


def _as_one(ops: pl.DataFrame) -> pl.DataFrame:
    """A row for the ops of each run, call or turn."""
    return ops.group_by(*_MODULE, "run", "call", "turn").agg(
        pl.col("correlation").sort_by("start").first(), pl.col("start").min(), pl.col("end").max()
    )


_MODULE = ("device", "module", "program")
_MAYBE = {"run": pl.Int64(), "correlation": pl.Int64(), "call": pl.Int64(), "loop": pl.String()}
_UNTOLD = pl.col("run").is_null() & pl.col("call").is_null()

_CALLED = pl.Schema({"call": pl.Int64(), "module": pl.Categorical(), "program": pl.Int64(), "run": pl.Int64()})

TELLING = ("record", "device", "start", "end", "name", "module", "program", "run", "correlation", "loop", "produces")
"""The columns of ops of which any may tell their executions."""


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
    root = pl.coalesce(pl.col("loop").cast(pl.String), pl.col("name").cast(pl.String)).alias("root")
    ordered = ops.select(*_MODULE, "start", "end", "loop", root).with_row_index("row").sort("device", "start")
    marked = ordered.with_columns(
        pl.col("end").cum_max().shift(1).over("device").fill_null(-1).alias("reach"),
        pl.col("root").first().over(_MODULE).alias("opening"),
        pl.col("root").shift(1).over("device").alias("before"),
        pl.struct("module", "program").rle_id().over("device").alias("stretch"),
    )
    turned = pl.col("loop").is_not_null() & (pl.col("before") == pl.col("root"))
    begins = (pl.col("stretch") != pl.col("stretch").shift(1).over("device").fill_null(-1)) | (
        (pl.col("root") == pl.col("opening")) & (pl.col("start") >= pl.col("reach")) & ~turned
    )
    turns = marked.with_columns(begins.alias("begins")).with_columns(
        pl.col("begins").cast(pl.Int64).cum_sum().over("device").alias("turn")
    )
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
