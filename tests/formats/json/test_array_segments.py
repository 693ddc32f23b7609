from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from growth import TOO_FAST, growth
from tracehound.draw.notes import note_text
from tracehound.errors import TracehoundError
from tracehound.formats import WorkerShard, ignore_progress
from tracehound.formats.json.array_segments import ElementDecoder, JsonChunk, JsonSegment, read_segments
from tracehound.formats.json.array_window import ChunkSizes
from tracehound.formats.json.json_document import JsonDocument, chain_segments, merge_segments, read_event

DECODE = msgspec.json.Decoder(list[dict]).decode
PLAIN = ElementDecoder(DECODE, lambda event, _: dict(event))

SCALARS = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=12)
TRICKY = st.sampled_from(['},{"ph":"X"', "]", '"', "\\", '}]},{"name":', "\x00", "é", "\u2028"])
VALUES = st.recursive(
    SCALARS | TRICKY,
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["name", "ph", "ts", "x", "args"]), inner, max_size=3),
    max_leaves=8,
)
EVENTS = st.lists(
    st.fixed_dictionaries(
        {"ph": st.sampled_from("XiMsfC"), "name": st.text(max_size=9) | TRICKY, "ts": st.integers(0, 10**12)},
        optional={"args": st.dictionaries(st.text(max_size=5), VALUES, max_size=3)},
    ),
    max_size=25,
)
LAYOUTS = st.sampled_from([{}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": False}])


GOOD = [{"ph": "X", "name": f"n{n}", "ts": n, "args": {"x": n}} for n in range(60)]
SMALL = ChunkSizes(64, 300, 64)
SIZED = st.builds(ChunkSizes, st.integers(20, 400), st.integers(20, 900), st.sampled_from([64, 100, 4096]))


class Kept:
    """Takes the slices of a segment."""

    def __init__(self) -> None:
        self.events: list[dict] = []
        self.spelled: list[object] = []
        self.raws: list[object] = []

    def add(self, piece: JsonChunk[list[dict]]) -> None:
        self.events += piece.events
        times = piece.starts()
        self.spelled += [msgspec.json.decode(time) if isinstance(time, msgspec.Raw) else time for time in times]
        self.raws += map(msgspec.json.decode, piece.raws())


def portion(path: Path, sizes: ChunkSizes, number: int, of: int) -> list[tuple[JsonSegment, Kept]]:
    return list(read_segments(path, WorkerShard(number, of), PLAIN, Kept, ignore_progress, sizes))


def read(path: Path, sizes: ChunkSizes) -> tuple[list[dict], JsonDocument]:
    """All events in one pass, which the other ways of getting at them have to agree with."""
    found = portion(path, sizes, 0, 1)
    chain = chain_segments(extent for extent, _ in found)
    assert chain is not None
    events = [event for _, kept in found for event in kept.events]
    assert [event.get("ts") for event in events] == [time for _, kept in found for time in kept.spelled]
    assert events == [event for _, kept in found for event in kept.raws]
    return events, merge_segments(chain)


def read_by(count: int, path: Path, sizes: ChunkSizes) -> tuple[list[dict], JsonDocument] | None:
    """The same by several readers; None where their segments do not meet."""
    found = [segment for number in range(count) for segment in portion(path, sizes, number, count)]
    chain = chain_segments(extent for extent, _ in found)
    kept = {extent.number: kept.events for extent, kept in found}
    return chain and ([event for extent in chain for event in kept[extent.number]], merge_segments(chain))


def same(one: JsonDocument, other: JsonDocument) -> bool:
    return np.array_equal(one.places, other.places) and (one.firsts, one.metadata, one.notes) == (
        other.firsts, other.metadata, other.notes,
    )  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS, LAYOUTS, SIZED, st.booleans(), st.booleans())
def test_any_valid_document_gives_what_the_standard_library_gives(tmp_path, events, layout, sizes, bare, packed):
    around = {"schemaVersion": 1, "traceEvents": events, "late": {"rank": 3}, "more": [{"name": "x", "ph": "X"}]}
    text = json.dumps(events if bare else around, **layout).encode()
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(text) if packed else text)
    found, document = read(path, sizes)
    assert found == events
    assert document.notes == ()
    assert document.metadata == ({} if bare else {k: v for k, v in around.items() if k != "traceEvents"})
    for record, event in enumerate(events):
        assert read_event(path, document.places, record) == event


PLAIN_EVENTS = st.lists(
    st.fixed_dictionaries({"ph": st.sampled_from("XiM"), "name": st.text(max_size=40), "ts": st.integers(0, 10**9)}),
    max_size=40,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PLAIN_EVENTS, LAYOUTS, SIZED, st.integers(2, 4), st.integers(0, 3), st.booleans())
def test_several_readers_find_what_one_finds(tmp_path, events, layout, sizes, count, tail, packed):
    around = {"a": 1, "traceEvents": events, "b": [{"name": "late", "ph": "X"}] * tail * 8}
    path = tmp_path / "trace"
    text = json.dumps(around, **layout).encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    once, again = read(path, sizes), read_by(count, path, sizes)
    assert again is not None
    assert again[0] == once[0] == events
    assert same(again[1], once[1])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, 3000),
    st.integers(0, 30),
    st.sampled_from([b"", b'"', b"}", b"]", b"\\", b"\xff", b"{", b'},{"ph":', b"NaN", b"\0", b"]}", b"\n,"]),
    SIZED,
    st.integers(2, 4),
)
def test_several_readers_of_a_damaged_file_agree_or_do_not_meet(tmp_path, at, size, put, sizes, count):
    data = bytearray(json.dumps({"a": 1, "traceEvents": GOOD, "late": [{"ph": "X", "name": "x"}] * 9}).encode())
    data[at : at + size] = put
    path = tmp_path / "trace"
    path.write_bytes(data)
    try:
        once = read(path, sizes)
    except TracehoundError:
        with pytest.raises(TracehoundError):
            read_by(count, path, sizes)
        return
    again = read_by(count, path, sizes)
    if again is not None:
        assert again[0] == once[0]
        assert same(again[1], once[1])
    if b"]" not in put:  # which may end the array
        whole = [event for event in GOOD if event in once[0]]
        assert len(whole) >= len(GOOD) - 3 - size // 20


def test_readers_do_not_meet_where_args_look_like_events(tmp_path):
    events = [{"ph": "X", "name": "e", "args": {"list": [{"name": "a", "ph": "X"}] * 30}} for _ in range(9)]
    path = tmp_path / "trace"
    path.write_text(json.dumps(events))
    sizes = ChunkSizes(300, 700, 64)
    assert read(path, sizes)[0] == events
    assert read_by(2, path, sizes) is None


def test_an_event_that_fills_several_segments(tmp_path):
    events = [{"ph": "X", "name": "a"}, {"ph": "X", "name": "b" * 5000}, {"ph": "X", "name": "c"}]
    path = tmp_path / "trace"
    path.write_text(json.dumps({"x": "y" * 3000, "traceEvents": events}))
    for sizes in (ChunkSizes(64, 300, 64), ChunkSizes(64, 5100, 64)):
        for count in (1, 2, 3):
            again = read_by(count, path, sizes)
            assert again is not None
            assert again[0] == events


def test_slices_and_segments_are_about_as_large_as_asked(tmp_path):
    events = [{"ph": "X", "name": f"event {n}", "ts": n} for n in range(5000)]
    path = tmp_path / "trace"
    path.write_text(json.dumps({"traceEvents": events}))
    _, document = read(path, ChunkSizes(10_000, 50_000))
    sizes = [length for _, length, _, _ in document.places]
    assert max(sizes) <= 10_000 + 100
    assert np.mean(sizes) > 7_000
    starts = [int(document.places[document.places[:, 2] == first, 0][0]) for first in document.firsts[1:]]
    assert [start // 50_000 for start in starts] == list(range(1, len(starts) + 1))
    assert all(start % 50_000 < 100 for start in starts)


def test_lists_of_objects_in_args_do_not_stop_the_fast_path(tmp_path):
    events = [{"ph": "X", "name": "e", "args": {"list": [{"name": "a"}, {"name": "b"}]}} for _ in range(400)]
    path = tmp_path / "trace"
    path.write_text(json.dumps(events))
    found, document = read(path, ChunkSizes(2_000))
    assert found == events
    assert 10 < len(document.places) < 100


def test_a_mark_of_byte_order_is_no_harm(tmp_path):
    path = tmp_path / "trace"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1, "traceEvents": [{"ph": "X"}]}')
    found, document = read(path, SMALL)
    assert found == [{"ph": "X"}]
    assert document.metadata == {"a": 1}


@pytest.mark.parametrize("text", ["{}", '{"events": []}', "hello", '{"traceEvents": 3}'])
def test_no_array_is_an_error(tmp_path, text):
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(TracehoundError, match="no trace events"):
        read(path, SMALL)


def test_a_record_that_does_not_exist(tmp_path):
    path = tmp_path / "trace"
    path.write_text('[{"ph": "X"}]')
    _, document = read(path, SMALL)
    with pytest.raises(TracehoundError, match="no event 5"):
        read_event(path, document.places, 5)


def damaged(tmp_path: Path, text: str | bytes) -> tuple[list[dict], dict[tuple[str, str], tuple[int, int]]]:
    """The events, and how often and where first each kind of damage was met."""
    path = tmp_path / "trace"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    found, document = read(path, ChunkSizes(300, 1000))
    for record, event in enumerate(found):
        assert read_event(path, document.places, record) == event
    return found, {
        (note.level, note_text(note)): (note.count, int(note.where.removeprefix("byte ").replace(",", "")))
        for note in document.notes
    }


@pytest.mark.parametrize(
    ("old", "new", "expected", "words"),
    [
        ('{"x": 30}', '{"x": NaN}', None, "NaN"),
        ('{"x": 30}', '{"x": -Infinity}', None, "NaN"),
        ('{"x": 30}', '{"x": N/A}', None, "NaN"),
        ('{"x": 30}', '{"x": -nan}', None, "NaN"),
        ('{"x": 30}', '{"x": inf}', None, "NaN"),
        ('{"x": 30}', '{"x": 30,}', 30, "comma"),
        ('{"x": 30}', '{"x": "C:\\Users\\x"}', "C:\\Users\\x", "backslash"),
        ('{"x": 30}', '{"x": "a\nb"}', "a\nb", "control"),
        ('{"x": 30}', '{"x": "say "no" now"}', 'say "no" now', "quote"),
    ],
)
def test_repairs_keep_the_event_and_are_counted(tmp_path, old, new, expected, words):
    text = json.dumps({"traceEvents": GOOD, "late": 1}).replace(old, new)
    found, counts = damaged(tmp_path, text)
    assert [event["name"] for event in found] == [event["name"] for event in GOOD]
    assert found[30]["args"]["x"] == expected
    ((level, what), (count, first)) = next(iter(counts.items()))
    assert (level, count) == ("repaired", 1)
    assert words in what
    assert text[first:].startswith('{"ph": "X", "name": "n30"')


def test_a_repair_in_every_event_is_counted_in_every_slice(tmp_path):
    text = json.dumps(GOOD).replace('"args": {', '"args": {"bad": NaN, ')
    found, counts = damaged(tmp_path, text)
    assert len(found) == len(GOOD)
    assert [count for count, _ in counts.values()] == [len(GOOD)]


def test_an_event_beyond_repair_is_dropped(tmp_path):
    found, counts = damaged(tmp_path, json.dumps({"traceEvents": GOOD}).replace('"n30", "ts": 30', '"n30" "ts" 30'))
    assert found == GOOD[:30] + GOOD[31:]
    assert list(counts) == [("dropped", "events that are not valid JSON")]


def test_damage_beside_lists_of_objects_does_not_end_the_array(tmp_path):
    events = [{**event, "args": {"l": [{"name": 1}, {"name": 2}]}} for event in GOOD]
    found, _ = damaged(tmp_path, json.dumps({"traceEvents": events}).replace('"n30", "ts": 30', '"n30" "ts" 30'))
    assert [event for event in found if event] == events[:30] + events[31:]


def test_invalid_utf8_is_replaced(tmp_path):
    data = json.dumps({"traceEvents": GOOD}).encode().replace(b'"n30"', b'"n\xff"').replace(b'"n40"', b'"n\\udc00"')
    path = tmp_path / "trace"
    path.write_bytes(data)
    found, document = read(path, ChunkSizes(300, 1000))
    assert [found[30]["name"], found[40]["name"]] == ["n\ufffd", "n\ufffd"]
    assert [event["ts"] for event in found] == list(range(60))
    assert ("repaired", "bytes that are not UTF-8") in [(note.level, note_text(note)) for note in document.notes]


@pytest.mark.parametrize("left", [40, 1000, 2500])
def test_a_cut_file_keeps_its_whole_events(tmp_path, left):
    text = json.dumps({"traceEvents": GOOD})[:left]
    found, counts = damaged(tmp_path, text)
    whole = [event for event in found if event]
    assert whole == GOOD[: len(whole)]
    assert len(whole) == text.count("}}")
    assert ("repaired", "the array of events has no end") in counts


def test_elements_that_are_no_events_are_left_out(tmp_path):
    found, counts = damaged(tmp_path, json.dumps([GOOD[0], None, 3, [GOOD[1]], GOOD[2], {}]))
    assert found == [GOOD[0], GOOD[2], {}]
    assert counts["dropped", "array elements that are not events"][0] == 3


def test_metadata_that_is_cut_is_noted(tmp_path):
    found, counts = damaged(tmp_path, '{"traceEvents": [{"ph": "X"}], "distributedInfo": {"rank": 3')
    assert found == [{"ph": "X"}]
    assert list(counts) == [("dropped", "metadata that is not valid JSON")]


def test_quotes_that_never_close_before_the_array_take_as_long_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "trace"

    def unclosed(size: int) -> None:
        path.write_text('{"a":' + '\\"' * (size // 2) + ' "traceEvents": [{"ph": "X"}]}')
        assert len(read(path, ChunkSizes())[0]) == 1

    assert growth(unclosed, 8000) < TOO_FAST
