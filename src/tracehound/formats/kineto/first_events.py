"""The process, the times and the first events of a Kineto file, from the texts of its two ends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tracehound.formats.kineto.categories import parse_category
from tracehound.formats.kineto.kineto_lanes import normalize_id
from tracehound.formats.kineto.process_ids import has_run_mark, without_run_mark
from tracehound.formats.value_bounds import valid_wall_clock

MAX_FIRST_EVENTS: Final = 16
"""Complete events that are compared to tell whether two files begin with the same events."""

_TAIL_CHARACTERS: Final = 16 << 10
"""Characters at the end of a file in which its last time is looked for."""

_EVENTS_START: Final = re.compile(r'"traceEvents"\s*:\s*\[|\A\s*\[')
_SEPARATOR: Final = re.compile(r"\s*,?\s*")
_TIME: Final = re.compile(r'"ts"\s*:\s*"?(\d{1,19}(?:\.\d{1,9})?)"?(?:\s*,\s*"dur"\s*:\s*"?(\d{1,15}(?:\.\d{1,9})?))?')


class PeekedEvents(NamedTuple):
    """Facts from the first and the last events of a file; fields as in `PeekedFacts`."""

    process: int | str | None = None
    merged: bool = False
    start_ns: int | None = None
    end_ns: int | None = None
    wall: bool = False
    first_events: tuple[tuple[object, ...], ...] = ()


def peek_events(text: str, base_ns: int, *, complete: bool) -> PeekedEvents:
    """Read the first events in a text, and the last time in it; `base_ns` is added to all times.

    The last time is that of the file if the text is `complete`, that is, has the end of the file.
    """
    events = list(_complete_events(text))
    if not events:
        return PeekedEvents()
    starts = [start for event in events if (start := _to_ns(event.get("ts"))) is not None]
    process = next((event["pid"] for event in events if _is_host_event(event)), None)
    process_id = normalize_id(without_run_mark(process))
    start = base_ns + min(starts) if starts else None
    times = _TIME.findall(text[-_TAIL_CHARACTERS:]) if complete else []
    ends = [round((float(begin) + float(length or 0)) * 1000) for begin, length in times]
    return PeekedEvents(
        process=None if isinstance(process_id, float) else process_id,
        merged=has_run_mark(process),
        start_ns=start,
        end_ns=max(base_ns + max(ends), start) if ends and start is not None else None,
        wall=start is not None and valid_wall_clock(start) is not None,
        first_events=tuple((event.get("name"), event.get("ts"), event.get("dur")) for event in events),
    )


def _complete_events(text: str) -> Iterator[Mapping[str, Any]]:
    """The first complete events in a text, up to `MAX_FIRST_EVENTS`; ends where the text is no JSON."""
    match = _EVENTS_START.search(text)
    decoder, found = json.JSONDecoder(strict=False), 0
    at = len(text) if match is None else match.end()
    while found < MAX_FIRST_EVENTS:
        separator = _SEPARATOR.match(text, at)
        at = at if separator is None else separator.end()
        try:
            event, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        if not isinstance(event, dict):
            return
        if event.get("ph") == "X" and event.get("cat") != "Trace":
            found += 1
            yield event


def _is_host_event(event: Mapping[str, Any]) -> bool:
    category = event.get("cat")
    return (
        isinstance(category, str)
        and isinstance(event.get("pid"), int | str)
        and parse_category(category).role == "thread"
    )


def _to_ns(recorded: object) -> int | None:
    """A time in microseconds, a number or text, in ns; None if it is neither."""
    try:
        return round(float(recorded) * 1000) if isinstance(recorded, int | float | str) else None
    except (ValueError, OverflowError):
        return None
