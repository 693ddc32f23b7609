"""Which steps of a rank are partial: the recording began or ended within them.

Owns that rule, and the note of what is left out for it. Knows no table.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.limits import UNLIMITED, Limits, within
from tracehound.analysis.result import OfRank, Share
from tracehound.formats.assembly.recurring import GRAPHS
from tracehound.notes import Note, note
from tracehound.trace import collected

DEFINITION: Final = """\
The first or last step of a rank is partial where the recording began or ended within it: it has less than 80 % as many
device events, with or without a known launch, as the median of the rank's other steps (but for the one at the other
edge, where three or more are left). But a marked one that has any is whole where the recording began long before it, or
went on long after it: by half of their median length or more, from the mark and from all that it has (of an XLA program
the recording of the device). Where no device work of steps is recorded, and there are three or more, its mark is less
than half as long as the median of theirs; but PyTorch records no mark that began before it did, so that its first one
is whole, and a last one with at least 80 % as many operators of the host as their median is, too. The last of inferred
steps that last until the next one starts (executions of a module, replays of graphs) is partial, too: nothing tells
when it ended. In the export of a window, which says from when to when it lasts, that is the recording: every step is
partial whose mark or work crosses its edges, and work without a known launch, which may be of another step, counts only
where none has one. Partial steps are shown, and left out of averages, percentiles and
shares."""
"""For the definitions of analyses. A window changes nothing of it."""

_WHOLE: Final = 0.8
_LONG: Final = 0.5
_BEYOND: Final = 0.5
_FEWEST: Final = 3
"""Of fewer steps nobody knows which has the length of a step."""


def partial(share: Share, events: pl.DataFrame) -> pl.Series:
    """Which of all steps of a rank, in the order of their starts, are partial.

    `events` is all work of the rank's device, with the columns `step` and `launch`.
    """
    return _PARTIAL.of(share, events)


def _partial(share: Share, events: pl.DataFrame) -> pl.Series:
    steps = share.steps
    own = (
        _of_steps(events, share)
        .group_by("step")
        .agg(pl.len().alias("work"), begun=pl.col("start").min(), done=pl.col("end").max())
    )
    worked = steps.join(own, on="step", how="left", maintain_order="left")
    size = worked["work"].fill_null(0).to_numpy()
    least, fewest, on_host = _WHOLE, 2, not size.any()
    if on_host:
        size, least, fewest = (steps["end"] - steps["start"]).to_numpy(), _LONG, _FEWEST
    found = np.zeros(len(size), np.bool_)
    if len(size) >= fewest:
        for edge in (0, -1):
            lacks = size[edge] < least * np.median(_others(size, edge))
            found[edge] = lacks and not (_amid(worked, edge, share) or (on_host and _marked(share, edge)))
    found |= unended(share).to_numpy()
    found |= _crossing(worked, share.limits)
    return pl.Series("partial", found)


_PARTIAL: Final = OfRank(_partial)


def _of_steps(events: pl.DataFrame, share: Share) -> pl.DataFrame:
    """The work that counts for steps: in the export of a window only what was launched there, where that is known.

    What a device did there for other steps lost its launch, and with it its step.
    """
    if share.limits == UNLIMITED or events["launch"].null_count() == events.height:
        return events
    return events.filter(pl.col("launch").is_not_null())


def _others(values: npt.NDArray[np.int64], edge: int) -> npt.NDArray[np.int64]:
    """The values of the steps but the first (0) or last (-1); without both where as many are left as tell anything."""
    inner = values[1:-1]
    return inner if len(inner) >= _FEWEST else np.delete(values, edge)


def _crossing(steps: pl.DataFrame, limits: Limits) -> npt.NDArray[np.bool_]:
    """Which of these steps, with the bounds of their work, have something on either side of one of the limits."""
    low, high = limits
    found = np.zeros(steps.height, np.bool_)
    if low is not None:
        found |= steps.select(pl.min_horizontal("start", "begun") < low).to_series().to_numpy()
    if high is not None:
        found |= steps.select(pl.max_horizontal("end", "done") > high).to_series().to_numpy()
    return found


def _amid(steps: pl.DataFrame, edge: int, share: Share) -> bool:
    """Whether the first (0) or last (-1) of these steps is a mark with work, and the recording lasts beyond both.

    `steps` have their work and when it was `begun` and `done`. The threads of an XLA program may be recorded for longer
    than its device.
    """
    row = steps.row(edge, named=True)
    if row["inferred"] or row["work"] is None:
        return False
    recorded = share.lanes.filter(pl.col("rank").is_not_null()) if share.profiler == "XLA" else share.lanes
    lengths = np.delete((steps["end"] - steps["start"]).to_numpy(), edge)
    low, high = within((int(recorded["first"].to_numpy().min()), int(recorded["last"].to_numpy().max())), share.limits)
    beyond = min(row["start"], row["begun"]) - low if edge == 0 else high - max(row["end"], row["done"])
    return bool(beyond >= _BEYOND * np.median(lengths))


def _marked(share: Share, edge: int) -> bool:
    """Whether the first (0) or last (-1) step is a mark of PyTorch that is whole, by what its host did."""
    if share.profiler != "PyTorch" or share.steps.row(edge, named=True)["inferred"]:
        return False
    if edge == 0:
        return True
    own = collected(share.threads.filter(pl.col("kind") == "op").group_by("step").agg(pl.len().alias("ops")))
    ops = share.steps.join(own, on="step", how="left", maintain_order="left")["ops"].fill_null(0).to_numpy()
    return bool(ops[edge] and ops[edge] >= _WHOLE * np.median(ops[:edge]))


def _until_next(steps: pl.DataFrame) -> bool:
    """Whether the steps of a rank were inferred, and each but the last lasts until the next one starts."""
    of_module, of_graph = pl.col("rank").is_not_null(), pl.col("name").is_in(GRAPHS)
    return bool(steps.select((pl.col("inferred") & (of_module | of_graph)).any()).item())


def counted(rows: pl.DataFrame) -> pl.DataFrame:
    """The steps that lengths are told of: the whole ones, where there are any."""
    whole = rows.filter(~pl.col("partial"))
    return whole if whole.height else rows


def unended(share: Share) -> pl.Series:
    """Of which of all steps of a rank, in the order of their starts, nothing tells when they ended."""
    found = np.zeros(share.steps.height, np.bool_)
    found[-1:] = share.steps.height > 1 and _until_next(share.steps)
    return pl.Series("unended", found)


def left_out(rows: pl.DataFrame, of: Literal["mean", "lengths", "figures"]) -> list[Note]:
    """That some of these steps are partial, and so left out of something; one counts once, on how many ranks ever."""
    partial = rows.filter("partial")
    left, cut = (found["step"].n_unique() for found in (partial, partial.filter(~pl.col("unended"))))
    if not left:
        return []
    unended = bool(partial["unended"].any())
    return [note("partial_steps_left_out", level="missing", steps=left, cut=cut, of=of, unended=unended)]
