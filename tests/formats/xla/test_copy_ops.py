"""HLO lines of copies, as TPUs write them: from where to where, how much, and what waits for what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.formats.xla.op_kinds import (
    MemoryCopy,
    is_async_done,
    memory_of_shape,
    opcode_of_line,
    operands_of_line,
    parse_copy,
    start_op_name,
)

MIB = 1 << 20
FROM_HOST = (
    "%copy-start.4 = (f32[1,1024,256]{2,1,0:T(8,128)}, f32[1,1024,256]{2,1,0:T(8,128)S(5)}, u32[]{:S(2)}) "
    "copy-start(f32[1,1024,256]{2,1,0:T(8,128)S(5)} %param.2)"
)
TO_HOST = (
    "%copy-start.1 = (f32[1,1024,256]{2,1,0:T(8,128)S(5)}, f32[1,1024,256]{2,1,0:T(8,128)}, u32[]{:S(2)}) "
    "copy-start(f32[1,1024,256]{2,1,0:T(8,128)} %fusion)"
)
AWAITED = (
    "%copy-done.9 = f32[1,1024,256]{2,1,0:T(8,128)} copy-done((f32[1,1024,256]{2,1,0:T(8,128)}, "
    "f32[1,1024,256]{2,1,0:T(8,128)S(5)}, u32[]{:S(2)}) %copy-start.4)"
)
SLICED = (
    "%slice-start = ((s8[10485760]{0:T(1024)(128)(4,1)}), s8[4194304]{0:T(1024)(128)(4,1)S(1)}, s32[]{:S(2)}) "
    "async-start(s8[10485760]{0:T(1024)(128)(4,1)} %bitcast.1), calls=%async_computation"
)
UPDATED = (
    "%dynamic-update-slice-start.2 = ((f32[8,1024,256]{2,1,0:S(5)}, f32[1,1024,256]{2,1,0}, s32[]), "
    "f32[8,1024,256]{2,1,0:S(5)}, s32[]{:S(2)}) async-start(f32[8,1024,256]{2,1,0:S(5)} %buffer, "
    "f32[1,1024,256]{2,1,0} %update, s32[] %i), calls=%async_computation.2"
)

FED = "%infeed.1 = ((f32[8]{0}, s32[2]{0}), token[]) infeed(token[] %t)"
GATHERED = "%all-gather-start = ((f32[2]{0}), f32[4]{0}, u32[]) async-start(f32[2]{0} %a), calls=%gather"


@pytest.mark.parametrize(
    ("name", "category", "text", "expected"),
    [
        ("copy-start.4", "copy-start", FROM_HOST, MemoryCopy("host", "HBM", MIB)),
        ("copy-start.1", "copy-start", TO_HOST, MemoryCopy("HBM", "host", MIB)),
        ("slice-start", "async-start", SLICED, MemoryCopy("HBM", "VMEM", 4 * MIB)),
        ("dynamic-update-slice-start.2", "async-start", UPDATED, MemoryCopy("HBM", "host", MIB)),
        ("copy.7", "data formatting", "%copy.7 = f32[4]{0:S(5)} copy(f32[4]{0} %a)", MemoryCopy("HBM", "host", 16)),
        ("infeed.1", "infeed", FED, MemoryCopy("host", "HBM", 40)),
        ("outfeed", "outfeed", "%outfeed = token[] outfeed(f32[8]{0} %a, token[] %t)", MemoryCopy("HBM", "host", 32)),
        (
            "recv.3", "host recv", "%recv.3 = (f32[2]{0}, u32[], token[]) recv(token[] %t), is_host_transfer=true",
            MemoryCopy("host", "HBM", 8),
        ),
        ("infeed", "infeed", "", MemoryCopy("host", "HBM", None)),
        ("copy.7", "", "%copy.7 = f32[99999999999999999]{0:S(5)} copy(f32[4]{0} %a)", MemoryCopy("HBM", "host", None)),
    ],
)  # fmt: skip
def test_what_a_copy_moves(name: str, category: str, text: str, expected: MemoryCopy) -> None:
    assert parse_copy(name, category, text) == expected


@pytest.mark.parametrize(
    ("name", "category", "text"),
    [
        ("copy-done.9", "copy-done", AWAITED),
        ("copy.1", "data formatting", "%copy.1 = f32[4]{0} copy(f32[4]{0} %a)"),
        ("copy.1", "data formatting", "%copy.1 = f32[4]{0} copy(%a)"),
        ("send.1", "send", "%send.1 = (f32[2]{0}, u32[], token[]) send(f32[2]{0} %a, token[] %t), channel_id=1"),
        ("fusion.1", "loop fusion", "%fusion.1 = f32[4]{0} fusion(f32[4]{0} %copy-start), kind=kLoop"),
        ("all-gather-start", "async-start", GATHERED),
        ("copy-start", "copy-start", "%copy-start = f32[4] copy-start("),
        ("", "", ""),
    ],
)  # fmt: skip
def test_what_is_no_copy_between_memories(name: str, category: str, text: str) -> None:
    assert parse_copy(name, category, text) is None


def test_what_waits_for_what() -> None:
    assert is_async_done("copy-done", AWAITED)
    assert not is_async_done("copy-start", FROM_HOST)
    assert is_async_done("host send-done", "")
    assert start_op_name("copy-done.9", AWAITED) == "copy-start.4"
    assert start_op_name("all-gather-done.3", "") == "all-gather-start.3"
    assert opcode_of_line(AWAITED) == "copy-done"
    assert operands_of_line(UPDATED)[1] == "f32[1,1024,256]{2,1,0} %update"
    assert operands_of_line(TO_HOST) == ["f32[1,1024,256]{2,1,0:T(8,128)} %fusion"]


def test_memories_have_names() -> None:
    spaces = ("", "S(0)", "S(1)", "S(5)", "S(6)", "S(9)")
    assert [memory_of_shape(f"f32[2]{{0:T(128){space}}}") for space in spaces] == [
        "HBM", "HBM", "VMEM", "host", "SMEM", "space 9",
    ]  # fmt: skip


@given(st.text("%a=()[]{},:ST(5) copy-startdoneinfeed,", max_size=60), st.sampled_from(["copy-start", "infeed", "x"]))
def test_no_text_makes_it_raise(text: str, category: str) -> None:
    parse_copy(text, category, text)
    start_op_name(text, text)
