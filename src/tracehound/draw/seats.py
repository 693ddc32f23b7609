"""How a person has arranged the lanes: which are hidden, pinned to the top, moved, filtered, and how they are grouped.

Owns that value and what it makes of the groups. Lanes and groups go by names that stay the same when the trace is read
again (``rank 3/stream 7``), so that the value can be kept. Knows no lines and no widths.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.draw.outline import Group, Track
from tracehound.units import plural

Grouping = Literal["rank", "lane"]
"""Lanes of one rank under each other, or lanes of one name: the same stream of all ranks."""

PINNED = "pinned"
"""The group of pinned lanes, which stays in sight."""


class Seats(Struct, frozen=True):
    """Lanes and groups by name. `order` has, for each group in which lanes were moved, all of them in their order.

    `needle` is a part of the names that are shown, or a regular expression between slashes; "" shows all.
    """

    hidden: frozenset[str] = frozenset()
    pinned: tuple[str, ...] = ()
    order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    needle: str = ""
    grouping: Grouping = "rank"

    def hide(self, lane: str) -> Seats:
        """Without this lane."""
        return replace(self, hidden=self.hidden | {lane}, pinned=tuple(key for key in self.pinned if key != lane))

    def all(self) -> Seats:
        """With every lane."""
        return replace(self, hidden=frozenset(), needle="")

    def pin(self, lane: str) -> Seats:
        """With this lane at the top, or back in its place if it was there."""
        others = tuple(key for key in self.pinned if key != lane)
        return replace(self, pinned=others if lane in self.pinned else (*others, lane))

    def move(self, seated: Sequence[Group], lane: str, by: int) -> Seats:
        """With this lane `by` places further down among those of its group; at the end nothing changes."""
        for group in seated:
            keys = [track.key for track in group.tracks]
            if lane not in keys:
                continue
            at, to = keys.index(lane), keys.index(lane) + by
            if not 0 <= to < len(keys):
                return self
            keys.insert(to, keys.pop(at))
            if group.key == PINNED:
                return replace(self, pinned=tuple(keys))
            return replace(self, order={**self.order, group.key: tuple(keys)})
        return self

    def regroup(self) -> Seats:
        """With the other grouping."""
        return replace(self, grouping="lane" if self.grouping == "rank" else "rank")

    def plain(self) -> dict[str, Any]:
        """The same as plain values, to be written down; only what is not as usual."""
        values = {
            "hidden": sorted(self.hidden),
            "pinned": list(self.pinned),
            "order": {group: list(lanes) for group, lanes in self.order.items()},
            "needle": self.needle,
            "grouping": self.grouping if self.grouping != "rank" else "",
        }
        return {name: value for name, value in values.items() if value}


def seats_of(plain: Mapping[str, Any]) -> Seats:
    """What `plain` wrote; whatever is not as it wrote it is left out."""
    order = plain.get("order")
    return Seats(
        frozenset(texts(plain.get("hidden"))),
        texts(plain.get("pinned")),
        {str(group): texts(lanes) for group, lanes in order.items()} if isinstance(order, Mapping) else {},
        needle if isinstance(needle := plain.get("needle"), str) else "",
        "lane" if plain.get("grouping") == "lane" else "rank",
    )


def texts(value: object) -> tuple[str, ...]:
    """The words of a list; nothing where it is none."""
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, Sequence) else ()


def seated(groups: Sequence[Group], seats: Seats, key: str = "") -> tuple[Group, ...]:
    """The groups as they were arranged; the pinned lanes are the first. `key` is what shows the hidden ones again.

    A group whose lanes are all hidden keeps its header, one of which no lane fits the needle is left out.
    """
    if seats == Seats():
        return tuple(groups)
    wanted = _matcher(seats.needle)
    kept = [_kept(group, seats, wanted, key) for group in groups]
    known = {track.key: (track, group) for group in groups for track in group.tracks}
    pins = [known[key] for key in seats.pinned if key in known]
    several = sum(group.rank is not None for group in groups) > 1 or len({group.key for _, group in pins}) > 1
    tops = tuple(replace(track, name=f"{group.key} {track.name}" if several else track.name) for track, group in pins)
    rest = [group for group in kept if group is not None]
    if seats.grouping == "lane":
        rest = _by_lane(rest)
    ordered = (replace(group, tracks=_ordered(group, seats)) for group in rest)
    return (*([Group(PINNED, (PINNED,), tops)] if tops else []), *ordered)


def _kept(group: Group, seats: Seats, wanted: re.Pattern[str], key: str) -> Group | None:
    """The group with the lanes that are neither hidden nor pinned, and fit."""
    if not group.tracks:
        return group if not seats.needle else None
    fitting = [track for track in group.tracks if wanted.search(track.name) or wanted.search(track.key)]
    shown = tuple(track for track in fitting if track.key not in seats.hidden and track.key not in seats.pinned)
    hidden = sum(track.key in seats.hidden for track in fitting)
    if not shown and not hidden:
        return None
    said = f"{hidden} hidden ({key} shows)" if key else f"{hidden} hidden"
    title = (*group.title, said) if hidden else group.title
    return replace(group, title=title, tracks=shown, bare=not shown)


def _by_lane(groups: Sequence[Group]) -> list[Group]:
    """The lanes of devices by their names, each with those of all ranks under it; then the other groups."""
    named: dict[str, list[Track]] = {}
    for group in groups:
        for track in group.tracks if group.rank is not None else ():
            named.setdefault(track.name, []).append(replace(track, name=group.key))
    by_lane = [
        Group(f"lane {name}", (name, plural(len(tracks), "rank")), tuple(tracks)) for name, tracks in named.items()
    ]
    return [*by_lane, *(group for group in groups if group.rank is None or not group.tracks)]


def _ordered(group: Group, seats: Seats) -> tuple[Track, ...]:
    """The lanes of a group in the order in which they were put; those that were not known then follow."""
    place = {key: at for at, key in enumerate(seats.order.get(group.key, ()))}
    return tuple(sorted(group.tracks, key=lambda track: place.get(track.key, len(place)))) if place else group.tracks


def _matcher(needle: str) -> re.Pattern[str]:
    """What fits: a part of the name, in any case, or a regular expression between slashes; a broken one is text."""
    if len(needle) > 1 and needle.startswith("/") and needle.endswith("/"):
        try:
            return re.compile(needle[1:-1], re.IGNORECASE)
        except re.error:
            return re.compile(re.escape(needle[1:-1]), re.IGNORECASE)
    return re.compile(re.escape(needle), re.IGNORECASE)
