"""Captures of a real TensorFlow job, where TRACEHOUND_TEST_TENSORFLOW names a Python that has TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from live_jax import free_port

PYTHON = os.environ.get("TRACEHOUND_TEST_TENSORFLOW", "")

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not PYTHON, reason="TRACEHOUND_TEST_TENSORFLOW names no Python with TensorFlow"),
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The profiler server of a job that steps."""
    port = free_port()
    job = Path(__file__).parents[1] / "live_tensorflow.py"
    with subprocess.Popen([PYTHON, job, str(port)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"stepping\n"
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()


def run(*words: str, folder: Path) -> str:
    command = [sys.executable, "-m", "tracehound", "capture", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_input_pipeline_is_the_first_finding(address: str, tmp_path: Path) -> None:
    out = run(address, "--findings", "--python-tracer-level", "0", "--format", "csv", folder=tmp_path)
    assert "input" in out.splitlines()[1]


def test_a_summary_with_python_calls(address: str, tmp_path: Path) -> None:
    assert "Findings" in run(address, "--summary", "--duration", "1s", folder=tmp_path)
