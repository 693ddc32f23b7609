"""Which lines a timeline has: groups of lanes, and the rows of each.

Owns the order, the titles, and how deep lanes are cut. Knows no characters and no widths.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tracehound.trace import Trace

HEIGHT = 4
"""Lines of a graph that is shown large."""

LEAST_ROWS = 4
"""A lane has so many rows, if it needs them, however small the screen."""

MOST_ROWS = 100
"""And no more than so many, however large it is."""

Order = Callable[[int], tuple[int, ...]]
"""A lane -> the depths of its rows in the order in which they get a line; () from the top."""

Key = tuple[int, int | None]
"""Where lanes are: host, and rank or None for the host's own threads."""


class Track(Struct, frozen=True):
    """A lane as the timeline lists it.

    `rows` is how many its events need, and `order` their depths in the order in which they get a line; without it from
    the top. The rows of a graph are one curve: it is drawn on one line, or large on all of them. `key` names the lane
    in every reading of the trace.
    """

    lane: int
    name: str
    rows: int
    order: tuple[int, ...] = ()
    graph: bool = False
    key: str = ""

    def shown(self, most: int, wanted: int | None) -> list[int]:
        """The depths that have lines: `most` of them, and `wanted` with those between that come before it."""
        order = self.order if len(self.order) == self.rows else range(self.rows)
        chosen = sorted(order[:most])
        if wanted is None or wanted in chosen:
            return chosen
        near = min(chosen, key=lambda depth: abs(depth - wanted), default=wanted)
        between = range(min(near, wanted), max(near, wanted) + 1)
        return sorted({*chosen, *(depth for depth in order[: order.index(wanted)] if depth in between), wanted})


HOST: Final = "host"
"""The first part of the title of a host's threads; the name after it goes on with the phrase."""


class Group(Struct, frozen=True):
    """The lanes of a rank, the threads of a host, or what was put together; `rank` is None for all but the first.

    `key` names the group in every reading of the trace. `title` is parts of a phrase, the first the most important.
    Without tracks its `part` is not read yet, unless it is `bare`: then all its lanes are hidden.
    """

    key: str
    title: tuple[str, ...]
    tracks: tuple[Track, ...]
    part: int = 0
    rank: int | None = None
    bare: bool = False

    @property
    def unread(self) -> bool:
        """Whether nothing is known of its lanes yet."""
        return not self.tracks and not self.bare


class Line(NamedTuple):
    """One line: a group's header (`track` None), or a row of a lane.

    `first` marks the first line of a lane, `lines` is how many it has, and `hidden`, on the last one, how many of its
    rows have no line.
    """

    group: Group
    track: Track | None = None
    depth: int = 0
    first: bool = False
    hidden: int = 0
    lines: int = 1

    @property
    def lane(self) -> int | None:
        """The lane whose row it is."""
        return None if self.track is None else self.track.lane


def groups(
    trace: Trace, ranks: tuple[int, ...] | None, order: Order, unread: frozenset[int] = frozenset()
) -> tuple[Group, ...]:
    """The groups of the ranks shown (None: all): each host's ranks, then its threads.

    `order` says in which order the rows of a lane get a line. A rank of an `unread` part, of which no lane is known, is
    a group without tracks.
    """
    tracks: dict[Key, list[Track]] = {key: [] for key in _unread(trace, ranks, unread)}
    labels = {(host, rank): label for host, rank, label in trace.ranks.select("host", "rank", "label").iter_rows()}
    shown = trace.lanes_of(ranks).select("host", "rank", "lane", "name", "rows", "events", "role")
    for host, rank, lane, name, rows, events, role in shown.iter_rows():
        if events:
            track = Track(lane, name or "", rows, order(lane) if rows > LEAST_ROWS else ())
        elif role == "counter":
            track = Track(lane, name or "", HEIGHT, graph=True)
        else:
            continue
        bare = track.name.removeprefix(f"{labels.get((host, rank))} ")  # which the title of the group says
        named = replace(track, name=bare or track.name, key=f"{_key((host, rank))}/{track.name}")
        tracks.setdefault((host, rank), []).append(named)
    titles, driven = _rank_titles(trace), _driven(trace)
    return tuple(
        Group(
            _key(key),
            titles[key] if key in titles else _host_title(trace, key[0], driven.get(key[0], []), tracks),
            tuple(lanes),
            trace.hosts[key[0]].part if key[0] < len(trace.hosts) else 0,
            key[1],
        )
        for key, lanes in sorted(tracks.items(), key=lambda item: (driven.get(item[0][0], [0])[0], *_place(item[0])))
    )


def _key(key: Key) -> str:
    """The name of a group."""
    host, rank = key
    return f"host {host}" if rank is None else f"rank {rank}"


def _ordered(group: Group, orders: Mapping[int, tuple[int, ...]]) -> Group:
    tracks = tuple(replace(track, order=orders.get(track.lane, track.order)) for track in group.tracks)
    return group if tracks == group.tracks else replace(group, tracks=tracks)


def _unread(trace: Trace, ranks: tuple[int, ...] | None, unread: frozenset[int]) -> list[Key]:
    """The ranks of the parts that are not read."""
    if not unread:
        return []
    known = trace.ranks.select("host", "rank").iter_rows()
    shown = ((host, rank) for host, rank in known if ranks is None or rank in ranks)
    return [(host, rank) for host, rank in shown if trace.hosts[host].part in unread]


def _place(key: Key) -> tuple[int, bool, int]:
    """Where a group stands: host by host, the threads after the ranks."""
    host, rank = key
    return (host, rank is None, rank or 0)


def _rank_titles(trace: Trace) -> dict[Key, tuple[str, ...]]:
    columns = trace.ranks.select("host", "rank", "label", "model", "inferred")
    return {
        (host, rank): tuple(filter(None, (f"rank {rank}", label, model, inferred and "rank inferred")))
        for host, rank, label, model, inferred in columns.iter_rows()
    }


def _driven(trace: Trace) -> dict[int, list[int]]:
    """The ranks of each host in their order; hosts stand in the order of the first of these."""
    found = dict[int, list[int]]()
    for host, rank in trace.ranks.sort("rank").select("host", "rank").iter_rows():
        found.setdefault(host, []).append(rank)
    return found


def _host_title(trace: Trace, host: int, ranks: Sequence[int], tracks: Collection[Key]) -> tuple[str, ...]:
    """Its name; of several the rank that it drives, where it drives no other and that has no lanes of its own."""
    name = trace.hosts[host].name if host < len(trace.hosts) else ""
    if len(ranks) == 1 < trace.ranks.height and (host, ranks[0]) not in tracks:
        return (f"rank {ranks[0]}", name or HOST)
    return (HOST, name) if name else (f"host {host}",)


class Outline(Struct, frozen=True):
    """The groups shown, which of them are folded to one line, which lanes are expanded, and the lines this makes.

    A lane has at most `most` rows. `lines` are those to draw; `usual` those without what is only shown because it is
    selected.
    """

    groups: tuple[Group, ...] = ()
    folded: frozenset[str] = frozenset()
    expanded: frozenset[int] = frozenset()
    most: int = LEAST_ROWS
    usual: tuple[Line, ...] = ()
    lines: tuple[Line, ...] = ()

    def of(self, groups: tuple[Group, ...]) -> Outline:
        """With these groups, to be laid anew; what was folded and expanded stays so."""
        return replace(self, groups=groups)

    def ordered(self, order: Order, lanes: Collection[int]) -> Outline:
        """With the rows of these lanes in this order; as many lines as before."""
        tracks = (track for group in self.groups for track in group.tracks)
        deep = {track.lane for track in tracks if track.lane in lanes and not track.graph and track.rows > LEAST_ROWS}
        orders = {lane: found for lane in deep if (found := order(lane))}
        groups = tuple(_ordered(group, orders) for group in self.groups)
        return self if groups == self.groups else replace(self, groups=groups).settled()

    def laid(self, room: int) -> Outline:
        """The outline on a screen of `room` lines.

        All lanes have as many rows as they need, or as many as lets all lanes fit; but not fewer than `LEAST_ROWS`.
        What is expanded has all rows.
        """
        fixed = len(self.groups)
        rows: list[int] = []
        for group in self.groups:
            for track in group.tracks if group.key not in self.folded else ():
                if track.graph or track.lane in self.expanded:
                    fixed += self._most(track)
                else:
                    rows.append(track.rows)
        most = LEAST_ROWS
        while most < MOST_ROWS and fixed + sum(min(count, most + 1) for count in rows) <= room:
            most += 1
        return replace(self, most=most).settled()

    def settled(self) -> Outline:
        """With lines made anew of the rest."""
        lines = self._lines(None)
        return replace(self, usual=lines, lines=lines)

    def showing(self, lane: int, depth: int) -> Outline:
        """With this row of this lane among the lines, and the rows from there to the usual ones."""
        track = next((track for group in self.groups for track in group.tracks if track.lane == lane), None)
        if track is None or depth in track.shown(self._most(track), None):
            return self.relaxed()
        return replace(self, lines=self._lines((lane, depth)))

    def relaxed(self) -> Outline:
        """With the usual lines."""
        return self if self.lines is self.usual else replace(self, lines=self.usual)

    def _most(self, track: Track) -> int:
        if track.lane in self.expanded:
            return track.rows
        return 1 if track.graph else self.most

    def _lines(self, deepest: tuple[int, int] | None) -> tuple[Line, ...]:
        """A header for each group and, unless it is folded, a line per row."""
        made: list[Line] = []
        for group in self.groups:
            made.append(Line(group))
            for track in group.tracks if group.key not in self.folded else ():
                wanted = deepest[1] if deepest is not None and deepest[0] == track.lane else None
                shown = track.shown(self._most(track), wanted)
                hidden = 0 if track.graph else track.rows - len(shown)
                made += [
                    Line(group, track, depth, depth == shown[0], hidden if depth == shown[-1] else 0, len(shown))
                    for depth in shown
                ]
        return tuple(made)

    def fold(self, key: str) -> Outline:
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

    def find(self, line: Line) -> int | None:
        """Where a line of another outline is in this one, else the header of its group."""
        at = {(other.group.key, other.lane, other.depth): index for index, other in enumerate(self.lines)}
        return at.get((line.group.key, line.lane, line.depth), at.get((line.group.key, None, 0)))

    def stops(self) -> list[tuple[int, int]]:
        """The lanes that a cursor can be on, and how deep each shows; a folded group is one lane of one row."""
        stops: dict[int, int] = {}
        for line in self.lines:
            if line.track is not None:
                stops[line.track.lane] = line.depth + 1
            elif line.group.key in self.folded and line.group.tracks:
                stops[line.group.tracks[0].lane] = 1
        return list(stops.items())
