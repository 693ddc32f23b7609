"""Bandwidth of copies: examples, the time series, and a comparison with a simple loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import US, Building, Lane, copied_by, stream
from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.analysis.bandwidth import bandwidth_series
from tracehound.analysis.devices.device_copies import copy_kind
from tracehound.analysis.rank_trace import rank_traces
from tracehound.draw.notes import note_texts
from tracehound.model.notes import note
from tracehound.model.trace import Trace, Window

HTOD = "Memcpy HtoD (Pinned -> Device)"
DTOH = "Memcpy DtoH (Device -> Pageable)"
MB = 1_000_000
"""Bytes that take a microsecond at 1 TB/s, or a second at 1 MB/s."""


def copies(*rows: tuple[float, float, int | None], name: str = HTOD) -> Building:
    """Copies by start, end and bytes, each on a stream of its own."""
    b = Building()
    for number, (start, end, size) in enumerate(rows):
        b.event(stream(0, number), name, start, end, "copy", bytes=size)
    return b


def bandwidth_rows(trace: Trace, window: Window | None = None, **settings: str) -> dict[str, dict[str, Any]]:
    result = run_analysis(get_analysis("bandwidth"), trace, window, Options(given=tuple(settings.items())))
    return {row["kind"]: row for row in result.table.iter_rows(named=True)}


def bandwidth_changes(trace: Trace, window: Window | None = None) -> dict[str, list[tuple[int, int]]]:
    """The series of all kinds: instants in us, and MB/s."""
    return {
        found.name: list(zip((found.time // US).tolist(), (found.value // MB).tolist(), strict=True))
        for share in rank_traces(trace, window or Window())
        for found in bandwidth_series(share)
    }


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [
        (HTOD, "copy", "HtoD"),
        (DTOH, "copy", "DtoH"),
        ("Memcpy DtoD (Device -> Device)", "copy", "DtoD"),
        ("Memcpy PtoP (Device -> Device)", "copy", "PtoP"),
        ("CopyHostToDevice", "copy", "HtoD"),
        ("UM_BYTES_TRANSFER_DTOH", "copy", "DtoH"),
        ("CopyDeviceToDevice", "copy", "DtoD"),
        ("MEMORY_COPY_DEVICE_TO_HOST", "copy", "DtoH"),
        ("MemcpyD2D", "copy", "DtoD"),
        ("hipMemcpyDtoHAsync", "copy", "DtoH"),
        ("Memcpy M2D (MEMORY(Unknown) -> DEVICE)", "copy", "HtoD"),
        ("Memcpy D2M (DEVICE -> MEMORY(Unknown))", "copy", "DtoH"),
        ("Memcpy S2D (SHARED -> DEVICE)", "copy", "HtoD"),
        ("Memcpy M2S", "copy", "HtoH"),
        ("hipMemcpy2DToArray", "copy", "hipMemcpy2DToArray"),
        ("__amd_rocclr_copyBuffer", "copy", "__amd_rocclr_copyBuffer"),
        ("async-copy.12", "transfer", "async-copy"),
        ("copy_to_here", "copy", "copy_to_here"),
        ("Memset (Device)", "memset", "memset"),
        ("FillBuffer", "memset", "memset"),
    ],
)
def test_kinds_of_copies(name: str, kind: str, told: str) -> None:
    assert copy_kind(name, kind) == told


def test_the_call_that_launched_a_copy_tells_its_direction_where_its_name_does_not() -> None:
    found = bandwidth_rows(
        copied_by("hipMemcpyHtoDAsync", "hipMemcpyDtoHAsync", "hipMemcpyHtoDAsync", "hipMemcpyAsync", None).trace()
    )
    silent = "__amd_rocclr_copyBuffer.kd"
    assert {kind: row["copies"] for kind, row in found.items()} == {"HtoD": 2, "DtoH": 1, silent: 2}


def test_the_name_of_a_copy_comes_before_that_of_its_call() -> None:
    assert copy_kind(HTOD, "copy", "hipMemcpyDtoHAsync") == "HtoD"
    assert copy_kind("Memset (Device)", "memset", "hipMemcpyDtoHAsync") == "memset"


def test_copies_that_overlap_add_up() -> None:
    trace = copies((0, 10, 100), (5, 15, 200)).trace()
    assert bandwidth_changes(trace) == {"HtoD": [(0, 10), (5, 30), (10, 20), (15, 0)]}
    found = bandwidth_rows(trace)["HtoD"]
    assert (found["copies"], found["bytes"], found["busy"]) == (2, 300, 15 * US)
    assert (found["mean"], found["p50"], found["max"], found["at"]) == (20 * MB, 20 * MB, 30 * MB, 5 * US)
    assert (found["points"], found["point_mean"], found["share"]) == (3, 20 * MB, 1)


def test_copies_that_touch_do_not_add_up() -> None:
    trace = copies((0, 10, 100), (10, 20, 300)).trace()
    assert bandwidth_changes(trace) == {"HtoD": [(0, 10), (10, 30), (20, 0)]}
    assert bandwidth_rows(trace)["HtoD"]["max"] == 30 * MB


def test_each_kind_has_its_own_and_pinned_memory_is_no_kind() -> None:
    b = copies((0, 10, 100))
    b.event(stream(0, 8), "Memcpy HtoD (Pageable -> Device)", 20, 30, "copy", bytes=100)
    b.event(stream(0, 8), DTOH, 40, 45, "copy", bytes=100)
    b.event(stream(0, 9), "Memset (Device)", 0, 40, "memset", bytes=400)
    found = bandwidth_rows(b.trace())
    assert {kind: (row["copies"], row["busy"] // US) for kind, row in found.items()} == {
        "memset": (1, 40), "HtoD": (2, 20), "DtoH": (1, 5),
    }  # fmt: skip
    assert list(found) == ["memset", "HtoD", "DtoH"]


@pytest.mark.parametrize("row", [(20, 20, 100), (20, 30, None), (20, 30, 0), (20, 21, 9 * MB)])
def test_what_cannot_be_true_is_told_and_left_out(row: tuple[int, int, int | None]) -> None:
    trace = copies((0, 10, 100), row).trace()
    assert bandwidth_changes(trace) == {"HtoD": [(0, 10), (10, 0)]}
    found = bandwidth_rows(trace)["HtoD"]
    assert (found["copies"], found["unmeasured"], found["bytes"], found["max"]) == (2, 1, 100, 10 * MB)
    (text,) = note_texts(run_analysis(get_analysis("bandwidth"), trace).notes)
    assert text.startswith(
        "1 copy without a bandwidth (length 0, unknown size, or above 8,000 GB/s; first HtoD on rank 0)"
    )
    assert "1 copy without a bandwidth (length 0, unknown size, or above 8,000 GB/s; first HtoD on rank 0)" in text


def test_what_can_be_true_is_a_setting() -> None:
    trace = copies((0, 1, 9 * MB)).trace()
    assert bandwidth_rows(trace)["HtoD"]["max"] is None
    assert bandwidth_rows(trace, peak="9000")["HtoD"]["max"] == 9 * MB * MB


def test_short_copies_are_rough_where_durations_are_whole() -> None:
    told = note_texts(run_analysis(get_analysis("bandwidth"), copies((0, 4, 100), (10, 15, 100)).trace()).notes)
    assert told == ("bandwidth of 1 copy of at most 4.00 us is rough: durations are whole microseconds",)
    assert not run_analysis(get_analysis("bandwidth"), copies((0, 4, 100), (10, 15.5, 100)).trace()).notes


@pytest.mark.parametrize(
    ("start", "end", "size", "stated", "length"),
    [
        (0, 1, 832, 0.5652173913043478, 1.472),  # 832 bytes in 1,472 ns
        (5, 5, 6, 0.007537688442211055, 0.796),  # shorter than a microsecond
        (0, 3, 3000, 1.0, 3),
        (0, 3, 3999, 1.0, 3.999),
        (0, 3, 4000, 1.0, 3),  # not by this clock: 4 us
        (0, 3, 2999, 1.0, 3),
        (0, 2, 1000, 0.0, 2),
        (0, 2, 1000, -1.0, 2),
        (0, 2, 1000, 1e-300, 2),
        (0, 2, 1000, None, 2),
    ],
)
def test_whole_microseconds_are_made_exact_by_the_bandwidth_of_the_file(
    start: float, end: float, size: int, stated: float | None, length: float
) -> None:
    """The file's figure counts if it rounds down to the recorded length; other files have exact times."""
    b = copies((start, end, size), (50, 90, 4000))
    for number, row in enumerate(b.rows):
        row["record"] = number
    b.facets["copied"] = [{"record": 0, "bandwidth": stated}]
    row = bandwidth_rows(b.trace())["HtoD"]
    assert row["busy"] == round((40 + length) * US)
    assert row["max"] == max(round(size / length * 1e6), 4000 * 10**6 // 40)
    b.rows[1]["end"] = round(90.5 * US)
    assert bandwidth_rows(b.trace())["HtoD"]["busy"] == round((40.5 + end - start) * US)


def test_a_window_cuts_copies_and_what_they_move() -> None:
    trace = copies((0, 10, 100), (5, 15, 200), (50, 60, 100)).trace()
    window = Window(8 * US, 20 * US)
    assert bandwidth_changes(trace, window) == {"HtoD": [(8, 30), (10, 20), (15, 0)]}
    found = bandwidth_rows(trace, window)["HtoD"]
    assert (found["copies"], found["bytes"], found["busy"] // US) == (2, 160, 7)
    assert found["mean"] == pytest.approx(160 / 7 * MB)
    assert found["share"] == pytest.approx(7 / 12)
    assert (found["points"], found["at"]) == (1, 8 * US)


def test_of_a_device_without_streams_the_asynchronous_lines_count() -> None:
    b = Building()
    ops, later = Lane("XLA Ops", 0, "ops", work=True), Lane("Async XLA Ops", 0, "async")
    b.event(ops, "copy-start.1", 0, 1, "transfer", bytes=100)
    b.event(ops, "copy-done.1", 9, 10, "transfer", bytes=100)
    b.event(later, "async-copy.1", 0, 10, "transfer", bytes=100)
    b.event(later, "all-reduce.1", 0, 10, "collective", bytes=100)
    assert bandwidth_changes(b.trace()) == {"async-copy": [(0, 10), (10, 0)]}
    assert note("copies_queued") in run_analysis(get_analysis("bandwidth"), b.trace()).notes


def test_ranks_without_copies_are_told() -> None:
    b = copies((0, 10, 1000))
    assert not run_analysis(get_analysis("bandwidth"), b.trace()).notes
    b.event(stream(1), "gemm", 0, 10)
    b.event(stream(2), "gemm", 0, 10)
    told = run_analysis(get_analysis("bandwidth"), b.trace())
    assert told.table["rank"].to_list() == [0]
    (only,) = note_texts(told.notes)
    assert only == "no copies on ranks 1-2: none were recorded on a stream or an asynchronous line"
    assert not run_analysis(get_analysis("bandwidth"), b.trace(), Window(ranks=(0,))).notes
    (only,) = note_texts(run_analysis(get_analysis("bandwidth"), b.trace(), Window(ranks=(0, 2))).notes)
    assert only.startswith("no copies on rank 2: ")


def test_copies_on_streams_are_not_said_to_queue() -> None:
    b = Building()
    b.event(stream(), "Memcpy HtoD", 0, 10, "copy", bytes=100)
    assert run_analysis(get_analysis("bandwidth"), b.trace()).notes == ()


def test_the_longest_copy_is_led_to() -> None:
    trace = copies((0, 10, 100), (5, 25, 200)).trace()
    assert trace.event(bandwidth_rows(trace)["HtoD"]["event"])["start"] == 5 * US


COPIES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 5)), min_size=1, max_size=10)
BOUNDS = st.one_of(st.none(), st.tuples(st.integers(0, 25), st.integers(1, 20)))


@given(COPIES, BOUNDS)
def test_against_a_loop(made: list[tuple[int, int, int]], bounds: tuple[int, int] | None) -> None:
    """Microsecond by microsecond; bandwidths are multiples of 1 MB/s."""
    b = copies(*((start, start + length, speed * length) for start, length, speed in made))
    b.event(stream(0, 99), "k", 0, 50)
    trace = b.trace()
    low, high = (0, 50) if bounds is None else (bounds[0], min(sum(bounds), 50))
    window = Window() if bounds is None else Window(low * US, high * US)
    now = [sum(v for s, n, v in made if s <= t < s + n) for t in range(low, high)]
    found, told = bandwidth_rows(trace, window), bandwidth_changes(trace, window)
    running = sorted(value for value in now if value)
    if not running:
        assert all(row["mean"] is None and row["busy"] == 0 for row in found.values())
        return
    row = found["HtoD"]
    assert (row["busy"] // US, row["bytes"]) == (len(running), sum(now))
    assert row["mean"] == pytest.approx(sum(now) / len(running) * MB)
    assert (row["p50"] // MB, row["max"] // MB) == (running[-(-len(running) // 2) - 1], running[-1])
    assert row["at"] // US == low + now.index(running[-1])
    assert row["share"] == pytest.approx(len(running) / (high - low))
    assert [([0] + [value for at, value in told["HtoD"] if at <= t])[-1] for t in range(low, high)] == now
    if bounds is None:
        moves = [(s, 0, v) for s, n, v in made if n and v] + [(s + n, 1, -v) for s, n, v in made if n and v]
        moves.sort(key=lambda move: move[:2])
        points = [value for value in np.cumsum([v for *_, v in moves]).tolist() if value > 0]
        assert row["points"] == len(points)
        assert row["point_mean"] == pytest.approx(np.mean(points) * MB)
