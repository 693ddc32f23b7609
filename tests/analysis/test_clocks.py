"""Clocks of ranks by the ends of their collectives: the estimate, when it is applied, and the timeline on it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane
from jobs import Rank, asked, files, job, rows
from short import first
from tracehound.analysis.ranks.clock_offsets import estimate_clock_offsets
from tracehound.cli.main import main
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace
from tracehound.store import load_trace, open_trace_files
from tracehound.store.clock_choice import AlignChoice, set_alignment


def ranks_with_clocks(*clocks: int, jitter: int = 0) -> list[Rank]:
    """Ranks whose clocks are fast by so many us, with ten collectives each; some end later by `jitter`."""
    ranks = [Rank(number, len(clocks), clock) for number, clock in enumerate(clocks)]
    for rank in ranks:
        for number in range(10):
            base = 1000 * number
            late = jitter * ((number + rank.rank) % 2)
            rank.collective(base, base + 20 + rank.rank, base + 500 + late, Seq=number)
    return ranks


def clock_rows(trace: Trace) -> list[tuple[int, bool, int]]:
    return [(row["shift"] // US, row["applied"], row["exact"] // US) for row in rows("clocks", trace)]


def test_an_offset_is_found_and_applied(tmp_path: Path) -> None:
    trace = job(tmp_path, *ranks_with_clocks(0, 3000, -200))
    assert clock_rows(trace) == [(0, False, 0), (-3000, True, 0), (200, True, 0)]
    assert [row["drift"] for row in rows("clocks", trace)] == [0, 0, 0]
    assert note_texts(asked("clocks", trace).notes) == (
        ("clock skew of 2 ranks corrected (-3.00 ms to +200 us; ±0 s, from collective end times): see clocks"),
    )
    assert {row["skew"] // US for row in rows("collective_calls", trace)} == {2}


def test_a_clock_that_is_as_good_is_left_alone(tmp_path: Path) -> None:
    trace = job(tmp_path, *ranks_with_clocks(0, 4, jitter=30))
    assert [applied for _, applied, _ in clock_rows(trace)] == [False, False]
    assert asked("clocks", trace).notes == ()


def test_ranks_that_meet_only_through_others(tmp_path: Path) -> None:
    """0 meets 1, 1 meets 2, 2 meets 3: the offsets add up."""
    ranks = [Rank(number, 4, 700 * number) for number in range(4)]
    for number in range(30):
        group = number % 3
        for rank in ranks[group : group + 2]:
            args = {"Process_Group_Name": str(group), "Process_Group_Ranks": f"[{group}, {group + 1}]", "Group_size": 2}
            rank.collective(100 * number, 100 * number + 10, 100 * number + 50, Seq=number, **args)
    shifts = [row["shift"] / US for row in rows("clocks", job(tmp_path, *ranks))]
    assert shifts == pytest.approx([0, -700, -1400, -2100], abs=1)


@pytest.mark.thorough
def test_groups_of_two_sorts_that_cross(tmp_path: Path) -> None:
    """Four hosts with two ranks each: every rank meets its neighbor and its likes on all hosts, in turns."""
    ranks = [Rank(number, 8, 1000 * number) for number in range(8)]
    for number in range(40):
        for rank in ranks:
            beside, across = rank.rank // 2, rank.rank % 2
            members = [2 * beside, 2 * beside + 1] if number % 2 else [*range(across, 8, 2)]
            name = f"tp{beside}" if number % 2 else f"dp{across}"
            args = {"Process_Group_Name": name, "Process_Group_Ranks": str(members), "Group_size": len(members)}
            rank.collective(100 * number, 100 * number + 10, 100 * number + 50 + number % 3, Seq=number, **args)
    shifts = [row["shift"] / US for row in rows("clocks", job(tmp_path, *ranks))]
    assert shifts == pytest.approx([-1000 * number for number in range(8)], abs=1)


def test_nothing_tells(tmp_path: Path) -> None:
    result = asked("clocks", job(tmp_path, *ranks_with_clocks(0)))
    assert result.table.is_empty()
    assert note_texts(result.notes)[0].startswith(
        "clocks are not compared: too few collectives of ranks in different files could be matched"
    )


def test_ranks_of_one_file_have_one_clock() -> None:
    b = Building(format="xplane")
    for rank in range(4):
        b.event(Lane("XLA Ops", rank, "ops", work=True), "all-reduce", 0, 10, "collective", op=0, run=1)
    text = "%all-reduce = f32[9] all-reduce(%a), replica_groups=[4,2]<=[8]"
    b.ops = [{"op": 0, "name": "all-reduce", "category": "all-reduce", "module": "jit_f", "text": text}]
    result = asked("clocks", b.trace())
    clock, calls = note_texts(result.notes)
    assert clock == "all 4 ranks share one clock: they are of one file"
    assert calls.startswith("4 calls not matched: their replica groups have more devices than this trace tells apart")


def ranks_on_machines(*machines: str) -> list[Rank]:
    """Ranks of gloo on these machines, of which each ends ten collectives 300 us after the one before it."""
    ranks = [Rank(number, len(machines), machine=machine) for number, machine in enumerate(machines)]
    for rank in ranks:
        for number in range(10):
            rank.gloo("all_reduce", 2000 * number, 2000 * number + 1000 + 300 * rank.rank)
    return ranks


def test_processes_of_one_machine_have_one_clock(tmp_path: Path) -> None:
    trace = job(tmp_path, *ranks_on_machines("a", "a"))
    result = asked("clocks", trace)
    assert result.table.is_empty()
    why = "all 2 ranks share one clock: they are of one machine (a)"
    assert note_texts(result.notes)[0] == why
    assert {row["late"] for row in rows("collective_calls", trace)} == {0}


def test_machines_are_moved_with_all_their_processes(tmp_path: Path) -> None:
    """The last end of a machine determines its clock."""
    trace = job(tmp_path, *ranks_on_machines("a", "a", "b", "b"))
    assert clock_rows(trace) == [(0, False, 0), (0, False, 0), (-600, True, 0), (-600, True, 0)]


@pytest.mark.parametrize("machine", first(1, ["", "localhost"]))
def test_what_names_no_machine_tells_of_no_clock(tmp_path: Path, machine: str) -> None:
    assert clock_rows(job(tmp_path, *ranks_on_machines(machine, machine))) == [(0, False, 0), (-300, True, 0)]


def test_times_of_devices_are_of_no_machine(tmp_path: Path) -> None:
    """They are converted from each device's clock."""
    ranks = ranks_with_clocks(0, 3000)
    for rank in ranks:
        rank.machine = "a"
    assert clock_rows(job(tmp_path, *ranks)) == [(0, False, 0), (-3000, True, 0)]


def test_each_from_its_own_first_event_is_on_no_clock(tmp_path: Path) -> None:
    assert clock_rows(aligned_trace(tmp_path, "start", *ranks_on_machines("a", "a"))) == [
        (0, False, 0),
        (-300, True, 0),
    ]


def test_what_hinders_the_matching_comes_before_the_rest(tmp_path: Path) -> None:
    ranks = Rank(0), Rank(1)
    for number, rank in enumerate(ranks):
        rank.collective(1000 * number, 1000 * number + 5, 1000 * number + 20, Seq=number)
    notes = note_texts(asked("clocks", job(tmp_path, *ranks)).notes)
    assert notes[0].startswith("2 calls not matched: on no other rank (all_reduce)")
    assert notes[1].startswith(
        "clocks are not compared: too few collectives of ranks in different files could be matched"
    )


def aligned_trace(folder: Path, way: AlignChoice, *ranks: Rank) -> Trace:
    return load_trace(set_alignment(open_trace_files(files(folder, *ranks)), way))


def first_ends(trace: Trace) -> list[int]:
    """End of the first collective of each rank."""
    ends = trace.events().filter(pl.col("kind") == "collective").group_by("rank").agg(pl.col("end").min())
    return [end // US for end in ends.sort("rank").collect()["end"].to_list()]


def test_the_timeline_on_the_clock_that_was_asked_for(tmp_path: Path) -> None:
    ranks = ranks_with_clocks(0, 3000)
    assert first_ends(aligned_trace(tmp_path, "wall", *ranks)) == [500, 3500]
    assert first_ends(aligned_trace(tmp_path, "auto", *ranks)) == [500, 3500]
    assert first_ends(aligned_trace(tmp_path, "start", *ranks)) == [500, 500]
    trace = aligned_trace(tmp_path, "collectives", *ranks)
    assert first_ends(trace) == [500, 500]
    assert trace.span[0] == 0
    assert [text for text in note_texts(trace.notes) if "collective" in text] == [
        "clock aligned by collective end times (±0 s): see clocks"
    ]
    assert clock_rows(trace) == [(0, False, 0), (0, False, 0)]


def test_files_without_a_common_clock_are_placed_by_their_collectives(tmp_path: Path) -> None:
    """A day lies between their clocks, and the second began to record later."""
    ranks = ranks_with_clocks(0, 24 * 3600 * 10**6)
    ranks[1].events = ranks[1].events[6:]
    assert first_ends(aligned_trace(tmp_path, "wall", *ranks)) == [500, 500]
    assert first_ends(aligned_trace(tmp_path, "auto", *ranks)) == [500, 3500]


@pytest.mark.parametrize("way", first(1, ["auto", "start"]))
def test_recordings_of_different_times_are_not_put_together_by_order(tmp_path: Path, way: AlignChoice) -> None:
    """A minute lies between them: that both have three calls says nothing."""
    ranks = Rank(0), Rank(1, clock=60 * 10**6)
    for rank in ranks:
        for number in range(3):
            rank.collective(1000 * number, 1000 * number + 50 * rank.rank, 1000 * number + 700)
    result = asked("clocks", aligned_trace(tmp_path, way, *ranks))
    assert result.table.is_empty()
    assert note_texts(result.notes)[0] == "6 calls not matched: on no other rank (all_reduce)"


@pytest.mark.thorough
def test_without_steps_order_moves_no_wall_clock_by_more_than_calls_last(tmp_path: Path) -> None:
    ranks = Rank(0), Rank(1, clock=1000)
    for rank in ranks:
        for number in range(5):
            rank.collective(3000 * number, 3000 * number + 50, 3000 * number + 700)
    assert asked("clocks", job(tmp_path, *ranks)).table.is_empty()
    for rank in ranks:
        for number in range(5):
            rank.step(number, 3000 * number, 3000 * number + 2900)
    assert clock_rows(job(tmp_path, *ranks)) == [(0, False, 0), (-1000, True, 0)]


@pytest.mark.parametrize(
    "analysis", first(1, ["collectives", "collective_calls", "arrivals", "stragglers", "distributed"])
)
def test_how_exact_the_clocks_are_is_said_wherever_ranks_are_compared(tmp_path: Path, analysis: str) -> None:
    """The second clock gains 10 us from one collective to the next."""
    ranks = Rank(0), Rank(1)
    for number in range(30):
        for rank in ranks:
            rank.clock = rank.rank * (3000 + 10 * number)
            rank.collective(1000 * number, 1000 * number + 50, 1000 * number + 500, Seq=number)
    why = (
        "clock skew of 1 rank corrected (-3.15 ms; ±37.5 us, from collective end times, 100 us drift left): see clocks"
    )
    assert why in note_texts(asked(analysis, job(tmp_path, *ranks)).notes)


@pytest.mark.thorough
def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(path) for path in files(tmp_path, *ranks_with_clocks(0, 3000))]
    assert main(["report", *paths, "health", "--align", "collectives", "--no-cache"]) == 0
    assert "clock aligned by collective end times (±0 s): see clocks" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        main(["report", *paths, "health", "--align", "moon"])
    assert stopped.value.code == 2


OFFSETS = st.lists(st.integers(-10_000_000, 10_000_000), min_size=2, max_size=5)


@given(OFFSETS, st.lists(st.lists(st.integers(-900, 900), min_size=5, max_size=5), min_size=3, max_size=8))
def test_offsets_are_found_within_the_jitter(clocks: list[int], jitters: list[list[int]]) -> None:
    """Every end is off by less than 900 ps: so the offsets are, twice over."""
    calls = [
        {
            "meeting": number,
            "circle": 0,
            "collective": "all_reduce",
            "part": part,
            "end": 10**9 * number + clock + jitter[part],
        }
        for number, jitter in enumerate(jitters)
        for part, clock in enumerate(clocks)
    ]
    table = estimate_clock_offsets(pl.DataFrame(calls).with_columns(pl.col("meeting").cast(pl.UInt64)))
    for part, shift in table.select("part", "offset").iter_rows():
        assert abs(shift - (clocks[0] - clocks[part])) <= 4 * 900 + 2 * 1000
