"""The notation of ranks that a person types: ``0,2-5``.

Owns it in the explorer. Knows no widget.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracehound.report.window import among


def read(text: str, known: Sequence[int]) -> tuple[int, ...] | None:
    """The ranks that are meant; None for all, which nothing means, too.

    Raises TracehoundError for what is no list, and where the trace has not all of them.
    """
    if not text.strip():
        return None
    asked = among(known, text.strip())
    return None if len(asked) == len(known) else asked


def written(ranks: tuple[int, ...] | None) -> str:
    """Ranks as `read` reads them."""
    if ranks is None:
        return ""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
