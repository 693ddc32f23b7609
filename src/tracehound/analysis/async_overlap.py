"""How much of the time of collectives and other asynchronous ops the cores hide behind work, and how much they wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from tracehound.analysis.devices.async_ops import Flights, exposed, flights_of, kept
from tracehound.analysis.devices.beside import beside, several
from tracehound.analysis.events.own_clock import window_apart
from tracehound.analysis.members import JOINED, listed
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, without
from tracehound.analysis.settings import Setting, one_of
from tracehound.formats.xla.kinds import performed
from tracehound.intervals import clip, union
from tracehound.notes import Note, note

DEFINITION = """\
Collectives, and all ops that one op starts and another waits for (all-gather-start and all-gather-done, copy-start and
copy-done, async slices), on the cores of TPUs and of XLA's CPU backend. An asynchronous op is in flight from the start
of the one op to the end of the other; a collective that is one op, as long as that. The other op is found by the
operand that its HLO line names, else by its name, within one execution of the module.

in flight = length of the union of these stretches. exposed = self time of the starting and the waiting ops themselves:
the core of a TPU does nothing else then; a CPU runs ops at once, and breakdown tells what of it nothing hides. hidden =
in flight less the stretches of those ops. On TPUs all times, and the bounds of a window, are on the device's own clock.
windows = sum of the stretches, which counts what overlaps more than once: XProf's analyze_async_overlap takes it for
the time of asynchronous ops, and so finds more of it, and more of it exposed, than the cores have time. While an op is
in flight it may only be queued behind others.

With the setting by=op there is a row for each op, over all ranks. On GPUs collectives are kernels on streams of their
own: the report overlap says how much of them is hidden."""

BY: Final = Setting("by", "kind", "what a row is: a kind of ops (of each rank) or an op (of all)", one_of("kind", "op"))

_MEASURES: Final = (
    Column("count", "count", "executions"),
    Column("paired", "count", "executions that a second op waits for", brief=False),
    Column("windows", "time", "sum of the stretches in flight, overlaps counted more than once", brief=False),
    Column("in_flight", "time", "one is under way, overlaps once"),
    Column("exposed", "time", "the core does nothing but start them or wait for them"),
    Column("exposed_share", "share", "exposed", "device time"),
    Column("hidden", "time", "in flight while the core works or idles"),
    Column("hidden_share", "share", "hidden", "in flight"),
    Column("event", "id", "the longest that kept the core"),
)

COLUMNS: Final = (
    Column("rank", "count", "rank"),
    Column("kind", "text", "opcode, without -start"),
    *_MEASURES,
)

BY_OP: Final = (
    Column("name", "text", "HLO op, of two the starting one"),
    Column("module", "text", "XLA module", brief=False),
    Column("kind", "text", "opcode, without -start"),
    *_MEASURES,
)

_KEY: Final = ("kind", "name", "module")


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each kind of ops, or each op; ps."""
    cores = flights_of(share)
    if cores is None:
        return pl.DataFrame()
    key = list(_KEY) if BY.of(options.given) == "op" else ["kind"]
    flights = cores.flights.filter(pl.col("paired") | (pl.col("kind") == "collective")).drop("kind")
    called = _called(cores.ops.filter(pl.col("op").is_in(flights["op"].unique().implode())))
    told = flights.join(called, on="op")
    groups = told.partition_by(key, as_dict=True, maintain_order=True)
    mine = cores.spent.join(called, on="op")
    spent, nothing = mine.partition_by(key, as_dict=True), mine.clear()
    rows = [
        {**dict(zip(key, group, strict=True)), **_measured(part, spent.get(group, nothing), cores, options)}
        for group, part in groups.items()
    ]
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(
        pl.lit(share.rank, pl.Int64).alias("rank"),
        pl.lit(cores.end - cores.start, pl.Int64).alias("time"),
        pl.lit(beside(share), pl.Int64).alias("beside"),
    )


def _called(ops: pl.DataFrame) -> pl.DataFrame:
    """`op`, and what it is called: `kind`, `name`, `module`."""
    rows = [
        (op, performed(name, category or name, text or ""), name, module or "")
        for op, name, category, module, text in ops.select("op", "name", "category", "module", "text").iter_rows()
    ]
    return pl.DataFrame(rows, schema={"op": pl.Int64, **dict.fromkeys(_KEY, pl.String)}, orient="row")


def _measured(rows: pl.DataFrame, spent: pl.DataFrame, cores: Flights, options: Options) -> dict[str, object]:
    """The figures of one group."""
    start, end = (rows[name].to_numpy() for name in ("start", "end"))
    flight = clip(union(start, end), cores.start, cores.end).length
    windows = rows["end"].clip(cores.start, cores.end) - rows["start"].clip(cores.start, cores.end)
    return {
        "count": rows.height,
        "paired": int(rows["paired"].sum()),
        "windows": int(windows.sum()),
        **listed(options, rows["id"]),
        **kept(rows, spent, flight, *exposed(spent, cores.start, cores.end)),
    }


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row for each rank and kind, or for each op over all ranks; what is exposed longest first."""
    by_op = BY.of(options.given) == "op"
    shown = ANALYSIS.shown(options.given)
    filled = [table for table in tables if "count" in table.columns]
    if not filled:
        return without(shown, scene, options, _nothing(scene))
    rows = pl.concat(filled)
    time = int(rows.group_by("rank").agg(pl.col("time").first())["time"].sum())
    table = _over_ranks(rows, time) if by_op else rows.with_columns(pl.col("rank").rle_id().alias("place"))
    table = table.with_columns(
        (pl.col("exposed") / pl.col("time")).fill_nan(None).alias("exposed_share"),
        (pl.col("hidden") / pl.col("in_flight")).fill_nan(None).alias("hidden_share"),
    )
    order = ["exposed", "in_flight", "name", "module", "kind"] if by_op else ["place", "exposed", "in_flight", "kind"]
    table = table.sort(order, descending=[name in ("exposed", "in_flight") for name in order])
    return answer(shown, table, scene, options, [*_notes(rows, time), *window_apart(rows["time"], scene)])


def _over_ranks(rows: pl.DataFrame, time: int) -> pl.DataFrame:
    return rows.group_by(_KEY).agg(
        pl.col("count", "paired", "windows", "in_flight", "exposed", "hidden").sum(),
        pl.lit(time).alias("time"),
        pl.col("event").sort_by("longest", "event", descending=[True, False]).first(),
        JOINED,
    )


def _notes(rows: pl.DataFrame, time: int) -> list[Note]:
    if merged := several(rows, "exposed"):
        return merged
    waited = int(rows["exposed"].sum())
    return [note("exposed_total", exposed=waited, of=time, ranks=rows["rank"].n_unique())] if time else []


def _nothing(scene: Scene) -> Note:
    return note("no_hlo_ops_in_pytorch_profile" if scene.pytorch else "no_asynchronous_ops", level="missing")


ANALYSIS = Analysis(
    name="async_overlap",
    title="Async overlap",
    question="How much of collectives and asynchronous HLO ops is hidden behind work, and how much is exposed?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="count",
    of_devices=True,
    settings=(BY,),
    by={"op": BY_OP},
)
