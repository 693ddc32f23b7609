"""Launch parameters of GPU kernels and sizes of copies, in the texts that XLA's profiler records.

``regs:32 static_shared:0 dynamic_shared:0 grid:11,16,2 block:256,1,1 occ_pct:50``, on ROCm ``grid:8,32,1 block:256,1,1
private_mem:0 group_mem:12800 occ_pct:0``. Tracehound's exports add ``blocks_per_sm:1.5``, which follows from facts of
the device that JSON lacks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from tracehound.model.facet_schemas import FACET_SCHEMAS

KERNEL_DETAILS_STAT: Final = "kernel_details"
"""Name of the stat, and of the arg, with the text."""

_KEY_AND_VALUE: Final = re.compile(r"\b(\w+):([\d.,]+)(?![\w.,])")
_THREE_SIZES: Final = re.compile(r"\d{1,10}(?:,\d{1,10}){2}")
_BLOCKS_PER_SM: Final = "blocks_per_sm"
_MAX_REGISTERS: Final = 1024
"""More registers than any thread has are an error: ROCm's profiler has written addresses there, and beside them."""


_MAX_DIGITS: Final = 18
"""Digits of a number that surely fits Int64."""


def bytes_in_details(text: object) -> int | None:
    """Bytes in the details of a copy or a memset: ``kind:HtoD size:4096 dest:0``; None if there are none."""
    found = _DETAILS_BYTES.search(text) if isinstance(text, str) else None
    return int(found[1]) if found else None


_DETAILS_BYTES: Final = re.compile(r"(?:size|num_bytes):(\d{1,18})(?!\d)")


def parse_launch_details(record: pl.Series, text: pl.Series, cores: object = None) -> pl.DataFrame:
    """Facet ``launched`` of kernels with these records and texts; no row for a missing text.

    `cores` are the multiprocessors of the device, None if unknown; the blocks on each follow from them, else from the
    text. `shared` is static plus dynamic shared memory. `occupancy` is the limit by registers and shared memory
    (occ_pct), unknown if 0. An impossible number of registers makes registers and shared memory unknown.
    """
    recorded = pl.DataFrame({"record": record, "text": text}).drop_nulls()
    distinct = recorded["text"].unique(maintain_order=True).to_list()
    parsed = pl.DataFrame(
        [{"text": one, **_parse_details(one)} for one in distinct], schema={"text": pl.String, **_PARSED_SCHEMA}
    )
    if isinstance(cores, int) and cores > 0:
        blocks = pl.col("grid").str.split(",").list.eval(pl.element().cast(pl.Float64).product()).list.first()
        parsed = parsed.with_columns(pl.coalesce(blocks / cores, _BLOCKS_PER_SM).alias(_BLOCKS_PER_SM))
    joined = recorded.join(parsed, on="text", how="left", maintain_order="left")
    schema = FACET_SCHEMAS["launched"]
    missing = (pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if name not in joined.columns)
    return joined.with_columns(missing).select(schema.names()).cast(schema)


_PARSED_SCHEMA: Final = {
    "grid": pl.String(), "block": pl.String(), "registers": pl.Int64(), "shared": pl.Int64(), "occupancy": pl.Float64(),
    _BLOCKS_PER_SM: pl.Float64(),
}  # fmt: skip


def format_launch_details(facet: pl.DataFrame) -> pl.DataFrame:
    """`record` and text of these rows of the facet, which `parse_launch_details` can read; "" if nothing is known."""
    distinct = facet.drop("record").unique(maintain_order=True)
    text = pl.Series("text", [_format_details(row) for row in distinct.iter_rows(named=True)], pl.String)
    formatted = distinct.with_columns(text)
    return facet.join(formatted, on=distinct.columns, how="left", nulls_equal=True, maintain_order="left").select(
        "record", "text"
    )


def _format_details(row: Mapping[str, Any]) -> str:
    """Text of one kernel."""
    occupancy = row["occupancy"]
    words = {
        "regs": row["registers"], "dynamic_shared": row["shared"], "grid": row["grid"], "block": row["block"],
        "occ_pct": None if occupancy is None else round(occupancy * 100, 9), _BLOCKS_PER_SM: row[_BLOCKS_PER_SM],
    }  # fmt: skip
    return " ".join(f"{word}:{value}" for word, value in words.items() if value is not None)


def _parse_details(text: str) -> dict[str, object]:
    """Values in one text."""
    words = dict(_KEY_AND_VALUE.findall(text))
    integers = {name: int(value) for name, value in words.items() if value.isdigit() and len(value) <= _MAX_DIGITS}
    registers = integers.get("regs")
    has_valid_registers = registers is None or registers <= _MAX_REGISTERS
    parts = [integers[name] for name in ("static_shared", "dynamic_shared", "group_mem") if name in integers]
    percent = _parse_decimal(words.get("occ_pct", "").rstrip(".")) or 0.0
    return {
        **{name: words[name] for name in ("grid", "block") if _THREE_SIZES.fullmatch(words.get(name, ""))},
        "registers": registers if has_valid_registers else None,
        "shared": sum(parts) if parts and has_valid_registers else None,
        "occupancy": percent / 100 or None,
        _BLOCKS_PER_SM: _parse_decimal(words.get(_BLOCKS_PER_SM, "")),
    }


def _parse_decimal(text: str) -> float | None:
    return float(text) if text.replace(".", "", 1).isdigit() else None
