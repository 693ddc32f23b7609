"""Names that TorchInductor gives to the kernels and source files that it generates, and the operators in these names.

Inductor joins the names of the operators that a kernel has a part of, sorted and each once, with underscores:
``triton_red_fused__to_copy_add_mean_3``. Names of operators have underscores, too, so that their ends are known only by
a list of names, and by their order. This module imports nothing that reads files.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

_FUSED_KERNEL: Final = re.compile(
    r"(?P<prefix>(?:graph_\d+_)?(?:triton_[a-z]+(?:_[a-z]+){0,3}?|cpp|cuda|rocm|xpu)_fused)_(?P<operators>[A-Za-z_]\w*?)"
    r"_(?P<number>\d+)(?:_\d+d[\ddec]*)?(?:\.kd)?"
)
"""A generated kernel that names operators: its kind, the operators, its number, and what older Triton appends."""

GENERATED_PREFIX: Final = "triton_"
"""Prefix of the names of kernels that Inductor generates for GPUs, with and without operators."""

GENERATED_FILE: Final = re.compile(r"torchinductor_|/(?P<folder>[a-z2-7]{2})/c(?P=folder)[a-z2-7]{49}\.py")
"""Part of the path of a source file that Inductor generated: its folder, or the hash in its name."""

_MAX_READINGS: Final = 64
"""A name that can be read in more ways than this is not split."""


class FusedOperators(NamedTuple):
    """The operators in the name of a generated kernel; the only one is the joined text where they are not `known`."""

    names: tuple[str, ...]
    known: bool


@lru_cache(1 << 14)
def find_fused_operators(kernel: str) -> FusedOperators | None:
    """The operators that a generated kernel of this name has a part of; None for other kernels.

    The text is split only where all readings agree: a reading has known names alone, sorted as Inductor sorts them.
    Without any reading (custom operators, or the names of nodes) it stays joined, as it is recorded.
    """
    found = _FUSED_KERNEL.fullmatch(kernel)
    if found is None:
        return None
    text = found["operators"]
    readings = _read_operators(text)
    if not readings:
        return FusedOperators((text,), known=False)
    ends = sorted(set.intersection(*(set(_name_ends(reading)) for reading in readings)))
    starts = [0, *(end + 1 for end in ends[:-1])]
    return FusedOperators(tuple(text[start:end] for start, end in zip(starts, ends, strict=True)), known=True)


def shorten_fused_name(kernel: str) -> str:
    """The name of a generated kernel without its operators: ``triton_red_fused_…_3``; other names as they are."""
    found = _FUSED_KERNEL.fullmatch(kernel)
    return kernel if found is None else f"{found['prefix']}_…_{found['number']}"


def _read_operators(text: str) -> list[tuple[str, ...]]:
    """All ways to read the text as known names, sorted and each once; empty without one, or with too many."""
    ends = [*(at for at, letter in enumerate(text) if letter == "_"), len(text)]
    readings: dict[int, list[tuple[str, ...]]] = {len(text) + 1: [()]}
    for start in reversed([0, *(end + 1 for end in ends[:-1])]):
        readings[start] = [
            (name, *rest)
            for end in ends[bisect_right(ends, start) : bisect_right(ends, start + _LONGEST_OPERATOR)]
            if (name := text[start:end]) in _OPERATORS
            for rest in readings[end + 1]
            if not rest or name < rest[0]
        ]
        if len(readings[start]) > _MAX_READINGS:
            return []
    return readings[0]


def _name_ends(operators: tuple[str, ...]) -> Iterator[int]:
    end = -1
    for operator in operators:
        end += 1 + len(operator)
        yield end


_OPERATORS: Final = frozenset(
    """
    _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d _assert_async _cdist_backward _cdist_forward
    _chunk_cat _conj _conv_depthwise2d _convolution _cslt_sparse_mm _ctc_loss _dirichlet_grad _embedding_bag
    _embedding_bag_forward_only _euclidean_dist _fft_c2c _fft_c2r _fft_r2c _foreach_abs _foreach_add _foreach_addcdiv
    _foreach_addcmul _foreach_copy _foreach_div _foreach_exp _foreach_lerp _foreach_maximum _foreach_mul _foreach_neg
    _foreach_norm _foreach_pow _foreach_reciprocal _foreach_sqrt _foreach_sub _foreach_zero _fused_adam _fused_adamw
    _fused_dropout _fused_moving_avg_obs_fq_helper _fused_rms_norm _fused_rms_norm_backward _fused_sgd _grouped_mm
    _index_put_impl _int_mm _list_to_tensor _local_scalar_dense _log_softmax _log_softmax_backward_data _logcumsumexp
    _masked_softmax _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
    _pdist_forward _prelu_kernel _prelu_kernel_backward _reshape_alias _safe_softmax _scaled_dot_product_attention_math
    _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward
    _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
    _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_fused_attention_overrideable _scaled_grouped_mm
    _scaled_mm _softmax _softmax_backward_data _thnn_fused_gru_cell _thnn_fused_lstm_cell _to_copy _trilinear
    _unsafe_index _unsafe_index_put _unsafe_masked_index _unsafe_masked_index_put_accumulate _unsafe_view
    _upsample_bicubic2d_aa _upsample_bilinear2d_aa _weight_int4pack_mm _weight_int8pack_mm _weight_norm
    _weight_norm_interface _weight_norm_interface_backward abs absolute acos acosh adaptive_avg_pool1d
    adaptive_avg_pool2d adaptive_max_pool2d adaptive_max_pool2d_backward adaptive_max_pool3d add add_ addbmm addcdiv
    addcdiv_ addcmul addcmul_ addmm addmv addr affine_grid_generator alias all all_gather_into_tensor
    all_gather_into_tensor_coalesced all_gather_into_tensor_out all_reduce all_to_all_single amax amin aminmax angle any
    arange argmax argmin argsort as_strided as_strided_scatter asin asinh atan atan2 atanh avg_pool1d avg_pool2d
    avg_pool2d_backward avg_pool3d avg_pool3d_backward baddbmm batch_norm batch_norm_backward bernoulli bernoulli_
    bilinear binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits bincount bitwise_and
    bitwise_and_ bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor block_diag bmm broadcast
    broadcast_in_dim broadcast_tensors bucketize cat cauchy cdist ceil celu channel_shuffle chunk clamp clamp_max
    clamp_max_ clamp_min clamp_min_ clip clone col2im complex conj constant_pad_nd contiguous conv1d conv2d conv3d
    conv_transpose2d convert_element_type convolution convolution_backward copy copy_ copysign cos cosh count_nonzero
    cross cudnn_batch_norm cudnn_batch_norm_backward cummax cummin cumprod cumsum deg2rad detach diag diag_embed
    diagonal diagonal_copy diagonal_scatter diff digamma dist div div_ dot dropout einsum elu elu_backward embedding
    embedding_backward embedding_bag embedding_dense_backward empty empty_like empty_permuted empty_strided eq erf erfc
    erfinv exp exp2 exp_ expand expand_as expand_copy expm1 exponential eye fake_quantize_per_channel_affine_cachemask
    fake_quantize_per_tensor_affine_cachemask fill fill_ flatten flex_attention flex_attention_backward flip fliplr
    flipud floor floor_divide fma fmax fmin fmod frac fractional_max_pool2d frexp full full_like
    fused_moving_avg_obs_fake_quant gather gcd ge gelu gelu_backward geometric glu glu_backward grid_sampler_2d
    grid_sampler_2d_backward grid_sampler_3d group_norm gru_cell gt hardshrink hardsigmoid hardsigmoid_backward
    hardswish hardswish_backward hardtanh hardtanh_backward heaviside histc huber_loss huber_loss_backward hypot i0
    igamma igammac im2col imag index index_add index_add_ index_copy index_copy_ index_fill index_put index_put_
    index_reduce index_select inductor_lookup_seed inductor_randint inductor_random inductor_seed inductor_seeds
    instance_norm iota isfinite isin isinf isnan isneginf isposinf kl_div kthvalue layer_norm le leaky_relu
    leaky_relu_backward lerp lerp_ lgamma lift_fresh lift_fresh_copy linalg_cross linalg_norm linalg_vector_norm linear
    linspace log log10 log1p log2 log_normal log_sigmoid_backward log_sigmoid_forward log_softmax logaddexp logaddexp2
    logcumsumexp logical_and logical_not logical_or logical_xor logit logit_backward logspace logsumexp lstm_cell lt
    masked_fill masked_fill_ masked_scatter masked_scatter_backward masked_select matmul max max_pool1d max_pool2d
    max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d_with_indices max_pool3d_with_indices_backward
    maximum mean median meshgrid min minimum miopen_batch_norm miopen_batch_norm_backward mish mish_backward mm mode
    movedim mse_loss mse_loss_backward mul mul_ multi_margin_loss multinomial mv mvlgamma nan_to_num nansum narrow
    native_batch_norm native_batch_norm_backward native_dropout native_dropout_backward native_group_norm
    native_group_norm_backward native_layer_norm native_layer_norm_backward ne neg neg_ new_empty new_empty_strided
    new_full new_ones new_zeros nextafter nll_loss2d_backward nll_loss2d_forward nll_loss_backward nll_loss_forward
    nonzero nonzero_static norm normal normal_ normal_functional one_hot ones ones_like pad permute permute_copy
    pixel_shuffle pixel_unshuffle polar polygamma pow prelu prepare_softmax_online prod put quantize_per_tensor rad2deg
    rand rand_like randint randint_like randn randn_like randperm real reciprocal reduce_scatter_tensor
    reduce_scatter_tensor_coalesced reflection_pad1d reflection_pad1d_backward reflection_pad2d
    reflection_pad2d_backward reflection_pad3d relu relu6 relu_ remainder renorm repeat repeat_interleave
    replication_pad1d replication_pad2d replication_pad2d_backward replication_pad3d reshape resize rms_norm roi_align
    roll rot90 round rrelu_with_noise rsqrt rsqrt_ rsub scalar_tensor scaled_dot_product_attention scatter scatter_
    scatter_add scatter_add_ scatter_reduce searchsorted segment_reduce select select_backward select_copy
    select_scatter selu sgn sigmoid sigmoid_ sigmoid_backward sign signbit silu silu_backward sin sinc sinh slice
    slice_backward slice_copy slice_scatter smooth_l1_loss smooth_l1_loss_backward softmax softplus softplus_backward
    softshrink softshrink_backward sort special_bessel_j0 special_bessel_j1 special_entr special_erfcx special_i0e
    special_i1 special_i1e special_log_ndtr special_log_softmax special_ndtri special_xlog1py special_zeta split
    split_with_sizes split_with_sizes_copy sqrt sqrt_ square squeeze squeeze_copy stack std std_mean sub sub_ sum
    sum_to_size sym_size symint t t_copy take take_along_dim tan tanh tanh_ tanh_backward tensor_split threshold
    threshold_backward tile to topk trace transpose triangular_solve tril tril_indices triton_kernel_wrapper_functional
    triton_kernel_wrapper_mutation triu triu_indices trunc type_as unbind unflatten unfold unfold_backward uniform
    uniform_ unique unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_copy upsample_bicubic2d
    upsample_bicubic2d_backward upsample_bilinear2d upsample_bilinear2d_backward upsample_linear1d upsample_nearest1d
    upsample_nearest2d upsample_nearest2d_backward upsample_nearest3d upsample_trilinear3d var var_mean vdot view
    view_as view_as_complex view_as_real view_copy wait_tensor where xlogy zero zero_ zeros zeros_like
    """.split()  # noqa: SIM905
)
"""Names of operators as Inductor writes them: of aten and prims, without overloads, and some collectives."""

_LONGEST_OPERATOR: Final = max(map(len, _OPERATORS))
