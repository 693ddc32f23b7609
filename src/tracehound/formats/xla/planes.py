"""What all portions of a profile amount to: its lanes and its ranks.

Owns the shape of a profile on TPU, GPU and CPU: which planes are devices and hosts, and what their lines show. Reads no
bytes and decodes no event (see `xla.rows`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.formats.assembly.assemble import Piece
from tracehound.formats.spill import Kept, Spill
from tracehound.formats.wire import Rows
from tracehound.formats.xla.compiles import on_rows, with_compilations
from tracehound.formats.xla.derived import DERIVED, Derived, Named
from tracehound.formats.xla.ends import USERS
from tracehound.formats.xla.gathered import Gathered
from tracehound.formats.xla.names import Role, leads, recorded, role_of_lane, role_of_line
from tracehound.formats.xla.ops import Met, merged
from tracehound.formats.xla.xspace import Line, Plane
from tracehound.intervals import Intervals

DEVICE = re.compile(r"/device:(TPU|GPU):(\d{1,9})( \S.*)?$")
"""A device plane; what follows the number names a part of the device (``SparseCore 0``)."""

HOST = re.compile(r"/host:")

RUN_BITS = (1 << 28) - 1
"""TPUs keep only these bits of a run's id; the host's are cut to them."""


class Shown(NamedTuple):
    """A plane as far as lanes and ranks need it; `model` is that of its device."""

    name: str
    model: str
    lines: tuple[Line, ...]


def shown(plane: Plane) -> Shown:
    """What of the plane is shown."""
    return Shown(plane.name, _model(plane), plane.lines)


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


class Share(Struct, frozen=True, eq=False):
    """What one portion of a file amounts to.

    The lanes of its rows are lines, numbered through all planes; their ops are positions in `ops`. `drawn` counts the
    events of each line. `named` are, by plane, the executions of ops that have no line of their own, with `module`,
    `program` and `device`, and `unnamed` work of GPUs that names none; `marks` are the events at which such ops end.
    `dispatches` are host events with what may be the name of a GPU's op: only all portions tell. `calls` are host
    events that launch on a GPU, or in which a module's execution is launched there. `compiling` says by line when
    compilations are under way, `held` what allocators held, `launched` how kernels were launched, and `sampled` what
    counters counted. `users` are those of `xla.ends`, where there are marks. `unclocked` counts events whose
    device's own clock cannot be true.
    """

    pieces: tuple[Kept, ...]
    named: tuple[tuple[int, Kept], ...]
    unnamed: tuple[tuple[int, Kept], ...]
    marks: tuple[tuple[int, Kept], ...]
    dispatches: tuple[Kept, ...]
    calls: tuple[Kept, ...]
    compiling: Mapping[int, Intervals]
    drawn: Rows
    ops: tuple[Met, ...]
    untimed: int
    broken: int
    unclocked: int = 0
    held: tuple[Kept, ...] = ()
    launched: tuple[Kept, ...] = ()
    sampled: tuple[pl.DataFrame, ...] = ()
    users: pl.DataFrame | None = None


class Together(NamedTuple):
    """All portions: the pieces of their events, and the lanes, ranks and ops that those point at."""

    pieces: tuple[Piece, ...]
    gathered: Gathered


def together(planes: Sequence[Shown], shares: Sequence[Share], programs: Mapping[str, int], spill: Spill) -> Together:
    """Put the portions of a file together; `programs` has the ids of those whose names no other has."""
    ops, op_rows = merged([share.ops for share in shares])
    gathered = Gathered(ops)
    derived = Derived(gathered, spill)
    drawn: Rows = np.sum([share.drawn for share in shares], axis=0, dtype=np.int64)
    firsts: list[int] = np.cumsum([0, *(len(plane.lines) for plane in planes)]).tolist()
    lanes = np.zeros(firsts[-1], np.int64)
    first = _first_lines(planes, firsts)
    shares = _compiled(first, shares)
    held = _Held(shares, op_rows)
    calls = held.calls()
    if calls.height:
        calls = calls.with_columns(pl.Series("lane", first[calls["lane"].to_numpy()]))
    counted = [(number, plane, slice(firsts[number], firsts[number + 1])) for number, plane in enumerate(planes)]
    active = [(number, plane, lines) for number, plane, lines in counted if drawn[lines].any()]
    for number, plane, lines in active:
        if device := DEVICE.match(plane.name):
            named = held.named(number)
            lanes[lines], rank = _device_lanes(plane, device, drawn[lines], gathered, made=_MADE if named else ())
            derived.of_gpu(plane.name, named, lanes, rank)
            if named or not _runs_modules(plane, drawn[lines]):
                derived.executed(plane.name, named, held.unnamed(number), calls, programs, rank)
    accelerated = bool(gathered.ranks)
    for number, plane, lines in active:
        if not DEVICE.match(plane.name):
            lanes[lines] = _host_lanes(plane, gathered) if HOST.match(plane.name) else _other_lanes(plane, gathered)
            if HOST.match(plane.name) and not accelerated:
                derived.of_cpu(plane.name, held.named(number), held.marks(number), held.users())
    for dispatch in held.dispatches():
        derived.dispatched(dispatch, lanes)
    pieces = [
        Piece(kept, lanes=lanes, ops=rows)
        for share, rows in zip(shares, op_rows, strict=True)
        for kept in share.pieces
    ]  # fmt: skip
    return Together((*pieces, *derived.pieces), gathered)


def _first_lines(planes: Sequence[Shown], firsts: Sequence[int]) -> Rows:
    """For every line of the file the first that is drawn on the same row, numbered through all planes."""
    found = [begin + one for plane, begin in zip(planes, firsts, strict=False) for one in merged_lines(plane)]
    return np.array(found, np.int64)


def _compiled(first: Rows, shares: Sequence[Share]) -> list[Share]:
    """The shares, in which what belongs to compilations is of their kind."""
    spans = on_rows((share.compiling for share in shares), dict(enumerate(first.tolist())))
    return [
        replace(
            share,
            pieces=tuple(with_compilations(kept, spans) for kept in share.pieces),
            dispatches=tuple(with_compilations(kept, spans) for kept in share.dispatches),
        )
        for share in shares
    ]


class _Held:
    """What portions put aside for all of them to be looked at."""

    def __init__(self, shares: Sequence[Share], op_rows: Sequence[Rows]) -> None:
        self._shares = list(zip(shares, op_rows, strict=True))

    def named(self, plane: int) -> list[Named]:
        """The executions of ops of this plane, in the order of the file."""
        return [Named(kept, ops) for share, ops in self._shares for at, kept in share.named if at == plane]

    def unnamed(self, plane: int) -> list[Kept]:
        """The work of this plane that names no op."""
        return [kept for share, _ in self._shares for at, kept in share.unnamed if at == plane]

    def marks(self, plane: int) -> pl.DataFrame:
        """The ends of ops of this plane."""
        return _joined(kept.rows() for share, _ in self._shares for at, kept in share.marks if at == plane)

    def users(self) -> pl.DataFrame:
        """Who needs the results of ops."""
        found = [share.users for share, _ in self._shares if share.users is not None]
        return pl.concat(found).unique() if found else pl.DataFrame(schema=USERS)

    def calls(self) -> pl.DataFrame:
        """The host events that launch on GPUs, and those in which executions are launched; lanes are lines."""
        found = _joined(kept.rows() for share, _ in self._shares for kept in share.calls)
        return found if "correlation" in found.columns else found.clear()

    def dispatches(self) -> list[Named]:
        """The host events that may have the name of an op."""
        return [Named(kept, ops) for share, ops in self._shares for kept in share.dispatches]


def _joined(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    known = list(frames)
    return pl.concat(known, how="diagonal_relaxed") if known else pl.DataFrame()


def merged_lines(plane: Shown) -> list[int]:
    """For every line the position of the first that is drawn on the same row."""
    first: dict[tuple[str, int], int] = {}
    return [first.setdefault(line.row, at) for at, line in enumerate(plane.lines)]


_MADE: Final = ("ops", "modules")
"""The roles of the lanes that are made of kernels which name their ops."""


def _device_lanes(
    plane: Shown, device: re.Match[str], drawn: Rows, gathered: Gathered, *, made: Collection[str]
) -> tuple[list[int], int]:
    """The lane of every line of a device plane, and its rank.

    Of the roles in `made` the device gets lanes out of its kernels, which say more than what XProf derived from them:
    the lines of these roles are shown, and count for nothing.
    """
    part = (device[3] or "").strip()
    rank = gathered.rank(device[1], int(device[2]), "" if part else plane.model)
    roles = [role_of_line(line.name) for line in plane.lines]
    working = "" if part else _working({role for role, count in zip(roles, drawn.tolist(), strict=True) if count})
    lanes: list[int] = []
    for at, first in enumerate(merged_lines(plane)):
        if first < at:
            lanes.append(lanes[first])
            continue
        line, role = plane.lines[at], roles[at]
        number = re.search(r"#(\d{1,18})(?!\d)", line.name)
        name = recorded(line.name) if role in made else line.name
        lanes.append(
            gathered.lane(
                f"{part} {name}".strip(),
                "other" if role in made else role_of_lane(role, part),
                at + (DERIVED if part else 0),
                rank=rank,
                work=role == working,
                process=plane.name,
                stream=int(number[1]) if number and role == "stream" else None,
            )
        )
    return lanes, rank


def _working(roles: set[Role]) -> str:
    """The role of the lines that keep the device busy: streams, else ops, else modules, whichever have events."""
    return next((role for role in ("stream", "ops", "modules") if role in roles), "")


def _runs_modules(plane: Shown, drawn: Rows) -> bool:
    """Whether lines of the plane show executions of modules."""
    return any(count and role_of_line(line.name) == "modules" for line, count in zip(plane.lines, drawn, strict=True))


def _host_lanes(plane: Shown, gathered: Gathered) -> list[int]:
    """The lane of every thread."""
    lanes: list[int] = []
    for at, first in enumerate(merged_lines(plane)):
        line = plane.lines[at]
        name = line.name or f"thread {line.id}"
        order = at if leads(name) else DERIVED + at
        lanes.append(
            lanes[first] if first < at else gathered.lane(name, "thread", order, process=plane.name, thread=name)
        )
    return lanes


def _other_lanes(plane: Shown, gathered: Gathered) -> list[int]:
    """The lane of every line of a plane that is neither a device that computes nor a host."""
    lanes: list[int] = []
    for at, first in enumerate(merged_lines(plane)):
        name = f"{plane.name} {plane.lines[at].name}".strip()
        lanes.append(lanes[first] if first < at else gathered.lane(name, "other", at, process=plane.name))
    return lanes
