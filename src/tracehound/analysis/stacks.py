"""Where the host's time goes by call path, and which path put how much work on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracehound.analysis.devices.silence import nothing
from tracehound.analysis.hosts.annotated import MARKS
from tracehound.analysis.hosts.call_paths import Called, called, merged, names, nodes, plain, recorded
from tracehound.analysis.hosts.call_stacks import Texts, alone, framed, texts
from tracehound.analysis.hosts.operator_tree import Tree, tree
from tracehound.analysis.result import (
    Analysis,
    Column,
    OfHost,
    Options,
    Result,
    Scene,
    Share,
    answer,
    share_of,
    without,
)
from tracehound.analysis.settings import Given, Setting, one_of
from tracehound.analysis.trees import cut
from tracehound.intervals import Mask
from tracehound.notes import Note, note
from tracehound.units import pool

FRAMES: Final = Setting(
    "frames",
    "all",
    "what paths are made of: every event of a thread (all), or only frames of Python (python)",
    one_of("all", "python"),
)

THREADS: Final = Setting(
    "threads",
    "alike",
    "whose paths are added up: those of threads of one name but for its number (alike), or of none (each)",
    one_of("alike", "each"),
)

DEFINITION = """\
A call path is an event of a host thread under the names of all events around it: frames of Python, what they called of
PyTorch or XLA, ranges, and calls of the runtime; a row stands for all events of one path. count = events, total = sum
of their lengths, self = total less the events directly inside (with frames=python: less the frames inside; what a frame
called of C++ is its own time then). Of two of these on a thread that overlap in part the earlier has the time that they
share. device self = lengths of the kernels, copies and memsets launched directly there: by the launching call, else by
the operator that the profiler gave them as the active one; device total = that and the device self of all paths below.
Work that overlaps on two streams counts twice. A window clips, and work counts by when it ran. share is total of the
totals of all roots, device share is device total of all device time, also of work whose launch is not known. event is
the longest call. Addresses in names of builtins are left out, so are numbers of steps.

Paths of threads with one name but for its number are added up, and so are those of ranks; what several ranks' common
host did counts once. Rows come depth first, the largest total first; --top keeps the paths with the largest totals and
what is above them. Self times add up to the total of the roots. Where frames are no events but text that operators
carry (PyTorch of 2021 and 2022), a frame has the time of the operators called in it, and ranges are no part of paths.
py-spy and perf sample stacks; here every call is measured, so that short calls weigh what their recording cost, too."""

COLUMNS = (
    Column("call", "text", "the innermost event of the path"),
    Column("count", "count", "calls", brief=False),
    Column("total", "time", "on the host, from call to return"),
    Column("share", "share", "total", "the totals of all roots"),
    Column("self", "time", "on the host, less what it called"),
    Column("device_total", "time", "of work on the device launched in it"),
    Column("device_self", "time", "of work launched in it, not in what it called", brief=False),
    Column("device_share", "share", "device total", "the time of all work on the devices", brief=False),
    Column("launched", "count", "kernels, copies and memsets launched in it, not in what it called", brief=False),
    Column("kind", "text", "what the innermost event is", brief=False),
    Column("thread", "text", "the threads that it ran on", brief=False),
    Column("ranks", "count", "ranks on which it ran", brief=False),
    Column("depth", "depth", "how many calls are around it"),
    Column("event", "id", "the longest call"),
)


class Stacks(NamedTuple):
    """What was called on the threads of a host; frames are its `events`, or those `texts` of operators, or none ("").

    `stacks` are these texts. Without `paths` there is nothing.
    """

    paths: Called | None
    stacks: Texts | None
    frames: str


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each thread and path, see `call_paths.called` and `nodes`; `thread` is the thread's name."""
    found = _stacks(share, options) if options.members else PATHS.of(share, options.given)
    if found.paths is None:
        return pl.DataFrame()
    table = nodes(share, found.paths)
    if found.stacks:
        whole = framed(table, found.stacks)
        table = alone(whole, table.height) if FRAMES.of(options.given) == "python" else whole
    threads = share.lanes.select("lane", pl.col("name").alias("thread"))
    if THREADS.of(options.given) == "alike":
        threads = threads.with_columns(pl.Series("thread", map(pool, threads["thread"].to_list()), pl.String))
    joined = table.join(threads, on="lane", how="left", maintain_order="left")
    return joined.with_columns(pl.lit(found.frames).alias("frames"))


def _of_host(share: Share, given: Given) -> Stacks:
    return _stacks(share, Options(given=given))


PATHS: Final = OfHost(_of_host, (FRAMES.name,), travels=False)
"""What was called on a host."""


def _stacks(share: Share, options: Options) -> Stacks:
    calls, way = tree(share), FRAMES.of(options.given)
    frames = bool(calls.events["kind"].is_in(["python", "module"]).any())
    stacks = texts(share) if not frames else None
    chosen = _of_operators(calls, way) if stacks else _chosen(calls, way)
    told = "events" if frames else "texts" if stacks else ""
    if not chosen.any():
        return Stacks(None, stacks, told)
    apart = stacks.number if stacks else None
    return Stacks(called(share, calls, chosen, names(calls.events, plain), options, apart=apart), stacks, told)


def _of_operators(calls: Tree, frames: str) -> Mask:
    """Where operators say in which frames they were called: all but ranges, or only the outermost operators."""
    if frames == "all":
        return ~calls.events["kind"].is_in(MARKS).to_numpy()
    return calls.operator & (calls.caller < 0)


def _chosen(calls: Tree, frames: str) -> Mask:
    if frames == "all":
        return np.ones(calls.events.height, np.bool_)
    return calls.events["kind"].is_in(["python", "module"]).to_numpy()


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The paths of all ranks, depth first."""
    rows = merged(tables, ["thread"])
    if rows.is_empty():
        return without(ANALYSIS, scene, options, missing(scene, FRAMES.of(options.given)))
    whole, unlaunched, _ = recorded(tables)
    works = bool(whole or rows["launched"].sum())
    roots = int(rows.filter(pl.col("depth") == 0)["total"].sum())
    table = rows.rename({"name": "call"}).with_columns(
        share_of("total", roots).alias("share"),
        share_of("device_total", whole).alias("device_share"),
        *(pl.col(name) if works else pl.lit(None, pl.Int64).alias(name) for name in _OF_DEVICE),
    )
    notes = [note("host_time", time=roots)] if roots else []
    if whole and unlaunched:
        every = FRAMES.of(options.given) == "all"
        code = "device_time_without_launch" if every else "device_time_outside_frames"
        notes.append(note(code, level="missing" if every else "info", unlaunched=unlaunched, work=whole))
    known = {table["frames"][0] for table in tables if table.height}
    if known == {""}:
        notes.append(missing(scene, "python"))
    elif "texts" in known:
        notes.append(note("frames_of_operators"))
    result = answer(ANALYSIS, table, scene, replace(options, top=None), notes)
    return cut(result, result.table["total"].to_numpy(), options.top)


_OF_DEVICE: Final = ("device_total", "device_self", "launched")


def missing(scene: Scene, frames: str) -> Note:
    """Why there are no paths, or none of Python, and what would have recorded them."""
    profiler = "PyTorch" if "PyTorch" in scene.profilers else "XLA"
    if frames == "python":
        return note("no_python_frames", level="missing", profiler=profiler)
    return nothing(scene, note("no_host_events"), note("record_host_events", profiler=profiler))


ANALYSIS = Analysis(
    name="stacks",
    title="Stacks",
    question="Where does the host's time go by call path, and which path put how much work on the device?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="count",
    settings=(FRAMES, THREADS),
    of_host=(PATHS,),
)
