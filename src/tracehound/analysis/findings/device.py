"""Rules about how devices are used: tensor cores, memory, several of them, compiling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from tracehound.analysis.devices.kernel_classes import MEMORY_BOUND
from tracehound.analysis.findings.finding import Evidence, Finding, Place, Rule
from tracehound.file_facts import DeviceProperties, FileFacts
from tracehound.formats.residency import candidates
from tracehound.formats.residency import device as properties
from tracehound.units import bytes_, count, duration, plural, short_name
from tracehound.units import share as percent

PRODUCTS: Final = ("gemm", "convolution", "attention")
"""Classes of kernels that tensor cores can compute."""

WORTH: Final = 0.05
UNUSED: Final = 0.05
FULL: Final = 0.90
COPIED: Final = 0.01
COMPILED: Final = 0.03
_SAVED: Final = 0.5
"""What tensor cores save at a quarter of their peak, which is eight times that of the other units (V100 to A100)."""
_TENSOR_CORES: Final = 7
"""The first compute capability (NVIDIA) that has tensor cores."""


def tensor_cores(evidence: Evidence) -> Iterator[Finding]:
    """Products and convolutions that run on no tensor cores, on devices that have them."""
    if latest(evidence) < _TENSOR_CORES:
        return
    spans = evidence.spans
    span = int(spans["span"].sum())
    every = evidence.ran
    total = int(every["total"].sum())
    helped = pl.col("class").is_in(PRODUCTS) & ~pl.col("name").str.contains(MEMORY_BOUND)
    known = every.filter(helped).drop_nulls("tensor_cores")
    eligible, used = int(known["total"].sum()), int(known.filter("tensor_cores")["total"].sum())
    if not total or not span or eligible <= WORTH * total or used > UNUSED * eligible:
        return
    worst = largest(known.filter(~pl.col("tensor_cores")))
    missed = _SAVED * (eligible - used) / span
    yield Finding(
        "products and convolutions do not use tensor cores",
        f"they take {percent(eligible / total)} of the time of all kernels in {evidence.where},"
        f" {percent(used / eligible)} of that on tensor cores, which would save about half of it; most in"
        f" {short_name(worst['name'], 60)}",
        _PRECISION[latest(evidence) > _TENSOR_CORES],
        Place(event=worst["event"]),
        round(missed * evidence.stretch),
        missed,
    )


def largest(kernels: pl.DataFrame) -> Mapping[str, Any]:
    """What ran for longest over all ranks, with its event on the rank where it did so most."""
    of_rank = kernels.sort("total", "name", "rank", descending=[True, False, False])
    names = of_rank.group_by("name", maintain_order=True).agg(
        pl.col("total").sum(), pl.exclude("total", "rank").first()
    )
    return names.row(names["total"].arg_max() or 0, named=True)


_PRECISION: Final = {
    False: "automatic mixed precision (float16 with a gradient scaler: these devices have no bfloat16), sizes that are"
    " multiples of 8",
    True: "automatic mixed precision (bfloat16), or TF32 with torch.set_float32_matmul_precision('high'), sizes that"
    " are multiples of 8",
}
"""What brings products to tensor cores, by whether they are of Ampere or later."""


def memory(evidence: Evidence) -> Iterator[Finding]:
    """The allocator's peak is near what the device has."""
    held = [
        (row, size)
        for row in evidence.traits.drop_nulls("peak").rows(named=True)
        if (size := _memory(evidence, row["rank"]))
    ]
    if not held:
        return
    worst, size = max(held, key=lambda each: each[0]["peak"] / each[1])
    if worst["peak"] <= FULL * size:
        return
    yield Finding(
        "the device's memory is nearly full",
        f"rank {worst['rank']} held {bytes_(worst['peak'])} of {bytes_(size)}, {percent(worst['peak'] / size)}",
        "activation checkpointing, mixed precision, a sharded optimizer, a smaller batch",
        Place(start=worst["peak_time"], duration=0, rank=worst["rank"]),
    )


def pageable(evidence: Evidence) -> Iterator[Finding]:
    """Copies from or to memory of the host that is not pinned: the host waits for them."""
    spans = evidence.spans
    span, mine = int(spans["span"].sum()), evidence.traits.filter(pl.col("rank").is_in(spans["rank"].implode()))
    total = int(mine["pageable"].sum())
    if not span or total / span <= COPIED:
        return
    worst = mine.sort("pageable", descending=True).row(0, named=True)
    cost = round(total / span * evidence.stretch)
    yield Finding(
        "copies go through pageable memory of the host",
        f"they take {duration(cost)} of {evidence.whose}, {percent(total / span)}, and block the host meanwhile",
        "pin_memory=True in the loader, non_blocking=True in the copy",
        Place(event=worst["pageable_event"], rank=worst["rank"]),
        cost,
        total / span,
    )


def data_parallel(evidence: Evidence) -> Iterator[Finding]:
    """One process drives several devices through DataParallel."""
    traits = _of_hosts(evidence)
    calls = int(traits["data_parallel"].sum())
    devices = evidence.table("breakdown").height
    if calls and devices > 1:
        yield Finding(
            "DataParallel drives the devices",
            f"{plural(calls, 'call')} of its forward, {devices} devices at work",
            "DistributedDataParallel, with a process for each device",
            _most(traits, "data_parallel"),
        )


def without_nccl(evidence: Evidence) -> Iterator[Finding]:
    """Gradients of devices are exchanged by another backend than NCCL."""
    traits = _of_hosts(evidence)
    communicates = evidence.table("kernels").filter(pl.col("type") == "communication").height
    if (
        int(traits["distributed_data_parallel"].sum())
        and not int(traits["nccl"].sum())
        and not communicates
        and evidence.table("breakdown").height
        and latest(evidence) >= 3
    ):
        yield Finding(
            "DistributedDataParallel runs without NCCL",
            "no collective of NCCL was recorded, on the host or on a device",
            "init_process_group(backend='nccl')",
            _most(traits, "distributed_data_parallel"),
        )


def _of_hosts(evidence: Evidence) -> pl.DataFrame:
    """A row of traits for each host: what its threads did is the same for all ranks that it drives."""
    hosts = evidence.scene.ranks.select(pl.col("rank").cast(pl.Int64), "host")
    return evidence.traits.join(hosts, on="rank", maintain_order="left").unique("host", maintain_order=True)


def _most(traits: pl.DataFrame, trait: str) -> Place:
    """The longest call, on the host that has most of them."""
    row = traits.row(traits[trait].arg_max() or 0, named=True)
    return Place(event=row[f"{trait}_event"], rank=row["rank"])


def compiling(evidence: Evidence) -> Iterator[Finding]:
    """Programs are compiled while the run is on."""
    worst = evidence.traits.filter(pl.col("window") > 0).sort("compiling", descending=True).head(1)
    if worst.is_empty() or worst["compiling"][0] / worst["window"][0] <= COMPILED:
        return
    row: Mapping[str, Any] = worst.row(0, named=True)
    share, in_steps = row["compiling"] / row["window"], row["compiling_in_steps"]
    cost = evidence.per_step(in_steps or 0 if evidence.steps else row["compiling"], 1)
    where = evidence.extent if cost else f"{evidence.extent}, all of it outside of whole steps"
    yield Finding(
        "programs are compiled during the run",
        f"{plural(row['compilations'], 'time')}; something was being compiled for {duration(row['compiling'])},"
        f" {percent(share)} of {where}{_functions(row)}",
        "compile before the loop begins; keep shapes, types and static arguments the same from step to step;"
        " the report compiles lists the functions",
        Place(event=row["compile_event"], rank=row["rank"]),
        cost or None,
        share,
        evidence.looked_at,
    )


def _functions(row: Mapping[str, Any]) -> str:
    """Which function took longest, and which was compiled again and again."""
    longest = f"; longest {short_name(row['compiled'], 60)}" if row["compiled"] else ""
    again = row["recompiled"] if (row["recompilations"] or 0) > 1 else None
    return longest + (f"; {short_name(again, 60)} {count(row['recompilations'])} times" if again else "")


def _devices(evidence: Evidence) -> list[DeviceProperties]:
    """What the files say of the devices that work; of all that a file lists, where it does not say which these are."""
    working = evidence.table("breakdown")["rank"].to_list()
    return [each for rank in working for each in candidates(*_of_rank(evidence, rank))]


def _memory(evidence: Evidence, rank: int) -> int:
    """How many bytes the device of a rank has; 0 where that is unknown."""
    return properties(*_of_rank(evidence, rank)).memory


def _of_rank(evidence: Evidence, rank: int) -> tuple[FileFacts, int | None]:
    """What the file of a rank says, and which number it gives the rank's device."""
    row = evidence.scene.ranks.row(by_predicate=pl.col("rank") == rank, named=True)
    return evidence.scene.facts[evidence.scene.hosts[row["host"]].part], row["device"]


def latest(evidence: Evidence) -> int:
    """The highest major compute capability of the devices that work; 0 where none is known."""
    return max(map(_capability, _devices(evidence)), default=0)


def _capability(device: DeviceProperties) -> int:
    """The major compute capability; 0 where that is unknown, or is none of NVIDIA's."""
    nvidia = device.warp_size == 32 and "AMD" not in device.name
    return device.compute_major if nvidia else 0


RULES: Final = (
    Rule(
        "tensor cores",
        "products and convolutions (but those with a vector and sums of parts of products, which memory bounds) take"
        f" more than {WORTH:.0%} of the time of all kernels in whole steps (without any, in the run or window), and no"
        f" more than {UNUSED:.0%} of that on tensor cores, on devices that have them (TensorBoard plugin, rule 6); the"
        " cost is half of that time",
        tensor_cores,
    ),
    Rule("memory", f"the allocator held more than {FULL:.0%} of the device's memory (plugin, rule 7)", memory),
    Rule("pageable copies", f"they take more than {COPIED:.0%} of the same time as copies", pageable),
    Rule("DataParallel", "it is called, and several devices work (plugin, rule 2)", data_parallel),
    Rule("no NCCL", "DistributedDataParallel is called on CUDA devices, and nothing of NCCL (rule 3)", without_nccl),
    Rule(
        "compiling",
        f"in more than {COMPILED:.0%} of the run or window any thread of a host compiles, or loads a program, as in"
        " compiles; the cost is what of that lies in whole steps",
        compiling,
    ),
)
