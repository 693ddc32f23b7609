"""Starting the explorer in the terminal that we are in.

Owns what must be settled before Textual is imported, and what is left to do when it has ended.
"""

from __future__ import annotations

import os
import sys

from tracehound.errors import BAD_INPUT
from tracehound.store import Opening

REMOTE = {"TEXTUAL_FPS": "20", "TEXTUAL_ANIMATIONS": "none"}
"""Over SSH every frame costs: held keys at 60 frames a second send 1.5 MB a second. What the user set stays."""


def explore(opening: Opening, *, ascii: bool, mouse: bool) -> int:  # noqa: A002 - the option is called so
    """Run the explorer until the user quits; gives the exit status.

    Refuses a terminal that can place no cursor. Raises TracehoundError when nothing of the trace can be read.
    """
    if os.environ.get("TERM", "") in ("dumb", "unknown"):
        sys.stderr.write("tracehound: this terminal cannot move its cursor (TERM=dumb); try: tracehound summary\n")
        return BAD_INPUT
    if "SSH_CONNECTION" in os.environ or "SSH_TTY" in os.environ:
        for name, value in REMOTE.items():
            os.environ.setdefault(name, value)
    from tracehound.ui.app import TracehoundApp  # noqa: PLC0415 - Textual reads its settings when it is imported

    app = TracehoundApp(opening, "ascii" if ascii else "unicode")
    app.run(mouse=mouse)
    if app.failure is not None:
        raise app.failure
    status = app.return_code or 0
    if app.busy:
        # Native code cannot be interrupted, and ending the interpreter under it aborts: leave without waiting.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return status
