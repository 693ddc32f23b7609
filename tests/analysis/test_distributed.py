"""Time of each rank: computed by hand, and instant by instant."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from building import US, Building, Lane, beside, stream, thread
from jobs import Rank, asked, job, rows
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace, Window

PARTS = ("computation", "overlap", "communication", "other")
HALVES = ("transfer", "synchronizing", "unmatched")


def two_ranks(folder: Path) -> list[Rank]:
    del folder
    job_ = [Rank(0), Rank(1)]
    for rank in job_:
        rank.step(1, 0, 100)
        rank.kernel("gemm", 5, 10, 40)
        rank.collective(6, 20 + 10 * rank.rank, 60, Seq=1)
        rank.step(2, 100, 200)
        rank.collective(105, 110, 130 - 5 * rank.rank, Seq=2)
    return job_


def test_by_step(tmp_path: Path) -> None:
    found = rows("distributed", job(tmp_path, *two_ranks(tmp_path)), by="step")
    told = [(row["step"], row["rank"], *(row[name] // US for name in (*PARTS, *HALVES))) for row in found]
    assert told == [
        (1, 0, 10, 20, 20, 50, 30, 10, 0),
        (1, 1, 20, 10, 20, 50, 30, 0, 0),
        (2, 0, 0, 0, 20, 80, 15, 5, 0),
        (2, 1, 0, 0, 15, 85, 15, 0, 0),
    ]
    assert found[0]["waiting"] == 0.1


def test_of_the_run_and_of_a_window(tmp_path: Path) -> None:
    trace = job(tmp_path, *two_ranks(tmp_path))
    first, _ = rows("distributed", trace)
    assert (first["span"] // US, *(first[name] // US for name in PARTS)) == (120, 10, 20, 40, 50)
    result = asked("distributed", trace, Window(0, 50 * US))
    assert [result.table[name][0] // US for name in PARTS] == [10, 20, 10, 10]
    assert note_texts(result.notes)[0] == "20.0 % of communication time only waits for the last rank (all ranks)"


@pytest.mark.parametrize("begun", [5, 10])
def test_several_devices_that_are_one_rank_are_told_of(begun: int) -> None:
    notes = note_texts(asked("distributed", beside(begun).trace()).notes)
    told = [
        note
        for note in notes
        if note.startswith(
            "rank 0 holds several devices (the file does not tell which of them ran an HLO op): "
            "communication of one during computation of another counts as overlap"
        )
    ]
    assert len(told) == (begun == 5)
    assert all(
        note.endswith(
            "rank 0 holds several devices (the file does not tell which of them ran an HLO op): "
            "communication of one during computation of another counts as overlap"
        )
        for note in told
    )


@pytest.mark.thorough
def test_with_the_overlap_it_is_what_breakdown_and_overlap_have(tmp_path: Path) -> None:
    trace = job(tmp_path, *two_ranks(tmp_path))
    ours, parts, groups = (rows(name, trace) for name in ("distributed", "breakdown", "overlap"))
    assert [row["computation"] + row["overlap"] for row in ours] == [row["compute"] for row in parts]
    assert [row["communication"] for row in ours] == [row["communication"] for row in parts]
    told = [(row["communication"] + row["overlap"], row["computation"] + row["overlap"]) for row in ours]
    assert told == [(row["first"], row["second"]) for row in groups if row["rank"] is not None]
    note = note_texts(asked("distributed", trace).notes)[1]
    assert note == "including the overlap, computation is 25.5 % and communication 44.7 % of the spans"
    notes = note_texts(asked("distributed", trace, Window(70 * US, 200 * US)).notes)
    assert not any("overlap" in each for each in notes)


def test_where_calls_end_apart_ranks_may_have_waited_longer(tmp_path: Path) -> None:
    """As those of Gloo: the shortest call is that of a rank that was late and took long itself."""
    found = [Rank(0), Rank(1)]
    for rank, (start, end) in zip(found, ((0, 50), (40, 100)), strict=True):
        rank.collective(max(start - 1, 0), start, end, Seq=1)
    trace = job(tmp_path, *found)
    result = asked("distributed", trace)
    assert sum(result.table["synchronizing"]) == 10 * US
    told = (
        "by arrival times, all ranks together waited 40.0 us (see arrivals): calls of one collective do "
        "not end together here"
    )
    assert told in note_texts(result.notes)
    assert told not in note_texts(asked("distributed", trace, by="step").notes)
    assert not [note for note in note_texts(asked("distributed", trace, Window(0, 50 * US)).notes) if "by when" in note]


@pytest.mark.thorough
def test_where_calls_end_together_nothing_is_said_of_when_ranks_came(tmp_path: Path) -> None:
    found = [Rank(0), Rank(1)]
    for rank, start in zip(found, (0, 40), strict=True):
        rank.collective(max(start - 1, 0), start, 100, Seq=1)
    assert not [note for note in note_texts(asked("distributed", job(tmp_path, *found)).notes) if "by when" in note]


def asynchronous_collective() -> Trace:
    """On two TPUs an all-gather of 50 us, or 60; a fusion hides all but start (2 us) and done (8 us, or 18)."""
    b = Building(format="xplane")
    for rank in (0, 1):
        ops = Lane(f"XLA Ops {rank}", rank, "ops", work=True)
        b.event(ops, "all-gather-start.1", 0, 2, "collective", op=0, run=1)
        b.event(ops, "fusion.1", 2, 42, "op", op=2, run=1)
        b.event(ops, "all-gather-done.1", 42, 50 + 10 * rank, "collective", op=1, run=1)
    b.ops = [
        {"op": 0, "name": "all-gather-start.1", "category": "all-gather-start",
         "text": "%all-gather-start.1 = (f32[8], f32[16]) all-gather-start(%p)"},
        {"op": 1, "name": "all-gather-done.1", "category": "all-gather-done",
         "text": "%all-gather-done.1 = f32[16] all-gather-done((f32[8], f32[16]) %all-gather-start.1)"},
        {"op": 2, "name": "fusion.1", "category": "fusion"},
    ]  # fmt: skip
    trace = b.trace()
    return replace(trace, ranks=trace.ranks.with_columns(pl.format("TPU:{}", "device").alias("label")))


def test_what_hides_an_asynchronous_collective_is_neither_transfer_nor_waiting() -> None:
    found = rows("distributed", asynchronous_collective())
    told = [tuple(row[name] // US for name in (*PARTS, *HALVES)) for row in found]
    assert told == [(40, 0, 10, 0, 10, 0, 0), (40, 0, 20, 0, 18, 2, 0)]


@pytest.mark.thorough
def test_what_asynchronous_collectives_of_tpus_hide_is_said_to_be_elsewhere() -> None:
    """Their lengths are those of start and done on the core, their transfer is from the start to the done."""
    (row,) = rows("collectives", asynchronous_collective())
    assert [row[name] // US for name in ("total", "min", "max", "transfer")] == [30, 10, 20, 50]
    for analysis in ("collectives", "overlap"):
        assert any("async_overlap" in note for note in note_texts(asked(analysis, asynchronous_collective()).notes)), (
            analysis
        )
    plain = Building()
    plain.event(stream(), "ncclDevKernel_AllReduce", 0, 50, "collective")
    for analysis in ("collectives", "overlap"):
        assert not any("async_overlap" in note for note in note_texts(asked(analysis, plain.trace()).notes)), analysis


def test_without_a_device_operators_compute() -> None:
    b = Building()
    b.event(thread(), "aten::mm", 0, 30, "op")
    b.event(thread(), "c10d::allreduce_", 30, 35, "op")
    b.event(Lane("pt_gloo_runloop"), "gloo:all_reduce", 20, 50, "collective")
    result = asked("distributed", b.trace())
    (row,) = result.table.rows(named=True)
    assert [row[name] // US for name in (*PARTS, "unmatched")] == [20, 10, 20, 0, 30]
    assert row["transfer"] is None
    hosted = "no device activity was recorded on rank 0: computation is of host operators"
    assert hosted in note_texts(result.notes)


def test_why_transfers_are_not_known(tmp_path: Path) -> None:
    notes = note_texts(asked("distributed", job(tmp_path, two_ranks(tmp_path)[0])).notes)
    assert notes == (
        "open several ranks to separate transfer from waiting",
        "including the overlap, computation is 25.0 % and communication 50.0 % of the spans",
        "the job has 2 ranks; missing here: rank 1",
    )


def test_a_rank_that_never_communicates_lacks_no_other() -> None:
    b = Building()
    b.event(stream(), "gemm", 0, 30)
    for name in ("distributed", "stragglers", "arrivals", "collective_calls", "collectives"):
        assert note_texts(asked(name, b.trace()).notes) == ("no collectives were recorded",), name


EVENTS = st.lists(st.tuples(st.integers(0, 1), st.booleans(), st.integers(0, 40), st.integers(1, 12)), max_size=10)


@given(EVENTS, st.tuples(st.integers(0, 30), st.integers(1, 30)))
def test_every_instant(events: list[tuple[int, bool, int, int]], bounds: tuple[int, int]) -> None:
    b = Building(unit=1)
    for rank in (0, 1):
        b.event(stream(rank, 1), "first", 0, 1)
    for rank, communicates, start, length in events:
        kind = "collective" if communicates else "kernel"
        b.event(stream(rank, 20 if communicates else 7), "k", start, start + length, kind)
    window = Window(bounds[0], sum(bounds))
    trace = b.trace()
    low, high = window.clip_bounds(*trace.span)
    for row in rows("distributed", trace, window):
        mine = [(False, 0, 1)] + [(comm, s, s + n) for rank, comm, s, n in events if rank == row["rank"]]
        counted = dict.fromkeys(PARTS, 0)
        for instant in range(low, high):
            here = {comm for comm, start, end in mine if start <= instant < end}
            name = {(): "other", (False,): "computation", (True,): "communication"}.get(tuple(here), "overlap")
            counted[name] += 1
        assert {name: row[name] for name in PARTS} == counted
        assert row["span"] == high - low
        halves = [row[name] or 0 for name in HALVES]
        assert sum(halves) == row["overlap"] + row["communication"]


@pytest.mark.parametrize("by", ["run", "step"])
def test_nothing_at_all(by: str) -> None:
    assert asked("distributed", Building().trace(), by=by).table.height in (0, 1)
