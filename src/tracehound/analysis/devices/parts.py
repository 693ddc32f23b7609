"""What a device does at each instant, copies told apart by where they go: the parts of XProf's step time.

Owns which work is of which part, and which part an instant belongs to where several run. Knows no hosts and no steps.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.devices.async_ops import waits
from tracehound.analysis.devices.copies import said_of
from tracehound.analysis.devices.directions import ends_of, kinds_of
from tracehound.analysis.events.busy import COMMUNICATION, COPY, WORK, local_parent, work
from tracehound.analysis.result import Share
from tracehound.formats.xla.copies import HOST
from tracehound.intervals import EMPTY, Intervals, merge, subtract, union
from tracehound.own_time import own_stretches

PARTS: Final = ("compute", "collectives", "input", "output", "device_to_device")
"""In the order of precedence: of what runs at once the first counts. The last is copies inside the device."""

_COMPUTE, _COLLECTIVES, _INPUT, _OUTPUT, _COPY = range(len(PARTS))

WORKED: Final = (*WORK, "op", "name", "launch")
"""The columns of device work that `device_parts` needs."""


def device_work(share: Share, *more: str) -> pl.DataFrame:
    """The work of the rank's device: columns `WORKED`, and those named."""
    return work(share, *(name for name in WORKED if name not in WORK), *more)


def device_parts(share: Share, events: pl.DataFrame) -> dict[str, Intervals]:
    """When the device does what: for each of `PARTS` a set; they share no instant.

    `events` is `device_work`. Work around other work counts only where it runs itself. Copies are what is of a kind
    that `busy` calls a copy; those to or from the host are input or output: infeed, outfeed, copies whose HLO line
    names the host's memory, and on GPUs copies on the streams by their direction, as their names or those of the calls
    that launched them tell it.
    """
    owned = own_stretches(events["start"].to_numpy(), events["end"].to_numpy(), local_parent(events))
    part = _parts(share, events)[owned.owner]
    found, taken = dict[str, Intervals](), EMPTY
    for number, name in enumerate(PARTS):
        mine = part == number
        when = union(owned.start[mine], owned.end[mine])
        found[name] = subtract(when, taken)
        taken = merge(taken, when)
    return found


def _parts(share: Share, events: pl.DataFrame) -> npt.NDArray[np.int64]:
    """The part of each event, as its place in `PARTS`."""
    ran = events["op"].drop_nulls().unique().implode()
    pairs = waits(share.ops).filter(pl.col("op").is_in(ran))  # what a wait is for may have begun before the window
    ops = share.ops.filter(pl.col("op").is_in(ran) | pl.col("op").is_in(pairs["started"].implode()))
    said = said_of(ops).select("op", _side().alias("said"))
    waiting = pairs.join(said, left_on="started", right_on="op").select("op", "said")
    by_op = pl.concat([said, waiting]).unique("op", keep="first", maintain_order=True)
    copies = pl.col("kind").is_in(COPY)
    by_name = _by_name(share, events.filter(copies & pl.col("op").is_null()))
    joined = events.join(by_op, on="op", how="left", maintain_order="left").join(
        by_name, on="id", how="left", maintain_order="left"
    )
    part = (
        pl.when(pl.col("kind").is_in(COMMUNICATION)).then(_COLLECTIVES)
        .when(copies).then(pl.coalesce("said", "named", pl.lit(_COPY)))
        .otherwise(_COMPUTE)
    )  # fmt: skip
    return joined.select(part.cast(pl.Int64)).to_series().to_numpy()


def _by_name(share: Share, copies: pl.DataFrame) -> pl.DataFrame:
    """The part of each copy (`id`) by its direction: `named`."""
    kinds = kinds_of(share, copies)
    parts = {kind: _side_of(*ends_of(kind)) for kind in kinds.unique()}
    return copies.select("id", kinds.replace_strict(parts, default=None, return_dtype=pl.Int64).alias("named"))


def _side() -> pl.Expr:
    return (
        pl.when(pl.col("source") == HOST).then(_INPUT).when(pl.col("target") == HOST).then(_OUTPUT).otherwise(_COPY)
    ).cast(pl.Int64)


def _side_of(source: str, target: str) -> int:
    return _INPUT if source == HOST else _OUTPUT if target == HOST else _COPY
