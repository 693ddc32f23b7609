"""Assembling a part in the slowest and most obvious way: one event after the other, every pair looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tracehound.formats.assembly.file_assembly import CONTAINER_CATEGORIES
from tracehound.formats.assembly.lane_nesting import CONCURRENT_ROLES
from tracehound.formats.assembly.step_detection import MIN_REPETITIONS

Event = dict[str, Any]
Lane = Mapping[str, Any]


EXECUTING = ("op", "collective", "sync")
"""Kinds of host events that are part of an execution, or wait for it."""


class Slow(NamedTuple):
    """What a part should have."""

    events: list[Event]
    lanes: list[Event]
    steps: list[tuple[Any, ...]]


def slow_part(rows: Sequence[Event], lanes: Sequence[Lane], ops: Sequence[str | None] = ()) -> Slow:
    """The events, lanes and steps of a file with these raw events, in the order of their records.

    `ops` are the categories of its ops. On a lane of ops of a CPU only those that run others contain any.
    """
    used = sorted({row["lane"] for row in rows}, key=lambda lane: (group(lanes[lane]), lane))
    kept = [lanes[lane] for lane in used]
    events = sorted(
        ({**row, "lane": used.index(row["lane"])} for row in rows), key=lambda e: (e["lane"], e["start"], -e["end"])
    )
    for number, event in enumerate(events):
        event["id"] = number
        event["host"], event["rank"] = kept[event["lane"]]["host"], kept[event["lane"]]["rank"]
    for lane in range(len(used)):
        mingled = "CPU" in kept[lane]["name"]
        holding = [not mingled or (e.get("op") is not None and ops[e["op"]] in CONTAINER_CATEGORIES) for e in events]
        nest([event for event in events if event["lane"] == lane], kept[lane], holding)
    launch(events, kept)
    steps = marked(events) or inferred(events, kept)
    place(events, steps)
    columns = (
        "id", "lane", "start", "end", "name", "kind", "rank", "step", "depth", "parent", "self", "launch",
        "correlation", "run", "device_start", "device_end", "record",
    )  # fmt: skip
    return Slow(
        [{c: e[c] for c in columns} for e in events], measured(events, kept), [tuple(s.values()) for s in steps]
    )


def group(lane: Lane) -> int:
    return 0 if lane["rank"] is None else 1 if lane["role"] == "modules" else 2


def length(event: Event) -> int:
    if event["device_start"] is not None and event["device_end"] is not None:
        return event["device_end"] - event["device_start"]
    return event["end"] - event["start"]


def nest(events: list[Event], lane: Lane, holding: Sequence[bool]) -> None:
    """Rows by the clock that is drawn, parents and what they share by the device's own where all events have it.

    `holding` says by id which of all events may have children.
    """
    depth = stacked([(e["start"], e["end"]) for e in events])[1]
    inner = events
    clock = ("start", "end")
    if all(event["device_start"] is not None for event in events):
        clock = ("device_start", "device_end")
        inner = sorted(events, key=lambda e: (e["device_start"], -e["device_end"]))
    parent = stacked([(e[clock[0]], e[clock[1]]) for e in inner])[0]
    for event, row in zip(events, depth, strict=True):
        event["depth"] = row
    for event, nearest in zip(inner, parent, strict=True):
        around = nearest
        while around >= 0 and not holding[inner[around]["id"]]:
            around = parent[around]
        event["parent"] = None if around < 0 or lane["role"] in CONCURRENT_ROLES else inner[around]["id"]
    for event in events:
        taken, covered = 0, set[int]()
        for child in inner:
            if child["parent"] == event["id"]:
                instants = set(range(child[clock[0]], child[clock[1]]))
                taken += length(child) - min(length(child), len(instants & covered))
                covered |= instants
        event["self"] = max(length(event) - taken, 0)


def stacked(intervals: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Parents (-1: none) and rows of intervals sorted by (start, -end), one after the other."""
    ends = [max(end, start + 1) for start, end in intervals]
    parents, depths = [], []
    for number, (start, _) in enumerate(intervals):
        still = [other for other in range(number) if ends[other] > start]
        around = [other for other in still if ends[other] >= ends[number]]
        parents.append(around[-1] if around else -1)
        row = depths[parents[-1]] + 1 if around else 0
        while row in {depths[other] for other in still}:
            row += 1
        depths.append(row)
    return parents, depths


def launch(events: list[Event], lanes: Sequence[Lane]) -> None:
    host = [event for event in events if event["rank"] is None]
    device = [event for event in events if event["rank"] is not None]
    calls = [event for event in host if event["kind"] in ("runtime", "transfer", "op", "other")]
    consumed = {event["consumes"] for event in device if group(lanes[event["lane"]]) == 1} - {None}
    starting = [event for event in host if event["kind"] not in EXECUTING and event.get("produces") not in consumed]
    for event in events:
        event["launch"] = None
    joins = (("run", "run", starting), ("consumes", "produces", host), ("correlation", "correlation", calls))
    for here, there, among in joins:
        for event in device:
            same = [other for other in among if event[here] is not None and other[there] == event[here]]
            if here in ("correlation", "run"):  # each host counts its own
                same = [other for other in same if other["host"] == event["host"]]
            if same and here == "correlation":
                event["launch"] = begun(event, same)["id"]
            elif same:
                first = min(same, key=lambda e: (e["kind"] != "runtime", e["start"], e["id"]))
                event["launch"] = first["id"]
    inherit(events, lanes)
    before = [event["launch"] for event in events]
    for event in device:
        around = event
        while before[around["id"]] is None and around["parent"] is not None and around["run"] is None:
            around = events[around["parent"]]
        event["launch"] = before[around["id"]]


def begun(event: Event, calls: Sequence[Event]) -> Event:
    """Of calls with the correlation of an event the one that is meant."""
    runtime = [call for call in calls if call["kind"] == "runtime"] or calls
    ordered = sorted(runtime, key=lambda call: (call["start"], call["id"]))
    outer = [
        call
        for number, call in enumerate(ordered)
        if not any(other["lane"] == call["lane"] and call["start"] < other["end"] for other in ordered[:number])
    ]
    return ([call for call in outer if call["start"] <= event["start"]] or outer[:1])[-1]


def inherit(events: list[Event], lanes: Sequence[Lane]) -> None:
    """Give events without a launch that of the execution, on their rank, in which they start; of no other run."""
    for number, lane in enumerate(lanes):
        if group(lane) != 1:
            continue
        runs = [event for event in events if event["lane"] == number]
        for event in events:
            begun = [run for run in runs if run["start"] <= event["start"]]
            elsewhere = event["lane"] != number and event["rank"] == lane["rank"]
            if elsewhere and event["launch"] is None and begun and event["start"] < begun[-1]["end"]:
                told = {event["run"], begun[-1]["run"]} - {None}
                event["launch"] = begun[-1]["launch"] if len(told) < 2 else None


def step_row(event: Event, step: int, end: int, *, guessed: bool) -> Event:
    run = event["run"] if guessed else None
    return {"step": step, "host": event["host"], "rank": event["rank"], "name": event["name"], "start": event["start"],
            "end": end, "inferred": guessed, "event": event["id"], "run": run}  # fmt: skip


def marked(events: list[Event]) -> list[Event]:
    """The longest mark of each number that overlap; what is marked again later has a number of its own."""
    marks = [event for event in events if event["step"] is not None]
    chosen = [mark for mark in marks if mark["rank"] is None] or marks
    steps = []
    for whose in {(mark["host"], mark["rank"]): None for mark in chosen}:
        mine = [mark for mark in chosen if (mark["host"], mark["rank"]) == whose]
        kept = []
        for number in {mark["step"]: None for mark in mine}:
            longest = [
                max(stretch, key=lambda mark: (mark["end"] - mark["start"], -mark["id"]))
                for stretch in stretches([mark for mark in mine if mark["step"] == number])
            ]
            longest.sort(key=lambda mark: (mark["start"] - mark["end"], mark["id"]))
            kept += [mark for mark in longest if not any(inside(mark, other) for other in mine)] or longest[:1]
        taken, following = set[int](), max(mark["step"] for mark in kept) + 1
        for mark in sorted(kept, key=lambda mark: (mark["start"], mark["step"])):
            number = mark["step"]
            if number in taken:
                number, following = following, following + 1
            taken.add(number)
            steps.append(({**mark}, number))
    steps.sort(key=lambda step: (step[0]["start"] - step[0]["end"], step[0]["id"]))
    return [step_row(mark, number, mark["end"], guessed=False) for mark, number in steps]


def inside(one: Event, other: Event) -> bool:
    """Whether a longer event contains one."""
    around = other["start"] <= one["start"] and one["end"] <= other["end"]
    return around and (one["start"], one["end"]) != (other["start"], other["end"])


def stretches(marks: list[Event]) -> list[list[Event]]:
    """The marks, those together that overlap or begin together, directly or by others."""
    found: list[list[Event]] = []
    for mark in marks:
        near = [stretch for stretch in found if any(overlap(mark, other) for other in stretch)]
        found = [stretch for stretch in found if stretch not in near]
        found.append([mark, *(other for stretch in near for other in stretch)])
    return found


def overlap(one: Event, other: Event) -> bool:
    return one["start"] == other["start"] or (one["start"] < other["end"] and other["start"] < one["end"])


def inferred(events: list[Event], lanes: Sequence[Lane]) -> list[Event]:
    ran = [event for event in events if group(lanes[event["lane"]]) == 1]
    times: dict[str, int] = {}
    for name in dict.fromkeys(event["name"] for event in ran):
        of_name = [event for event in ran if event["name"] == name]
        if len(of_name) / len({event["rank"] for event in of_name}) >= MIN_REPETITIONS:
            times[name] = sum(event["end"] - event["start"] for event in of_name)
    if not times:
        return []
    name = max(times, key=lambda name: times[name])
    steps = []
    for rank in (0, 1):
        runs = sorted((e for e in ran if e["name"] == name and e["rank"] == rank), key=lambda e: e["start"])
        for number, run in enumerate(runs):
            end = runs[number + 1]["start"] if number + 1 < len(runs) else run["end"]
            steps.append(step_row(run, number, end, guessed=True))
    return steps


def place(events: list[Event], steps: list[Event]) -> None:
    """The step of every event: that of its launch, else the last to begin before it starts, if it goes on then.

    Of steps that begin together the shortest is the last.
    """
    of = "rank" if all(step["rank"] is not None for step in steps) else "host"
    begun = sorted(steps, key=lambda step: step["start"])
    own: list[int | None] = []
    for event in events:
        mine = [step for step in begun if step[of] == event[of] and step["start"] <= event["start"]]
        own.append(mine[-1]["step"] if mine and event["start"] < mine[-1]["end"] else None)
    if of == "host" and steps:
        own = handed_over(events, own)
    for event in events:
        by_launch = None if event["launch"] is None else own[event["launch"]]
        event["step"] = own[event["id"]] if by_launch is None else by_launch


def handed_over(events: list[Event], by_time: list[int | None]) -> list[int | None]:
    """The steps of events by the work in which they lie, that of hosts which one thread handed to another."""
    host = [event for event in events if event["rank"] is None]
    own = {event["lane"] for event in host if event["step"] is not None}
    work = []
    for event in host:
        makers = [other for other in host if event["consumes"] is not None and other["produces"] == event["consumes"]]
        if makers and makers[0]["start"] <= event["start"] < event["end"] and event["lane"] not in own:
            work.append((event, makers[0]))
    parents = dict[int, int | None]()
    for lane in {event["lane"] for event, _ in work}:
        mine = [event for event, _ in work if event["lane"] == lane]
        found = stacked([(event["start"], event["end"]) for event in mine])[0]
        parents |= {event["id"]: mine[at]["id"] if at >= 0 else None for event, at in zip(mine, found, strict=True)}

    def around(event: Event) -> int | None:
        """The innermost work at the start of an event; of two that overlap in part the earlier."""
        there, at = None, event["start"]
        while True:
            inner = [
                one["id"] for one, _ in work
                if one["lane"] == event["lane"] and parents[one["id"]] == there and one["start"] <= at < one["end"]
            ]  # fmt: skip
            if not inner:
                return there
            there = inner[0]

    telling = [event for event in host if any(event[name] is not None for name in ("produces", "consumes", "step"))]
    executing = {around(event) for event in telling if event["kind"] in EXECUTING}
    maker_of = {event["id"]: maker for event, maker in work}

    def told(event: Event) -> int | None:
        """The step of an event, by the time where nothing else tells."""
        at = around(event)
        while at is not None and at not in executing:
            maker = maker_of[at]
            above = around(maker)
            if above is None or events[above]["start"] >= events[at]["start"]:
                return by_time[maker["id"]]
            at = above
        return by_time[event["id"]]

    return [told(event) if event["rank"] is None else by_time[event["id"]] for event in events]


def measured(events: list[Event], lanes: Sequence[Lane]) -> list[Event]:
    rows = []
    for number, lane in enumerate(lanes):
        mine = [event for event in events if event["lane"] == number]
        rows.append({
            "lane": number, "host": lane["host"], "rank": lane["rank"], "name": lane["name"],
            "rows": max(e["depth"] for e in mine) + 1, "events": len(mine),
            "first": min(e["start"] for e in mine), "last": max(e["end"] for e in mine),
        })  # fmt: skip
    return rows
