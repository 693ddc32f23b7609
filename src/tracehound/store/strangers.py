"""Files that are hardly of one run, and the remedy.

Owns when that is said, by what the notes of a trace say of its files.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracehound.store.clock import APART, together
from tracehound.store.ranks import UNLIKE, UNRANKED
from tracehound.trace import Part, Trace


def doubt(trace: Trace, ranks: Sequence[int] | None = None) -> str:
    """Why the files of these ranks (None: all), which do not tell them, are hardly of one run; empty where they may be.

    They lie apart in time, or their devices differ, and one of them at least has no rank recorded.
    """
    chosen = trace.ranks if ranks is None else trace.ranks.filter(pl.col("rank").is_in(list(ranks)))
    parts = [trace.parts[at] for at in {trace.hosts[host].part for host in chosen["host"]}]
    apart, unlike, unranked = (
        any(note.text.startswith(words) for note in trace.notes) for words in (APART, UNLIKE, UNRANKED)
    )
    apart = apart and not _together(parts)
    unlike = unlike and chosen["model"].drop_nulls().n_unique() > 1
    why = [APART] * apart + ["their devices differ" if apart else UNLIKE] * unlike
    if not why or not unranked or not chosen["inferred"].any():
        return ""
    remedy = "all that is told is of them together: name one file, or choose with --rank"
    return f"hardly one run: {', and '.join(why)}; {remedy}"


def _together(parts: Sequence[Part]) -> bool:
    """Whether some of the files that lie apart do not, by the wall clock that they all have."""
    spans = [(span, wall * 1000) for part in parts if (span := part.recorded) and (wall := part.wall_ns) is not None]
    return len(spans) < 2 or together(sorted((low + wall, high + wall) for (low, high), wall in spans))
