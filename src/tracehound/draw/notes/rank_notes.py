"""Sentences of notes on ranks: matched collectives, clocks, and waiting for late ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.analysis.ranks.lateness import late_ranks_text, quote_cause
from tracehound.model.notes import SentenceTemplate
from tracehound.model.units import count_noun, format_duration, format_ranks, format_share, format_time_difference


def _one_clock(ranks: int, machine: str | None) -> str:
    of = "one file" if machine is None else f"one machine ({machine})"
    return f"all {ranks:,} ranks share one clock: they are of {of}"


def _clocks_corrected(ranks: int, low: int, high: int, exact: int, drift: int | None) -> str:
    span = (
        format_time_difference(low)
        if low == high
        else f"{format_time_difference(low)} to {format_time_difference(high)}"
    )
    left = "" if drift is None else f", {format_duration(drift)} drift left"
    text = f"±{format_duration(exact)}, from collective end times{left}"
    return f"clock skew of {count_noun(ranks, 'rank')} corrected ({span}; {text}): see clocks"


def _no_shared_collectives(why: str | None) -> str:
    return f"no collective of two ranks was recorded{f': {why}' if why else ''}"


def _collectives_incomplete(collectives: int, *, sure: bool) -> str:
    lack = "lacks" if collectives == 1 else "lack"
    whole = f"{count_noun(collectives, 'collective')} {lack if sure else 'may lack'} ranks that are not in this trace"
    return f"{whole}: last is the last of those here, transfer may include waiting, bandwidth is a lower bound"


def _calls_matched_by_order(calls: int, *, numbered: bool) -> str:
    """`numbered`: executions have numbers, which each device counts for itself."""
    why = "each device numbers its executions on its own" if numbered else "no NCCL sequence numbers in the trace"
    return f"{count_noun(calls, 'call')} matched by order ({why})"


def _sends_matched_by_order(calls: int) -> str:
    return f"{_count_sends_and_receives(calls)} matched by order (no peers in the trace)"


def _count_sends_and_receives(calls: int) -> str:
    return count_noun(calls, "send or receive", "sends and receives")


def _calls_not_matched(kinds: tuple[str, ...], calls: int, without_peers: int, *, recordable: bool) -> str:
    """`kinds` are those of the collectives, "" if unknown."""
    what = ", ".join(sorted(kind or "of unknown kind" for kind in kinds))
    why = f", {without_peers:,} of them sends and receives of unknown peers" if without_peers else ""
    remedy = " (newer PyTorch records Src Rank and Dst Rank of NCCL calls)" if recordable else ""
    return f"{_unmatched_calls(calls)}: on no other rank ({what}){why}{remedy}"


def _calls_with_unknown_replica_groups(calls: int) -> str:
    return f"{_unmatched_calls(calls)}: their replica groups have more devices than this trace tells apart"


def _calls_of_another_run(calls: int, ranks: tuple[int, ...]) -> str:
    claimed = f"several files claim {format_ranks(ranks)}"
    return f"{_unmatched_calls(calls)}: {claimed}; open the files of one run only"


def _calls_with_shared_group_name(calls: int) -> str:
    why = "and the trace does not list their ranks (newer PyTorch records Process Group Ranks)"
    return f"{_unmatched_calls(calls)}: their groups share a name, {why}"


def _calls_without_group(calls: int) -> str:
    return f"{_unmatched_calls(calls)}: they name no group, and their files list several"


def _unmatched_calls(calls: int) -> str:
    return f"{count_noun(calls, 'call')} not matched"


def _process_groups_inferred(calls: int) -> str:
    what = "the largest listed group whose ranks could all take part"
    return f"process groups inferred for {count_noun(calls, 'call')} without one: {what}"


def _process_group_ranks_missing(group: str, description: str, ranks: tuple[int, ...]) -> str:
    called = f"{group} ({description})" if description else group
    return f"process group {called} lacks {format_ranks(ranks)} in this trace"


def _more_process_group_ranks_missing(groups: int) -> str:
    return f"{count_noun(groups, 'more process group')} lack ranks, too"


def _collectives_without_call(collectives: int, ranks: tuple[int, ...]) -> str:
    return f"{count_noun(collectives, 'collective')} without a call on {format_ranks(ranks)}"


def _sizes_not_recorded(executions: int) -> str:
    return f"{count_noun(executions, 'execution')} without a recorded size"


def _process_groups_not_recorded(executions: int) -> str:
    return f"{count_noun(executions, 'execution')} without a recorded process group: the column has their streams"


def _transfers_include_wait(rows: int, of: int) -> str:
    where = f" in {count_noun(rows, 'row')}" if rows < of else ""
    return f"transfer includes waiting{where} (no calls of other ranks to match): bandwidth is a lower bound"


def _bandwidths_impossible(rows: int) -> str:
    return f"no bandwidth in {count_noun(rows, 'row')}: it would exceed any link"


def _communication_waits(waiting: float, *, every: bool) -> str:
    """`every`: all communication was matched, not only a part."""
    what = "communication" if every else "matched communication"
    return f"{format_share(waiting)} of {what} time only waits for the last rank (all ranks)"


def _overlap_included(computation: float, communication: float) -> str:
    both = f"computation is {format_share(computation)} and communication {format_share(communication)}"
    return f"including the overlap, {both} of the spans"


def _waited_by_arrivals(time: int) -> str:
    return (
        f"by arrival times, all ranks together waited {format_duration(time)} (see arrivals): calls of one collective"
        " do not end together here"
    )


def _computation_of_host(ranks: tuple[int, ...]) -> str:
    return f"no device activity was recorded on {format_ranks(ranks)}: computation is of host operators"


def _short_latenesses_left_out(latenesses: int, least: int) -> str:
    return f"{latenesses:,} more late arrivals of less than {format_duration(least)} left out"


def _waited_for_ranks(ranks: tuple[int, ...], time: int, steps: int, of: int, cause: str | None, excess: int) -> str:
    more = f"{format_duration(excess)} longer than on the others"
    why = f"; main cause: {quote_cause(cause)}, {more}" if cause else ""
    who = f"{late_ranks_text(ranks)} {'keeps' if len(ranks) == 1 else 'keep'} the others waiting"
    return f"{who}: {format_duration(time)}{_in_steps_of(steps, of)}{why}"


def _late_without_waits(ranks: tuple[int, ...], time: int, steps: int, of: int) -> str:
    who = f"{late_ranks_text(ranks)} {'was' if len(ranks) == 1 else 'were'} late by {format_duration(time)}"
    return f"{who}{_in_steps_of(steps, of)}, but the others had work to do meanwhile"


def _in_steps_of(steps: int, of: int) -> str:
    """Empty without marked steps (`of` 0)."""
    return f" in {steps:,} of {of:,} steps" if of else ""


def _sends_and_receives_left_out(calls: int) -> str:
    why = "a receiver depends on its sender, as pipeline stages do"
    return f"{_count_sends_and_receives(calls)} left out ({why})"


SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "one_clock": _one_clock,
    "clocks_unknown": "clocks are not compared: too few collectives of ranks in different files could be matched",
    "clocks_corrected": _clocks_corrected,
    "no_collectives": "no collectives were recorded",
    "no_shared_collectives": _no_shared_collectives,
    "open_all_ranks": "open the files of all ranks together",
    "devices_merged": "the file has several devices as one rank and does not tell which of them made a call",
    "wait_per_rank": "wait is per rank, even while the rank computes; stragglers shows what late ranks cost",
    "collectives_incomplete": _collectives_incomplete,
    "calls_matched_by_order": _calls_matched_by_order,
    "sends_and_receives_matched_by_order": _sends_matched_by_order,
    "calls_not_matched": _calls_not_matched,
    "calls_with_unknown_replica_groups": _calls_with_unknown_replica_groups,
    "calls_of_another_run": _calls_of_another_run,
    "calls_with_shared_group_name": _calls_with_shared_group_name,
    "calls_without_group": _calls_without_group,
    "process_groups_inferred": _process_groups_inferred,
    "process_group_ranks_missing": _process_group_ranks_missing,
    "more_process_group_ranks_missing": _more_process_group_ranks_missing,
    "collectives_without_call": _collectives_without_call,
    "sizes_not_recorded": _sizes_not_recorded,
    "process_groups_not_recorded": _process_groups_not_recorded,
    "transfers_include_wait": _transfers_include_wait,
    "asynchronous_transfers": (
        "transfer of asynchronous collectives is from start to done, longer than their time on the device (total,"
        " mean, min, max); async_overlap shows what hides it"
    ),
    "bandwidths_impossible": _bandwidths_impossible,
    "communication_waits": _communication_waits,
    "communication_not_matched": (
        "no communication of these ranks could be matched: transfer and waiting are not separated"
    ),
    "waiting_needs_several_ranks": "open several ranks to separate transfer from waiting",
    "overlap_included": _overlap_included,
    "waited_by_arrivals": _waited_by_arrivals,
    "computation_of_host": _computation_of_host,
    "no_late_rank": "no rank was late",
    "waited_for_ranks": _waited_for_ranks,
    "late_without_waits": _late_without_waits,
    "causes_unknown": (
        "cause unknown in {rows:,} of {of:,} rows (no recorded event before took longer than on the other ranks)"
    ),
    "waited_for_counted_once": (
        "waiting counts only while the others have nothing to compute, and once for all; arrivals has each rank's wait"
    ),
    "short_latenesses_left_out": _short_latenesses_left_out,
    "sends_and_receives_left_out": _sends_and_receives_left_out,
}

HEADLINES: Final = frozenset(
    {
        "communication_waits",
        "no_late_rank",
        "waited_for_ranks",
        "late_without_waits",
        "one_clock",
    }
)
"""Codes of notes that answer the question of their table, or say what its rows were chosen by."""
