"""Events on disk, in fewer bits."""

from __future__ import annotations

import pickle
from pathlib import Path

import polars as pl

from tracehound.formats.assembly.arrow_storage import scan_few_rows, write_events, write_few_rows
from tracehound.formats.spill import MaskedColumn, Spill
from tracehound.model.trace import EVENTS

FAR = 2**62
ROWS = [
    {"id": 0, "lane": 0, "start": -FAR, "end": FAR - 1, "name": "a", "kind": "op", "self": 0, "record": 2**46 - 1},
    {"id": 1, "lane": 0, "start": -1, "end": -1, "name": "b", "kind": "op", "self": 17, "parent": 0, "record": -3},
    {
        "id": 2,
        "lane": 1,
        "start": 2**32,
        "end": 2**33 - 1,
        "kind": "kernel",
        "self": 2**32 - 1,
        "parent": 3,
        "depth": 9,
    },
    {"id": 3, "lane": 1, "start": FAR - 1, "end": FAR, "self": FAR, "launch": 1, "step": 4, "rank": 2, "bytes": 5},
    {"id": 4, "lane": 1, "start": FAR, "end": FAR, "self": 0, "device_start": -FAR, "device_end": 2**40},
    {"id": 5, "lane": 1, "start": FAR, "end": FAR, "self": 0, "device_start": FAR, "record": 2**33},
]
FRAME = pl.DataFrame([{name: row.get(name) for name in EVENTS} for row in ROWS], schema=EVENTS)


def columns(frame: pl.DataFrame) -> dict[str, MaskedColumn]:
    """A batch as numbers, without the columns that it has nothing in."""
    some = [series.name for series in frame if series.null_count() < len(frame) or series.name == "parent"]
    return Spill().spill_frame(frame, "some").read(0, len(frame), some)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    for frames in ([FRAME], [FRAME[:1], FRAME[1:3], FRAME[3:]], []):
        expected = pl.concat(frames) if frames else FRAME.clear()
        for folder in (None, tmp_path):
            scan = write_events((columns(frame) for frame in frames), folder)()
            assert scan.collect().equals(expected)
            assert scan.collect_schema() == EVENTS
            sent = pickle.loads(pickle.dumps(scan))  # noqa: S301, our own bytes
            assert sent.slice(1, 2).collect().equals(expected[1:3])
            some = scan.filter(pl.col("lane") == 1).select("parent", "id").collect()
            assert some.equals(expected.filter(pl.col("lane") == 1).select("parent", "id"))


def test_few_rows_share_a_file(tmp_path: Path) -> None:
    facet = pl.DataFrame({"record": [1, 2]})
    write_few_rows({"events": FRAME, "cut": facet}, tmp_path / "rows")
    assert scan_few_rows(tmp_path / "rows", "events").collect().equals(FRAME)
    assert scan_few_rows(tmp_path / "rows", "cut").collect().equals(facet)
