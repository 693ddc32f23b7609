"""Items made in a thread of their own: one ahead of who uses them, or while something else is done.

Worth it where both let go of the interpreter, as numpy does in long loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
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
def meanwhile(items: Iterable[T]) -> Iterator[Future[list[T]]]:
    """All the items, made while the body runs; where that raises, no more than the one that is being made."""
    failed = Event()

    def made() -> list[T]:
        found = []
        for item in items:
            found.append(item)
            if failed.is_set():
                break
        return found

    with ThreadPoolExecutor(1, "tracehound meanwhile") as maker:
        coming = maker.submit(made)
        try:
            yield coming
        except BaseException:
            failed.set()
            raise
