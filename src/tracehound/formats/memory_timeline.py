"""PyTorch's memory timeline: what ``export_memory_timeline("....raw.json.gz")`` of a profiler writes.

Owns its layout. A file is one list of ``[time, action, bytes, category]``: the time in ns on the wall clock (-1: there
before the recording), what happened, by how much a category grew (less than 0: shrank), and which. It has no events,
only memory; whose it is, it does not tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.errors import TracehoundError
from tracehound.facets import FACETS, UNTOLD
from tracehound.file_facts import Claims
from tracehound.formats.assembly.assemble import Decoded, part
from tracehound.formats.assembly.counters import Counters
from tracehound.formats.format import Portion, Progress, Reader
from tracehound.formats.inflate import Section, section, whole
from tracehound.formats.signs import BOM
from tracehound.formats.sizes import MOST_BYTES
from tracehound.formats.spill import Spill
from tracehound.formats.times import FARTHEST, wall_clock
from tracehound.intervals import Ints, Mask
from tracehound.notes import Note
from tracehound.trace import COUNTERS, RANKS, Part

CATEGORIES: Final = (
    "parameter", "optimizer state", "input", "temporary", "activation", "gradient", "autograd detail", "unknown",
)  # fmt: skip
"""What memory is for, in the order of PyTorch's numbers."""

_TOTAL: Final = "memory allocated"
_BEFORE: Final = -1
_WIDTH: Final = 4

_LABEL: Final = "unknown device"


class Rows(NamedTuple):
    """The rows of a file: `time` (ns), `bytes` and `category`, in order of time; `notes` says what was wrong.

    `moved` says of which rows nothing is given or taken back; `last` is the time of the last row of the file, which may
    tell of no change.
    """

    last: int
    time: Ints
    bytes: Ints
    category: Ints
    moved: Mask
    notes: tuple[Note, ...]


def decode(path: Path, portion: Portion, spill: Spill, progress: Progress) -> Rows | None:
    """All rows of the file, in the first portion; nothing in others. Raises TracehoundError where there is no row."""
    del spill
    if portion.number:
        return None
    text, notes = whole(path)
    rows, wrong = _rows(text, path)
    progress(len(text), len(rows))
    rows, strays = _near(rows)
    every = rows[:, 0]
    known = every[every != _BEFORE]
    rows = rows[~_unmoved(rows)]
    time = rows[:, 0]
    if not len(rows):
        raise TracehoundError("no row of a memory timeline can be read", path)
    time = np.where(time == _BEFORE, int(known.min()) if len(known) else 0, time)
    order = np.argsort(time, kind="stable")
    category = np.where((rows[:, 3] >= 0) & (rows[:, 3] < len(CATEGORIES)), rows[:, 3], len(CATEGORIES) - 1)
    moved = np.isin(rows[order, 1], (_THERE, _VERSION))
    last = int(known.max(initial=time.max()))
    return Rows(last, time[order], rows[order, 2], category[order], moved, (*notes, *wrong, *strays))


def _near(rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], tuple[Note, ...]]:
    """Without the rows that are far from the others in time, which picoseconds could not hold."""
    known = rows[:, 0] != _BEFORE
    times = np.sort(rows[known, 0])
    middle = int(times[(len(times) - 1) // 2]) if len(times) else 0  # the time of a row, so that one always stays
    near = ~known | (np.abs(rows[:, 0] - middle) < FARTHEST)
    lost = int(np.count_nonzero(~near))
    return rows[near], ((Note("dropped", "rows_far_away", lost),) if lost else ())


def _unmoved(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """The pairs of rows that tell of a new version of memory that stays in its category: they change nothing."""
    pairs = np.zeros(len(rows), np.bool_)
    first, second = rows[:-1], rows[1:]
    versions = (first[:, 1] == _VERSION) & (second[:, 1] == _VERSION) & (first[:, 0] == second[:, 0])
    same = np.flatnonzero(versions & (first[:, 2] == -second[:, 2]) & (first[:, 2] < 0) & (first[:, 3] == second[:, 3]))
    pairs[same] = pairs[same + 1] = True
    return pairs


_THERE: Final = 1
"""The action of what was there before the recording."""

_VERSION: Final = 3
"""The action that stands for a change in place: the size leaves one category and comes to another, or to the same."""


def _rows(text: bytes, path: Path) -> tuple[npt.NDArray[np.int64], tuple[Note, ...]]:
    """The rows that are four whole numbers, and what is to be said of the others."""
    notes = []
    text = text.removeprefix(BOM)
    try:
        found = msgspec.json.decode(text, type=list[Any])
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        kept = text[: text.rfind(b"]", 0, text.rfind(b"]")) + 1] if text.rstrip().endswith(b"]]") else _cut(text)
        try:
            found = msgspec.json.decode(kept + b"]", type=list[Any])
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            raise TracehoundError("damaged beyond the last row that can be read", path) from error
        notes.append(Note("repaired", "memory_timeline_ends_early"))
    places = [at for at, row in enumerate(found) if _good(row)]
    if len(places) < len(found):
        notes.append(Note("dropped", "rows_not_numbers", len(found) - len(places)))
    rows = np.array([found[at] for at in places], np.int64).reshape(-1, _WIDTH)
    odd = np.abs(rows[:, 2]) > MOST_BYTES
    if odd.any():
        first = f"row {places[int(np.argmax(odd))]:,}"
        notes.append(Note("dropped", "rows_too_large", int(np.count_nonzero(odd)), where=first))
    return rows[~odd], tuple(notes)


def _cut(text: bytes) -> bytes:
    """What stands before the row that is cut."""
    return text[: text.rfind(b"]") + 1]


def _good(row: object) -> bool:
    if not isinstance(row, list) or len(row) != _WIDTH:
        return False
    return all(isinstance(v, int) and not isinstance(v, bool) and abs(v) < _FAR for v in row)


_FAR: Final = 1 << 61
"""Numbers beyond this are no time."""


def finish(path: Path, portions: Sequence[Rows | None], spill: Spill) -> Part:
    """The part: no events, a counter for each category and for all together, and the facet `allocated`."""
    (rows,) = (portion for portion in portions if portion is not None)
    origin = int(rows.time[0])
    time = (rows.time - origin) * 1000
    facet = pl.DataFrame(
        {
            "record": np.arange(len(time)),
            "time": time,
            "device": np.full(len(time), UNTOLD),
            "bytes": rows.bytes,
            "allocated": np.cumsum(rows.bytes),
            "category": np.array(CATEGORIES, dtype=object)[rows.category],
            "moved": rows.moved,
        },
        schema_overrides={"category": pl.String},
    )
    absent = [
        pl.lit(None, dtype).alias(name) for name, dtype in FACETS["allocated"].items() if name not in facet.columns
    ]
    allocated = facet.with_columns(absent).select(*FACETS["allocated"]).cast(FACETS["allocated"])
    ranks = [{"rank": None, "host": 0, "device": None, "label": _LABEL, "model": None}]
    return part(
        Decoded(
            path=path,
            format="memory_timeline",
            pieces=(),
            lanes=pl.DataFrame(),
            ranks=pl.DataFrame(ranks, schema={name: dtype for name, dtype in RANKS.items() if name != "inferred"}),
            hosts=("host",),
            wall_ns=wall_clock(origin),
            notes=(*rows.notes, Note("inferred", "memory_timeline_of_one_rank")),
            places=np.empty(0, np.int64),
            counters=_counters(rows, time, (rows.last - origin) * 1000),
            facets={"allocated": _kept(allocated, spill)},
        ),
        spill,
    )


def _kept(allocated: pl.DataFrame, spill: Spill) -> pl.LazyFrame:
    """The facet where the spill keeps its rows."""
    if spill.folder is None:
        return allocated.lazy()
    target = spill.folder / "allocated-000000.arrow"
    allocated.write_ipc(target, compression="zstd")
    return pl.scan_ipc(target)


def _counters(rows: Rows, time: Ints, last: int) -> Counters:
    """What all categories hold together, and what each does that ever holds anything; the last of each instant.

    What is held together is told until the `last` row.
    """
    held = np.cumsum(rows.bytes)
    curves = [(_TOTAL, np.append(time, last), np.append(held, held[-1]))]
    for number, name in enumerate(CATEGORIES):
        mine = rows.category == number
        if mine.any():
            curves.append((name, time[mine], np.cumsum(rows.bytes[mine])))
    samples = [
        pl.DataFrame({"lane": np.full(len(at), lane), "time": at, "value": held.astype(np.float64)})
        for lane, (_, at, held) in enumerate(curves)
    ]
    lanes = [
        {"host": 0, "rank": 0, "name": name, "unit": "bytes", "process": "", "order": order}
        for order, (name, *_) in enumerate(curves)
    ]
    latest = pl.concat(samples).unique(["lane", "time"], keep="last", maintain_order=True)
    return Counters(lanes, latest.select(*COUNTERS).cast(COUNTERS))


def args(of: Part, record: int, /, read: Section = section) -> dict[str, Any]:
    """Nothing: there are no events."""
    del of, record, read
    return {}


def glance(path: Path) -> Claims:
    """Nothing: the file claims nothing of the run."""
    del path
    return Claims()


READER: Final = Reader(decode, finish, args, np.ndarray, glance)
