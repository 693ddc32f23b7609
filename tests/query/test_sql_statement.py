"""Statements: what may run, what is added to SQL, and where in the text something is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import TOO_FAST, growth
from tracehound.errors import TracehoundError
from tracehound.query.sql_statement import parse_statement


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("SELECT 1.5ms", "SELECT CAST(1500000000 AS INTERVAL)"),
        ("SELECT -2us", "SELECT -1 * CAST(2000000 AS INTERVAL)"),
        ("SELECT start -2us", "SELECT start -CAST(2000000 AS INTERVAL)"),
        ("SELECT 1.5, .5, 2e3, 7", "SELECT 1.5e0, .5e0, 2e3, 7"),
        ("SELECT start, end, on", 'SELECT start, "end", "on"'),
        ("SELECT CASE WHEN end > 1 THEN end ELSE 2 END", 'SELECT CASE WHEN "end" > 1 THEN "end" ELSE 2 END'),
        ("SELECT '1ms -- ''x'", "SELECT '1ms -- ''x'"),
        ('SELECT "1ms"', 'SELECT "1ms"'),
        ("SELECT 1 -- 2ms\nFROM a /* 'x */;", "SELECT 1  \nFROM a  "),
        ("SELECT a1ms, b.c", "SELECT a1ms, b.c"),
        ('SELECT "from", a IS DISTINCT FROM b FROM c', 'SELECT "from", a IS DISTINCT FROM b FROM c'),
        ("SELECT a / 1s * 1000000000", "SELECT a / CAST(1000000000000 AS INTERVAL) * 1000000000"),
    ],
)
def test_times_decimals_and_reserved_columns_are_written_for_polars(text: str, sql: str) -> None:
    assert parse_statement(text).sql.rstrip(" ;") == sql.rstrip()


BOTH = "'synchronisation', 'synchronization'"


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("a = 'synchronisation'", f"a IN ({BOTH})"),
        ("a=='synchronisation'", f"a IN ({BOTH})"),
        ("a != 'synchronisation' AND b", f"a NOT IN ({BOTH}) AND b"),
        ("a <> 'synchronisation'", f"a NOT IN ({BOTH})"),
        ("a IN ('x', 'synchronisation')", f"a IN ('x', {BOTH})"),
        ("a NOT IN ('synchronisation')", f"a NOT IN ({BOTH})"),
        *(
            (same, same)
            for same in (
                "a = 'synchronization'", "a = 'a synchronisation'", "a LIKE 'synchronisation'",
                "a <= 'synchronisation'",
                "a = f('x', 'synchronisation')", "a IN (f('synchronisation'))", 'a = "synchronisation"',
            )
        ),
    ],
)  # fmt: skip
def test_a_value_with_an_older_name_is_compared_with_both(text: str, sql: str) -> None:
    found = parse_statement(f"SELECT 1 FROM t WHERE {text}")
    assert found.sql.split("WHERE ")[1].split() == sql.split()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "an empty query"),
        ("-- nothing", "an empty query"),
        ("DROP TABLE events", "query, column 1: DROP is not a SELECT"),
        ("explain select 1", "explain is not a SELECT"),
        ("events", "put the whole statement in quotes"),
        ("SELECT FROM events", "query, column 8: no columns between SELECT and FROM; * stands for all of them"),
        ("SELECT 1 FROM (select distinct from events)", "query, column 32: no columns between SELECT and FROM"),
        ("SELECT 1; SELECT 2", "query, column 9: more than one statement"),
        ("SELECT 'a", "query, column 8: text that does not end"),
        ('SELECT "a', 'a quoted name that does not end; close its "'),
        ("SELECT `a", "a quoted name that does not end; close its `"),
        ("SELECT $$a$$", "$ has no meaning here"),
        ("SELECT\n  E'a'", "query, line 2, column 3: text with a prefix, E'...'"),
        ("SELECT INTERVAL '1 ms'", "write a number and its unit: 1.5ms"),
        ("SELECT 99999999999s", "is longer than a trace can be"),
        ("SELECT 10s * 1000000000 AS x", "query, column 14: longer than a time can be"),
        ("SELECT 1ms, 1e999 * 2 * 10s", "query, column 25: longer than a time can be"),
        ("SELECT " + "1+" * 40_000 + "1", "a query of 80,008 characters"),
        *(
            (f"SELECT * FROM {name} ('/etc/passwd')", "opens files; a query sees the tables of the trace alone")
            for name in ("read_csv", "READ_Parquet", '"read_ipc"', "`read_json`", "read_ndjson/**/", "scan_delta")
        ),
        # An escape that polars knows and plain SQL does not must not hide what follows it.
        ("SELECT E'\\'' || x FROM read_csv('a')", "text with a prefix"),
    ],
)
def test_what_may_not_run_is_refused_in_one_line(text: str, why: str) -> None:
    with pytest.raises(TracehoundError) as raised:
        parse_statement(text)
    assert why in str(raised.value)
    assert "\n" not in str(raised.value)


@given(st.lists(st.sampled_from(["SELECT", "x", "1.5ms", "2.5", "'a''b'", ",", "\n", " ", "-- c\n", "end", "é"])))
def test_places_are_those_of_the_text(words: list[str]) -> None:
    statement = parse_statement("SELECT " + " ".join(words) + " needle")
    line = statement.sql.count("\n", 0, statement.sql.index("needle")) + 1
    column = statement.sql.index("needle") - statement.sql.rfind("\n", 0, statement.sql.index("needle"))
    assert statement.position_in_text(line, column) == statement.position_of_word("needle") != ""


def test_a_long_number_takes_as_long_as_it_is() -> None:
    assert growth(lambda size: parse_statement(f"SELECT {'1' * size}.5")) < TOO_FAST
