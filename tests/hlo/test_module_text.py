from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from hloprotos import BF16, F32, S32, array, computation, instruction, module, numbers, tupled
from tracehound.formats.hlo.hlo_shape import HloShape, read_shape
from tracehound.formats.hlo.proto_message import read_message
from tracehound.formats.protobuf_wire import pad_bytes
from tracehound.hlo import hlo_programs
from tracehound.hlo.instruction_attributes import sharding_text
from tracehound.hlo.module_text import instruction_line, module_lines
from tracehound.store import load_trace, make_read_context, open_trace_files
from xspaces import block, whole


def shape(proto: bytes) -> HloShape:
    file = pad_bytes(proto)
    return read_shape(read_message(file, 0, file.size))


def line(*more: bytes, opcode: str = "custom", shape: bytes = array(F32, 8), operands: tuple[int, ...] = ()) -> str:
    made = module(
        computation(
            1, "main", 3, instruction(1, "x", "parameter", array(F32, 8)),
            instruction(2, "y", "parameter", array(F32, 8)),
            instruction(3, "op", opcode, shape, *more, operands=operands),
        )
    )  # fmt: skip
    return instruction_line(made, made.instruction(made.row_by_name["op"]))


def test_shapes_have_their_tiles_and_memory_spaces() -> None:
    tiles = block(6, numbers(1, 8, 128)) + block(6, numbers(1, 2, 1))
    made = shape(array(BF16, 5, 100, 256, memory=5, tiles=tiles))
    assert made.text == "bf16[5,100,256]{2,1,0:T(8,128)(2,1)S(5)}"
    assert made.text_without_layout == "bf16[5,100,256]"
    assert (made.bytes, made.padded_bytes, made.memory_spaces) == (256_000, 5 * 104 * 256 * 2, (5,))
    assert shape(array(F32, tiles=block(6, numbers(1, 128)))).text == "f32[]{:T(128)}"
    assert shape(array(F32, tiles=block(6, numbers(1, 128)))).padded_bytes == 512


def test_shapes_of_tuples_are_numbered_and_summed() -> None:
    made = shape(tupled(*[array(S32)] * 6))
    assert made.text == "(s32[], s32[], s32[], s32[], s32[], /*index=5*/s32[])"
    assert (made.bytes, made.buffer_bytes) == (24, 48)


def test_dynamic_dimensions_tell_their_bounds() -> None:
    assert shape(whole(2, F32) + numbers(3, 8, 4) + numbers(6, 0, 1)).text == "f32[8,<=4]"


def test_a_tuple_in_a_tuple_without_end_ends() -> None:
    made = array(F32, 2)
    for _ in range(200):
        made = tupled(made)
    assert shape(made).bytes == 0


@pytest.mark.parametrize(("written", "opcode", "more"), [
    ("dimensions={0,1}", "transpose", (numbers(14, 0, 1),)),
    ("iota_dimension=1", "iota", (numbers(14, 1),)),
    ("slice={[0:8], [2:9:3]}", "slice",
     (block(17, whole(2, 8) + whole(3, 1)), block(17, whole(1, 2) + whole(2, 9) + whole(3, 3)))),
    ("padding=0_1x2_3", "pad", (block(21, block(1, whole(2, 1)) + block(1, whole(1, 2) + whole(2, 3))),)),
    ("padding=0_1_0x2_3_4", "pad",
     (block(21, block(1, whole(2, 1)) + block(1, whole(1, 2) + whole(2, 3) + whole(3, 4))),)),
    ("direction=GT", "compare", (block(63, "GT"),)),
    ("lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}", "dot",
     (block(30, numbers(1, 2) + numbers(2, 1) + numbers(3, 0) + numbers(4, 0)),)),
    ("window={size=3x3 stride=2x2 pad=1_1x0_1}", "convolution",
     (block(15, block(1, whole(1, 3) + whole(2, 2) + whole(3, 1) + whole(4, 1) + whole(5, 1) + whole(6, 1))
            + block(1, whole(1, 3) + whole(2, 2) + whole(4, 1) + whole(5, 1) + whole(6, 1))),)),
    ("dim_labels=bf01_oi01->bf01", "convolution",
     (block(16, whole(7, 0) + whole(8, 1) + numbers(11, 2, 3) + whole(4, 0) + whole(3, 1) + numbers(6, 2, 3)
            + whole(9, 0) + whole(10, 1) + numbers(12, 2, 3)),)),
    ('custom_call_target="te_\\"x\\""', "custom-call", (block(28, 'te_"x"'),)),
    ("exponent_bits=8, mantissa_bits=7", "reduce-precision", (whole(18, 8), whole(19, 7))),
    ("sharding={devices=[2,1]<=[2]}", "add", (block(40, whole(1, 3) + numbers(3, 2, 1) + numbers(9, 2)),)),
    ('backend_config={"a":1}', "add", (block(43, '{"a":1}'),)),
    ('metadata={op_name="jit(f)/add" source_file="m.py" source_line=4}', "add",
     (block(7, block(2, "jit(f)/add") + block(3, "m.py") + whole(4, 4)),)),
])  # fmt: skip
def test_attributes_are_written_as_xla_writes_them(written: str, opcode: str, more: tuple[bytes, ...]) -> None:
    assert line(*more, opcode=opcode, operands=(1, 2)) == f"%op = f32[8]{{0}} {opcode}(%x, %y), {written}"


@pytest.mark.parametrize(("value", "literal", "dims"), [
    ("0.5", block(8, struct.pack("<f", 0.5)), ()),
    ("0.1", block(8, struct.pack("<f", 0.1)), ()),
    ("0.797884583", block(8, struct.pack("<f", 0.7978845608)), ()),
    ("{ 1, -2 }", numbers(4, 1, (1 << 64) - 2), (2,)),
    ("{ { true, false } }", block(2, b"\1\0"), (1, 2)),
    ("{...}", block(8, struct.pack("<f", 1)), (1000,)),
    ("{...}", b"", (2,)),
])  # fmt: skip
def test_constants_are_written_as_their_values(value: str, literal: bytes, dims: tuple[int, ...]) -> None:
    element = S32 if value == "{ 1, -2 }" else 1 if "true" in value else F32
    written = value.replace("true", "1").replace("false", "0")
    made = line(block(8, block(1, array(element, *dims)) + literal), opcode="constant", shape=array(element, *dims))
    assert made.endswith(f" constant({written})")


def test_shardings_are_read_in_all_forms() -> None:
    def text(proto: bytes) -> str:
        file = pad_bytes(proto)
        return sharding_text(read_message(file, 0, file.size))

    assert text(b"") == "{replicated}"
    assert text(whole(1, 1) + numbers(4, 3)) == "{maximal device=3}"
    assert text(whole(1, 3) + numbers(3, 2, 2) + numbers(4, 0, 2, 1, 3)) == "{devices=[2,2]0,2,1,3}"
    assert text(whole(1, 3) + numbers(3, 2, 2) + numbers(9, 2, 2) + numbers(10, 1, 0) + whole(6, 1)) == (
        "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"
    )
    assert text(whole(1, 2) + block(5, b"") + block(5, whole(1, 4))) == "{{replicated}, {manual}}"


@pytest.mark.parametrize(("trace", "name"), [
    ("tpu_v6e_x4_offload", "jit_f(12190760917235803885)"), ("jax_rocm_conv_legacy", "jit_forward_3d_conv(15)"),
])  # fmt: skip
def test_the_text_of_real_programs_is_that_of_xprof(shared: Path, trace: str, name: str) -> None:
    """All lines are equal. XProf's short text has no %, no metadata, no parameters in the heads of computations, and
    leaves empty fields out of the configuration of GPU backends, which it prints anew."""
    golden = (shared / "golden" / "xprof" / trace / f"graph_viewer.short_txt.{name}.bin").read_text()
    with make_read_context(1, None) as shop:
        opened = load_trace(open_trace_files([shared / "traces" / "xla" / trace], None, shop))
    (program,) = hlo_programs.find_programs(hlo_programs.require_programs(opened), name)
    ours = "\n".join(module_lines(hlo_programs.read_program(program)))
    ours = re.sub(r', metadata=\{(?:[^"}]|"(?:\\.|[^"\\])*")*\}', "", ours).replace("%", "")
    ours = re.sub(r"^((?:ENTRY )?\S+) \(.*\) -> .* \{$", r"\1 {", ours, flags=re.MULTILINE)
    ours = ours.replace('"wait_on_operation_queues":[],', "")
    theirs = [each for each in golden.splitlines() if each]
    assert sorted(each for each in ours.splitlines() if each) == sorted(theirs)
    entry = theirs.index(next(each for each in theirs if each.startswith("ENTRY")))
    assert [each for each in ours.splitlines() if each][entry:] == theirs[entry:]
