"""What a file tells of its kernels, found by their records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracehound.formats import device_occupancy
from tracehound.formats.device_occupancy import index_launch_rows
from tracehound.model.facet_schemas import FACET_SCHEMAS

RECORDS = st.lists(st.integers(-3, 60), max_size=30)


@pytest.mark.parametrize("on_disk", [True, False])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=RECORDS, wanted=RECORDS, ordered=st.booleans())
def test_what_is_told_around_records_has_all_of_them(
    tmp_path: Path, records: list[int], wanted: list[int], *, on_disk: bool, ordered: bool
) -> None:
    facet = pl.DataFrame({"record": sorted(records) if ordered else records}, {"record": pl.Int64()})
    facet = facet.select(
        pl.lit(None, dtype).alias(name) if name != "record" else pl.col(name)
        for name, dtype in FACET_SCHEMAS["launched"].items()
    ).with_columns(occupancy=pl.int_range(pl.len()).cast(pl.Float64))
    if on_disk:
        facet.write_ipc(tmp_path / "facet.arrow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_occupancy, "_STRIDE", 3)
        patch.setattr(device_occupancy, "_STRIDES_AT_ONCE", 2)
        known = index_launch_rows(pl.scan_ipc(tmp_path / "facet.arrow") if on_disk else facet.lazy())
        around = known.around(np.array(wanted, np.int64))
    assert around["record"].is_sorted()
    rows = facet.select("record", "occupancy").rows()
    found = around.select("record", "occupancy").rows()
    assert sorted(row for row in found if row[0] in wanted) == sorted(row for row in rows if row[0] in wanted)
    if ordered and records and wanted:
        low, high = (
            int(np.searchsorted(sorted(records), bound, side))
            for bound, side in ((min(wanted), "left"), (max(wanted), "right"))
        )
        assert len(found) <= high - low + 6, "and few others"
