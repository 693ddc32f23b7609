"""The columns of an XLA trace.json -> lanes and raw events.

Owns what the viewer's processes and threads are (planes and lines of the profile) and how their events are told apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.formats.assembly.counters import Counters, Series, counters, titled
from tracehound.formats.assembly.links import apart
from tracehound.formats.chrome.columns import Columns, Op, Piece, Text, hashed, whole
from tracehound.formats.chrome.hosts import Hosts
from tracehound.formats.json.columns import INVALID
from tracehound.formats.times import FARTHEST_PS
from tracehound.formats.wire import signed
from tracehound.formats.xla.asides import idle, mixed, name_beside
from tracehound.formats.xla.costs import off_chip, told_by_text
from tracehound.formats.xla.gathered import Gathered
from tracehound.formats.xla.kinds import op_bytes, op_kind
from tracehound.formats.xla.lanes import SCOPE, executions, in_calls, leaf_op, outer_loop, with_calls, with_compilations
from tracehound.formats.xla.launched import launched
from tracehound.formats.xla.names import (
    kind_of_device_event,
    kind_of_gpu_event,
    kind_of_host_event,
    lane_of_ops,
    leads,
    opcode_of_name,
    origin_of_line,
    recorded,
    role_of_lane,
    role_of_line,
)
from tracehound.formats.xla.planes import RUN_BITS
from tracehound.lookup import distinct
from tracehound.notes import Note
from tracehound.trace import KIND

CAPS: Final = (1_000_000, 5_000_000)
"""How many events XLA's writers stop at; they keep the earliest."""

_KNOWN: Final = ("X", "M", "C")
"""Phases that XLA writes, and that of counters, which others add to what it wrote."""

_PLANE: Final = re.compile(r"/device:(TPU|GPU|CPU):(\d{1,9})( \S.*)?$")
"""A device's process; as planes, CPUs are none, but their derived lanes may have been written as one."""

_MOST_DEVICES: Final = 2**31
_FAR_PS: Final = 2**61
_INSTANT_PS: Final = 1
_POOL: Final = 1 << 20
_NUMBER = re.compile(r"#(\d{1,18})(?!\d)")
_PROGRAM = re.compile(r"(.*)\((\d{1,20})\)$", re.DOTALL)
_SAID: Final = {
    "run": pl.Int64, "device": pl.Int64, "step": pl.Int32, "correlation": pl.Int64, "device_start": pl.Int64,
    "device_end": pl.Int64, "moved": pl.Int64, "produces": pl.Int64, "consumes": pl.Int64,
}  # fmt: skip
_TOLD: Final = pl.Schema({"op": pl.Int64(), "kind": KIND, "bytes": pl.Int64()})


def gather(columns: Columns, hosts: Hosts, gathered: Gathered) -> list[Note]:
    """Add all events to `gathered`, and lanes of ops and modules for the devices that have none; what was left out."""
    events = columns.all()
    complete = np.array([phase == "X" for phase, *_ in columns.signatures], np.bool_)[events.signature]
    strange = np.array([_strange(*signature) for signature in columns.signatures], np.bool_)[events.signature]
    timed = (events.start != INVALID) & (events.length != INVALID)
    timed &= _near(events.start, events.start[complete & timed]) & (events.length < FARTHEST_PS)
    rows = np.flatnonzero(complete & timed)
    kept = events.at(rows)
    lanes = _lanes(columns, hosts, kept, gathered)
    host_of = np.array([lane["host"] for lane in gathered.lanes] or [0], np.int64)  # a file without events has no lane
    kept = _of_hosts(kept, host_of[lanes])
    frame = _frame(columns, kept, rows, lanes)
    _set_aside(frame, gathered)
    frame = _without_idle(frame, gathered)
    roles = pl.Series([lane["role"] for lane in gathered.lanes], dtype=pl.String)
    frame = frame.with_columns(roles.gather(frame["lane"]).alias("role"))
    host = frame.filter(pl.col("role") == "thread")
    device = _with_modules(frame.filter(pl.col("role") != "thread"), gathered)
    gathered.add(_device_rows(device, columns, gathered))
    gathered.add(_host_rows(host, gathered))
    _derive(host, device, columns, gathered)
    for lane in gathered.lanes:
        lane["role"] = role_of_lane(lane["role"], _part(lane))
    return _left_out(complete, timed, strange, kept, columns.endless)


def _near(time: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Mask of the times (ps) within a day of the median of these starts of events, or of themselves without any."""
    known = starts if len(starts) else time
    middle = int(np.median(known)) if len(known) else 0
    near: npt.NDArray[np.bool_] = (time > middle - FARTHEST_PS) & (time < middle + FARTHEST_PS)
    return near & (np.abs(time) < _FAR_PS)


def counted(columns: Columns, hosts: Hosts, gathered: Gathered) -> tuple[Counters, list[Note]]:
    """The counters, of the ranks whose devices their processes are, else of the host; what is to be said of them."""
    found = columns.samples.done()
    starts = columns.all().start
    good = _near(found.time, starts[starts != INVALID]) if len(found.time) else np.empty(0, np.bool_)
    titles = titled(found.keys)

    def lane(series: Series) -> dict[str, object]:
        process = columns.metadata.get(("process_name", series.process, None), "")
        device = _PLANE.match(process)
        host, (name, unit) = hosts.of.get(series.process, 0), titles[series]
        rank = None if device is None else gathered.rank(device[1], int(device[2]), "", host=host)
        return {"host": host, "rank": rank, "name": name, "unit": unit, "process": hosts.plain(series.process, process)}

    notes = [Note("info", "counter_samples", len(found.time))] if len(found.time) else []
    broken = [*columns.samples.broken, *([0] * int(np.count_nonzero(~good)))]
    if broken:
        first = columns.samples.broken[:1]
        where = f"event {first[0]:,}" if first else ""
        notes.append(Note("dropped", "counter_sample_impossible", len(broken), where=where))
    return counters(found.at(np.flatnonzero(good)), lambda ps: ps, lane), notes


def kernels_launched(columns: Columns) -> pl.DataFrame:
    """The facet ``launched`` of all kernels that tell how."""
    texts = pl.Series(list(columns.details), dtype=pl.String).replace("", None)
    details = columns.all().details
    rows = np.flatnonzero(texts.is_not_null().to_numpy()[details]) if len(details) else np.empty(0, np.int64)
    return launched(pl.Series(rows), texts.gather(pl.Series(details[rows])))


def _frame(columns: Columns, kept: Piece, rows: npt.NDArray[np.int64], lane: npt.NDArray[np.int64]) -> pl.DataFrame:
    """A row per event; `said_op` is the position of its op in `columns.ops`, null where it has none."""
    ops: list[Op] = list(columns.ops)
    names = pl.Series(list(columns.names), dtype=pl.String)
    frame = pl.DataFrame(
        {
            "lane": lane[kept.signature],
            "start": kept.start,
            "end": kept.start + _lengths(columns, kept),
            "name": names.cast(pl.Categorical).gather(kept.name),
            "said_op": pl.Series(kept.op.astype(np.int64)).replace(-1, None),
            "record": rows,
            **{name: getattr(kept, name) for name in _SAID},
        }
    ).with_columns(pl.when(pl.col(name) != INVALID).then(name).cast(dtype) for name, dtype in _SAID.items())
    of_op = pl.DataFrame(
        {
            "said_op": range(len(ops)),
            "hlo_op": [op.name for op in ops],
            "module": [op.module or None for op in ops],
            "program": [hashed(op.program) for op in ops],
        },
        schema={"said_op": pl.Int64, "hlo_op": pl.String, "module": pl.String, "program": pl.Int64},
    )
    return frame.join(of_op, on="said_op", how="left", maintain_order="left")


def _lengths(columns: Columns, kept: Piece) -> npt.NDArray[np.int64]:
    """How long events last. XLA writes instants as 1 ps long, which no event is; Tracehound's own exports do not."""
    least = 0 if columns.ranks else _INSTANT_PS
    return np.where(kept.length <= least, 0, kept.length)


def _of_hosts(kept: Piece, host: npt.NDArray[np.int64]) -> Piece:
    """The events with ids of what they hand over that are those of one host alone; `host` is that of each signature."""

    def own(ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.where(ids == INVALID, ids, apart(ids, host[kept.signature]))

    return kept._replace(produces=own(kept.produces), consumes=own(kept.consumes)) if host.any() else kept


def _lanes(columns: Columns, hosts: Hosts, kept: Piece, gathered: Gathered) -> npt.NDArray[np.int64]:
    """The lane for every signature; a lane is made for those that events have."""
    lane = np.zeros(len(columns.signatures), np.int64)
    used = set(distinct(kept.signature).tolist())
    _number(columns, hosts, {pid for code, (_, pid, _) in enumerate(columns.signatures) if code in used}, gathered)
    for code, (_, pid, tid) in enumerate(columns.signatures):
        if code in used:
            process = hosts.plain(pid, columns.metadata.get(("process_name", pid, None), ""))
            thread = columns.metadata.get(("thread_name", pid, tid), "") or f"thread {tid}"
            model = columns.metadata.get(("process_labels", pid, None), "")
            lane[code] = _lane(process, thread, code, gathered, model, hosts.of.get(pid, 0))
    streaming = {row["rank"] for row in gathered.lanes if row["role"] == "stream"}
    for row in gathered.lanes:
        working = "stream" if row.get("rank") in streaming else "ops"
        row["work"] = row["role"] == working and "rank" in row and not _part(row)
    return lane


def _set_aside(frame: pl.DataFrame, gathered: Gathered) -> None:
    """Lines that XProf derived from single streams count for nothing where kernels name their ops.

    Kernels say more: an execution on several streams has a module on each.
    """
    naming = set(frame.filter(pl.col("said_op").is_not_null())["lane"].unique().to_list())
    streams = {gathered.lanes[lane]["rank"] for lane in naming if gathered.lanes[lane]["role"] == "stream"}
    for lane in gathered.lanes:
        single = lane["role"] in ("ops", "modules") and origin_of_line(lane["name"]) is not None
        if single and lane["rank"] in streams:
            lane.update(name=recorded(lane["name"]), role="other")


def _without_idle(frame: pl.DataFrame, gathered: Gathered) -> pl.DataFrame:
    """The events; those of streams that keep nothing busy are on lanes beside them."""
    kept = dict(enumerate(gathered.lanes))
    for lane, row in kept.items():
        if row["role"] != "stream" or not mixed(row["name"]):
            continue
        names = frame.filter(pl.col("lane") == lane)["name"].unique().cast(pl.String).to_list()
        names = [name for name in names if idle(name)]
        if names:
            more = {name: row[name] for name in ("host", "rank", "process")}
            beside = gathered.lane(name_beside(row["name"]), "other", row["order"], **more)
            aside = (pl.col("lane") == lane) & pl.col("name").cast(pl.String).is_in(names)
            frame = frame.with_columns(pl.when(aside).then(pl.lit(beside, pl.Int64)).otherwise("lane").alias("lane"))
    return frame


def _number(columns: Columns, hosts: Hosts, used: Set[Text], gathered: Gathered) -> None:
    """Number the devices in their own order, whichever of them has the first event, and not only those that have any.

    Those without an event are there where the file tells their ranks.
    """
    named = [(_PLANE.match(name), pid) for (what, pid, _), name in columns.metadata.items() if what == "process_name"]
    devices = [(match[1], int(match[2]), match[3] or "", pid) for match, pid in named if match]
    for kind, ordinal, _, pid in sorted(devices, key=itemgetter(0, 1, 2)):
        if pid in used or pid in columns.ranks:
            model = columns.metadata.get(("process_labels", pid, None), "")
            gathered.rank(kind, ordinal, model, columns.ranks.get(pid), hosts.of.get(pid, 0))


def _part(lane: Mapping[str, Any]) -> str:
    """The part of a device whose line a lane shows: ``SparseCore 0``; "" for the device itself."""
    device = _PLANE.match(lane.get("process") or "")
    return (device[3] or "").strip() if device else ""


def _lane(process: str, thread: str, order: int, gathered: Gathered, model: str, host: int) -> int:
    device = _PLANE.match(process)
    if device is None:
        place = order if leads(thread) else _POOL + order
        return gathered.lane(thread, "thread", place, host=host, process=process, thread=thread)
    part = (device[3] or "").strip()
    rank = gathered.rank(device[1], int(device[2]), model, host=host)
    role, number = role_of_line(thread), _NUMBER.search(thread)
    stream = int(number[1]) if number and role == "stream" else None
    name = f"{part} {thread}".strip()
    place = order + (_POOL if part else 0)
    return gathered.lane(name, role, place, host=host, rank=rank, process=process, stream=stream)


def _with_modules(device: pl.DataFrame, gathered: Gathered) -> pl.DataFrame:
    """The events of devices; an op without a module is of the one that its device executes just then.

    Where a stream has modules of its own, its ops are of those.
    """
    ranks = pl.Series([lane.get("rank") for lane in gathered.lanes], dtype=pl.Int64)
    streams = pl.Series(_streams(gathered), dtype=pl.Int64)
    device = device.with_columns(
        ranks.gather(device["lane"]).alias("rank"), streams.gather(device["lane"]).alias("of")
    ).with_row_index("row")
    own = [lane for lane, row in enumerate(gathered.lanes) if row["role"] == "modules" and not _part(row)]
    modules = device.filter(pl.col("lane").is_in(own)).select(
        "rank", "of", "start", pl.col("end").alias("until"), pl.col("name").cast(pl.String).alias("running")
    )
    if modules.is_empty():
        return device
    of_any = modules.filter(pl.col("of") != _ANY).with_columns(pl.lit(_ANY, pl.Int64).alias("of"))
    running = pl.concat([modules, of_any]).sort("start")
    around = device.sort("start").join_asof(running, on="start", by=["rank", "of"], check_sortedness=False).sort("row")
    inside = pl.col("module").is_null() & (pl.col("start") < pl.col("until")) & (pl.col("role") != "modules")
    named = pl.when(inside).then(pl.col("running"))
    number = {
        name: signed(int(match[2]))
        for name in running["running"].unique()
        if (match := _PROGRAM.match(name)) and int(match[2]) < 2**64
    }
    return around.with_columns(
        pl.coalesce("module", named.str.replace(r"\(\d+\)$", "")).alias("module"),
        pl.coalesce("program", named.replace_strict(number, default=None, return_dtype=pl.Int64)).alias("program"),
    )


_ANY: Final = -1


def _streams(gathered: Gathered) -> list[int]:
    """For every lane the stream whose modules its events are of; `_ANY` where its stream has none of its own."""
    origins = [origin_of_line(lane["name"]) for lane in gathered.lanes]
    have = {
        (lane["rank"], origin)
        for lane, origin in zip(gathered.lanes, origins, strict=True)
        if lane["role"] == "modules" and origin is not None
    }
    told = [
        (lane.get("rank"), lane.get("stream") if origin is None else origin)
        for lane, origin in zip(gathered.lanes, origins, strict=True)
    ]
    return [stream if stream is not None and (rank, stream) in have else _ANY for rank, stream in told]


def _device_rows(device: pl.DataFrame, columns: Columns, gathered: Gathered) -> pl.DataFrame:
    """The events of devices with `op`, `kind`, `bytes` and the number of the step they mark."""
    tpu = pl.Series([rank["label"].startswith("TPU") for rank in gathered.ranks], dtype=pl.Boolean)
    ordinals = pl.Series([rank["device"] for rank in gathered.ranks], dtype=pl.Int64).gather(device["rank"])
    number = pl.col("name").cast(pl.String).str.extract(r"(\d+)\s*$").cast(pl.Int32, strict=False)
    ops: list[Op] = list(columns.ops)
    seen = device.select("role", "name", "said_op", "module", "program").unique(maintain_order=True)
    told: list[tuple[int | None, str, int | None]] = []
    for role, name, said, module, program in seen.iter_rows():
        if role in ("ops", "async"):
            told.append(_told_op(Op.named(name) if said is None else ops[said], module, program, gathered))
        elif role == "stream":
            told.append(_told_kernel(name, None if said is None else ops[said], module, program, gathered))
        else:
            told.append((None, kind_of_device_event(role, name), None))
    answers = seen.hstack(pl.DataFrame(told, schema=_TOLD, orient="row"))
    on_tpu = tpu.gather(device["rank"]) if device.height else pl.Series([], dtype=pl.Boolean)
    running = device.filter((pl.col("role") == "modules") & pl.col("run").is_not_null())["rank"].unique()
    inside = (pl.col("role") != "modules") & pl.col("rank").is_in(running.implode())  # launched with their execution
    return device.join(
        answers, on=["role", "name", "said_op", "module", "program"], how="left", nulls_equal=True,
        maintain_order="left",
    ).with_columns(
        pl.when(pl.col("role") == "steps").then(pl.coalesce("step", number)).alias("step"),
        pl.when(on_tpu & ~inside).then(pl.col("run") & RUN_BITS).when(~on_tpu).then("run").alias("run"),
        pl.when(on_tpu & (pl.col("role") == "modules")).then(_enqueued(pl.lit(ordinals))).otherwise("consumes")
        .alias("consumes"),
        pl.coalesce("bytes", "moved").alias("bytes"),
    )  # fmt: skip


def _enqueued(device: pl.Expr) -> pl.Expr:
    """What an enqueue produces, and an execution of a TPU consumes: the number of the run on this device."""
    return device * (RUN_BITS + 1) + (pl.col("run") & RUN_BITS)


def _told_kernel(
    name: str, op: Op | None, module: str | None, program: int | None, gathered: Gathered
) -> tuple[int | None, str, int | None]:
    """Row, kind and bytes of what runs on a stream; `op` is that of a kernel which names it."""
    kind = kind_of_gpu_event(name)
    if op is None:
        return None, kind, None
    row, of_op, moved = _told_op(op.called(op.name.split(SCOPE)[-1])._replace(kind=""), module, program, gathered)
    if of_op != "collective":
        return row, kind, None
    return row, "collective" if kind == "kernel" else kind, moved


def _told_op(op: Op, module: str | None, program: int | None, gathered: Gathered) -> tuple[int, str, int | None]:
    """Row, kind and bytes of an op."""
    category = op.category or opcode_of_name(op.name)
    found = gathered.ops.add(
        "copy" if op.kind == "copy" else op_kind(op.name, category, op.text),
        op_bytes(op.name, category, op.text),
        {
            "name": op.name.removeprefix("%"),
            "category": category,
            "module": module,
            "program": program,
            "framework": op.framework or None,
            "source": op.source or None,
            "text": op.text or None,
            "flops": whole(op.flops),
            "bytes_accessed": whole(op.bytes_accessed),
            **told_by_text(op.name, op.text),
            **off_chip(op.text, whole(op.bytes_accessed)),
        },
    )
    return found.row, found.kind, found.bytes


def _host_rows(host: pl.DataFrame, gathered: Gathered) -> pl.DataFrame:
    """The events of host threads, with their kinds."""
    threads = [str(lane["thread"]).split("/")[0] if lane["role"] == "thread" else "" for lane in gathered.lanes]
    ops = {row["name"] for row in gathered.ops.rows}
    tpu = any(rank["label"].startswith("TPU") for rank in gathered.ranks)
    seen = host.select("lane", "name", pl.col("said_op").is_not_null().alias("is_op")).unique(maintain_order=True)
    kinds = [
        "op" if is_op else "runtime" if name in ops else kind_of_host_event(name, threads[lane])
        for lane, name, is_op in seen.iter_rows()
    ]
    rows = host.with_columns(pl.col("said_op").is_not_null().alias("is_op")).join(
        seen.with_columns(pl.Series("kind", kinds, KIND)), on=["lane", "name", "is_op"], maintain_order="left"
    )  # fmt: skip
    marking = pl.when(pl.col("step").is_not_null()).then(pl.lit("step", KIND)).otherwise("kind")
    run = pl.col("run") & (RUN_BITS if tpu else -1)
    produces = (
        pl.when(pl.lit(tpu) & pl.col("device").is_between(0, _MOST_DEVICES))
        .then(_enqueued(pl.col("device")))
        .otherwise("produces")
    )
    moved = pl.when(pl.col("kind") == "transfer").then("moved")
    return with_compilations(rows).with_columns(
        marking.alias("kind"), run.alias("run"), produces.alias("produces"), moved.alias("bytes")
    )


def _derive(host: pl.DataFrame, device: pl.DataFrame, columns: Columns, gathered: Gathered) -> None:
    """Lanes of ops and modules, from the host's events where the devices are a CPU's, else from the streams'.

    Streams run at once, so each has a lane of ops of its own. Devices that have a lane of ops in the file need none.
    """
    if not gathered.ranks:
        named = host.filter(pl.col("said_op").is_not_null()).with_columns(pl.col("device").fill_null(0))
        ranks = {number: gathered.rank("CPU", number, "") for number in named["device"].unique().sort().to_list()}
        unnamed = named.clear()
    else:
        shown, modules = (set(device.filter(pl.col("role") == role)["rank"]) for role in ("ops", "modules"))
        work = device.filter((pl.col("role") == "stream") & ~pl.col("rank").is_in(shown))
        work = work.with_columns(pl.col("rank").alias("device"))
        named = with_calls(work.filter(pl.col("said_op").is_not_null()), host)
        bare = work.filter(pl.col("said_op").is_null() & ~pl.col("rank").is_in(modules - set(named["rank"])))
        unnamed = in_calls(bare.drop("module", "program", "run"), [named], host, {})
        ranks = {number: number for number in pl.concat([named["device"], unnamed["device"]]).unique().sort()}
    if named.is_empty() and unnamed.is_empty():
        return
    ops: list[Op] = list(columns.ops)
    named = named.with_columns(leaf_op(pl.col("hlo_op")).alias("name"), outer_loop(pl.col("hlo_op")).alias("loop"))
    seen = named.select("said_op", "module", "program", "name").unique(maintain_order=True)
    told = [_told_op(ops[said].called(name), module, program, gathered) for said, module, program, name in
            seen.iter_rows()]  # fmt: skip
    answers = seen.hstack(pl.DataFrame(told, schema=_TOLD, orient="row"))
    named = named.join(answers, on=["said_op", "module", "program", "name"], nulls_equal=True, maintain_order="left")
    runs = executions(pl.concat([named, unnamed], how="diagonal_relaxed"))
    streaming = bool(device.height)
    for number, rank in ranks.items():
        host = gathered.ranks[rank]["host"]
        lane = gathered.lane("XLA Modules", "modules", _POOL, host=host, rank=rank)
        _put(runs.filter(pl.col("device") == number).with_columns(pl.lit("module", KIND).alias("kind")), lane, gathered)
        mine = named.filter(pl.col("device") == number)
        streams = mine["lane"].unique().sort().to_list() if streaming else []
        for at, stream in enumerate(streams):
            name = lane_of_ops(gathered.lanes[stream]["name"], len(streams))
            lane = gathered.lane(name, "ops", _POOL + at, host=host, rank=rank)
            _put(mine.filter(pl.col("lane") == stream), lane, gathered)
        if not streaming:
            _put(mine, gathered.lane("XLA Ops", "ops", _POOL, host=host, rank=rank, work=True), gathered)


def _put(rows: pl.DataFrame, lane: int, gathered: Gathered) -> None:
    """Add the rows of a derived lane."""
    gathered.add(rows.with_columns(pl.lit(lane).alias("lane"), pl.col("name").cast(pl.Categorical)))


def _strange(phase: str, pid: object, tid: object) -> bool:
    """Whether XLA writes no such events; it ends its list with an empty one."""
    return phase not in _KNOWN and (phase, pid, tid) != ("", None, None)


def _left_out(
    complete: npt.NDArray[np.bool_],
    timed: npt.NDArray[np.bool_],
    strange: npt.NDArray[np.bool_],
    kept: Piece,
    endless: list[int],
) -> list[Note]:
    notes = []
    if strange.any():
        first = f"event {int(np.argmax(strange)):,}"
        notes.append(Note("dropped", "unknown_phase_xla", int(np.count_nonzero(strange)), where=first))
    untimed = np.flatnonzero(complete & ~timed)
    if len(untimed):
        notes.append(Note("dropped", "event_time_impossible", len(untimed), where=f"event {untimed[0]:,}"))
    if (negative := int(np.count_nonzero(kept.length < 0))) > 0:
        notes.append(Note("repaired", "negative_duration", negative))
    if endless:
        where = f"event {endless[0]:,}"
        notes.append(Note("repaired", "event_without_duration", len(endless), where=where))
    if (count := int(np.count_nonzero(complete))) in CAPS:
        notes.append(Note("missing", "writer_limit_reached", values=(("events", count),)))
    return notes
