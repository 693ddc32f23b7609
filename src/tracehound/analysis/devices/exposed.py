"""When, in the time of its collectives, a rank's device has nothing to compute.

Owns which pauses of the computation count. Knows one rank alone.
"""

from __future__ import annotations

from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.events.busy import busy_of, work
from tracehound.analysis.result import Share
from tracehound.intervals import complement, pairs_of

PER_CALL: Final = 100
"""A pause between kernels that is a smaller part of the call is none: the device goes on with its computation."""


def exposed(share: Share, calls: pl.DataFrame) -> pl.DataFrame:
    """A row for each call (in the schema `CALLS`) with stretches without computation: event, exposed.

    Where nothing works on a device, and the host itself takes part, that is all of the call.
    """
    start, end, event = (calls[name].to_numpy() for name in ("start", "end", "event"))
    low, high = int(start.min()), int(end.max())
    whole = replace(share, device=share.anytime, start=low, end=high)
    pauses = complement(busy_of(work(whole), whole).compute, low, high)
    call, pause = pairs_of(start, end, pauses)
    after = (pauses.start[pause] - start[call]).clip(min=0)
    until = pauses.end[pause].clip(max=end[call]) - start[call]
    much = PER_CALL * (until - after) >= (end - start)[call]
    pieces = pl.DataFrame({"event": event[call], "after": after, "until": until}).filter(pl.Series(much))
    return pieces.group_by("event", maintain_order=True).agg(pl.struct("after", "until").alias("exposed"))
