"""The stretches of time of a run that are compared with those of another: its steps, or what stands in for them.

Owns which they are, and which work of the device is held against them. Knows no op.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis.events.busy import bounds
from tracehound.analysis.events.core_time import on_own_clock
from tracehound.analysis.events.own_clock import OwnClock, clock_of, has_clock
from tracehound.analysis.result import Share
from tracehound.analysis.share import overlapping
from tracehound.analysis.spans.partial_steps import partial
from tracehound.analysis.spans.stretches import stretches as lasting_work
from tracehound.diff.identity import ON_DEVICE, counted
from tracehound.diff.names import module_name
from tracehound.intervals import Ints, Mask, clip, covered, union
from tracehound.trace import collected


class Stretches(NamedTuple):
    """Stretches of one rank in order, that do not overlap: their numbers, bounds in ps, and what they are."""

    number: Ints
    start: Ints
    end: Ints
    what: str


class Compared(Struct, frozen=True, eq=False):
    """What is compared of a rank: `events` (`of` says what they are, see `counted`) in the stretches `when`.

    `share` is the rank's own; of a window it sees all that its steps reach over. `partial` says which stretches are
    partial steps. Times are the trace's; `clock` is the device's own, where that measures the stretches.
    """

    share: Share
    events: pl.DataFrame
    of: str
    when: Stretches
    partial: Mask | None = None
    clock: OwnClock | None = None

    def on_own_clock(self) -> Compared:
        """The same with the times of events and stretches on the clock that measures them."""
        if self.clock is None:
            return self
        start, end = self.clock.bounds(self.when.start, self.when.end)
        events = on_own_clock(self.events, self.share).events
        return replace(self, events=events, when=self.when._replace(start=start, end=end))

    @property
    def outside(self) -> tuple[int, int]:
        """How long any of the events runs in no stretch, and how long any runs at all; ps in the window."""
        start, end = bounds(self.events, self.share)
        busy = clip(union(self.events["start"].to_numpy(), self.events["end"].to_numpy()), start, end)
        return busy.length - int(covered(busy, self.when.start, self.when.end).sum()), busy.length


def compared(share: Share) -> Compared:
    """The steps of a rank that its window marks; else the executions of its longest module; else its whole work.

    A step lasts until the work that it launched has ended, and begins when the step before has (the bounds of
    `step_parts`): so what runs behind the host is of the step that asked for it, and none of it is lost at the last
    one. Where the operators of the host are compared it lasts as long as its mark.
    """
    every = _apart(share.steps.filter(pl.col("end") > pl.col("start")))
    marked = every.select(share.chosen & _inside(share)).to_series()
    if marked.any():
        return _of_steps(share, every, marked)
    events, of = counted(share)
    module, runs = _executions(share)
    clock = clock_of(share) if has_clock(events) else None
    if runs.height:
        when = _stretches(_apart(runs.with_row_index("step")), f"executions of {module}")
        return Compared(share, events, of, when, clock=clock)
    low, high = bounds(events, share)
    whole = pl.DataFrame({"step": [0], "start": [low], "end": [high]})
    return Compared(share, events, of, _stretches(whole, WINDOW if share.windowed else WHOLE), clock=clock)


WHOLE: Final = "the whole run"
WINDOW: Final = "the window"
"""What is compared where nothing is a step."""


def _of_steps(share: Share, every: pl.DataFrame, marked: pl.Series) -> Compared:
    """The marked ones of all steps of the rank."""
    events, of = counted(replace(share, device=share.anytime))
    lasting = lasting_work(replace(share, steps=every), events, "work") if of == ON_DEVICE else every
    cut = share.steps["event"].filter(partial(share, events if of == ON_DEVICE else events.clear()))
    lacking = every["event"].filter(marked).is_in(cut.implode()).to_numpy()
    when = _stretches(lasting.filter(marked), "steps")
    clock = clock_of(share) if has_clock(events) and not every["rank"].null_count() else None
    if not share.windowed:
        return Compared(share, events, of, when, lacking, clock)
    low, high = min(share.start, int(when.start[0])), max(share.end, int(when.end[-1]))
    reached = replace(share, start=low, end=high, device=overlapping(share.anytime, low, high))
    seen = collected(overlapping(events.lazy(), low, high))
    return Compared(reached, seen, of, when, lacking, clock)


def _inside(share: Share) -> pl.Expr:
    """What lies in the window."""
    return (pl.col("start") >= share.start) & (pl.col("end") <= share.end)


def _executions(share: Share) -> tuple[str, pl.DataFrame]:
    """The module that takes most time on the device, and when it ran."""
    lanes = share.lanes.filter((pl.col("role") == "modules") & pl.col("rank").is_not_null())["lane"]
    if lanes.is_empty():
        return "", pl.DataFrame()
    runs = collected(share.device.filter(pl.col("lane").is_in(lanes.to_list())).select("name", "start", "end"))
    named = runs.filter(_inside(share) & (pl.col("end") > pl.col("start"))).with_columns(
        pl.col("name").cast(pl.String).map_elements(module_name, return_dtype=pl.String)
    )
    if named.is_empty():
        return "", pl.DataFrame()
    time = named.group_by("name").agg((pl.col("end") - pl.col("start")).sum().alias("time"))
    longest = str(time.sort("time", "name", descending=[True, False])["name"][0])
    return longest, named.filter(pl.col("name") == longest).select("start", "end").sort("start")


def _apart(found: pl.DataFrame) -> pl.DataFrame:
    """In order; of those that overlap the first stays."""
    rows = found.sort("start", "end")
    reach = pl.col("end").cum_max().shift(1)
    return rows.filter(reach.is_null() | (pl.col("start") >= reach))


def _stretches(found: pl.DataFrame, what: str) -> Stretches:
    number, start, end = (found[name].cast(pl.Int64).to_numpy() for name in ("step", "start", "end"))
    return Stretches(number, start, end, what)
