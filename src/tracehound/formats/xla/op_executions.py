"""Executions of ops and modules, found among host events and kernels where a profile has no lanes for them; op costs.

A frame of ops has a row for each event that names an HLO op: `device` (Int64, ordinal), `start`, `end` (ps), `name` (of
the op), `module` (text), `program`, `run` and `correlation` (Int64); the last four may be null. On GPUs it may also
have `loop` (see `outermost_loop_column`) and `call` (see `add_launching_calls`). Other columns are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
import polars as pl

from tracehound.formats.hlo import cost_model as hlo_flops
from tracehound.formats.hlo.cost_model import COST_LIMIT, InstructionCost
from tracehound.formats.hlo.hlo_line_parser import HOST_SPACE, VECTOR_SPACE, bytes_in_memory_space, parse_line
from tracehound.formats.protobuf_wire import BYTES, VARINT, WireError, iterate_fields
from tracehound.numeric.nesting import nest_intervals
from tracehound.numeric.self_time import innermost_intervals

CostColumns = dict[str, int | str | None]

ACCESS_FIELD, OPERATION_FIELD, SPACE_FIELD, SIZE_FIELD = 1, 1, 2, 3
READ, WRITE = 1, 2
HBM, CMEM, VMEM = 1, 2, 3

_COLUMN_OF_ACCESS: Final = MappingProxyType(
    {
        (READ, CMEM): "cmem_read",
        (WRITE, CMEM): "cmem_written",
        (READ, VMEM): "vmem_read",
        (WRITE, VMEM): "vmem_written",
    }
)


def bytes_by_memory(breakdown: object) -> CostColumns:
    """Bytes of each memory in a `memory_access_breakdown`; empty if it is damaged."""
    if not isinstance(breakdown, bytes):
        return {}
    columns: CostColumns = {"hbm_bytes": 0}
    try:
        for part in iterate_fields(breakdown, 0, len(breakdown)):
            if (part.number, part.wire) == (ACCESS_FIELD, BYTES):
                fields_ = iterate_fields(breakdown, part.at, part.at + part.value)
                values = {each.number: each.value for each in fields_ if each.wire == VARINT}
                space, size = values.get(SPACE_FIELD, 0), values.get(SIZE_FIELD, 0)
                name = "hbm_bytes" if space == HBM else _COLUMN_OF_ACCESS.get((values.get(OPERATION_FIELD, 0), space))
                if name is not None:
                    columns[name] = int(columns.get(name) or 0) + size
    except WireError:
        return {}
    return {name: size for name, size in columns.items() if int(size or 0) < COST_LIMIT}


def cost_from_hlo_proto(cost: InstructionCost | None) -> CostColumns:
    """Cost of an op by its HLO proto."""
    if cost is None:
        return {}
    return {
        "estimated_flops": cost.flops,
        "estimated_bytes": cost.bytes,
        "host_bytes": cost.on_host,
        "dtype": cost.dtype or None,
    }


def cost_from_hlo_text(name: str, text: str) -> CostColumns:
    """Cost of an op by its HLO line: its bytes in host memory, and the estimated cost of a custom call."""
    instruction = parse_line(text)
    if instruction is None:
        return {}
    on_host = bytes_in_memory_space(instruction, HOST_SPACE)
    columns: CostColumns = {"host_bytes": on_host if on_host < COST_LIMIT else None}
    if instruction.opcode == "custom-call" and instruction.operands:  # without operands it may only allocate memory
        flops = hlo_flops.custom_call_flops(f"{instruction.target} {name}", instruction.results, instruction.operands)
        moved = sum(shape.bytes for shape in (*instruction.results, *instruction.operands))
        columns["estimated_flops"] = flops if flops is not None and flops < COST_LIMIT else None
        columns["estimated_bytes"] = moved if moved < COST_LIMIT else None
    return columns


def hbm_bytes_from_hlo_text(text: str, moved: int | None) -> CostColumns:
    """Bytes in main memory among those that a TPU op moves, by its HLO line.

    For files without bytes by memory: the bytes of operands and results on the chip are subtracted.
    """
    instruction = parse_line(text) if moved is not None else None
    if instruction is None or moved is None:
        return {}
    return {"hbm_bytes": max(0, moved - bytes_in_memory_space(instruction, VECTOR_SPACE))}


OP_SCOPE_SEPARATOR = "::"
"""Separator of the names of the ops around an op, outermost first, in a GPU kernel's ``hlo_op``."""

EXECUTION_EVENT_SUFFIX = ":XLA GPU module"
"""Suffix of the host event in which an execution of a module is launched on a GPU; the module's name precedes it."""

END_EVENT_PREFIX = "end: "
"""Prefix of the event that marks the end of an op that the CPU runtime runs elsewhere."""


def innermost_op_column(hlo_op: pl.Expr) -> pl.Expr:
    """Innermost op of a kernel's ``hlo_op``."""
    return hlo_op.str.split(OP_SCOPE_SEPARATOR).list.last()


def outermost_loop_column(hlo_op: pl.Expr) -> pl.Expr:
    """Outermost loop around the innermost op of a kernel's ``hlo_op``, null for none."""
    return hlo_op.str.extract(r"(?:^|::)(while(?:\.[^:]*)?)::")


def add_launching_calls(ops: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """The ops with `call`: the number of the host's execution of their module that launched each, null if unknown.

    `host` has events of host threads: `lane`, `start`, `end`, `name` and `correlation`. An op's launch is that of its
    correlation which started last before it; the execution is the innermost around the launch, on its thread, and of
    the op's module.
    """
    launching = _executions_around_launches(ops, host)
    is_own_module = ops["module"] == launching["executing"].cast(ops.schema["module"])
    return ops.with_columns(pl.select(pl.when(is_own_module).then(launching["call"]).alias("call")).to_series())


def programs_of_calls(ops: pl.DataFrame) -> pl.DataFrame:
    """Programs of the ops with a `call`: distinct `call`, `module`, `program` and `run`."""
    return _ops_with_module(ops).select(_CALL_SCHEMA.names()).cast(_CALL_SCHEMA).unique(maintain_order=True)


def assign_unnamed_work(
    work: pl.DataFrame, ops: Sequence[pl.DataFrame], host: pl.DataFrame, programs: Mapping[str, int]
) -> pl.DataFrame:
    """Work that names no op, as ops of the executions that launched it, with `call`; other work is left out.

    Examples are the kernels of a graph, which XLA launches as one (a command buffer). `work` has the columns of ops
    except `module`, `program` and `run`: the module is that of the execution, the others those of `ops` with that call.
    Else the program is that of the module in `programs`, if it is there.
    """
    launching = _executions_around_launches(work, host)
    is_launched = launching["call"].is_not_null()
    module = pl.col("executing").cast(pl.Categorical).alias("module")
    launched = work.filter(is_launched).hstack(launching.filter(is_launched).select("call", module))
    programs_by_call = (
        pl.concat([pl.DataFrame(schema=_CALL_SCHEMA), *map(programs_of_calls, ops)]).drop("module").drop_nulls("call")
    )
    joined = launched.join(
        programs_by_call.unique("call", keep="first", maintain_order=True), on="call", how="left", maintain_order="left"
    )
    program_of_module = pl.col("module").cast(pl.String).replace_strict(programs, default=None, return_dtype=pl.Int64)
    return joined.with_columns(pl.coalesce("program", program_of_module).alias("program"))


def _executions_around_launches(ops: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """For each op the execution in which the host launched it: its number, `call`, and its module, `executing`.

    Of nested executions the innermost counts; the outer one continues when the inner ones have returned.
    """
    executions = (
        host.filter(pl.col("name").cast(pl.String).str.ends_with(EXECUTION_EVENT_SUFFIX))
        .select("lane", "start", "end", _executed_module().alias("executing"))
        .sort("lane", "start", -pl.col("end"), maintain_order=True)
        .with_row_index("call")
        .cast({"call": pl.Int64})
    )
    lane, start, end = (executions[name].cast(pl.Int64).to_numpy() for name in ("lane", "start", "end"))
    lane_starts = np.flatnonzero(np.append(True, lane[1:] != lane[:-1])[: len(lane)])
    innermost = innermost_intervals(start, end, nest_intervals(start, end, lane_starts).parent, lane)
    intervals = executions[innermost.owner].with_columns(
        pl.Series("start", innermost.start), pl.Series("until", innermost.end)
    )
    launches = host.filter(pl.col("correlation").is_not_null()).select("lane", "start", "correlation").sort("start")
    launches_inside = (
        launches.join_asof(intervals.sort("start"), on="start", by="lane", check_sortedness=False)
        .filter(pl.col("start") < pl.col("until"))
        .select("correlation", "start", "call", "executing")
    )
    return (
        ops.select("correlation", "start")
        .with_row_index("row")
        .sort("start")
        .join_asof(launches_inside, on="start", by="correlation", check_sortedness=False)
        .sort("row")
        .select("call", "executing")
    )


def _executed_module() -> pl.Expr:
    return pl.col("name").cast(pl.String).str.strip_suffix(EXECUTION_EVENT_SUFFIX)


def find_module_executions(ops: pl.DataFrame) -> pl.DataFrame:
    """One row per execution of a module on a device: `device`, `start`, `end`, `name`, `run`, `program`, `correlation`.

    Ops of one run are one execution, from the first start to the last end, and so are those of one `call`; an op whose
    call is unknown belongs to that of the op before. If neither is known, an execution starts when the module changes,
    or when the op with which the module first started comes again and all earlier ops have ended. For an op in a loop
    the loop counts instead: its iterations start nothing, so executions of a module that is a single loop are taken for
    one. The name is ``module(program)`` as on TPUs; the correlation is that of the first op.
    """
    with_module = _ops_with_module(ops)
    call = pl.col("call").forward_fill().over(_MODULE_KEYS, order_by="start")
    with_calls = with_module.with_columns(pl.when(pl.col("run").is_null()).then(call).alias("call"))
    turn = (
        pl.when(_NO_RUN_OR_CALL).then(_number_executions_by_order(with_calls))
        if with_calls.select(_NO_RUN_OR_CALL.any()).item()
        else pl.lit(None, pl.Int64)
    )
    return (
        _merge_ops(with_calls.with_columns(turn.alias("turn")))
        .select("device", "start", "end", _module_name(), "run", "program", "correlation")
        .sort("device", "start", "end", "run", "name", descending=[False, False, True, False, False])
    )


def merge_ops_by_execution(ops: pl.DataFrame) -> pl.DataFrame | None:
    """Ops of each execution merged into one, if all have a run or a call; None if some have neither.

    Merged ops of parts of a frame give the same `find_module_executions` as the whole frame.
    """
    with_module = _ops_with_module(ops)
    if with_module.select(_NO_RUN_OR_CALL.any()).item():
        return None
    call = pl.when(pl.col("run").is_null()).then("call")
    return _merge_ops(with_module.with_columns(call.alias("call"), pl.lit(None, pl.Int64).alias("turn"))).drop("turn")


def _ops_with_module(ops: pl.DataFrame) -> pl.DataFrame:
    """Ops that have a module, with all columns that may identify their executions."""
    missing = [name for name in _OPTIONAL_COLUMNS if name not in ops.columns]
    return ops.with_columns(pl.lit(None, _OPTIONAL_COLUMNS[name]).alias(name) for name in missing).filter(
        pl.col("module").is_not_null()
    )


def _merge_ops(ops: pl.DataFrame) -> pl.DataFrame:
    """One row for the ops of each run, call or turn."""
    return ops.group_by(*_MODULE_KEYS, "run", "call", "turn").agg(
        pl.col("correlation").sort_by("start").first(), pl.col("start").min(), pl.col("end").max()
    )


_MODULE_KEYS = ("device", "module", "program")
_OPTIONAL_COLUMNS = {"run": pl.Int64(), "correlation": pl.Int64(), "call": pl.Int64(), "loop": pl.String()}
_NO_RUN_OR_CALL = pl.col("run").is_null() & pl.col("call").is_null()

_CALL_SCHEMA = pl.Schema({"call": pl.Int64(), "module": pl.Categorical(), "program": pl.Int64(), "run": pl.Int64()})

EXECUTION_COLUMNS = (
    "record",
    "device",
    "start",
    "end",
    "name",
    "module",
    "program",
    "run",
    "correlation",
    "loop",
    "produces",
)
"""Columns of ops that may identify their executions."""


def _module_name() -> pl.Expr:
    module = pl.col("module").cast(pl.String)
    number = pl.col("program").reinterpret(signed=False).cast(pl.String)
    return (
        pl.when(number.is_null())
        .then(module)
        .otherwise(pl.concat_str(module, pl.lit("("), number, pl.lit(")")))
        .alias("name")
    )


def _number_executions_by_order(ops: pl.DataFrame) -> pl.Series:
    """For each op the number of its execution, by order of start on its device."""
    root = pl.coalesce(pl.col("loop").cast(pl.String), pl.col("name").cast(pl.String)).alias("root")
    in_order = ops.select(*_MODULE_KEYS, "start", "end", "loop", root).with_row_index("row").sort("device", "start")
    with_previous = in_order.with_columns(
        pl.col("end").cum_max().shift(1).over("device").fill_null(-1).alias("reach"),
        pl.col("root").first().over(_MODULE_KEYS).alias("opening"),
        pl.col("root").shift(1).over("device").alias("before"),
        pl.struct("module", "program").rle_id().over("device").alias("module_run"),
    )
    is_next_iteration = pl.col("loop").is_not_null() & (pl.col("before") == pl.col("root"))
    starts_execution = (pl.col("module_run") != pl.col("module_run").shift(1).over("device").fill_null(-1)) | (
        (pl.col("root") == pl.col("opening")) & (pl.col("start") >= pl.col("reach")) & ~is_next_iteration
    )
    numbered = with_previous.with_columns(starts_execution.alias("begins")).with_columns(
        pl.col("begins").cast(pl.Int64).cum_sum().over("device").alias("turn")
    )
    return numbered.sort("row")["turn"]
