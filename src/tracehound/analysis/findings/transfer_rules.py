"""Rules on communication and copies that no computation hides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl
from msgspec.structs import replace

from tracehound.analysis import transfers
from tracehound.analysis.devices.device_copies import find_device_copies
from tracehound.analysis.findings.advice import (
    COPIES_IN_DEVICE,
    LATE_COMMUNICATION,
    PAGEABLE_COPIES,
    PIPELINE,
    SLOW_LINK,
    SMALL_COLLECTIVES,
    advice,
)
from tracehound.analysis.findings.evidence import Evidence, Finding, FindingLocation, Rule
from tracehound.analysis.hosts.thread_activity import COPYING
from tracehound.analysis.rank_trace import RankTrace
from tracehound.analysis.ranks.lateness import LateRanks, time_waited_for
from tracehound.analysis.ranks.process_groups import missing_job_ranks_notes
from tracehound.analysis.ranks.rank_collectives import MAX_LINK_BANDWIDTH, bus_factor_column
from tracehound.analysis.result import Options, concat_tables
from tracehound.model.units import PS_PER_S, count_noun, format_bandwidth, format_bytes, format_duration
from tracehound.model.units import format_share as percent

FEEDS: Final = r"^(?:infeed|outfeed)\b"
"""Ops that take input from the host or give output to it: no copies that could be avoided."""

COMMUNICATION_SHARE: Final = 0.10
COPY_SHARE: Final = 0.05
PAGEABLE_SHARE: Final = 0.01
MAIN_PART_SHARE: Final = 0.5
"""Above this share, a finding is about that part: replays of graphs, sends and receives, pageable copies."""
MIN_HIDDEN_SHARE: Final = 0.10
"""Communication of which less than this share is hidden does not overlap with computation at all."""
MAX_SMALL_MESSAGE: Final = 1 << 20
MIN_SMALL_COLLECTIVES: Final = 20
"""As many collectives a step with messages below `MAX_SMALL_MESSAGE` (bytes) on average are small ones."""
SLOW_BANDWIDTH: Final = 5e9
"""Bus bandwidth (bytes per second) below which the link is slow: any PCIe or 100 Gbit/s network gives more."""


def measure_copies_and_feeds(rank_trace: RankTrace, options: Options) -> pl.DataFrame:
    """The rows of `transfers`; those of `FEEDS` on their own, as copies from or to `FEED`."""
    copies = find_device_copies(rank_trace)
    names = pl.concat([copies.rows["name"], copies.waits["name"]]).unique()
    feeds = names.filter(names.str.contains(FEEDS))
    if feeds.is_empty() and not names.null_count():
        return transfers.measure_copies(copies, rank_trace.rank, options)
    is_feed = pl.col("name").is_in(feeds.implode())
    avoidable = transfers.measure_copies(copies.select(~is_feed), rank_trace.rank, options)
    fed = transfers.measure_copies(copies.select(is_feed), rank_trace.rank, options)
    return concat_tables([avoidable, fed.with_columns(source=pl.lit(FEED), target=pl.lit(FEED))])


FEED: Final = "infeed and outfeed"
TRANSFERS: Final = replace(transfers.ANALYSIS, name="copies and feeds", per_rank=measure_copies_and_feeds)
"""The analysis `transfers` of these rows, under a name of its own, which is the key of its cached tables."""


OF_LATE_RANKS: Final = 0.8
"""Share of the steps in which the same ranks are late, or of a cause on them, from which on it is theirs."""


def gain_of_others(group: LateRanks, evidence: Evidence) -> int:
    """Time that the other ranks would win in a step: that in which any of them waits with nothing to compute.

    Where the same ranks are late in nearly all steps, communication that is exposed on the others for longer than on
    them is lost, too: it would run beside computation.
    """
    waited = evidence.per_step(group.time_lost, 1)
    if group.steps < OF_LATE_RANKS * evidence.steps or not evidence.steps:
        return waited
    of_group = pl.col("rank").is_in(list(group.ranks))
    whole_steps = evidence.table("steps").filter(~pl.col("partial"))
    on_both = (of_group.any() & ~of_group.all()).over("step")  # a step may be cut off on some ranks alone
    compared = whole_steps.filter(on_both)
    exposed = compared.group_by(of_group.alias("late")).agg(pl.col("communication").mean())
    times = dict(exposed.iter_rows())
    won = ((times.get(False) or 0) - (times.get(True) or 0)) * compared["step"].n_unique()
    return max(waited, evidence.per_step(won, 1))


def explained_waits(evidence: Evidence) -> int:
    """Exposed communication of an average rank per step that is due to late ranks: what the waiting ranks would win."""
    ranks, total = max(evidence.device_ranks, 1), 0
    for group in evidence.late_groups:
        waited = evidence.per_step(group.waited, ranks)
        won = gain_of_others(group, evidence) * (ranks - len(group.ranks)) / ranks
        total += max(waited, round(won)) if _leads(group, evidence) else waited
    return total


def _leads(group: LateRanks, evidence: Evidence) -> bool:
    """True if these ranks are waited for most of the time."""
    return 2 * group.waited >= sum(each.waited for each in evidence.late_groups)


def find_exposed_communication(evidence: Evidence) -> Iterator[Finding]:
    """Devices do nothing but communicate, without waiting for late ranks; in a run without devices, hosts do."""
    if evidence.table("breakdown").is_empty():
        yield from _find_host_communication(evidence)
        return
    total_span = int(evidence.device_times["span"].sum())
    exposed = int(evidence.device_times["communication"].sum()) / total_span if total_span else 0.0
    waiting = explained_waits(evidence)
    cost = max(round(exposed * evidence.base_time) - waiting, 0)
    share = evidence.share_of_base(cost)
    if share <= COMMUNICATION_SHARE:
        return
    ranks = part_share_by_rank(evidence, "communication")
    hidden = _hidden_share(evidence)
    title, topic, command = _describe_communication(evidence, hidden)
    per = " per step" if evidence.steps else ""
    most = f", most on rank {ranks['rank'][0]} ({percent(ranks['share'][0])})" if _is_uneven(ranks) else ""
    parts = [
        f"{percent(share)} of {evidence.time_phrase} is communication alone{most}",
        f"{f'{percent(hidden)} of all' if hidden else 'none of the'} communication is hidden behind computation",
    ]
    if waiting:
        parts.append(f"{format_duration(waiting)}{per} more is waiting for late ranks")
    if missing_job_ranks_notes(evidence.context):
        parts.append("part of it may be waiting for ranks that are not in this trace")
    if measured := _measured_collectives(evidence):
        parts.append(measured)
    yield Finding(
        f"{title}: {format_duration(cost)}{per}",
        "; ".join(parts),
        advice(evidence, topic),
        FindingLocation(rank=ranks["rank"][0], event=_longest_event(evidence, "communication")),
        cost,
        share,
        command=command,
    )


def _hidden_share(evidence: Evidence) -> float:
    """Share of all communication that computation hides; of XLA's also that on SparseCores and in flight."""
    if evidence.is_xla and evidence.collectives.height:
        return _hidden_part(evidence.collectives)
    return _hidden_part(evidence.table("breakdown").select(exposed="communication", total="all_communication"))


def _hidden_part(times: pl.DataFrame) -> float:
    """Share of the sum of the total times that is not exposed."""
    exposed, total = times.select("exposed", "total").sum().row(0)
    return max(total - exposed, 0) / total if total else 0.0


def _find_host_communication(evidence: Evidence) -> Iterator[Finding]:
    steps = evidence.table("whole_steps")
    if steps.is_empty():
        return
    longest = steps.row(steps["communication"].arg_max() or 0, named=True)
    mean = float(steps["communication"].to_numpy().mean())
    waiting = evidence.per_step(time_waited_for(evidence.late_groups), steps["rank"].n_unique())
    cost = max(round(mean) - waiting, 0)
    share = evidence.share_of_base(cost)
    if share <= COMMUNICATION_SHARE:
        return
    missing = "; part of it may be waiting for ranks that are not in this trace"
    yield Finding(
        f"communication on the host takes {format_duration(cost)} per step",
        f"{percent(share)} of {evidence.base_phrase}, whatever other threads do then"
        + (f"; {format_duration(waiting)} per step more is waiting for late ranks" if waiting else "")
        + (missing if missing_job_ranks_notes(evidence.context) else ""),
        advice(evidence, "communication"),
        FindingLocation.from_row(longest),
        cost,
        share,
        command="collectives",
    )


def _describe_communication(evidence: Evidence, hidden: float) -> tuple[str, str, str]:
    """Title, topic of the advice, and command for exposed communication, by what it looks like."""
    if _send_receive_share(evidence) > MAIN_PART_SHARE:
        return "pipeline stages wait for what they receive", PIPELINE, "collectives"
    calls = evidence.collectives
    what = calls.row(0, named=True)["collective"] if calls.height else "communication"
    sized = calls.drop_nulls("message")
    size = _mean_message(sized)
    per_step = int(calls["count"].sum()) / max(evidence.steps, 1) / max(evidence.device_ranks, 1)
    each = " a step" if evidence.steps else ""
    if sized.height and size < MAX_SMALL_MESSAGE and per_step >= MIN_SMALL_COLLECTIVES:
        mean = format_bytes(round(size))
        return f"many small collectives: {per_step:.0f}{each} of {mean} on average", SMALL_COLLECTIVES, "collectives"
    alone = missing_job_ranks_notes(evidence.context)  # then calls last as long as ranks that are not here are late
    rate = _bus_bandwidth(sized)
    if evidence.is_xla:
        is_hidden = _hidden_part(calls.filter(collective=what)) >= MIN_HIDDEN_SHARE
        title = f"{what} is partly exposed" if is_hidden else f"no computation overlaps {what}"
        return title, "communication", "async_overlap" if evidence.device_word == "TPU" else "overlap"
    if rate is not None and not alone and rate < SLOW_BANDWIDTH and size >= MAX_SMALL_MESSAGE:
        return f"slow link: {what} at {format_bandwidth(rate)}", SLOW_LINK, "collectives"
    if hidden < MIN_HIDDEN_SHARE:
        after = "the backward pass" if int(evidence.rank_traits["backward"].sum()) else "the computation"
        return f"{what} starts only after {after}, so that nothing overlaps it", LATE_COMMUNICATION, "overlap"
    return f"{what} takes longer than the computation that overlaps it", "communication", "overlap"


def _mean_message(sized: pl.DataFrame) -> float:
    """The mean size of messages, bytes; 0 without any."""
    count = int(sized["count"].sum())
    return float((sized["message"] * sized["count"]).sum()) / count if count else 0.0


def _bus_bandwidth(sized: pl.DataFrame) -> float | None:
    """Bus bandwidth of the fastest calls of each kind and size, bytes per second; None if it is not known."""
    rated = sized.filter((pl.col("message") > 0) & (pl.col("fastest") > 0))
    rated = rated.with_columns(bus_factor_column().alias("factor")).drop_nulls("factor")
    if rated.is_empty():
        return None
    moved = float((rated["message"] * rated["count"] * rated["factor"]).sum())
    rate = moved * PS_PER_S / int((rated["fastest"] * rated["count"]).sum())
    return rate if rate <= MAX_LINK_BANDWIDTH else None


def _measured_collectives(evidence: Evidence) -> str:
    """``all_reduce: 5 a step, 25 MB on average, 40.1 GB/s bus bandwidth``; "" where nothing is known."""
    if evidence.collectives.is_empty():
        return ""
    kind = evidence.collectives.row(0, named=True)["collective"]
    calls = evidence.collectives.filter(collective=kind)
    per_step = int(calls["count"].sum()) / max(evidence.steps, 1) / max(evidence.device_ranks, 1)
    sized = calls.drop_nulls("message")
    rate = _bus_bandwidth(sized)
    return (
        f"{kind}: {per_step:.3g} {'a step' if evidence.steps else 'calls on each rank'}"
        + (f", {format_bytes(round(_mean_message(sized)))} on average" if sized.height else "")
        + (f", {format_bandwidth(rate)} bus bandwidth in the fastest calls" if rate else "")
    )


def _send_receive_share(evidence: Evidence) -> float:
    """Share of sends and receives in exposed communication."""
    handing, meeting = (int(evidence.rank_traits[name].sum()) for name in ("handing", "meeting"))
    return handing / (handing + meeting) if handing else 0.0


def part_share_by_rank(evidence: Evidence, part: str) -> pl.DataFrame:
    """Share of a part in each rank's time, the largest first."""
    device_times = evidence.device_times.group_by("rank").agg(pl.col("span", part).sum()).filter(pl.col("span") > 0)
    shares = device_times.select("rank", (pl.col(part) / pl.col("span")).alias("share"))
    return shares.sort("share", "rank", descending=[True, False])


def _is_uneven(ranks: pl.DataFrame) -> bool:
    """True if the largest share of a rank is well above the mean."""
    return float(ranks["share"][0]) > _NOTABLY_MORE * float(ranks["share"].to_numpy().mean())


_NOTABLY_MORE: Final = 1.1


def _longest_event(evidence: Evidence, part: str) -> int | None:
    """Event of the longest communication kernel, or the longest copy."""
    kernel_type = {"communication": "communication", "copy": "memory"}[part]
    longest_first = evidence.table("kernels").filter(pl.col("type") == kernel_type).sort("max", descending=True)
    return int(longest_first["event"][0]) if longest_first.height else None


def find_exposed_copies(evidence: Evidence) -> Iterator[Finding]:
    """Devices do nothing but copy: a finding for each direction."""
    feeds = pl.col("source") == FEED
    fed, links = evidence.table("transfers").filter(feeds), evidence.table("transfers").filter(~feeds)
    device_time = int(evidence.table("breakdown")["span"].sum())
    if links.is_empty() or not device_time:
        yield from _find_unmeasured_copies(evidence, int(fed["exposed"].sum()) / device_time if device_time else 0.0)
        return
    exposed = int(links["exposed"].sum()) / device_time
    span = max(int(evidence.device_times["span"].sum()), 1)
    exposed_in_steps = max(
        int(evidence.device_times["copy"].sum()) / span - int(fed["exposed"].sum()) / device_time, 0.0
    )
    scale = exposed_in_steps / exposed if exposed and (evidence.steps or not evidence.is_xla) else 1.0
    for (source, target), rows in links.group_by("source", "target", maintain_order=True):
        copying = round(int(rows["exposed"].sum()) / device_time * scale * evidence.base_time)
        pageable = _pageable_share(evidence, str(source), str(target), copying) > MAIN_PART_SHARE
        blocked = _blocked_in_copies(evidence) if pageable else 0
        cost = copying + blocked
        share = evidence.share_of_base(cost)
        if evidence.share_of_base(copying) <= COPY_SHARE:
            continue
        timed_rows = rows.filter(pl.col("rate") > 0)
        seconds = float((timed_rows["bytes"] / timed_rows["rate"]).sum())
        rate = format_bandwidth(int(timed_rows["bytes"].sum()) / seconds) if seconds else "an unknown rate"
        worst = rows.sort("exposed", descending=True).row(0, named=True)
        within = source == target
        with_host = HOST in (source, target)
        topic = PAGEABLE_COPIES if pageable else COPIES_IN_DEVICE if within and not evidence.is_xla else "copies"
        title = (
            f"copies {'from' if source == HOST else 'to'} pageable host memory{_copying_operator(evidence)}"
            if pageable
            else f"copies within the {evidence.device_word}"
            if within
            else f"copies from {source} to {target}"
        )
        per = " per step" if evidence.steps else ""
        parts = [
            f"{percent(share)} of {evidence.time_phrase}, {count_noun(int(rows['copies'].sum()), 'copy', 'copies')}"
            f" at {rate}"
        ]
        if blocked:
            parts.append(f"{format_duration(blocked)}{per} of it the device idles while the host is blocked in them")
        if with_host and evidence.is_xla and seconds and int(timed_rows["bytes"].sum()) / seconds >= SLOW_BANDWIDTH:
            parts.append("the link to the host is the limit, not the memory of the device")
        yield Finding(
            f"{title}: the {evidence.device_word} waits {format_duration(cost)}{per}",
            "; ".join(parts),
            advice(evidence, topic),
            FindingLocation.from_row(worst),
            cost,
            share,
            command="transfers",
        )


HOST: Final = "host"


def _find_unmeasured_copies(evidence: Evidence, fed: float) -> Iterator[Finding]:
    """Exposed copies where neither size nor direction is known: of HLO ops within the device.

    `fed` is the share of input and output in the time of the devices, which is no copying.
    """
    total_span = int(evidence.device_times["span"].sum())
    share = int(evidence.device_times["copy"].sum()) / total_span - fed if total_span else 0.0
    if share <= COPY_SHARE:
        return
    ranks = part_share_by_rank(evidence, "copy")
    cost, per = round(share * evidence.base_time), " per step" if evidence.steps else ""
    yield Finding(
        f"copies within the {evidence.device_word}: nothing else runs for {format_duration(cost)}{per}",
        f"{percent(share)} of {evidence.time_phrase}"
        + (f", most on rank {ranks['rank'][0]} ({percent(ranks['share'][0])})" if _is_uneven(ranks) else ""),
        advice(evidence, "HLO copies" if evidence.is_xla else COPIES_IN_DEVICE),
        FindingLocation(rank=ranks["rank"][0], event=_longest_event(evidence, "copy")),
        cost,
        share,
        command="hlo_ops --set by=category" if evidence.is_xla else "transfers",
    )


def _pageable_share(evidence: Evidence, source: str, target: str, copying: int) -> float:
    """Share of copies from and to pageable memory in the exposed copies of a direction."""
    if HOST not in (source, target) or not copying:
        return 0.0
    traits = evidence.rank_traits.filter(pl.col("rank").is_in(evidence.device_times["rank"].implode()))
    to_device = int(traits["pageable_to_device"].sum())
    pageable = to_device if source == HOST else int(traits["pageable"].sum()) - to_device
    return evidence.per_step(pageable, evidence.device_ranks) / copying


def _blocked_in_copies(evidence: Evidence) -> int:
    """Idle time per step in which the host is blocked in a call that copies."""
    return evidence.per_step(
        sum(cause.idle for cause in evidence.host_causes if cause.doing == COPYING), evidence.device_ranks
    )


def _copying_operator(evidence: Evidence) -> str:
    """`` in aten::to``: the outermost operator of the longest pageable copy."""
    names = evidence.rank_traits.drop_nulls("pageable_operator").sort("pageable", descending=True)
    return f" in {names['pageable_operator'][0]}" if names.height else ""


def has_pageable_finding(evidence: Evidence) -> bool:
    """True if a finding tells of exposed copies from or to pageable memory."""
    advised = advice(evidence, PAGEABLE_COPIES)
    return any(finding.advice == advised for finding in evidence.findings_of(find_exposed_copies))


def find_pageable_copies(evidence: Evidence) -> Iterator[Finding]:
    """Copies from or to pageable host memory that other work of the device hides: the host still waits for them."""
    device_times = evidence.device_times
    total_span = int(device_times["span"].sum())
    traits = evidence.rank_traits.filter(pl.col("rank").is_in(device_times["rank"].implode()))
    total = int(traits["pageable"].sum())
    if not total_span or total / total_span <= PAGEABLE_SHARE:
        return
    if has_pageable_finding(evidence):
        return
    worst = traits.sort("pageable", descending=True).row(0, named=True)
    cost = round(total / total_span * evidence.base_time)
    per = " per step" if evidence.steps else ""
    yield Finding(
        f"copies from or to pageable host memory{_copying_operator(evidence)}: the host is blocked for"
        f" {format_duration(cost)}{per}",
        f"{percent(total / total_span)} of {evidence.time_phrase}; a copy of pageable memory is staged by the host, and"
        " its call returns when it is done",
        advice(evidence, PAGEABLE_COPIES),
        FindingLocation(event=worst["pageable_event"], rank=worst["rank"]),
        cost,
        total / total_span,
        command="transfers",
    )


_TIME_BASE_TEXT: Final = "of the whole steps' time, of a run (or window) without any of the devices' time in it"

RULES: Final = (
    Rule(
        "communication",
        f"communication alone, less the time in which ranks wait for late ones, takes more than"
        f" {COMMUNICATION_SHARE:.0%} {_TIME_BASE_TEXT} (TensorBoard plugin, rule 4; what runs beside copies counts as"
        f" copy), or any of the host's where no device was recorded. It is a pipeline where more than"
        f" {MAIN_PART_SHARE:.0%} of it are sends and receives; small collectives below {MAX_SMALL_MESSAGE >> 20} MiB,"
        f" at least {MIN_SMALL_COLLECTIVES} a step; a slow link below {SLOW_BANDWIDTH / 1e9:.0f} GB/s; late where less"
        f" than {MIN_HIDDEN_SHARE:.0%} of it is hidden",
        find_exposed_communication,
    ),
    Rule(
        "copies",
        f"copies alone in one direction take more than {COPY_SHARE:.0%} of that time (XProf's lower threshold for"
        " input);"
        " idle time in which the host is blocked in pageable copies counts as theirs",
        find_exposed_copies,
    ),
    Rule(
        "pageable copies",
        f"they take more than {PAGEABLE_SHARE:.0%} of the same time, and the rule copies does not tell of them",
        find_pageable_copies,
    ),
)
