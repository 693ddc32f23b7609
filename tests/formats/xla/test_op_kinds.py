"""What kind of work an HLO op is: collectives, copies and transfers, synchronous and in two halves."""

from __future__ import annotations

import pytest

from tracehound.formats.xla.op_kinds import bytes_moved_by_op, op_kind, performed_opcode


@pytest.mark.parametrize(("category", "kind"), [
    ("all-reduce", "collective"), ("all-gather-start", "collective"), ("collective-permute-done", "collective"),
    ("ragged-all-to-all", "collective"), ("all-reduce-scatter fusion", "collective"), ("copy", "copy"),
    ("copy-done", "copy"), ("send-done", "collective"),
    ("recv", "collective"), ("host send", "transfer"), ("host recv-done", "transfer"),
    ("infeed", "transfer"), ("convolution fusion", "op"),
    ("custom-call", "op"), ("psum", "op"), ("data formatting", "op"), ("", "op"),
])  # fmt: skip
def test_kinds_of_ops(category: str, kind: str) -> None:
    assert op_kind("", category) == kind


def test_a_copy_to_or_from_the_hosts_memory_is_a_transfer() -> None:
    text = "%c = f32[4]{0} copy-done((f32[4]{0}, f32[4]{0:S(5)}, u32[]) %s)"
    assert op_kind("c", "copy-done", text) == "transfer"


@pytest.mark.parametrize(("line", "kind"), [
    ("(f32[4]{0}, u32[], token[]) send(f32[4]{0} %x, token[] %t), channel_id=4", "collective"),
    ("(f32[4]{0}, u32[], token[]) send(f32[4]{0} %x, token[] %t), channel_id=4, is_host_transfer=true", "transfer"),
])  # fmt: skip
def test_sends_go_to_other_devices_unless_they_say_to_the_host(line: str, kind: str) -> None:
    assert op_kind("send.2", "send", f"%send.2 = {line}") == kind


@pytest.mark.parametrize(("handler", "kind", "size"), [
    ("xla_megascale_runtime", "collective", 16), ("tf_rendezvous", "transfer", 16),
])  # fmt: skip
def test_sends_through_the_host_to_another_slice_are_communication(handler: str, kind: str, size: int) -> None:
    said = f'is_host_transfer=true, frontend_attributes={{_xla_host_transfer_handler_name="{handler}"}}'
    text = f"%send.2 = (f32[4]{{0}}, u32[], token[]) send(f32[4]{{0}} %x, token[] %t), channel_id=4, {said}"
    assert (op_kind("send.2", "host send", text), bytes_moved_by_op("send.2", "host send", text)) == (kind, size)
    assert op_kind("send-done.2", "host send-done", f"%send-done.2 = token[] send-done(%send.2), {said}") == kind


SCATTERED = "((f32[8]{0}), f32[4]{0}, u32[])"


@pytest.mark.parametrize(("name", "category", "line", "opcode"), [
    ("reduce-scatter-start.2", "async-start", f"{SCATTERED} async-start(f32[8]{{0}} %x), calls=%c", "reduce-scatter"),
    ("done", "async-done", f"f32[4]{{0}} async-done({SCATTERED} %reduce-scatter-start.2)", "reduce-scatter"),
    ("x.2", "async-start", f"{SCATTERED} reduce-scatter-start(f32[8]{{0}} %x), channel_id=3", "reduce-scatter"),
    ("x.3", "async-done", f"f32[4]{{0}} reduce-scatter-done({SCATTERED} %x.2)", "reduce-scatter"),
    ("all-to-all-start", "async-start", "", "all-to-all"),
    ("ragged-all-to-all-done.1", "async-done", "", "ragged-all-to-all"),
    ("psum.7", "all-reduce", "f32[8]{0} all-reduce(f32[8]{0} %x)", "all-reduce"),
])  # fmt: skip
def test_what_a_generic_asynchronous_op_does_decides(name: str, category: str, line: str, opcode: str) -> None:
    text = f"%{name} = {line}" if line else ""
    assert performed_opcode(name, category, text) == opcode
    assert op_kind(name, category, text) == "collective"


def test_a_generic_asynchronous_op_may_compute() -> None:
    assert op_kind("call-start.2", "async-start", f"%call-start.2 = {SCATTERED} async-start(f32[8]{{0}} %x)") == "op"


FETCHED = "((f32[8]{0}), f32[4]{0:S(1)}, s32[]{:S(2)})"


@pytest.mark.parametrize(("name", "category", "line", "kind", "size"), [
    ("slice-start", "async-start", f"{FETCHED} async-start(f32[8]{{0}} %a), calls=%c", "copy", 16),
    ("slice-done", "async-done", f"f32[4]{{0:S(1)}} async-done({FETCHED} %slice-start)", "copy", 16),
    ("dynamic-slice-done.1", "async-done", "f32[4]{0} async-done(%dynamic-slice-start.1)", "copy", 16),
    ("copy.3", "data formatting", "f32[4]{0:S(1)} copy(f32[4]{0} %a)", "copy", 16),
    ("copy.4", "data formatting", "f32[4]{0:S(5)} copy(f32[4]{0} %a)", "transfer", 16),
    ("copy.5", "data formatting", "f32[2,2]{0,1} copy(f32[2,2]{1,0} %a)", "op", 16),
    (
        "dynamic-update-slice-done", "async-done",
        "f32[8]{0:S(5)} async-done(((f32[8]{0:S(5)}, f32[2]{0}, s32[]), f32[8]{0:S(5)}) %dynamic-update-slice-start)",
        "transfer", 8,
    ),
])  # fmt: skip
def test_what_is_a_copy(name: str, category: str, line: str, kind: str, size: int) -> None:
    text = f"%{name} = {line}"
    assert (op_kind(name, category, text), bytes_moved_by_op(name, category, text)) == (kind, size)
