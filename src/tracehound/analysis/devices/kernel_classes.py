"""Classes of kernels by name (gemm, attention, normalization, ...), tensor cores, and groups of a device's work.

Holds the patterns of the classes, the types of work that they add up to, custom classes, and groups as users name them:
a type of work, a class, or a regular expression. Communication and copies are told by the `kind` of events; classes
apply within that. All names of a trace are matched at once, by expressions: there are thousands of kernels with names
of kilobytes. The base of `kernel_types` and `overlap`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import polars as pl
from msgspec import Struct

from tracehound.analysis.analysis_settings import Setting, parse_pattern
from tracehound.analysis.rank_trace import RankTrace
from tracehound.analysis.timing.device_busy import COMMUNICATION_KINDS, COPY_KINDS, device_work, parent_rows
from tracehound.analysis.timing.device_clock import DEVICE_TIMES, work_on_device_clock
from tracehound.errors import TracehoundError, printable
from tracehound.model.old_names import current_name
from tracehound.numeric.intervals import Intervals, clip, union
from tracehound.numeric.self_time import self_intervals

WORK_TYPES: Final = ("computation", "communication", "memory")
"""All work of a device is one of these. Memory is copies, memsets and transfers."""

KERNEL_CLASSES: Final = (
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
    ("normalization", r"(?:batch|layer|group|instance|rms|qk)_?norm|bn_[fb]w|rowwisemoments|gammabeta|welford"),
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
    ("quantization", r"quant|fp8rowwise|_get_fp8|_hfp8"),
    ("indexing", r"index|gather|scatter|take_kernel"),
    ("reduction", r"reduce|reduction|argmax|argmin|segment"),
    ("elementwise", r"elementwise|pointwise|activation|act_and_mul|silu|gelu|relu|subtensorop|op_generic_tensor"),
    ("elementwise", r"scalepackedtensor|bias|epilogue|loop_\w*fusion"),
    ("data movement", r"transpose|permute|nchwtonhwc|nhwctonchw|catarray|concat|copy|pad|transform"),
)
"""Classes and patterns for the names of their kernels, in any case; the first match counts.

Kernels that Inductor generated are `triton`, whatever they fuse: only its templates of products and of attention have
their own classes.
"""

OTHER_CLASS: Final = "other"

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
"""Helpers of products and attention, and kernels without tensor cores: attention before sm70, 32-bit before sm80."""

_NEVER_TENSOR_CORES: Final = "simt|ffma"
"""Parts of names that exclude tensor cores in any name, whoever chose it."""

MEMORY_BOUND: Final = r"(?i)(?:^|[^a-z])[a-z]?gemv|\bdot_kernel|splitk_?reduce"
"""Products with a vector, and reductions of partial products: they are memory-bound, whatever multiplies.

Kernels of matrices may have cublasGemv in their parameters.
"""

_AUTHOR_CHOSEN_NAME: Final = "|".join(
    (
        r"^triton_tem_|^triton_b?mm|^_?(?:matmul|attn|fused_moe|kernel_unified)|_matmul_ogs|^gemm_fusion|wvSplitK",
        r"^_?scaled_mm|^_?w8a8|^_[a-z]\w*$|^[a-z]\w*_kernel\w*$",
    )
)
"""Names that authors chose: of kernels in Triton, words without parameters."""
_PRODUCT_CLASSES: Final = ("gemm", "attention", "state space", "moe routing")


class CustomClass(Struct, frozen=True):
    """A custom class: the kernels whose names match its pattern."""

    name: str
    pattern: re.Pattern[str]


def parse_custom_classes(text: str) -> tuple[CustomClass, ...]:
    """Custom classes as users write them: ``moe:expert|router; communication:my_exchange``."""
    found = []
    for word in filter(str.strip, text.split(";")):
        name, colon, class_pattern = word.partition(":")
        if not (colon and name.strip() and class_pattern.strip()):
            raise TracehoundError(f"{printable(word.strip())!r} is not a class", remedy="write NAME:REGEX; NAME:REGEX")
        found.append(CustomClass(current_name(name.strip()), parse_pattern(class_pattern.strip())))
    return tuple(found)


CUSTOM_CLASSES: Final = Setting(
    "classes",
    "",
    "your own classes of kernels, asked before all others: NAME:REGEX; NAME:REGEX. Kernels of one named computation,"
    " communication or memory count as that",
    parse_custom_classes,
)


def classify_kernels(kernels: pl.DataFrame, own: Iterable[CustomClass] = ()) -> pl.DataFrame:
    """`kernels` (name, kind, HLO category or null) with `class`, `type` (one of `WORK_TYPES`) and `tensor_cores`.

    The class is a custom class, else given by the kind (collective, copy, ...), else by the name; that of an HLO op is
    its category. `tensor_cores` (AMD: matrix cores) is null if the name does not tell: products and attention written
    in Triton have their authors' names, HLO ops none.
    """
    name, kind = pl.col("name").cast(pl.String), pl.col("kind").cast(pl.String)
    class_of_name = pl.lit(None, pl.String)
    for class_name, class_pattern in reversed(KERNEL_CLASSES):
        class_of_name = (
            pl.when(name.str.contains(f"(?i){class_pattern}")).then(pl.lit(class_name)).otherwise(class_of_name)
        )
    known = kernels.select(
        pl.when(kind.is_in([*COMMUNICATION_KINDS, *COPY_KINDS])).then(kind)
        .when(kind == "op").then(pl.coalesce("category", pl.lit(OTHER_CLASS)))
        .otherwise(pl.coalesce(class_of_name, "category", pl.lit(OTHER_CLASS)))
        .alias("class")
    ).to_series()  # fmt: skip
    own_class = _custom_class_names(kernels["name"], tuple(own))
    rows = kernels.with_columns(pl.coalesce(own_class, known).alias("class"), own_class.alias("own"))
    return rows.with_columns(_work_type(kind).alias("type"), _uses_tensor_cores(name, kind).alias("tensor_cores")).drop(
        "own"
    )


def _custom_class_names(names: pl.Series, own: tuple[CustomClass, ...]) -> pl.Series:
    if not own:
        return pl.Series("own", [None], pl.String).new_from_index(0, len(names))
    texts = names.cast(pl.String).to_list()
    found = [next((each.name for each in own if each.pattern.search(name)), None) for name in texts]
    return pl.Series("own", found, pl.String)


def _work_type(kind: pl.Expr) -> pl.Expr:
    by_kind = (
        pl.when(kind.is_in(COMMUNICATION_KINDS)).then(pl.lit("communication"))
        .when(kind.is_in(COPY_KINDS)).then(pl.lit("memory"))
        .otherwise(pl.lit("computation"))
    )  # fmt: skip
    return pl.when(pl.col("own").is_in(WORK_TYPES)).then(pl.col("own")).otherwise(by_kind)


def _uses_tensor_cores(name: pl.Expr, kind: pl.Expr) -> pl.Expr:
    uses = name.str.contains(f"(?i){_TENSOR_CORES}") & ~name.str.contains(f"(?i){_NO_TENSOR_CORES}")
    by_author = name.str.contains(_AUTHOR_CHOSEN_NAME) & ~name.str.contains(f"(?i){_NEVER_TENSOR_CORES}")
    unknown = by_author & pl.col("class").is_in(_PRODUCT_CLASSES)
    return pl.when((kind == "kernel") & (uses | ~unknown)).then(uses)


_ALL_CLASSES: Final = {name for name, _ in KERNEL_CLASSES} | {*COMMUNICATION_KINDS, *COPY_KINDS}


class WorkGroup(Struct, frozen=True):
    """Work of one type, or of one class, or with names that match the pattern. `text` is as the user wrote it."""

    text: str
    name: re.Pattern[str]

    @property
    def is_work_type(self) -> bool:
        """True for a type of work, which needs no names."""
        return self.text in WORK_TYPES


def parse_work_group(text: str) -> WorkGroup:
    """A group as a user names it. Raises TracehoundError for an invalid regular expression."""
    return WorkGroup(text.strip(), parse_pattern(text.strip()))


def intervals_per_group(
    rank_trace: RankTrace, groups: Sequence[WorkGroup], own: Sequence[CustomClass] = ()
) -> list[Intervals]:
    """Intervals of the rank's work of each group, clipped to the window; on the device's own clock, if it has one.

    Work of several groups counts for the first of them alone: it would overlap itself. An op that contains others
    counts only with its self time.
    """
    by_name = bool(own) or not all(each.is_work_type for each in groups)
    events, low, high = work_on_device_clock(
        device_work(rank_trace, "lane", *DEVICE_TIMES, *(("name", "op") if by_name else ())), rank_trace
    )
    members = _masks_by_name(events, rank_trace, groups, own) if by_name else _masks_by_kind(events, groups)
    start, end = events["start"].to_numpy(), events["end"].to_numpy()
    selves = self_intervals(start, end, parent_rows(events))
    free, found = np.ones(len(start), np.bool_), []
    for mask in members:
        chosen = (mask & free)[selves.owner]
        found.append(clip(union(selves.start[chosen], selves.end[chosen]), low, high))
        free &= ~mask
    return found


def _masks_by_kind(
    events: pl.DataFrame, groups: Sequence[WorkGroup]
) -> list[np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    kinds = {
        kind: name
        for name, of_type in (("communication", COMMUNICATION_KINDS), ("memory", COPY_KINDS))
        for kind in of_type
    }
    kind = events["kind"]
    types = kind.cast(pl.String).replace_strict(kinds, default="computation", return_dtype=pl.Enum(WORK_TYPES))
    return [(types == each.text).to_numpy() for each in groups]


def _masks_by_name(
    events: pl.DataFrame, rank_trace: RankTrace, groups: Sequence[WorkGroup], own: Sequence[CustomClass]
) -> list[np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Masks of events per group, where each distinct name is matched once."""
    key = ["name", "kind", "op"]
    names = events.select(key).unique().join(rank_trace.ops.select("op", "category"), on="op", how="left")
    classified = classify_kernels(names, own)
    classes = {each.name for each in own} | _ALL_CLASSES | set(rank_trace.ops["category"].drop_nulls())
    columns = [_is_in_group(each, classified, classes).alias(str(place)) for place, each in enumerate(groups)]
    rows = events.select(key).join(
        classified.select(*key, *columns), on=key, how="left", nulls_equal=True, maintain_order="left"
    )
    return [rows[str(place)].to_numpy() for place in range(len(groups))]


def _is_in_group(group: WorkGroup, classified: pl.DataFrame, classes: set[str]) -> pl.Series:
    if group.is_work_type:
        return classified["type"] == group.text
    if (name := current_name(group.text)) in classes:
        return classified["class"] == name
    names = classified["name"].cast(pl.String).to_list()
    return pl.Series([group.name.search(name) is not None for name in names], dtype=pl.Boolean)
