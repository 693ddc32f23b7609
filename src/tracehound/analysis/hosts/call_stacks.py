"""Python call stacks that operators carry as text (PyTorch of 2021 and 2022), as frames above their call paths.

A frame has the time of the operators that were called in it, since nothing else is recorded of it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.rank_trace import RankTrace
from tracehound.analysis.result import COUNTED_EVENTS, JOINED_EVENTS
from tracehound.analysis.timing.row_groups import category_codes, group_rows
from tracehound.model.trace import collect_frame
from tracehound.numeric.id_set import look_up_rows
from tracehound.numeric.intervals import Ints
from tracehound.numeric.trees import Trees

_SUM_COLUMNS: Final = ("count", "total")
"""Columns of a frame that sum over the operators called in it; their self time and launched work stay theirs."""


class CallStacks(NamedTuple):
    """The stack of each host event, as a number from 1 (0 without one), and the stacks, outermost frame first."""

    number: Ints
    frames: tuple[tuple[str, ...], ...]

    def __bool__(self) -> bool:
        """True if there are any stacks."""
        return bool(self.frames)


def read_call_stacks(rank_trace: RankTrace) -> CallStacks:
    """The stacks of the host's events, in the order of their ids."""
    stack_texts = collect_frame(rank_trace.facet("called").select("record", "stack").filter(pl.col("stack") != ""))
    if stack_texts.is_empty():
        return CallStacks(np.zeros(0, np.int64), ())
    number, first = group_rows(category_codes(stack_texts["stack"]))
    numbered = stack_texts.select("record", number=pl.Series(number + 1))
    records = collect_frame(rank_trace.threads.select("record"))["record"]
    found = look_up_rows(numbered, "record", records)["number"].fill_null(0).to_numpy()
    return CallStacks(found, tuple(_split_frames(text) for text in stack_texts["stack"][first].cast(pl.String)))


def _split_frames(text: str) -> tuple[str, ...]:
    """The frames of a stack, outermost first: the file separates them by semicolons or lines, innermost first."""
    parts = text.splitlines() if "\n" in text else text.split(";")
    return tuple(part.strip() for part in reversed(parts) if part.strip())


def add_stack_frames(table: pl.DataFrame, stacks: CallStacks) -> pl.DataFrame:
    """The nodes of a rank with the frames of their stacks above their roots; the column `apart` has the stack.

    Frames of one thread come once. The columns are those of `call_paths.add_device_work`.
    """
    known, rows, parents = (
        dict[tuple[int, int, str], int](),
        list[tuple[int, int, str, int]](),
        table["parent"].to_list(),
    )
    roots = table.select("lane", "parent", "apart", "event").iter_rows()
    for row, (lane, parent, stack, event) in enumerate(roots):  # one root per operator and stack, not per call
        if parent >= 0 or not stack:
            continue
        for name in stacks.frames[stack - 1]:
            if (lane, parents[row], name) not in known:
                known[lane, parents[row], name] = table.height + len(rows)
                rows.append((lane, parents[row], name, event))
            parents[row] = known[lane, parents[row], name]
    schema = {"lane": pl.Int64, "parent": pl.Int64, "name": pl.String, "event": pl.Int64}
    frames = pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        kind=pl.lit("python"), rank=pl.lit(table["rank"][0], pl.Int64)
    )
    others = [name for name in table.columns if name not in (*frames.columns, COUNTED_EVENTS)]
    frames = frames.with_columns(pl.lit(0, pl.Int64).alias(name) for name in others)
    return _sum_frames(pl.concat([table.with_columns(parent=pl.Series(parents)), frames], how="diagonal"), table.height)


def _sum_frames(nodes: pl.DataFrame, count: int) -> pl.DataFrame:
    """The frames (the rows from `count` on) with the sums of the operators called in them."""
    trees = Trees(nodes["parent"].to_numpy())
    operator = np.arange(nodes.height) < count
    outer = operator & (trees.parent >= count)
    columns = []
    for name in _SUM_COLUMNS:
        values = nodes[name].to_numpy()
        columns.append(pl.Series(name, np.where(operator, values, trees.subtree_sums(np.where(outer, values, 0)))))
    return _add_counted_events(nodes.with_columns(columns), trees, np.flatnonzero(outer))


def _add_counted_events(nodes: pl.DataFrame, trees: Trees, rows: Ints) -> pl.DataFrame:
    """The frames with the operators of these `rows` among their counted events, if these are carried."""
    if COUNTED_EVENTS not in nodes.columns:
        return nodes
    pairs, at = list[pl.DataFrame](), trees.parent[rows]
    while len(rows):
        pairs.append(pl.DataFrame({"node": at, COUNTED_EVENTS: nodes[COUNTED_EVENTS].gather(rows)}))
        above = trees.parent[at]
        rows, at = rows[above >= 0], above[above >= 0]
    every = nodes.select(pl.int_range(pl.len()).alias("node"), COUNTED_EVENTS)
    return nodes.with_columns(
        pl.concat([every, *pairs]).group_by("node").agg(JOINED_EVENTS).sort("node")[COUNTED_EVENTS]
    )


def frames_without_operators(nodes: pl.DataFrame, count: int) -> pl.DataFrame:
    """The frames without the operators below them (the first `count` rows): their time is the frames' own."""
    operators, frames = nodes.head(count), nodes.slice(count)
    called = (
        operators.filter(pl.col("parent") >= count)
        .group_by("parent")
        .agg(
            pl.col("total").sum().alias("self"),
            pl.col("inside", "device_self", "launched").sum(),
            pl.len().alias("most"),
        )
    )
    own = pl.DataFrame({"parent": np.arange(count, nodes.height)}).join(
        called, on="parent", how="left", maintain_order="left"
    )
    outer = pl.col("parent")
    return frames.with_columns(
        pl.when(outer >= 0).then(outer - count).otherwise(-1).alias("parent"),
        *(own[name].fill_null(0) for name in ("self", "inside", "device_self", "launched")),
        work=pl.lit(operators["work"][0], pl.Int64), unlaunched=pl.lit(operators["unlaunched"][0], pl.Int64),
        unknown=pl.lit(operators["unknown"][0], pl.Int64),
    )  # fmt: skip
