from decimal import Decimal

import pytest

from tracehound.formats.kineto.values import count, natural, signed


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
    assert signed(said) == value
    assert natural(said) == count(said) == (None if value is None or value < 0 else value)
