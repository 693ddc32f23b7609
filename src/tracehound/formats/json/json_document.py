"""A JSON trace as one document: its merged segments, single events by ordinal, raw texts of elements, and file ends.

It is checked that successive segments meet, and elements are numbered over all of them. Elements written into other
files are sound JSON: unchanged where they are sound, else repaired and encoded anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from tracehound.errors import TracehoundError
from tracehound.formats import WHOLE_FILE, Progress, ignore_progress
from tracehound.formats.inflate import SectionReader, open_stream, read_first_bytes, read_section
from tracehound.formats.json.array_repair import RepairCounts, parse_leniently
from tracehound.formats.json.array_segments import ElementDecoder, JsonChunk, JsonSegment, read_segments
from tracehound.formats.json.array_window import DEFAULT_SIZES, ChunkSizes
from tracehound.model.notes import Note
from tracehound.model.trace import FileFrames, FileState
from tracehound.numeric.intervals import Ints


class JsonDocument(Struct, frozen=True):
    """The document around and inside the array.

    `firsts` has the ordinal of each segment's first element, `places` the rows of `JsonSegment.places` with ordinals in
    the file, shape (chunks, 4). `notes` say what was wrong with the file: its bytes first, then its JSON.
    """

    firsts: tuple[int, ...]
    places: Ints
    metadata: Mapping[str, Any]
    notes: tuple[Note, ...]


def chain_segments(segments: Iterable[JsonSegment]) -> list[JsonSegment] | None:
    """Return the segments in order up to the one that ends the array; None where one is missing or two do not meet."""
    by_number = {segment.number: segment for segment in segments}
    chain: list[JsonSegment] = []
    for number in count():
        segment = by_number.get(number)
        if segment is None or (chain and chain[-1].end != segment.begin):
            return None
        chain.append(segment)
        if segment.final:
            break
    return chain


def merge_segments(chain: Sequence[JsonSegment]) -> JsonDocument:
    """Merge the segments of a chain to a document."""
    repairs, metadata, damage = RepairCounts(), dict[str, Any](), dict[Note, None]()
    firsts, places, elements = [], [np.empty((0, 4), np.int64)], 0
    for segment in chain:
        for repair, (times, first) in segment.repairs.counts.items():
            count_so_far, before = repairs.counts.get(repair, (0, first))
            repairs.counts[repair] = (count_so_far + times, min(before, first))
        metadata.update(segment.metadata)
        damage.update(dict.fromkeys(segment.damage))
        firsts.append(elements)
        places.append(np.array(segment.places, np.int64).reshape(-1, 4) + np.array([0, 0, elements, 0], np.int64))
        elements += segment.elements
    return JsonDocument(tuple(firsts), np.concatenate(places), metadata, (*damage, *repairs.notes()))


def read_args(of: FileFrames, record: int, /, read: SectionReader = read_section) -> dict[str, Any]:
    """Read all that the file says of an event: its whole JSON object."""
    return read_event(of.path, of.places, record, read, of.state)


def read_event(
    path: Path, places: Ints, record: int, read: SectionReader = read_section, state: FileState | None = None
) -> dict[str, Any]:
    """Read the element with the ordinal `record`, as it is in the file; empty where it cannot be decoded.

    `places` are those of the `JsonDocument`. Raises as `read_section`, which is given the state of the file.
    """
    try:
        value = parse_leniently(read_element_text(path, places, record, read, state)).value
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_element_text(
    path: Path, places: Ints, record: int, read: SectionReader = read_section, state: FileState | None = None
) -> bytes:
    """Read the text of the element with the ordinal `record`, as it is in the file.

    Raises ValueError where that is no JSON, and as `read_section`, which is given the state of the file.
    """
    row = int(np.searchsorted(places[:, 2], record, side="right")) - 1
    offset, length, first, elements = (int(value) for value in places[row])
    if not 0 <= record - first < elements:
        raise TracehoundError(f"has no event {record:,}", path)
    data = read(path, offset, length, state)
    if elements > 1:  # an element that was read leniently has a row of its own
        return bytes(_RAW(b"[" + data + b"]")[record - first])
    return data


_RAW = msgspec.json.Decoder(list[msgspec.Raw]).decode


ElementTexts = list[msgspec.Raw]
"""Successive elements of the array, each an object as JSON in UTF-8."""

_RAWS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")
_OPEN: Final = ord("{")


class SegmentTexts:
    """The elements of one segment, chunk by chunk."""

    def __init__(self) -> None:
        self.chunks: list[ElementTexts] = []

    def add(self, chunk: JsonChunk[ElementTexts], /) -> None:
        """Append a chunk."""
        self.chunks.append(chunk.events)


def iterate_segment_texts(
    path: Path, progress: Progress = ignore_progress, sizes: ChunkSizes = DEFAULT_SIZES
) -> Iterator[tuple[JsonSegment, list[ElementTexts]]]:
    """Yield the segments of a file in order, each with its elements; one segment is in memory at a time.

    Elements are numbered as readers number them. Raises TracehoundError when the file cannot be read.
    """
    for segment, texts in read_segments(path, WHOLE_FILE, TEXT_DECODER, SegmentTexts, progress, sizes):
        yield segment, texts.chunks


def encode_json(value: object) -> bytes:
    """Encode a value as JSON; numbers keep their digits, those that JSON cannot hold are null."""
    return _ENCODER.encode(value)


def _decode_sound_elements(data: memoryview) -> ElementTexts:
    """Return the texts of a sound list's elements; the encoding of strings is checked, which the decoder omits."""
    text = bytes(data)
    if not text.isascii():
        text.decode("utf-8")
    found = _RAWS.decode(text)
    if any(memoryview(raw)[0] != _OPEN for raw in found):
        raise msgspec.ValidationError("an element is no object")
    return found


def _encode_element(event: Mapping[str, Any], text: bytes) -> msgspec.Raw:
    """Return the element's text unchanged if it is sound, else encoded anew: only its neighbors may be damaged."""
    try:
        return _decode_sound_elements(memoryview(b"[" + text + b"]"))[0]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return msgspec.Raw(encode_json(event))


TEXT_DECODER: Final = ElementDecoder(_decode_sound_elements, _encode_element)


END_SIZE: Final = 64 << 10
"""The bytes per end."""


class FileEnds(NamedTuple):
    """Text of the beginning and, if it is known, of the end of a file; `complete` if its end is there."""

    text: str
    complete: bool


def read_file_ends(path: Path) -> FileEnds:
    """Read the first `END_SIZE` inflated bytes of a file and, unless it is gzip, the last ones.

    Raises as `open_stream`.
    """
    first, last = read_first_bytes(path, END_SIZE), b""
    with open_stream(path) as stream:
        plain = not stream.compressed
    if plain and (size := path.stat().st_size) > END_SIZE:
        last = read_section(path, max(END_SIZE, size - END_SIZE), END_SIZE)
    text = (first + b"\n" + last).decode("utf-8", "replace")
    return FileEnds(text, plain or len(first) < END_SIZE)


def find_value(key: str, text: str) -> object:
    """Return the first value of `key` in the text.

    Where the text ends inside it, or it is no JSON, return an object's first numbers and strings; None without any.
    """
    match = re.search(rf'"{re.escape(key)}"\s*:\s*', text)
    if match is None:
        return None
    try:
        value: object = json.JSONDecoder(strict=False).raw_decode(text, match.end())[0]
    except (ValueError, RecursionError):
        return _parse_leading_fields(text[match.end() :])
    return value


_SIMPLE_FIELD: Final = re.compile(r'\s*[{,]\s*"([^"\\]*)"\s*:\s*(?:(-?\d{1,18})(?=\s*[,}])|"([^"\\]*)")')


def _parse_leading_fields(text: str) -> dict[str, object] | None:
    """Parse the first fields of the object at the start of the text, up to one that is neither number nor text."""
    found: dict[str, object] = {}
    at = 0
    while match := _SIMPLE_FIELD.match(text, at):
        key, number, word = match.groups()
        found[key] = word if number is None else int(number)
        at = match.end()
    return found or None
