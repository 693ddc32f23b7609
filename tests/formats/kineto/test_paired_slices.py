"""Slices that other tools write as a begin and an end, in a file of PyTorch's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracehound.formats import KINETO, WorkerShard, ignore_progress
from tracehound.formats.json.array_window import DEFAULT_SIZES, ChunkSizes
from tracehound.formats.kineto.kineto_reader import build_file_frames, decode_shard
from tracehound.formats.spill import Spill
from tracehound.model.trace import FileFrames, collect_frame

T = 1_712_195_495_500_000
"""Microseconds since 1970, too many for a float to hold their nanoseconds."""


def edge(phase: str, name: str, ts: float | str, tid: int = 1) -> dict[str, object]:
    return {"ph": phase, "name": name, "pid": 5, "tid": tid, "ts": ts, "cat": "user_annotation"}


@pytest.mark.parametrize("others", [0, 40])
def test_a_begin_and_its_end_are_a_slice(others: int, tmp_path: Path) -> None:
    complete = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 5, "tid": 1, "dur": 1}
    rows = [
        *({**complete, "ts": T + n} for n in range(1, 1 + others)),
        {**complete, "ts": T},
        edge("B", "outer", T + 1), edge("B", "inner", T + 2), edge("E", "", T + 3), edge("B", "of 2", T + 2, 2),
        edge("E", "outer", T + 9), edge("E", "lonely", T + 10), edge("E", "", T + 4, 2),
        edge("B", "never ends", T + 11),
    ]  # fmt: skip
    path = tmp_path / "t.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": rows}))
    frames = KINETO.read(path)
    named = collect_frame(frames.scan.select("name", "start", "end", "kind").cast({"name": str, "kind": str}))
    spans = {name: (start, end) for name, start, end, kind in named.iter_rows() if kind == "annotation"}
    us = 10**6
    assert spans == {"outer": (us, 9 * us), "inner": (2 * us, 3 * us), "of 2": (2 * us, 4 * us)}
    assert [(note.code, note.count) for note in frames.notes if note.level == "dropped"] == [("edge_alone", 2)]


Edge = tuple[str, int, int]
"""Phase, time and thread of a begin or an end."""


def slowly_paired(edges: Sequence[Edge]) -> tuple[list[tuple[str, int, int]], int]:
    """The slices (name, start and end in us after `T`), and the number of edges alone."""
    slices, alone = [], 0
    for thread in {tid for _, _, tid in edges}:
        waiting: list[tuple[int, int]] = []
        for ts, at, phase in sorted((ts, at, phase) for at, (phase, ts, tid) in enumerate(edges) if tid == thread):
            if phase == "B":
                waiting.append((ts, at))
            elif waiting:
                begun, named = waiting.pop()
                slices.append((f"slice {named}", begun, ts))
            else:
                alone += 1
        alone += len(waiting)
    return sorted(slices), alone


def read_in_shards(path: Path, sizes: ChunkSizes, shards: int, folder: Path) -> FileFrames:
    """The file, read by so many processes with these sizes of its segments."""
    folder.mkdir(exist_ok=True)
    spill = Spill(folder)
    parts = [decode_shard(path, WorkerShard(at, shards), spill, ignore_progress, sizes) for at in range(shards)]
    return build_file_frames(path, parts, spill)


@pytest.mark.thorough
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    edges=st.lists(st.tuples(st.sampled_from("BE"), st.integers(1, 60), st.integers(1, 2)), min_size=1, max_size=40),
    in_order=st.booleans(),
    shards=st.integers(1, 2),
)
def test_slices_are_the_same_however_the_file_is_cut(
    tmp_path: Path, edges: list[Edge], *, in_order: bool, shards: int
) -> None:
    edges = sorted(edges, key=lambda each: each[1]) if in_order else edges
    rows = [edge(phase, f"slice {at}", T + ts, tid) for at, (phase, ts, tid) in enumerate(edges)]
    kept = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 5, "tid": 1, "ts": T, "dur": 1}
    path = tmp_path / "t.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [kept, *rows]}))
    slices, alone = slowly_paired(edges)
    for sizes in (ChunkSizes(80, 300, 64), DEFAULT_SIZES):
        frames = read_in_shards(path, sizes, shards, tmp_path / "spill")
        named = collect_frame(frames.scan.select("name", "start", "end", "kind").cast({"name": str, "kind": str}))
        found = [(row[0], row[1] // 10**6, row[2] // 10**6) for row in named.iter_rows() if row[3] == "annotation"]
        assert sorted(found) == slices
        dropped = [(note.code, note.count) for note in frames.notes if note.level == "dropped"]
        assert dropped == [("edge_alone", alone)] * bool(alone)


def test_a_slice_of_another_segment_keeps_its_args(tmp_path: Path) -> None:
    begin = {**edge("B", "outer", T + 1), "args": {"External id": 7}}
    inner = [edge(phase, f"inner {at}", T + 2 + at) for at in range(30) for phase in "BE"]
    path = tmp_path / "t.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [begin, *inner, edge("E", "", T + 99)]}))
    frames = read_in_shards(path, ChunkSizes(80, 300, 64), 2, tmp_path / "spill")
    outer = collect_frame(frames.scan).cast({"name": str}).row(by_predicate=pl.col("name") == "outer", named=True)
    assert (outer["end"] - outer["start"], outer["external"], outer["depth"]) == (98 * 10**6, 7, 0)
    assert KINETO.reader.args(frames, outer["record"])["name"] == "outer"
