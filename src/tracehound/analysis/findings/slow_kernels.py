"""Rules about kernels that are slower than they need be: unaligned, for an older GPU, in float32, or between layouts.

They are told by their names. Of XLA's programs nothing is said: their compiler chooses the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import polars as pl

from tracehound.analysis.findings.device import COPIED, WORTH, largest, latest, tensor_cores
from tracehound.analysis.findings.finding import Evidence, Finding, Place, Rule
from tracehound.units import duration, short_name
from tracehound.units import share as percent

MOST: Final = 0.50
"""Products of which more than so much runs on kernels for an older GPU do not have these for their shapes alone."""

_PRODUCT: Final = pl.col("class").is_in(["gemm", "convolution"])
_UNALIGNED: Final = _PRODUCT & pl.col("tensor_cores") & pl.col("name").str.contains(r"_align[12](?:\D|$)")
_LAYOUT: Final = pl.col("name").str.contains(r"nchwToNhwcKernel|nhwcToNchwKernel")
_FLOAT: Final = (
    (pl.col("class") == "gemm")
    & ~pl.col("tensor_cores")
    & pl.col("name").str.contains(r"(?:^|_)sgemm_|gemm_f32f32_f32f32_f32|gemmSN_\w+<float,")
)
_TF32: Final = (pl.col("class") == "gemm") & pl.col("name").str.contains(r"tf32|tensorop_s1688gemm_\d")
_SOFTMAX: Final = pl.col("name").str.contains(r"softmax_warp_(?:for|back)ward|cunn_SoftMax(?:For|Back)ward") & ~pl.col(
    "name"
).str.contains(r"LogSoftMax|softmax_warp_\w+<[^>]*\d, true")

_AMPERE: Final = 8
_CONSUMERS: Final = 12
"""The compute capability from which on devices have kernels of Ampere's sort by design: RTX, and not data centres."""

_GENERATIONS: Final[Mapping[str, tuple[int, str]]] = MappingProxyType(
    {
        "Volta": (70, r"(?:^|_)volta_|cutlass_70_|(?:^|_)sm70_"),
        "Turing": (75, r"(?:^|_)turing_|cutlass_75_|(?:^|_)sm75_"),
        "Ampere": (80, r"(?:^|_)ampere_|cutlass_80_|(?:^|_)sm8\d_"),
        "Hopper": (90, r"(?:^|_)hopper_|cutlass_90_|(?:^|_)sm90a?_"),
        "Blackwell": (100, r"nvjet_|cutlass_1\d\d_|(?:^|_)sm1\d\da?_"),
    }
)
"""For which GPUs kernels were made whose names have such words: the compute capability, times ten.

Those of nvjet are of Hopper or Blackwell, and for neither old.
"""


def unaligned(evidence: Evidence) -> Iterator[Finding]:
    """Products on tensor cores whose sizes or addresses allow them one number or two at a time."""
    yield from _found(
        evidence,
        _UNALIGNED,
        "products run on kernels for unaligned sizes",
        "make their sizes (features, vocabulary, heads, the length of sequences) multiples of 8 in 16-bit types, of 4"
        " in TF32, for instance by padding; views that begin at odd places do the same",
    )


def layouts(evidence: Evidence) -> Iterator[Finding]:
    """Convolutions have their inputs converted between NCHW and NHWC."""
    yield from _found(
        evidence,
        _LAYOUT,
        "tensors are converted between NCHW and NHWC around convolutions",
        "keep model and inputs in the layout that tensor cores want: .to(memory_format=torch.channels_last)",
    )


def single_precision(evidence: Evidence) -> Iterator[Finding]:
    """Products in float32 that use no tensor cores, where TF32 could and is off."""
    if latest(evidence) < _AMPERE or evidence.found(tensor_cores) or evidence.ran.filter(_TF32).height:
        return
    yield from _found(
        evidence,
        _FLOAT,
        "products in float32 do not use tensor cores: TF32 is off",
        "torch.set_float32_matmul_precision('high') (or torch.backends.cuda.matmul.allow_tf32 = True) where 10 bits of"
        " mantissa do, or automatic mixed precision (bfloat16)",
    )


def older(evidence: Evidence) -> Iterator[Finding]:
    """Most of the time of products goes to kernels that were made for an older GPU than this."""
    ours = latest(evidence)
    if not _AMPERE <= ours < _CONSUMERS:
        return
    products = evidence.ran.filter(_PRODUCT).with_columns(_made_for().alias("made"))
    old = products.filter((pl.col("made") < 10 * ours) & ~_UNALIGNED)
    if int(old["total"].sum()) <= MOST * int(products["total"].sum()):
        return
    made = largest(old)["made"]
    name = next(name for name, (number, _) in _GENERATIONS.items() if number == made)
    yield from _found(
        evidence,
        _PRODUCT & (_made_for() < 10 * ours) & ~_UNALIGNED,
        f"products run on kernels made for older GPUs, most of them for {name}",
        "a build of PyTorch for a newer CUDA, whose cuBLAS and cuDNN know this GPU; where it is recent, these are the"
        " choice for small products: larger ones (a larger batch) and 16-bit types have newer kernels",
        WORTH,
    )


def unfused(evidence: Evidence) -> Iterator[Finding]:
    """Attention as products with a softmax of its own between them."""
    softmax, batched, fallen = (int(evidence.traits[name].sum()) for name in ("softmax", "batched", "fallback"))
    if not softmax or batched < softmax:
        return
    yield from _found(
        evidence,
        _SOFTMAX,
        "attention is not fused: its softmax runs by itself",
        _FALLEN if 2 * fallen >= softmax else _FUSED,
    )


_FUSED: Final = (
    "torch.nn.functional.scaled_dot_product_attention, whose fused kernels keep no scores in memory"
    " (attn_implementation='sdpa' in transformers, need_weights=False in nn.MultiheadAttention), and so save the"
    " products' way through memory, too"
)
_FALLEN: Final = (
    "scaled_dot_product_attention falls back to plain products here: 16-bit types, another mask or size of heads, or"
    " sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION) around it tells why the fused kernels do not take it"
)


def _found(evidence: Evidence, which: pl.Expr, what: str, helps: str, threshold: float = COPIED) -> Iterator[Finding]:
    """These kernels, where they take more than `WORTH` of all kernels' time and a share of the steps' worth a look."""
    if evidence.xla:
        return
    span, kernels = int(evidence.spans["span"].sum()), evidence.ran
    mine, total = kernels.filter(which), int(kernels["total"].sum())
    time = int(mine["total"].sum())
    if not span or time <= WORTH * total or time <= threshold * span:
        return
    worst, share = largest(mine), min(time / span, 1.0)
    cost = round(share * evidence.stretch)
    yield Finding(
        what,
        f"they take {duration(cost)} of {evidence.whose}, {percent(share)}, and {percent(time / total)} of the time of"
        f" all kernels; most in {short_name(worst['name'], 60)}",
        helps,
        Place(event=worst["event"]),
        cost,
        share,
    )


def _made_for() -> pl.Expr:
    """The compute capability, times ten, for which a kernel was made; null where its name does not tell."""
    told = pl.lit(None, pl.Int64)
    for number, words in _GENERATIONS.values():
        told = pl.when(pl.col("name").str.contains(words)).then(pl.lit(number, pl.Int64)).otherwise(told)
    return told


_WORTH: Final = (
    f"more than {WORTH:.0%} of the time of all kernels in whole steps (without any, in the run or window) and more than"
    f" {COPIED:.0%} of the steps' own"
)

RULES: Final = (
    Rule(
        "unaligned products",
        f"kernels on tensor cores that read one number or two at a time (align1, align2) take {_WORTH}; like those of"
        " the next four rules, of PyTorch alone; the cost is the time of these kernels, most of which products and"
        " softmaxes take in any case",
        unaligned,
    ),
    Rule("layouts", f"cuDNN's conversions between NCHW and NHWC take {_WORTH}", layouts),
    Rule(
        "TF32",
        f"products in float32 on no tensor cores take {_WORTH}, none runs in TF32, the device is of Ampere or later,"
        " and the rule tensor cores does not tell of them",
        single_precision,
    ),
    Rule(
        "older kernels",
        f"products and convolutions on kernels for an older GPU (volta, turing, ampere, sm80, ... in their names; not"
        f" unaligned ones) take more than {WORTH:.0%} of the steps' time, and more than {MOST:.0%} of what all"
        " products and convolutions take",
        older,
    ),
    Rule(
        "unfused attention",
        f"softmaxes of PyTorch's own kernels (not their logarithms) take {_WORTH}, and the host calls bmm or baddbmm at"
        " least as often as softmax",
        unfused,
    ),
)
