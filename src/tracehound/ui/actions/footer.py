"""Which keys the footer names: those of what has the keys, and none of rows where there is no row.

Knows no screen: each tells where its keys are.
"""

from __future__ import annotations

from textual.widget import Widget

from tracehound.ui.bindings import keys
from tracehound.ui.panes.arrivals import ArrivalsPane
from tracehound.ui.widgets.bars import KeyBar
from tracehound.ui.widgets.flame_view import FlameView
from tracehound.ui.widgets.result_table import ResultTable


def follow(bar: KeyBar, focused: Widget) -> None:
    """Name the keys of what has them now."""
    for group, title in keys.TITLES.items():
        if title == focused.BINDING_GROUP_TITLE:
            bar.group = group


def count_rows(bar: KeyBar, focused: Widget | None) -> None:
    """Name no key of rows where there is none."""
    bar.rowless = isinstance(focused, ResultTable | ArrivalsPane | FlameView) and focused.rowless
