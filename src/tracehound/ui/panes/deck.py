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
        self.gaps = GapsPane(glyphs)
        self.questions = QueryPane(glyphs)
        self.overview = OverviewPane(glyphs)
        self.arrivals = ArrivalsPane(glyphs)
        names = [analysis.name for analysis in ANALYSES if analysis.name not in ("gaps", "arrivals")]
        self.flames = {name: FlamePane(name, glyphs) for name in FLAMES}
        self.tables = {name: TablePane(name, glyphs) for name in (*names, "search")}
        self.tables |= {name: pane.rows for name, pane in self.flames.items()}
        self.tables |= {"gaps": self.gaps.gaps, "gap-host": self.gaps.host, "query": self.questions.found}
        self._tabs: dict[str, Widget] = {tab.pane: self._in_tab(tab.pane) for tab in TABS if tab.pane != "details"}
        self._tabs["arrivals"] = self.arrivals
        beside = {pane for panes in STACKED.values() for pane in panes}
        self._tabs |= {name: self.tables[name] for name in names if name not in {*self._tabs, *beside}}
        self._tabs |= self.flames

    def _in_tab(self, tab: str) -> GapsPane | QueryPane | OverviewPane | TablePane | Column:
        if tab == "overview":
            return self.overview
        if tab in ("gaps", "query"):
            return self.gaps if tab == "gaps" else self.questions
        return Column(*(self.tables[name] for name in STACKED[tab])) if tab in STACKED else self.tables[tab]

    def compose(self) -> ComposeResult:
        """The active tab; another joins when it is first shown, since every widget delays the first picture."""
        yield self._tabs[self.active]

    @property
    def tabs(self) -> frozenset[str]:
        """What may be shown, by name."""
        return frozenset((*self._tabs, "details"))

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
        return self.overview.slots.get(result) or self.tables[result]

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
        if self.active in self.flames:
            self.flames[self.active].focus_pane()
            return
        for name in self.in_sight[:1]:
            self.tables[name].focus_pane()

    def watch_active(self, active: str) -> None:
        """Show one tab."""
        for tab, pane in self._tabs.items():
            pane.display = tab == active
        wanted = self._tabs.get(active)
        if self.is_running and self.is_attached and wanted is not None and not wanted.is_attached:  # or it leaves
            self.mount(wanted)
