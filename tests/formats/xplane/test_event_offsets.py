from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.formats.protobuf_wire import BYTES, InflatedFile, WireError, read_field
from tracehound.formats.xplane.event_offsets import EVENT_FIELD, EventTagFinder, find_event_bounds, find_event_near
from xspaces import block, varint, whole

numbers = st.integers(0, (1 << 64) - 1)
ids = st.one_of(st.integers(0, 300), st.integers(0, 1 << 15), numbers)
stats = st.lists(st.builds(lambda id_, value: block(4, whole(1, id_) + whole(4, value)), ids, numbers), max_size=12)
usual = st.builds(
    lambda id_, offset, more: whole(1, id_) + whole(2, offset) + b"".join(more), ids, st.integers(0, 1 << 50), stats
)
odd = st.one_of(st.binary(max_size=20), st.just(b""), st.builds(lambda blob: block(9, blob), st.binary(max_size=300)))
events = st.lists(st.one_of(usual, usual, usual, odd).map(lambda body: block(EVENT_FIELD, body)), max_size=12)
after = st.sampled_from([b"", whole(10, 7), b"\x00", b"\x22", b"\x22\xff\xff"])


def walked(raw: bytes) -> tuple[list[tuple[int, int]], bool]:
    """Where each event begins and ends, one by one; and whether something that is no event follows."""
    found, at = [], 0
    while at < len(raw):
        try:
            field, end = read_field(raw, at, len(raw))
        except WireError as error:
            return found, not error.overrun
        if (field.number, field.wire) != (EVENT_FIELD, BYTES):
            return found, True
        found.append((at, end))
        at = end
    return found, False


@given(events, after, st.integers(0, 400))
def test_heads_are_those_that_a_walk_finds(many: list[bytes], tail: bytes, cut: int) -> None:
    raw = b"".join(many) + tail
    raw = raw[: max(0, len(raw) - cut)] if cut < 200 else raw
    file = InflatedFile(raw, len(raw))
    piece = file.read_intervals((0, len(raw)))
    found = find_event_bounds(piece, EventTagFinder(piece.size))
    expected, stopped = walked(raw)
    assert list(zip(found.head.tolist(), found.end.tolist(), strict=True)) == expected
    assert (found.after, found.stopped) == (expected[-1][1] if expected else 0, stopped)
    for row in set(range(len(expected))) - set(found.odd.tolist()):
        begin, end = expected[row]
        body = raw[begin:end]
        body = body[len(body) - read_field(raw, begin, len(raw))[0].value :]
        assert body.startswith(whole(1, int(found.metadata[row])) + b"\x10")
        assert raw[found.at[row] - 1] == 0x10


def test_memory_for_marks_is_used_again() -> None:
    many = [block(EVENT_FIELD, whole(1, n) + whole(2, n)) for n in range(100)]
    marks = EventTagFinder(300)
    for raw in (b"".join(many), b"".join(many[:7]), b"".join(many[50:])):
        piece = InflatedFile(raw, len(raw)).read_intervals((0, len(raw)))
        assert find_event_bounds(piece, marks).after == len(raw)


def line(count: int) -> tuple[bytes, list[int]]:
    """A line with so many events, and where they begin."""
    raw, begins = whole(1, 3) + block(2, "XLA Ops"), []
    for n in range(count):
        begins.append(len(raw))
        raw += block(
            EVENT_FIELD, whole(1, n % 200) + whole(2, n << 30) + whole(3, n) + block(4, whole(1, 3) + whole(4, n))
        )
    return raw + whole(10, 5), begins


@pytest.mark.parametrize("step", [1, 7, 97])
def test_the_next_event_is_found_from_anywhere(step: int) -> None:
    raw, begins = line(60)
    for at in range(begins[0], begins[40], step):
        assert find_event_near(raw, at, len(raw)) == min(begin for begin in begins if begin >= at)


def test_no_event_is_found_where_there_is_none() -> None:
    assert find_event_near(b"\x22" * 5000, 0, 5000) is None
    assert find_event_near(block(2, "name" * 500), 0, 2000) is None
    raw, begins = line(2)
    assert find_event_near(raw, begins[0], len(raw)) is None
    assert find_event_near(varint(0x22) + b"\x05\x08\xff", 0, 4) is None
