"""Menu of all panes under headings, each with one key.

Owns the entries of the menu and which panes have tabs. Knows no screen. A pane with a key of its own keeps it in the
menu; the others have letters that depend on the list of analyses alone, so they are the same for every trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from string import ascii_letters

from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis import ANALYSES
from tracehound.analysis.topics import group_by_heading, unavailable_note
from tracehound.draw.notes import note_text
from tracehound.model.trace import Trace
from tracehound.ui.bindings.keys import Key
from tracehound.ui.panes.pane_stack import NON_ANALYSIS_TABS, PANE_TABS
from tracehound.ui.widgets.status_bars import MENU_TAB, Tab, TabBar


class MenuEntry(Struct, frozen=True):
    """A pane: the key that chooses it in the menu, what it answers, and why it cannot in this trace, if so."""

    pane: str
    key: str
    question: str
    lacks: str = ""

    @property
    def title(self) -> str:
        """Its name, as people write it."""
        return self.pane.replace("_", " ")


def menu_entries(table: Sequence[Key], trace: Trace | None) -> list[tuple[str, list[MenuEntry]]]:
    """Every pane under its heading; without a trace none lacks anything."""
    questions = {**{analysis.name: analysis.question for analysis in ANALYSES}, **NON_ANALYSIS_TABS}
    keys = menu_keys(table)
    *rows, (title, last) = group_by_heading([analysis.name for analysis in ANALYSES])
    return [
        (heading, [MenuEntry(name, keys[name], questions[name], _missing_reason(name, trace)) for name in names])
        for heading, names in (*rows, (title, [*last, *NON_ANALYSIS_TABS]))
    ]


def _missing_reason(name: str, trace: Trace | None) -> str:
    """The reason why a trace cannot answer a pane's question; "" where it may."""
    why = None if trace is None else unavailable_note(name, trace)
    return "" if why is None else note_text(why)


def menu_keys(table: Sequence[Key]) -> Mapping[str, str]:
    """The key of the menu for each pane: its own where it has one, else a letter of its name that is free."""
    shown = {key.id: key.keys[0] if key.keys and len(key.keys[0]) == 1 else "" for key in table}
    names = [
        *(name for _, under in group_by_heading([analysis.name for analysis in ANALYSES]) for name in under),
        *NON_ANALYSIS_TABS,
    ]
    own = {name: key for name in names if (key := shown.get(f"pane.{name}", "") or shown.get(name, ""))}
    given = dict(own)
    for name in names:
        if name not in given:
            given[name] = _choose_free_letter(name, given.values())
    return given


def _choose_free_letter(name: str, taken: Iterable[str]) -> str:
    """The letter that a name begins with, small or capital, else another one of it, else any that is not taken.

    Nothing where there is none.
    """
    first, *letters = [letter for letter in name if letter.isalpha()]
    wished = [first, first.upper(), *letters, *map(str.upper, letters), *ascii_letters]
    used = set(taken)
    return next((letter for letter in wished if letter not in used), "")


def keys_to_press(table: Sequence[Key]) -> Mapping[str, str]:
    """Keys to press for each pane: its own key, or the menu key and then its letter."""
    shown = {key.id: key.shown.partition(" ")[0] for key in table}
    return {
        name: shown.get(f"pane.{name}") or (f"{shown[MENU_TAB]}{letter}" if shown.get(MENU_TAB) else "")
        for name, letter in menu_keys(table).items()
    }


def label_tabs(bar: TabBar, table: Sequence[Key], trace: Trace | None) -> None:
    """Give a row of tabs what a trace can answer, with the keys of a table; for the rest there is the menu."""
    shown, keys = {key.id: key.shown.partition(" ")[0] for key in table}, keys_to_press(table)
    may = {entry.pane for _, under in menu_entries(table, trace) for entry in under if not entry.lacks}
    bar.tabs = tuple(replace(tab, key=shown.get(tab.pane) or keys[tab.pane]) for tab in PANE_TABS if tab.pane in may)
    named = {tab.pane for tab in bar.tabs}
    bar.others = tuple(Tab(pane, key) for pane, key in keys.items() if pane not in named)
    bar.menu = Tab(MENU_TAB, shown[MENU_TAB], f"all {len(may)}") if shown.get(MENU_TAB) else None
