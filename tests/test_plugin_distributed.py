"""The distributed view of the PyTorch TensorBoard plugin beside ours, on traces with the ids of three generations.

`legacy` has External ids as PyTorch wrote them until 1.13, for which the plugin was made; `real2024` has them as they
are written today, with the ranges on the device; `nogpuann` the same without these. Ours are the same on all three. The
plugin's numbers were printed by its last release (0.4.3), in us.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from building import US
from jobs import rows
from tracehound.store import load, open_paths
from tracehound.trace import Trace, Window

VARIANTS = ("legacy", "real2024", "nogpuann")
HOST = 20
"""Length of the host's range around each collective, which the plugin counts as communication."""


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def trace(shared: Path, variant: str) -> Trace:
    return load(open_paths([shared / "golden" / "two_rank" / variant]))


def parts(trace: Trace, *names: str) -> list[list[int]]:
    """These columns of both ranks: the same in each of the three steps."""
    table = rows("distributed", trace, by="step")
    found = {
        rank: {tuple(row[name] // US for name in names) for row in table if row["rank"] == rank} for rank in (0, 1)
    }
    assert [len(each) for each in found.values()] == [1, 1]
    return [list(*each) for each in found.values()]


OVERVIEW = ("computation", "overlap", "communication", "other")

PLUGIN_OVERVIEW = {
    "legacy": [[245, 60, 170, 525], [255, 50, 80, 615]],
    "real2024": [[245, 230, 0, 525], [255, 130, 0, 615]],
    "nogpuann": None,
}
"""Today it takes NCCL's kernels for computation, too, and with the device's ranges all communication overlaps it."""


def test_computation_communication_and_their_overlap(trace: Trace, variant: str) -> None:
    """The host's range lies beside kernels: it is overlap in the plugin, and computation here."""
    ours = parts(trace, *OVERVIEW)
    assert ours == [[265, 40, 170, 525], [275, 30, 80, 615]]
    as_plugin = [[comp - HOST, over + HOST, comm, other] for comp, over, comm, other in ours]
    theirs = PLUGIN_OVERVIEW[variant]
    if variant == "legacy":
        assert as_plugin == theirs
    elif theirs is not None:  # the exposed communication of theirs is gone: it counts as overlap
        assert [[comp, over + comm, 0, other] for comp, over, comm, other in as_plugin] == theirs


PLUGIN_TRANSFERS = {
    "legacy": [[130, 100], [130, 0]],
    "real2024": [[110, 100], [110, 0]],
    "nogpuann": [[20, 0], [20, 0]],
}


def test_transfer_and_synchronising(trace: Trace, variant: str) -> None:
    """Legacy: it adds the host's range to the transfer. Without the device's ranges today it has the host's alone."""
    ours = parts(trace, "transfer", "synchronising")
    assert ours == [[110, 100], [110, 0]]
    theirs = PLUGIN_TRANSFERS[variant]
    if variant == "legacy":
        assert [[transfer + HOST, waits] for transfer, waits in ours] == theirs
    elif variant == "real2024":
        assert ours == theirs
    else:
        assert theirs == [[HOST, 0], [HOST, 0]]


def test_table_of_operations(trace: Trace, variant: str) -> None:
    """Legacy, rank 0 and 1: 3 calls, 6,000 bytes, latency 690 and 390, transfer 390; each with the host's ranges.

    Of today's traces it has 0 bytes, since the device's range that takes the place of the host's has no inputs.
    """
    del variant
    for rank, latency in ((0, 690), (1, 390)):
        (row,) = rows("collectives", trace, Window(ranks=(rank,)))
        assert (row["count"], row["bytes"], row["total"] // US) == (3, 6000, latency - 3 * HOST)
    (both,) = rows("collectives", trace)
    assert (both["message"], both["transfer"] // US, both["skew"] // US) == (2000, (390 - 3 * HOST) // 3, 100)


def test_collectives_as_tracelens_has_them(trace: Trace) -> None:
    """Latency 110, skew 100, 50 of wait on average, 0.01693 GB/s, where a GB is 2**30 bytes."""
    for row in rows("collective_calls", trace):
        assert [row[name] // US for name in ("transfer", "skew", "wait")] == [110, 100, 2 * 50]
        assert row["algorithm"] / 2**30 == pytest.approx(0.01693, abs=1e-5)
        assert row["bus"] == row["algorithm"], "of two ranks"
