from __future__ import annotations

import pytest

from tracehound.formats.kineto.arg_values import collective_message_bytes, input_tensor_bytes
from tracehound.formats.kineto.categories import (
    copy_kind,
    kernel_kind,
    operator_kind,
    parse_category,
    runtime_call_kind,
    step_number,
)
from tracehound.formats.kineto.kineto_lanes import format_thread_name


@pytest.mark.parametrize(
    ("spelling", "kind", "row"),
    [
        ("cpu_op", "op", "thread"),
        ("Operator", "op", "thread"),
        ("Kernel", "kernel", "stream"),
        ("mtia_ccp_events", "kernel", "stream"),
        ("Memcpy", "copy", "stream"),
        ("gpu_memset", "memset", "stream"),
        ("Runtime", "runtime", "thread"),
        ("cuda_driver", "runtime", "thread"),
        ("driver", "runtime", "thread"),
        ("xpu_runtime", "runtime", "thread"),
        ("privateuse1_driver", "runtime", "thread"),
        ("cuda_sync", "sync", "sync"),
        ("xpu_sync", "sync", "sync"),
        ("user_annotation", "annotation", "thread"),
        ("gpu_user_annotation", "annotation", "annotations"),
        ("Python", "python", "thread"),
        ("Trace", "other", "none"),
        ("overhead", "other", "thread"),
        ("something new", "other", "thread"),
    ],
)
def test_categories_of_all_years(spelling, kind, row):
    found = parse_category(spelling)
    assert (found.kind, found.role) == (kind, row)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "collective"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", "collective"),
        ("nccldevkernel_allgather", "collective"),
        ("void rcclGenericKernel<1, false>(ncclDevComm*)", "collective"),
        ("rccl_main_kernel", "collective"),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", "collective"),
        ("at::native::multimem_all_reduce_kernel", "collective"),
        ("flashinfer::trtllm_allreduce_fusion::kernel", "collective"),
        ("deep_ep::internode_ll::dispatch", "collective"),
        ("nvshmemi_transfer", "collective"),
        ("comm::TwoShotAllReduceKernel", "collective"),
        ("at::native::small_gather_kernel", "kernel"),
        ("__amd_rocclr_copyBuffer.kd", "copy"),
        ("MEMORY_COPY_HOST_TO_DEVICE", "copy"),
        ("__amd_rocclr_fillBufferAligned.kd", "memset"),
        ("batch_norm_SyncStats", "kernel"),
        ("void admatch_kernel<float>()", "kernel"),
        ("ampere_sgemm_128x64_tn", "kernel"),
    ],
)
def test_kernels_by_name(name, kind):
    assert kernel_kind(name) == kind


def test_fills_among_copies():
    assert copy_kind("FillBuffer") == "memset"
    assert copy_kind("CopyHostToDevice") == "copy"


def test_step_marks():
    assert step_number("ProfilerStep#12") == 12
    assert step_number("ProfilerStep#x") == -1
    assert step_number("my ProfilerStep#3") == -1


def test_sizes_of_messages():
    assert collective_message_bytes(100, 800, "BFloat16") == 1600
    assert collective_message_bytes(100, -1, "Float") == 400
    assert collective_message_bytes(100, 100, "mystery") == -1
    assert input_tensor_bytes([[2, 3], [], [4]], ["float", "Scalar", "c10::Half"]) == 32
    assert input_tensor_bytes([[]], ["float"]) == 4
    assert input_tensor_bytes([[[2], [3]]], ["float"]) == 20
    assert input_tensor_bytes(None, None) == -1
    assert collective_message_bytes(2**62, 0, "Float") == -1
    assert input_tensor_bytes([[2**62, 2]], ["float"]) == -1
    deep: list = [3]
    for _ in range(5000):
        deep = [deep]
    assert input_tensor_bytes([deep], ["float"]) >= -1


@pytest.mark.parametrize(
    ("recorded", "tid", "shown"),
    [
        ("thread 5714 (python)", 5714, "python (5714)"),
        ("thread 1235 (pt_autograd_0)", 1235, "pt_autograd_0 (1235)"),
        ("thread 5714", 5714, "thread 5714"),
        ("", 9, "thread 9"),
        ("stream 7 ", 7, "stream 7"),
        ("my thread", 9, "my thread (9)"),
    ],
)
def test_names_of_threads(recorded, tid, shown):
    assert format_thread_name(recorded, tid) == shown


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Optimizer.step#SGD.step", "annotation"),
        ("Optimizer.zero_grad#SGD.zero_grad", "annotation"),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "annotation"),
        ("enumerate(DataPipe)#MapperIterDataPipe", "annotation"),
        ("DistributedDataParallel.forward", "annotation"),
        ("aten::add_", "op"),
        ("OptimizerStep", "op"),
    ],
)
def test_marks_of_old_releases(name, kind):
    assert operator_kind(name) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaDeviceSynchronize", "sync"),
        ("hipStreamSynchronize", "sync"),
        ("cuEventSynchronize", "sync"),
        ("cudaStreamSynchronize_ptsz", "sync"),
        ("zeEventHostSynchronize", "sync"),
        ("zeCommandQueueSynchronize", "sync"),
        ("urEventWait", "sync"),
        ("urQueueFinish", "sync"),
        ("musaStreamSynchronize", "sync"),
        ("mtiaStreamSynchronize", "sync"),
        ("aclrtSynchronizeStream", "sync"),
        ("urEnqueueEventsWait", "runtime"),
        ("cudaLaunchKernel", "runtime"),
        ("cudaStreamWaitEvent", "runtime"),
        ("aten::_cuda_synchronize", "runtime"),
    ],
)
def test_calls_that_wait_for_the_device(name, kind):
    assert runtime_call_kind(name) == kind
