"""A trace and a window -> what the map of an analysis sees, rank by rank.

Owns the cutting of a trace to one rank and one window, and the running of an analysis over all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial
from typing import Final

import polars as pl

from tracehound.analysis.memory import remembered
from tracehound.analysis.result import Analysis, Options, Result, Scene, Share
from tracehound.analysis.windows import of_hosts, of_ranks
from tracehound.formats.residency import device as properties
from tracehound.trace import Trace, Window, collected


def run(
    analysis: Analysis,
    trace: Trace,
    window: Window | None = None,
    options: Options | None = None,
    executor: Executor | None = None,
) -> Result:
    """The analysis of the trace, in the window and with the options; its maps run in the executor, if there is one."""
    (result,) = run_all([(analysis, options or Options())], trace, window, executor)
    return result


def run_all(
    asked: Sequence[tuple[Analysis, Options]],
    trace: Trace,
    window: Window | None = None,
    executor: Executor | None = None,
) -> list[Result]:
    """Several analyses of the trace, rank by rank, so that memory does not grow with the number of ranks."""
    window = window or Window()
    tables = list(_mapped(asked, shares(trace, window), executor))
    seen = scene(trace, window)
    return [
        analysis.combine([of_rank[place] for of_rank in tables], seen, options)
        for place, (analysis, options) in enumerate(asked)
    ]


def maps(asked: Sequence[tuple[Analysis, Options]], share: Share) -> list[pl.DataFrame]:
    """The small tables of one rank, one for each analysis."""
    read: list[Share] = []

    def made(analysis: Analysis, options: Options) -> pl.DataFrame:
        """The table, of events that are read when the first analysis needs them."""
        if not read:
            read.append(_held(share) if len(asked) > 1 else share)
        return analysis.per_rank(read[0], options)

    return [remembered(*question, share, partial(made, *question)) for question in asked]


def _held(share: Share) -> Share:
    if int(share.lanes["events"].sum()) > HELD:
        return share
    device = collected(share.device).lazy()
    anytime = share.anytime if share.windowed else device
    return replace(share, device=device, anytime=anytime, threads=collected(share.threads).lazy())


HELD: Final = 1 << 19
"""A rank of at most so many events is read once for several analyses: it takes some 60 MB."""


_AHEAD: Final = 16
"""So many ranks are handed to an executor before the first has come back: more would only wait in memory."""


def _mapped(
    asked: Sequence[tuple[Analysis, Options]], ranks: Iterator[Share], executor: Executor | None
) -> Iterator[list[pl.DataFrame]]:
    """The tables of every rank, in the order of ranks."""
    if executor is None:
        yield from (maps(asked, share) for share in ranks)
        return
    ahead = deque[Future[list[pl.DataFrame]]]()
    for share in ranks:
        ahead.append(executor.submit(maps, asked, share))
        if len(ahead) >= _AHEAD:
            yield ahead.popleft().result()
    while ahead:
        yield ahead.popleft().result()


def shares(trace: Trace, window: Window) -> Iterator[Share]:
    """Each chosen rank's share of the trace, in the order of ranks."""
    spans = of_ranks(trace, window)
    hosts = of_hosts(trace, spans)
    for rank, host, label, ordinal in trace.ranks.select("rank", "host", "label", "device").iter_rows():
        if rank not in spans:
            continue
        start, end = spans[rank]
        lanes = trace.lanes_of([rank]).filter(pl.col("events") > 0)  # analyses know no counters
        if window.lanes is not None:
            lanes = lanes.filter(pl.col("lane").is_in(list(window.lanes)))
        here = pl.col("rank").is_null() & (pl.col("host") == host) | (pl.col("rank") == rank)
        part = trace.hosts[host].part
        device = trace.events(lanes.filter(pl.col("rank").is_not_null())["lane"].to_list())
        yield Share(
            rank=rank,
            label=label,
            device=overlapping(device, start, end) if window.timed else device,
            anytime=device,
            threads=trace.events(lanes.filter(pl.col("rank").is_null())["lane"].to_list()),
            lanes=lanes,
            steps=trace.steps.filter(here),
            ops=trace.ops.filter(pl.col("op").is_between(part << 32, (part + 1) << 32, closed="left")),
            start=start,
            end=end,
            windowed=window.timed,
            asked=window.steps,
            hosted=hosts[host],
            home=trace.parts[part].home,
            facets=trace.facets[part],
            ordinal=ordinal,
            properties=properties(trace.parts[part].facts, ordinal),
        )


def scene(trace: Trace, window: Window) -> Scene:
    """What a combine may know of the trace."""
    spans = of_ranks(trace, window)
    bounds = spans.values() if window.steps and spans else [window.within(*trace.span)]
    return Scene(
        hosts=trace.hosts,
        ranks=trace.ranks,
        steps=trace.steps,
        notes=trace.notes,
        start=min(start for start, _ in bounds),
        end=max(end for _, end in bounds),
        windowed=window.timed,
        spans=tuple(spans.values()),
        formats=tuple(part.format for part in trace.parts),
        facts=tuple(part.facts for part in trace.parts),
    )


def overlapping(events: pl.LazyFrame, start: int | pl.Expr, end: int | pl.Expr) -> pl.LazyFrame:
    """The events of which a part lies in `[start, end)`; one of no length counts where it lies, ends included.

    With expressions each event has bounds of its own; where they are null it lies nowhere.
    """
    inside = (pl.col("start") < end) & (pl.col("end") > start)
    instant = (pl.col("start") == pl.col("end")) & pl.col("start").is_between(start, end)
    return events.filter(inside | instant)
