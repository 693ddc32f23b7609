"""What host events mean, in the vocabularies of the frameworks, and what a nest of them means."""

from __future__ import annotations

import pytest

from building import Building, stream, thread
from tracehound.analysis.hosts.host_threads import THREAD_COLUMNS
from tracehound.analysis.hosts.thread_activity import ACTIVITIES, event_activity, innermost_activities
from tracehound.model.trace import Trace

MAIN = thread("python")


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("runtime", "StepMarker", "tracing the next step"),
        ("runtime", "SyncTensorsGraphInternal", "tracing the next step"),
        ("runtime", "RunPostOrder", "tracing the next step"),
        ("compile", "XLAGraphExecutor::Compile", "compiling"),
        ("transfer", "PjRtComputationClient::TransferFromDevice", "blocked on a value"),
        ("transfer", "PjRtComputationClient::TransferToDevice", "sending inputs"),
        ("transfer", "TransferToServer", "sending inputs"),
        ("transfer", "PjRtStreamExecutorBuffer::CopyToDeviceHelper::async_copy_to_device", "calling the runtime"),
        ("runtime", "XRTExecute", "launching work"),
        ("runtime", "PjRtComputationClient::ExecuteComputation", "launching work"),
        ("sync", "TensorCollectionBarrier", "waiting for the device"),
        ("sync", "DeviceBarrier", "waiting for other devices"),
        ("annotation", "cpu_loader.next", "waiting for the loader"),
        ("annotation", "cpu_data_to_xla_device", "sending inputs"),
        ("runtime", "PjitFunction(train_step)", "launching work"),
        ("transfer", "np.asarray(jax.Array)", "blocked on a value"),
        ("python", "$array.py:615 _value", "blocked on a value"),
        ("sync", "$api.py:3105 block_until_ready", "waiting for the device"),
        ("compile", "backend_compile_and_load", "compiling"),
        ("compile", "LoadProgramCacheMiss", "loading a program onto the device"),
        ("runtime", "IteratorGetNext", "waiting for the loader"),
        ("runtime", "Iterator::Root::ParallelMapV2", "loading data"),
        ("annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "waiting for the loader"),
        ("op", "aten::item", "blocked on a value"),
        ("op", "aten::addmm", "running operators"),
        ("op", "compile_fx_inner (dynamo_timed)", "compiling"),
        ("sync", "cudaStreamSynchronize", "waiting for the device"),
        ("runtime", "cudaLaunchKernel", "launching work"),
        ("sync", "urEventWait", "waiting for the device"),
        ("runtime", "urQueueFinish", "waiting for the device"),
        ("sync", "musaStreamSynchronize", "waiting for the device"),
        ("runtime", "urEnqueueUSMMemcpy", "launching work"),
        ("runtime", "aclrtMemcpy", "blocked on a copy"),
        ("runtime", "urUSMDeviceAlloc", "allocating memory"),
        ("runtime", "urUSMFree", "allocating memory"),
        ("runtime", "urUSMGetMemAllocInfo", "calling the runtime"),
        ("runtime", "zeCommandListAppendMemoryCopyRegion", "launching work"),
        ("runtime", "zeCommandListAppendMemoryFill", "launching work"),
        ("runtime", "zeCommandListAppendImageCopyFromMemory", "launching work"),
        ("runtime", "urBindlessImagesImageCopyExp", "launching work"),
        ("runtime", "zeCommandListAppendBarrier", "calling the runtime"),
        ("runtime", "zeModuleCreate", "loading a program onto the device"),
        ("runtime", "zeModuleDestroy", "calling the runtime"),
        ("runtime", "urProgramBuild", "loading a program onto the device"),
        ("runtime", "urProgramBuildExp", "loading a program onto the device"),
        ("runtime", "urProgramCreateWithIL", "loading a program onto the device"),
        ("runtime", "urProgramRelease", "calling the runtime"),
        ("runtime", "aclrtMalloc", "allocating memory"),
        ("runtime", "cudaMemcpyAsync", "launching work"),
        ("runtime", "cudaMemcpy", "blocked on a copy"),
        ("runtime", "cudaMalloc", "allocating memory"),
        ("runtime", "cudaGetDeviceCount", "calling the runtime"),
        ("op", "gloo:all_reduce", "communicating"),
        ("annotation", "forward", None),
        ("step", "train", None),
        ("python", "$time sleep", None),
        ("other", "end: dot.1", None),
    ],
)
def test_names_mean_what_their_frameworks_mean(kind: str, name: str, words: str | None) -> None:
    assert event_activity(name, kind) == words
    assert words is None or words in ACTIVITIES


def said(trace: Trace) -> dict[str, str | None]:
    events = trace.events().select(*THREAD_COLUMNS).collect()
    return dict(zip(events["name"].cast(str).to_list(), innermost_activities(events).to_list(), strict=True))


def test_a_wait_is_told_by_what_it_is_for() -> None:
    b = Building()
    b.event(MAIN, "aten::item", 0, 10, "op")
    b.event(MAIN, "aten::_local_scalar_dense", 1, 9, "op")
    b.event(MAIN, "cudaStreamSynchronize", 2, 8, "sync")
    b.event(MAIN, "wait_for_batch", 20, 30, "annotation")
    b.event(MAIN, "$queue.py:154 get", 21, 29, "python")
    b.event(MAIN, "$<unknown> acquire", 22, 28, "python")
    b.event(MAIN, "cudaDeviceSynchronize", 40, 50, "sync")
    b.event(MAIN, "$train.py:3 train", 60, 70, "python")
    assert said(b.trace()) == {
        "aten::item": "blocked on a value",
        "aten::_local_scalar_dense": "blocked on a value",
        "cudaStreamSynchronize": "blocked on a value",
        "wait_for_batch": "waiting for the loader",
        "$queue.py:154 get": "waiting for the loader",
        "$<unknown> acquire": "waiting for the loader",
        "cudaDeviceSynchronize": "waiting for the device",
        "$train.py:3 train": "running Python",
    }


@pytest.mark.parametrize(
    "name",
    [
        "$time sleep",
        "$threading.py:323 wait",
        "$<unknown> acquire",
        "$poll.py:80 poll",
        "<built-in function sleep>",
        "<built-in method acquire of _thread.lock object at 0x7f82e2a46540>",
        "threading.py(295): wait",
    ],
)
def test_python_that_sleeps_does_not_run(name: str) -> None:
    b = Building()
    b.event(MAIN, "$train.py:3 train", 0, 100, "python")
    b.event(MAIN, name, 10, 90, "python")
    b.event(thread("loader"), "wait_for_batch", 0, 100, "annotation")
    b.event(thread("loader"), f"{name} ", 10, 90, "python")
    found = said(b.trace())
    assert (found["$train.py:3 train"], found[name]) == ("running Python", "waiting in Python")
    assert found[f"{name} "] == "waiting for the loader"


def test_a_call_that_waits_for_its_copy_does_not_launch() -> None:
    """Of two calls of one name one does; inside the reading of a value it is blocked on that."""
    b = Building()
    for start in (0, 20):
        b.event(MAIN, "cudaMemcpyAsync", start, start + 10, "runtime")
    b.event(MAIN, "aten::item", 40, 60, "op")
    b.event(MAIN, "cudaMemcpyAsync", 42, 58, "runtime")
    b.event(MAIN, "cudaLaunchKernel", 70, 75, "runtime")
    events = b.trace().events().select(*THREAD_COLUMNS).collect()
    ids = events["id"].to_list()
    assert innermost_activities(events, [ids[1], ids[3], ids[4]]).to_list() == [
        "launching work", "blocked on a copy", "blocked on a value", "blocked on a value", "blocked on a copy",
    ]  # fmt: skip


def nested(name: str) -> Building:
    """A step with an annotation, and in it a call with a wait and a transfer."""
    b = Building(format="xplane")
    b.event(MAIN, "train_step", 0, 100, "step", step=1)
    b.event(MAIN, "forward", 1, 50, "annotation")
    b.event(MAIN, name, 51, 90, "runtime")
    b.event(MAIN, "TensorCollectionBarrier", 52, 60, "sync")
    b.event(MAIN, "PjRtComputationClient::TransferToDevice", 61, 70, "transfer")
    b.event(MAIN, "SomethingElse", 71, 80, "other")
    return b


def test_annotations_in_a_step_of_lazy_tensors_are_tracing_and_elsewhere_annotations() -> None:
    lazy, other = said(nested("StepMarker").trace()), said(nested("PjitFunction(f)").trace())
    waits = {
        "TensorCollectionBarrier": "waiting for the device",
        "PjRtComputationClient::TransferToDevice": "sending inputs",
    }
    tracing = dict.fromkeys(("train_step", "forward", "StepMarker", "SomethingElse"), "tracing the next step")
    assert lazy == {**tracing, **waits}
    launching = dict.fromkeys(("PjitFunction(f)", "SomethingElse"), "launching work")
    assert other == {"train_step": None, "forward": "in an annotation", **launching, **waits}


def test_the_mark_of_a_step_is_no_frame_of_python() -> None:
    """Alone it says nothing of what the host does; where frames are recorded around it, Python runs in it."""
    b = Building()
    b.event(MAIN, "train_step", 0, 100, "step", step=1)
    b.event(MAIN, "$train.py:3 train", 200, 400, "python")
    b.event(MAIN, "second_step", 210, 390, "step", step=2)
    assert said(b.trace()) == {
        "train_step": None, "$train.py:3 train": "running Python", "second_step": "running Python",
    }  # fmt: skip


def test_a_device_says_nothing_of_the_host() -> None:
    b = Building()
    b.event(stream(), "gemm", 0, 10)
    b.event(MAIN, "unheard of", 0, 10, "other")
    assert said(b.trace())["unheard of"] is None
