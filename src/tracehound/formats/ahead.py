"""Makes the next item in a thread of its own while the present one is used.

Worth it where both let go of the interpreter, as numpy does in long loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
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
