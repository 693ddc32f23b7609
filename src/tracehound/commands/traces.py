"""The traces that a command is about, and what is said of them on stderr.

Owns how they are opened and read: the cache, the workers, the window that was asked for. Knows no command.
"""

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path

from tracehound import console
from tracehound.alignment import arranged
from tracehound.analysis.spans import other_steps
from tracehound.draw.notes import note_text
from tracehound.errors import TracehoundError, printable
from tracehound.heap import hold_large
from tracehound.progress import Progress
from tracehound.report.window import beyond, chosen
from tracehound.store import Opening, Workshop, cache, load, open_paths, workshop
from tracehound.trace import Trace, Window

MANY_RANKS = 16
"""Ranks from which their analysis is worth starting workers for."""

MANY_FILES = 5
"""So many files that could not be read are told of one by one."""

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def reading(asked: Namespace) -> Workshop:
    """The workers and the cache that were asked for."""
    if asked.no_cache:
        return workshop(asked.jobs, None)
    return workshop(asked.jobs, lambda: cache.opened(asked.cache or cache.default_root()))


def helpers(trace: Trace, shop: Workshop, *, more: bool = False) -> Executor | None:
    """Workers for the maps of an analysis, where they do more than starting them costs.

    One rank is mapped here, on all processors. The workers that read it go, and what they hold with them, unless there
    is `more` to read.
    """
    ranks = trace.ranks.height
    if ranks > 1 and (shop.pool.started or ranks >= MANY_RANKS):
        return shop.pool.executor
    if not more:
        shop.pool.close()
    return None


def read(asked: Namespace, shop: Workshop, *, devices: bool = False) -> tuple[Trace, Window]:
    """The trace, and the window that was asked for. What could not be read of it is said.

    With `devices` no more is needed than what devices did, whenever that was.
    """
    opening = opened(asked.paths, asked, shop)
    opening.devices = devices and not asked.step and not asked.window
    return _narrowed(opening, asked)


def opened(paths: Sequence[str], asked: Namespace, shop: Workshop, *, leaving: bool = False) -> Opening:
    """The files of a trace; where `leaving`, q ends the search for them, and the program."""
    for path in paths:
        if not path:
            raise TracehoundError("a path is empty", remedy="a variable that is not set? . is this folder")
        if _URL.match(path) and not is_path(path):
            raise TracehoundError(f"{path}: URLs are not read", remedy="download it first")
    with console.searching(", ".join(paths), leaving=leaving) as look:
        opening = open_paths([Path(path) for path in paths], asked.run, shop, look)
    return arranged(opening, asked.align)


def ready(opening: Opening, asked: Namespace) -> tuple[Trace, Window]:
    """The same for what is not a report, whose notes would tell it: that devices work on other steps in that time."""
    trace, window = _narrowed(opening, asked)
    if why := other_steps.work_of_other_steps(trace, window):
        console.say(note_text(why))
    return trace, window


def _narrowed(opening: Opening, asked: Namespace) -> tuple[Trace, Window]:
    """The trace of an opening, and the window that was asked for; that some of it lies outside of the trace is said."""
    trace = loaded(opening)
    window = chosen(trace, asked.rank, asked.step, asked.window)
    if why := beyond(trace, window):
        console.say(why)
    return trace, window


def loaded(opening: Opening) -> Trace:
    """The trace of an opening. What could not be read of it is said."""
    trace = _with_progress(opening)
    hold_large()
    dropped = [
        ": ".join(filter(None, (note.place, note_text(note)))) for note in opening.notes if note.level == "dropped"
    ]
    for line in dropped[:MANY_FILES]:
        console.say(printable(line))
    if left := len(dropped[MANY_FILES:]):
        console.say(f"{left:,} more like these; tracehound report PATH health tells of all")
    return trace


def _with_progress(opening: Opening) -> Trace:
    """Read it, and say how far that is where somebody looks."""
    if sys.stderr is None or not sys.stderr.isatty():
        return load(opening)
    with Progress(sys.stderr) as progress:
        return load(opening, progress.show)


def is_path(word: str) -> bool:
    """Whether a word is a path rather than a statement or a table, which stand for nothing on the disk."""
    return not any(map(str.isspace, word)) and os.access(word, os.F_OK)
