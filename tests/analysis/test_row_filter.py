"""Filters: every sentence means what plain Python says it means, and everything else is one line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from results import EVERY_UNIT, every_unit
from tracehound.analysis.result import HOST_ACTIVITY, Column, Result
from tracehound.analysis.row_filter import filter_condition, filter_result
from tracehound.draw.notes import note_texts
from tracehound.errors import TracehoundError
from tracehound.model.notes import text_note
from tracehound.model.units import PS_PER_UNIT

Row = dict[str, Any]

COLUMNS = (
    Column("name", "text", ""),
    Column("category", "text", ""),
    Column("count", "count", ""),
    Column("self", "time", ""),
    Column("compute_share", "share", "", "span"),
    Column("size", "bytes", ""),
    Column("bandwidth", "rate", ""),
    Column("start", "instant", ""),
    Column("inferred", "flag", ""),
    Column("host", "host", ""),
    Column("event", "id", ""),
)
KEYS = [column.name for column in COLUMNS]


def did(thread: str, event: str, inside: str | None = None) -> list[Row]:
    return [{"thread": thread, "event": event, "inside": inside, "share": 0.5, "time": 1}]


VALUES: list[tuple[Any, ...]] = [
    ("gemm<float>", "kernel", 12, 2 * PS_PER_UNIT["ms"], 0.5, 2**20, 20e9, 0, True, did("python", "aten::mm"), 1),
    ("ncclAllReduce", "collective", 3, 500 * PS_PER_UNIT["us"], 0.05, 10**6, 1e9, PS_PER_UNIT["s"], False, [], 2),
    ("nccl:all_reduce", None, 0, None, math.nan, None, math.inf, 5, None, None, 3),
    ("a = b", "and", 7, 1, 1.0, 0, 0.0, 9, False, did("loader", "read", "load batch"), 4),
]
SCHEMA = {
    "count": pl.Int64, "self": pl.Int64, "compute_share": pl.Float64, "size": pl.Int64, "bandwidth": pl.Float64,
    "inferred": pl.Boolean, "host": HOST_ACTIVITY,
}  # fmt: skip
ROWS = [dict(zip(KEYS, values, strict=True)) for values in VALUES]
TABLE = pl.DataFrame(ROWS, schema_overrides=SCHEMA)


def names(text: str) -> list[str]:
    return TABLE.filter(filter_condition(text, COLUMNS))["name"].to_list()


def test_all_columns_are_named_where_none_is_near() -> None:
    many = [Column(f"column_{letter}", "count", "") for letter in "abcdefghijklm"]
    with pytest.raises(
        TracehoundError, match=r"there are column a, .*, column j, column k, column l, column m; in quotes it is text"
    ):
        filter_condition("zzz > 1", many)


def refused(text: str) -> TracehoundError:
    with pytest.raises(TracehoundError) as raised:
        filter_condition(text, COLUMNS)
    assert "\n" not in str(raised.value)
    return raised.value


def known(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))


EXAMPLES: list[tuple[str, Callable[[Row], bool]]] = [
    ("", lambda _: True),
    ("GEMM", lambda r: "gemm" in r["name"].lower()),
    ("gemm<float>", lambda r: r["name"] == "gemm<float>"),
    ("~all.?reduce", lambda r: re.search("all.?reduce", r["name"], re.IGNORECASE) is not None),
    ("~ ^nccl", lambda r: r["name"].startswith("nccl")),
    ('"a = b"', lambda r: r["name"] == "a = b"),
    ("self > 1ms", lambda r: known(r["self"]) and r["self"] > PS_PER_UNIT["ms"]),
    ("self>1ms", lambda r: known(r["self"]) and r["self"] > PS_PER_UNIT["ms"]),
    ("self >= 2 ms", lambda r: known(r["self"]) and r["self"] >= 2 * PS_PER_UNIT["ms"]),
    ("SELF < 0.5ms", lambda r: known(r["self"]) and r["self"] < PS_PER_UNIT["ms"] // 2),
    ("self = 500us", lambda r: r["self"] == 500 * PS_PER_UNIT["us"]),
    ("self != 500us", lambda r: r["self"] != 500 * PS_PER_UNIT["us"]),
    ("self > 0", lambda r: known(r["self"]) and r["self"] > 0),
    ("start >= 1s", lambda r: r["start"] >= PS_PER_UNIT["s"]),
    ("self > start", lambda r: known(r["self"]) and r["self"] > r["start"]),
    ("compute share >= 50%", lambda r: known(r["compute_share"]) and r["compute_share"] >= 0.5),
    ("compute_share < .1", lambda r: known(r["compute_share"]) and r["compute_share"] < 0.1),
    ("comp >= 0.5", lambda r: known(r["compute_share"]) and r["compute_share"] >= 0.5),
    ("size = 1MiB", lambda r: r["size"] == 2**20),
    ("size = 1MB", lambda r: r["size"] == 10**6),
    ("size < 1,000,001", lambda r: known(r["size"]) and r["size"] < 1_000_001),
    ("bandwidth > 10GB/s", lambda r: known(r["bandwidth"]) and r["bandwidth"] > 10e9),
    ("count <= 3", lambda r: r["count"] <= 3),
    ("count < 1e30", lambda _: True),
    ("inferred", lambda r: any("inferred" in (r[k] or "") for k in ("name", "category"))),
    ("inferred = yes", lambda r: r["inferred"] is True),
    ("inferred != yes", lambda r: r["inferred"] is not True),
    ("inferred and count > 0", lambda r: r["inferred"] is True and r["count"] > 0),
    ('host ~ "MM|batch"', lambda r: any("mm" in d["event"] or d["inside"] for d in r["host"] or [])),
    ("host = loader", lambda r: any(d["thread"] == "loader" for d in r["host"] or [])),
    ("host !~ .", lambda r: not r["host"]),
    ('name ~ "all.?reduce"', lambda r: re.search("all.?reduce", r["name"], re.IGNORECASE) is not None),
    ("name ~ all.?reduce", lambda r: re.search("all.?reduce", r["name"], re.IGNORECASE) is not None),
    ('name ~ "(?-i)all"', lambda r: "all" in r["name"]),
    ("category !~ coll", lambda r: "coll" not in (r["category"] or "")),
    ('name = "a = b"', lambda r: r["name"] == "a = b"),
    ('category = "and"', lambda r: r["category"] == "and"),
    ('category = ""', lambda _: False),
    ("nccl and count > 0", lambda r: "nccl" in r["name"] and r["count"] > 0),
    ('not "nccl"', lambda r: "nccl" not in r["name"]),
    ("not count > 3", lambda r: not r["count"] > 3),
    ("not (self > 1ms)", lambda r: not (known(r["self"]) and r["self"] > PS_PER_UNIT["ms"])),
    ("not not count > 3", lambda r: r["count"] > 3),
    ("count > 3 and count < 10 or count = 0", lambda r: 3 < r["count"] < 10 or r["count"] == 0),
    ("count = 0 or count > 3 and count < 10", lambda r: r["count"] == 0 or 3 < r["count"] < 10),
    ("(count = 0 or count > 3) and name ~ nccl", lambda r: r["count"] == 0),
    ("COUNT > 3 AND NOT name ~ gemm", lambda r: r["count"] > 3 and "gemm" not in r["name"]),
]


RENAMED = (
    Column("cause", "text", ""),
    Column("utilization", "share", "", "span"),
    Column("utilization_curve", "count", ""),
    Column("rematerialized", "flag", ""),
)
RENAMED_ROWS = pl.DataFrame(
    {
        "cause": ["synchronization", "launch", "synchronisation"],  # the last is a name from a trace
        "utilization": [0.5, 0.05, None],
        "utilization_curve": [1, 2, 3],
        "rematerialized": [True, False, None],
    }
)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("utilisation > 10%", [0]),
        ("Utilisation > 10%", [0]),
        ("utilisation curve > 1", [1, 2]),
        ("rematerialised = yes", [0]),
        ("remateriali = yes", [0]),
        ("rematerialis = yes", [0]),
        ("rematerialised and utilization_curve > 0", [0]),
        ("cause = synchronisation", [0, 2]),
        ('cause != "synchronisation"', [1]),
        ("cause = synchronization", [0]),
        ("cause ~ synchronisation", [2]),
    ],
)
def test_older_names_of_columns_and_values_are_known(text: str, rows: list[int]) -> None:
    kept = RENAMED_ROWS.with_row_index().filter(filter_condition(text, RENAMED))
    assert kept["index"].to_list() == rows


@pytest.mark.parametrize(("text", "says"), EXAMPLES, ids=[text for text, _ in EXAMPLES])
def test_a_filter_is_what_python_says(text: str, says: Callable[[Row], bool]) -> None:
    assert names(text) == [row["name"] for row in ROWS if says(row)]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("durr > 1ms", "no column 'durr'; there are name"),
        ("selff > 1ms", "no column 'selff'; did you mean self?"),
        ("event = 1", "no column 'event'"),
        ("c > 1 and count > 1", "no column 'c'; there are category, count, compute share; in quotes it is text"),
        ("self > 1", "character 8: '1' is not a time; write a number and a unit: 12.5ms, 300us, 1s"),
        ("self > 1 and count > 1", "'1' is not a time"),
        ("self >", "nothing to compare self with; such as 1.5ms"),
        ("self > fast", "'fast' is not a value of self"),
        ("self > count", "self and count cannot be compared"),
        ("self ~ 1ms", "self is not text; compare it: self > 1.5ms"),
        ("name > gemm", "name is text; compare it with = != ~ or !~"),
        ("name ~", "name ~ what?"),
        ('name ~ "("', "not a regular expression: unclosed group"),
        ('name ~ ""', "without a character"),
        ("~(", "not a regular expression: unclosed group"),
        ("~a{1000}{1000}", "not a regular expression: too large"),
        ('name ~ "gem', "a quote that does not end"),
        ("share > 10", "no column 'share'"),
        ("compute share > 10", "10 is not a value of compute share; such as 10%"),
        ("count > 3ms", "3ms is not a value of count; such as 100"),
        ("size > 3s", "3s is not a value of size; such as 64MiB"),
        ("inferred > yes", "inferred is yes or no"),
        ("count > 3 count < 5", "'count < 5' where and, or or the end should be"),
        ("count > 3 and", "a column, a text or a bracket should be here"),
        ("(count > 3", "a bracket that does not close"),
        ("((((", "a column, a text or a bracket should be here"),
        ("(gemm", "a bracket that does not close; in quotes it is text"),
        ("and (", "a column, a text or a bracket should be here"),
        ("count > 3)", "')' where and, or or the end should be"),
        ("(" * 60 + "count > 3", "more than 40 brackets"),
        ("x" * 2000, "2,000 characters to look for"),
        ("name = \x1b[2J( x", "where and, or or the end should be"),
        ("\ud800", "not UTF-8"),
    ],
)
def test_what_is_no_filter_is_one_line(text: str, what: str) -> None:
    assert what in str(refused(text))
    assert "\x1b" not in str(refused(text))


BRACKETED = [
    "void f(int",
    "()",
    "f()",
    ">>",
    "(anonymous namespace)::f(",
    "(anonymous namespace)",
    "forward(",
    "gemm<float>(",
    "a) (b",
    '"("',
    "or",
]


@pytest.mark.parametrize("text", BRACKETED)
def test_a_name_may_have_brackets(text: str) -> None:
    told = text.strip('"')
    name = f"x {told} y"
    rows = pl.DataFrame({"name": [name, "another"]})
    found = filter_result(Result("ops", "Ops", COLUMNS[:1], rows, 2), text)
    assert found.table["name"].to_list() == [name]


def test_the_place_is_told() -> None:
    assert refused("count > 3 and self > fast").where == "filter, character 22"


WORDS = st.sampled_from(
    [*KEYS, "and", "or", "not", "(", ")", "=", "!=", "<", ">", "<=", ">=", "~", "!~", '"', "'", "1ms", "5", "10%",
     "3MiB", "yes", "gemm", '"all.?reduce"', "[", "*", ".", " ", "-1", "1e999", "\\", "µs", "9" * 40]
)  # fmt: skip


@given(st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=12).map(" ".join), st.lists(WORDS).map("".join)))
def test_any_text_filters_or_is_one_line(text: str) -> None:
    keeps, said = pl.lit(value=True), ""
    try:
        keeps = filter_condition(text, COLUMNS)
    except TracehoundError as error:
        said = str(error)
    assert not said or said.isprintable()
    chosen = TABLE.select(keeps.alias("keeps"))["keeps"]
    assert chosen.dtype == pl.Boolean
    assert chosen.null_count() == 0


NUMBERS = st.one_of(st.none(), st.integers(-5, 5))


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=8), st.data())
def test_random_sentences_mean_what_python_says(values: list[tuple[int | None, int | None]], data: Any) -> None:
    columns = (Column("a", "count", ""), Column("b", "count", ""))
    signs = {"=": "__eq__", "!=": "__eq__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}

    def compared(row: tuple[int | None, int | None], side: int, sign: str, to: int | None) -> bool:
        left, right = row[side], row[1 - side] if to is None else to
        holds = left is not None and right is not None and getattr(left, signs[sign])(right)
        return not holds if sign == "!=" else holds

    def sentence(depth: int) -> tuple[str, Callable[[tuple[int | None, int | None]], bool]]:
        kind = data.draw(st.sampled_from(["compare", "compare", "not", "and", "or"])) if depth else "compare"
        if kind == "compare":
            side, sign = data.draw(st.integers(0, 1)), data.draw(st.sampled_from(sorted(signs)))
            to = data.draw(NUMBERS)
            written = "ba"[side] if to is None else str(to)
            return f"{'ab'[side]} {sign} {written}", lambda row: compared(row, side, sign, to)
        left, says = sentence(depth - 1)
        if kind == "not":
            return f"not ({left})", lambda row: not says(row)
        right, other = sentence(depth - 1)
        if kind == "and":
            return f"({left}) and ({right})", lambda row: says(row) and other(row)
        return f"({left} or {right})", lambda row: says(row) or other(row)

    text, says = sentence(3)
    table = pl.DataFrame(values, schema={"a": pl.Int64, "b": pl.Int64}, orient="row")
    assert table.filter(filter_condition(text, columns)).rows() == [row for row in values if says(row)]


def test_a_filtered_result_says_how_many_rows_of_how_many() -> None:
    result = Result("ops", "Ops", COLUMNS, TABLE, TABLE.height, (text_note("a note"),))
    found = filter_result(result, "count > 3")
    assert found.shown_rows_text == "2 of 4 rows"
    assert note_texts(found.notes) == ("where count > 3: 2 of 4 rows", "a note")
    shorter = filter_result(result, "count > 0", top=1)
    assert shorter.shown_rows_text == "1 of 4 rows"
    assert note_texts(shorter.notes)[0] == "where count > 0: 3 of 4 rows"
    assert shorter.table["name"].to_list() == ["gemm<float>"]


def test_every_unit_can_be_compared() -> None:
    table = every_unit().table
    for column in EVERY_UNIT:
        if column.unit != "id":
            text = f'{column.name} = "x"' if column.unit in ("text", "host") else f"{column.name} = 0"
            text = f"{column.name} = yes" if column.unit == "flag" else text
            assert table.filter(filter_condition(text, EVERY_UNIT)).height <= table.height
