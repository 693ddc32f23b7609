"""Hosts with more events than are looked at together: what is found piece by piece is what is found at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import Building, thread
from samples import sample
from short import first
from tracehound.analysis import Options, named, run
from tracehound.analysis.hosts import threads
from tracehound.analysis.hosts.doing import PROGRAM
from tracehound.analysis.hosts.launched import calls_of
from tracehound.analysis.share import shares
from tracehound.store import load, open_paths
from tracehound.trace import Trace, Window

US = 1_000_000
NAMES = ["aten::add", "aten::item", "cudaLaunchKernel", "cudaDeviceSynchronize", "train.py(1): step", "nothing"]
KINDS = ["op", "op", "runtime", "sync", "python", "other"]
EVENTS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, len(NAMES) - 1)), max_size=14)


@contextmanager
def cut(piece: int) -> Iterator[None]:
    """A context in which no more events of a host than that are looked at together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "PIECE", piece)
        yield


@given(EVENTS, st.integers(1, 5))
def test_what_a_thread_is_at_goes_on_in_the_next_piece(events: list[tuple[int, int, int]], piece: int) -> None:
    built = Building()
    built.event(thread(), "begin", 0, 0, "other")
    for start, length, number in events:
        built.event(thread(), NAMES[number], start, start + length, KINDS[number])
    trace = built.trace()
    whole = doings(trace)
    with cut(piece):
        assert doings(trace) == whole


def doings(trace: Trace) -> list[int]:
    """What the program's thread is at in every microsecond: a number of words, -1 for none."""
    (share,) = shares(trace, Window())
    found = [-1] * 50
    for doing in PROGRAM.of(share).doings.values():
        for start, end, words in zip(*doing.when, doing.words.tolist(), strict=True):
            assert start < end
            for at in range(start // US, end // US):
                assert found[at] == -1
                found[at] = words
    return found


@given(st.lists(st.none() | st.integers(0, 9), max_size=12), st.integers(1, 5))
def test_each_call_is_found_in_its_piece(launches: list[int | None], piece: int) -> None:
    built = Building()
    for number in range(10):
        built.event(thread("python" if number % 3 else "other"), f"call {number}", number, number + 1, "runtime")
    trace = built.trace()
    (share,) = shares(trace, Window())
    ids = trace.events().select("id").collect().to_series()
    asked = ids.gather(launches)
    whole = calls_of(share, asked)
    with cut(piece):
        assert calls_of(share, asked).equals(whole)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["breakdown", "step_parts", "step_time", "idle", "gaps", "launches", "host"])
@pytest.mark.parametrize("folder", first(2, ("torch_ddp_gloo", "torch_xla_spmd4", "jax_cpu8_b128")))
def test_analyses_of_real_traces(folder: str, name: str) -> None:
    same_in_pieces(sample(folder), name)


@pytest.mark.parametrize("name", ["breakdown", "step_time", "idle", "gaps", "launches"])
@pytest.mark.parametrize("folder", ["hta_ns_resolution_v100", "rocm_resnet_rank0of8"])
def test_analyses_of_gpus(shared: Path, folder: str, name: str) -> None:
    path, *_ = sorted((shared / "traces" / "kineto" / folder).glob("*.gz"))
    same_in_pieces(load(open_paths([path])), name)


def same_in_pieces(trace: Trace, name: str) -> None:
    whole = run(named(name), trace, Window(), Options(None))
    with cut(501):
        found = run(named(name), trace, Window(), Options(None))
    assert found.table.equals(whole.table)
    assert found.notes == whole.notes
