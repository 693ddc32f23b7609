"""Items made ahead, or while something else is done, are the same items."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, Timer, current_thread
from threading import enumerate as enumerate_threads

import pytest

from tracehound.formats.ahead import ahead, meanwhile


def test_all_items_in_their_order() -> None:
    assert list(ahead(range(100))) == list(range(100))
    assert list(ahead([])) == []
    assert list(ahead([None, 0, ""])) == [None, 0, ""]


def test_the_next_item_is_made_while_one_is_used() -> None:
    made = Event()

    def items() -> Iterator[str]:
        yield current_thread().name
        made.set()
        yield "second"

    coming = ahead(items())
    assert next(coming) != current_thread().name
    assert made.wait(10)
    assert next(coming) == "second"


def test_what_making_one_raises_comes_after_those_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("disk full")

    coming = ahead(items())
    assert next(coming) == 1
    with pytest.raises(OSError, match="disk full"):
        next(coming)


def test_who_stops_early_leaves_no_thread_behind() -> None:
    coming = ahead(iter(range(10)))
    next(coming)
    assert [thread for thread in enumerate_threads() if thread.name.startswith("tracehound ahead")]
    del coming
    assert not [thread for thread in enumerate_threads() if thread.name.startswith("tracehound ahead")]


def test_all_items_are_made_meanwhile() -> None:
    with meanwhile(current_thread().name for _ in range(3)) as made:
        pass
    assert len(made.result()) == 3
    assert current_thread().name not in made.result()


def test_a_body_that_fails_stops_what_is_made_meanwhile() -> None:
    begun, go_on = Event(), Event()

    def items() -> Iterator[int]:
        yield 1
        begun.set()
        assert go_on.wait(10)
        yield 2
        yield 3

    with pytest.raises(KeyboardInterrupt), meanwhile(items()) as made:  # noqa: PT012, it fails while one is made
        assert begun.wait(10)
        Timer(0.1, go_on.set).start()
        raise KeyboardInterrupt
    assert made.result() == [1, 2]
