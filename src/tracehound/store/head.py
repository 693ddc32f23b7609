"""A part as files of one folder: its events as Arrow, and a head with all that is small.

Owns the names and the encoding of these files. Knows neither where the folder lies nor when it is trusted.
"""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl
from isal.isal_zlib import crc32
from msgspec.structs import replace

from tracehound.file_facts import FileFacts
from tracehound.formats.assembly import facets
from tracehound.formats.assembly.packed import scan, written
from tracehound.formats.spill import columns_of
from tracehound.notes import Note
from tracehound.stream import stream
from tracehound.trace import COUNTERS, LANES, OPS, RANKS, STEPS, FileState, Part

HEAD: Final = "head.msgpack"
EVENTS_FILES: Final = "events-*.arrow"

_ARRAY: Final = 1
_DIGEST: Final = 16
_FRAMES: Final = {"lanes": LANES, "ranks": RANKS, "steps": STEPS, "ops": OPS, "counters": COUNTERS}


class DamagedError(Exception):
    """The folder does not hold what was written to it."""


class Sealed(bytes):
    """The places of a part as they lie in its head: only who asks for the args of an event needs them."""


class _Head(msgspec.Struct, frozen=True):
    """What `HEAD` holds after a digest of it: `frames` are Arrow streams, `files` size and CRC of the events' files.

    `facets` are those of the files of facets.
    """

    format: str
    hosts: tuple[str, ...]
    wall_ns: int | None
    facts: FileFacts
    notes: tuple[Note, ...]
    places: bytes
    frames: dict[str, bytes]
    files: dict[str, tuple[int, int]]
    facets: dict[str, tuple[int, int]]


def save(part: Part, folder: Path) -> None:
    """Write the head of a part; its events too, unless they lie in the folder already. Raises OSError."""
    files = sorted(folder.glob(EVENTS_FILES))
    if not files:
        written([columns_of(part.events)], folder)
        files = sorted(folder.glob(EVENTS_FILES))
    if not facets.files(folder):
        facets.written(part.facets, folder)
    beside = facets.files(folder)
    with ThreadPoolExecutor(1) as checker:
        checks = checker.map(_checked, [*files, *beside])  # while the frames are compressed
        frames = {name: stream(getattr(part, name), "zstd") for name in _FRAMES}
        checked = dict(zip([*files, *beside], checks, strict=True))
    head = _Head(
        format=part.format,
        hosts=part.hosts,
        wall_ns=part.wall_ns,
        facts=part.facts,
        notes=part.notes,
        places=msgspec.msgpack.encode(part.places, enc_hook=_encoded),
        frames=frames,
        files={file.name: checked[file] for file in files},
        facets={file.name: checked[file] for file in beside},
    )
    encoded = msgspec.msgpack.encode(head)
    (folder / HEAD).write_bytes(_digest(encoded) + encoded)


def load(folder: Path, path: Path, state: FileState | None = None, *, fresh: bool = False) -> Part:
    """The part of the file at `path` that was written to a folder; `state` is that of the file before it was read.

    Raises DamagedError where it is not as it was, and OSError where that cannot be told now: too many open files, a
    network that is down. What is `fresh` was written just now, by this process or its workers: its events are not read
    again to be sure.
    """
    try:
        said = (folder / HEAD).read_bytes()
        digest, encoded = said[:_DIGEST], said[_DIGEST:]
        if digest != _digest(encoded):  # Arrow that is damaged would panic, not raise
            raise DamagedError(str(folder))
        head = msgspec.msgpack.decode(encoded, type=_Head)
        files = {} if fresh else head.files | head.facets
        if any(_checked(folder / name) != checked for name, checked in files.items()):
            raise DamagedError(str(folder))
        frames = {name: pl.read_ipc_stream(io.BytesIO(head.frames[name])) for name in _FRAMES}
        if any(frames[name].schema != schema for name, schema in _FRAMES.items()):
            raise DamagedError(str(folder))
        return Part(
            path=path,
            format=head.format,
            scan=scan([folder / name for name in sorted(head.files)]),
            hosts=head.hosts,
            wall_ns=head.wall_ns,
            facts=head.facts,
            notes=head.notes,
            places=Sealed(head.places),
            state=state,
            home=folder,
            facets=facets.found(tuple(head.facets), folder),
            **frames,
        )
    except (FileNotFoundError, ValueError, KeyError, msgspec.MsgspecError, pl.exceptions.PolarsError) as error:
        raise DamagedError(f"{folder}: {error}") from error


def unsealed(part: Part, kind: type[Any]) -> Part:
    """The part with its places, which are of that type."""
    if not isinstance(part.places, Sealed):
        return part
    return replace(part, places=msgspec.msgpack.decode(part.places, type=kind, ext_hook=_array, dec_hook=_as_is))


def _digest(encoded: bytes) -> bytes:
    return blake2b(encoded, digest_size=_DIGEST).digest()


def _checked(file: Path) -> tuple[int, int]:
    """Size and CRC of a file of events, all of it: 10 MB are read in 2 ms, and damaged Arrow may tell other numbers."""
    content = file.read_bytes()
    return len(content), crc32(content)


def _encoded(value: object) -> msgspec.msgpack.Ext:
    """An array of Int64 with its shape before it."""
    if not isinstance(value, np.ndarray) or value.dtype != np.int64:
        raise NotImplementedError(type(value))
    shape = np.array([value.ndim, *value.shape], np.int64)
    return msgspec.msgpack.Ext(_ARRAY, shape.tobytes() + np.ascontiguousarray(value).tobytes())


def _array(code: int, data: memoryview) -> np.ndarray[Any, np.dtype[np.int64]]:
    if code != _ARRAY:
        raise DamagedError(f"an extension {code}")
    numbers = np.frombuffer(data, np.int64)
    rank = int(numbers[0])
    return numbers[1 + rank :].reshape(tuple(numbers[1 : 1 + rank].tolist()))


def _as_is(kind: type, value: Any) -> Any:  # noqa: ANN401, whatever the format keeps
    if not isinstance(value, kind):
        raise NotImplementedError(kind)
    return value
