"""Which HLO ops take the time, what they cost, and what bounds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.devices.peaks import PEAK, Peaks, of_ranks
from tracehound.analysis.events.own_clock import window_apart
from tracehound.analysis.hlo import costs as hlo_costs
from tracehound.analysis.hlo.costs import CATEGORY, LONGEST, MODULE, SOURCE, TIMES, VERDICT, costed, per_second
from tracehound.analysis.hlo.groups import WAYS, grouped
from tracehound.analysis.hlo.rows import device_time, over_ranks, per_rank, unattributed
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, answer, share_of, without
from tracehound.analysis.settings import Setting, one_of
from tracehound.analysis.trees import cut
from tracehound.notes import Note, note

BY: Final = Setting(
    "by",
    "op",
    "what makes a row: each op, or ops together: by HLO category, by program, by the framework's op, as a tree of the"
    " framework's scopes, by source line, with their duplicates, by what bounds them, or rematerialised or not",
    one_of(*WAYS),
)

DEFINITION: Final = f"""\
These are the numbers of XProf's hlo_stats, on TPU, GPU and CPU. total = sum of lengths, self = total less the time in
ops nested inside, mean = total / count; lengths are those of the device's own clock where it has one (TPU). An op of a
CPU lasts until its end mark, where there is one: its event may be no more than its dispatch. XLA sets the mark when all
is done that could begin as the op had ended, which may be late: so it lasts no longer than until the first op of the
same run begins that needs its result, where the file has the program's HLO. "of ops" is self / sum of self over all
ops; "of time" is self / sum over ranks of the time from the first to the last op of the rank, idle included (or of the
window, its bounds put on the same clock): XProf's "Total self time (%)". On CPUs ops may run at once: one contains
others only where it runs them (while, conditional, call) and they end no later, and shares of the time sum up to more
than that in which any runs. idle = nothing runs on the device; where kernels or copies without an HLO op run, too, the
time without an op is told beside it: XProf's IDLE. count is executions: on a GPU consecutive kernels of one op on a
stream within one run of its module are one execution (so an op that a loop runs twice in a row counts once); kernels is
XProf's #Occurrences there. A kernel of a command buffer is of the op after which XLA called it where the file has the
program's HLO, else of the buffer, as in XProf. Ops of a TPU's SparseCores are in no row and keep no device busy, as in
XProf; the timeline shows them.

{hlo_costs.DEFINITION}

A group's rates are over the self time of its ops, without what copies and collectives in two halves move while others
run, and without what a loop or call counts of the ops inside it; of a group of nothing but such ops, over their times
from start to end. What it is bound by is what its longest op is bound by. In the tree of scopes
(jit(step)/layer0/attention) a row holds all below it. Duplicates are ops with the same HLO, as the compiler says it or
else as their lines tell. Rematerialised is what bears .remat or rematted_computation in its name. XProf's
framework_op_stats counts an operation as often as its most frequent op; here all are counted."""

COLUMNS: Final = (
    Column("name", "text", "HLO op, or the group"),
    Column("depth", "depth", "of the scope in the tree"),
    CATEGORY,
    MODULE,
    Column("count", "count", "executions", brief=False),
    Column("program", "text", "id of the module's program", brief=False),
    Column("ops", "count", "different ops in the row", brief=False),
    Column("kernels", "count", "kernels that they took, on GPUs", brief=False),
    *TIMES,
    Column("time_share", "share", "self time", "device time, idle included", brief=False),
    Column("total", "time", "sum of lengths", brief=False),
    Column("mean", "time", "total / count", brief=False),
    Column("rate", "flops", "operations / total"),
    Column("normalized_rate", "flops", "the same in operations of the peak's type (TPU: bf16)", brief=False),
    Column("bandwidth", "rate", "bytes of all memories / total; of two halves from start to end"),
    Column("hbm_bandwidth", "rate", "bytes of the device's main memory / total", brief=False),
    Column("intensity", "decimal", "operations / bytes", brief=False),
    *VERDICT,
    Column("rematerialised", "flag", "computed again to save memory", brief=False),
    Column("framework", "text", "the framework's name of the op", brief=False),
    SOURCE,
    Column("text", "text", "HLO line", brief=False),
    Column("ranks", "count", "ranks on which it ran", brief=False),
    LONGEST,
)


def _in_buffers(tables: Sequence[pl.DataFrame]) -> bool:
    """Whether kernels that name no op may have run in command buffers."""
    return any(table["buffered"][0] for table in tables)


def nothing(ranks: Sequence[pl.DataFrame], scene: Scene) -> Note:
    """Why no rank ran an op; `ranks` has what is known of those that work at times."""
    if ranks and scene.windowed and "XLA" in scene.profilers:
        return note("no_hlo_ops_in_window")
    if ranks and scene.xla and scene.ranks["label"].str.starts_with("GPU").any():
        return note("no_kernel_names_hlo_op", level="missing", buffered=_in_buffers(ranks))
    return note("no_hlo_ops", level="missing")


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row for each op or group over all ranks, the largest self time first; a tree depth first."""
    filled = [table for table in tables if table.height]
    if not any("name" in table.columns for table in filled):
        return without(ANALYSIS, scene, options, nothing(filled, scene))
    peaks = of_ranks(scene, options.given)
    rows = costed(over_ranks(filled), peaks)
    whole, span = int(rows["self"].sum()), device_time(filled)
    table = (
        grouped(rows, BY.of(options.given))
        .with_columns(per_second(amount).alias(rate) for amount, rate in _RATES.items())
        .with_columns(
            share_of("self", whole).alias("share"),
            share_of("self", span).alias("time_share"),
            (pl.col("total") / pl.max_horizontal("count", 1)).round().cast(pl.Int64).alias("mean"),
            pl.when(pl.col("moved") > 0).then(pl.col("work") / pl.col("moved")).alias("intensity"),
            pl.col("bound").alias("bound_by"),
            pl.col("program").reinterpret(signed=False).cast(pl.String),
        )
    )
    spans = pl.Series([int(each["span"][0]) for each in filled])
    notes = [
        *_about(rows, filled),
        *coverage(filled),
        *about_peaks(peaks),
        *window_apart(spans, scene),
    ]
    if BY.of(options.given) != "scope":
        return answer(ANALYSIS, table, scene, options, notes)
    tree = answer(ANALYSIS, table, scene, replace(options, top=None), notes)
    return cut(tree, tree.table["self"].to_numpy(), options.top)


_RATES: Final = {
    "work": "rate",
    "normalized_work": "normalized_rate",
    "moved": "bandwidth",
    "hbm_moved": "hbm_bandwidth",
}


_AT_ONCE: Final = 1.001
"""Ops run at once where their self times sum up to more than so many times the time in which any runs."""


def _about(rows: pl.DataFrame, tables: Sequence[pl.DataFrame]) -> list[Note]:
    """How many ops there are, how much of the time is idle, how many run at once, and what most of it waits for."""
    ranks, whole = len(tables), int(rows["self"].sum())
    span, used, busy = (device_time(tables, of) for of in ("span", "used", "busy"))
    notes = [note("hlo_ops_total", ops=rows.height, ranks=ranks)]
    if span:
        without_op = span - used if busy > used else None
        notes.append(note("device_idle", idle=span - busy, of=span, without_op=without_op))
    if whole > _AT_ONCE * used > 0:
        notes.append(note("hlo_ops_at_once", self_time=whole, busy=used))
    waits = rows.filter((pl.col("bound") == "host link") & (pl.col("kind") == "transfer"))
    waiting = int(waits["self"].sum())
    if whole and waiting > whole / 20:
        notes.append(note("hlo_ops_wait_for_host_memory", share=waiting / whole))
        notes += [note("bandwidth_includes_queueing")] * bool(waits["half"].any())
    far = rows.filter(pl.col("bound").is_not_null() & (pl.col("nearest") < _FAR) & ~pl.col("bound").is_in(_LINKS))
    if whole and far.height:
        notes.append(note("hlo_ops_far_from_peaks", ops=far.height, share=int(far["self"].sum()) / whole))
    return notes


_FAR: Final = 0.1
"""Ops that come to less of any peak wait for something else: latency, what they depend on, or their own start."""

_LINKS: Final = ("host link", "interconnect")
"""How far from their peaks ops come that are bound by these is not known well enough."""


def coverage(tables: Sequence[pl.DataFrame]) -> list[Note]:
    """How much of the kernels' time belongs to no op, and so is in no row."""
    unnamed, lost, ran = unattributed(tables)
    if not unnamed:
        return []
    buffered = _in_buffers(tables)
    return [note("kernels_without_hlo_op", level="missing", kernels=unnamed, time=lost, of=ran, buffered=buffered)]


def about_peaks(peaks: dict[int, Peaks]) -> list[Note]:
    """Against what ops are held."""
    if not peaks:
        return [note("no_peak_known", level="missing")]
    first = peaks[min(peaks)]
    compute, memory = first.compute(), first.memory
    told = [note("peak_of_device", device=first.device, compute=compute, memory=memory, source=first.source)]
    if any(other.flops != first.flops or other.memory != first.memory for other in peaks.values()):
        told.append(note("peaks_of_ranks_differ"))
    return told


ANALYSIS: Final = Analysis(
    name="hlo_ops",
    title="HLO ops",
    question="Which HLO ops take the time, what do they cost, and what bounds them?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="count",
    of_devices=True,
    settings=(BY, PEAK),
)
