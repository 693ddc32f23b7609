"""Names and types as PyTorch writes them."""

import pytest

from tracehound.formats.torch_names import type_size


@pytest.mark.parametrize(
    ("size", "names"),
    [
        (1, ("Bool", "unsigned char", "uint8", "c10::Float8_e4m3fn", "f8e4m3")),
        (2, ("c10::BFloat16", "Half", "short int")),
        (4, ("Float", "float32", "int", "int32")),
        (8, ("long int", "int64", "double", "c10::complex<float>", "ComplexFloat")),
        (16, ("c10::complex<double>",)),
        (0, ("Scalar", "?", "", None, 4)),
    ],
)
def test_how_many_bytes_an_element_has(size: int, names: tuple[object, ...]) -> None:
    assert {name: type_size(name) for name in names} == dict.fromkeys(names, size)
