"""Algorithm and bus bandwidth of collectives, as nccl-tests defines them.

Holds the factors between the message and the bytes that cross the links. Knows no ranks and no times.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from tracehound.model.units import PS_PER_S

BANDWIDTH_DEFINITION: Final = """\
algorithm bandwidth = message / transfer, and bus bandwidth = that times what nccl-tests multiplies it with, so that it
can be held against the links whatever the number n of ranks: all_reduce 2(n-1)/n; all_gather, reduce_scatter,
all_to_all, gather and scatter (n-1)/n; all others 1. The message is that of one rank, of what gathers or scatters the
larger side. n is the size of the group as the file has it, else the ranks seen here."""

_DISTRIBUTED_KINDS: Final = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
_WHOLE_MESSAGE_KINDS: Final = ("broadcast", "reduce", "collective_permute", "send", "recv")

MAX_LINK_BANDWIDTH: Final = 4e12
"""Bytes per second that no link between devices reaches: higher rates are not shown."""


def bus_factor(collective: str = "collective", size: str = "group_size") -> pl.Expr:
    """Bus bandwidth over algorithm bandwidth, from columns of collectives and group sizes; null if unknown."""
    what, n = pl.col(collective).cast(pl.String), pl.col(size)
    share = pl.when(n > 0).then((n - 1) / n)
    return (
        pl.when(what == "all_reduce").then(2 * share)
        .when(what.is_in(_DISTRIBUTED_KINDS)).then(share)
        .when(what.is_in(_WHOLE_MESSAGE_KINDS)).then(1.0)
    )  # fmt: skip


def bandwidth_columns(moved: pl.Expr, time: pl.Expr) -> list[pl.Expr]:
    """`algorithm` and `bus`, bytes per second, of bytes moved in a time (ps); null without a time or if implausible."""
    rate = pl.when((time > 0) & (moved > 0)).then(moved * PS_PER_S / time)
    believed = pl.when(rate <= MAX_LINK_BANDWIDTH).then(rate)
    bus = believed * pl.col("factor")
    return [believed.alias("algorithm"), pl.when(pl.col("factor") > 0).then(bus).alias("bus")]
