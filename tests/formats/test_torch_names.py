"""Names and types as PyTorch writes them."""

import pytest

from tracehound.formats.torch_names import SCALAR_TYPES, element_size


@pytest.mark.parametrize(
    ("size", "names"),
    [
        (1, ("Bool", "unsigned char", "uint8", "c10::Float8_e4m3fn", "f8e4m3", "Byte", "Char", "QInt8", "c10::quint8")),
        (1, ("Float8_e5m2", "Float8_e4m3fnuz", "Float8_e5m2fnuz", "Float8_e8m0fnu", "Float4_e2m1fn_x2", "Bits8")),
        (1, ("UInt1", "UInt7", "Int4")),
        (2, ("c10::BFloat16", "Half", "short int", "UInt16", "unsigned short", "short unsigned int", "at::Half")),
        (4, ("Float", "float32", "int", "int32", "UInt32", "unsigned int", "QInt32")),
        (4, ("ComplexHalf", "c10::complex<c10::Half>")),
        (8, ("long int", "int64", "double", "c10::complex<float>", "ComplexFloat", "long", "__int64")),
        (8, ("UInt64", "unsigned long", "long unsigned int", "unsigned __int64")),
        (16, ("c10::complex<double>", "ComplexDouble")),
        (0, ("Scalar", "?", "", None, 4, "ScalarList", "int9", "std::string")),
    ],
)
def test_how_many_bytes_an_element_has(size: int, names: tuple[object, ...]) -> None:
    assert {name: element_size(name) for name in names} == dict.fromkeys(names, size)


def test_types_have_the_numbers_of_pytorch() -> None:
    """Of c10/core/ScalarType.h."""
    known = {5: "Half", 6: "Float", 11: "Bool", 15: "BFloat16", 24: "Float8_e4m3fn", 29: "UInt64", 44: "Float8_e8m0fnu"}
    assert {number: SCALAR_TYPES[number] for number in known} == known
    assert {name for name in SCALAR_TYPES if not element_size(name)} == {"QUInt4x2", "QUInt2x4"}
