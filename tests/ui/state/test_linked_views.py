"""Two timelines as one: what one does, the other does at the same place by its own clock."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from building import Building, stream
from tracehound.model.trace import Trace
from tracehound.ui.state import linked_views, view_moves
from tracehound.ui.state.linked_views import ComparedStep, LinkedViews
from tracehound.ui.state.view import View
from tracehound.ui.wording import messages

US = 1_000_000


def run(*kernels: tuple[float, float]) -> Trace:
    built = Building()
    for start, end in kernels:
        built.event(stream(), "gemm", start, end)
    return built.trace()


BASE, OTHER = run((0, 100), (100, 900)), run((0, 50), (500, 2000))
TRACES = (BASE, OTHER)
STEPS = (
    (ComparedStep(3, 0, 400 * US), ComparedStep(4, 400 * US, 900 * US)),
    (ComparedStep(3, 100 * US, 300 * US), ComparedStep(4, 300 * US, 2000 * US)),
)


def opened() -> LinkedViews:
    views = (view_moves.show_whole_run(BASE, View()), view_moves.show_whole_run(OTHER, View()))
    return linked_views.link_views(TRACES, views)


def stepped() -> LinkedViews:
    return linked_views.show_pair(linked_views.with_steps(opened(), *STEPS), 0)


def bounds(state: LinkedViews) -> list[tuple[int, int]]:
    return [(view.start, view.end) for view in state.views]


def test_both_are_opened_on_one_scale_as_long_as_the_longer() -> None:
    assert bounds(opened()) == [(0, 2000 * US), (0, 2000 * US)]


@given(st.integers(0, 1), st.integers(0, 10**9), st.integers(1, 10**9), st.integers(-(10**9), 10**9))
def test_the_other_follows_by_its_own_clock(side: int, start: int, length: int, offset: int) -> None:
    view = View(start=start, end=start + length, focus=start, selection=(start, start + 1))
    state = linked_views.move_view(replace(opened(), offset=offset), side, view)
    assert state.views[side] == view
    baseline, candidate = state.views
    assert (candidate.start - baseline.start, candidate.end - baseline.end) == (offset, offset)
    assert (candidate.focus or 0) - (baseline.focus or 0) == offset
    assert candidate.selection is not None
    assert baseline.selection is not None
    assert candidate.selection[0] - baseline.selection[0] == offset


def test_an_event_is_selected_on_one_side_and_stays_so_while_the_other_only_pans() -> None:
    chosen = replace(opened().views[0], event=1)
    state = linked_views.move_view(opened(), 0, chosen)
    assert [view.event for view in state.views] == [1, None]
    panned = linked_views.move_view(state, 1, replace(state.views[1], start=5, end=2000 * US + 5))
    assert [view.event for view in panned.views] == [1, None]


def test_a_pair_of_steps_begins_under_each_other_and_is_shown_whole() -> None:
    state = stepped()
    assert (state.alignment, state.offset, state.pair) == ("step", 100 * US, (STEPS[0][0], STEPS[1][0]))
    air = 400 * US // linked_views.MARGIN_SHARE
    assert bounds(state) == [(-air, 400 * US + air), (100 * US - air, 500 * US + air)]


def test_the_step_under_the_focus_decides_how_they_lie() -> None:
    later = View(start=400 * US, end=800 * US, focus=500 * US)
    state = linked_views.move_view(stepped(), 0, later)
    assert (state.at, state.offset) == (1, -100 * US)
    assert bounds(state)[1] == (300 * US, 700 * US)
    back = linked_views.move_view(state, 1, View(start=100 * US, end=200 * US, focus=150 * US))
    assert (back.at, bounds(back)[0]) == (0, (0, 100 * US))


def test_a_step_held_against_another_by_hand_stays_so() -> None:
    state = linked_views.show_pair(linked_views.change_partner(stepped(), 1), 0)
    assert state.pair == (STEPS[0][0], STEPS[1][1])
    assert linked_views.change_partner(state, 1).partners == state.partners, "there is none after the last"
    assert linked_views.change_partner(linked_views.change_partner(state, -1), -1).partners[0] == 0


def test_pairs_made_by_hand_stay_when_another_rank_is_shown() -> None:
    state = linked_views.change_partner(stepped(), 1)
    again = linked_views.with_steps(state, *([step._replace(rank=1) for step in side] for side in STEPS))
    assert again.partners == state.partners
    assert linked_views.with_steps(state, STEPS[0][:1], STEPS[1]).partners == (0,)


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [
        ((3, 4, 5), (3, 4, 5), (0, 1, 2)),
        ((10, 11, 12), (3, 4, 5), (0, 1, 2)),
        ((10, 11, 12), (3, 4), (0, 1, 1)),
        ((3, 4, 5), (4, 5), (0, 0, 1)),
        ((3, 4), (4, 3), (1, 0)),
        ((3,), (), ()),
    ],
)
def test_steps_meet_by_number_or_in_turn(
    baseline: tuple[int, ...], candidate: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    ours, theirs = (
        [ComparedStep(number, at, at + 1) for at, number in enumerate(side)] for side in (baseline, candidate)
    )
    assert linked_views.pair_steps(ours, theirs) == expected


def test_the_first_pair_shown_is_one_of_usual_length() -> None:
    lengths = (900, 100, 105, 95)
    steps = [ComparedStep(number, 1000 * number, 1000 * number + length) for number, length in enumerate(lengths)]
    assert linked_views.with_steps(opened(), steps, steps).at == 1


def test_from_the_start_the_base_stays_where_it_is() -> None:
    state = linked_views.align_starts(stepped(), TRACES)
    assert (state.alignment, state.offset, state.aligned_pair) == ("start", 0, (None, None))
    assert bounds(state)[0] == bounds(stepped())[0]


def test_all_of_one_run_is_all_of_both() -> None:
    state = linked_views.move_view(opened(), 0, view_moves.show_whole_run(BASE, View()))
    assert bounds(linked_views.fit_both_runs(state, 0, TRACES)) == [(0, 2000 * US), (0, 2000 * US)]
    zoomed = linked_views.move_view(opened(), 0, View(start=0, end=5 * US))
    assert linked_views.fit_both_runs(zoomed, 0, TRACES) == zoomed


def test_two_instances_begin_under_each_other() -> None:
    state = linked_views.show_instances(opened(), TRACES, (1, 1))
    assert (state.alignment, state.offset) == ("instance", 400 * US)
    assert [view.event for view in state.views] == [1, 1]
    assert state.views[0].start < 100 * US < 900 * US < state.views[0].end


def test_what_one_run_has_alone_is_shown_beside_its_place_in_the_other() -> None:
    state = linked_views.show_instances(stepped(), TRACES, (None, 0))
    assert [view.event for view in state.views] == [None, 0]
    assert state.alignment == "step"
    assert linked_views.show_instances(stepped(), TRACES, (None, None)) == stepped()


def test_a_swap_and_another_one_change_nothing() -> None:
    state = linked_views.swap_runs(stepped())
    assert (state.offset, state.pair) == (-100 * US, (STEPS[1][0], STEPS[0][0]))
    assert linked_views.swap_runs(state) == stepped()


def test_steps_are_those_of_the_rank_that_is_shown() -> None:
    rows = [(0, 1, 10, 20, 10), (0, 0, 0, 10, 9), (3, 0, 5, 15, 10)]
    frame = pl.DataFrame(rows, schema=["rank", "step", "start", "end", "duration"], orient="row")
    assert linked_views.compared_steps(frame, 3) == (ComparedStep(0, 5, 15, 3, 10),)
    first = (ComparedStep(0, 0, 10, 0, 9), ComparedStep(1, 10, 20, 0, 10))
    assert linked_views.compared_steps(frame, 7) == linked_views.compared_steps(frame, 0) == first
    assert linked_views.compared_steps(frame.clear(), None) == ()


def test_a_pair_of_steps_is_told_by_the_clock_of_the_tables_and_with_its_ranks() -> None:
    baseline, candidate = ComparedStep(6, 0, 50 * US, 0, 40 * US), ComparedStep(6, 0, 44 * US, 1)
    assert messages.step_text(baseline) == "step 6, 40.0 us"
    assert messages.pair_text(baseline, candidate, 1) == "step 6: +4.00 us (+10.0 %)"
    assert messages.pair_text(baseline, candidate, 2) == "step 6 of rank 0 against rank 1: +4.00 us (+10.0 %)"
    assert messages.pair_text(baseline, ComparedStep(7, 0, 44 * US), 8) == "steps 6 and 7 of rank 0: +4.00 us (+10.0 %)"
    assert messages.pair_text(None, None, 8) == ""
