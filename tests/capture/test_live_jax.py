"""Captures of real JAX jobs on loopback."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from live_jax import DEVICES, jobs

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="pip install 'tracehound[live]'"),
]

COMMAND = [sys.executable, "-m", "tracehound", "capture"]


def run(*words: str, folder: Path, expected: int = 0) -> tuple[str, str]:
    """stdout and stderr of a capture in a process of its own."""
    done = subprocess.run([*COMMAND, *words], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == expected, done.stderr
    return done.stdout, done.stderr


def query(run_folder: str, statement: str, folder: Path) -> list[dict[str, object]]:
    """The rows of an answer to a query."""
    words = [sys.executable, "-m", "tracehound", "query", run_folder, statement, "--format", "json"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, check=True)
    rows: list[dict[str, object]] = json.loads(done.stdout)["rows"]
    return rows


def test_one_process_with_many_devices(tmp_path: Path) -> None:
    with jobs("none") as (address,):
        out, err = run(address, "--duration", "1s", "--quiet", folder=tmp_path)
    assert err == ""
    ranks = query(out.strip(), "SELECT DISTINCT rank FROM events WHERE rank IS NOT NULL", tmp_path)
    assert len(ranks) == DEVICES
    assert query(out.strip(), "SELECT count(*) AS steps FROM steps", tmp_path)[0]["steps"]


def test_two_processes_are_one_run_on_one_clock(tmp_path: Path) -> None:
    with jobs("none", "none") as addresses:
        out, _ = run(",".join(addresses), "--duration", "1s", "--quiet", folder=tmp_path)
    words = [sys.executable, "-m", "tracehound", "summary", out.strip(), "--jobs", "1"]
    page = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True).stdout
    assert "xplane, 2 files, " in page
    assert f"1 host, 2 processes · {2 * DEVICES} ranks" in page


def test_a_process_that_is_not_there_costs_only_its_own_profile(tmp_path: Path) -> None:
    with jobs("none") as (address,):
        out, err = run(f"{address},127.0.0.1:1", "--duration", "500ms", "--quiet", folder=tmp_path, expected=1)
    assert "127.0.0.1:1: connection refused: " in err
    assert len(list((tmp_path / out.strip()).iterdir())) == 1


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("loader", ("data loading", "next_batch")),
        ("recompile", ("ompil",)),
        ("sleep", ("sleeping or waiting in Python", "sleep")),
    ],
)
def test_the_first_finding_names_the_planted_cause(cause: str, words: tuple[str, ...], tmp_path: Path) -> None:
    with jobs(cause) as (address,):
        out, _ = run(address, "--findings", "--format", "json", "--duration", "3s", folder=tmp_path)
    first = json.loads(out)["rows"][0]["finding"]
    assert all(word in first for word in words), first


def test_an_interrupt_keeps_what_was_recorded(tmp_path: Path) -> None:
    with jobs("none") as (address,):
        begun = time.monotonic()
        words = [*COMMAND, address, "--duration", "200s", "--quiet"]
        with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as running:
            wait_for(tmp_path, "*")
            time.sleep(2)
            running.send_signal(signal.SIGINT)
            out, _ = running.communicate(timeout=180)
        assert running.returncode == 0
        assert time.monotonic() - begun < 200
        assert query(out.strip(), "SELECT count(*) AS steps FROM steps", tmp_path)[0]["steps"]
        run(address, "--duration", "300ms", "--quiet", folder=tmp_path)  # the job is free again


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_client_that_is_killed_leaves_the_job_free(ending: signal.Signals, tmp_path: Path) -> None:
    with jobs("none") as (address,):
        with subprocess.Popen([*COMMAND, address, "--duration", "200s", "--quiet"], cwd=tmp_path) as running:
            wait_for(tmp_path, "*")
            time.sleep(2)
            running.send_signal(ending)
            running.wait(60)
        run(address, "--duration", "300ms", "--quiet", folder=tmp_path)


def test_two_captures_at_once_take_turns(tmp_path: Path) -> None:
    words = [*COMMAND, "first", "--duration", "4s", "--quiet"]
    with jobs("none") as (address,), subprocess.Popen([*words[:4], address, *words[4:]], cwd=tmp_path) as running:
        wait_for(tmp_path, "first")
        run(address, "second", "--duration", "300ms", "--quiet", folder=tmp_path)
        assert running.wait(120) == 0


def test_snapshots_of_a_job(tmp_path: Path) -> None:
    with jobs("sleep") as (address,):
        out, err = run("--snapshot", address, "--every", "2s", "--count", "2", folder=tmp_path)
        paths = out.split()
        assert len(paths) == 2
        assert " before it and at most " in err
        assert err.count("the job's memory had grown by ") == (2 if sys.platform == "linux" else 0)
        for path in paths:
            assert query(path, "SELECT count(*) AS steps FROM steps", tmp_path)[0]["steps"]
        run(address, "--duration", "300ms", "--quiet", folder=tmp_path)  # the recording has stopped


def test_snapshots_end_with_a_signal_and_stop_the_recording(tmp_path: Path) -> None:
    with jobs("sleep") as (address,):
        for ending in (signal.SIGINT, signal.SIGTERM):
            words = [*COMMAND, "--snapshot", address, str(ending.value)]
            with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
                assert running.stderr is not None
                running.stderr.readline()  # it records
                time.sleep(1)
                os.kill(running.pid, signal.SIGUSR1)
                wait_for(tmp_path / str(ending.value), "plugins/profile/*/*.pb")
                running.send_signal(ending)
                running.communicate(timeout=60)
            assert running.returncode == (0 if ending == signal.SIGINT else 128 + ending)
            run(address, "--duration", "300ms", "--quiet", folder=tmp_path)


def test_a_recording_that_a_killed_client_left_on_is_told_and_ended(tmp_path: Path) -> None:
    with jobs("sleep") as (address,):
        with subprocess.Popen([*COMMAND, "--snapshot", address], cwd=tmp_path, stderr=subprocess.PIPE) as running:
            assert running.stderr is not None
            running.stderr.readline()
            running.kill()
            running.communicate(timeout=60)
        _, err = run("--snapshot", address, folder=tmp_path, expected=2)
        assert "--restart stops it and begins anew" in err
        run("--snapshot", address, "--restart", "--every", "500ms", "--count", "1", "--quiet", folder=tmp_path)
        run(address, "--duration", "300ms", "--quiet", folder=tmp_path)


def wait_for(folder: Path, pattern: str) -> None:
    """Wait until a path appears."""
    until = time.monotonic() + 30
    while not list(folder.glob(pattern)) and time.monotonic() < until:
        time.sleep(0.05)
