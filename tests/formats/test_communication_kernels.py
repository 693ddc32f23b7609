"""Kernels that communicate, by the names that libraries and engines give them."""

from __future__ import annotations

import pytest

from tracehound.formats.runtime_names import is_communication_kernel


@pytest.mark.parametrize(
    "name",
    [
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "nccldevkernel_sendrecv",
        "void rcclGenericKernel<1, false>(ncclDevComm*)",
        "mscclKernel_Sum_half_LL",
        "mscclpp::allreduce7",
        "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*)",
        "void aiter::reduce_scatter_cross_device_store<__hip_bfloat16, 8>(aiter::RankData*)",
        "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot>()",
        "void flashinfer::trtllm_mnnvl_allreduce::twoshot_kernel<float>()",
        "void tensorrt_llm::kernels::ar_fusion::allreduce_fusion_kernel_oneshot_lamport<half>()",
        "void tensorrt_llm::kernels::moeAllToAllKernel<4>()",
        "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)",
        "void deep_ep::internode_ll::combine<true, 7168, 9>(void*)",
        "nvshmemi_transfer_kernel",
        "rocshmem_putmem_kernel",
        "void c10d::symmetric_memory::(anonymous namespace)::barrier_kernel(unsigned int**)",
        "void multimem_one_shot_all_reduce_kernel<c10::BFloat16>()",
        "void one_shot_all_reduce_kernel<c10::BFloat16, 8>()",
        "void userbuffers_fp16_sum_inplace_gpu_rw<8>()",
        "triton_one_shot_all_reduce_bias",
        "void mori::moe::EpDispatchInterNodeKernel<bf16>()",
        "void hybrid_ep::dispatch_kernel<bf16, 8>()",
        "void hybrid_ep::combine_kernel<bf16, 8>()",
        "void tensorrt_llm::kernels::moe_comm::moeA2ADispatchKernel<4>()",
        "void tensorrt_llm::kernels::moe_comm::moeA2ACombineKernel<4>()",
        "void mnnvl::oneshotAllreduceFusionKernel<half>()",
        "void mnnvl::twoshotAllreduceKernel<half>()",
        "ep_dispatch_bf16",
        "moe_combine_kernel",
        "two_shot_reduce_kernel",
        "fusedAlltoallKernel",
        "userAllgatherRing",
    ],
)
def test_these_communicate(name: str) -> None:
    assert is_communication_kernel(name)


@pytest.mark.parametrize(
    "name",
    [
        "triton_poi_fused_all_gather_into_tensor_cat_0",
        "triton_red_fused_add_all_reduce_native_layer_norm_3",
        "void deep_ep::layout::get_dispatch_layout<256, 4, 8>(long const*)",
        "at::native::small_gather_kernel",
        "step_dispatch_kernel",
        "deep_combine_kernel",
        "moe_align_block_size_kernel",
        "void hybrid_ep::scan_kernel()",
        "overall_gather_kernel",
        "void dispatchSmallGather()",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<bool, at::native::and_functor>>()",
        "batch_norm_SyncStats",
        "Cijk_Alik_Bljk_BBS_BH_MT128x64x64_MI32x32x8x1_SN",
    ],
)
def test_these_do_not(name: str) -> None:
    assert not is_communication_kernel(name)
