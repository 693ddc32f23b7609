"""Frames as bytes of Arrow, safe to write while other threads read them."""

from __future__ import annotations

from io import BytesIO
from typing import Literal

import polars as pl


def to_arrow_bytes(frame: pl.DataFrame, compression: Literal["uncompressed", "zstd"] = "uncompressed") -> bytes:
    """The frame as an Arrow IPC stream.

    A clone of the frame (without copies of its columns) is written: polars locks the frame while it writes and waits
    for the interpreter with each chunk, and a thread that reads the height of the locked frame holds the interpreter,
    so both would wait forever.
    """
    content = BytesIO()
    frame.clone().write_ipc_stream(content, compression=compression)
    return content.getvalue()
