"""An instruction of a program on a screen of its own.

Owns what frames it: a header that says which, the whole line of what the cursor is on, the keys. Where its messages
lead is for the explorer, under it.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.widgets import Static

from tracehound.draw.glyphs import Glyphs
from tracehound.formats.hlo.shape import space_name
from tracehound.ui.screens.leaving import LeftOnce
from tracehound.ui.state.leaf import Leaf
from tracehound.ui.terminal.outside import copy
from tracehound.ui.widgets.bars import HeaderBar, KeyBar
from tracehound.ui.widgets.leaf_view import LeafView
from tracehound.units import bytes_


class Leads(Struct, frozen=True):
    """Where the screen leads: to a source line named by words, and to an execution of an instruction."""

    source: Callable[[str], None]
    instance: Callable[[Leaf, int], None]


class HloScreen(LeftOnce[None]):
    """The page between its header and the keys; the line under the cursor stands whole above them."""

    DEFAULT_CSS = """
    HloScreen { layout: vertical; background: $background; }
    HloScreen > Static { height: 3; width: 1fr; padding: 0 1; background: $boost; color: $text-muted; }
    HloScreen.-low > Static { height: 2; }
    """

    def __init__(self, leaf: Leaf, glyphs: Glyphs, leads: Leads, run: str = "") -> None:
        """`run` says which of several runs it is of."""
        super().__init__()
        self.view = LeafView(leaf, glyphs)
        self._header = HeaderBar(glyphs)
        self._header.set_reactive(HeaderBar.place, run)
        self._line = Static(markup=False)
        self._keys = KeyBar(glyphs)
        self._glyphs = glyphs
        self._leads = leads

    def compose(self) -> ComposeResult:
        """Header, page, line, keys."""
        yield self._header
        yield self.view
        yield self._line
        yield self._keys

    def on_mount(self) -> None:
        """The keys are the page's."""
        self._keys.group = "hlo"
        self.view.focus()

    def on_resize(self) -> None:
        """A low terminal keeps its lines for the page."""
        self.set_class(self.size.height < 30, "-low")

    @on(LeafView.Moved)
    def _moved(self, message: LeafView.Moved) -> None:
        leaf = message.leaf
        shape = leaf.module.instruction(leaf.row).shape
        spaces = [space_name(space) for space in shape.spaces if space]
        self._header.title = f"%{leaf.name}"
        self._header.facts = (leaf.program.title, *([bytes_(shape.bytes)] if shape.bytes else []), *spaces)
        self._header.news = "" if leaf.module.whole else "its HLO is damaged: this is what lies before"
        self._line.update(Text(self._glyphs.words(message.line)))

    @on(LeafView.SourceAsked)
    def _source_asked(self, message: LeafView.SourceAsked) -> None:
        self._leads.source(message.words)

    @on(LeafView.InstanceAsked)
    def _instance_asked(self, message: LeafView.InstanceAsked) -> None:
        self._leads.instance(message.leaf, message.by)

    @on(LeafView.Copied)
    def _copied(self, message: LeafView.Copied) -> None:
        copy(self.app, message.text)

    async def on_key_bar_pressed(self, message: KeyBar.Pressed) -> None:
        """A click does what the key does."""
        if message.key.group == "hlo":
            await self.view.run_action(message.key.action)
