"""Call paths as folded stacks, a line for each: what flamegraph.pl, speedscope, inferno and Perfetto read.

Owns the form: names from the outermost to the innermost with semicolons between them, a space, and nanoseconds. What a
path is and takes says the analysis `stacks`; a path without a nanosecond of its own has no line.
"""

from __future__ import annotations

from typing import BinaryIO

from tracehound.analysis import named, run
from tracehound.analysis.trees import depths
from tracehound.errors import printable
from tracehound.export.written import Tell, Written
from tracehound.trace import Trace, Window

NS = 1000
NAMELESS = "(no name)"
"""What a frame without a name is called: an empty one is none to the tools that read the file."""


def host(trace: Trace, window: Window, file: BinaryIO, tell: Tell) -> Written:
    """Write the time of each path on the host, without what it called."""
    return _written(trace, window, file, tell, "self")


def device(trace: Trace, window: Window, file: BinaryIO, tell: Tell) -> Written:
    """Write the device time of what each path launched itself."""
    return _written(trace, window, file, tell, "device_self")


def _written(trace: Trace, window: Window, file: BinaryIO, tell: Tell, weight: str) -> Written:
    result = run(named("stacks"), trace, window)
    deep = depths(result.table, result.columns)
    names = {name: _frame(name or "") for name in result.table["call"].unique().to_list()}
    way, events = list[str](), 0
    rows = result.table.select("call", "count", weight).iter_rows()
    for depth, (call, count, time) in zip([] if deep is None else deep.tolist(), rows, strict=True):
        way[depth:] = [names[call]]
        if time is not None and time >= NS // 2:
            file.write(f"{';'.join(way)} {round(time / NS)}\n".encode("utf-8", "replace"))
            events += count
    tell(1.0)
    return Written(events, notes=() if events else result.notes)


def _frame(name: str) -> str:
    return printable(name).replace(";", ":").strip() or NAMELESS
