"""Transfers: copies between memories, the speed of the link, and the time in which a device only waits for them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from building import US, Building, Lane, copied_by, stream
from finding_runs import find_row, find_rows
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.model.file_facts import FileFacts, PlaneStats
from tracehound.model.trace import Trace, Window

CORE = Lane("XLA Ops", 0, "ops", work=True)
SIZE = 1 << 20
HERE, THERE = "f32[262144]{0}", "f32[262144]{0:S(5)}"


def op(number: int, name: str, category: str, text: str) -> dict[str, object]:
    return {
        "op": number, "name": name, "category": category, "module": "jit_f", "program": 1, "framework": None,
        "source": None, "text": f"%{name} = {text}", "flops": None, "bytes_accessed": None,
    }  # fmt: skip


def copy_pair(number: int, suffix: str, source: str, target: str) -> list[dict[str, object]]:
    """A pair of ops that copy 1 MiB."""
    shape = f"({target}, {source}, u32[])"
    return [
        op(number, f"copy-start{suffix}", "copy-start", f"{shape} copy-start({source} %a)"),
        op(number + 1, f"copy-done{suffix}", "copy-done", f"{target} copy-done({shape} %copy-start{suffix})"),
    ]


OPS = [*copy_pair(0, "", THERE, HERE), *copy_pair(2, ".1", HERE, THERE)]


def transfers(trace: Trace, window: Window | None = None, by: str = "memory") -> Result:
    return run_analysis(get_analysis("transfers"), trace, window, Options(given=(("by", by),)))


def offloading_program() -> Building:
    """Two copies from the host that wait for one another, and one back that work hides but for its end."""
    b = Building(format="xplane", ops=OPS)
    b.event(CORE, "copy-start", 0, 1, "transfer", op=0)
    b.event(CORE, "copy-start", 1, 2, "transfer", op=0)
    b.event(CORE, "copy-done", 2, 12, "transfer", op=1)
    b.event(CORE, "fusion", 12, 20, "op")
    b.event(CORE, "copy-done", 20, 30, "transfer", op=1)
    b.event(CORE, "copy-start.1", 30, 31, "transfer", op=2)
    b.event(CORE, "fusion", 31, 60, "op")
    b.event(CORE, "copy-done.1", 60, 62, "transfer", op=3)
    b.event(CORE, "fusion", 62, 100, "op")
    return b


def test_copies_that_tie_come_in_the_order_of_their_modules() -> None:
    b, modules = Building(format="xplane"), ["jit_e", "jit_b", "jit_d", "jit_a", "jit_f", "jit_c"]
    for number, module in enumerate(modules):
        b.ops += [{**each, "module": module} for each in copy_pair(2 * number, "", THERE, HERE)]
        b.event(CORE, "copy-start", 100 * number, 100 * number + 1, "transfer", op=2 * number)
        b.event(CORE, "copy-done", 100 * number + 10, 100 * number + 20, "transfer", op=2 * number + 1)
    assert transfers(b.trace(), by="op").table["module"].to_list() == sorted(modules)


def test_waits_and_flights_of_each_pair_of_memories() -> None:
    result = transfers(offloading_program().trace())
    rows = result.table.rows(named=True)
    assert [
        (r["source"], r["target"], r["copies"], r["bytes"], r["in_flight"] // US, r["exposed"] // US, r["hidden"] // US)
        for r in rows
    ] == [("host", "HBM", 2, 2 * SIZE, 30, 22, 8), ("HBM", "host", 1, SIZE, 32, 3, 29)]
    assert rows[0]["rate"] == pytest.approx(2 * SIZE / 30e-6)
    assert rows[0]["exposed_share"] == pytest.approx(0.22)
    assert rows[0]["hidden_share"] == pytest.approx(8 / 30)
    assert note_texts(result.notes)[0].startswith(
        "25.0 % of device time (25.0 us) waits for copies from and to the host; HBM to host 32.8 GB/s "
        "(30.5 GiB/s), host to HBM 69.9 GB/s (65.1 GiB/s)"
    )
    assert "HBM to host 32.8 GB/s (30.5 GiB/s), host to HBM 69.9 GB/s (65.1 GiB/s)" in note_texts(result.notes)[0]
    assert note_texts(result.notes)[1].startswith("the limit is the link to host memory, not device memory or compute")


def test_by_op_the_link_is_the_same() -> None:
    result = transfers(offloading_program().trace(), by="op")
    assert result.table["name"].to_list() == ["copy-start", "copy-start.1"]
    assert result.notes[:2] == transfers(offloading_program().trace()).notes[:2]


def test_a_window_takes_the_part_of_a_copy_inside() -> None:
    rows = transfers(offloading_program().trace(), Window(45 * US, 61 * US)).table.rows(named=True)
    assert [(r["source"], r["in_flight"] // US, r["exposed"] // US, r["bytes"]) for r in rows] == [
        ("HBM", 16, 1, SIZE // 2)
    ]


def queued_copies() -> Building:
    """Three copies from the host that begin at once, of which the link moves one after another; then a slower one."""
    b = Building(format="xplane", ops=OPS)
    for number in range(3):
        b.event(CORE, "copy-start", number, number + 1, "transfer", op=0)
    for start in (10, 20, 30):
        b.event(CORE, "copy-done", start, start + 10, "transfer", op=1)
    b.event(CORE, "copy-start", 50, 51, "transfer", op=0)
    b.event(CORE, "copy-done", 51, 70, "transfer", op=1)
    return b


def test_the_link_of_a_window_is_no_faster_for_copies_that_queue_in_it() -> None:
    trace = queued_copies().trace()
    assert transfers(trace).table["bytes"].to_list() == [4 * SIZE]
    parts = {(0, 20): 1.0, (5, 15): 0.5, (15, 25): 0.75, (20, 40): 2.0, (25, 60): 2.0, (60, 70): 0.5}
    for (start, end), copies in parts.items():
        row = transfers(trace, Window(start * US, end * US)).table.row(0, named=True)
        assert row["bytes"] == pytest.approx(copies * SIZE, abs=4), (start, end)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20)), min_size=1, max_size=8), st.integers(0, 49))
@example([(1, 7), (0, 8)], 0)  # both end at once
def test_bytes_of_queues_against_instants(copies: list[tuple[int, int]], low: int) -> None:
    b = Building(
        format="xplane", ops=[each for n in range(len(copies)) for each in copy_pair(2 * n, f".{n}", THERE, HERE)]
    )
    b.event(CORE, "fusion", 0, 60, "op")
    moved: dict[int, list[int]] = {number: [] for number in range(len(copies))}
    for number, (start, length) in enumerate(copies):
        lane = Lane(f"XLA Ops {number}", 0, "ops", work=True)
        b.event(lane, f"copy-start.{number}", start, start + 0.25, "transfer", op=2 * number)
        end = start + length
        b.event(lane, f"copy-done.{number}", end - 0.25, end, "transfer", op=2 * number + 1)
    for instant in range(50):
        flying = [(start + length, n) for n, (start, length) in enumerate(copies) if start <= instant < start + length]
        if flying:
            moved[min(flying)[1]].append(instant)
    rows = transfers(b.trace(), Window(low * US, (low + 7) * US)).table.rows(named=True)
    wanted = 0.0
    for number, (start, length) in enumerate(copies):
        ran = moved[number] or list(range(start, start + length))
        wanted += sum(low <= instant < low + 7 for instant in ran) / len(ran)
    assert sum(row["bytes"] for row in rows) == pytest.approx(wanted * SIZE, abs=len(copies))


def test_a_copy_in_flight_over_the_whole_window_is_hidden_there() -> None:
    row = transfers(offloading_program().trace(), Window(40 * US, 50 * US)).table.row(0, named=True)
    assert [row[name] // US for name in ("in_flight", "exposed", "hidden")] == [10, 0, 10]


def test_the_event_of_a_row_is_the_longest_wait() -> None:
    trace = offloading_program().trace()
    assert [trace.event(event)["name"] for event in transfers(trace).table["event"]] == ["copy-done", "copy-done.1"]


def test_on_streams_kernels_hide_copies() -> None:
    b = Building()
    b.event(stream(), "gemm", 0, 10)
    b.event(stream(number=9), "Memcpy HtoD (Pinned -> Device)", 5, 15, "copy", bytes=SIZE)
    b.event(stream(number=9), "Memcpy HtoD (Pinned -> Device)", 15, 20, "copy", bytes=SIZE)
    b.event(stream(number=9), "Memset (Device)", 30, 40, "memset", bytes=SIZE)
    row = transfers(b.trace()).table.row(0, named=True)
    assert (row["source"], row["target"], row["copies"], row["bytes"]) == ("host", "device", 2, 2 * SIZE)
    assert [row[name] // US for name in ("in_flight", "exposed", "hidden")] == [15, 10, 5]


def test_a_rate_above_that_of_the_memory_is_none() -> None:
    b = Building(facts=FileFacts(planes={"/device:TPU:0": PlaneStats(peak_hbm_bw_gigabytes_per_second=1638.0)}))
    b.event(stream(), "Memcpy DtoD", 0, 1, "copy", bytes=1_700_000)
    result = transfers(b.trace())
    assert result.table["rate"].to_list() == [None]
    assert "no rate in 1 row: above 1.64 TB/s, more than the memory can do" in note_texts(result.notes)[0]


def test_a_copy_faster_than_any_memory_is_in_no_rate() -> None:
    b = Building()
    b.event(stream(), "Memcpy HtoD (Pinned -> Device)", 0, 1, "copy", bytes=1 << 28)
    b.event(stream(), "Memcpy HtoD (Pinned -> Device)", 10, 110, "copy", bytes=4096)
    b.event(stream(), "Memcpy DtoH (Device -> Pinned)", 200, 201, "copy", bytes=1 << 28)
    result = transfers(b.trace())
    rows = {row["source"]: row for row in result.table.to_dicts()}
    assert (rows["host"]["rate"], rows["host"]["bytes"]) == (4096 / 100e-6, (1 << 28) + 4096)
    assert rows["device"]["rate"] is None
    assert "host to device 41.0 MB/s (39.1 MiB/s)" in note_texts(result.notes)[0]
    assert "device to host" not in note_texts(result.notes)[0]
    assert "left out of rates: 2 copies above 8.00 TB/s" in note_texts(result.notes)


def test_a_copy_that_says_nothing_has_unknown_ends_and_no_rate() -> None:
    b = Building(format="xplane")
    b.event(stream(), "__amd_rocclr_copyBuffer.kd", 0, 1, "copy")
    for by in ("memory", "op"):
        row = transfers(b.trace(), by=by).table.row(0, named=True)
        assert (row["source"], row["target"], row["bytes"], row["rate"]) == ("unknown", "unknown", None, None)
        assert note_texts(transfers(b.trace(), by=by).notes)[0].startswith(
            "no copy has a recorded size: bytes and rates are empty"
        )


def test_copies_of_nothing_take_time_at_an_unknown_rate() -> None:
    b = Building(format="xplane", ops=copy_pair(0, "", "f32[0]{0:S(5)}", "f32[0]{0}"))
    b.event(CORE, "copy-start", 0, 1, "transfer", op=0)
    b.event(CORE, "copy-done", 1, 60, "transfer", op=1)
    b.event(CORE, "fusion", 60, 100, "op")
    found = find_row(find_rows(b.trace()), "copies from host to HBM")
    assert found["cost"] == 60 * US
    assert "at an unknown rate" in found["evidence"]


def test_copies_without_a_size_are_in_no_rate() -> None:
    b = Building()
    b.event(stream(), "CopyHostToDevice", 0, 10, "copy", bytes=SIZE)
    b.event(stream(), "CopyHostToDevice", 10, 40, "copy")
    b.event(stream(), "CopyHostToDevice", 50, 60, "copy", bytes=SIZE)
    for by in ("memory", "op"):
        result = transfers(b.trace(), by=by)
        row = result.table.row(0, named=True)
        assert (row["copies"], row["bytes"], row["in_flight"]) == (3, 2 * SIZE, 50 * US)
        assert row["rate"] == pytest.approx(2 * SIZE / 20e-6)
        assert "; host to device 105 GB/s (97.7 GiB/s)" in note_texts(result.notes)[0]
        unsized = note_texts(result.notes)[2]
        assert unsized == "1 of 3 copies have no recorded size: bytes and rates are of the others"
    mean = run_analysis(get_analysis("bandwidth"), b.trace()).table["mean"].item()
    assert mean == pytest.approx(row["rate"])


def test_where_all_sizes_are_known_nothing_is_said_of_them() -> None:
    assert not any("no size" in note for note in note_texts(transfers(offloading_program().trace()).notes))


def test_the_call_that_launched_a_copy_tells_its_ends() -> None:
    trace = copied_by("hipMemcpyHtoDAsync", "hipMemcpyDtoHAsync", "hipMemcpyDtoDAsync", "hipMemcpyAsync").trace()
    assert set(transfers(trace).table.select("source", "target").iter_rows()) == {
        ("host", "device"), ("device", "host"), ("device", "device"), ("unknown", "unknown"),
    }  # fmt: skip
    window = transfers(trace, Window(0, 12 * US)).table.row(0, named=True)
    assert (window["source"], window["target"], window["in_flight"]) == ("host", "device", 7 * US)


def test_the_pageable_and_the_shared_memory_of_xpus_are_the_hosts() -> None:
    b = Building()
    b.event(stream(), "Memcpy M2D (MEMORY(Unknown) -> DEVICE)", 0, 10, "copy", bytes=SIZE)
    b.event(stream(), "Memcpy S2D (SHARED -> DEVICE)", 10, 20, "copy", bytes=SIZE)
    b.event(stream(), "Memcpy D2M (DEVICE -> MEMORY(Unknown))", 30, 40, "copy", bytes=SIZE)
    rows = transfers(b.trace()).table.select("source", "target", "copies").rows()
    assert sorted(rows) == [("device", "host", 1), ("host", "device", 2)]


def test_where_there_is_none_the_reason_is_said() -> None:
    assert "profile with ProfilerActivity.CUDA" in note_texts(transfers(Building().trace()).notes)[0]
    assert "share the host's memory" in note_texts(transfers(Building(format="xplane").trace()).notes)[0]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(1, 15)), min_size=1, max_size=12))
def test_flights_and_waits_against_instants(copies: list[tuple[bool, int, int]]) -> None:
    b = Building()
    b.event(stream(), "gemm", 10, 30)
    flying: dict[bool, set[int]] = {True: set(), False: set()}
    for number, (from_host, start, length) in enumerate(copies):
        name = "Memcpy HtoD" if from_host else "Memcpy DtoH"
        b.event(stream(number=10 + number), name, start, start + length, "copy", bytes=8)
        flying[from_host] |= set(range(start, start + length))
    for row in transfers(b.trace()).table.rows(named=True):
        mine = flying[row["source"] == "host"]
        alone = {instant for instant in mine if not 10 <= instant < 30}
        measured = [row[name] // US for name in ("in_flight", "exposed", "hidden")]
        assert measured == [len(mine), len(alone), len(mine) - len(alone)]


def test_a_copy_of_no_length_counts_where_all_ends() -> None:
    b = Building()
    b.event(stream(), "kernel", 0, 40)
    b.event(stream(), "Memcpy HtoD (Pageable -> Device)", 40, 40, "copy", bytes=10)
    (row,) = transfers(b.trace()).table.rows(named=True)
    assert (row["copies"], row["bytes"], row["in_flight"]) == (1, 10, 0)


def test_what_takes_no_time_tells_no_speed() -> None:
    b = Building()
    b.event(stream(), "Memcpy HtoD (Pageable -> Device)", 10, 10, "copy", bytes=1_000_000)
    b.event(stream(), "Memcpy HtoD (Pageable -> Device)", 20, 30, "copy", bytes=10)
    b.event(stream(), "kernel", 0, 40)
    (row,) = transfers(b.trace()).table.rows(named=True)
    assert (row["copies"], row["bytes"], row["rate"]) == (2, 1_000_010, 1e6)
    (part,) = transfers(b.trace(), Window(20 * US, 20 * US + 100_000)).table.rows(named=True)
    assert (part["bytes"], part["rate"]) == (0, pytest.approx(1e6))
