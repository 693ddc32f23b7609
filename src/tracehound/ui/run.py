"""Starting the explorer in the terminal that we are in.

Owns what must be settled before Textual is imported, and what is left to do when it has ended.
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
from tracehound.errors import BAD_INPUT
from tracehound.store import Opening
from tracehound.ui.state import session
from tracehound.ui.terminal.ending import heed

if TYPE_CHECKING:
    from tracehound.ui.app import TracehoundApp
    from tracehound.ui.bindings.keys import Key
    from tracehound.ui.shell import Shell

PATIENCE = 0.1
"""Seconds that the reading thread has to put down what it holds, and what is remembered to be written: both take less,
and a home on a slow network must not keep anybody."""

TURN = 0.001
"""Seconds after which a thread that works gives way to the one that draws."""

LOCAL = {"TEXTUAL_FPS": "120"}
"""A key changes several frames, one after the other (the timeline, then what is said of it): none waits long for its
turn. Without a change no frame is drawn."""

REMOTE = {"TEXTUAL_FPS": "20", "TEXTUAL_ANIMATIONS": "none"}
"""Over SSH every frame costs: held keys at 60 frames a second send 1.5 MB a second. What the user set stays."""


def explore(opening: Opening, asked: Namespace, alphabet: str) -> int:
    """Run the explorer until the user quits, and end the process; what it remembers outlasts a fault of it.

    `asked` has the paths and options of the command line, `alphabet` is the one of `draw.glyphs` that the terminal can
    show. Gives an exit status instead on a terminal that can place no cursor. Raises TracehoundError when nothing of
    the trace can be read.
    """
    if not _ready("summary"):
        return BAD_INPUT
    from tracehound.ui.app import TracehoundApp  # noqa: PLC0415 - Textual reads its settings when it is imported
    from tracehound.ui.source.finding import sources  # noqa: PLC0415 - with the rest of the explorer

    app = TracehoundApp(opening, alphabet, _keys(), asked.theme, sources(asked.source_map))
    app.explorer.said = (*asked.paths, *_reading(asked))
    kept = None if asked.no_cache else session.file_of(opening)
    if kept is not None and asked.reset:
        session.forget(kept)
    elif kept is not None:
        app.explorer.travels.session = session.recalled(kept)
    _run(app, asked)
    if app.failure is not None:
        raise app.failure
    _keep(app, kept)
    app.explorer.reading.join(PATIENCE)
    return _end(app, opening)


def contrast(base: Opening, other: Opening, asked: Namespace, alphabet: str) -> int:
    """Show two runs side by side until the user quits, and end the process; as `explore` does with one."""
    if not _ready("diff"):
        return BAD_INPUT
    from tracehound.ui.comparing import ComparingApp  # noqa: PLC0415 - Textual reads its settings when it is imported
    from tracehound.ui.source.finding import sources  # noqa: PLC0415 - with the rest of the explorer

    app = ComparingApp(base, other, alphabet, _keys(), asked.theme, sources(asked.source_map))
    app.comparison.said = _reading(asked)
    for side, path in zip(app.comparison.sides, (*asked.paths, asked.diff), strict=True):
        side.said = path
    _run(app, asked)
    if app.failure is not None:
        raise app.failure
    for side in app.comparison.sides:
        side.reading.join(PATIENCE)
    return _end(app, base)


def _keys() -> tuple[Key, ...]:
    """The table of keys, with those that the user's configuration changes."""
    from tracehound.ui.bindings.keymap import remapped  # noqa: PLC0415 - Textual reads its settings when it is imported
    from tracehound.ui.bindings.keys import KEYS  # noqa: PLC0415 - the same

    path = config.location()
    return KEYS if path is None else remapped(config.tables(path), path)


def _reading(asked: Namespace) -> tuple[str, ...]:
    """How the traces are read, as a command line has it: what differs from the usual."""
    return (*(("--run", asked.run) if asked.run else ()), *(("--align", asked.align) if asked.align != "auto" else ()))


def _ready(instead: str) -> bool:
    """Whether there is a terminal to draw on, settled before Textual is imported; else says what to do `instead`."""
    if os.environ.get("TERM", "") in ("dumb", "unknown"):
        sys.stderr.write(f"tracehound: this terminal cannot move its cursor (TERM=dumb); try: tracehound {instead}\n")
        return False
    remote = "SSH_CONNECTION" in os.environ or "SSH_TTY" in os.environ
    for name, value in (REMOTE if remote else LOCAL).items():
        os.environ.setdefault(name, value)
    _measure()
    sys.setswitchinterval(TURN)
    return True


def _measure() -> None:
    """Have the terminal asked for its size: Textual takes that of the environment, where there is one, for it."""
    with suppress(OSError):
        if all(os.get_terminal_size(sys.stdout.fileno())):
            for name in ("COLUMNS", "LINES"):
                os.environ.pop(name, None)


def _run(app: Shell, asked: Namespace) -> None:
    """Show an application until the user quits.

    Garbage collection leaves out what is imported by now: looking through it again takes a fifth of the start.
    """
    heed(app)
    gc.freeze()
    app.run(mouse=not asked.no_mouse)


def _keep(app: TracehoundApp, kept: Path | None) -> None:
    """Write down what is remembered."""
    travels = app.explorer.travels
    remembered = travels.remembered
    if kept is not None and remembered is not None:
        args = (kept, remembered, travels.marked)
        writing = threading.Thread(target=session.remember, args=args, daemon=True)
        writing.start()
        writing.join(PATIENCE)


def _end(app: Shell, opening: Opening) -> NoReturn:
    """End the process at once: nothing that still runs here or in a worker is wanted any more. Raises a fault of it.

    The interpreter's own ending takes longer than a person should wait, and ending it under a thread in native code
    aborts.
    """
    opening.workshop.close()
    if app.fault is not None:
        raise app.fault
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError):  # whoever started us may have closed it, or taken the terminal away
            stream.flush()
    os._exit(app.return_code or 0)
