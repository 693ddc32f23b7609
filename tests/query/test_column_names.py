"""What the columns of an answer are called, and that they keep their units under these names."""

from __future__ import annotations

import pytest

from building import Building, stream
from tracehound.query import answer, prepare


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


def called(statement: str) -> dict[str, str]:
    built = Building("one")
    built.event(stream(0, 7), "gemm", 1, 5, "kernel")
    found = answer(prepare(statement), built.trace())
    assert found.table.columns == [column.name for column in found.columns]
    return {column.name: column.unit for column in found.columns}
