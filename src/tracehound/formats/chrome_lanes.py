"""The lanes and ranks of an XLA trace.json.

Owns which row of the viewer is which lane, and which processes are devices. Kinds and roles by name are in
`xla_names`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import polars as pl

from tracehound.formats.assemble import RAW_LANES
from tracehound.formats.chrome_columns import Text
from tracehound.formats.xla_names import leads, role_of_line
from tracehound.trace import RANKS

_DEVICE = re.compile(r"/device:(?P<family>[A-Z]+):(?P<ordinal>\d+)(?P<part>.*)")
_STREAM = re.compile(r"stream #?(\d+)", re.IGNORECASE)
_TID = re.compile(r"(?P<name>.*)/(?P<tid>-?\d+)$")


@dataclass
class Lanes:
    """Lanes and ranks as they are found; their numbers are their places in these lists."""

    rows: list[dict[str, object]] = field(default_factory=list)
    ranks: list[tuple[str, int]] = field(default_factory=list)

    def line(self, process: str, thread: str, tid: Text) -> int:
        """The lane of one thread of one process of the viewer."""
        device = _DEVICE.match(process)
        if device is None:
            return self._host_line(process, thread, tid)
        rank = self.rank(device["family"], int(device["ordinal"]))
        role = role_of_line(thread)
        stream = _STREAM.match(thread)
        name = f"{device['part'].strip()} {thread}".strip() or f"line {tid}"
        number = int(stream[1]) if stream else None
        return self._add(name, role, rank, process, thread, number, len(self.rows))

    def derived(self, family: str, device: int, role: str) -> int:
        """The lane for ops or modules of a device that the file gives no rows."""
        rank = self.rank(family, device)
        name = {"ops": "XLA Ops", "modules": "XLA Modules"}[role]
        return self._add(name, role, rank, f"/device:{family}:{device}", "", None, 0 if role == "modules" else 1)

    def rank(self, family: str, ordinal: int) -> int:
        """The rank that a device is."""
        if (family, ordinal) not in self.ranks:
            self.ranks.append((family, ordinal))
        return self.ranks.index((family, ordinal))

    def _host_line(self, process: str, thread: str, tid: Text) -> int:
        tagged = _TID.match(thread)
        short = tagged["name"] if tagged else thread
        name = f"{short} ({tid})" if short else f"thread {tid}"
        return self._add(name, "thread", None, process, thread or str(tid), None, 0 if leads(short) else 1)

    def _add(
        self, name: str, role: str, rank: int | None, process: str, thread: str, stream: int | None, order: int
    ) -> int:
        self.rows.append(
            {
                "host": 0, "rank": rank, "role": role, "work": False, "name": name, "process": process,
                "thread": thread, "stream": stream, "order": order,
            }
        )  # fmt: skip
        return len(self.rows) - 1

    def frame(self) -> pl.DataFrame:
        """The lanes. A device's work is what its streams do, and without streams what its ops do."""
        frame = pl.DataFrame(self.rows, schema=RAW_LANES, orient="row")
        streams = frame.filter(pl.col("role") == "stream")["rank"].unique()
        with_streams = pl.col("rank").is_in(streams.implode())
        work = pl.when(with_streams).then(pl.col("role") == "stream").otherwise(pl.col("role") == "ops")
        return frame.with_columns((work & pl.col("rank").is_not_null()).alias("work"))

    def ranks_frame(self) -> pl.DataFrame:
        """The ranks; which rank of the job a device is, the file does not say."""
        rows = [
            {
                "rank": None,
                "host": 0,
                "device": ordinal,
                "label": f"{family}:{ordinal}",
                "model": None,
                "inferred": True,
            }
            for family, ordinal in self.ranks
        ] or [{"rank": None, "host": 0, "device": None, "label": "CPU", "model": None, "inferred": True}]
        return pl.DataFrame(rows, schema=RANKS)
