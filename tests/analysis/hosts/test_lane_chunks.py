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
from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.analysis.findings import rank_evidence
from tracehound.analysis.findings.rank_evidence import HOST_CALL_COUNTS
from tracehound.analysis.hosts import host_threads, thread_activity
from tracehound.analysis.hosts.launch_calls import launching_calls
from tracehound.analysis.hosts.thread_activity import PROGRAM_ACTIVITIES
from tracehound.analysis.rank_trace import rank_traces
from tracehound.model.trace import Trace, Window
from tracehound.store import load_trace, open_trace_files

US = 1_000_000
NAMES = [
    "aten::add", "aten::item", "cudaLaunchKernel", "cudaDeviceSynchronize", "train.py(1): step", "DataParallel.forward",
]  # fmt: skip
KINDS = ["op", "op", "runtime", "sync", "python", "annotation"]
EVENTS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, len(NAMES) - 1)), max_size=14)


@contextmanager
def cut(piece: int) -> Iterator[None]:
    """A context in which no more events of a host than that are looked at together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_threads, "CHUNK_EVENTS", piece)
        for module in (thread_activity, rank_evidence):
            patch.setattr(module, "_EVENTS_AT_ONCE", max(piece // 2, 1))
        yield


@given(EVENTS, st.integers(1, 5))
def test_what_a_thread_is_at_goes_on_in_the_next_piece(events: list[tuple[int, int, int]], piece: int) -> None:
    built = Building()
    built.event(thread(), "begin", 0, 0, "other")
    for start, length, number in events:
        built.event(thread(), NAMES[number], start, start + length, KINDS[number])
    trace = built.trace()
    (share,) = rank_traces(trace, Window())
    whole, counts = doings(trace), HOST_CALL_COUNTS.result_for(share)
    with cut(piece):
        assert doings(trace) == whole
        assert HOST_CALL_COUNTS.result_for(share).equals(counts)


def doings(trace: Trace) -> list[int]:
    """What the program's thread is at in every microsecond: a number of words, -1 for none."""
    (share,) = rank_traces(trace, Window())
    found = [-1] * 50
    for doing in PROGRAM_ACTIVITIES.result_for(share).by_lane.values():
        for start, end, words in zip(*doing.intervals, doing.codes.tolist(), strict=True):
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
    (share,) = rank_traces(trace, Window())
    ids = trace.events().select("id").collect().to_series()
    asked = ids.gather(launches)
    whole = launching_calls(share, asked)
    with cut(piece):
        assert launching_calls(share, asked).equals(whole)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["breakdown", "step_parts", "step_time", "idle", "gaps", "launches", "host"])
@pytest.mark.parametrize("folder", first(2, ("torch_ddp_gloo", "torch_xla_spmd4", "jax_cpu8_b128")))
def test_analyses_of_real_traces(folder: str, name: str) -> None:
    same_in_pieces(sample(folder), name)


@pytest.mark.parametrize("name", ["breakdown", "step_time", "idle", "gaps", "launches"])
@pytest.mark.parametrize("folder", ["hta_ns_resolution_v100", "rocm_resnet_rank0of8"])
def test_analyses_of_gpus(shared: Path, folder: str, name: str) -> None:
    path, *_ = sorted((shared / "traces" / "kineto" / folder).glob("*.gz"))
    same_in_pieces(load_trace(open_trace_files([path])), name)


def same_in_pieces(trace: Trace, name: str) -> None:
    whole = run_analysis(get_analysis(name), trace, Window(), Options(None))
    with cut(501):
        found = run_analysis(get_analysis(name), trace, Window(), Options(None))
    assert found.table.equals(whole.table)
    assert found.notes == whole.notes
