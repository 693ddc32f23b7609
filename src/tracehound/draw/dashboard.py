"""Results -> the parts of the overview: few lines each, of exactly the size asked for.

Owns what is said of a result where there is room for a glance, and how parts share a screen. Lines are made of pieces
of text with what each is; colours are for whoever shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct
from rich.cells import cell_len, set_cell_size

from tracehound.analysis.breakdown import WORKING
from tracehound.analysis.result import Column, Result
from tracehound.analysis.spans.partial_steps import counted
from tracehound.draw import chart
from tracehound.draw.apart import apart
from tracehound.draw.cells import cell
from tracehound.draw.notes import note_text
from tracehound.draw.plots import PARTS, WORDS
from tracehound.units import count, duration, plural, share

Sort = Literal["plain", "dim", "strong", "bar", "slow", "bad", "warn", "compute", "communication", "copy", "idle"]
"""What a piece of a line is. Meaning never rests on it alone."""

Piece = tuple[str, Sort]
Line = list[Piece]

SLOW: Final = 1.5
"""A step of so many times the median length stands out."""

STEPS: Final = 12
"""Lines that the chart of the steps takes where there is room."""

LEAST: Final = 3
"""Lines of a part at least: its title and two more."""

_LEVELS: Final[Mapping[str, Sort]] = MappingProxyType({"dropped": "bad", "repaired": "warn", "missing": "warn"})


class Said(NamedTuple):
    """A part of the overview: what stands beside its title, and the lines under that."""

    note: str
    lines: list[Line]


def drawn(result: Result, width: int, height: int) -> Said:
    """A result in `height` lines of `width` cells, fewer where it has no more to say."""
    if result.table.is_empty():
        words = note_text(result.notes[0]) if result.notes else "nothing to show"
        return Said("", _wrapped(words, width, height, "dim"))
    said = _DRAWN.get(result.analysis, listed)(result, width, height)
    return Said(said.note, [_fit(line, width) for line in said.lines[:height]])


def wanted(result: Result) -> int:
    """The lines that a result would fill, if it could."""
    rows = result.table.height
    divided = rows + 1 + (rows > 1) + len(_working(result))
    return {"steps": STEPS, "breakdown": divided, "findings": 6 * rows}.get(result.analysis, max(1, rows))


def steps(result: Result, width: int, height: int) -> Said:
    """A column for each whole step, as high as it took on its slowest rank; those far above the median are marked."""
    timed = result.table.drop_nulls("duration")
    known = counted(timed)
    every = known.group_by("step").agg(pl.col("duration").max()).sort("step")
    numbers, lengths = every["step"].to_list(), every["duration"].to_numpy()
    if not len(lengths):
        return listed(result, width, height)
    middle, worst = float(np.median(lengths)), int(lengths.argmax())
    median = duration(round(float(np.median(known["duration"].to_numpy()))))
    note = f"{count(len(lengths))}{' whole' if known.height < timed.height else ''}, median {median}"
    longest = f"longest {duration(int(lengths[worst]))}: step {numbers[worst]}"
    if result.table["inferred"].any():
        longest += " (inferred)"
    if height < 2 or width < 16:
        return Said(note, [[(longest, "plain")]])
    bins = np.linspace(0, len(lengths), min(width, len(lengths)) + 1).astype(int)[:-1]
    highest = np.maximum.reduceat(lengths, bins)
    wide = min(max(1, width // len(highest)), 8)
    gap = wide > 2
    levels = chart.columns(np.repeat(highest, wide), height - 1)
    lines = []
    for row in levels:
        line: Line = []
        for index, value in enumerate(highest.tolist()):
            text = row[index * wide : (index + 1) * wide - gap] + " " * gap
            line.append((text, "slow" if value > SLOW * middle else "bar"))
        lines.append(line)
    ends = f"  of steps {numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else ""
    ends += ", by their slowest rank" if every.height < known.height else ""
    lines.append([(longest, "slow" if lengths[worst] > SLOW * middle else "plain"), (ends, "dim")])
    return Said(note, lines)


def breakdown(result: Result, width: int, height: int) -> Said:
    """A bar for each rank, divided as its time was; of more than fit those that idle most, under one for all."""
    table = result.table
    shares = [f"{name}_share" for name in PARTS]
    span = table["span"].to_numpy()
    every = [float(table[name].fill_null(0).to_numpy() @ span) / max(1, int(span.sum())) for name in shares]
    rows = [(f"rank {rank}", parts) for rank, *parts in table.select("rank", *shares).rows()]
    note = f"{count(len(rows))} ranks" if len(rows) > 1 else ""
    told = _working(result)[: max(0, height - LEAST)]
    height -= len(told)
    if len(rows) > height - 1:
        idlest = sorted(rows, key=lambda row: -(row[1][-1] or 0.0))
        rows = [("all", every), *idlest[: max(0, height - 2)]]
        note += ", most idle"
    elif 1 < len(rows) <= height - 2:
        rows = [("all", every), *rows]
    room = max(len(label) for label, _ in rows)
    lines = [_divided(f"{label:<{room}} ", parts, width) for label, parts in rows]
    return Said(note, [*lines[: height - 1], _legend(every, width), *told])


def _working(result: Result) -> list[Line]:
    """That devices work in a small part of the recording alone, where they do."""
    return [[(note_text(note), "dim")] for note in result.notes if note.code == WORKING]


def _sort(part: str) -> Sort:
    return next(sort for sort in ("compute", "communication", "copy", "idle") if sort == part)


def _legend(every: Sequence[float], width: int) -> Line:
    """What the parts of a bar are, and their shares over all ranks in percent; in whole words, or in short ones."""
    line: Line = []
    for (name, glyph), part in zip(PARTS.items(), every, strict=True):
        if width >= _SPACIOUS:
            line += [(f"{glyph} ", _sort(name)), (f"{WORDS.get(name, name)} {part * 100:.0f} %  ", "plain")]
        else:
            line += [(glyph, _sort(name)), (f"{name[:4]} {part * 100:.0f} ", "plain")]
    return line if width >= _SPACIOUS else [*line, ("%", "plain")]


_SPACIOUS: Final = 80
_BUSY: Final = len(" 100.00 % busy")


def _divided(label: str, parts: Sequence[float | None], whole: int) -> Line:
    """A label, a bar of parts, and what part of the time the device works."""
    beside = _BUSY if whole >= 44 else 0
    width = whole - len(label) - beside
    fractions = [part or 0.0 for part in parts]
    bar = chart.stacked(fractions, [*PARTS.values()], max(0, width))
    line: Line = [(label, "plain")]
    at = 0
    for name, glyph in PARTS.items():
        length = bar.count(glyph)
        line.append((bar[at : at + length], _sort(name)))
        at += length
    line.append((bar[at:], "plain"))
    return [*line, (f"{share(1 - fractions[-1])} busy".rjust(beside), "dim")] if beside else line


def ops(result: Result, width: int, height: int) -> Said:
    """The ops that take most of the time, with a bar for the share of each: all of its room is 100 %."""
    table = result.table.head(height)
    beside = 10 + (11 if width >= 40 else 0)
    room = max(12, width - beside - (width // 4 if width >= 56 else 0))
    spare = width - room - beside
    lines = []
    names = [cell(Column("name", "text", ""), name) for name in table["name"]]
    short = apart(names, room)
    for name, (part, own) in zip(names, table.select("share", "self").rows(), strict=True):
        words = short[name]
        bar = chart.bar(part or 0.0, spare) if spare > 2 else ""
        pieces: Line = [(words + " " * (room - cell_len(words)), "plain")]
        pieces.append((f" {share(part or 0.0):>8} ", "strong"))
        pieces.append((bar, "bar"))
        if beside > 10:
            pieces.append((f" {duration(own or 0):>10}", "dim"))
        lines.append(pieces)
    return Said(f"{count(result.total)}, by self time", lines)


def health(result: Result, width: int, height: int) -> Said:
    """What was repaired, dropped, missing or inferred."""
    lines: list[Line] = []
    rows = result.table.select("level", "count", "what").rows()
    for at, (level, number, what) in enumerate(rows[:height]):
        words = f"{count(number)} {what}" if number > 1 else what
        spare = height - len(lines) - (len(rows) - at - 1)
        first, *rest = _wrapped(words, max(8, width - 9), max(1, spare), "plain")
        lines += [[(f"{level:<9}", _LEVELS.get(level, "dim")), *first], *([(" " * 9, "plain"), *line] for line in rest)]
    more = len(rows) - height
    return Said(f"{more} more" if more > 0 else "", lines)


def findings(result: Result, width: int, height: int) -> Said:
    """What costs time and how much of a step, or of what its share is; where there is room, by what evidence.

    Of what the shares are stands beside each where they are not all of the same.
    """
    rows = result.table.head(height).select("finding", "share_of", "cost", "share", "evidence").rows()
    bases = {base: f"share of {_BASES.get(base, base)}" for _, base, *_ in rows if base is not None}
    told = [f"{what} ({bases[base]})" if base in bases and len(bases) > 1 else what for what, base, *_ in rows]
    room = max(8, width - 9)
    cut, lines = apart(told, room), list[Line]()
    for at, (finding, (*_, cost, part, evidence)) in enumerate(zip(told, rows, strict=True)):
        amount = share(part) if part is not None else duration(cost) if cost is not None else "-"
        spare = height - len(lines) - (len(rows) - at)
        first, *rest = _wrapped(finding if spare > 0 else cut[finding], room, max(1, spare + 1), "plain")
        lines += [[(f"{amount:>8} ", "strong"), *first], *([(" " * 9, "plain"), *line] for line in rest)]
        spare -= len(rest)
        lines += [[(" " * 9, "plain"), *line] for line in _wrapped(evidence, room, min(3, spare), "dim")]
    more = result.total - len(rows)
    note = next(iter(bases.values())) if len(bases) == 1 else ""
    return Said(f"{more} more" if more > 0 else note, lines)


_BASES: Final = {"step": "a step", "run": "the run", "window": "the window", "recording": "the recording"}


def listed(result: Result, width: int, height: int) -> Said:
    """The first rows of any result: its texts, behind its first amount."""
    texts = [column for column in result.columns if column.unit == "text"]
    amounts = [column for column in result.columns if column.unit in ("time", "share")][:1]
    lines: list[Line] = []
    for row in result.table.head(height).iter_rows(named=True):
        line: Line = [(f"{cell(each, row[each.name]):>10} ", "strong") for each in amounts]
        line += [(f"{cell(each, row[each.name])}  ", "plain") for each in texts if row[each.name]]
        lines.append(line)
    del width
    return Said(plural(result.total, "row"), lines)


_DRAWN: Final[Mapping[str, Callable[[Result, int, int], Said]]] = MappingProxyType(
    {"findings": findings, "steps": steps, "breakdown": breakdown, "ops": ops, "health": health}
)
"""How results are drawn that have a way of their own."""


def told(words: str, width: int, height: int, sort: Sort) -> Said:
    """What is said where there are no rows."""
    lines = [line for text in words.split("\n") for line in _wrapped(text, width, height, sort)]
    return Said("", lines[: max(0, height)])


def _wrapped(words: str, width: int, height: int, sort: Sort) -> list[Line]:
    lines: list[Line] = []
    text = ""
    if height < 1:
        return []
    for word in words.split():
        if text and cell_len(text) + 1 + cell_len(word) > width:
            lines.append([(text, sort)])
            text = word
        else:
            text = f"{text} {word}".strip()
    lines.append([(text, sort)])
    if len(lines) > height:
        kept = [piece[0] for line in lines[height - 1 :] for piece in line]
        lines = [*lines[: height - 1], [(" ".join(kept), sort)]]
    return [_fit(line, width) for line in lines]


def _fit(line: Line, width: int) -> Line:
    """The pieces that fit, the last one cut."""
    fit: Line = []
    left = width
    for text, sort in line:
        if left <= 0:
            break
        size = cell_len(text)
        fit.append((text if size <= left else set_cell_size(text, left - 1) + "…", sort))
        left -= size
    return fit


class Place(Struct, frozen=True):
    """Where a part stands on the overview, in cells: its title is on line `top`."""

    part: str
    left: int
    top: int
    width: int
    height: int


def placed(wishes: Mapping[str, int], width: int, height: int) -> list[Place]:
    """Where parts stand that want so many lines under their titles, column by column.

    In one column, two or three, as the width allows; what does not fit at all is left out, from the end of its column.
    """
    number = 1 if width < 64 else 2 if width < 132 else 3
    columns = [[part for part in column if part in wishes] for column in _COLUMNS[number]]
    columns = [column for column in columns if column]
    each = (width - 2 * (len(columns) - 1)) // max(1, len(columns))
    found = []
    for index, column in enumerate(columns):
        kept = column[: max(1, height // LEAST)]
        top = 0
        heights = shared([wishes[part] + 1 for part in kept], height)
        for part, lines in zip(kept, heights, strict=True):
            found.append(Place(part, index * (each + 2), top, each, lines))
            top += lines
    return found


_COLUMNS: Final[Mapping[int, tuple[tuple[str, ...], ...]]] = MappingProxyType(
    {
        1: (("findings", "breakdown", "steps", "ops", "health"),),
        2: (("breakdown", "steps"), ("findings", "ops", "health")),
        3: (("breakdown", "steps"), ("ops",), ("findings", "health")),
    }
)
"""Which parts stand under each other, by the number of columns."""


def shared(wishes: Sequence[int], height: int) -> list[int]:
    """Heights that add up to `height` at most: the least for each, then line by line to those that want more."""
    heights = [min(LEAST, height) for _ in wishes]
    left = height - sum(heights)
    while left > 0:
        hungry = [index for index, wish in enumerate(wishes) if heights[index] < wish]
        if not hungry:
            break
        for index in hungry[:left]:
            heights[index] += 1
            left -= 1
    return heights
