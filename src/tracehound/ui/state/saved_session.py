"""Session of a trace, saved from one visit to the next.

Owns the folder with one small file for each trace, and the contents of that file. A trace is identified by its files:
paths, sizes and modification times; permissions and the version of this program do not matter. What the trace no longer
has is left out (`valid_view`). A damaged session file counts as missing. Knows no widget.
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

from tracehound.errors import TracehoundError
from tracehound.model.ids import file_index_of, is_in_file, row_of
from tracehound.model.old_names import current_name
from tracehound.model.trace import Trace
from tracehound.store import TraceReader
from tracehound.store.ingest import stamp_trace_file
from tracehound.system import user_dirs
from tracehound.system.atomic_file import atomic_write
from tracehound.ui.state import view_moves
from tracehound.ui.state.view import View

MAX_SESSIONS: Final = 500
"""So many traces are remembered: those seen last."""


class SavedSession(Struct, frozen=True):
    """View (None: none yet), visible tab, marks, lane arrangement and settings of the last visit."""

    view: View | None = None
    pane: str = ""
    marks: Mapping[str, View] = field(default_factory=dict)
    lanes: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def sessions_folder() -> Path | None:
    """``$XDG_STATE_HOME/tracehound/sessions``, which is in ``~/.local/state`` by default; None without a home."""
    own = user_dirs.xdg_dir("XDG_STATE_HOME", ".local/state")
    return None if own is None else own / "tracehound" / "sessions"


def session_file(opening: TraceReader) -> Path | None:
    """Session file of a trace; None if one of its files is gone, or the user has no home directory."""
    where = sessions_folder()
    try:
        stamps = [stamp_trace_file(found) for found in opening.files]
    except TracehoundError:
        return None
    said = "\0".join(f"{each.source}\0{each.size}\0{each.modified_ns}" for each in stamps)
    return where and where / f"{blake2b(os.fsencode(said), digest_size=16).hexdigest()}.json"


def load_session(path: Path) -> SavedSession:
    """Session in the file; an empty one if the file is missing or damaged."""
    try:
        return _with_current_names(msgspec.json.decode(path.read_bytes(), type=SavedSession))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return SavedSession()


def _with_current_names(session: SavedSession) -> SavedSession:
    """The session with the current names of panes, lanes and lane properties; values of settings are parsed later."""
    return replace(
        session,
        pane=current_name(session.pane),
        lanes={current_name(name): _current_lane_names(value) for name, value in session.lanes.items()},
        settings={current_name(pane): given for pane, given in session.settings.items()},
    )


def _current_lane_names(value: object) -> object:
    """Lanes, as ``rank 0/NAME``, under their current names, in lists and in tables of lists."""
    match value:
        case str():
            group, separator, name = value.rpartition("/")
            return f"{group}{separator}{current_name(name)}"
        case list():
            return [_current_lane_names(each) for each in value]
        case dict():
            return {name: _current_lane_names(each) for name, each in value.items()}
        case _:
            return value


def save_session(path: Path, session: SavedSession, recent: Collection[str]) -> None:
    """Keep a session, readable by its owner alone, whole or not at all; nothing where there is no room for it.

    Of its marks those of the letters in `recent` were set in this visit. The others are as the file has them by now:
    another explorer of the trace may have set some meanwhile.
    """
    with suppress(OSError, UnicodeEncodeError):
        path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with _lock_folder(path.parent):
            _delete_oldest(path.parent)
            mine = {letter: session.marks[letter] for letter in recent}
            joined = replace(session, marks={**load_session(path).marks, **mine})
            with atomic_write(path, 0o600) as file:
                file.write(msgspec.json.encode(joined))


@contextmanager
def _lock_folder(of: Path) -> Iterator[None]:
    """One process at a time, where the file system can see to that: explorers may be ended all at once."""
    held = os.open(of, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def delete_session(path: Path) -> None:
    """Keep nothing of that trace."""
    with suppress(OSError):
        path.unlink()


def _delete_oldest(of: Path) -> None:
    """Make room for one more: the oldest go, and with them what was left behind half made."""
    aged = list[tuple[int, Path]]()
    for file in of.iterdir():
        with suppress(FileNotFoundError):  # another process makes room, too
            aged.append((file.stat().st_mtime_ns, file))
    for _, old in sorted(aged, reverse=True)[MAX_SESSIONS - 1 :]:
        old.unlink(missing_ok=True)


def valid_view(trace: Trace, view: View) -> View:
    """A view that was kept, with what this trace has: nobody knows what wrote the file."""
    low, high = trace.span
    ranks = None if view.ranks is None else tuple(rank for rank in view.ranks if rank in trace.ranks["rank"]) or None
    window = view.selection
    event = view.event if view.event is not None and _event_exists(trace, view.event) else None
    lane = view.lane if view.lane in trace.lanes["lane"].to_list() else None
    kept = replace(
        view,
        ranks=ranks,
        lane=lane,
        event=event,
        selection=window if window is not None and low <= window[0] < window[1] <= high else None,
        focus=view.focus if view.focus is not None and low <= view.focus <= high else None,
    )
    return view_moves.clamp_view(trace, kept, view.start, view.end - view.start)


def _event_exists(trace: Trace, event: int) -> bool:
    part, row = file_index_of(event), row_of(event)
    own = trace.lanes.filter(is_in_file("lane", part))["events"].sum()
    return 0 <= part < len(trace.parts) and row < own
