"""Call paths as folded stacks."""

from __future__ import annotations

import io

from building import US, Building, stream, thread
from tracehound.export import named
from tracehound.trace import Trace, Window

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
    named(form, "x").write(of or trace(), window or Window(), out, lambda _: None)
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
    assert named("", "a.folded").name == "folded"
    assert named("", "a.device.folded").name == "device"
