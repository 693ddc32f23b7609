"""The clock of a device itself, where a file has it beside the trace's (TPU), and how instants of the trace lie on it.

Owns the one way from the trace's clock to the device's. Profilers align what a device recorded to its host's clock
piece by piece, so that the trace's clock may jump in the middle of an op; lengths are those of the device's own. Knows
no ops by name and no tables.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.events.lane_rows import of_device
from tracehound.analysis.result import OfRank, Scene, Share
from tracehound.intervals import Intervals, Ints, union
from tracehound.lookup import among
from tracehound.notes import Note, note
from tracehound.trace import collected

CLOCKED: Final = ("device_start", "device_end")
"""The columns of events that tell their times on the device's own clock."""

APART: Final = 0.01
"""Where the clocks differ by more than this part of a length, it matters which of them is shown."""


class OwnClock(NamedTuple):
    """Instants of which both times are known, in order: `trace` and `own`, ps, neither of which ever goes back."""

    trace: Ints
    own: Ints

    def opening(self, instants: Ints) -> Ints:
        """The own time at which each of these instants of the trace begins.

        Between two known instants it runs evenly, before the first and after the last as fast as the trace's.
        """
        return self._at(instants, np.searchsorted(self.trace, instants, side="left"))

    def closing(self, instants: Ints) -> Ints:
        """The own time at which each of these instants ends: another only where own time passed at one instant."""
        return self._at(instants, np.searchsorted(self.trace, instants, side="right") - 1)

    def bounds(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """The own starts and ends of these stretches: what follows another without a pause does so there too."""
        begin = self.opening(start)
        follows = among(end, start)
        return begin, np.maximum(begin, np.where(follows, self.opening(end), self.closing(end)))

    def moved(self, stretches: Intervals) -> Intervals:
        """Stretches of the trace's time on the own clock."""
        start, end = self.opening(stretches.start), self.closing(stretches.end)
        return union(start, np.maximum(start, end))

    @property
    def back(self) -> OwnClock:
        """The way from the device's clock to the trace's."""
        return OwnClock(self.own, self.trace)

    def _at(self, instants: Ints, near: Ints) -> Ints:
        """The own times; `near` is the place of a known instant that is the same, or else beside."""
        last = len(self.trace) - 1
        near = np.clip(near, 0, last)
        before = np.where(self.trace[near] <= instants, near, np.maximum(near - 1, 0))
        after = np.where(self.trace[near] >= instants, near, np.minimum(near + 1, last))
        since = instants - self.trace[before]
        width = self.trace[after] - self.trace[before]
        pace = (self.own[after] - self.own[before]) / np.maximum(width, 1)
        inside = np.rint(since * np.where(width > 0, pace, 1.0)).astype(np.int64)
        return np.asarray(self.own[before] + np.where(pace == 1.0, since, inside))


def has_clock(events: pl.DataFrame) -> bool:
    """Whether all of this work has the device's own clock."""
    return events.height > 0 and not events["device_start"].null_count() and not events["device_end"].null_count()


def own_clock(events: pl.DataFrame) -> OwnClock | None:
    """The clock that these events (start, end and `CLOCKED`) tell of; None if one does not, or there is none.

    Starts and ends are the known instants. Where the two clocks disagree on the order of two, the later time holds.
    """
    if not has_clock(events):
        return None
    trace, own = (
        np.column_stack([events[first].to_numpy(), events[last].to_numpy()]).ravel() for first, last in _PAIRS
    )
    if np.any(trace[1:] < trace[:-1]) or np.any(own[1:] < own[:-1]):  # not so where one op follows another
        order = np.lexsort((own, trace))
        trace, own = trace[order], np.maximum.accumulate(own[order])
    return OwnClock(trace, own)


_PAIRS: Final = (("start", "end"), CLOCKED)


def own_windows(events: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """`[start, end)` on the own clock of each lane all of whose events (`lane`, start, end, `CLOCKED`) have it.

    A row for each of these: `lane`, `from` and `until`, ps.
    """
    found = list[tuple[int, int, int]]()
    if events["device_start"].null_count() < events.height:
        bounds = np.array([start, end], np.int64)
        for (lane,), rows in events.select("lane", *_PAIRS[0], *CLOCKED).partition_by("lane", as_dict=True).items():
            if clock := own_clock(rows):
                found.append((lane, int(clock.opening(bounds)[0]), int(clock.closing(bounds)[1])))
    return pl.DataFrame(found, schema=dict.fromkeys(("lane", "from", "until"), pl.Int64), orient="row")


def clock_of(share: Share) -> OwnClock | None:
    """The own clock of a rank's device by all that it ever ran; None where it has none."""
    return _CLOCK.of(share)


def _clock(share: Share) -> OwnClock | None:
    lanes = share.lanes.filter(pl.col("rank").is_not_null() & pl.col("work") & (pl.col("role") != "stream"))
    ran = of_device(share, lanes["lane"].to_list())
    unknown, rows = collected(ran.select(pl.col("device_start").null_count(), pl.len().alias("rows"))).row(0)
    return None if unknown or not rows else own_clock(collected(ran.select("start", "end", *CLOCKED)))


_CLOCK: Final = OfRank(_clock)


def steps_within(share: Share, clock: OwnClock | None) -> pl.DataFrame:
    """The steps of a rank (step, start, end, inferred, event), each the part of it that lies in the window; ps.

    `from` and `until` are its bounds on this clock, without one those on the trace's.
    """
    steps = share.steps.filter(share.chosen)
    low, high = pl.col("start").clip(lower_bound=share.start), pl.col("end").clip(upper_bound=share.end)
    parts = steps.select(pl.col("step").cast(pl.Int64), low, high, "inferred", "event")
    start, end = parts["start"].to_numpy(), parts["end"].to_numpy()
    begin, until = (start, end) if clock is None else clock.bounds(start, end)
    return parts.with_columns(pl.Series("from", begin, pl.Int64), pl.Series("until", until, pl.Int64))


def clocks_apart(what: str, own: pl.Series, traced: pl.Series) -> list[Note]:
    """A note where the two clocks give `what` (lengths, ps) another length by more than `APART`."""
    whole = pl.DataFrame({"own": own, "traced": traced}).filter(pl.col("traced") > 0)
    far = whole.filter((pl.col("own") - pl.col("traced")).abs() > APART * pl.col("traced"))
    if far.is_empty():
        return []
    low, high = (int(far["traced"].sort()[place]) for place in (0, -1))
    return [note("lengths_by_device_clock", what=what, other=far.height, of=whole.height, shortest=low, longest=high)]


def window_apart(lengths: pl.Series, scene: Scene) -> list[Note]:
    """A note where the window lasts otherwise on the own clocks of ranks (`lengths`, ps) by more than `APART`."""
    traced = [end - start for start, end in scene.spans] or [scene.end - scene.start]
    least, most = min(traced), max(traced)
    far = (lengths < (1 - APART) * least) | (lengths > (1 + APART) * most)
    if not scene.windowed or not far.any():
        return []
    low, high = (int(lengths.sort()[place]) for place in (0, -1))
    return [note("window_by_device_clock", shortest=low, longest=high, window=most)]
