"""What tests of exports share: a job to be exported, and the export read back."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tracehound.export import EXPORT_FORMATS, ExportSummary
from tracehound.model.trace import Trace, Window, collect_frame
from tracehound.store import load_trace, open_trace_files

BASE = 1_700_000_000_000_000_000


def opened(*paths: Path) -> Trace:
    return load_trace(open_trace_files(paths))


def written(trace: Trace, out: Path, window: Window | None = None, form: str = "json") -> ExportSummary:
    """Export to a file."""
    (write,) = (each.write for each in EXPORT_FORMATS if each.name == form)
    with out.open("wb") as file:
        return write(trace, window or Window(), file, lambda _: None)


def document(trace: Trace, window: Window | None = None) -> dict[str, Any]:
    """The exported document."""
    file = io.BytesIO()
    EXPORT_FORMATS[0].write(trace, window or Window(), file, lambda _: None)
    return json.loads(file.getvalue())


def own(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a document that are no points of curves."""
    return [event for event in document["traceEvents"] if event.get("by") != "tracehound"]


def points(document: dict[str, Any]) -> dict[tuple[object, str], list[tuple[float, float]]]:
    """The curves of a document by process and name: times in us, and values."""
    found: dict[tuple[object, str], list[tuple[float, float]]] = {}
    for event in document["traceEvents"]:
        if event.get("by") == "tracehound":
            (value,) = event["args"].values()
            found.setdefault((event["pid"], event["name"]), []).append((event["ts"], value))
    return found


def rows(trace: Trace, *columns: str) -> list[tuple[Any, ...]]:
    """The events of a trace as sorted rows that do not tell lanes and ids apart."""
    names = columns or ("name", "start", "end", "kind", "self", "bytes")
    plain = [pl.col(name).cast(pl.String) if name in ("name", "kind") else pl.col(name) for name in names]
    return sorted(collect_frame(trace.events().select(plain)).rows(), key=repr)


def x(cat: str, name: str, ts: float, dur: float, pid: object = 10, tid: object = 10, **args: object) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def rank(
    number: int, *, device: int = 0, pid: int = 10, at: float = 100.0, base: int = BASE, files: Sequence[dict] = ()
) -> dict[str, Any]:
    """A rank's document: two launches, their kernels one after the other, and a copy of 1,000 bytes in 2 us."""
    gpu = {"device": device, "stream": 7}
    events = [
        {"ph": "M", "name": "process_name", "pid": each, "tid": 0, "ts": at, "args": {"name": "python"}}
        for each in (pid, device, device + 1)
    ]
    for n, (called, start) in enumerate(((1, 10), (2, 30))):
        events += [
            x("cuda_runtime", "cudaLaunchKernel", at + called, 0.5, pid, pid, correlation=n + 1),
            {"ph": "s", "id": n + 1, "pid": pid, "tid": pid, "ts": at + called, "cat": "ac2g", "name": "ac2g"},
            x("kernel", f"k{n}", at + start, 10.125, device, 7, correlation=n + 1, **gpu),
            {
                "ph": "f",
                "id": n + 1,
                "pid": device,
                "tid": 7,
                "ts": at + start,
                "cat": "ac2g",
                "name": "ac2g",
                "bp": "e",
            },
        ]
    events.append(x("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", at + 50, 2, device, 7, bytes=1000, **gpu))
    events.append(x("Trace", "PyTorch Profiler (0)", at, 60, "Spans", "PyTorch Profiler"))
    info = {"backend": "nccl", "rank": number, "world_size": 2}
    return {
        "schemaVersion": 1,
        "distributedInfo": info,
        "baseTimeNanoseconds": base,
        "traceEvents": [*events, *files],
        "traceName": f"rank{number}.json",
    }


def job(folder: Path, *documents: dict[str, Any]) -> list[Path]:
    """The files of some ranks."""
    paths = [folder / f"rank{number}.json" for number in range(len(documents))]
    for path, each in zip(paths, documents, strict=True):
        path.write_text(json.dumps(each))
    return paths
