"""What a trace tells of one event, wherever that lies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from building import Building, stream, thread
from tracehound.model import trace as module
from tracehound.model.trace import Trace


def built() -> Trace:
    b = Building()
    for number in range(20):
        b.event(thread(), f"call {number}", number * 10, number * 10 + 8, "op")
        b.event(stream(number % 2), f"kernel {number}", number * 10 + 3, number * 10 + 9)
    return b.trace()


@pytest.mark.parametrize("block", [1, 3, 7, 40, 1 << 10])
def test_an_event_is_the_row_of_its_id(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_EVENTS", block)
    trace = built()
    rows = trace.events().collect().rows(named=True)
    assert len(rows) == 40
    assert [trace.event(row["id"]) for row in rows] == rows
    assert [trace.event(row["id"]) for row in reversed(rows)] == rows[::-1]


def test_queries_that_are_stopped_end_alone() -> None:
    """One that was let go of before it had stopped ended the process: here that of another program."""
    again_and_again = """
import time
import polars as pl
from tracehound.model.trace import collect_interruptible
rows = pl.LazyFrame({"a": range(2000)}).with_columns(b=pl.col("a") * 2)
for number in range(1000):
    try:
        collect_interruptible(rows, lambda: time.sleep(number % 20 * 2e-5) is None)
    except InterruptedError:
        pass
print("alive")
"""
    ended = subprocess.run([sys.executable, "-c", again_and_again], capture_output=True, text=True, check=False)
    assert ended.stdout == "alive\n", ended.stderr


@pytest.mark.thorough
def test_many_files_at_once_are_read_without_a_word(tmp_path: Path) -> None:
    many = """
import sys
from pathlib import Path
import polars as pl
from tracehound.model.trace import collect_frame
for number in range(200):
    pl.DataFrame({"a": [number]}).write_ipc(Path(sys.argv[1], f"{number}.arrow"))
print(collect_frame(pl.concat([pl.scan_ipc(file) for file in Path(sys.argv[1]).iterdir()])).height)
"""
    few = {**os.environ, "POLARS_MAX_BLOCKING_THREAD_COUNT": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", many, str(tmp_path)], env=few, capture_output=True, text=True, check=True, timeout=60
    )
    assert (ran.stdout, ran.stderr) == ("200\n", "")
