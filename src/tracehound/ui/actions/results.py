"""What the tables are about: which snapshot of the trace, which window, and which of them are in sight.

Owns the questions that follow from that and where the answers are shown. Knows the panes, and no key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tracehound.analysis.settings import Given
from tracehound.trace import Trace, Window
from tracehound.ui.actions import choosing
from tracehound.ui.actions.asking import Asker
from tracehound.ui.background.answers import Answers, Question, Snapshot
from tracehound.ui.background.counted import Counted, CountingRow, counting
from tracehound.ui.panes.deck import TYPED, Deck
from tracehound.ui.panes.pane import TablePane
from tracehound.ui.panes.query import QueryPane
from tracehound.ui.state import follow, navigate
from tracehound.ui.state.view import View
from tracehound.ui.wording import words

Span = tuple[int, int]


class Results:
    """Keeps the tables of a deck up to date."""

    def __init__(self, deck: Deck, answers: Answers) -> None:
        self._deck = deck
        self._answers = answers
        self._snapshot: Snapshot | None = None
        self._picked: tuple[str, Span | None, Span | None] = ("", None, None)
        self._given: dict[str, Given] = {}
        self._shown: dict[str, tuple[Trace, Question]] = {}
        self.counted = Counted()
        self.queried: tuple[str, Window] | None = None
        """The last query, and what it is about."""

    def follow(self, trace: Trace, unread: frozenset[int]) -> None:
        """The trace has grown: ask it from now on, unless the last answers are new enough for one that still grows."""
        old = self._snapshot
        if old is None or not unread or old.trace.origin_ns != trace.origin_ns or self._answers.rested:
            self.settle(trace, unread)

    def settle(self, trace: Trace, unread: frozenset[int]) -> None:
        """Ask this trace from now on, unless nothing of it is read."""
        old = self._snapshot
        if len(unread) < max(1, len(trace.parts)) and (old is None or old.trace is not trace):
            self._snapshot = Snapshot.of(0 if old is None else old.version + 1, trace, unread)

    def forget(self) -> None:
        """Show nothing: the ids in the tables mean something else now."""
        self._shown.clear()
        for pane in self._deck.tables.values():
            pane.forget()
        self._deck.arrivals.forget()
        for slot in self._deck.overview.slots.values():
            slot.forget()

    def choose(self, pane: str, given: Given) -> None:
        """Work out what a pane shows with these settings from now on."""
        self._given[pane] = given

    def given(self, pane: str) -> Given:
        """What is chosen of the settings of what a pane shows."""
        return self._given.get(pane, ())

    @property
    def kept(self) -> choosing.Kept:
        """All that is chosen, for the next visit."""
        return {pane: dict(given) for pane, given in self._given.items() if given}

    def pick(self, window: Span, table: str, view: View) -> None:
        """Remember that a window was picked from a table: that one table is not narrowed to its own row."""
        self._picked = (table, window, self._narrowed(table, view))

    def _narrowed(self, table: str, view: View) -> Span | None:
        """The window that a table is about; health is always about the whole run."""
        if table == "health":
            return None
        origin, window, before = self._picked
        return before if (origin, window) == (table, view.selection) else view.selection

    def ask(self, view: View) -> None:
        """Have the results that are in sight worked out for the view; while there is nothing to ask, say so."""
        snapshot = self._snapshot
        for name in self._deck.in_sight:
            if snapshot is None:
                self._deck.shows(name).wait(words.UNREAD)
            elif name not in TYPED:
                analysis = name.rpartition("/")[2]
                narrowed, shows = self._narrowed(analysis, view), self._deck.shows(name)
                if isinstance(shows, TablePane):
                    shows.set_aside(aside=narrowed is None and view.selection is not None)
                window = view.window.at(*(narrowed or (None, None)))
                if name == "slices":
                    window = of_lane(window, snapshot.trace, view)
                if self._answers.ask(name, snapshot, snapshot.question(analysis, window, self.given(name))):
                    shows.wait(f"{analysis.replace('_', ' ')}: working it out")

    def query(self, asker: Asker, asked: QueryPane.Asked, view: View) -> None:
        """Have a query answered for the view."""
        if (snapshot := self._snapshot) is not None:
            self.queried = asked.statement, view.window
            asker.ask(asked, snapshot.trace, snapshot.question("query", view.window).window, snapshot.words)

    def show(self, answer: Answers.Answered) -> None:
        """Show an answer, if its pane still waits for it."""
        if not self._answers.wanted(answer):
            return
        table, snapshot, window = self._deck.shows(answer.pane), answer.snapshot, answer.question.window
        if answer.result is None:
            table.fail(answer.failure)
            return
        self._shown[answer.pane] = snapshot.trace, answer.question
        bounds = (window.start, window.end) if window.start is not None and window.end is not None else None
        so_far = " · ".join(filter(None, [choosing.said(answer.question.given), snapshot.words]))
        untold = replace(answer.result, notes=words.besides(answer.result.notes, so_far))
        nothing = words.empty(untold, snapshot.trace, bounds)
        table.show(answer.result, bounds, nothing, so_far)

    def counting(self, trace: Trace, pane: str, row: Mapping[str, Any]) -> CountingRow | None:
        """A row of a pane as one that counts events; None where it does not."""
        if pane == "search":
            return counting(trace, row, None)
        shown = self._shown.get(pane)
        return None if shown is None else counting(shown[0], row, shown[1])

    def point(self, row: dict[str, Any] | None) -> None:
        """Work out what the host did in the gap under the cursor."""
        snapshot = self._snapshot
        window = follow.window_of(snapshot.trace, row) if snapshot is not None and row is not None else None
        if snapshot is None or row is None or window is None:
            self._answers.forget("gap-host")
            return
        there = Window(*window, ranks=(row["rank"],))
        self._answers.ask("gap-host", snapshot, snapshot.question("host", there))


def of_lane(window: Window, trace: Trace, view: View) -> Window:
    """The window, of the lane under the cursor alone; of all lanes where it is on none."""
    rank = navigate.rank_of(trace, view)
    if view.lane is None or rank is None:
        return window
    return replace(window, ranks=(rank,), lanes=(view.lane,))
