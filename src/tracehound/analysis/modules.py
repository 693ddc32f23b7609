"""Modules of the model (nn.Module) by their time on the host and on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import Setting, choice_parser
from tracehound.analysis.devices.missing_data import nothing_recorded_note
from tracehound.analysis.hosts.call_paths import (
    RECOMPUTED_PREFIX,
    DeviceWorkTotals,
    add_device_work,
    find_call_paths,
    merge_call_paths,
    number_event_names,
    sum_device_work,
)
from tracehound.analysis.hosts.operator_tree import find_forward_operators, read_call_tree
from tracehound.analysis.rank_trace import RankTrace, RunContext
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
from tracehound.formats.torch_names import MODULE_PREFIX
from tracehound.model.notes import Note, note

BY_SETTING: Final = Setting(
    "by",
    "instance",
    "what is a row: every module (instance: Linear_3), or all of one class in the same place (class: Linear)",
    choice_parser("instance", "class"),
)

GRADIENT_PREFIX: Final = "autograd::engine::evaluate_function"
"""Prefix of the names of events of backward()."""

DEFINITION = """\
A row is a module of the model (nn.Module) at the place of its call: below the modules around the call, whatever
functions are in between. The profiler numbers the modules of each class: Linear_3. calls = number of calls. host total
= time from call to return. host self = host total - time of the modules called inside. If two events of a thread
overlap in part, the shared time belongs to the earlier one. device self = lengths of the kernels, copies and memsets
launched in the module itself and not in a module inside it, as told by the launching call, or else by the profiler's
id of the active operator. device total = device self of the module and of all modules below. Work that overlaps on two
streams counts twice. average = host total / calls, device average = device total / calls. operators = operators called
in the module itself. share is device total / all work on the devices; host share is host total / that of the outermost
modules. A window clips times, and work counts by when it ran. Rows come depth first, the largest host total first;
--top keeps the modules with the largest host totals and those around them.

These are the Module View of torch_tb_profiler (Occurences, Operators, Host and Device Total and Self Duration), which
has the calls of the forward pass only. Here backward host and device are the time of the gradients of the operators
called in a module or below it: autograd gives an operator and its gradient one number ("Sequence number", "Fwd thread
id"). They are in no other column. Forward threads with equal numbers (nn.DataParallel) are told apart by the devices
on which they and their gradients run, or else by the order in which they began; a note says so. A module that
backward() calls again (activation checkpointing) stands beside its first call, marked "recomputed": its host time is
in no total of the modules above, its device time is in all of them. Work that neither a module nor such a gradient
launched is in no row, and a note has its time."""

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

_DEVICE_COLUMNS: Final = ("device_total", "device_self", "launched", "backward_device")


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each thread and module path, with the columns of `find_call_paths` and `add_device_work`."""
    calls = read_call_tree(rank_trace)
    is_module = calls.events["name"].cat.starts_with(MODULE_PREFIX)
    chosen = (is_module & (calls.events["kind"] == "python")).to_numpy()
    if not chosen.any():
        return pl.DataFrame()
    display_names = _class_names if BY_SETTING.value_in(options.given) == "class" else _instance_names
    gradients = calls.events["name"].cat.starts_with(GRADIENT_PREFIX).any()
    forward = find_forward_operators(rank_trace, calls)
    paths = find_call_paths(
        rank_trace, calls, chosen, number_event_names(calls.events, display_names), options, forward.of
    )
    return add_device_work(rank_trace, paths).with_columns(
        pl.lit(gradients).alias("gradients"), pl.lit(forward.guessed, pl.Int64).alias("guessed")
    )


def _instance_names(names: pl.Series) -> pl.Series:
    return names.str.strip_prefix(MODULE_PREFIX)


def _class_names(names: pl.Series) -> pl.Series:
    return _instance_names(names).str.replace(r"_\d+$", "")


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """The modules of all ranks, depth first."""
    rows = merge_call_paths(tables)
    if rows.is_empty():
        return empty_result(ANALYSIS, context, options, _why_empty(context))
    work = sum_device_work(tables)
    has_device_work = bool(work.work or rows["launched"].sum())
    outermost = (pl.col("depth") == 0) | pl.col("name").str.starts_with(RECOMPUTED_PREFIX)
    outermost_time = int(rows.filter(outermost)["total"].sum())
    table = rows.rename({"name": "module", "total": "host_total", "self": "host_self"})
    table = table.with_columns(
        pl.col("inside").alias("operators"),
        _mean_per_call("host_total").alias("mean"),
        _mean_per_call("device_total").alias("device_mean") if has_device_work else pl.lit(None).alias("device_mean"),
        fraction_of("host_total", outermost_time).alias("host_share"),
        fraction_of("device_total", work.work).alias("share"),
    ).with_columns(pl.col(name) if has_device_work else pl.lit(None, pl.Int64).alias(name) for name in _DEVICE_COLUMNS)
    ran_backward = any(table["gradients"].any() for table in tables if table.height)
    guessed = max(table["guessed"][0] for table in tables if table.height)
    notes = (
        _notes(work, works=has_device_work)
        + _backward_notes(table, ran_backward=ran_backward)
        + _forward_thread_notes(guessed)
    )
    result = make_result(ANALYSIS, table, context, replace(options, top=None), notes)
    return keep_heaviest_rows(result, result.table["host_total"].to_numpy(), options.top)


def _mean_per_call(column: str) -> pl.Expr:
    count = pl.when(pl.col("count") > 0).then("count")
    return (pl.col(column) / count).round().cast(pl.Int64)


def _notes(work: DeviceWorkTotals, *, works: bool) -> list[Note]:
    if not works:
        return [note("host_times_only")]
    if not work.unlaunched:
        return []
    lost, unknown = work.unlaunched, work.unknown
    return [note("device_time_outside_modules", unlaunched=lost, unknown=unknown, work=work.work)]


def _backward_notes(table: pl.DataFrame, *, ran_backward: bool) -> list[Note]:
    """A note on recomputed modules; or that nothing is known of backward()."""
    recomputed = table.filter(pl.col("module").str.starts_with(RECOMPUTED_PREFIX))
    if recomputed.height:
        host, device = (int(recomputed[name].fill_null(0).sum()) for name in ("host_total", "device_total"))
        return [note("recomputed_in_backward", host=host, device=device)]
    if ran_backward and table["backward_host"].sum() == 0:
        return [note("backward_without_sequence_numbers", level="missing")]
    return []


def _forward_thread_notes(guessed: int) -> list[Note]:
    return [note("forward_threads_by_order", level="inferred", threads=guessed)] if guessed else []


def _why_empty(context: RunContext) -> Note:
    if context.is_xla:
        return note("no_modules_in_xla_profile", level="missing")
    return nothing_recorded_note(context, note("no_modules"), note("record_modules"))


ANALYSIS = Analysis(
    name="modules",
    title="Modules",
    question="Which modules of the model take the time, on the host and on the device?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    count_column="count",
    settings=(BY_SETTING,),
)
