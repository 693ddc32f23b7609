"""What kernels are, told by their names: gemm, attention, normalisation, ...; and whether they use tensor cores.

Owns the patterns of kernel classes, the types of work that they add up to, and how a caller adds classes of his own.
What communicates and what copies is decided when a file is read (`kind`); classes are told within that. All names of a
trace are asked at once, by expressions: kernels have names of kilobytes, and there are thousands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import polars as pl
from msgspec import Struct

from tracehound.analysis.events.busy import COMMUNICATION, COPY
from tracehound.analysis.settings import Setting, pattern
from tracehound.errors import TracehoundError, printable

TYPES: Final = ("computation", "communication", "memory")
"""What all work of a device is one of. Memory is copies, memsets and transfers."""

CLASSES: Final = (
    ("attention", r"^triton_tem_.*attention"),
    ("gemm", r"^triton_(?:tem_.*(?:mm|matmul)|mm|bmm|addmm)"),
    ("triton", r"^triton_"),
    ("kv cache", r"reshape_and_cache|store_kv|concat_and_cache|copy_blocks|kv_?indices"),
    ("state space", r"selective_scan|(?:^|_)chunk_(?:scan|state|cumsum|local_cumsum|scaled_dot|[fb]wd_kernel)"),
    ("state space", r"delta_rule|fused_recurrent|state_passing|_bmm_chunk_"),
    ("attention", r"^_fwd_(?:grouped_)?kernel_stage\d|^_?bwd_kernel_d(?:q|k)|^mha_[fb]wd"),
    ("attention", r"flash(?:$|[^i]|i[^n])|fmha|attention|attn|sdpa|sage_fwd|(?:batch|single)(?:decode|prefill)with"),
    ("attention", r"\bmla_|_mla_"),
    ("convolution", r"(?:^|[^a-z])conv(?:$|[^e]|e[^r])|convol|wgrad|dgrad|fprop|winograd|scudnn|h884cudnn|bwd_weight"),
    ("convolution", r"igemm_(?:fwd|bwd|wrw)|im\dd\dcol|im2col|compute\w*OffsetsKernel|miopensp3|fft2d_"),
    ("gemm", r"(?:^b?|[^b]|[^f]b)gemm|gemv|matmul|_b?mm_|cijk_|nvjet|splitk_?reduce|\bdot_kernel|marlin|machete|^bmm_"),
    ("gemm", r"cublaslt|xmma_|fused_moe|s16816|s1688|scaled_mm|flatmm|wvsplitk"),
    ("normalisation", r"(?:batch|layer|group|instance|rms|qk)_?norm|bn_[fb]w|rowwisemoments|gammabeta|welford"),
    ("softmax", r"softmax"),
    ("moe routing", r"moe|routing|topk_forward|bitmatrix|expert"),
    ("rotary", r"rotary|(?:^|[^a-z])rope(?:$|[^a-z])"),
    ("embedding", r"embedding|_embs?_|bounds_check_indices"),
    ("resampling", r"pool|upsample|grid_sampl"),
    ("loss", r"nllcriterion|nll_loss|cross_?entropy"),
    ("optimizer", r"adam|sgd|(?:^|[^a-z])lamb_|adagrad"),
    ("foreach", r"multi_tensor_apply|foreach"),
    ("random", r"distribution|dropout|philox|random"),
    ("sort and scan", r"sort|scan|topk|histogram|unique|nonzero|devicecompact|deviceselect|devicerun"),
    ("quantisation", r"quant|fp8rowwise|_get_fp8|_hfp8"),
    ("indexing", r"index|gather|scatter|take_kernel"),
    ("reduction", r"reduce|reduction|argmax|argmin|segment"),
    ("elementwise", r"elementwise|pointwise|activation|act_and_mul|silu|gelu|relu|subtensorop|op_generic_tensor"),
    ("elementwise", r"scalepackedtensor|bias|epilogue|loop_\w*fusion"),
    ("data movement", r"transpose|permute|nchwtonhwc|nhwctonchw|catarray|concat|copy|pad|transform"),
)
"""Classes and what is found in the names of their kernels, whatever its case, in the order in which they are asked.

Kernels that Inductor generated are `triton`, whatever they fuse: only its templates of products and of attention are
known for what they are.
"""

OTHER: Final = "other"

_TENSOR_CORES: Final = "|".join((
    r"[a-z](?:884|1688|16816|16832|16864|161616|8816|8832)(?:\D|$)|(?:^|[^a-z])[hiq]mma|wgmma|tcgen05|utcmma|wmma",
    r"(?-i:GMMA|Gmma|Umma|(?:^|[^A-Za-z])UMMA)|sm\d+_\d+x\d+x\d+_|sm1[0-9]\d_mma_|m16n(?:8|x)k\d",
    r"nvjet|(?:_|mma|opclass|\d)tensorop|tensoropgemm|xmma_|_tensor16x8|cutlass_?3x|block_?scaled\w*gemm",
    r"sm(?:90|100|103|120)a?_\w*(?:gemm|conv|fprop|wgrad|dgrad|attn|attention|mla)|first_layer_wgrad",
    r"dgrad_1x1_stride_2x2|marlin\w*::marlin<|6marlini|fp8_(?:gemm|matmul|mm)|deep_?gemm(?:::|\d+)\w*(?:gemm|logits)",
    r"^(?:b|ge|batchedge)mm\w*_fp32_\w*t(?:ile)?\d+x\d+x\d+|(?:bf16|fp16|f16|fp8|f8|fp4|f4|i8)gemm_|flatmm|(?:^|[^a-z])fmoe_",
    r"flash_(?:fwd|bwd|attn)|flash::|flash_?attn|fmha|sage_fwd|prefillwith|cudnn_generated_\w*sdpa",
    r"mfma|cijk_\w*_MI\d+x|xdlops|_xdl_|gtcx\d|ck_tile.*gemm",
))  # fmt: skip
_NO_TENSOR_CORES: Final = "|".join(
    (
        r"simt|ffma|combine|dot_?do_?o|convert_?dq|convertqgrad|preprocess|postprocess|prepare_|repack|fmha_?reduction",
        r"ReduceSplitK|clean_logits|fmha_cutlass[fb]_f32_\w*sm[567]\d|fmha_cutlass[fb]_\w*sm[56]\d",
    )
)
"""What helps products and attention, and what multiplies without them: attention before sm70; 32-bit before sm80."""

_WITHOUT: Final = "simt|ffma"
"""What says of any name, whoever gave it, that it multiplies without tensor cores."""

MEMORY_BOUND: Final = r"(?i)(?:^|[^a-z])[a-z]?gemv|\bdot_kernel|splitk_?reduce"
"""Products with a vector, and sums of what parts of a product gave: memory bounds them, whatever multiplies.

Kernels of matrices may have cublasGemv in their parameters.
"""

_BY_AUTHOR: Final = "|".join(
    (
        r"^triton_tem_|^triton_b?mm|^_?(?:matmul|attn|fused_moe|kernel_unified)|_matmul_ogs|^gemm_fusion|wvSplitK",
        r"^_?scaled_mm|^_?w8a8|^_[a-z]\w*$|^[a-z]\w*_kernel\w*$",
    )
)
"""Names of the authors' own choice: of kernels in Triton, words without parameters."""
_PRODUCTS: Final = ("gemm", "attention", "state space", "moe routing")


class OwnClass(Struct, frozen=True):
    """A class of the caller's own: the kernels in whose names its pattern is found."""

    name: str
    pattern: re.Pattern[str]


def own_classes(text: str) -> tuple[OwnClass, ...]:
    """Classes as a caller writes them: ``moe:expert|router; communication:my_exchange``."""
    found = []
    for word in filter(str.strip, text.split(";")):
        name, colon, said = word.partition(":")
        if not (colon and name.strip() and said.strip()):
            raise TracehoundError(f"{printable(word.strip())!r} is not a class", remedy="write NAME:REGEX; NAME:REGEX")
        found.append(OwnClass(name.strip(), pattern(said.strip())))
    return tuple(found)


OWN: Final = Setting(
    "classes",
    "",
    "your own classes of kernels, asked before all others: NAME:REGEX; NAME:REGEX. Kernels of one named computation,"
    " communication or memory count as that",
    own_classes,
)


def classified(kernels: pl.DataFrame, own: Iterable[OwnClass] = ()) -> pl.DataFrame:
    """`kernels` (name, kind, HLO category or null) with `class`, `type` (one of `TYPES`) and `tensor_cores`.

    A class is the caller's own, else what the kind says (collective, copy, ...), else what the name says; that of an
    HLO op is its category. `tensor_cores` (AMD: matrix cores) is null where the name does not tell: products and
    attention written in Triton have their authors' names, HLO ops none.
    """
    name, kind = pl.col("name").cast(pl.String), pl.col("kind").cast(pl.String)
    told = pl.lit(None, pl.String)
    for class_name, said in reversed(CLASSES):
        told = pl.when(name.str.contains(f"(?i){said}")).then(pl.lit(class_name)).otherwise(told)
    known = kernels.select(
        pl.when(kind.is_in([*COMMUNICATION, *COPY])).then(kind)
        .when(kind == "op").then(pl.coalesce("category", pl.lit(OTHER)))
        .otherwise(pl.coalesce(told, "category", pl.lit(OTHER)))
        .alias("class")
    ).to_series()  # fmt: skip
    own_class = _of_caller(kernels["name"].cast(pl.String).to_list(), tuple(own))
    rows = kernels.with_columns(pl.coalesce(own_class, known).alias("class"), own_class.alias("own"))
    return rows.with_columns(_type(kind).alias("type"), _tensor_cores(name, kind).alias("tensor_cores")).drop("own")


def _of_caller(names: list[str], own: tuple[OwnClass, ...]) -> pl.Series:
    found = [next((each.name for each in own if each.pattern.search(name)), None) for name in names] if own else None
    return pl.Series("own", found if found is not None else [None] * len(names), pl.String)


def _type(kind: pl.Expr) -> pl.Expr:
    by_kind = (
        pl.when(kind.is_in(COMMUNICATION)).then(pl.lit("communication"))
        .when(kind.is_in(COPY)).then(pl.lit("memory"))
        .otherwise(pl.lit("computation"))
    )  # fmt: skip
    return pl.when(pl.col("own").is_in(TYPES)).then(pl.col("own")).otherwise(by_kind)


def _tensor_cores(name: pl.Expr, kind: pl.Expr) -> pl.Expr:
    uses = name.str.contains(f"(?i){_TENSOR_CORES}") & ~name.str.contains(f"(?i){_NO_TENSOR_CORES}")
    by_author = name.str.contains(_BY_AUTHOR) & ~name.str.contains(f"(?i){_WITHOUT}")
    unknown = by_author & pl.col("class").is_in(_PRODUCTS)
    return pl.when((kind == "kernel") & (uses | ~unknown)).then(uses)
