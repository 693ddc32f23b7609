"""When the work of a device was launched, and when the launching threads were in what the host waits for.

Owns which copies their calls wait for. Knows no pauses.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.hosts.launched import UNKNOWN, at_the_latest, calls_of
from tracehound.analysis.hosts.parts import LOADER
from tracehound.analysis.hosts.threads import names_of
from tracehound.analysis.result import OfHost, Share
from tracehound.analysis.settings import Given
from tracehound.formats.runtime_calls import ALLOCATION as ALLOCATING
from tracehound.formats.runtime_calls import BLOCKING, COPY, QUERY, WAIT
from tracehound.intervals import EMPTY, Intervals, Ints, Mask, merge, union
from tracehound.trace import collected

SYNCHRONISATION: Final = "synchronisation"
ALLOCATION: Final = "allocation"
LOADING: Final = "data loading"

_BY_NAME: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        SYNCHRONISATION: re.compile(
            "|".join((WAIT.pattern, QUERY.pattern, "BlockHostUntil|BlockUntil", BLOCKING.pattern))
        ),
        ALLOCATION: ALLOCATING,
        LOADING: LOADER.of(()),
    }
)


class Launches(NamedTuple):
    """Of each event of the device when its launch began and returned (ps; the lowest number: none is known), and where.

    `lane` is that of the host on which the launch lies, -1 without one. `latest` is when what lies on a stream had been
    launched at the latest, `UNKNOWN` without such a time.

    `queued` says what lies on a stream, and so in its queue once it is launched (threads of XLA carry the launch of a
    program out later). `waits` says where the launch is a copy that its call waits for: one without Async in its name,
    or (as from and to pageable memory) one that returned only when the copy had ended. `busy` says by cause and host
    lane when the host was in what waits for that.
    """

    start: Ints
    returned: Ints
    lane: Ints
    latest: Ints
    queued: Mask
    waits: Mask
    busy: Mapping[tuple[str, int], Intervals]

    def of(self, rows: npt.NDArray[np.intp]) -> Launches:
        """The launches of the events in these rows."""
        start, returned, lane, latest = (each[rows] for each in (self.start, self.returned, self.lane, self.latest))
        return Launches(start, returned, lane, latest, self.queued[rows], self.waits[rows], self.busy)


def launches(share: Share, events: pl.DataFrame) -> Launches:
    """The launches of these events of the rank's device, of which `lane`, `end` and `launch` are read."""
    called = calls_of(share, events["launch"])
    calls = pl.concat([events.select("launch", "end"), called], how="horizontal")
    waits = awaited(calls)
    on_stream = events["lane"].is_in(_streams(share))
    queued = calls["caller"].is_not_null() & on_stream
    known = calls["called"].fill_null(UNKNOWN).to_numpy()
    return Launches(
        start=calls["called"].fill_null(np.iinfo(np.int64).min).to_numpy(),
        returned=calls["returned"].fill_null(np.iinfo(np.int64).min).to_numpy(),
        lane=calls["caller"].fill_null(-1).to_numpy(),
        latest=np.where(on_stream.to_numpy(), at_the_latest(events["lane"].to_numpy(), known), UNKNOWN),
        queued=queued.to_numpy(),
        waits=waits.to_numpy(),
        busy=_occupied(share, calls.filter(waits).unique("launch")),
    )


def blocking(share: Share) -> list[int]:
    """The calls for copies that the host waits for, though their names do not say so: their ids, whenever they ran.

    They return only when the copy has ended, as cudaMemcpyAsync does from and to pageable memory.
    """
    launched = (pl.col("kind") == "copy") & pl.col("launch").is_not_null()
    copies = collected(share.anytime.filter(launched).select("launch", "end"))
    work = pl.concat([copies, calls_of(share, copies["launch"])], how="horizontal").drop_nulls("caller")
    return work.filter(awaited(work))["launch"].unique().to_list()


def waits_for(name: str, returned: int, copies: Collection[int]) -> bool:
    """Whether a call of this name, which returned then, waits for the copies that it launched; `copies` are their ends.

    By the rule of `launches`, for a call alone; ps.
    """
    late = bool(COPY.search(name)) and bool(copies) and returned >= max(copies)
    return late or bool(BLOCKING.search(name))


def _streams(share: Share) -> list[int]:
    return share.lanes.filter(pl.col("role") == "stream")["lane"].to_list()


def awaited(work: pl.DataFrame) -> pl.Series:
    """Which work is a copy that its call waits for; `work` has launch, end, and `call` and `returned` of `calls_of`."""
    names = work["call"].unique().cast(pl.String).drop_nulls().to_list()
    named, copies = (
        work["call"].is_in([name for name in names if pattern.search(name)]).fill_null(value=False)
        for pattern in (BLOCKING, COPY)
    )
    if not copies.any():
        return named
    late = work.filter(copies).select(pl.col("returned") >= pl.col("end").max().over("launch")).to_series()
    return named | copies.scatter(copies.arg_true(), late)


def _occupied(share: Share, copies: pl.DataFrame) -> dict[tuple[str, int], Intervals]:
    """When each host lane is in an event whose name tells what the host waits for, or in the call of such a copy."""
    found = dict(OCCUPIED.of(share))
    for (lane,), part in copies.partition_by("caller", as_dict=True).items():
        key = (SYNCHRONISATION, int(lane))
        found[key] = merge(found.get(key, EMPTY), union(part["called"].to_numpy(), part["returned"].to_numpy()))
    return found


def _by_name(share: Share, given: Given) -> dict[tuple[str, int], Intervals]:
    del given
    telling = {
        name: cause for name in names_of(share.threads) for cause, pattern in _BY_NAME.items() if pattern.search(name)
    }
    rows = collected(share.threads.filter(pl.col("name").is_in(list(telling))).select("lane", "name", "start", "end"))
    return {
        (cause, int(lane)): union(part["start"].to_numpy(), part["end"].to_numpy())
        for cause in dict.fromkeys(telling.values())
        for (lane,), part in rows.filter(pl.col("name").is_in([name for name in telling if telling[name] == cause]))
        .partition_by("lane", as_dict=True)
        .items()
    }


OCCUPIED: Final = OfHost(_by_name)
"""When each lane of a host is in an event whose name tells what the host waits for: by cause and lane."""
