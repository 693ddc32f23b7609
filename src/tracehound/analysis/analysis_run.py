"""Running analyses: maps over the ranks of a trace (in processes or threads), then a combine."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.devices.missing_data import LAUNCH_COUNTS, unrecorded_work_notes
from tracehound.analysis.packed_tables import RankTables, make_stack
from tracehound.analysis.rank_table_cache import is_cached, load_cached_tables, load_or_compute_table
from tracehound.analysis.rank_trace import DeferredRank, RankTrace, SharedHostResult, deferred_ranks, run_context
from tracehound.analysis.result import Analysis, Options, Result, empty_result
from tracehound.analysis.topics import memory_only_note
from tracehound.errors import TracehoundError
from tracehound.model.trace import Trace, Window, collect_frame
from tracehound.system.cluster_executor import ClusterExecutor


def run_analysis(
    analysis: Analysis,
    trace: Trace,
    window: Window | None = None,
    options: Options | None = None,
    executor: Executor | None = None,
) -> Result:
    """The result of one analysis on a trace, with a window and options; its maps run in the executor, if given.

    A pool of processes must spawn them (`mp_context=get_context("spawn")`): polars has threads by then, and a forked
    copy of this process may wait forever.
    """
    (result,) = run_analyses([(analysis, options or Options())], trace, window, executor)
    return result


def run_analyses(
    asked: Sequence[tuple[Analysis, Options]],
    trace: Trace,
    window: Window | None = None,
    executor: Executor | None = None,
) -> list[Result]:
    """The results of several analyses on a trace, rank by rank, so that memory does not grow with the number of ranks.

    The executor is that of `run_analysis`. An analysis that a trace of memory events alone cannot answer is not run;
    its result says so in a note. Results that rest on work that was not recorded say that first.
    """
    window = window or Window()
    seen = run_context(trace, window)
    reasons = [memory_only_note(analysis.name, seen.formats) for analysis, _ in asked]
    possible = [question for question, why in zip(asked, reasons, strict=True) if not why]
    has_unmatched = any(facts.unmatched_launches != 0 for facts in seen.facts)
    needs_counts = has_unmatched and any(analysis.rests_on_recorded_work for analysis, _ in possible)
    questions = [*possible, *([(LAUNCH_COUNTS, Options())] if needs_counts else [])]
    mapped: deque[RankTables] = deque()
    for tables in _map_all_ranks(questions, deferred_ranks(trace, window), trace, executor):
        mapped = mapped or deque(map(make_stack, tables))
        for of_analysis, table in zip(mapped, tables, strict=True):
            of_analysis.append(table)
    doubts = unrecorded_work_notes(mapped.pop() if needs_counts and mapped else [], seen)
    results = [
        empty_result(analysis.with_shown_columns(options.given), seen, options, why)
        if why
        else analysis.combine(mapped.popleft() if mapped else (), seen, options)
        for (analysis, options), why in zip(asked, reasons, strict=True)
    ]
    return [
        replace(result, notes=(*doubts, *result.notes)) if analysis.rests_on_recorded_work else result
        for (analysis, _), result in zip(asked, results, strict=True)
    ]


def map_rank(asked: Sequence[tuple[Analysis, Options]], rank: RankTrace | DeferredRank) -> list[pl.DataFrame]:
    """The small tables of one rank, one for each analysis; a deferred rank is opened unless all are cached."""
    read: list[RankTrace] = []

    def compute_table(analysis: Analysis, options: Options) -> pl.DataFrame:
        """Table of one analysis; events are read when the first analysis needs them."""
        if not read:
            reads_often = sum(each.name != LAUNCH_COUNTS.name for each, _ in asked) > 1
            opened = rank.open() if isinstance(rank, DeferredRank) else rank
            read.append(with_events_in_memory(opened) if reads_often else opened)
        return analysis.per_rank(read[0], options)

    mapped = [(analysis, analysis.map_options(options)) for analysis, options in asked]
    return [load_or_compute_table(*question, rank, partial(compute_table, *question)) for question in mapped]


MAX_EVENTS_IN_MEMORY: Final = 1 << 20
"""Up to this many events of a rank are read once for several analyses; they take some 120 MB."""


def with_events_in_memory(rank_trace: RankTrace, max_device_events: int = MAX_EVENTS_IN_MEMORY) -> RankTrace:
    """The rank trace with its events in memory, as far as there are few enough."""
    on_device = int(rank_trace.lanes.filter(pl.col("rank").is_not_null())["events"].sum())
    if on_device > max_device_events:
        return rank_trace
    device = _collect_compact(rank_trace.device)
    read = replace(
        rank_trace, device=device, device_anytime=rank_trace.device_anytime if rank_trace.windowed else device
    )
    if int(rank_trace.lanes["events"].sum()) > MAX_EVENTS_IN_MEMORY:
        return read
    return replace(read, threads=collect_frame(rank_trace.threads).lazy())


def _collect_compact(events: pl.LazyFrame) -> pl.LazyFrame:
    """The events in memory, in contiguous columns; a column without any value takes none."""
    frame = collect_frame(events).rechunk()
    missing = [series.name for series in frame if 0 < frame.height == series.null_count()]
    nothing = [pl.lit(None, frame.schema[name]).alias(name) for name in missing]
    return frame.drop(missing).lazy().with_columns(nothing).select(frame.columns)


def _map_all_ranks(
    asked: Sequence[tuple[Analysis, Options]], ranks: Iterator[DeferredRank], trace: Trace, executor: Executor | None
) -> Iterator[list[pl.DataFrame]]:
    """The tables of each rank, in the order of ranks."""
    if isinstance(executor, ClusterExecutor):
        yield from _map_on_cluster(asked, ranks, executor)
        return
    with _open_executor(executor, trace) as crew:
        yield from _map_ranks(asked, _with_host_results(asked, ranks, crew), crew)


def _map_on_cluster(
    asked: Sequence[tuple[Analysis, Options]], ranks: Iterator[DeferredRank], cluster: ClusterExecutor
) -> Iterator[list[pl.DataFrame]]:
    """The tables of each rank, in the order of ranks. The ranks of a host are mapped together, where its file is.

    Raises TracehoundError if workers are killed again and again.
    """
    done, following = dict[int, list[list[pl.DataFrame]]](), 0
    hosts = (list(of_host) for _, of_host in groupby(ranks, key=attrgetter("host")))
    calls = (
        (number, partial(cluster.submit_near, host[0].file.worker, map_host, asked, host))
        for number, host in enumerate(hosts)
    )
    try:
        for number, future in cluster.run_all(calls):
            done[number] = cluster.result(future)
            while following in done:
                yield from done.pop(following)
                following += 1
    except BrokenExecutor as error:
        remedy = "look at its logs; do the workers have enough memory?"
        raise TracehoundError(f"{cluster.name}: {error}", remedy=remedy) from error


def map_host(asked: Sequence[tuple[Analysis, Options]], ranks: Sequence[DeferredRank]) -> list[list[pl.DataFrame]]:
    """The small tables of each rank of a host, in the worker of a cluster that reads its file."""
    here = [replace(rank, home=rank.file.frames.cache_folder) for rank in ranks]
    queries = _host_queries(asked, here) if len(here) > 1 else ()
    known = {query: _compute_host_result(query, here[0]) for query in queries}
    return [_map_deferred_rank(asked, replace(rank, host_results=known)) for rank in here]


class _MapExecutor(NamedTuple):
    """Executor that maps ranks, and whether it runs in this process."""

    executor: Executor
    in_this_process: bool


@contextmanager
def _open_executor(executor: Executor | None, trace: Trace) -> Iterator[_MapExecutor]:
    """The given executor, or without one a thread pool of this process."""
    if executor is not None:
        yield _MapExecutor(executor, in_this_process=False)
        return
    threads = ThreadPoolExecutor(
        _RANKS_AT_ONCE if _count_largest_rank_events(trace) <= _LARGE_RANK_EVENTS else 1, "tracehound ranks"
    )
    try:
        yield _MapExecutor(threads, in_this_process=True)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)  # an interrupt does not wait for unwanted results


_MAX_RANKS_AHEAD: Final = 16
"""Ranks submitted before the first has come back: more would only wait in memory."""

_RANKS_AT_ONCE: Final = 2
"""Ranks mapped at once in this process: between the passes over one rank a processor is idle."""

_LARGE_RANK_EVENTS: Final = 1 << 21
"""Ranks with more events are mapped one at a time: their passes are long, and two at once take twice the memory."""


def _count_largest_rank_events(trace: Trace) -> int:
    """Number of events of the largest rank, with its part of those of its host; 0 for a single rank."""
    if trace.ranks.height < 2:
        return 0
    events = trace.lanes.group_by("host", "rank").agg(pl.col("events").sum())
    driven = trace.ranks.group_by("host").len("ranks")
    host_events = pl.col("events").filter(pl.col("rank").is_null()).sum().over("host") // pl.col("ranks")
    every = events.join(driven, on="host").select("rank", pl.col("events") + host_events)
    return int(every.filter(pl.col("rank").is_not_null())["events"].to_numpy().max(initial=0))


def _with_host_results(
    asked: Sequence[tuple[Analysis, Options]], ranks: Iterator[DeferredRank], crew: _MapExecutor
) -> Iterator[DeferredRank]:
    """The ranks in their order, with the results of the host computations that the analyses need.

    Each host computation is done once. While the ranks of one host are mapped in other processes, those of the next
    host are computed.
    """
    ahead = 0 if crew.in_this_process else 1
    waiting = deque[tuple[list[DeferredRank], dict[HostQuery, Future[Any]]]]()
    for _, of_host in groupby(ranks, key=attrgetter("host")):
        host_ranks = list(of_host)
        questions = _host_queries(asked, host_ranks) if len(host_ranks) > 1 else ()
        submitted = [each for each in questions if crew.in_this_process or each[0].sendable]
        waiting.append(
            (host_ranks, {each: crew.executor.submit(_compute_host_result, each, host_ranks[0]) for each in submitted})
        )
        if len(waiting) > ahead:
            yield from _attach_host_results(*waiting.popleft())
    while waiting:
        yield from _attach_host_results(*waiting.popleft())


HostQuery = tuple[SharedHostResult[Any], ChosenSettings]
"""A host computation and the settings chosen for it."""


def _host_queries(asked: Sequence[tuple[Analysis, Options]], ranks: Sequence[DeferredRank]) -> tuple[HostQuery, ...]:
    """Host computations that the maps of these ranks will need, each once."""
    found = dict[HostQuery, None]()
    for analysis, options in asked:
        if analysis.host_computations and not all(
            is_cached(analysis, analysis.map_options(options), rank_trace) for rank_trace in ranks
        ):
            found |= dict.fromkeys(
                (question, question.relevant_settings(options.given)) for question in analysis.host_computations
            )
    return tuple(found)


def _compute_host_result(query: HostQuery, rank: DeferredRank) -> Any:  # noqa: ANN401, any type of a computation
    """The result of a host computation, on any rank of the host."""
    computation, settings = query
    return computation.result_for(rank.open(), settings)


def _attach_host_results(
    ranks: Sequence[DeferredRank], answers: Mapping[HostQuery, Future[Any]]
) -> Iterator[DeferredRank]:
    """The ranks with these results; waits until they are there."""
    known = {asked: answer.result() for asked, answer in answers.items()}
    return (replace(rank, host_results=known) for rank in ranks)


def _map_ranks(
    asked: Sequence[tuple[Analysis, Options]], ranks: Iterator[DeferredRank], crew: _MapExecutor
) -> Iterator[list[pl.DataFrame]]:
    """The tables of each rank, in the order of ranks.

    As long as all are cached they are read here: that takes less time than to ask an executor.
    """
    ahead, all_cached = deque[Future[list[pl.DataFrame]]](), True
    questions = [(analysis, analysis.map_options(options)) for analysis, options in asked]
    for rank in ranks:
        known = load_cached_tables(questions, rank) if all_cached else None
        if known is not None:
            yield known
            continue
        all_cached = False
        ahead.append(crew.executor.submit(_map_deferred_rank, asked, rank))
        if len(ahead) >= _MAX_RANKS_AHEAD:
            yield ahead.popleft().result()
    while ahead:
        yield ahead.popleft().result()


def _map_deferred_rank(asked: Sequence[tuple[Analysis, Options]], rank: DeferredRank) -> list[pl.DataFrame]:
    """The small tables of one rank, with categories of their own.

    Polars keeps the texts of all categories in memory as long as any column has one of them: a table with few names
    would keep those of all events.
    """
    tables = map_rank(asked, rank)
    schemas = {number: table.schema for number, table in enumerate(tables) if pl.Categorical in table.dtypes}
    for number in schemas:
        tables[number] = tables[number].cast({pl.Categorical: pl.String})
    for number, schema in schemas.items():  # now no column has a category of the events
        tables[number] = tables[number].cast(schema)
    return tables
