"""The rows of a frame as they come into sight.

Owns which stretch of them is at hand as plain values. Knows no widget.
"""

from __future__ import annotations

from typing import Any

import polars as pl


class Page:
    """Rows by number; some screenfuls are cut out of the frame at once."""

    def __init__(self, rows: pl.DataFrame | None = None) -> None:
        self._rows = pl.DataFrame() if rows is None else rows
        self._first = 0
        self._page: list[dict[str, Any]] = []

    def row(self, number: int, height: int) -> dict[str, Any]:
        """The raw values of a row, on a screen of so many lines."""
        if not self._first <= number < self._first + len(self._page):
            self._first = max(0, number - height)
            self._page = self._rows.slice(self._first, 3 * max(1, height)).rows(named=True)
        return self._page[number - self._first]
