"""What the columns of an answer are called, and that they keep their units under these names."""

from __future__ import annotations

import pytest

from building import Building, stream, thread
from tracehound.query import answer_query, prepare_query


@pytest.mark.parametrize(
    ("listed", "columns"),
    [
        ("kind, sum(duration), max(duration)", {"kind": "text", "sum(duration)": "time", "max(duration)": "time"}),
        ("count(distinct name), count(bytes)", {"count(distinct name)": "count", "count(bytes)": "count"}),
        ("COUNT(*), count(*) AS n", {"count": "count", "n": "count"}),
        ("sum(e.duration) / 1us, max(\n  bytes)", {"sum(e.duration) / 1us": "number", "max( bytes)": "bytes"}),
        ('sum(duration) total, sum(self) "Self"', {"total": "time", "Self": "time"}),
        ("cast(sum(bytes) as bigint), 1", {"cast(sum(bytes) as bigint)": "bytes", "1": "count"}),
        ("min(start) -- the first\n, max(end)", {"min(start)": "instant", "max(end)": "instant"}),
        ('count(*) "a:b"', {"a:b": "count"}),
        ("max(duration) as duration, min(duration)", {"duration": "time", "min(duration)": "time"}),
        ("max(case when bytes > 1 then 1 else 0 end)", {"max(case when bytes > 1 then 1 else 0 end)": "count"}),
    ],
)
def test_a_column_without_a_name_is_called_as_it_was_written(listed: str, columns: dict[str, str]) -> None:
    rest = "FROM events e GROUP BY kind" if listed.startswith("kind") else "FROM events e"
    for statement in (f"SELECT {listed} {rest}", f"WITH x AS (SELECT 1) SELECT {listed} {rest}"):
        assert called(statement) == columns


def test_what_stands_for_several_columns_keeps_their_names() -> None:
    everything = called("SELECT * FROM events")
    assert called("SELECT 1ms, *, duration * 2 FROM events") == {"1ms": "time", **everything, "duration * 2": "time"}
    assert called("SELECT duration, end FROM (SELECT max(duration) AS duration, max(end) AS end FROM events)") == {
        "duration": "time",
        "end": "instant",
    }
    assert called("(SELECT max(self) FROM events)") == {"max(self)": "time"}


@pytest.mark.parametrize(
    ("statement", "unit", "meaning"),
    [
        ("SELECT step AS bytes FROM events", "number", "step that it belongs to: by its launch, else by its start"),
        ("SELECT bytes AS step FROM events", "bytes", "moved, or the message of a collective"),
        ("SELECT sum(bytes) total FROM events", "bytes", "moved, or the message of a collective"),
        ("SELECT max(abs(e.bytes)) OVER (PARTITION BY kind) AS b FROM events e", "bytes", "moved"),
        ("SELECT e.self / s.duration AS busy FROM steps s JOIN events e ON s.step = e.step", "number", ""),
        ("SELECT s.busy AS b FROM events e JOIN steps s ON s.step = e.step", "share", "device works"),
        ("SELECT s.duration FROM events e JOIN steps s ON s.step = e.step", "time", "from the step's mark to the end"),
        ("SELECT bytes FROM (SELECT step AS bytes FROM events) AS t", "number", "step that it belongs to"),
        ("SELECT t.bytes FROM (SELECT step * 2 AS bytes FROM events) AS t", "count", ""),
        ("SELECT * FROM (SELECT depth * 2 bytes FROM events) AS t", "count", ""),
        ("SELECT bytes FROM (SELECT bytes * 2 FROM events) AS t", "count", ""),
        ("WITH k(bytes) AS (SELECT depth FROM events) SELECT bytes FROM k", "count", ""),
        ("WITH k AS (SELECT bytes AS b FROM events) SELECT b AS bytes FROM k", "bytes", "moved, or the message"),
        ("WITH k AS (SELECT bytes AS b FROM (SELECT step AS b, bytes FROM events)) SELECT b FROM k", "count", ""),
    ],
)
def test_a_name_given_to_a_column_lends_it_nothing(statement: str, unit: str, meaning: str) -> None:
    """What comes unchanged from a table keeps its unit and meaning under any name, as sums and extremes of it do."""
    built = Building("one")
    built.event(stream(0, 7), "gemm", 1, 5, "kernel", bytes=7)
    built.event(thread(), "ProfilerStep#1", 0, 9, "step")
    (column,) = answer_query(prepare_query(statement), built.trace()).columns
    assert column.unit == unit
    assert column.meaning.startswith(meaning)
    assert bool(column.meaning) == bool(meaning)


def called(statement: str) -> dict[str, str]:
    built = Building("one")
    built.event(stream(0, 7), "gemm", 1, 5, "kernel")
    found = answer_query(prepare_query(statement), built.trace())
    assert found.table.columns == [column.name for column in found.columns]
    return {column.name: column.unit for column in found.columns}
