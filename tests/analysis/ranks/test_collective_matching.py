"""Which calls are one collective: by number, by order, by pairs, by HLO; and who was late to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane, stream, thread
from jobs import Rank, asked, files, job, rows
from short import first
from tracehound.analysis.rank_trace import rank_traces
from tracehound.analysis.ranks.collective_matching import _median_of_others, _number_instances
from tracehound.analysis.ranks.rank_collectives import collective_kind
from tracehound.analysis.ranks.rank_collectives import rank_calls as calls_of
from tracehound.analysis.timing.other_step_work import with_other_steps_note
from tracehound.draw.notes import note_texts
from tracehound.model.file_facts import FileFacts, HloProgram
from tracehound.model.trace import Window
from tracehound.store import load_trace, open_trace_files

OWN_WAIT = "wait is per rank, even while the rank computes; stragglers shows what late ranks cost"
"""The note under every table of waits."""


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=9))
def test_calls_are_numbered_among_those_of_their_rank(calls: list[tuple[int, int]]) -> None:
    of_key = [{calls.count((key, rank)) for other, rank in calls if other == key} for key, _ in calls]
    instance, even = _number_instances(*np.array(calls, np.int64).reshape(-1, 2).T)
    assert instance.tolist() == [calls[:at].count(call) for at, call in enumerate(calls)]
    assert even.tolist() == [len(counts) == 1 for counts in of_key]


def times(row: dict[str, Any], *names: str) -> list[int]:
    return [row[name] // US for name in names]


def pair(folder: Path, first: list[tuple[int, int, dict]], second: list[tuple[int, int, dict]]) -> Any:
    """Two ranks with collectives at these times, each launched 5 us before."""
    ranks = Rank(0), Rank(1)
    for rank, calls in zip(ranks, (first, second), strict=True):
        for start, end, args in calls:
            rank.collective(start - 5, start, end, **args)
    return job(folder, *ranks)


def test_by_sequence_number_whatever_their_order(tmp_path: Path) -> None:
    """Rank 1 lost its first call: by position every call would be matched with the next."""
    calls = [(10, 30, {"Seq": 1}), (50, 80, {"Seq": 2}), (100, 130, {"Seq": 3})]
    later = [(60, 80, {"Seq": 2}), (120, 130, {"Seq": 3})]
    found = rows("collective_calls", pair(tmp_path, calls, later))
    assert [times(row, "start", "duration", "skew", "late", "transfer", "wait") for row in found] == [
        [45, 30, 10, 10, 20, 10],
        [95, 30, 20, 20, 10, 20],
    ]
    assert [(row["last"], row["ranks"], row["group_size"], row["absent"]) for row in found] == [(1, 2, 2, None)] * 2


def test_what_no_other_rank_has_is_counted(tmp_path: Path) -> None:
    trace = pair(tmp_path, [(10, 30, {"Seq": 1}), (50, 80, {"Seq": 2})], [(60, 80, {"Seq": 2})])
    notes = note_texts(asked("collective_calls", trace).notes)
    assert "1 call not matched: on no other rank (all_reduce)" in notes
    (parts, _) = rows("distributed", trace)
    assert times(parts, "transfer", "synchronizing", "unmatched") == [20, 10, 20]
    told = note_texts(asked("distributed", trace).notes)[0]
    assert told == "20.0 % of matched communication time only waits for the last rank (all ranks)"


def two_by_two(**args: Any) -> list[Rank]:
    """Four ranks in two groups of one name, and all of them in another group of that name."""
    ranks = [Rank(number, 4) for number in range(4)]
    for rank in ranks:
        late = 2 * rank.rank
        rank.collective(5, 10 + late, 40 + 10 * (rank.rank // 2), **{"Group_size": 2, **args})
        rank.collective(55, 60 + late, 90, **args)
    return ranks


@pytest.mark.parametrize("number", first(1, [{}, {"Seq": 1}]))
def test_groups_of_one_name_are_not_one_group(tmp_path: Path, number: dict[str, int]) -> None:
    trace = job(tmp_path, *two_by_two(**number))
    (found,) = rows("collective_calls", trace)
    assert (times(found, "start", "skew", "transfer"), found["ranks"]) == ([55, 6, 24], 4)
    why = (
        "4 calls not matched: their groups share a name, and the trace does not list their ranks (newer "
        "PyTorch records Process Group Ranks)"
    )
    assert why in note_texts(asked("collective_calls", trace).notes)


@pytest.mark.parametrize("said", first(1, [{}, {"Process_Group_Ranks": "[0, ..., 3]"}]))
def test_the_file_lists_the_ranks_of_groups_that_calls_do_not_name(tmp_path: Path, said: dict[str, str]) -> None:
    ranks = two_by_two(**said)
    for rank in ranks:
        first = 2 * (rank.rank // 2)
        rank.groups = [{"pg_name": "0", "ranks": [first, first + 1]}, {"pg_name": "1"}, {"ranks": [0]}, 7]
        del rank.events[2:]
    found = rows("collective_calls", job(tmp_path, *ranks))
    assert [(times(row, "start", "skew", "transfer"), row["ranks"]) for row in found] == [
        ([5, 2, 28], 2),
        ([9, 2, 34], 2),
    ]


def mesh(*machines: str) -> list[Rank]:
    """Four ranks, two by two: in each of three steps neighbors meet first, then all of them; gloo names no group."""
    ranks = [Rank(number, 4, machine=machine) for number, machine in enumerate(machines)]
    for rank in ranks:
        row, column = divmod(rank.rank, 2)
        members = [0, 1, 2, 3], [2 * row, 2 * row + 1], [column, column + 2]
        rank.groups = [{"pg_name": str(number), "ranks": each} for number, each in enumerate(members)]
        for number in range(3):
            base = 1000 * number
            rank.step(number, base, base + 900)
            rank.gloo("all_reduce", base + 100 + 200 * row + 10 * column, base + 200 + 200 * row, 64)
            rank.gloo("all_reduce", base + 500 + 10 * rank.rank, base + 600)
    return ranks


def test_of_which_group_of_a_mesh_a_call_is_its_time_tells(tmp_path: Path) -> None:
    trace = job(tmp_path, *mesh(*"aaaa"))
    found = rows("collective_calls", trace)
    assert [(times(row, "start", "skew"), row["last"], row["ranks"], row["group_size"]) for row in found[:3]] == [
        ([100, 10], 1, 2, 2),
        ([300, 10], 3, 2, 2),
        ([500, 30], 3, 4, 4),
    ]
    assert len(found) == 9
    assert {row["absent"] for row in found} == {None}
    why = "process groups inferred for 24 calls without one: the largest listed group whose ranks could all take part"
    assert why in note_texts(asked("collective_calls", trace).notes)


@pytest.mark.thorough
def test_of_which_group_of_a_mesh_a_kernel_without_args_is_its_time_tells(tmp_path: Path) -> None:
    """As in CUDA graphs: two pairs of one machine, 3 ms apart, that no clocks are moved for."""
    ranks = mesh(*"aaaa")
    for rank in ranks:
        rank.events.clear()
        for number in range(4):
            base = 10_000 * number + 3000 * (rank.rank // 2) + 10 * (rank.rank % 2)
            rank.bare(base, base + 5, 10_000 * number + 3000 * (rank.rank // 2) + 40)
    trace = job(tmp_path, *ranks)
    found = rows("collective_calls", trace)
    assert {(row["ranks"], row["group_size"], *times(row, "skew", "transfer")) for row in found} == {(2, 2, 10, 25)}
    assert len(found) == 8
    assert note_texts(asked("clocks", trace).notes)[0].startswith(
        "all 4 ranks share one clock: they are of one machine (a)"
    )
    why = "process groups inferred for 16 calls without one: the largest listed group whose ranks could all take part"
    assert why in note_texts(asked("collective_calls", trace).notes)


@pytest.mark.thorough
def test_ranks_of_which_several_groups_are_have_none_of_a_known_size(tmp_path: Path) -> None:
    found = rows("collective_calls", job(tmp_path, *mesh(*"aaaa")[:2]))
    assert [(row["ranks"], row["group_size"]) for row in found] == [(2, None)] * 6


@pytest.mark.thorough
def test_a_group_without_a_name_is_called_by_its_ranks(tmp_path: Path) -> None:
    notes = note_texts(asked("collective_calls", job(tmp_path, *mesh(*"aaaa")[::3])).notes)
    assert notes[0] == "process group [0, 1, 2, 3] lacks ranks 1-2 in this trace"


@pytest.mark.thorough
def test_calls_that_may_be_of_several_groups_are_matched_with_nothing(tmp_path: Path) -> None:
    """No two ranks have one clock, or all calls are at one time and no such call is waited for."""
    apart = mesh(*"abcd")
    why = "24 calls not matched: they name no group, and their files list several"
    assert why in note_texts(asked("collective_calls", job(tmp_path, *apart)).notes)
    for rank in apart:
        rank.events.clear()
        rank.machine = "a"
        rank.gloo("broadcast", 100, 200)
    why = why.replace("24", "4")
    assert why in note_texts(asked("collective_calls", job(tmp_path, *apart)).notes)


@pytest.mark.thorough
def test_another_collective_with_the_same_number_is_another(tmp_path: Path) -> None:
    trace = pair(tmp_path, [(10, 30, {"Seq": 1})], [(10, 30, {"Seq": 1, "what": "_allgather_base"})])
    assert rows("collective_calls", trace) == []
    notes = note_texts(asked("clocks", trace).notes)
    assert "2 calls not matched: on no other rank (all_gather, all_reduce)" in notes


@pytest.mark.thorough
@pytest.mark.parametrize("members", first(1, [{}, {"Process_Group_Ranks": "[0, 1]"}]))
def test_files_that_claim_the_same_ranks_meet_nobody(tmp_path: Path, members: dict[str, str]) -> None:
    """As those of another run: its collectives have the same numbers, and nothing to do with these."""
    paths = []
    for name, late in (("one", 0), ("two", 1000)):
        (tmp_path / name).mkdir()
        ranks = Rank(0), Rank(1)
        for rank, start in zip(ranks, (10, 20), strict=True):
            rank.collective(5 + late, start + late, 30 + late, Seq=1, **members)
        paths += files(tmp_path / name, *ranks)
    trace = load_trace(open_trace_files(paths))
    (found,) = rows("collective_calls", trace)
    assert (times(found, "skew"), found["ranks"], found["group_size"], found["absent"]) == ([10], 2, 2, None)
    notes = note_texts(asked("collective_calls", trace).notes)
    why = "2 calls not matched: several files claim ranks 2-3; open the files of one run only"
    assert why in notes
    assert not [note for note in notes if "without a call" in note]
    assert {row["rank"] for row in rows("clocks", trace)} <= {0, 1, 2, 3}


def test_the_message_of_a_gathering_of_gloo_is_that_of_all_ranks(tmp_path: Path) -> None:
    """The file has the tensor that each rank gives."""
    ranks = [Rank(0), Rank(1)]
    for rank in ranks:
        for number, what in enumerate(("all_gather", "all_reduce")):
            rank.gloo(what, 100 * number, 100 * number + 50, 256)
    found = {row["name"]: row for row in rows("collectives", job(tmp_path, *ranks))}
    assert {name: row["message"] for name, row in found.items()} == {"gloo:all_gather": 2048, "gloo:all_reduce": 1024}


def test_groups_keep_apart_what_has_the_same_number(tmp_path: Path) -> None:
    def called(group: str, members: str) -> dict[str, Any]:
        return {"Seq": 7, "Process_Group_Name": group, "Process_Group_Ranks": members, "Group_size": 2}

    ranks = [Rank(number, 4) for number in range(4)]
    for rank, group, start in zip(ranks, ("1", "1", "2", "2"), (10, 20, 12, 42), strict=True):
        rank.collective(5, start, 50, **called(group, "[0, 1]" if group == "1" else "[2, 3]"))
    found = rows("collective_calls", job(tmp_path, *ranks))
    assert [(row["process_group"], row["last"], row["late"] // US, row["ranks"]) for row in found] == [
        ("1", 1, 10, 2), ("2", 3, 30, 2),
    ]  # fmt: skip


def test_ranks_that_a_group_names_and_nobody_opened(tmp_path: Path) -> None:
    members = "[0, 1, 2, 3, 4, 7]"
    ranks = [Rank(number, 8) for number in (0, 1, 3)]
    for rank in ranks:
        rank.collective(5, 10 + rank.rank, 50, Process_Group_Ranks=members, Group_size=6, Seq=1)
    ranks[0].collective(55, 60, 80, Process_Group_Ranks=members, Group_size=6, Seq=2)
    ranks[1].collective(55, 60, 80, Process_Group_Ranks=members, Group_size=6, Seq=2)
    result = asked("collective_calls", job(tmp_path, *ranks))
    others = (
        "2 collectives lack ranks that are not in this trace: last is the last of those here, transfer "
        "may include waiting, bandwidth is a lower bound"
    )
    assert note_texts(result.notes) == (
        "process group 0 lacks ranks 2, 4, 7 in this trace",
        "1 collective without a call on rank 3",
        others,
        OWN_WAIT,
    )
    assert [(row["ranks"], row["group_size"], row["absent"]) for row in result.table.rows(named=True)] == [
        (3, 6, None), (2, 6, "3"),
    ]  # fmt: skip


def test_by_order_within_a_step_and_only_where_they_overlap(tmp_path: Path) -> None:
    """Without numbers: rank 1 lacks the second of the first step, which must not shift those that follow."""
    ranks = Rank(0), Rank(1)
    for rank, late in zip(ranks, (0, 10), strict=True):
        rank.step(1, 0, 500)
        rank.step(2, 500, 1000)
        for number, start in enumerate((100, 200, 300, 600)):
            if not (rank.rank == 1 and number == 1):
                rank.bare(start - 20, start + late, start + 50)
    result = asked("collective_calls", job(tmp_path, *ranks))
    found = result.table.rows(named=True)
    assert [times(row, "start", "skew") for row in found] == [[100, 10], [300, 10], [600, 10]]
    assert "1 call not matched: on no other rank (all_reduce)" in note_texts(result.notes)
    assert any(
        note.startswith("6 calls matched by order (no NCCL sequence numbers in the trace)")
        for note in note_texts(result.notes)
    )


def test_sends_meet_receives(tmp_path: Path) -> None:
    ranks = [Rank(number, 3) for number in range(3)]
    ranks[0].collective(5, 10, 40, "send", Src_Rank=0, Dst_Rank=1)
    ranks[1].collective(5, 30, 40, "recv", Src_Rank=0, Dst_Rank=1)
    ranks[1].collective(45, 50, 90, "send", Src_Rank=1, Dst_Rank=2)
    ranks[2].collective(45, 80, 90, "recv", Src_Rank=1, Dst_Rank=2)
    found = rows("collective_calls", job(tmp_path, *ranks))
    assert [(row["last"], *times(row, "late", "transfer")) for row in found] == [(1, 20, 10), (2, 30, 10)]
    assert [row["absent"] for row in found] == [None, None], "the third rank of the group has no part in it"


@pytest.mark.parametrize("world", first(1, [2, 4]))
def test_the_other_end_of_a_send_is_the_rank_that_recorded_it(tmp_path: Path, world: int) -> None:
    """PyTorch names the destination of a send alone, and the source of a receive; rank 1 lacks the first receive."""
    ranks = Rank(0, world), Rank(1, world)
    for number, (sent, posted) in enumerate(((10, 5), (50, 30), (90, 70)), 1):
        ranks[0].collective(sent - 5, sent, sent + 10, "send", Dst_Rank=1, Seq=number)
        if number > 1:
            ranks[1].collective(posted - 5, posted, sent + 10, "recv", Src_Rank=0, Seq=number + 7)
    result = asked("collective_calls", job(tmp_path, *ranks))
    assert [(row["last"], *times(row, "skew", "wait", "transfer")) for row in result.table.rows(named=True)] == [
        (0, 20, 20, 10),
        (0, 20, 20, 10),
    ]
    assert not [note for note in note_texts(result.notes) if "matched by order" in note]


def test_sends_and_receives_of_two_ranks_are_matched_by_order_for_want_of_peers(tmp_path: Path) -> None:
    trace = pair(tmp_path, [(10, 40, {"what": "send", "Seq": 1})], [(20, 40, {"what": "recv", "Seq": 1})])
    why = "2 sends and receives matched by order (no peers in the trace)"
    assert note_texts(asked("collective_calls", trace).notes) == (why, OWN_WAIT)


@pytest.mark.thorough
def test_sends_of_three_ranks_without_their_peers_stay_unmatched(tmp_path: Path) -> None:
    ranks = [Rank(number, 3) for number in range(3)]
    for rank, what in zip(ranks, ("send", "recv", "recv"), strict=True):
        rank.collective(5, 10, 40, what)
    notes = note_texts(asked("clocks", job(tmp_path, *ranks)).notes)
    (note,) = [note for note in notes if " not matched" in note]
    assert note.endswith(
        "3 calls not matched: on no other rank (recv, send), 3 of them sends and receives of unknown "
        "peers (newer PyTorch records Src Rank and Dst Rank of NCCL calls)"
    )


@pytest.mark.parametrize("world", first(1, [2, 4]))
def test_a_kernel_of_several_sends_and_receives_is_no_collective_of_all(tmp_path: Path, world: int) -> None:
    """Two pairs exchange at once, as batch_isend_irecv does; of two ranks it is known who meets whom."""
    ranks = [Rank(number, world) for number in range(world)]
    for rank in ranks:
        rank.groups = [{"pg_name": "0", "ranks": list(range(world))}]
        rank.bare(5, 10 + 20 * (rank.rank % 2), 50 + 10 * (rank.rank // 2), "ncclDevKernel_SendRecv")
    result = asked("collective_calls", job(tmp_path, *ranks))
    found = [(row["ranks"], *times(row, "skew", "transfer")) for row in result.table.rows(named=True)]
    note = "4 calls not matched: on no other rank (send_recv), 4 of them sends and receives of unknown peers"
    assert (found, note in note_texts(result.notes)) == (([(2, 20, 20)], False) if world == 2 else ([], True))


def xla(*starts: int, text: str, assigned: tuple[int, int] = (0, 0)) -> Any:
    """One all-reduce of several devices, that ends at 100; `assigned` are replicas and partitions of the program."""
    b = Building(format="xplane")
    b.facts = FileFacts(programs=(HloProgram("jit_f", 5, replicas=assigned[0], partitions=assigned[1]),))
    for rank, start in enumerate(starts):
        ops = Lane(f"XLA Ops {rank}", rank, "ops", work=True)
        b.event(ops, "all-reduce.1", start, 100, "collective", op=0, run=77, bytes=4000)
    said = {"module": "jit_f", "program": 5, "text": text}
    b.ops = [{"op": 0, "name": "all-reduce.1", "category": "all-reduce", **said}]
    return b.trace()


def test_groups_of_replicas_meet_in_each_partition_or_with_all_of_them() -> None:
    """Two replicas of two partitions: devices 0 and 2 are one partition of both, 0 and 1 all of the first replica."""

    def met(said: str) -> list[tuple[int, int, int]]:
        text = f"%all-reduce.1 = f32[1000] all-reduce(%a), {said}, to_apply=%sum"
        found = rows("collective_calls", xla(10, 20, 30, 70, text=text, assigned=(2, 2)))
        return sorted((row["last"], row["late"] // US, row["group_size"]) for row in found)

    assert met("replica_groups={{0,1}}") == met("replica_groups={}") == [(2, 20, 2), (3, 50, 2)]
    assert met("channel_id=1, replica_groups={{0},{1}}") == [(1, 10, 2), (3, 40, 2)]
    assert met("channel_id=1, replica_groups={{0,1}}") == met("channel_id=1, replica_groups={}") == [(3, 50, 4)]
    assert met("channel_id=1, replica_groups={{0,3},{1,2}}, use_global_device_ids=true") == [(2, 10, 2), (3, 60, 2)]


@pytest.mark.thorough
def test_sides_of_what_slices_do_together_are_not_matched_with_their_like() -> None:
    b = Building(format="xplane")
    for rank in range(3):
        b.event(Lane(f"XLA Ops {rank}", rank, "ops", work=True), "send.1", 10, 40, "collective", op=0, run=77)
    said = 'is_host_transfer=true, _xla_megascale_transfer_type="ALL_REDUCE"'
    text = f"%send.1 = (f32[8], u32[], token[]) send(%a), {said}"
    b.ops = [{"op": 0, "name": "send.1", "category": "host send", "module": "jit_f", "text": text}]
    (note,) = [note for note in note_texts(asked("clocks", b.trace()).notes) if " not matched" in note]
    assert note.endswith("(all_reduce send), 3 of them sends and receives of unknown peers")


@pytest.mark.thorough
def test_hlo_says_which_devices_meet() -> None:
    trace = xla(10, 20, 30, 70, text="%all-reduce.1 = f32[1000] all-reduce(%a), replica_groups={{0,3},{1,2}}")
    found = rows("collective_calls", trace)
    assert [(row["last"], row["late"] // US, row["group_size"]) for row in found] == [(3, 60, 2), (2, 10, 2)]
    whole = rows("collective_calls", xla(10, 20, 30, 70, text="%all-reduce.1 = f32[1000] all-reduce(%a)"))
    assert [(row["last"], row["late"] // US, row["group_size"]) for row in whole] == [(3, 50, 4)]


def test_devices_of_other_hosts_in_the_groups() -> None:
    result = asked(
        "collective_calls", xla(10, 20, text="%all-reduce.1 = f32[9] all-reduce(%a), replica_groups=[4,2]<=[8]")
    )
    assert result.table.is_empty()
    assert any(
        "2 calls not matched: their replica groups have more devices than this trace tells apart" in note
        for note in note_texts(result.notes)
    )


@pytest.mark.parametrize(
    ("begun", "told"), first(1, [(5, "the file has several devices as one rank"), (10, "open the files")])
)
def test_devices_that_are_one_rank_meet_nobody_and_no_file_helps(begun: int, told: str) -> None:
    b = Building(format="xplane")
    for start in (0, begun):
        b.event(Lane("XLA Ops", 0, "ops", work=True), "all-reduce.1", start, start + 10, "collective", op=0)
    text = "%all-reduce.1 = f32[9] all-reduce(%a), replica_groups={{0,1},{2,3}}"
    b.ops = [{"op": 0, "name": "all-reduce.1", "category": "all-reduce", "module": "jit_f", "text": text}]
    for name in ("collective_calls", "arrivals", "stragglers"):
        assert note_texts(asked(name, b.trace()).notes)[1].startswith(
            f"no collective of two ranks was recorded: {told}"
        )


def test_a_start_and_its_done_are_one_call() -> None:
    b = Building(format="xplane")
    for rank, start in enumerate((10, 25)):
        ops = Lane(f"XLA Ops {rank}", rank, "ops", work=True)
        b.event(ops, "all-gather-start.1", start, start + 2, "collective", op=0, run=1)
        b.event(ops, "fusion.1", start + 2, 80, "op", op=2, run=1)
        b.event(ops, "all-gather-done.1", 80, 90, "collective", op=1, run=1)
    b.ops = [
        {"op": 0, "name": "all-gather-start.1", "category": "all-gather-start",
         "text": "%all-gather-start.1 = (f32[8], f32[16]) all-gather-start(%p)"},
        {"op": 1, "name": "all-gather-done.1", "category": "all-gather-done",
         "text": "%all-gather-done.1 = f32[16] all-gather-done((f32[8], f32[16]) %all-gather-start.1)"},
        {"op": 2, "name": "fusion.1", "category": "fusion"},
    ]  # fmt: skip
    (row,) = rows("collective_calls", b.trace())
    assert (row["name"], *times(row, "start", "duration", "skew", "transfer")) == ("all-gather-start.1", 0, 80, 15, 65)


def test_a_done_whose_start_was_not_recorded_moves_no_other() -> None:
    b = Building(format="xplane")
    ops = Lane("XLA Ops 0", 0, "ops", work=True)
    for name, op, start, end in (
        ("all-gather-done.1", 1, 0, 10), ("all-gather-start.1", 0, 100, 110), ("all-gather-done.1", 1, 200, 220),
    ):  # fmt: skip
        b.event(ops, name, start, end, "collective", op=op)
    b.ops = [
        {"op": 0, "name": "all-gather-start.1", "category": "all-gather-start"},
        {"op": 1, "name": "all-gather-done.1", "category": "all-gather-done",
         "text": "%all-gather-done.1 = f32[16] all-gather-done((f32[8], f32[16]) %all-gather-start.1)"},
    ]  # fmt: skip
    found = calls_of(next(rank_traces(b.trace(), Window())))
    assert [times(row, "start", "end", "length") for row in found.rows(named=True)] == [[0, 10, 10], [100, 220, 30]]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "all_reduce"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("_allgather_base", "all_gather"),
        ("all_to_allv", "all_to_all"),
        ("ncclDevKernel_SendRecv", "send_recv"),
        ("gloo:barrier", "barrier"),
        ("collective-permute", "collective_permute"),
        ("allreduce_coalesced", "all_reduce"),
        ("gather", "gather"),
        ("ncclDevKernel_Generic", None),
    ],
)
def test_what_a_name_says(name: str, what: str | None) -> None:
    assert collective_kind(name) == what


def test_a_window_keeps_the_collectives_in_it(tmp_path: Path) -> None:
    trace = pair(tmp_path, [(10, 30, {"Seq": 1}), (50, 80, {"Seq": 2})], [(15, 30, {"Seq": 1}), (60, 80, {"Seq": 2})])
    assert [row["late"] // US for row in rows("collective_calls", trace, Window(0, 40 * US))] == [5]


def behind() -> list[Rank]:
    """Two ranks whose devices lag: when step 2 is marked, the collective of step 1 runs; rank 1 is late at both."""
    ranks = Rank(0), Rank(1)
    for rank in ranks:
        for number in (1, 2):
            late = 50 * rank.rank
            rank.step(number, 100 * number, 100 * number + 100)
            rank.collective(100 * number + 5, 200 * number + 10 + late, 200 * number + 90, Seq=number)
    return list(ranks)


@pytest.mark.thorough
@pytest.mark.parametrize("step", [1, 2])
def test_tables_of_single_collectives_have_the_step_alone(tmp_path: Path, step: int) -> None:
    trace, window = job(tmp_path, *behind()), Window(steps=(step,))
    assert [(row["step"], row["rank"]) for row in rows("arrivals", trace, window)] == [(step, 0), (step, 1)]
    for name in ("collective_calls", "stragglers"):
        assert [(row["step"], row["late"] // US) for row in rows(name, trace, window)] == [(step, 50)]
    assert "in 1 of 1 steps" in note_texts(asked("stragglers", trace, window).notes)[0]
    assert note_texts(with_other_steps_note(asked("arrivals", trace, window), trace, window).notes) == (OWN_WAIT,)


def test_a_wait_is_explained_in_a_window_that_the_late_rank_comes_after(tmp_path: Path) -> None:
    trace = pair(tmp_path, [(100, 1000, {"Seq": 1})], [(950, 1000, {"Seq": 1})])
    window = Window(0, 105 * US)  # since the first launch, 95 us before
    found = [(row["rank"], *times(row, "after", "wait", "transfer")) for row in rows("arrivals", trace, window)]
    assert found == [(0, 0, 850, 50), (1, 850, 0, 50)]
    (kind,) = rows("collectives", trace, window)
    assert (kind["count"], *times(kind, "total", "transfer")) == (1, 100, 50)
    assert kind["last"] == "1 (1)"
    assert rows("collectives", trace, Window(0, 4 * US)) == []


SAME = ("after", "wait", "transfer", "late", "event")


@pytest.mark.thorough
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 60), st.integers(1, 20)), min_size=1, max_size=10),
    st.tuples(st.integers(0, 60), st.integers(1, 40)),
)
def test_a_collective_is_the_same_in_every_window(calls: list[tuple[int, int, int]], bounds: tuple[int, int]) -> None:
    """Two ranks with collectives that order alone matches: a window must not change what meets what."""
    b = Building()
    b.event(thread(), "begin", 0, 0, "other")
    for rank, start, length in calls:
        b.event(stream(rank), "ncclDevKernel_AllReduce", start, start + length, "collective")
    trace = b.trace()
    low, high = (edge * US for edge in (bounds[0], sum(bounds)))
    every = [{name: row[name] for name in (*SAME, "rank", "number")} for row in rows("arrivals", trace)]
    touched = {
        row["number"] for row in every if (event := trace.event(row["event"]))["start"] < high and event["end"] > low
    }
    wanted = [tuple(row[name] for name in SAME) for row in every if row["number"] in touched]
    window = Window(low, high)
    assert [tuple(row[name] for name in SAME) for row in rows("arrivals", trace, window)] == wanted
    counts = {row["name"]: row["count"] for row in rows("collectives", trace, window)}
    ran = sum(start * US < high and (start + length) * US > low for _, start, length in calls)
    assert sum(counts.values()) == ran


@given(st.lists(st.lists(st.integers(-50, 50), min_size=2, max_size=7), min_size=1, max_size=5))
def test_the_median_of_the_others_is_that(meetings: list[list[int]]) -> None:
    ordered = [sorted(arrivals) for arrivals in meetings]
    flat = np.array([arrival for arrivals in ordered for arrival in arrivals])
    size = np.array([len(arrivals) for arrivals in ordered for _ in arrivals])
    place = np.array([place for arrivals in ordered for place in range(len(arrivals))])
    expected = [
        int(np.floor(np.median([*arrivals[:place], *arrivals[place + 1 :]])))
        for arrivals in ordered
        for place in range(len(arrivals))
    ]
    assert _median_of_others(flat, size, place).tolist() == expected


CALLS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40), st.integers(1, 20)), min_size=3, max_size=3)


@given(st.lists(CALLS, min_size=1, max_size=5))
def test_waits_and_transfers_one_by_one(job_: list[list[tuple[int, int, int]]]) -> None:
    """Three ranks, one collective after the other: how late each comes and how long it takes."""
    b = Building(unit=1)
    expected = []
    base = 0
    for number, calls in enumerate(job_):
        starts, lengths = [base + start for _, start, _ in calls], [length for *_, length in calls]
        for rank, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            lane = Lane(f"XLA Ops {rank}", rank, "ops", work=True)
            b.event(lane, "collective-permute", start, start + length, "collective", op=0, run=number)
        for rank in range(3):
            others = [start for other, start in enumerate(starts) if other != rank]
            late = starts[rank] - int(np.floor(np.median(others)))
            wait = min(max(starts) - starts[rank], lengths[rank])
            expected.append((number, rank, starts[rank] - min(starts), wait, lengths[rank] - wait, late))
        base += 1000  # so that they come in this order
    b.ops = [{"op": 0, "name": "collective-permute", "category": "collective-permute"}]
    b.format = "xplane"
    found = asked("arrivals", b.trace()).table.select("number", "rank", "after", "wait", "transfer", "late").rows()
    assert sorted(found) == sorted(expected)


def test_who_leaves_late_did_not_wait_longer(tmp_path: Path) -> None:
    """Rank 0 came 10 us before rank 1, and left 30 us after it: it was 10 us that it waited."""
    trace = pair(tmp_path, [(10, 80, {"Seq": 1})], [(20, 50, {"Seq": 1})])
    found = rows("arrivals", trace)
    assert [(row["rank"], *times(row, "wait", "transfer", "duration")) for row in found] == [
        (0, 10, 60, 70),
        (1, 0, 30, 30),
    ]
    (call,) = rows("collective_calls", trace)
    (kind,) = rows("collectives", trace)
    assert times(call, "wait", "skew", "transfer") == times(kind, "wait", "skew", "transfer") == [10, 10, 30]


@pytest.mark.thorough
def test_who_leaves_before_the_last_comes_waited_no_longer_than_its_call(tmp_path: Path) -> None:
    trace = pair(tmp_path, [(10, 30, {"Seq": 1, "what": "broadcast"})], [(40, 50, {"Seq": 1, "what": "broadcast"})])
    assert [times(row, "wait", "transfer") for row in rows("arrivals", trace)] == [[20, 0], [0, 10]]


def test_streams_stand_in_for_groups(tmp_path: Path) -> None:
    del tmp_path
    b = Building()
    for rank in (0, 1):
        b.event(stream(rank, 20), "ncclKernel_AllReduce", 10, 40, "collective", bytes=10)
        b.event(stream(rank, 21), "ncclKernel_AllReduce", 10 + 20 * rank, 40, "collective", bytes=10)
    found = rows("collective_calls", b.trace())
    assert [(row["process_group"], row["skew"] // US) for row in found] == [("stream 20", 0), ("stream 21", 20)]


def test_streams_of_other_processes_have_other_numbers(tmp_path: Path) -> None:
    """Where files list the groups of their ranks, the order of numbers tells which streams are one group's."""
    ranks = Rank(0), Rank(1)
    for rank in ranks:
        rank.groups = [{"pg_name": "0", "ranks": [0, 1]}]
        for number, late in ((9, 5), (13, 20)):
            rank.bare(5, 10 + late * rank.rank, 40, stream=number + 4 * rank.rank)
    found = rows("collective_calls", job(tmp_path, *ranks))
    told = [(row["process_group"], row["group_size"], row["skew"] // US) for row in found]
    assert told == [("stream 9", 2, 5), ("stream 13", 2, 20)]


def test_all_calls_of_a_real_program_on_devices_in_groups_are_matched(shared: Path) -> None:
    """Its all-reduces are along one or the other axis of a mesh of 4 x 2 devices, and the groups apart in time."""
    trace = load_trace(open_trace_files([shared / "captures" / "jax" / "b128"]))
    found = rows("collectives", trace)
    assert {row["group_size"] for row in found} == {2, 4}
    assert sum(row["count"] for row in found) == sum(row["matched"] for row in found) == 448
    assert {row["ranks"] for row in rows("collective_calls", trace)} == {2, 4}
    assert note_texts(asked("collectives", trace).notes) == (OWN_WAIT,)
