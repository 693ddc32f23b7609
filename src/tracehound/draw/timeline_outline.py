"""The lines of a timeline: groups of lanes, and the rows of each lane. Defines their order and titles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tracehound.model.trace import Trace

GRAPH_HEIGHT = 4
"""Lines of an enlarged graph."""

LEAST_ROWS = 4
"""A lane with more rows has at least this many lines, however small the screen is."""

MOST_ROWS = 100
"""A lane has at most this many lines unless it is expanded, however large the screen is."""

RowOrder = Callable[[int], tuple[int, ...]]
"""Returns the depths of a lane's rows in the order in which they get a line; () from the top."""

GroupKey = tuple[int, int | None]
"""The owner of lanes: host, and rank or None for the host's own threads."""


class LaneEntry(Struct, frozen=True):
    """A lane in the timeline.

    `rows` is the number of rows of its events, and `order` their depths in the order in which they get a line; without
    it from the top. The rows of a graph are one curve: it is drawn on one line, or enlarged on all of them. `key`
    identifies the lane whenever the trace is read.
    """

    lane: int
    name: str
    rows: int
    order: tuple[int, ...] = ()
    graph: bool = False
    key: str = ""

    def visible_depths(self, most: int, wanted: int | None) -> list[int]:
        """The depths with a line: `most` of them, and `wanted` with the rows between that precede it in the order."""
        order = self.order if len(self.order) == self.rows else range(self.rows)
        chosen = sorted(order[:most])
        if wanted is None or wanted in chosen:
            return chosen
        near = min(chosen, key=lambda depth: abs(depth - wanted), default=wanted)
        between = range(min(near, wanted), max(near, wanted) + 1)
        return sorted({*chosen, *(depth for depth in order[: order.index(wanted)] if depth in between), wanted})


HOST_TITLE: Final = "host"
"""The first part of the title of a host's threads, followed by the host name."""


class LaneGroup(Struct, frozen=True):
    """The lanes of a rank or the threads of a host, or a group of the user; `rank` is None for the last two.

    `key` identifies the group whenever the trace is read. `title` has the parts of a phrase, the most important first.
    If there are no entries, its `part` is not read yet, or all its lanes are hidden (`all_hidden`).
    """

    key: str
    title: tuple[str, ...]
    entries: tuple[LaneEntry, ...]
    part: int = 0
    rank: int | None = None
    all_hidden: bool = False

    @property
    def is_unread(self) -> bool:
        """True if its lanes are not known yet."""
        return not self.entries and not self.all_hidden


class TimelineLine(NamedTuple):
    """One line: the header of a group (`entry` None), or a row of a lane.

    `first` marks the first line of a lane, `lines` is the number of its lines, and `hidden`, on the last one, the
    number of its rows without a line.
    """

    group: LaneGroup
    entry: LaneEntry | None = None
    depth: int = 0
    first: bool = False
    hidden: int = 0
    lines: int = 1

    @property
    def lane(self) -> int | None:
        """The lane of the row."""
        return None if self.entry is None else self.entry.lane


def build_lane_groups(
    trace: Trace, ranks: tuple[int, ...] | None, order: RowOrder, unread: frozenset[int] = frozenset()
) -> tuple[LaneGroup, ...]:
    """The groups of the ranks shown (None: all): each host's ranks, then its threads.

    `order` is the order in which the rows of a lane get a line. A rank of an `unread` part, whose lanes are not
    known, is a group without entries.
    """
    entries: dict[GroupKey, list[LaneEntry]] = {key: [] for key in _unread_group_keys(trace, ranks, unread)}
    labels = {(host, rank): label for host, rank, label in trace.ranks.select("host", "rank", "label").iter_rows()}
    shown = trace.lanes_of(ranks).select("host", "rank", "lane", "name", "rows", "events", "role")
    for host, rank, lane, name, rows, events, role in shown.iter_rows():
        if events:
            entry = LaneEntry(lane, name or "", rows, order(lane) if rows > LEAST_ROWS else ())
        elif role == "counter":
            entry = LaneEntry(lane, name or "", GRAPH_HEIGHT, graph=True)
        else:
            continue
        short_name = entry.name.removeprefix(f"{labels.get((host, rank))} ")  # the title of the group has the label
        named_entry = replace(entry, name=short_name or entry.name, key=f"{_group_name((host, rank))}/{entry.name}")
        entries.setdefault((host, rank), []).append(named_entry)
    titles, ranks_by_host = _rank_titles(trace), _ranks_by_host(trace)
    return tuple(
        LaneGroup(
            _group_name(key),
            titles[key] if key in titles else _host_title(trace, key[0], ranks_by_host.get(key[0], []), entries),
            tuple(lanes),
            trace.hosts[key[0]].part if key[0] < len(trace.hosts) else 0,
            key[1],
        )
        for key, lanes in sorted(
            entries.items(), key=lambda item: (ranks_by_host.get(item[0][0], [0])[0], *_group_sort_key(item[0]))
        )
    )


def _group_name(key: GroupKey) -> str:
    """The name of a group."""
    host, rank = key
    return f"host {host}" if rank is None else f"rank {rank}"


def _reorder_rows(group: LaneGroup, orders: Mapping[int, tuple[int, ...]]) -> LaneGroup:
    entries = tuple(replace(entry, order=orders.get(entry.lane, entry.order)) for entry in group.entries)
    return group if entries == group.entries else replace(group, entries=entries)


def _unread_group_keys(trace: Trace, ranks: tuple[int, ...] | None, unread: frozenset[int]) -> list[GroupKey]:
    """The ranks of the files that are not read."""
    if not unread:
        return []
    known = trace.ranks.select("host", "rank").iter_rows()
    shown = ((host, rank) for host, rank in known if ranks is None or rank in ranks)
    return [(host, rank) for host, rank in shown if trace.hosts[host].part in unread]


def _group_sort_key(key: GroupKey) -> tuple[int, bool, int]:
    """Groups are sorted by host, threads after ranks."""
    host, rank = key
    return (host, rank is None, rank or 0)


def _rank_titles(trace: Trace) -> dict[GroupKey, tuple[str, ...]]:
    columns = trace.ranks.select("host", "rank", "label", "model", "inferred")
    return {
        (host, rank): tuple(filter(None, (f"rank {rank}", label, model, inferred and "rank inferred")))
        for host, rank, label, model, inferred in columns.iter_rows()
    }


def _ranks_by_host(trace: Trace) -> dict[int, list[int]]:
    """The ranks of each host in order; hosts are sorted by their first rank."""
    found = dict[int, list[int]]()
    for host, rank in trace.ranks.sort("rank").select("host", "rank").iter_rows():
        found.setdefault(host, []).append(rank)
    return found


def _host_title(trace: Trace, host: int, ranks: Sequence[int], owners: Collection[GroupKey]) -> tuple[str, ...]:
    """The host name. One of several hosts also names its rank, if that is its only one and has no lanes of its own."""
    name = trace.hosts[host].name if host < len(trace.hosts) else ""
    if len(ranks) == 1 < trace.ranks.height and (host, ranks[0]) not in owners:
        return (f"rank {ranks[0]}", name or HOST_TITLE)
    return (HOST_TITLE, name) if name else (f"host {host}",)


class TimelineOutline(Struct, frozen=True):
    """The groups shown, the folded ones, the expanded lanes, and the resulting lines.

    A lane has at most `most` rows. `lines` are those to draw; `usual` those without rows that are only shown for a
    selection.
    """

    groups: tuple[LaneGroup, ...] = ()
    folded: frozenset[str] = frozenset()
    expanded: frozenset[int] = frozenset()
    most: int = LEAST_ROWS
    usual: tuple[TimelineLine, ...] = ()
    lines: tuple[TimelineLine, ...] = ()

    def with_groups(self, groups: tuple[LaneGroup, ...]) -> TimelineOutline:
        """With these groups; folded and expanded ones stay so. The lines must be rebuilt."""
        return replace(self, groups=groups)

    def with_row_order(self, order: RowOrder, lanes: Collection[int]) -> TimelineOutline:
        """With the rows of these lanes in this order; the number of lines stays."""
        entries = (entry for group in self.groups for entry in group.entries)
        deep = {entry.lane for entry in entries if entry.lane in lanes and not entry.graph and entry.rows > LEAST_ROWS}
        orders = {lane: found for lane in deep if (found := order(lane))}
        groups = tuple(_reorder_rows(group, orders) for group in self.groups)
        return self if groups == self.groups else replace(self, groups=groups).with_new_lines()

    def fitted_to(self, room: int) -> TimelineOutline:
        """The outline on a screen of `room` lines.

        All lanes have as many rows as they need, or as many as let all lanes fit, but at least `LEAST_ROWS`. Expanded
        lanes have all rows.
        """
        fixed = len(self.groups)
        rows: list[int] = []
        for group in self.groups:
            for entry in group.entries if group.key not in self.folded else ():
                if entry.graph or entry.lane in self.expanded:
                    fixed += self._max_rows(entry)
                else:
                    rows.append(entry.rows)
        most = LEAST_ROWS
        while most < MOST_ROWS and fixed + sum(min(count, most + 1) for count in rows) <= room:
            most += 1
        return replace(self, most=most).with_new_lines()

    def with_new_lines(self) -> TimelineOutline:
        """With lines rebuilt from the other fields."""
        lines = self._lines(None)
        return replace(self, usual=lines, lines=lines)

    def with_row_shown(self, lane: int, depth: int) -> TimelineOutline:
        """With this row of this lane among the lines, and the rows between it and the usual ones."""
        entry = next((entry for group in self.groups for entry in group.entries if entry.lane == lane), None)
        if entry is None or depth in entry.visible_depths(self._max_rows(entry), None):
            return self.with_usual_lines()
        return replace(self, lines=self._lines((lane, depth)))

    def with_usual_lines(self) -> TimelineOutline:
        """With the usual lines."""
        return self if self.lines is self.usual else replace(self, lines=self.usual)

    def _max_rows(self, entry: LaneEntry) -> int:
        if entry.lane in self.expanded:
            return entry.rows
        return 1 if entry.graph else self.most

    def _lines(self, deepest: tuple[int, int] | None) -> tuple[TimelineLine, ...]:
        """A header for each group and, unless it is folded, a line per row."""
        made: list[TimelineLine] = []
        for group in self.groups:
            made.append(TimelineLine(group))
            for entry in group.entries if group.key not in self.folded else ():
                wanted = deepest[1] if deepest is not None and deepest[0] == entry.lane else None
                shown = entry.visible_depths(self._max_rows(entry), wanted)
                hidden = 0 if entry.graph else entry.rows - len(shown)
                made += [
                    TimelineLine(
                        group, entry, depth, depth == shown[0], hidden if depth == shown[-1] else 0, len(shown)
                    )
                    for depth in shown
                ]
        return tuple(made)

    def toggle_fold(self, key: str) -> TimelineOutline:
        """With this group folded or unfolded; the lines must be rebuilt."""
        return replace(self, folded=self.folded ^ {key})

    def toggle_expansion(self, lane: int) -> TimelineOutline:
        """With all rows of this lane shown, or few again; the lines must be rebuilt."""
        return replace(self, expanded=self.expanded ^ {lane})

    def group_of(self, lane: int | None) -> LaneGroup | None:
        """The group of a lane."""
        return next((group for group in self.groups for entry in group.entries if entry.lane == lane), None)

    def line_shows_lane(self, line: TimelineLine, lane: int | None) -> bool:
        """True if the line is a row of the lane, or the header of the folded group that contains it."""
        if line.entry is not None:
            return line.lane == lane
        return line.group.key in self.folded and any(entry.lane == lane for entry in line.group.entries)

    def lines_of_lane(self, lane: int | None, depth: int | None) -> list[int]:
        """Indices of the lines that show a lane: the row `depth`, or all its rows."""
        return [
            index
            for index, line in enumerate(self.lines)
            if self.line_shows_lane(line, lane) and (depth is None or line.entry is None or line.depth == depth)
        ]

    def find_line(self, line: TimelineLine) -> int | None:
        """The index in this outline of a line of another one, else of the header of its group."""
        at = {(other.group.key, other.lane, other.depth): index for index, other in enumerate(self.lines)}
        return at.get((line.group.key, line.lane, line.depth), at.get((line.group.key, None, 0)))

    def cursor_stops(self) -> list[tuple[int, int]]:
        """The lanes that a cursor can be on, and the number of rows of each; a folded group is one lane of one row."""
        stops: dict[int, int] = {}
        for line in self.lines:
            if line.entry is not None:
                stops[line.entry.lane] = line.depth + 1
            elif line.group.key in self.folded and line.group.entries:
                stops[line.group.entries[0].lane] = 1
        return list(stops.items())
