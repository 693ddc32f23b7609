from __future__ import annotations

from decimal import Decimal

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.formats.json.value_columns import (
    INVALID,
    NS_PER_US,
    PS_PER_US,
    ResultsByCode,
    ValueCodes,
    parse_counts,
    to_exact_ticks,
    to_ticks,
)


@given(st.lists(st.integers(-(2**52), 2**52).map(lambda ns: Decimal(ns) / 1000), max_size=20))
def test_nanoseconds_in_floats_are_exact_below_the_bound(values):
    floats = [float(value) for value in values]
    assert to_ticks(floats, NS_PER_US).tolist() == [int(value * 1000) for value in values]


@given(st.lists(st.integers(0, 2**52).map(lambda ps: Decimal(ps) / 10**6), max_size=20))
def test_picoseconds_in_floats_are_exact_below_the_bound(values):
    found = to_ticks([float(value) for value in values], PS_PER_US)
    assert found is not None
    assert found.tolist() == [int(value * 10**6) for value in values]


def test_a_float_that_cannot_hold_nanoseconds_is_not_trusted():
    assert to_ticks([1712195495501688.123], NS_PER_US) is None
    assert to_ticks([1712195495501688.0], NS_PER_US) is None
    assert to_ticks([1712195495501688], NS_PER_US).tolist() == [1712195495501688000]
    assert to_ticks([2.0**34], PS_PER_US) is None
    assert to_ticks([float("nan")], NS_PER_US) is None
    assert to_ticks(["soon"], NS_PER_US) is None


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        (Decimal("1712195495501688.123"), 1712195495501688123),
        ("1712195495501688.123", 1712195495501688123),
        (1712195495501688, 1712195495501688000),
        (Decimal("0.0005"), 0),
        (Decimal("0.0015"), 2),
        ("soon", INVALID),
        (None, INVALID),
        ([], INVALID),
        (Decimal("NaN"), INVALID),
        (Decimal("1e999"), INVALID),
        (10**30, INVALID),
    ],
)
def test_exact_ticks(value, ns):
    assert to_exact_ticks([value], NS_PER_US).tolist() == [ns]


NUMBERS = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.decimals(-(10**16), 10**16, places=3).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["-0", "-0.5", "1.0015", "1e3", "0.000000000000000000001", "9223372036854775807", "1" * 40]),
)


@given(st.lists(st.decimals(0, 10**15, places=3).map(str), max_size=9) | st.lists(NUMBERS, max_size=9))
@pytest.mark.parametrize("per_us", [NS_PER_US, PS_PER_US])
def test_numbers_of_json_are_exact_ticks_as_decimals_are(per_us, texts):
    raws = [msgspec.Raw(text.encode()) for text in texts]
    assert to_exact_ticks(raws, per_us).tolist() == to_exact_ticks([Decimal(text) for text in texts], per_us).tolist()


def test_whole_numbers_of_any_spelling():
    values = [7, -1, None, "12", "0x1f", "0X1F", "007", 3.0, 2**63, "x", [], Decimal(5), 2**63 - 1]
    assert parse_counts(values).tolist() == [7, -1, -1, 12, 31, 31, 7, 3, -1, -1, -1, 5, 2**63 - 1]
    assert parse_counts([5, -7]).tolist() == [5, -1]


def test_codes_and_answers_grow_together():
    codes, asked = ValueCodes(), []
    length = ResultsByCode(codes, lambda text: asked.append(text) or len(text))
    assert codes.encode_values(["a", "bb", "a"], 3).tolist() == [0, 1, 0]
    assert length.results_of_codes(np.array([0, 1, 0])).tolist() == [1, 2, 1]
    assert codes.encode_values(iter(["ccc", "bb"]), 2).tolist() == [2, 1]
    assert length.results_of_codes(np.array([2, 1, 0])).tolist() == [3, 2, 1]
    assert asked == ["a", "bb", "ccc"]
