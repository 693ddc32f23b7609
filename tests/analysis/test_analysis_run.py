"""What the ranks of a host have in common is worked out once; and what each rank sees of its trace."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from polars.testing import assert_frame_equal

from building import US, Building, Lane, stream, thread
from tracehound.analysis import ANALYSES, Analysis, Options, get_analysis, run_analyses
from tracehound.analysis.analysis_run import with_events_in_memory
from tracehound.analysis.analysis_settings import ChosenSettings, Setting
from tracehound.analysis.hosts import host_threads
from tracehound.analysis.hosts.host_threads import (
    THREAD_COLUMNS,
    host_events_between,
    host_lane_events,
    innermost_per_window,
    lanes_of_events,
    overlaps_any_window,
)
from tracehound.analysis.hosts.thread_activity import read_thread_activities
from tracehound.analysis.rank_trace import RankTrace, SharedHostResult, SharedRankResult, rank_traces, run_context
from tracehound.model.trace import Trace, Window
from tracehound.numeric.intervals import union
from tracehound.store import load_trace, make_read_context, merge_file_frames, open_trace_files
from tracehound.store.trace_cache import open_cache


def asking(seen: list[tuple[int, ChosenSettings]]) -> Analysis:
    """An analysis whose maps ask their host one thing; `seen` gets every time that it is worked out."""

    def of_host(rank_trace: RankTrace, given: ChosenSettings) -> int:
        seen.append((rank_trace.host, given))
        return 7

    question = SharedHostResult(of_host, ("depth",))

    def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
        return pl.DataFrame({"rank": [rank_trace.rank], "events": [question.result_for(rank_trace, options.given)]})

    settings = tuple(Setting(name, "0", "", int) for name in ("depth", "width"))
    return replace(
        get_analysis("overview"), name="asking", per_rank=per_rank, host_computations=(question,), settings=settings
    )


def ranks(count: int) -> Building:
    b = Building()
    for rank in range(count):
        b.event(stream(rank), "gemm", 0, 10)
    b.event(thread(), "aten::mm", 0, 10, "op")
    return b


@pytest.mark.parametrize("count", [1, 2, 5])
def test_what_ranks_have_in_common_is_worked_out_once_for_a_host(count: int) -> None:
    seen: list[tuple[int, ChosenSettings]] = []
    analysis = replace(asking(seen), combine=lambda tables, *_: pl.concat(tables))
    trace = merge_file_frames("two hosts", [ranks(count).part(), ranks(count).part()])
    (table,) = run_analyses([(analysis, Options())], trace)
    assert table.rows() == [(rank, 7) for rank in range(2 * count)]
    assert sorted(seen) == [(0, ()), (1, ())]


def test_it_is_worked_out_again_for_other_settings_but_not_for_those_that_do_not_matter() -> None:
    seen: list[tuple[int, ChosenSettings]] = []
    analysis = replace(asking(seen), combine=lambda tables, *_: pl.concat(tables))
    given: list[ChosenSettings] = [(), (("width", "3"),), (("depth", "2"),), (("width", "4"), ("depth", "2"))]
    run_analyses([(analysis, Options(given=each)) for each in given], ranks(3).trace())
    assert sorted(seen) == [(0, ()), (0, (("depth", "2"),))]


@pytest.mark.thorough
def test_nothing_is_worked_out_where_the_tables_of_all_ranks_were_kept(samples: Path, tmp_path: Path) -> None:
    for _ in range(2):
        with make_read_context(1, partial(open_cache, tmp_path)) as shop:
            trace = load_trace(open_trace_files([samples / "jax_cpu8_b128"], None, shop))
    seen: list[tuple[int, ChosenSettings]] = []
    analysis = replace(asking(seen), combine=lambda tables, *_: pl.concat(tables))
    for _ in range(2):
        (table,) = run_analyses([(analysis, Options())], trace)
        assert table["events"].to_list() == [7] * 8
    assert len(seen) == 1


@pytest.mark.parametrize("window", [Window(), Window(0, 5 * US)])
def test_what_analyses_of_a_rank_have_in_common_is_asked_once_and_goes_with_the_rank(window: Window) -> None:
    seen = list[tuple[int, int]]()

    def of_rank(rank_trace: RankTrace, read: pl.DataFrame) -> int:
        seen.append((rank_trace.rank, read.height))
        return rank_trace.rank

    question = SharedRankResult(of_rank)

    def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
        del options
        read = rank_trace.device_anytime.collect()
        return pl.DataFrame(
            {
                "rank": [
                    question.result_for(replace(rank_trace, device=rank_trace.device_anytime), read) for _ in range(2)
                ]
            }
        )

    one, other = (
        replace(get_analysis("overview"), name=name, per_rank=per_rank, combine=lambda tables, *_: pl.concat(tables))
        for name in ("one", "other")
    )
    for table in run_analyses([(one, Options()), (other, Options())], ranks(5).trace(), window):
        assert table["rank"].to_list() == [rank for rank in range(5) for _ in range(2)]
    assert sorted(seen) == [(rank, 1) for rank in range(5)]


@pytest.mark.parametrize("events", [0, 3])
def test_events_in_memory_are_those_of_the_file(events: int) -> None:
    """Also where some columns have no value, and where there are no events."""
    built = ranks(1)
    for number in range(events):
        built.event(stream(0), "copy", 20 + number, 21 + number, "copy")
    (share,) = rank_traces(built.trace(), Window() if events else Window(40 * US, 50 * US))
    assert_frame_equal(with_events_in_memory(share).device.collect(), share.device.collect())


@pytest.mark.parametrize(("large", "together"), [(1 << 21, 2), (12, 2), (11, 1)])
def test_two_ranks_are_mapped_at_once_unless_they_are_large(
    large: int, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rank has 10 events of its own and half of the 4 of its host."""
    monkeypatch.setattr("tracehound.analysis.analysis_run._LARGE_RANK_EVENTS", large)
    b = Building()
    for rank in range(2):
        for at in range(10):
            b.event(stream(rank), "gemm", at, at + 1)
    for at in range(4):
        b.event(thread(), "aten::mm", at, at + 1, "op")
    meeting = Barrier(together)

    def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
        del options
        meeting.wait(600)
        return pl.DataFrame({"rank": [rank_trace.rank]})

    analysis = replace(get_analysis("overview"), per_rank=per_rank, combine=lambda tables, *_: pl.concat(tables))
    (table,) = run_analyses([(analysis, Options())], b.trace())
    assert table["rank"].to_list() == [0, 1]


def test_what_fails_on_one_rank_is_raised_and_the_others_are_given_up() -> None:
    begun = list[int]()

    def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
        del options
        begun.append(rank_trace.rank)
        raise LookupError(rank_trace.rank)

    with pytest.raises(LookupError, match="0"):
        run_analyses([(replace(get_analysis("overview"), per_rank=per_rank), Options())], ranks(40).trace())
    assert len(begun) < 40


@pytest.fixture(scope="module")
def several(samples: Path) -> Trace:
    """Four devices of one host."""
    return load_trace(open_trace_files([samples / "torch_xla_spmd4"]))


@pytest.mark.thorough
@pytest.mark.parametrize("part", [None, 3])
def test_every_analysis_says_the_same_of_ranks_together_and_of_each_alone(several: Trace, part: int | None) -> None:
    low, high = several.span
    window = Window() if part is None else Window(low + (high - low) // part, high - (high - low) // part)
    asked = [(analysis, Options(9)) for analysis in ANALYSES]
    with ThreadPoolExecutor(2) as executor:
        together = run_analyses(asked, several, window, executor)
    for (analysis, options), found in zip(asked, together, strict=True):
        alone = [analysis.per_rank(rank_trace, options) for rank_trace in rank_traces(several, window)]
        wanted = analysis.combine(alone, run_context(several, window), options)
        assert_frame_equal(found.table, wanted.table)
        assert found.notes == wanted.notes


BOUNDS = st.lists(st.tuples(st.integers(0, 300), st.integers(1, 6)), min_size=1, max_size=40)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 300), st.integers(0, 40)), max_size=30), BOUNDS)
def test_what_is_read_near_windows_is_all_that_ran_in_them(
    events: list[tuple[int, int, int]], bounds: list[tuple[int, int]]
) -> None:
    b = Building(unit=1)
    b.event(stream(), "gemm", 0, 400)
    b.event(Lane("python 0"), "main", 0, 1, "annotation")
    for lane, start, length in events:
        b.event(Lane(f"python {lane}"), f"aten::{length % 3}", start, start + length, ("op", "annotation")[length % 2])
    windows = union(np.array([start for start, _ in bounds]), np.array([start + length for start, length in bounds]))
    (share,) = rank_traces(b.trace(), Window())
    every, some = (
        frame.select(*THREAD_COLUMNS).collect()
        for frame in (share.threads, share.threads.filter(overlaps_any_window(windows)))
    )
    assert_frame_equal(innermost_per_window(some, windows), innermost_per_window(every, windows))
    lane = share.lanes.filter(pl.col("rank").is_null())["lane"].to_numpy()[[-1] * len(windows.start)]
    whole = read_thread_activities(share, lane, (), lambda lane: [host_lane_events(share, [lane])]).time_per_interval(
        lane, *windows
    )
    assert np.array_equal(
        read_thread_activities(
            share, lane, (), lambda lane: [host_lane_events(share, [lane]).filter(overlaps_any_window(windows))]
        ).time_per_interval(lane, *windows),
        whole,
    )


def test_only_what_overlaps_one_of_many_windows_is_read() -> None:
    b = Building()
    b.event(stream(), "gemm", 0, 1000)
    for start in range(0, 1000, 10):
        b.event(thread(), "aten::mm", start, start + 10, "op")
    (share,) = rank_traces(b.trace(), Window())
    starts = np.arange(95, 1000, 30) * US
    read = share.threads.filter(overlaps_any_window(union(starts, starts + 6 * US))).collect()["start"]
    assert (read // US).to_list() == [start for start in range(90, 1000, 10) if start % 30 in (0, 10)]


WHERE = st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 300)), min_size=1, max_size=30)


@given(st.lists(WHERE, min_size=1, max_size=2), st.data())
def test_the_lanes_of_events_are_those_that_they_are_found_on(
    hosts: list[list[tuple[bool, int, int]]], data: st.DataObject
) -> None:
    parts = []
    for events in hosts:
        b = Building()
        b.event(stream(), "gemm", 0, 10)
        for on_device, lane, start in events:
            b.event(stream(0, lane) if on_device else Lane(f"python {lane}"), "work", start, start + 9)
        parts.append(b.part())
    trace = merge_file_frames("some", parts)
    every = trace.events().collect()["id"].to_list()
    ids = pl.Series(data.draw(st.lists(st.sampled_from([*every, every[-1] + 1, None]))), dtype=pl.Int64)
    for rank_trace in rank_traces(trace, Window()):
        found = rank_trace.threads.filter(pl.col("id").is_in(ids.drop_nulls().implode())).collect()
        assert lanes_of_events(rank_trace, ids) == sorted(set(found["lane"]))
        events, many, row, lane = host_events_between(rank_trace, ids)
        read = events.collect()
        assert read.height == many
        assert read["id"].is_sorted()
        assert read["id"].is_in(rank_trace.threads.collect()["id"].implode()).all()
        rows = [(read["id"][at], read["lane"][at]) if at >= 0 else None for at in row.tolist()]
        lanes = dict(found.select("id", "lane").iter_rows())
        assert rows == [(each, lanes[each]) if each in lanes else None for each in ids]
        assert [-1 if at is None else at[1] for at in rows] == lane.tolist()


def test_of_long_lanes_no_more_is_read_than_from_the_first_to_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_threads, "_MAX_READ_GAP", 6)
    b = Building()
    for at in range(40):
        b.event(Lane(f"python {at % 4}"), "aten::mm", at, at + 1, "op")
    (share,) = rank_traces(b.trace(), Window())
    every = share.threads.collect()["id"]
    wanted = every.gather([2, 4, 25, 31])
    events, _, row, _ = host_events_between(share, wanted)
    read = events.collect()["id"]
    assert read.to_list() == every.gather([2, 3, 4, *range(25, 32)]).to_list()
    assert read.gather(row).to_list() == wanted.to_list()
