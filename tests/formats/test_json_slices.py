from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracehound.errors import TracehoundError
from tracehound.formats.inflate import opened
from tracehound.formats.json_slices import Reader, Shape, event_at

PLAIN = Shape(msgspec.json.Decoder(list[dict]).decode, msgspec.json.Decoder(list[dict]).decode, dict)

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


def read(path: Path, size: int) -> tuple[list[dict], Reader]:
    with opened(path) as stream:
        reader = Reader(stream, PLAIN, size)
        events = [event for piece in reader.slices() for event in piece.events]
    return events, reader


def places(reader: Reader) -> np.ndarray:
    return np.array(reader.document.places, np.int64).reshape(-1, 4)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS, LAYOUTS, st.sampled_from([64, 100, 333, 4096]), st.booleans(), st.booleans())
def test_any_valid_document_gives_what_the_standard_library_gives(tmp_path, events, layout, size, bare, packed):
    around = {"schemaVersion": 1, "traceEvents": events, "late": {"rank": 3}, "more": [{"name": "x", "ph": "X"}]}
    text = json.dumps(events if bare else around, **layout).encode()
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(text) if packed else text)
    found, reader = read(path, size)
    assert found == events
    assert reader.document.mends.counts == {}
    assert reader.document.elements == len(events)
    assert reader.document.metadata == ({} if bare else {k: v for k, v in around.items() if k != "traceEvents"})
    for record, event in enumerate(events):
        assert event_at(path, places(reader), record) == event


def test_slices_are_about_as_large_as_asked(tmp_path):
    events = [{"ph": "X", "name": f"event {n}", "ts": n} for n in range(5000)]
    path = tmp_path / "trace"
    path.write_text(json.dumps({"traceEvents": events}))
    _, reader = read(path, 10_000)
    sizes = [length for _, length, _, _ in reader.document.places]
    assert max(sizes) <= 10_000
    assert min(sizes[:-2]) > 8_000


def test_lists_of_objects_in_args_do_not_stop_the_fast_path(tmp_path):
    events = [{"ph": "X", "name": "e", "args": {"list": [{"name": "a"}, {"name": "b"}]}} for _ in range(400)]
    path = tmp_path / "trace"
    path.write_text(json.dumps(events))
    found, reader = read(path, 2_000)
    assert found == events
    assert len(reader.document.places) > 10


def test_an_event_larger_than_a_slice(tmp_path):
    events = [{"ph": "X", "name": "a"}, {"ph": "X", "name": "b" * 5000}, {"ph": "X", "name": "c"}]
    path = tmp_path / "trace"
    path.write_text(json.dumps({"traceEvents": events}))
    assert read(path, 64)[0] == events


def test_a_mark_of_byte_order_is_no_harm(tmp_path):
    path = tmp_path / "trace"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1, "traceEvents": [{"ph": "X"}]}')
    found, reader = read(path, 64)
    assert found == [{"ph": "X"}]
    assert reader.document.metadata == {"a": 1}


@pytest.mark.parametrize("text", ["{}", '{"events": []}', "hello", '{"traceEvents": 3}'])
def test_no_array_is_an_error(tmp_path, text):
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(TracehoundError, match="no trace events"):
        read(path, 64)


def test_a_record_that_does_not_exist(tmp_path):
    path = tmp_path / "trace"
    path.write_text('[{"ph": "X"}]')
    _, reader = read(path, 64)
    with pytest.raises(TracehoundError, match="no event 5"):
        event_at(path, places(reader), 5)


GOOD = [{"ph": "X", "name": f"n{n}", "ts": n, "args": {"x": n}} for n in range(60)]


def damaged(tmp_path: Path, text: str | bytes) -> tuple[list[dict], dict[tuple[str, str], tuple[int, int]]]:
    path = tmp_path / "trace"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    found, reader = read(path, 300)
    for record, event in enumerate(found):
        assert event_at(path, places(reader), record) == event
    return found, reader.document.mends.counts


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


def test_an_event_beyond_repair_is_dropped_and_keeps_its_ordinal(tmp_path):
    found, counts = damaged(tmp_path, json.dumps({"traceEvents": GOOD}).replace('"n30", "ts": 30', '"n30" "ts" 30'))
    assert found[30] == {}
    assert [event for event in found if event] == GOOD[:30] + GOOD[31:]
    assert list(counts) == [("dropped", "event that is no JSON")]


def test_damage_beside_lists_of_objects_does_not_end_the_array(tmp_path):
    events = [{**event, "args": {"l": [{"name": 1}, {"name": 2}]}} for event in GOOD]
    found, _ = damaged(tmp_path, json.dumps({"traceEvents": events}).replace('"n30", "ts": 30', '"n30" "ts" 30'))
    assert [event for event in found if event] == events[:30] + events[31:]


def test_invalid_utf8_is_replaced(tmp_path):
    data = json.dumps({"traceEvents": GOOD}).encode().replace(b'"n30"', b'"n\xff"').replace(b'"n40"', b'"n\\udc00"')
    path = tmp_path / "trace"
    path.write_bytes(data)
    found, reader = read(path, 300)
    assert [found[30]["name"], found[40]["name"]] == ["n\ufffd", "n\ufffd"]
    assert [event["ts"] for event in found] == list(range(60))
    assert ("repaired", "bytes that are no UTF-8") in reader.document.mends.counts


@pytest.mark.parametrize("left", [40, 1000, 2500])
def test_a_cut_file_keeps_its_whole_events(tmp_path, left):
    text = json.dumps({"traceEvents": GOOD})[:left]
    found, counts = damaged(tmp_path, text)
    whole = [event for event in found if event]
    assert whole == GOOD[: len(whole)]
    assert len(whole) == text.count("}}")
    assert ("repaired", "the array of events has no end") in counts


def test_elements_that_are_no_events_keep_their_place(tmp_path):
    found, counts = damaged(tmp_path, json.dumps([GOOD[0], None, 3, [GOOD[1]], GOOD[2], {}]))
    assert found == [GOOD[0], {}, {}, {}, GOOD[2], {}]
    assert counts["dropped", "array element that is no event"][0] == 3


def test_metadata_that_is_cut_is_noted(tmp_path):
    found, counts = damaged(tmp_path, '{"traceEvents": [{"ph": "X"}], "distributedInfo": {"rank": 3')
    assert found == [{"ph": "X"}]
    assert list(counts) == [("dropped", "facts around the events that are no JSON")]
