"""Times that can be true.

Owns the bounds.
"""

from __future__ import annotations

from typing import Final

UNIX: Final = 10**17
"""Times above this (ns) are a wall clock, of 1973 and later; below, a clock of unknown origin."""

FARTHEST: Final = 50 * 24 * 3600 * 10**9
"""Events farther than this (ns) from the middle one are strays: Int64 picoseconds hold 106 days."""
