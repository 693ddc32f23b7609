"""What can be looked at in a trace, under headings, and the one key that chooses each.

Owns the entries of the menu and which of them have tabs. Knows no screen. The key of a pane that has one of its own is
that; the others have letters, which depend on the list of analyses alone: the same one in every trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from string import ascii_letters

from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis import ANALYSES
from tracehound.analysis.topics import headed, lacking
from tracehound.draw.notes import note_text
from tracehound.trace import Trace
from tracehound.ui.bindings.keys import Key
from tracehound.ui.panes.deck import OTHERS, TABS
from tracehound.ui.widgets.bars import MENU, Tab, TabBar


class Entry(Struct, frozen=True):
    """A pane: the key that chooses it in the menu, what it answers, and why it cannot in this trace, if so."""

    pane: str
    key: str
    question: str
    lacks: str = ""

    @property
    def title(self) -> str:
        """Its name, as people write it."""
        return self.pane.replace("_", " ")


def entries(table: Sequence[Key], trace: Trace | None) -> list[tuple[str, list[Entry]]]:
    """Every pane under its heading; without a trace none lacks anything."""
    questions = {**{analysis.name: analysis.question for analysis in ANALYSES}, **OTHERS}
    keys = choices(table)
    *rows, (title, last) = headed([analysis.name for analysis in ANALYSES])
    return [
        (heading, [Entry(name, keys[name], questions[name], _lack(name, trace)) for name in names])
        for heading, names in (*rows, (title, [*last, *OTHERS]))
    ]


def _lack(name: str, trace: Trace | None) -> str:
    """The reason why a trace cannot answer a pane's question; "" where it may."""
    why = None if trace is None else lacking(name, trace)
    return "" if why is None else note_text(why)


def choices(table: Sequence[Key]) -> Mapping[str, str]:
    """The key of the menu for each pane: its own where it has one, else a letter of its name that is free."""
    shown = {key.id: key.keys[0] if key.keys and len(key.keys[0]) == 1 else "" for key in table}
    names = [*(name for _, under in headed([analysis.name for analysis in ANALYSES]) for name in under), *OTHERS]
    own = {name: key for name in names if (key := shown.get(f"pane.{name}", "") or shown.get(name, ""))}
    given = dict(own)
    for name in names:
        if name not in given:
            given[name] = _free(name, given.values())
    return given


def _free(name: str, taken: Iterable[str]) -> str:
    """The letter that a name begins with, small or capital, else another one of it, else any that is not taken.

    Nothing where there is none.
    """
    first, *letters = [letter for letter in name if letter.isalpha()]
    wished = [first, first.upper(), *letters, *map(str.upper, letters), *ascii_letters]
    used = set(taken)
    return next((letter for letter in wished if letter not in used), "")


def written(table: Sequence[Key]) -> Mapping[str, str]:
    """What is to be pressed for each pane: its own key, or that of the menu and then its letter."""
    shown = {key.id: key.shown.partition(" ")[0] for key in table}
    return {
        name: shown.get(f"pane.{name}") or (f"{shown[MENU]}{letter}" if shown.get(MENU) else "")
        for name, letter in choices(table).items()
    }


def label(bar: TabBar, table: Sequence[Key], trace: Trace | None) -> None:
    """Give a row of tabs what a trace can answer, with the keys of a table; for the rest there is the menu."""
    shown, keys = {key.id: key.shown.partition(" ")[0] for key in table}, written(table)
    may = {entry.pane for _, under in entries(table, trace) for entry in under if not entry.lacks}
    bar.tabs = tuple(replace(tab, key=shown.get(tab.pane) or keys[tab.pane]) for tab in TABS if tab.pane in may)
    named = {tab.pane for tab in bar.tabs}
    bar.others = tuple(Tab(pane, key) for pane, key in keys.items() if pane not in named)
    bar.menu = Tab(MENU, shown[MENU], f"all {len(may)}") if shown.get(MENU) else None
