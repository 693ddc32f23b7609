"""What is remembered of a trace from one visit to the next.

Owns the folder, one small file for each trace, and what stands in it. A trace is its files by their places, sizes and
times of writing: other bytes are another trace, other permissions or a later version of this program are not, and what
is no longer in it is left out (`sound`). A file that is damaged is one that is not there. Knows no widget.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from tracehound import home
from tracehound.errors import TracehoundError
from tracehound.ids import in_part, part_of, row_of
from tracehound.store import Opening
from tracehound.store.cache import stamp
from tracehound.trace import Trace
from tracehound.ui.state import navigate
from tracehound.ui.state.view import View
from tracehound.whole import whole

MOST: Final = 500
"""So many traces are remembered: those seen last."""


class Session(Struct, frozen=True):
    """Where one was (None: nowhere yet), which tab was shown, the marks, how the lanes were arranged, and settings."""

    view: View | None = None
    pane: str = ""
    marks: Mapping[str, View] = field(default_factory=dict)
    lanes: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def folder() -> Path | None:
    """``$XDG_STATE_HOME/tracehound/sessions``, which is in ``~/.local/state`` by default; None without a home."""
    own = home.folder("XDG_STATE_HOME", ".local/state")
    return None if own is None else own / "tracehound" / "sessions"


def file_of(opening: Opening) -> Path | None:
    """Where the session of a trace is kept; None where one of its files is gone, or the user has no home."""
    where = folder()
    try:
        stamps = [stamp(found.path) for found in opening.files]
    except TracehoundError:
        return None
    said = "\0".join(f"{each.place}\0{each.size}\0{each.modified_ns}" for each in stamps)
    return where and where / f"{blake2b(os.fsencode(said), digest_size=16).hexdigest()}.json"


def recalled(path: Path) -> Session:
    """What is kept in the file; nothing where that is nothing sound."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Session)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Session()


def remember(path: Path, session: Session, recent: Collection[str]) -> None:
    """Keep a session, readable by its owner alone, whole or not at all; nothing where there is no room for it.

    Of its marks those of the letters in `recent` were set in this visit. The others are as the file has them by now:
    another explorer of the trace may have set some meanwhile.
    """
    with suppress(OSError, UnicodeEncodeError):
        path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with _alone(path.parent):
            _trim(path.parent)
            mine = {letter: session.marks[letter] for letter in recent}
            joined = replace(session, marks={**recalled(path).marks, **mine})
            with whole(path, 0o600) as file:
                file.write(msgspec.json.encode(joined))


@contextmanager
def _alone(of: Path) -> Iterator[None]:
    """One process at a time, where the file system can see to that: explorers may be ended all at once."""
    held = os.open(of, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def forget(path: Path) -> None:
    """Keep nothing of that trace."""
    with suppress(OSError):
        path.unlink()


def _trim(of: Path) -> None:
    """Make room for one more: the oldest go, and with them what was left behind half made."""
    aged = list[tuple[int, Path]]()
    for file in of.iterdir():
        with suppress(FileNotFoundError):  # another process makes room, too
            aged.append((file.stat().st_mtime_ns, file))
    for _, old in sorted(aged, reverse=True)[MOST - 1 :]:
        old.unlink(missing_ok=True)


def sound(trace: Trace, view: View) -> View:
    """A view that was kept, with what this trace has: nobody knows what wrote the file."""
    low, high = trace.span
    ranks = None if view.ranks is None else tuple(rank for rank in view.ranks if rank in trace.ranks["rank"]) or None
    window = view.selection
    event = view.event if view.event is not None and _exists(trace, view.event) else None
    lane = view.lane if view.lane in trace.lanes["lane"].to_list() else None
    kept = replace(
        view,
        ranks=ranks,
        lane=lane,
        event=event,
        selection=window if window is not None and low <= window[0] < window[1] <= high else None,
        focus=view.focus if view.focus is not None and low <= view.focus <= high else None,
    )
    return navigate.bounded(trace, kept, view.start, view.end - view.start)


def _exists(trace: Trace, event: int) -> bool:
    part, row = part_of(event), row_of(event)
    own = trace.lanes.filter(in_part("lane", part))["events"].sum()
    return 0 <= part < len(trace.parts) and row < own
