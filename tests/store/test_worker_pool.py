"""Worker processes: that they work, and that they end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from pathlib import Path

import pytest

from short import some
from tracehound.store.worker_pool import WorkerPool


def alive(process: int) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text("utf-8").rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(process: int) -> bool:
    """Whether it ends, within a time that is enough for a machine under load."""
    for _ in range(2000):
        if not alive(process):
            return True
        time.sleep(0.05)
    return False


def half_an_answer() -> None:
    """In a worker: begin to answer, and be killed."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "_serve_calls":
        frame = frame.f_back
    assert frame is not None
    os.write(frame.f_locals["pipe"].fileno(), struct.pack("!i", 1 << 20) + bytes(1000))
    os.kill(os.getpid(), signal.SIGKILL)


def killed() -> None:
    """In a worker: be killed."""
    os.kill(os.getpid(), signal.SIGKILL)


class PanicError(BaseException):
    """Like those of polars: no Exception, and made of more than another process is told."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(what)
        self.where = where


def panicking() -> None:
    """In a worker: fail in a way that cannot be pickled."""
    raise PanicError("out of range", "arrow")


@pytest.mark.parametrize("death", some((killed, half_an_answer), (half_an_answer,)))
def test_a_killed_worker_is_noticed_and_the_others_go_on(death: Callable[[], None]) -> None:
    pool = WorkerPool(2)
    assert pool.executor is not None
    try:
        other = pool.executor.submit(time.sleep, 0.5)
        with pytest.raises(BrokenExecutor):
            pool.executor.submit(death).result(600)
        assert other.result(600) is None
        assert len({pool.executor.submit(os.getpid).result(600) for _ in range(6)}) <= 2
    finally:
        pool.close()
    assert not multiprocessing.active_children()


def test_large_things_go_both_ways() -> None:
    pool = WorkerPool(2)
    assert pool.executor is not None
    large = os.urandom(3 << 20)
    try:
        assert pool.executor.submit(bytes.upper, large).result(600) == large.upper()
    finally:
        pool.close()


@pytest.mark.parametrize(
    ("work", "error"), some([(os.getpgid, ProcessLookupError), (panicking, RuntimeError)], [(panicking, RuntimeError)])
)
def test_errors_come_back(work: Callable[..., None], error: type[Exception]) -> None:
    pool = WorkerPool(2)
    assert pool.executor is not None
    try:
        with pytest.raises(error):
            pool.executor.submit(work, *([1 << 30] if work is os.getpgid else [])).result(600)
    finally:
        pool.close()


def test_one_job_is_no_pool() -> None:
    assert WorkerPool(1).executor is None


def test_workers_are_started_once_and_give_way() -> None:
    pool = WorkerPool(2)
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


@pytest.mark.thorough
def test_ctrl_c_does_not_reach_a_worker_that_begins() -> None:
    code = (  # which takes the signal also under nohup
        "import os, signal, time\nfrom tracehound.store.worker_pool import WorkerPool\n"
        "if __name__ == '__main__':\n    pool = WorkerPool(2)\n    future = pool.executor.submit(os.getpid)\n"
        "    signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "    while not future.done():\n        os.killpg(0, signal.SIGINT)\n        time.sleep(0.01)\n"
        "    print(future.exception())\n    pool.close()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600, start_new_session=True
    )
    assert (done.stdout, done.stderr) == ("None\n", "")


@pytest.mark.parametrize("end", some((signal.SIGTERM, signal.SIGHUP), (signal.SIGTERM,)))
def test_who_is_ended_says_nothing(end: signal.Signals) -> None:
    code = (  # which takes the signal also under nohup
        "import os, signal, time\nfrom tracehound.store.worker_pool import WorkerPool\n"
        f"if __name__ == '__main__':\n    signal.signal({end.value}, signal.SIG_DFL)\n    pool = WorkerPool(2)\n"
        "    print(pool.executor.submit(os.getpid).result(), flush=True)\n    time.sleep(60)"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True, **pipes) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        os.killpg(parent.pid, end)
        said = parent.communicate(timeout=600)[1]  # which ends when nobody is left to say anything
    assert (said, gone(worker)) == (b"", True)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="asks /proc for threads")
@pytest.mark.parametrize(
    ("before", "way"),
    some(
        [
            ("", "fork"),
            ("polars.select(1)", "spawn"),
            ("threading.Thread(target=time.sleep, args=[9]).start()", "spawn"),
        ],
        [("", "fork"), ("polars.select(1)", "spawn")],
    ),
)
def test_workers_are_copies_of_a_process_whose_threads_would_not_be_missed(before: str, way: str) -> None:
    code = (
        "import multiprocessing, os, threading, time, polars\n"
        "from tracehound.store.worker_pool import WorkerPool\n"
        f"if __name__ == '__main__':\n    {before}\n    pool = WorkerPool(2)\n"
        "    print(len(pool.executor.submit(polars.select, 1).result(600)))\n"
        "    print(type(multiprocessing.active_children()[0]).__name__, flush=True)\n    os._exit(0)"
    )
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # as the program has it: numpy starts no threads
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout.split() == ["1", f"{way.title()}Process"]


def test_where_there_is_no_room_for_a_process_that_is_said_and_nobody_waits() -> None:
    code = (
        "import os\nfrom tracehound.store import worker_processes as workers\n"
        "from tracehound.store.worker_pool import WorkerPool\n"
        "def full(settle, way):\n    raise workers.BrokenExecutor('no worker process can be started')\n"
        "workers._start_process, workers._can_fork = full, lambda: True\npool = WorkerPool(2)\n"
        "for future in [pool.executor.submit(os.getpid) for _ in range(4)]:\n    print(future.exception(60))\n"
        "pool.close()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout.splitlines() == ["no worker process can be started"] * 4


def test_closing_waits_for_nobody() -> None:
    pool = WorkerPool(2)
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
        "import os, time\nfrom tracehound.store.worker_pool import WorkerPool\n"
        "if __name__ == '__main__':\n    pool = WorkerPool(2)\n"
        "    print(pool.executor.submit(os.getpid).result(), flush=True)\n"
        "    [pool.executor.submit(time.sleep, 60) for _ in range(2)]\n    time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert alive(worker)
        parent.kill()
    assert gone(worker)
