"""Slices that other tools write as a begin and an end, in a file of PyTorch's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tracehound.formats import KINETO
from tracehound.model.trace import collect_frame

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
