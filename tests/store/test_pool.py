"""Worker processes: that they work, and that they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor
from pathlib import Path

import pytest

from tracehound.store.pool import Pool


def alive(process: int) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text("utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(process: int) -> bool:
    """Whether it ends within some seconds."""
    for _ in range(100):
        if not alive(process):
            return True
        time.sleep(0.05)
    return False


def test_one_job_is_no_pool() -> None:
    assert Pool(1).executor is None


def test_workers_are_started_once_and_give_way() -> None:
    pool = Pool(2)
    try:
        assert not pool.started
        assert pool.executor is not None
        first = {pool.executor.submit(os.getpid).result() for _ in range(6)}
        again = {pool.executor.submit(os.getpid).result() for _ in range(6)}
        assert os.getpid() not in first
        assert len(first | again) <= 2
        assert pool.executor.submit(os.nice, 0).result() > os.nice(0)
        assert pool.executor.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_IGN
    finally:
        pool.close()


def test_closing_waits_for_nobody() -> None:
    pool = Pool(2)
    assert pool.executor is not None
    worker = pool.executor.submit(os.getpid).result()
    sleeping = [pool.executor.submit(time.sleep, 60) for _ in range(4)]
    pool.close()
    assert gone(worker)
    assert all(future.cancelled() or isinstance(future.exception(), BrokenExecutor) for future in sleeping)
    assert not pool.started


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="asks /proc who lives")
def test_workers_die_with_who_started_them() -> None:
    code = (
        "import os, time\nfrom tracehound.store.pool import Pool\n"
        "if __name__ == '__main__':\n    pool = Pool(2)\n"
        "    print(pool.executor.submit(os.getpid).result(), flush=True)\n"
        "    [pool.executor.submit(time.sleep, 60) for _ in range(2)]\n    time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert alive(worker)
        parent.kill()
    assert gone(worker)
