"""The panes under the timeline, one of which is shown.

Owns which panes there are, in which tab each stands, and which one is in sight. Knows no trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from textual.app import ComposeResult
from textual.reactive import reactive
from textual.widget import Widget

from tracehound.analysis import ANALYSES
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.ui.panes.arrivals import ArrivalsPane
from tracehound.ui.panes.flame import FLAMES, FlamePane
from tracehound.ui.panes.gaps import GapsPane
from tracehound.ui.panes.overview import PARTS, OverviewPane, Slot
from tracehound.ui.panes.pane import TablePane
from tracehound.ui.panes.query import QueryPane
from tracehound.ui.widgets.bars import Tab
from tracehound.ui.widgets.plain_box import Column
from tracehound.ui.widgets.result_table import ResultTable

TABS = (
    Tab("overview", "1", "over"), Tab("ops", "2"), Tab("gaps", "3"), Tab("steps", "4"),
    Tab("annotations", "5", "annot"), Tab("collectives", "6", "coll"), Tab("breakdown", "7", "break"),
    Tab("health", "8"), Tab("details", "9"),
    Tab("host", "t"), Tab("slices", "S"), Tab("search", "/", "find"), Tab("query", ":", "sql"),
)  # fmt: skip

STACKED = {
    "breakdown": ("breakdown", "overview"),
    "details": (),
    "overview": tuple(f"overview/{name}" for name in PARTS),
}
"""Which results a tab shows, where that is not the one of its name alone. Details are no result; those of the overview
have the name of the tab before their own."""

OTHERS: Mapping[str, str] = MappingProxyType(
    {
        "details": "What does the selected event carry?",
        "search": "Which events have this in their names?",
        "query": "Anything else, in SQL",
    }
)
"""Tabs that show no analysis, and what they answer."""

TYPED = ("search", "query")
"""Tabs whose results come when somebody types, and not by themselves."""

_BESIDE = {name for names in STACKED.values() for name in names}
_NAMES = frozenset(tab.pane for tab in TABS) | {analysis.name for analysis in ANALYSES if analysis.name not in _BESIDE}
"""What may be shown: an analysis has a tab of its own, unless it stands in another's."""


class Deck(Column):
    """A pane for every analysis, for what a search and a query found, and the one beside the gaps."""

    DEFAULT_CSS = """
    Deck { width: 1fr; height: 1fr; }
    Deck > Column { height: 1fr; }
    """

    active: reactive[str] = reactive("ops")
    """The tab that is shown."""

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._key = ""
        self.gaps = GapsPane(glyphs)
        self.questions = QueryPane(glyphs)
        self.overview = OverviewPane(glyphs)
        self.arrivals = ArrivalsPane(glyphs)
        self.flames: dict[str, FlamePane] = {}
        self.tables = {"gaps": self.gaps.gaps, "gap-host": self.gaps.host, "query": self.questions.found}
        self._tabs: dict[str, Widget] = {
            "overview": self.overview, "gaps": self.gaps, "query": self.questions, "arrivals": self.arrivals,
        }  # fmt: skip

    def table(self, name: str) -> TablePane:
        """The pane that has the rows of a result, made when it is first asked for: `tables` has those that were."""
        if name not in self.tables:
            self.tables[name] = self._flame(name).rows if name in FLAMES else TablePane(name, self._glyphs)
            self.tables[name].hint(self._key)
        return self.tables[name]

    def _flame(self, name: str) -> FlamePane:
        if name not in self.flames:
            self.flames[name] = FlamePane(name, self._glyphs)
        return self.flames[name]

    def _tab(self, name: str) -> Widget:
        """What a tab shows, made when it is first shown: most never are, and together they would delay the start."""
        if name not in self._tabs:
            rows = [self.table(each) for each in STACKED.get(name, (name,))]
            self._tabs[name] = Column(*rows) if name in STACKED else self.flames.get(name, rows[0])
        return self._tabs[name]

    def hint(self, key: str) -> None:
        """Say in every pane where something is left out what is to be pressed for all of it."""
        self._key = key
        for pane in self.tables.values():
            pane.hint(key)

    def compose(self) -> ComposeResult:
        """The active tab; another joins when it is first shown."""
        yield self._tab(self.active)

    @property
    def tabs(self) -> frozenset[str]:
        """What may be shown, by name."""
        return _NAMES

    @property
    def in_sight(self) -> tuple[str, ...]:
        """The results of the active tab."""
        return STACKED.get(self.active, (self.active,))

    @property
    def beside(self) -> tuple[str, ...]:
        """What stands beside these: it follows a row of them."""
        return ("gap-host",) if self.active == "gaps" else ()

    def shows(self, result: str) -> TablePane | Slot | ArrivalsPane:
        """What shows a result."""
        if result == "arrivals":
            return self.arrivals
        return self.overview.slots.get(result) or self.table(result)

    def name_of(self, table: ResultTable) -> str:
        """Which result a table shows."""
        return next(name for name, pane in self.tables.items() if pane.table is table)

    @property
    def ready(self) -> bool:
        """Whether the active tab can take the keys."""
        pane = self._tabs.get(self.active)
        return pane is None or (pane.is_mounted and all(child.is_mounted for child in pane.query("*")))

    def focus_active(self) -> None:
        """Give the keys to the first table of the active tab, or to the prompt of queries."""
        alone: dict[str, QueryPane | OverviewPane | ArrivalsPane] = {
            "query": self.questions, "overview": self.overview, "arrivals": self.arrivals,
        }  # fmt: skip
        if self.active in alone:
            alone[self.active].focus_pane()
            return
        if self.active in FLAMES:
            self._flame(self.active).focus_pane()
            return
        for name in self.in_sight[:1]:
            self.table(name).focus_pane()

    def watch_active(self, active: str) -> None:
        """Show one tab."""
        wanted = self._tab(active) if active != "details" else None
        for pane in self._tabs.values():
            pane.display = pane is wanted
        if self.is_running and self.is_attached and wanted is not None and not wanted.is_attached:  # or it leaves
            self.mount(wanted)
