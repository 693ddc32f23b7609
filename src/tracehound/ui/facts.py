"""What is known of one event, in words.

Owns which facts are told and in which order. Knows no widget.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from tracehound import units
from tracehound.errors import printable
from tracehound.trace import Trace

Facts = list[tuple[str, str]]
"""Labels and words."""


def facts(trace: Trace, event: int) -> Facts:
    """The event's columns, where it lies, what enqueued it and what is true of its op."""
    found = trace.event(event)
    lane = trace.lanes.row(by_predicate=pl.col("lane") == found["lane"], named=True)
    where = f"rank {lane['rank']}" if lane["rank"] is not None else trace.hosts[lane["host"]].name
    told: Facts = [
        ("name", str(found["name"])),
        ("kind", str(found["kind"])),
        ("start", units.instant(found["start"])),
        ("duration", units.duration(found["end"] - found["start"])),
    ]
    if found["self"] is not None and found["self"] != found["end"] - found["start"]:
        told.append(("self", units.duration(found["self"])))
    if found["device_start"] is not None:
        told.append(("on device", units.duration(found["device_end"] - found["device_start"])))
    told.append(("lane", f"{lane['name']}, {where}"))
    told += [(name, f"{found[name]:,}") for name in ("step",) if found[name] is not None]
    if found["bytes"] is not None:
        told.append(("bytes", units.bytes_(found["bytes"])))
    told += _related(trace, found)
    if found["op"] is not None:
        told += _op(trace, found["op"])
    return [(label, printable(text)) for label, text in told]


def _related(trace: Trace, found: dict[str, Any]) -> Facts:
    told: Facts = []
    if found["parent"] is not None:
        told.append(("inside", str(trace.event(found["parent"])["name"])))
    if found["launch"] is not None:
        launch = trace.event(found["launch"])
        told.append(("launched by", f"{launch['name']}, {units.duration(found['start'] - launch['start'])} before"))
    return told


def _op(trace: Trace, op: int) -> Facts:
    row = trace.ops.row(by_predicate=pl.col("op") == op, named=True)
    told: Facts = [(name, str(row[name])) for name in ("category", "module", "framework", "source") if row[name]]
    told += [(name, f"{row[name]:,}") for name in ("flops",) if row[name]]
    if row["bytes_accessed"]:
        told.append(("accesses", units.bytes_(row["bytes_accessed"])))
    return [*told, ("text", str(row["text"]))] if row["text"] else told


def carried(args: dict[str, Any]) -> Facts:
    """The args of an event as its file has them."""
    return [(printable(str(name)), _words(value)) for name, value in args.items()]


def _words(value: object) -> str:
    """A value of the file; lines stay lines, since stacks and HLO are read that way."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    text = value if isinstance(value, str) else str(value)
    return "\n".join(printable(line) for line in text.splitlines()) or '""'
