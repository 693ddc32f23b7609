"""Roofline of PyTorch's matrix products, convolutions and attention: their rates against the device's peaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl

from tracehound.analysis.devices.device_peaks import PEAK_SETTING, DevicePeaks, peaks_per_rank
from tracehound.analysis.devices.kernel_classes import classify_kernels
from tracehound.analysis.devices.missing_data import no_device_activity_remedy, nothing_recorded_note
from tracehound.analysis.hosts.operator_costs import ATTENTION_BACKWARD_FACTOR, KNOWN_OPERATORS, operator_cost
from tracehound.analysis.hosts.operator_tree import CallTree, launching_operators, read_call_tree
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import (
    JOINED_EVENTS,
    Analysis,
    Column,
    Options,
    Result,
    collect_counted_events,
    empty_result,
    make_result,
)
from tracehound.analysis.timing.device_busy import COMMUNICATION_KINDS, COPY_KINDS, device_work
from tracehound.model.notes import Note, note
from tracehound.model.trace import collect_frame
from tracehound.model.units import PS_PER_S
from tracehound.numeric.id_set import look_up_rows
from tracehound.numeric.intervals import Ints
from tracehound.numeric.nesting import nearest_chosen_ancestor

_KNOWN_NAMES: Final = ", ".join(name.removeprefix("aten::") for name in KNOWN_OPERATORS)
_BACKWARD: Final = ATTENTION_BACKWARD_FACTOR

DEFINITION: Final = f"""\
Operations and bytes of a call follow from its input shapes (record_shapes=True), for these known operators:
{_KNOWN_NAMES}. If known operators are nested, the innermost counts; other work that an outer one launches, such as
adding a bias, belongs to no known operator.

A multiplication and an addition are two operations. A GEMM of (m, k) and (k, n) takes 2 m n k, and m n for an added
matrix. A convolution takes 2 for each element of its result and each weight that goes into it (transposed: of its
image), and 1 for each element of its result if it has a bias. Its backward pass takes as much for the gradient of the
image and for that of the weights as the GEMMs of the forward pass, and 1 for each element of the incoming gradient for
that of the bias, each only if it is requested (output_mask; without it the first two). Attention takes 2 (d + d') for
each pair of query and key, half of that if it is causal; its backward pass takes {_BACKWARD} times as much, since it
computes the scores again. Bytes are those of the results and of the needed inputs, each once: what a perfect cache
would move. The gradient of an image needs the weights and not the image, and the other way around; a result has the
type of the inputs, of _int_mm 4 bytes an element, of _scaled_mm the requested type. For attention, queries, keys,
values, the result and their gradients count; masks and row sums do not.

device time = lengths of the work that the calls launched. rate = operations / device time. of peak = rate / the
device's peak for the type (tf32 if the type is float and the longest kernel uses tensor cores). The roof is the least
time that the device needs: the longer of operations / peak and bytes / peak bandwidth. bound by tells which of the
two, and efficiency is roof / device time. A value above 100 % cannot be true and is marked: the operator did less than
its shapes tell, as Winograd convolutions and masked attention do. Peaks are the vendor's dense figures for the
device's name, or the setting peak.

TraceLens has the same operations, but counts both gradients of a convolution even if only one is requested, and counts
the bytes of the incoming gradient once for each of them. It also has models for elementwise operators, reductions and
normalizations, and takes the union of an operator's kernels. PyTorch's own flops (with_flops=True) have no attention
and no backward pass."""

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

_OPERATOR_KEY: Final = ("name", "dims", "types", "concrete")
_INPUT_COLUMNS: Final = ("dims", "types", "concrete")


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each known operator with equal inputs, and one without a name for all of the device's time.

    There `moved` is the time of communication and copies. Times in ps.
    """
    device = device_work(rank_trace, "launch", "external", "name")
    if device.is_empty():
        return pl.DataFrame()
    calls = read_call_tree(rank_trace)
    lengths = np.minimum(device["end"].to_numpy(), rank_trace.end) - np.maximum(
        device["start"].to_numpy(), rank_trace.start
    )
    is_computation = ~device["kind"].is_in([*COMMUNICATION_KINDS, *COPY_KINDS]).to_numpy()
    operator_rows = np.where(is_computation, _innermost_known_operator(calls)[launching_operators(calls, device)], -1)
    launched = pl.DataFrame({"row": operator_rows, "time": lengths, "kernel": device["name"]}).filter(
        pl.col("row") >= 0
    )
    of_calls = launched.group_by("row").agg(
        pl.col("time").sum(), pl.col("kernel", "time").get(pl.col("time").arg_max()).name.prefix("most_")
    )
    rows = (
        _add_inputs(rank_trace, calls, of_calls)
        .group_by(_OPERATOR_KEY)
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("time").sum(),
            pl.col("most_kernel", "most_time").sort_by("most_time", "id", descending=[True, False]).first(),
            pl.col("id").sort_by("time", "id", descending=[True, False]).first().alias("event"),
            pl.col("time").max().alias("longest"),
            *collect_counted_events(options),
        )
    )
    total = pl.DataFrame({"time": [int(lengths.sum())], "moved": [int(lengths[~is_computation].sum())]})
    return pl.concat([rows, total], how="diagonal_relaxed").with_columns(
        pl.lit(rank_trace.rank, pl.Int64).alias("rank")
    )


def _innermost_known_operator(calls: CallTree) -> Ints:
    """For each operator the known one at or around it that contains no other, as rows of the tree.

    -1 for none; the last element is -1, too.
    """
    is_innermost = calls.operator & calls.events["name"].is_in(KNOWN_OPERATORS).to_numpy()
    enclosing = np.append(nearest_chosen_ancestor(calls.parent, is_innermost), -1)
    outer = enclosing[calls.parent[is_innermost]]
    is_innermost[outer[outer >= 0]] = False
    return np.append(nearest_chosen_ancestor(calls.parent, is_innermost), -1)


def _add_inputs(rank_trace: RankTrace, calls: CallTree, rows: pl.DataFrame) -> pl.DataFrame:
    """Add the names of the operators and their inputs, as text, to rows of the tree."""
    operators = calls.events.select("id", "name")[rows["row"]]
    recorded = collect_frame(
        rank_trace.threads.filter(pl.col("id").is_in(operators["id"].to_list())).select("id", "record")
    )
    inputs_by_record = collect_frame(rank_trace.facet("called").select("record", *_INPUT_COLUMNS))
    record = look_up_rows(recorded, "id", operators["id"])
    inputs = look_up_rows(inputs_by_record, "record", record["record"])
    return pl.concat([rows, operators, record, inputs], how="horizontal").with_columns(
        pl.col(*_OPERATOR_KEY, "most_kernel").cast(pl.String).fill_null("")
    )


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row for each operator and its inputs over all ranks, the largest device time first."""
    rank_tables = [table for table in tables if table.height]
    if not rank_tables:
        return empty_result(
            ANALYSIS,
            context,
            options,
            nothing_recorded_note(context, note("no_device_work_recorded"), no_device_activity_remedy(context)),
        )
    all_rows = pl.concat(rank_tables, how="diagonal_relaxed")
    if all_rows["name"].is_null().all():
        return empty_result(
            ANALYSIS,
            context,
            options,
            nothing_recorded_note(context, note("no_known_operators"), note("record_shapes")),
        )
    totals, rows = all_rows.filter(pl.col("name").is_null()), all_rows.filter(pl.col("name").is_not_null())
    total, moved = int(totals["time"].sum()), int(totals["moved"].sum())
    peaks = peaks_per_rank(context, options.given)
    table = _add_efficiency(_sum_over_ranks(_add_costs(rows, peaks)), total)
    notes = _notes(table, total, moved, {rank: peaks[rank] for rank in totals["rank"].to_list() if rank in peaks})
    rated = table.filter(pl.col("flops").is_not_null())
    order = ["device_time", *_OPERATOR_KEY, "dtype"]
    return make_result(ANALYSIS, rated.sort(order, descending=[True, *[False] * 5]), context, options, notes)


def _add_costs(rows: pl.DataFrame, peaks: Mapping[int, DevicePeaks]) -> pl.DataFrame:
    """Add the cost of one call, and the peaks of the device of its rank."""
    kernels = rows.select(pl.col("most_kernel").alias("name"), pl.lit("kernel").alias("kind"), category=None)
    cores = classify_kernels(kernels, ())["tensor_cores"].to_list()
    cost_rows = []
    for operator_key, rank, on_cores in zip(
        rows.select(_OPERATOR_KEY).rows(), rows["rank"].to_list(), cores, strict=True
    ):
        call_cost, device_peaks = operator_cost(*operator_key), peaks.get(rank)
        dtype = _compute_dtype(call_cost.dtype, on_cores) if call_cost else None
        compute = device_peaks.flops_for_dtype(dtype) if device_peaks and dtype else None
        cost_rows.append(
            (
                *(call_cost[:2] if call_cost else (None, None)),
                dtype,
                compute,
                device_peaks.memory if device_peaks else None,
            )
        )
    costs = pl.DataFrame(cost_rows, schema=_COST_TYPES, orient="row")
    return pl.concat([rows, costs], how="horizontal")


_COST_TYPES: Final = {
    "flops": pl.Int64, "bytes": pl.Int64, "dtype": pl.String, "compute_peak": pl.Float64, "memory_peak": pl.Float64
}  # fmt: skip


def _compute_dtype(dtype: str, on_tensor_cores: bool | None) -> str:  # noqa: FBT001, a fact
    """The type in which it computes: 32-bit floats use TF32 on tensor cores."""
    name = dtype.rpartition("::")[2].lower()
    return "tf32" if name in ("float", "float32") and on_tensor_cores else name


def _sum_over_ranks(rows: pl.DataFrame) -> pl.DataFrame:
    """Sums over all ranks for equal inputs; the roof is that of each rank's own device."""
    calls, null = pl.col("count"), pl.lit(None, pl.Float64)
    compute, memory = (pl.col(amount) * calls / pl.col(peak) * PS_PER_S for amount, peak in _AMOUNTS_AND_PEAKS)
    limited = rows.with_columns(
        compute.alias("compute"),
        memory.alias("memory"),
        (calls * pl.col("flops").cast(pl.Float64)).alias("work"),
        (calls * pl.col("bytes").cast(pl.Float64)).alias("traffic"),
    )
    return limited.group_by(*_OPERATOR_KEY, "dtype", "flops", "bytes").agg(
        calls.sum(),
        pl.col("time").sum().alias("device_time"),
        pl.when(pl.col("compute").null_count() == 0).then(pl.col("compute").sum()).otherwise(null).alias("compute"),
        pl.when(pl.col("memory").null_count() == 0).then(pl.col("memory").sum()).otherwise(null).alias("memory"),
        pl.col("work", "traffic").sum(),
        pl.col("most_kernel").sort_by("most_time", "event", descending=[True, False]).first().alias("kernel"),
        pl.col("event").sort_by("longest", "event", descending=[True, False]).first(),
        pl.col("rank").n_unique().cast(pl.Int64).alias("ranks"),
        JOINED_EVENTS,
    )


_AMOUNTS_AND_PEAKS: Final = (("flops", "compute_peak"), ("bytes", "memory_peak"))


def _add_efficiency(rows: pl.DataFrame, total: int) -> pl.DataFrame:
    time, is_known = pl.col("device_time"), pl.col("flops").is_not_null() & (pl.col("device_time") > 0)
    roof = pl.max_horizontal("compute", "memory")
    rows = rows.with_columns(
        pl.when(pl.col("compute").is_not_null() & pl.col("memory").is_not_null()).then(roof).alias("roof")
    )
    above = is_known & (pl.col("roof") > time)
    is_credible = is_known & ~above.fill_null(value=False)
    return rows.with_columns(
        pl.col("dims").alias("shapes"),
        (time / total if total else pl.lit(None, pl.Float64)).alias("share"),
        pl.when(is_known).then(pl.col("work") / time * PS_PER_S).alias("rate"),
        pl.when(is_known).then(pl.col("traffic") / time * PS_PER_S).alias("bandwidth"),
        pl.when(is_known & (pl.col("traffic") > 0)).then(pl.col("work") / pl.col("traffic")).alias("intensity"),
        pl.when(is_credible).then(pl.col("compute") / time).alias("of_peak"),
        pl.when(is_credible).then(pl.col("roof") / time).alias("efficiency"),
        pl.when(is_known & (pl.col("roof") > 0))
        .then(pl.when(pl.col("compute") >= pl.col("memory")).then(pl.lit("compute")).otherwise(pl.lit("memory")))
        .alias("bound_by"),
        above.alias("above"),
    )


def _notes(table: pl.DataFrame, total: int, moved: int, peaks: Mapping[int, DevicePeaks]) -> list[Note]:
    """Notes on the device time that was judged, the rest, and the peaks used."""
    if not total:
        return []
    costed, judged = table.filter(pl.col("flops").is_not_null()), table.filter(pl.col("efficiency").is_not_null())
    known_time, costed_time, judged_time = (int(each["device_time"].sum()) for each in (table, costed, judged))
    above = int(table.filter("above")["device_time"].sum())
    notes = [
        note(
            "time_judged",
            judged=judged_time,
            communication=moved,
            above=above,
            without_peaks=costed_time - judged_time - above,
            without_inputs=known_time - costed_time,
            others=total - moved - known_time,
            whole=total,
        )
    ]
    if judged.height:
        notes.append(note("time_at_roof", part=float(judged["roof"].sum()) / judged_time))
    for one in dict.fromkeys(
        (each.device, each.source, each.memory, each.flops_for_dtype()) for each in peaks.values()
    ):
        device, source, memory, compute = one
        notes.append(note("peaks_of_device", device=device, compute=compute, memory=memory, source=source))
    return notes


ANALYSIS: Final = Analysis(
    name="operator_roofline",
    title="Operator roofline",
    question="How near do GEMMs, convolutions and attention come to the peaks of the device?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    count_column="count",
    settings=(PEAK_SETTING,),
)
