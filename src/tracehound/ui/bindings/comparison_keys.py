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
from tracehound.ui.panes.comparison_panes import COMPARISON_TABS
from tracehound.ui.widgets.status_bars import Tab

SHARED_KEYS: Final = (
    "help", "palette", "focus.next", "focus.previous", "copy_command", "notes", "hlo", "repaint", "suspend", "quit",
)  # fmt: skip
"""Keys that mean here what they mean in the explorer."""

EXPLORER_ONLY_KEYS: Final = ("timeline.cause", "timeline.effects", "timeline.place", "table.by")
"""Keys of a timeline and of tables that only the explorer of one run has."""

CHANGED_ACTIONS: Final = {
    "focus.next": "pass_keys(1)",
    "focus.previous": "pass_keys(-1)",
    "menu": "elsewhere('has a menu')",
    "settings": "elsewhere('has settings to choose')",
}
"""What keys of the whole explorer do on this screen; those for what there is of one run alone say where that is."""


def comparison_keys(table: Sequence[keys.Key]) -> tuple[keys.Key, ...]:
    """The keys of this screen, of a table of all."""
    groups = ("comparison", "timeline", "lanes", "table", "prompt")
    return tuple(
        key for key in table if key.id in SHARED_KEYS or (key.group in groups and key.id not in EXPLORER_ONLY_KEYS)
    )


def comparison_bindings() -> list[Binding]:
    """Textual bindings of the keys that work on the whole screen."""
    every = [*keys.textual_bindings("everywhere"), *keys.textual_bindings("comparison")]
    own = {key.id for key in keys.KEYS if key.group == "comparison"}
    return [
        dataclasses.replace(each, action=CHANGED_ACTIONS.get(each.id, each.action))
        for each in every
        if isinstance(each, Binding) and each.id in {*SHARED_KEYS, *CHANGED_ACTIONS, *own}
    ]


def with_comparison_keys_everywhere(table: Sequence[keys.Key]) -> tuple[keys.Key, ...]:
    """The keys with those of this screen among the ones that a footer names on every pane."""
    return tuple(replace(key, group="everywhere") if key.group == "comparison" else key for key in table)


def label_comparison_tabs(table: Sequence[keys.Key]) -> tuple[Tab, ...]:
    """The tabs with the keys of a table that show them."""
    shown = {key.id: key.shown.partition(" ")[0] for key in table}
    return tuple(replace(tab, key=shown.get(f"comparison.{tab.pane}", tab.key)) for tab in COMPARISON_TABS)
