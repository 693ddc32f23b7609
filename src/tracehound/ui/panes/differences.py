"""The tables of a comparison, and the chart of where its change comes from; one tab of them is shown.

Owns which tables stand in which tab. Knows no trace and no timeline.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from textual.app import ComposeResult
from textual.reactive import reactive

from tracehound.analysis.result import Result
from tracehound.diff import Comparison, doubts
from tracehound.draw import in_full, plots
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.notes import note_texts
from tracehound.draw.sheet import Section
from tracehound.ui.panes.caption import Caption
from tracehound.ui.panes.pane import TablePane
from tracehound.ui.widgets.bars import Tab
from tracehound.ui.widgets.chart_view import ChartView
from tracehound.ui.widgets.plain_box import Column
from tracehound.ui.widgets.result_table import ResultTable

TABS: Final = (
    Tab("ops", "3"), Tab("categories", "4", "kinds"), Tab("change", "5"), Tab("parts", "6"),
    Tab("causes", "7"), Tab("marks", "8"), Tab("counters", "9", "count"),
)  # fmt: skip

TABLES: Final = {
    "ops": ("diff-ops",),
    "categories": ("diff-categories",),
    "parts": ("diff",),
    "causes": ("diff-causes",),
    "marks": ("diff-marks",),
    "counters": ("diff-memory", "diff-counters"),
}
"""The results of each tab that has tables."""

FIRST: Final = "ops"
"""The tab that is shown at first."""

OF_MEMORY: Final = "counters"
"""The one with what is known of memory timelines."""

NOTHING: Final = {
    "diff-ops": "no ops in either run",
    "diff-categories": "no ops in either run",
    "diff": "no steps",
    "diff-causes": "no launches, pauses or compilations in either run",
    "diff-marks": "neither run has annotations or modules: record_function(...), TraceAnnotation, with_stack=True",
    "diff-memory": "no counter of bytes in both runs; a run of PyTorch has one with profile_memory=True",
    "diff-counters": "no counter of anything but bytes in both runs",
}


class WaterfallPane(Column, can_focus=True):
    """From the step of the base to that of the other run, change by change; it has no keys but those of the screen."""

    BINDING_GROUP_TITLE = "Comparison"
    DEFAULT_CSS = "WaterfallPane ChartView { height: 1fr; }"

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self.caption = Caption(glyphs)
        self.chart = ChartView(glyphs)
        self.in_full: list[Section] = []
        """All that is said of it."""

    def compose(self) -> ComposeResult:
        """What it is, and the chart."""
        yield self.caption
        yield self.chart

    def show(self, result: Result, about: str) -> None:
        """Draw this; `about` says what its figures are of."""
        self.in_full = [in_full.notes((result.title, about), note_texts(result.notes)), in_full.columns(result)]
        self.caption.parts = (result.title, about, *note_texts(result.notes))
        self.chart.draws = partial(plots.plot, result, "", 0)


class Differences(Column):
    """All tables of a comparison, a tab for each or for a few."""

    active: reactive[str] = reactive(FIRST)
    """The tab that is shown."""

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.tables = {name: TablePane(name, glyphs) for names in TABLES.values() for name in names}
        self.change = WaterfallPane(glyphs)
        self._tabs: dict[str, Column] = {
            tab: self.tables[names[0]] if len(names) == 1 else Column(*(self.tables[name] for name in names))
            for tab, names in TABLES.items()
        }
        self._tabs["change"] = self.change

    def compose(self) -> ComposeResult:
        """The active tab; another joins when it is first shown."""
        yield self._tabs[self.active]

    def show(self, found: Comparison) -> None:
        """Show what two runs differ in, and before that why to doubt it."""
        doubt = "; ".join(note_texts(doubts(found.base, found.other)))
        known = {result.analysis: result for result in found.results}
        for name, pane in self.tables.items():
            if name in known:
                pane.show(known[name], None, NOTHING[name], doubt, found.scope)
            else:
                pane.fail(NOTHING[name])
        self.change.show(found.waterfall, found.scope)

    def hint(self, key: str) -> None:
        """Say where something is left out what is to be pressed for all of it."""
        for pane in self.tables.values():
            pane.hint(key)
        self.change.caption.key = key

    def wait(self, message: str) -> None:
        """Say why there is nothing yet."""
        for pane in self.tables.values():
            pane.wait(message)
        self.change.caption.parts = (message,)

    def fail(self, message: str) -> None:
        """Say why there will be nothing."""
        for pane in self.tables.values():
            pane.fail(message)
        self.change.caption.parts = (message,)

    @property
    def first(self) -> ResultTable | None:
        """The first table of the active tab; a chart has none."""
        names = TABLES.get(self.active, ())
        return self.tables[names[0]].table if names else None

    @property
    def in_full(self) -> list[Section]:
        """All that is said of the tables of the active tab, or of its chart."""
        names = TABLES.get(self.active, ())
        return [section for name in names for section in self.tables[name].in_full] or self.change.in_full

    def focus_active(self) -> None:
        """Give the keys to the first table of the active tab, or to its chart, so that no table behind it has them."""
        (self.first or self.change).focus()

    def watch_active(self, active: str) -> None:
        """Show one tab."""
        for tab, pane in self._tabs.items():
            pane.display = tab == active
        wanted = self._tabs[active]
        if self.is_running and self.is_attached and not wanted.is_attached:  # who leaves is attached no more
            self.mount(wanted)
