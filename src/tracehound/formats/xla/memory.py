"""What allocators gave and took back, by the events that XLA's runtime leaves on the host.

Owns the stats of these events. They have no length: each tells what the allocator holds after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.facets import FACETS
from tracehound.formats.allocators import named
from tracehound.formats.assembly.counters import Counters
from tracehound.formats.sizes import MOST_BYTES, NO_SIZE
from tracehound.formats.spill import Kept
from tracehound.formats.wire import Rows
from tracehound.formats.xla.rows import PlaneRows, nullable_columns
from tracehound.formats.xla.xevents import Slice
from tracehound.formats.xla.xshelf import Shelf
from tracehound.formats.xla.xstats import DOUBLE
from tracehound.notes import Note
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

_SIZES: Final = ("stack", "allocated", "free", "peak", "requested", "bytes")

_TEXTS: Final = {"allocator": "allocator_name", "framework": "tf_op"}

_NOBODY: Final = "(null)"
"""What the runtime writes for a text that it has not."""

_ENOUGH: Final = 1 << 15
"""Events that are worth a frame."""


class Allocators:
    """The events of one plane that tell of allocators, collected slice by slice."""

    def __init__(self, rows: PlaneRows) -> None:
        self._rows = rows
        self._sign = rows.by_name(1, lambda _, at: SIGNS.get(rows.shown[at], 0) if at >= 0 else 0)
        self._shelf = Shelf()
        self._kept: list[Kept] = []

    def add(self, part: Slice, position: Rows) -> None:
        """The events of a slice."""
        sign = self._sign(0, position)
        which = np.flatnonzero(sign)
        if not len(which):
            return
        some, at = part.take(which), position[which]  # type: ignore[arg-type]  # rows do as well as flags
        numbers = {name: self._rows.number_of(some, at, stat) for name, stat in _NUMBERS.items()}
        texts = {name: self._rows.text_of(some, at, stat) for name, stat in _TEXTS.items()}
        fragmentation = _doubles(some, "fragmentation").view(np.int64)
        times = {"record": some.record, "time": some.start, "sign": sign[which]}
        self._shelf.add(len(which), {**times, **numbers, **texts, "fragmentation": fragmentation})
        if self._shelf.height >= _ENOUGH:
            self._put()

    def told(self) -> list[Kept]:
        """The facet ``held`` of all slices, put aside; none where nothing tells of allocators."""
        if self._shelf.height:
            self._put()
        return self._kept

    def _put(self) -> None:
        self._kept.append(self._rows.portioning.aside(self._frame()))

    def _frame(self) -> pl.DataFrame:
        """What waits on the shelf."""
        frame = self._shelf.table(self._rows.texts).frame()
        told = {name: self._rows.texts.series(frame[name].to_numpy()) for name in _TEXTS if name in frame.columns}
        frame = frame.with_columns(
            pl.Series("fragmentation", frame["fragmentation"].to_numpy().view(np.float64)).fill_nan(None),
            **{name: words.replace(_NOBODY, None) for name, words in told.items()},
        )
        frame = nullable_columns(frame, *FACETS["held"]).with_columns(pl.col("bytes") * pl.col("sign"))
        return frame.select(pl.col(name).cast(dtype, strict=False) for name, dtype in FACETS["held"].items())


def _doubles(part: Slice, stat: str) -> npt.NDArray[np.float64]:
    """A stat that has fractions, as numbers; one without is NaN. Whole ones may be written as such."""
    column = part.stats.get(stat)
    if column is None:
        return np.full(len(part.record), np.nan)
    fractional = np.where(column.field == DOUBLE, column.bits.view(np.float64), np.nan)
    return np.where(column.whole, column.bits.view(np.int64).astype(np.float64), fractional)


def gathered(pieces: Iterable[pl.DataFrame]) -> tuple[pl.DataFrame | None, tuple[Note, ...]]:
    """All portions' events, in the order of time, with the sizes that can be true; None without any."""
    found = list(pieces)
    if not found:
        return None, ()
    mixed = pl.concat(found)
    found.clear()
    order = mixed.select(pl.arg_sort_by("time", "record")).to_series()
    held = pl.DataFrame([mixed.drop_in_place(name).gather(order) for name in mixed.columns])  # no column twice for long
    sound = {name: pl.col(name).is_between(-MOST_BYTES, MOST_BYTES) for name in _SIZES}
    odd = held.filter(~pl.all_horizontal(sound.values()))["record"].to_list()
    if not odd:
        return held, ()
    sized = held.with_columns(pl.when(true).then(name).alias(name) for name, true in sound.items())
    return sized, (Note("repaired", NO_SIZE, len(odd), where=f"byte {min(odd):,}"),)


def counted(held: pl.DataFrame | None, ranks: pl.DataFrame) -> Counters:
    """A counter for each allocator: the bytes that it holds, reserved for programs' stacks or allocated.

    It belongs to the rank of its device, else to the host.
    """
    if held is None:
        return Counters()
    told = held.select("time", "allocator", "device", "allocated", "stack")
    known = told.filter(pl.col("allocated").is_not_null()).with_columns(named())
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
