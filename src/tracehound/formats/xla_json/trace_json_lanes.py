"""Lanes and raw events out of the decoded events of an XLA trace.json.

Processes and threads of the trace viewer are planes and lines of the profile; the lines give their events a meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.formats.assembly.launch_links import make_ids_unique
from tracehound.formats.json.value_columns import INVALID
from tracehound.formats.protobuf_wire import as_signed
from tracehound.formats.value_bounds import MAX_DISTANCE_PS, middle_time
from tracehound.formats.xla.compiler_events import mark_compilations
from tracehound.formats.xla.op_executions import (
    OP_SCOPE_SEPARATOR,
    add_launching_calls,
    assign_unnamed_work,
    cost_from_hlo_text,
    find_module_executions,
    hbm_bytes_from_hlo_text,
    innermost_op_column,
    outermost_loop_column,
)
from tracehound.formats.xla.op_kinds import bytes_moved_by_op, op_kind
from tracehound.formats.xla.profile_builder import ProfileBuilder
from tracehound.formats.xla.xla_names import (
    DEVICE_TYPE,
    is_idle_event,
    is_program_thread,
    kind_of_device_event,
    kind_of_gpu_event,
    kind_of_host_event,
    may_have_idle_events,
    opcode_of_name,
    ops_lane_name,
    recorded_lane_name,
    role_of_lane,
    role_of_line,
    side_lane_name,
    source_stream_of_line,
)
from tracehound.formats.xla_json.trace_json_events import (
    ArgValue,
    ProcessHosts,
    TraceJsonColumns,
    TraceJsonEvents,
    TraceJsonOp,
    parse_hash,
    parse_whole_number,
)
from tracehound.formats.xplane.plane_lanes import RUN_ID_MASK
from tracehound.model.notes import Note
from tracehound.model.trace import KIND
from tracehound.numeric.id_set import sorted_distinct

WRITER_LIMITS: Final = (1_000_000, 5_000_000)
"""The numbers of events at which XLA's writers stop; they keep the earliest."""

_KNOWN_PHASES: Final = ("X", "M", "C")
"""Phases that XLA writes, and that of counters, which other tools add to its files."""

DEVICE_PROCESS: Final = re.compile(rf"/device:({DEVICE_TYPE}|CPU):(\d{{1,9}})( \S.*)?$")
"""A device's process. In an xplane CPUs are no devices, but their derived lanes may have been exported as one."""

_MOST_DEVICES: Final = 2**31
_FAR_PS: Final = 2**61
_INSTANT_PS: Final = 1
_LATE_ORDER: Final = 1 << 20
_LINE_NUMBER = re.compile(r"#(\d{1,18})(?!\d)")
_PROGRAM_NAME = re.compile(r"(.*)\((\d{1,20})\)$", re.DOTALL)
_ARG_TYPES: Final = {
    "run": pl.Int64, "device": pl.Int64, "step": pl.Int32, "correlation": pl.Int64, "device_start": pl.Int64,
    "device_end": pl.Int64, "moved": pl.Int64, "produces": pl.Int64, "consumes": pl.Int64,
}  # fmt: skip
_OP_ROW_SCHEMA: Final = pl.Schema({"op": pl.Int64(), "kind": KIND, "bytes": pl.Int64()})


def gather_events(events: TraceJsonEvents, hosts: ProcessHosts, builder: ProfileBuilder) -> list[Note]:
    """Add all events to `builder`, with lanes of ops and modules for devices that have none.

    Return the notes on dropped and repaired events.
    """
    all_columns = events.all_columns()
    is_complete = np.array([phase == "X" for phase, *_ in events.signatures], np.bool_)[all_columns.signature]
    is_unknown = np.array([_is_unknown_phase(*signature) for signature in events.signatures], np.bool_)[
        all_columns.signature
    ]
    has_time = (all_columns.start != INVALID) & (all_columns.length != INVALID)
    has_time &= is_near_median(all_columns.start, all_columns.start[is_complete & has_time]) & (
        all_columns.length < MAX_DISTANCE_PS
    )
    rows = np.flatnonzero(is_complete & has_time)
    selected = all_columns.take(rows)
    lanes = _assign_lanes(events, hosts, selected, builder)
    host_of = np.array([lane["host"] for lane in builder.lanes] or [0], np.int64)  # a file without events has no lane
    selected = _separate_host_ids(selected, host_of[lanes])
    frame = _event_frame(events, selected, rows, lanes)
    _demote_derived_lines(frame, builder)
    frame = _move_idle_events(frame, builder)
    roles = pl.Series([lane["role"] for lane in builder.lanes], dtype=pl.String)
    frame = frame.with_columns(roles.gather(frame["lane"]).alias("role"))
    host_frame = frame.filter(pl.col("role") == "thread")
    device_frame = _fill_modules(frame.filter(pl.col("role") != "thread"), builder)
    builder.add_events(_device_rows(device_frame, events, builder))
    builder.add_events(_host_rows(host_frame, builder))
    _derive_op_lanes(host_frame, device_frame, events, builder)
    for lane in builder.lanes:
        lane["role"] = role_of_lane(lane["role"], _device_core(lane))
    return _dropped_event_notes(is_complete, has_time, is_unknown, selected, events.endless)


def is_near_median(time: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Mask of the times (ps) within a day of the median of these starts of events, or of the times without starts."""
    middle = middle_time(starts if len(starts) else time)
    near: npt.NDArray[np.bool_] = (time > middle - MAX_DISTANCE_PS) & (time < middle + MAX_DISTANCE_PS)
    return near & (np.abs(time) < _FAR_PS)


def _event_frame(
    events: TraceJsonEvents, selected: TraceJsonColumns, rows: npt.NDArray[np.int64], lane: npt.NDArray[np.int64]
) -> pl.DataFrame:
    """A row per event; `said_op` is the position of its op in `events.ops`, null where it has none."""
    ops: list[TraceJsonOp] = list(events.ops)
    names = pl.Series(list(events.names), dtype=pl.String)
    frame = pl.DataFrame(
        {
            "lane": lane[selected.signature],
            "start": selected.start,
            "end": selected.start + _durations(events, selected),
            "name": names.cast(pl.Categorical).gather(selected.name),
            "said_op": pl.Series(selected.op.astype(np.int64)).replace(-1, None),
            "record": rows,
            **{name: getattr(selected, name) for name in _ARG_TYPES},
        }
    ).with_columns(pl.when(pl.col(name) != INVALID).then(name).cast(dtype) for name, dtype in _ARG_TYPES.items())
    of_op = pl.DataFrame(
        {
            "said_op": range(len(ops)),
            "hlo_op": [op.name for op in ops],
            "module": [op.module or None for op in ops],
            "program": [parse_hash(op.program) for op in ops],
        },
        schema={"said_op": pl.Int64, "hlo_op": pl.String, "module": pl.String, "program": pl.Int64},
    )
    return frame.join(of_op, on="said_op", how="left", maintain_order="left")


def _durations(events: TraceJsonEvents, selected: TraceJsonColumns) -> npt.NDArray[np.int64]:
    """Durations of events. XLA writes instants as 1 ps long, which no event is; Tracehound's own exports do not."""
    least = 0 if events.ranks else _INSTANT_PS
    return np.where(selected.length <= least, 0, selected.length)


def _separate_host_ids(selected: TraceJsonColumns, host: npt.NDArray[np.int64]) -> TraceJsonColumns:
    """Make the ids of producers and consumers unique per host; `host` is that of each signature."""

    def make_unique(ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.where(ids == INVALID, ids, make_ids_unique(ids, host[selected.signature]))

    return (
        selected._replace(produces=make_unique(selected.produces), consumes=make_unique(selected.consumes))
        if host.any()
        else selected
    )


def _assign_lanes(
    events: TraceJsonEvents, hosts: ProcessHosts, selected: TraceJsonColumns, builder: ProfileBuilder
) -> npt.NDArray[np.int64]:
    """Return the lane of each signature; lanes are made for signatures with events."""
    lane = np.zeros(len(events.signatures), np.int64)
    used = set(sorted_distinct(selected.signature).tolist())
    _number_devices(events, hosts, {pid for code, (_, pid, _) in enumerate(events.signatures) if code in used}, builder)
    for code, (_, pid, tid) in enumerate(events.signatures):
        if code in used:
            process = hosts.name_without_host(pid, events.metadata.get(("process_name", pid, None), ""))
            thread = events.metadata.get(("thread_name", pid, tid), "") or f"thread {tid}"
            model = events.metadata.get(("process_labels", pid, None), "")
            lane[code] = _add_lane(process, thread, code, builder, model, hosts.of.get(pid, 0))
    streaming = {row["rank"] for row in builder.lanes if row["role"] == "stream"}
    for row in builder.lanes:
        working = "stream" if row.get("rank") in streaming else "ops"
        row["work"] = row["role"] == working and "rank" in row and not _device_core(row)
    return lane


def _demote_derived_lines(frame: pl.DataFrame, builder: ProfileBuilder) -> None:
    """Give the role "other" to lines that XProf derived from single streams, if kernels name their ops.

    Kernels say more: an execution on several streams has a module on each.
    """
    naming = set(frame.filter(pl.col("said_op").is_not_null())["lane"].unique().to_list())
    streams = {builder.lanes[lane]["rank"] for lane in naming if builder.lanes[lane]["role"] == "stream"}
    for lane in builder.lanes:
        is_derived = lane["role"] in ("ops", "modules") and source_stream_of_line(lane["name"]) is not None
        if is_derived and lane["rank"] in streams:
            lane.update(name=recorded_lane_name(lane["name"]), role="other")


def _move_idle_events(frame: pl.DataFrame, builder: ProfileBuilder) -> pl.DataFrame:
    """Move the events of streams that keep nothing busy to side lanes."""
    recorded_lanes = dict(enumerate(builder.lanes))
    for lane, row in recorded_lanes.items():
        if row["role"] != "stream" or not may_have_idle_events(row["name"]):
            continue
        names = frame.filter(pl.col("lane") == lane)["name"].unique().cast(pl.String).to_list()
        names = [name for name in names if is_idle_event(name)]
        if names:
            shared = {name: row[name] for name in ("host", "rank", "process")}
            side_lane = builder.add_lane(side_lane_name(row["name"]), "other", row["order"], **shared)
            is_idle = (pl.col("lane") == lane) & pl.col("name").cast(pl.String).is_in(names)
            frame = frame.with_columns(
                pl.when(is_idle).then(pl.lit(side_lane, pl.Int64)).otherwise("lane").alias("lane")
            )
    return frame


def _number_devices(events: TraceJsonEvents, hosts: ProcessHosts, used: Set[ArgValue], builder: ProfileBuilder) -> None:
    """Number the devices in their own order, whichever has the first event, including some without events.

    Devices without an event are included where the file has their ranks.
    """
    matches = [
        (DEVICE_PROCESS.match(name), pid) for (what, pid, _), name in events.metadata.items() if what == "process_name"
    ]
    devices = [(match[1], int(match[2]), match[3] or "", pid) for match, pid in matches if match]
    for kind, ordinal, _, pid in sorted(devices, key=itemgetter(0, 1, 2)):
        if pid in used or pid in events.ranks:
            model = events.metadata.get(("process_labels", pid, None), "")
            builder.find_or_add_rank(kind, ordinal, model, events.ranks.get(pid), hosts.of.get(pid, 0))


def _device_core(lane: Mapping[str, Any]) -> str:
    """Return the core of a device whose line a lane shows: ``SparseCore 0``; "" for the device itself."""
    device = DEVICE_PROCESS.match(lane.get("process") or "")
    return (device[3] or "").strip() if device else ""


def _add_lane(process: str, thread: str, order: int, builder: ProfileBuilder, model: str, host: int) -> int:
    device = DEVICE_PROCESS.match(process)
    if device is None:
        lane_order = order if is_program_thread(thread) else _LATE_ORDER + order
        return builder.add_lane(thread, "thread", lane_order, host=host, process=process, thread=thread)
    core = (device[3] or "").strip()
    rank = builder.find_or_add_rank(device[1], int(device[2]), model, host=host)
    role, number = role_of_line(thread), _LINE_NUMBER.search(thread)
    stream = int(number[1]) if number and role == "stream" else None
    name = f"{core} {thread}".strip()
    lane_order = order + (_LATE_ORDER if core else 0)
    return builder.add_lane(name, role, lane_order, host=host, rank=rank, process=process, stream=stream)


def _fill_modules(device: pl.DataFrame, builder: ProfileBuilder) -> pl.DataFrame:
    """Give device events without a module the one that their device executes at that time.

    Where a stream has modules of its own, its ops belong to those.
    """
    ranks = pl.Series([lane.get("rank") for lane in builder.lanes], dtype=pl.Int64)
    streams = pl.Series(_module_streams(builder), dtype=pl.Int64)
    device = device.with_columns(
        ranks.gather(device["lane"]).alias("rank"), streams.gather(device["lane"]).alias("of")
    ).with_row_index("row")
    module_lanes = [
        lane for lane, row in enumerate(builder.lanes) if row["role"] == "modules" and not _device_core(row)
    ]
    modules = device.filter(pl.col("lane").is_in(module_lanes)).select(
        "rank", "of", "start", pl.col("end").alias("until"), pl.col("name").cast(pl.String).alias("running")
    )
    if modules.is_empty():
        return device
    of_any = modules.filter(pl.col("of") != _ANY_STREAM).with_columns(pl.lit(_ANY_STREAM, pl.Int64).alias("of"))
    running = pl.concat([modules, of_any]).sort("start")
    joined = device.sort("start").join_asof(running, on="start", by=["rank", "of"], check_sortedness=False).sort("row")
    inside = pl.col("module").is_null() & (pl.col("start") < pl.col("until")) & (pl.col("role") != "modules")
    running_module = pl.when(inside).then(pl.col("running"))
    number = {
        name: as_signed(int(match[2]))
        for name in running["running"].unique()
        if (match := _PROGRAM_NAME.match(name)) and int(match[2]) < 2**64
    }
    return joined.with_columns(
        pl.coalesce("module", running_module.str.replace(r"\(\d+\)$", "")).alias("module"),
        pl.coalesce("program", running_module.replace_strict(number, default=None, return_dtype=pl.Int64)).alias(
            "program"
        ),
    )


_ANY_STREAM: Final = -1


def _module_streams(builder: ProfileBuilder) -> list[int]:
    """Return, for each lane, the stream whose modules its events belong to; `_ANY_STREAM` without its own modules."""
    origins = [source_stream_of_line(lane["name"]) for lane in builder.lanes]
    streams_with_modules = {
        (lane["rank"], origin)
        for lane, origin in zip(builder.lanes, origins, strict=True)
        if lane["role"] == "modules" and origin is not None
    }
    streams = [
        (lane.get("rank"), lane.get("stream") if origin is None else origin)
        for lane, origin in zip(builder.lanes, origins, strict=True)
    ]
    return [
        stream if stream is not None and (rank, stream) in streams_with_modules else _ANY_STREAM
        for rank, stream in streams
    ]


def _device_rows(device: pl.DataFrame, events: TraceJsonEvents, builder: ProfileBuilder) -> pl.DataFrame:
    """Add `op`, `kind`, `bytes` and the number of the marked step to the events of devices."""
    tpu = pl.Series([rank["label"].startswith("TPU") for rank in builder.ranks], dtype=pl.Boolean)
    ordinals = pl.Series([rank["device"] for rank in builder.ranks], dtype=pl.Int64).gather(device["rank"])
    number = pl.col("name").cast(pl.String).str.extract(r"(\d+)\s*$").cast(pl.Int32, strict=False)
    ops: list[TraceJsonOp] = list(events.ops)
    on_core = pl.Series([bool(_device_core(lane)) for lane in builder.lanes], dtype=pl.Boolean)
    device = device.with_columns(on_core.gather(device["lane"]).alias("on_sparse_core"))
    distinct = device.select(_DESCRIBED_BY).unique(maintain_order=True)
    descriptions: list[tuple[int | None, str, int | None]] = []
    for role, name, op_number, module, program, on_sparse_core in distinct.iter_rows():
        if role in ("ops", "async"):
            op = TraceJsonOp.from_name(name) if op_number is None else ops[op_number]
            descriptions.append(_describe_op(op, module, program, builder, on_sparse_core=on_sparse_core))
        elif role == "stream":
            descriptions.append(
                _describe_kernel(name, None if op_number is None else ops[op_number], module, program, builder)
            )
        else:
            descriptions.append((None, kind_of_device_event(role, name), None))
    answers = distinct.hstack(pl.DataFrame(descriptions, schema=_OP_ROW_SCHEMA, orient="row"))
    on_tpu = tpu.gather(device["rank"]) if device.height else pl.Series([], dtype=pl.Boolean)
    running = device.filter((pl.col("role") == "modules") & pl.col("run").is_not_null())["rank"].unique()
    inside = (pl.col("role") != "modules") & pl.col("rank").is_in(running.implode())  # launched with their execution
    return device.join(
        answers, on=_DESCRIBED_BY, how="left", nulls_equal=True, maintain_order="left"
    ).with_columns(
        pl.when(pl.col("role") == "steps").then(pl.coalesce("step", number)).alias("step"),
        pl.when(on_tpu & ~inside).then(pl.col("run") & RUN_ID_MASK).when(~on_tpu).then("run").alias("run"),
        pl.when(on_tpu & (pl.col("role") == "modules")).then(_device_run_id(pl.lit(ordinals))).otherwise("consumes")
        .alias("consumes"),
        pl.coalesce("bytes", "moved").alias("bytes"),
    )  # fmt: skip


_DESCRIBED_BY: Final = ("role", "name", "said_op", "module", "program", "on_sparse_core")
"""Columns of a device's events that decide their op, kind and bytes."""


def _device_run_id(device: pl.Expr) -> pl.Expr:
    """Expression for the number of a run on a device: an enqueue produces it, an execution of a TPU consumes it."""
    return device * (RUN_ID_MASK + 1) + (pl.col("run") & RUN_ID_MASK)


def _describe_kernel(
    name: str, op: TraceJsonOp | None, module: str | None, program: int | None, builder: ProfileBuilder
) -> tuple[int | None, str, int | None]:
    """Return row, kind and bytes of an event on a stream; `op` is the op that a kernel names."""
    kind = kind_of_gpu_event(name)
    if op is None:
        return None, kind, None
    row, op_kind_name, op_bytes = _describe_op(
        op.renamed(op.name.split(OP_SCOPE_SEPARATOR)[-1])._replace(kind=""), module, program, builder
    )
    if op_kind_name != "collective":
        return row, kind, None
    return row, "collective" if kind == "kernel" else kind, op_bytes


def _describe_op(
    op: TraceJsonOp, module: str | None, program: int | None, builder: ProfileBuilder, *, on_sparse_core: bool = False
) -> tuple[int, str, int | None]:
    """Return row, kind and bytes of an op."""
    category = op.category or opcode_of_name(op.name)
    found = builder.ops.add(
        "copy" if op.kind == "copy" else op_kind(op.name, category, op.text, on_sparse_core=on_sparse_core),
        bytes_moved_by_op(op.name, category, op.text),
        {
            "name": op.name.removeprefix("%"),
            "category": category,
            "module": module,
            "program": program,
            "framework": op.framework or None,
            "source": op.source or None,
            "text": op.text or None,
            "flops": parse_whole_number(op.flops),
            "bytes_accessed": parse_whole_number(op.bytes_accessed),
            **cost_from_hlo_text(op.name, op.text),
            **hbm_bytes_from_hlo_text(op.text, parse_whole_number(op.bytes_accessed)),
        },
    )
    return found.row, found.kind, found.bytes


def _host_rows(host: pl.DataFrame, builder: ProfileBuilder) -> pl.DataFrame:
    """Add kinds to the events of host threads."""
    threads = [str(lane["thread"]).split("/")[0] if lane["role"] == "thread" else "" for lane in builder.lanes]
    ops = {row["name"] for row in builder.ops.rows}
    tpu = any(rank["label"].startswith("TPU") for rank in builder.ranks)
    distinct = host.select("lane", "name", pl.col("said_op").is_not_null().alias("is_op")).unique(maintain_order=True)
    kinds = [
        "op" if is_op else "runtime" if name in ops else kind_of_host_event(name, threads[lane])
        for lane, name, is_op in distinct.iter_rows()
    ]
    rows = host.with_columns(pl.col("said_op").is_not_null().alias("is_op")).join(
        distinct.with_columns(pl.Series("kind", kinds, KIND)), on=["lane", "name", "is_op"], maintain_order="left"
    )  # fmt: skip
    kind_or_step = pl.when(pl.col("step").is_not_null()).then(pl.lit("step", KIND)).otherwise("kind")
    run = pl.col("run") & (RUN_ID_MASK if tpu else -1)
    produces = (
        pl.when(pl.lit(tpu) & pl.col("device").is_between(0, _MOST_DEVICES))
        .then(_device_run_id(pl.col("device")))
        .otherwise("produces")
    )
    moved = pl.when(pl.col("kind") == "transfer").then("moved")
    return mark_compilations(rows).with_columns(
        kind_or_step.alias("kind"), run.alias("run"), produces.alias("produces"), moved.alias("bytes")
    )


def _derive_op_lanes(
    host: pl.DataFrame, device: pl.DataFrame, events: TraceJsonEvents, builder: ProfileBuilder
) -> None:
    """Derive lanes of ops and modules, from the host's events where the devices are a CPU's, else from the streams'.

    Streams run at the same time, so each has a lane of ops of its own. Devices with a lane of ops in the file need
    none.
    """
    if not builder.ranks:
        named = host.filter(pl.col("said_op").is_not_null()).with_columns(pl.col("device").fill_null(0))
        ranks = {
            number: builder.find_or_add_rank("CPU", number, "") for number in named["device"].unique().sort().to_list()
        }
        unnamed = named.clear()
    else:
        ranks_with_ops, modules = (set(device.filter(pl.col("role") == role)["rank"]) for role in ("ops", "modules"))
        work = device.filter((pl.col("role") == "stream") & ~pl.col("rank").is_in(ranks_with_ops))
        work = work.with_columns(pl.col("rank").alias("device"))
        named = add_launching_calls(work.filter(pl.col("said_op").is_not_null()), host)
        unnamed_work = work.filter(pl.col("said_op").is_null() & ~pl.col("rank").is_in(modules - set(named["rank"])))
        unnamed = assign_unnamed_work(unnamed_work.drop("module", "program", "run"), [named], host, {})
        ranks = {number: number for number in pl.concat([named["device"], unnamed["device"]]).unique().sort()}
    if named.is_empty() and unnamed.is_empty():
        return
    ops: list[TraceJsonOp] = list(events.ops)
    named = named.with_columns(
        innermost_op_column(pl.col("hlo_op")).alias("name"), outermost_loop_column(pl.col("hlo_op")).alias("loop")
    )
    seen = named.select("said_op", "module", "program", "name").unique(maintain_order=True)
    descriptions = [_describe_op(ops[said].renamed(name), module, program, builder) for said, module, program, name in
            seen.iter_rows()]  # fmt: skip
    answers = seen.hstack(pl.DataFrame(descriptions, schema=_OP_ROW_SCHEMA, orient="row"))
    named = named.join(answers, on=["said_op", "module", "program", "name"], nulls_equal=True, maintain_order="left")
    runs = find_module_executions(pl.concat([named, unnamed], how="diagonal_relaxed"))
    streaming = bool(device.height)
    for number, rank in ranks.items():
        host = builder.ranks[rank]["host"]
        lane = builder.add_lane("XLA Modules", "modules", _LATE_ORDER, host=host, rank=rank)
        _add_to_lane(
            runs.filter(pl.col("device") == number).with_columns(pl.lit("module", KIND).alias("kind")), lane, builder
        )
        device_ops = named.filter(pl.col("device") == number)
        streams = device_ops["lane"].unique().sort().to_list() if streaming else []
        for at, stream in enumerate(streams):
            name = ops_lane_name(builder.lanes[stream]["name"], len(streams))
            lane = builder.add_lane(name, "ops", _LATE_ORDER + at, host=host, rank=rank)
            _add_to_lane(device_ops.filter(pl.col("lane") == stream), lane, builder)
        if not streaming:
            _add_to_lane(
                device_ops, builder.add_lane("XLA Ops", "ops", _LATE_ORDER, host=host, rank=rank, work=True), builder
            )


def _add_to_lane(rows: pl.DataFrame, lane: int, builder: ProfileBuilder) -> None:
    """Add the rows of a derived lane."""
    builder.add_events(rows.with_columns(pl.lit(lane).alias("lane"), pl.col("name").cast(pl.Categorical)))


def _is_unknown_phase(phase: str, pid: object, tid: object) -> bool:
    """Return whether XLA writes no such events; it ends its list with an empty one."""
    return phase not in _KNOWN_PHASES and (phase, pid, tid) != ("", None, None)


def _dropped_event_notes(
    is_complete: npt.NDArray[np.bool_],
    has_time: npt.NDArray[np.bool_],
    is_unknown: npt.NDArray[np.bool_],
    selected: TraceJsonColumns,
    endless: list[int],
) -> list[Note]:
    """Return the notes on dropped and repaired events."""
    notes = []
    if is_unknown.any():
        first = f"event {int(np.argmax(is_unknown)):,}"
        notes.append(Note("dropped", "unknown_phase_xla", int(np.count_nonzero(is_unknown)), where=first))
    untimed = np.flatnonzero(is_complete & ~has_time)
    if len(untimed):
        notes.append(Note("dropped", "event_time_impossible", len(untimed), where=f"event {untimed[0]:,}"))
    if (negative := int(np.count_nonzero(selected.length < 0))) > 0:
        notes.append(Note("repaired", "negative_duration", negative))
    if endless:
        where = f"event {endless[0]:,}"
        notes.append(Note("repaired", "event_without_duration", len(endless), where=where))
    if (count := int(np.count_nonzero(is_complete))) in WRITER_LIMITS:
        notes.append(Note("missing", "writer_limit_reached", values=(("events", count),)))
    return notes
