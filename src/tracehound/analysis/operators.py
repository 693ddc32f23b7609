"""Operators of PyTorch by their time on the host and on the device."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tracehound.analysis.analysis_settings import Setting, choice_parser
from tracehound.analysis.devices.missing_data import nothing_recorded_note
from tracehound.analysis.hosts.operator_tree import CallTree, launching_operators, read_call_tree
from tracehound.analysis.rank_trace import RankTrace, RunContext
from tracehound.analysis.result import (
    JOINED_EVENTS,
    SHARED_EVENTS,
    Analysis,
    Column,
    Options,
    Result,
    counted_events_per_group,
    empty_result,
    fraction_of,
    make_result,
)
from tracehound.analysis.timing.device_busy import device_work
from tracehound.analysis.timing.row_groups import (
    NameKindPairs,
    category_codes,
    group_rows,
    largest_row_per_group,
    value_change_rows,
)
from tracehound.formats.torch_names import MODULE_PREFIX
from tracehound.model.ids import file_index_of
from tracehound.model.notes import Note, note
from tracehound.model.trace import PROFILERS, collect_frame
from tracehound.numeric.id_set import look_up_rows
from tracehound.numeric.intervals import Ints, Mask
from tracehound.numeric.nesting import has_equal_ancestor, nearest_chosen_ancestor
from tracehound.numeric.self_time import self_time
from tracehound.numeric.trees import Trees, sum_groups

BY_SETTING: Final = Setting(
    "by",
    "name",
    "what tells rows apart besides the operator: nothing more (name), the shapes of its inputs (shape), the operator"
    " that called it (parent), the nearest nn.Module around it (module) or the nearest Python frame (frame)",
    choice_parser("name", "shape", "parent", "module", "frame"),
)

DEFINITION = """\
Operators are what PyTorch records as such on host threads (cpu_op: aten::mm, autograd nodes, custom ops), and the
collectives of gloo on its own threads. host total = time from call to return. host self = host total - time of the
operators, ranges and runtime calls directly inside (Python frames do not count). device self = lengths of the kernels,
copies and memsets launched in the operator itself and not in an operator inside it, as told by the launching call, or
else by the profiler's id of the active operator ("External id"). device total = device self of the operator and of all
operators inside. Lengths are added up, so work that overlaps on two streams counts twice. In a window all times are
those inside it; work counts by when it ran, whenever it was launched. share is device self / all device time,
including work that no operator launched; host share is host self / that of all operators. event is the call with the
largest device total, or the longest call if nothing was launched.

These are Self CPU, CPU total, Self CUDA, CUDA total and # of Calls of PyTorch's key_averages() and of
torch_tb_profiler's operator view, except that here a total does not count calls nested in a call of the same row
twice. key_averages() also has rows for ranges and runtime calls, counts two calls as one if the outer call only calls
one of its own name, and with stacks subtracts the time of Python frames from the operators around them. TraceLens
takes the union of an operator's kernels, and leaves out communication."""

COLUMNS = (
    Column("name", "text", "operator"),
    Column("inside", "text", "what it was called in, with by=parent, module or frame; with by=shape, on which shapes"),
    Column("count", "count", "calls"),
    Column("host_self", "time", "on the host, without calls inside"),
    Column("host_total", "time", "on the host, from call to return", brief=False),
    Column("host_share", "share", "host self", "the host self time of all operators", brief=False),
    Column("device_self", "time", "of work on the device launched by it, not by operators inside"),
    Column("device_total", "time", "of work on the device launched by it or by operators inside"),
    Column("share", "share", "device self", "the time of all work on the devices"),
    Column("launched", "count", "kernels, copies and memsets launched by it, not by operators inside", brief=False),
    Column("ranks", "count", "ranks on which it ran", brief=False),
    Column("event", "id", "the call with the largest device time"),
)

_ROW_KEY: Final = ("name", "inside")
_HOST_COLUMNS: Final = ("count", "host_self", "host_total")
_DEVICE_COLUMNS: Final = ("device_self", "device_total", "launched")


def per_rank(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """A row for each thread and operator. Calls and host times are the same on all ranks of one host."""
    calls = read_call_tree(rank_trace)
    if not calls.operator.any():
        return pl.DataFrame()
    device = device_work(rank_trace, "launch", "external")
    lengths = np.minimum(device["end"].to_numpy(), rank_trace.end) - np.maximum(
        device["start"].to_numpy(), rank_trace.start
    )
    operator_rows = launching_operators(calls, device)
    caller = calls.caller
    times = _measure_operators(calls, caller, operator_rows, lengths, rank_trace.with_host_window)
    enclosing = _enclosing_names(calls, BY_SETTING.value_in(options.given), rank_trace)
    number = NameKindPairs(calls.events["name"], _thread_numbers(calls)).pair_numbers
    if BY_SETTING.value_in(options.given) != "name":
        number, _ = group_rows(number, category_codes(enclosing.cast(pl.Categorical)))
    group = np.where(times.operator, number, -1)
    outermost_group = np.where(has_equal_ancestor(caller, calls.operator, number), -1, group)
    group_count = int(number.max()) + 1
    chief_calls = largest_row_per_group(group, times.device_total, times.host_total, group_count)
    used_groups = np.flatnonzero(chief_calls >= 0)
    row = chief_calls[used_groups]
    members = counted_events_per_group(options, np.where(times.seen, group, -1), calls.events["id"], group_count)
    return pl.DataFrame(
        {
            "lane": calls.events["lane"].gather(row),
            "event": calls.events["id"].gather(row),
            "name": calls.events["name"].gather(row).cast(pl.String),
            "inside": enclosing.gather(row).cast(pl.String),
            "count": sum_groups(group, times.seen.astype(np.int64), group_count)[used_groups],
            **{name: sum_groups(group, getattr(times, name), group_count)[used_groups] for name in _SELF_COLUMNS},
            **{
                name: sum_groups(outermost_group, getattr(times, name), group_count)[used_groups]
                for name in _TOTAL_COLUMNS
            },
            "most": times.device_total[row],
            **{name: each.gather(used_groups) for name, each in members.items()},
        }
    ).with_columns(
        pl.lit(rank_trace.rank, pl.Int64).alias("rank"),
        pl.lit(int(lengths.sum()), pl.Int64).alias("work"),
        pl.lit(int(lengths[operator_rows < 0].sum()), pl.Int64).alias("unlaunched"),
    )


_SELF_COLUMNS: Final = ("host_self", "device_self", "launched")
_TOTAL_COLUMNS: Final = ("host_total", "device_total")


def _thread_numbers(calls: CallTree) -> pl.Series:
    """The number of each event's thread, from 0."""
    lane = calls.events["lane"].to_numpy()
    first = np.append(0, value_change_rows(lane))
    narrow = np.uint8 if len(first) < 1 << 8 else np.uint32
    return pl.Series(np.repeat(np.arange(len(first), dtype=narrow), np.diff(np.append(first, len(lane)))))


class OperatorTimes(NamedTuple):
    """Times of all events of the host's threads in a window, in the order of events.

    `operator` marks the operators that ran there, or launched work that ran there, `seen` all events that ran there.
    Times are inside the window, ps; totals include what each event calls, and `launched` counts the work it launched
    itself.
    """

    operator: Mask
    seen: Mask
    host_self: Ints
    host_total: Ints
    device_self: Ints
    device_total: Ints
    launched: Ints


def _measure_operators(
    calls: CallTree, caller: Ints, launching_operators: Ints, lengths: Ints, rank_trace: RankTrace
) -> OperatorTimes:
    """Times of the operators; `launching_operators` has the operator that launched each device event.

    Host times and device times are computed in two threads.
    """
    start, end = (calls.events[name].to_numpy() for name in ("start", "end"))
    clipped_start, clipped_end, ran_in_window = _clip_calls(start, end, rank_trace)
    is_frame = (calls.events["kind"] == "python").to_numpy()
    with ThreadPoolExecutor(1) as host_pool:
        host = host_pool.submit(
            self_time,
            clipped_start,
            np.where(is_frame, clipped_start, clipped_end) if is_frame.any() else clipped_end,
            calls.above,
        )
        launched, device_self = (
            sum_groups(launching_operators, values, len(start))
            for values in (np.ones(len(launching_operators), np.int64), lengths)
        )
        device_total = Trees(caller).subtree_sums(device_self)
    return OperatorTimes(
        operator=calls.operator
        if ran_in_window.all()
        else calls.operator & (ran_in_window | (Trees(caller).subtree_sums(launched) > 0)),
        seen=ran_in_window,
        host_self=host.result(),
        host_total=np.maximum(clipped_end - clipped_start, 0),
        device_self=device_self,
        device_total=device_total,
        launched=launched,
    )


def _clip_calls(start: Ints, end: Ints, rank_trace: RankTrace) -> tuple[Ints, Ints, Mask]:
    """The times of calls clipped to the window, and a mask of those inside; unclipped where it holds the whole run."""
    if rank_trace.start <= start.min() and end.max() <= rank_trace.end:
        return start, end, np.ones(len(start), np.bool_)
    clipped_start, clipped_end = (np.clip(times, rank_trace.start, rank_trace.end) for times in (start, end))
    return (
        clipped_start,
        clipped_end,
        (clipped_end > clipped_start) | (start == end) & (start >= rank_trace.start) & (start <= rank_trace.end),
    )


def _enclosing_names(calls: CallTree, grouping: str, rank_trace: RankTrace) -> pl.Series:
    """For each event the name of what called it, or the shapes of its inputs."""
    names = calls.events["name"]
    if grouping == "name":
        return pl.Series("inside", [None], names.dtype).new_from_index(0, len(names))
    if grouping == "shape":
        return _input_shapes(calls, rank_trace).alias("inside")
    if grouping == "parent":
        enclosing_rows = calls.caller
    else:
        frame = calls.events["kind"] == "python"
        chosen = frame & names.cat.starts_with(MODULE_PREFIX) if grouping == "module" else frame
        enclosing_rows = nearest_chosen_ancestor(calls.parent, chosen.to_numpy())
    return pl.select(
        pl.when(pl.Series(enclosing_rows >= 0)).then(names.gather(np.maximum(enclosing_rows, 0))).alias("inside")
    ).to_series()


def _input_shapes(calls: CallTree, rank_trace: RankTrace) -> pl.Series:
    """The shapes of each event's inputs, as JSON; null where they were not recorded."""
    records = collect_frame(rank_trace.threads.select("id", "record"))
    dims = collect_frame(rank_trace.facet("called").select("record", "dims"))
    record = look_up_rows(records, "id", calls.events["id"])["record"]
    return look_up_rows(dims, "record", record)["dims"]


def combine(tables: Sequence[pl.DataFrame], context: RunContext, options: Options) -> Result:
    """A row per operator over all ranks, the largest device self time first, then the largest host self time."""
    recorded = [number for number, form in enumerate(context.formats) if PROFILERS[form] == "PyTorch"]
    rank_tables = [table.filter(file_index_of(pl.col("event")).is_in(recorded)) for table in tables if table.height]
    if not any(table.height for table in rank_tables):
        return empty_result(ANALYSIS, context, options, _why_empty(context))
    rows = pl.concat(rank_tables, how="vertical_relaxed")
    ranks = rows.group_by("rank").agg(pl.col("work", "unlaunched").first())
    total, unlaunched = (int(ranks[name].sum()) for name in ("work", "unlaunched"))
    of_threads = rows.group_by("lane", *_ROW_KEY).agg(
        pl.col(_HOST_COLUMNS).first(),  # equal for all ranks of one host
        pl.col(_DEVICE_COLUMNS).sum(),
        pl.col("event").sort_by("most", "rank", descending=[True, False]).first(),
        pl.col("most").max(),
        pl.col("rank"),
        SHARED_EVENTS,
    )
    table = of_threads.group_by(_ROW_KEY).agg(
        pl.col(*_HOST_COLUMNS, *_DEVICE_COLUMNS).sum(),
        pl.col("event").sort_by("most", "host_total", "event", descending=[True, True, False]).first(),
        pl.col("rank").explode().n_unique().cast(pl.Int64).alias("ranks"),
        JOINED_EVENTS,
    )
    on_host = int(table["host_self"].sum())
    has_device_work = bool(total or table["launched"].sum())
    table = table.with_columns(
        fraction_of("host_self", on_host).alias("host_share"),
        fraction_of("device_self", total).alias("share"),
        *(pl.col(name) if has_device_work else pl.lit(None, pl.Int64).alias(name) for name in _DEVICE_COLUMNS),
    ).sort("device_self", "host_self", *_ROW_KEY, descending=[True, True, False, False], nulls_last=True)
    return make_result(ANALYSIS, table, context, options, _notes(total, unlaunched, works=has_device_work))


def _notes(total: int, unlaunched: int, *, works: bool) -> list[Note]:
    if not works:
        return [note("host_times_only")]
    return [note("device_time_outside_operators", unlaunched=unlaunched, work=total)] if unlaunched else []


def _why_empty(context: RunContext) -> Note:
    if context.is_xla:
        return note("no_operators_in_xla_profile", level="missing")
    return nothing_recorded_note(context, note("no_operators"), note("record_host_events", profiler="PyTorch"))


ANALYSIS = Analysis(
    name="operators",
    title="Operators",
    question="Which operators of PyTorch take the time, on the host and on the device?",
    definition=DEFINITION,
    columns=COLUMNS,
    per_rank=per_rank,
    combine=combine,
    count_column="count",
    settings=(BY_SETTING,),
)
