"""Programs outside: text for the clipboard, and a file for the user's editor.

Owns the messages about that. Neither passes a shell, and nothing from a trace is run.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from tracehound.errors import TracehoundError, printable

BRIEF_SECONDS = 3.0
"""Seconds that a word of success stays."""


def copy_to_clipboard(app: App[object], text: str) -> None:
    """Put a text on the clipboard of the terminal (OSC 52), line ends and all, nothing else that a terminal obeys."""
    clean = "\n".join(map(printable, text.split("\n")))
    app.copy_to_clipboard(clean)
    number = len(clean)
    notify_success(app, f"copied {number:,} character{'' if number == 1 else 's'}")


def open_in_editor(app: App[object], path: Path, line: int) -> None:
    """Have the user's editor open a file at a line; the terminal is its own until it ends."""
    try:
        words = editor_command(editor_words(os.environ), path, line)
        with app.suspend():
            trouble = _run_program(words)
    except TracehoundError as error:
        trouble = str(error)
    except SuspendNotSupported:
        trouble = "this terminal cannot be lent to an editor"
    if trouble:
        notify_warning(app, trouble)


def _run_program(words: list[str]) -> str:
    """Run a program until it ends: what went wrong, if anything. Raises nothing, since the terminal is to come back."""
    try:
        status = subprocess.run(words, check=False).returncode
    except (OSError, ValueError) as error:
        return f"{words[0]} cannot be started: {error}"
    return f"{Path(words[0]).name} ended with status {status}" if status else ""


def notify_success(app: App[object], words: str) -> None:
    """A word of success, in place of what was said before."""
    app.clear_notifications()
    app.notify(printable(words), timeout=BRIEF_SECONDS, markup=False)


def notify_warning(app: App[Any], words: str) -> None:
    """Show what went wrong and what to do, in place of the message before."""
    app.clear_notifications()
    app.notify(printable(words), severity="warning", markup=False)


PLUS_LINE_EDITORS = frozenset(
    ("vi", "vim", "nvim", "view", "gvim", "mvim", "elvis", "nano", "pico", "emacs", "emacsclient", "mg", "jed", "joe",
     "jmacs", "kak", "micro", "ne", "mcedit", "gedit", "less", "most")
)  # fmt: skip
"""Editors that take ``+LINE FILE``."""

GOTO_EDITORS = frozenset(
    ("code", "code-insiders", "code-server", "codium", "vscodium", "cursor", "windsurf", "positron")
)
"""Editors that take ``--goto FILE:LINE``."""

COLON_EDITORS = frozenset(("hx", "helix", "subl", "sublime_text", "zed", "zeditor", "lapce"))
"""Editors that take ``FILE:LINE``."""


def editor_words(environ: Mapping[str, str]) -> list[str]:
    """The words of ``$VISUAL``, else of ``$EDITOR``. Raises TracehoundError without one that can be read."""
    for name in ("VISUAL", "EDITOR"):
        try:
            words = shlex.split(environ.get(name, ""))
        except ValueError as error:
            raise TracehoundError(f"${name} cannot be read: {str(error).lower()}") from error
        if words:
            return words
    raise TracehoundError("no editor is set", remedy="set $VISUAL or $EDITOR, such as EDITOR=vim")


def editor_command(words: list[str], path: Path, line: int) -> list[str]:
    """The editor's `words` and what makes it show a line (from 1) of a file, which must be absolute."""
    if not path.is_absolute():
        raise ValueError(path)
    name = Path(words[0]).name.removesuffix(".exe")
    if name in PLUS_LINE_EDITORS:
        return [*words, f"+{line}", str(path)]
    if name in GOTO_EDITORS:
        return [*words, "--goto", f"{path}:{line}"]
    if name in COLON_EDITORS:
        return [*words, f"{path}:{line}"]
    return [*words, str(path)]
