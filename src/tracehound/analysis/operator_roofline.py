"""How near products, convolutions and attention of PyTorch come to what their device can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.devices.kernel_classes import classified
from tracehound.analysis.devices.peaks import PEAK, Peaks, of_ranks
from tracehound.analysis.devices.silence import nothing, remedy
from tracehound.analysis.events.busy import COMMUNICATION, COPY, work
from tracehound.analysis.hosts.operator_costs import BACKWARD, KNOWN, cost
from tracehound.analysis.hosts.operator_tree import Tree, launchers, tree
from tracehound.analysis.members import JOINED, gathered
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, without
from tracehound.intervals import Ints
from tracehound.lookup import looked_up
from tracehound.nesting import nearest
from tracehound.notes import Note, note
from tracehound.trace import collected
from tracehound.units import PS_PER_S

DEFINITION: Final = f"""\
The operations and bytes of a call follow from the shapes of its inputs (record_shapes=True), where the operator is one
of those that are known: {", ".join(name.removeprefix("aten::") for name in KNOWN)}. Of several around each other the
innermost counts, and what one around it launches besides, as the addition of a bias, is of no known one. A
multiplication and an addition are two operations: a product of matrices (m, k) and (k, n) takes 2 m n k, and m n for
what is added to it; a convolution 2 for every element of its result and every weight that goes
into it (transposed: of its image), and 1 for every element of its result if it has a bias; its backward pass as much
for the gradient of the image and for that of the weights as the products of the forward pass, and 1 for every element
of the gradient that it is given for that of the bias, each where it is asked for (output_mask; without it the first
two); attention 2 (d + d') for every pair of a query and a key, half of that where it is causal, and its backward pass
{BACKWARD} times as much, for it computes the scores again. Bytes are those of the results and of the inputs that they
need, each once: what a perfect cache would move. The gradient of an image needs the weights and not the image, that of
the weights the image and not them; a result has the type of the inputs, of _int_mm 4 bytes an element and of _scaled_mm
the type that it is asked for. Of attention they are queries, keys, values and the result, and the gradients of these:
masks and the sums of its rows are left out.

device time = lengths of the work that the calls launched. The rate is operations / device time, of peak is that of the
device's peak for the type (tf32 where the type is float and the longest kernel is one for tensor cores). The roof is
the time that the device needs at least, the longer of operations / peak and bytes / peak of its memory: bound by says
which, and efficiency is roof / device time. What is above 100 % cannot be true (an operator that did less than its
shapes tell, as Winograd convolutions and masked attention do) and is marked. Peaks are the dense ones of the vendor,
by the device's name or by the setting peak.

TraceLens has the same operations, but that it counts both gradients of a convolution whether they are asked for or not,
and the gradient that it is given once for each of them in the bytes. It has models for elementwise operators,
reductions and normalisations too, and unites the kernels of an operator instead of summing them. PyTorch's own flops
(with_flops=True) know no attention and no backward pass."""

COLUMNS: Final = (
    Column("name", "text", "operator"),
    Column("shapes", "text", "shapes of its inputs"),
    Column("dtype", "text", "what it multiplies", brief=False),
    Column("count", "count", "calls", brief=False),
    Column("device_time", "time", "of the work that they launched", brief=False),
    Column("share", "share", "device time", "the time of all work on the devices"),
    Column("flops", "count", "operations of one call", brief=False),
    Column("rate", "flops", "operations / device time"),
    Column("of_peak", "share", "the rate", "the device's peak for the type"),
    Column("intensity", "decimal", "operations / bytes", brief=False),
    Column("bandwidth", "rate", "bytes / device time", brief=False),
    Column("bound_by", "text", "what the roof is made of: compute or memory"),
    Column("efficiency", "share", "the time at the roof", "the device time"),
    Column("above", "flag", "beyond the device's peak, and so not true", brief=False),
    Column("kernel", "text", "the longest kernel that it launched", brief=False),
    Column("ranks", "count", "ranks on which it ran", brief=False),
    Column("event", "id", "the call with the largest device time"),
)

_KEY: Final = ("name", "dims", "types", "concrete")
_SHAPED: Final = ("dims", "types", "concrete")


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each known operator with the same inputs, and one without a name for all of the device's time.

    In that one `moved` is the time of communication and copies. Times in ps.
    """
    device = work(share, "launch", "external", "name")
    if device.is_empty():
        return pl.DataFrame()
    calls = tree(share)
    clipped = np.minimum(device["end"].to_numpy(), share.end) - np.maximum(device["start"].to_numpy(), share.start)
    computes = ~device["kind"].is_in([*COMMUNICATION, *COPY]).to_numpy()
    by = np.where(computes, _innermost(calls)[launchers(calls, device)], -1)
    launched = pl.DataFrame({"row": by, "time": clipped, "kernel": device["name"]}).filter(pl.col("row") >= 0)
    of_calls = launched.group_by("row").agg(
        pl.col("time").sum(), pl.col("kernel", "time").get(pl.col("time").arg_max()).name.prefix("most_")
    )
    rows = (
        _with_inputs(share, calls, of_calls)
        .group_by(_KEY)
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("time").sum(),
            pl.col("most_kernel", "most_time").sort_by("most_time", "id", descending=[True, False]).first(),
            pl.col("id").sort_by("time", "id", descending=[True, False]).first().alias("event"),
            pl.col("time").max().alias("longest"),
            *gathered(options),
        )
    )
    total = pl.DataFrame({"time": [int(clipped.sum())], "moved": [int(clipped[~computes].sum())]})
    return pl.concat([rows, total], how="diagonal_relaxed").with_columns(pl.lit(share.rank, pl.Int64).alias("rank"))


def _innermost(calls: Tree) -> Ints:
    """For each operator the known one at or around it that has no other inside, as rows of the tree.

    -1, also at the end, for none.
    """
    known = calls.operator & calls.events["name"].is_in(KNOWN).to_numpy()
    around = np.append(nearest(calls.parent, known), -1)
    outer = around[calls.parent[known]]
    known[outer[outer >= 0]] = False
    return np.append(nearest(calls.parent, known), -1)


def _with_inputs(share: Share, calls: Tree, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the tree with the names of the operators and what they were called with, as text."""
    named = calls.events.select("id", "name")[rows["row"]]
    recorded = collected(share.threads.filter(pl.col("id").is_in(named["id"].to_list())).select("id", "record"))
    said = collected(share.facet("called").select("record", *_SHAPED))
    record = looked_up(recorded, "id", named["id"])
    inputs = looked_up(said, "record", record["record"])
    return pl.concat([rows, named, record, inputs], how="horizontal").with_columns(
        pl.col(*_KEY, "most_kernel").cast(pl.String).fill_null("")
    )


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row for each operator and its inputs over all ranks, the largest device time first."""
    filled = [table for table in tables if table.height]
    if not filled:
        return without(ANALYSIS, scene, options, nothing(scene, note("no_device_work_recorded"), remedy(scene)))
    every = pl.concat(filled, how="diagonal_relaxed")
    if every["name"].is_null().all():
        return without(ANALYSIS, scene, options, nothing(scene, note("no_known_operators"), note("record_shapes")))
    totals, rows = every.filter(pl.col("name").is_null()), every.filter(pl.col("name").is_not_null())
    whole, moved = int(totals["time"].sum()), int(totals["moved"].sum())
    peaks = of_ranks(scene, options.given)
    table = _judged(_over_ranks(_costed(rows, peaks)), whole)
    notes = _notes(table, whole, moved, {rank: peaks[rank] for rank in totals["rank"].to_list() if rank in peaks})
    shown = table.filter(pl.col("flops").is_not_null())
    order = ["device_time", *_KEY, "dtype"]
    return answer(ANALYSIS, shown.sort(order, descending=[True, *[False] * 5]), scene, options, notes)


def _costed(rows: pl.DataFrame, peaks: Mapping[int, Peaks]) -> pl.DataFrame:
    """The rows with what one call costs, and what the device of their rank can do."""
    kernels = rows.select(pl.col("most_kernel").alias("name"), pl.lit("kernel").alias("kind"), category=None)
    cores = classified(kernels, ())["tensor_cores"].to_list()
    found = []
    for said, rank, on_cores in zip(rows.select(_KEY).rows(), rows["rank"].to_list(), cores, strict=True):
        one, of_device = cost(*said), peaks.get(rank)
        dtype = _computed(one.dtype, on_cores) if one else None
        compute = of_device.compute(dtype) if of_device and dtype else None
        found.append((*(one[:2] if one else (None, None)), dtype, compute, of_device.memory if of_device else None))
    known = pl.DataFrame(found, schema=_COST, orient="row")
    return pl.concat([rows, known], how="horizontal")


_COST: Final = {
    "flops": pl.Int64, "bytes": pl.Int64, "dtype": pl.String, "compute_peak": pl.Float64, "memory_peak": pl.Float64
}  # fmt: skip


def _computed(dtype: str, on_tensor_cores: bool | None) -> str:  # noqa: FBT001, a fact
    """The type in which it computes: numbers of 32 bits go to tensor cores as TF32."""
    name = dtype.rpartition("::")[2].lower()
    return "tf32" if name in ("float", "float32") and on_tensor_cores else name


def _over_ranks(rows: pl.DataFrame) -> pl.DataFrame:
    """What all ranks did with the same inputs; the roof is that of each rank's own device."""
    calls, none = pl.col("count"), pl.lit(None, pl.Float64)
    compute, memory = (pl.col(amount) * calls / pl.col(peak) * PS_PER_S for amount, peak in _LIMITS)
    limited = rows.with_columns(
        compute.alias("compute"),
        memory.alias("memory"),
        (calls * pl.col("flops").cast(pl.Float64)).alias("work"),
        (calls * pl.col("bytes").cast(pl.Float64)).alias("traffic"),
    )
    return limited.group_by(*_KEY, "dtype", "flops", "bytes").agg(
        calls.sum(),
        pl.col("time").sum().alias("device_time"),
        pl.when(pl.col("compute").null_count() == 0).then(pl.col("compute").sum()).otherwise(none).alias("compute"),
        pl.when(pl.col("memory").null_count() == 0).then(pl.col("memory").sum()).otherwise(none).alias("memory"),
        pl.col("work", "traffic").sum(),
        pl.col("most_kernel").sort_by("most_time", "event", descending=[True, False]).first().alias("kernel"),
        pl.col("event").sort_by("longest", "event", descending=[True, False]).first(),
        pl.col("rank").n_unique().cast(pl.Int64).alias("ranks"),
        JOINED,
    )


_LIMITS: Final = (("flops", "compute_peak"), ("bytes", "memory_peak"))


def _judged(rows: pl.DataFrame, whole: int) -> pl.DataFrame:
    time, known = pl.col("device_time"), pl.col("flops").is_not_null() & (pl.col("device_time") > 0)
    roof = pl.max_horizontal("compute", "memory")
    rows = rows.with_columns(
        pl.when(pl.col("compute").is_not_null() & pl.col("memory").is_not_null()).then(roof).alias("roof")
    )
    above = known & (pl.col("roof") > time)
    true = known & ~above.fill_null(value=False)
    return rows.with_columns(
        pl.col("dims").alias("shapes"),
        (time / whole if whole else pl.lit(None, pl.Float64)).alias("share"),
        pl.when(known).then(pl.col("work") / time * PS_PER_S).alias("rate"),
        pl.when(known).then(pl.col("traffic") / time * PS_PER_S).alias("bandwidth"),
        pl.when(known & (pl.col("traffic") > 0)).then(pl.col("work") / pl.col("traffic")).alias("intensity"),
        pl.when(true).then(pl.col("compute") / time).alias("of_peak"),
        pl.when(true).then(pl.col("roof") / time).alias("efficiency"),
        pl.when(known & (pl.col("roof") > 0))
        .then(pl.when(pl.col("compute") >= pl.col("memory")).then(pl.lit("compute")).otherwise(pl.lit("memory")))
        .alias("bound_by"),
        above.alias("above"),
    )


def _notes(table: pl.DataFrame, whole: int, moved: int, peaks: Mapping[int, Peaks]) -> list[Note]:
    """What was judged of the devices' time, why the rest was not, and by which peaks."""
    if not whole:
        return []
    costed, judged = table.filter(pl.col("flops").is_not_null()), table.filter(pl.col("efficiency").is_not_null())
    of_known, of_costed, of_judged = (int(each["device_time"].sum()) for each in (table, costed, judged))
    above = int(table.filter("above")["device_time"].sum())
    notes = [
        note(
            "time_judged",
            judged=of_judged,
            communication=moved,
            above=above,
            without_peaks=of_costed - of_judged - above,
            without_inputs=of_known - of_costed,
            others=whole - moved - of_known,
            whole=whole,
        )
    ]
    if judged.height:
        notes.append(note("time_at_roof", part=float(judged["roof"].sum()) / of_judged))
    for one in dict.fromkeys((each.device, each.source, each.memory, each.compute()) for each in peaks.values()):
        device, source, memory, compute = one
        notes.append(note("peaks_of_device", device=device, compute=compute, memory=memory, source=source))
    return notes


ANALYSIS: Final = Analysis(
    name="operator_roofline",
    title="Operator roofline",
    question="How near do products, convolutions and attention come to what the device can do?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="count",
    settings=(PEAK,),
)
