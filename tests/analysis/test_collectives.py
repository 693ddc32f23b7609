"""The table of collectives: what is one row, its sizes, bandwidths and who came last."""

from __future__ import annotations

from pathlib import Path

import pytest

from building import US
from jobs import Rank, asked, job, rows, sized
from short import some
from tracehound.analysis import get_analysis
from tracehound.analysis.ranks.collective_matching import WAIT_PER_RANK_NOTE, WAITS_DEFINITION
from tracehound.draw.notes import note_texts


@pytest.mark.parametrize(
    ("what", "elements_in", "elements_out", "factor"),
    some(
        [
            ("allreduce", 1000, 1000, 2 * 3 / 4),
            ("_allgather_base", 1000, 4000, 3 / 4),
            ("_reduce_scatter_base", 4000, 1000, 3 / 4),
            ("all_to_allv", 4000, 4000, 3 / 4),
            ("broadcast", 1000, 1000, 1),
            ("barrier", 0, 0, None),
        ],
        [("allreduce", 1000, 1000, 2 * 3 / 4), ("_allgather_base", 1000, 4000, 3 / 4)],
    ),
)
def test_bandwidths_of_nccl_tests(
    tmp_path: Path, what: str, elements_in: int, elements_out: int, factor: float | None
) -> None:
    """Four ranks, the last of which takes 10 us; the message is the larger side."""
    ranks = [Rank(number, 4) for number in range(4)]
    sizes = {"In_msg_nelems": elements_in, "Out_msg_nelems": elements_out}
    for rank in ranks:
        rank.collective(5, 10 + 10 * rank.rank, 50, what, Seq=1, **sizes)
    (row,) = rows("collectives", job(tmp_path, *ranks))
    message = 4 * max(elements_in, elements_out)
    assert (row["count"], row["ranks"], row["group_size"], row["transfer"] // US) == (4, 4, 4, 10)
    assert [row[name] // US for name in ("total", "mean", "wait", "skew")] == [100, 25, 60, 30]
    assert row["last"] == "3 (1)"
    if factor is None:
        assert (row["algorithm"], row["bus"]) == (None, None)
    else:
        assert row["algorithm"] == pytest.approx(message / 10e-6)
        assert row["bus"] == pytest.approx(factor * message / 10e-6)


def test_a_row_for_each_size_or_for_all(tmp_path: Path) -> None:
    trace = job(tmp_path, *sized())
    by_size = rows("collectives", trace)
    assert [(row["message"], row["count"], row["dtype"], row["process_group"]) for row in by_size] == [
        (4000, 4, "Float", "0"), (20000, 2, "Float", "0"),
    ]  # fmt: skip
    (row,) = rows("collectives", trace, by="name")
    assert (row["count"], row["message"], row["bytes"], row["last"]) == (
        6,
        round((4 * 4000 + 2 * 20000) / 6),
        56000,
        "0 (2)",
    )


def test_a_collective_that_a_rank_lacks_tells_no_transfer_where_others_are_whole(tmp_path: Path) -> None:
    """Rank 2, which is last, did not record the first; another was recorded by rank 0 alone."""
    ranks = [Rank(number, 3) for number in range(3)]
    for rank in ranks:
        for number in range(4):
            if (number, rank.rank) not in ((0, 2), (1, 1), (1, 2)):
                rank.collective(100 * number, 100 * number + 10 + 10 * rank.rank, 100 * number + 40, Seq=number)
    (row,) = rows("collectives", job(tmp_path, *ranks))
    assert (row["count"], row["matched"], row["last"]) == (9, 8, "2 (2)")
    assert [row[name] // US for name in ("transfer", "skew", "wait")] == [10, 20, 10 + 2 * 30]
    assert row["algorithm"] == pytest.approx(row["message"] / 10e-6)
    (row,) = rows("collectives", job(tmp_path, *ranks[:2]))
    assert (row["transfer"] // US, row["last"]) == (20, "1 (3)"), "whole as far as there are ranks"


def test_who_came_last_to_an_exchange_is_told_of_both_sides_together(tmp_path: Path) -> None:
    """Rank 1, which receives, comes last to two of three exchanges: the row of the sends says so, too."""
    ranks = [Rank(0), Rank(1)]
    for rank, what in zip(ranks, ("send", "recv"), strict=True):
        for number, late in enumerate((1, 1, 0)):
            start = 100 * number + 10 + 20 * (rank.rank == late)
            peers = {"Src_Rank": 0, "Dst_Rank": 1, "Seq": number}
            rank.collective(100 * number, start, 100 * number + 60, what, **peers)
    found = rows("collectives", job(tmp_path, *ranks))
    assert sorted((row["collective"], row["count"], row["last"]) for row in found) == [
        ("recv", 3, "1 (2)"), ("send", 3, "1 (2)"),
    ]  # fmt: skip


def test_of_ranks_that_came_at_once_none_came_last(tmp_path: Path) -> None:
    """All come at once to two collectives of four, and two of three to another."""
    ranks = [Rank(number, 3) for number in range(3)]
    for rank in ranks:
        for number, late in enumerate(((0, 0, 0), (0, 7, 0), (0, 0, 0), (0, 7, 7))):
            start = 100 * number + late[rank.rank]
            rank.collective(100 * number - 5, start, 100 * number + 60, Seq=number)
    trace = job(tmp_path, *ranks)
    (row,) = rows("collectives", trace)
    assert (row["last"], row["skew"]) == ("1 (1)", 7 * US // 2)
    found = [(row["last"], row["skew"] // US, row["late"] // US) for row in rows("collective_calls", trace)]
    assert found == [(None, 0, 0), (1, 7, 7), (None, 0, 0), (None, 7, 3)]


@pytest.mark.thorough
def test_what_wait_and_waited_for_are_is_said_where_they_stand(tmp_path: Path) -> None:
    trace = job(tmp_path, *sized())
    for name in ("collectives", "collective_calls", "arrivals"):
        assert asked(name, trace).notes[-1].code == WAIT_PER_RANK_NOTE
    notes = note_texts(asked("stragglers", trace).notes)
    assert any(
        note.startswith(
            "waiting counts only while the others have nothing to compute, and once for all; arrivals has "
            "each rank's wait"
        )
        for note in notes
    )
    for name in ("collectives", "collective_calls", "arrivals", "stragglers", "distributed"):
        assert WAITS_DEFINITION in get_analysis(name).definition
    alone = job(tmp_path, *sized()[:1])
    codes = [note.code for note in asked("collectives", alone).notes]
    assert WAIT_PER_RANK_NOTE not in codes, "nobody is there to wait for"


def test_rows_alike_in_size_and_time_come_in_one_order(tmp_path: Path) -> None:
    ranks, types = [Rank(0), Rank(1)], ["Long", "Float", "Int", "Double", "Half", "BFloat16"]
    for rank in ranks:
        for number, dtype in enumerate(types):
            elements = 8000 // {"Long": 8, "Double": 8, "Half": 2, "BFloat16": 2}.get(dtype, 4)
            size = {"In_msg_nelems": elements, "Out_msg_nelems": elements}
            rank.collective(100 * number, 100 * number + 5, 100 * number + 60, dtype=dtype, Seq=number, **size)
    found = rows("collectives", job(tmp_path, *ranks))
    assert {(row["message"], row["total"]) for row in found} == {(8000, 110 * US)}
    assert [row["dtype"] for row in found] == sorted(types)


def test_what_one_rank_alone_can_tell(tmp_path: Path) -> None:
    result = asked("collectives", job(tmp_path, sized()[0]))
    assert result.table["wait"].null_count() == result.table["skew"].null_count() == result.table.height
    assert result.table["last"].to_list() == [None, None]
    assert "transfer includes waiting (no calls of other ranks to match): bandwidth is a lower bound" in note_texts(
        result.notes
    )


@pytest.mark.thorough
def test_of_groups_of_which_one_rank_is_here_it_is_said_beside_whole_ones(tmp_path: Path) -> None:
    said = "transfer includes waiting in 1 row (no calls of other ranks to match): bandwidth is a lower bound"
    pair = [Rank(0), Rank(1)]
    for rank in pair:
        rank.collective(5, 10, 20, Seq=1)
    assert said not in note_texts(asked("collectives", job(tmp_path, *pair)).notes)
    pair[0].collective(35, 40, 90, Seq=1, Process_Group_Name="1")
    result = asked("collectives", job(tmp_path, *pair))
    assert said in note_texts(result.notes)
    assert result.table["wait"].null_count() == 1


def test_a_bandwidth_beyond_any_link_is_not_told(tmp_path: Path) -> None:
    ranks = [Rank(0), Rank(1)]
    for rank in ranks:
        rank.collective(5, 10, 11, Seq=1, In_msg_nelems=10**12, Out_msg_nelems=10**12)
    result = asked("collectives", job(tmp_path, *ranks))
    assert (result.table["algorithm"][0], result.table["bus"][0]) == (None, None)
    assert "no bandwidth in 1 row: it would exceed any link" in note_texts(result.notes)


def test_old_traces_say_less(tmp_path: Path) -> None:
    ranks = [Rank(0), Rank(1)]
    for rank in ranks:
        rank.bare(5, 10 + 20 * rank.rank, 50)
    result = asked("collectives", job(tmp_path, *ranks))
    (row,) = result.table.rows(named=True)
    assert (row["collective"], row["dtype"], row["message"], row["process_group"]) == (
        "all_reduce",
        None,
        None,
        "stream 20",
    )
    assert "2 executions without a recorded process group: the column has their streams" in note_texts(result.notes)
    assert (row["skew"] // US, row["last"]) == (20, "1 (1)")
    assert "2 executions without a recorded size" in note_texts(result.notes)
