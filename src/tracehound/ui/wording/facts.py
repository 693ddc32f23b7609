"""What is known of one event, in words.

Owns which facts are told, under which titles and in which order. Knows no widget.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any

import polars as pl

from tracehound import units
from tracehound.analysis.hosts.waits import waits_for
from tracehound.analysis.hosts.words import PYTHON, doing
from tracehound.draw.sheet import Fact, Section
from tracehound.errors import printable
from tracehound.ids import in_part, part_of
from tracehound.trace import EVENTS, Trace, collected
from tracehound.ui.source.lines import SourceLine, frames, named

Facts = tuple[Section, ...]
"""Labels and words, under titles."""

DEEPEST = 512
"""So many frames of a stack are told."""

LONGEST = 1 << 16
"""Characters of a value that are shown; how long it is, is said."""

INPUTS = ("Input type", "Input Dims", "Input Strides", "Concrete Inputs")
"""Kineto's args with one entry for each input of an operator."""

NAMING = ("", "name", "inside", "source")
"""Labels of facts that may be source lines; the frames of a stack have none."""

STACKS = ("call stack", "source_stack", "stack", "source_info", "traceback")
"""Args that hold a stack as one text, in small letters."""


def facts(trace: Trace, event: int) -> Facts:
    """The event's columns, where it lies, what enqueued it, what is true of its op, and the Python that led to it."""
    found = trace.event(event)
    around = list(_around(trace, found))
    lane = trace.lanes.row(by_predicate=pl.col("lane") == found["lane"], named=True)
    told = [
        ("name", str(found["name"])),
        ("kind", str(found["kind"])),
        ("start", units.instant(found["start"])),
        ("duration", units.duration(found["end"] - found["start"])),
    ]
    if found["self"] is not None and found["self"] != found["end"] - found["start"]:
        told.append(("self", units.duration(found["self"])))
    if found["device_start"] is not None:
        told.append(("on device", units.duration(found["device_end"] - found["device_start"])))
    told.append(("lane", _place(trace, lane)))
    if lane["role"] == "thread" and (words := _doing(trace, found, around)):
        told.append(("the host is", words))
    told += [(name, f"{found[name]:,}") for name in ("step",) if found[name] is not None]
    if found["bytes"] is not None:
        told.append(("bytes", units.bytes_(found["bytes"])))
    told += _related(trace, found)
    op = trace.ops.row(by_predicate=pl.col("op") == found["op"], named=True) if found["op"] is not None else {}
    stack = [("", str(frame)) for frame in _stack(trace, found, around)]
    code = [("", op["text"])] if op.get("text") else []
    sections = (("", told), ("op", _op(op)), ("HLO", code), ("Python stack, innermost first", stack))
    return tuple(_section(title, pairs) for title, pairs in sections if pairs)


def of_window(window: tuple[int, int], steps: Sequence[int]) -> Facts:
    """A selected window, where no event is selected; `steps` are those that were marked to last just as long."""
    start, end = window
    told = [("start", units.instant(start)), ("end", units.instant(end)), ("duration", units.duration(end - start))]
    told += [("step", f"{step}, as it is marked") for step in steps]
    return (_section("Selected window", told),)


def _place(trace: Trace, lane: Mapping[str, Any]) -> str:
    """A lane, and its rank or its host; a thread that is called like its process has that name once."""
    where = f"rank {lane['rank']}" if lane["rank"] is not None else trace.hosts[lane["host"]].name
    return where if f": {where}".endswith(f": {lane['name']}") else f"{lane['name']}, {where}"


def _doing(trace: Trace, found: dict[str, Any], around: Sequence[dict[str, Any]]) -> str | None:
    """What the host is at in the event, as gaps tell it: by what is around it, and by whether it waits for a copy.

    None where that is only Python: its name says more.
    """
    ordered = sorted(around, key=lambda event: int(event["id"]))
    threads = pl.DataFrame(
        [[event[name] for name in _NAMED] for event in ordered], {name: EVENTS[name] for name in _NAMED}, orient="row"
    )
    waits = waits_for(str(found["name"]), found["end"], _copies(trace, found)) if found["kind"] == "runtime" else False
    said: str | None = doing(threads, [found["id"]] if waits else []).filter(threads["id"] == found["id"])[0]
    return None if said == PYTHON else said


_NAMED = ("id", "name", "kind", "parent")


def _copies(trace: Trace, call: dict[str, Any]) -> list[int]:
    """When the copies ended that a call launched; ps."""
    here = in_part("lane", part_of(call["id"]))
    lanes = trace.lanes.filter(pl.col("rank").is_not_null() & pl.col("work") & here)["lane"].to_list()
    launched = (pl.col("launch") == call["id"]) & (pl.col("kind") == "copy")
    return collected(trace.events(lanes).filter(launched).select("end"))["end"].to_list()


def carried(args: Mapping[str, Any]) -> Facts:
    """The args of an event as its file has them, under the names that it has for them.

    What an operator was given is told once more, input by input; a stack is told frame by frame.
    """
    inner = {name: value for name, value in args.items() if isinstance(value, dict) and value}
    outer = {name: value for name, value in args.items() if name not in inner}
    return tuple(
        section
        for title, carrier in (*inner.items(), ("in the file", outer))
        for section in _carried(str(title), carrier)
        if section.facts
    )


def source_lines(told: Facts) -> list[SourceLine]:
    """The source lines that the facts name, in their order, each once: the nearest come first."""
    words = (fact.words for section in told for fact in section.facts if fact.label in NAMING)
    return list(dict.fromkeys(line for text in words if (line := named(text)) is not None))


def _carried(title: str, args: Mapping[str, Any]) -> Iterator[Section]:
    stacks = {name: value for name, value in args.items() if _is_stack(name, value)}
    yield _section("inputs", _inputs(args))
    for name, stack in stacks.items():
        yield _section(name, [("", frame) for frame in frames(stack)])
    yield _section(title, [(str(name), _words(value)) for name, value in args.items() if name not in stacks])


def _section(title: str, pairs: Sequence[tuple[str, str]]) -> Section:
    return Section(printable(title), tuple(Fact(printable(label), _shown(words)) for label, words in pairs))


def _related(trace: Trace, found: dict[str, Any]) -> list[tuple[str, str]]:
    told = []
    if found["parent"] is not None:
        told.append(("inside", str(trace.event(found["parent"])["name"])))
    if found["launch"] is not None:
        launch = trace.event(found["launch"])
        told.append(("launched by", f"{launch['name']}, {_apart(found['start'] - launch['start'])}"))
    return told


def _apart(time: int) -> str:
    return f"{units.duration(abs(time))} {'before' if time >= 0 else 'after: clocks differ'}"


def _op(op: Mapping[str, Any]) -> list[tuple[str, str]]:
    told = [(name, str(op[name])) for name in ("category", "module", "framework", "source") if op.get(name)]
    told += [(name, f"{op[name]:,}") for name in ("flops",) if op.get(name)]
    if op.get("bytes_accessed"):
        told.append(("accesses", units.bytes_(op["bytes_accessed"])))
    return told


def _stack(trace: Trace, found: dict[str, Any], around: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Python functions around the event, or around what enqueued it; the innermost first."""
    chain = around if found["launch"] is None else _around(trace, trace.event(found["launch"]))
    functions = (event for event in chain if event["kind"] == "python" or named(str(event["name"])))
    yield from (str(event["name"]) for event in islice(functions, DEEPEST))


def _around(trace: Trace, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """An event, and all that contain it."""
    yield event
    while event["parent"] is not None:
        event = trace.event(event["parent"])
        yield event


def _is_stack(name: str, value: object) -> bool:
    return name.lower() in STACKS and isinstance(value, str) and any(map(named, frames(value)))


def _inputs(args: Mapping[str, Any]) -> list[tuple[str, str]]:
    """``0  float [16, 32, 128] strides [4096, 128, 1]``, ``1  Scalar = 4``: what an operator was given."""
    columns = [args[name] if isinstance(args.get(name), list) else [] for name in INPUTS]
    told = []
    for number, (kind, dims, strides, value) in enumerate(zip_longest(*columns)):
        words = [str(kind)] if kind else []
        words += [_words(dims)] if dims else []
        words += [f"strides {_words(strides)}"] if strides else []
        words += [f"= {value}"] if value not in (None, "") else []
        told.append((str(number), " ".join(words) or "none"))
    return told


def _words(value: object) -> str:
    """A value of the file, in JSON where it is no text."""
    if isinstance(value, str):
        return value or '""'
    return json.dumps(value, ensure_ascii=False, default=str)


def _shown(words: str) -> str:
    """Printable; lines stay lines, since stacks and HLO are read that way. What is too long says so."""
    text = "\n".join(printable(line) for line in words[:LONGEST].splitlines())
    return text if len(words) <= LONGEST else f"{text} (the first {LONGEST:,} of {len(words):,} characters)"
