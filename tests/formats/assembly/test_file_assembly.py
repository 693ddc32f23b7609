"""Assembling a part, against a slow and obvious version: whatever the pieces, the size of batches and the place."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import Building, stream
from slow_assembly import slow_part
from tracehound.formats.assembly import file_assembly
from tracehound.formats.assembly.file_assembly import (
    DEVICE_EVENTS_DOUBLED,
    RAW_EVENTS,
    RAW_LANES,
    DecodedFile,
    RawChunk,
    assemble_file,
    single_chunk,
)
from tracehound.formats.spill import Spill
from tracehound.model.notes import Note
from tracehound.model.trace import EVENTS, LANES, RANKS, STEPS, FileFrames

Event = dict[str, Any]

LANES_OF_FILE: tuple[dict[str, Any], ...] = (
    {"host": 0, "rank": 0, "role": "ops", "name": "ops"},
    {"host": 0, "rank": None, "role": "thread", "name": "main"},
    {"host": 0, "rank": 0, "role": "modules", "name": "modules"},
    {"host": 0, "rank": 0, "role": "modules", "name": "more modules"},
    {"host": 1, "rank": None, "role": "thread", "name": "main"},
    {"host": 1, "rank": 1, "role": "stream", "name": "stream"},
    {"host": 1, "rank": 1, "role": "modules", "name": "modules"},
    {"host": 1, "rank": 1, "role": "scope", "name": "scope"},
    {"host": 0, "rank": 2, "role": "ops", "name": "ops of a CPU"},
    {"host": 0, "rank": None, "role": "thread", "name": "pool"},
    {"host": 0, "rank": None, "role": "thread", "name": "never used"},
)
OPS_OF_FILE = ("while", "loop fusion", None)
"""Categories."""
USED = len(LANES_OF_FILE) - 1

FEW = st.none() | st.integers(0, 3)


@st.composite
def events(draw: st.DrawFn, most: int = 24) -> list[Event]:
    """Events of few lanes within few instants, so that they nest, overlap, touch and coincide."""
    marks = draw(st.sampled_from([st.none(), st.none() | st.integers(0, 2)]))
    handing = draw(st.booleans())  # one thread marks steps, and hands work to another
    among, marking = ((1, 9, 0), (1,)) if handing else (range(USED), range(USED))
    clocked = draw(st.sampled_from([(), (), (0, 7), tuple(range(USED))]))
    rows = []
    for record in range(draw(st.integers(0, most))):
        lane, start, length = draw(st.sampled_from(among)), draw(st.integers(0, 20)), draw(st.integers(0, 9))
        row = {
            "lane": lane, "start": start, "end": start + length, "name": draw(st.sampled_from("abc")),
            "kind": draw(st.sampled_from(["op", "runtime", "kernel", "module"])), "record": record,
            "step": draw(marks) if lane in marking else None,
            **{key: draw(FEW) for key in ("correlation", "produces", "consumes", "run")},
            "op": draw(st.none() | st.integers(0, len(OPS_OF_FILE) - 1)) if LANES_OF_FILE[lane]["rank"] == 2 else None,
            "device_start": None, "device_end": None,
        }  # fmt: skip
        if lane in clocked and draw(st.integers(0, 15)):
            row["device_start"] = start + draw(st.integers(0, 1))
            row["device_end"] = row["device_start"] + draw(st.integers(0, 9))
        rows.append(row)
    return rows


def decoded(pieces: Sequence[RawChunk]) -> DecodedFile:
    return DecodedFile(
        path=Path("some.json"),
        format="kineto",
        chunks=pieces,
        lanes=pl.DataFrame(
            [{**lane, "work": False, "order": 0} for lane in LANES_OF_FILE],
            schema={name: dtype for name, dtype in RAW_LANES.items() if name not in ("process", "thread", "stream")},
        ),
        ranks=pl.DataFrame(
            {"rank": [0, 1, 2], "host": [0, 1, 0], "label": [None, None, "CPU:0"]},
            schema={name: RANKS[name] for name in ("rank", "host", "label")},
        ),
        ops=pl.DataFrame({"op": range(len(OPS_OF_FILE)), "category": OPS_OF_FILE}, schema_overrides={"op": pl.Int64()}),
        hosts=("one", "other"),
        wall_ns=None,
    )


def frame(rows: Sequence[Event]) -> pl.DataFrame:
    """The rows as a reader hands them over: columns in which nothing is set are left out."""
    always = ("lane", "start", "end", "name", "kind", "record")
    return pl.DataFrame(
        list(rows),
        schema={k: v for k, v in RAW_EVENTS.items() if k in always or any(row.get(k) is not None for row in rows)},
    )


def in_pieces(rows: Sequence[Event], cuts: Sequence[int], spill: Spill) -> list[RawChunk]:
    """The rows cut at some places; each piece counts its lanes, times and records in a way of its own."""
    edges = sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
    pieces = []
    for number, (low, high) in enumerate(pairwise(edges)):
        order = np.roll(np.arange(USED), number)
        local = {int(lane): index for index, lane in enumerate(order)}
        moved = [
            {**row, "lane": local[row["lane"]], "record": row["record"] - low,
             "start": row["start"] - 7 * number, "end": row["end"] - 7 * number}
            for row in rows[low:high]
        ]  # fmt: skip
        pieces.append(RawChunk(spill.spill_frame(frame(moved), f"piece-{number}"), order, 7 * number, low))
    return pieces


@given(
    rows=events(),
    cuts=st.lists(st.integers(0, 99), max_size=4),
    size=st.sampled_from([1, 2, 3, 7, 1000]),
    on_disk=st.booleans(),
)
def test_any_pieces_in_any_batches(rows: list[Event], cuts: list[int], size: int, *, on_disk: bool) -> None:
    expected = slow_part(rows, LANES_OF_FILE, OPS_OF_FILE)
    with tempfile.TemporaryDirectory() as folder:
        spill = Spill(Path(folder) if on_disk else None)
        made = assemble_file(decoded(in_pieces(rows, cuts, spill)), spill, size)
        got = made.events
    assert got.schema == EVENTS
    columns = list(expected.events[0]) if expected.events else ["id"]
    assert got.select(columns).to_dicts() == expected.events
    assert made.lanes.schema == LANES
    assert (
        made.lanes.select("lane", "host", "rank", "name", "rows", "events", "first", "last").to_dicts()
        == expected.lanes
    )
    assert made.steps.schema == STEPS
    assert sorted(made.steps.rows(), key=str) == sorted(expected.steps, key=str)


def many(count: int) -> list[Event]:
    """A deep lane, whose outermost event lasts to the end, and a device that it launches on."""
    rows: list[Event] = [{"lane": 4, "start": 0, "end": 10 * count, "name": "all", "kind": "op"}]
    for i in range(count):
        rows.append({"lane": 4, "start": 10 * i, "end": 10 * i + 9, "name": "op", "kind": "op"})
        rows.append(
            {"lane": 4, "start": 10 * i + 1, "end": 10 * i + 2, "name": "call", "kind": "runtime", "correlation": i}
        )
        rows.append(
            {"lane": 5, "start": 10 * i + 5, "end": 10 * i + 25, "name": "k", "kind": "kernel", "correlation": i}
        )
    return [{**row, "record": record} for record, row in enumerate(rows)]


def same(one: FileFrames, other: FileFrames) -> bool:
    return one.events.equals(other.events) and one.lanes.equals(other.lanes) and one.steps.equals(other.steps)


def test_a_long_lane_is_cut_without_a_trace(tmp_path: Path) -> None:
    rows = many(500)
    whole = assemble_file(decoded(single_chunk(frame(rows))))
    assert whole.events["self"][0] == 10 * 500 - 9 * 500, "children in all batches count"
    assert whole.events["launch"].count() == 500
    spill = Spill(tmp_path)
    cut = assemble_file(decoded(in_pieces(rows, [100, 700, 701], spill)), spill, 64)
    assert same(whole, cut)
    assert len(list(tmp_path.glob("events-*.arrow"))) > 10


def test_slices_of_what_lies_on_disk(tmp_path: Path) -> None:
    spill = Spill(tmp_path)
    made = assemble_file(decoded(in_pieces(many(300), [], spill)), spill, 50)
    scan = pickle.loads(pickle.dumps(made.scan))  # noqa: S301, our own bytes
    for low, count in ((0, 3), (49, 2), (600, 200), (900, 50)):
        assert scan.slice(low, count).collect().equals(made.events.slice(low, count))
        assert scan.slice(low, count).select("parent").collect().equals(made.events.slice(low, count).select("parent"))


def test_nothing_at_all(tmp_path: Path) -> None:
    for spill in (Spill(), Spill(tmp_path)):
        made = assemble_file(decoded(()), spill)
        assert made.events.schema == EVENTS
        assert made.events.is_empty()
        assert made.lanes.is_empty()


def test_a_piece_must_hold_events() -> None:
    with pytest.raises(ValueError, match="events"):
        assemble_file(decoded([RawChunk(Spill().spill_frame(pl.DataFrame({"lane": [1]}), "odd"))]))


def test_lanes_alike_in_all_stay_in_their_order() -> None:
    """However many they are: sorting by several threads would mix them."""
    random = np.random.default_rng(0)
    order, count = random.integers(0, 3, 500), random.integers(0, 3, 500)
    lanes = pl.DataFrame({"name": [f"thread {row}" for row in range(500)], "order": order})
    found = file_assembly._make_names_unique(lanes.with_columns(host=0, rank=None), count)["order"].to_numpy()
    assert np.argsort(found).tolist() == sorted(range(500), key=lambda row: (order[row], -count[row], row))


def test_work_that_is_in_a_file_twice_is_told() -> None:
    """Work that differs in anything, that nothing launched or that takes no time is no other's copy."""
    built = Building()
    for start, end, name, correlation in (
        (0, 5, "gemm", 1), (0, 5, "gemm", 1), (0, 5, "gemm", 2), (0, 5, "relu", 2), (9, 9, "set", 3), (9, 9, "set", 3),
        (20, 25, "gemm", None), (20, 25, "gemm", None), (26, 27, "set", None), (26, 27, "set", 0),
        (30, 31, "copy", 4), (30, 31, "copy", 4), (30, 31, "copy", 4),
    ):  # fmt: skip
        built.event(stream(), name, start, end, correlation=correlation, record=len(built.rows))
    built.event(stream(number=8), "copy", 30, 31, correlation=4, record=len(built.rows))
    assert Note("info", DEVICE_EVENTS_DOUBLED, 3, where="event 1") in built.part().notes
    del built.rows[1], built.rows[10:12]
    assert DEVICE_EVENTS_DOUBLED not in {note.code for note in built.part().notes}
