"""The four forms of a result: they agree cell for cell, and each keeps its own promises."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable

import orjson
import polars as pl
import pytest

from results import EVIL, LONG, empty, every_unit, plain
from tracehound import __version__
from tracehound.analysis.result import Column, Result
from tracehound.draw.cell_text import columns_without_ids, format_cell, format_column
from tracehound.draw.text_table import UNLIMITED_WIDTH, TextLine
from tracehound.errors import TracehoundError
from tracehound.model.trace import Window
from tracehound.report import WRITERS, ReportHeader, ReportStyle, Summary, find_writer
from tracehound.report.csv_report import column_header
from tracehound.report.json_report import ROWS_PER_CHUNK
from tracehound.report.markdown_report import escape_markdown
from tracehound.report.report_header import HeaderTraceFile, ReportRank

FACTS = ReportHeader(
    name="job",
    files=(HeaderTraceFile("job/rank0.json", "kineto", 1234),),
    hosts=("host a",),
    ranks=(ReportRank(0, "GPU 0", "H100", "host a", inferred=True),),
    origin_ns=1_700_000_000_000_000_000,
    span=(0, 10**12),
    versions={"cuda runtime": "12.4"},
    window=Window(10_000_000_000, 20_000_000_000, ranks=(0,)),
)
ALL = ReportStyle(UNLIMITED_WIDTH)


def text_of(lines: Iterable[TextLine]) -> str:
    return "".join(f"{line.text}\n" for line in lines)


def written(form: str, result: Result, look: ReportStyle = ALL) -> str:
    return text_of(find_writer(form).write_result(FACTS, result, look))


def cells_of_markdown(text: str) -> list[list[str]]:
    rows = [line[2:-2] for line in text.splitlines() if line.startswith("| ")]
    split = [re.split(r"(?<!\\) \| ", row) for row in rows]
    return [[re.sub(r"\\(.)", r"\1", word) for word in row] for row in split]


def test_text_and_markdown_show_the_same_cells() -> None:
    result = every_unit()
    expected = [list(row) for row in zip(*(format_column(result, c) for c in columns_without_ids(result)), strict=True)]
    markdown = cells_of_markdown(written("markdown", result))
    assert markdown[2:] == expected
    rows = written("text", result).splitlines()[2:5]
    for row, found in zip(expected, rows, strict=True):
        assert re.split(r"\s{2,}", found.strip()) == [re.sub(r"\s{2,}", " ", word) for word in row]


def test_csv_holds_the_raw_numbers_of_the_same_cells() -> None:
    result = every_unit()
    head, *rows = list(csv.reader(io.StringIO(written("csv", result))))
    assert head == [
        "name", "category", "start_ps", "total_ps", "share", "calls", "size_bytes", "bandwidth_bytes_per_s", "inferred",
        "host", "event",
    ]  # fmt: skip
    assert rows[0][2:8] == ["12345678901", "77773215731000", "0.133654", "1312", "16106127360", "26400000000.0"]
    assert rows[0][0] == LONG
    assert [row[10] for row in rows[:2]] == ["4294967301", "0"], "which the table of events has, too"
    assert rows[2] == [""] * 11
    numeric = {"time": int, "instant": int, "count": int, "bytes": int, "share": float, "rate": float}
    for number, row in enumerate(rows):
        for column, raw in zip(result.columns, row, strict=True):
            if column.unit in numeric and raw:
                assert format_cell(column, numeric[column.unit](raw)) == format_column(result, column)[number]


@pytest.mark.parametrize(
    ("column", "name"),
    [
        (Column("bytes", "bytes", ""), "bytes"),
        (Column("compute_share", "share", ""), "compute_share"),
        (Column("busy", "share", ""), "busy_share"),
        (Column("total", "time", ""), "total_ps"),
        (Column("calls", "count", ""), "calls"),
    ],
)
def test_a_csv_header_says_the_unit_once(column: Column, name: str) -> None:
    assert column_header(column) == name


@pytest.mark.parametrize("form", ["text", "markdown", "csv"])
def test_a_column_that_a_query_calls_as_it_likes_reaches_no_terminal_raw(form: str) -> None:
    said = written(form, Result("query", "Query", (Column(EVIL, "count", ""),), pl.DataFrame({EVIL: [1]}), 1))
    assert all(line.isprintable() for line in said.split("\n"))
    assert "evil" in said


def test_json_has_the_documented_shape() -> None:
    document = orjson.loads(written("json", every_unit()))
    assert list(document) == [
        "schema", "tracehound", "trace", "window", "steps", "ranks", "analysis", "title", "columns", "rows",
        "rows_total", "notes",
    ]  # fmt: skip
    assert document["schema"] == "tracehound.result/1"
    assert document["tracehound"] == __version__
    assert document["trace"] == {
        "name": "job",
        "files": [{"path": "job/rank0.json", "format": "kineto", "size": 1234}],
        "hosts": ["host a"],
        "ranks": [{"rank": 0, "device": "GPU 0", "model": "H100", "host": "host a", "inferred": True}],
        "origin_unix_ns": 1_700_000_000_000_000_000,
        "recorded": "2023-11-14 22:13:20 UTC",
        "start_ps": 0,
        "end_ps": 10**12,
        "versions": {"cuda runtime": "12.4"},
    }
    assert document["window"] == {"start_ps": 10_000_000_000, "end_ps": 20_000_000_000}
    assert document["ranks"] == [0]
    assert document["columns"][4] == {
        "name": "share", "unit": "share", "meaning": "self time", "base": "the self time of all ops",
    }  # fmt: skip
    assert document["rows_total"] == 12
    first, second, third = document["rows"]
    assert list(first) == [column["name"] for column in document["columns"]]
    assert first["event"] == (1 << 32) + 5
    assert first["host"][0] == {
        "thread": "python 123",
        "event": "aten::addmm",
        "inside": None,
        "share": 0.62,
        "time": 620,
    }
    assert second["name"] == EVIL  # json carries the name as it is, escaped
    assert second["share"] is None
    assert set(third.values()) == {None}


def test_the_summary_in_json_holds_the_same_shape_for_every_result() -> None:
    page = Summary(FACTS, (every_unit(), plain()))
    document = orjson.loads(text_of(find_writer("json").write_summary(page, ALL)))
    alone = orjson.loads(written("json", plain()))
    assert document["schema"] == "tracehound.summary/1"
    assert list(document["results"]) == ["ops", "plain"]
    assert document["results"]["plain"] == {key: alone[key] for key in document["results"]["plain"]}


def test_the_summary_in_csv_is_cut_into_named_tables() -> None:
    page = Summary(FACTS, (every_unit(), plain()))
    first, second = text_of(find_writer("csv").write_summary(page, ALL)).split("\n\n")
    assert first.startswith("# ops\nname,")
    assert second == "# plain\n" + written("csv", plain())


@pytest.mark.parametrize("form", [form.name for form in WRITERS])
def test_no_form_lets_a_trace_speak_to_the_terminal(form: str) -> None:
    for text in (
        written(form, every_unit()),
        text_of(find_writer(form).write_summary(Summary(FACTS, (every_unit(),)), ALL)),
    ):
        assert all(char.isprintable() or char == "\n" for char in text)


@pytest.mark.parametrize("form", [form.name for form in WRITERS])
def test_a_result_without_rows_can_be_written(form: str) -> None:
    assert written(form, empty())


@pytest.mark.parametrize("form", [form.name for form in WRITERS])
def test_the_same_result_gives_the_same_bytes(form: str) -> None:
    assert written(form, every_unit()) == written(form, every_unit())


def test_markdown_has_the_rows_of_what_is_a_tree_only_by_a_setting() -> None:
    columns = (Column("name", "text", "op"), Column("calls", "count", "executions"), Column("depth", "depth", "around"))
    table = pl.DataFrame(
        {"name": ["a", "b"], "calls": [1, 2], "depth": [None, None]}, schema_overrides={"depth": pl.Int64}
    )
    flat, tree = (Result("x", "X", columns, each, 2) for each in (table, table.with_columns(depth=pl.Series([0, 1]))))
    assert [row[0] for row in cells_of_markdown(written("markdown", flat))[2:]] == ["a", "b"]
    assert [row[0] for row in cells_of_markdown(written("markdown", tree))[2:]] == ["a", "· b"]


def test_markdown_shows_names_and_never_obeys_them() -> None:
    assert escape_markdown("a|b<i>*c*_d_`e`[f](g)&h\x1b") == r"a\|b\<i\>\*c\*\_d\_\`e\`\[f\](g)\&h␛"


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_report_says_its_window_its_cut_and_its_bases(form: str) -> None:
    text = written(form, every_unit(), ReportStyle(200)).replace("\\", "")
    assert "window 10.000 ms to 20.000 ms" in text
    assert "3 of 12 rows" in text
    assert "share: % of the self time of all ops" in text
    assert "only rank 0" in text


def test_a_unit_is_for_times_in_words() -> None:
    assert "77,773,215.731 us" in written("text", every_unit(), ReportStyle(UNLIMITED_WIDTH, "us"))
    assert "77,773,215.731 us" in written("markdown", every_unit(), ReportStyle(UNLIMITED_WIDTH, "us"))
    assert "77773215731000" in written("csv", every_unit(), ReportStyle(UNLIMITED_WIDTH, "us"))


def test_an_unknown_form_is_answered_with_the_nearest() -> None:
    with pytest.raises(TracehoundError, match="did you mean markdown"):
        find_writer("markdwon")
    with pytest.raises(TracehoundError, match="there are text, markdown, csv, json"):
        find_writer("xlsx")


def test_many_rows_are_written_piece_by_piece_into_one_document() -> None:
    number = 2 * ROWS_PER_CHUNK + 1
    columns = (Column("name", "text", "a name"), Column("size", "bytes", "a size"), Column("part", "share", "a part"))
    names = ["a,\x1b[1m", "b\n]", None, ""]
    cells = {"name": [names[n % 4] for n in range(number)], "size": range(number), "part": [float("nan")] * number}
    many = Result("query", "Query", columns, pl.DataFrame(cells), number)
    pieces = [line.text for line in find_writer("json").write_result(FACTS, many, ALL)]
    document = orjson.loads("\n".join(pieces))
    assert len(pieces) > 3
    assert document["rows"] == [{"name": names[n % 4], "size": n, "part": None} for n in range(number)]
    assert "\n".join(pieces) == orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()
    lines = [line.text for line in find_writer("csv").write_result(FACTS, many, ALL)]
    header, *rows = csv.reader(io.StringIO("\n".join(lines)))
    assert len(lines) > 3
    assert header == ["name", "size_bytes", "part_share"]
    assert rows == [[("a,␛[1m", "b ]", "", "")[n % 4], str(n), ""] for n in range(number)]
