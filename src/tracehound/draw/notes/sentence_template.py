"""The type of a note's sentence: a template with the note's values, or a function of them."""

from __future__ import annotations

from collections.abc import Callable

SentenceTemplate = str | Callable[..., str]
"""A template of `str.format`, or a function with the note's values as keyword arguments."""
