"""Names that may match: against patterns tried on each name."""

from __future__ import annotations

import re

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.analysis.hosts import thread_activity
from tracehound.formats import name_filter
from tracehound.formats.kineto import categories
from tracehound.formats.name_filter import NameFilter
from tracehound.formats.runtime_names import COMMUNICATION_KERNEL, LAUNCH_CALL, WAIT_CALL

PATTERNS = (
    COMMUNICATION_KERNEL, LAUNCH_CALL, WAIT_CALL, re.compile(r"(?<!De)Linearize|[)\]](?!x)y"), re.compile("^A$", re.I),
)  # fmt: skip
WORDS = (
    "nccl", "All_Reduce", "small_gather", "a2a_", "cuda", "cuLaunchKernel", "Launch", "HostFunc", "Synchronize",
    "urEventWait", "DeLinearize", "Linearize", "]x", ")y", "a", "gemm_0x7f00", "ProfilerStep#3", " ", "é", "\n",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _few_names_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_filter, "MANY_NAMES", 1)
    monkeypatch.setattr(name_filter, "_NAMES_AT_ONCE", 3)


names = st.lists(st.lists(st.sampled_from(WORDS), max_size=3).map("".join) | st.none(), max_size=8)


@given(names)
def test_no_name_that_matches_is_left_out(texts: list[str | None]) -> None:
    for pattern in PATTERNS:
        found = NameFilter(pattern).may_match(pl.Series(texts, dtype=pl.Categorical()))
        assert all(may for may, text in zip(found, texts, strict=True) if text is not None and pattern.search(text))


def test_plain_names_are_left_out() -> None:
    texts = pl.Series(["aten::mm_request_17", "triton_softmax_0x7fab12", "model.py(17): forward", None])
    assert not NameFilter(*PATTERNS).may_match(texts).any()
    assert categories.NAMES_WITH_KINDS.may_match(texts).sum() == 0
    assert thread_activity.LAZY_TENSOR_FILTER.may_match(pl.Series([*texts, "StepMarker"])).tolist() == [False] * 4 + [
        True
    ]


def test_few_names_are_all_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_filter, "MANY_NAMES", 3)
    assert NameFilter(WAIT_CALL).may_match(pl.Series(["gemm", None])).tolist() == [True, False]
