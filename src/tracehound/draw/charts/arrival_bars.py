"""One collective on all its ranks as lines: who arrived when, who waited how long, and the transfer.

Every piece of a line has a style; the caller chooses the colors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal

from msgspec import Struct

from tracehound.draw.glyphs import Glyphs
from tracehound.draw.rank_groups import label_ranks
from tracehound.model import short_names, units

ArrivalStyle = Literal["title", "dim", "plain", "cursor", "last", "wait", "transfer"]
ArrivalLine = list[tuple[str, ArrivalStyle]]
ArrivalRow = Mapping[str, Any]

WAIT_GLYPHS: Final = {"ascii": ".", "mono": "░", "unicode": "░"}
TRANSFER_GLYPHS: Final = {"ascii": "#", "mono": "█", "unicode": "█"}
HEADER_LINES: Final = 2
"""Lines above the ranks."""

_TIME_CELLS: Final = 9
_LEAST_LABEL: Final = len("rank 99999")
_SHORTEST_BAR: Final = 8
"""With fewer cells there is no bar."""


class CollectiveArrivals(Struct, frozen=True, dict=True):
    """One collective: its rows in the analysis arrivals, the first to arrive first.

    `folded` are the same with one row for ranks that are alike, if there are any.
    """

    rows: Sequence[ArrivalRow]
    place: int
    count: int
    folded: Sequence[ArrivalRow] = ()

    @property
    def lines(self) -> Sequence[ArrivalRow]:
        """The rows that have a line of their own."""
        return self.folded or self.rows

    @cached_property
    def labels(self) -> list[str]:
        """The ranks of each line: ``rank 3``, ``ranks 0-2, 4-7``."""
        return [label_ranks(str(row.get("ranks") or row["rank"])) for row in self.lines]

    @cached_property
    def label_width(self) -> int:
        """Characters of the longest label."""
        return max(map(len, self.labels), default=0)

    @property
    def span(self) -> int:
        """Time from the first arrival to the last end, ps."""
        return max((row["after"] + row["duration"] for row in self.rows), default=0)

    @property
    def several_last(self) -> bool:
        """True if several ranks arrived last at once."""
        return len(self.rows) > 1 and self.rows[-2]["after"] == self.rows[-1]["after"]


def draw_header(collective: CollectiveArrivals, glyphs: Glyphs, width: int) -> list[ArrivalLine]:
    """Two lines: the collective, and the rank that the others waited for."""
    first, last = collective.rows[0], collective.rows[-1]
    absent = first.get("absent") or ""
    size = first.get("group_size")
    facts = [
        f"step {last['step']}" if last["step"] is not None else "",
        units.format_bytes(first["bytes"]) if first["bytes"] is not None else "",
        str(first["process_group"] or ""),
        f"{len(collective.rows):,} of {size:,} ranks" if size and size != len(collective.rows) else "",
        f"without rank {absent}" if absent else "",
    ]
    title = f" {short_names.shorten_kernel_name(str(last['name']), max(width // 2, 12))}"
    rest = f" {glyphs.dot} ".join(["", f"{collective.place + 1:,} of {collective.count:,}", *filter(None, facts)])
    late = _describe_last_rank(collective)
    waited = units.format_duration(sum(row["wait"] for row in collective.rows))
    transfer = units.format_duration(last["transfer"])
    key = f"{WAIT_GLYPHS[glyphs.name]} wait {TRANSFER_GLYPHS[glyphs.name]} transfer {transfer}"
    room, text = max(width - len(key) - 2, 0), f" {late} {glyphs.dot} waited in all {waited}"
    text = glyphs.cut(text if len(text) <= room else f" {late}", room)
    gap = " " * max(width - len(text) - len(key) - 1, 1)
    return [
        [(glyphs.cut(title, width), "title"), (glyphs.cut(rest, max(width - len(title), 0)), "dim")],
        [(text, "plain"), (gap, "plain"), (WAIT_GLYPHS[glyphs.name], "wait"), (" wait ", "dim"),
         (TRANSFER_GLYPHS[glyphs.name], "transfer"), (key.partition(TRANSFER_GLYPHS[glyphs.name])[2], "dim")],
    ]  # fmt: skip


def _describe_last_rank(collective: CollectiveArrivals) -> str:
    """``rank 12 last, 60.00 us after the others' median``; the number of ranks if several arrived last at once."""
    last = collective.rows[-1]
    if not collective.several_last:
        return f"rank {last['rank']} last, {units.format_duration(max(last['late'], 0))} after the others' median"
    together = sum(row["after"] == last["after"] for row in collective.rows)
    return "all came at once" if together == len(collective.rows) else f"{together:,} ranks last at once"


def draw_rank_line(
    collective: CollectiveArrivals, number: int, glyphs: Glyphs, width: int, under: Literal["cursor", "plain"]
) -> ArrivalLine:
    """One line: the arrival of its first rank, its wait and its transfer on the scale of the collective.

    The waiting time follows. If there is no room for a bar, only the numbers.
    """
    row = collective.lines[number]
    last = row["rank"] == collective.rows[-1]["rank"] and not collective.several_last
    labels = min(collective.label_width, max(width // 3, _LEAST_LABEL))
    label = glyphs.cut(collective.labels[number], labels)
    mark = glyphs.cursor if under == "cursor" else " "
    after = f"+{units.format_duration(row['after'])}" if row["after"] else "first"
    name = f"{mark}{label:<{labels}} {after:>{_TIME_CELLS + 1}} "
    suffix = " last" if last else f" {units.format_duration(row['wait'])}"
    room = width - len(name) - _TIME_CELLS - 1
    sort: ArrivalStyle = "cursor" if under == "cursor" else "last" if last else "plain"
    if room < _SHORTEST_BAR:
        return [(glyphs.cut(name + suffix, width), sort)]
    edges = [row["after"], row["after"] + row["wait"], row["after"] + row["duration"]]
    low, middle, high = (round(edge / collective.span * room) if collective.span else 0 for edge in edges)
    high = min(max(high, middle, low + 1), room)
    low = min(low, high - 1)
    middle = min(max(middle, low), high)
    if middle == high and row["duration"] > row["wait"]:
        middle = max(low, high - 1)  # a transfer has at least one cell
    return [
        (name, sort),
        (" " * low, "plain"),
        (WAIT_GLYPHS[glyphs.name] * (middle - low), "wait"),
        (TRANSFER_GLYPHS[glyphs.name] * (high - middle), "transfer"),
        (" " * (room - high), "plain"),
        (suffix.ljust(_TIME_CELLS + 1), "last" if last else "dim"),
    ]
