"""What allocators tell, from the events of the host to facets, counters and the analysis."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.analysis import get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.formats import FORMATS
from tracehound.model.facet_schemas import FACET_SCHEMAS
from tracehound.model.notes import note
from tracehound.model.trace import FileFrames, Window
from tracehound.store import merge_file_frames
from xspaces import Event, Line, Plane, Stat, space

XPLANE = next(each for each in FORMATS if each.name == "xplane")
US = 1_000_000


def given_back(time: int, allocated: int, stack: int, free: int, *more: Stat, name: str = "MemoryAllocation") -> Event:
    stats = [Stat("bytes_allocated", 4, allocated), Stat("bytes_reserved", 4, stack), Stat("bytes_available", 4, free)]
    return Event(name, time * US, 0, [*stats, *more])


def on(device: int) -> Stat:
    return Stat("index_on_host", 4, device)


def read(folder: Path, *planes: Plane) -> FileFrames:
    path = folder / "vm.xplane.pb"
    path.write_bytes(space(*planes))
    return XPLANE.read(path)


HOST = Plane("/host:CPU", [
    Line("main/1", [
        given_back(10, 100, 0, 900, on(2), Stat("allocation_bytes", 4, 100), Stat("addr", 3, 64),
                   Stat("fragmentation", 2, 0.25), Stat("peak_bytes_in_use", 4, 400), Stat("tf_op", 5, "(null)")),
        given_back(30, 50, 300, 650, on(2), Stat("allocation_bytes", 4, 50), Stat("fragmentation", 4, 0),
                   Stat("peak_bytes_in_use", 4, 400), name="MemoryDeallocation"),
        Event("other", 40 * US, 5, [Stat("fragmentation", 2, 9.5)]),
    ]),
    Line("python/2", [
        given_back(20, 200, 300, 500, on(2), Stat("allocation_bytes", 4, 100), Stat("fragmentation", 2, 0.5)),
        given_back(25, 7, 0, 1, Stat("allocator_name", 5, "xla_gpu_host_bfc"), Stat("requested_bytes", 4, 5)),
    ], id=2),
])  # fmt: skip
TPU = Plane("/device:TPU:2", [Line("XLA Ops", [Event("add", 0, 60 * US)], 2)])


def test_the_events_of_allocators_are_a_facet(tmp_path: Path) -> None:
    held = read(tmp_path, TPU, HOST).facets["held"].collect()
    assert held.schema == FACET_SCHEMAS["held"]
    columns = ("time", "allocator", "device", "bytes", "allocated", "stack", "free", "fragmentation", "framework")
    assert held.select(columns).rows() == [
        (10 * US, None, 2, 100, 100, 0, 900, 0.25, None), (20 * US, None, 2, 100, 200, 300, 500, 0.5, None),
        (25 * US, "xla_gpu_host_bfc", None, None, 7, 0, 1, None, None),
        (30 * US, None, 2, -50, 50, 300, 650, 0.0, None),
    ]  # fmt: skip


def test_what_is_held_is_a_counter_of_the_device(tmp_path: Path) -> None:
    part = read(tmp_path, TPU, HOST)
    counters = part.lanes.filter(role="counter")
    assert counters.select("name", "rank", "unit").rows() == [
        ("memory", 0, "bytes"), ("memory of xla_gpu_host_bfc", None, "bytes"),
    ]  # fmt: skip
    first = counters["lane"][0]
    assert part.counters.filter(lane=first).select("time", "value").rows() == [
        (10 * US, 100.0), (20 * US, 500.0), (30 * US, 350.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "rank"), [("TPU_2_bfc", 0), ("device_2_pool", 0), ("TPU_3_bfc", None), ("CPU_2_bfc", None), ("bfc", None)]
)
def test_an_allocator_is_on_the_device_of_its_name_in_the_timeline_and_the_table(
    tmp_path: Path, name: str, rank: int | None
) -> None:
    host = Plane("/host:CPU", [Line("main/1", [given_back(10, 100, 0, 900, Stat("allocator_name", 5, name))])])
    part = read(tmp_path, TPU, host)
    assert part.lanes.filter(role="counter").select("name", "rank").rows() == [(f"memory of {name}", rank)]
    table = run_analysis(get_analysis("allocator"), merge_file_frames("t", [part])).table
    assert table.select("allocator", "rank").rows() == [(name, rank)]


def test_an_allocator_has_a_peak_and_what_was_so_then(tmp_path: Path) -> None:
    trace = merge_file_frames("t", [read(tmp_path, TPU, HOST)])
    result = run_analysis(get_analysis("allocator"), trace)
    names = (
        "allocator",
        "rank",
        "peak",
        "at",
        "share",
        "fragmentation",
        "worst",
        "lifetime",
        "given",
        "taken",
        "largest",
    )
    device, host = result.table.select(names).rows()
    assert device == ("device 2", 0, 500, 20 * US, 0.5, 0.5, 0.5, 400, 2, 1, 100)
    assert host == ("xla_gpu_host_bfc", None, 7, 25 * US, 7 / 8, None, None, None, 0, 1, None)
    assert note_texts(result.notes) == (
        "device 2 peaked at 500 B (50.0 % of its capacity)",
        "fragmentation: more than 25.0 % of free memory was outside of the largest free block at 1 peak",
    )
    event = trace.event(result.table["event"][0])
    assert (event["name"], event["start"]) == ("MemoryAllocation", 20 * US)
    (windowed,) = (
        run_analysis(get_analysis("allocator"), trace, Window(28 * US, 40 * US)).table.select("peak", "first").rows()
    )
    assert windowed == (350, 350)


def test_without_such_events_that_is_said(tmp_path: Path) -> None:
    part = read(tmp_path, TPU, Plane("/host:CPU", [Line("main/1", [Event("f", 0, 10)])]))
    assert "held" not in part.facets
    result = run_analysis(get_analysis("allocator"), merge_file_frames("t", [part]))
    assert (result.table.height, result.notes) == (0, (note("no_allocator_events", level="missing"),))


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=8))
def test_fractions_are_read_as_they_are(tmp_path_factory: pytest.TempPathFactory, values: list[float]) -> None:
    events = [given_back(at, 1, 0, 1, on(0), Stat("fragmentation", 2, value)) for at, value in enumerate(values)]
    part = read(tmp_path_factory.mktemp("held"), Plane("/host:CPU", [Line("main/1", events)]))
    found = part.facets["held"].collect()["fragmentation"].to_list()
    assert found == [None if math.isnan(value) else value for value in values]
    assert run_analysis(get_analysis("allocator"), merge_file_frames("t", [part])).table.height == 1
