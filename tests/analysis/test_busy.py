"""Rows of ids, against a dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.analysis.busy import rows_with
from tracehound.native import groups

FAR = 2**62


@pytest.mark.parametrize("compiled", [True, False])
@given(
    first=st.sampled_from([0, 7, FAR]),
    gaps=st.lists(st.sampled_from([1, 1, 1, 3, 1000]), max_size=12),
    wanted=st.lists(st.integers(-3, 30) | st.sampled_from([1006, FAR, FAR + 2, 2**63 - 1, -(2**63)]), max_size=20),
)
def test_rows_of_ids(*, compiled: bool, first: int, gaps: list[int], wanted: list[int]) -> None:
    """Of ids that follow one another, that have gaps between them, and that are far apart."""
    ids = (first + np.cumsum([0, *gaps])).tolist()
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr(groups, "library", lambda: None)
        found = rows_with(np.array(ids, np.int64), np.array(wanted, np.int64))
    assert found.tolist() == [ids.index(each) if each in ids else -1 for each in wanted]


def test_no_rows_have_no_ids() -> None:
    assert rows_with(np.empty(0, np.int64), np.array([0, -1])).tolist() == [-1, -1]
