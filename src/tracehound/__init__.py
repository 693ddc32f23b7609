"""Explore machine-learning performance traces in a terminal."""

from __future__ import annotations

__version__ = "0.1.0"

EXIT_INTERRUPTED = 130
"""Exit status after Ctrl-C, the same as a shell's."""
