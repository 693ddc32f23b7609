"""The lines above a table: all that is said, where there is room for it, else a sign and a key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from tracehound.draw.glyphs import UNICODE
from tracehound.draw.notes import CAPTION_HEADLINES, HEADLINES, WARNINGS, split_headline
from tracehound.draw.text_wrapping import CaptionLayout, CaptionText, shorten_at_word
from tracehound.model.notes import note

HEADLINE = "rank 0 is bound by CPU 99.86 %, copy 0.13 % of 43.43 s: the whole run"
HEADING = ("Critical path", "whole run", "131 rows")


def texts(text: CaptionText, width: int, height: int, key: str = "") -> list[str]:
    lines = CaptionLayout(UNICODE, width, key).lay_out(text, height)
    return ["".join(piece.words for piece in line) for line in lines]


def test_the_headline_has_lines_of_its_own_and_several_notes_are_counted() -> None:
    text = CaptionText(HEADING, HEADLINE, ("more ranks", "inferred: waits"))
    assert CaptionLayout(UNICODE, 80, "I").count_lines(text) == 2
    assert texts(text, 80, 2, "I") == ["Critical path · whole run · 131 rows · 2 notes (I)", HEADLINE]
    assert texts(text, 60, 9) == [
        "Critical path · whole run · 131 rows · 2 notes",
        "rank 0 is bound by CPU 99.86 %, copy 0.13 % of 43.43 s: the",
        "whole run",
    ]
    assert texts(text, 60, 2, "I")[1] == "rank 0 is bound by CPU 99.86 %, copy 0.13 % of 43.43 s: the…"
    lines = CaptionLayout(UNICODE, 80).lay_out(text, 2)
    assert [{piece.sort for piece in line} for line in lines] == [{"title", "scope", "plain"}, {"headline"}]


def test_a_single_note_is_shown_where_it_fits_in_the_first_line() -> None:
    text = CaptionText(HEADING, HEADLINE, ("and 1 more rank",))
    assert texts(text, 80, 3, "I") == ["Critical path · whole run · 131 rows · and 1 more rank", HEADLINE]
    long = replace(text, notes=("more ranks " * 9,))
    assert texts(long, 80, 9, "I") == ["Critical path · whole run · 131 rows · 1 note (I)", HEADLINE]


def test_on_one_line_the_headline_comes_before_the_rest() -> None:
    text = CaptionText(HEADING, "idle 54.05 %", ("a", "b"))
    assert texts(text, 60, 1, "I") == ["Critical path · whole run · idle 54.05 % · 131… I shows all"]


def test_the_headline_is_the_note_that_says_most() -> None:
    notes = [note(code) for code in ("ops_counted", "device_idle", "hlo_ops_wait_for_host_memory")]
    headline, others = split_headline(notes)
    assert headline is notes[2]
    assert others == tuple(notes[:2])
    assert split_headline(notes[:1]) == (None, tuple(notes[:1]))
    assert set(CAPTION_HEADLINES) <= HEADLINES | WARNINGS


PARTS = ("Critical path", "whole run", HEADLINE)


def heading(parts: tuple[str, ...], width: int, height: int, key: str = "") -> list[str]:
    return texts(CaptionText(parts), width, height, key)


def test_what_is_left_out_has_a_sign_and_the_key_that_shows_it() -> None:
    assert heading(PARTS, 60, 1, "I") == ["Critical path · whole run · rank 0 is bound by… I shows all"]
    assert heading(PARTS, 60, 1) == ["Critical path · whole run · rank 0 is bound by CPU 99.86 %,…"]


def test_where_cells_are_few_the_key_stands_alone() -> None:
    assert heading(PARTS, 30, 1, "I") == ["Critical path · whole run ·… I"]


def test_no_line_parts_a_number_from_its_unit_or_begins_with_a_dot() -> None:
    for width in range(14, 60):
        lines = heading(("Steps", "whole run", "median 615.4 ms, p95 629.5 ms, 3 %", "2 ranks"), width, 9)
        assert not any(line.startswith(("·", "ms", "%", "ranks")) for line in lines), width


def test_the_title_and_the_scope_are_told_apart_wherever_lines_end() -> None:
    sorts = [[piece.sort for piece in line] for line in CaptionLayout(UNICODE, 20).lay_out(CaptionText(PARTS), 9)]
    assert sorts[0] == ["title", "scope"]
    assert all(set(line) == {"plain"} for line in sorts[2:])


TEXT = st.text("ab ü漢\x1b", max_size=30)


@given(st.lists(TEXT, min_size=2, max_size=4), TEXT, st.lists(TEXT, max_size=3), st.integers(4, 40), st.integers(1, 5))
def test_lines_keep_within_their_room(
    parts: list[str], headline: str, notes: list[str], width: int, height: int
) -> None:
    lines = texts(CaptionText(tuple(parts), headline, tuple(notes)), width, height, "I")
    assert len(lines) <= height
    assert all(cell_len(line) <= width and line.isprintable() for line in lines)


def test_a_title_ends_with_a_word() -> None:
    title = "communication is not hidden behind computation"
    assert shorten_at_word(title, 60) == title
    assert shorten_at_word(title, 30) == "communication is not hidden…"
    assert shorten_at_word(title, 5) == "comm…", "no word fits"
    assert shorten_at_word(title, 0) == ""


@given(TEXT, st.integers(0, 40))
def test_a_shortened_title_keeps_within_its_room(title: str, width: int) -> None:
    assert cell_len(shorten_at_word(title, width)) <= width
