"""The compiled scanner against a slow version of it, on sound lists and on damaged ones."""

from __future__ import annotations

import gc
import json
import weakref
from random import Random
from types import SimpleNamespace

import pytest
from hunt import LISTS
from hypothesis import given
from hypothesis import strategies as st
from scanning import Members, Row, damaged, made, row

from tracehound.numeric import native

pytestmark = pytest.mark.skipif(native.library() is None, reason="nothing is compiled here")

STRINGS = st.text(max_size=40).map(json.dumps) | st.text(max_size=40).map(
    lambda text: json.dumps(text, ensure_ascii=False)
)
SCALARS = STRINGS | st.sampled_from(
    ["null", "true", "false", "0", "-0", "1e5", "-1.5E-3", "0.0001", "9" * 30, "12.5", "7"]
)
NUMBERS = (
    st.integers(-(2**64), 2**64).map(str)
    | st.decimals(-(10**17), 10**17, places=3).map("{:f}".format)
    | st.sampled_from(["4611686018427387.903", "4611686018427387.904", "999999999999999999", "1000000000000000000"])
)
DEEP = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda values: f"[{', '.join(values)}]")
        | st.lists(st.tuples(STRINGS, inner), max_size=3).map(
            lambda members: "{" + ",".join(f"{key}: {value}" for key, value in members) + "}"
        )
    ),
    max_leaves=6,
)
KEYS = st.sampled_from(['"ph"', '"ts"', '"id"', '"name"', '"pid"', '"other"', '""', '"\\u006eame"', '"nam"'])
TAGS = st.sampled_from(['"X"', '"X"', '"X"', '"s"', '"i"', '"XX"', '""'])
VALUES = NUMBERS | NUMBERS | SCALARS | DEEP | st.just('"odd:"')
BLANKS = st.sampled_from(["", " ", "\n\t", "\r\n    "])


@st.composite
def objects(draw: st.DrawFn) -> tuple[str, Row | None]:
    """An object as text, and what should be said of it."""
    members: Members = draw(st.lists(st.tuples(KEYS, VALUES), max_size=5))
    members = [(key, value) for key, value in members if key != '"ph"' or draw(st.booleans())]
    members.insert(draw(st.integers(0, len(members))), ('"ph"', draw(TAGS)))
    nested: Members = []
    if draw(st.booleans()):
        inner = st.sampled_from(['"id"', '"dims"', '"name"', '"group"', '"x"', '"id"', '"dims"'])
        nested = draw(st.lists(st.tuples(inner, VALUES), max_size=4))
        blank = draw(BLANKS)
        text = "{" + ",".join(f"{blank}{key}{blank}:{blank}{value}{blank}" for key, value in nested) + blank + "}"
        members.insert(draw(st.integers(0, len(members))), ('"args"', text))
    blank = draw(BLANKS)
    text = "{" + f"{blank},{blank}".join(f"{key}:{blank}{value}" for key, value in members) + blank + "}"
    return text, row(members, nested)


@given(st.lists(objects(), max_size=8), BLANKS)
def test_columns_are_those_of_the_slow_version(found, blank):
    text = f"[{blank}{f'{blank},{blank}'.join(text for text, _ in found)}{blank}]".encode()
    scan = made()
    for _ in range(2):  # the second time all keys are known
        got = scan.scan_list(memoryview(text))
        if b"\\ud8" in text.lower() or b"\\ud9" in text.lower() or got is None:
            assert got is None
            return
        keys = [scan.group_keys(group, 0) for group in (0, 1)]
        others = {line: (begin, end) for line, begin, end in got.others.tolist()}
        assert len(got.tags) == len(found)
        assert got.ascii == text.isascii()
        for line, (spelled, expected) in enumerate(found):
            if expected is None:
                begin, end = others.pop(line)
                assert text[begin:end] == spelled.encode()
            else:
                codes = got.codes[:, line]
                keyed = keys[0][codes[0]], keys[1][codes[1]]
                assert (chr(got.tags[line]), tuple(got.numbers[:, line]), keyed) == expected
        assert not others


def test_surrogates_are_refused_and_only_they():
    scan = made()
    assert scan.scan_list(memoryview(b'[{"name": "\\ud83d\\ude00"}]')) is None
    assert scan.scan_list(memoryview(b'[{"name": "\\u20ac\\n\\"\\\\\\/"}]')) is not None


def test_keys_are_numbered_as_they_come_and_forgotten():
    scan = made()
    names = [f'"name {n}"'.encode() for n in range(5000)]
    text = b"[%b]" % b",".join(b'{"ph":"X","name":%b}' % name for name in [*names, *names])
    got = scan.scan_list(memoryview(text))
    assert got.codes[0].tolist() == [*range(5000), *range(5000)]
    assert scan.group_keys(0, 0) == names
    assert scan.group_keys(0, 4990) == names[4990:]
    assert scan.group_keys(0, 5000) == []
    scan.forget_keys()
    assert scan.scan_list(memoryview(b'[{"ph":"X","name":"b"}]')).codes[0].tolist() == [0]
    assert scan.group_keys(0, 0) == [b'"b"']


@pytest.mark.parametrize("depth", [60, 64, 65, 5000])
def test_depth_has_a_limit(depth):
    text = b'[{"ph":"X","x":%b%b}]' % (b"[" * depth, b"]" * depth)
    assert (made().scan_list(memoryview(text)) is not None) == (depth <= 64)


@given(st.sampled_from(LISTS), st.integers(0, 2**32))
def test_what_is_taken_is_json(sound, seed):
    text = damaged(sound, Random(seed))
    got = made().scan_list(memoryview(text))
    if got is not None:
        found = json.loads(text.decode("utf-8", "replace"))
        assert len(found) == len(got.tags)
        assert all(isinstance(each, dict) for each in found)


def test_what_was_read_is_there_as_long_as_anybody_has_it():
    scan = made()
    freed = weakref.ref(scan)
    tags = scan.scan_list(memoryview(b'[{"ph":"X"}]')).tags
    del scan
    gc.collect()
    assert freed() is not None
    assert tags.tolist() == [ord("X")]
    del tags
    gc.collect()
    assert freed() is None


def test_what_the_library_holds_is_freed_where_it_has_no_room_for_more(monkeypatch):
    freed = []
    full = SimpleNamespace(scan_new=lambda *_: 7, scan_odd_starts=lambda *_: False, scan_free=freed.append)
    monkeypatch.setattr("tracehound.numeric.native.scanners.library", lambda: full)
    with pytest.raises(MemoryError):
        made()
    gc.collect()
    assert freed == [7]


def test_a_library_of_another_version_is_left_alone(monkeypatch):
    monkeypatch.setattr(native, "LIBRARY_VERSION", native.LIBRARY_VERSION + 1)
    assert native.library.__wrapped__() is None


def test_the_library_can_be_left_out(monkeypatch):
    monkeypatch.setenv("TRACEHOUND_NATIVE", "0")
    assert native.library.__wrapped__() is None
