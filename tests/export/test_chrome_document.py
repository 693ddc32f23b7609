"""The commas and brackets of a document, and its times."""

from __future__ import annotations

import io
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.export.chrome_document import EVENT_SEPARATOR, ChromeDocument, format_us


def document(
    *pieces: list[bytes], before: dict[str, object] | None = None, behind: dict[str, object] | None = None
) -> str:
    file = io.BytesIO()
    writing = ChromeDocument(file, {})
    writing.begin(before or {})
    for piece in pieces:
        writing.add(EVENT_SEPARATOR.join(piece))
    writing.end(behind or {})
    return file.getvalue().decode()


@pytest.mark.parametrize("pieces", [[], [[]], [[b"{}"]], [[], [b"{}", b"{}"], [], [b"{}"]]])
def test_events_are_separated_however_they_come(pieces: list[list[bytes]]) -> None:
    assert json.loads(document(*pieces))["traceEvents"] == [{} for piece in pieces for _ in piece]


def test_facts_stand_before_and_behind() -> None:
    found = document([b"{}"], before={"schemaVersion": 1}, behind={"trace\nName": "é", "empty": None})
    assert json.loads(found) == {"schemaVersion": 1, "traceEvents": [{}], "trace\nName": "é", "empty": None}
    assert found.index("schemaVersion") < found.index("traceEvents") < found.index("empty")


def test_it_begins_once() -> None:
    file = io.BytesIO()
    writing = ChromeDocument(file, {})
    writing.begin({"a": 1})
    writing.begin({"a": 2})
    writing.end({})
    assert json.loads(file.getvalue()) == {"a": 1, "traceEvents": []}


@given(st.integers(-(10**24), 10**24))
def test_times_lose_nothing(ps: int) -> None:
    assert Decimal(format_us(ps)) * 1_000_000 == ps


def test_times_are_as_short_as_they_can_be() -> None:
    assert [format_us(0), format_us(1_500), format_us(-1_000), format_us(1_784_000_000_000_000_123_000)] == [
        "0.000",
        "0.001500",
        "-0.001",
        "1784000000000000.123",
    ]
