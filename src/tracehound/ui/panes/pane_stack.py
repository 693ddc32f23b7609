"""Panes under the timeline, one of them visible.

Owns which panes exist, the tab of each, and the active tab.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from textual.app import ComposeResult
from textual.reactive import reactive
from textual.widget import Widget

from tracehound.analysis import ANALYSES
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.ui.panes.arrivals_pane import ArrivalsPane
from tracehound.ui.panes.flame_pane import FLAME_WEIGHTS, FlamePane
from tracehound.ui.panes.gaps_pane import GapsPane
from tracehound.ui.panes.overview_pane import OVERVIEW_ANALYSES, OverviewPane, OverviewSection
from tracehound.ui.panes.query_pane import QueryPane
from tracehound.ui.panes.rank_map_pane import RankMapPane
from tracehound.ui.panes.table_pane import TablePane
from tracehound.ui.widgets.boxes_and_scroll_bars import VerticalBox
from tracehound.ui.widgets.cursor_list import RowsAwaited
from tracehound.ui.widgets.result_table import ResultTable
from tracehound.ui.widgets.status_bars import Tab

PANE_TABS = (
    Tab("overview", "1", "over"), Tab("ops", "2"), Tab("gaps", "3"), Tab("steps", "4"),
    Tab("annotations", "5", "annot"), Tab("collectives", "6", "coll"), Tab("breakdown", "7", "break"),
    Tab("health", "8"), Tab("details", "9"),
    Tab("host", "t"), Tab("slices", "S"), Tab("search", "/", "find"), Tab("query", ":", "sql"),
)  # fmt: skip

TAB_RESULTS = {
    "breakdown": ("breakdown", "overview"),
    "details": (),
    "overview": tuple(f"overview/{name}" for name in OVERVIEW_ANALYSES),
}
"""Results of each tab that shows others than the one of its name. Details are no result; results of the overview are
prefixed by the tab's name.
"""

NON_ANALYSIS_TABS: Mapping[str, str] = MappingProxyType(
    {
        "details": "What does the selected event carry?",
        "search": "Which events have this in their names?",
        "query": "Anything else, in SQL",
    }
)
"""Tabs that show no analysis, with the question that each answers."""

PROMPT_TABS = ("search", "query")
"""Tabs whose results come only after the user typed something."""

_SHARED_TAB_RESULTS = {name for names in TAB_RESULTS.values() for name in names}
_TAB_NAMES = frozenset(tab.pane for tab in PANE_TABS) | {
    analysis.name for analysis in ANALYSES if analysis.name not in _SHARED_TAB_RESULTS
}
"""Names of all tabs: each analysis has its own, unless it is shown in another's."""


class PaneStack(VerticalBox):
    """A pane for every analysis, for search and query results, and for the host activity in gaps."""

    DEFAULT_CSS = """
    PaneStack { width: 1fr; height: 1fr; }
    PaneStack > VerticalBox { height: 1fr; }
    """

    active: reactive[str] = reactive("overview")
    """Active tab."""

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._full_text_key = ""
        self.gaps = GapsPane(glyphs)
        self.query_pane = QueryPane(glyphs)
        self.overview = OverviewPane(glyphs)
        self.arrivals = ArrivalsPane(glyphs)
        self.rank_map = RankMapPane(glyphs)
        self.flames: dict[str, FlamePane] = {}
        self.tables = {"gaps": self.gaps.gaps, "gap-host": self.gaps.host, "query": self.query_pane.answer}
        self._tab_widgets: dict[str, Widget] = {
            "overview": self.overview, "gaps": self.gaps, "query": self.query_pane, "arrivals": self.arrivals,
            "rank_map": self.rank_map,
        }  # fmt: skip

    def table_pane(self, name: str) -> TablePane:
        """Pane with the rows of a result, made on first use and kept in `tables`."""
        if name not in self.tables:
            self.tables[name] = (
                self._flame_pane(name).table_pane if name in FLAME_WEIGHTS else TablePane(name, self._glyphs)
            )
            self.tables[name].set_full_text_key(self._full_text_key)
        return self.tables[name]

    def _flame_pane(self, name: str) -> FlamePane:
        if name not in self.flames:
            self.flames[name] = FlamePane(name, self._glyphs)
        return self.flames[name]

    def _tab_content(self, name: str) -> Widget:
        """Widget of a tab, made on first use: most are never shown, and all together would delay the start."""
        if name not in self._tab_widgets:
            rows = [self.table_pane(each) for each in TAB_RESULTS.get(name, (name,))]
            self._tab_widgets[name] = VerticalBox(*rows) if name in TAB_RESULTS else self.flames.get(name, rows[0])
        return self._tab_widgets[name]

    def set_full_text_key(self, key: str) -> None:
        """Set the key that all panes name where text is cut."""
        self._full_text_key = key
        for pane in self.tables.values():
            pane.set_full_text_key(key)

    def compose(self) -> ComposeResult:
        """Yield the active tab; others are mounted when they are first shown."""
        yield self._tab_content(self.active)

    @property
    def tabs(self) -> frozenset[str]:
        """Names of all tabs."""
        return _TAB_NAMES

    @property
    def active_results(self) -> tuple[str, ...]:
        """Results of the active tab."""
        return TAB_RESULTS.get(self.active, (self.active,))

    @property
    def dependent_results(self) -> tuple[str, ...]:
        """Results that depend on a row of the active tab's."""
        return ("gap-host",) if self.active == "gaps" else ()

    def pane_for(self, result: str) -> TablePane | OverviewSection | ArrivalsPane | RankMapPane:
        """Pane that shows a result."""
        if result == "arrivals":
            return self.arrivals
        if result == "rank_map":
            return self.rank_map
        return self.overview.sections.get(result) or self.table_pane(result)

    def result_name(self, table: ResultTable) -> str:
        """Name of the result that a table shows."""
        return next(name for name, pane in self.tables.items() if pane.table is table)

    @property
    def results_for_postponed(self) -> tuple[str, ...]:
        """Results whose rows keys wait for, also of tabs that are not shown any more."""
        return tuple(name for name, widget in self._widgets_with_rows if widget.has_postponed and name in self.tabs)

    def forget_postponed(self) -> bool:
        """Drop the keys that wait for rows. Returns True if there were any."""
        return sum(widget.forget_postponed() for _, widget in self._widgets_with_rows) > 0

    @property
    def _widgets_with_rows(self) -> list[tuple[str, RowsAwaited]]:
        tables = ((name, pane.table) for name, pane in self.tables.items())
        flames = ((name, pane.flame_view) for name, pane in self.flames.items())
        return [*tables, *flames, ("arrivals", self.arrivals), ("rank_map", self.rank_map)]

    @property
    def is_ready(self) -> bool:
        """True if the active tab is mounted and can take the focus."""
        pane = self._tab_widgets.get(self.active)
        return pane is None or (pane.is_mounted and all(child.is_mounted for child in pane.query("*")))

    def focus_active(self) -> None:
        """Focus the first table of the active tab, or the query prompt."""
        alone: dict[str, QueryPane | OverviewPane | ArrivalsPane | RankMapPane] = {
            "query": self.query_pane, "overview": self.overview, "arrivals": self.arrivals, "rank_map": self.rank_map,
        }  # fmt: skip
        if self.active in alone:
            alone[self.active].focus_pane()
            return
        if self.active in FLAME_WEIGHTS:
            self._flame_pane(self.active).focus_pane()
            return
        for name in self.active_results[:1]:
            self.table_pane(name).focus_pane()

    def watch_active(self, active: str) -> None:
        """Show one tab."""
        wanted = self._tab_content(active) if active != "details" else None
        for pane in self._tab_widgets.values():
            pane.display = pane is wanted
        if (
            self.is_running and self.is_attached and wanted is not None and not wanted.is_attached
        ):  # not while the application exits
            self.mount(wanted)
