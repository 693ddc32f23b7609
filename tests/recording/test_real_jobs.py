"""Real PyTorch and JAX jobs that record themselves: their folders open, have the steps, and name what is slow."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tracehound.analysis import get_analysis, run_analysis
from tracehound.model.trace import Trace
from tracehound.store import load_trace, open_trace_files

HERE = Path(__file__).parent
PATIENCE = 300

pytestmark = pytest.mark.thorough
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
needs_jax = pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")


def start(job: str, *arguments: object) -> subprocess.Popen[str]:
    """A job in a process of its own, without what the test run has set for its own libraries."""
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    return subprocess.Popen(
        [sys.executable, HERE / job, *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def run(job: str, *arguments: object) -> tuple[str, list[str]]:
    """The output of a job that must end well, and what Tracehound has logged."""
    with start(job, *arguments) as running:
        out, errors = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0, errors
    return out, [line for line in errors.splitlines() if line.startswith("tracehound")]


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def opened(folder: Path) -> Trace:
    return load_trace(open_trace_files([folder]))


def whole_steps(trace: Trace) -> list[tuple[int, int]]:
    """The step and rank of each step; none of them may be cut off or inferred."""
    table = run_analysis(get_analysis("steps"), trace).table
    assert not table["partial"].any()
    assert not table["inferred"].any()
    return table.select("step", "rank").sort("step", "rank").rows()


def first_finding(trace: Trace) -> str:
    finding = run_analysis(get_analysis("findings"), trace).table["finding"][0]
    assert isinstance(finding, str)
    return finding


def files_left(folder: Path) -> list[str]:
    """All that is below a folder, hidden files too, without folders."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@needs_torch
def test_a_torch_job_names_what_makes_it_slow(tmp_path: Path) -> None:
    expected = {
        "loader": "data loading: ",
        "augment": "augment",
        "gc": "Python GC",
        "sleep": "sleeping or waiting in Python: <built-in function sleep>",
    }
    assert run("torch_job.py", tmp_path, *expected) == ("trained\n", [])
    for planted, said in expected.items():
        trace = opened(tmp_path / planted)
        assert whole_steps(trace) == [(3, 0), (4, 0), (5, 0)]
        assert said in first_finding(trace)
        assert files_left(tmp_path / planted) == [".first_step", "rank0.pt.trace.json"]


@needs_torch
def test_two_ranks_meet_in_each_recording(tmp_path: Path) -> None:
    out, logged = run("torch_job.py", tmp_path, "ranks", free_port())
    names = [path.name for path in sorted((tmp_path / "plugins" / "profile").iterdir())]
    assert (out, logged) == (f"{names}\n" * 2, [])
    assert len(names) == 2
    for name in names:
        trace = load_trace(open_trace_files([tmp_path], run=name))
        steps = whole_steps(trace)
        first = steps[0][0]
        assert steps == [(first + step, rank) for step in range(3) for rank in range(2)]
        assert "rank 1 is late" in first_finding(trace)


@needs_torch
def test_findings_are_written_by_a_process_that_is_waited_for(tmp_path: Path) -> None:
    assert run("torch_job.py", tmp_path, "findings") == ("trained\n", [])
    (written,) = tmp_path.rglob("findings.txt")
    assert written.read_text(encoding="utf-8").startswith("Findings · % of step time\n")
    assert files_left(tmp_path) == [".first_step", "findings.txt", "rank0.pt.trace.json"]
    assert len(whole_steps(opened(tmp_path))) == 3


@needs_torch
def test_torch_trains_on_where_the_trace_does_not_fit(tmp_path: Path) -> None:
    out, logged = run("torch_job.py", tmp_path, "full")
    assert out == "trained\n"
    (line,) = logged
    assert "recording failed at step 6: OSError: PyTorch's profiler could not write its file" in line
    assert files_left(tmp_path) == []


@needs_jax
def test_a_jax_job_names_what_makes_it_slow(tmp_path: Path) -> None:
    expected = {"loader": "load_batch", "recompile": "compiling: ", "sleep": "sleeping or waiting in Python: "}
    assert run("jax_job.py", tmp_path, *expected) == ("trained\n", [])
    for planted, said in expected.items():
        trace = opened(tmp_path / planted)
        assert whole_steps(trace) == [(3, 0), (4, 0), (5, 0)]
        assert said in first_finding(trace)
        assert files_left(tmp_path / planted) == [".first_step", "process_0.xplane.pb"]


@needs_jax
def test_two_jax_processes_record_one_run(tmp_path: Path) -> None:
    port = free_port()
    with start("jax_job.py", tmp_path, "process", 0, port) as first:
        run("jax_job.py", tmp_path, "process", 1, port)
        assert first.wait(PATIENCE) == 0
    assert files_left(tmp_path) == [".first_step", "process_0.xplane.pb", "process_1.xplane.pb"]
    assert whole_steps(opened(tmp_path)) == [(step, rank) for step in (3, 4, 5) for rank in range(2)]


@needs_jax
def test_jax_trains_on_where_the_trace_does_not_fit_and_records_again(tmp_path: Path) -> None:
    out, logged = run("jax_job.py", tmp_path, "full")
    assert out == "trained\n"
    (line,) = logged
    assert "recording failed at step 6: " in line
    assert line.endswith("; training goes on")
    assert files_left(tmp_path) == [".first_step", "process_0.xplane.pb"]
    assert len(whole_steps(opened(tmp_path / "afterwards"))) == 3
