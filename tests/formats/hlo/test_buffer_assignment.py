"""The heap of a program, replayed from its buffer assignment."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from hloprotos import F32, array, computation, instruction, numbers, proto, tupled
from tracehound.formats.hlo.buffer_assignment import (
    ALLOC,
    FREE,
    SHARE,
    BufferLifetime,
    buffers_of_program,
    replay_heap_trace,
)
from tracehound.formats.protobuf_wire import pad_bytes
from tracehound.model.facet_schemas import FACET_SCHEMAS
from xspaces import block, whole


def test_the_peak_is_where_most_is_first() -> None:
    events = [(ALLOC, 1, 0), (ALLOC, 2, 0), (FREE, 1, 0), (ALLOC, 3, 0), (FREE, 2, 0), (FREE, 3, 0)]
    found, peak = replay_heap_trace(events, {1: 10, 2: 20, 3: 10})
    assert found == [BufferLifetime(1, 0, 2), BufferLifetime(2, 1, 4), BufferLifetime(3, 3, 5)]
    assert peak == 1


def test_a_place_is_held_until_the_last_that_shares_it_is_freed() -> None:
    events = [(ALLOC, 1, 0), (SHARE, 2, 1), (FREE, 1, 0), (ALLOC, 3, 0), (FREE, 2, 0), (FREE, 3, 0)]
    found, peak = replay_heap_trace(events, {1: 10, 2: 10, 3: 5})
    assert found == [BufferLifetime(1, 0, 4), BufferLifetime(3, 3, 5)]
    assert peak == 3


def test_sharing_what_was_freed_brings_it_back() -> None:
    events = [(ALLOC, 1, 0), (FREE, 1, 0), (SHARE, 2, 1), (SHARE, 3, 2), (FREE, 2, 0)]
    found, peak = replay_heap_trace(events, {1: 10, 2: 10, 3: 10})
    assert found == [BufferLifetime(1, 0, 1), BufferLifetime(1, 2, None)]
    assert peak == 0


def test_what_is_no_buffer_and_what_is_freed_twice_changes_nothing() -> None:
    events = [(ALLOC, 9, 0), (FREE, 1, 0), (ALLOC, 1, 0), (SHARE, 1, 9), (7, 1, 0), (FREE, 1, 0), (FREE, 1, 0)]
    found, peak = replay_heap_trace(events, {1: 10})
    assert (found, peak) == ([BufferLifetime(1, 2, 5)], 2)
    assert replay_heap_trace([], {}) == ([], None)


def slow(events: Sequence[tuple[int, int, int]], sizes: dict[int, int]) -> tuple[int, list[int]]:
    """The most, and what is held after every event: by the list of all that is held."""
    held, after = list[int](), []
    for kind, buffer, _ in events:
        if kind == ALLOC:
            held.append(buffer)
        elif buffer in held:
            held.remove(buffer)
        after.append(sum(sizes[one] for one in held))
    return max(after, default=0), after


@given(st.data())
def test_lifetimes_add_up_to_what_is_held(data: st.DataObject) -> None:
    sizes = {buffer: data.draw(st.integers(0, 50)) for buffer in range(1, 8)}
    order = data.draw(st.permutations([*sizes, *sizes]))
    seen: set[int] = set()
    events = []
    for buffer in order:
        events.append((FREE if buffer in seen else ALLOC, buffer, 0))
        seen.add(buffer)
    cut = data.draw(st.integers(0, len(events)))
    found, peak = replay_heap_trace(events[:cut], sizes)
    most, after = slow(events[:cut], sizes)
    for at, held in enumerate(after):
        there = [
            one for one in found if one.first is not None and one.first <= at and (one.last is None or one.last > at)
        ]
        assert sum(sizes[one.buffer] for one in there) == held
    assert (after[peak] if peak is not None else 0) == most
    assert peak is None or peak == after.index(most)


def logical(id_: int, size: int, defined: int, *index: int, space: int = 0) -> bytes:
    place = whole(4, defined) + numbers(3, *index)
    return block(1, whole(1, id_) + whole(2, size) + block(3, place) + (whole(4, space) if space else b""))


def allocation(number: int, size: int, *assigned: int, more: bytes = b"", space: int = 0) -> bytes:
    held = b"".join(block(9, whole(1, one)) for one in assigned)
    return block(3, whole(1, number) + whole(2, size) + more + (whole(8, space) if space else b"") + held)


def trace(*events: tuple[int, int], of: int) -> bytes:
    told = b"".join(block(1, (whole(1, kind) if kind else b"") + whole(2, buffer)) for kind, buffer in events)
    return block(4, told + whole(3, of))


TILED = array(F32, 100, tiles=block(6, numbers(1, 128)))
PROGRAM = computation(
    1, "main", 13, instruction(10, "x", "parameter", array(F32, 256)),
    instruction(11, "pair", "sort", tupled(TILED, array(F32, 64)),
                block(7, block(2, "jit(f)/sort") + block(3, "m.py") + whole(4, 7)), operands=(10,)),
    instruction(12, "moved", "copy", array(F32, 64, memory=5), operands=(11,)),
    instruction(13, "out", "add", array(F32, 256), operands=(10,)),
)  # fmt: skip
ASSIGNMENT = block(
    3,
    logical(1, 1024, 10) + logical(2, 512, 11, 0) + logical(3, 256, 11, 1) + logical(4, 256, 12, space=5)
    + logical(5, 1024, 13) + logical(6, 64, 13)
    + allocation(1, 1024, 1, more=whole(5, 1)) + allocation(2, 1024, 5, 6, more=whole(7, 1))
    + allocation(3, 4096, 2, 3) + allocation(4, 256, 4, space=5, more=whole(5, 1))
    + allocation(5, 9999, 6, more=whole(3, 1) + whole(7, 1))
    + trace((ALLOC, 2), (ALLOC, 3), (FREE, 2), of=3),
)  # fmt: skip


def test_a_program_has_lasting_and_passing_buffers_in_every_memory_space() -> None:
    found = buffers_of_program(pad_bytes(proto(PROGRAM, beside=ASSIGNMENT)), "jit_f", 7)
    assert found.schema == FACET_SCHEMAS["buffers"]
    told = found.select("space", "name", "sort", "first", "last", "bytes", "peak", "unpadded").rows()
    assert told == [
        (0, "x", "parameter", None, None, 1024, True, 1024), (0, "out", "output", None, None, 1024, True, 1024),
        (0, "pair{0}", "temporary", 0, 2, 512, True, 400), (0, "pair{1}", "temporary", 1, None, 256, True, 256),
        (5, "moved", "parameter", None, None, 256, True, 256),
    ]  # fmt: skip
    (pair,) = found.filter(pl.col("name") == "pair{0}").to_dicts()
    assert (pair["shape"], pair["opcode"], pair["framework"], pair["source"]) == (
        "f32[100]{0:T(128)}", "sort", "jit(f)/sort", "m.py:7",
    )  # fmt: skip


def test_a_proto_without_an_assignment_has_no_buffers() -> None:
    assert buffers_of_program(pad_bytes(proto(PROGRAM)), "jit_f", 7).is_empty()
    assert buffers_of_program(pad_bytes(b"\xff" * 9), "jit_f", 7).is_empty()


def test_a_buffer_may_be_defined_by_a_name() -> None:
    named = block(1, whole(1, 1) + whole(2, 8) + block(3, block(2, "out")))
    raw = proto(PROGRAM, beside=block(3, named + allocation(1, 8, 1, more=whole(7, 1))))
    assert buffers_of_program(pad_bytes(raw), "jit_f", 7)["name"].to_list() == ["out"]


@given(st.data())
def test_damage_anywhere_is_survived(data: st.DataObject) -> None:
    raw = bytearray(proto(PROGRAM, beside=ASSIGNMENT))
    for _ in range(data.draw(st.integers(1, 5))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    found = buffers_of_program(pad_bytes(bytes(raw)), "jit_f", 7)
    assert found.schema == FACET_SCHEMAS["buffers"]
    assert found.filter(pl.col("bytes") < 0).is_empty()
