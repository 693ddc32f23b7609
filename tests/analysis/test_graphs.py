"""Graphs: launches with equal kernels are one graph."""

from __future__ import annotations

from building import US, Building, stream, thread
from tracehound.analysis import get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.model.trace import Window

MAIN = thread("python (1)")


def launch_graph(b: Building, start: float, correlation: int, *nodes: str) -> None:
    """A graph whose nodes run for 10 us each, 5 us apart, on two streams in turn."""
    b.event(MAIN, "cudaGraphLaunch", start, start + 4, "runtime", correlation=correlation)
    for k, name in enumerate(nodes):
        b.event(stream(0, 7 + k % 2), name, start + 15 * k + 5, start + 15 * k + 15, correlation=correlation)


def test_launches_of_the_same_kernels_are_one_row() -> None:
    b = Building()
    launch_graph(b, 0, 1, "gemm", "norm", "gemm")
    launch_graph(b, 100, 2, "gemm", "norm", "gemm")
    launch_graph(b, 200, 3, "gemm", "gemm")
    b.event(MAIN, "cudaLaunchKernel", 300, 302, "runtime", correlation=4)
    b.event(stream(), "eager", 310, 330, correlation=4)
    trace = b.trace()
    result = run_analysis(get_analysis("graphs"), trace)
    first, second = result.table.to_dicts()
    assert [first[name] for name in ("first", "nodes", "launches")] == ["gemm", 3, 2]
    assert [first[name] // US for name in ("device", "span", "gaps", "mean", "max", "call")] == [60, 80, 20, 40, 40, 8]
    assert first["share"] == 0.6
    assert trace.event(first["event"])["name"] == "cudaGraphLaunch"
    assert (second["nodes"], second["launches"], second["gaps"] // US) == (2, 1, 5)
    assert note_texts(result.notes) == (
        "graphs launch 8 of 9 kernels, copies and memsets: 80.0 us (80.0 %) of device time",
    )


def test_a_window_has_its_part_of_a_launch_of_the_whole_graph() -> None:
    b = Building()
    launch_graph(b, 0, 1, "gemm", "norm", "gemm")
    launch_graph(b, 100, 2, "gemm", "norm", "gemm")
    result = run_analysis(get_analysis("graphs"), b.trace(), Window(38 * US, 125 * US))
    (row,) = result.table.to_dicts()
    assert [row[name] for name in ("first", "nodes", "launches")] == ["gemm", 3, 2]
    parts = [row[name] // US for name in ("device", "span", "gaps", "mean", "max", "call")]
    assert parts == [7 + 10 + 5, 7 + 20, 5, 13, 20, 8]
    assert note_texts(result.notes) == (
        "graphs launch 3 of 3 kernels, copies and memsets: 22.0 us (100 %) of device time",
    )


def test_a_window_between_the_nodes_of_a_launch_is_a_gap_of_it() -> None:
    b = Building()
    launch_graph(b, 0, 1, "gemm", "norm", "gemm")
    trace = b.trace()
    parts = []
    for window in (Window(16 * US, 19 * US), Window(10 * US, 33 * US), Window(33 * US, 90 * US)):
        (row,) = run_analysis(get_analysis("graphs"), trace, window).table.to_dicts()
        parts.append([row["launches"], *(row[name] // US for name in ("device", "span", "gaps"))])
    assert parts == [[1, 0, 3, 3], [1, 5 + 10, 23, 5 + 3], [1, 10, 12, 2]]


def test_without_graphs_that_is_said() -> None:
    b = Building()
    b.event(stream(), "eager", 0, 10)
    result = run_analysis(get_analysis("graphs"), b.trace())
    assert result.table.is_empty()
    assert note_texts(result.notes) == ("no launch of a CUDA or HIP graph was recorded",)
