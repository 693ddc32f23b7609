"""A collective in characters: heads, bars on one scale, and too little room."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.draw.charts.arrival_bars import ArrivalLine, CollectiveArrivals, draw_header, draw_rank_line
from tracehound.draw.glyphs import ASCII, UNICODE

US = 1_000_000


def row(rank: int, after: int, wait: int, transfer: int, **more: Any) -> dict[str, Any]:
    base = {
        "step": 3,
        "name": "gloo:all_reduce",
        "late": after * US,
        "bytes": 4096,
        "process_group": "dp",
        "group_size": 4,
    }
    times = {"after": after * US, "wait": wait * US, "transfer": transfer * US, "duration": (wait + transfer) * US}
    return {**base, "rank": rank, "absent": None, **times, **more}


def text(line: ArrivalLine) -> str:
    return "".join(piece for piece, _ in line)


MEETING = CollectiveArrivals([row(1, 0, 60, 40), row(0, 30, 30, 40), row(12, 60, 0, 40)], 2, 9)


def test_the_head_says_which_collective_and_who_was_last() -> None:
    first, second = (text(line) for line in draw_header(MEETING, UNICODE, 80))
    assert first == " gloo:all_reduce · 3 of 9 · step 3 · 4.00 KiB · dp · 3 of 4 ranks"
    assert second.startswith(" rank 12 last, 60.0 us after the others' median  "), "what has no room is left out whole"
    assert " median · waited in all 90.0 us " in text(draw_header(MEETING, UNICODE, 110)[1])
    assert second.rstrip().endswith("░ wait █ transfer 40.0 us")
    assert len(second) <= 80


def test_bars_share_one_scale() -> None:
    lines = [text(draw_rank_line(MEETING, number, ASCII, 60, "plain")) for number in range(3)]
    assert lines == [
        " rank 1       first ..................############ 60.0 us  ",
        " rank 0    +30.0 us          .........############ 30.0 us  ",
        " rank 12   +60.0 us                   ############ last     ",
    ]
    assert text(draw_rank_line(MEETING, 2, ASCII, 60, "cursor")).startswith(">rank 12")


@pytest.mark.parametrize(("after", "said"), [(60, "2 ranks last at once"), (0, "all came at once")])
def test_of_ranks_that_came_at_once_none_is_last(after: int, said: str) -> None:
    meeting = CollectiveArrivals([row(1, 0, after, 40), row(0, after, 0, 40), row(12, after, 0, 40)], 0, 1)
    assert text(draw_header(meeting, UNICODE, 80)[1]).startswith(f" {said} · waited in all ")
    assert not [number for number in range(3) if "last" in text(draw_rank_line(meeting, number, ASCII, 60, "plain"))]


def test_who_did_not_come_is_named() -> None:
    meeting = CollectiveArrivals([row(1, 0, 60, 40, absent="2, 3")], 0, 1)
    assert "without rank 2, 3" in text(draw_header(meeting, UNICODE, 100)[0])


@pytest.mark.parametrize("width", [0, 1, 5, 20, 30])
def test_without_room_the_numbers_stay(width: int) -> None:
    assert len(text(draw_rank_line(MEETING, 0, ASCII, width, "plain"))) <= width
    assert all(len(text(line)) <= max(width, 40) for line in draw_header(MEETING, ASCII, width))


TIMES = st.tuples(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500))


@given(st.lists(TIMES, min_size=1, max_size=6), st.integers(40, 200))
def test_every_bar_fits_and_shows_what_took_time(times: list[tuple[int, int, int]], width: int) -> None:
    rows = [row(rank, *each) for rank, each in enumerate(sorted(times))]
    meeting = CollectiveArrivals(rows, 0, 1)
    for number, each in enumerate(rows):
        line = draw_rank_line(meeting, number, ASCII, width, "plain")
        assert len(text(line)) == width
        drawn = "".join(piece for piece, sort in line if sort in ("wait", "transfer"))
        assert drawn
        assert ("#" in drawn) or each["transfer"] == 0
