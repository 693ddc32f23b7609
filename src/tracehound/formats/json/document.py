"""The segments of a JSON trace put together again: one document, in which any event can be found.

Owns the check that the segments meet, the numbering of elements over all of them, and reading one element again. Knows
no event's meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from tracehound.errors import TracehoundError
from tracehound.formats.inflate import Section, section
from tracehound.formats.json.mend import Mends, parsed
from tracehound.formats.json.slices import Extent
from tracehound.intervals import Ints
from tracehound.notes import Note
from tracehound.trace import FileState, Part


class Document(Struct, frozen=True):
    """The file around and inside the array.

    `firsts` is the ordinal of the first element of each segment. `places` has the rows of `Extent.places` with ordinals
    in the file, shape (slices, 4). `notes` say what was wrong with the file: its bytes first, then its JSON.
    """

    firsts: tuple[int, ...]
    places: Ints
    metadata: Mapping[str, Any]
    notes: tuple[Note, ...]


def chained(extents: Iterable[Extent]) -> list[Extent] | None:
    """The segments from the first to the one that ends the array; None where one is missing or two do not meet."""
    known = {extent.number: extent for extent in extents}
    chain: list[Extent] = []
    for number in count():
        extent = known.get(number)
        if extent is None or (chain and chain[-1].end != extent.begin):
            return None
        chain.append(extent)
        if extent.final:
            break
    return chain


def document(chain: Sequence[Extent]) -> Document:
    """What the segments of a chain amount to."""
    mends, metadata, damage = Mends(), dict[str, Any](), dict[Note, None]()
    firsts, places, elements = [], [np.empty((0, 4), np.int64)], 0
    for extent in chain:
        for mend, (times, first) in extent.mends.counts.items():
            known, before = mends.counts.get(mend, (0, first))
            mends.counts[mend] = (known + times, min(before, first))
        metadata.update(extent.metadata)
        damage.update(dict.fromkeys(extent.damage))
        firsts.append(elements)
        places.append(np.array(extent.places, np.int64).reshape(-1, 4) + np.array([0, 0, elements, 0], np.int64))
        elements += extent.elements
    return Document(tuple(firsts), np.concatenate(places), metadata, (*damage, *mends.notes()))


def args(of: Part, record: int, /, read: Section = section) -> dict[str, Any]:
    """All that the file says of an event: its whole JSON object."""
    return event_at(of.path, of.places, record, read, of.state)


def event_at(
    path: Path, places: Ints, record: int, read: Section = section, state: FileState | None = None
) -> dict[str, Any]:
    """The element with the ordinal `record`, as it is in the file; empty where that could not be read.

    `places` are those of the `Document`. Raises as `section`, which is given the state of the file.
    """
    try:
        value = parsed(element_at(path, places, record, read, state)).value
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def element_at(path: Path, places: Ints, record: int, read: Section = section, state: FileState | None = None) -> bytes:
    """The text of the element with the ordinal `record`, as it is in the file.

    Raises ValueError where that is none, and as `section`, which is given the state of the file.
    """
    row = int(np.searchsorted(places[:, 2], record, side="right")) - 1
    offset, length, first, elements = (int(value) for value in places[row])
    if not 0 <= record - first < elements:
        raise TracehoundError(f"has no event {record:,}", path)
    data = read(path, offset, length, state)
    if elements > 1:  # an element that was read leniently has a place of its own
        return bytes(_RAW(b"[" + data + b"]")[record - first])
    return data


_RAW = msgspec.json.Decoder(list[msgspec.Raw]).decode
