"""The decoded events of a plane as a frame.

Owns how stats become the columns that joins are made on. Knows neither lanes nor kinds, but counts kinds out cheaply:
once for each name, not once for each event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import polars as pl

from tracehound.formats.wire import Rows
from tracehound.formats.xevents import Events
from tracehound.formats.xspace import Plane
from tracehound.formats.xstats import Flags
from tracehound.trace import KIND, KINDS

CODE = {kind: code for code, kind in enumerate(KINDS)}
"""Kinds as numbers, for arrays."""

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


def frame(plane: Plane, events: Events) -> pl.DataFrame:
    """One row per event, in the order of `events`.

    `line` and `position` as there; `start`, `end`, `name`, `record`; and, null where an event has none: `correlation`,
    `run`, `produces`, `consumes`, `step`, `device_start`, `device_end`, `device`, `program`, `size` (bytes), `hlo_op`,
    `module` and `details` (texts).
    """
    offset, on_device = events.number("device_offset_ps")
    length, _ = events.number("device_duration_ps")
    return pl.DataFrame(
        {
            "line": events.line,
            "position": events.position,
            "start": events.start,
            "end": events.end,
            "name": _names(plane, events),
            "record": events.record,
            "correlation": _column(events, "correlation_id"),
            "run": _column(events, "run_id"),
            "produces": _link(events, "_p", "_pt"),
            "consumes": _link(events, "_c", "_ct"),
            "step": _steps(events),
            "device_start": nullable(offset, on_device),
            "device_end": nullable(offset + length, on_device),
            "device": _column(events, "device_ordinal"),
            "program": _column(events, "program_id"),
            "size": _column(events, "size"),
            "hlo_op": _text(events, "hlo_op"),
            "module": _text(events, "hlo_module"),
            "details": _text(events, "memcpy_details"),
        }
    )


def nullable(values: Rows, known: Flags) -> pl.Series:
    """The values, null where they are not known."""
    if known.all():
        return pl.Series(values)
    if not known.any():
        return pl.Series([None], dtype=pl.Int64).new_from_index(0, len(values))
    return pl.select(pl.when(pl.Series(known)).then(pl.Series(values))).to_series()


def _column(events: Events, name: str) -> pl.Series:
    return nullable(*events.number(name))


def _link(events: Events, id_name: str, type_name: str) -> pl.Series:
    """Context type and id as one key: types number their ids independently, and ids fill all 64 bits."""
    ids, known = events.number(id_name)
    types, _ = events.number(type_name)
    return nullable((ids.view(np.uint64) ^ (types.view(np.uint64) * _SPREAD)).view(np.int64), known)


def _steps(events: Events) -> pl.Series:
    """The numbers of steps, on the roots that mark them; where nothing is called a root, on all that have one."""
    number, known = events.number("step_num")
    root, rooted = events.number("_r")
    marks = known & (root > 0) if rooted.any() else known
    marks = marks & (np.abs(number) < 1 << 31)
    return nullable(number, marks).cast(pl.Int32)


def _text(events: Events, name: str) -> pl.Series:
    at = events.text(name)
    texts = pl.Series([*events.vocabulary, None], dtype=pl.String)
    return texts.gather(np.where(at < 0, len(events.vocabulary), at))


def _names(plane: Plane, events: Events) -> pl.Series:
    """What events are called; one whose metadata is lost by the id of that."""
    lost = np.flatnonzero(events.position < 0)
    ids, inverse = np.unique(events.metadata[lost], return_inverse=True)
    shown = plane.metadata.shown
    at = events.position.copy()
    at[lost] = len(shown) + inverse
    words = pl.Series([*shown, *(f"event {id_}" for id_ in ids.tolist())], dtype=pl.String)
    return words.cast(pl.Categorical).gather(at)


Class = TypeVar("Class", bound=str)


def kinds(plane: Plane, events: Events, classes: Sequence[Class], kind_of: Callable[[Class, str], str]) -> pl.Series:
    """The kind of every event by the class of its line and its name; of one whose name is lost, other.

    `classes` are those of the plane's lines.
    """
    names = [*plane.metadata.shown, ""]
    numbered = {each: number for number, each in enumerate(dict.fromkeys(classes))}
    line_class = np.array([numbered[each] for each in classes], np.int64)
    code = line_class[events.line] * len(names) + np.where(events.position < 0, len(names) - 1, events.position)
    present = np.zeros(len(numbered) * len(names), bool)
    present[code] = True
    table = np.zeros(len(present), np.int64)
    words = list(numbered)
    for each in np.flatnonzero(present).tolist():
        name = names[each % len(names)]
        table[each] = CODE[kind_of(words[each // len(names)], name) if name else "other"]
    return of_codes(table[code])


def of_codes(codes: Rows) -> pl.Series:
    """Kinds from their numbers."""
    return pl.Series("kind", KINDS, dtype=KIND).gather(codes)
