"""The explorer: the timeline, the panes under it, and what connects them.

Owns the one `View` and who is told when it changes. Widgets tell what the user did; only this screen knows what that
means for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from msgspec.structs import replace
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input

from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.store import Opening
from tracehound.trace import Trace
from tracehound.ui.actions import choosing, copying, footer, lengths, rows, telling
from tracehound.ui.actions.arrangement import Arrangement
from tracehound.ui.actions.asking import Asker
from tracehound.ui.actions.disclosing import Disclosing
from tracehound.ui.actions.growth import Growth
from tracehound.ui.actions.prompting import Prompting
from tracehound.ui.actions.results import Results
from tracehound.ui.actions.saving import save
from tracehound.ui.actions.seeking import Seeking
from tracehound.ui.actions.selected import Selected
from tracehound.ui.actions.trail import Trail
from tracehound.ui.actions.travels import FIRST, Travels
from tracehound.ui.actions.visits import Visits
from tracehound.ui.background.answers import Answers
from tracehound.ui.background.decoder import Decoder
from tracehound.ui.background.finder import Finder
from tracehound.ui.background.links import Linker
from tracehound.ui.background.loading import Loading
from tracehound.ui.background.supply import Supply
from tracehound.ui.background.threads import Background
from tracehound.ui.bindings import keys, menu
from tracehound.ui.panes.arrivals import ArrivalsPane
from tracehound.ui.panes.charted import ChartedTable
from tracehound.ui.panes.deck import Deck
from tracehound.ui.panes.gaps import GapsPane
from tracehound.ui.panes.overview import OverviewPane
from tracehound.ui.panes.pane import TablePane
from tracehound.ui.panes.query import QueryPane
from tracehound.ui.screens.help import HelpScreen
from tracehound.ui.screens.menu import MenuScreen
from tracehound.ui.screens.safe_screen import SafeScreen
from tracehound.ui.source.finding import Sources
from tracehound.ui.state import follow
from tracehound.ui.state.view import View
from tracehound.ui.state.walk import Walk
from tracehound.ui.terminal.outside import warn
from tracehound.ui.widgets import bars
from tracehound.ui.widgets.bars import MENU, HeaderBar, KeyBar, TabBar
from tracehound.ui.widgets.fact_sheet import FactSheet
from tracehound.ui.widgets.flame_view import FlameView
from tracehound.ui.widgets.reading_panel import ReadingPanel
from tracehound.ui.widgets.result_table import ResultTable
from tracehound.ui.widgets.search_bar import SearchBar
from tracehound.ui.widgets.stage import Stage
from tracehound.ui.widgets.timeline import Timeline
from tracehound.ui.wording import words


class Explorer(SafeScreen[None]):
    """A trace, explored."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("everywhere")]
    BINDING_GROUP_TITLE = "Everywhere"

    focused: reactive[Widget | None] = reactive(None, repaint=False)  # Textual would paint the whole screen for it
    trace: reactive[Trace | None] = reactive(None, repaint=False, init=False)
    """What is open, as far as it is read."""
    view: reactive[View] = reactive(View(), repaint=False, init=False)
    """Where the user is in it."""
    walk: reactive[Walk | None] = reactive(None, repaint=False, init=False)
    """What n and N go through."""

    def __init__(
        self,
        opening: Opening,
        glyphs: Glyphs = UNICODE,
        table: Sequence[keys.Key] = keys.KEYS,
        sources: Sources = Sources(),  # noqa: B008, frozen
    ) -> None:
        super().__init__()
        self.said: tuple[str, ...] = (opening.name,)
        self.keys = table
        self.glyphs = glyphs
        self.visits = Visits(self, sources, glyphs)
        self.background = Background()
        self.reading = Loading(self, opening)
        self.prompting = Prompting(self)
        self.seeking = Seeking(self, self.background)
        self.selected = Selected(self)
        self.disclosing = Disclosing(self, self.selected.decoder.section)
        self.travels = Travels(self)
        self.asker = Asker()
        self.header = HeaderBar(glyphs)
        self.stage = Stage(ReadingPanel(opening.files, glyphs), glyphs)
        self.timeline = self.stage.timeline
        self.deck = Deck(glyphs)
        self.results = Results(self.deck, Answers(self, self.background))
        self.arrangement = Arrangement(self.stage, self.deck, self.selected.details, self._in_sight)
        self.key_bar = KeyBar(glyphs, table)
        self._opening = opening
        self.growth = Growth(self, opening)

    def compose(self) -> ComposeResult:
        """Header, timeline, tabs, panes, keys."""
        yield self.header
        yield self.stage
        yield self.arrangement.tabs
        yield self.arrangement.bottom
        yield self.seeking.prompt
        yield self.key_bar

    def on_mount(self) -> None:
        """Show the frame first, then begin to read."""
        self.header.title = self._opening.name
        self.header.news = "reading"
        menu.label(self.arrangement.tabs, self.keys, None)
        self.timeline.key = keys.shown(self.keys, "lanes.all")
        self.deck.overview.keys = menu.written(self.keys)
        self.deck.hint(keys.shown(self.keys, "notes"))
        self.deck.table("search").wait("Search: press / and type a part of a name")
        self.arrangement.lay()
        self.arrangement.show(FIRST)
        self.call_after_refresh(self.reading.start)

    def on_unmount(self) -> None:
        """Nobody waits for anything any more."""
        self.reading.cancel()
        self.background.close()
        self.selected.decoder.close()
        self.travels.linker.close()
        self.asker.close()
        self.visits.errands.close()
        self.disclosing.pages.errands.close()

    # -- the trace fills in

    @on(Loading.Progressed)
    def _progressed(self, message: Loading.Progressed) -> None:
        self.growth.progressed(message)

    @on(Loading.Stopped)
    def _stopped(self, message: Loading.Stopped) -> None:
        self.growth.stopped(message)

    @on(Loading.Failed)
    def _failed(self, message: Loading.Failed) -> None:
        self.header.news = message.words

    @on(Supply.Arrived)
    def _arrived(self, message: Supply.Arrived) -> None:
        self.header.news = message.failure or self.header.news

    @on(Supply.Sighted)
    def _sighted(self, message: Supply.Sighted) -> None:
        """What one looks at is read first."""
        self._opening.wanted = message.parts

    @on(Loading.Loaded)
    def _loaded(self, message: Loading.Loaded) -> None:
        self.growth.loaded(message)

    def watch_trace(self, old: Trace | None, new: Trace | None) -> None:
        """Show more of the trace; where the user is in it stays."""
        if new is not None:
            self.growth.grown(old, new)

    # -- the view

    @on(Timeline.ViewChanged)
    def _view_changed(self, message: Timeline.ViewChanged) -> None:
        self.view = message.view

    @on(Timeline.EventOpened)
    def _event_opened(self) -> None:
        self.action_show("details")

    @on(Timeline.Refused)
    def _refused(self, message: Timeline.Refused) -> None:
        self.key_bar.say(message.words)

    def watch_view(self, old: View, new: View) -> None:
        """Tell everyone whom the change concerns."""
        self.timeline.view = new
        self.travels.arrived(new)
        if new.selection != old.selection:
            self.header.window = words.selected(new.selection) if new.selection is not None else ""
        if new.ranks != old.ranks:
            self.growth.entitle()
        if (new.selection, new.ranks, new.lane) != (old.selection, old.ranks, old.lane):
            self.results.ask(self.view)
        self.selected.changed(old, new)

    # -- results

    @on(Answers.Answered)
    def _answered(self, answer: Answers.Answered) -> None:
        self.results.show(answer)
        self._count_rows()

    @on(ResultTable.Highlighted)
    def _count_rows(self) -> None:
        """There may be rows, or none any more."""
        footer.count_rows(self.key_bar, self.focused)

    @on(GapsPane.Pointed)
    def _pointed(self, message: GapsPane.Pointed) -> None:
        self.results.point(message.row)

    @on(ResultTable.Chosen)
    def _chosen(self, message: ResultTable.Chosen) -> None:
        if self.trace is not None:
            rows.go(self, self.trace, message)

    @on(ArrivalsPane.Chosen)
    def _arrival_chosen(self, message: ArrivalsPane.Chosen) -> None:
        if self.trace is not None:
            self.travels.jump(follow.to_row(self.trace, self.view, message.row))

    @on(ResultTable.WindowPicked)
    def _window_picked(self, message: ResultTable.WindowPicked) -> None:
        if self.trace is not None:
            rows.pick(self, self.trace, message)

    @on(TablePane.SaveAsked)
    def _save_asked(self, message: TablePane.SaveAsked) -> None:
        if self.trace is not None:
            save(self.background, self.trace, self.view, message)

    @on(ChartedTable.LengthsAsked)
    def _lengths_asked(self, message: ChartedTable.LengthsAsked) -> None:
        pane = self.deck.name_of(message.charted.table)
        row = self.results.counting(self.trace, pane, message.row) if self.trace is not None else None
        if row is not None:
            lengths.measure(self.background, self.results.counted, row, message)

    @on(ChartedTable.AlsoAsked)
    def _also_asked(self, message: ChartedTable.AlsoAsked) -> None:
        if self.trace is not None:
            lengths.also(self.background, self.trace, self.view, message, self.results.given(message.analysis))

    @on(QueryPane.Asked)
    def _query_asked(self, message: QueryPane.Asked) -> None:
        self.results.query(self.asker, message, self.view)

    @on(QueryPane.Stopped)
    def _query_stopped(self) -> None:
        self.asker.stop()

    # -- the selected event

    @on(Decoder.Decoded)
    def _decoded(self, message: Decoder.Decoded) -> None:
        self.selected.decoded(message)

    @on(Decoder.Described)
    def _described(self, message: Decoder.Described) -> None:
        self.selected.described(message)

    @on(Decoder.Unprepared)
    def _unprepared(self, message: Decoder.Unprepared) -> None:
        warn(self.app, message.words)

    @on(FactSheet.SourceAsked)
    @on(FlameView.SourceAsked)
    def _source_asked(self, message: FactSheet.SourceAsked | FlameView.SourceAsked) -> None:
        self.visits.read(message.words)

    @on(FactSheet.EditAsked)
    @on(FlameView.EditAsked)
    def _edit_asked(self, message: FactSheet.EditAsked | FlameView.EditAsked) -> None:
        self.visits.edit(message.words)

    @on(FactSheet.Found)
    def _found_in_details(self, message: FactSheet.Found) -> None:
        self.selected.found(message)

    def action_read_source(self) -> None:
        """Show the source line of the selected event."""
        if self.trace is not None and self.view.event is not None:
            self.visits.of_event(self.trace, self.view.event)
        elif self.trace is not None:
            self.key_bar.say(words.NO_EVENT)

    def action_disclose(self) -> None:
        """Show the HLO of the op of the row under the cursor, or of the selected event."""
        if self.trace is not None:
            self.disclosing.of_cursor(self.trace)

    # -- walking from instance to instance

    @on(Finder.Walked)
    def _walked(self, message: Finder.Walked) -> None:
        self.travels.begun(message)

    @on(Linker.Linked)
    def _linked(self, message: Linker.Linked) -> None:
        self.travels.linked(message)

    @on(Trail.Found)
    def _path_found(self, message: Trail.Found) -> None:
        self.travels.trail.show(message)

    def watch_walk(self, walk: Walk | None) -> None:
        """Say where in it one is."""
        del walk
        self.selected.place()

    def action_travel(self, way: str, *by: int) -> None:
        """Go somewhere in one of the ways that `Travels` knows."""
        self.travels.ways[way](*by)

    def action_along(self, what: Literal["event", "gap"], by: int) -> None:
        """Go to the next (1) or previous (-1) event or gap in the timeline, and leave the keys where they are."""
        (self.timeline.action_event if what == "event" else self.timeline.action_gap)(by)

    def action_copy_command(self) -> None:
        """Copy the command that prints what is shown: of the selected window, or of what the timeline shows."""
        if self.trace is not None:
            self.key_bar.say(copying.copy(self, self.trace))

    # -- searching

    def action_search(self) -> None:
        """Open the prompt."""
        self.seeking.begin()

    @on(SearchBar.Changed)
    def _needle_changed(self, message: SearchBar.Changed) -> None:
        self.seeking.typed(message.needle)

    @on(Finder.Searched)
    def _searched(self, message: Finder.Searched) -> None:
        self.seeking.show(message.found)

    @on(SearchBar.Submitted)
    def _submitted(self, message: SearchBar.Submitted) -> None:
        self.seeking.submit(message.needle)

    @on(SearchBar.Cancelled)
    def _search_cancelled(self) -> None:
        self.prompting.end()

    def watch_focused(self, old: Widget | None, new: Widget | None) -> None:
        """A line on which something is asked goes when its keys go elsewhere, and the footer is back."""
        if new is not None:
            self.prompting.left(old)

    # -- panes and their sizes

    @on(TabBar.Chosen)
    @on(OverviewPane.Chosen)
    def _tab_chosen(self, message: TabBar.Chosen | OverviewPane.Chosen) -> None:
        self._choose(message.pane)

    def _choose(self, pane: str | None) -> None:
        """Show what was chosen by its name."""
        if pane == MENU:
            self.action_menu()
        elif pane == "search" and self.walk is None:
            self.action_search()
        elif pane is not None:
            self.action_show(pane)

    def action_menu(self) -> None:
        """Show all there is to look at."""
        self.app.push_screen(
            MenuScreen(menu.entries(self.keys, self.growth.whole), self.glyphs, self.deck.active), self._choose
        )

    def action_settings(self) -> None:
        """Show what can be chosen of the analysis that is shown."""
        choosing.ask(self)

    def action_regroup(self) -> None:
        """Make the rows of what is shown be the next thing that they can be."""
        choosing.regroup(self)

    def action_tell(self) -> None:
        """Show all that is said of what is shown."""
        telling.of_explorer(self)

    @on(KeyBar.Pressed)
    async def _key_clicked(self, message: KeyBar.Pressed) -> None:
        await bars.follow(self, message.key)

    def action_show(self, pane: str) -> None:
        """Show a pane and give it the keys."""
        self.arrangement.go_to(pane)

    def _in_sight(self) -> None:
        """Fill what has come into sight."""
        self.key_bar.grouped = any(map(choosing.by_of, self.deck.in_sight))
        self.results.ask(self.view)
        self.selected.tell()

    def action_zoom_pane(self) -> None:
        """Give the screen to the pane with the keys, or share it again."""
        self.arrangement.zoom(self.focused)

    def action_resize_timeline(self, lines: int) -> None:
        """Give lines to the timeline, or take them."""
        self.stage.grow(lines)

    def on_resize(self) -> None:
        """Share the new size."""
        self.arrangement.resized()

    def action_clear(self) -> None:
        """Clear the selected window; without one end the walk, the path, the reading, or share the screen again."""
        if self.view.selection is not None:
            self.view = replace(self.view, selection=None)
        elif self.walk is not None:
            self.walk = None
        elif self.timeline.path is not None:
            self.travels.trail.end()
        elif self.reading.busy:
            self.reading.stop()
        else:
            self.arrangement.share()

    def action_help(self) -> None:
        """Show what the keys do."""
        known = [key for key in self.keys if key.group != "comparison"]
        self.app.push_screen(HelpScreen(self.glyphs, known, self.key_bar.group))

    def on_key(self, event: events.Key) -> None:
        """Say of a key that has no meaning here where it has one."""
        pressed = [event.key, *([event.character] if event.character else [])]
        words = keys.elsewhere(self.keys, self.key_bar.group, pressed, self.size.width - 1)
        if words and not isinstance(self.focused, Input) and event.key not in self.active_bindings:
            self.key_bar.say(words)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Other keys matter now."""
        footer.follow(self.key_bar, event.widget)
        self._count_rows()
