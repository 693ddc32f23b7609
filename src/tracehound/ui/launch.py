"""Start of the explorer and of the comparison in this terminal.

Owns what must happen before Textual is imported, and the cleanup after the application ends.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tracehound import config
from tracehound.errors import EXIT_BAD_INPUT
from tracehound.store import TraceReader
from tracehound.ui.state import saved_session
from tracehound.ui.terminal.end_signals import end_on_signals

if TYPE_CHECKING:
    from tracehound.ui.base_app import BaseApp
    from tracehound.ui.bindings.keys import Key
    from tracehound.ui.explorer_app import ExplorerApp

EXIT_TIMEOUT = 0.1
"""Seconds to wait at exit for the reading thread, and for the session file: both need less, and a slow network home
must not delay anybody.
"""

THREAD_SWITCH_INTERVAL = 0.001
"""Interval in seconds after which a busy thread yields to the one that draws."""

LOCAL_ENVIRONMENT = {"TEXTUAL_FPS": "120"}
"""Environment for a local terminal. A key changes several frames in turn (the timeline, then its text); a high frame
rate keeps the delay short. Nothing is drawn without a change.
"""

SSH_ENVIRONMENT = {"TEXTUAL_FPS": "20", "TEXTUAL_ANIMATIONS": "none"}
"""Environment over SSH, where every frame costs: a held key at 60 frames a second sends 1.5 MB a second. Variables that
the user set stay.
"""


def run_explorer(opening: TraceReader, options: Namespace, alphabet: str) -> int:
    """Run the explorer until the user quits, save the session, and end the process.

    `options` has the paths and options of the command line; `alphabet` names the glyphs that the terminal can show.
    Returns an exit status instead if the terminal cannot move its cursor. Raises TracehoundError when nothing of the
    trace can be read.
    """
    if not _prepare_terminal("summary"):
        return EXIT_BAD_INPUT
    from tracehound.ui.explorer_app import ExplorerApp  # noqa: PLC0415 - Textual reads its settings on import
    from tracehound.ui.source_files import parse_source_maps  # noqa: PLC0415 - with the rest of the explorer

    app = ExplorerApp(opening, alphabet, _load_keys(), options.theme, parse_source_maps(options.source_map))
    app.explorer.command_words = (*options.paths, *_reading_options(options))
    session_path = None if options.no_cache else saved_session.session_file(opening)
    if session_path is not None and options.reset:
        saved_session.delete_session(session_path)
    elif session_path is not None:
        app.explorer.navigation.session = saved_session.load_session(session_path)
    _run_app(app, options)
    if app.failure is not None:
        raise app.failure
    _save_session(app, session_path)
    app.explorer.reading.join(EXIT_TIMEOUT)
    return _exit_process(app, opening)


def run_comparison(baseline: TraceReader, candidate: TraceReader, options: Namespace, alphabet: str) -> int:
    """Run the comparison of two runs until the user quits, and end the process, as `run_explorer` does."""
    if not _prepare_terminal("diff"):
        return EXIT_BAD_INPUT
    from tracehound.ui.explorer_app import ComparisonApp  # noqa: PLC0415 - Textual reads its settings on import
    from tracehound.ui.source_files import parse_source_maps  # noqa: PLC0415 - with the rest of the explorer

    app = ComparisonApp(
        baseline, candidate, alphabet, _load_keys(), options.theme, parse_source_maps(options.source_map)
    )
    app.comparison.command_words = _reading_options(options)
    for side, path in zip(app.comparison.sides, (*options.paths, options.diff), strict=True):
        side.command_words = path
    _run_app(app, options)
    if app.failure is not None:
        raise app.failure
    for side in app.comparison.sides:
        side.reading.join(EXIT_TIMEOUT)
    return _exit_process(app, baseline)


def _load_keys() -> tuple[Key, ...]:
    """Return the table of keys with the changes of the user's configuration."""
    from tracehound.ui.bindings.key_remapping import remap_keys  # noqa: PLC0415 - Textual reads its settings on import
    from tracehound.ui.bindings.keys import KEYS  # noqa: PLC0415 - Textual reads its settings on import

    path = config.config_path()
    return KEYS if path is None else remap_keys(config.read_tables(path), path)


def _reading_options(options: Namespace) -> tuple[str, ...]:
    """Options of the command line that differ from their defaults and change how traces are read."""
    return (
        *(("--run", options.run) if options.run else ()),
        *(("--align", options.align) if options.align != "auto" else ()),
        *(("--anonymous",) if options.anonymous else ()),
        *(("--requester-pays",) if options.requester_pays else ()),
    )


def _prepare_terminal(alternative: str) -> bool:
    """Prepare the environment before Textual is imported.

    Returns False on a terminal that cannot be drawn on, and prints `alternative`.
    """
    if os.environ.get("TERM", "") in ("dumb", "unknown"):
        sys.stderr.write(
            f"tracehound: this terminal cannot move its cursor (TERM=dumb); try: tracehound {alternative}\n"
        )
        return False
    remote = "SSH_CONNECTION" in os.environ or "SSH_TTY" in os.environ
    for name, value in (SSH_ENVIRONMENT if remote else LOCAL_ENVIRONMENT).items():
        os.environ.setdefault(name, value)
    _discard_size_variables()
    sys.setswitchinterval(THREAD_SWITCH_INTERVAL)
    return True


def _discard_size_variables() -> None:
    """Remove COLUMNS and LINES from the environment if the terminal reports its size: Textual would trust them."""
    with suppress(OSError):
        if all(os.get_terminal_size(sys.stdout.fileno())):
            for name in ("COLUMNS", "LINES"):
                os.environ.pop(name, None)


def _run_app(app: BaseApp, options: Namespace) -> None:
    """Show an application until the user quits.

    Garbage collection skips all that is imported by now: scanning it again takes a fifth of the start.
    """
    end_on_signals(app)
    gc.freeze()
    app.run(mouse=not options.no_mouse)


def _save_session(app: ExplorerApp, session_path: Path | None) -> None:
    """Save the session."""
    navigation = app.explorer.navigation
    remembered = navigation.session_to_save
    if session_path is not None and remembered is not None:
        args = (session_path, remembered, navigation.marked)
        writing = threading.Thread(target=saved_session.save_session, args=args, daemon=True)
        writing.start()
        writing.join(EXIT_TIMEOUT)


def _exit_process(app: BaseApp, opening: TraceReader) -> NoReturn:
    """End the process at once: nothing that still runs is needed. Raises the application's unexpected exception.

    A regular exit of the interpreter takes too long, and aborts if a thread is in native code.
    """
    opening.context.close()
    if app.fault is not None:
        raise app.fault
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError):  # the parent process may have closed it
            stream.flush()
    os._exit(app.return_code or 0)
