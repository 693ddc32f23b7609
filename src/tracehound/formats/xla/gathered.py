"""The lanes, ranks, ops and events of an XLA profile as they are found, whatever format they are read from.

Owns how they are numbered. Knows no names of planes or threads.
"""

from __future__ import annotations

from typing import Any

import polars as pl
from msgspec import Struct, field

from tracehound.formats.assembly.assemble import RAW, RAW_LANES
from tracehound.formats.xla.ops import Ops
from tracehound.trace import RANKS


def raw(rows: pl.DataFrame) -> pl.DataFrame:
    """The columns of `RAW` that there are, of its types."""
    return rows.select(pl.col(name).cast(dtype) for name, dtype in RAW.items() if name in rows.columns)


class Gathered(Struct):
    """What the planes amount to so far, in the form `assemble` wants."""

    ops: Ops
    events: list[pl.DataFrame] = field(default_factory=list)
    lanes: list[dict[str, Any]] = field(default_factory=list)
    ranks: list[dict[str, Any]] = field(default_factory=list)

    def lane(self, name: str, role: str, order: int, **more: object) -> int:
        """A new lane, of the first host where no other is told; its number."""
        self.lanes.append({"host": 0, "name": name, "role": role, "order": order, "work": False, **more})
        return len(self.lanes) - 1

    def rank(self, kind: str, device: int | None, model: str, recorded: int | None = None, host: int = 0) -> int:
        """The rank of a device, new if the device is; `recorded` is its number, where the file tells that."""
        label = kind if device is None else f"{kind}:{device}"
        for number, known in enumerate(self.ranks):
            if known["label"] == label:
                return number
        told = {"rank": recorded, "device": device, "label": label, "model": model or kind}
        self.ranks.append({"host": host, "inferred": False, **told})
        return len(self.ranks) - 1

    def add(self, rows: pl.DataFrame) -> None:
        """Add raw events; columns that `RAW` has not are dropped."""
        self.events.append(raw(rows))

    def event_frame(self) -> pl.DataFrame:
        """All raw events."""
        return pl.concat(self.events, how="diagonal") if self.events else pl.DataFrame(schema=RAW)

    def lane_frame(self) -> pl.DataFrame:
        """The lanes as a frame."""
        return pl.DataFrame(self.lanes, schema=RAW_LANES)

    def rank_frame(self) -> pl.DataFrame:
        """The ranks as a frame; one without a device where the file has none, so that its host can be shown."""
        ranks = self.ranks or [{"host": 0, "label": "CPU", "model": "CPU", "inferred": True}]
        return pl.DataFrame(ranks, schema=RANKS)
