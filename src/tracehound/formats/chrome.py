"""XLA profiles in their Chrome form, the trace.json.gz beside an xplane.pb.

Owns recognising such a file and what its events mean. It holds less than the xplane: notes say what.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.formats.assemble import Decoded, part
from tracehound.formats.chrome_columns import SHAPE, Columns, Op, Piece, whole
from tracehound.formats.chrome_lanes import Lanes
from tracehound.formats.format import Format, Progress
from tracehound.formats.inflate import opened
from tracehound.formats.json_columns import INVALID
from tracehound.formats.json_slices import SLICE, Reader, event_at
from tracehound.formats.xla_names import (
    kind_of_device_event,
    kind_of_gpu_event,
    kind_of_host_event,
    moved_bytes,
    op_kind,
    opcode_of_name,
)
from tracehound.trace import KIND, KINDS, OPS, Note, Part

CAPS: Final = (1_000_000, 5_000_000)
"""How many events XLA's writers stop at; they keep the earliest."""

LOST: Final = (
    "the Chrome form of an XLA profile, without wall clock, HLO modules, memory, links from host to device, and the "
    "true ends of ops that a CPU runs; the xplane.pb beside it has them"
)

_MARKS: Final = (b'"name":"/device:', b'"name":"/host:', b'"highres-ticks":')
_FAR_PS: Final = 2**61


def matches(start: bytes) -> bool:
    """Whether this is the start of XLA's trace.json: processes named after planes, and no category on any event."""
    if start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        return False
    dense = b"".join(start.split())
    return b'"ph":"' in dense and b'"cat":' not in dense and any(mark in dense for mark in _MARKS)


def read(path: Path, progress: Progress) -> Part:
    """Read a file. Raises TracehoundError where it holds no array of events."""
    return part(decoded(path, progress))


def decoded(path: Path, progress: Progress, size: int = SLICE) -> Decoded:
    """The events of a file; `size` is that of a slice, in bytes."""
    columns = Columns()
    with opened(path) as stream:
        reader = Reader(stream, SHAPE, size)
        collecting = gc.isenabled()
        gc.disable()  # the events of a slice are trees: there is nothing to collect, and walking them is slow
        try:
            for piece in reader.slices():
                columns.add(piece)
                progress(stream.position, reader.document.elements)
        finally:
            if collecting:
                gc.enable()
        damage = [stream.damage.note(path)] if stream.damage else []
    events, lanes = columns.all(), Lanes()
    frame, lost = _frame(columns, events, lanes)
    notes = (*damage, *reader.document.mends.notes(), *lost, Note("missing", LOST))
    return Decoded(
        path=path,
        format="chrome",
        events=frame,
        lanes=lanes.frame(),
        ranks=lanes.ranks_frame(),
        hosts=(path.name.removesuffix(".gz").removesuffix(".json").removesuffix(".trace") or path.name,),
        wall_ns=None,
        ops=_ops(list(columns.ops)),
        notes=notes,
        places=np.array(reader.document.places, np.int64).reshape(-1, 4),
    )


def args(of: Part, record: int) -> dict[str, Any]:
    """All that the file says of an event: its whole JSON object."""
    return event_at(of.path, of.places, record)


FORMAT: Final = Format("chrome", "XLA profile, Chrome form (trace.json)", matches, read, args)


def _frame(columns: Columns, events: Piece, lanes: Lanes) -> tuple[pl.DataFrame, list[Note]]:
    """The events that are drawn, in the order of the file, then what is derived from them; and what was left out."""
    complete = np.array([phase == "X" for phase, *_ in columns.signatures], np.bool_)[events.signature]
    timed = (events.start != INVALID) & (events.length != INVALID)
    timed &= (np.abs(events.start) < _FAR_PS) & (events.length < _FAR_PS)
    rows = np.flatnonzero(complete & timed)
    kept = events.at(rows)
    frame = pl.DataFrame(
        {
            "lane": _lanes(columns, kept, lanes)[kept.signature],
            "start": kept.start,
            "end": kept.start + np.maximum(kept.length, 0),
            "name": pl.Series(list(columns.names), dtype=pl.String).gather(kept.name),
            "op": kept.op.astype(np.int64),
            "record": rows,
        }
    ).hstack(pl.DataFrame(list(columns.said), schema=_SAID, orient="row")[kept.said])
    frame = frame.with_columns(pl.when(pl.col("op") >= 0).then("op").alias("op"))
    drawn = _with_kinds(frame, columns, lanes)
    derived = _derived(drawn, columns, lanes)
    return pl.concat([drawn, derived]) if derived.height else drawn, _lost(complete, timed, kept)


def _lanes(columns: Columns, events: Piece, lanes: Lanes) -> npt.NDArray[np.int64]:
    """The lane for every signature; a lane is made for those that events have."""
    lane = np.zeros(len(columns.signatures), np.int64)
    used = set(np.unique(events.signature).tolist())
    for code, (_, pid, tid) in enumerate(columns.signatures):
        if code in used:
            process = columns.metadata.get(("process_name", pid, None), "")
            lane[code] = lanes.line(process, columns.metadata.get(("thread_name", pid, tid), ""), tid)
    return lane


_SAID: Final = {
    "run": pl.Int64, "device": pl.Int64, "step": pl.Int32, "correlation": pl.Int64, "device_start": pl.Int64,
    "device_end": pl.Int64,
}  # fmt: skip


def _lost(complete: npt.NDArray[np.bool_], timed: npt.NDArray[np.bool_], kept: Piece) -> list[Note]:
    notes = []
    untimed = np.flatnonzero(complete & ~timed)
    if len(untimed):
        notes.append(Note("dropped", "event without a time that can be true", len(untimed), f"event {untimed[0]:,}"))
    if (negative := int(np.count_nonzero(kept.length < 0))) > 0:
        notes.append(Note("repaired", "negative duration read as 0", negative))
    if int(np.count_nonzero(complete)) in CAPS:
        text = "exactly as many events as the writer keeps at most: those after the last one are missing"
        notes.append(Note("missing", text, int(np.count_nonzero(complete))))
    return notes


def _with_kinds(frame: pl.DataFrame, columns: Columns, lanes: Lanes) -> pl.DataFrame:
    """The frame with `kind` and `bytes`, and `step` on the events that mark one."""
    ops: list[Op] = list(columns.ops)
    seen = frame.select("lane", "name", "op", pl.col("step").is_not_null().alias("marks")).unique(maintain_order=True)
    kinds, sizes = [], []
    for lane, name, op, marks in seen.iter_rows():
        kinds.append("step" if marks else _kind(lanes.rows[lane], name, ops[op] if op is not None else None))
        moved = (
            moved_bytes(ops[op].text) if op is not None and kinds[-1] in ("collective", "copy", "transfer") else None
        )
        sizes.append(moved)
    told = seen.with_columns(pl.Series("kind", kinds, KIND), pl.Series("bytes", sizes, pl.Int64))
    step_lanes = [number for number, row in enumerate(lanes.rows) if row["role"] == "steps"]
    numbered = pl.col("lane").is_in(step_lanes) & pl.col("name").str.contains(r"^\d{1,9}$")
    return (
        frame.with_columns(pl.col("step").is_not_null().alias("marks"))
        .join(told, on=["lane", "name", "op", "marks"], nulls_equal=True, maintain_order="left", how="left")
        .with_columns(
            pl.when(numbered).then(pl.col("name").cast(pl.Int32, strict=False)).otherwise("step").alias("step"),
            pl.col("name").cast(pl.Categorical),
        )
        .drop("marks")
    )


def _kind(lane: dict[str, object], name: str, op: Op | None) -> str:
    role = lane["role"]
    if role == "thread":
        hosted = "op" if op is not None else kind_of_host_event(name, str(lane["thread"]))
        return hosted if hosted in KINDS else "other"
    if role == "stream":
        return kind_of_gpu_event(name)
    if role in ("ops", "async"):
        return op_kind(op.category or opcode_of_name(op.name), op.text) if op else op_kind(opcode_of_name(name))
    if role in ("steps", "modules", "scope", "sync", "counter"):
        return kind_of_device_event(role, name)
    return "other"


def _derived(frame: pl.DataFrame, columns: Columns, lanes: Lanes) -> pl.DataFrame:
    """Op and module lanes for devices without any: those that a CPU emulates, from what its threads ran."""
    on_thread = [number for number, row in enumerate(lanes.rows) if row["role"] == "thread"]
    ran = frame.filter(pl.col("lane").is_in(on_thread) & pl.col("op").is_not_null())
    if ran.is_empty() or lanes.ranks:
        return frame.clear()
    ops: list[Op] = list(columns.ops)
    modules = pl.Series([op.module for op in ops], dtype=pl.String)
    kinds = pl.Series([op_kind(op.category or opcode_of_name(op.name), op.text) for op in ops], dtype=KIND)
    ran = ran.with_columns(pl.col("device").fill_null(0), modules.gather(ran["op"]).alias("module"))
    devices = ran["device"].unique().sort().to_list()
    op_lane = {device: lanes.derived("CPU", device, "ops") for device in devices}
    module_lane = {device: lanes.derived("CPU", device, "modules") for device in devices}
    as_ops = ran.with_columns(
        pl.col("device").replace_strict(op_lane, return_dtype=pl.Int64).alias("lane"),
        kinds.gather(ran["op"]).alias("kind"),
    )
    by_run = ran.filter(pl.col("run").is_not_null()).group_by("device", "run", "module", maintain_order=True)
    executions = by_run.agg(pl.col("start").min(), pl.col("end").max(), pl.col("record").first())
    as_modules = executions.with_columns(
        pl.col("device").replace_strict(module_lane, return_dtype=pl.Int64).alias("lane"),
        pl.col("module").cast(pl.Categorical).alias("name"),
        pl.lit("module", KIND).alias("kind"),
    )
    return pl.concat([as_ops.select(frame.columns), as_modules], how="diagonal").select(frame.columns)


def _ops(ops: list[Op]) -> pl.DataFrame:
    rows = [
        {
            "op": number, "name": op.name, "category": op.category or opcode_of_name(op.name),
            "module": op.module or None, "program": whole(op.program), "framework": op.framework or None,
            "source": op.source or None, "text": op.text or None, "flops": whole(op.flops),
            "bytes_accessed": whole(op.bytes_accessed),
        }
        for number, op in enumerate(ops)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=OPS)
