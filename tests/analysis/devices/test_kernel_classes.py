"""What the names of real kernels tell: class, type, tensor cores."""

from __future__ import annotations

import polars as pl
import pytest

from tracehound.analysis.devices.kernel_classes import CUSTOM_CLASSES, classify_kernels, parse_custom_classes
from tracehound.errors import TracehoundError


def told(name: str, kind: str = "kernel", category: str | None = None, own: str = "") -> tuple[str, str, bool | None]:
    row = pl.DataFrame(
        [(name, kind, category)], schema={"name": pl.String, "kind": pl.String, "category": pl.String}, orient="row"
    )
    found = classify_kernels(row, parse_custom_classes(own)).row(0, named=True)
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
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_ffma_aligna4_execute_kernel__5x_cublas", "gemm", False),
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
        ("void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>()", "normalization", False),
        ("void flashinfer::BatchPrefillWithPagedKVCacheKernel<>()", "attention", True),
        ("void vllm::reshape_and_cache_flash_kernel<__hip_bfloat16>()", "kv cache", False),
        ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>()", "rotary", False),
        ("cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1", "convolution", False),
        ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tensor16x8x8", "convolution", True),
        ("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32", "convolution", True),
        ("void cudnn::cnn::im2col4d_kernel<float, long>()", "convolution", False),
        ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>()", "normalization", False),
        ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>()", "normalization", False),
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


_CUTLASS_3 = (
    "void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<cutlass::gemm::kernel::GemmUniversal<"
    "cute::tuple<int, int, int>, cutlass::gemm::collective::CollectiveMma<%s, cute::TiledMMA<cute::MMA_Atom<%s> >"
    " > > >(cutlass::gemm::kernel::GemmUniversal<>::Params)"
)


@pytest.mark.parametrize(
    "name",
    [
        _CUTLASS_3 % ("cutlass::gemm::MainloopSm90TmaGmmaWarpSpecializedFP8<8, cute::tuple<cute::C<1> > >",
                      "cute::SM90::GMMA::MMA_64x128x32_F32E4M3E4M3_SS_TN<(cute::SM90::GMMA::ScaleIn)1>"),
        _CUTLASS_3 % ("cutlass::gemm::MainloopSm100TmaUmmaWarpSpecialized<6, 2, 4>", "cute::SM100_MMA_F8F6F4_SS"),
        _CUTLASS_3 % ("cutlass::gemm::MainloopSm100TmaUmmaWarpSpecialized<6, 2, 4>", "x"),
        _CUTLASS_3 % ("cutlass::gemm::MainloopSm80CpAsync<4>", "cute::SM80_16x8x16_F32BF16BF16F32_TN"),
        _CUTLASS_3 % ("cutlass::gemm::MainloopSm120TmaWarpSpecialized<2>", "cute::SM120_16x8x32_TN<float>"),
        "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute4SM904GMMA25MMA_64x128x16_F32BF16BF16_SS",
        "void cutlass::Kernel2<vllm::enable_sm89_to_sm90<cutlass::gemm::kernel::DefaultGemmWithVisitor<"
        "cutlass::arch::OpClassTensorOp> > >()",
        "kernel_cutlass_kernel_Sm100BlockScaledPersistentDenseGemmKernel_object_at__tensorptri8",
        "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at__tensor",
        "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::MainloopFwdSm90<2> > >",
        "_ZN5aiter37bf16gemm_fp32bf16_tn_96x64_splitk_cleanE",
        "bf16gemm_fp32bf16_tn_96x64_splitk_clean",
        "void deep_gemm::fp8_gemm_kernel<4096u, 7168u, 128u, 128u, 128u>(__nv_bfloat16*, float*, int*)",
        "_ZN9deep_gemm15fp8_gemm_kernelILj4096ELj7168E",
        "void marlin::Marlin<__nv_bfloat16, 1125899906909960l, 256, 1, 8, 8, 4>(int4 const*, int4 const*)",
        "void awq::gemm_forward_4bit_cuda_m16nXk32_kernel<128>(int, __half*)",
        "bmm_E4m3_E4m3E4m3_Fp32_t128x8x128_s6_et64x8_m64x8x32_cga1x1x1_16dp256b_TN_transOut_schedS_sm100f",
        "bmm_E2m1_E2m1E2m1_Fp32_Ab16_Bb16_Cb16_t128x128x512u2_s3x3x3x3x1x3_et128x32_m256x128x64_c2x1x1_rM_TN_tra",
        "gemm_Bfloat16_E4m3E4m3_Fp32_t128x128x256u2_s2_et128x128_m128x128x32_cga1x1x1_16dp256b_TN_schedS_sm100a",
        "GemmGatedActKernel_E4m3_E4m3_Fp32_tile128x8x256_epilogueTile128x8_mma128x8x32_cluster1x1x4_splitK4_sm100a",
        "void ck_tile::kentry<256, 2, ck_tile::GemmKernel<ck_tile::WarpGemmAttributeMfma<ck_tile::X> > >()",
        "Custom_Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_K1",
        "cudnn_generated_oss_sdpa_sm100_flash_fprop_f16_knob_7_128x128x128_4x1x1",
        "nvjet_sm100_tst_128x256_64x6_2x1_2cta_v_bz_TNN",
        "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>::Params)",
        "void wmma_kernel<1>()", "tcgen05_matmul", "void ck_tile::kentry<256, 2, ck_tile::GemmKernel<ck_tile::X> >()",
    ],
)  # fmt: skip
def test_current_names_of_tensor_cores(name: str) -> None:
    known, type_, tensor_cores = told(name)
    assert type_ == "computation"
    assert tensor_cores is True
    assert known in ("gemm", "attention", "other")


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("_fwd_grouped_kernel_stage1", "attention"), ("_fwd_kernel_stage2", "attention"),
        ("bwd_kernel_dk_dv", "attention"), ("_attn_fwd", "attention"),
        ("_paged_attention_kernel", "attention"), ("kernel_unified_attention_3d", "attention"),
        ("grouped_gemm_kernel", "gemm"), ("_grouped_matmul", "gemm"), ("awq_gemm_kernel", "gemm"),
        ("void wvSplitK_hf_sml_<__hip_bfloat16, 64, 2, 16, 8, 2, 1>(int, int)", "gemm"),
        ("_gemm_a8w8_blockscale_kernel", "gemm"), ("_batched_gemm_a16wfp4_kernel", "gemm"),
        ("chunk_gated_delta_rule_fwd_kernel_h_blockdim64", "state space"), ("chunk_fwd_kernel_o", "state space"),
        ("_chunk_scan_fwd_kernel", "state space"), ("_bmm_chunk_fwd_kernel", "state space"),
        ("_selective_scan_update_kernel", "state space"),
    ],
)  # fmt: skip
def test_names_of_their_authors_do_not_tell_of_tensor_cores(name: str, known: str) -> None:
    assert told(name) == (known, "computation", None)


def test_a_state_space_in_cuda_multiplies_without_tensor_cores() -> None:
    name = "void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128, 16> >(SSMParamsBase)"
    assert told(name) == ("state space", "computation", False)


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::vectorized_elementwise_kernel<4, at::native::TensorOptionsFunctor<float> >(int)",
        "SubTensorOpWithScalar1d", "summation_kernel", "void SUMMATION<float>()", "dimMapping", "gamma_beta_kernel",
        "void copy_kernel<cute::SM90_TMA_LOAD, cute::SM100_TMEM_LOAD>()", "void deep_gemm::transpose_fp32<512u, 64u>()",
        "void deep_gemm::smxx_clean_logits<1u>()", "void flash::prepare_varlen_num_blocks_kernel<1>()",
        "void marlin::gptq_marlin_repack_kernel<256, 4, false>(unsigned int const*)", "fmhaReductionKernel",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>()", "ampere_sgemm_32x128_tn",
        "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_ffma_aligna4_execute",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float> > >()",
        "void gemv2T_kernel_val<int, int, float, cublasGemvParams<cublasGemvTensorStridedBatched<float const> > >()",
        "void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<int>, cutlass::arch::Sm90> >()",
        "void cutlass::device_kernel<flash::FlashAttnBwdPostprocessConvertdQ<1> >()",
        "fmha_cutlassF_f32_aligned_64x64_rf_sm75(PyTorchMemEffAttention::AttentionKernel<float>::Params)",
        "triton_poi_fused_add_addmm_silu_4", "triton_red_fused_mm_gmm_2", "Memcpy DtoD (Device -> Device)",
    ],
)  # fmt: skip
def test_what_multiplies_without_tensor_cores_or_not_at_all(name: str) -> None:
    assert told(name)[2] is False


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
    with pytest.raises(TracehoundError, match=r"is not a class.*NAME:REGEX"):
        CUSTOM_CLASSES.read(text)


def test_what_is_no_expression_is_said() -> None:
    with pytest.raises(TracehoundError, match="not a regular expression"):
        CUSTOM_CLASSES.read("mine:(")
