"""Python call stacks that operators carry as text (PyTorch of 2021 and 2022) -> the frames above their call paths.

Owns the reading of these texts and the frames that they make. Knows no events: a frame has the time of the operators
that were called in it, since nothing else is known of it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.events.numbering import alike, codes
from tracehound.analysis.members import JOINED
from tracehound.analysis.result import MEMBERS, Share
from tracehound.forest import Forest
from tracehound.intervals import Ints
from tracehound.lookup import looked_up
from tracehound.trace import collected

_SUMS: Final = ("count", "total")
"""What a frame has of the operators called in it; their own time, and work that they launched, is theirs."""


class Texts(NamedTuple):
    """The stack of each host event, as a number from 1; 0 for events without one; and the stacks, outermost first."""

    number: Ints
    frames: tuple[tuple[str, ...], ...]

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.frames)


def texts(share: Share) -> Texts:
    """The stacks of the host's events, in the order of their ids."""
    told = collected(share.facet("called").select("record", "stack").filter(pl.col("stack") != ""))
    if told.is_empty():
        return Texts(np.zeros(0, np.int64), ())
    number, first = alike(codes(told["stack"]))
    numbered = told.select("record", number=pl.Series(number + 1))
    records = collected(share.threads.select("record"))["record"]
    found = looked_up(numbered, "record", records)["number"].fill_null(0).to_numpy()
    return Texts(found, tuple(_frames(text) for text in told["stack"][first].cast(pl.String)))


def _frames(text: str) -> tuple[str, ...]:
    """The frames of a stack, the outermost first: the file has them between semicolons, or on lines, the other way."""
    parts = text.splitlines() if "\n" in text else text.split(";")
    return tuple(part.strip() for part in reversed(parts) if part.strip())


def framed(table: pl.DataFrame, stacks: Texts) -> pl.DataFrame:
    """The nodes of a rank with the frames of the stacks above their roots, whose stacks are in the column `apart`.

    Frames of one thread come once. The columns are those of `call_paths.nodes`.
    """
    known, rows, parents = (
        dict[tuple[int, int, str], int](),
        list[tuple[int, int, str, int]](),
        table["parent"].to_list(),
    )
    told = table.select("lane", "parent", "apart", "event").iter_rows()
    for row, (lane, parent, stack, event) in enumerate(told):  # a root for each operator and stack, not for each call
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
    others = [name for name in table.columns if name not in (*frames.columns, MEMBERS)]
    frames = frames.with_columns(pl.lit(0, pl.Int64).alias(name) for name in others)
    return _summed(pl.concat([table.with_columns(parent=pl.Series(parents)), frames], how="diagonal"), table.height)


def _summed(whole: pl.DataFrame, count: int) -> pl.DataFrame:
    """The frames, which are the rows from `count` on, with what the operators called in them have together."""
    trees = Forest(whole["parent"].to_numpy())
    operator = np.arange(whole.height) < count
    outer = operator & (trees.parent >= count)
    columns = []
    for name in _SUMS:
        values = whole[name].to_numpy()
        columns.append(pl.Series(name, np.where(operator, values, trees.summed(np.where(outer, values, 0)))))
    return _with_members(whole.with_columns(columns), trees, np.flatnonzero(outer))


def _with_members(whole: pl.DataFrame, trees: Forest, rows: Ints) -> pl.DataFrame:
    """With the operators of these `rows` among the events of all frames that they were called in, if any are told."""
    if MEMBERS not in whole.columns:
        return whole
    pairs, at = list[pl.DataFrame](), trees.parent[rows]
    while len(rows):
        pairs.append(pl.DataFrame({"node": at, MEMBERS: whole[MEMBERS].gather(rows)}))
        above = trees.parent[at]
        rows, at = rows[above >= 0], above[above >= 0]
    every = whole.select(pl.int_range(pl.len()).alias("node"), MEMBERS)
    return whole.with_columns(pl.concat([every, *pairs]).group_by("node").agg(JOINED).sort("node")[MEMBERS])


def alone(whole: pl.DataFrame, count: int) -> pl.DataFrame:
    """The frames without the operators above them, which are the first `count` rows: their time is the frames' own."""
    operators, frames = whole.head(count), whole.slice(count)
    called = (
        operators.filter(pl.col("parent") >= count)
        .group_by("parent")
        .agg(
            pl.col("total").sum().alias("self"),
            pl.col("inside", "device_self", "launched").sum(),
            pl.len().alias("most"),
        )
    )
    own = pl.DataFrame({"parent": np.arange(count, whole.height)}).join(
        called, on="parent", how="left", maintain_order="left"
    )
    outer = pl.col("parent")
    return frames.with_columns(
        pl.when(outer >= 0).then(outer - count).otherwise(-1).alias("parent"),
        *(own[name].fill_null(0) for name in ("self", "inside", "device_self", "launched")),
        work=pl.lit(operators["work"][0], pl.Int64), unlaunched=pl.lit(operators["unlaunched"][0], pl.Int64),
        unknown=pl.lit(operators["unknown"][0], pl.Int64),
    )  # fmt: skip
