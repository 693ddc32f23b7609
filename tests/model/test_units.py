"""Words of numbers, and the way back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from short import some
from tracehound.errors import TracehoundError
from tracehound.model import short_names, units


@pytest.mark.parametrize(
    ("ps", "words", "cell"),
    [
        (0, "0 s", "0 s"),
        (1, "1 ps", "1 ps"),
        (-999, "-999 ps", "-999 ps"),
        (1_000, "1.00 ns", "1.000 ns"),
        (12_345_678, "12.3 us", "12.35 us"),
        (999_449_999, "999 us", "999.4 us"),
        (999_960_000, "1.00 ms", "1.000 ms"),  # never "1000.0 us"
        (99_996_000, "100 us", "100.0 us"),
        (-1_500_000_000, "-1.50 ms", "-1.500 ms"),
        (77_773_215_731_000, "77.8 s", "77.77 s"),
        (1_234_567_000_000_000, "1235 s", "1235 s"),
        (12_345_678_000_000_000, "12,346 s", "12,346 s"),
    ],
)
def test_a_duration_has_three_significant_digits_in_a_sentence_and_four_in_a_cell(
    ps: int, words: str, cell: str
) -> None:
    assert units.format_duration(ps) == words
    assert units.format_duration(ps, digits=units.CELL_DIGITS) == cell


@pytest.mark.parametrize("digits", [units.SENTENCE_DIGITS, units.CELL_DIGITS])
@given(st.integers(-(10**15), 10**15))
def test_a_duration_is_right_to_its_last_digit(digits: int, ps: int) -> None:
    read = units.parse_duration(units.format_duration(ps, digits=digits))
    assert abs(read - ps) <= abs(ps) * 5 / 10**digits


def test_a_fixed_unit_keeps_all_digits() -> None:
    assert units.format_duration(77_773_215_731_000, "us") == "77,773,215.731 us"
    assert units.format_duration(-1_500, "ns") == "-2 ns"  # half to even
    assert units.format_duration(2_500, "ns") == "2 ns"
    assert units.format_duration(1_234_567, "ps") == "1,234,567 ps"
    assert units.format_duration(1_500_000_000, "s") == "0.001500000 s"
    assert units.format_duration(1_500_000_000, "ms") == "1.500000 ms"


@pytest.mark.parametrize(
    ("ps", "words"),
    [
        (0, "0.000 us"),
        (12_345_678, "12.346 us"),
        (12_345_678_901, "12.346 ms"),
        (363_729_698_769_000, "363.729699 s"),
        (-2_000_000_000, "-2.000 ms"),
    ],
)
def test_an_instant_keeps_what_tells_two_steps_apart(ps: int, words: str) -> None:
    assert units.format_instant(ps) == words


def test_an_instant_in_a_fixed_unit() -> None:
    assert units.format_instant(12_345_678_901, "us") == "12,345.679 us"


@given(st.integers(-(10**17), 10**17))
def test_an_instant_reads_back_to_the_microsecond(ps: int) -> None:
    assert abs(units.parse_duration(units.format_instant(ps)) - ps) <= units.PS_PER_UNIT["us"] // 2


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (15 * 2**30, "15.0 GiB"),
        (2**20 - 1, "1024 KiB"),
        (-3 * 2**20, "-3.00 MiB"),
    ],
)
def test_bytes_are_binary(number: int, words: str) -> None:
    assert units.format_bytes(number) in {words, words.replace("1024 KiB", "1.00 MiB")}


def test_rates_are_decimal() -> None:
    assert units.format_bandwidth(26.4e9) == "26.4 GB/s"
    assert units.format_bandwidth(999.9e6) == "1.00 GB/s"
    assert units.format_bandwidth(5e18) == "5000 PB/s"
    assert units.format_bandwidth(12.0) == "12 B/s"


def test_shares_are_percentages_and_a_little_is_not_nothing() -> None:
    shares = (0, 0.00001, 0.0052, 0.0523, 0.133654, 0.9999, 1, 1.6251)
    assert [units.format_share(x) for x in shares] == [
        "0 %", "<0.01 %", "0.52 %", "5.23 %", "13.4 %", ">99.9 %", "100 %", "163 %",
    ]  # fmt: skip
    assert [units.format_share(x, units.CELL_DIGITS) for x in shares] == [
        "0.00 %", "<0.01 %", "0.52 %", "5.23 %", "13.37 %", "99.99 %", "100.00 %", "162.51 %",
    ]  # fmt: skip


def test_counts_have_separators() -> None:
    assert units.format_count(1312) == "1,312"


@pytest.mark.parametrize(
    ("text", "ps"),
    [
        ("10ms", 10 * 10**9),
        (" 1.5 s ", 15 * 10**11),
        (".5us", 500_000),
        ("1_000ns", 10**6),
        ("1,000.5 µs", 1_000_500_000),
        ("1e3ms", 10**12),
        ("-2ms", -2 * 10**9),
        ("2m", 120 * 10**12),
        ("0.0000000000001s", 0),
        (" 0", 0),
    ],
)
def test_a_written_time_is_read_exactly(text: str, ps: int) -> None:
    assert units.parse_duration(text) == ps


@pytest.mark.parametrize("text", ["", "10", "ms", "ten ms", "1 parsec", "1.2.3 ms", "1e5", "٣ms", "1e999s", "9e18s"])
def test_what_is_no_time_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(TracehoundError) as caught:
        units.parse_duration(text)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("aten::addmm", "aten::addmm"),
        ("fusion.253", "fusion.253"),
        ("model.py(12): forward", "model.py(12): forward"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
            "at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)",
            "vectorized_elementwise_kernel[CUDAFunctor_add]",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<2, at::native::BinaryFunctor<float, float, float, "
            "at::native::binary_internal::MulFunctor<float>>, Array<char*, 3>>(int, BinaryFunctor<float, MulFunctor>)",
            "vectorized_elementwise_kernel[MulFunctor]",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, Array<char*, 1>>(int)",
            "vectorized_elementwise_kernel[FillFunctor]",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, "
            "at::native::GeluType)::{lambda()#2}::operator()() const::{lambda(float)#1}, Array<char*, 2>>(int)",
            "vectorized_elementwise_kernel[GeluCUDAKernelImpl]",
        ),
        (
            "void at::native::(anonymous namespace)::softmax_warp_forward<float, float, 10>(float*, int)",
            "softmax_warp_forward",
        ),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128>(Params)",
            "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int) and 2 more",
            "vectorized_elementwise_kernel[FillFunctor] and 2 more",
        ),
        ("ncclDevKernel_AllReduce(ncclDevComm*)", "ncclDevKernel_AllReduce(ncclDevComm*)"),
        (
            "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::Mainloop<2> > > >"
            "(flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::Mainloop<2> > >::Params)",
            "FlashAttnFwdSm90",
        ),
        (
            "void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<cutlass::gemm::kernel::"
            "GemmUniversal<cute::tuple<int, int, int> > > >(cutlass::gemm::kernel::GemmUniversal<>::Params)",
            "GemmUniversal",
        ),
        ("void ck_tile::kentry<1, ck_tile::Rmsnorm2dFwd<ck_tile::Problem<3> > >(int)", "Rmsnorm2dFwd"),
        (
            "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, false>(int)",
            "gemvx::kernel",
        ),
        ("void mine::kernel(int)", "mine::kernel"),
        ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELb0EEEvPT0_PT_", "add_rmsnorm_quant_kernel"),
        (
            "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_28GridwiseGemm",
            "kernel_grouped_conv_fwd_xdl_cshuffle_v3",
        ),
        ("_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePass", "Rmsnorm2dFwd"),
        (
            "_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_11threadblock22Implicit",
            "ImplicitGemmConvolution",
        ),
        ("_ZN7cutlass13device_kernelIN5flash19enable_sm90_or_laterINS1_16FlashAttnFwdSm90I", "FlashAttnFwdSm90"),
        ("_Z10my_kernel2PfS_", "my_kernel2"),
        ("_ZN4mine6kernelIfEEvT_", "mine::kernel"),
        ("[3] CommonPjRtLoadedExecutable::Execute (jit_train_step)", "Execute (jit_train_step)"),
        ("void (anonymous namespace)::softmax_warp_forward<float>(float*, int)", "softmax_warp_forward"),
        ("_Zebra", "_Zebra"),
        ("_Z", "_Z"),
        ("_Z0", "_Z0"),
        ("_Z9", "_Z9"),
    ],
)
def test_a_kernel_is_called_what_people_call_it(name: str, short: str) -> None:
    assert short_names.shorten_kernel_name(name) == short


def test_a_name_never_carries_control_characters() -> None:
    assert "\x1b" not in short_names.shorten_kernel_name("void evil\x1b[2J<int>(int)")


@given(st.text(max_size=60), st.integers(0, 40))
def test_a_cut_name_fits_and_keeps_its_start(text: str, width: int) -> None:
    cut = short_names.cut_middle(text, width)
    assert len(cut) <= width or cut == text[:width]
    assert cut == text or len(text) > width
    assert cut.startswith(text[: width // 2])


@given(st.text("_ZNSKLI0123456789ab<>(): E", max_size=30))
def test_any_name_has_a_short_one(text: str) -> None:
    assert short_names.shorten_kernel_name(f"_ZN{text}")
    assert short_names.shorten_kernel_name(f"void x::{text}kernel<{text}>({text})")


def test_a_cut_name_keeps_both_ends() -> None:
    assert short_names.cut_middle("abcdefghijklmnop", 10) == "abcdef…nop"


@pytest.mark.parametrize(
    ("ps", "words"), [(1_500_000, "+1.50 us"), (-1_500_000, "-1.50 us"), (0, "0 s"), (5, "+5 ps"), (-5, "-5 ps")]
)
def test_a_difference_has_its_sign(ps: int, words: str) -> None:
    assert units.format_time_difference(ps) == words


def test_a_difference_in_a_unit() -> None:
    assert units.format_time_difference(1_500_000, "ns") == "+1,500 ns"


@pytest.mark.parametrize(
    ("fraction", "words"),
    [
        (0.032, "+3.20 %"),
        (-0.5, "-50.0 %"),
        (0.0, "0.00 %"),
        (1e-9, "+<0.01 %"),
        (-1e-9, "-<0.01 %"),
        (10.0, "+1,000 %"),
        (9.9, "+990 %"),
        (12.04, "+1,204 %"),
        (452643.9861, "+>100,000 %"),
    ],
)
def test_growth_has_its_sign(fraction: float, words: str) -> None:
    assert units.format_growth(fraction) == words


def untemplated_slowly(name: str) -> str:
    before = None
    while name != before:
        before, name = name, re.sub(r"<[^<>]*>", "", name)
    return name


@given(st.text("ab<>:", max_size=40))
def test_what_stands_between_brackets_that_match_goes(name: str) -> None:
    assert short_names._strip_templates(name) == untemplated_slowly(name)


@given(st.text("a1 _#(:/)-", max_size=20))
def test_a_pool_is_a_name_without_the_number_at_its_end(name: str) -> None:
    assert short_names.thread_pool_name(name) == re.sub(r"[\s/_:#(-]*[0-9]+\)?$", "", name)


@pytest.mark.parametrize("part", some(["<", "a<", "<<<>>>", "x", "Functor", "1", "_ZN", "::", "(", " "], ["<", "1"]))
def test_a_name_as_long_as_a_book_is_read_in_no_time(part: str) -> None:
    """Read again and again from each of its signs it would take until tomorrow."""
    assert short_names.shorten_kernel_name(f"void kernel<{part * 200_000}>(int)", 20)
    assert short_names.thread_pool_name(f"{part * 200_000} pool-7") == f"{part * 200_000} pool"
    assert short_names.thread_pool_name(f"pool {part * 200_000}!") == f"pool {part * 200_000}!"


@pytest.mark.parametrize(("number", "words"), [(0, "0 ranks"), (1, "1 rank"), (1312, "1,312 ranks")])
def test_one_of_them_or_many(number: int, words: str) -> None:
    assert units.count_noun(number, "rank") == words


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([], ""),
        ([3], "3"),
        ([3, 0, 1, 2, 7, 7], "0-3, 7"),
        ([-1, 0, 9, 10], "-1-0, 9-10"),
        (range(0, 16, 2), "0, 2, 4, 6, 8, 10, 12, 14"),
        ([*range(0, 60, 2), *range(100, 200)], "0, 2, 4 and 127 more"),
    ],
)
def test_runs_of_numbers(numbers: list[int], words: str) -> None:
    assert units.format_ranges(numbers) == words


def test_all_runs_of_numbers() -> None:
    assert units.format_ranges(range(0, 60, 2), None) == ", ".join(map(str, range(0, 60, 2)))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], ""),
        (["vm-1", "vm-0", "vm-1"], "vm-0, vm-1"),
        ([f"vm-{number}" for number in range(64)], "vm-0 to vm-63"),
        (["a", "b10", "b9", "c", "d", "e"], "a, b9, b10, c and 2 more"),
    ],
)
def test_names_of_hosts(names: list[str], words: str) -> None:
    assert units.format_names(names) == words


def test_which_ranks() -> None:
    told = [units.format_ranks(ranks) for ranks in ([3], [1, 4, 5, 6, 7], {0, 7})]
    assert told == ["rank 3", "ranks 1, 4-7", "ranks 0, 7"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a"], "1 host"),
        (["a", "b"], "2 hosts"),
        (["vm", "vm"], "1 host, 2 processes"),
        (["n1: python (1)", "n1: python (2)", "n2: python (1)"], "2 hosts, 3 processes"),
        (["python (851)", "python (851)", "python (7)"], "3 processes"),
        (["pyper:trainer:0:0 (4037)"], "1 host"),
    ],
)
def test_processes_are_no_hosts(names: list[str], words: str) -> None:
    assert units.count_hosts_and_processes(names) == words
