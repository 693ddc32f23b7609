"""Which views count as places, and the ways back to them."""

from __future__ import annotations

from msgspec.structs import replace

from tracehound.ui.state.view import MAX_PLACES, REST_SECONDS, View, ViewHistory, list_mark_letters, return_to_place

WHOLE = View(0, 1000)


def visited(*views: View, every: float = 10.0) -> ViewHistory:
    history = ViewHistory()
    for number, view in enumerate(views):
        history.record_view(view, number * every)
    return history


def test_back_and_forward() -> None:
    views = [WHOLE, View(0, 500), View(0, 100)]
    history = visited(*views)
    assert history.words == "3 of 3"
    assert [history.back(), history.back(), history.back()] == [views[1], views[0], None]
    assert [history.forward(), history.forward(), history.forward()] == [views[1], views[2], None]


def test_going_elsewhere_forgets_what_was_ahead() -> None:
    history = visited(WHOLE, View(0, 500), View(0, 100))
    history.back()
    history.record_view(View(900, 1000), 100)
    assert history.forward() is None
    assert history.back() == View(0, 500)


def test_moves_in_quick_succession_are_one() -> None:
    history = visited(WHOLE, View(250, 750), View(375, 625), View(438, 562), every=REST_SECONDS / 10)
    assert history.back() == WHOLE
    assert history.forward() == View(438, 562)


def test_a_jump_is_a_place_however_soon() -> None:
    history = visited(WHOLE, View(250, 750), View(300, 310), every=REST_SECONDS / 10)
    assert history.back() == View(250, 750)
    selected = replace(View(250, 750), selection=(300, 400))
    history.record_view(selected, REST_SECONDS / 5)
    assert history.back() == View(250, 750), "selecting a window is no small move: every table follows"


def test_the_cursor_belongs_to_the_place() -> None:
    history = visited(WHOLE, View(0, 500), replace(View(0, 500), lane=1, event=7, focus=3), View(0, 10))
    assert history.back() == replace(View(0, 500), lane=1, event=7, focus=3)
    assert history.back() == WHOLE
    history.record_view(replace(WHOLE, event=4), 100)
    assert history.forward() is not None, "moving the cursor leaves what is ahead"


def test_after_settling_even_another_event_is_a_place() -> None:
    history = visited(WHOLE, replace(View(0, 500), event=7))
    history.start_new_entry()
    history.record_view(replace(View(0, 500), event=8), 10.1)
    assert history.back() == replace(View(0, 500), event=7)


def test_the_oldest_are_forgotten() -> None:
    history = visited(*(View(0, 10 ** (number % 5 + 1)) for number in range(3 * MAX_PLACES)))
    assert len(history.places) == MAX_PLACES
    assert history.at == MAX_PLACES - 1


def test_places_follow_a_trace_that_grows() -> None:
    history = visited(WHOLE, View(0, 500))
    history.change(lambda place: place.with_bounds(place.start + 7, place.end + 7))
    assert history.back() == View(7, 1007)


def test_coming_back_keeps_what_is_no_place() -> None:
    view = View(0, 10, ranks=(3,), needle="gemm", event=4)
    assert return_to_place(view, View(5, 6, lane=2, needle="other")) == View(5, 6, ranks=(3,), lane=2, needle="gemm")


def test_marks_in_words() -> None:
    assert list_mark_letters({}) == "none"
    assert list_mark_letters({"b": WHOLE, "a": WHOLE}) == "a b"
