"""Two runs side by side: both timelines, one above the other and linked, and under them what differs.

Owns the one `Abreast` and who is told when it changes. Widgets tell what the user did; only this screen knows what that
means for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.reactive import reactive
from textual.widget import Widget

from tracehound.diff import Comparison
from tracehound.diff.identity import ONLY_MEMORY
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.store import Opening
from tracehound.trace import Trace
from tracehound.ui.actions import footer
from tracehound.ui.actions.aligning import Aligning
from tracehound.ui.actions.disclosing import DisclosingBoth
from tracehound.ui.actions.saving import save
from tracehound.ui.actions.sharing import ALL, TIMELINES, Sharing
from tracehound.ui.actions.telling import tell
from tracehound.ui.background.contrast import Contrast
from tracehound.ui.background.threads import Background
from tracehound.ui.bindings import keys
from tracehound.ui.bindings.comparison_keys import bindings, everywhere, labelled, offered
from tracehound.ui.panes.differences import FIRST, OF_MEMORY, Differences
from tracehound.ui.panes.pane import TablePane
from tracehound.ui.screens.help import HelpScreen
from tracehound.ui.screens.safe_screen import SafeScreen
from tracehound.ui.source.finding import Sources
from tracehound.ui.state import abreast, again, navigate
from tracehound.ui.state.abreast import Abreast, Step
from tracehound.ui.state.view import View
from tracehound.ui.state.walk import Walk
from tracehound.ui.widgets import bars
from tracehound.ui.widgets.bars import HeaderBar, KeyBar, TabBar
from tracehound.ui.widgets.result_table import ResultTable
from tracehound.ui.widgets.side import Side
from tracehound.ui.widgets.timeline import Timeline
from tracehound.ui.wording import sentences

SIGNS: Final = ("-", "+")
"""The marks of both sides, as in a diff of two files."""


Chosen = tuple[int | None, int | None]
"""An event of the base and one of the other run."""


class ComparisonScreen(SafeScreen[None]):
    """A base and another run, compared."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]
    BINDING_GROUP_TITLE = "Comparison"

    focused: reactive[Widget | None] = reactive(None, repaint=False)  # Textual would paint the whole screen for it
    state: reactive[Abreast] = reactive(Abreast(), repaint=False, init=False)
    """What both timelines show."""

    def __init__(
        self,
        base: Opening,
        other: Opening,
        glyphs: Glyphs = UNICODE,
        table: Sequence[keys.Key] = keys.KEYS,
        sources: Sources = Sources(),  # noqa: B008, frozen
    ) -> None:
        super().__init__()
        self.keys = offered(table)
        self.glyphs = glyphs
        self.sides = [Side(base, glyphs), Side(other, glyphs)]
        self.contrast = Contrast(self)
        self.background = Background()
        self.header = HeaderBar(glyphs)
        self.differences = Differences(glyphs)
        self.key_bar = KeyBar(glyphs, everywhere(self.keys))
        self.sharing = Sharing(self.sides, self.differences)
        self.aligning = Aligning(self)
        self.disclosing = DisclosingBoth(self, sources)
        self.said: tuple[str, ...] = ()
        """How the runs are read, in options of the command line."""
        self.found: Comparison | None = None
        """What the runs differ in, as they stand now; None until that is known."""

    def compose(self) -> ComposeResult:
        """Header, both timelines, tabs, tables, keys."""
        yield self.header
        yield from self.sides
        yield self.sharing.tabs
        yield self.differences
        yield self.key_bar

    def on_mount(self) -> None:
        """Show the frame first, then begin to read."""
        self.header.title = "comparison"
        self.sharing.tabs.tabs = labelled(self.keys)
        self.sharing.tabs.active = self.differences.active
        self.differences.hint(keys.shown(self.keys, "notes"))
        for side in self.sides:
            side.timeline.key = keys.shown(self.keys, "lanes.all")
        self.differences.wait("both runs are compared when they are read")
        self._entitle()
        self.sharing.lay()
        if self.sharing.cramped:
            self.action_show(self.differences.active)
        else:
            self.sides[0].timeline.focus()
        self.call_after_refresh(self.sides[0].start)

    def on_unmount(self) -> None:
        """Nobody waits for anything any more."""
        self.contrast.close()
        self.background.close()
        self.disclosing.close()

    # -- the traces fill in

    @on(Side.Grown)
    def _grown(self, message: Side.Grown) -> None:
        """Show more of a run; once both are there, one above the other."""
        side, trace = message.side, message.side.trace
        if trace is None:
            return
        ranks = trace.ranks["rank"].to_list()
        fresh = View(ranks=tuple(ranks[:1]) if len(ranks) > 1 else None)
        side.show_run(navigate.fit(trace, fresh if side.timeline.trace is None else side.timeline.view))
        side.choose_lanes()
        views = (self.sides[0].timeline.view, self.sides[1].timeline.view)
        traces = self.traces
        self.state = abreast.opened(traces, views) if traces is not None else Abreast(views=views)

    @on(Side.Settled)
    def _settled(self, message: Side.Settled) -> None:
        """Read the other run, or compare both."""
        waiting = [side for side in self.sides if side is not message.side and side.reading.waits]
        for side in waiting:
            side.start()
        self._compare()

    def _compare(self) -> None:
        """Have the runs compared as they stand, once they are read; what is shown until then leads nowhere."""
        self.found, traces = None, self.traces
        if traces is not None and all(side.settled for side in self.sides):
            self.differences.wait("comparing")
            self.contrast.compare(traces)

    @property
    def traces(self) -> tuple[Trace, Trace] | None:
        """Both runs as far as they are read; None while there is nothing of one."""
        base, other = (side.trace for side in self.sides)
        return (base, other) if base is not None and other is not None else None

    @on(Contrast.Compared)
    def _compared(self, message: Contrast.Compared) -> None:
        if message.traces != self.traces:
            return
        if message.found is None:
            self.differences.fail(message.failure)
            return
        self.found = message.found
        self.differences.show(message.found)
        if ONLY_MEMORY in (message.found.base.of, message.found.other.of) and self.differences.active == FIRST:
            self.differences.active = self.sharing.tabs.active = OF_MEMORY
        if not self.state.partners:
            self.state = abreast.stepped(self.state, *self._steps(message.found))

    def _steps(self, found: Comparison) -> list[tuple[Step, ...]]:
        """The steps of the ranks that are shown."""
        sides = zip(self.sides, (found.base, found.other), self.state.views, strict=True)
        return [
            abreast.steps_of(profile.stretches, None if side.trace is None else navigate.rank_of(side.trace, view))
            for side, profile, view in sides
        ]

    @property
    def _ranks(self) -> int:
        """How many ranks the tables average over, on the side that has more."""
        return max((each.ranks for each in (self.found.base, self.found.other)), default=1) if self.found else 1

    # -- what both show

    @on(Side.Moved)
    def _moved(self, message: Side.Moved) -> None:
        at, traces, view = self.sides.index(message.side), self.traces, message.side.timeline.view
        if view == self.state.views[at]:
            return
        state = abreast.moved(self.state, at, view)
        if self.aligning.slots is None and traces is not None:
            state = abreast.fitted(state, at, traces)
        self._rerank(state)

    def _rerank(self, state: Abreast) -> None:
        """Show this; of other ranks than before, few lanes and their own steps."""
        before = [view.ranks for view in self.state.views]
        self.state = state
        for side, ranks, view in zip(self.sides, before, state.views, strict=True):
            if ranks != view.ranks and self.aligning.slots is None:
                side.choose_lanes()
        if self.found is not None and self.aligning.slots is None and before != [view.ranks for view in state.views]:
            self.state = abreast.stepped(state, *self._steps(self.found))

    @on(Timeline.Refused)
    def _refused(self, message: Timeline.Refused) -> None:
        self.key_bar.say(message.words)

    def watch_state(self, old: Abreast, new: Abreast) -> None:
        """Move both timelines, and say how they lie."""
        for side, view in zip(self.sides, new.views, strict=True):
            side.timeline.view = view
        told = [(each.alignment, each.pair, *(view.event for view in each.views)) for each in (old, new)]
        if told[0] != told[1]:
            self.describe()

    def describe(self) -> None:
        """Say how both are aligned, which steps are looked at, and what is selected."""
        state, slots = self.state, self.aligning.slots
        self.header.place = f"aligned: {abreast.WORDS[state.alignment]}"
        base, other = state.shown
        told = (sentences.of_pair(base, other, self._ranks), sentences.of_slots(slots))
        self.header.facts = tuple(filter(None, told))
        self.key_bar.matched = slots is not None
        for side, event, step in zip(self.sides, self._selected, state.shown, strict=True):
            side.bar.step = sentences.of_step(step) if step is not None else ""
            side.tell(event)

    # -- alignments

    def action_align(self) -> None:
        """Align in the next way."""
        self.aligning.turn()

    @on(Contrast.Aligned)
    def _aligned(self, message: Contrast.Aligned) -> None:
        self.aligning.matched(message)

    def action_partner(self, by: int) -> None:
        """Hold the step of the base against another one."""
        self.aligning.pair(by)

    def action_travel(self, way: str, *by: int) -> None:
        """Go to the next or previous pair of steps; other ways that a timeline knows are the explorer's."""
        if way == "step":
            self.aligning.step(sum(by))
        else:
            self.action_elsewhere("leads there")

    def action_regroup(self) -> None:
        """Say where the rows of a table can be grouped otherwise."""
        self.action_elsewhere("groups rows otherwise")

    def action_elsewhere(self, what: str) -> None:
        """Say where that is."""
        self.key_bar.say(ALONE.format(what))

    def action_difference(self, direction: int) -> None:
        """Go to the next or previous op that is not the same in both steps."""
        self.aligning.difference(direction)

    def action_swap(self) -> None:
        """Let each run take the other's part."""
        self.aligning.leave()
        self.sides.reverse()
        self.move_child(self.sides[0], before=self.sides[1])
        self.sharing.follow(self.focused)
        self._entitle()
        self.state = abreast.swapped(self.state)
        self._compare()

    # -- tables

    @on(ResultTable.Chosen)
    def _chosen(self, message: ResultTable.Chosen) -> None:
        """Go to the longest execution of an op in either run."""
        traces, row, found = self.traces, message.row, self.found
        chosen = (row.get("base_event"), row.get("other_event"))
        if traces is None or found is None or not any(message.result is each for each in found.results):
            self.key_bar.say("this row is of the runs as they stood before: they are being compared anew")
            return
        if chosen == (None, None):
            self.key_bar.say("this row leads nowhere: those of ops (3) lead to their executions")
            return
        self._go(traces, chosen)
        alone = "" if None not in chosen else f"only in the {'base' if chosen[1] is None else 'other run'}: "
        self.key_bar.say(f"{alone}longest execution of {row.get('name', '')}")

    def _go(self, traces: tuple[Trace, Trace], chosen: Chosen) -> None:
        """Go to an event of either run, or of one alone."""
        self.aligning.leave()
        self._rerank(abreast.at_ranks_of(self.state, traces, chosen))
        self.state = abreast.to_instances(self.state, traces, chosen)
        for side, event in zip(self.sides, chosen, strict=True):
            if event is not None:
                side.reveal(event)

    @property
    def meant(self) -> Chosen:
        """The events of both runs that a key is about: those of the row under the cursor, or what is selected."""
        if isinstance(self.focused, ResultTable):
            row = (self.focused.row if self.found is not None else None) or {}
            return row.get("base_event"), row.get("other_event")
        base, other = self._selected
        return (base, None) if self.focused is self.sides[0].timeline else (None, other)

    @property
    def _selected(self) -> Chosen:
        """The selected events of both runs, also where they stand in slots."""
        slots, (base, other) = self.aligning.slots, (view.event for view in self.state.views)
        if slots is None:
            return base, other
        found = [None if at is None else int(place[at]) for at, place in zip((base, other), slots.origins, strict=True)]
        return found[0], found[1]

    def action_disclose(self) -> None:
        """Show the HLO of an op, of the base where it is there."""
        self.disclosing.of_cursor()

    def leave_for(self, side: Side, found: Walk) -> None:
        """Go to an execution in one run."""
        traces = self.traces
        if traces is not None and side in self.sides:
            base = self.sides.index(side) == 0
            self._go(traces, (found.event, None) if base else (None, found.event))
            side.timeline.focus()

    @on(TablePane.SaveAsked)
    def _save_asked(self, message: TablePane.SaveAsked) -> None:
        if (trace := self.sides[0].trace) is not None:
            save(self.background, trace, View(), message)

    @on(TabBar.Chosen)
    def _tab_chosen(self, message: TabBar.Chosen) -> None:
        self.action_show(message.pane)

    @on(KeyBar.Pressed)
    async def _key_clicked(self, message: KeyBar.Pressed) -> None:
        await bars.follow(self, message.key)

    def action_show(self, pane: str) -> None:
        """Give the keys to a timeline, or show a tab and give them to its table."""
        for part, side in zip(TIMELINES, self.sides, strict=True):
            if pane == part:
                self.sharing.want(part)
                side.timeline.focus()
                return
        self.sharing.want("tables")
        self.differences.active = self.sharing.tabs.active = pane
        self.differences.call_after_refresh(self.differences.focus_active)

    def action_filter(self) -> None:
        """Filter the table that is shown, wherever the keys are."""
        table = self.differences.first
        if table is None:
            self.key_bar.say("a chart has no rows to filter: 3 shows those of ops")
            return
        self.action_show(self.differences.active)
        self.differences.call_after_refresh(table.action_ask, "filter")

    def action_pass_keys(self, by: int) -> None:
        """Give the keys to what comes next on the screen (1) or before (-1), though there is no room for it now."""
        if self.sharing.in_sight() == ALL:
            (self.focus_next if by > 0 else self.focus_previous)()
        else:
            part = self.sharing.beside(by)
            self.action_show(self.differences.active if part == "tables" else part)

    def action_tell(self) -> None:
        """Show all that is said of the tables in sight."""
        tell(self, self.differences.active, self.differences.in_full, self.glyphs)

    def action_copy_command(self) -> None:
        """Copy the command that prints the tables; where the keys are in a timeline, of the steps that are shown."""
        base, other = self.state.shown
        step = None
        if base is not None and other is not None and isinstance(self.focused, Timeline):
            step = base.number if base.number == other.number else None
        line = again.comparison(self.sides[0].said, self.sides[1].said, self.said, step)
        self.app.copy_to_clipboard(line)
        self.key_bar.say(f"copied: {line}")

    # -- the screen

    def action_zoom_pane(self) -> None:
        """Give the screen to the timelines, or share it again."""
        self.sharing.switch()

    def action_back(self) -> None:
        """Align by step again, else share the screen."""
        if self.aligning.leave():
            return
        if self.state.alignment == "instance" and self.state.partners:
            self.state = abreast.to_pair(self.state, self.state.at)
        elif self.sharing.alone:
            self.sharing.switch()

    def action_help(self) -> None:
        """Show what the keys do."""
        self.app.push_screen(HelpScreen(self.glyphs, self.keys, self.key_bar.group))

    def on_resize(self) -> None:
        """Share the new size."""
        self.sharing.lay()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Other keys matter now."""
        footer.follow(self.key_bar, event.widget)
        self._count_rows()
        self.sharing.follow(event.widget)

    @on(ResultTable.Highlighted)
    def _count_rows(self) -> None:
        """There may be rows, or none any more."""
        footer.count_rows(self.key_bar, self.focused)

    @property
    def busy(self) -> bool:
        """Whether a thread is still at work."""
        threads = self.contrast.busy, self.background.busy, self.disclosing.busy
        return any(threads) or any(side.busy for side in self.sides)

    def _entitle(self) -> None:
        """Say which run is which."""
        for side, sign, part in zip(self.sides, SIGNS, ("base", "other"), strict=True):
            side.bar.title = f"{sign} {part} {side.opening.name}"


ALONE: Final = "the explorer of one run {}: tracehound PATH"
"""What is said of a key that does something there alone."""
