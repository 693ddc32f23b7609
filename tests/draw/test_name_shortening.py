"""Names that stay different when they are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tracehound.draw.name_shortening import MOST_COMPARED_NAMES, shorten_name, shorten_names_distinctly

SGEMM = "void implicit_convolve_sgemm<float, float, {}, 5, 5, 3, 3, 3, 1, {}, false, true>(int, int, int)"
VOLTA = "volta_scudnn_128x64_relu_{}_nn_v1"


@pytest.mark.parametrize(
    ("names", "width", "told"),
    [
        (("gemm", "softmax"), 24, ("gemm", "softmax")),
        ((SGEMM.format(1024, "true"), "gemm"), 24, ("implicit_convolve_sgemm", "gemm")),
        (
            tuple(SGEMM.format(*each) for each in ((1024, "true"), (1024, "false"), (128, "true"))),
            36,
            (
                "implicit_convolve_sgemm<1024,true>",
                "implicit_convolve_sgemm<1024,false>",
                "implicit_convolve_sgemm<128,true>",
            ),
        ),
        (
            tuple(VOLTA.format(each) for each in ("interior", "exterior")),
            24,
            ("volta_scud…interior…n_v1", "volta_scud…exterior…n_v1"),
        ),
        (
            tuple(f"volta_scudnn_128x{each}_splitK_interior_nn_v1" for each in ("64_relu", "128_strided")),
            24,
            ("volta_sc…128x64_relu…_v1", "volta…128x128_strided…v1"),
        ),
        (
            tuple(
                f"void at::elementwise<4, at::{each}Functor<float> >(int, at::AddFunctor<float>)"
                for each in ("Add", "Mul")
            ),
            24,
            ("elementwise<AddFunctor>", "elementwise<MulFunctor>"),
        ),
        (("void f<A<int> >()", "void f<B<int, 3> >()"), 12, ("f<A>", "f<B>")),
    ],
)
def test_what_differs_stays(names: tuple[str, ...], width: int, told: tuple[str, ...]) -> None:
    assert tuple(shorten_names_distinctly(names, width)[name] for name in names) == told


@pytest.mark.parametrize("width", [23, 24, 26, 30])
def test_families_of_names_that_differ_in_the_same_parts_stay_different(width: int) -> None:
    parts = ("128x128_stridedB_{}", "128x64_stridedB_{}", "128x64_relu_{}")
    sizes = ("small", "medium", "interior")
    names = [f"volta_scudnn_{part.format(size)}_nn_v1" for part in parts for size in sizes]
    told = shorten_names_distinctly(names, width)
    assert len(set(told.values())) == len(names)
    assert max(map(cell_len, told.values())) <= width


def test_the_end_of_a_name_takes_the_cells_that_the_rest_of_it_leaves() -> None:
    shapes = [f"[[32, {n}, 56, 56], [64, 3, 7, 7], []{', []' * more}]" for n in (3, 64) for more in (0, 5)]
    told = shorten_names_distinctly(shapes, 20)
    assert len(set(told.values())) == 4
    assert {len(text) for text in told.values()} <= {19, 20}


def test_a_name_makes_way_for_its_own_template_and_for_no_other() -> None:
    kernel = "void at::native::vectorized_elementwise_kernel<4, at::native::{}Functor<{}> >(int, float)"
    names = [kernel.format(*each) for each in (("Binary", "float"), ("Fill", "int"), ("Fill", "bool"))]
    assert [shorten_names_distinctly(names, 24)[name] for name in names] == [
        "vectorize…BinaryFunctor]",
        "vecto…FillFunctor]<int>",
        "vecto…FillFunctor]<bool>",
    ]


def test_paths_are_cut_from_the_left_where_most_begin_alike() -> None:
    paths = [f"jit(train_step)/{each}/mlp/{op}" for each in ("jvp(layer0)", "jvp(layer1)") for op in ("mul", "tanh")]
    told = shorten_names_distinctly([*paths, "jit(f)/mul", "(jit(train_step)/a:b)"], 24)
    assert [told[path] for path in paths] == [
        "…jvp(layer0)/mlp/mul",
        "…jvp(layer0)/mlp/tanh",
        "…jvp(layer1)/mlp/mul",
        "…jvp(layer1)/mlp/tanh",
    ]
    assert (told["jit(f)/mul"], told["(jit(train_step)/a:b)"]) == ("jit(f)/mul", "(jit(train_step)/a:b)")
    assert max(map(cell_len, shorten_names_distinctly(paths, 12).values())) <= 12


@given(st.lists(st.text(alphabet="ab_<>,( )12/", max_size=40), max_size=8), st.integers(1, 30))
def test_every_name_fits_and_those_that_were_different_stay_so(names: list[str], width: int) -> None:
    told = shorten_names_distinctly(names, width)
    assert all(cell_len(text) <= width for text in told.values())
    assert len(set(told.values())) >= len({shorten_name(name, width) for name in names})


def test_more_names_than_anybody_sees_are_cut_one_by_one() -> None:
    names = [SGEMM.format(number, "true") for number in range(MOST_COMPARED_NAMES + 1)]
    assert set(shorten_names_distinctly(names, 24).values()) == {"implicit_convolve_sgemm"}


def test_what_a_name_lacks_has_a_mark_at_its_ends_too() -> None:
    """Where that costs nothing of what tells it apart: else the rest of a list of shapes reads as another list."""
    shapes = (
        "[[16,559,16,64],[16,559,16,64],[16,559,16,64],[],[],[],[]]", "[[16,559,1024],[16,559,1024],[]]",
        "[[8944,1024],[1024,2816]]", "[[16,559,16,64],[16,559,1,64]]", "[[16,16,559,64],[16,16,64,559],[],[]]",
        "[[16,16,559,64],[]]", "[[16,559,1024],[16,559,1024]]", "[[16,559,1024],[],[],[],[]]",
    )  # fmt: skip
    for width in range(10, 30):
        told = shorten_names_distinctly(shapes, width)
        assert len(set(told.values())) == len(shapes)
        assert [text for text in told.values() if text[0] not in "[…" or text[-1] not in "]…"] == []
