"""HLO ops by time, with their costs and what bounds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import Setting, choice_parser
from tracehound.analysis.devices.device_peaks import PEAK_SETTING, DevicePeaks, peaks_per_rank
from tracehound.analysis.hlo import hlo_op_costs as hlo_costs
from tracehound.analysis.hlo.hlo_op_costs import (
    BOUND_COLUMNS,
    CATEGORY_COLUMN,
    LONGEST_EVENT_COLUMN,
    MODULE_COLUMN,
    SELF_TIME_COLUMNS,
    SOURCE_COLUMN,
    add_cost_columns,
    rate_per_second,
)
from tracehound.analysis.hlo.hlo_op_executions import (
    kernels_without_op,
    merge_rank_ops,
    op_rows_of_rank,
    sum_over_ranks,
)
from tracehound.analysis.hlo.hlo_op_groups import OP_GROUPINGS, group_ops
from tracehound.analysis.rank_trace import RunContext
from tracehound.analysis.result import (
    Analysis,
    Column,
    Options,
    Result,
    empty_result,
    fraction_of,
    keep_heaviest_rows,
    make_result,
)
from tracehound.analysis.timing.device_clock import window_length_notes, xprof_idle_notes
from tracehound.model.notes import Note, note

BY_SETTING: Final = Setting(
    "by",
    "op",
    "what makes a row: each op, or ops together: by HLO category, by program, by the framework's op, as a tree of the"
    " framework's scopes, by source line, with their duplicates, by what bounds them, or rematerialized or not",
    choice_parser(*OP_GROUPINGS),
)

DEFINITION: Final = f"""\
These are the numbers of XProf's hlo_stats, on TPU, GPU and CPU. total = sum of lengths, self = total - time of nested
ops, mean = total / count. Lengths are on the device's own clock if it has one (TPU). An op of a CPU lasts until its
end mark, if there is one, since its event may be only its dispatch. XLA may set that mark late, so the op lasts no
longer than until the first op of the same run begins that needs its result, if the file has the program's HLO.

share is self / sum of self over all ops. time share is self / device time, summed over ranks: from the first to the
last op of the rank, idle included, or the window on the same clock. This is XProf's "Total self time (%)", except that
XProf also counts the time of a device's line Steps outside of all ops; a note has what is idle then. On CPUs ops may
overlap: an op contains others only if it runs them (while, conditional, call) and they end no later, and shares of
time can add up to more than the busy time. idle = nothing runs on the device. If kernels or copies without an HLO op
run, too, the note also has the time without an op, which is XProf's IDLE.

count is executions. On a GPU, consecutive kernels of one op on one stream within one run of its module are one
execution, so an op that a loop runs twice in a row counts once; kernels is XProf's #Occurrences. A kernel of a command
buffer belongs to the op after which XLA called it, if the file has the program's HLO, or else to the buffer, as in
XProf. Ops of a TPU's SparseCores (embeddings, collectives that are offloaded to them) have rows of their own, with
SparseCore in the column core. They run beside the ops of the TensorCore, and make no device busy.

{hlo_costs.COST_DEFINITION}

Rates of a group are over the self time of its ops. They leave out what asynchronous copies and collectives move while
other ops run, and what a loop or call counts for the ops inside it. Rates of a group of only such ops are over their
times from start to done. A group is bound by what its longest op is bound by. In the tree of scopes
(jit(step)/layer0/attention) a row includes all rows below it. Duplicates are ops with the same HLO, as the compiler
says or as their lines tell. Rematerialized ops have .remat or rematted_computation in their names. XProf's
framework_op_stats counts an operation as often as its most frequent op; here all executions count."""

COLUMNS: Final = (
    Column("name", "text", "HLO op, or the group"),
    Column("depth", "depth", "of the scope in the tree"),
    CATEGORY_COLUMN,
    MODULE_COLUMN,
    Column("count", "count", "executions", brief=False),
    Column("program", "text", "id of the module's program", brief=False),
    Column("core", "text", "SparseCore for ops that run on one, beside those of the TensorCore"),
    Column("ops", "count", "different ops in the row", brief=False),
    Column("kernels", "count", "their kernels, on GPUs", brief=False),
    *SELF_TIME_COLUMNS,
    Column("time_share", "share", "self time", "device time, idle included", brief=False),
    Column("total", "time", "sum of lengths", brief=False),
    Column("mean", "time", "total / count", brief=False),
    Column("rate", "flops", "operations / total"),
    Column("normalized_rate", "flops", "rate in operations of the peak's type (TPU: bf16)", brief=False),
    Column("bandwidth", "rate", "bytes of all memories / total; for asynchronous ops / time from start to done"),
    Column("hbm_bandwidth", "rate", "bytes of the device's main memory / total", brief=False),
    Column("intensity", "decimal", "operations / bytes", brief=False),
    *BOUND_COLUMNS,
    Column("rematerialized", "flag", "computed again to save memory", brief=False),
    Column("framework", "text", "the framework's name of the op", brief=False),
    SOURCE_COLUMN,
    Column("text", "text", "HLO line", brief=False),
    Column("ranks", "count", "ranks on which it ran", brief=False),
    LONGEST_EVENT_COLUMN,
)


def _has_command_buffers(tables: Sequence[pl.DataFrame]) -> bool:
    """True if kernels that name no op may have run in command buffers."""
    return any(table["buffered"][0] for table in tables)


def why_no_hlo_ops(ranks: Sequence[pl.DataFrame], context: RunContext) -> Note:
    """A note on why no rank ran an op; `ranks` has the tables of ranks that work at other times."""
    if ranks and context.windowed and "XLA" in context.profilers:
        return note("no_hlo_ops_in_window")
    if ranks and context.is_xla and context.ranks["label"].str.starts_with("GPU").any():
        return note("no_kernel_names_hlo_op", level="missing", buffered=_has_command_buffers(ranks))
    return note("no_hlo_ops", level="missing")


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row for each op or group over all ranks, the largest self time first; a tree comes depth first."""
    rank_tables = [table for table in tables if table.height]
    if not any("name" in table.columns for table in rank_tables):
        return empty_result(ANALYSIS, context, options, why_no_hlo_ops(rank_tables, context))
    peaks = peaks_per_rank(context, options.given)
    rows = add_cost_columns(merge_rank_ops(rank_tables), peaks)
    total_self, device_span = int(rows["self"].sum()), sum_over_ranks(rank_tables)
    table = (
        group_ops(rows, BY_SETTING.value_in(options.given))
        .with_columns(rate_per_second(amount).alias(rate) for amount, rate in _RATE_COLUMNS.items())
        .with_columns(
            fraction_of("self", total_self).alias("share"),
            fraction_of("self", device_span).alias("time_share"),
            (pl.col("total") / pl.max_horizontal("count", 1)).round().cast(pl.Int64).alias("mean"),
            pl.when(pl.col("moved") > 0).then(pl.col("work") / pl.col("moved")).alias("intensity"),
            pl.col("bound").alias("bound_by"),
            pl.col("program").reinterpret(signed=False).cast(pl.String),
        )
    )
    spans = pl.Series([int(each["span"][0]) for each in rank_tables])
    notes = [
        *_summary_notes(rows, rank_tables),
        *unattributed_kernel_notes(rank_tables),
        *peak_notes(peaks),
        *window_length_notes(spans, context),
    ]
    if BY_SETTING.value_in(options.given) != "scope":
        return make_result(ANALYSIS, table, context, options, notes)
    tree = make_result(ANALYSIS, table, context, replace(options, top=None), notes)
    return keep_heaviest_rows(tree, tree.table["self"].to_numpy(), options.top)


_RATE_COLUMNS: Final = {
    "work": "rate",
    "normalized_work": "normalized_rate",
    "moved": "bandwidth",
    "hbm_moved": "hbm_bandwidth",
}


_CONCURRENT_FACTOR: Final = 1.001
"""Ops run concurrently where their self times exceed the busy time by this factor."""


def _summary_notes(rows: pl.DataFrame, tables: Sequence[pl.DataFrame]) -> list[Note]:
    """Notes on the number of ops, idle time, concurrent ops, and waits for host memory."""
    ranks, total_self = len(tables), int(rows["self"].sum())
    span, used, busy = (sum_over_ranks(tables, of) for of in ("span", "used", "busy"))
    notes = [note("hlo_ops_total", ops=rows.height, ranks=ranks)]
    if span:
        without_op = span - used if busy > used else None
        notes.append(note("device_idle", idle=span - busy, of=span, without_op=without_op))
        notes += xprof_idle_notes(span - busy, span, sum_over_ranks(tables, "outside"))
    own_self = int(rows.filter(pl.col("core").is_null())["self"].sum())
    if own_self > _CONCURRENT_FACTOR * used > 0:
        notes.append(note("hlo_ops_at_once", self_time=own_self, busy=used))
    waits = rows.filter((pl.col("bound") == "host link") & (pl.col("kind") == "transfer"))
    waiting = int(waits["self"].sum())
    if total_self and waiting > total_self / 20:
        notes.append(note("hlo_ops_wait_for_host_memory", share=waiting / total_self))
        notes += [note("bandwidth_includes_queueing")] * bool(waits["half"].any())
    far_from_peak = rows.filter(
        pl.col("bound").is_not_null() & (pl.col("nearest") < _FAR_FROM_PEAK) & ~pl.col("bound").is_in(_LINK_BOUNDS)
    )
    if total_self and far_from_peak.height:
        notes.append(
            note(
                "hlo_ops_far_from_peaks", ops=far_from_peak.height, share=int(far_from_peak["self"].sum()) / total_self
            )
        )
    return notes


_FAR_FROM_PEAK: Final = 0.1
"""Ops below this share of every peak wait for something else: latency, dependencies, or their own start."""

_LINK_BOUNDS: Final = ("host link", "interconnect")
"""Bounds for which the distance from the peak is not known well enough."""


def unattributed_kernel_notes(tables: Sequence[pl.DataFrame]) -> list[Note]:
    """A note on the kernel time that belongs to no op, and so is in no row."""
    kernels, unattributed, kernel_time = kernels_without_op(tables)
    if not kernels:
        return []
    buffered = _has_command_buffers(tables)
    return [
        note(
            "kernels_without_hlo_op",
            level="missing",
            kernels=kernels,
            time=unattributed,
            of=kernel_time,
            buffered=buffered,
        )
    ]


def peak_notes(peaks: dict[int, DevicePeaks]) -> list[Note]:
    """Notes on the peaks of the devices that ops are compared with."""
    if not peaks:
        return [note("no_peak_known", level="missing")]
    first = peaks[min(peaks)]
    compute, memory = first.flops_for_dtype(), first.memory
    notes = [note("peak_of_device", device=first.device, compute=compute, memory=memory, source=first.source)]
    if any(other.flops != first.flops or other.memory != first.memory for other in peaks.values()):
        notes.append(note("peaks_of_ranks_differ"))
    return notes


ANALYSIS: Final = Analysis(
    name="hlo_ops",
    title="HLO ops",
    question="Which HLO ops take the time, what do they cost, and what bounds them?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=op_rows_of_rank,
    combine=combine,
    count_column="count",
    device_ops_only=True,
    settings=(BY_SETTING, PEAK_SETTING),
)
