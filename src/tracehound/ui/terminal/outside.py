"""What leaves the program: text for the clipboard, and a file for the user's editor.

Owns how that is said to the user. Neither passes a shell, and nothing of a trace is run.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from tracehound.errors import TracehoundError, printable
from tracehound.ui.source.editing import command, editor

BRIEF = 3.0
"""Seconds that a word of success stays."""


def copy(app: App[object], text: str) -> None:
    """Put a text on the clipboard of the terminal (OSC 52), line ends and all, nothing else that a terminal obeys."""
    clean = "\n".join(map(printable, text.split("\n")))
    app.copy_to_clipboard(clean)
    number = len(clean)
    tell(app, f"copied {number:,} character{'' if number == 1 else 's'}")


def edit(app: App[object], path: Path, line: int) -> None:
    """Have the user's editor open a file at a line; the terminal is its own until it ends."""
    try:
        words = command(editor(os.environ), path, line)
        with app.suspend():
            trouble = _run(words)
    except TracehoundError as error:
        trouble = str(error)
    except SuspendNotSupported:
        trouble = "this terminal cannot be lent to an editor"
    if trouble:
        warn(app, trouble)


def _run(words: list[str]) -> str:
    """Run a program until it ends: what went wrong, if anything. Raises nothing, since the terminal is to come back."""
    try:
        status = subprocess.run(words, check=False).returncode
    except (OSError, ValueError) as error:
        return f"{words[0]} cannot be started: {error}"
    return f"{Path(words[0]).name} ended with status {status}" if status else ""


def tell(app: App[object], words: str) -> None:
    """A word of success, in place of what was said before."""
    app.clear_notifications()
    app.notify(printable(words), timeout=BRIEF, markup=False)


def warn(app: App[Any], words: str) -> None:
    """What went wrong, and what to do; the same."""
    app.clear_notifications()
    app.notify(printable(words), severity="warning", markup=False)
