"""Lanes of HLO ops and modules that a profile lacks, derived from kernels and host events.

Rows pass through memory one chunk at a time. Only if executions have neither run ids nor calls, all rows are needed at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct, field

from tracehound.formats.assembly.file_assembly import RawChunk
from tracehound.formats.protobuf_wire import Offsets
from tracehound.formats.spill import Spill, SpilledRows
from tracehound.formats.xla.op_executions import (
    EXECUTION_COLUMNS,
    add_launching_calls,
    assign_unnamed_work,
    find_module_executions,
    merge_ops_by_execution,
    programs_of_calls,
)
from tracehound.formats.xla.profile_builder import ProfileBuilder, to_raw_events
from tracehound.formats.xla.xla_names import ops_lane_name
from tracehound.model.facet_schemas import LINK_COLUMNS
from tracehound.model.trace import KIND, schema

DERIVED_LANE_ORDER: Final = 1 << 20
"""Order of derived lanes: after a device's own lanes of the same role."""


class RowsWithOps(NamedTuple):
    """Rows that name an op, and the op numbers in the file for those of the rows."""

    spilled: SpilledRows
    ops: Offsets


class DerivedLanes(Struct):
    """Chunks of derived lanes so far; their lanes and ranks are those of the builder."""

    builder: ProfileBuilder
    spill: Spill
    chunks: list[RawChunk] = field(default_factory=list)

    def add_gpu_ops(self, process: str, named_ops: Sequence[RowsWithOps], lane_of: Offsets, rank: int) -> None:
        """Add lanes of HLO ops: one event for each kernel that names its op, as XProf counts them.

        Streams run concurrently, so each gets its own lane of ops. `lane_of` has the lane of every line.
        """
        if not named_ops:
            return
        lines = np.unique(np.concatenate([spilled.runs.lane for spilled, _ in named_ops if spilled.runs is not None]))
        streams = np.unique(lane_of[lines])
        lane_of_line = np.full(len(lane_of), -1, np.int64)
        for at, lane in enumerate(streams.tolist()):
            name = ops_lane_name(self.builder.lanes[lane]["name"], len(streams))
            of_stream = lines[lane_of[lines] == lane]
            lane_of_line[of_stream] = self.builder.add_lane(
                name, "ops", DERIVED_LANE_ORDER + at, rank=rank, process=process
            )
        self.chunks += [RawChunk(spilled, lanes=lane_of_line, ops=ops) for spilled, ops in named_ops]

    def add_gpu_modules(
        self,
        process: str,
        named_ops: Sequence[RowsWithOps],
        unnamed_work: Sequence[SpilledRows],
        calls: pl.DataFrame,
        programs: Mapping[str, int],
        rank: int,
    ) -> None:
        """Add a lane of the executions of modules on a GPU, if there are any.

        `calls` are those of `add_launching_calls`, `unnamed_work` names no op; for `programs` see
        `assign_unnamed_work`.
        """
        runs = _gpu_module_executions(named_ops, unnamed_work, calls, programs)
        if runs.height:
            self._add_modules(process, {0: rank}, runs)

    def add_cpu_devices(
        self, process: str, named_ops: Sequence[RowsWithOps], end_marks: pl.DataFrame, op_users: pl.DataFrame
    ) -> None:
        """Add the devices of the CPU backend, whose ops run on host threads: each has a lane of ops and one of modules.

        `end_marks` and `op_users` are those of `OpEnds`.
        """
        devices = sorted(
            {device for spilled, _ in named_ops for device in spilled.read_frame(columns=["device"])["device"].unique()}
        )
        ranks = {device: self.builder.find_or_add_rank("CPU", device, "") for device in devices}
        lanes = {
            device: self.builder.add_lane("XLA Ops", "ops", 0, rank=rank, process=process, work=True)
            for device, rank in ranks.items()
        }
        ends, execution_tables = (
            OpEnds(end_marks, op_users, _op_starts(named_ops if op_users.height else ())),
            list[pl.DataFrame | None](),
        )
        for spilled, ops in named_ops:
            rows = ends.correct_ends(spilled.read_frame())
            execution_tables.append(merge_ops_by_execution(rows))
            lane = pl.col("device").replace_strict(lanes, return_dtype=pl.Int64)
            self._add_rows(rows.drop(LINK_COLUMNS, strict=False).with_columns(lane.alias("lane")), ops)
        if named_ops:
            known_executions = [runs for runs in execution_tables if runs is not None]
            runs = (
                pl.concat(known_executions, how="diagonal")
                if len(known_executions) == len(execution_tables)
                else _rows_of_all_executions(named_ops, ends.correct_ends)
            )
            self._add_modules(process, ranks, find_module_executions(runs))

    def add_dispatches(self, dispatches: RowsWithOps, lanes: Offsets) -> None:
        """Add host events; those with the name of an op are its dispatch. `lanes` has the lane of every line."""
        names = pl.Series([row["name"] for row in self.builder.ops.rows], dtype=pl.String)
        is_dispatch = pl.col("name").cast(pl.String).is_in(names.implode()) & ~pl.col("kind").is_in(_FIXED_HOST_KINDS)
        rows = dispatches.spilled.read_frame(columns=["name", "kind"])
        kind = rows.select(
            pl.when(is_dispatch).then(pl.lit("runtime", KIND)).otherwise("kind").to_physical()
        ).to_series()
        self.chunks.append(
            RawChunk(dispatches.spilled.with_column("kind", kind.to_numpy()), lanes=lanes, ops=dispatches.ops)
        )

    def _add_rows(self, rows: pl.DataFrame, ops: Offsets | None = None) -> None:
        self.chunks.append(
            RawChunk(self.spill.spill_frame(to_raw_events(rows), f"derived-{len(self.chunks)}"), ops=ops)
        )

    def _add_modules(self, process: str, ranks: Mapping[int, int], executions: pl.DataFrame) -> None:
        """Add a lane of module executions for each device (key of `ranks`)."""
        for device, rank in ranks.items():
            device_executions = executions.filter(pl.col("device") == device)
            lane = self.builder.add_lane("XLA Modules", "modules", DERIVED_LANE_ORDER, rank=rank, process=process)
            self._add_rows(
                device_executions.with_columns(
                    pl.lit(lane).alias("lane"),
                    pl.col("name").cast(pl.Categorical),
                    pl.lit("module", KIND).alias("kind"),
                )
            )


def _gpu_module_executions(
    named_ops: Sequence[RowsWithOps],
    unnamed_work: Sequence[SpilledRows],
    calls: pl.DataFrame,
    programs: Mapping[str, int],
) -> pl.DataFrame:
    """Executions of modules on a GPU."""

    def with_calls(ops: pl.DataFrame) -> pl.DataFrame:
        return add_launching_calls(ops, calls) if calls.height and "correlation" in ops.columns else ops

    executions, op_tables = list[pl.DataFrame](), list[pl.DataFrame]()
    for spilled, _ in named_ops:
        ops = with_calls(_execution_rows(spilled))
        runs = merge_ops_by_execution(ops)
        if runs is None:
            executions = op_tables = [_rows_of_all_executions(named_ops, with_calls)]
            break
        executions.append(runs)
        op_tables.append(programs_of_calls(ops))
    for spilled in unnamed_work if calls.height else ():
        executions.append(
            assign_unnamed_work(
                spilled.read_frame().with_columns(pl.lit(0, pl.Int64).alias("device")), op_tables, calls, programs
            )
        )
    return find_module_executions(pl.concat(executions, how="diagonal")) if executions else pl.DataFrame()


def _rows_of_all_executions(
    named_ops: Sequence[RowsWithOps], transform: Callable[[pl.DataFrame], pl.DataFrame]
) -> pl.DataFrame:
    """All rows with the columns that identify executions, transformed, in the order of the file."""
    return pl.concat([transform(_execution_rows(spilled)) for spilled, _ in named_ops], how="diagonal").sort(
        "record", maintain_order=True
    )


def _op_starts(named_ops: Sequence[RowsWithOps]) -> Iterator[pl.DataFrame]:
    """Start of each op, with the columns of `OP_STARTS_SCHEMA`."""
    for spilled, _ in named_ops:
        yield add_run_column(spilled.read_frame(columns=[name for name in OP_STARTS_SCHEMA if name in spilled.dtypes]))


def _execution_rows(spilled: SpilledRows) -> pl.DataFrame:
    return spilled.read_frame(columns=[name for name in EXECUTION_COLUMNS if name in spilled.dtypes])


_FIXED_HOST_KINDS: Final = ("compile", "step", "op")
"""Kinds that host events keep, whatever the ops are called."""


OP_USERS_SCHEMA: Final = schema({"program": pl.Int64(), "name": pl.Categorical(), "user": pl.Categorical()})
"""Ops of programs, and the ops that need their results."""

_EXECUTION_KEYS: Final = ("device", "program", "run")
OP_STARTS_SCHEMA: Final = schema(
    {**dict.fromkeys(_EXECUTION_KEYS, pl.Int64()), "name": pl.Categorical(), "start": pl.Int64()}
)
"""Start of each op of a run; `run` may be null."""

_MISSING_RUN: Final = -1

MINGLED_DEVICES_SHARE: Final = 0.05
"""If more of a program's ops start again before an op that needs them, the program runs on several devices under one
number."""


class OpEnds:
    """Ends of ops on CPUs, where the event of an op may be only its dispatch.

    `marks` are the events named ``end: <op>`` with `consumes` and `end`. An op is joined to the mark that consumes what
    it `produces`, and ends with the later of the two: an op that ran where it was dispatched is marked just before its
    end. An op without a mark keeps its end.

    XLA writes a mark when the thread returns from everything that the end of the op allowed to start, which may be long
    after. So no op ends later than the start of one of its `users` (in `OP_USERS_SCHEMA`) in the same run of the
    program on its device; the frames of `op_starts` have `OP_STARTS_SCHEMA` for all ops. Where several devices are
    mingled (`MINGLED_DEVICES_SHARE`) this is not used.
    """

    def __init__(self, marks: pl.DataFrame, users: pl.DataFrame, op_starts: Iterable[pl.DataFrame]) -> None:
        self._consumes = self._end = np.empty(0, np.int64)
        if not marks.is_empty():
            ids, end = (marks.drop_nulls("consumes")[name].to_numpy() for name in ("consumes", "end"))
            order = np.argsort(ids, kind="stable")
            ids, end = ids[order], end[order]
            first = np.flatnonzero(np.append(True, ids[1:] != ids[:-1])[: len(ids)])
            self._consumes, self._end = ids[first], np.maximum.reduceat(end, first) if len(first) else end
        self._users = users
        needed_names = pl.concat([users.select("program", "name"), users.select("program", name="user")]).unique()
        relevant_starts = (
            _fill_missing_runs(ops.select(*OP_STARTS_SCHEMA).join(needed_names, on=["program", "name"], how="semi"))
            for ops in op_starts
        )
        self._begun = pl.concat([pl.DataFrame(schema=OP_STARTS_SCHEMA), *relevant_starts])

    def correct_ends(self, ops: pl.DataFrame) -> pl.DataFrame:
        """The ops with corrected ends."""
        if len(self._consumes) == 0 or "produces" not in ops.columns:
            return ops
        producing = np.flatnonzero(ops["produces"].is_not_null().to_numpy())
        ids = ops["produces"].fill_null(0).to_numpy()[producing]
        order = np.argsort(ids, kind="stable")  # lookups close to one another are faster
        producing, ids = producing[order], ids[order]
        at = np.minimum(np.searchsorted(self._consumes, ids), len(self._consumes) - 1)
        ends_later = (self._consumes[at] == ids) & (self._end[at] > ops["end"].to_numpy()[producing])
        rows, marked = producing[ends_later], self._end[at[ends_later]]
        end = ops["end"].to_numpy().copy()
        end[rows] = np.maximum(end[rows], np.minimum(marked, self._first_needed(ops[rows])))
        return ops.with_columns(pl.Series("end", end))

    def _first_needed(self, ops: pl.DataFrame) -> npt.NDArray[np.int64]:
        """First time at which the result of each op is needed; the largest Int64 if unknown."""
        first = self._first_uses(add_run_column(ops).select(*OP_STARTS_SCHEMA).with_row_index("row"))
        executions = first.join(self._mingled_programs, on=_EXECUTION_KEYS, how="anti")
        needed = np.full(ops.height, np.iinfo(np.int64).max)
        needed[executions["row"].to_numpy()] = executions["needed"].to_numpy()
        return needed

    @cached_property
    def _mingled_programs(self) -> pl.DataFrame:
        """Programs, by device, that run on several devices under one number; only runs without a number are checked."""
        first = self._first_uses(self._begun.filter(pl.col("run") == _MISSING_RUN).with_row_index("row"))
        next_runs = self._next_starts(first.with_columns(pl.col("start") + 1), "name", "again")
        repeats_too_early = (pl.col("again") < pl.col("needed")).fill_null(value=False)
        return (
            next_runs.group_by(_EXECUTION_KEYS)
            .agg(repeats_too_early.mean().alias("early"))
            .filter(pl.col("early") > MINGLED_DEVICES_SHARE)
        )

    def _first_uses(self, ops: pl.DataFrame) -> pl.DataFrame:
        """The ops whose results are needed (each has a `row`), with the first time that they are `needed`."""
        needed_ops = _fill_missing_runs(ops.join(self._users, on=["program", "name"]))
        return (
            self._next_starts(needed_ops, "user", "needed")
            .drop_nulls("needed")
            .group_by("row", *OP_STARTS_SCHEMA)
            .agg(pl.col("needed").min())
        )

    def _next_starts(self, ops: pl.DataFrame, name: str, alias: str) -> pl.DataFrame:
        """The ops, with the next start in the same run of the op named in this column; null if there is none."""
        by = [*_EXECUTION_KEYS, name]
        starts = self._begun.select(*_EXECUTION_KEYS, pl.col("name").alias(name), "start", pl.col("start").alias(alias))
        starts = starts.join(ops, on=by, how="semi").sort("start")
        return ops.sort("start").join_asof(starts, on="start", by=by, strategy="forward", check_sortedness=False)


def add_run_column(ops: pl.DataFrame) -> pl.DataFrame:
    """The ops with the column `run`."""
    return ops if "run" in ops.columns else ops.with_columns(pl.lit(None, pl.Int64).alias("run"))


def _fill_missing_runs(ops: pl.DataFrame) -> pl.DataFrame:
    """The ops with missing runs replaced by a number, since null equals no other null."""
    return ops.with_columns(pl.col("run").fill_null(_MISSING_RUN))
