"""A trace and a window -> what the map of an analysis sees, rank by rank.

Owns the cutting of a trace to one rank and one window, and the running of an analysis over all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.limits import limits
from tracehound.analysis.remembered import is_kept, remembered
from tracehound.analysis.result import Analysis, OfHost, Options, Result, Scene, Share, without
from tracehound.analysis.settings import Given
from tracehound.analysis.spans.windows import of_hosts, of_ranks
from tracehound.analysis.topics import of_memory_alone
from tracehound.file_facts import FileFacts
from tracehound.formats.residency import device as properties
from tracehound.ids import in_part
from tracehound.trace import PROFILERS, Part, Trace, Window, collected


def run(
    analysis: Analysis,
    trace: Trace,
    window: Window | None = None,
    options: Options | None = None,
    executor: Executor | None = None,
) -> Result:
    """The analysis of the trace, in the window and with the options; its maps run in the executor, if there is one.

    A pool of processes has to start new ones (`mp_context=get_context("spawn")`): a copy of this one, where polars has
    threads by then, may wait for ever.
    """
    (result,) = run_all([(analysis, options or Options())], trace, window, executor)
    return result


def run_all(
    asked: Sequence[tuple[Analysis, Options]],
    trace: Trace,
    window: Window | None = None,
    executor: Executor | None = None,
) -> list[Result]:
    """Several analyses of the trace, rank by rank, so that memory does not grow with the number of ranks.

    The executor is as that of `run`.
    What a trace of memory alone cannot answer is not worked out, and says so.
    """
    window = window or Window()
    seen = scene(trace, window)
    reasons = [of_memory_alone(analysis.name, seen.formats) for analysis, _ in asked]
    possible = [question for question, why in zip(asked, reasons, strict=True) if not why]
    with _crew(executor, trace) as crew:
        ranks = list(_mapped(possible, _informed(possible, shares(trace, window), crew), crew))
    mapped = iter([[tables[place] for tables in ranks] for place in range(len(possible))])
    return [
        without(analysis.shown(options.given), seen, options, why)
        if why
        else analysis.combine(next(mapped), seen, options)
        for (analysis, options), why in zip(asked, reasons, strict=True)
    ]


def maps(asked: Sequence[tuple[Analysis, Options]], share: Share) -> list[pl.DataFrame]:
    """The small tables of one rank, one for each analysis."""
    read: list[Share] = []

    def made(analysis: Analysis, options: Options) -> pl.DataFrame:
        """The table, of events that are read when the first analysis needs them."""
        if not read:
            read.append(_held(share) if len(asked) > 1 else share)
        return analysis.per_rank(read[0], options)

    mapped = [(analysis, analysis.mapped(options)) for analysis, options in asked]
    return [remembered(*question, share, partial(made, *question)) for question in mapped]


def _held(share: Share) -> Share:
    on_device = int(share.lanes.filter(pl.col("rank").is_not_null())["events"].sum())
    if on_device > HELD:
        return share
    device = collected(share.device).lazy()
    read = replace(share, device=device, anytime=share.anytime if share.windowed else device)
    if int(share.lanes["events"].sum()) > HELD:
        return read
    return replace(read, threads=collected(share.threads).lazy())


HELD: Final = 1 << 20
"""At most so many events of a rank are read once for several analyses: they take some 120 MB."""


class _Crew(NamedTuple):
    """Who maps ranks: an executor, and whether it is `here`, in this process."""

    executor: Executor
    here: bool


@contextmanager
def _crew(executor: Executor | None, trace: Trace) -> Iterator[_Crew]:
    """Those of this executor; without one some threads of this process."""
    if executor is not None:
        yield _Crew(executor, here=False)
        return
    threads = ThreadPoolExecutor(_TOGETHER if _largest(trace) <= _LARGE else 1, "tracehound ranks")
    try:
        yield _Crew(threads, here=True)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)  # who is interrupted does not wait for what nobody wants


_AHEAD: Final = 16
"""So many ranks are handed out before the first has come back: more would only wait in memory."""

_TOGETHER: Final = 2
"""Ranks that are mapped at once in this process: between the passes over one rank a processor is idle."""

_LARGE: Final = 1 << 21
"""Of ranks with more events one is mapped at a time: its passes are long, and two at once take twice the memory."""


def _largest(trace: Trace) -> int:
    """The events of the largest of several ranks, with its part of those of its host."""
    if trace.ranks.height < 2:
        return 0
    events = trace.lanes.group_by("host", "rank").agg(pl.col("events").sum())
    driven = trace.ranks.group_by("host").len("ranks")
    shared = pl.col("events").filter(pl.col("rank").is_null()).sum().over("host") // pl.col("ranks")
    every = events.join(driven, on="host").select("rank", pl.col("events") + shared)
    return int(every.filter(pl.col("rank").is_not_null())["events"].to_numpy().max(initial=0))


def _informed(asked: Sequence[tuple[Analysis, Options]], ranks: Iterator[Share], crew: _Crew) -> Iterator[Share]:
    """The shares, in their order; those of one host know what the analyses ask of it, which is worked out once.

    While the ranks of a host are mapped in other processes, the questions about the next are at work.
    """
    ahead = 0 if crew.here else 1
    waiting = deque[tuple[list[Share], dict[Asked, Future[Any]]]]()
    for _, of_host in groupby(ranks, key=attrgetter("host")):
        together = list(of_host)
        questions = _questions(asked, together) if len(together) > 1 else ()
        sent = [each for each in questions if crew.here or each[0].travels]
        waiting.append((together, {each: crew.executor.submit(each[0].of, together[0], each[1]) for each in sent}))
        if len(waiting) > ahead:
            yield from _telling(*waiting.popleft())
    while waiting:
        yield from _telling(*waiting.popleft())


Asked = tuple[OfHost[Any], Given]
"""A question about a host, and what was chosen for it."""


def _questions(asked: Sequence[tuple[Analysis, Options]], ranks: Sequence[Share]) -> tuple[Asked, ...]:
    """What the maps of these ranks will ask of their host, each question once."""
    found = dict[Asked, None]()
    for analysis, options in asked:
        if analysis.of_host and not all(is_kept(analysis, analysis.mapped(options), share) for share in ranks):
            found |= dict.fromkeys((question, question.given(options.given)) for question in analysis.of_host)
    return tuple(found)


def _telling(ranks: Sequence[Share], answers: Mapping[Asked, Future[Any]]) -> Iterator[Share]:
    known = {asked: answer.result() for asked, answer in answers.items()}
    yield from (replace(share, known=known, answers={}) for share in ranks)  # these go with the share, after its map


def _mapped(
    asked: Sequence[tuple[Analysis, Options]], ranks: Iterator[Share], crew: _Crew
) -> Iterator[list[pl.DataFrame]]:
    """The tables of every rank, in the order of ranks."""
    ahead = deque[Future[list[pl.DataFrame]]]()
    for share in ranks:
        ahead.append(crew.executor.submit(maps, asked, share))
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
        lanes = lanes.with_columns(pl.Series("begin", trace.begins(lanes["lane"].to_list()), pl.Int64), _LOW)
        here = pl.col("rank").is_null() & (pl.col("host") == host) | (pl.col("rank") == rank)
        part = trace.hosts[host].part
        device = trace.events(lanes.filter(pl.col("rank").is_not_null())["lane"].to_list())
        yield Share(
            rank=rank,
            host=host,
            label=label,
            device=overlapping(device, start, end) if window.timed else device,
            anytime=device,
            threads=trace.events(lanes.filter(pl.col("rank").is_null())["lane"].to_list()),
            lanes=lanes,
            steps=trace.steps.filter(here).sort("start", "step"),
            ops=trace.ops.filter(in_part("op", part)),
            start=start,
            end=end,
            windowed=window.timed,
            asked=window.steps,
            hosted=hosts[host],
            limits=limits(trace, part),
            part=part,
            home=trace.parts[part].home,
            facets=trace.facets[part],
            ordinal=ordinal,
            properties=properties(trace.parts[part].facts, ordinal),
            profiler=PROFILERS[trace.parts[part].format],
            assigned=_assigned(trace.parts[part].facts),
            alone=trace.ranks.height == 1,
        )


_LOW: Final = (
    (pl.col("events").cum_sum() - pl.col("events")).over(pl.col("rank").is_null(), order_by="lane").alias("low")
)
"""In which row the events of a lane begin, of those of all lanes of the rank's device, or of its host."""


def _assigned(facts: FileFacts) -> dict[int, tuple[int, int]]:
    return {one.program: (one.replicas, one.partitions) for one in facts.programs if one.partitions}


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
        read=tuple(part.notes for part in trace.parts),
        walled=trace.origin_ns is not None,
        recorded=tuple(_recorded(part) for part in trace.parts),
    )


def _recorded(part: Part) -> tuple[int, int] | None:
    span, wall = part.recorded, part.wall_ns
    return None if span is None or wall is None else (span[0] // 1000 + wall, span[1] // 1000 + wall)


def overlapping(events: pl.LazyFrame, start: int | pl.Expr, end: int | pl.Expr) -> pl.LazyFrame:
    """The events of which a part lies in `[start, end)`; one of no length counts where it lies, ends included.

    With expressions each event has bounds of its own; where they are null it lies nowhere.
    """
    inside = (pl.col("start") < end) & (pl.col("end") > start)
    instant = (pl.col("start") == pl.col("end")) & pl.col("start").is_between(start, end)
    return events.filter(inside | instant)
