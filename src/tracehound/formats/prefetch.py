"""Items made in a background thread: the next one while the current one is used, or all of them beside other work.

This pays where both release the interpreter lock, as numpy and polars do in long loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice, takewhile
from threading import Event
from typing import TypeVar

T = TypeVar("T")


def prefetch(items: Iterable[T]) -> Iterator[T]:
    """Yield the items in order, and make the next one meanwhile; an exception of an item is raised at its position."""
    source = iter(items)

    def following() -> list[T]:
        return list(islice(source, 1))

    with ThreadPoolExecutor(1, "tracehound ahead") as maker:
        coming = maker.submit(following)
        while made := coming.result():
            coming = maker.submit(following)
            yield made[0]


@contextmanager
def run_in_background(items: Iterable[T]) -> Iterator[Callable[[], list[T]]]:
    """Make all items in a thread while the context lasts.

    The function it gives waits for all of them and raises their exceptions. When the context is left early, only the
    item in progress is waited for.
    """
    given_up = Event()
    with ThreadPoolExecutor(1, "tracehound aside") as maker:
        coming = maker.submit(lambda: list(takewhile(lambda _: not given_up.is_set(), items)))
        try:
            yield coming.result
        finally:
            given_up.set()
