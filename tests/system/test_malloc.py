"""Memory that is handed back: what a heap with holes weighs before and after."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tracehound.store.worker_processes import LONG_CALL_SECONDS, WorkerExecutor

STATM = Path("/proc/self/statm")
PIECE, PIECES = 64 << 10, 2048
"""Small enough for the heap, and 128 MiB together."""

held: list[bytes] = []


def _weight() -> int:
    """Pages of this process that are in memory."""
    return int(STATM.read_text().split()[1])


def _riddle() -> int:
    """Fill the heap and empty it but for its last piece, below which the C library keeps all."""
    pieces = [bytes(PIECE) for _ in range(PIECES)]
    held.append(pieces[-1])
    full = _weight()
    del pieces
    assert _weight() > full - PIECES * PIECE // 4096 // 2, "the C library hands back by itself"
    return full


def _long() -> int:
    """The same in a work that takes long."""
    full = _riddle()
    time.sleep(LONG_CALL_SECONDS)
    return full


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim") or not STATM.exists(), reason="no glibc")
def test_a_worker_hands_back_what_long_work_took() -> None:
    workers = WorkerExecutor(1, int)
    try:
        full = workers.submit(_long).result()
        left = workers.submit(_weight).result()
    finally:
        workers.kill()
    assert left < full - PIECES * PIECE // 4096 // 2


def _array() -> int:
    """Pages that go when an array of the size of a slice's is freed."""
    array = b"x" * (8 << 20)
    full = _weight()
    del array
    return full - _weight()


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt") or not STATM.exists(), reason="no glibc")
def test_a_worker_holds_an_array_for_the_next() -> None:
    workers = WorkerExecutor(1, int)
    try:
        assert workers.submit(_array).result() < 100
    finally:
        workers.kill()


def _arrays(hold: str, ask: str = "lambda work, letter: work(letter)") -> int:
    """Pages that are touched for the first time by an array of all events, after another of its size was freed."""
    program = f"""if True:
        import resource
        from tracehound.system import malloc
        from concurrent.futures import ThreadPoolExecutor
        {hold}
        def touched(letter):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            array = letter * (64 << 20)
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        ask = {ask}
        ask(touched, b"x")
        print(ask(touched, b"y"))
    """
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return int(ran.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="no glibc")
def test_who_analyses_holds_an_array_of_all_events_for_the_next() -> None:
    assert _arrays("malloc.keep_large_freed_memory()") < 100 < _arrays("malloc.keep_freed_memory()")


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="no glibc")
def test_so_do_its_threads_where_they_share_the_heap() -> None:
    in_thread = "lambda *asked: ThreadPoolExecutor(1).submit(*asked).result()"
    shared, apart = (
        _arrays(hold, in_thread)
        for hold in ("malloc.use_single_arena(); malloc.keep_large_freed_memory()", "malloc.keep_large_freed_memory()")
    )
    assert shared < 100 < apart
