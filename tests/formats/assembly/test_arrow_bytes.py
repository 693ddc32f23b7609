"""Frames as bytes, while other threads look at them."""

from __future__ import annotations

import subprocess
import sys

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tracehound.formats.assembly.arrow_storage import to_arrow_bytes

LOOKED_AT = """
from io import BytesIO
import polars as pl
from tracehound.formats.assembly import arrow_storage

frame = pl.DataFrame({"name": ["a", "b"]})

class Looking(BytesIO):
    def write(self, piece):
        assert frame.height == 2
        return super().write(piece)

arrow_storage.BytesIO = Looking
assert pl.read_ipc_stream(arrow_storage.to_arrow_bytes(frame)).equals(frame)
"""


@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
def test_a_frame_comes_back(compression: str) -> None:
    frame = pl.DataFrame({"name": pl.Series(["a", None], dtype=pl.Categorical), "time": [1, 2]})
    assert_frame_equal(pl.read_ipc_stream(to_arrow_bytes(frame, compression)), frame)  # type: ignore[arg-type]  # parametrized


def test_a_frame_may_be_looked_at_while_it_is_written() -> None:
    """In a process of its own: where it may not, nothing ends any more."""
    assert subprocess.run([sys.executable, "-c", LOOKED_AT], timeout=600, check=False).returncode == 0
