from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hloprotos import F32, array, computation, instruction, module, proto
from tracehound.hlo.hlo_module import read_module
from tracehound.hlo.hlo_programs import TraceProgram, find_programs
from tracehound.hlo.module_text import module_lines
from xspaces import block, whole


def fused() -> tuple[bytes, bytes]:
    inside = computation(
        2, "fused_computation", 22,
        instruction(20, "param_0", "parameter", array(F32, 8), whole(9, 0)),
        instruction(21, "exp", "exponential", array(F32, 8), operands=(20,)),
        instruction(22, "neg", "negate", array(F32, 8), operands=(21,)), fused=True,
    )  # fmt: skip
    main = computation(
        1, "main", 11,
        instruction(10, "x", "parameter", array(F32, 8), whole(9, 0)),
        instruction(11, "fusion.253", "fusion", array(F32, 8), block(11, "kLoop"), operands=(10,), calls=(2,)),
    )  # fmt: skip
    return inside, main


def test_a_module_knows_who_uses_and_calls_whom() -> None:
    made = module(*fused())
    row = made.row_by_name
    assert made.operands[row["fusion.253"]] == (row["x"],)
    assert made.users[row["x"]] == [row["fusion.253"]]
    assert made.callers == {0: [row["fusion.253"]]}
    assert made.computation_of(row["exp"]).name == "fused_computation"
    assert made.computation_of(row["x"]).number == made.entry == 1
    assert made.computations[0].root == row["neg"]
    assert made.complete


def test_the_schedule_is_the_order_of_the_text() -> None:
    main = computation(
        1, "main", 12,
        instruction(10, "a", "parameter", array(F32)), instruction(11, "b", "negate", array(F32), operands=(10,)),
        instruction(12, "c", "add", array(F32), operands=(10, 11)),
        instruction(13, "late", "constant", array(F32)),
    )  # fmt: skip
    order = block(7, block(1, whole(1, 1) + block(2, b"".join(whole(1, one) for one in (13, 10, 11, 12)))))
    made = module(main, more=order)
    assert [made.names[one] for one in made.scheduled_rows(made.computations[0])] == ["late", "a", "b", "c"]
    partial = block(7, block(1, whole(1, 1) + block(2, whole(1, 12))))
    made = module(main, more=partial)
    assert [made.names[one] for one in made.scheduled_rows(made.computations[0])] == ["a", "b", "c", "late"]


def test_ids_that_nothing_has_are_left_out() -> None:
    made = module(
        computation(1, "main", 99, instruction(1, "a", "add", array(F32), operands=(1, 77, 88), calls=(5, 1)))
    )
    assert made.operands[0] == (0,)
    assert made.calls[0] == (0,)
    assert made.computations[0].root is None


def test_no_module_is_none() -> None:
    assert read_module(b"") is None
    assert read_module(b"\xff" * 40) is None


@given(st.data())
def test_damage_anywhere_leaves_what_can_be_read(data: st.DataObject) -> None:
    raw = bytearray(proto(*fused()))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    made = read_module(bytes(raw[:cut]))
    if made is not None:
        assert len(made.names) == len(made.operands) == len(made.calls)
        list(module_lines(made))


def test_a_cut_module_says_so() -> None:
    raw = proto(*fused())
    inside = read_module(raw)
    assert inside is not None
    broken = raw[:-12] + b"\xff" * 12
    made = read_module(broken)
    assert made is not None
    assert not made.complete


def test_a_program_is_asked_for_by_name_by_id_or_by_both() -> None:
    programs = [TraceProgram("jit_f", number, 0, Path("a.pb"), 0, 1) for number in (3, -1)]
    assert find_programs(programs, "jit_f") == tuple(programs)
    assert find_programs(programs, "jit_f(3)") == (programs[0],)
    assert find_programs(programs, "18446744073709551615") == (programs[1],)
    assert find_programs(programs, "jit_f(18446744073709551615)") == find_programs(programs, "-1") == (programs[1],)
    assert find_programs(programs, "jit_g") == ()
