"""Lanes, ranks, ops and events of an XLA profile, collected while it is read from any format."""

from __future__ import annotations

from typing import Any

import polars as pl
from msgspec import Struct, field

from tracehound.formats.assembly.file_assembly import RAW_EVENTS, RAW_LANES
from tracehound.formats.xla.xla_names import EventKind
from tracehound.model.trace import OPS, RANKS


def to_raw_events(rows: pl.DataFrame) -> pl.DataFrame:
    """The columns of `RAW_EVENTS` that exist, in its types."""
    return rows.select(pl.col(name).cast(dtype) for name, dtype in RAW_EVENTS.items() if name in rows.columns)


class ProfileBuilder(Struct):
    """Collects lanes, ranks, ops and events in the form that `assemble_file` needs."""

    ops: OpTable
    events: list[pl.DataFrame] = field(default_factory=list)
    lanes: list[dict[str, Any]] = field(default_factory=list)
    ranks: list[dict[str, Any]] = field(default_factory=list)

    def add_lane(self, name: str, role: str, order: int, **more: object) -> int:
        """Add a lane, by default of the first host; returns its number."""
        self.lanes.append({"host": 0, "name": name, "role": role, "order": order, "work": False, **more})
        return len(self.lanes) - 1

    def find_or_add_rank(
        self, kind: str, device: int | None, model: str, recorded: int | None = None, host: int = 0
    ) -> int:
        """Row of the rank of a device, added if new; `recorded` is its rank number, if the file has one."""
        label = kind if device is None else f"{kind}:{device}"
        for number, known in enumerate(self.ranks):
            if known["label"] == label:
                return number
        identity = {"rank": recorded, "device": device, "label": label, "model": model or kind}
        self.ranks.append({"host": host, "inferred": False, **identity})
        return len(self.ranks) - 1

    def rank_of_ordinal(self, device: int) -> int | None:
        """Row of the rank of the only device with this ordinal."""
        rows = [row for row, rank in enumerate(self.ranks) if rank["device"] == device]
        return rows[0] if len(rows) == 1 else None

    def add_events(self, rows: pl.DataFrame) -> None:
        """Add raw events; columns that are not in `RAW_EVENTS` are dropped."""
        self.events.append(to_raw_events(rows))

    def event_frame(self) -> pl.DataFrame:
        """Frame of all raw events."""
        return pl.concat(self.events, how="diagonal") if self.events else pl.DataFrame(schema=RAW_EVENTS)

    def lane_frame(self) -> pl.DataFrame:
        """Frame of the lanes."""
        return pl.DataFrame(self.lanes, schema=RAW_LANES)

    def rank_frame(self) -> pl.DataFrame:
        """Frame of the ranks; one without a device if the file has none, so that its host can be shown."""
        ranks = self.ranks or [{"host": 0, "label": "CPU", "model": "CPU", "inferred": True}]
        return pl.DataFrame(ranks, schema=RANKS)


class OpRow(Struct, frozen=True):
    """Row number of an op in `ops`, and the kind and bytes that its events get from it."""

    row: int
    kind: EventKind
    bytes: int | None


class OpTable(Struct):
    """Collects ops, one row for each."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    _known: dict[tuple[Any, ...], OpRow] = field(default_factory=dict)

    def add(self, kind: EventKind, moved: int | None, row: dict[str, Any]) -> OpRow:
        """The op with this name and text in this program, added if new."""
        key = (row["program"], row["module"], row["name"], row["text"])
        if key not in self._known:
            self._known[key] = OpRow(len(self.rows), kind, moved if kind in _MOVING_KINDS else None)
            self.rows.append({"op": len(self.rows), **row})
        return self._known[key]

    def frame(self) -> pl.DataFrame:
        """Frame `ops`."""
        return pl.DataFrame(self.rows, schema=OPS)


_MOVING_KINDS = ("collective", "copy", "transfer")
