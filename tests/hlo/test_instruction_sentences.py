from __future__ import annotations

from pathlib import Path

import pytest

from hloprotos import F32, array, computation, devices, group_list, instruction, module, numbers, summing, tupled
from tracehound.hlo.hlo_module import HloModule
from tracehound.hlo.hlo_programs import TraceProgram, instruction_facts
from tracehound.hlo.instruction_sentences import describe_instruction, reduction_name
from xspaces import block, whole


def reducing(*more: bytes, opcode: str = "all-reduce", assigned: int = 8, replicas: int = 1) -> HloModule:
    main = computation(
        1, "main", 11, instruction(10, "x", "parameter", array(F32, 256, 1024)),
        instruction(11, "ar", opcode, array(F32, 256, 1024), *more, operands=(10,), calls=(9,)),
    )  # fmt: skip
    return module(summing(), main, more=devices(*range(assigned), replicas=replicas))


def told(made: HloModule, name: str = "ar", present: tuple[int, ...] = tuple(range(8))) -> list[str]:
    return describe_instruction(made, made.instruction(made.row_by_name[name]), present)


def test_an_all_reduce_is_told_in_words() -> None:
    made = reducing(whole(26, 1), group_list((0, 1, 2, 3), (4, 5, 6, 7)), whole(71, 1))
    assert told(made) == [
        "all-reduce: every device ends with the sum over its group",
        "2 groups of 4: {0,1,2,3} {4,5,6,7}; the numbers are positions in the device assignment",
        "the program runs on 1 x 8 devices (replicas x partitions)",
        "each device gives 1.00 MiB (f32[256,1024]{1,0})",
        "a ring of 4 sends 1.50 MiB from each device",
        "all of its devices are in this profile: 8",
    ]


def test_groups_that_leave_the_profile_cross_hosts() -> None:
    shape = whole(1, 4) + whole(2, 2) + numbers(3, 2, 4) + numbers(4, 1, 0)
    made = reducing(whole(26, 1), block(92, shape), whole(71, 1))
    words = told(made, present=(0, 1, 2, 3))
    assert "4 groups of 2: {0,4} {1,5} {2,6} {3,7}; the numbers are positions in the device assignment" in words
    assert "HLO writes these groups as [4,2]<=[2,4]T(1,0)" in words
    assert words[-1] == "4 of 4 groups reach devices that are not: those of another host"
    within = reducing(whole(26, 1), group_list((0, 1), (2, 3), (4, 5), (6, 7)), whole(71, 1))
    assert told(within, present=(0, 1, 2, 3))[-1] == "no group has both devices of this profile and others"


def test_groups_that_do_not_fit_are_not_known() -> None:
    made = reducing(block(92, whole(1, 3) + whole(2, 3) + numbers(3, 8)))
    assert told(made)[1] == "its groups are given as [3,3]<=[8], which does not fit together: they are not known"


def test_one_group_of_all_and_numbers_of_replicas() -> None:
    flat = told(reducing(whole(26, 1), block(87, b""), whole(71, 1)))
    assert "one group of all positions in the device assignment, which are 8 devices" in flat
    listed = reducing(block(49, numbers(1, 0, 1)))
    assert told(listed)[1] == "1 group of 2: {0,1}; the numbers are replicas"


@pytest.mark.parametrize(("more", "opcode", "who", "ring"), [
    ((whole(26, 1), group_list((0,), (1,))), "all-reduce",
     "2 groups of 1: {0} {1}; the numbers are replicas, each with all of its partitions", "4 sends 1.50 MiB"),
    ((whole(26, 1), group_list((0, 1))), "all-reduce",
     "1 group of 2: {0,1}; the numbers are replicas, each with all of its partitions", "8 sends 1.75 MiB"),
    ((whole(26, 1), group_list()), "all-reduce",
     "one group of all replicas, each with all of its partitions, which are 8 devices", "8 sends 1.75 MiB"),
    ((group_list((0, 1)),), "all-reduce", "1 group of 2: {0,1}; the numbers are replicas", "2 sends 1.00 MiB"),
    ((group_list(),), "all-reduce",
     "one group of all replicas for each partition: 4 groups of 2: {0,4} {1,5} {2,6} {3,7}; the numbers are positions"
     " in the device assignment", "2 sends 1.00 MiB"),
    ((whole(26, 1), group_list((0, 1), (2, 3))), "all-to-all",
     "2 groups of 2: {0,1} {2,3}; the numbers are partitions", "2 sends 512 KiB"),
])  # fmt: skip
def test_how_many_take_part_where_a_program_has_replicas_and_partitions(
    more: tuple[bytes, ...], opcode: str, who: str, ring: str
) -> None:
    words = told(reducing(*more, opcode=opcode, assigned=4, replicas=2))
    assert who in words
    assert [one for one in words if one.startswith("a ring")] == [f"a ring of {ring} from each device"]


def test_a_permutation_may_be_a_ring() -> None:
    def permuting(*pairs: tuple[int, int]) -> str:
        moved = b"".join(block(52, whole(1, source) + whole(2, target)) for source, target in pairs)
        main = computation(
            1, "main", 11, instruction(10, "x", "parameter", array(F32, 8)),
            instruction(11, "ar", "collective-permute", array(F32, 8), moved, operands=(10,)),
        )  # fmt: skip
        return told(module(main))[1]

    assert permuting((0, 1), (1, 2), (2, 0)) == "3 transfers: 0 to 1, 1 to 2, 2 to 0; a ring of 3"
    assert permuting((0, 1), (1, 0), (2, 3), (3, 2)) == "4 transfers: 0 to 1, 1 to 0, 2 to 3, 3 to 2"
    assert permuting((0, 1), (1, 1)) == "2 transfers: 0 to 1, 1 to 1"
    assert permuting() == "0 transfers: "


def test_an_asynchronous_collective_is_told_from_both_ends() -> None:
    both = tupled(array(F32, 8), array(F32, 32))
    main = computation(
        1, "main", 12, instruction(10, "x", "parameter", array(F32, 8)),
        instruction(11, "ag-start", "all-gather-start", both, whole(26, 1), group_list((0, 1, 2, 3)), whole(71, 1),
                    operands=(10,)),
        instruction(12, "ag-done", "all-gather-done", array(F32, 32), operands=(11,)),
    )  # fmt: skip
    made = module(main)
    words = told(made, "ag-start")
    assert words == told(made, "ag-done")
    assert words[1] == "it runs from %ag-start to %ag-done, beside what lies between"
    assert words[-2:] == [
        "each device gives 32 B (f32[8]{0}), and has 128 B after it",
        "a ring of 4 sends 96 B from each device",
    ]


def test_a_copy_between_memories_is_no_work_of_the_device() -> None:
    there, here = array(F32, 1024, memory=5), array(F32, 1024)
    main = computation(
        1, "main", 12, instruction(10, "x", "parameter", there),
        instruction(11, "copy-start", "copy-start", tupled(here, there), operands=(10,)),
        instruction(12, "copy-done", "copy-done", here, operands=(11,)),
        instruction(13, "plain", "copy", here, operands=(12,)),
    )  # fmt: skip
    made = module(main)
    assert told(made, "copy-done") == [
        "copies 4.00 KiB from host memory to device memory",
        "it runs over the link between device and host, not at the speed of the device's memory",
        "it runs from %copy-start to %copy-done, beside what lies between",
    ]
    assert told(made, "plain") == []
    program = TraceProgram("jit_f", 3, 0, Path("a.pb"), 0, 1)
    sizes = {
        name: dict(instruction_facts(made, program, made.row_by_name[name]))["bytes"]
        for name in ("copy-start", "copy-done")
    }
    assert sizes == {
        "copy-start": "8.00 KiB (8,192); source and destination together, of which 4.00 KiB move",
        "copy-done": "4.00 KiB (4,096)",
    }


def test_reductions_have_words() -> None:
    def reduced(opcode: str, *, converted: bool = False, result: int = F32) -> str:
        inside = [
            instruction(1, "a", "parameter", array(F32)), instruction(2, "b", "parameter", array(F32)),
            instruction(3, "c", opcode, array(result), operands=(1, 2)),
            instruction(4, "d", "convert", array(16), operands=(3,)),
        ]  # fmt: skip
        return reduction_name(module(computation(1, "r", 4 if converted else 3, *inside)), 0)

    assert [reduced(one) for one in ("add", "multiply", "maximum", "minimum")] == [
        "sum",
        "product",
        "maximum",
        "minimum",
    ]
    assert reduced("or", result=1) == "any"
    assert reduced("add", converted=True) == "sum, in f32"
    assert reduced("subtract") == "result of %r (subtract, convert)"


def test_a_loop_of_operands_ends() -> None:
    looped = computation(1, "r", 1, instruction(1, "a", "convert", array(F32), operands=(1,)))
    assert reduction_name(module(looped), 0) == "result of %r (convert)"


def test_ordinals_of_several_hosts_do_not_tell_who_is_missing() -> None:
    made = reducing(whole(26, 1), group_list((0, 4), (1, 5), (2, 6), (3, 7)), whole(71, 1))
    assert told(made, present=(0, 1, 0, 1))[-1] == "the program runs on 8 devices, of which 4 are in this profile"
    assert told(made, present=(0, 1, 2, 3) * 2)[-1] == "all of its devices are in this profile: 8"
    assert "profile" not in " ".join(told(made, present=()))
