"""Which HLO ops take the time, what they cost, and what bounds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.devices.peaks import PEAK, Peaks, of_ranks
from tracehound.analysis.events.own_clock import window_apart
from tracehound.analysis.hlo import costs as hlo_costs
from tracehound.analysis.hlo.command_buffers import NAMING
from tracehound.analysis.hlo.costs import CATEGORY, LONGEST, MODULE, SOURCE, TIMES, VERDICT, costed, per_second
from tracehound.analysis.hlo.groups import WAYS, grouped
from tracehound.analysis.hlo.rows import device_time, over_ranks, per_rank, unattributed
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, answer, share_of, without
from tracehound.analysis.settings import Setting, one_of
from tracehound.analysis.trees import cut
from tracehound.notes import Note
from tracehound.units import duration, flops, plural, rate, share

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

NO_OPS: Final = (
    "no HLO op here: XLA profiles have them (JAX's ProfileOptions: host_tracer_level of 2 or more for CPUs,"
    " device_tracer_level of 1 for GPUs); the kernels and operators of others are in the analysis ops"
)
NO_PEAK: Final = (
    "no peak is known of the device, so nothing is said of what bounds ops:"
    " the setting peak tells (v6e, H100, 989T,3.35TB/s)"
)


def _in_buffers(tables: Sequence[pl.DataFrame]) -> str:
    """What helps where kernels that name no op may have run in command buffers."""
    return f" (those of command buffers do, with {NAMING})" if any(table["buffered"][0] for table in tables) else ""


def nothing(ranks: Sequence[pl.DataFrame], scene: Scene) -> str:
    """Why no rank ran an op; `ranks` has what is known of those that work at times."""
    if ranks and scene.windowed and "XLA" in scene.profilers:
        return "no HLO op in the window"
    if ranks and scene.xla and scene.ranks["label"].str.starts_with("GPU").any():
        return f"no kernel of the GPUs names an HLO op{_in_buffers(ranks)}"
    return NO_OPS


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
    notes: list[str | Note] = [
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


def _about(rows: pl.DataFrame, tables: Sequence[pl.DataFrame]) -> list[str]:
    """How many ops there are, how much of the time is idle, how many run at once, and what most of it waits for."""
    ranks, whole = len(tables), int(rows["self"].sum())
    span, used, busy = (device_time(tables, of) for of in ("span", "used", "busy"))
    notes = [f"{plural(rows.height, 'HLO op')} on {plural(ranks, 'rank')}"]
    if span:
        idle = f"idle {(span - busy) / span * 100:.3f} % of {duration(span)} device time"
        notes.append(idle + (f"; no HLO op runs in {(span - used) / span * 100:.3f} %" if busy > used else ""))
    if whole > _AT_ONCE * used > 0:
        notes.append(f"ops run at once: their self times sum up to {share(whole / used)} of the time in which any runs")
    waits = rows.filter((pl.col("bound") == "host link") & (pl.col("kind") == "transfer"))
    waiting = int(waits["self"].sum())
    if whole and waiting > whole / 20:
        notes.append(f"{share(waiting / whole)} of the ops' self time waits for the host's memory")
        notes += [_QUEUED] * bool(waits["half"].any())
    far = rows.filter(pl.col("bound").is_not_null() & (pl.col("nearest") < _FAR) & ~pl.col("bound").is_in(_LINKS))
    if whole and far.height:
        part = share(int(far["self"].sum()) / whole)
        notes.append(
            f"less than a tenth of any peak: {plural(far.height, 'op')}, {part} of the self time; what such an op is"
            " bound by is only what it uses most, if little"
        )
    return notes


_QUEUED: Final = (
    "the bandwidth of a copy in two halves is over the time from start to end, in which it may only queue behind"
    " others: transfers has the speed of links"
)

_FAR: Final = 0.1
"""Ops that come to less of any peak wait for something else: latency, what they depend on, or their own start."""

_LINKS: Final = ("host link", "interconnect")
"""How far from their peaks ops come that are bound by these is not known well enough."""


def coverage(tables: Sequence[pl.DataFrame]) -> list[str]:
    """How much of the kernels' time belongs to no op, and so is in no row."""
    unnamed, lost, ran = unattributed(tables)
    if not unnamed:
        return []
    told = f"{unnamed:,} kernels name no HLO op and are in no row"
    more = f": {duration(lost)}, {share(lost / ran)} of the kernels' time" if ran else ""
    return [f"{told}{more}{_in_buffers(tables)}"]


def about_peaks(peaks: dict[int, Peaks]) -> list[str]:
    """Against what ops are held."""
    if not peaks:
        return [NO_PEAK]
    first = peaks[min(peaks)]
    compute, memory = first.compute(), first.memory
    figures = [flops(compute)] if compute else []
    figures += [rate(memory)] if memory else []
    told = [f"peak of {first.device}: {' and '.join(figures)} ({first.source})"]
    if any(other.flops != first.flops or other.memory != first.memory for other in peaks.values()):
        told.append("the ranks' devices differ: all are held against that of the first")
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
