"""One collective of all its ranks as lines: who came when, who waited how long, and the transfer.

Owns what is said of a collective and how its bars are cut into cells. Knows no colours: every piece of a line says what
sort it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from tracehound import units
from tracehound.draw.glyphs import Glyphs

Sort = Literal["title", "dim", "plain", "cursor", "last", "wait", "transfer"]
Line = list[tuple[str, Sort]]
Row = Mapping[str, Any]

WAIT: Final = {"ascii": ".", "mono": "░", "unicode": "░"}
TRANSFER: Final = {"ascii": "#", "mono": "█", "unicode": "█"}
HEAD: Final = 2
"""Lines above the ranks."""

_TIME: Final = 9
_LEAST: Final = 8
"""Fewer cells than this are no bar."""


class Meeting(Struct, frozen=True):
    """One collective: the rows of the analysis arrivals with its number, the first to come first."""

    rows: Sequence[Row]
    place: int
    count: int

    @property
    def span(self) -> int:
        """From the first arrival to the last end, ps."""
        return max((row["after"] + row["duration"] for row in self.rows), default=0)

    @property
    def tied(self) -> bool:
        """Whether several came last at once."""
        return len(self.rows) > 1 and self.rows[-2]["after"] == self.rows[-1]["after"]


def head(meeting: Meeting, glyphs: Glyphs, width: int) -> list[Line]:
    """Two lines: which collective it is, and who was waited for."""
    first, last = meeting.rows[0], meeting.rows[-1]
    absent = first.get("absent") or ""
    size = first.get("group_size")
    facts = [
        f"step {last['step']}" if last["step"] is not None else "",
        units.bytes_(first["bytes"]) if first["bytes"] is not None else "",
        str(first["process_group"] or ""),
        f"{len(meeting.rows):,} of {size:,} ranks" if size and size != len(meeting.rows) else "",
        f"without rank {absent}" if absent else "",
    ]
    title = f" {units.short_name(str(last['name']), max(width // 2, 12))}"
    rest = f" {glyphs.dot} ".join(["", f"{meeting.place + 1:,} of {meeting.count:,}", *filter(None, facts)])
    late = _who(meeting)
    waited = units.duration(sum(row["wait"] for row in meeting.rows))
    key = f"{WAIT[glyphs.name]} wait {TRANSFER[glyphs.name]} transfer {units.duration(last['transfer'])}"
    room, told = max(width - len(key) - 2, 0), f" {late} {glyphs.dot} waited in all {waited}"
    told = glyphs.cut(told if len(told) <= room else f" {late}", room)
    gap = " " * max(width - len(told) - len(key) - 1, 1)
    return [
        [(glyphs.cut(title, width), "title"), (glyphs.cut(rest, max(width - len(title), 0)), "dim")],
        [(told, "plain"), (gap, "plain"), (WAIT[glyphs.name], "wait"), (" wait ", "dim"),
         (TRANSFER[glyphs.name], "transfer"), (key.partition(TRANSFER[glyphs.name])[2], "dim")],
    ]  # fmt: skip


def _who(meeting: Meeting) -> str:
    """``rank 12 last, 60.00 us after the others' median``; of several that came last at once, how many."""
    last = meeting.rows[-1]
    if not meeting.tied:
        return f"rank {last['rank']} last, {units.duration(max(last['late'], 0))} after the others' median"
    together = sum(row["after"] == last["after"] for row in meeting.rows)
    return "all came at once" if together == len(meeting.rows) else f"{together:,} ranks last at once"


def bar(meeting: Meeting, number: int, glyphs: Glyphs, width: int, under: Literal["cursor", "plain"]) -> Line:
    """The line of one rank: when it came, its wait and its transfer on the scale of the collective, how long it waited.

    Where there is no room for a bar, the numbers stand alone.
    """
    row = meeting.rows[number]
    last = number == len(meeting.rows) - 1 and not meeting.tied
    digits = max(len(str(each["rank"])) for each in (meeting.rows[0], meeting.rows[-1], row))
    mark = glyphs.cursor if under == "cursor" else " "
    after = f"+{units.duration(row['after'])}" if row["after"] else "first"
    name = f"{mark}rank {row['rank']:<{digits}} {after:>{_TIME + 1}} "
    said = " last" if last else f" {units.duration(row['wait'])}"
    room = width - len(name) - _TIME - 1
    sort: Sort = "cursor" if under == "cursor" else "last" if last else "plain"
    if room < _LEAST:
        return [(glyphs.cut(name + said, width), sort)]
    edges = [row["after"], row["after"] + row["wait"], row["after"] + row["duration"]]
    low, middle, high = (round(edge / meeting.span * room) if meeting.span else 0 for edge in edges)
    high = min(max(high, middle, low + 1), room)
    low = min(low, high - 1)
    middle = min(max(middle, low), high)
    if middle == high and row["duration"] > row["wait"]:
        middle = max(low, high - 1)  # a transfer is never drawn as none
    return [
        (name, sort),
        (" " * low, "plain"),
        (WAIT[glyphs.name] * (middle - low), "wait"),
        (TRANSFER[glyphs.name] * (high - middle), "transfer"),
        (" " * (room - high), "plain"),
        (said.ljust(_TIME + 1), "last" if last else "dim"),
    ]
