"""Explore machine-learning performance traces in a terminal."""

from __future__ import annotations

__version__ = "0.1.0"

INTERRUPTED = 130
"""Exit status after Ctrl-C, as a shell has it."""
