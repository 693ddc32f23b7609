from decimal import Decimal

import pytest

from tracehound.formats.kineto.arg_values import parse_byte_size, parse_int32, parse_int64, parse_natural


@pytest.mark.parametrize(
    ("said", "value"),
    [
        (7, 7),
        ("7", 7),
        ("007", 7),
        ("0x1f", 31),
        ("0X1F", 31),
        (3.0, 3),
        (Decimal(5), 5),
        ("-7", -7),
        (True, None),
        ("x", None),
        (None, None),
        (float("inf"), None),
        (2**63, None),
    ],
)
def test_whole_numbers_are_read_in_any_spelling(said: object, value: int | None) -> None:
    assert parse_int64(said) == value
    assert parse_natural(said) == parse_int32(said) == (None if value is None or value < 0 else value)


@pytest.mark.parametrize("said", [2**63, 10**40, 1e40, Decimal("1e40"), float("inf")])
def test_a_size_beyond_all_numbers_is_the_largest(said: float | Decimal) -> None:
    assert (parse_byte_size(said), parse_byte_size(-said)) == (2**63 - 1, 1 - 2**63)


@pytest.mark.parametrize("said", [7, "7", -7, 2.0, Decimal("2.0"), True, "x", None, float("nan")])
def test_any_other_size_is_a_whole_number(said: object) -> None:
    assert parse_byte_size(said) == parse_int64(said)
