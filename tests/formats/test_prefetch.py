"""Items made ahead, or beside other work, are the same items."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, current_thread
from threading import enumerate as enumerate_threads

import pytest

from tracehound.formats.inflate import prefetch, run_in_background


def test_all_items_in_their_order() -> None:
    assert list(prefetch(range(100))) == list(range(100))
    assert list(prefetch([])) == []
    assert list(prefetch([None, 0, ""])) == [None, 0, ""]


def test_the_next_item_is_made_while_one_is_used() -> None:
    made = Event()

    def items() -> Iterator[str]:
        yield current_thread().name
        made.set()
        yield "second"

    coming = prefetch(items())
    assert next(coming) != current_thread().name
    assert made.wait(600)
    assert next(coming) == "second"


def test_what_making_one_raises_comes_after_those_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("disk full")

    coming = prefetch(items())
    assert next(coming) == 1
    with pytest.raises(OSError, match="disk full"):
        next(coming)


def test_who_stops_early_leaves_no_thread_behind() -> None:
    coming = prefetch(iter(range(10)))
    next(coming)
    assert [thread for thread in enumerate_threads() if thread.name.startswith("tracehound ahead")]
    del coming
    assert not [thread for thread in enumerate_threads() if thread.name.startswith("tracehound ahead")]


def test_items_are_made_beside_other_work() -> None:
    worked, made = Event(), list[str]()

    def items() -> Iterator[int]:
        made.append(current_thread().name)
        yield 1
        assert worked.wait(600)
        yield 2

    with run_in_background(items()) as all_of_them:
        worked.set()
        assert all_of_them() == [1, 2]
    assert made != [current_thread().name]


def test_what_making_one_raises_comes_to_who_asks() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("disk full")

    with run_in_background(items()) as all_of_them, pytest.raises(OSError, match="disk full"):
        all_of_them()


def test_who_leaves_waits_for_no_other_items() -> None:
    begun = Event()

    def items() -> Iterator[int]:
        while True:
            begun.set()
            yield 1

    with pytest.raises(KeyboardInterrupt), run_in_background(items()):  # noqa: PT012, what is inside is left
        assert begun.wait(600)
        raise KeyboardInterrupt
    assert not [thread for thread in enumerate_threads() if thread.name.startswith("tracehound aside")]
