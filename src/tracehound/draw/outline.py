"""Which lines a timeline has: groups of lanes, and the rows of each.

Owns the order, the titles, and how deep lanes are cut. Knows no characters and no widths.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from tracehound.trace import Trace

Key = tuple[int, int | None]
"""A group: host, and rank or None for the host's own threads."""


@dataclass(frozen=True)
class Track:
    """A lane as the timeline lists it; `rows` is how many its events need."""

    lane: int
    name: str
    rows: int


@dataclass(frozen=True)
class Group:
    """The lanes of a rank, or the threads of a host. `title` is parts of a phrase, the first the most important."""

    key: Key
    title: tuple[str, ...]
    tracks: tuple[Track, ...]


@dataclass(frozen=True)
class Line:
    """One line: a group's header (`track` None), or a row of a lane.

    `hidden` is how many rows of the lane lie below this one without a line of their own.
    """

    group: Group
    track: Track | None = None
    depth: int = 0
    hidden: int = 0

    @property
    def lane(self) -> int | None:
        """The lane whose row it is."""
        return None if self.track is None else self.track.lane


def groups(trace: Trace, ranks: tuple[int, ...] | None) -> tuple[Group, ...]:
    """The groups of the ranks shown (None: all), in the order of the trace's lanes: each host's ranks, then it."""
    tracks: dict[Key, list[Track]] = {}
    shown = trace.lanes_of(ranks).select("host", "rank", "lane", "name", "rows", "events")
    for host, rank, lane, name, rows, events in shown.iter_rows():
        if events:
            tracks.setdefault((host, rank), []).append(Track(lane, name or "", max(1, rows or 1)))
    titles = _rank_titles(trace)
    return tuple(
        Group(key, titles[key] if key in titles else _host_title(trace, key[0]), tuple(lanes))
        for key, lanes in tracks.items()
    )


def _rank_titles(trace: Trace) -> dict[Key, tuple[str, ...]]:
    columns = trace.ranks.select("host", "rank", "label", "model", "inferred")
    return {
        (host, rank): tuple(filter(None, (f"rank {rank}", label, model, inferred and "rank inferred")))
        for host, rank, label, model, inferred in columns.iter_rows()
    }


def _host_title(trace: Trace, host: int) -> tuple[str, ...]:
    name = trace.hosts[host].name if host < len(trace.hosts) else ""
    return ("host", name) if name else (f"host {host}",)


@dataclass(frozen=True)
class Outline:
    """The groups shown, which of them are folded to one line, which lanes are expanded, and the lines this makes."""

    groups: tuple[Group, ...] = ()
    folded: frozenset[Key] = frozenset()
    expanded: frozenset[int] = frozenset()
    lines: tuple[Line, ...] = ()

    def laid(self, groups: tuple[Group, ...], most: int, deepest: tuple[int, int] | None) -> Outline:
        """The outline of these groups.

        A lane has at most `most` rows, unless it is expanded or `deepest` (lane, depth) asks for more.
        """
        granted = {track.lane: track.rows for group in groups for track in group.tracks if track.lane in self.expanded}
        if deepest is not None:
            lane, depth = deepest
            granted[lane] = max(granted.get(lane, 0), depth + 1)
        return replace(self, groups=groups, lines=tuple(_lines(groups, most, self.folded, granted)))

    def fold(self, key: Key) -> Outline:
        """With this group folded if it was not, or unfolded; to be laid anew."""
        return replace(self, folded=self.folded ^ {key})

    def expand(self, lane: int) -> Outline:
        """With all rows of this lane shown if they were not, or few; to be laid anew."""
        return replace(self, expanded=self.expanded ^ {lane})

    def group_of(self, lane: int | None) -> Group | None:
        """The group that a lane is in."""
        return next((group for group in self.groups for track in group.tracks if track.lane == lane), None)

    def stands_for(self, line: Line, lane: int | None) -> bool:
        """Whether the line is a row of the lane, or the one line of the folded group that it is in."""
        if line.track is not None:
            return line.lane == lane
        return line.group.key in self.folded and any(track.lane == lane for track in line.group.tracks)

    def places(self, lane: int | None, depth: int | None) -> list[int]:
        """Which lines show a lane: the row `depth`, or all its rows."""
        return [
            index
            for index, line in enumerate(self.lines)
            if self.stands_for(line, lane) and (depth is None or line.track is None or line.depth == depth)
        ]

    def stops(self) -> list[tuple[int, int]]:
        """The lanes that a cursor can be on, with the rows that each shows; a folded group is one lane of one row."""
        stops: dict[int, int] = {}
        for line in self.lines:
            if line.track is not None:
                stops[line.track.lane] = line.depth + 1
            elif line.group.key in self.folded:
                stops[line.group.tracks[0].lane] = 1
        return list(stops.items())


def _lines(groups: tuple[Group, ...], most: int, folded: Collection[Key], granted: Mapping[int, int]) -> Iterator[Line]:
    """A header for each group and, unless it is folded, a line per row."""
    for group in groups:
        yield Line(group)
        if group.key in folded:
            continue
        for track in group.tracks:
            count = min(track.rows, max(most, granted.get(track.lane, 0)))
            for depth in range(count - 1):
                yield Line(group, track, depth)
            yield Line(group, track, count - 1, track.rows - count)
