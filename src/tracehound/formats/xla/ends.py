"""When ops on CPUs ended: the event of an op may be no more than its dispatch.

Owns what tells: the marks of ends, and the ops that need the result. Works on frames of ops as `xla.lanes` describes
them; knows no bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.trace import schema

USERS: Final = schema({"program": pl.Int64(), "name": pl.Categorical(), "user": pl.Categorical()})
"""Ops of programs, and those that need their results."""

_EXECUTION: Final = ("device", "program", "run")
BEGUN: Final = schema({**dict.fromkeys(_EXECUTION, pl.Int64()), "name": pl.Categorical(), "start": pl.Int64()})
"""What tells when each op of a run began; `run` may be null."""

_NO_RUN: Final = -1

MINGLED: Final = 0.05
"""Where more of a program's ops begin again before what needs them does, several devices run it, taken for one."""


class TrueEnds:
    """The ends of ops.

    `marks` are the events named ``end: <op>`` with `consumes` and `end`; an op is joined to the mark that consumes what
    it `produces`, and ends with the later of the two: an op that ran where it was dispatched is marked just before its
    end. An op without a mark keeps its end.

    XLA writes a mark when the thread comes back from all that could begin as the op had ended, which may be long after.
    So no op ends later than one of its `users` (in the schema `USERS`) begins, in the same run of the program on its
    device: the frames of `begun` have `BEGUN` of all ops. Where several devices are `MINGLED` that says nothing.
    """

    def __init__(self, marks: pl.DataFrame, users: pl.DataFrame, begun: Iterable[pl.DataFrame]) -> None:
        self._consumes = self._end = np.empty(0, np.int64)
        if not marks.is_empty():
            ids, end = (marks.drop_nulls("consumes")[name].to_numpy() for name in ("consumes", "end"))
            order = np.argsort(ids, kind="stable")
            ids, end = ids[order], end[order]
            first = np.flatnonzero(np.append(True, ids[1:] != ids[:-1])[: len(ids)])
            self._consumes, self._end = ids[first], np.maximum.reduceat(end, first) if len(first) else end
        self._users = users
        known = pl.concat([users.select("program", "name"), users.select("program", name="user")]).unique()
        found = (_comparable(ops.select(*BEGUN).join(known, on=["program", "name"], how="semi")) for ops in begun)
        self._begun = pl.concat([pl.DataFrame(schema=BEGUN), *found])

    def of(self, ops: pl.DataFrame) -> pl.DataFrame:
        """The ops, each until its end."""
        if len(self._consumes) == 0 or "produces" not in ops.columns:
            return ops
        known = np.flatnonzero(ops["produces"].is_not_null().to_numpy())
        ids = ops["produces"].fill_null(0).to_numpy()[known]
        order = np.argsort(ids, kind="stable")  # what is near is looked up together
        known, ids = known[order], ids[order]
        at = np.minimum(np.searchsorted(self._consumes, ids), len(self._consumes) - 1)
        later = (self._consumes[at] == ids) & (self._end[at] > ops["end"].to_numpy()[known])
        rows, marked = known[later], self._end[at[later]]
        end = ops["end"].to_numpy().copy()
        end[rows] = np.maximum(end[rows], np.minimum(marked, self._needed(ops[rows])))
        return ops.with_columns(pl.Series("end", end))

    def _needed(self, ops: pl.DataFrame) -> npt.NDArray[np.int64]:
        """When the result of each op is first needed, as far as that is known."""
        first = self._first(with_run(ops).select(*BEGUN).with_row_index("row"))
        told = first.join(self._mingled, on=_EXECUTION, how="anti")
        needed = np.full(ops.height, np.iinfo(np.int64).max)
        needed[told["row"].to_numpy()] = told["needed"].to_numpy()
        return needed

    @cached_property
    def _mingled(self) -> pl.DataFrame:
        """The programs on devices that are several devices, of those whose runs have no number."""
        first = self._first(self._begun.filter(pl.col("run") == _NO_RUN).with_row_index("row"))
        again = self._next(first.with_columns(pl.col("start") + 1), "name", "again")
        early = (pl.col("again") < pl.col("needed")).fill_null(value=False)
        return again.group_by(_EXECUTION).agg(early.mean().alias("early")).filter(pl.col("early") > MINGLED)

    def _first(self, ops: pl.DataFrame) -> pl.DataFrame:
        """The ops whose results are needed (each has a `row`), and when they are first `needed`."""
        asked = _comparable(ops.join(self._users, on=["program", "name"]))
        return (
            self._next(asked, "user", "needed").drop_nulls("needed").group_by("row", *BEGUN).agg(pl.col("needed").min())
        )

    def _next(self, ops: pl.DataFrame, name: str, alias: str) -> pl.DataFrame:
        """The ops with when the op of the name in this column begins next in the same run, null where it does not."""
        by = [*_EXECUTION, name]
        begun = self._begun.select(*_EXECUTION, pl.col("name").alias(name), "start", pl.col("start").alias(alias))
        begun = begun.join(ops, on=by, how="semi").sort("start")
        return ops.sort("start").join_asof(begun, on="start", by=by, strategy="forward", check_sortedness=False)


def with_run(ops: pl.DataFrame) -> pl.DataFrame:
    """The ops with the column `run`."""
    return ops if "run" in ops.columns else ops.with_columns(pl.lit(None, pl.Int64).alias("run"))


def _comparable(ops: pl.DataFrame) -> pl.DataFrame:
    """The ops with a run of their own for those of none: null is like no other null."""
    return ops.with_columns(pl.col("run").fill_null(_NO_RUN))
