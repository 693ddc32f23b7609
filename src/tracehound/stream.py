"""Frames as bytes of Arrow.

Owns that a frame may be written while other threads look at it. Knows nothing of what is in it, nor where it is kept.
"""

from __future__ import annotations

from io import BytesIO
from typing import Literal

import polars as pl


def stream(frame: pl.DataFrame, compression: Literal["uncompressed", "zstd"] = "uncompressed") -> bytes:
    """The frame as an Arrow IPC stream.

    A copy of the frame (not of its columns) is written: polars locks what it writes and waits for the interpreter with
    each piece, and who asks the locked frame for as much as its height holds the interpreter: both wait for ever.
    """
    content = BytesIO()
    frame.clone().write_ipc_stream(content, compression=compression)
    return content.getvalue()
