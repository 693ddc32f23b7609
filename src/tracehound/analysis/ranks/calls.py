"""The collectives that one rank took part in: a row for each call, with all that tells it from others.

Owns what counts as a call, what it is called, and which process group it belongs to. Knows one rank alone: which calls
of other ranks are the same collective is `matched`'s.
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from tracehound.analysis.devices.async_ops import executions_of, joined
from tracehound.analysis.events.measured import measured
from tracehound.analysis.hosts.threads import having
from tracehound.analysis.result import Share
from tracehound.analysis.share import overlapping
from tracehound.formats.hlo import members as hlo_members
from tracehound.formats.torch_names import PARAMS
from tracehound.formats.xla.copies import between_slices
from tracehound.formats.xla.kinds import performed
from tracehound.trace import collected, schema

CALLS: Final = schema(
    {
        "rank": pl.Int64(),
        "event": pl.Int64(),
        "name": pl.Categorical(),  # kernel, HLO op or range
        "collective": pl.Categorical(),  # what it does, by PyTorch's name: all_reduce; null where nothing tells
        "dtype": pl.Categorical(),
        "group": pl.Categorical(),  # name of the process group; else the program (XLA)
        "stream": pl.Categorical(),  # where nothing names the group: one process group of this rank has one stream
        "description": pl.Categorical(),  # of the process group
        "members": pl.Categorical(),  # "[0, 1]": ranks of the process group; or replica groups as HLO spells them
        "size": pl.Int64(),  # how many ranks the group has, where the file says so
        "bytes": pl.Int64(),  # message of one rank; of what gathers or scatters the larger side
        "piece": pl.Boolean(),  # that is what the rank gives to a gathering, and all members give as much
        "sequence": pl.Int64(),  # number of the call in its process group
        "run": pl.Int64(),  # execution of the program (XLA)
        "source": pl.Int64(),  # rank that sends, of a send and its receive: of a send its own rank
        "destination": pl.Int64(),  # rank that receives: of a receive its own rank
        "step": pl.Int64(),
        "issued": pl.Int64(),  # start of the host's call that enqueued it; without one that of the call itself
        "leads": pl.Boolean(),  # of all that this call enqueued (a program, a graph) it began first; null without one
        "start": pl.Int64(),
        "end": pl.Int64(),
        "device_start": pl.Int64(),  # both on the device's own clock; null where it has none
        "device_end": pl.Int64(),
        "length": pl.Int64(),  # of what lies in the window
        "in_window": pl.Boolean(),  # whether any of it does
        "window_start": pl.Int64(),
        "window_end": pl.Int64(),
    }
)
"""The calls of a rank, in the order in which they were issued, those out of its window too: which of them are the same
collective as those of other ranks, only all of them tell. Times in ps; null where the file does not say."""

OF_STEPS: Final = """\
Of steps that are asked for are the collectives of which any rank here has a call of these steps, whenever it ran."""

POINT_TO_POINT: Final = r"(^| )(send|recv)$"
"""What only sends or receives, and how the names end of the sides of what slices do together (``all_reduce send``)."""

HANDED_ON: Final = ("send", "recv")
"""Calls in which one rank hands another what that goes on with, as the stages of a pipeline do."""

TOGETHER: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Collectives that nobody leaves before everybody has come: they end together on all ranks."""

UNEVEN: Final = ("all_to_all", "gather", "scatter", "send_recv", "collective_permute")
"""Collectives whose messages may differ from rank to rank."""

_GLOO_GATHERS: Final = ("gloo:all_gather", "gloo:_allgather_base", "gloo:gather")
"""What is recorded of these is the tensor that the rank gives."""

_ARGS: Final = (
    "collective", "dtype", "group", "description", "ranks", "size", "sequence", "source", "destination",
)  # fmt: skip

_BY_NAME: Final = tuple(
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


def collective_of(name: str) -> str | None:
    """What a collective does by what it is called, in PyTorch's words: all_reduce; None where that says nothing.

    NCCL runs sends, receives and all-to-all in one kernel, which is send_recv here.
    """
    return next((found for found, pattern in _BY_NAME if pattern.search(name)), None)


def calls(share: Share) -> pl.DataFrame:
    """The calls of a rank, in the schema `CALLS`."""
    rows = _described(_joined(_executions(share), share), share)
    issued = pl.coalesce("launched", "start").alias("issued")
    own = pl.lit(share.rank, pl.Int64)
    return (
        rows.with_columns(
            own.alias("rank"),
            pl.col("id").alias("event"),
            pl.coalesce("source", pl.when(pl.col("collective") == "send").then(own)).alias("source"),
            pl.coalesce("destination", pl.when(pl.col("collective") == "recv").then(own)).alias("destination"),
            issued,
            (pl.col("start") == pl.col("first")).alias("leads"),
            pl.lit(share.start).alias("window_start"),
            pl.lit(share.end).alias("window_end"),
        )
        .sort("issued", "start", "event")
        .select(CALLS.names())
        .cast(CALLS)
    )


def calls_of_steps(share: Share) -> pl.DataFrame:
    """The calls of a rank; where steps are asked for, `in_window` are those of these steps, whenever they ran."""
    found = calls(share)
    if share.asked is None:
        return found
    return found.with_columns(share.chosen.fill_null(value=False).alias("in_window"))


def _executions(share: Share) -> pl.DataFrame:
    """The events that are collectives: on the device, or on the host's threads where nothing works on a device."""
    device = share.lanes.filter(pl.col("rank").is_not_null())
    ops = device.filter(pl.col("role") == "ops")
    lanes = (ops if ops.height else device.filter(pl.col("work")))["lane"].to_list()
    every = share.anytime.filter(pl.col("lane").is_in(lanes)) if lanes else share.threads
    mine = pl.col("kind") == "collective"
    # what the window cuts needs its children to be measured
    near = overlapping(every, share.start, share.end) if share.windowed else every.filter(mine)
    found = measured(collected(near), share.start, share.end).filter(mine).with_columns(in_window=pl.lit(value=True))
    if share.windowed:
        away = collected(every.filter(mine)).join(found, on="id", how="anti")
        away = away.with_columns(length=pl.lit(0, pl.Int64), in_window=pl.lit(value=False))
        found = pl.concat([found, away], how="diagonal").sort("id")
    calls = collected(having(share, found["launch"]).select(launch="id", launched="start"))
    led = collected(every.filter(pl.col("launch").is_in(calls["launch"].implode())).select("launch", "start"))
    calls = calls.join(led.group_by("launch").agg(pl.col("start").min().alias("first")), on="launch", how="left")
    streams = share.lanes.select("lane", stream=pl.when(pl.col("role") == "stream").then("name"))
    return found.join(calls, on="launch", how="left").join(streams, on="lane", how="left")


def _joined(events: pl.DataFrame, share: Share) -> pl.DataFrame:
    """The events with what is known of their HLO ops; a start and its done are one call, from the start's start."""
    known = share.ops.select("op", "category", "module", "program", "text")
    rows = events.sort("id").join(known, on="op", how="left", maintain_order="left")
    if share.ops.is_empty():
        return rows
    pairs = joined(rows, share.ops, executions_of(share, rows["start"])).select("id", "done")
    ends = pairs.join(rows.select(done="id", until="end", own_until="device_end", more="length"), on="done")
    begun = rows.join(pairs.select(id="done"), on="id", how="anti").join(ends, on="id", how="left")
    return begun.with_columns(
        pl.coalesce("until", "end").alias("end"),
        pl.coalesce("own_until", "device_end").alias("device_end"),
        (pl.col("length") + pl.col("more").fill_null(0)).alias("length"),
    ).select(rows.columns)


def _described(rows: pl.DataFrame, share: Share) -> pl.DataFrame:
    """What each call does, and in which group: as its args say, else those of the operator that started it.

    Else as the HLO op says; what is left is told by the name, and of the group no more than the stream. Sends and
    receives between slices are named after what they are part of, too.
    """
    rows = _with_args(rows, share)
    said = pl.coalesce(pl.col("said_collective").cast(pl.String), _does(rows), pl.col("name").cast(pl.String))
    names = rows.select(said).to_series()
    known = {name: collective_of(name) for name in names.unique().drop_nulls().to_list()}
    parts = {text: between_slices(text) for text in rows["text"].unique().drop_nulls().to_list()}
    part = pl.col("text").replace_strict(parts, default=None, return_dtype=pl.String).replace("", None)
    does = names.replace_strict(known, return_dtype=pl.String)
    told = _taking_part(rows, share)
    forms, sizes = ({op: each[place] for op, each in told.items()} for place in (0, 1))
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
        (names.is_in(_GLOO_GATHERS) & pl.col("said_collective").is_null()).alias("piece"),
        *(pl.col(f"said_{name}").cast(pl.Int64).alias(name) for name in ("sequence", "source", "destination")),
    )


def _does(rows: pl.DataFrame) -> pl.Series:
    """The opcode of the HLO op that each row executes, of an asynchronous one that which it starts; null without op."""
    words = pl.col("name").cast(pl.String), pl.col("category"), pl.col("text").fill_null("")
    ops = rows.filter(pl.col("category").is_not_null()).select("op", *words).unique("op", keep="any")
    told = {op: _opcode(name, category, text) for op, name, category, text in ops.iter_rows()}
    return rows["op"].replace_strict(told, default=None, return_dtype=pl.String)


def _taking_part(rows: pl.DataFrame, share: Share) -> dict[int, tuple[str, int | None]]:
    """The groups that the lines of HLO ops name, and their sizes, by op."""
    words = pl.col("name").cast(pl.String), pl.col("category").fill_null(""), "text", "program"
    ops = rows.filter(pl.col("text").is_not_null()).select("op", *words).unique("op", keep="any")
    return {
        op: hlo_members.taking_part(performed(name, category, text), text, *share.assigned.get(program, (0, 0)))
        for op, name, category, text, program in ops.iter_rows()
    }


def _opcode(name: str, category: str, text: str) -> str:
    return category if collective_of(category) else performed(name, category, text)


def _with_args(rows: pl.DataFrame, share: Share) -> pl.DataFrame:
    """The rows with `_ARGS`, under names that begin with ``said_``: their own, else those of their operator."""
    said = collected(share.facet("communicated").select("record", *_ARGS))
    threads = share.threads if said.height else share.threads.clear()  # else no operator has anything to say
    operators = collected(
        threads.filter((pl.col("name") == PARAMS) & (pl.col("external") >= 0)).select("external", "record")
    ).unique("external", keep="first", maintain_order=True)
    of_operator = operators.join(said, on="record", how="inner").drop("record")
    both = rows.join(said, on="record", how="left", maintain_order="left").join(
        of_operator, on="external", how="left", maintain_order="left", suffix="_there"
    )
    return both.select(*rows.columns, *(pl.coalesce(name, f"{name}_there").alias(f"said_{name}") for name in _ARGS))
