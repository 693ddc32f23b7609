"""Screen that compares two runs: two linked timelines above the tables of differences.

Owns the state of both views. Widgets post what the user did; this screen passes it on to the others.
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
from tracehound.diff.op_identity import MEMORY_ONLY
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.model.trace import Trace
from tracehound.store import TraceReader
from tracehound.ui.actions import prompt_line
from tracehound.ui.actions.hlo_navigation import ComparisonHloOpener
from tracehound.ui.actions.pane_requests import push_full_text, save_table
from tracehound.ui.actions.screen_layouts import EVERYTHING, TIMELINES, ComparisonLayout
from tracehound.ui.actions.step_alignment import StepAligner
from tracehound.ui.background.analysis_runner import ComparisonRunner
from tracehound.ui.background.background_thread import BackgroundThread
from tracehound.ui.bindings import keys
from tracehound.ui.bindings.keys import (
    comparison_bindings,
    comparison_keys,
    with_comparison_keys_everywhere,
)
from tracehound.ui.panes.comparison_panes import FIRST_TAB, MEMORY_TAB, ComparisonPanes, label_comparison_tabs
from tracehound.ui.panes.table_pane import TablePane
from tracehound.ui.screens.text_dialogs import HelpScreen
from tracehound.ui.source_files import SourceFolders
from tracehound.ui.state import equivalent_commands, linked_views, view_moves
from tracehound.ui.state.event_walk import EventWalk
from tracehound.ui.state.linked_views import ComparedStep, LinkedViews
from tracehound.ui.state.view import View
from tracehound.ui.widgets import status_bars
from tracehound.ui.widgets.base_screens import SafeScreen
from tracehound.ui.widgets.result_table import ResultTable
from tracehound.ui.widgets.status_bars import HeaderBar, KeyBar, TabBar
from tracehound.ui.widgets.timeline import Timeline
from tracehound.ui.widgets.titled_timeline import TitledTimeline
from tracehound.ui.wording import messages

RUN_SIGNS: Final = ("-", "+")
"""Signs before the names of the runs, as in a diff of two files."""


EventPair = tuple[int | None, int | None]
"""An event of the baseline and one of the candidate; None where there is none."""


class ComparisonScreen(SafeScreen[None]):
    """A baseline and a candidate, compared."""

    BINDINGS: ClassVar[list[BindingType]] = [*comparison_bindings()]
    BINDING_GROUP_TITLE = "Comparison"

    focused: reactive[Widget | None] = reactive(None, repaint=False)  # Textual would paint the whole screen for it
    state: reactive[LinkedViews] = reactive(LinkedViews(), repaint=False, init=False)
    """Views of both timelines and their alignment."""

    def __init__(
        self,
        baseline: TraceReader,
        candidate: TraceReader,
        glyphs: Glyphs = UNICODE,
        table: Sequence[keys.Key] = keys.KEYS,
        sources: SourceFolders = SourceFolders(),  # noqa: B008, frozen
    ) -> None:
        super().__init__()
        self.keys = comparison_keys(table)
        self.glyphs = glyphs
        self.sides = [TitledTimeline(baseline, glyphs), TitledTimeline(candidate, glyphs)]
        self.contrast = ComparisonRunner(self)
        self.background = BackgroundThread()
        self.header = HeaderBar(glyphs)
        self.differences = ComparisonPanes(glyphs)
        self.key_bar = KeyBar(glyphs, with_comparison_keys_everywhere(self.keys))
        self.sharing = ComparisonLayout(self.sides, self.differences)
        self.aligning = StepAligner(self)
        self.hlo_navigation = ComparisonHloOpener(self, sources)
        self.command_words: tuple[str, ...] = ()
        """Command line options that say how the runs are read."""
        self.comparison: Comparison | None = None
        """Differences of the runs as read so far; None until they are computed."""

    def compose(self) -> ComposeResult:
        """Yield header, both timelines, tabs, tables and key bar."""
        yield self.header
        yield from self.sides
        yield self.sharing.tabs
        yield self.differences
        yield self.key_bar

    def on_mount(self) -> None:
        """Show the empty screen first, then start to read."""
        self.header.title = "comparison"
        self.sharing.tabs.tabs = label_comparison_tabs(self.keys)
        self.sharing.tabs.active = self.differences.active
        self.differences.set_full_text_key(keys.key_text(self.keys, "notes"))
        for side in self.sides:
            side.timeline.key = keys.key_text(self.keys, "lanes.all")
        self.differences.show_waiting("both runs are compared when they are read")
        self._update_titles()
        self.sharing.apply_layout()
        if self.sharing.fits_one_part_only:
            self.action_show(self.differences.active)
        else:
            self.sides[0].timeline.focus()
        self.call_after_refresh(self.sides[0].start)

    def on_unmount(self) -> None:
        """Stop all background work."""
        self.contrast.close()
        self.background.close()
        self.hlo_navigation.close()

    # -- the traces fill in

    @on(TitledTimeline.TraceGrown)
    def _show_grown_run(self, message: TitledTimeline.TraceGrown) -> None:
        """Show more of a run; when both have data, link their views."""
        side, trace = message.side, message.side.trace
        if trace is None:
            return
        ranks = trace.ranks["rank"].to_list()
        fresh = View(ranks=tuple(ranks[:1]) if len(ranks) > 1 else None)
        side.show_run(view_moves.show_whole_run(trace, fresh if side.timeline.trace is None else side.timeline.view))
        side.choose_lanes()
        views = (self.sides[0].timeline.view, self.sides[1].timeline.view)
        traces = self.traces
        self.state = linked_views.link_views(traces, views) if traces is not None else LinkedViews(views=views)

    @on(TitledTimeline.ReadingEnded)
    def _reading_ended(self, message: TitledTimeline.ReadingEnded) -> None:
        """Start to read the candidate, or to compare both."""
        waiting = [side for side in self.sides if side is not message.side and side.reading.is_not_started]
        for side in waiting:
            side.start()
        self._start_comparison()

    def _start_comparison(self) -> None:
        """Compare the runs in the background once both are read.

        Rows of the last comparison lead nowhere until then.
        """
        self.comparison, traces = None, self.traces
        if traces is not None and all(side.settled for side in self.sides):
            self.differences.show_waiting("comparing")
            self.contrast.compare(traces)

    @property
    def traces(self) -> tuple[Trace, Trace] | None:
        """Both traces as far as they are read; None while one has no data."""
        baseline, candidate = (side.trace for side in self.sides)
        return (baseline, candidate) if baseline is not None and candidate is not None else None

    @on(ComparisonRunner.Compared)
    def _show_comparison(self, message: ComparisonRunner.Compared) -> None:
        if message.traces != self.traces:
            return
        if message.found is None:
            self.differences.show_failure(message.failure)
            return
        self.comparison = message.found
        self.differences.show(message.found)
        if (
            MEMORY_ONLY in (message.found.baseline.of, message.found.candidate.of)
            and self.differences.active == FIRST_TAB
        ):
            self.differences.active = self.sharing.tabs.active = MEMORY_TAB
        if not self.state.partners:
            self.state = linked_views.with_steps(self.state, *self._steps_of_shown_ranks(message.found))

    def _steps_of_shown_ranks(self, found: Comparison) -> list[tuple[ComparedStep, ...]]:
        """Steps of the ranks that are shown, for each run."""
        sides = zip(self.sides, (found.baseline, found.candidate), self.state.views, strict=True)
        return [
            linked_views.compared_steps(
                profile.step_intervals, None if side.trace is None else view_moves.rank_of_view(side.trace, view)
            )
            for side, profile, view in sides
        ]

    @property
    def _most_ranks(self) -> int:
        """Number of ranks that the tables average over, of the run with more."""
        return (
            max((each.ranks for each in (self.comparison.baseline, self.comparison.candidate)), default=1)
            if self.comparison
            else 1
        )

    # -- what both show

    @on(TitledTimeline.ViewMoved)
    def _follow_moved_run(self, message: TitledTimeline.ViewMoved) -> None:
        at, traces, view = self.sides.index(message.side), self.traces, message.side.timeline.view
        if view == self.state.views[at]:
            return
        state = linked_views.move_view(self.state, at, view)
        if self.aligning.slots is None and traces is not None:
            state = linked_views.fit_both_runs(state, at, traces)
        self._show_state(state)

    def _show_state(self, state: LinkedViews) -> None:
        """Show another state. If it has other ranks, choose few lanes again and use the steps of these ranks."""
        before = [view.ranks for view in self.state.views]
        self.state = state
        for side, ranks, view in zip(self.sides, before, state.views, strict=True):
            if ranks != view.ranks and self.aligning.slots is None:
                side.choose_lanes()
        if (
            self.comparison is not None
            and self.aligning.slots is None
            and before != [view.ranks for view in state.views]
        ):
            self.state = linked_views.with_steps(state, *self._steps_of_shown_ranks(self.comparison))

    @on(Timeline.ActionRefused)
    def _show_refusal(self, message: Timeline.ActionRefused) -> None:
        self.key_bar.say(message.words)

    def watch_state(self, old: LinkedViews, new: LinkedViews) -> None:
        """Move both timelines, and update the header if the alignment has changed."""
        for side, view in zip(self.sides, new.views, strict=True):
            side.timeline.view = view
        told = [(each.alignment, each.pair, *(view.event for view in each.views)) for each in (old, new)]
        if told[0] != told[1]:
            self.describe()

    def describe(self) -> None:
        """Update the header: alignment, current steps and selected events."""
        state, slots = self.state, self.aligning.slots
        self.header.place = f"aligned: {linked_views.ALIGNMENT_NAMES[state.alignment]}"
        baseline, candidate = state.aligned_pair
        told = (messages.pair_text(baseline, candidate, self._most_ranks), messages.slots_text(slots))
        self.header.facts = tuple(filter(None, told))
        self.key_bar.ops_matched = slots is not None
        for side, event, step in zip(self.sides, self._selected_events, state.aligned_pair, strict=True):
            side.bar.step = messages.step_text(step) if step is not None else ""
            side.show_facts(event)

    # -- alignments

    def action_align(self) -> None:
        """Switch to the next alignment."""
        self.aligning.switch_alignment()

    @on(ComparisonRunner.Aligned)
    def _use_matched_ops(self, message: ComparisonRunner.Aligned) -> None:
        self.aligning.show_matched_ops(message)

    def action_partner(self, by: int) -> None:
        """Compare the baseline's step with another step of the candidate."""
        self.aligning.change_partner_step(by)

    def action_travel(self, way: str, *by: int) -> None:
        """Go to the next or previous pair of steps; all other targets exist only in the explorer."""
        if way == "step":
            self.aligning.go_to_next_pair(sum(by))
        else:
            self.action_elsewhere("leads there")

    def action_regroup(self) -> None:
        """Say that rows can be regrouped only in the explorer."""
        self.action_elsewhere("groups rows otherwise")

    def action_elsewhere(self, what: str) -> None:
        """Say that only the explorer has this."""
        self.key_bar.say(EXPLORER_ONLY.format(what))

    def action_difference(self, direction: int) -> None:
        """Go to the next or previous op that differs between both steps."""
        self.aligning.go_to_next_difference(direction)

    def action_swap(self) -> None:
        """Swap baseline and candidate."""
        self.aligning.leave_matched_ops()
        self.sides.reverse()
        self.move_child(self.sides[0], before=self.sides[1])
        self.sharing.show_focused_part(self.focused)
        self._update_titles()
        self.state = linked_views.swap_runs(self.state)
        self._start_comparison()

    # -- tables

    @on(ResultTable.RowChosen)
    def _go_to_row(self, message: ResultTable.RowChosen) -> None:
        """Go to the longest execution of an op in each run."""
        traces, row, found = self.traces, message.row, self.comparison
        chosen = (row.get("baseline_event"), row.get("candidate_event"))
        if traces is None or found is None or not any(message.result is each for each in found.results):
            self.key_bar.say("this row is of the runs as they stood before: they are being compared anew")
            return
        if chosen == (None, None):
            self.key_bar.say("this row leads nowhere: those of ops (3) lead to their executions")
            return
        self._go_to_events(traces, chosen)
        alone = "" if None not in chosen else f"only in the {'baseline' if chosen[1] is None else 'candidate'}: "
        self.key_bar.say(f"{alone}longest execution of {row.get('name', '')}")

    def _go_to_events(self, traces: tuple[Trace, Trace], chosen: EventPair) -> None:
        """Go to an event of each run, or of one alone."""
        self.aligning.leave_matched_ops()
        self._show_state(linked_views.show_ranks_of_events(self.state, traces, chosen))
        self.state = linked_views.show_instances(self.state, traces, chosen)
        for side, event in zip(self.sides, chosen, strict=True):
            if event is not None:
                side.unhide_lane_of(event)

    @property
    def cursor_events(self) -> EventPair:
        """Events that a key is about: those of the row under the cursor, or the selected ones."""
        if isinstance(self.focused, ResultTable):
            row = (self.focused.row if self.comparison is not None else None) or {}
            return row.get("baseline_event"), row.get("candidate_event")
        baseline, candidate = self._selected_events
        return (baseline, None) if self.focused is self.sides[0].timeline else (None, candidate)

    @property
    def _selected_events(self) -> EventPair:
        """Selected events of both runs, in the numbering of the runs even while matched ops are shown."""
        slots, (baseline, candidate) = self.aligning.slots, (view.event for view in self.state.views)
        if slots is None:
            return baseline, candidate
        found = [
            None if at is None else int(place[at])
            for at, place in zip((baseline, candidate), slots.origins, strict=True)
        ]
        return found[0], found[1]

    def action_show_hlo(self) -> None:
        """Show the HLO of an op, preferably the baseline's."""
        self.hlo_navigation.of_cursor()

    def go_to_execution(self, side: TitledTimeline, found: EventWalk) -> None:
        """Go to an execution in one run."""
        traces = self.traces
        if traces is not None and side in self.sides:
            is_baseline = self.sides.index(side) == 0
            self._go_to_events(traces, (found.event, None) if is_baseline else (None, found.event))
            side.timeline.focus()

    @on(TablePane.SaveRequested)
    def _save_table(self, message: TablePane.SaveRequested) -> None:
        if (trace := self.sides[0].trace) is not None:
            save_table(self.background, trace, View(), message)

    @on(TabBar.TabClicked)
    def _show_clicked_tab(self, message: TabBar.TabClicked) -> None:
        self.action_show(message.pane)

    @on(KeyBar.KeyClicked)
    async def _run_clicked_key(self, message: KeyBar.KeyClicked) -> None:
        await status_bars.run_clicked_key(self, message.key)

    def action_show(self, pane: str) -> None:
        """Focus a timeline, or show a tab and focus its table."""
        for part, side in zip(TIMELINES, self.sides, strict=True):
            if pane == part:
                self.sharing.show_part(part)
                side.timeline.focus()
                return
        self.sharing.show_part("tables")
        self.differences.active = self.sharing.tabs.active = pane
        self.differences.call_after_refresh(self.differences.focus_active)

    def action_filter(self) -> None:
        """Open the filter of the visible table, whatever has the focus."""
        table = self.differences.first_table
        if table is None:
            self.key_bar.say("a chart has no rows to filter: 3 shows those of ops")
            return
        self.action_show(self.differences.active)
        self.differences.call_after_refresh(table.action_ask, "filter")

    def action_pass_keys(self, by: int) -> None:
        """Focus the next (1) or previous (-1) part of the screen, even one that is hidden for lack of space."""
        if self.sharing.visible_parts() == EVERYTHING:
            (self.focus_next if by > 0 else self.focus_previous)()
        else:
            part = self.sharing.neighbor_part(by)
            self.action_show(self.differences.active if part == "tables" else part)

    def action_show_full_text(self) -> None:
        """Show all notes of the visible tables."""
        push_full_text(self, self.differences.active, self.differences.full_text, self.glyphs)

    def action_copy_command(self) -> None:
        """Copy the command that prints the tables; with a timeline focused, for the current steps."""
        baseline, candidate = self.state.aligned_pair
        step = None
        if baseline is not None and candidate is not None and isinstance(self.focused, Timeline):
            step = baseline.number if baseline.number == candidate.number else None
        line = equivalent_commands.diff_command(
            self.sides[0].command_words, self.sides[1].command_words, self.command_words, step
        )
        self.app.copy_to_clipboard(line)
        self.key_bar.say(f"copied: {line}")

    # -- the screen

    def action_zoom_pane(self) -> None:
        """Give the whole screen to the focused part, or share it again."""
        self.sharing.toggle_timelines_zoom()

    def action_back(self) -> None:
        """Return to the alignment by step, else share the screen again."""
        if self.aligning.leave_matched_ops():
            return
        if self.state.alignment == "instance" and self.state.partners:
            self.state = linked_views.show_pair(self.state, self.state.at)
        elif self.sharing.alone:
            self.sharing.toggle_timelines_zoom()

    def action_help(self) -> None:
        """Show the help page."""
        self.app.push_screen(HelpScreen(self.glyphs, self.keys, self.key_bar.group))

    def on_resize(self) -> None:
        """Divide the new size."""
        self.sharing.apply_layout()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Update the key bar for the new focus."""
        prompt_line.show_keys_of_focus(self.key_bar, event.widget)
        self._update_row_keys()
        self.sharing.show_focused_part(event.widget)

    @on(ResultTable.RowHighlighted)
    def _update_row_keys(self) -> None:
        """Update the keys that need rows."""
        prompt_line.show_row_keys(self.key_bar, self.focused)

    @property
    def busy(self) -> bool:
        """True while a thread is at work."""
        threads = self.contrast.busy, self.background.busy, self.hlo_navigation.busy
        return any(threads) or any(side.busy for side in self.sides)

    def _update_titles(self) -> None:
        """Show the name and role of each run."""
        for side, sign, part in zip(self.sides, RUN_SIGNS, ("baseline", "candidate"), strict=True):
            side.bar.title = f"{sign} {part} {side.opening.name}"


EXPLORER_ONLY: Final = "the explorer of one run {}: tracehound PATH"
"""Message of keys that work only in the explorer."""
