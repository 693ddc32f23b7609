"""Files that are hardly of one run, and the remedy.

Owns when that is said, by what the notes of a trace say of its files.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracehound.notes import Note, note
from tracehound.store.clock import APART, together
from tracehound.store.ranks import UNLIKE, UNRANKED
from tracehound.trace import Part, Trace


def doubt(trace: Trace, ranks: Sequence[int] | None = None) -> Note | None:
    """A note that the files of these ranks (None: all) are hardly of one run, and why; None where they may be.

    They lie apart in time, or their devices differ, and one of them at least has no rank recorded.
    """
    chosen = trace.ranks if ranks is None else trace.ranks.filter(pl.col("rank").is_in(list(ranks)))
    parts = [trace.parts[at] for at in {trace.hosts[host].part for host in chosen["host"]}]
    codes = {note.code for note in trace.notes}
    apart = APART in codes and not _together(parts)
    unlike = UNLIKE in codes and chosen["model"].drop_nulls().n_unique() > 1
    if not (apart or unlike) or UNRANKED not in codes or not chosen["inferred"].any():
        return None
    return note("hardly_one_run", apart=apart, unlike=unlike)


def _together(parts: Sequence[Part]) -> bool:
    """Whether some of the files that lie apart do not, by the wall clock that they all have."""
    spans = [(span, wall * 1000) for part in parts if (span := part.recorded) and (wall := part.wall_ns) is not None]
    return len(spans) < 2 or together(sorted((low + wall, high + wall) for (low, high), wall in spans))
