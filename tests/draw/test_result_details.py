"""All that is said of a result, at any length."""

from __future__ import annotations

from building import Building, stream, thread
from tracehound.analysis import get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.draw.result_details import NO_NOTES, notes_section, result_sections


def test_notes_come_first_then_the_row_then_what_columns_mean() -> None:
    b = Building()
    b.event(thread(), "aten::mm", 0, 10, "op", correlation=1)
    b.event(stream(), "gemm\x1b[2J", 20, 40, correlation=1)
    result = run_analysis(get_analysis("ops"), b.trace())
    said, row, columns = result_sections(result, ["Ops", "whole run"], result, 0)
    assert said.title == "Ops · whole run"
    assert [fact.words for fact in said.facts] == list(note_texts(result.notes))
    assert row.title == "Row 1 of 1"
    assert ("name", "gemm␛[2J") in [(fact.label, fact.words) for fact in row.facts]
    assert columns.title == "What its columns mean"
    assert {fact.label for fact in row.facts} <= {fact.label for fact in columns.facts}


def test_a_row_in_sentences_is_read_before_the_notes() -> None:
    b = Building()
    b.event(thread(), "ProfilerStep#1", 0, 100, "step", step=1)
    b.event(thread(), "aten::mm", 0, 90, "op", correlation=1)
    b.event(stream(), "gemm", 90, 95, correlation=1)
    result = run_analysis(get_analysis("findings"), b.trace())
    assert result.table.height
    assert [section.title for section in result_sections(result, ["Findings"], result, 0)][:2] == [
        f"Row 1 of {result.table.height}", "Findings",
    ]  # fmt: skip


def test_without_notes_or_rows_that_is_said() -> None:
    assert [fact.words for fact in notes_section(["Gaps"], ()).facts] == [NO_NOTES]
    result = run_analysis(get_analysis("gaps"), Building().trace())
    assert not any(section.title.startswith("Row") for section in result_sections(result, ["Gaps"], result, -1))
