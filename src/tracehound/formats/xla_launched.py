"""How kernels of GPUs were launched, and what copies moved, by the texts that XLA's profiler leaves of it.

Owns the facet ``launched`` of XLA's files, and the words of those texts:
``regs:32 static_shared:0 dynamic_shared:0 grid:11,16,2 block:256,1,1 occ_pct:50``, on ROCm
``grid:8,32,1 block:256,1,1 private_mem:0 group_mem:12800 occ_pct:0``. Knows no events.
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from tracehound.facets import FACETS

STAT: Final = "kernel_details"
"""The stat, and the arg, that has the text."""

_WORD: Final = re.compile(r"(\w+):([\d.,]+)")
_EXTENT: Final = re.compile(r"\d{1,10}(?:,\d{1,10}){2}")
_MOST_REGISTERS: Final = 1024
"""More than any device has for a thread: ROCm's profiler has written addresses there, and beside them."""


_LONGEST: Final = 18
"""Digits of a number that surely fits."""


def detailed_bytes(text: object) -> int | None:
    """The bytes that the details of a copy or a memset tell: ``kind:HtoD size:4096 dest:0``; None where they do not."""
    found = _DETAILED.search(text) if isinstance(text, str) else None
    return int(found[1]) if found else None


_DETAILED: Final = re.compile(r"(?:size|num_bytes):(\d{1,18})(?!\d)")


def launched(record: pl.Series, text: pl.Series, cores: object = None) -> pl.DataFrame:
    """The facet of kernels with these records and texts; no row where a text is missing.

    `cores` are the multiprocessors of the device, None where the file does not say. `shared` is static and dynamic,
    `occupancy` what registers and shared memory of the kernel allow (occ_pct), which is unknown where it is 0.
    Registers that no thread has make them, and the shared memory, unknown.
    """
    given = pl.DataFrame({"record": record, "text": text}).drop_nulls()
    each = given["text"].unique(maintain_order=True).to_list()
    told = pl.DataFrame([{"text": one, **_told(one)} for one in each], schema={"text": pl.String, **_SCHEMA})
    if isinstance(cores, int) and cores > 0:
        blocks = pl.col("grid").str.split(",").list.eval(pl.element().cast(pl.Float64).product()).list.first()
        told = told.with_columns((blocks / cores).alias("blocks_per_sm"))
    found = given.join(told, on="text", how="left", maintain_order="left")
    schema = FACETS["launched"]
    missing = (pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if name not in found.columns)
    return found.with_columns(missing).select(schema.names()).cast(schema)


_SCHEMA: Final = {
    "grid": pl.String(), "block": pl.String(), "registers": pl.Int64(), "shared": pl.Int64(), "occupancy": pl.Float64(),
}  # fmt: skip


def _told(text: str) -> dict[str, object]:
    """What one text says."""
    words = dict(_WORD.findall(text))
    whole = {name: int(value) for name, value in words.items() if value.isdigit() and len(value) <= _LONGEST}
    registers = whole.get("regs")
    sound = registers is None or registers <= _MOST_REGISTERS
    parts = [whole[name] for name in ("static_shared", "dynamic_shared", "group_mem") if name in whole]
    percent = words.get("occ_pct", "").rstrip(".")
    occupancy = float(percent) / 100 if percent.replace(".", "", 1).isdigit() else 0.0
    return {
        **{name: words[name] for name in ("grid", "block") if _EXTENT.fullmatch(words.get(name, ""))},
        "registers": registers if sound else None,
        "shared": sum(parts) if parts and sound else None,
        "occupancy": occupancy or None,
    }
