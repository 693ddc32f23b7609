"""What the page of an instruction says of its executions."""

from __future__ import annotations

from pathlib import Path

import pytest

from building import Building, Lane, stream
from tracehound.analysis import get_analysis, run_analysis
from tracehound.hlo.hlo_programs import TraceProgram, executions_sentence, op_time

OPS = Lane("XLA Ops", 0, "ops")
MODULES = Lane("XLA Modules", 0, "modules")


def op(number: int, name: str) -> dict[str, object]:
    return {"op": number, "name": name, "category": "custom-call", "module": "jit_f", "program": 5}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("conv", "2 on 1 rank, in 4 kernels, 40.0 us in all, 20.0 us each, 15.0 us the longest kernel"),
        ("add", "2 on 1 rank, 8.00 us in all, 4.00 us each, 5.00 us the longest"),
        ("fused", ""),
    ],
)
def test_kernels_of_one_execution_are_one_as_in_the_table_of_ops(name: str, told: str) -> None:
    b = Building(ops=[op(0, "conv"), op(1, "add")], format="xplane")
    for at, last in ((0, 3), (100, 5)):
        b.event(MODULES, "jit_f(5)", at, at + 50, "module")
        ran = (("im2col", "conv", 0, 0, 5), ("gemm", "conv", 0, 10, 25), ("add", "add", 1, 30, 30 + last))
        for kernel, of, number, begins, ends in ran:
            b.event(stream(), kernel, at + begins, at + ends, "kernel", op=number)
            b.event(OPS, of, at + begins, at + ends, op=number)
    trace, program = b.trace(), TraceProgram("jit_f", 5, 0, Path("f"), 0, 0)
    assert executions_sentence(trace, program, name) == told
    found = run_analysis(get_analysis("hlo_ops"), trace).table.filter(name=name)
    assert [(str(n), total) for n, total in found.select("count", "total").rows()] == [
        (told.split()[0], op_time(trace, program, name)) for _ in range(bool(told))
    ]
