"""Call paths as folded stacks."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from building import US, Building, stream, thread
from short import first
from tracehound.analysis import get_analysis as analysis
from tracehound.analysis import run_analysis
from tracehound.export import find_format
from tracehound.model.trace import Trace, Window
from tracehound.store import load_trace, open_trace_files

MAIN = thread("python (1)")


def trace() -> Trace:
    b = Building()
    b.event(MAIN, "train.py(9): main", 0, 100, "python")
    b.event(MAIN, "a;b\nc", 10, 40, "python")
    b.event(MAIN, "cudaLaunchKernel", 10, 40, "runtime", correlation=1)
    b.event(stream(), "gemm", 50, 57, correlation=1)
    return b.trace()


def lines(form: str, window: Window | None = None, of: Trace | None = None) -> list[str]:
    out = io.BytesIO()
    find_format(form, "x").write(of or trace(), window or Window(), out, lambda _: None)
    return out.getvalue().decode().splitlines()


def test_a_line_has_a_path_and_its_own_nanoseconds() -> None:
    assert lines("folded") == [
        "train.py(9): main 70000",
        "train.py(9): main;a:b c;cudaLaunchKernel 30000",
    ]


def test_device_time_stands_where_it_was_launched() -> None:
    assert lines("device") == ["train.py(9): main;a:b c;cudaLaunchKernel 7000"]


def test_a_window_clips() -> None:
    assert lines("folded", Window(30 * US, 50 * US)) == [
        "train.py(9): main 10000",
        "train.py(9): main;a:b c;cudaLaunchKernel 10000",
    ]


def test_a_frame_without_a_name_has_words() -> None:
    b = Building()
    b.event(MAIN, "", 0, 100, "python")
    b.event(MAIN, "  ", 10, 40, "python")
    assert lines("folded", of=b.trace()) == ["(no name) 70000", "(no name);(no name) 30000"]


def test_names_tell_the_form() -> None:
    assert find_format("", "a.folded").name == "folded"
    assert find_format("", "a.device.folded").name == "device"


@pytest.mark.parametrize("sample", first(2, ("torch_stacks", "torch_ddp_gloo", "jax_cpu8_b128")))
@pytest.mark.parametrize(("form", "total"), [("folded", "total"), ("device", "device_total")])
def test_the_lines_add_up_to_what_stacks_says(samples: Path, sample: str, form: str, total: str) -> None:
    """Less than a nanosecond is lost of each path."""
    trace = load_trace(open_trace_files([samples / sample]))
    rows = run_analysis(analysis("stacks"), trace).table
    whole = rows.filter(depth=0)[total].fill_null(0).sum()
    found = sum(int(line.rpartition(" ")[2]) for line in lines(form, of=trace))
    assert found == pytest.approx(whole / 1000, abs=rows.height)


def test_what_two_events_share_counts_once() -> None:
    """Two frames that overlap in part, as clocks that jump make them: 60 us are recorded, and no more."""
    b = Building()
    b.event(MAIN, "f", 0, 40, "python")
    b.event(MAIN, "g", 30, 60, "python")
    assert sorted(lines("folded", of=b.trace())) == ["f 40000", "g 20000"]
