"""Names in few cells."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from tracehound.draw.glyphs import ASCII, UNICODE


@pytest.mark.parametrize(
    ("name", "width", "cut"),
    [
        ("GPU utilization", 11, "GPU uti…ion"),
        ("Async XLA Ops", 11, "Async X…Ops"),
        ("python (25738)", 11, "python …38)"),
        ("stream 7", 11, "stream 7"),
        ("memory change", 7, "memo…ge"),
        ("memory", 1, "m"),
        ("memory", 0, ""),
        ("読み込みスレッド", 11, "読み込みス…"),
    ],
)
def test_what_is_left_out_leaves_a_sign(name: str, width: int, cut: str) -> None:
    assert UNICODE.cut(name, width) == cut
    assert cell_len(cut) <= width


def test_the_sign_is_one_of_the_alphabet() -> None:
    assert ASCII.cut("GPU utilization", 11) == "GPU uti~ion"
    assert ASCII.cut("a\x1bb", 11) == "a?b"


def test_a_bar_of_few_cells_keeps_the_beginning() -> None:
    assert UNICODE.label("ProfilerStep#5", 12) == "Profiler…p#5"
    assert UNICODE.label("ProfilerStep#5", 11) == "ProfilerSte"
