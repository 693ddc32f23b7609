"""Small runs for the rules of findings, and what tests ask of their rows, whatever their exact words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from building import US, Building, listing, stream, thread
from tracehound.analysis import Result, run_analysis
from tracehound.analysis.findings import ANALYSIS
from tracehound.model.trace import Trace, Window
from tracehound.store import load_trace, open_trace_files

Row = dict[str, Any]

MS: Final = 1000 * US
MAIN: Final = thread("python (1)")
V100: Final = {"name": "Tesla V100", "computeMajor": 7, "warpSize": 32, "totalGlobalMem": 1000}


def run_findings(trace: Trace, window: Window | None = None) -> Result:
    return run_analysis(ANALYSIS, trace, window)


def find_rows(trace: Trace, window: Window | None = None) -> list[Row]:
    """The findings, in their order."""
    return run_findings(trace, window).table.rows(named=True)


def read_rows(path: Path) -> list[Row]:
    """The findings of recorded files."""
    return find_rows(load_trace(open_trace_files([path])))


def rows_with(rows: Sequence[Row], *words: str) -> list[Row]:
    """The findings whose titles have all of these words."""
    return [row for row in rows if all(word in row["finding"] for word in words)]


def find_row(rows: Sequence[Row], *words: str) -> Row:
    """The one finding whose title has all of these words."""
    found = rows_with(rows, *words)
    assert len(found) == 1, (words, [row["finding"] for row in rows])
    return found[0]


def only_row(rows: Sequence[Row], *words: str) -> Row:
    """The one finding that there is; its title has all of these words."""
    assert len(rows) == 1, [row["finding"] for row in rows]
    return find_row(rows, *words)


def location(row: Row, unit: int = US) -> tuple[int | None, float | None, float | None]:
    """Rank, start and duration of a finding, in these units."""
    times = (None if row[name] is None else row[name] / unit for name in ("start", "duration"))
    return (row["rank"], *times)


_UNITS: Final = {"ps": 1, "ns": 1000, "us": US, "ms": MS, "s": 1000 * MS}


def has_time(text: str, time: float) -> bool:
    """True if a text has this time (ps), to two significant digits or more."""
    found = re.findall(r"(?<![\w.])([\d.,]+) (ps|ns|us|ms|s)\b", text)
    return any(abs(float(number.replace(",", "")) * _UNITS[unit] - time) <= 0.01 * time for number, unit in found)


def has_share(text: str, share: float) -> bool:
    """True if a text has this share in percent, to two significant digits or more."""
    found = re.findall(r"(?<![\w.])([\d.,]+) %", text)
    return any(abs(float(number.replace(",", "")) / 100 - share) <= 0.01 * share for number in found)


def make_steps(count: int = 4, length: float = 100, busy: float = 96, unit: int = US) -> Building:
    """Steps of a length, on one stream that is busy for the first part of each."""
    b = Building(facts=listing(V100), unit=unit)
    for number in range(count):
        start = number * length
        b.event(MAIN, f"ProfilerStep#{number}", start, start + length, "step", step=number)
        add_work(b, "elementwise_kernel", start, start + busy)
    return b


def add_work(b: Building, name: str, start: float, end: float, kind: str = "kernel", lane: int = 7) -> None:
    """Work that was launched as it began."""
    number = len(b.rows)
    b.event(MAIN, "cudaLaunchKernel", start, start, "runtime", correlation=number)
    b.event(stream(0, lane), name, start, end, kind, correlation=number)


def add_each_step(
    b: Building, name: str, start: float, end: float, kind: str, *, count: int = 4, length: float = 100
) -> Building:
    """An event of the program's thread in each step, from and to times within it."""
    for number in range(count):
        b.event(MAIN, name, number * length + start, number * length + end, kind)
    return b
