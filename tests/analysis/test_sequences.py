"""Sequences of kernels that operators launch, and their counts."""

from __future__ import annotations

from building import US, Building, stream, thread
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Trace

MAIN = thread("python (1)")


def result(trace: Trace, **chosen: str) -> Result:
    return run_analysis(get_analysis("sequences"), trace, None, Options(given=tuple(sorted(chosen.items()))))


def blocks() -> Trace:
    """Twice a block of three kernels on two streams, the second with the last one longer; and one of two."""
    b = Building()
    for i, names in enumerate((("gemm", "add", "add"), ("gemm", "add", "add"), ("gemm", "add"))):
        start = 100 * i
        b.event(MAIN, "aten::block", start, start + 50, "op")
        b.event(MAIN, "aten::mm", start, start + 40, "op")
        for k, name in enumerate(names):
            correlation = 10 * i + k
            b.event(MAIN, "cudaLaunchKernel", start + 5 * k, start + 5 * k + 2, "runtime", correlation=correlation)
            b.event(stream(0, 7 + k % 2), name, start + 10 * k + 10, start + 10 * k + 15 + i, correlation=correlation)
    return b.trace()


def test_instances_with_the_same_kernels_are_one_row() -> None:
    trace = blocks()
    (row,) = result(trace).table.to_dicts()
    assert (row["operator"], row["sequence"], row["length"], row["count"]) == ("aten::block", "gemm | add x 2", 3, 2)
    assert [row[name] // US for name in ("kernels", "span", "host")] == [15 + 18, 25 + 26, 100]
    assert row["share"] == 33 / (33 + 14)
    assert trace.event(row["event"])["start"] == 100 * US


def test_shorter_ones_count_when_asked_for() -> None:
    rows = result(blocks(), length="2").table
    assert rows.select("sequence", "count").rows() == [("gemm | add x 2", 2), ("gemm | add", 1)]


def test_only_the_outermost_operators_of_a_name_are_instances() -> None:
    assert result(blocks(), operator="mm$").table["operator"].to_list() == ["aten::mm"]
    assert result(blocks(), operator="mm|block").table["operator"].to_list() == ["aten::block"]
    none = result(blocks(), operator="conv")
    assert none.table.is_empty()
    assert note_texts(none.notes)[0].startswith(
        "no operator launched 3 kernels or more: choose another length or operator"
    )
