"""The keys of the screen that compares two runs: its own, and those of the explorer's that mean the same there.

Owns that choice. Knows no widget but the row of tabs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace
from textual.binding import Binding

from tracehound.ui.bindings import keys
from tracehound.ui.panes.differences import TABS
from tracehound.ui.widgets.bars import Tab

SHARED: Final = (
    "help", "palette", "focus.next", "focus.previous", "copy_command", "notes", "hlo", "repaint", "suspend", "quit",
)  # fmt: skip
"""Keys that mean here what they mean in the explorer."""

ELSEWHERE: Final = ("timeline.cause", "timeline.effects", "timeline.place", "table.by")
"""Keys of a timeline and of tables that only the explorer of one run has."""

ACTIONS: Final = {
    "focus.next": "pass_keys(1)",
    "focus.previous": "pass_keys(-1)",
    "menu": "elsewhere('has a menu')",
    "settings": "elsewhere('has settings to choose')",
}
"""What keys of the whole explorer do on this screen; those for what there is of one run alone say where that is."""


def offered(table: Sequence[keys.Key]) -> tuple[keys.Key, ...]:
    """The keys of this screen, of a table of all."""
    groups = ("comparison", "timeline", "lanes", "table", "prompt")
    return tuple(key for key in table if key.id in SHARED or (key.group in groups and key.id not in ELSEWHERE))


def bindings() -> list[Binding]:
    """What Textual needs to know of those that work on the whole screen."""
    every = [*keys.bindings("everywhere"), *keys.bindings("comparison")]
    own = {key.id for key in keys.KEYS if key.group == "comparison"}
    return [
        dataclasses.replace(each, action=ACTIONS.get(each.id, each.action))
        for each in every
        if isinstance(each, Binding) and each.id in {*SHARED, *ACTIONS, *own}
    ]


def everywhere(table: Sequence[keys.Key]) -> tuple[keys.Key, ...]:
    """The keys with those of this screen among the ones that a footer names on every pane."""
    return tuple(replace(key, group="everywhere") if key.group == "comparison" else key for key in table)


def labelled(table: Sequence[keys.Key]) -> tuple[Tab, ...]:
    """The tabs with the keys of a table that show them."""
    shown = {key.id: key.shown.partition(" ")[0] for key in table}
    return tuple(replace(tab, key=shown.get(f"comparison.{tab.pane}", tab.key)) for tab in TABS)
