"""Facts about one event, as text.

Owns which facts are shown, under which titles and in which order. Knows no widget.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any

import polars as pl

from tracehound.analysis.hosts.launch_calls import is_blocking_copy
from tracehound.analysis.hosts.thread_activity import PYTHON, innermost_activities
from tracehound.draw.counter_graph import load_counter_graph
from tracehound.draw.fact_layout import Fact, FactSection
from tracehound.errors import printable
from tracehound.formats.inductor_names import find_fused_operators
from tracehound.model import units
from tracehound.model.ids import file_index_of, is_in_file
from tracehound.model.trace import EVENTS, Trace, collect_frame
from tracehound.model.units import format_count, format_duration, format_instant
from tracehound.ui.source_files import SourceLine, parse_source_line, split_stack
from tracehound.ui.state.view import View

EventFacts = tuple[FactSection, ...]
"""Labels and words, under titles."""

MAX_STACK_DEPTH = 512
"""So many frames of a stack are told."""

MAX_TEXT = 1 << 16
"""Characters of a value that are shown; how long it is, is said."""

INPUT_ARGS = ("Input type", "Input Dims", "Input Strides", "Concrete Inputs")
"""Kineto's args with one entry for each input of an operator."""

NAME_ARGS = ("", "name", "inside", "source")
"""Labels of facts that may be source lines; the frames of a stack have none."""

STACK_ARGS = ("call stack", "source_stack", "stack", "source_info", "traceback")
"""Args that hold a stack as one text, in small letters."""


def event_facts(trace: Trace, event: int) -> EventFacts:
    """The event's columns, where it lies, what enqueued it, what is true of its op, and the Python that led to it."""
    found = trace.event(event)
    around = list(_enclosing_events(trace, found))
    lane = trace.lanes.row(by_predicate=pl.col("lane") == found["lane"], named=True)
    told = [
        ("name", str(found["name"])),
        ("kind", str(found["kind"])),
        *_fused_operators(str(found["name"])),
        ("start", units.format_instant(found["start"])),
        ("duration", units.format_duration(found["end"] - found["start"], digits=units.CELL_DIGITS)),
    ]
    if (recorded := _recorded_duration(trace, found)) is not None:
        told.append(("recorded duration", f"{units.format_duration(recorded)}, impossible: cut at the next start"))
    if found["self"] is not None and found["self"] != found["end"] - found["start"]:
        told.append(("self", units.format_duration(found["self"], digits=units.CELL_DIGITS)))
    if found["device_start"] is not None:
        told.append(
            ("on device", units.format_duration(found["device_end"] - found["device_start"], digits=units.CELL_DIGITS))
        )
    told.append(("lane", _lane_facts(trace, lane)))
    if lane["role"] == "thread" and (words := _host_activity(trace, found, around)):
        told.append(("the host is", words))
    told += [(name, f"{found[name]:,}") for name in ("step",) if found[name] is not None]
    if found["bytes"] is not None:
        told.append(("bytes", units.format_bytes(found["bytes"])))
    told += _related_facts(trace, found)
    op = trace.ops.row(by_predicate=pl.col("op") == found["op"], named=True) if found["op"] is not None else {}
    stack = [("", str(frame)) for frame in _stack_facts(trace, found, around)]
    code = [("", op["text"])] if op.get("text") else []
    sections = (("", told), ("op", _op_facts(op)), ("HLO", code), ("Python stack, innermost first", stack))
    return tuple(_fact_section(title, pairs) for title, pairs in sections if pairs)


def _fused_operators(name: str) -> list[tuple[str, str]]:
    """The operators in the name of a kernel that torch.compile generated, if they are known."""
    fused = find_fused_operators(name)
    return [] if fused is None or not fused.known else [("fused operators", ", ".join(fused.names))]


def _recorded_duration(trace: Trace, found: Mapping[str, Any]) -> int | None:
    """Duration of a kernel in its file, ps, if its impossible end was cut."""
    facet = trace.facets[file_index_of(found["id"])].get("cut")
    if facet is None or found["record"] is None:
        return None
    rows = collect_frame(facet.filter(pl.col("record") == found["record"]))
    return None if rows.is_empty() else int(rows["recorded_duration"][0])


def window_facts(window: tuple[int, int], steps: Sequence[int]) -> EventFacts:
    """A selected window, where no event is selected; `steps` are those that were marked to last just as long."""
    start, end = window
    told = [
        ("start", units.format_instant(start)),
        ("end", units.format_instant(end)),
        ("duration", units.format_duration(end - start, digits=units.CELL_DIGITS)),
    ]
    told += [("step", f"{step}, as it is marked") for step in steps]
    return (_fact_section("Selected window", told),)


def _lane_facts(trace: Trace, lane: Mapping[str, Any]) -> str:
    """A lane, and its rank or its host; a thread that is called like its process has that name once."""
    where = f"rank {lane['rank']}" if lane["rank"] is not None else trace.hosts[lane["host"]].name
    return where if f": {where}".endswith(f": {lane['name']}") else f"{lane['name']}, {where}"


def _host_activity(trace: Trace, found: dict[str, Any], around: Sequence[dict[str, Any]]) -> str | None:
    """Activity of the host during the event, as in the table of gaps: by the events around it and waits for a copy.

    None if that is only Python: its name says more.
    """
    ordered = sorted(around, key=lambda event: int(event["id"]))
    threads = pl.DataFrame(
        [[event[name] for name in _COLUMN_TITLES] for event in ordered],
        {name: EVENTS[name] for name in _COLUMN_TITLES},
        orient="row",
    )
    waits = (
        is_blocking_copy(str(found["name"]), found["end"], _copy_ends(trace, found))
        if found["kind"] == "runtime"
        else False
    )
    said: str | None = innermost_activities(threads, [found["id"]] if waits else []).filter(
        threads["id"] == found["id"]
    )[0]
    return None if said == PYTHON else said


_COLUMN_TITLES = ("id", "name", "kind", "parent")


def _copy_ends(trace: Trace, call: dict[str, Any]) -> list[int]:
    """End times in ps of the copies that a call launched."""
    here = is_in_file("lane", file_index_of(call["id"]))
    lanes = trace.lanes.filter(pl.col("rank").is_not_null() & pl.col("work") & here)["lane"].to_list()
    launched = (pl.col("launch") == call["id"]) & (pl.col("kind") == "copy")
    return collect_frame(trace.events(lanes).filter(launched).select("end"))["end"].to_list()


def args_facts(args: Mapping[str, Any]) -> EventFacts:
    """The args of an event as its file has them, under the names that it has for them.

    What an operator was given is told once more, input by input; a stack is told frame by frame.
    """
    inner = {name: value for name, value in args.items() if isinstance(value, dict) and value}
    outer = {name: value for name, value in args.items() if name not in inner}
    return tuple(
        section
        for title, carrier in (*inner.items(), ("in the file", outer))
        for section in _arg_section(str(title), carrier)
        if section.facts
    )


def source_lines(told: EventFacts) -> list[SourceLine]:
    """The source lines that the facts name, in their order, each once: the nearest come first."""
    words = (fact.words for section in told for fact in section.facts if fact.label in NAME_ARGS)
    return list(dict.fromkeys(line for text in words if (line := parse_source_line(text)) is not None))


def _arg_section(title: str, args: Mapping[str, Any]) -> Iterator[FactSection]:
    stacks = {name: value for name, value in args.items() if _is_stack_arg(name, value)}
    yield _fact_section("inputs", _input_facts(args))
    for name, stack in stacks.items():
        yield _fact_section(name, [("", frame) for frame in split_stack(stack)])
    yield _fact_section(title, [(str(name), _value_text(value)) for name, value in args.items() if name not in stacks])


def _fact_section(title: str, pairs: Sequence[tuple[str, str]]) -> FactSection:
    return FactSection(
        printable(title), tuple(Fact(printable(label), _printable_text(words)) for label, words in pairs)
    )


def _related_facts(trace: Trace, found: dict[str, Any]) -> list[tuple[str, str]]:
    told = []
    if found["parent"] is not None:
        told.append(("inside", str(trace.event(found["parent"])["name"])))
    if found["launch"] is not None:
        launch = trace.event(found["launch"])
        told.append(("launched by", f"{launch['name']}, {_time_apart(found['start'] - launch['start'])}"))
    return told


def _time_apart(time: int) -> str:
    return f"{units.format_duration(abs(time))} {'before' if time >= 0 else 'after: clocks differ'}"


def _op_facts(op: Mapping[str, Any]) -> list[tuple[str, str]]:
    told = [(name, str(op[name])) for name in ("category", "module", "framework", "source") if op.get(name)]
    told += [(name, f"{op[name]:,}") for name in ("flops",) if op.get(name)]
    if op.get("bytes_accessed"):
        told.append(("accesses", units.format_bytes(op["bytes_accessed"])))
    return told


def _stack_facts(trace: Trace, found: dict[str, Any], around: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Python functions around the event, or around what enqueued it; the innermost first."""
    chain = around if found["launch"] is None else _enclosing_events(trace, trace.event(found["launch"]))
    functions = (event for event in chain if event["kind"] == "python" or parse_source_line(str(event["name"])))
    yield from (str(event["name"]) for event in islice(functions, MAX_STACK_DEPTH))


def _enclosing_events(trace: Trace, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """An event, and all that contain it."""
    yield event
    while event["parent"] is not None:
        event = trace.event(event["parent"])
        yield event


def _is_stack_arg(name: str, value: object) -> bool:
    return name.lower() in STACK_ARGS and isinstance(value, str) and any(map(parse_source_line, split_stack(value)))


def _input_facts(args: Mapping[str, Any]) -> list[tuple[str, str]]:
    """``0  float [16, 32, 128] strides [4096, 128, 1]``, ``1  Scalar = 4``: what an operator was given."""
    columns = [args[name] if isinstance(args.get(name), list) else [] for name in INPUT_ARGS]
    told = []
    for number, (kind, dims, strides, value) in enumerate(zip_longest(*columns)):
        words = [str(kind)] if kind else []
        words += [_value_text(dims)] if dims else []
        words += [f"strides {_value_text(strides)}"] if strides else []
        words += [f"= {value}"] if value not in (None, "") else []
        told.append((str(number), " ".join(words) or "none"))
    return told


def _value_text(value: object) -> str:
    """A value of the file, in JSON where it is no text."""
    if isinstance(value, str):
        return value or '""'
    return json.dumps(value, ensure_ascii=False, default=str)


def _printable_text(words: str) -> str:
    """Printable; lines stay lines, since stacks and HLO are read that way. What is too long says so."""
    text = "\n".join(printable(line) for line in words[:MAX_TEXT].splitlines())
    return text if len(words) <= MAX_TEXT else f"{text} (the first {MAX_TEXT:,} of {len(words):,} characters)"


def describe_selection(trace: Trace, view: View) -> tuple[str, ...]:
    """The selected event, else the selected window, else the lane under the cursor, else the run.

    Its name stands first, what people ask for first after it.
    """
    if view.event is not None:
        return _describe_event(trace, view.event)
    if view.selection is not None:
        start, end = view.selection
        return (
            f"{units.format_duration(end - start, digits=units.CELL_DIGITS)} selected",
            f"{format_instant(start)} to {format_instant(end)}",
        )
    if view.lane is not None:
        return _describe_lane(trace, view.lane)
    events = int(trace.lanes["events"].sum())
    length = format_duration(trace.span[1] - trace.span[0])
    return f"{_plural_count(events, 'event')} on {_plural_count(trace.lanes.height, 'lane')}", length


def _describe_event(trace: Trace, event: int) -> tuple[str, ...]:
    found = trace.event(event)
    lane = trace.lanes.filter(pl.col("lane") == found["lane"])["name"][0]
    length = units.format_duration(found["end"] - found["start"], digits=units.CELL_DIGITS)
    return printable(found["name"]), length, f"at {format_instant(found['start'])}", found["kind"], printable(lane)


def describe_counter(trace: Trace, view: View) -> tuple[str, ...]:
    """Value of the counter under the cursor: at the focus, in the view and in the whole run; empty on other lanes."""
    at = None if view.lane is None else trace.lanes["lane"].index_of(view.lane)
    if at is None or trace.lanes["role"][at] != "counter" or trace.lanes["events"][at]:
        return ()
    graph = load_counter_graph(trace, trace.lanes["lane"][at])
    here = None if view.focus is None else graph.value_at(view.focus)
    seen = graph.range_between(view.start, view.end)
    parts = [trace.lanes["name"][at], f"{graph.format_value(here)} here" if here is not None else ""]
    parts += [f"{graph.format_value(seen[0])} to {graph.format_value(seen[1])} in sight" if seen is not None else ""]
    parts += [f"at most {graph.format_value(graph.scale[1])}"]
    return tuple(printable(part) for part in parts if part)


def _describe_lane(trace: Trace, lane: int) -> tuple[str, ...]:
    columns = trace.lanes.filter(pl.col("lane") == lane).select("name", "process", "role", "events").row(0, named=True)
    process = columns["process"]
    parts = (columns["name"], process if process != columns["name"] else None, columns["role"],
             _plural_count(columns["events"], "event"))  # fmt: skip
    return tuple(printable(part) for part in parts if part)


def _plural_count(number: int, word: str) -> str:
    return f"{format_count(number)} {word}{'' if number == 1 else 's'}"
