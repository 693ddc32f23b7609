"""The lines above a table: all that is said, where there is room for it, else a sign and a key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tracehound.draw import text_wrapping
from tracehound.draw.glyphs import UNICODE

PARTS = ("Critical path", "whole run", "rank 0 is bound by CPU 99.86 %, copy 0.13 % of 43.43 s: the whole run")


def texts(parts: tuple[str, ...], width: int, height: int, key: str = "") -> list[str]:
    lines = text_wrapping.lay_out_caption(parts, UNICODE, (width, height), key)
    return ["".join(piece.words for piece in line) for line in lines]


def test_where_there_is_room_all_of_it_is_said() -> None:
    assert text_wrapping.count_caption_lines(PARTS, UNICODE, 60) == 2
    assert texts(PARTS, 60, 2) == [
        "Critical path · whole run · rank 0 is bound by CPU 99.86 %,",
        "copy 0.13 % of 43.43 s: the whole run",
    ]


def test_what_is_left_out_has_a_sign_and_the_key_that_shows_it() -> None:
    assert texts(PARTS, 60, 1, "I") == ["Critical path · whole run · rank 0 is bound by… I shows all"]
    assert texts(PARTS, 60, 1) == ["Critical path · whole run · rank 0 is bound by CPU 99.86 %,…"]


def test_where_cells_are_few_the_key_stands_alone() -> None:
    assert texts(PARTS, 30, 1, "I") == ["Critical path · whole run ·… I"]


def test_no_line_parts_a_number_from_its_unit_or_begins_with_a_dot() -> None:
    for width in range(14, 60):
        lines = texts(("Steps", "whole run", "median 615.4 ms, p95 629.5 ms, 3 %", "2 ranks"), width, 9)
        assert not any(line.startswith(("·", "ms", "%", "ranks")) for line in lines), width


def test_the_title_and_the_scope_are_told_apart_wherever_lines_end() -> None:
    sorts = [[piece.sort for piece in line] for line in text_wrapping.lay_out_caption(PARTS, UNICODE, (20, 9))]
    assert sorts[0] == ["title", "scope"]
    assert all(set(line) == {"plain"} for line in sorts[2:])


@given(st.lists(st.text("ab ü漢\x1b", max_size=30), min_size=2, max_size=4), st.integers(4, 40), st.integers(1, 5))
def test_lines_keep_within_their_room(parts: list[str], width: int, height: int) -> None:
    lines = texts(tuple(parts), width, height, "I")
    assert len(lines) <= height
    assert all(cell_len(line) <= width and line.isprintable() for line in lines)
