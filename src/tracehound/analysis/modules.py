"""Which modules of the model (nn.Module) take the time, on the host and on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.devices.silence import nothing
from tracehound.analysis.hosts.autograd import forward_of
from tracehound.analysis.hosts.call_paths import AGAIN, Recorded, called, merged, names, nodes, recorded
from tracehound.analysis.hosts.operator_tree import tree
from tracehound.analysis.result import Analysis, Column, Options, Result, Scene, Share, answer, share_of, without
from tracehound.analysis.settings import Setting, one_of
from tracehound.analysis.trees import cut
from tracehound.formats.torch_names import MODULE
from tracehound.notes import Note, note

BY: Final = Setting(
    "by",
    "instance",
    "what is a row: every module (instance: Linear_3), or all of one class in the same place (class: Linear)",
    one_of("instance", "class"),
)

GRADIENT: Final = "autograd::engine::evaluate_function"
"""How the names of events of backward() begin."""

DEFINITION = """\
A row is a module of the model (nn.Module) in the place where it was called: under the modules around its call, whatever
functions are between. The profiler numbers the modules of each class: Linear_3. calls = times called; host total = time
from call to return, host self = that less the modules called inside; what two events of a thread share that overlap in
part is the earlier one's. device self = lengths of the kernels, copies and
memsets launched inside and in no module within, by the launching call, else by the operator that the profiler gave them
as the active one; device total = that and the device self of all modules below. Work that overlaps on two streams
counts twice. average = host total / calls, device average = device total / calls; operators = operators called there
and in no module within. share is device total of all work on the devices, host share is host total of the totals of the
outermost modules. A window clips, and work counts by when it ran. Rows come depth first, the largest host total first;
--top keeps the modules with the largest host totals and those around them.

These are the Module View of torch_tb_profiler (Occurences, Operators, Host and Device Total and Self Duration), which
knew the calls of the forward pass alone. Here backward host and device are what the gradients of the operators called
in a module, or below, took: autograd gives an operator and its gradient one number ("Sequence number", "Fwd thread
id"). They are in no other column. Threads of the forward pass whose numbers are the same (nn.DataParallel) are told
apart by the devices on which they and their gradients run, else by the order in which they began, which a note says. A
module that backward() calls once more, to have again what was not kept (activation checkpointing), stands beside its
first call, "recomputed": its host time is in no total of the modules above, its device time in all of them. Work that
neither a module nor such a gradient launched is in no row, and a note says how much that is."""

COLUMNS = (
    Column("module", "text", "module, under the modules that called it"),
    Column("count", "count", "times called"),
    Column("host_total", "time", "on the host, from call to return"),
    Column("host_self", "time", "on the host, less the modules called inside", brief=False),
    Column("mean", "time", "host_total / count", brief=False),
    Column(
        "host_share",
        "share",
        "host total",
        "the host totals of outermost modules and of those recomputed",
        brief=False,
    ),
    Column("device_total", "time", "of work on the device launched in it"),
    Column("device_self", "time", "of work launched in it, not in modules inside", brief=False),
    Column("device_mean", "time", "device_total / count", brief=False),
    Column("share", "share", "device total", "the time of all work on the devices"),
    Column("backward_host", "time", "of the gradients of what was called in it, on the host", brief=False),
    Column("backward_device", "time", "of work on the device launched by these gradients", brief=False),
    Column("operators", "count", "operators called in it, not in modules inside", brief=False),
    Column("launched", "count", "kernels, copies and memsets launched in it, not in modules inside", brief=False),
    Column("ranks", "count", "ranks on which it ran", brief=False),
    Column("depth", "depth", "how many modules are around it"),
    Column("event", "id", "the longest call"),
)

_OF_DEVICE: Final = ("device_total", "device_self", "launched", "backward_device")


def per_rank(share: Share, options: Options) -> pl.DataFrame:
    """A row for each thread and module in its place, see `call_paths.called` and `nodes`."""
    calls = tree(share)
    code = calls.events["name"].cat.starts_with(MODULE)
    chosen = (code & (calls.events["kind"] == "python")).to_numpy()
    if not chosen.any():
        return pl.DataFrame()
    plain = _of_class if BY.of(options.given) == "class" else _instance
    gradients = calls.events["name"].cat.starts_with(GRADIENT).any()
    forward = forward_of(share, calls)
    found = called(share, calls, chosen, names(calls.events, plain), options, forward.of)
    return nodes(share, found).with_columns(
        pl.lit(gradients).alias("gradients"), pl.lit(forward.guessed, pl.Int64).alias("guessed")
    )


def _instance(told: pl.Series) -> pl.Series:
    return told.str.strip_prefix(MODULE)


def _of_class(told: pl.Series) -> pl.Series:
    return _instance(told).str.replace(r"_\d+$", "")


def combine(tables: Sequence[pl.DataFrame], scene: Scene, options: Options) -> Result:
    """The modules of all ranks, depth first."""
    rows = merged(tables)
    if rows.is_empty():
        return without(ANALYSIS, scene, options, _why_empty(scene))
    work = recorded(tables)
    works = bool(work.work or rows["launched"].sum())
    outermost = (pl.col("depth") == 0) | pl.col("name").str.starts_with(AGAIN)
    outer = int(rows.filter(outermost)["total"].sum())
    table = rows.rename({"name": "module", "total": "host_total", "self": "host_self"})
    table = table.with_columns(
        pl.col("inside").alias("operators"),
        _mean("host_total").alias("mean"),
        _mean("device_total").alias("device_mean") if works else pl.lit(None).alias("device_mean"),
        share_of("host_total", outer).alias("host_share"),
        share_of("device_total", work.work).alias("share"),
    ).with_columns(pl.col(name) if works else pl.lit(None, pl.Int64).alias(name) for name in _OF_DEVICE)
    ran = any(table["gradients"].any() for table in tables if table.height)
    guessed = max(table["guessed"][0] for table in tables if table.height)
    notes = _notes(work, works=works) + _of_backward(table, ran=ran) + _of_threads(guessed)
    result = answer(ANALYSIS, table, scene, replace(options, top=None), notes)
    return cut(result, result.table["host_total"].to_numpy(), options.top)


def _mean(column: str) -> pl.Expr:
    count = pl.when(pl.col("count") > 0).then("count")
    return (pl.col(column) / count).round().cast(pl.Int64)


def _notes(work: Recorded, *, works: bool) -> list[Note]:
    if not works:
        return [note("host_times_only")]
    if not work.unlaunched:
        return []
    lost, unknown = work.unlaunched, work.unknown
    return [note("device_time_outside_modules", unlaunched=lost, unknown=unknown, work=work.work)]


def _of_backward(table: pl.DataFrame, *, ran: bool) -> list[Note]:
    """What was computed twice; or that nothing is known of backward()."""
    again = table.filter(pl.col("module").str.starts_with(AGAIN))
    if again.height:
        host, device = (int(again[name].fill_null(0).sum()) for name in ("host_total", "device_total"))
        return [note("recomputed_in_backward", host=host, device=device)]
    if ran and table["backward_host"].sum() == 0:
        return [note("backward_without_sequence_numbers", level="missing")]
    return []


def _of_threads(guessed: int) -> list[Note]:
    return [note("forward_threads_by_order", level="inferred", threads=guessed)] if guessed else []


def _why_empty(scene: Scene) -> Note:
    if scene.xla:
        return note("no_modules_in_xla_profile", level="missing")
    return nothing(scene, note("no_modules"), note("record_modules"))


ANALYSIS = Analysis(
    name="modules",
    title="Modules",
    question="Which modules of the model take the time, on the host and on the device?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    counts="count",
    settings=(BY,),
)
