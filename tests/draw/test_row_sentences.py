from __future__ import annotations

import msgspec
import polars as pl
import pytest

from tracehound.analysis import get_analysis
from tracehound.analysis.result import Column, Result
from tracehound.draw.charts.analysis_charts import draw_chart
from tracehound.draw.notes import render_note_columns
from tracehound.draw.result_details import draw_row_sentences, sentence_columns
from tracehound.draw.text_table import body_lines, table_lines
from tracehound.model.notes import Note

COLUMNS = (
    Column("finding", "text", "what"),
    Column("cost", "time", "how much"),
    Column("evidence", "prose", "why"),
    Column("advice", "prose", "what helps"),
)
ROWS = {
    "finding": ["the device waits", "évil \x1b[31m"],
    "cost": [2_000_000, None],
    "evidence": ["in 12 pauses of 5 us or more, the longest on rank 3", None],
    "advice": ["launch less", "x\x1by"],
}


@pytest.fixture
def result() -> Result:
    return Result("findings", "Findings", COLUMNS, pl.DataFrame(ROWS), 2)


def test_a_row_is_told_in_full(result: Result) -> None:
    assert [column.name for column in sentence_columns(result)] == ["evidence", "advice"]
    assert draw_row_sentences(result, 0, (36, 9)) == [
        "the device waits",
        "evidence  in 12 pauses of 5 us or",
        "          more, the longest on rank",
        "          3",
        "advice    launch less",
    ]


def test_what_sentences_are_about_is_not_cut_in_a_report() -> None:
    said = "work was launched in time and does not begin: what it waits for is not recorded"
    rows = {**ROWS, "finding": [said, "short"]}
    lines = [line.text for line in body_lines(Result("findings", "Findings", COLUMNS, pl.DataFrame(rows), 2), 60)]
    assert lines[1].split("  ")[0] == "work was launched in time and doe… is not recorded"
    assert lines[2:4] == ["    work was launched in time and does not begin: what it", "    waits for is not recorded"]
    assert lines[4].startswith("    evidence  in 12 pauses")
    assert [line for line in lines if "short" in line] == [f"short{' ' * 54}–"]


def test_what_was_repaired_is_told_in_full_beside_its_table() -> None:
    what = msgspec.json.encode(Note("missing", "ranks_missing", 126, values=(("world", 4), ("ranks", (2, 3))))).decode()
    row = {"level": "missing", "count": 126, "what": what, "where": ""}
    health = render_note_columns(Result("health", "Health", get_analysis("health").columns, pl.DataFrame([row]), 1))
    lines = ["missing", "what   the job has 4 ranks;", "       missing here: ranks 2-3"]
    assert draw_chart(health, "level", 0, (34, 6)) == lines


def test_what_does_not_fit_leaves_a_sign(result: Result) -> None:
    assert draw_row_sentences(result, 0, (36, 3)) == ["the device waits", "evidence  in 12 pauses of 5 us or", "…"]
    assert draw_row_sentences(result, 0, (36, 0)) == []
    assert draw_row_sentences(result, 7, (36, 9)) == []


def test_nothing_of_a_trace_reaches_the_terminal_as_it_is(result: Result) -> None:
    assert all(line.isprintable() for line in draw_row_sentences(result, 1, (36, 9)))
    assert all(line.text.isprintable() for line in table_lines(result, 80))


def test_prose_is_what_a_chart_shows(result: Result) -> None:
    assert draw_chart(result, "", 0, (36, 9)) == draw_row_sentences(result, 0, (36, 9))


def test_a_report_has_prose_below_its_row(result: Result) -> None:
    assert [line.text for line in table_lines(result, 50)][:7] == [
        "Findings",
        "finding               cost",
        "the device waits  2.000 us",
        "    evidence  in 12 pauses of 5 us or more, the",
        "              longest on rank 3",
        "    advice    launch less",
        "évil ␛[31m               –",
    ]
