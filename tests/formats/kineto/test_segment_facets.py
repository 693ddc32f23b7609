from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.formats import KINETO
from tracehound.model.facet_schemas import FACET_SCHEMAS, empty_facet
from tracehound.model.trace import FileFrames
from tracehound.store.merge_files import merge_file_frames
from tracehound.store.saved_frames import load_frames, save_frames

START = 5_000_000


def x(cat: str, name: str, ts: float, **args: object) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": 5, "args": args}


def kernel(name: str, ts: float, **args: object) -> dict[str, Any]:
    return x("kernel", name, ts, device=0, stream=7, **args) | {"pid": 0, "tid": 7}


def memory(ts: float, **args: object) -> dict[str, Any]:
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 9, "ts": ts, "args": args}


def part(folder: Path, *events: dict[str, Any]) -> FileFrames:
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(events)}))
    return KINETO.read(path)


def rows(part: FileFrames, name: str) -> list[dict[str, Any]]:
    """The rows of a facet, without what is null."""
    frame = part.facets.get(name, empty_facet(name)).with_columns(pl.col(pl.Categorical).cast(pl.String)).collect()
    assert frame.columns == FACET_SCHEMAS[name].names()
    return [{key: value for key, value in row.items() if value is not None} for row in frame.iter_rows(named=True)]


def test_a_kernel_says_how_it_was_launched(tmp_path: Path) -> None:
    launch = {
        "grid": [128, 2, 1],
        "block": [256, 1, 1],
        "registers per thread": 32,
        "shared memory": 4096,
        "blocks per SM": 0.5,
        "warps per SM": 4,
        "est. achieved occupancy %": 25,
    }
    found = part(tmp_path, kernel("without", START), kernel("with", START + 10, **launch))
    assert rows(found, "launched") == [
        {
            "record": 1,
            "grid": "128,2,1",
            "block": "256,1,1",
            "registers": 32,
            "shared": 4096,
            "blocks_per_sm": 0.5,
            "warps_per_sm": 4.0,
            "occupancy": 0.25,
        }
    ]


def test_the_first_name_of_the_achieved_occupancy(tmp_path: Path) -> None:
    """Kineto called it theoretical until May 2021, and computed the same."""
    found = part(tmp_path, kernel("with", START, **{"theoretical occupancy %": 25}))
    assert rows(found, "launched") == [{"record": 0, "occupancy": 0.25}]


def test_an_operator_says_what_it_was_called_with(tmp_path: Path) -> None:
    shaped = {
        "Input Dims": [[32, 3, 224, 224], []],
        "Input type": ["float", "Scalar"],
        "Input Strides": [[1], []],
        "Concrete Inputs": ["", "1"],
        "Sequence number": 12,
        "Fwd thread id": 0,
    }
    old = {"Input dims": [[5, 128]], "Call stack": "train.py(3): step;model.py(7): forward"}
    found = part(tmp_path, x("cpu_op", "aten::add", START, **shaped), x("cpu_op", "aten::t", START + 9))
    assert rows(found, "called") == [
        {
            "record": 0,
            "dims": "[[32,3,224,224],[]]",
            "types": '["float","Scalar"]',
            "strides": "[[1],[]]",
            "concrete": '["","1"]',
            "sequence": 12,
            "forward": 0,
        }
    ]
    (row,) = rows(part(tmp_path, x("Operator", "aten::mm", START, **old)), "called")
    assert row == {"record": 0, "dims": "[[5,128]]", "stack": "train.py(3): step;model.py(7): forward"}


def test_a_collective_is_told_by_its_operator_and_by_its_kernel(tmp_path: Path) -> None:
    said = {
        "Collective name": "allreduce",
        "dtype": "BFloat16",
        "Process Group Name": "2",
        "Process Group Description": "tp",
        "Process Group Ranks": "[0, 1]",
        "Group size": 2,
        "Seq": 41,
        "In msg nelems": 1000,
        "Out msg nelems": 1000,
        "In split size": "[]",
        "Src Rank": 0,
        "Dst Rank": 1,
    }
    events = [
        x("cpu_op", "record_param_comms", START, **said),
        x("cpu_op", "aten::add", START + 6),
        kernel("ncclDevKernel_AllReduce", START + 10, **{"Collective name": "allreduce", "Seq": 41}),
    ]
    first, second = rows(part(tmp_path, *events), "communicated")
    assert first == {
        "record": 0,
        "collective": "allreduce",
        "dtype": "BFloat16",
        "group": "2",
        "description": "tp",
        "ranks": "[0, 1]",
        "size": 2,
        "sequence": 41,
        "elements_in": 1000,
        "elements_out": 1000,
        "split_in": "[]",
        "source": 0,
        "destination": 1,
    }
    assert second == {"record": 2, "collective": "allreduce", "sequence": 41}


def test_a_row_of_synchronization_says_what_was_waited_for(tmp_path: Path) -> None:
    """CUPTI says -1 for what it does not know, as one number of 32 bits or another."""

    def row(name: str, ts: float, **args: object) -> dict[str, Any]:
        return x("cuda_sync", name, ts, device=0, stream=20, correlation=4, **args) | {"pid": 0, "tid": 20}

    known = {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 3, "wait_on_cuda_event_id": 1}
    unknown = {"wait_on_stream": -1, "wait_on_cuda_event_record_corr_id": 4294967295}
    half = {"wait_on_stream": "7", "wait_on_cuda_event_record_corr_id": -1}
    found = part(
        tmp_path,
        row("Stream Wait Event", START, **known),
        row("Event Sync", START + 10, **unknown),
        row("Stream Sync", START + 20),
        row("Stream Wait Event", START + 30, **half),
        x("cpu_op", "aten::add", START + 40, **known),
    )
    assert rows(found, "waited") == [{"record": 0, "stream": 7, "recorded": 3}, {"record": 3, "stream": 7}]


def test_memory_is_told_on_the_clock_of_the_trace(tmp_path: Path) -> None:
    gave = {
        "Device Type": 1,
        "Device Id": 0,
        "Bytes": 512,
        "Addr": 4096,
        "Total Allocated": 512,
        "Total Reserved": 2048,
    }
    took = {"Device Type": 0, "Device Id": -1, "Bytes": -64, "Addr": 7}
    found = part(tmp_path, memory(START + 2, **gave), memory(START + 3, **took), kernel("k", START))
    first, second = rows(found, "allocated")
    assert first == {
        "record": 0,
        "time": 2_000_000,
        "device": 0,
        "bytes": 512,
        "address": 4096,
        "allocated": 512,
        "reserved": 2048,
        "thread": 9,
    }
    assert second == {"record": 1, "time": 3_000_000, "device": -1, "bytes": -64, "address": 7, "thread": 9}


def test_times_move_with_the_part(tmp_path: Path) -> None:
    late = part(tmp_path, kernel("k", START), memory(START + 2, **{"Device Type": 1, "Device Id": 0, "Bytes": 1}))
    trace = merge_file_frames("t", [late, late])
    start = trace.lane(int(trace.lanes["lane"][0]))["start"][0]
    assert trace.facets[1]["allocated"].select("time").collect().item() - start == 2_000_000


def test_records_join_events_whatever_their_order(tmp_path: Path) -> None:
    events = [kernel(f"k{number}", START + 1000 - number, grid=[number, 1, 1], block=[1, 1, 1]) for number in range(50)]
    found = part(tmp_path, *events)
    joined = found.events.join(found.facets["launched"].collect(), on="record", how="left")
    assert joined["grid"].cast(pl.String).to_list() == [f"{name[1:]},1,1" for name in joined["name"].cast(pl.String)]


def test_a_part_that_was_kept_has_its_facets(tmp_path: Path) -> None:
    found = part(
        tmp_path, kernel("k", START, grid=[1, 2, 3], block=[4, 5, 6]), x("cpu_op", "o", START, **{"Input Dims": [[1]]})
    )
    folder = tmp_path / "kept"
    folder.mkdir()
    save_frames(found, folder)
    again = load_frames(folder, found.path)
    assert again.facets.keys() == {"launched", "called"}
    assert [rows(again, name) for name in FACET_SCHEMAS] == [rows(found, name) for name in FACET_SCHEMAS]


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text(max_size=5),
    st.lists(st.integers(), max_size=3), st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)  # fmt: skip
NAMES = [
    "grid", "block", "registers per thread", "shared memory", "blocks per SM", "warps per SM",
    "est. achieved occupancy %", "theoretical occupancy %", "Input Dims", "Input type", "Concrete Inputs",
    "Sequence number", "Fwd thread id",
    "Collective name", "dtype", "Group size", "Seq", "Src Rank", "Bytes", "Addr", "Total Allocated", "Device Id",
]  # fmt: skip


@given(
    st.lists(st.tuples(st.sampled_from([kernel, x, memory]), st.dictionaries(st.sampled_from(NAMES), ODD)), max_size=8)
)
def test_whatever_the_args_are_nothing_else_of_the_event_is_lost(
    tmp_path_factory: pytest.TempPathFactory, made: list[Any]
) -> None:
    events = [
        memory(START, **args)
        if make is memory
        else kernel("k", START, **args)
        if make is kernel
        else x("cpu_op", "o", START, **args)
        for make, args in made
    ]
    found = part(tmp_path_factory.mktemp("odd"), kernel("first", START), *events)
    assert found.events.height == 1 + sum(make is not memory for make, _ in made)
    for name in found.facets:
        assert found.facets[name].collect().schema == FACET_SCHEMAS[name]
