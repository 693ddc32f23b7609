from __future__ import annotations

from pathlib import Path

import pytest

from hloprotos import array, computation, group_list, instruction
from hloprotos import proto as whole_proto
from tracehound.formats.hlo.cost_model import estimate_costs
from tracehound.formats.hlo.hlo_instructions import (
    index_instructions,
    shape_text,
    summarize_instructions,
    users_by_name,
    xprof_category,
)
from tracehound.formats.protobuf_wire import InflatedFile, pad_bytes
from tracehound.formats.xplane.xplane_ops import locate_programs
from tracehound.formats.xplane.xspace import follow_events, read_space
from xspaces import block, whole


def proto(*made: bytes, frames: bytes = b"") -> bytes:
    computation = block(1, "main") + b"".join(block(2, one) for one in made)
    return block(1, block(1, "jit_f") + block(3, computation) + (block(17, frames) if frames else b""))


def read(raw: bytes, *names: str) -> dict[str, object]:
    file = pad_bytes(raw)
    return summarize_instructions(index_instructions(file, 0, file.size), names)


def test_an_instruction_reads_as_a_line_of_hlo() -> None:
    metadata = block(7, block(2, "jit(f)/add") + block(3, "model.py") + whole(4, 42))
    raw = proto(
        instruction(7, "x", "parameter", array(11, 8, 16, order=(1, 0))),
        instruction(
            9, "add_fusion", "fusion", array(11, 8, 16, order=(1, 0)), metadata, block(11, "kLoop"), operands=(7,)
        ),
    )
    found = read(raw, "add_fusion", "missing")
    assert list(found) == ["add_fusion"]
    op = found["add_fusion"]
    assert op.text == "%add_fusion = f32[8,16]{1,0} fusion(%x), kind=kLoop"
    assert (op.opcode, op.category, op.framework, op.source) == ("fusion", "loop fusion", "jit(f)/add", "model.py:42")


def test_a_source_frame_gives_the_line() -> None:
    frames = (
        block(1, "a.py") + block(1, "b.py") + block(3, whole(1, 2) + whole(2, 1) + whole(3, 77))
        + block(4, whole(1, 1))
    )  # fmt: skip
    raw = proto(instruction(1, "add", "add", array(11, 2), block(7, whole(15, 1))), frames=frames)
    assert read(raw, "add")["add"].source == "b.py:77"
    raw = proto(instruction(1, "add", "add", array(11, 2), block(7, whole(15, 9))), frames=frames)
    assert read(raw, "add")["add"].source == ""


def test_shapes_are_written_as_hlo_writes_them() -> None:
    pair = whole(2, 13) + block(4, array(4)) + block(4, array(16, 5, 1024, order=(1, 0), memory=5))
    file = pad_bytes(pair)
    assert shape_text(file, 0, file.size) == "(s32[], bf16[5,1024]{1,0:S(5)})"
    unpacked = pad_bytes(whole(2, 11) + whole(3, 4) + whole(3, 2))
    assert shape_text(unpacked, 0, unpacked.size) == "f32[4,2]"


def test_a_collective_moves_the_bytes_of_its_result() -> None:
    both = whole(2, 13) + block(4, array(11, 4, order=(0,))) + block(4, array(11, 8, order=(0,)))
    raw = proto(
        instruction(1, "psum.3", "all-reduce", both),
        instruction(2, "ag", "all-gather-start", both),
        instruction(3, "ag-done", "all-gather-done", array(11, 8, order=(0,))),
    )
    found = read(raw, "psum.3", "ag", "ag-done")
    assert {name: op.bytes for name, op in found.items()} == {"psum.3": 48, "ag": 32, "ag-done": 32}


def test_a_reduce_scatter_moves_the_bytes_that_go_into_it() -> None:
    raw = proto(
        instruction(1, "x", "parameter", array(11, 8, order=(0,))),
        instruction(2, "rs", "reduce-scatter", array(11, 2, order=(0,)), operands=(1,)),
    )
    (op,) = read(raw, "rs").values()
    assert (op.text, op.bytes) == ("%rs = f32[2]{0} reduce-scatter(f32[8]{0} %x)", 32)


def test_a_collective_names_the_groups_of_its_devices() -> None:
    raw = proto(instruction(1, "ar", "all-reduce", array(11, 8), group_list((0, 1), (2, 3))))
    assert read(raw, "ar")["ar"].text == "%ar = f32[8]{0} all-reduce(), replica_groups={{0,1},{2,3}}"


def test_an_asynchronous_start_has_the_groups_of_the_collective_that_it_calls() -> None:
    wrapped = computation(
        5, "wrapped", 51, instruction(50, "x", "parameter", array(11, 8)),
        instruction(51, "rs", "reduce-scatter", array(11, 4), group_list((0, 1), (2, 3)), operands=(50,)),
    )  # fmt: skip
    main = computation(
        1, "main", 11, instruction(10, "y", "parameter", array(11, 8)),
        instruction(11, "reduce-scatter-start", "async-start", array(11, 4), operands=(10,), calls=(5,)),
        instruction(12, "lost-start", "async-start", array(11, 4), operands=(10,), calls=(7,)),
    )  # fmt: skip
    found = read(whole_proto(wrapped, main), "reduce-scatter-start", "lost-start")
    assert found["reduce-scatter-start"].text.endswith("async-start(%y), replica_groups={{0,1},{2,3}}")
    assert found["lost-start"].text.endswith("async-start(%y)")


@pytest.mark.parametrize(("opcode", "kind", "category"), [
    ("fusion", "kInput", "input fusion"), ("fusion", "", "fusion"), ("transpose", "", "data formatting"),
    ("add", "", "non-fusion elementwise"), ("all-reduce", "", "all-reduce"), ("custom-call", "", "custom-call"),
])  # fmt: skip
def test_categories(opcode: str, kind: str, category: str) -> None:
    assert xprof_category(opcode, kind) == category


def test_of_several_with_one_id_or_name_the_first_is_meant() -> None:
    raw = proto(
        instruction(1, "x", "parameter", array(11, 8, order=(0,))),
        instruction(1, "y", "parameter", array(11, 4, order=(0,))),
        instruction(2, "add", "add", array(11, 8, order=(0,)), operands=(1,)),
        instruction(3, "add", "multiply", array(11, 4, order=(0,)), operands=(1,)),
    )
    assert read(raw, "add")["add"].text == "%add = f32[8]{0} add(%x)"
    file = pad_bytes(raw)
    assert estimate_costs(index_instructions(file, 0, file.size), ["add"])["add"].bytes == 64
    assert users_by_name(index_instructions(file, 0, file.size)) == {"x": {"add"}, "y": set(), "add": set()}


@pytest.mark.parametrize("cut", range(0, 120, 7))
def test_a_damaged_proto_gives_what_is_sound(cut: int) -> None:
    raw = proto(instruction(1, "a", "add", array(11, 2)), instruction(2, "b", "add", array(11, 2)))
    file = pad_bytes(raw[:cut] + b"\xff" * 12 + raw[cut:])
    assert set(summarize_instructions(index_instructions(file, 0, file.size), {"a", "b"})) <= {"a", "b"}


def test_the_lines_of_a_real_program(shared: Path) -> None:
    path = next((shared / "captures" / "jax" / "b128").rglob("*.xplane.pb"))
    raw = path.read_bytes()
    found = locate_programs(InflatedFile(raw, len(raw)), read_space(InflatedFile(raw, len(raw)), follow_events))
    file = pad_bytes(raw)
    assert [(one.name, one.program) for one in found.values()] == [("jit_train_step", 0)]
    place = found[0]
    module = index_instructions(file, place.offset, place.offset + place.size)
    op = summarize_instructions(module, {"multiply_tanh_fusion"})["multiply_tanh_fusion"]
    assert op.text.startswith("%multiply_tanh_fusion = f32[32,256]{1,0} fusion(%")
    assert op.framework.endswith("/mlp/tanh")
    assert op.source.endswith("jax_train.py:42")


def test_who_needs_a_result_is_told_through_what_only_passes_it_on() -> None:
    raw = proto(
        instruction(1, "x", "parameter", array(11, 8)),
        instruction(2, "dot", "dot", array(11, 8), operands=(1, 1)),
        instruction(3, "bitcast", "bitcast", array(11, 4, 2), operands=(2,)),
        instruction(4, "add", "add", array(11, 4, 2), operands=(3, 3)),
        instruction(5, "pair", "tuple", array(11, 8), operands=(2, 4)),
        instruction(6, "loop", "while", array(11, 8), operands=(5,)),
        instruction(7, "first", "get-tuple-element", array(11, 8), operands=(6,)),
        instruction(8, "exp", "exponential", array(11, 8), operands=(7, 99)),
        instruction(9, "of_pair", "get-tuple-element", array(11, 8), operands=(5,)),
        instruction(10, "log", "log", array(11, 8), operands=(9,)),
    )
    file = pad_bytes(raw)
    needing = {"x": {"dot"}, "dot": {"add", "loop"}, "add": {"loop"}, "loop": {"exp"}, "exp": set(), "log": set()}
    assert users_by_name(index_instructions(file, 0, file.size)) == needing
    assert users_by_name(index_instructions(pad_bytes(raw[:-3]), 0, len(raw) - 3)) == {}
