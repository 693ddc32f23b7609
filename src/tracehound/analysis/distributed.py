"""Each rank's computation, communication and their overlap; and of the communication what is transfer, what waiting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.clocks import offset_notes
from tracehound.analysis.devices.beside import beside, several
from tracehound.analysis.devices.silence import no_steps
from tracehound.analysis.events.busy import busy_of, work
from tracehound.analysis.events.core_time import on_own_clock
from tracehound.analysis.events.own_clock import CLOCKED, clock_of, clocks_apart, has_clock, steps_within, window_apart
from tracehound.analysis.ranks.calls import CALLS, calls
from tracehound.analysis.ranks.matched import HOW, NO_COLLECTIVES, THREE_WAITS, Matched, matched
from tracehound.analysis.ranks.process_groups import absentees
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, without
from tracehound.analysis.settings import RUN_OR_STEP
from tracehound.analysis.share import overlapping
from tracehound.analysis.spans.other_steps import FOLLOWED, OF_STEPS, ahead, beyond
from tracehound.formats.torch_names import PARAMS
from tracehound.intervals import Intervals, clip, covered, intersect, subtract, union
from tracehound.notes import Note, note
from tracehound.trace import collected

DEFINITION = f"""\
Per rank, and with the setting by=step per rank and step: computation = computation runs and no communication, overlap =
both run at once, communication = communication runs and no computation, other = the rest of the span; the four add up
to it. All are lengths of unions of intervals over all streams. So computation and overlap together are the compute of
breakdown and the second group of overlap, communication is what breakdown has as exposed, and with overlap it is all
that communicates. Where nothing works on a device (CPU, gloo), computation is the time in the operators of the host
outside its collectives. Where a file does not tell several devices apart they are one rank, of which one computes while
another communicates: a note says so. All times of a device with a clock of its own (TPU), and the bounds of steps and
of a window, are on that, as in breakdown.

transfer and synchronising share out the time in which communication runs, hidden or not: of each call the last part, as
long as the shortest call of that collective on any rank, is transfer, and what is before is synchronising: waiting for
the last to come. Of an asynchronous collective of a TPU, whose call lasts from its start to its done, only these two
run, here as in breakdown: what the ops between them hide is neither, and is in async_overlap. That needs no common
clock, and is least where the calls of a collective end apart (gloo): by the time at which the last one came, as in
arrivals and stragglers, a rank may have waited longer, which a note then says. Both are unions: where another
collective transfers at once, a wait is hidden. unmatched is the rest: communication that no other rank here has.

{THREE_WAITS}

{HOW}

The PyTorch TensorBoard plugin has the same computation, overlapping, communication and other, and data transfer and
synchronising. It also counts the host's range around a collective as communication (and as transfer); it takes the
i-th collective of every rank for the same, and shows nothing when their numbers differ; since PyTorch 2.0 it takes
NCCL's kernels for computation. Its steps last until the last kernel that was launched in them, as those of step_parts
do; here they end where they are marked to end, and a note tells how much of their work ran outside of that."""

_TIMES: Final = (
    Column("computation", "time", "computation runs and no communication: compute of breakdown less overlap"),
    Column("overlap", "time", "computation and communication run at once: communication that is hidden"),
    Column("communication", "time", "communication runs and no computation: the exposed part, as in breakdown"),
    Column("other", "time", "neither runs", brief=False),
    Column(
        "transfer", "time", "communication that moves data: as long as the shortest call of the collective", brief=False
    ),
    Column("synchronising", "time", "communication that only waits for the last to come"),
    Column("waiting", "share", "synchronising", "the span"),
    Column("unmatched", "time", "communication that no other rank here has", brief=False),
)

COLUMNS = (Column("rank", "number", "rank"), Column("span", "time", "from first to last work, or the window"), *_TIMES)

BY_STEP: Final = (
    Column("step", "number", "number of the step"),
    Column("rank", "number", "rank"),
    Column("start", "instant", "start of the step, or of the part in the window", brief=False),
    Column("span", "time", "length of the step, or of the part in the window"),
    *_TIMES,
    Column("event", "id", "the mark of the step"),
)

_PARTS: Final = (
    "step", "event", "start", "end", "from", "until", "computation", "overlap", "communication", "other", "works",
    "clocked", "beside", "stepped", "outside",
)  # fmt: skip


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """The calls of the rank, its run or steps with their parts, and when it communicates: `what` tells the rows apart.

    `from` and `until` are the bounds of a row on the clock of its parts, the device's own where it is `clocked`; of the
    rows `runs` those of a stretch in which communication runs. All in ps.
    """
    on_device = share.lanes.filter(pl.col("work") & pl.col("rank").is_not_null()).height > 0
    by_step = RUN_OR_STEP.of(options.given) == "step"
    events = work(share, "lane", *CLOCKED, *(OF_STEPS if by_step else ()))
    clocked = on_device and has_clock(events)
    computing, communicating, low, high = _of_device(share, events) if on_device else _of_host(share)
    if by_step:
        stretches = steps_within(share, clock_of(share) if clocked else None).drop("inferred")
    else:
        stretches = _run(low, high)
    start, end = stretches["from"].to_numpy(), stretches["until"].to_numpy()
    both = intersect(computing, communicating)
    times = {
        "computation": covered(subtract(computing, communicating), start, end),
        "overlap": covered(both, start, end),
        "communication": covered(subtract(communicating, computing), start, end),
    }
    far = beyond(share, events) if by_step else FOLLOWED
    parts = stretches.with_columns(
        pl.lit(share.rank, pl.Int64).alias("rank"), *(pl.Series(name, values) for name, values in times.items())
    ).with_columns(
        (pl.col("until") - pl.col("from") - pl.sum_horizontal(*times)).alias("other"),
        pl.lit(on_device).alias("works"),
        pl.lit(clocked).alias("clocked"),
        pl.lit(0 if clocked else beside(share), pl.Int64).alias("beside"),
        pl.lit(far.work, pl.Int64).alias("stepped"),
        pl.lit(far.outside, pl.Int64).alias("outside"),
    )
    sides = (communicating.start, communicating.end)
    runs = pl.DataFrame({name: pl.Series(side, dtype=pl.Int64) for name, side in zip(_RUNS, sides, strict=True)})
    rows = {"call": calls(share), "part": parts, "runs": runs.with_columns(pl.lit(share.rank, pl.Int64).alias("rank"))}
    return pl.concat([each.with_columns(pl.lit(what).alias("what")) for what, each in rows.items()], how="diagonal")


_RUNS: Final = ("from", "until")


def _of_device(share: Share, events: pl.DataFrame) -> tuple[Intervals, Intervals, int, int]:
    """When the rank's device computes and communicates, and the bounds of its work."""
    worked = on_own_clock(events, share)
    state = busy_of(worked.events, replace(share, start=worked.start, end=worked.end))
    return state.compute, state.communication, state.start, state.end


def _of_host(share: Share) -> tuple[Intervals, Intervals, int, int]:
    """The same of the operators and collectives of its host, where nothing works on a device."""
    kinds = pl.col("kind").is_in(["op", "collective"])
    rows = collected(
        overlapping(share.threads, share.start, share.end).filter(kinds).select("start", "end", "kind", "name")
    )
    own = pl.col("name").cast(pl.String).str.contains(rf"^c10d::|^{PARAMS}$|^gloo:|^nccl:")
    ops, collectives = rows.filter((pl.col("kind") == "op") & ~own), rows.filter(pl.col("kind") == "collective")
    computing, communicating = (
        clip(union(each["start"].to_numpy(), each["end"].to_numpy()), share.start, share.end)
        for each in (ops, collectives)
    )
    if share.windowed or rows.is_empty():
        return computing, communicating, share.start, share.end if share.windowed else share.start
    return computing, communicating, int(rows["start"].to_numpy().min()), int(rows["end"].to_numpy().max())


def _run(low: int, high: int) -> pl.DataFrame:
    bounds = {"start": low, "end": high, "from": low, "until": high}
    columns = ("step", "event", *bounds)
    return pl.DataFrame([{"step": None, "event": None, **bounds}], schema=dict.fromkeys(columns, pl.Int64))


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """A row per rank, or per step and rank."""
    by_step = RUN_OR_STEP.of(options.given) == "step"
    shown = ANALYSIS.shown(options.given)
    parts = [table.filter(pl.col("what") == "part").select("rank", *_PARTS) for table in tables if table.height]
    rows = pl.concat(parts) if parts else pl.DataFrame()
    if rows.is_empty():
        return without(shown, scene, options, no_steps(scene) if by_step else note("no_ranks", level="missing"))
    filled = [table for table in tables if table.height]
    found = matched([table.filter(pl.col("what") == "call").select(CALLS.names()) for table in filled], scene)
    met = _on_own_clock(found.calls, rows.filter("clocked")["rank"].unique())
    runs = pl.concat([table.filter(pl.col("what") == "runs").select("rank", *_RUNS) for table in filled])
    halves = pl.concat([_halves(met, runs, of_rank) for of_rank in rows.partition_by("rank", maintain_order=True)])
    table = halves.with_columns((pl.col("until") - pl.col("from")).alias("span")).with_columns(
        (pl.col("synchronising") / pl.col("span")).fill_nan(None).alias("waiting")
    )
    order = ("step", "rank", "start") if by_step else ("rank",)
    notes = [
        *_notes(table, found),
        *_with_overlap(table),
        *several(table, "overlap"),
        *(ahead(table) if by_step else [] if scene.windowed else _longer(found.calls, table)),
        *_hosted(table),
        *offset_notes(found.clocks),
        *absentees(found.calls, scene),
        *found.notes,
        *_clocks_apart(table, scene, by_step=by_step),
    ]
    return answer(shown, table.sort(order), scene, options, notes)


def _on_own_clock(calls: pl.DataFrame, clocked: pl.Series) -> pl.DataFrame:
    """The matched calls, those of the ranks that are `clocked` on their devices' own clocks, and what transfers so."""
    own = pl.col("rank").is_in(clocked.implode())
    moved = calls.with_columns(pl.when(own).then(f"device_{side}").otherwise(side).alias(side) for side in _SIDES)
    known = moved.drop_nulls(_SIDES)
    return known.with_columns((pl.col("end") - pl.col("start")).min().over("meeting").alias("transfer"))


_SIDES: Final = ("start", "end")


def _halves(calls: pl.DataFrame, runs: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of one rank with what of their communication transfers, waits, and is not matched.

    `waited` is all that its calls waited, also where nothing of them runs on the device.
    """
    mine, running = (each.filter(pl.col("rank") == rows["rank"][0]) for each in (calls, runs))
    known = mine.filter(pl.col("meeting").is_not_null())
    start, end, transfer = (known[name].to_numpy() for name in ("start", "end", "transfer"))
    moving, matched_ = union(end - transfer, end), union(start, end)
    every = union(mine["start"].to_numpy(), mine["end"].to_numpy())
    low, high = rows["from"].to_numpy(), rows["until"].to_numpy()
    waiting, here = subtract(matched_, moving), union(running["from"].to_numpy(), running["until"].to_numpy())
    lengths = {
        "transfer": covered(intersect(moving, here), low, high),
        "synchronising": covered(intersect(waiting, here), low, high),
        "unmatched": covered(intersect(subtract(every, matched_), here), low, high),
        "waited": covered(waiting, low, high),
    }
    told = len(start) > 0
    return rows.with_columns(
        *(pl.Series(name, values if told or name == "unmatched" else [None] * len(values), pl.Int64)
          for name, values in lengths.items())
    )  # fmt: skip


def _with_overlap(table: pl.DataFrame) -> list[Note]:
    """What part of the spans computation and communication take in all, where they overlap."""
    both, span = int(table["overlap"].sum()), int(table["span"].sum())
    if not both:
        return []
    computing, communicating = ((int(table[name].sum()) + both) / span for name in ("computation", "communication"))
    return [note("overlap_included", computation=computing, communication=communicating)]


def _clocks_apart(table: pl.DataFrame, scene: Scene, *, by_step: bool) -> list[Note]:
    if by_step:
        return clocks_apart("steps", table["span"], table["end"] - table["start"])
    return window_apart(table.filter("clocked")["span"], scene)


def _notes(table: pl.DataFrame, found: Matched) -> list[Note]:
    """What part of all communication only waits."""
    waits, moves = int(table["synchronising"].sum()), int(table["transfer"].sum())
    if waits + moves:
        every = not table["unmatched"].sum()
        return [note("communication_waits", waiting=waits / (waits + moves), every=every)]
    if found.calls.is_empty() and not found.notes:
        return [note(NO_COLLECTIVES)]
    if table["rank"].n_unique() > 1:
        return [note("communication_not_matched", level="missing")]
    return [note("waiting_needs_several_ranks", level="missing")]


_LONGER: Final = 1.25
"""So many times what durations tell is said."""


def _longer(calls: pl.DataFrame, table: pl.DataFrame) -> list[Note]:
    """That ranks waited for longer by when the last of each collective came, on the trace's clock, if much longer."""
    known = calls.filter(pl.col("meeting").is_not_null())
    came = known.with_columns(pl.min_horizontal("end", pl.col("start").max().over("meeting")).alias("came"))
    waited = sum(
        union(mine["start"].to_numpy(), mine["came"].to_numpy()).length
        for mine in came.partition_by("rank", maintain_order=True)
    )
    return [note("waited_by_arrivals", time=waited)] if waited > _LONGER * int(table["waited"].sum()) else []


def _hosted(table: pl.DataFrame) -> list[Note]:
    """Of which ranks only the host is known."""
    ranks = table.filter(~pl.col("works"))["rank"].unique().sort().to_list()
    return [note("computation_of_host", level="missing", ranks=tuple(ranks))] if ranks else []


ANALYSIS = Analysis(
    name="distributed",
    title="Distributed",
    question="How much does each rank compute, communicate and wait for others, and what do they overlap?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    settings=(RUN_OR_STEP,),
    by={"step": BY_STEP},
)
