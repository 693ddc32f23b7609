"""What is measured of a program is what it and its children took."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from measure import Limits, Program, Run, once, ratio, size_of, table

from short import some

AMPLE = Limits(60, 8 << 30)
MB = 1 << 20

needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")

HOLD = "import sys, time; held = bytearray(b'1') * int(sys.argv[1]); print(len(held), flush=True); time.sleep(3)"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLD!r}, sys.argv[1]], check=True)"


def python(code: str, *arguments: str) -> Program:
    return Program("it", (sys.executable, "-c", code, *arguments))


@needs_proc
@pytest.mark.parametrize("code", some([HOLD, CHILD], [CHILD]))
def test_memory_is_that_of_all_processes(code: str) -> None:
    run = once(python(code, str(100 * MB)), AMPLE)
    assert (run.trouble, run.output) == ("", f"{100 * MB}\n")
    assert 100 * MB < run.memory < 160 * MB
    assert run.cpu > 0


@needs_proc
def test_too_much_memory_is_stopped() -> None:
    assert once(python(HOLD, str(100 * MB)), Limits(60, 50 * MB)).trouble == "stopped at 52.4 MB of memory"


def test_what_fails_says_why() -> None:
    assert once(python("raise SystemExit('no such thing')"), AMPLE).trouble == "failed (1): no such thing"
    assert once(python(r"raise ValueError('so bad\n  and more')"), AMPLE).trouble == "failed (1): ValueError: so bad"


def test_what_prints_nonsense_is_no_result() -> None:
    program = Program("it", (sys.executable, "-c", "print(3)"), fault=lambda output: f"not {output.strip()}")
    assert once(program, AMPLE).trouble == "not 3"


def test_the_table_has_medians_and_ratios() -> None:
    programs = [
        Program("ours", ()),
        Program("theirs", (), "ours"),
        Program("gone", (), "ours", missing="not installed"),
    ]
    taken = {
        "ours": [Run(2, 1, 10 * 10**6, 0), Run(1, 1, 30 * 10**6, 0), Run(9, 1, 20 * 10**6, 0)],
        "theirs": [Run(30, 3, 50 * 10**6, 0)],
        "gone": [],
    }
    assert [line.split() for line in table(programs, taken)[2:]] == [
        ["ours", "2.00", "1.00", "20"],
        ["theirs", "30.00", "x15.0", "3.00", "x3.00", "50", "x2.50"],
        ["gone", "not", "installed"],
    ]
    assert ratio(1, 0).strip() == ""


def test_sizes() -> None:
    assert [size_of(text) for text in ("2.1G", "80M", "17")] == [2_100_000_000, 80_000_000, 17]
