"""The elements of a file's array as text, for who writes them into another file.

Owns that what comes out is sound JSON, whatever went in: elements as they are in the file, and those that had to be
repaired written anew. Knows no event's meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from tracehound.formats.format import ALL, Progress, silent
from tracehound.formats.json.slices import Extent, Shape, Slice, segments
from tracehound.formats.json.window import SIZES, Sizes

Texts = list[msgspec.Raw]
"""Successive elements of the array, each an object as JSON in UTF-8."""

_RAWS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")
_OPEN: Final = ord("{")


class Batch:
    """The elements of one segment, slice by slice."""

    def __init__(self) -> None:
        self.slices: list[Texts] = []

    def add(self, piece: Slice[Texts], /) -> None:
        """Append a slice."""
        self.slices.append(piece.events)


def elements(path: Path, progress: Progress = silent, sizes: Sizes = SIZES) -> Iterator[tuple[Extent, list[Texts]]]:
    """The segments of a file in order, each with its elements: of a file of any size one segment is held at a time.

    Elements are numbered as readers number them. Raises TracehoundError when the file cannot be read.
    """
    for extent, batch in segments(path, ALL, SHAPE, Batch, progress, sizes):
        yield extent, batch.slices


def encoded(value: object) -> bytes:
    """A value of JSON as text; numbers keep their digits, those that JSON cannot hold are null."""
    return _ENCODER.encode(value)


def _sound(data: memoryview) -> Texts:
    """The elements of a list that is sound: the decoder passes over strings without a look at their encoding."""
    text = bytes(data)
    if not text.isascii():
        text.decode("utf-8")
    found = _RAWS.decode(text)
    if any(memoryview(raw)[0] != _OPEN for raw in found):
        raise msgspec.ValidationError("an element is no object")
    return found


def _anew(event: Mapping[str, Any], text: bytes) -> msgspec.Raw:
    """The element as it is where it can stay so: its neighbours may be what is damaged."""
    try:
        return _sound(memoryview(b"[" + text + b"]"))[0]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return msgspec.Raw(encoded(event))


SHAPE: Final = Shape(_sound, _anew)
