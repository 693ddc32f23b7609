"""The timeline and the line under it on which lanes and ranks are chosen.

Owns the keys that arrange lanes: fold, hide, pin, move, filter, group. What an arrangement means is for `draw.seats`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from msgspec.structs import replace
from textual import on
from textual.app import ComposeResult

from tracehound.draw.colouring import By, colouring, following
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.draw.outline import Track
from tracehound.draw.seats import Seats, seats_of, texts
from tracehound.errors import TracehoundError
from tracehound.trace import Trace
from tracehound.ui.bindings.keys import bindings
from tracehound.ui.state import ranks
from tracehound.ui.state.view import View
from tracehound.ui.widgets.lane_prompt import LanePrompt, What
from tracehound.ui.widgets.legend import Legend
from tracehound.ui.widgets.plain_box import Column
from tracehound.ui.widgets.timeline import Timeline
from tracehound.ui.wording import words
from tracehound.units import plural

NO_LANE = "no lane has such a name; Esc leaves them as they were"


class Desk(Column):
    """A timeline whose lanes can be arranged. Its keys work while the timeline has the focus."""

    BINDINGS = bindings("lanes")
    BINDING_GROUP_TITLE = "Lanes"
    DEFAULT_CSS = "Desk > Timeline { height: 1fr; }"

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.timeline = Timeline(glyphs)
        self.legend = Legend(glyphs)
        self.prompt = LanePrompt()
        self._before: tuple[Seats, View] = (Seats(), View())

    def compose(self) -> ComposeResult:
        """The prompt is there when it is asked for."""
        yield self.timeline
        yield self.legend
        yield self.prompt

    # -- what is kept of it

    @property
    def kept(self) -> dict[str, Any]:
        """How the lanes are arranged, as plain values by names that the next reading of the trace knows, too."""
        sheet = self.timeline.sheet
        expanded = [track.key for group in sheet.groups for track in group.tracks if track.lane in sheet.expanded]
        by = self.timeline.supply.by
        values = {**self.timeline.seats.plain(), "folded": sorted(sheet.folded), "expanded": sorted(expanded)}
        values["colour"] = "" if by == "kind" else by
        return {name: value for name, value in values.items() if value}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Arrange the lanes as they were kept; of lanes that are not there any more nothing is said."""
        timeline, by = self.timeline, kept.get("colour", "kind")
        if timeline.trace is not None and by in get_args(By):
            self._colour(by, timeline.trace)
        timeline.seat(seats_of(kept))
        lanes = {track.key: track.lane for group in timeline.sheet.groups for track in group.tracks}
        folded, expanded = (texts(kept.get(name)) for name in ("folded", "expanded"))
        timeline.relay(
            replace(
                timeline.sheet,
                folded=frozenset(folded),
                expanded=frozenset(lanes[key] for key in expanded if key in lanes),
            )
        )

    # -- the lane under the cursor

    def _track(self) -> Track | None:
        """The lane that a key is about; where there is none, that is said."""
        lane = self.timeline.view.lane
        tracks = (track for group in self.timeline.sheet.groups for track in group.tracks)
        found = next((track for track in tracks if track.lane == lane), None)
        if found is None:
            self.timeline.refuse(words.NO_LANE)
        return found

    def action_fold(self) -> None:
        """Fold the group of the cursor's lane into one line, or unfold it."""
        group = self.timeline.sheet.group_of(self.timeline.view.lane)
        if group is not None:
            self.timeline.relay(self.timeline.sheet.fold(group.key))

    def action_expand(self) -> None:
        """Show all rows of the cursor's lane, or few again; where all are shown anyway, say so."""
        track, sheet = self._track(), self.timeline.sheet
        if track is None:
            return
        if track.graph or track.lane in sheet.expanded or track.rows > sheet.most:
            self.timeline.relay(sheet.expand(track.lane))
        else:
            self.timeline.refuse(words.all_rows(track.rows))

    def action_hide(self) -> None:
        """Hide the cursor's lane; the cursor goes to the next one."""
        track = self._track()
        if track is not None:
            stops = [lane for lane, _ in self.timeline.sheet.stops()]
            self.timeline.action_lane(-1 if track.lane in stops[-1:] else 1)
            self.timeline.seat(self.timeline.seats.hide(track.key))

    def action_show_all(self) -> None:
        """Show what was hidden or filtered, and all ranks."""
        self.timeline.seat(self.timeline.seats.all())
        self.timeline.choose_ranks(None)

    def action_pin(self) -> None:
        """Pin the cursor's lane to the top, or put it back."""
        track = self._track()
        if track is not None:
            self.timeline.seat(self.timeline.seats.pin(track.key))

    def action_move_lane(self, by: int) -> None:
        """Move the cursor's lane down or up in its group."""
        track = self._track()
        if track is not None:
            self.timeline.seat(self.timeline.seats.move(self.timeline.sheet.groups, track.key, by))

    def action_regroup(self) -> None:
        """Put the same stream of all ranks under each other, or the lanes of each rank."""
        timeline = self.timeline
        if timeline.trace is not None and timeline.trace.lanes["rank"].is_null().all():
            timeline.refuse(words.NO_STREAMS)
        else:
            timeline.seat(timeline.seats.regroup())

    def action_colour(self) -> None:
        """Colour by something else."""
        trace = self.timeline.trace
        if trace is not None:
            self._colour(following(self.timeline.supply.by, trace), trace)

    def _colour(self, by: By, trace: Trace) -> None:
        self.timeline.supply.by = by
        self.timeline.watch_trace(trace)
        self.legend.say(colouring(by, trace))

    # -- which lanes and ranks

    def action_filter_lanes(self) -> None:
        """Ask for a part of their names."""
        self._ask()
        self.prompt.ask("lanes", self.timeline.seats.needle)

    def action_choose_ranks(self) -> None:
        """Ask which ranks are shown."""
        self._ask()
        self.prompt.ask("ranks", ranks.written(self.timeline.view.ranks))

    def _ask(self) -> None:
        self._before = (self.timeline.seats, self.timeline.view)

    @on(LanePrompt.Changed)
    def _changed(self, message: LanePrompt.Changed) -> None:
        """Show at once what was asked for."""
        message.stop()
        try:
            self.prompt.say(self._choose(message.what, message.text))
        except TracehoundError as error:
            self.prompt.say(str(error))

    def _choose(self, what: What, text: str) -> str:
        """Show the lanes or ranks that a text means; what there is to say of them. Raises TracehoundError for none."""
        timeline = self.timeline
        if what == "lanes":
            timeline.seat(replace(timeline.seats, needle=text))
            shown = sum(len(group.tracks) for group in timeline.sheet.groups)
            if text and not shown:
                raise TracehoundError(NO_LANE)
            return plural(shown, "lane")
        if timeline.trace is not None:
            timeline.choose_ranks(ranks.read(text, timeline.trace.ranks["rank"].to_list()))
        return ""

    @on(LanePrompt.Left)
    def _left(self, message: LanePrompt.Left) -> None:
        message.stop()
        seats, view = self._before
        self.timeline.seat(seats)
        self.timeline.choose_ranks(view.ranks)
        self._done()

    @on(LanePrompt.Done)
    def _entered(self, message: LanePrompt.Done) -> None:
        """Keep what is shown; a text that means no lane, or no rank, stays to be mended."""
        message.stop()
        try:
            self._choose(message.what, message.text)
        except TracehoundError as error:
            self.prompt.say(str(error))
        else:
            self._done()

    def _done(self) -> None:
        self.prompt.display = False
        self.timeline.focus()
