"""What the calls of runtimes and drivers do, by their names."""

from __future__ import annotations

import pytest

from tracehound.formats.runtime_names import BLOCKING_COPY_CALL, COPY_CALL, LAUNCH_CALL, QUERY_CALL, WAIT_CALL


def told(name: str) -> set[str]:
    patterns = {
        "launch": LAUNCH_CALL,
        "copy": COPY_CALL,
        "blocking": BLOCKING_COPY_CALL,
        "wait": WAIT_CALL,
        "query": QUERY_CALL,
    }
    return {what for what, pattern in patterns.items() if pattern.search(name)}


@pytest.mark.parametrize(
    ("name", "does"),
    [
        ("cudaLaunchKernelExC", {"launch"}),
        ("cudaLaunchHostFunc", set()),
        ("hipMemcpyAsync", {"launch", "copy"}),
        ("hipMemcpyWithStream", {"launch", "copy", "blocking"}),
        ("cuMemsetD8Async", {"launch"}),
        ("zeCommandListAppendLaunchKernel", {"launch"}),
        ("zeCommandListAppendLaunchCooperativeKernel", {"launch"}),
        ("zeCommandListAppendMemoryCopy", {"launch", "copy"}),
        ("zeCommandListAppendMemoryCopyRegion", {"launch", "copy"}),
        ("zeCommandListAppendMemoryCopyFromContext", {"launch", "copy"}),
        ("zeCommandListAppendImageCopyToMemory", {"launch", "copy"}),
        ("zeCommandListAppendMemoryFill", {"launch"}),
        ("zeCommandListAppendMemoryPrefetch", {"launch"}),
        ("zeCommandListAppendBarrier", set()),
        ("zeCommandListAppendSignalEvent", set()),
        ("zeCommandQueueExecuteCommandLists", {"launch"}),
        ("zeCommandListImmediateAppendCommandListsExp", {"launch"}),
        ("zeCommandListHostSynchronize", {"wait"}),
        ("zeEventHostSynchronize", {"wait"}),
        ("zeEventQueryStatus", {"query"}),
        ("zeModuleCreate", set()),
        ("urEnqueueKernelLaunch", {"launch"}),
        ("urEnqueueUSMMemcpy2D", {"launch", "copy"}),
        ("urEnqueueUSMFill", {"launch"}),
        ("urEnqueueMemBufferCopyRect", {"launch", "copy"}),
        ("urEnqueueMemBufferFill", {"launch"}),
        ("urEnqueueMemImageRead", {"launch", "copy"}),
        ("urEnqueueDeviceGlobalVariableWrite", {"launch", "copy"}),
        ("urBindlessImagesImageCopyExp", {"launch", "copy"}),
        ("urProgramBuildExp", set()),
        ("cnInvokeKernel", {"launch"}),
        ("cnMemcpyHtoDAsync", {"launch", "copy"}),
        ("cnrtMemcpy", {"launch", "copy", "blocking"}),
        ("cnrtMemsetAsync", {"launch"}),
        ("cnrtQueueSync", {"wait"}),
        ("cnrtSyncDevice", {"wait"}),
        ("cnnlMultiTensorScale", set()),
    ],
)
def test_what_a_call_does(name: str, does: set[str]) -> None:
    assert told(name) == does
