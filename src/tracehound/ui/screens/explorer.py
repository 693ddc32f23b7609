"""The explorer: the timeline, the panes under it, and what connects them.

Owns the one `View` and who is told when it changes. Widgets tell what the user did; only this screen knows what that
means for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from textual.widgets import Static

from tracehound.analysis import ANALYSES
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.errors import TracehoundError, printable
from tracehound.store import Opening, args
from tracehound.trace import Trace
from tracehound.ui import follow, keys, navigate, search, words
from tracehound.ui.answers import Answers, Question
from tracehound.ui.background import Background
from tracehound.ui.facts import Facts, carried, facts
from tracehound.ui.loading import Loading
from tracehound.ui.panes.details import DetailsPane
from tracehound.ui.panes.gaps import GapsPane
from tracehound.ui.panes.pane import TablePane
from tracehound.ui.screens.help import HelpScreen
from tracehound.ui.view import View
from tracehound.ui.walk import Walk, instances
from tracehound.ui.widgets.bars import HeaderBar, KeyBar, Tab, TabBar
from tracehound.ui.widgets.result_table import ResultTable
from tracehound.ui.widgets.search_bar import SearchBar
from tracehound.ui.widgets.timeline import Timeline

TABS = (
    Tab("ops", "2"), Tab("gaps", "3"), Tab("steps", "4"), Tab("annotations", "5", "annot"),
    Tab("collectives", "6", "coll"), Tab("breakdown", "7", "break"), Tab("health", "8"), Tab("details", "9"),
    Tab("search", "/", "find"), Tab("host", ""),
)  # fmt: skip

WIDE = 120
"""Columns from which there is room for the details beside the tables."""

STACKED = {"breakdown": ("breakdown", "overview"), "details": ()}
"""Which results a tab shows, where that is not the one of its name."""


class Explorer(Screen[None]):
    """A trace, explored."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("everywhere")]
    BINDING_GROUP_TITLE = "Everywhere"

    trace: reactive[Trace | None] = reactive(None, init=False)
    """What is open, as far as it is read."""
    view: reactive[View] = reactive(View(), init=False)
    """Where the user is in it."""
    active: reactive[str] = reactive("ops", init=False)
    """The tab that is shown."""
    walk: reactive[Walk | None] = reactive(None, init=False)
    """What n and N go through."""

    @dataclass
    class Decoded(Message):
        """The args of an event have come, or the one line that says why not."""

        event: int
        args: Facts
        failure: str = ""

    @dataclass
    class Walked(Message):
        """The instances of an op are known."""

        event: int
        walk: Walk

    @dataclass
    class Searched(Message):
        """What a needle matches is known."""

        found: search.Found

    def __init__(self, opening: Opening, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.glyphs = glyphs
        self.background = Background()
        self.reading = Loading(self, opening)
        self.answers = Answers(self, self.background)
        self.header = HeaderBar(glyphs)
        self.timeline = Timeline(glyphs)
        self.tabs = TabBar()
        self.details = DetailsPane(glyphs)
        self.gaps = GapsPane(glyphs)
        self.prompt = SearchBar()
        self.key_bar = KeyBar(glyphs)
        self._waiting = Static(_contents(opening), id="waiting", markup=False)
        names = [analysis.name for analysis in ANALYSES if analysis.name != "gaps"]
        self._tables = {name: TablePane(name, glyphs) for name in (*names, "search")}
        self._tables |= {"gaps": self.gaps.gaps, "gap-host": self.gaps.host}
        self._opening = opening
        self._version = 0
        self._picked: tuple[str, tuple[int, int] | None, tuple[int, int] | None] | None = None
        self._names: search.Names | None = None
        self._jump_for: str | None = None
        self._due = 0
        self._taller = 0
        self._shown_event: int | None = None

    def compose(self) -> ComposeResult:
        """Header, timeline, tabs, panes, keys."""
        yield self.header
        with Vertical(id="stage"):
            yield self.timeline
            yield self._waiting
        yield self.tabs
        with Horizontal(id="bottom"):
            with Vertical(id="panes"):
                for tab in TABS:
                    yield from self._pane(tab.pane)
            yield self.details
        yield self.prompt
        yield self.key_bar

    def _pane(self, name: str) -> ComposeResult:
        if name == "gaps":
            yield self.gaps
        elif name in STACKED and name != "details":
            with Vertical(id=f"stack-{name}"):
                for part in STACKED[name]:
                    yield self._tables[part]
        elif name != "details":
            yield self._tables[name]

    def on_mount(self) -> None:
        """Show the frame first, then begin to read."""
        self.header.title = self._opening.name
        self.header.news = "reading"
        self.tabs.tabs = TABS
        self.timeline.display = False
        self._lay()
        self._show_active()
        self._tables["search"].wait("Search: press / and type a part of a name")
        self.timeline.focus()
        self.background.start()
        self.call_after_refresh(self.reading.start)

    def on_unmount(self) -> None:
        """Nobody waits for anything any more."""
        self.reading.cancel()
        self.background.close()

    # -- the trace fills in

    @on(Loading.Progressed)
    def _progressed(self, message: Loading.Progressed) -> None:
        self.header.news = message.words

    @on(Loading.Failed)
    def _failed(self, message: Loading.Failed) -> None:
        self.header.news = "nothing could be read"
        self._waiting.update(message.message)

    @on(Loading.Loaded)
    def _loaded(self, message: Loading.Loaded) -> None:
        if message.done:
            self.header.news = ""
        self.trace = message.trace

    def watch_trace(self, old: Trace | None, new: Trace | None) -> None:
        """Show more of the trace; where the user is in it stays."""
        if new is None:
            return
        self._version += 1
        self._waiting.display = False
        self.timeline.display = True
        self.header.facts = tuple(words.about(new))
        self.timeline.trace = new
        self.timeline.view = self.view
        self.view = navigate.fit(new, self.view) if old is None else follow.moved(self.view, old, new)
        if old is None and not self.focused:
            self.timeline.focus()
        self._ask()

    # -- the view

    @on(Timeline.ViewChanged)
    def _view_changed(self, message: Timeline.ViewChanged) -> None:
        self.view = message.view

    @on(Timeline.EventOpened)
    def _event_opened(self) -> None:
        self.action_show("details")

    def watch_view(self, old: View, new: View) -> None:
        """Tell everyone whom the change concerns."""
        self.timeline.view = new
        if new.selection != old.selection:
            self.header.window = words.selected(new.selection) if new.selection is not None else ""
        if self._picked is not None and new.selection != self._picked[1]:
            self._picked = None
        if (new.selection, new.ranks) != (old.selection, old.ranks):
            self._ask()
        if new.event != old.event:
            self._tell_details()

    def _pick(self, window: tuple[int, int], table: str) -> None:
        """Remember that a window was picked from a table: that one table is not narrowed to its own row."""
        before = self._picked[2] if self._picked is not None and self._picked[0] == table else self.view.selection
        self._picked = (table, window, before)

    def _narrowed(self, table: str) -> tuple[int, int] | None:
        """The window that a table is about."""
        if self._picked is not None and self._picked[0] == table and self._picked[1] == self.view.selection:
            return self._picked[2]
        return self.view.selection

    # -- results

    def _slots(self) -> tuple[str, ...]:
        return STACKED.get(self.active, (self.active,))

    def _ask(self) -> None:
        """Have the results that are in sight worked out for the view."""
        if self.trace is None:
            return
        for slot in self._slots():
            if slot == "search":
                continue
            window = replace(self.view.window, start=None, end=None)
            narrowed = self._narrowed(slot)
            question = Question(self._version, slot, window.at(*narrowed) if narrowed is not None else window)
            self._tables[slot].wait(f"{slot}: working it out")
            self.answers.ask(slot, self.trace, question)

    @on(Answers.Answered)
    def _answered(self, answer: Answers.Answered) -> None:
        if self.trace is None or not self.answers.wanted(answer):
            return
        table, window = self._tables[answer.pane], answer.question.window
        if answer.result is None:
            table.fail(answer.failure)
            return
        bounds = (window.start, window.end) if window.start is not None and window.end is not None else None
        table.show(answer.result, bounds, words.nothing(answer.question.analysis, self.trace, bounds))

    @on(GapsPane.Pointed)
    def _pointed(self, message: GapsPane.Pointed) -> None:
        trace, row = self.trace, message.row
        if trace is None or row is None:
            self.answers.forget("gap-host")
            self._tables["gap-host"].wait("no gap chosen")
            return
        window = replace(self.view.window.at(*(follow.window_of(trace, row) or (0, 1))), ranks=(row["rank"],))
        self.answers.ask("gap-host", trace, Question(self._version, "host", window))

    @on(ResultTable.Chosen)
    def _chosen(self, message: ResultTable.Chosen) -> None:
        """Go to what a row is about."""
        trace, table = self.trace, self._name_of(message.table)
        if trace is None:
            return
        if table == "gaps":
            window = follow.window_of(trace, message.row)
            if window is not None:
                self._pick(window, table)
            self.view = follow.to_gap(trace, self.view, message.row)
            return
        self.view = follow.to_row(trace, self.view, message.row)
        event = follow.event_of(message.row)
        if event is not None and table not in ("steps", "host", "gap-host"):
            self._begin_walk(trace, event)

    @on(ResultTable.WindowPicked)
    def _window_picked(self, message: ResultTable.WindowPicked) -> None:
        """Narrow every table to a row's window, and show it."""
        window = follow.window_of(self.trace, message.row) if self.trace is not None else None
        if self.trace is None or window is None:
            return
        self._pick(window, self._name_of(message.table))
        self.view = navigate.to_range(self.trace, self.view, *window)

    def _name_of(self, table: ResultTable) -> str:
        return next(name for name, pane in self._tables.items() if pane.table is table)

    # -- the selected event

    def _tell_details(self) -> None:
        """Show the selected event, where the details are in sight."""
        trace, event = self.trace, self.view.event
        if trace is None or not self.details.display or event == self._shown_event:
            return
        self._shown_event = event
        if event is None:
            self.details.clear()
            return
        self.details.show(facts(trace, event), None)
        self.background.submit("details", self._decode(trace, event))

    def _decode(self, trace: Trace, event: int) -> Callable[[], None]:
        def work() -> None:
            try:
                found = self.Decoded(event, carried(args(trace, event)))
            except TracehoundError as error:
                found = self.Decoded(event, [], str(error))
            except Exception as error:  # noqa: BLE001 - one damaged event must not end the explorer
                found = self.Decoded(
                    event, [], printable(f"its args cannot be decoded: {type(error).__name__}: {error}")
                )
            self.post_message(found)

        return work

    @on(Decoded)
    def _decoded(self, message: Decoded) -> None:
        if self.trace is not None and message.event == self._shown_event:
            self.details.show(facts(self.trace, message.event), message.args, message.failure)

    # -- walking from instance to instance

    def _begin_walk(self, trace: Trace, event: int) -> None:
        self._due = 0
        self.walk = None
        self.background.submit("walk", lambda: _post(self, self.Walked(event, instances(trace, event))))

    @on(Walked)
    def _walked(self, message: Walked) -> None:
        self.walk = message.walk
        due, self._due = self._due, 0
        if due:
            self.action_walk(due)

    def watch_walk(self, walk: Walk | None) -> None:
        """Say where in it one is."""
        self.header.news = f"{self.glyphs.cut(walk.what, 24)} {walk.words}" if walk is not None else ""

    def action_walk(self, by: int) -> None:
        """Go to the next or previous one."""
        if self.walk is None:
            self._due += by
        elif self.trace is not None:
            walk = self.walk.step(by)
            self.walk = walk
            if walk.event is not None:
                self.view = navigate.to_event(self.trace, self.view, walk.event)

    # -- searching

    def action_search(self) -> None:
        """Open the prompt."""
        self.prompt.begin()
        self.key_bar.display = False

    @on(SearchBar.Changed)
    def _needle_changed(self, message: SearchBar.Changed) -> None:
        trace, needle = self.trace, message.needle
        if trace is None:
            return

        def work() -> None:
            if self._names is None or self._names.trace is not trace:
                self._names = search.names(trace)
            self.post_message(self.Searched(search.find(self._names, needle)))

        self.background.submit("search", work)

    @on(Searched)
    def _searched(self, message: Searched) -> None:
        found, trace = message.found, self.trace
        if trace is None or found.needle != self.prompt.input.value:
            return
        walk = found.walk.after(self.view.start)
        names = found.result.total
        self.prompt.tell(
            f"{walk.words} {self.glyphs.dot} {names:,} name{'s' if names != 1 else ''}" if found.needle else ""
        )
        self._tables["search"].show(found.result, None, words.nothing("search", trace, None))
        self.active = "search"
        self._due = 0
        self.walk = walk if found.needle else None
        if self._jump_for == found.needle:
            self._go_to_match(walk)

    @on(SearchBar.Submitted)
    def _search(self, message: SearchBar.Submitted) -> None:
        self._end_prompt()
        walk = self.walk
        self.view = replace(self.view, needle=message.needle)
        if walk is not None and walk.what == message.needle:
            self._go_to_match(walk)
        else:
            self._jump_for = message.needle

    @on(SearchBar.Cancelled)
    def _end_prompt(self) -> None:
        self.prompt.end()
        self.key_bar.display = True
        self.timeline.focus()

    def _go_to_match(self, walk: Walk) -> None:
        """Go to the first match in sight, or after what is in sight."""
        self._jump_for = None
        self.walk = walk
        if self.trace is not None and walk.event is not None:
            self.view = navigate.to_event(self.trace, self.view, walk.event)

    # -- panes and their sizes

    def watch_active(self) -> None:
        """Show another tab."""
        self._show_active()
        self._ask()

    @on(TabBar.Chosen)
    def _tab_chosen(self, message: TabBar.Chosen) -> None:
        self.action_show(message.pane)
        if message.pane == "search" and self._tables["search"].table.result is None:
            self.action_search()

    @on(KeyBar.Pressed)
    async def _key_clicked(self, message: KeyBar.Pressed) -> None:
        target = self if message.key.group == "everywhere" or self.focused is None else self.focused
        await target.run_action(message.key.action)

    def action_show(self, pane: str) -> None:
        """Show a pane and give it the keys."""
        if self.has_class("-full"):
            self.set_class(pane == "timeline", "-timeline")
            self._lay()
        if pane == "timeline":
            self.timeline.focus()
            return
        if pane != "details" or not self._wide():
            self.active = pane
        target = self.gaps if pane == "gaps" else self.details if pane == "details" else self._tables[self._slots()[0]]
        self.call_after_refresh(target.focus_pane)

    def action_zoom_pane(self) -> None:
        """Give the screen to the pane with the keys, or share it again."""
        self.toggle_class("-full")
        self.set_class(self.focused is self.timeline, "-timeline")
        self._lay()

    def action_resize_timeline(self, lines: int) -> None:
        """Give lines to the timeline, or take them."""
        room = self.size.height - 3
        self._taller = max(4 - room // 2, min(self._taller + lines, room - room // 2 - 4))
        self._lay()

    def action_clear(self) -> None:
        """Clear the selected window; without one end the walk, then share the screen again."""
        if self.view.selection is not None:
            self.view = replace(self.view, selection=None)
        elif self.walk is not None:
            self.walk = None
        elif self.has_class("-full"):
            self.action_zoom_pane()

    def action_help(self) -> None:
        """Show what the keys do."""
        self.app.push_screen(HelpScreen(self.glyphs))

    def on_resize(self, event: events.Resize) -> None:
        """Share the new height; the details may come or go."""
        self._lay(event.size.height)
        self._show_active(event.size.width)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Other keys matter now."""
        widget = event.widget
        if isinstance(widget, Timeline):
            self.key_bar.group = "timeline"
        elif isinstance(widget, ResultTable):
            self.key_bar.group = "table"
        elif isinstance(widget, DetailsPane):
            self.key_bar.group = "details"

    def _lay(self, height: int | None = None) -> None:
        room = (height or self.size.height or self.app.size.height) - 3
        full = self.has_class("-full")
        self.query_one("#stage").styles.height = "1fr" if full else max(4, room // 2 + self._taller)

    def _wide(self, width: int | None = None) -> bool:
        """Whether the details stand beside the tables."""
        return (width or self.size.width or self.app.size.width) >= WIDE

    def _show_active(self, width: int | None = None) -> None:
        wide = self._wide(width)
        if wide and self.active == "details":
            self.active = "ops"
        alone = self.active == "details"
        self.tabs.active = self.active
        for tab in TABS:
            if tab.pane != "details":
                name = f"#stack-{tab.pane}" if tab.pane in STACKED else f"#pane-{tab.pane}"
                self.query_one(name).display = tab.pane == self.active
        self.query_one("#panes").display = not alone
        self.details.display = wide or alone
        self._tell_details()


def _post(screen: Explorer, message: Message) -> None:
    screen.post_message(message)


def _contents(opening: Opening) -> str:
    """What is about to be read, while there is nothing else to show."""
    lines = [f"{printable(file.path.name)}  {file.format.title}" for file in opening.files]
    more = [f"and {len(lines) - 8} more"] if len(lines) > 8 else []
    return "\n".join(["reading", *lines[:8], *more])
