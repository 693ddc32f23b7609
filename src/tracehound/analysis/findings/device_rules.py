"""Rules on the use of devices: tensor cores, memory, several devices, compiling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from tracehound.analysis.devices.kernel_classes import MEMORY_BOUND
from tracehound.analysis.findings.evidence import Evidence, Finding, FindingLocation, Rule, compute_capability
from tracehound.analysis.findings.kernel_text import describe_kernel
from tracehound.analysis.hosts.thread_activity import COMPILING
from tracehound.formats.device_occupancy import device_capacity as properties
from tracehound.formats.device_occupancy import matching_devices
from tracehound.model.file_facts import DeviceProperties
from tracehound.model.short_names import shorten_kernel_name
from tracehound.model.units import count_noun, format_bytes, format_count, format_duration
from tracehound.model.units import format_share as percent

TENSOR_CORE_CLASSES: Final = ("gemm", "convolution", "attention")
"""Classes of kernels that tensor cores can compute."""

MIN_KERNEL_SHARE: Final = 0.05
MAX_TENSOR_CORE_SHARE: Final = 0.05
FULL_MEMORY_SHARE: Final = 0.90
MIN_TIME_SHARE: Final = 0.01
MIN_COMPILE_SHARE: Final = 0.03
TENSOR_CORE_SAVING: Final = 0.5
"""Share of time saved by tensor cores at a quarter of their peak, 8 times that of other units (V100 to A100)."""
_TENSOR_CORE_CAPABILITY: Final = 7
"""The first compute capability (NVIDIA) that has tensor cores."""


def find_unused_tensor_cores(evidence: Evidence) -> Iterator[Finding]:
    """Matrix products and convolutions that run without tensor cores, on devices that have them."""
    capability = latest_compute_capability(evidence)
    if capability < _TENSOR_CORE_CAPABILITY:
        return
    device_times = evidence.device_times
    total_span = int(device_times["span"].sum())
    kernels = evidence.kernels.filter(pl.col("capability") >= _TENSOR_CORE_CAPABILITY)
    total = int(kernels["total"].sum())
    can_use_tensor_cores = pl.col("class").is_in(TENSOR_CORE_CLASSES) & ~pl.col("name").str.contains(MEMORY_BOUND)
    known_kernels = kernels.filter(can_use_tensor_cores).drop_nulls("tensor_cores")
    eligible, used = int(known_kernels["total"].sum()), int(known_kernels.filter("tensor_cores")["total"].sum())
    if not total or not total_span or eligible <= MIN_KERNEL_SHARE * total or used > MAX_TENSOR_CORE_SHARE * eligible:
        return
    worst = longest_running_kernel(known_kernels.filter(~pl.col("tensor_cores")))
    saving = TENSOR_CORE_SAVING * (eligible - used) / total_span
    cost = round(saving * evidence.base_time)
    remedy = "TF32 or bf16" if capability > _TENSOR_CORE_CAPABILITY else "mixed precision (fp16)"
    yield Finding(
        f"GEMMs and convolutions run without tensor cores: enable {remedy}",
        f"they take {percent(eligible / total)} of the kernel time in {evidence.where_phrase},"
        f" {percent(used / eligible)} of that on tensor cores, which would save about half of it; most in"
        f" {describe_kernel(worst['name'])}",
        _PRECISION_ADVICE[capability > _TENSOR_CORE_CAPABILITY],
        FindingLocation(event=worst["event"]),
        cost,
        saving,
        certainty="inferred",
        command="kernels",
    )


def longest_running_kernel(kernels: pl.DataFrame) -> Mapping[str, Any]:
    """The kernel with the largest total over all ranks, with its event on the rank where it runs longest."""
    by_most = kernels.sort("most", "name", "rank", descending=[True, False, False])
    names = by_most.group_by("name", maintain_order=True).agg(pl.col("total").sum(), pl.exclude("total").first())
    return names.row(names["total"].arg_max() or 0, named=True)


_PRECISION_ADVICE: Final = {
    False: "automatic mixed precision (float16 with a gradient scaler: these devices have no bfloat16), with sizes that"
    " are multiples of 8",
    True: "torch.set_float32_matmul_precision('high') turns on TF32, where 10 bits of mantissa are enough; or automatic"
    " mixed precision (bfloat16), with sizes that are multiples of 8",
}
"""Advice to bring matrix products to tensor cores; the key is whether the GPU is Ampere or later."""


def find_full_memory(evidence: Evidence) -> Iterator[Finding]:
    """The allocator's peak is near the memory of the device."""
    peaks = [
        (row, size)
        for row in evidence.rank_traits.drop_nulls("peak").rows(named=True)
        if (size := _device_memory(evidence, row["rank"]))
    ]
    if not peaks:
        return
    worst, size = max(peaks, key=lambda each: each[0]["peak"] / each[1])
    if worst["peak"] <= FULL_MEMORY_SHARE * size:
        return
    yield Finding(
        f"the memory of the {evidence.device_word} is {percent(worst['peak'] / size)} full",
        f"rank {worst['rank']} held {format_bytes(worst['peak'])} of {format_bytes(size)}",
        "activation checkpointing, mixed precision, a sharded optimizer, a smaller batch",
        FindingLocation(start=worst["peak_time"], duration=0, rank=worst["rank"]),
    )


def find_data_parallel(evidence: Evidence) -> Iterator[Finding]:
    """One process drives several devices through DataParallel."""
    traits = _traits_by_host(evidence)
    calls = int(traits["data_parallel"].sum())
    devices = evidence.table("breakdown").height
    if calls and devices > 1:
        yield Finding(
            "DataParallel drives several devices from one process",
            f"{count_noun(calls, 'call')} of its forward, {devices} devices at work",
            "DistributedDataParallel, with a process for each device",
            _longest_call(traits, "data_parallel"),
        )


def find_missing_nccl(evidence: Evidence) -> Iterator[Finding]:
    """Gradients of devices are exchanged by a backend other than NCCL."""
    traits = _traits_by_host(evidence)
    communicates = evidence.table("kernels").filter(pl.col("type") == "communication").height
    if (
        int(traits["distributed_data_parallel"].sum())
        and not int(traits["nccl"].sum())
        and not communicates
        and evidence.table("breakdown").height
        and latest_compute_capability(evidence) >= 3
    ):
        yield Finding(
            "DistributedDataParallel runs without NCCL",
            "no collective of NCCL was recorded, on the host or on a device",
            "init_process_group(backend='nccl')",
            _longest_call(traits, "distributed_data_parallel"),
        )


def _traits_by_host(evidence: Evidence) -> pl.DataFrame:
    """A row of traits for each host: the activity of its threads is equal on all ranks that it drives."""
    hosts = evidence.context.ranks.select(pl.col("rank").cast(pl.Int64), "host")
    return evidence.rank_traits.join(hosts, on="rank", maintain_order="left").unique("host", maintain_order=True)


def _longest_call(traits: pl.DataFrame, trait: str) -> FindingLocation:
    """Location of the longest call, on the host that has most of them."""
    row = traits.row(traits[trait].arg_max() or 0, named=True)
    return FindingLocation(event=row[f"{trait}_event"], rank=row["rank"])


def find_compiling(evidence: Evidence) -> Iterator[Finding]:
    """Programs are compiled during the run, and a cause of idle time does not tell of it."""
    row = _most_compiling(evidence)
    if row is None or row["compiling"] / row["window"] <= MIN_COMPILE_SHARE:
        return
    if evidence.step_causes.filter(doing=COMPILING).height:
        return
    idle = sum(cause.idle for cause in evidence.host_causes if cause.doing == COMPILING)
    if evidence.share_of_base(evidence.per_step(idle, evidence.device_ranks)) > MIN_COMPILE_SHARE:
        return
    share, in_steps = row["compiling"] / row["window"], row["compiling_in_steps"]
    works = evidence.table("breakdown").height
    cost = evidence.per_step(idle, evidence.device_ranks) if works else evidence.per_step(in_steps or 0, 1)
    is_outside = evidence.steps and not in_steps
    base_phrase = evidence.extent_phrase + (", all of it outside of whole steps" if is_outside else "")
    what = row["recompiled"] if (row["recompilations"] or 0) > 1 else row["compiled"]
    yield Finding(
        "programs are compiled during the run" + (f": {shorten_kernel_name(what, 60)}" if what else ""),
        f"{format_duration(row['compiling'])}, {percent(share)} of {base_phrase}{compiled_functions_text(evidence)}",
        "compile before the loop begins; keep shapes, types and static arguments the same from step to step; the report"
        " compiles lists the functions",
        FindingLocation(event=row["compile_event"], rank=row["rank"]),
        cost or None,
        share,
        evidence.extent_word,
        command="compiles",
    )


def _most_compiling(evidence: Evidence) -> Mapping[str, Any] | None:
    """The traits of the rank whose host compiles longest; None without any."""
    worst = evidence.rank_traits.filter(pl.col("window") > 0).sort("compiling", descending=True).head(1)
    return worst.row(0, named=True) if worst.height else None


def compiled_functions_text(evidence: Evidence) -> str:
    """Text that counts compilations, and names the longest compiled function and the one compiled most often."""
    row = _most_compiling(evidence)
    if row is None or not row["compilations"]:
        return ""
    longest = f", the longest of {shorten_kernel_name(row['compiled'], 60)}" if row["compiled"] else ""
    recompiled = row["recompiled"] if (row["recompilations"] or 0) > 1 else None
    return f"; {count_noun(row['compilations'], 'compilation')}{longest}" + (
        f"; {shorten_kernel_name(recompiled, 60)} {format_count(row['recompilations'])} times" if recompiled else ""
    )


def _working_devices(evidence: Evidence) -> list[DeviceProperties]:
    """Properties of the devices that work; of all devices in a file where it does not say which these are."""
    working = evidence.table("breakdown")["rank"].to_list()
    return [each for rank in working for each in matching_devices(*evidence.facts_and_device(rank))]


def _device_memory(evidence: Evidence, rank: int) -> int:
    """Bytes of memory of a rank's device; 0 where that is unknown."""
    return properties(*evidence.facts_and_device(rank)).memory


def latest_compute_capability(evidence: Evidence) -> int:
    """The highest major compute capability of the devices that work; 0 where none is known."""
    return compute_capability(_working_devices(evidence))


RULES: Final = (
    Rule(
        "tensor cores",
        "GEMMs and convolutions (but those with a vector and split-K reductions, which memory bounds) take"
        f" more than {MIN_KERNEL_SHARE:.0%} of the time of all kernels in whole steps (without any, in the run or"
        f" window), and no more than {MAX_TENSOR_CORE_SHARE:.0%} of that on tensor cores, on devices that have them"
        " (TensorBoard plugin, rule 6); the cost is half of that time",
        find_unused_tensor_cores,
    ),
    Rule(
        "memory",
        f"the allocator held more than {FULL_MEMORY_SHARE:.0%} of the device's memory (plugin, rule 7)",
        find_full_memory,
    ),
    Rule("DataParallel", "it is called, and several devices work (plugin, rule 2)", find_data_parallel),
    Rule(
        "no NCCL", "DistributedDataParallel is called on CUDA devices, and nothing of NCCL (rule 3)", find_missing_nccl
    ),
    Rule(
        "compiling",
        f"in more than {MIN_COMPILE_SHARE:.0%} of the run or window any thread of a host compiles, or loads a program,"
        " as in compiles; the cost is what of that lies in whole steps",
        find_compiling,
    ),
)
