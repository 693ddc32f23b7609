"""What allocators gave and took back, by the events that XLA's runtime leaves on the host.

Owns the stats of these events. They have no length: each tells what the allocator holds after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.facets import FACETS
from tracehound.formats.counters import Counters
from tracehound.formats.wire import Rows
from tracehound.formats.xevents import Slice
from tracehound.formats.xla_rows import PlaneRows
from tracehound.formats.xstats import DOUBLE
from tracehound.trace import COUNTERS

SIGNS: Final = {"MemoryAllocation": 1, "MemoryDeallocation": -1}
"""The events, and the sign of their bytes."""

HELD: Final = (
    "allocator_name", "index_on_host", "bytes_reserved", "bytes_allocated", "bytes_available", "fragmentation",
    "peak_bytes_in_use", "requested_bytes", "allocation_bytes", "addr", "tf_op",
)  # fmt: skip
"""Their stats."""

_NUMBERS: Final = {
    "device": "index_on_host", "stack": "bytes_reserved", "allocated": "bytes_allocated", "free": "bytes_available",
    "peak": "peak_bytes_in_use", "requested": "requested_bytes", "bytes": "allocation_bytes", "address": "addr",
}  # fmt: skip

_NOBODY: Final = "(null)"
"""What the runtime writes for a text that it has not."""


class Allocators:
    """The events of one plane that tell of allocators."""

    def __init__(self, rows: PlaneRows) -> None:
        self._rows = rows
        self._sign = rows.by_name(1, lambda _, at: SIGNS.get(rows.shown[at], 0) if at >= 0 else 0)

    def of(self, part: Slice, position: Rows) -> pl.DataFrame | None:
        """The facet ``held`` of a slice; None where nothing tells of allocators."""
        sign = self._sign(0, position)
        which = np.flatnonzero(sign)
        if not len(which):
            return None
        some, at = part.take(which), position[which]  # type: ignore[arg-type]  # rows do as well as flags
        found = {"record": some.record, "time": some.start}
        frame = pl.DataFrame({**found, **{name: self._number(some, at, stat) for name, stat in _NUMBERS.items()}})
        return (
            frame.with_columns(
                self._text(some, at, "allocator_name").alias("allocator"),
                self._text(some, at, "tf_op").alias("framework"),
                pl.Series("fragmentation", _doubles(some, "fragmentation")).fill_nan(None),
                pl.Series("sign", sign[which]),
            )
            .with_columns(pl.col("bytes") * pl.col("sign"))
            .select(pl.col(name).cast(dtype, strict=False) for name, dtype in FACETS["held"].items())
        )

    def _number(self, part: Slice, position: Rows, stat: str) -> pl.Series:
        found = self._rows.number_of(part, position, stat)
        if found is None:
            return pl.Series([None] * len(position), dtype=pl.Int64)
        return pl.Series(found.value).set(pl.Series(~found.known), None)

    def _text(self, part: Slice, position: Rows, stat: str) -> pl.Series:
        found = self._rows.text_of(part, position, stat)
        if found is None:
            return pl.Series([None] * len(position), dtype=pl.String)
        return self._rows.texts.series(found).replace(_NOBODY, None)


def _doubles(part: Slice, stat: str) -> npt.NDArray[np.float64]:
    """A stat that has fractions, as numbers; one without is NaN. Whole ones may be written as such."""
    column = part.stats.get(stat)
    if column is None:
        return np.full(len(part.record), np.nan)
    fractional = np.where(column.field == DOUBLE, column.bits.view(np.float64), np.nan)
    return np.where(column.whole, column.bits.view(np.int64).astype(np.float64), fractional)


def gathered(pieces: Iterable[pl.DataFrame]) -> pl.DataFrame | None:
    """All portions' events, in the order of time; None without any."""
    found = list(pieces)
    return pl.concat(found).sort("time", "record") if found else None


def counted(held: pl.DataFrame | None, ranks: pl.DataFrame) -> Counters:
    """A counter for each allocator: the bytes that it holds, reserved for programs' stacks or allocated.

    It belongs to the rank of its device, else to the host.
    """
    if held is None:
        return Counters()
    known = held.filter(pl.col("allocated").is_not_null()).with_columns(named())
    of_device = {device: row for row, device in enumerate(ranks["device"].to_list()) if device is not None}
    lanes: list[dict[str, object]] = []
    samples = []
    for (name, device), rows in known.partition_by("name", "ordinal", as_dict=True, maintain_order=True).items():
        lane = {"host": 0, "rank": of_device.get(device), "role": "counter", "work": False, "unit": "bytes"}
        title = f"memory of {name}" if name else "memory"
        total = pl.col("allocated").cast(pl.Float64) + pl.col("stack").fill_null(0)
        samples.append(rows.select(pl.lit(len(lanes)).alias("lane"), "time", total.alias("value")).cast(COUNTERS))
        lanes.append({**lane, "name": title, "order": len(lanes)})
    return Counters(lanes, pl.concat(samples)) if samples else Counters()


def named() -> Sequence[pl.Expr]:
    """`name` of an allocator, empty where only its device is known, and `ordinal`, the number of that."""
    allocator = pl.col("allocator").cast(pl.String)
    told = allocator.str.extract(r"(?i)^(?:gpu|tpu|cpu|device)_(\d{1,6})_").cast(pl.Int64, strict=False)
    return allocator.fill_null("").alias("name"), pl.coalesce(pl.col("device").cast(pl.Int64), told).alias("ordinal")
