"""The frames of one file, saved as files of one folder: events and facets as Arrow, everything else in a head file."""

from __future__ import annotations

import io
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl
from isal.isal_zlib import crc32
from msgspec.structs import replace

from tracehound.formats.assembly import arrow_storage
from tracehound.formats.assembly.arrow_storage import (
    scan_events,
    scan_few_rows,
    to_arrow_bytes,
    write_event_frame,
    write_few_rows,
)
from tracehound.model.deferred_frames import DeferredFacets
from tracehound.model.facet_schemas import FACET_SCHEMAS
from tracehound.model.file_facts import FileFacts
from tracehound.model.notes import Note
from tracehound.model.trace import SMALL_FRAMES, FileFrames, FileState, no_counters

HEAD_FILE: Final = "head.msgpack"
EVENT_FILES_PATTERN: Final = "events-*.arrow"
FEW_ROWS_FILE: Final = "rows.msgpack.zlib"

MAX_FEW_ROWS: Final = 1 << 13
"""Events and facets with at most so many rows each share a file: packing them takes longer than it saves."""

_EVENTS: Final = "events"

_ARRAY_CODE: Final = 1
_DIGEST_BYTES: Final = 16


class DamagedFramesError(Exception):
    """The folder does not hold what was written to it."""


class EncodedPlaces(bytes):
    """The encoded `places` of a file's frames: decoded only to read the args of an event."""


class _FramesHead(msgspec.Struct, frozen=True):
    """The content of `HEAD_FILE` after its digest.

    `frames` are Arrow streams, and so is `counters`, which is empty without samples. `files` and `facets` have size and
    CRC of their files. `few` names the frames in `FEW_ROWS_FILE`, if they are there.
    """

    format: str
    hosts: tuple[str, ...]
    wall_ns: int | None
    facts: FileFacts
    notes: tuple[Note, ...]
    places: bytes
    frames: dict[str, bytes]
    counters: bytes
    files: dict[str, tuple[int, int]]
    facets: dict[str, tuple[int, int]]
    few: tuple[str, ...]


def save_frames(part: FileFrames, folder: Path) -> None:
    """Write the head of a file's frames, and its events unless they are in the folder already. Raises OSError."""
    files, beside, few = sorted(folder.glob(EVENT_FILES_PATTERN)), arrow_storage.list_facet_files(folder), {}
    if not files and not beside and (few := _collect_few_rows(part)):
        files = [folder / FEW_ROWS_FILE]
        write_few_rows(few, files[0])
    elif not files:
        files = [write_event_frame(part.events, folder)]
    if not few and not beside:
        arrow_storage.write_facets(part.facets, folder)
        beside = arrow_storage.list_facet_files(folder)
    head = _FramesHead(
        format=part.format,
        hosts=part.hosts,
        wall_ns=part.wall_ns,
        facts=part.facts,
        notes=part.notes,
        places=msgspec.msgpack.encode(part.places, enc_hook=_encode_array),
        frames={name: to_arrow_bytes(part.small_frames[name], "zstd") for name in SMALL_FRAMES},
        counters=to_arrow_bytes(counters, "zstd") if (counters := part.counters).height else b"",
        files={file.name: _size_and_crc(file) for file in files},
        facets={file.name: _size_and_crc(file) for file in beside},
        few=tuple(few),
    )
    encoded = msgspec.msgpack.encode(head)
    (folder / HEAD_FILE).write_bytes(_hash_head(encoded) + encoded)


def _collect_few_rows(part: FileFrames) -> dict[str, pl.DataFrame]:
    """The events and facets of a file, if all have few rows; else none."""
    if int(part.lanes["events"].sum()) > MAX_FEW_ROWS:
        return {}
    frames = {_EVENTS: part.events, **{name: part.collect_facet(name) for name in part.facets}}
    return frames if max(frame.height for frame in frames.values()) <= MAX_FEW_ROWS else {}


def load_frames(folder: Path, path: Path, state: FileState | None = None, *, fresh: bool = False) -> FileFrames:
    """The frames of the file at `path`, from a folder; `state` is that of the file before it was read.

    Raises DamagedFramesError if the content is not what was written, and OSError if that cannot be checked now (too
    many open files, a network that is down). With `fresh` the events were just written by this process or its workers
    and are not read again to check them.
    """
    try:
        head = _read_head(folder)
        files = {} if fresh else head.files | head.facets
        if any(_size_and_crc(folder / name) != checked for name, checked in files.items()):
            raise DamagedFramesError(str(folder))
        frames = {name: pl.read_ipc_stream(io.BytesIO(head.frames[name])) for name in SMALL_FRAMES}
        if any(_schema_items(frames[name]) != list(schema.items()) for name, schema in SMALL_FRAMES.items()):
            raise DamagedFramesError(str(folder))
        scan_few = partial(scan_few_rows, folder / FEW_ROWS_FILE)
        return FileFrames(
            path=path,
            format=head.format,
            make_scan=partial(scan_few, _EVENTS)
            if head.few
            else partial(scan_events, [folder / name for name in sorted(head.files)]),
            small_frames=frames,
            hosts=head.hosts,
            wall_ns=head.wall_ns,
            facts=head.facts,
            notes=head.notes,
            places=EncodedPlaces(head.places),
            state=state,
            cache_folder=folder,
            facets=DeferredFacets((name for name in FACET_SCHEMAS if name in head.few), scan_few)
            if head.few
            else arrow_storage.scan_facet_files(tuple(head.facets), folder),
            make_counters=partial(_read_counters, folder) if head.counters else no_counters,
        )
    except (FileNotFoundError, ValueError, KeyError, msgspec.MsgspecError, pl.exceptions.PolarsError) as error:
        raise DamagedFramesError(f"{folder}: {error}") from error


def _schema_items(frame: pl.DataFrame) -> list[tuple[str, pl.DataType]]:
    """The names and types of the columns; polars takes three times as long to compare schemas."""
    return list(zip(frame.columns, frame.dtypes, strict=True))


def _read_head(folder: Path) -> _FramesHead:
    """The head of the frames in a folder. Raises DamagedFramesError, OSError or msgspec.MsgspecError."""
    content = (folder / HEAD_FILE).read_bytes()
    digest, encoded = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if digest != _hash_head(encoded):  # damaged Arrow would panic, not raise
        raise DamagedFramesError(str(folder))
    return msgspec.msgpack.decode(encoded, type=_FramesHead)


def _read_counters(folder: Path) -> pl.DataFrame:
    """The samples of counters in a folder: they may be longer than all else of a head, and few callers need them."""
    return pl.read_ipc_stream(io.BytesIO(_read_head(folder).counters))


def decode_places(part: FileFrames, kind: type[Any]) -> FileFrames:
    """The frames with their `places` decoded to type `kind`."""
    if not isinstance(part.places, EncodedPlaces):
        return part
    return replace(
        part, places=msgspec.msgpack.decode(part.places, type=kind, ext_hook=_decode_array, dec_hook=_require_type)
    )


def _hash_head(encoded: bytes) -> bytes:
    return blake2b(encoded, digest_size=_DIGEST_BYTES).digest()


def _size_and_crc(file: Path) -> tuple[int, int]:
    """Size and CRC of a whole file (10 MB take 2 ms): damaged Arrow might give wrong numbers."""
    content = file.read_bytes()
    return len(content), crc32(content)


def _encode_array(value: object) -> msgspec.msgpack.Ext:
    """An Int64 array as an extension type, with its shape first."""
    if not isinstance(value, np.ndarray) or value.dtype != np.int64:
        raise NotImplementedError(type(value))
    shape = np.array([value.ndim, *value.shape], np.int64)
    return msgspec.msgpack.Ext(_ARRAY_CODE, shape.tobytes() + np.ascontiguousarray(value).tobytes())


def _decode_array(code: int, data: memoryview) -> np.ndarray[Any, np.dtype[np.int64]]:
    if code != _ARRAY_CODE:
        raise DamagedFramesError(f"an extension {code}")
    numbers = np.frombuffer(data, np.int64)
    rank = int(numbers[0])
    return numbers[1 + rank :].reshape(tuple(numbers[1 : 1 + rank].tolist()))


def _require_type(kind: type, value: Any) -> Any:  # noqa: ANN401, any type of the format
    if not isinstance(value, kind):
        raise NotImplementedError(kind)
    return value
