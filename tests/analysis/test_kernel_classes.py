"""What the names of real kernels tell: class, type, tensor cores."""

from __future__ import annotations

import polars as pl
import pytest

from tracehound.analysis.kernel_classes import OWN, classified, own_classes
from tracehound.errors import TracehoundError


def told(name: str, kind: str = "kernel", category: str | None = None, own: str = "") -> tuple[str, str, bool | None]:
    row = pl.DataFrame(
        [(name, kind, category)], schema={"name": pl.String, "kind": pl.String, "category": pl.String}, orient="row"
    )
    found = classified(row, own_classes(own)).row(0, named=True)
    return found["class"], found["type"], found["tensor_cores"]


@pytest.mark.parametrize(
    ("name", "known", "tensor_cores"),
    [
        ("volta_sgemm_64x64_nt", "gemm", False),
        ("volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn", "gemm", True),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8>()", "gemm", True),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>()", "gemm", False),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute", "gemm", True),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_ffma_aligna4_execute", "gemm", False),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT", "gemm", True),
        ("cutlass3x_sm100_tensorop_s256x128x16gemm_bf16", "gemm", True),
        ("void cublasLt::splitKreduce_kernel<32, 16, int, float>()", "gemm", False),
        ("void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 4096u>()", "gemm", True),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x192x64_MI16x16x1_SN_LDSB1", "gemm", True),
        ("Cijk_Ailk_Bljk_SB_MT64x64x8_SE_K1", "gemm", False),
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu", "gemm", None),
        ("triton_tem_fused_mm_2", "gemm", None),
        ("triton_tem_fused_flex_attention_1", "attention", None),
        ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64>>()", "attention", True),
        ("void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<64>>()", "attention", False),
        ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", "attention", True),
        ("kernel_unified_attention_2d", "attention", None),
        ("void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16>()", "attention", True),
        ("void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>()", "normalisation", False),
        ("void flashinfer::BatchPrefillWithPagedKVCacheKernel<>()", "attention", True),
        ("void vllm::reshape_and_cache_flash_kernel<__hip_bfloat16>()", "kv cache", False),
        ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>()", "rotary", False),
        ("cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1", "convolution", False),
        ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tensor16x8x8", "convolution", True),
        ("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32", "convolution", True),
        ("void cudnn::cnn::im2col4d_kernel<float, long>()", "convolution", False),
        ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>()", "normalisation", False),
        ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>()", "normalisation", False),
        ("void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float>()", "softmax", False),
        ("triton_poi_fused_addmm_silu_2", "triton", False),
        ("void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel(fbgemm_gpu::X)", "embedding", False),
        ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<4>, "
         "FusedAdamMathFunctor>()", "optimizer", False),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, func_wrapper_t>>()", "reduction", False),
        ("void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>()", "elementwise", False),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>()", "data movement", False),
        ("loop_convert_fusion.kd", "elementwise", False),
        ("mystery", "other", False),
    ],
)  # fmt: skip
def test_kernels_by_name(name: str, known: str, tensor_cores: object) -> None:
    assert told(name) == (known, "computation", tensor_cores)


@pytest.mark.parametrize(
    ("kind", "type_"),
    [("collective", "communication"), ("copy", "memory"), ("memset", "memory"), ("transfer", "memory")],
)
def test_what_is_known_of_an_event_comes_before_its_name(kind: str, type_: str) -> None:
    assert told("flash_gemm", kind) == (kind, type_, None)


def test_an_hlo_op_has_its_category() -> None:
    assert told("gemm.1", "op", "convolution fusion") == ("convolution fusion", "computation", None)
    assert told("gemm.1", "op") == ("other", "computation", None)
    assert told("fusion_5.kd", "kernel", "loop fusion") == ("loop fusion", "computation", False)
    assert told("Cijk_X_MI16x16x1", "kernel", "custom-call") == ("gemm", "computation", True)


def test_the_callers_own_classes_are_asked_first() -> None:
    own = "mine:^volta|^ampere(?=_); communication:my_exchange"
    assert told("volta_sgemm_64x64_nt", own=own) == ("mine", "computation", False)
    assert told("ampere_sgemm", own=own)[0] == "mine"
    assert told("MY_EXCHANGE<int>", own=own)[:2] == ("communication", "communication")
    assert told("ncclKernel", "collective", own="mine:nccl")[:2] == ("mine", "communication")
    assert told("ncclKernel", "collective", own="computation:nccl")[:2] == ("computation", "computation")
    assert told("other_gemm", own=own)[0] == "gemm"


@pytest.mark.parametrize("text", ["mine", "mine:", ":gemm", "a:b; c"])
def test_what_is_no_class_is_said(text: str) -> None:
    with pytest.raises(TracehoundError, match=r"is no class.*NAME:REGEX"):
        OWN.read(text)


def test_what_is_no_expression_is_said() -> None:
    with pytest.raises(TracehoundError, match="no regular expression"):
        OWN.read("mine:(")
