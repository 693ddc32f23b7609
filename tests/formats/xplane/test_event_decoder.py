"""Events read by compiled code are those that numpy reads, sound or damaged."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_xplane_reader import NUMBERS, TEXTS, any_planes, follow_events

from tracehound.formats.protobuf_wire import InflatedFile
from tracehound.formats.xplane import event_decoder
from tracehound.formats.xplane.event_decoder import EventRange, WrongCutError, decode_event_ranges, find_wanted_stats
from tracehound.formats.xplane.xspace import read_space
from tracehound.numeric import native
from xspaces import Plane, space

pytestmark = pytest.mark.skipif(native.library() is None, reason="nothing is compiled here")


def told(file: InflatedFile, ranges: list[EventRange], names: dict[int, str]) -> list[object]:
    """All that the slices of some ranges say, event by event; ends with why they end."""
    found: list[object] = []
    try:
        for part in decode_event_ranges(file, ranges, find_wanted_stats(names, NUMBERS + TEXTS)):
            stats = [(name, column) for name, column in sorted(part.stats.items()) if column.field.any()]
            for row in range(len(part.line)):
                columns = (part.line, part.record, part.metadata, part.start, part.length, part.has_time, part.is_valid)
                said = {name: (c.field[row], _bits(part, c, row)) for name, c in stats}
                found.append((*(int(column[row]) for column in columns), said))
    except WrongCutError:
        found.append("torn")
    return found


def _bits(part: event_decoder.DecodedEvents, column: event_decoder.StatColumn, row: int) -> object:
    """The value of a stat; of a text itself, for where it lies depends on the slice."""
    bits = int(column.bits[row])
    if column.field[row] not in (5, 6):
        return bits
    return bytes(part.data.data[bits >> 32 : (bits >> 32) + (bits & 0xFFFFFFFF)])


def both(file: InflatedFile, ranges: list[EventRange], names: dict[int, str]) -> tuple[list[object], list[object]]:
    compiled = told(file, ranges, names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_decoder, "_decode_natively", lambda *_: None)
        return compiled, told(file, ranges, names)


@given(any_planes, st.integers(0, 2**32), st.integers(0, 6), st.sampled_from([64, 300, event_decoder.DECODED_BYTES]))
def test_events_are_those_of_numpy(plane: Plane, seed: int, damages: int, at_once: int) -> None:
    raw = bytearray(space(plane))
    (read,) = read_space(InflatedFile(bytes(raw), len(raw)), follow_events).planes
    ranges = [EventRange(at, *one) for at, line in enumerate(read.lines) for one in line.ranges]
    places = np.concatenate([np.arange(one.start, one.end) for one in ranges] or [np.empty(0, np.int64)])
    random = Random(seed)
    for _ in range(damages if len(places) else 0):
        raw[random.choice(places)] = random.choice(
            (0, 1, 2, 0x08, 0x10, 0x18, 0x22, 0x28, 0x2A, 0x7F, 0x80, 0xFF, 0xA2)
        )
    file = InflatedFile(bytes(raw), len(raw))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_decoder, "DECODED_BYTES", at_once)
        compiled, bulk = both(file, ranges, read.stat_names)
    assert compiled == bulk
