"""The elements of a file as text: what is sound stays as it is, what is not becomes sound."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.formats import KINETO
from tracehound.formats.json.array_window import DEFAULT_SIZES, ChunkSizes
from tracehound.formats.json.json_document import encode_json, iterate_segment_texts

SMALL = ChunkSizes(chunk=400, segment=1500, preview=120)


def texts(path: Path, sizes: ChunkSizes = DEFAULT_SIZES) -> list[bytes]:
    return [bytes(text) for _, slices in iterate_segment_texts(path, sizes=sizes) for piece in slices for text in piece]


def written(folder: Path, *events: str) -> Path:
    path = folder / "trace.json"
    path.write_text('{"schemaVersion": 1, "traceEvents": [' + ",\n  ".join(events) + '], "traceName": "x"}')
    return path


@pytest.mark.parametrize("sizes", [DEFAULT_SIZES, SMALL])
def test_sound_elements_keep_every_byte(tmp_path: Path, sizes: ChunkSizes) -> None:
    events = [
        f'{{ "ph": "X",  "cat":"cpu_op","name": "é {n}", "ts": {n}.5000, "dur":1e1, "args":{{"a" : [1, {{"b":2}}]}} }}'
        for n in range(100)
    ]
    assert texts(written(tmp_path, *events), sizes) == [event.encode() for event in events]


@pytest.mark.parametrize(
    ("damaged", "value"),
    [
        (r'{"ph": "X", "name": "C:\dir", "ts": 1}', {"ph": "X", "name": "C:\\dir", "ts": 1}),
        ('{"ph": "X", "ts": 1, "args": {"loss": NaN}}', {"ph": "X", "ts": 1, "args": {"loss": None}}),
        ('{"ph": "X", "ts": 1,}', {"ph": "X", "ts": 1}),
    ],
)
def test_damaged_elements_are_written_anew(tmp_path: Path, damaged: str, value: object) -> None:
    good = '{"ph": "X", "name": "good", "ts": 1784000000000000.123, "big": 123456789012345678901234567890}'
    found = texts(written(tmp_path, good, damaged, good))
    assert [json.loads(text) for text in found] == [json.loads(good), value, json.loads(good)]
    assert b"1784000000000000.123" in found[0]


def test_bytes_that_are_no_text_become_text(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(b'[{"ph": "X", "name": "a\xff", "ts": 1}]')
    assert json.loads(texts(path)[0])["name"] == "a\ufffd"


def test_what_is_no_object_is_left_out(tmp_path: Path) -> None:
    events = ['{"ph": "X", "ts": 1}', '{"ph": "i", "ts": 2}']
    assert texts(written(tmp_path, events[0], "null", "[1]", events[1])) == [event.encode() for event in events]


def test_a_cut_gzip_gives_what_is_whole(tmp_path: Path) -> None:
    events = [f'{{"ph": "X", "name": "n{n}", "ts": {n}}}' for n in range(5000)]
    path = tmp_path / "trace.json.gz"
    packed = gzip.compress(written(tmp_path, *events).read_bytes())
    path.write_bytes(packed[: len(packed) // 2])
    found = texts(path)
    assert 1000 < len(found) < 5000
    assert found == [event.encode() for event in events[: len(found)]]


def test_elements_are_numbered_as_the_reader_does(samples: Path) -> None:
    for path in sorted(samples.glob("torch_*/*.pt.trace.json.gz")):
        part = KINETO.read(path)
        assert len(texts(path)) == int(part.places[-1, [2, 3]].sum())


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]))
        | st.floats(allow_nan=False, allow_infinity=False),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    )
)  # fmt: skip
def test_any_value_of_json_is_written(value: object) -> None:
    assert json.loads(encode_json(value)) == value


def test_what_json_cannot_hold_is_null() -> None:
    assert encode_json({"a": float("inf"), "b": [float("nan")]}) == b'{"a":null,"b":[null]}'
