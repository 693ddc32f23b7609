"""Two timelines as one: what both show, and how the clock of one lies against that of the other.

Owns that value and the moves that lead from one to the next. Knows no keys and no widgets. Times are ps. What one
shows the other shows at the same times: lanes, events and ranks are each run's own and never cross over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.model.trace import Trace
from tracehound.ui.state import view_moves
from tracehound.ui.state.view import View

Alignment = Literal["start", "step", "sequence", "instance"]

ALIGNMENT_NAMES: Final[dict[Alignment, str]] = {
    "start": "common start",
    "step": "by step",
    "sequence": "matched sequence",
    "instance": "longest of an op",
}

MARGIN_SHARE: Final = 16
"""Of what shows a pair of steps whole, one part in so many is free at either end."""


class ComparedStep(NamedTuple):
    """A stretch of a rank that is compared with one of the candidate; `measured` is by a clock of the device's own."""

    number: int
    start: int
    end: int
    rank: int = 0
    measured: int | None = None

    @property
    def length(self) -> int:
        """Length of the step in ps, as in the tables."""
        return self.end - self.start if self.measured is None else self.measured


class LinkedViews(Struct, frozen=True):
    """The views of both timelines, of which neither moves alone.

    An instant of the baseline is drawn above the instant `offset` later of the candidate. `steps` are those of both
    runs, `partners` says for each step of the baseline which one of the candidate it is compared with, and `at` is the
    pair that is looked at.
    """

    alignment: Alignment = "start"
    views: tuple[View, View] = (View(), View())
    offset: int = 0
    steps: tuple[tuple[ComparedStep, ...], tuple[ComparedStep, ...]] = ((), ())
    partners: tuple[int, ...] = ()
    at: int = 0

    @property
    def pair(self) -> tuple[ComparedStep, ComparedStep] | None:
        """The steps that are looked at."""
        if not self.partners:
            return None
        return self.steps[0][self.at], self.steps[1][self.partners[self.at]]

    @property
    def aligned_pair(self) -> tuple[ComparedStep, ComparedStep] | tuple[None, None]:
        """The steps that lie one under the other; none where something else does."""
        return self.pair or (None, None) if self.alignment in ("step", "sequence") else (None, None)


def link_views(traces: tuple[Trace, Trace], views: tuple[View, View]) -> LinkedViews:
    """Both runs from their starts on, on one scale, as long as the longer one."""
    spans = [view_moves.run_bounds(trace, view) for trace, view in zip(traces, views, strict=True)]
    length = max(end - start for start, end in spans)
    baseline, candidate = (view.with_bounds(low, low + length) for view, (low, _) in zip(views, spans, strict=True))
    return LinkedViews(views=(baseline, candidate), offset=spans[1][0] - spans[0][0])


def pair_steps(baseline: Sequence[ComparedStep], candidate: Sequence[ComparedStep]) -> tuple[int, ...]:
    """For each step of the baseline, the step of the candidate that it is compared with.

    Matched by number if the numbers of one run are a subset of the other's; then steps without a match get the
    nearest number. Else matched in order; what is left over is matched with the last.
    """
    if not baseline or not candidate:
        return ()
    known = {step.number: at for at, step in enumerate(candidate)}
    ours = {step.number for step in baseline}
    if ours <= known.keys() or known.keys() <= ours:
        near = [min(known, key=lambda number, mine=step.number: (abs(number - mine), number)) for step in baseline]  # type: ignore[misc]
        return tuple(known[number] for number in near)
    return tuple(min(at, len(candidate) - 1) for at in range(len(baseline)))


def with_steps(state: LinkedViews, baseline: Sequence[ComparedStep], candidate: Sequence[ComparedStep]) -> LinkedViews:
    """With these steps, looking at a pair of usual length; of another rank's as many steps pairs stay as they are."""
    steps = (tuple(baseline), tuple(candidate))
    if state.partners and [len(side) for side in steps] == [len(side) for side in state.steps]:
        return show_pair(replace(state, steps=steps), state.at)
    known = replace(state, steps=steps, partners=pair_steps(baseline, candidate), at=0)
    return show_pair(known, _typical_pair(known)) if known.partners else known


def _typical_pair(state: LinkedViews) -> int:
    """The pair whose steps are nearest to the median length on both sides."""
    lengths = [np.array([step.end - step.start for step in side], np.float64) for side in state.steps]
    far = [np.abs(each / max(float(np.median(each)), 1.0) - 1) for each in lengths]
    return int((far[0] + far[1][list(state.partners)]).argmin())


def show_pair(state: LinkedViews, at: int) -> LinkedViews:
    """Show a pair of steps, one under the other."""
    if not 0 <= at < len(state.partners):
        return state
    there = replace(state, alignment="step", at=at)
    baseline, candidate = there.pair or (ComparedStep(0, 0, 1), ComparedStep(0, 0, 1))
    length = max(baseline.end - baseline.start, candidate.end - candidate.start, 1)
    air = length // MARGIN_SHARE
    view = replace(state.views[0], event=None, selection=None, focus=baseline.start)
    shown = view.with_bounds(baseline.start - air, baseline.start + length + air)
    return _link_other_view(replace(there, offset=candidate.start - baseline.start), 0, shown)


def move_view(state: LinkedViews, side: int, view: View) -> LinkedViews:
    """One timeline moved, and the other with it; by step, the pair that the focus is in decides how they lie."""
    if state.alignment != "step" or not state.partners:
        return _link_other_view(state, side, view)
    at = _pair_at(state, side, view_moves.focus_time(view))
    baseline, candidate = state.steps[0][at], state.steps[1][state.partners[at]]
    return _link_other_view(replace(state, at=at, offset=candidate.start - baseline.start), side, view)


def _pair_at(state: LinkedViews, side: int, time: int) -> int:
    """The pair that an instant of one side is in, or comes after; that of now where there is none."""
    starts = [step.start for step in state.steps[side]]
    at = max(0, int(np.searchsorted(starts, time, side="right")) - 1)
    if side == 0:
        return at
    if state.partners[state.at] == at:
        return state.at
    return state.partners.index(at) if at in state.partners else state.at


def _link_other_view(state: LinkedViews, side: int, view: View) -> LinkedViews:
    """With this view on one side, and the other over the same time, by its clock; lane and ranks stay its own."""
    by = state.offset if side == 0 else -state.offset
    mine, other = state.views[side], state.views[1 - side]
    selection = None if view.selection is None else (view.selection[0] + by, view.selection[1] + by)
    follows = replace(
        other,
        start=view.start + by,
        end=view.end + by,
        focus=None if view.focus is None else view.focus + by,
        selection=selection,
        event=other.event if view.event == mine.event else None,
    )
    return replace(state, views=(view, follows) if side == 0 else (follows, view))


def fit_both_runs(state: LinkedViews, side: int, traces: tuple[Trace, Trace]) -> LinkedViews:
    """If one timeline shows its whole run, let both show the whole of both runs."""
    own = state.views[side]
    if (own.start, own.end) != view_moves.run_bounds(traces[side], own):
        return state
    by = -state.offset if side == 0 else state.offset
    low, high = view_moves.run_bounds(traces[1 - side], state.views[1 - side])
    return _link_other_view(state, side, own.with_bounds(min(own.start, low + by), max(own.end, high + by)))


def align_starts(state: LinkedViews, traces: tuple[Trace, Trace]) -> LinkedViews:
    """With the starts of both runs one under the other; the baseline shows what it showed."""
    lows = [view_moves.run_bounds(trace, view)[0] for trace, view in zip(traces, state.views, strict=True)]
    return _link_other_view(replace(state, alignment="start", offset=lows[1] - lows[0]), 0, state.views[0])


def show_slots(state: LinkedViews, end: int) -> LinkedViews:
    """Both steps on the clock of their slots, all of them in sight."""
    views = (View(0, end), View(0, end))
    return replace(state, alignment="sequence", offset=0, views=views)


def leave_slots(state: LinkedViews, views: tuple[View, View]) -> LinkedViews:
    """Back on the clocks of the runs, at the pair that was looked at; `views` have the ranks to be shown."""
    return show_pair(replace(state, views=views), state.at)


def change_partner(state: LinkedViews, by: int) -> LinkedViews:
    """With the step of the baseline held against another one of the candidate."""
    to = min(max(state.partners[state.at] + by, 0), len(state.steps[1]) - 1)
    partners = (*state.partners[: state.at], to, *state.partners[state.at + 1 :])
    return replace(state, partners=partners)


def show_ranks_of_events(
    state: LinkedViews, traces: tuple[Trace, Trace], events: tuple[int | None, int | None]
) -> LinkedViews:
    """With the rank of each event shown, or one that its host drives, where its lane is not."""
    views = []
    for view, trace, event in zip(state.views, traces, events, strict=True):
        lane = None if event is None else trace.event(event)["lane"]
        if lane is not None and lane not in trace.lanes_of(view.ranks)["lane"]:
            rank = view_moves.rank_of_view(trace, replace(view, lane=lane, ranks=None))
            views.append(view_moves.show_ranks(trace, view, None if rank is None else (rank,)))
        else:
            views.append(view)
    return replace(state, views=(views[0], views[1]))


def show_instances(
    state: LinkedViews, traces: tuple[Trace, Trace], events: tuple[int | None, int | None]
) -> LinkedViews:
    """Both timelines at an event each, that begin one under the other; with one event alone, the candidate's place."""
    lead = 0 if events[0] is not None else 1
    chosen = events[lead]
    if chosen is None:
        return state
    view = view_moves.go_to_event(traces[lead], replace(state.views[lead], selection=None), chosen)
    if events[1 - lead] is None:
        return move_view(state, lead, view)
    found = [trace.event(event) for trace, event in zip(traces, events, strict=True) if event is not None]
    starts = [int(each["start"]) for each in found]
    length = max(int(each["end"]) - int(each["start"]) for each in found)
    wide = view.with_bounds(starts[0] - 2 * length, starts[0] + 4 * length + view_moves.SHORTEST_VIEW)
    there = _link_other_view(replace(state, alignment="instance", offset=starts[1] - starts[0]), 0, wide)
    other = view_moves.select_event(traces[1], there.views[1], events[1]) if events[1] is not None else there.views[1]
    return replace(there, views=(there.views[0], replace(other, focus=there.views[1].focus)))


def swap_runs(state: LinkedViews) -> LinkedViews:
    """With baseline and candidate swapped; pairs stay pairs, as far as each step can be in one alone."""
    baseline, candidate = state.steps
    back = {theirs: ours for ours, theirs in reversed(list(enumerate(state.partners)))}
    usual = pair_steps(candidate, baseline)
    partners = tuple(back.get(at, usual[at]) for at in range(len(usual)))
    at = state.partners[state.at] if state.partners else 0
    views = (state.views[1], state.views[0])
    return replace(state, views=views, offset=-state.offset, steps=(candidate, baseline), partners=partners, at=at)


def compared_steps(stretches: pl.DataFrame, rank: int | None) -> tuple[ComparedStep, ...]:
    """The steps of a rank in a frame of rank, step, start, end and duration; those of the first where it has none."""
    own = stretches.filter(rank=rank) if rank is not None else stretches.clear()
    first = stretches.filter(pl.col("rank") == pl.col("rank").min())
    rows = own if own.height else first
    told = rows.sort("start").select("step", "start", "end", "rank", "duration")
    return tuple(ComparedStep(*row) for row in told.iter_rows())
