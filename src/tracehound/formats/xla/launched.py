"""How kernels of GPUs were launched, and what copies moved, by the texts that XLA's profiler leaves of it.

Owns the facet ``launched`` of XLA's files, and the words of those texts:
``regs:32 static_shared:0 dynamic_shared:0 grid:11,16,2 block:256,1,1 occ_pct:50``, on ROCm
``grid:8,32,1 block:256,1,1 private_mem:0 group_mem:12800 occ_pct:0``. Tracehound's exports add ``blocks_per_sm:1.5``,
which follows from the facts of a device that JSON does not have. Knows no events.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from tracehound.facets import FACETS

STAT: Final = "kernel_details"
"""The stat, and the arg, that has the text."""

_WORD: Final = re.compile(r"\b(\w+):([\d.,]+)(?![\w.,])")
_EXTENT: Final = re.compile(r"\d{1,10}(?:,\d{1,10}){2}")
_BLOCKS: Final = "blocks_per_sm"
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

    `cores` are the multiprocessors of the device, None where the file does not say; they, else the text, tell the
    blocks on each. `shared` is static and dynamic, `occupancy` what registers and shared memory of the kernel allow
    (occ_pct), which is unknown where it is 0.
    Registers that no thread has make them, and the shared memory, unknown.
    """
    given = pl.DataFrame({"record": record, "text": text}).drop_nulls()
    each = given["text"].unique(maintain_order=True).to_list()
    told = pl.DataFrame([{"text": one, **_told(one)} for one in each], schema={"text": pl.String, **_SCHEMA})
    if isinstance(cores, int) and cores > 0:
        blocks = pl.col("grid").str.split(",").list.eval(pl.element().cast(pl.Float64).product()).list.first()
        told = told.with_columns(pl.coalesce(blocks / cores, _BLOCKS).alias(_BLOCKS))
    found = given.join(told, on="text", how="left", maintain_order="left")
    schema = FACETS["launched"]
    missing = (pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if name not in found.columns)
    return found.with_columns(missing).select(schema.names()).cast(schema)


_SCHEMA: Final = {
    "grid": pl.String(), "block": pl.String(), "registers": pl.Int64(), "shared": pl.Int64(), "occupancy": pl.Float64(),
    _BLOCKS: pl.Float64(),
}  # fmt: skip


def details(facet: pl.DataFrame) -> pl.DataFrame:
    """`record` and `text` of these rows of the facet, which `launched` reads again; "" where nothing is known."""
    each = facet.drop("record").unique(maintain_order=True)
    text = pl.Series("text", [_text(row) for row in each.iter_rows(named=True)], pl.String)
    told = each.with_columns(text)
    return facet.join(told, on=each.columns, how="left", nulls_equal=True, maintain_order="left").select(
        "record", "text"
    )


def _text(row: Mapping[str, Any]) -> str:
    """What is known of one kernel."""
    occupancy = row["occupancy"]
    words = {
        "regs": row["registers"], "dynamic_shared": row["shared"], "grid": row["grid"], "block": row["block"],
        "occ_pct": None if occupancy is None else round(occupancy * 100, 9), _BLOCKS: row[_BLOCKS],
    }  # fmt: skip
    return " ".join(f"{word}:{value}" for word, value in words.items() if value is not None)


def _told(text: str) -> dict[str, object]:
    """What one text says."""
    words = dict(_WORD.findall(text))
    whole = {name: int(value) for name, value in words.items() if value.isdigit() and len(value) <= _LONGEST}
    registers = whole.get("regs")
    sound = registers is None or registers <= _MOST_REGISTERS
    parts = [whole[name] for name in ("static_shared", "dynamic_shared", "group_mem") if name in whole]
    percent = _number(words.get("occ_pct", "").rstrip(".")) or 0.0
    return {
        **{name: words[name] for name in ("grid", "block") if _EXTENT.fullmatch(words.get(name, ""))},
        "registers": registers if sound else None,
        "shared": sum(parts) if parts and sound else None,
        "occupancy": percent / 100 or None,
        _BLOCKS: _number(words.get(_BLOCKS, "")),
    }


def _number(text: str) -> float | None:
    return float(text) if text.replace(".", "", 1).isdigit() else None
