from __future__ import annotations

import pytest

from tracehound.formats.xla.xla_names import (
    is_program_thread,
    kind_of_gpu_event,
    kind_of_host_event,
    opcode_of_name,
    role_of_line,
)


@pytest.mark.parametrize(("line", "role"), [
    ("XLA Ops", "ops"), ("XLA Modules", "modules"), ("Async XLA Ops", "async"), ("Steps", "steps"),
    ("XLA TraceMe", "sync"), ("Overlay", "other"), ("Framework Name Scope", "scope"), ("TensorFlow Ops", "scope"),
    ("Stream #7(Kernel,MemcpyH2D)", "stream"), ("XLA Ops - from #3", "ops"), ("_counters_", "counter"),
    ("XLA Ops of Stream #14(Compute,MemcpyD2D)", "ops"), ("XLA Ops of mine", "other"),
    ("Sparse Core Modules", "modules"), ("SparseCore 0 XLA Ops", "ops"), ("Launch Stats", "other"), ("", "other"),
])  # fmt: skip
def test_roles_of_lines(line: str, role: str) -> None:
    assert role_of_line(line) == role


@pytest.mark.parametrize(("name", "opcode"), [
    ("%all-reduce.22", "all-reduce"), ("cudnn-conv.1.0", "cudnn-conv"), ("fusion.3.clone.1", "fusion"),
    ("dot.4.remat2", "dot"), ("add", "add"), ("psum.7", "all-reduce"), ("ppermute", "collective-permute"),
    ("wrapped_psum", "wrapped_psum"),
])  # fmt: skip
def test_what_a_name_suggests(name: str, opcode: str) -> None:
    assert opcode_of_name(name) == opcode


@pytest.mark.parametrize(("name", "thread", "kind"), [
    ("$api.py:3105 block_until_ready", "python", "python"), ("train", "python", "annotation"),
    ("build_graph", "main", "annotation"), ("PjitFunction(f)", "python", "runtime"),
    ("DoEnqueueProgram", "main", "runtime"), ("jit_f:XLA GPU module", "python", "runtime"),
    ("backend_compile", "main", "compile"), ("TfrtTpuCompiler::Compile", "main", "compile"),
    ("dce", "tf_PjRtCompilerThreadPool", "compile"), ("XLAGraphExecutor::Compile", "python", "compile"),
    ("tpu::System::TransferToDevice=>IssueEvent", "pjrt-tpu-tasks", "transfer"), ("H2D Dispatch", "x", "transfer"),
    ("hipMemcpyHtoDAsync", "Host Threads", "transfer"), ("np.asarray(jax.Array)", "python", "transfer"),
    ("Wait for donation holds", "python", "sync"), ("cuStreamSynchronize", "python", "sync"),
    ("wait_for_batch", "python", "annotation"),
    ("ThunkExecutor::Execute (wait for completion)", "tf_XLAEigen", "sync"), ("Rendezvous", "tf_XLAEigen", "sync"),
    ("ThreadpoolListener::Record", "python", "other"), ("end: dot.1", "tf_XLAEigen", "other"),
    ("anything", "tf_XLAEigen", "runtime"), ("SyncTensorsGraph", "python", "runtime"),
])  # fmt: skip
def test_kinds_of_host_events(name: str, thread: str, kind: str) -> None:
    assert kind_of_host_event(name, thread) == kind


@pytest.mark.parametrize(("name", "kind"), [
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "collective"), ("MemcpyH2D", "copy"), ("CopyDeviceToDevice", "copy"),
    ("__amd_rocclr_copyBuffer.kd", "copy"), ("Memset", "memset"), ("__amd_rocclr_fillBufferAligned", "memset"),
    ("loop_convert_fusion.kd", "kernel"), ("Cijk_Ailk_Bljk", "kernel"),
])  # fmt: skip
def test_kinds_of_gpu_events(name: str, kind: str) -> None:
    assert kind_of_gpu_event(name) == kind


def test_the_programs_own_threads_lead() -> None:
    assert is_program_thread("python")
    assert is_program_thread("main/3116817")
    assert not is_program_thread("tf_XLAEigen/1")
