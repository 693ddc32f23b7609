"""Timeline with the prompt for lanes and ranks below it, and the legend of its colors.

Owns the keys that arrange lanes: fold, hide, pin, move, filter, group. `draw` has the meaning of a layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from msgspec.structs import replace
from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input, Label, Static

from tracehound.draw.event_colors import ColorBy, EventColoring, build_coloring, next_coloring
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.lane_layout import LaneLayout, parse_lane_layout, text_items
from tracehound.draw.timeline_outline import LaneEntry
from tracehound.errors import TracehoundError
from tracehound.model.trace import KINDS, Trace
from tracehound.model.units import count_noun
from tracehound.ui.bindings.keys import textual_bindings
from tracehound.ui.state import goto_targets
from tracehound.ui.state.view import View
from tracehound.ui.themes import appearance_of
from tracehound.ui.widgets.boxes_and_scroll_bars import HorizontalBox, VerticalBox
from tracehound.ui.widgets.timeline import Timeline
from tracehound.ui.wording import messages

PromptSubject = Literal["lanes", "ranks"]

PROMPT_HINTS: dict[PromptSubject, str] = {
    "lanes": "a part of a lane's name; /regex/ between slashes; nothing shows all",
    "ranks": "0,2-5; nothing shows all",
}


class LaneInput(Input):
    """Text input of the lane prompt."""

    BINDING_GROUP_TITLE = "Prompts"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave", show=False, tooltip="Leave it as it was", id="lanes.cancel")
    ]
    DEFAULT_CSS = """
    LaneInput, LaneInput:focus { border: none; height: 1; padding: 0; width: 1fr; background: $panel; }
    """

    def action_leave(self) -> None:
        """Post the cancellation."""
        self.post_message(LanePrompt.Cancelled())


class LanePrompt(HorizontalBox):
    """Prompt for a lane filter or for ranks: its subject, the text, and a remark."""

    DEFAULT_CSS = """
    LanePrompt { height: 1; background: $panel; display: none; }
    LanePrompt > .what { color: $accent; text-style: bold; padding: 0 1; width: auto; }
    LanePrompt > .said { color: $text-muted; padding: 0 1; width: auto; }
    """

    @dataclass
    class Changed(Message):
        """The text has changed."""

        what: PromptSubject
        text: str

    @dataclass
    class Accepted(Message):
        """The user accepted the text."""

        what: PromptSubject
        text: str

    @dataclass
    class Cancelled(Message):
        """The user cancelled the prompt."""

    def __init__(self) -> None:
        super().__init__()
        self.what: PromptSubject = "lanes"
        self.input = LaneInput(select_on_focus=True)
        self.input.cursor_blink = False
        self._label = Label("", classes="what", markup=False)
        self._remark = Label("", classes="said", markup=False)

    def compose(self) -> ComposeResult:
        """Yield subject, text and remark."""
        yield self._label
        yield self.input
        yield self._remark

    def ask(self, what: PromptSubject, text: str) -> None:
        """Open with the current filter or ranks."""
        self.what = what
        self._label.update(what)
        self.input.placeholder = PROMPT_HINTS[what]
        with self.prevent(Input.Changed):
            self.input.value = text
        self.show_remark("")
        self.display = True
        self.input.focus()

    def show_remark(self, words: str) -> None:
        """Show a remark on the text."""
        self._remark.update(words)

    @on(Input.Changed)
    def _text_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(self.what, event.value))

    @on(Input.Submitted)
    def _text_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Accepted(self.what, event.value))


NO_MATCHING_LANE = "no lane has such a name; Esc leaves them as they were"


class TimelinePanel(VerticalBox):
    """Timeline whose lanes can be arranged. Its keys work while the timeline has the focus."""

    BINDINGS = textual_bindings("lanes")
    BINDING_GROUP_TITLE = "Lanes"
    DEFAULT_CSS = "TimelinePanel > Timeline { height: 1fr; }"

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.timeline = Timeline(glyphs)
        self.legend = ColorLegend(glyphs)
        self.prompt = LanePrompt()
        self._state_before: tuple[LaneLayout, View] = (LaneLayout(), View())

    def compose(self) -> ComposeResult:
        """Yield timeline, legend and prompt."""
        yield self.timeline
        yield self.legend
        yield self.prompt

    # -- what is kept of it

    @property
    def saved_arrangement(self) -> dict[str, Any]:
        """Arrangement of the lanes as plain values, with names of lanes that are valid in the next session."""
        sheet = self.timeline.outline
        expanded = [track.key for group in sheet.groups for track in group.entries if track.lane in sheet.expanded]
        by = self.timeline.lane_loader.by
        values = {
            **self.timeline.lane_layout.to_plain_values(),
            "folded": sorted(sheet.folded),
            "expanded": sorted(expanded),
        }
        values["color"] = "" if by == "kind" else by
        return {name: value for name, value in values.items() if value}

    def restore_arrangement(self, kept: Mapping[str, Any]) -> None:
        """Restore an arrangement; lanes that no longer exist are ignored."""
        timeline, by = self.timeline, kept.get("color", "kind")
        if timeline.trace is not None and by in get_args(ColorBy):
            self._color_by(by, timeline.trace)
        timeline.set_lane_layout(parse_lane_layout(kept))
        lanes = {track.key: track.lane for group in timeline.outline.groups for track in group.entries}
        folded, expanded = (text_items(kept.get(name)) for name in ("folded", "expanded"))
        timeline.set_outline(
            replace(
                timeline.outline,
                folded=frozenset(folded),
                expanded=frozenset(lanes[key] for key in expanded if key in lanes),
            )
        )

    # -- the lane under the cursor

    def _cursor_lane(self) -> LaneEntry | None:
        """Lane under the cursor; says so if there is none."""
        lane = self.timeline.view.lane
        tracks = (track for group in self.timeline.outline.groups for track in group.entries)
        found = next((track for track in tracks if track.lane == lane), None)
        if found is None:
            self.timeline.refuse(messages.NO_LANE)
        return found

    def action_fold(self) -> None:
        """Fold the group of the cursor's lane into one line, or unfold it."""
        group = self.timeline.outline.group_of(self.timeline.view.lane)
        if group is not None:
            self.timeline.set_outline(self.timeline.outline.toggle_fold(group.key))

    def action_expand(self) -> None:
        """Show all rows of the cursor's lane, or few again; says so if all are shown anyway."""
        track, sheet = self._cursor_lane(), self.timeline.outline
        if track is None:
            return
        if track.graph or track.lane in sheet.expanded or track.rows > sheet.most:
            self.timeline.set_outline(sheet.toggle_expansion(track.lane))
        else:
            self.timeline.refuse(messages.all_rows_shown(track.rows))

    def action_hide(self) -> None:
        """Hide the cursor's lane; the cursor goes to the next one."""
        track = self._cursor_lane()
        if track is not None:
            stops = [lane for lane, _ in self.timeline.outline.cursor_stops()]
            self.timeline.action_lane(-1 if track.lane in stops[-1:] else 1)
            self.timeline.set_lane_layout(self.timeline.lane_layout.hide(track.key))

    def action_show_all(self) -> None:
        """Show hidden and filtered lanes, and all ranks."""
        self.timeline.set_lane_layout(self.timeline.lane_layout.show_all())
        self.timeline.choose_ranks(None)

    def action_pin(self) -> None:
        """Pin the cursor's lane to the top, or unpin it."""
        track = self._cursor_lane()
        if track is not None:
            self.timeline.set_lane_layout(self.timeline.lane_layout.toggle_pin(track.key))

    def action_move_lane(self, by: int) -> None:
        """Move the cursor's lane down or up in its group."""
        track = self._cursor_lane()
        if track is not None:
            self.timeline.set_lane_layout(self.timeline.lane_layout.move(self.timeline.outline.groups, track.key, by))

    def action_regroup(self) -> None:
        """Group lanes by stream over all ranks, or by rank."""
        timeline = self.timeline
        if timeline.trace is not None and timeline.trace.lanes["rank"].is_null().all():
            timeline.refuse(messages.NO_STREAMS)
        else:
            timeline.set_lane_layout(timeline.lane_layout.switch_grouping())

    def action_color(self) -> None:
        """Color by the next property."""
        trace = self.timeline.trace
        if trace is not None:
            self._color_by(next_coloring(self.timeline.lane_loader.by, trace), trace)

    def _color_by(self, by: ColorBy, trace: Trace) -> None:
        self.timeline.lane_loader.by = by
        self.timeline.watch_trace(trace)
        self.legend.show_coloring(build_coloring(by, trace))

    # -- which lanes and ranks

    def action_filter_lanes(self) -> None:
        """Open the prompt for a lane filter."""
        self._remember_state()
        self.prompt.ask("lanes", self.timeline.lane_layout.needle)

    def action_choose_ranks(self) -> None:
        """Open the prompt for ranks."""
        self._remember_state()
        self.prompt.ask("ranks", goto_targets.format_ranks(self.timeline.view.ranks))

    def _remember_state(self) -> None:
        self._state_before = (self.timeline.lane_layout, self.timeline.view)

    @on(LanePrompt.Changed)
    def _text_changed(self, message: LanePrompt.Changed) -> None:
        """Apply the text at once."""
        message.stop()
        try:
            self.prompt.show_remark(self._show_matching(message.what, message.text))
        except TracehoundError as error:
            self.prompt.show_remark(str(error))

    def _show_matching(self, what: PromptSubject, text: str) -> str:
        """Show the lanes or ranks that a text means. Returns a remark; raises TracehoundError if it means none."""
        timeline = self.timeline
        if what == "lanes":
            timeline.set_lane_layout(replace(timeline.lane_layout, needle=text))
            shown = sum(len(group.entries) for group in timeline.outline.groups)
            if text and not shown:
                raise TracehoundError(NO_MATCHING_LANE)
            return count_noun(shown, "lane")
        if timeline.trace is not None:
            timeline.choose_ranks(goto_targets.parse_ranks(text, timeline.trace.ranks["rank"].to_list()))
        return ""

    @on(LanePrompt.Cancelled)
    def _restore_state(self, message: LanePrompt.Cancelled) -> None:
        message.stop()
        seats, view = self._state_before
        self.timeline.set_lane_layout(seats)
        self.timeline.choose_ranks(view.ranks)
        self._close_prompt()

    @on(LanePrompt.Accepted)
    def _accept_text(self, message: LanePrompt.Accepted) -> None:
        """Accept the text, unless it means no lane or rank."""
        message.stop()
        try:
            self._show_matching(message.what, message.text)
        except TracehoundError as error:
            self.prompt.show_remark(str(error))
        else:
            self._close_prompt()

    def _close_prompt(self) -> None:
        self.prompt.display = False
        self.timeline.focus()


class ColorLegend(Static):
    """Legend of colors, or of letters on terminals without colors."""

    DEFAULT_CSS = """
    ColorLegend { height: 1; background: $panel; color: $text-muted; padding: 0 1; display: none; text-wrap: nowrap; }
    """

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(markup=False)
        self._glyphs = glyphs

    def show_coloring(self, coloring: EventColoring) -> None:
        """Show the legend of a coloring; hidden for kinds, which the help page explains."""
        self.display = coloring.by != "kind"
        look = appearance_of(self.app, self._glyphs)
        text = Text(f"colors {coloring.meaning}")
        for code, name in coloring.legend:
            kind = KINDS[code]
            color = look.palette.hue_color(coloring.hues[kind])
            letter = coloring.letters[kind] if color is None or self._glyphs.name == "ascii" else "█"
            text.append("  ").append(letter, Style(color=color)).append(f" {look.words(name)}")
        self.update(text)
