"""Rows that wait, in memory and in files."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.formats.spill import Spill, frame_to_columns
from tracehound.model.trace import KIND

EVENTS = pl.DataFrame(
    {
        "lane": [3, 1, 3, 1, 1, 1],
        "start": [5, 7, 5, 2, 7, 2],
        "end": [6, 8, 9, 4, 9, 4],
        "name": ["a", "b", None, "a", "a", "b"],
        "kind": ["op", "kernel", "op", "op", None, "sync"],
        "run": [None, 1, None, -5, 7, 8],
        "said": [True, None, False, True, False, True],
        "nothing": [None] * 6,
        "nameless": [None] * 6,
        "record": [0, 1, 2, 3, 4, 5],
    },
    schema_overrides={"name": pl.Categorical(), "kind": KIND, "nothing": pl.Int32(), "nameless": pl.Categorical()},
)
ORDER = [3, 5, 4, 1, 2, 0]


@pytest.fixture(params=["memory", "folder"])
def spill(request: pytest.FixtureRequest, tmp_path: Path) -> Spill:
    return Spill(tmp_path if request.param == "folder" else None)


def test_events_are_kept_in_order(spill: Spill) -> None:
    kept = spill.spill_frame(EVENTS, "some")
    expected = EVENTS[ORDER]
    assert kept.height == 6
    assert kept.read_frame().equals(expected)
    assert kept.read_frame().schema == EVENTS.schema
    assert kept.runs is not None
    assert kept.runs.lane.tolist() == [1, 3]
    assert kept.runs.bounds.tolist() == [0, 4, 6]
    for low in range(7):
        for high in range(low, 7):
            assert kept.read_frame(low, high).equals(expected[low:high])
            assert kept.read_frame(low, high, ["run", "name"]).equals(expected[low:high].select("run", "name"))


def test_columns_are_kept_as_their_frame_is(spill: Spill) -> None:
    columns = {name: column.copied() for name, column in frame_to_columns(EVENTS).items()}
    kept = spill.spill_columns(columns, EVENTS.schema, "some")
    for column in columns.values():
        column.values[:] = column.values[0]  # they may be used again
    assert kept.read_frame().equals(EVENTS[ORDER])
    assert kept.read_frame(2, 5, ["name", "run"]).equals(EVENTS[ORDER][2:5].select("name", "run"))
    assert kept.runs is not None
    assert kept.runs.bounds.tolist() == [0, 4, 6]


def test_a_column_is_replaced(spill: Spill) -> None:
    kept = spill.spill_frame(EVENTS, "some")
    amended = kept.with_column("kind", np.array([1, 0, 1, 2, 0, 1], np.uint8))
    kinds = pl.Series("kind", ["collective", "kernel", "collective", "copy", "kernel", "collective"], KIND)
    assert amended.read_frame().equals(EVENTS[ORDER].with_columns(kinds))
    assert amended.read_frame(2, 5, ["kind"])["kind"].to_list() == ["collective", "copy", "kernel"]
    assert kept.read_frame().equals(EVENTS[ORDER])


numbers = st.integers(-(1 << 63), (1 << 63) - 1)
spans = st.sampled_from([0, 1, 255, 256, 65535, 65536, (1 << 32) - 1, 1 << 32, (1 << 63) - 1])


@given(numbers, spans, st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=40))
def test_numbers_of_any_span(lowest: int, span: int, shares: list[float | None]) -> None:
    highest = min(lowest + span, (1 << 63) - 1)
    values = [None if share is None else min(lowest + int(span * share), highest) for share in shares]
    frame = pl.DataFrame({"value": [lowest, highest, *values]}, schema={"value": pl.Int64()})
    with TemporaryDirectory() as folder:
        kept = Spill(Path(folder)).spill_frame(frame, "some")
        for low in range(0, frame.height, 7):
            assert kept.read_frame(low, min(low + 9, frame.height)).equals(frame[low : low + 9])


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.74, 0.76, 1.0])
def test_rows_of_which_many_are_missing(share: float, tmp_path: Path) -> None:
    """Stretches that begin and end anywhere among the blocks in which valid values are counted."""
    random = np.random.default_rng(int(100 * share))
    valid = random.random(20_000) < share
    numbers = random.integers(-(1 << 62), 1 << 62, len(valid))
    frame = pl.DataFrame({"value": numbers, "name": (numbers % 7).astype(str)}).select(
        pl.when(pl.Series(valid)).then(pl.col("value")), pl.when(pl.Series(valid)).then("name").cast(pl.Categorical())
    )
    kept = Spill(tmp_path).spill_frame(frame, "some")
    assert kept.read_frame().equals(frame)
    for low, high in np.sort(random.integers(0, len(valid) + 1, (50, 2))).tolist():
        assert kept.read_frame(low, high).equals(frame[low:high])
    assert kept.read_frame(4096, 4096).equals(frame[:0])
    assert (tmp_path / "some.rows").stat().st_size < (0.8 if share < 0.75 else 1.1) * 9 * len(valid) + len(valid) / 4


def test_other_rows_stay_as_they_are(spill: Spill) -> None:
    frame = EVENTS.drop("lane")
    kept = spill.spill_frame(frame, "some")
    assert kept.runs is None
    assert kept.read_frame().equals(frame)


def test_no_rows(spill: Spill) -> None:
    kept = spill.spill_frame(EVENTS.clear(), "some")
    assert kept.read_frame().equals(EVENTS.clear())
    assert kept.runs is not None
    assert kept.runs.lane.tolist() == []


def test_another_process_reads_them(tmp_path: Path) -> None:
    """Categories have other numbers there."""
    kept = Spill(tmp_path).spill_frame(EVENTS, "some")
    (tmp_path / "kept").write_bytes(pickle.dumps(kept))
    code = (
        "import pickle, sys, polars as pl; from pathlib import Path; "
        "other = pl.Series(['z', 'b', 'y']).cast(pl.Categorical); "
        "print(pickle.loads(Path(sys.argv[1]).read_bytes()).read_frame()['name'].cast(pl.String).to_list())"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "kept"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(EVENTS[ORDER]["name"].cast(pl.String).to_list())


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="absent"):
        Spill(tmp_path / "absent").spill_frame(EVENTS, "some")


def test_text_does_not_wait_in_files(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="said"):
        Spill(tmp_path).spill_frame(pl.DataFrame({"said": ["this"]}), "some")


def test_numbers_that_are_added_are_read_as_one_array(spill: Spill) -> None:
    pile = spill.new_array("some", np.int32)
    assert pile.values().tolist() == []
    assert pile.values().dtype == np.int32
    for values in ([3, -1], [], [2**31 - 1]):
        pile.add(np.array(values, np.int64))
    assert pile.height == 3
    found = pile.values()
    for path in () if spill.folder is None else spill.folder.iterdir():
        path.unlink()
    assert (found.tolist(), found.dtype) == ([3, -1, 2**31 - 1], np.int32)
    again = spill.new_array("some", np.int32)
    again.add(np.array([5], np.int32))
    assert again.values().tolist() == [5], "nothing is left of one before"
