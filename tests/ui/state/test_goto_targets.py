"""Steps, and times as people write them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from building import US, Building
from stages import TRACE
from tracehound.errors import TracehoundError
from tracehound.ui.state import view_moves
from tracehound.ui.state.goto_targets import go_to_next_step, steps_of_rank, view_at_text
from tracehound.ui.state.view import View

WHOLE = view_moves.show_whole_run(TRACE, View())
CLOSE = WHOLE.with_bounds(100 * US, 200 * US)


@pytest.mark.parametrize(
    ("text", "focus"),
    [
        ("300us", 300), (" 0.3 ms ", 300), ("+100us", 250), ("-100 us", 50), ("40%", 400), ("40 %", 400),
        ("12.5%", 125), ("0us", 0), ("0%", 0),
    ],
)  # fmt: skip
def test_a_time_is_in_the_middle_of_as_much_as_before(text: str, focus: int) -> None:
    view = view_at_text(TRACE, CLOSE, text)
    assert view.focus == focus * US
    assert view.end - view.start == 100 * US
    assert view.start == max(0, focus - 50) * US


def test_the_end_is_a_place() -> None:
    assert view_at_text(TRACE, CLOSE, "100%").end == 1000 * US


@pytest.mark.parametrize("text", ["step 4", "STEP 4", "step#4", "step4"])
def test_a_step_is_selected_and_shown(text: str) -> None:
    view = view_at_text(TRACE, CLOSE, text)
    assert view.selection == (500 * US, 1000 * US)
    assert view.start < 500 * US < 1000 * US <= view.end


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("12", "not a place; write 12.5ms"), ("us", "not a place"), ("2s", "goes from 0.000 us to 1.000 ms"),
        ("-1ms", "goes from"), ("101%", "goes from"), ("step 9", "there is no step 9; 3 to 4"),
        ("\x1b[2J", "not a place"), ("99999999999s", "not a place"),
    ],
)  # fmt: skip
def test_what_is_no_place_is_said(text: str, why: str) -> None:
    with pytest.raises(TracehoundError, match=why) as raised:
        view_at_text(TRACE, CLOSE, text)
    assert str(raised.value).isprintable()


def test_steps_one_after_the_other() -> None:
    first, second = (0, 500 * US), (500 * US, 1000 * US)
    at_first = go_to_next_step(TRACE, CLOSE, 1)
    assert at_first.selection == first, "the step around the focus comes first"
    assert go_to_next_step(TRACE, CLOSE, -1).selection == first
    at_second = go_to_next_step(TRACE, at_first, 1)
    assert at_second.selection == second
    assert go_to_next_step(TRACE, at_second, 1) == at_second
    assert go_to_next_step(TRACE, at_second, -1).selection == first
    assert go_to_next_step(TRACE, at_first, -1) == at_first


def test_without_steps_one_stays() -> None:
    trace = Building().trace()
    assert go_to_next_step(trace, WHOLE, 1) == WHOLE
    with pytest.raises(TracehoundError, match=r"there is no step 1$"):
        view_at_text(trace, WHOLE, "step 1")


def test_the_steps_of_a_rank_are_its_own_or_its_hosts() -> None:
    assert steps_of_rank(TRACE, 0)["step"].to_list() == [3, 4]
    assert steps_of_rank(TRACE, 77)["step"].to_list() == [3, 4], "those of anyone, before none"


def test_a_share_is_of_the_run_that_is_shown() -> None:
    view = replace(CLOSE, ranks=(1,))
    assert view_at_text(TRACE, view, "50%").focus == sum(view_moves.run_bounds(TRACE, view)) // 2
