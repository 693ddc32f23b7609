"""Tables of a comparison and its waterfall chart, one tab of them visible.

Owns which tables belong to which tab.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.reactive import reactive

from tracehound.analysis.result import Result
from tracehound.diff import Comparison, comparability_notes
from tracehound.draw import result_details
from tracehound.draw.charts import analysis_charts
from tracehound.draw.fact_layout import FactSection
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.notes import note_texts
from tracehound.draw.text_wrapping import CaptionText
from tracehound.errors import printable
from tracehound.ui.bindings.keys import Key
from tracehound.ui.panes.table_pane import Caption, TablePane, caption_text
from tracehound.ui.widgets.boxes_and_scroll_bars import VerticalBox
from tracehound.ui.widgets.chart_view import ChartView
from tracehound.ui.widgets.result_table import ResultTable
from tracehound.ui.widgets.status_bars import Tab

COMPARISON_TABS: Final = (
    Tab("ops", "3"), Tab("categories", "4", "kinds"), Tab("change", "5"), Tab("parts", "6"),
    Tab("causes", "7"), Tab("marks", "8"), Tab("counters", "9", "count"),
)  # fmt: skip

TAB_TABLES: Final = {
    "ops": ("diff-ops",),
    "categories": ("diff-categories",),
    "parts": ("diff", "diff-phases", "diff-ranks"),
    "causes": ("diff-causes", "diff-idle"),
    "marks": ("diff-marks",),
    "counters": ("diff-memory", "diff-counters"),
}
"""Results of each tab that has tables."""

FIRST_TAB: Final = "ops"
"""Tab that is shown first."""

MEMORY_TAB: Final = "counters"
"""Tab of memory timelines."""

EMPTY_TEXTS: Final = {
    "diff-ops": "no ops in either run",
    "diff-categories": "no ops in either run",
    "diff": "no steps",
    "diff-causes": "no launches, pauses or compilations in either run",
    "diff-phases": "no phases of inference (prefill, decode) in the names of steps",
    "diff-ranks": "not several ranks, the same in both runs",
    "diff-idle": "no idle time with known reasons in both runs",
    "diff-marks": "neither run has annotations or modules: record_function(...), TraceAnnotation, with_stack=True",
    "diff-memory": "no counter of bytes in both runs; a run of PyTorch has one with profile_memory=True",
    "diff-counters": "no counter of anything but bytes in both runs",
}


MAX_HEADLINE_LINES: Final = 3
"""Lines of the headline above the tables; all of it is in the full text."""


class WaterfallPane(VerticalBox, can_focus=True):
    """Waterfall from the baseline's step time to the candidate's, one bar for each change.

    It has no keys of its own.
    """

    BINDING_GROUP_TITLE = "Comparison"
    DEFAULT_CSS = "WaterfallPane ChartView { height: 1fr; }"

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self.caption = Caption(glyphs)
        self.chart = ChartView(glyphs)
        self.full_text: list[FactSection] = []
        """Title and notes as sections of text."""

    def compose(self) -> ComposeResult:
        """Yield the caption and the chart."""
        yield self.caption
        yield self.chart

    def on_focus(self) -> None:
        """Mark the title."""
        self.caption.focused = True

    def on_blur(self) -> None:
        """Mark the title no longer."""
        self.caption.focused = False

    def show(self, result: Result, about: str) -> None:
        """Draw a waterfall; `about` says what its numbers are of."""
        self.full_text = [
            result_details.notes_section((result.title, about), note_texts(result.notes)),
            result_details.columns_section(result),
        ]
        self.caption.text = caption_text((result.title, about), result.notes)
        self.chart.draws = partial(analysis_charts.draw_chart, result, "", 0)


class ComparisonPanes(VerticalBox):
    """All tables of a comparison in tabs."""

    active: reactive[str] = reactive(FIRST_TAB)
    """Active tab."""

    DEFAULT_CSS = f"ComparisonPanes > .headline {{ dock: top; max-height: {MAX_HEADLINE_LINES}; }}"

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.headline = Caption(glyphs)
        self.headline.add_class("headline")
        self.tables = {name: TablePane(name, glyphs) for names in TAB_TABLES.values() for name in names}
        self.waterfall = WaterfallPane(glyphs)
        self._tabs: dict[str, VerticalBox] = {
            tab: self.tables[names[0]] if len(names) == 1 else VerticalBox(*(self.tables[name] for name in names))
            for tab, names in TAB_TABLES.items()
        }
        self._tabs["change"] = self.waterfall

    def compose(self) -> ComposeResult:
        """Yield the headline and the active tab; others are mounted when they are first shown."""
        yield self.headline
        yield self._tabs[self.active]

    def show(self, found: Comparison) -> None:
        """Show the differences of two runs, with doubts about them first."""
        doubt = "; ".join(note_texts(comparability_notes(found.baseline, found.candidate)))
        self.headline.text = CaptionText(tuple(map(printable, note_texts(found.headline_notes))))
        self.headline.display = bool(self.headline.text.heading)
        known = {result.analysis: result for result in found.results}
        for name, pane in self.tables.items():
            if name in known:
                pane.show(known[name], None, EMPTY_TEXTS[name], doubt, found.scope)
            else:
                pane.show_failure(EMPTY_TEXTS[name])
        for _, *further in TAB_TABLES.values():
            for name in further:  # a table without rows would take lines from the first one of its tab
                self.tables[name].display = name in known
        self.waterfall.show(found.waterfall, found.scope)

    def set_full_text_key(self, key: str) -> None:
        """Set the key that the captions name where notes are cut."""
        for pane in self.tables.values():
            pane.set_full_text_key(key)
        self.waterfall.caption.key = key
        self.headline.key = key

    def show_waiting(self, message: str) -> None:
        """Show why there is nothing yet."""
        for pane in self.tables.values():
            pane.show_waiting(message)
        self.headline.display = False
        self.waterfall.caption.text = CaptionText((message,))

    def show_failure(self, message: str) -> None:
        """Show why there is no result."""
        for pane in self.tables.values():
            pane.show_failure(message)
        self.headline.display = False
        self.waterfall.caption.text = CaptionText((message,))

    @property
    def first_table(self) -> ResultTable | None:
        """First table of the active tab; None for the chart."""
        names = TAB_TABLES.get(self.active, ())
        return self.tables[names[0]].table if names else None

    @property
    def full_text(self) -> list[FactSection]:
        """The headline and all notes of the active tab as sections of text."""
        names = TAB_TABLES.get(self.active, ())
        sections = [section for name in names for section in self.tables[name].full_text] or self.waterfall.full_text
        headline = self.headline.text.heading
        return [result_details.notes_section(("Comparison", ""), headline), *sections] if headline else sections

    def focus_active(self) -> None:
        """Focus the first table of the active tab, or its chart, so that no hidden table has the focus."""
        (self.first_table or self.waterfall).focus()

    def watch_active(self, active: str) -> None:
        """Show one tab."""
        for tab, pane in self._tabs.items():
            pane.display = tab == active
        wanted = self._tabs[active]
        if self.is_running and self.is_attached and not wanted.is_attached:  # not while the application exits
            self.mount(wanted)


def label_comparison_tabs(table: Sequence[Key]) -> tuple[Tab, ...]:
    """The tabs with the keys of a table that show them."""
    shown = {key.id: key.shown.partition(" ")[0] for key in table}
    return tuple(replace(tab, key=shown.get(f"comparison.{tab.pane}", tab.key)) for tab in COMPARISON_TABS)
