"""The explorer, or the summary where no explorer can be.

The explorer is imported when it is started and not before: a headless run knows nothing of the terminal toolkit.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from tracehound import console
from tracehound.arguments import as_diff, as_summary
from tracehound.commands import diff, summary
from tracehound.commands.traces import opened, reading
from tracehound.diff.baseline import loaded
from tracehound.errors import TracehoundError
from tracehound.heap import hold_large


def run(asked: Namespace) -> int:
    """The explorer, or the summary where no explorer can be."""
    if asked.theme is not None and not console.interactive():
        from tracehound.ui.themes import checked  # noqa: PLC0415, where no theme is asked for nothing of it is imported

        checked(asked.theme)
    if asked.diff:
        return _contrast(asked)
    if not console.interactive():
        return summary.run(as_summary(asked))
    with reading(asked) as shop:
        opening = opened(asked.paths, asked, shop, leaving=True)
        opening.staff()
        from tracehound.ui.run import explore  # noqa: PLC0415, a headless run must not import it

        hold_large()
        return explore(opening, asked, console.alphabet(asked))


def _contrast(asked: Namespace) -> int:
    """Two runs side by side in the explorer, or their comparison where no explorer can be."""
    if len(asked.paths) != 1:
        raise TracehoundError("--diff compares one PATH with OTHER", remedy="a folder holds all ranks of a run")
    if not console.interactive():
        return diff.run(as_diff(asked))
    for path in (*asked.paths, asked.diff):
        if loaded(Path(path)) is not None:
            remedy = "compare with it by: tracehound diff BASE OTHER"
            raise TracehoundError("is a baseline: it has no events to draw", Path(path), remedy=remedy)
    with reading(asked) as shop:
        base, other = (opened([path], asked, shop, leaving=True) for path in (*asked.paths, asked.diff))
        base.staff()
        other.staff()
        from tracehound.ui.run import contrast  # noqa: PLC0415, a headless run must not import it

        hold_large()
        return contrast(base, other, asked, console.alphabet(asked))
