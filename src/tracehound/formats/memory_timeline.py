"""PyTorch's memory timeline: the file of ``export_memory_timeline("....raw.json.gz")`` of a profiler.

A file is one list of ``[time, action, bytes, category]``: the time in ns on the wall clock (-1: allocated before the
recording), the action, the bytes by which a category grew (below 0: shrank), and the category. It has no events, only
memory, and does not say which process the memory belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.errors import TracehoundError
from tracehound.formats import FormatReader, Progress, WorkerShard
from tracehound.formats.assembly.counter_samples import FileCounters
from tracehound.formats.assembly.file_assembly import DecodedFile, assemble_file
from tracehound.formats.file_signatures import UTF8_BOM
from tracehound.formats.inflate import SectionReader, read_all, read_section
from tracehound.formats.json.array_segments import ANOTHER_RECORDING
from tracehound.formats.spill import Spill
from tracehound.formats.value_bounds import MAX_BYTES, MAX_DISTANCE_NS, valid_wall_clock
from tracehound.model.facet_schemas import FACET_SCHEMAS, UNKNOWN_DEVICE
from tracehound.model.file_facts import PeekedFacts
from tracehound.model.notes import Note
from tracehound.model.trace import COUNTERS, RANKS, FileFrames
from tracehound.numeric.intervals import Ints, Mask

CATEGORIES: Final = (
    "parameter", "optimizer state", "input", "temporary", "activation", "gradient", "autograd detail", "unknown",
)  # fmt: skip
"""Uses of memory, in the order of PyTorch's numbers."""

_TOTAL_NAME: Final = "memory allocated"
_BEFORE_RECORDING: Final = -1
_ROW_WIDTH: Final = 4

_RANK_LABEL: Final = "unknown device"


class MemoryTimelineRows(NamedTuple):
    """The rows of a file: `time` (ns), `bytes` and `category`, in order of time; `notes` on wrong rows.

    `moved` marks rows that allocate and free nothing; `last` is the time of the file's last row, which may change
    nothing.
    """

    last: int
    time: Ints
    bytes: Ints
    category: Ints
    moved: Mask
    notes: tuple[Note, ...]


def decode_shard(path: Path, shard: WorkerShard, spill: Spill, progress: Progress) -> MemoryTimelineRows | None:
    """Decode all rows of the file in the first shard; None in others. Raises TracehoundError where there is no row."""
    del spill
    if shard.number:
        return None
    text, notes = read_all(path)
    rows, bad_row_notes = _parse_rows(text, path)
    progress(len(text), len(rows))
    rows, distant_row_notes = _drop_distant_rows(rows)
    times = rows[:, 0]
    known = times[times != _BEFORE_RECORDING]
    rows = rows[~_is_unchanged_version(rows)]
    time = rows[:, 0]
    if not len(rows):
        raise TracehoundError("no row of a memory timeline can be read", path)
    time = np.where(time == _BEFORE_RECORDING, int(known.min()) if len(known) else 0, time)
    order = np.argsort(time, kind="stable")
    category = np.where((rows[:, 3] >= 0) & (rows[:, 3] < len(CATEGORIES)), rows[:, 3], len(CATEGORIES) - 1)
    moved = np.isin(rows[order, 1], (_PREEXISTING_ACTION, _NEW_VERSION_ACTION))
    last = int(known.max(initial=time.max()))
    return MemoryTimelineRows(
        last, time[order], rows[order, 2], category[order], moved, (*notes, *bad_row_notes, *distant_row_notes)
    )


def _drop_distant_rows(rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], tuple[Note, ...]]:
    """Drop rows that are so far from the others in time that picoseconds cannot hold it."""
    known = rows[:, 0] != _BEFORE_RECORDING
    times = np.sort(rows[known, 0])
    middle = int(times[(len(times) - 1) // 2]) if len(times) else 0  # the time of a row, so that one row always stays
    near = ~known | (np.abs(rows[:, 0] - middle) < MAX_DISTANCE_NS)
    lost = int(np.count_nonzero(~near))
    return rows[near], ((Note("dropped", "rows_far_away", lost),) if lost else ())


def _is_unchanged_version(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Mask of the pairs of rows that record a new version of memory in its old category: they change nothing."""
    pairs = np.zeros(len(rows), np.bool_)
    first, second = rows[:-1], rows[1:]
    versions = (
        (first[:, 1] == _NEW_VERSION_ACTION) & (second[:, 1] == _NEW_VERSION_ACTION) & (first[:, 0] == second[:, 0])
    )
    same = np.flatnonzero(versions & (first[:, 2] == -second[:, 2]) & (first[:, 2] < 0) & (first[:, 3] == second[:, 3]))
    pairs[same] = pairs[same + 1] = True
    return pairs


_PREEXISTING_ACTION: Final = 1
"""The action for memory allocated before the recording."""

_NEW_VERSION_ACTION: Final = 3
"""The action for an in-place change: the bytes leave one category and enter another, or the same one."""


def _parse_rows(text: bytes, path: Path) -> tuple[npt.NDArray[np.int64], tuple[Note, ...]]:
    """Parse the rows that are four integers; also return notes on the others."""
    notes = []
    text = text.removeprefix(UTF8_BOM)
    try:
        found = msgspec.json.decode(text, type=list[Any])
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        if second := _NEXT_LIST.search(text):
            size = len(text) - second.end()
            values = (("bytes", size), ("exact", True))
            where = f"byte {second.end():,}"
            notes.append(Note("dropped", ANOTHER_RECORDING, where=where, values=values))
            text = text[: second.end()]
        found, ends_early = _salvage_rows(text)
        if not any(map(_is_row, found)):
            raise TracehoundError("no row of a memory timeline can be read", path) from None
        if ends_early:
            notes.append(Note("repaired", "memory_timeline_ends_early"))
    positions = [at for at, row in enumerate(found) if _is_row(row)]
    if len(positions) < len(found):
        first_bad = next((number for number, at in enumerate(positions) if number != at), len(positions))
        lost = len(found) - len(positions)
        notes.append(Note("dropped", "rows_not_numbers", lost, where=f"row {first_bad:,}"))
    rows = np.array([found[at] for at in positions], np.int64).reshape(-1, _ROW_WIDTH)
    too_large = np.abs(rows[:, 2]) > MAX_BYTES
    if too_large.any():
        first = f"row {positions[int(np.argmax(too_large))]:,}"
        notes.append(Note("dropped", "rows_too_large", int(np.count_nonzero(too_large)), where=first))
    return rows[~too_large], tuple(notes)


_NEXT_LIST: Final = re.compile(rb"\]\s*\](?=\s*\[\s*\[)")
"""The end of a list of rows before another one, as in files that were joined."""


def _salvage_rows(text: bytes) -> tuple[list[Any], bool]:
    """The rows of a damaged list, None for each that is no JSON, and whether the list has no end.

    A row begins behind the separator of the one before it, so that damage costs only the row that it is in.
    """
    body = text.strip()
    ends_early = not _LIST_END.search(body)
    body = _LIST_END.sub(b"]", body.removeprefix(b"[").lstrip())
    parts = _ROW_SEPARATOR.split(body)
    if ends_early and not parts[-1].rstrip().endswith(b"]"):
        parts.pop()  # the row that is cut off
    found = list[Any]()
    for row in parts:
        try:
            found.append(msgspec.json.decode(row if row.rstrip().endswith(b"]") else row + b"]"))
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            found.append(None)
    return found, ends_early


_ROW_SEPARATOR: Final = re.compile(rb"(?<=\])\s*,\s*(?=\[)")
_LIST_END: Final = re.compile(rb"\]\s*\]\s*$")


def _is_row(row: object) -> bool:
    if not isinstance(row, list) or len(row) != _ROW_WIDTH:
        return False
    return all(isinstance(v, int) and not isinstance(v, bool) and abs(v) < _MAX_NUMBER for v in row)


_MAX_NUMBER: Final = 1 << 61
"""Numbers beyond this are no time."""


def build_file_frames(path: Path, shards: Sequence[MemoryTimelineRows | None], spill: Spill) -> FileFrames:
    """Build the file frames: no events, a counter for each category and for the total, and the facet `allocated`."""
    (rows,) = (shard for shard in shards if shard is not None)
    origin = int(rows.time[0])
    time = (rows.time - origin) * 1000
    facet = pl.DataFrame(
        {
            "record": np.arange(len(time)),
            "time": time,
            "device": np.full(len(time), UNKNOWN_DEVICE),
            "bytes": rows.bytes,
            "allocated": np.cumsum(rows.bytes),
            "category": np.array(CATEGORIES, dtype=object)[rows.category],
            "moved": rows.moved,
        },
        schema_overrides={"category": pl.String},
    )
    absent = [
        pl.lit(None, dtype).alias(name)
        for name, dtype in FACET_SCHEMAS["allocated"].items()
        if name not in facet.columns
    ]
    allocated = facet.with_columns(absent).select(*FACET_SCHEMAS["allocated"]).cast(FACET_SCHEMAS["allocated"])
    ranks = [{"rank": None, "host": 0, "device": None, "label": _RANK_LABEL, "model": None}]
    return assemble_file(
        DecodedFile(
            path=path,
            format="memory_timeline",
            chunks=(),
            lanes=pl.DataFrame(),
            ranks=pl.DataFrame(ranks, schema={name: dtype for name, dtype in RANKS.items() if name != "inferred"}),
            hosts=("host",),
            wall_ns=valid_wall_clock(origin),
            notes=(*rows.notes, Note("inferred", "memory_timeline_of_one_rank")),
            places=np.empty(0, np.int64),
            counters=_category_counters(rows, time, (rows.last - origin) * 1000),
            facets={"allocated": _store_facet(allocated, spill)},
        ),
        spill,
    )


def _store_facet(allocated: pl.DataFrame, spill: Spill) -> pl.LazyFrame:
    """Write the facet to the spill's folder, if it has one."""
    if spill.folder is None:
        return allocated.lazy()
    target = spill.folder / "allocated-000000.arrow"
    allocated.write_ipc(target, compression="zstd")
    return pl.scan_ipc(target)


def _category_counters(rows: MemoryTimelineRows, time: Ints, last: int) -> FileCounters:
    """The counters of the total and of each category that ever holds memory; the last value of each instant.

    The counter of the total lasts until the `last` row.
    """
    allocated = np.cumsum(rows.bytes)
    curves = [(_TOTAL_NAME, np.append(time, last), np.append(allocated, allocated[-1]))]
    for number, name in enumerate(CATEGORIES):
        is_category = rows.category == number
        if is_category.any():
            curves.append((name, time[is_category], np.cumsum(rows.bytes[is_category])))
    samples = [
        pl.DataFrame({"lane": np.full(len(at), lane), "time": at, "value": allocated.astype(np.float64)})
        for lane, (_, at, allocated) in enumerate(curves)
    ]
    lanes = [
        {"host": 0, "rank": 0, "name": name, "unit": "bytes", "process": "", "order": order}
        for order, (name, *_) in enumerate(curves)
    ]
    latest = pl.concat(samples).unique(["lane", "time"], keep="last", maintain_order=True)
    return FileCounters(lanes, latest.select(*COUNTERS).cast(COUNTERS))


def read_args(of: FileFrames, record: int, /, read: SectionReader = read_section) -> dict[str, Any]:
    """Return no args: there are no events."""
    del of, record, read
    return {}


def read_claims(path: Path) -> PeekedFacts:
    """Return no claims: the file says nothing of the run."""
    del path
    return PeekedFacts()


READER: Final = FormatReader(decode_shard, build_file_frames, read_args, np.ndarray, read_claims)
