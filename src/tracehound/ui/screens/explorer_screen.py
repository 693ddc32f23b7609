"""Screen of the explorer: the timeline, the panes below it, and their connections.

Owns the view. Widgets post what the user did; this screen passes it on to the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input

from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.model.trace import Trace
from tracehound.store import TraceReader
from tracehound.ui.actions import copy_as_command, navigation, pane_requests, pane_settings, prompt_line
from tracehound.ui.actions.critical_path_overlay import CriticalPathOverlay
from tracehound.ui.actions.hlo_navigation import ExplorerHloOpener
from tracehound.ui.actions.navigation import FIRST_PANE, Navigation
from tracehound.ui.actions.pane_requests import QueryRunner, save_table
from tracehound.ui.actions.pane_results import RANK_MAP, PaneResultUpdater
from tracehound.ui.actions.prompt_line import PromptLine, SearchSession
from tracehound.ui.actions.screen_layouts import (
    ClosingOrder,
    ExplorerLayout,
    close_last_opened,
    note_what_is_open,
)
from tracehound.ui.actions.selected_event_display import SelectedEventDisplay
from tracehound.ui.actions.source_navigation import SourceNavigation
from tracehound.ui.actions.trace_updates import TraceUpdates
from tracehound.ui.background.analysis_runner import AnalysisRunner
from tracehound.ui.background.background_thread import BackgroundThread
from tracehound.ui.background.event_finder import EventFinder
from tracehound.ui.background.event_links import LinkFinder
from tracehound.ui.background.event_reader import EventReader
from tracehound.ui.background.lane_loader import LaneLoader
from tracehound.ui.background.trace_loader import TraceLoader
from tracehound.ui.bindings import keys
from tracehound.ui.panes import pane_menu
from tracehound.ui.panes.arrivals_pane import ArrivalsPane
from tracehound.ui.panes.charted_table import ChartedTable
from tracehound.ui.panes.details_pane import FactSheet
from tracehound.ui.panes.gaps_pane import GapsPane
from tracehound.ui.panes.overview_pane import OverviewPane
from tracehound.ui.panes.pane_stack import PaneStack
from tracehound.ui.panes.query_pane import QueryPane
from tracehound.ui.panes.rank_map_pane import RankMapPane
from tracehound.ui.panes.table_pane import TablePane
from tracehound.ui.screens.menu_screen import MenuScreen
from tracehound.ui.screens.text_dialogs import HelpScreen
from tracehound.ui.source_files import SourceFolders
from tracehound.ui.state import row_target
from tracehound.ui.state.event_walk import EventWalk
from tracehound.ui.state.view import View
from tracehound.ui.terminal.outside_programs import notify_warning
from tracehound.ui.widgets import status_bars
from tracehound.ui.widgets.base_screens import SafeScreen
from tracehound.ui.widgets.flame_view import FlameView
from tracehound.ui.widgets.prompts import SearchBar
from tracehound.ui.widgets.result_table import ResultTable
from tracehound.ui.widgets.status_bars import MENU_TAB, HeaderBar, KeyBar, TabBar
from tracehound.ui.widgets.timeline import Timeline
from tracehound.ui.widgets.timeline_area import ReadingPanel, TimelineArea
from tracehound.ui.wording import messages


class ExplorerScreen(SafeScreen[None]):
    """Explorer of one trace."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.textual_bindings("everywhere")]
    BINDING_GROUP_TITLE = "Everywhere"
    AUTO_FOCUS = ""  # until there is a timeline nothing has the focus but what the user has gone to

    focused: reactive[Widget | None] = reactive(None, repaint=False)  # Textual would paint the whole screen for it
    trace: reactive[Trace | None] = reactive(None, repaint=False, init=False)
    """The trace as far as it is read."""
    view: reactive[View] = reactive(View(), repaint=False, init=False)
    """Current view of the trace."""
    walk: reactive[EventWalk | None] = reactive(None, repaint=False, init=False)
    """Matches that n and N step through."""

    def __init__(
        self,
        opening: TraceReader,
        glyphs: Glyphs = UNICODE,
        table: Sequence[keys.Key] = keys.KEYS,
        sources: SourceFolders = SourceFolders(),  # noqa: B008, frozen
    ) -> None:
        super().__init__()
        self.command_words: tuple[str, ...] = (opening.name,)
        self.keys = table
        self.glyphs = glyphs
        self.source_navigation = SourceNavigation(self, sources, glyphs)
        self.background = BackgroundThread()
        self.reading = TraceLoader(self, opening)
        self.prompt_line = PromptLine(self)
        self.search_session = SearchSession(self, self.background)
        self.selected = SelectedEventDisplay(self)
        self.hlo_navigation = ExplorerHloOpener(self, self.selected.decoder.section_reader)
        self.navigation = Navigation(self)
        self.query_runner = QueryRunner()
        self.header = HeaderBar(glyphs)
        self.timeline_area = TimelineArea(ReadingPanel(opening.files, glyphs), glyphs)
        self.timeline = self.timeline_area.timeline
        self.pane_stack = PaneStack(glyphs)
        self.results = PaneResultUpdater(self.pane_stack, AnalysisRunner(self, self.background), self.header)
        self.pane_layout = ExplorerLayout(
            self.timeline_area, self.pane_stack, self.selected.details, self._fill_visible_panes
        )
        self.closing_order = ClosingOrder()
        self.timeline.clears_selection = False
        self.key_bar = KeyBar(glyphs, table)
        self._opening = opening
        self.trace_updates = TraceUpdates(self, opening)

    def compose(self) -> ComposeResult:
        """Yield header, timeline, tabs, panes and key bar."""
        yield self.header
        yield self.timeline_area
        yield self.pane_layout.tabs
        yield self.pane_layout.bottom
        yield self.search_session.prompt
        yield self.key_bar

    def on_mount(self) -> None:
        """Show the empty screen first, then start to read."""
        self.header.title = self._opening.name
        self.header.news = "reading"
        pane_menu.label_tabs(self.pane_layout.tabs, self.keys, None)
        self.timeline.key = keys.key_text(self.keys, "lanes.all")
        self.pane_stack.overview.keys = pane_menu.keys_to_press(self.keys)
        self.pane_stack.set_full_text_key(keys.key_text(self.keys, "notes"))
        self.pane_stack.table_pane("search").show_hint("Search: press / and type a part of a name")
        self.header.styles.height = status_bars.header_lines(self.app.size.height)
        self.pane_layout.apply_layout()
        self.pane_layout.show(FIRST_PANE)
        self.call_after_refresh(self.reading.start)

    def on_unmount(self) -> None:
        """Stop all background work."""
        self.reading.cancel()
        self.background.close()
        self.selected.decoder.close()
        self.navigation.linker.close()
        self.query_runner.close()
        self.source_navigation.tasks.close()
        self.hlo_navigation.pages.tasks.close()

    # -- the trace fills in

    @on(TraceLoader.Progressed)
    def _show_progress(self, message: TraceLoader.Progressed) -> None:
        self.trace_updates.show_progress(message)

    @on(TraceLoader.Stopped)
    def _reading_stopped(self, message: TraceLoader.Stopped) -> None:
        self.trace_updates.show_stopped_reading(message)

    @on(TraceLoader.Failed)
    def _show_reading_failure(self, message: TraceLoader.Failed) -> None:
        self.header.news = message.words

    @on(LaneLoader.Arrived)
    def _show_lane_failure(self, message: LaneLoader.Arrived) -> None:
        self.header.news = message.failure or self.header.news

    @on(LaneLoader.Sighted)
    def _read_visible_first(self, message: LaneLoader.Sighted) -> None:
        """Make the reader prefer the files of visible lanes."""
        self._opening.wanted_files = message.parts

    @on(TraceLoader.Loaded)
    def _trace_loaded(self, message: TraceLoader.Loaded) -> None:
        self.trace_updates.use_loaded_trace(message)

    def watch_trace(self, old: Trace | None, new: Trace | None) -> None:
        """Show more of the trace; the view stays."""
        if new is not None:
            self.trace_updates.show_grown_trace(old, new)

    # -- the view

    @on(Timeline.ViewChanged)
    def _view_changed(self, message: Timeline.ViewChanged) -> None:
        self.view = message.view

    @on(Timeline.EventOpened)
    def _event_opened(self) -> None:
        self.action_show("details")

    @on(Timeline.ActionRefused)
    def _show_refusal(self, message: Timeline.ActionRefused) -> None:
        self.key_bar.say(message.words)

    def watch_view(self, old: View, new: View) -> None:
        """Pass the new view to all widgets that depend on it."""
        self.timeline.view = new
        self.navigation.record_view(new)
        if new.selection != old.selection:
            self.header.window = messages.selected_window_text(new.selection) if new.selection is not None else ""
        if new.ranks != old.ranks:
            self.trace_updates.update_header_facts()
        if (new.selection, new.ranks, new.lane) != (old.selection, old.ranks, old.lane):
            self.results.ask(self.view)
        self.selected.update_for_view(old, new)
        if (new.selection, new.event) != (old.selection, old.event):
            self.pane_stack.forget_postponed()
        note_what_is_open(self)

    # -- results

    @on(AnalysisRunner.Answered)
    def _show_answer(self, answer: AnalysisRunner.Answered) -> None:
        self.results.show(answer)
        self._update_row_keys()

    @on(ResultTable.RowHighlighted)
    def _update_row_keys(self) -> None:
        """Update the keys that need rows."""
        prompt_line.show_row_keys(self.key_bar, self.focused)

    @on(GapsPane.GapHighlighted)
    def _gap_highlighted(self, message: GapsPane.GapHighlighted) -> None:
        self.results.request_gap_host_activity(message.row)

    @on(ResultTable.RowChosen)
    def _go_to_row(self, message: ResultTable.RowChosen) -> None:
        if self.trace is not None:
            navigation.go_to_row(self, self.trace, message)

    @on(ArrivalsPane.CallChosen)
    def _go_to_arrival(self, message: ArrivalsPane.CallChosen) -> None:
        if self.trace is not None:
            self.navigation.jump(row_target.go_to_row_target(self.trace, self.view, message.row))

    @on(RankMapPane.CellChosen)
    def _go_to_rank_and_step(self, message: RankMapPane.CellChosen) -> None:
        if self.trace is not None:
            navigation.go_to_rank_and_step(self, self.trace, message.row)

    @on(RankMapPane.SettingsChanged)
    def _change_rank_map(self, message: RankMapPane.SettingsChanged) -> None:
        self.results.set_settings(RANK_MAP, message.given)
        self.results.ask(self.view)

    @on(ResultTable.WindowRequested)
    def _select_row_window(self, message: ResultTable.WindowRequested) -> None:
        if self.trace is not None:
            navigation.select_row_window(self, self.trace, message)

    @on(TablePane.SaveRequested)
    def _save_table(self, message: TablePane.SaveRequested) -> None:
        if self.trace is not None:
            save_table(self.background, self.trace, self.view, message)

    @on(ChartedTable.DurationsRequested)
    def _measure_durations(self, message: ChartedTable.DurationsRequested) -> None:
        pane = self.pane_stack.result_name(message.charted_table.table)
        row = self.results.counting_row_of(self.trace, pane, message.row) if self.trace is not None else None
        if row is not None:
            pane_requests.measure_row_events(self.background, self.results.counted, row, message)

    @on(ChartedTable.CompanionRequested)
    def _run_companion(self, message: ChartedTable.CompanionRequested) -> None:
        if self.trace is not None:
            pane_requests.run_for_chart(
                self.background, self.trace, self.view, message, self.results.chosen_settings(message.analysis)
            )

    @on(QueryPane.QuerySubmitted)
    def _run_query(self, message: QueryPane.QuerySubmitted) -> None:
        self.results.query(self.query_runner, message, self.view)

    @on(QueryPane.QueryCancelled)
    def _cancel_query(self) -> None:
        self.query_runner.stop()

    # -- the selected event

    @on(EventReader.Decoded)
    def _show_args(self, message: EventReader.Decoded) -> None:
        self.selected.decoded(message)

    @on(EventReader.Described)
    def _show_facts(self, message: EventReader.Described) -> None:
        self.selected.described(message)

    @on(EventReader.Unprepared)
    def _warn_unprepared(self, message: EventReader.Unprepared) -> None:
        notify_warning(self.app, message.words)

    @on(FactSheet.SourceRequested)
    @on(FlameView.SourceRequested)
    def _open_source(self, message: FactSheet.SourceRequested | FlameView.SourceRequested) -> None:
        self.source_navigation.read(message.words)

    @on(FactSheet.EditRequested)
    @on(FlameView.EditRequested)
    def _edit_source(self, message: FactSheet.EditRequested | FlameView.EditRequested) -> None:
        self.source_navigation.edit(message.words)

    @on(FactSheet.MatchChanged)
    def _details_match_changed(self, message: FactSheet.MatchChanged) -> None:
        self.selected.show_details_match(message)

    def action_read_source(self) -> None:
        """Show the source line of the selected event."""
        if self.trace is not None and self.view.event is not None:
            self.source_navigation.of_event(self.trace, self.view.event)
        elif self.trace is not None:
            self.key_bar.say(messages.NO_EVENT)

    def action_show_hlo(self) -> None:
        """Show the HLO of the op of the row under the cursor, or of the selected event."""
        if self.trace is not None:
            self.hlo_navigation.of_cursor(self.trace)

    # -- walking from instance to instance

    @on(EventFinder.Walked)
    def _walk_found(self, message: EventFinder.Walked) -> None:
        self.navigation.use_found_walk(message)

    @on(LinkFinder.Linked)
    def _links_found(self, message: LinkFinder.Linked) -> None:
        self.navigation.follow_found_link(message)

    @on(CriticalPathOverlay.Found)
    def _show_critical_path(self, message: CriticalPathOverlay.Found) -> None:
        self.navigation.critical_path_overlay.show(message)

    def watch_walk(self, walk: EventWalk | None) -> None:
        """Show the position in the walk."""
        del walk
        self.selected.show_walk_position()
        note_what_is_open(self)

    def action_travel(self, way: str, *by: int) -> None:
        """Go to a target, named by one of the keys of `navigation.ways`."""
        self.navigation.ways[way](*by)

    def action_along(self, what: Literal["event", "gap"], by: int) -> None:
        """Go to the next (1) or previous (-1) event or gap in the timeline without a change of focus."""
        (self.timeline.action_event if what == "event" else self.timeline.action_gap)(by)

    def action_copy_command(self) -> None:
        """Copy the command that prints the active pane.

        It is for the selected window, or for the visible part of the timeline.
        """
        if self.trace is not None:
            self.key_bar.say(copy_as_command.copy_command(self, self.trace))

    # -- searching

    def action_search(self) -> None:
        """Open the search prompt."""
        self.search_session.begin()

    @on(SearchBar.Changed)
    def _search_text_changed(self, message: SearchBar.Changed) -> None:
        self.search_session.search_typed_text(message.needle)

    @on(EventFinder.Searched)
    def _show_search_result(self, message: EventFinder.Searched) -> None:
        self.search_session.show(message.found)

    @on(SearchBar.Submitted)
    def _submit_search(self, message: SearchBar.Submitted) -> None:
        self.search_session.submit(message.needle)

    @on(SearchBar.Cancelled)
    def _cancel_search(self) -> None:
        self.prompt_line.end()

    def watch_focused(self, old: Widget | None, new: Widget | None) -> None:
        """Close a prompt line that loses the focus."""
        if new is not None:
            self.prompt_line.close_if_left(old)

    # -- panes and their sizes

    @on(TabBar.TabClicked)
    @on(OverviewPane.SectionChosen)
    def _show_clicked_pane(self, message: TabBar.TabClicked | OverviewPane.SectionChosen) -> None:
        self._show_pane_named(message.pane)

    def _show_pane_named(self, pane: str | None) -> None:
        """Show the pane, menu or search of this name."""
        if pane == MENU_TAB:
            self.action_menu()
        elif pane == "search" and self.walk is None:
            self.action_search()
        elif pane is not None:
            self.action_show(pane)

    def action_menu(self) -> None:
        """Show the menu of all panes."""
        self.app.push_screen(
            MenuScreen(
                pane_menu.menu_entries(self.keys, self.trace_updates.complete_trace),
                self.glyphs,
                self.pane_stack.active,
            ),
            self._show_pane_named,
        )

    def action_settings(self) -> None:
        """Show the settings of the active analysis."""
        pane_settings.choose_settings(self)

    def action_regroup(self) -> None:
        """Group the rows of the active table by its next grouping."""
        pane_settings.change_grouping(self)

    def action_show_full_text(self) -> None:
        """Show all notes of the active pane."""
        pane_requests.show_full_text(self)

    @on(KeyBar.KeyClicked)
    async def _run_clicked_key(self, message: KeyBar.KeyClicked) -> None:
        await status_bars.run_clicked_key(self, message.key)

    def action_show(self, pane: str) -> None:
        """Show a pane and focus it; keys that are typed meanwhile go to it."""
        self.pane_layout.go_to(pane)
        note_what_is_open(self)

    def _fill_visible_panes(self) -> None:
        """Request the results of visible panes."""
        self.key_bar.can_regroup = any(map(pane_settings.grouping_of_pane, self.pane_stack.active_results))
        self.results.ask(self.view)
        self.selected.request_details()

    def action_zoom_pane(self) -> None:
        """Give the whole screen to the focused pane, or share it again."""
        self.pane_layout.zoom(self.focused)
        note_what_is_open(self)

    def action_resize_timeline(self, lines: int) -> None:
        """Make the timeline higher (positive) or lower by lines."""
        self.timeline_area.grow(lines)

    def on_resize(self) -> None:
        """Divide the new size."""
        self.header.styles.height = status_bars.header_lines(self.app.size.height)
        self.pane_layout.apply_new_size()

    def action_clear(self) -> None:
        """Close what was opened last: details, zoom, selection, walk or critical path; else stop the reading."""
        close_last_opened(self)

    def action_help(self) -> None:
        """Show the help page."""
        known = [key for key in self.keys if key.group != "comparison"]
        self.app.push_screen(HelpScreen(self.glyphs, known, self.key_bar.group))

    def on_key(self, event: events.Key) -> None:
        """Say where a key works that has no meaning here."""
        pressed = [event.key, *([event.character] if event.character else [])]
        words = keys.other_pane_key_message(self.keys, self.key_bar.group, pressed, self.size.width - 1)
        if words and not isinstance(self.focused, Input) and event.key not in self.active_bindings:
            self.key_bar.say(words)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Update the key bar for the new focus."""
        prompt_line.show_keys_of_focus(self.key_bar, event.widget)
        self.pane_layout.mark_focused_pane(event.widget)
        self._update_row_keys()
