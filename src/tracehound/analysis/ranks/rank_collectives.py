"""Collective calls of one rank: a row for each call, with all that distinguishes it from others.

Defines calls, their kinds, and their process groups. Sees one rank only; `collective_matching` matches the calls of
several ranks.
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.devices.async_ops import join_async_events, module_executions
from tracehound.analysis.devices.sparse_cores import sparse_core_lanes
from tracehound.analysis.hosts.host_threads import host_events_by_id
from tracehound.analysis.rank_trace import RankTrace, overlapping_events
from tracehound.analysis.timing.device_busy import busy_intervals, device_work
from tracehound.analysis.timing.device_clock import measure_events
from tracehound.formats.hlo import replica_groups as hlo_members
from tracehound.formats.torch_names import COLLECTIVE_PARAMS
from tracehound.formats.xla.op_kinds import megascale_transfer_type, performed_opcode
from tracehound.model.trace import collect_frame, schema
from tracehound.model.units import PS_PER_S
from tracehound.numeric.intervals import complement, overlapping_pairs

BANDWIDTH_DEFINITION: Final = """\
algorithm bandwidth = message / transfer. bus bandwidth = algorithm bandwidth * the factor of nccl-tests, which makes
it comparable with the speed of links for any number n of ranks: all_reduce 2(n-1)/n; all_gather, reduce_scatter,
all_to_all, gather and scatter (n-1)/n; all others 1. The message is that of one rank; for collectives that gather or
scatter, the larger side. n is the size of the group in the file, or else the number of ranks seen here."""

_DISTRIBUTED_KINDS: Final = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
_WHOLE_MESSAGE_KINDS: Final = ("broadcast", "reduce", "collective_permute", "send", "recv")

MAX_LINK_BANDWIDTH: Final = 4e12
"""Bytes per second that no link between devices reaches: higher rates are not shown."""


def bus_factor_column(collective: str = "collective", size: str = "group_size") -> pl.Expr:
    """Bus bandwidth over algorithm bandwidth, from columns of collectives and group sizes; null if unknown."""
    what, n = pl.col(collective).cast(pl.String), pl.col(size)
    share = pl.when(n > 0).then((n - 1) / n)
    return (
        pl.when(what == "all_reduce").then(2 * share)
        .when(what.is_in(_DISTRIBUTED_KINDS)).then(share)
        .when(what.is_in(_WHOLE_MESSAGE_KINDS)).then(1.0)
    )  # fmt: skip


def bandwidth_columns(moved: pl.Expr, time: pl.Expr) -> list[pl.Expr]:
    """`algorithm` and `bus`, bytes per second, of bytes moved in a time (ps); null without a time or if implausible."""
    rate = pl.when((time > 0) & (moved > 0)).then(moved * PS_PER_S / time)
    believed = pl.when(rate <= MAX_LINK_BANDWIDTH).then(rate)
    bus = believed * pl.col("factor")
    return [believed.alias("algorithm"), pl.when(pl.col("factor") > 0).then(bus).alias("bus")]


CALL_SCHEMA: Final = schema(
    {
        "rank": pl.Int64(),
        "event": pl.Int64(),
        "name": pl.Categorical(),  # kernel, HLO op or range
        "collective": pl.Categorical(),  # kind in PyTorch's terms: all_reduce; null if unknown
        "dtype": pl.Categorical(),
        "group": pl.Categorical(),  # name of the process group; else the program (XLA)
        "stream": pl.Categorical(),  # if the group is unnamed: a process group of this rank has one stream
        "description": pl.Categorical(),  # of the process group
        "members": pl.Categorical(),  # "[0, 1]": ranks of the process group; or replica groups as HLO spells them
        "size": pl.Int64(),  # ranks of the group, if the file says so
        "bytes": pl.Int64(),  # message of one rank; of gathers and scatters the larger side
        "piece": pl.Boolean(),  # bytes are the rank's contribution to a gather, equal for all members
        "sequence": pl.Int64(),  # number of the call in its process group
        "run": pl.Int64(),  # execution of the program (XLA)
        "source": pl.Int64(),  # sending rank of a send or receive; of a send its own rank
        "destination": pl.Int64(),  # receiving rank; of a receive its own rank
        "step": pl.Int64(),
        "sparse": pl.Boolean(),  # on a SparseCore, beside the work of the TensorCore
        "issued": pl.Int64(),  # start of the host's call that enqueued it; without one that of the call itself
        "leads": pl.Boolean(),  # began first of all work of this call (a program, a graph); null without one
        "start": pl.Int64(),
        "end": pl.Int64(),
        "device_start": pl.Int64(),  # both on the device's own clock; null without one
        "device_end": pl.Int64(),
        "length": pl.Int64(),  # of the part in the window
        "in_window": pl.Boolean(),  # True if any part does
        "window_start": pl.Int64(),
        "window_end": pl.Int64(),
    }
)
"""The calls of a rank, in the order in which they were issued, also outside its window: matching needs the calls of all
ranks. Times in ps; null if the file does not say."""

CALLS_OF_STEPS_DEFINITION: Final = """\
With --step, the collectives are those of which any rank here has a call of these steps, whenever it ran."""

POINT_TO_POINT_PATTERN: Final = r"(^| )(send|recv)$"
"""Sends and receives, also as suffix of the halves of collectives between slices (``all_reduce send``)."""

SEND_AND_RECV: Final = ("send", "recv")
"""Calls in which one rank passes another the input of its work, as stages of a pipeline do."""

SYNCHRONIZING_KINDS: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Collectives that nobody leaves before everybody has come: they end together on all ranks."""

UNEVEN_KINDS: Final = ("all_to_all", "gather", "scatter", "send_recv", "collective_permute")
"""Collectives whose messages may differ from rank to rank."""

_GLOO_GATHER_NAMES: Final = ("gloo:all_gather", "gloo:_allgather_base", "gloo:gather")
"""Collectives recorded with the tensor that the rank gives."""

_RECORDED_ARGS: Final = (
    "collective", "dtype", "group", "description", "ranks", "size", "sequence", "source", "destination",
)  # fmt: skip

_KIND_PATTERNS: Final = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("send_recv", r"send_?recv"),
        ("reduce_scatter", r"reduce[-_ ]?scatter"),
        ("all_reduce", r"all[-_ ]?reduce|cross_device_reduce|quick_?reduce|psum"),
        ("all_gather", r"all[-_ ]?gather"),
        ("all_to_all", r"all[-_ ]?(?:to|2)[-_ ]?all|a2a"),
        ("collective_permute", r"permute"),
        ("broadcast", r"broadcast"),
        ("barrier", r"barrier"),
        ("gather", r"gather"),
        ("scatter", r"scatter"),
        ("reduce", r"reduce"),
        ("send", r"send"),
        ("recv", r"recv"),
    )
)


def collective_kind(name: str) -> str | None:
    """The kind of a collective by its name, in PyTorch's terms: all_reduce; None if the name does not tell.

    NCCL runs sends, receives and all-to-all in one kernel, which is send_recv here.
    """
    return next((found for found, pattern in _KIND_PATTERNS if pattern.search(name)), None)


def rank_calls(rank_trace: RankTrace) -> pl.DataFrame:
    """The calls of a rank, in the schema `CALL_SCHEMA`."""
    rows = _describe_calls(_join_hlo_ops(_collective_events(rank_trace), rank_trace), rank_trace)
    rows = _drop_offloaded_parts(rows)
    issued = pl.coalesce("launched", "start").alias("issued")
    own = pl.lit(rank_trace.rank, pl.Int64)
    return (
        rows.with_columns(
            own.alias("rank"),
            pl.col("id").alias("event"),
            pl.coalesce("source", pl.when(pl.col("collective") == "send").then(own)).alias("source"),
            pl.coalesce("destination", pl.when(pl.col("collective") == "recv").then(own)).alias("destination"),
            issued,
            (pl.col("start") == pl.col("first")).alias("leads"),
            pl.lit(rank_trace.start).alias("window_start"),
            pl.lit(rank_trace.end).alias("window_end"),
        )
        .sort("issued", "start", "event")
        .select(CALL_SCHEMA.names())
        .cast(CALL_SCHEMA)
    )


def rank_calls_in_steps(rank_trace: RankTrace) -> pl.DataFrame:
    """The calls of a rank; if steps are chosen, `in_window` marks those of these steps, at any time."""
    found = rank_calls(rank_trace)
    if rank_trace.step_numbers is None:
        return found
    return found.with_columns(rank_trace.is_chosen_step.fill_null(value=False).alias("in_window"))


def _collective_events(rank_trace: RankTrace) -> pl.DataFrame:
    """The collective events: on the device, or on the host's threads if nothing works on a device."""
    device = rank_trace.lanes.filter(pl.col("rank").is_not_null())
    ops = device.filter(pl.col("role") == "ops")
    on_sparse = sparse_core_lanes(rank_trace)
    lanes = (ops if ops.height else device.filter(pl.col("work")))["lane"].to_list() + on_sparse
    every = rank_trace.device_anytime.filter(pl.col("lane").is_in(lanes)) if lanes else rank_trace.threads
    mine = pl.col("kind") == "collective"
    # clipped events need their children for their lengths
    near = overlapping_events(every, rank_trace.start, rank_trace.end) if rank_trace.windowed else every.filter(mine)
    found = (
        measure_events(collect_frame(near), rank_trace.start, rank_trace.end)
        .filter(mine)
        .with_columns(in_window=pl.lit(value=True))
    )
    if rank_trace.windowed:
        away = collect_frame(every.filter(mine)).join(found, on="id", how="anti")
        away = away.with_columns(length=pl.lit(0, pl.Int64), in_window=pl.lit(value=False))
        found = pl.concat([found, away], how="diagonal").sort("id")
    calls = collect_frame(host_events_by_id(rank_trace, found["launch"]).select(launch="id", launched="start"))
    led = collect_frame(every.filter(pl.col("launch").is_in(calls["launch"].implode())).select("launch", "start"))
    calls = calls.join(led.group_by("launch").agg(pl.col("start").min().alias("first")), on="launch", how="left")
    streams = rank_trace.lanes.select("lane", stream=pl.when(pl.col("role") == "stream").then("name"))
    on_core = pl.col("lane").is_in(on_sparse).alias("sparse")
    return found.join(calls, on="launch", how="left").join(streams, on="lane", how="left").with_columns(on_core)


def _join_hlo_ops(events: pl.DataFrame, rank_trace: RankTrace) -> pl.DataFrame:
    """The events with their HLO ops; a start and its done are one call, from the start's start."""
    known = rank_trace.ops.select("op", "category", "module", "program", "text")
    rows = (
        events.sort("id")
        .join(known, on="op", how="left", maintain_order="left")
        .with_columns(paired=pl.lit(value=False))
    )
    if rank_trace.ops.is_empty():
        return rows
    pairs = join_async_events(rows, rank_trace.ops, module_executions(rank_trace, rows["start"])).select("id", "done")
    ends = pairs.join(rows.select(done="id", until="end", own_until="device_end", more="length"), on="done")
    begun = rows.join(pairs.select(id="done"), on="id", how="anti").join(ends, on="id", how="left")
    return begun.with_columns(
        pl.coalesce("until", "end").alias("end"),
        pl.coalesce("own_until", "device_end").alias("device_end"),
        (pl.col("length") + pl.col("more").fill_null(0)).alias("length"),
        pl.col("until").is_not_null().alias("paired"),
    ).select(rows.columns)


def _drop_offloaded_parts(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls without those on SparseCores that a call of the TensorCore starts and waits for: one call, not two.

    It is one call where the asynchronous collective of the TensorCore is in flight, and is of the same kind.
    """
    if not calls["sparse"].any():
        return calls
    kind, middle = pl.col("collective").cast(pl.String), (pl.col("start") + pl.col("end")) // 2
    in_flight = (
        calls.filter(pl.col("paired") & ~pl.col("sparse"))
        .sort("start")
        .select(kind, pl.col("start").alias("at"), pl.col("end").cum_max().over(kind).alias("until"))
    )
    parts = calls.filter("sparse").select("id", kind, middle.alias("at")).sort("at")
    started = parts.join_asof(in_flight, on="at", by="collective", check_sortedness=False)
    return calls.join(started.filter(pl.col("at") <= pl.col("until")), on="id", how="anti", maintain_order="left")


def _describe_calls(rows: pl.DataFrame, rank_trace: RankTrace) -> pl.DataFrame:
    """Kind and group of each call: from its args, else from those of the operator that started it.

    Else from the HLO op; the rest is told by the name, and of the group only the stream. Sends and receives between
    slices are also named after the collective they are part of.
    """
    rows = _add_recorded_args(rows, rank_trace)
    words = pl.coalesce(pl.col("said_collective").cast(pl.String), _hlo_opcodes(rows), pl.col("name").cast(pl.String))
    names = rows.select(words).to_series()
    known = {name: collective_kind(name) for name in names.unique().drop_nulls().to_list()}
    parts = {text: megascale_transfer_type(text) for text in rows["text"].unique().drop_nulls().to_list()}
    part = pl.col("text").replace_strict(parts, default=None, return_dtype=pl.String).replace("", None)
    does = names.replace_strict(known, return_dtype=pl.String)
    groups = _replica_groups(rows, rank_trace)
    forms, sizes = ({op: each[place] for op, each in groups.items()} for place in (0, 1))
    spelt = pl.col("op").replace_strict(forms, default=None, return_dtype=pl.String).replace("", None)
    most = pl.col("op").replace_strict(sizes, default=None, return_dtype=pl.Int64)
    return rows.with_columns(
        pl.coalesce(pl.format("{} {}", part, does), does).alias("collective"),
        pl.col("said_dtype").alias("dtype"),
        pl.coalesce(pl.col("said_group").cast(pl.String), pl.when(pl.col("stream").is_null()).then("module")).alias(
            "group"
        ),
        pl.when(pl.col("said_group").is_null()).then("stream").alias("stream"),
        pl.col("said_description").alias("description"),
        pl.coalesce(pl.col("said_ranks").cast(pl.String), spelt).alias("members"),
        pl.coalesce(pl.col("said_size").cast(pl.Int64), most).alias("size"),
        (names.is_in(_GLOO_GATHER_NAMES) & pl.col("said_collective").is_null()).alias("piece"),
        *(pl.col(f"said_{name}").cast(pl.Int64).alias(name) for name in ("sequence", "source", "destination")),
    )


def _hlo_opcodes(rows: pl.DataFrame) -> pl.Series:
    """The opcode of each row's HLO op, of an asynchronous one the opcode it starts; null without op."""
    words = pl.col("name").cast(pl.String), pl.col("category"), pl.col("text").fill_null("")
    ops = rows.filter(pl.col("category").is_not_null()).select("op", *words).unique("op", keep="any")
    opcodes = {op: _opcode_of_op(name, category, text) for op, name, category, text in ops.iter_rows()}
    return rows["op"].replace_strict(opcodes, default=None, return_dtype=pl.String)


def _replica_groups(rows: pl.DataFrame, rank_trace: RankTrace) -> dict[int, tuple[str, int | None]]:
    """The groups in the lines of HLO ops, and their sizes, by op."""
    words = pl.col("name").cast(pl.String), pl.col("category").fill_null(""), "text", "program"
    ops = rows.filter(pl.col("text").is_not_null()).select("op", *words).unique("op", keep="any")
    return {
        op: hlo_members.groups_text_and_size(
            performed_opcode(name, category, text), text, *rank_trace.program_devices.get(program, (0, 0))
        )
        for op, name, category, text, program in ops.iter_rows()
    }


def _opcode_of_op(name: str, category: str, text: str) -> str:
    known = (category, performed_opcode(name, category, text))
    return next((opcode for opcode in known if collective_kind(opcode)), name)


def _add_recorded_args(rows: pl.DataFrame, rank_trace: RankTrace) -> pl.DataFrame:
    """The rows with `_RECORDED_ARGS` in columns prefixed ``said_``: their own, else those of their operator."""
    recorded = collect_frame(rank_trace.facet("communicated").select("record", *_RECORDED_ARGS))
    threads = rank_trace.threads if recorded.height else rank_trace.threads.clear()  # else no operator has args
    operators = collect_frame(
        threads.filter((pl.col("name") == COLLECTIVE_PARAMS) & (pl.col("external") >= 0)).select("external", "record")
    ).unique("external", keep="first", maintain_order=True)
    of_operator = operators.join(recorded, on="record", how="inner").drop("record")
    both = rows.join(recorded, on="record", how="left", maintain_order="left").join(
        of_operator, on="external", how="left", maintain_order="left", suffix="_there"
    )
    return both.select(
        *rows.columns, *(pl.coalesce(name, f"{name}_there").alias(f"said_{name}") for name in _RECORDED_ARGS)
    )


_SHORTEST_GAP_PER_CALL: Final = 100
"""A gap between kernels below 1/100 of the call does not count: the device continues its computation."""


def intervals_without_compute(rank_trace: RankTrace, calls: pl.DataFrame) -> pl.DataFrame:
    """A row for each call (schema `CALL_SCHEMA`) that has intervals without computation: event, exposed.

    If nothing works on a device, and the host itself takes part, that is all of the call.
    """
    start, end, event = (calls[name].to_numpy() for name in ("start", "end", "event"))
    low, high = int(start.min()), int(end.max())
    whole = replace(rank_trace, device=rank_trace.device_anytime, start=low, end=high)
    pauses = complement(busy_intervals(device_work(whole), whole).compute, low, high)
    call, pause = overlapping_pairs(start, end, pauses)
    after = (pauses.start[pause] - start[call]).clip(min=0)
    until = pauses.end[pause].clip(max=end[call]) - start[call]
    much = _SHORTEST_GAP_PER_CALL * (until - after) >= (end - start)[call]
    pieces = pl.DataFrame({"event": event[call], "after": after, "until": until}).filter(pl.Series(much))
    return pieces.group_by("event", maintain_order=True).agg(pl.struct("after", "until").alias("exposed"))
