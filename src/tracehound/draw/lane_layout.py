"""The user's arrangement of lanes (hidden, pinned, moved, filtered, grouped), and the part of it on the screen.

Lanes and groups are known by names that stay the same when the trace is read again (``rank 3/stream 7``), so that the
arrangement can be saved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.draw.lane_cache import RowsRequest
from tracehound.draw.timeline_outline import LaneEntry, LaneGroup, TimelineLine, TimelineOutline
from tracehound.model.units import count_noun

LaneGrouping = Literal["rank", "lane"]
"""Group lanes by rank, or by lane name: the same stream of all ranks."""

PINNED_GROUP = "pinned"
"""The group of pinned lanes, which is always visible."""


class LaneLayout(Struct, frozen=True):
    """Lanes and groups by name. `order` has the order of all lanes of each group in which lanes were moved.

    `needle` filters lanes: a part of their names, or a regular expression between slashes; "" shows all.
    """

    hidden: frozenset[str] = frozenset()
    pinned: tuple[str, ...] = ()
    order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    needle: str = ""
    grouping: LaneGrouping = "rank"

    def hide(self, lane: str) -> LaneLayout:
        """Without this lane."""
        return replace(self, hidden=self.hidden | {lane}, pinned=tuple(key for key in self.pinned if key != lane))

    def show_all(self) -> LaneLayout:
        """With every lane."""
        return replace(self, hidden=frozenset(), needle="")

    def toggle_pin(self, lane: str) -> LaneLayout:
        """With this lane pinned, or unpinned if it was pinned."""
        others = tuple(key for key in self.pinned if key != lane)
        return replace(self, pinned=others if lane in self.pinned else (*others, lane))

    def move(self, groups: Sequence[LaneGroup], lane: str, by: int) -> LaneLayout:
        """With this lane moved `by` positions down in its group; unchanged at the end."""
        for group in groups:
            keys = [entry.key for entry in group.entries]
            if lane not in keys:
                continue
            at, to = keys.index(lane), keys.index(lane) + by
            if not 0 <= to < len(keys):
                return self
            keys.insert(to, keys.pop(at))
            if group.key == PINNED_GROUP:
                return replace(self, pinned=tuple(keys))
            return replace(self, order={**self.order, group.key: tuple(keys)})
        return self

    def switch_grouping(self) -> LaneLayout:
        """With the other grouping."""
        return replace(self, grouping="lane" if self.grouping == "rank" else "rank")

    def to_plain_values(self) -> dict[str, Any]:
        """Plain values for a file; defaults are left out."""
        values = {
            "hidden": sorted(self.hidden),
            "pinned": list(self.pinned),
            "order": {group: list(lanes) for group, lanes in self.order.items()},
            "needle": self.needle,
            "grouping": self.grouping if self.grouping != "rank" else "",
        }
        return {name: value for name, value in values.items() if value}


def parse_lane_layout(plain: Mapping[str, Any]) -> LaneLayout:
    """The layout from the values of `to_plain_values`; invalid values are ignored."""
    order = plain.get("order")
    return LaneLayout(
        frozenset(text_items(plain.get("hidden"))),
        text_items(plain.get("pinned")),
        {str(group): text_items(lanes) for group, lanes in order.items()} if isinstance(order, Mapping) else {},
        needle if isinstance(needle := plain.get("needle"), str) else "",
        "lane" if plain.get("grouping") == "lane" else "rank",
    )


def text_items(value: object) -> tuple[str, ...]:
    """The strings in a list; nothing if it is no list."""
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, Sequence) else ()


def arrange_groups(groups: Sequence[LaneGroup], layout: LaneLayout, key: str = "") -> tuple[LaneGroup, ...]:
    """The groups in this layout, the pinned lanes first. `key` is the key that shows hidden lanes again.

    A group with only hidden lanes keeps its header; a group without matching lanes is left out.
    """
    if layout == LaneLayout():
        return tuple(groups)
    pattern = _lane_name_pattern(layout.needle)
    visible = [_visible_group(group, layout, pattern, key) for group in groups]
    known = {entry.key: (entry, group) for group in groups for entry in group.entries}
    pinned = [known[key] for key in layout.pinned if key in known]
    several = sum(group.rank is not None for group in groups) > 1 or len({group.key for _, group in pinned}) > 1
    pinned_entries = tuple(
        replace(entry, name=f"{group.key} {entry.name}" if several else entry.name) for entry, group in pinned
    )
    rest = [group for group in visible if group is not None]
    if layout.grouping == "lane":
        rest = _group_by_lane(rest)
    ordered = (replace(group, entries=_order_lanes(group, layout)) for group in rest)
    return (*([LaneGroup(PINNED_GROUP, (PINNED_GROUP,), pinned_entries)] if pinned_entries else []), *ordered)


def _visible_group(group: LaneGroup, layout: LaneLayout, pattern: re.Pattern[str], key: str) -> LaneGroup | None:
    """The group with the matching lanes that are neither hidden nor pinned."""
    if not group.entries:
        return group if not layout.needle else None
    fitting = [entry for entry in group.entries if pattern.search(entry.name) or pattern.search(entry.key)]
    shown = tuple(entry for entry in fitting if entry.key not in layout.hidden and entry.key not in layout.pinned)
    hidden = sum(entry.key in layout.hidden for entry in fitting)
    if not shown and not hidden:
        return None
    hidden_text = f"{hidden} hidden ({key} shows)" if key else f"{hidden} hidden"
    title = (*group.title, hidden_text) if hidden else group.title
    return replace(group, title=title, entries=shown, all_hidden=not shown)


def _group_by_lane(groups: Sequence[LaneGroup]) -> list[LaneGroup]:
    """Device lanes grouped by name, each with those of all ranks under it; then the other groups."""
    entries_by_name: dict[str, list[LaneEntry]] = {}
    for group in groups:
        for entry in group.entries if group.rank is not None else ():
            entries_by_name.setdefault(entry.name, []).append(replace(entry, name=group.key))
    by_lane = [
        LaneGroup(f"lane {name}", (name, count_noun(len(entries), "rank")), tuple(entries))
        for name, entries in entries_by_name.items()
    ]
    return [*by_lane, *(group for group in groups if group.rank is None or not group.entries)]


def _order_lanes(group: LaneGroup, layout: LaneLayout) -> tuple[LaneEntry, ...]:
    """The lanes of a group in the user's order; new lanes follow."""
    positions = {key: at for at, key in enumerate(layout.order.get(group.key, ()))}
    return (
        tuple(sorted(group.entries, key=lambda entry: positions.get(entry.key, len(positions))))
        if positions
        else group.entries
    )


def _lane_name_pattern(needle: str) -> re.Pattern[str]:
    """The pattern of a filter: a part of the name, case-insensitive, or a regular expression between slashes.

    An invalid expression is taken as text.
    """
    if len(needle) > 1 and needle.startswith("/") and needle.endswith("/"):
        try:
            return re.compile(needle[1:-1], re.IGNORECASE)
        except re.error:
            return re.compile(re.escape(needle[1:-1]), re.IGNORECASE)
    return re.compile(re.escape(needle), re.IGNORECASE)


class Viewport(Struct, frozen=True, dict=True):
    """The visible lines of an outline: `room` lines from line `top` on, below `above` other lines of the screen.

    The lines of `pinned_group`, the first ones, do not scroll, as long as they leave half of the room to others.
    """

    outline: TimelineOutline
    top: int
    room: int
    above: int = 0
    pinned_group: str = ""

    @cached_property
    def pinned_line_count(self) -> int:
        """Number of lines that do not scroll."""
        lines = takewhile(lambda line: line.group.key == self.pinned_group, self.outline.lines)
        return min(sum(1 for _ in lines), max(0, self.room // 2))

    def outline_index(self, at: int) -> int:
        """The index in the outline of visible line `at`."""
        return at if at < self.pinned_line_count else at + self.top

    @property
    def lines(self) -> tuple[TimelineLine, ...]:
        """The visible lines, from the top."""
        first, room = self.pinned_line_count, max(0, self.room)
        return self.outline.lines[:first] + self.outline.lines[self.top + first : self.top + room]

    @property
    def scrolling_lines(self) -> tuple[TimelineLine, ...]:
        """The visible lines that scroll."""
        return self.lines[self.pinned_line_count :]

    @property
    def numbered_lines(self) -> list[tuple[int, TimelineLine]]:
        """The visible lines with their line numbers on the screen."""
        return list(enumerate(self.lines, self.above))

    @property
    def lane_ids(self) -> frozenset[int]:
        """The visible lanes."""
        return frozenset(line.entry.lane for line in self.lines if line.entry is not None)

    @property
    def lane_count(self) -> int:
        """Number of visible lanes."""
        return len(self.lane_ids)

    @property
    def unread_files(self) -> frozenset[int]:
        """The visible files that are not read yet."""
        return frozenset(line.group.part for line in self.lines if line.group.is_unread)

    @property
    def requests(self) -> list[RowsRequest]:
        """Rows to read: lanes first, then the busy intervals of ranks, including the rank of the top line."""
        lines = self.lines
        first = lines[self.pinned_line_count : self.pinned_line_count + 1]
        found = [
            request
            for line in (*lines, *(TimelineLine(line.group) for line in first))
            for request in rows_needed_by_line(line)
        ]
        return sorted(dict.fromkeys(found), key=lambda request: request.of)

    def top_to_show(self, lane: int | None, depth: int | None) -> int:
        """The nearest `top` at which a lane, or one of its rows, is visible, with one line above it."""
        at = self.outline.lines_of_lane(lane, depth)
        if not at or self.room <= 1:
            return self.top
        if at[-1] < self.pinned_line_count:
            return self.top
        low, high = at[0] - 1 - self.pinned_line_count, min(at[-1], at[0] + self.room - self.pinned_line_count - 2)
        return max(0, min(self.top, low), high - self.room + 1)


def rows_needed_by_line(line: TimelineLine) -> tuple[RowsRequest, ...]:
    """The rows to read before a line can be drawn."""
    rank = line.group.rank
    if line.entry is not None:
        return () if line.entry.graph else (RowsRequest("lane", line.entry.lane),)
    return () if rank is None or not line.group.entries else (RowsRequest("rank", rank),)
