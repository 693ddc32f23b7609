from __future__ import annotations

from hloprotos import F32, array, computation, instruction, module
from tracehound.hlo.hlo_programs import inner_instructions_result, neighborhood_result
from tracehound.hlo.instruction_sentences import describe_instruction
from tracehound.hlo.neighborhood import count_inner_opcodes, inner_instructions, instruction_neighborhood
from xspaces import block, whole

INSIDE = computation(
    2, "fused_computation", 23,
    instruction(20, "param_0", "parameter", array(F32, 8), whole(9, 1)),
    instruction(21, "c", "constant", array(F32)),
    instruction(22, "exp", "exponential", array(F32, 8), operands=(20,)),
    instruction(23, "mul", "multiply", array(F32, 8), operands=(22, 20)), fused=True,
)  # fmt: skip
MAIN = computation(
    1, "main", 14,
    instruction(10, "x", "parameter", array(F32, 8)), instruction(11, "y", "negate", array(F32, 8), operands=(10,)),
    instruction(12, "f", "fusion", array(F32, 8), block(11, "kLoop"), operands=(10, 11), calls=(2,)),
    instruction(13, "u", "sine", array(F32, 8), operands=(12,)),
    instruction(14, "w", "add", array(F32, 8), operands=(13, 12)),
)  # fmt: skip
MADE = module(INSIDE, MAIN)


def named(nodes: list[object]) -> list[tuple[int, str, str, str]]:
    return [(node.depth, MADE.names[node.row], node.relation, node.note) for node in nodes]  # type: ignore[attr-defined]


def test_a_fusion_is_opened() -> None:
    row = MADE.row_by_name["f"]
    assert named(list(inner_instructions(MADE, row))) == [
        (1, "param_0", "inside", "= %y"), (1, "c", "inside", ""), (1, "exp", "inside", "%param_0"),
        (1, "mul", "inside: result", "%exp, %param_0"),
    ]  # fmt: skip
    assert dict(count_inner_opcodes(MADE, row)) == {"constant": 1, "exponential": 1, "multiply": 1}
    assert describe_instruction(MADE, MADE.instruction(row)) == [
        "loop fusion of 3 instructions: 1 constant, 1 exponential, 1 multiply"
    ]
    assert describe_instruction(MADE, MADE.instruction(MADE.row_by_name["param_0"])) == ["stands for %y in %f"]


def test_a_neighborhood_is_a_tree() -> None:
    found = [
        node
        for node in instruction_neighborhood(MADE, MADE.row_by_name["f"], 2)
        if not node.relation.startswith("inside")
    ]
    assert named(found) == [
        (0, "f", "", ""), (1, "x", "operand 0", ""), (1, "y", "operand 1", ""), (2, "x", "operand 0", ""),
        (1, "u", "user", ""), (2, "w", "user", ""), (1, "w", "user", ""),
    ]  # fmt: skip
    assert named(instruction_neighborhood(MADE, MADE.row_by_name["mul"], 0)) == [
        (0, "mul", "", ""),
        (1, "f", "caller", ""),
    ]


def test_what_was_told_is_not_followed_again() -> None:
    chain = [instruction(1, "a0", "parameter", array(F32))]
    chain += [instruction(n + 1, f"a{n}", "add", array(F32), operands=(n, n)) for n in range(1, 40)]
    made = module(computation(1, "main", 40, *chain))
    found = instruction_neighborhood(made, made.row_by_name["a39"], 100)
    assert len(found) == 1 + 2 * 39
    assert sum(node.note == "told above" for node in found) == 38
    looped = module(computation(1, "main", 1, instruction(1, "a", "add", array(F32), operands=(1,))))
    assert len(instruction_neighborhood(looped, 0, 50)) == 3


def test_results_have_a_row_for_each_node() -> None:
    tree = inner_instructions_result(MADE, MADE.row_by_name["f"])
    assert tree is not None
    assert tree.table.select("instruction", "relation", "opcode", "shape", "bytes", "depth").rows() == [
        ("%param_0", "inside", "parameter", "f32[8]{0}", 32, 0), ("%c", "inside", "constant", "f32[]", 4, 0),
        ("%exp", "inside", "exponential", "f32[8]{0}", 32, 0),
        ("%mul", "inside: result", "multiply", "f32[8]{0}", 32, 0),
    ]  # fmt: skip
    assert inner_instructions_result(MADE, MADE.row_by_name["x"]) is None
    cut = neighborhood_result(MADE, MADE.row_by_name["f"], 1, 2)
    assert (cut.table.height, cut.total, cut.shown_rows_text) == (2, 5, "2 of 5 rows")
