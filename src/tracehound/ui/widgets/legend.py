"""The line that says what the colours of the lanes stand for, while that is not the kind.

Owns the line. What the classes are is for `draw.colouring`.
"""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual.widgets import Static

from tracehound.draw.colouring import Colouring
from tracehound.draw.glyphs import Glyphs
from tracehound.trace import KINDS
from tracehound.ui.wording.tones import tones


class Legend(Static):
    """What a colour, or a letter where there are none, stands for."""

    DEFAULT_CSS = """
    Legend { height: 1; background: $panel; color: $text-muted; padding: 0 1; display: none; text-wrap: nowrap; }
    """

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(markup=False)
        self._glyphs = glyphs

    def say(self, colouring: Colouring) -> None:
        """Show what this one means; nothing where colours are of kinds, which the page of keys explains."""
        self.display = colouring.by != "kind"
        look = tones(self.app, self._glyphs)
        text = Text(f"colours {colouring.meaning}")
        for code, name in colouring.legend:
            kind = KINDS[code]
            colour = look.palette.shade(colouring.hues[kind])
            letter = colouring.letters[kind] if colour is None or self._glyphs.name == "ascii" else "█"
            text.append("  ").append(letter, Style(color=colour)).append(f" {look.words(name)}")
        self.update(text)
