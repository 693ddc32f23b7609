"""Makes items in a thread of its own: the next while the present one is used, or all of them beside other work.

Worth it where both let go of the interpreter, as numpy and polars do in long loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice, takewhile
from threading import Event
from typing import TypeVar

T = TypeVar("T")


def ahead(items: Iterable[T]) -> Iterator[T]:
    """The same items, in order; what making one raises is raised in its place."""
    source = iter(items)

    def following() -> list[T]:
        return list(islice(source, 1))

    with ThreadPoolExecutor(1, "tracehound ahead") as maker:
        coming = maker.submit(following)
        while made := coming.result():
            coming = maker.submit(following)
            yield made[0]


@contextmanager
def aside(items: Iterable[T]) -> Iterator[Callable[[], list[T]]]:
    """A context while which the items are made; what it gives waits for all, and raises what making one raised.

    Who leaves without them waits for no more than the one that is being made.
    """
    given_up = Event()
    with ThreadPoolExecutor(1, "tracehound aside") as maker:
        coming = maker.submit(lambda: list(takewhile(lambda _: not given_up.is_set(), items)))
        try:
            yield coming.result
        finally:
            given_up.set()
