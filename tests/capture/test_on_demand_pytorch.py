"""On-demand captures of real PyTorch processes: their Kineto polls the daemon of these tests and writes the traces."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest

from dynolog_daemon import DynologDaemon
from tracehound.capture.capture_files import create_run_folder
from tracehound.capture.dynolog import ProcessFilter
from tracehound.capture.on_demand_capture import OnDemandPlan, collect_traces, trigger_traces
from tracehound.store import load_trace, open_trace_files

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(find_spec("torch") is None, reason="pip install 'tracehound[live]'"),
]

JOB = """
import sys, time, torch
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
end = time.monotonic() + float(sys.argv[1])
steps = 0
while time.monotonic() < end:
    optimizer.zero_grad()
    model(torch.randn(32, 64)).sum().backward()
    optimizer.step()
    steps += 1
    if steps == 1:
        print("running", flush=True)
    time.sleep(0.005)
"""
"""A training job. Kineto counts iterations, and so records some, after the first step of an optimizer."""

JOB_SECONDS = 120
"""The longest that a job runs; tests end it earlier."""


@contextmanager
def daemon_with_jobs(number: int) -> Iterator[tuple[DynologDaemon, list[int]]]:
    """A daemon, and the ids of the jobs that poll it."""
    with ExitStack() as ends:
        sockets = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="dynolog")))  # names of sockets are short
        daemon = ends.enter_context(DynologDaemon(sockets))
        environment = os.environ | {
            "KINETO_USE_DAEMON": "1",
            "KINETO_IPC_SOCKET_DIR": str(sockets),
            "OMP_NUM_THREADS": "1",
        }
        jobs = list[subprocess.Popen[bytes]]()
        for _ in range(number):
            command = [sys.executable, "-c", JOB, str(JOB_SECONDS)]
            job = ends.enter_context(
                subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            )
            ends.callback(job.kill)
            jobs.append(job)
        for job in jobs:
            assert job.stdout is not None
            assert job.stdout.readline() == b"running\n"
        deadline = time.monotonic() + 60
        while len(daemon.jobs.get(0, {})) < number and time.monotonic() < deadline:
            time.sleep(0.1)
        yield daemon, [job.pid for job in jobs]


ATTEMPTS = 3
"""Kineto waits 50 ms for an answer of the daemon: on a busy machine it may fetch a request too late for the start."""


def test_two_processes_record_the_same_seconds(tmp_path: Path):
    with daemon_with_jobs(2) as (daemon, pids):
        plan = OnDemandPlan(daemon.address, tmp_path, 3000, details=("shapes", "stacks"))
        for _ in range(ATTEMPTS):
            triggered = trigger_traces(plan, 2)
            assert sorted(triggered.found.triggered) == sorted(pids)
            outcomes = collect_traces(triggered, create_run_folder(tmp_path / "logs"), lambda *_: None)
            if all(outcome.path for outcome in outcomes):
                break
    assert [outcome.problem for outcome in outcomes] == ["", ""]
    trace = load_trace(open_trace_files([outcome.path for outcome in outcomes if outcome.path]))
    assert "aten::linear" in trace.events().select(pl.col("name").cast(pl.String)).collect()["name"]
    assert len(trace.hosts) == 2
    jobs = trace.lanes.filter(pl.col("events") > 10)
    assert jobs.height == 2
    assert jobs["first"].max() < jobs["last"].min()


def test_iterations_of_one_process_chosen_by_its_parent(tmp_path: Path):
    with daemon_with_jobs(1) as (daemon, pids):
        plan = OnDemandPlan(daemon.address, tmp_path, 1000, iterations=3, processes=ProcessFilter((os.getpid(),)))
        triggered = trigger_traces(plan, 1)
        (outcome,) = collect_traces(triggered, create_run_folder(tmp_path / "logs"), lambda *_: None)
    assert (outcome.pid, outcome.problem) == (pids[0], "")
    assert outcome.path is not None
    assert outcome.path.read_text().count('"Optimizer.step#SGD.step"') in (2, 3)


def test_a_process_that_is_killed_while_it_records(tmp_path: Path):
    with daemon_with_jobs(1) as (daemon, pids):
        triggered = trigger_traces(OnDemandPlan(daemon.address, tmp_path, 60_000), 1)

        def kill_when_it_records(*_: object) -> None:
            if triggered.watches[0].state == "recording":
                os.kill(pids[0], 9)
                os.waitpid(pids[0], 0)

        (outcome,) = collect_traces(triggered, create_run_folder(tmp_path / "logs"), kill_when_it_records)
    assert outcome.problem == "it ended before its trace was written"
