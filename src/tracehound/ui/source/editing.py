"""How the user's own editor is told to open a file at a line.

Owns the spellings of the common editors. The command is a list of words and never passes a shell; the file is absolute,
so that no name can be taken for an option.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from tracehound.errors import TracehoundError

PLUS = frozenset(
    ("vi", "vim", "nvim", "view", "gvim", "mvim", "elvis", "nano", "pico", "emacs", "emacsclient", "mg", "jed", "joe",
     "jmacs", "kak", "micro", "ne", "mcedit", "gedit", "less", "most")
)  # fmt: skip
"""Editors that take ``+LINE FILE``."""

GOTO = frozenset(("code", "code-insiders", "code-server", "codium", "vscodium", "cursor", "windsurf", "positron"))
"""Editors that take ``--goto FILE:LINE``."""

COLON = frozenset(("hx", "helix", "subl", "sublime_text", "zed", "zeditor", "lapce"))
"""Editors that take ``FILE:LINE``."""


def editor(environ: Mapping[str, str]) -> list[str]:
    """The words of ``$VISUAL``, else of ``$EDITOR``. Raises TracehoundError without one that can be read."""
    for name in ("VISUAL", "EDITOR"):
        try:
            words = shlex.split(environ.get(name, ""))
        except ValueError as error:
            raise TracehoundError(f"${name} cannot be read: {str(error).lower()}") from error
        if words:
            return words
    raise TracehoundError("no editor is set", remedy="set $VISUAL or $EDITOR, such as EDITOR=vim")


def command(words: list[str], path: Path, line: int) -> list[str]:
    """The editor's `words` and what makes it show a line (from 1) of a file, which must be absolute."""
    if not path.is_absolute():
        raise ValueError(path)
    name = Path(words[0]).name.removesuffix(".exe")
    if name in PLUS:
        return [*words, f"+{line}", str(path)]
    if name in GOTO:
        return [*words, "--goto", f"{path}:{line}"]
    if name in COLON:
        return [*words, f"{path}:{line}"]
    return [*words, str(path)]
