from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.formats import protobuf_wire
from tracehound.formats.protobuf_wire import (
    MessageOffsets,
    WireError,
    WireField,
    collect_repeated_fields,
    iterate_field_rounds,
    iterate_fields,
    iterate_message_fields,
    pad_bytes,
)
from xspaces import block, varint, whole

numbers = st.integers(0, (1 << 64) - 1)


@st.composite
def messages(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, int, int | bytes]]]:
    """A message, and the number, wire type and content of each of its fields."""
    raw, content = b"", []
    for _ in range(draw(st.integers(0, 6))):
        number = draw(st.sampled_from([1, 2, 15, 16, 300, (1 << 29) - 1]))
        kind = draw(st.sampled_from([0, 1, 2, 5]))
        if kind == 0:
            value = draw(numbers)
            raw += whole(number, value)
        elif kind == 2:
            value = draw(st.binary(max_size=200))
            raw += block(number, value)
        else:
            size = 8 if kind == 1 else 4
            bits = draw(st.binary(min_size=size, max_size=size))
            raw += varint(number << 3 | kind) + bits
            value = int.from_bytes(bits, "little")
        content.append((number, kind, value))
    return raw, content


def content(data: bytes, field: WireField) -> tuple[int, int, int | bytes]:
    value = data[field.at : field.at + field.value] if field.wire == protobuf_wire.BYTES else field.value
    return field.number, field.wire, value


@given(st.lists(numbers, min_size=1, max_size=20))
def test_many_varints_read_as_one_by_one(values: list[int]) -> None:
    encoded = [varint(value) for value in values]
    file = pad_bytes(b"".join(encoded))
    at = np.cumsum([0, *map(len, encoded[:-1])])
    found, size = protobuf_wire.decode_varints(file.words, at)
    assert found.tolist() == values
    assert size.tolist() == [len(raw) for raw in encoded]
    assert [protobuf_wire.read_varint(file.data, int(a), file.size)[0] for a in at] == values


def test_a_varint_of_eleven_bytes_is_none() -> None:
    file = pad_bytes(b"\xff" * 10 + b"\x01")
    assert protobuf_wire.decode_varints(file.words, np.array([0]))[1].tolist() == [0]
    with pytest.raises(WireError, match="more than 10"):
        protobuf_wire.read_varint(file.data, 0, file.size)


@given(st.lists(messages(), max_size=8))
def test_rounds_give_what_a_walk_gives(many: list[tuple[bytes, list[tuple[int, int, int | bytes]]]]) -> None:
    file = pad_bytes(b"".join(raw for raw, _ in many))
    end = np.cumsum([len(raw) for raw, _ in many], dtype=np.int64)
    start = end - np.array([len(raw) for raw, _ in many], np.int64)
    found: list[list[tuple[int, int, int | bytes]]] = [[] for _ in many]
    for now in iterate_field_rounds(file.words, start, end):
        for message, *field in zip(*(column.tolist() for column in now), strict=True):
            found[message].append(content(file.data, WireField(*field)))
    walked = [
        [content(file.data, f) for f in iterate_fields(file.data, int(a), int(b))]
        for a, b in zip(start, end, strict=True)
    ]
    assert found == walked == [fields_ for _, fields_ in many]


@given(st.lists(messages(), max_size=4), st.binary(max_size=20), st.sampled_from([1, 40]))
def test_fields_of_few_and_of_many_messages(
    some: list[tuple[bytes, list[tuple[int, int, int | bytes]]]], rest: bytes, times: int
) -> None:
    """Those of each message are the same, whether they come all at once or round by round; the last may be damaged."""
    raws = [*(raw for raw, _ in some * times), rest]
    file, end = pad_bytes(b"".join(raws)), np.cumsum([len(raw) for raw in raws], dtype=np.int64)
    start = end - np.array([len(raw) for raw in raws], np.int64)
    found: list[list[WireField]] = [[] for _ in raws]
    for now in iterate_message_fields(file, start, end):
        for message, *field in zip(*(column.tolist() for column in now), strict=True):
            found[message].append(WireField(*field))
    valid = [[content(file.data, field) for field in fields if field.number] for fields in found]
    assert valid[:-1] == [fields for _, fields in some * times]
    try:
        walked = list(iterate_fields(file.data, int(start[-1]), file.size))
    except WireError:
        assert found[-1][-1].number == 0
    else:
        assert valid[-1] == [content(file.data, field) for field in walked]


@given(st.binary(max_size=60))
def test_rounds_and_walk_agree_on_where_nonsense_begins(raw: bytes) -> None:
    file = pad_bytes(raw)
    walked, error = [], None
    try:
        walked.extend(content(file.data, field) for field in iterate_fields(file.data, 0, file.size))
    except WireError as found:
        error = found
    bulk, broken = [], False
    for now in iterate_field_rounds(file.words, np.array([0]), np.array([file.size])):
        if now.number[0] == 0:
            broken = True
            continue
        bulk.append(content(file.data, WireField(*(int(column[0]) for column in now[1:]))))
    assert bulk == walked
    assert broken == (error is not None)


def test_repeated_stops_at_another_field_and_at_the_end() -> None:
    data = block(4, b"abc") + block(4, b"x" * 300) + whole(1, 5) + block(4, b"z")
    spans = MessageOffsets(4)
    at = collect_repeated_fields(data, 0, len(data), spans)
    assert data[at:] == whole(1, 5) + block(4, b"z")
    assert [data[a:b] for a, b in spans.pairs()] == [b"abc", b"x" * 300]


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_a_cut_message_is_not_repeated(cut: int) -> None:
    data = block(4, b"abc") + block(4, b"x" * 300)
    spans = MessageOffsets(4)
    with pytest.raises(WireError) as caught:
        collect_repeated_fields(data, 0, 5 + cut, spans)
    assert (caught.value.at, caught.value.overrun) == (5, True)
    assert [data[a:b] for a, b in spans.pairs()] == [b"abc"]
