"""A Kineto file as HolisticTraceAnalysis sees it, for tests that compare numbers."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any, Literal

Times = Literal["rounded", "exact"]


def as_hta(source: Path, target: Path, times: Times) -> Path:
    """Writes what HTA keeps of a file: without the last step, times rounded as it does (to whole us) or as they are.

    The last step begins where the last row called ProfilerStep does, the device's rows of that name included; work is
    kept when its launch is. Lengths below 0, which rounding makes, become 0.
    """
    packed = source.read_bytes()
    document = json.loads(gzip.decompress(packed) if source.suffix == ".gz" else packed)
    rows = [row for row in document["traceEvents"] if "dur" in row and "cat" in row and row["cat"] != "Trace"]
    rest = [row for row in document["traceEvents"] if row.get("ph") == "M"]
    if times == "rounded" and any(isinstance(row["ts"], float) for row in rows):
        rows = [_rounded(row) for row in rows]
    kept = _without_the_last_step(rows)
    target.write_text(json.dumps({**document, "traceEvents": [*rest, *kept]}))
    return target


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    start, end = math.ceil(row["ts"]), math.floor(row["ts"] + row["dur"])
    return {**row, "ts": start, "dur": max(0, end - start)}


def _without_the_last_step(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    device = [row for row in rows if "stream" in row.get("args", {}) and "correlation" in row["args"]]
    chosen = set(map(id, device))
    host = [row for row in rows if id(row) not in chosen]
    steps = [row for row in host if row["name"].startswith("ProfilerStep")]
    if len({row["name"] for row in steps}) < 2:
        return rows
    last = max(row["ts"] for row in steps)
    kept = [row for row in host if row["ts"] < last]
    calls = {row["args"]["correlation"] for row in kept if "correlation" in row.get("args", {})}
    return [*kept, *(row for row in device if row["args"]["correlation"] in calls)]
