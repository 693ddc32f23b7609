"""Which way a copy goes: by its own name, else by that of the call that launched it.

Owns the spellings of directions, and which sides they are from and to. Knows no lanes and no times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import polars as pl

from tracehound.analysis.hosts.threads import having
from tracehound.analysis.result import Share
from tracehound.formats.xla.copies import HOST
from tracehound.lookup import looked_up
from tracehound.trace import collected

DEVICE: Final = "device"
UNKNOWN: Final = "unknown"

_SIDES: Final[Mapping[str, str]] = {"H": HOST, "D": DEVICE, "P": "other device", "A": "array"}
_SPELLED: Final = re.compile(
    r"(?i:co?py).*?(?<!2)([HDPAMS])(?:(?i:ost|evice|eer|rray)_?)?(?:[tT][oO]|2)_?([HDPAMS])"  # 2D is no direction
)
_OF_HOST: Final = str.maketrans("MS", "HH")
"""XPUs tell pageable memory (M) and memory shared with the device (S) apart from pinned memory (H)."""

_MIGRATED: Final = re.compile(r"UM_BYTES_TRANSFER_([HD])TO([HD])$")
"""CUPTI's names for what unified memory moves."""

_DIRECTION: Final = re.compile(r"([HDPA])to([HDPA])")
_NUMBER: Final = re.compile(r"(?:\.\d+)+$")


def direction(name: str) -> str | None:
    """The direction that the name of a copy, or of a call for one, spells: `HtoD`; None without one."""
    match = _SPELLED.search(name) or _MIGRATED.match(name)
    return f"{match[1]}to{match[2]}".translate(_OF_HOST) if match else None


def kind_of(name: str, kind: str, call: str | None = None) -> str:
    """What people call a copy or memset of this name, which this call launched.

    Its direction, by its own name or else by the call's; without one its name, less the number at its end.
    """
    if kind == "memset":
        return "memset"
    return direction(name) or direction(call or "") or _NUMBER.sub("", name)


def kinds_of(share: Share, copies: pl.DataFrame) -> pl.Series:
    """`kind_of` of each of these events of the rank's device, of which `name`, `kind` and `launch` are read."""
    named = copies.select("name", "kind").unique()
    silent = [kind != "memset" and direction(name) is None for name, kind in _words(named).iter_rows()]
    asking = copies.join(named.filter(pl.Series(silent, dtype=pl.Boolean)), on=["name", "kind"], how="semi")["launch"]
    calls = collected(having(share, asking).select(launch="id", call="name"))
    called = pl.concat([copies.select("name", "kind"), looked_up(calls, "launch", copies["launch"])], how="horizontal")
    each = called.select("name", "kind", "call").unique()
    told = each.with_columns(pl.Series("told", [kind_of(*row) for row in _words(each).iter_rows()], pl.String))
    keys = ["name", "kind", "call"]
    return called.join(told, on=keys, how="left", nulls_equal=True, maintain_order="left")["told"]


def _words(named: pl.DataFrame) -> pl.DataFrame:
    return named.select(pl.all().cast(pl.String)).with_columns(pl.col("name").fill_null(""))


def ends_of(kind: str) -> tuple[str, str]:
    """From which memory to which a copy of this kind on a stream goes."""
    told = _DIRECTION.fullmatch(kind)
    if told is None:
        return (UNKNOWN, UNKNOWN)
    return (DEVICE if told[1] == "P" else _SIDES[told[1]], _SIDES[told[2]])
