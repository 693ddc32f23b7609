"""Which of many near-equal cases the short run tries; the thorough run tries all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

THOROUGH = pytest.mark.thorough


def some(values: Iterable[Any], chosen: Iterable[Any]) -> list[Any]:
    """Parameters of a test: all values, of which the short run tries those that are chosen. A tuple is of several."""
    tried = list(chosen)
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=() if value in tried else THOROUGH)
        for value in values
    ]


def first(count: int, values: Sequence[Any]) -> list[Any]:
    """Parameters of a test: all values, of which the short run tries the first."""
    return some(values, values[:count])
