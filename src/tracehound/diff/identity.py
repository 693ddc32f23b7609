"""What tells one op from another in any run: names, shapes and callers, without what changes from build to build.

Owns which events are compared and what is known of each. Knows no step and no time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import polars as pl

from tracehound.analysis.events.busy import WORK, work
from tracehound.analysis.events.own_clock import CLOCKED
from tracehound.analysis.result import Share
from tracehound.diff.launched import callers
from tracehound.diff.names import call_family, kernel_family, module_name, op_name, signature
from tracehound.intervals import Ints
from tracehound.trace import collected

IDENTITY: Final = ("name", "category", "module", "operator", "path", "scope", "signature", "family")
"""Columns of words, empty where a trace does not say: `operator` is the outermost one around the launch, `path` all of
them from there inwards, `family` the sort of a kernel or of a custom call."""


def counted(share: Share) -> tuple[pl.DataFrame, str]:
    """The work of the device, sorted by id; where none was recorded the operators of the host."""
    more = ("lane", "name", "op", "launch", "step", *CLOCKED)
    events = work(share, *more)
    if events.height or share.lanes.filter(pl.col("work") & pl.col("rank").is_not_null()).height:
        return events, ON_DEVICE
    on_host = share.threads.filter(pl.col("kind").is_in(["op", "collective"]))
    return collected(on_host.select(*WORK, *more)), "operators on the host"


ON_DEVICE: Final = "work on the device"
"""What is compared where any was recorded."""

ONLY_MEMORY: Final = "nothing but memory"
"""What is compared of memory timelines."""


class Identified(NamedTuple):
    """The distinct ops of some events (`IDENTITY` and their `kind`), and of each event which of them it is."""

    ops: pl.DataFrame
    row: Ints


def identified(events: pl.DataFrame, share: Share) -> Identified:
    """What events are; they have the columns that `counted` gives."""
    way, words = callers(share, events["launch"])
    told = pl.DataFrame({"name": events["name"], "op": events["op"], "kind": events["kind"], "way": way})
    distinct = told.unique(maintain_order=True).with_row_index("at")
    at = told.join(distinct, on=told.columns, how="left", maintain_order="left", nulls_equal=True)["at"].to_numpy()
    few = _named(distinct, words[distinct["way"].to_numpy()], share)
    if few.is_empty():
        return Identified(few, way)
    same = few.select(pl.struct(pl.all()).rank("dense").cast(pl.Int64) - 1).to_series().alias("same")
    return Identified(few.with_columns(same).unique("same").sort("same").drop("same"), same.to_numpy()[at])


def _named(distinct: pl.DataFrame, callers: pl.DataFrame, share: Share) -> pl.DataFrame:
    """`IDENTITY` and kind of distinct events, given the operators around each."""
    plain = distinct.select(pl.col("name").cast(pl.String).fill_null(""), "op", "kind").hstack(callers)
    known = share.ops.select(
        "op",
        pl.col("name").alias("hlo"),
        pl.col("category").fill_null("").alias("kind of op"),
        pl.col("module").fill_null(""),
        pl.col("framework").fill_null("").alias("scope"),
        pl.col("text").fill_null(""),
    )
    rows = plain.join(known, on="op", how="left", maintain_order="left").with_columns(
        pl.col("module", "scope", "text", "kind of op").fill_null("")
    )
    is_hlo, kind = pl.col("hlo").is_not_null(), pl.col("kind").cast(pl.String)
    is_call = is_hlo & (pl.col("kind of op") == "custom-call")
    name = pl.coalesce("hlo", "name")
    return rows.select(
        pl.when(is_hlo).then(_each(name, op_name)).otherwise(name).alias("name"),
        pl.when(pl.col("kind of op") != "").then("kind of op").otherwise(kind).alias("category"),
        _each(pl.col("module"), module_name).alias("module"),
        *(pl.when(is_hlo).then(pl.lit("")).otherwise(column).alias(column) for column in ("operator", "path")),
        "scope",
        _each(pl.col("text"), signature).alias("signature"),
        pl.when(is_call)
        .then(_each(name, call_family))
        .when(is_hlo)
        .then(pl.lit(""))
        .otherwise(_each(name, kernel_family))
        .alias("family"),
        kind.fill_null("").alias("kind"),
    )


def _each(words: pl.Expr, change: Callable[[str], str]) -> pl.Expr:
    """Every word changed; each distinct one once."""

    def changed(series: pl.Series) -> pl.Series:
        distinct = series.unique().drop_nulls()
        return series.replace_strict(
            distinct, pl.Series([change(word) for word in distinct], dtype=pl.String), default=None
        )

    return words.map_batches(changed, return_dtype=pl.String)
