"""Sentences of notes on ranks: matched collectives, clocks, and waiting for late ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.analysis.ranks.lateness import late_ranks_text, quote_cause
from tracehound.draw.notes.sentence_template import SentenceTemplate
from tracehound.model.units import count_noun, format_duration, format_ranks, format_share, format_time_difference


def _one_clock(ranks: int, machine: str | None) -> str:
    of = "of one file" if machine is None else f"processes of {machine}"
    return f"one clock: all {ranks:,} ranks are {of}, so no shift between them is to be told"


def _clocks_corrected(ranks: int, low: int, high: int, exact: int, drift: int | None) -> str:
    span = (
        format_time_difference(low)
        if low == high
        else f"{format_time_difference(low)} to {format_time_difference(high)}"
    )
    left = "" if drift is None else f", with a drift of {format_duration(drift)} left"
    text = f"told by the ends of collectives, to within {format_duration(exact)}{left}"
    return f"clocks of {count_noun(ranks, 'rank')} corrected by {span}, {text}: see clocks"


def _no_shared_collectives(why: str | None) -> str:
    return f"no collective of two ranks here{f': {why}' if why else ''}"


def _collectives_incomplete(collectives: int, *, sure: bool) -> str:
    whole = f"{'not' if sure else 'perhaps not'} all ranks of {count_noun(collectives, 'collective')} are in this trace"
    bandwidths = "bandwidths are what they are at least"
    return f"{whole}: the last to come is that of those here, transfer may be waiting for the others, and {bandwidths}"


def _calls_matched_by_order(calls: int, *, numbered: bool) -> str:
    """`numbered`: executions have numbers, which each device counts for itself."""
    recorded = "Seq, which newer PyTorch records of NCCL"
    why = f"the file has neither their sequence numbers ({recorded}) nor executions of a program"
    if numbered:
        why = "the devices count the executions of programs each for themselves"
    return f"matched by their order: {count_noun(calls, 'call')}, since {why}"


def _sends_matched_by_order(calls: int) -> str:
    return f"matched by their order: {_count_sends_and_receives(calls)}, since the file names no peers"


def _count_sends_and_receives(calls: int) -> str:
    return count_noun(calls, "send or receive", "sends and receives")


def _calls_not_matched(kinds: tuple[str, ...], calls: int, without_peers: int, *, recordable: bool) -> str:
    """`kinds` are those of the collectives, "" if unknown."""
    what = ", ".join(sorted(kind or "of unknown kind" for kind in kinds))
    why = f", {without_peers:,} of them sends and receives of unknown peers" if without_peers else ""
    remedy = " (newer PyTorch records Src Rank and Dst Rank, of NCCL alone)" if recordable else ""
    return f"{_unmatched_calls(calls)} that no other rank here has ({what}){why}{remedy}"


def _calls_with_unknown_replica_groups(calls: int) -> str:
    return f"{_unmatched_calls(calls)} with replica groups of more devices than this trace tells apart"


def _calls_of_another_run(calls: int, ranks: tuple[int, ...]) -> str:
    claimed = f"of {format_ranks(ranks)}, whose files claim ranks that others have"
    return f"{_unmatched_calls(calls)} {claimed}: open the files of one run at a time"


def _calls_with_shared_group_name(calls: int) -> str:
    why = "of which nothing tells the ranks (newer PyTorch records Process Group Ranks)"
    return f"{_unmatched_calls(calls)} of groups that share a name, {why}"


def _calls_without_group(calls: int) -> str:
    return f"{_unmatched_calls(calls)} that name no group, of ranks whose files list several"


def _unmatched_calls(calls: int) -> str:
    return f"not matched: {count_noun(calls, 'call')}"


def _process_groups_inferred(calls: int) -> str:
    what = "the largest that the files list whose ranks can have met then"
    return f"groups inferred for {count_noun(calls, 'call')} that name none: {what}"


def _process_group_ranks_missing(group: str, description: str, ranks: tuple[int, ...]) -> str:
    called = f"{group} ({description})" if description else group
    return f"of process group {called} not in this trace: {format_ranks(ranks)}"


def _more_process_group_ranks_missing(groups: int) -> str:
    return f"of {count_noun(groups, 'more process group')} ranks are missing too"


def _collectives_without_call(collectives: int, ranks: tuple[int, ...]) -> str:
    return f"{count_noun(collectives, 'collective')} without a call of {format_ranks(ranks)}"


def _sizes_not_recorded(executions: int) -> str:
    return f"the size of {count_noun(executions, 'execution')} was not recorded"


def _process_groups_not_recorded(executions: int) -> str:
    return f"no process group is recorded of {count_noun(executions, 'execution')}: that column names their streams"


def _transfers_include_wait(rows: int, of: int) -> str:
    where = f" in {count_noun(rows, 'row')}" if rows < of else ""
    wait = "transfers include the wait, bandwidths are what they are at least"
    return f"no other rank's calls to match{where}: {wait}"


def _bandwidths_impossible(rows: int) -> str:
    return f"no bandwidth in {count_noun(rows, 'row')}: it would be more than any link carries"


def _communication_waits(waiting: float, *, every: bool) -> str:
    """`every`: all communication was matched, not only a part."""
    what = "the communication" if every else "the matched communication"
    return f"all ranks: {format_share(waiting)} of {what} only waits for the last rank"


def _overlap_included(computation: float, communication: float) -> str:
    both = f"computation is {format_share(computation)} and communication is {format_share(communication)}"
    return f"with the overlap {both} of the spans"


def _waited_by_arrivals(time: int) -> str:
    waited = f"all ranks together waited {format_duration(time)} (arrivals)"
    return f"by when the last rank came, {waited}: calls end apart here"


def _computation_of_host(ranks: tuple[int, ...]) -> str:
    return f"no device activity was recorded on {format_ranks(ranks)}: computation is that of operators on the host"


def _short_latenesses_left_out(latenesses: int, least: int) -> str:
    return f"{latenesses:,} more latenesses of less than {format_duration(least)} are left out"


def _waited_for_ranks(ranks: tuple[int, ...], time: int, steps: int, of: int, cause: str | None, excess: int) -> str:
    more = f"{format_duration(excess)} more than on the others"
    why = f", most of all because of {quote_cause(cause)}: {more}" if cause else ""
    return f"{_late_ranks_and_verb(ranks)} waited for {format_duration(time)}{_in_steps_of(steps, of)}{why}"


def _late_without_waits(ranks: tuple[int, ...], time: int, steps: int, of: int) -> str:
    who = f"{_late_ranks_and_verb(ranks)} late by {format_duration(time)}{_in_steps_of(steps, of)}"
    return f"nobody waited with nothing to compute; {who}"


def _late_ranks_and_verb(ranks: tuple[int, ...]) -> str:
    return f"{late_ranks_text(ranks)} {'was' if len(ranks) == 1 else 'were'}"


def _in_steps_of(steps: int, of: int) -> str:
    """Empty without marked steps (`of` 0)."""
    return f" in {steps:,} of {of:,} steps" if of else ""


def _sends_and_receives_left_out(calls: int) -> str:
    why = "who receives depends on what it is sent, as the stages of a pipeline do"
    return f"left out: {_count_sends_and_receives(calls)}: {why}"


SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "one_clock": _one_clock,
    "clocks_unknown": "no collectives of ranks in different files were matched well enough to tell of their clocks",
    "clocks_corrected": _clocks_corrected,
    "no_collectives": "no collective ran here",
    "no_shared_collectives": _no_shared_collectives,
    "open_all_ranks": "open the files of all ranks together",
    "devices_merged": "the file has several devices as one rank, and does not say which of them made a call",
    "wait_per_rank": "wait is each rank's own, even while it computes; what lateness costs is in stragglers",
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
        "transfers of asynchronous collectives last from start to done, and are longer than the time that these two"
        " take on the device (total, mean, min, max): async_overlap has what is hidden between"
    ),
    "bandwidths_impossible": _bandwidths_impossible,
    "communication_waits": _communication_waits,
    "communication_not_matched": (
        "no communication of these ranks could be matched: nothing tells transfer and waiting apart"
    ),
    "waiting_needs_several_ranks": "transfer and waiting are told apart where several ranks are looked at together",
    "overlap_included": _overlap_included,
    "waited_by_arrivals": _waited_by_arrivals,
    "computation_of_host": _computation_of_host,
    "no_late_rank": "no rank was late",
    "waited_for_ranks": _waited_for_ranks,
    "late_without_waits": _late_without_waits,
    "causes_unknown": (
        "the cause is not known in {rows:,} of {of:,} rows: nothing recorded before took longer than on the others, or"
        " not the same was recorded of all ranks"
    ),
    "waited_for_counted_once": (
        "waited for: others had nothing to compute, counted once; wait in arrivals is each rank's own, computing or not"
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
