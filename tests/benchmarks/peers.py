"""What others do with a PyTorch trace, each as a program: needs no Tracehound, and runs in the peer's own environment.

    python tests/benchmarks/peers.py WAY FILE

json, orjson     decode the document, no more
sums             print how many events Tracehound should draw, and how long they are together, by `json`
hta-parse        HolisticTraceAnalysis: parse_trace_dataframe
hta-tables       the same and its first four tables: temporal and kernel breakdown, overlap, idle time
hta-breakdown    HolisticTraceAnalysis: temporal breakdown of all ranks in a folder
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def content(path: Path) -> bytes:
    """The bytes of a file, inflated."""
    if path.suffix == ".gz":
        with gzip.open(path) as file:
            return file.read()
    return path.read_bytes()


def by_json(path: Path) -> Any:
    return json.loads(content(path))


def by_orjson(path: Path) -> Any:
    import orjson  # noqa: PLC0415, may be missing

    return orjson.loads(content(path))


def sums(path: Path) -> None:
    """Print the events that lie on a lane: complete ones and instants, without the profiler's own."""
    found = by_json(path)
    events = found["traceEvents"] if isinstance(found, dict) else found
    drawn = [event for event in events if _drawn(event)]
    time = sum(round(event.get("dur", 0) * 1000) * 1000 for event in drawn)
    print(json.dumps({"events": len(drawn), "time": time, "elements": len(events)}))


def _drawn(event: dict[str, Any]) -> bool:
    if event.get("ph") == "X":
        return event.get("cat") != "Trace"
    return event.get("ph") == "i" and not event["name"].startswith(("[memory]", "Record Window End", "Iteration Start"))


def hta_parse(path: Path) -> Any:
    from hta.common.trace_parser import parse_trace_dataframe  # noqa: PLC0415, of another environment
    from hta.configs.parser_config import ParserConfig  # noqa: PLC0415

    return parse_trace_dataframe(str(path), ParserConfig.get_default_cfg())


def hta_tables(path: Path) -> Any:
    from hta.trace_analysis import TraceAnalysis  # noqa: PLC0415, of another environment

    trace = TraceAnalysis(trace_files={0: str(path)}, trace_dir=str(path.parent))
    return (
        trace.get_temporal_breakdown(visualize=False),
        trace.get_gpu_kernel_breakdown(visualize=False),
        trace.get_comm_comp_overlap(visualize=False),
        trace.get_idle_time_breakdown(visualize=False, visualize_pctg=False),
    )


def hta_breakdown(folder: Path) -> Any:
    from hta.trace_analysis import TraceAnalysis  # noqa: PLC0415, of another environment

    return TraceAnalysis(trace_dir=str(folder)).get_temporal_breakdown(visualize=False)


WAYS: dict[str, Callable[[Path], Any]] = {
    "json": by_json,
    "orjson": by_orjson,
    "sums": sums,
    "hta-parse": hta_parse,
    "hta-tables": hta_tables,
    "hta-breakdown": hta_breakdown,
}


if __name__ == "__main__":
    WAYS[sys.argv[1]](Path(sys.argv[2]))
