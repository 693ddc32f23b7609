from __future__ import annotations

import pytest

from tracehound.formats.hlo.hlo_line_parser import moved_bytes, shape_bytes


@pytest.mark.parametrize(("shape", "size"), [
    ("f32[5,1024,1024,256]{3,2,1,0:T(8,128)S(5)}", 5 << 30), ("(f32[2,3]{1,0}, s8[4])", 28), ("pred[7]", 7),
    ("s4[3]", 2), ("f32[]", 4), ("token[]", 0), ("c64[2]", 16), ("f8e4m3fn[10]", 10), ("bf16[<=8,2]", 32), ("x", 0),
])  # fmt: skip
def test_bytes_of_shapes(shape: str, size: int) -> None:
    assert shape_bytes(shape) == size


@pytest.mark.parametrize(("text", "size"), [
    ("%r = f32[4]{0} all-reduce(f32[4]{0} %x)", 16),
    ("%r = (f32[4]{0}, f32[8]{0}) all-reduce(f32[4]{0} %x, f32[8]{0} %y)", 48),
    ("%s = f32[2]{0:T(8,128)} reduce-scatter(f32[4]{0:T(8,128)} %x, f32[4]{0} %y), dimensions={0}", 32),
    ("%s = f32[2]{0} reduce-scatter(%x), dimensions={0}", 8),
    ("%g = (f32[4]{0}, f32[8]{0}) all-gather-start(f32[4]{0} %x)", 32),
    ("%p = (f32[4]{0}, f32[4]{0}, u32[], u32[]) collective-permute-start(f32[4]{0} %x)", 16),
    ("%c = (f32[4]{0:S(5)}, f32[4]{0}, u32[]{:S(2)}) copy-start(f32[4]{0} %x)", 16),
    ("%reduce-scatter-start = ((f32[4]{0}), f32[2]{0}, u32[]) async-start(f32[4]{0} %x), calls=%c", 16),
    ("%s = ((f32[4]{0}), f32[2]{0}) reduce-scatter-start(f32[4]{0} %x), dimensions={0}", 16),
    ("%s = f32[2]{0} reduce-scatter-done(((f32[4]{0}), f32[2]{0}) %reduce-scatter-start)", 8),
    ("%all-to-all-start = ((f32[4]{0}), f32[4]{0}, u32[]) async-start(f32[4]{0} %x), calls=%c", 16),
    ("%s = (f32[4]{0}, u32[], token[]) send(f32[4]{0} %x, token[] %t), channel_id=4", 16),
    ("%r = (f32[4]{0}, token[]) recv-done((f32[4]{0}, u32[], token[]) %recv), channel_id=4", 16),
    ("no line of HLO", None),
])  # fmt: skip
def test_what_an_op_moves(text: str, size: int | None) -> None:
    assert moved_bytes(text) == size
