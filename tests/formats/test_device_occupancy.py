"""What a kernel fills: as recorded, as derived, and what cannot be."""

from __future__ import annotations

import polars as pl
import pytest

from building import listing
from tracehound.formats.device_occupancy import UNKNOWN_CAPACITY, DeviceCapacity, device_capacity, kernel_occupancy
from tracehound.model.file_facts import FileFacts

MI300 = DeviceCapacity(304, 2048, 192 * 2**30)


def one(of: DeviceCapacity = MI300, **told: object) -> dict[str, object]:
    """What a single kernel fills."""
    columns = {"grid": pl.String, "block": pl.String, "blocks_per_sm": pl.Float64, "occupancy": pl.Float64}
    frame = pl.DataFrame([told], schema={**columns, "in_threads": pl.Boolean})
    return kernel_occupancy(frame.with_columns(pl.col("in_threads").fill_null(value=False)), of).row(0, named=True)


def test_what_is_recorded_counts() -> None:
    found = one(grid="1080,1,1", block="256,1,1", blocks_per_sm=10.0, occupancy=0.75, of=DeviceCapacity(108, 2048, 0))
    assert found == {"blocks": 10.0, "derived": False, "occupancy": 0.75, "limit": 1.0, "strange": False}


def test_blocks_follow_from_the_grid() -> None:
    found = one(grid="152,2,1", block="256,1,1")
    assert (found["blocks"], found["derived"], found["occupancy"]) == (1.0, True, None)
    assert found["limit"] == pytest.approx(304 * 256 / (304 * 2048))


def test_extended_launches_of_hip_tell_their_grid_in_threads() -> None:
    found = one(grid="77824,1,1", block="256,1,1", in_threads=True)
    assert (found["blocks"], found["limit"]) == (1.0, pytest.approx(256 / 2048))


def test_each_side_of_such_a_grid_has_whole_blocks() -> None:
    found = one(grid="784,1,64", block="256,1,1", in_threads=True)
    assert found["blocks"] == pytest.approx(4 * 64 / 304)


@pytest.mark.parametrize("grid", ["", "0,1,1", "a,b", "-1,1,1", "1,1,1e5", None, "9" * 300])
def test_no_grid_is_no_number(grid: str | None) -> None:
    assert one(grid=grid, block="256,1,1")["blocks"] is None


def test_without_properties_nothing_is_derived() -> None:
    found = one(grid="10,1,1", block="256,1,1", of=UNKNOWN_CAPACITY)
    assert (found["blocks"], found["limit"], found["derived"]) == (None, None, False)


@pytest.mark.parametrize(
    ("told", "strange"),
    [
        ({"occupancy": 3.0}, True),
        ({"occupancy": -0.1}, True),
        ({"occupancy": float("nan")}, False),
        ({"blocks_per_sm": float("inf")}, False),
        ({"blocks_per_sm": -1.0}, True),
        ({"blocks_per_sm": 1e300}, True),
        ({"occupancy": 0.0, "blocks_per_sm": 1.0}, True),
    ],
)
def test_what_cannot_be_true_is_not_counted(told: dict[str, float], *, strange: bool) -> None:
    found = one(grid="304,1,1", block="64,1,1", **told)
    assert (found["blocks"], found["occupancy"], found["strange"]) == (1.0, None, strange)


@pytest.mark.parametrize(
    ("block", "blocks", "occupancy"),
    [("384,1,1", 0.909, None), ("384,1,1", 0.05, 0.0), ("64,1,1", 0.0125, 0.0), ("384,1,1", None, 0.0), ("", 1.0, 0.0)],
)
def test_an_occupancy_of_0_is_one_where_few_threads_run(
    block: str, blocks: float | None, occupancy: float | None
) -> None:
    """A product on Hopper, with 226 KiB of shared memory, is told to have none; 0.46 % is told as 0, 0.57 % as 1."""
    found = one(grid="30,4,1", block=block, blocks_per_sm=blocks, occupancy=0.0, of=UNKNOWN_CAPACITY)
    assert (found["occupancy"], found["strange"]) == (occupancy, occupancy is None)


def test_a_device_is_found_by_its_number_or_by_being_like_all_others() -> None:
    old = [{"id": 0, "multiProcessorCount": 80, "maxThreadsPerMultiProcessor": 2048, "totalGlobalMem": 5}]
    assert device_capacity(listing(*old), 0) == DeviceCapacity(80, 2048, 5)
    listed = [{"id": n, "numSms": 304, "maxThreadsPerMultiprocessor": 2048, "totalGlobalMem": 5} for n in range(2)]
    assert device_capacity(listing(*listed), 1) == device_capacity(listing(*listed), 7) == DeviceCapacity(304, 2048, 5)
    listed[0]["numSms"] = 100
    assert device_capacity(listing(*listed), 0).multiprocessors == 100
    assert device_capacity(listing(*listed), 7) == UNKNOWN_CAPACITY
    assert device_capacity(listing("none"), 0) == device_capacity(FileFacts(), None) == UNKNOWN_CAPACITY
    assert device_capacity(listing({"id": 0, "numSms": -3, "totalGlobalMem": True}), 0) == UNKNOWN_CAPACITY
