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
    TENSOR_CORE_SAVING,
    find_unused_tensor_cores,
    longest_running_kernel,
)
from tracehound.analysis.findings.evidence import Evidence, Finding, FindingLocation, Rule
from tracehound.analysis.findings.kernel_text import describe_kernel
from tracehound.model.units import format_duration
from tracehound.model.units import format_share as percent

MIN_OLDER_KERNEL_SHARE: Final = 0.50
"""Above this share of GEMMs on kernels for an older GPU, the shapes alone are not the reason."""

_IS_GEMM_OR_CONVOLUTION: Final = pl.col("class").is_in(["gemm", "convolution"])
_IS_UNALIGNED: Final = (
    _IS_GEMM_OR_CONVOLUTION & pl.col("tensor_cores") & pl.col("name").str.contains(r"_align[12](?:\D|$)")
)
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

_ALIGNMENT_SAVING: Final = 0.5
"""Share of time saved by kernels that read eight numbers at a time in place of one or two."""

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
    """GEMMs on tensor cores whose sizes or addresses allow only one or two numbers at a time."""
    yield from _find_slow_kernels(
        evidence,
        _IS_UNALIGNED,
        "GEMMs run on kernels for unaligned sizes",
        "make their sizes (features, vocabulary, heads, sequence length) multiples of 8 in 16-bit types, of 4 in TF32,"
        " for instance by padding; views that begin at odd offsets have the same effect",
        saving=_ALIGNMENT_SAVING,
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
    """GEMMs in float32 without tensor cores, where TF32 is possible and off."""
    if evidence.findings_of(find_unused_tensor_cores) or evidence.kernels.filter(_IS_TF32_GEMM).height:
        return
    yield from _find_slow_kernels(
        evidence,
        _IS_FP32_GEMM & (pl.col("capability") >= _AMPERE_CAPABILITY),
        "FP32 GEMMs run without tensor cores: enable TF32 or bf16",
        "torch.set_float32_matmul_precision('high') turns on TF32, where 10 bits of mantissa are enough; or automatic"
        " mixed precision (bfloat16)",
        saving=TENSOR_CORE_SAVING,
    )


def find_older_gpu_kernels(evidence: Evidence) -> Iterator[Finding]:
    """Most of the time of GEMMs is spent in kernels made for an older GPU than the one they run on."""
    capability = pl.col("capability")
    newer = capability.is_between(_AMPERE_CAPABILITY, _CONSUMER_CAPABILITY, "left")
    is_older = (_target_capability() < 10 * capability) & newer & ~_IS_UNALIGNED & ~_IS_FP32_GEMM
    candidates = evidence.kernels.filter(_IS_GEMM_OR_CONVOLUTION & newer & ~_IS_FP32_GEMM)
    older_kernels = candidates.filter(is_older).with_columns(_target_capability().alias("made"))
    if int(older_kernels["total"].sum()) <= MIN_OLDER_KERNEL_SHARE * int(candidates["total"].sum()):
        return
    target = longest_running_kernel(older_kernels)["made"]
    name = next(name for name, (number, _) in _GPU_GENERATIONS.items() if number == target)
    yield from _find_slow_kernels(
        evidence,
        _IS_GEMM_OR_CONVOLUTION & is_older,
        f"GEMMs run on kernels made for {name}, an older GPU",
        "use a build of PyTorch for a newer CUDA, whose cuBLAS and cuDNN know this GPU; if it is recent, libraries"
        " choose these kernels for small GEMMs: larger ones (a larger batch) and 16-bit types have newer kernels",
        MIN_KERNEL_SHARE,
        saving=None,
    )


def find_unfused_attention(evidence: Evidence) -> Iterator[Finding]:
    """Attention runs as products with a separate softmax between them."""
    softmax, batched, fallbacks = (int(evidence.rank_traits[name].sum()) for name in ("softmax", "batched", "fallback"))
    if not softmax or batched < softmax:
        return
    yield from _find_slow_kernels(
        evidence,
        _IS_SOFTMAX,
        "attention is not fused: its softmax is a kernel of its own",
        _SDPA_FALLBACK_ADVICE if 2 * fallbacks >= softmax else _USE_SDPA_ADVICE,
    )


_USE_SDPA_ADVICE: Final = (
    "use torch.nn.functional.scaled_dot_product_attention (attn_implementation='sdpa' in transformers,"
    " need_weights=False in nn.MultiheadAttention): its fused kernels keep no attention scores in memory"
)
_SDPA_FALLBACK_ADVICE: Final = (
    "scaled_dot_product_attention falls back to plain GEMMs here: use 16-bit types, another mask or head size;"
    " sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION) around it reports why the fused kernels refuse"
)


def _find_slow_kernels(
    evidence: Evidence,
    condition: pl.Expr,
    title: str,
    advice: str,
    threshold: float = MIN_TIME_SHARE,
    saving: float | None = 1.0,
) -> Iterator[Finding]:
    """A finding on the kernels of `condition`, above `MIN_KERNEL_SHARE` of kernel time and `threshold` of step time.

    `saving` is the share of their time that could be won; None if that is not known.
    """
    if evidence.is_xla:
        return
    total_span, kernels = int(evidence.device_times["span"].sum()), evidence.kernels
    slow_kernels, total = kernels.filter(condition), int(kernels["total"].sum())
    time = int(slow_kernels["total"].sum())
    if not total_span or time <= MIN_KERNEL_SHARE * total or time <= threshold * total_span:
        return
    worst, share = longest_running_kernel(slow_kernels), min(time / total_span, 1.0)
    taken = round(share * evidence.base_time)
    might = f"; about {percent(saving)} of that could be saved" if saving not in (None, 1.0) else ""
    yield Finding(
        title,
        f"they take {format_duration(taken)} of {evidence.base_phrase}, {percent(share)}, and {percent(time / total)}"
        f" of the kernel time{might}; most in {describe_kernel(worst['name'])}",
        advice,
        FindingLocation(event=worst["event"]),
        None if saving is None else round(saving * taken),
        share if saving is None else saving * share,
        certainty="inferred",
        command="kernels",
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
        "unaligned GEMMs",
        f"kernels on tensor cores that read one number or two at a time (align1, align2) take {_THRESHOLD_TEXT}; like"
        f" those of the next four rules, of PyTorch alone; the gain is {_ALIGNMENT_SAVING:.0%} of their time",
        find_unaligned_gemms,
    ),
    Rule("layouts", f"cuDNN's conversions between NCHW and NHWC take {_THRESHOLD_TEXT}", find_layout_conversions),
    Rule(
        "FP32 GEMMs",
        f"GEMMs in float32 on no tensor cores take {_THRESHOLD_TEXT}, none runs in TF32, the device is of Ampere or"
        f" later, and the rule tensor cores does not tell of them; the gain is {TENSOR_CORE_SAVING:.0%} of their time",
        find_fp32_gemms,
    ),
    Rule(
        "older kernels",
        "GEMMs and convolutions on kernels for an older GPU than the rank's own (volta, turing, ampere, sm80, ... in"
        " their"
        f" names; not unaligned ones, nor those in full float32, of which newer GPUs have none) take more than"
        f" {MIN_KERNEL_SHARE:.0%} of the steps' time, and more than {MIN_OLDER_KERNEL_SHARE:.0%} of what all of them"
        " take;"
        " the gain is not known",
        find_older_gpu_kernels,
    ),
    Rule(
        "unfused attention",
        f"softmaxes of PyTorch's own kernels (not their logarithms) take {_THRESHOLD_TEXT}, and the host calls bmm or"
        " baddbmm at least as often as softmax",
        find_unfused_attention,
    ),
)
