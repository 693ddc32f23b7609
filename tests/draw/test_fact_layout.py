"""Labeled values as lines: nothing is cut, nothing is too wide, and what a search finds can be shown."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tracehound.draw.fact_layout import (
    Fact,
    FactLayout,
    FactMatch,
    FactSection,
    find_matches,
    lay_out_sheet,
)
from tracehound.draw.text_wrapping import wrap_spans

HLO = "%add.1 = f32[5,1024]{1,0} fusion(f32[5,1024]{1,0} %param.29, f32[5,1024]{1,0} %copy-done.4), kind=kLoop"

WORDS = st.text(alphabet="ab c,/(){}_\n表é", max_size=60)
SECTIONS = st.lists(
    st.builds(
        FactSection,
        st.text("ab", max_size=4),
        st.lists(st.builds(Fact, st.text("lm表 ", max_size=30), WORDS)).map(tuple),
    ),
    max_size=4,
)


def text(sheet: FactLayout, found: tuple[FactMatch, ...] = ()) -> list[str]:
    return ["".join(piece for piece, _ in sheet.pieces(y, found, 0)) for y in range(len(sheet.lines))]


def test_labels_stand_on_one_edge() -> None:
    sheet = lay_out_sheet(
        [FactSection("", (Fact("name", "gemm"), Fact("duration", "3 us"))), FactSection("args", (Fact("b", "1"),))], 40
    )
    assert text(sheet) == ["name      gemm", "duration  3 us", "", "args", "b  1"]


def test_a_long_label_stands_above_its_value() -> None:
    sheet = lay_out_sheet([FactSection("", (Fact("memory_access_breakdown", "24"), Fact("flops", "0")))], 60)
    assert text(sheet) == ["memory_access_breakdown", "       24", "flops  0"]


def test_a_line_of_hlo_is_broken_between_its_operands() -> None:
    sheet = lay_out_sheet([FactSection("HLO", (Fact("", HLO),))], 44)
    assert text(sheet) == [
        "HLO",
        "%add.1 = f32[5,1024]{1,0}",
        "  fusion(f32[5,1024]{1,0} %param.29,",
        "  f32[5,1024]{1,0} %copy-done.4), kind=kLoop",
    ]


def test_lines_of_a_value_stay_lines() -> None:
    assert text(lay_out_sheet([FactSection("stack", (Fact("", "a\n\nb"),))], 20)) == ["stack", "a", "", "b"]


def test_a_path_is_broken_after_a_slash() -> None:
    spans = wrap_spans("jit(step)/transpose(layer0)/mlp/dot_general", 36, 36)
    assert spans == [(0, 32), (32, 43)]


@given(WORDS, st.integers(1, 30), st.integers(1, 30))
def test_wrapping_loses_only_spaces_and_line_ends(words: str, first: int, rest: int) -> None:
    spans = wrap_spans(words, first, rest)
    kept = "".join(words[start:end] for start, end in spans)
    assert kept.replace(" ", "") == words.replace(" ", "").replace("\n", "")
    for place, (start, end) in enumerate(spans):
        assert cell_len(words[start:end]) <= max(rest if place else first, 2)
    assert all(words[before[1] : after[0]] in ("", " ", "\n") for before, after in pairwise(spans))


@given(SECTIONS, st.integers(8, 60))
def test_nothing_is_wider_than_the_sheet_and_all_is_there(sections: list[FactSection], width: int) -> None:
    sheet = lay_out_sheet(sections, width)
    lines = text(sheet)
    assert all(cell_len(line.rstrip()) <= width for line in lines if line not in {s.title for s in sections})
    told = "".join(lines).replace(" ", "")
    for fact in sheet.facts:
        for part in (*fact.label.split(), *fact.words.split("\n")):
            if cell_len(part) < width // 2 - 4:
                assert part.replace(" ", "") in told


def test_a_search_finds_labels_and_values_in_any_case() -> None:
    facts = [Fact("Stream", "7"), Fact("name", "stream_copy STREAM")]
    found = find_matches(facts, "stream")
    assert [(match.fact, match.part, match.start) for match in found] == [
        (0, "label", 0),
        (1, "words", 0),
        (1, "words", 12),
    ]
    assert find_matches(facts, "") == []


def test_a_match_is_marked_on_every_line_that_it_crosses() -> None:
    sheet = lay_out_sheet([FactSection("", (Fact("", "aaaa bbbb"),))], 5)
    found = find_matches(sheet.facts, "a b")
    assert [list(sheet.pieces(y, found, 0)) for y in range(2)] == [
        [("", "value"), ("aaa", "value"), ("a", "here")],
        [("  ", "value"), ("b", "here"), ("bb", "value")],
    ]
    assert sheet.line_of(found[0]) == 0


@given(SECTIONS, st.integers(8, 60), st.sampled_from(["a", "b c", "lm", "_"]))
def test_marks_change_no_text_and_every_match_is_on_its_line(
    sections: list[FactSection], width: int, needle: str
) -> None:
    sheet = lay_out_sheet(sections, width)
    found = find_matches(sheet.facts, needle)
    assert text(sheet, tuple(found)) == text(sheet)
    for number, match in enumerate(found):
        roles = {role for _, role in sheet.pieces(sheet.line_of(match), found, number)}
        assert "here" in roles
