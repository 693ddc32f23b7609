"""Planes -> lanes and raw events: which planes are devices and hosts, and what their lines show.

Owns the shape of a profile on TPU, GPU and CPU. Decodes no bytes itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from tracehound.formats import xframes
from tracehound.formats.assemble import RAW, RAW_LANES
from tracehound.formats.wire import Bytes
from tracehound.formats.xevents import Events
from tracehound.formats.xla_lanes import END_MARK, executions, leaf_op, with_compilations, with_true_ends
from tracehound.formats.xla_names import (
    Role,
    kind_of_device_event,
    kind_of_gpu_event,
    kind_of_host_event,
    leads,
    role_of_line,
)
from tracehound.formats.xla_ops import Ops, per_position, used
from tracehound.formats.xspace import Plane
from tracehound.trace import KIND, RANKS

DEVICE = re.compile(r"/device:(TPU|GPU):(\d{1,9})( \S.*)?$")
"""A device plane; what follows the number names a part of the device (``SparseCore 0``)."""

HOST = re.compile(r"/host:")

RUN_BITS = (1 << 28) - 1
"""TPUs keep only these bits of a run's id; the host's are cut to them."""

_DERIVED = 1 << 20
"""Derived lanes come after a device's own of the same role."""


@dataclass
class Gathered:
    """What the planes amount to so far, in the form `assemble` wants."""

    ops: Ops
    events: list[pl.DataFrame] = field(default_factory=list)
    lanes: list[dict[str, Any]] = field(default_factory=list)
    ranks: list[dict[str, Any]] = field(default_factory=list)

    def lane(self, name: str, role: str, order: int, **more: object) -> int:
        """A new lane; its number."""
        self.lanes.append({"host": 0, "name": name, "role": role, "order": order, "work": False, **more})
        return len(self.lanes) - 1

    def rank(self, kind: str, device: int | None, model: str) -> int:
        """The rank of a device, new if the device is."""
        label = kind if device is None else f"{kind}:{device}"
        for number, known in enumerate(self.ranks):
            if known["label"] == label:
                return number
        self.ranks.append({"host": 0, "device": device, "label": label, "model": model or kind, "inferred": False})
        return len(self.ranks) - 1

    def add(self, rows: pl.DataFrame) -> None:
        """Add raw events; columns that `RAW` has not are dropped."""
        self.events.append(rows.select(name for name in RAW if name in rows.columns).cast(
            {name: dtype for name, dtype in RAW.items() if name in rows.columns}
        ))  # fmt: skip

    def event_frame(self) -> pl.DataFrame:
        """All raw events."""
        return pl.concat(self.events, how="diagonal") if self.events else pl.DataFrame(schema=RAW)

    def lane_frame(self) -> pl.DataFrame:
        """The lanes as a frame."""
        return pl.DataFrame(self.lanes, schema=RAW_LANES)

    def rank_frame(self) -> pl.DataFrame:
        """The ranks as a frame; one without a device where the file has none, so that its host can be shown."""
        ranks = self.ranks or [{"host": 0, "label": "CPU", "model": "CPU", "inferred": True}]
        return pl.DataFrame(ranks, schema=RANKS)


def merged_lines(plane: Plane) -> list[int]:
    """For every line the position of the first that is drawn on the same row."""
    first: dict[tuple[str, int], int] = {}
    return [first.setdefault(line.row, at) for at, line in enumerate(plane.lines)]


def add_device(file: Bytes, plane: Plane, events: Events, gathered: Gathered) -> None:
    """The lanes and events of a device plane; a plane without events is no rank."""
    named = DEVICE.match(plane.name)
    if named is None or not len(events.line):
        return
    kind, device, part = named[1], int(named[2]), (named[3] or "").strip()
    rank = gathered.rank(kind, device, "" if part else _model(plane))
    roles = [role_of_line(line.name) for line in plane.lines]
    working = "" if part else _working(roles, events)
    lanes = _device_lanes(plane, roles, working, gathered, rank, part)
    rows = xframes.frame(plane, events).with_columns(
        pl.Series("lane", np.array(lanes, np.int64)[events.line]),
        _device_kinds(plane, events, roles),
        (pl.col("run") & RUN_BITS if kind == "TPU" else pl.col("run")).alias("run"),
    )
    rows = _with_metadata_ops(file, plane, events, roles, rows, gathered.ops)
    if kind == "GPU":
        rows = _with_kernel_ops(file, rows, gathered.ops)
        _derive_gpu(plane, rows, gathered, rank)
    gathered.add(_with_step_numbers(rows))


def _model(plane: Plane) -> str:
    for name in ("device_type_string", "gpu_device_name"):
        if isinstance(model := plane.stats.get(name), str):
            return model
    major, minor = plane.stats.get("compute_cap_major"), plane.stats.get("compute_cap_minor")
    vendor = plane.stats.get("device_vendor")
    if not isinstance(vendor, str):
        return ""
    if isinstance(major, int) and isinstance(minor, int):
        return f"{vendor} GPU, compute capability {major}.{minor}"
    return f"{vendor} GPU"


def _working(roles: Sequence[Role], events: Events) -> str:
    """The role of the lines that keep the device busy: streams, else ops, else modules, whichever have events."""
    shown = {roles[line] for line in np.unique(events.line).tolist()}
    return next((role for role in ("stream", "ops", "modules") if role in shown), "")


def _device_lanes(
    plane: Plane, roles: Sequence[Role], working: str, gathered: Gathered, rank: int, part: str
) -> list[int]:
    """The lane of every line of the plane."""
    lanes: list[int] = []
    for at, first in enumerate(merged_lines(plane)):
        if first < at:
            lanes.append(lanes[first])
            continue
        line, role = plane.lines[at], roles[at]
        number = re.search(r"#(\d{1,18})(?!\d)", line.name)
        lanes.append(
            gathered.lane(
                f"{part} {line.name}".strip(),
                role,
                at + (_DERIVED if part else 0),
                rank=rank,
                work=role == working,
                process=plane.name,
                stream=int(number[1]) if number and role == "stream" else None,
            )
        )
    return lanes


def _device_kinds(plane: Plane, events: Events, roles: Sequence[Role]) -> pl.Series:
    def kind_of(role: Role, name: str) -> str:
        return kind_of_gpu_event(name) if role == "stream" else kind_of_device_event(role, name)

    return xframes.kinds(plane, events, roles, kind_of)


def _with_metadata_ops(
    file: Bytes, plane: Plane, events: Events, roles: Sequence[Role], rows: pl.DataFrame, ops: Ops
) -> pl.DataFrame:
    """`op`, `bytes` and the kind of the events on lines of ops, whose metadata tells all of the op."""
    on_op_line = np.isin(events.line, [at for at, role in enumerate(roles) if role in ("ops", "async")])
    found = ops.of_metadata(file, plane, used(events.position[on_op_line]))
    row, moved = per_position(found, len(plane.metadata.ids))
    op = np.where(on_op_line, row[events.position], -1)
    size = np.where(on_op_line, moved[events.position], -1)
    kind = np.full(len(row), xframes.CODE["op"], np.int64)
    for position, each in found.items():
        kind[position] = xframes.CODE[each.kind]
    op_kinds = xframes.of_codes(kind[events.position])
    return rows.with_columns(
        xframes.nullable(op, op >= 0).alias("op"),
        pl.coalesce(xframes.nullable(size, size >= 0), _detailed_bytes()).alias("bytes"),
        pl.when(pl.Series(on_op_line)).then(op_kinds).otherwise(pl.col("kind")).alias("kind"),
    )


def _detailed_bytes() -> pl.Expr:
    """The bytes that the details of a copy tell: ``kind:HtoD size:4096 dest:0``."""
    return pl.col("details").str.extract(r"(?:size|num_bytes):(\d+)").cast(pl.Int64, strict=False)


def _with_kernel_ops(file: Bytes, rows: pl.DataFrame, ops: Ops) -> pl.DataFrame:
    """`op` of the kernels that name their HLO op, and the kind of those that run a collective."""
    rows = rows.with_columns(leaf_op(pl.col("hlo_op")).alias("leaf")).with_row_index("row")
    named = rows.filter(pl.col("leaf").is_not_null())
    if named.is_empty():
        return rows.drop("row")
    found = ops.of_names(file, named.select("program", "module", pl.col("leaf").alias("name")))
    known = named.select("row").hstack(found.rename({"op": "named", "kind": "role", "bytes": "moved"}))
    return rows.join(known, on="row", how="left", maintain_order="left").with_columns(
        pl.coalesce("op", "named").alias("op"),
        pl.coalesce("bytes", pl.when(pl.col("role") == "collective").then("moved")).alias("bytes"),
        pl.when((pl.col("kind") == "kernel") & (pl.col("role") == "collective"))
        .then(pl.lit("collective", KIND)).otherwise(pl.col("kind")).alias("kind"),
    ).drop("row", "named", "moved")  # fmt: skip


def _derive_gpu(plane: Plane, rows: pl.DataFrame, gathered: Gathered, rank: int) -> None:
    """Lanes of HLO ops (one event per kernel that names its op, as XProf counts them) and of modules.

    Streams run at once, so each has a lane of ops of its own.
    """
    named = rows.filter(pl.col("leaf").is_not_null())
    if named.is_empty():
        return
    streams = named["lane"].unique().sort().to_list()
    for at, lane in enumerate(streams):
        name = "XLA Ops" if len(streams) == 1 else f"XLA Ops of {gathered.lanes[lane]['name']}"
        target = gathered.lane(name, "ops", _DERIVED + at, rank=rank, process=plane.name)
        gathered.add(
            named.filter(pl.col("lane") == lane).with_columns(
                pl.lit(target).alias("lane"),
                pl.col("leaf").cast(pl.Categorical).alias("name"),
                pl.col("role").fill_null("op").cast(KIND).alias("kind"),
            )
        )
    _add_modules(named.with_columns(pl.lit(0, pl.Int64).alias("device"), pl.col("leaf").alias("name")),
                 plane.name, {0: rank}, gathered)  # fmt: skip


def _add_modules(ops: pl.DataFrame, process: str, ranks: dict[int, int], gathered: Gathered) -> None:
    """A lane of module executions for each device (key of `ranks`)."""
    runs = executions(ops)
    for device, rank in ranks.items():
        mine = runs.filter(pl.col("device") == device)
        lane = gathered.lane("XLA Modules", "modules", _DERIVED, rank=rank, process=process)
        gathered.add(
            mine.with_columns(
                pl.lit(lane).alias("lane"), pl.col("name").cast(pl.Categorical), pl.lit("module", KIND).alias("kind")
            )
        )


def _with_step_numbers(rows: pl.DataFrame) -> pl.DataFrame:
    """The events of a line of steps are called by their number."""
    number = pl.col("name").cast(pl.String).str.extract(r"(\d+)\s*$").cast(pl.Int32, strict=False)
    return rows.with_columns(pl.when(pl.col("kind") == "step").then(pl.coalesce("step", number)).alias("step"))


def add_host(plane: Plane, events: Events, gathered: Gathered, *, run_bits: int) -> pl.DataFrame:
    """The lanes and events of the threads of a host plane; its rows, for what is derived from them.

    `run_bits` are the bits of run ids that devices keep. What bears the name of a device's op is its dispatch.
    """
    lanes: list[int] = []
    for at, first in enumerate(merged_lines(plane)):
        line = plane.lines[at]
        name = line.name or f"thread {line.id}"
        order = at if leads(name) else _DERIVED + at
        lanes.append(
            lanes[first] if first < at else gathered.lane(name, "thread", order, process=plane.name, thread=name)
        )
    threads = [line.name.split("/")[0] for line in plane.lines]
    op_names = {row["name"] for row in gathered.ops.rows}

    def kind_of(thread: str, name: str) -> str:
        return "runtime" if name in op_names else kind_of_host_event(name, thread)

    rows = xframes.frame(plane, events).with_columns(
        pl.Series("lane", np.array(lanes, np.int64)[events.line] if lanes else [], dtype=pl.Int64),
        xframes.kinds(plane, events, threads, kind_of),
        (pl.col("run") & run_bits).alias("run"),
    )
    rows = with_compilations(rows).with_columns(
        pl.when(pl.col("step").is_not_null()).then(pl.lit("step", KIND))
        .when(pl.col("correlation").is_not_null() & (pl.col("kind") == "annotation")).then(pl.lit("runtime", KIND))
        .when(pl.col("correlation").is_null() & pl.col("hlo_op").is_not_null()).then(pl.lit("op", KIND))
        .otherwise(pl.col("kind")).alias("kind"),
    ).with_columns(
        pl.coalesce(pl.when(pl.col("kind") == "transfer").then("size"), _detailed_bytes()).alias("bytes")
    )  # fmt: skip
    gathered.add(rows)
    return rows


def add_cpu_devices(file: Bytes, process: str, rows: pl.DataFrame, gathered: Gathered) -> None:
    """The devices of the CPU backend, whose ops run on the host's threads: a lane of ops and one of modules for each.

    An op without a device is one of device 0: older writers do not tell.
    """
    ops = rows.filter(pl.col("hlo_op").is_not_null()).with_columns(
        pl.col("device").fill_null(0), leaf_op(pl.col("hlo_op")).alias("name")
    )
    if ops.is_empty():
        return
    marks = rows.filter(pl.col("consumes").is_not_null() & pl.col("name").cast(pl.String).str.starts_with(END_MARK))
    ops = with_true_ends(ops, marks).drop("kind", "bytes", "consumes", "produces")
    ops = ops.hstack(gathered.ops.of_names(file, ops.select("program", "module", "name")))
    ranks = {device: gathered.rank("CPU", device, "") for device in ops["device"].unique().sort().to_list()}
    for device, rank in ranks.items():
        lane = gathered.lane("XLA Ops", "ops", 0, rank=rank, process=process, work=True)
        mine = ops.filter(pl.col("device") == device)
        gathered.add(mine.with_columns(pl.lit(lane).alias("lane"), pl.col("name").cast(pl.Categorical)))
    _add_modules(ops, process, ranks, gathered)


def add_other(plane: Plane, events: Events, gathered: Gathered) -> None:
    """A plane that is neither a device that computes nor a host: its lines are shown as they are."""
    if not len(events.line):
        return
    lanes: list[int] = []
    for at, first in enumerate(merged_lines(plane)):
        name = f"{plane.name} {plane.lines[at].name}".strip()
        lanes.append(lanes[first] if first < at else gathered.lane(name, "other", at, process=plane.name))
    gathered.add(
        xframes.frame(plane, events).with_columns(
            pl.Series("lane", np.array(lanes, np.int64)[events.line]),
            pl.lit("other", KIND).alias("kind"),
            pl.lit(None, pl.Int32).alias("step"),
        )
    )
