"""How a code becomes a sentence: a template with the note's values, or a function of them."""

from __future__ import annotations

from collections.abc import Callable

Sentence = str | Callable[..., str]
"""A template of `str.format`, or a function that takes the note's values by their names."""
