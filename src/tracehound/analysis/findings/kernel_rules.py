"""Rules on slow kernels: unaligned sizes, kernels for an older GPU, float32, and layout conversions.

Kernels are recognized by their names. XLA's programs have no such findings: their compiler chooses the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import polars as pl

from tracehound.analysis.findings.device_rules import (
    MIN_KERNEL_SHARE,
    MIN_TIME_SHARE,
    find_unused_tensor_cores,
    latest_compute_capability,
    longest_running_kernel,
)
from tracehound.analysis.findings.evidence import Evidence, Finding, FindingLocation, Rule
from tracehound.model.short_names import shorten_kernel_name
from tracehound.model.units import format_duration
from tracehound.model.units import format_share as percent

MIN_OLDER_KERNEL_SHARE: Final = 0.50
"""Above this share of products on kernels for an older GPU, the shapes alone are not the reason."""

_IS_PRODUCT: Final = pl.col("class").is_in(["gemm", "convolution"])
_IS_UNALIGNED: Final = _IS_PRODUCT & pl.col("tensor_cores") & pl.col("name").str.contains(r"_align[12](?:\D|$)")
_IS_LAYOUT_CONVERSION: Final = pl.col("name").str.contains(r"nchwToNhwcKernel|nhwcToNchwKernel")
_IS_FP32_GEMM: Final = (
    (pl.col("class") == "gemm")
    & ~pl.col("tensor_cores")
    & pl.col("name").str.contains(r"(?:^|_)sgemm_|gemm_f32f32_f32f32_f32|gemmSN_\w+<float,")
)
_IS_TF32_GEMM: Final = (pl.col("class") == "gemm") & pl.col("name").str.contains(r"tf32|tensorop_s1688gemm_\d")
_IS_SOFTMAX: Final = pl.col("name").str.contains(
    r"softmax_warp_(?:for|back)ward|cunn_SoftMax(?:For|Back)ward"
) & ~pl.col("name").str.contains(r"LogSoftMax|softmax_warp_\w+<[^>]*\d, true")

_AMPERE_CAPABILITY: Final = 8
_CONSUMER_CAPABILITY: Final = 12
"""Devices from this compute capability on use kernels of Ampere's kind by design: RTX, not data center GPUs."""

_GPU_GENERATIONS: Final[Mapping[str, tuple[int, str]]] = MappingProxyType(
    {
        "Volta": (70, r"(?:^|_)volta_|cutlass_70_|(?:^|_)sm70_"),
        "Turing": (75, r"(?:^|_)turing_|cutlass_75_|(?:^|_)sm75_"),
        "Ampere": (80, r"(?:^|_)ampere_|cutlass_80_|(?:^|_)sm8\d_"),
        "Hopper": (90, r"(?:^|_)hopper_|cutlass_90_|(?:^|_)sm90a?_"),
        "Blackwell": (100, r"nvjet_|cutlass_1\d\d_|(?:^|_)sm1\d\da?_"),
    }
)
"""The compute capability, times ten, of the GPUs that kernels were made for, and the words in their names.

nvjet kernels are for Hopper or Blackwell, so they are never for an older GPU.
"""


def find_unaligned_gemms(evidence: Evidence) -> Iterator[Finding]:
    """Products on tensor cores whose sizes or addresses allow only one or two numbers at a time."""
    yield from _find_slow_kernels(
        evidence,
        _IS_UNALIGNED,
        "products run on kernels for unaligned sizes",
        "make their sizes (features, vocabulary, heads, the length of sequences) multiples of 8 in 16-bit types, of 4"
        " in TF32, for instance by padding; views that begin at odd places do the same",
    )


def find_layout_conversions(evidence: Evidence) -> Iterator[Finding]:
    """Inputs of convolutions are converted between NCHW and NHWC."""
    yield from _find_slow_kernels(
        evidence,
        _IS_LAYOUT_CONVERSION,
        "tensors are converted between NCHW and NHWC around convolutions",
        "keep model and inputs in the layout that tensor cores want: .to(memory_format=torch.channels_last)",
    )


def find_fp32_gemms(evidence: Evidence) -> Iterator[Finding]:
    """Products in float32 without tensor cores, where TF32 is possible and off."""
    if (
        latest_compute_capability(evidence) < _AMPERE_CAPABILITY
        or evidence.findings_of(find_unused_tensor_cores)
        or evidence.kernels.filter(_IS_TF32_GEMM).height
    ):
        return
    yield from _find_slow_kernels(
        evidence,
        _IS_FP32_GEMM,
        "products in float32 do not use tensor cores: TF32 is off",
        "torch.set_float32_matmul_precision('high') (or torch.backends.cuda.matmul.allow_tf32 = True) where 10 bits of"
        " mantissa do, or automatic mixed precision (bfloat16)",
    )


def find_older_gpu_kernels(evidence: Evidence) -> Iterator[Finding]:
    """Most of the time of products is spent in kernels made for an older GPU."""
    capability = latest_compute_capability(evidence)
    if not _AMPERE_CAPABILITY <= capability < _CONSUMER_CAPABILITY:
        return
    products = evidence.kernels.filter(_IS_PRODUCT).with_columns(_target_capability().alias("made"))
    older_kernels = products.filter((pl.col("made") < 10 * capability) & ~_IS_UNALIGNED)
    if int(older_kernels["total"].sum()) <= MIN_OLDER_KERNEL_SHARE * int(products["total"].sum()):
        return
    target = longest_running_kernel(older_kernels)["made"]
    name = next(name for name, (number, _) in _GPU_GENERATIONS.items() if number == target)
    yield from _find_slow_kernels(
        evidence,
        _IS_PRODUCT & (_target_capability() < 10 * capability) & ~_IS_UNALIGNED,
        f"products run on kernels made for older GPUs, most of them for {name}",
        "a build of PyTorch for a newer CUDA, whose cuBLAS and cuDNN know this GPU; where it is recent, these are the"
        " choice for small products: larger ones (a larger batch) and 16-bit types have newer kernels",
        MIN_KERNEL_SHARE,
    )


def find_unfused_attention(evidence: Evidence) -> Iterator[Finding]:
    """Attention runs as products with a separate softmax between them."""
    softmax, batched, fallbacks = (int(evidence.rank_traits[name].sum()) for name in ("softmax", "batched", "fallback"))
    if not softmax or batched < softmax:
        return
    yield from _find_slow_kernels(
        evidence,
        _IS_SOFTMAX,
        "attention is not fused: its softmax runs by itself",
        _SDPA_FALLBACK_ADVICE if 2 * fallbacks >= softmax else _USE_SDPA_ADVICE,
    )


_USE_SDPA_ADVICE: Final = (
    "torch.nn.functional.scaled_dot_product_attention, whose fused kernels keep no scores in memory"
    " (attn_implementation='sdpa' in transformers, need_weights=False in nn.MultiheadAttention), and so save the"
    " products' way through memory, too"
)
_SDPA_FALLBACK_ADVICE: Final = (
    "scaled_dot_product_attention falls back to plain products here: 16-bit types, another mask or size of heads, or"
    " sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION) around it tells why the fused kernels do not take it"
)


def _find_slow_kernels(
    evidence: Evidence, condition: pl.Expr, title: str, advice: str, threshold: float = MIN_TIME_SHARE
) -> Iterator[Finding]:
    """A finding on the kernels of `condition`, above `MIN_KERNEL_SHARE` of kernel time and `threshold` of step time."""
    if evidence.is_xla:
        return
    total_span, kernels = int(evidence.device_times["span"].sum()), evidence.kernels
    slow_kernels, total = kernels.filter(condition), int(kernels["total"].sum())
    time = int(slow_kernels["total"].sum())
    if not total_span or time <= MIN_KERNEL_SHARE * total or time <= threshold * total_span:
        return
    worst, share = longest_running_kernel(slow_kernels), min(time / total_span, 1.0)
    cost = round(share * evidence.base_time)
    yield Finding(
        title,
        f"they take {format_duration(cost)} of {evidence.base_phrase}, {percent(share)}, and {percent(time / total)}"
        f" of the time of all kernels; most in {shorten_kernel_name(worst['name'], 60)}",
        advice,
        FindingLocation(event=worst["event"]),
        cost,
        share,
    )


def _target_capability() -> pl.Expr:
    """The compute capability, times ten, that a kernel was made for; null where its name does not tell."""
    capability = pl.lit(None, pl.Int64)
    for number, words in _GPU_GENERATIONS.values():
        capability = pl.when(pl.col("name").str.contains(words)).then(pl.lit(number, pl.Int64)).otherwise(capability)
    return capability


_THRESHOLD_TEXT: Final = (
    f"more than {MIN_KERNEL_SHARE:.0%} of the time of all kernels in whole steps (without any, in the run or window)"
    f" and more than {MIN_TIME_SHARE:.0%} of the steps' own"
)

RULES: Final = (
    Rule(
        "unaligned products",
        f"kernels on tensor cores that read one number or two at a time (align1, align2) take {_THRESHOLD_TEXT}; like"
        " those of the next four rules, of PyTorch alone; the cost is the time of these kernels, most of which"
        " products and softmaxes take in any case",
        find_unaligned_gemms,
    ),
    Rule("layouts", f"cuDNN's conversions between NCHW and NHWC take {_THRESHOLD_TEXT}", find_layout_conversions),
    Rule(
        "TF32",
        f"products in float32 on no tensor cores take {_THRESHOLD_TEXT}, none runs in TF32, the device is of Ampere or"
        " later, and the rule tensor cores does not tell of them",
        find_fp32_gemms,
    ),
    Rule(
        "older kernels",
        "products and convolutions on kernels for an older GPU (volta, turing, ampere, sm80, ... in their names; not"
        f" unaligned ones) take more than {MIN_KERNEL_SHARE:.0%} of the steps' time, and more than"
        f" {MIN_OLDER_KERNEL_SHARE:.0%} of what all products and convolutions take",
        find_older_gpu_kernels,
    ),
    Rule(
        "unfused attention",
        f"softmaxes of PyTorch's own kernels (not their logarithms) take {_THRESHOLD_TEXT}, and the host calls bmm or"
        " baddbmm at least as often as softmax",
        find_unfused_attention,
    ),
)
