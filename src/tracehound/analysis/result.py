"""What an analysis is, and what it gives back.

Owns `Result` and `Column` (the only things a pane or a writer needs), `Analysis` (a map over ranks and a combine), the
`Share` of a trace that a map sees, and `Options`. Knows no file, width or colour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar, cast

import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.analysis.limits import UNLIMITED, Limits
from tracehound.analysis.settings import Given, Setting
from tracehound.facets import empty
from tracehound.file_facts import FileFacts
from tracehound.formats.residency import UNKNOWN, Device
from tracehound.notes import Note, note
from tracehound.trace import PROFILERS, Host, Profiler

Unit = Literal[
    "text", "time", "bytes", "count", "share", "rate", "instant", "flag", "id", "host", "number", "decimal",
    "difference", "growth", "depth", "prose", "flops", "note",
]  # fmt: skip
"""What a column's raw numbers are: `time` and `instant` (since the origin) in ps, `rate` in bytes per second, `share`
a fraction of the base that the column names, `id` an event of the trace (never shown, only followed), `host` a list of
`COVER` structs: what host threads did meanwhile, `number` any other number, which is shown as it is, `decimal` one with
a fraction, such as an average of counts, `difference` a time with its sign, `growth` a difference as a fraction of what
it is compared with, `depth` how deep in a tree a row lies (0: at a root; it has no words of its own: the first column
of text is indented by it, and rows come depth first), `prose` a sentence, which is read whole and not cut,
`flops` floating point operations per second, `note` a `Note` in JSON, of which whoever shows it makes a sentence."""

TEXTS: tuple[Unit, ...] = ("text", "prose", "note")
"""Units whose values are words."""

COVER = pl.List(
    pl.Struct(
        {"thread": pl.String, "event": pl.String, "inside": pl.String, "share": pl.Float64, "time": pl.Int64},
    )
)


class Column(Struct, frozen=True):
    """One column of a result: its name in the raw table, its unit, and what it means in one line.

    `base` says of what a share is a share. `brief` columns are the ones a narrow screen keeps; of those into which one
    time is taken `apart`, rather what takes most of it. What is `found` of a row does not say which one it is, however
    much rows differ in it.
    """

    name: str
    unit: Unit
    meaning: str
    base: str = ""
    brief: bool = True
    found: bool = False
    apart: bool = False


class Result(Struct, frozen=True, eq=False):
    """Raw numbers with their units; `table` holds one column for each of `columns`, in that order.

    `total` is the number of rows before any cut. `about` says what the figures are of where that is neither the window
    nor the whole run. A column ``event`` of unit `id` leads from a row to its event in the
    timeline; the columns ``start`` (an `instant`) and ``duration`` bound the row's own window.
    """

    analysis: str
    title: str
    columns: tuple[Column, ...]
    table: pl.DataFrame
    total: int
    notes: tuple[Note, ...] = ()
    window: tuple[int, int] | None = None
    about: str = ""

    @property
    def cut(self) -> str:
        """``40 of 1,312 rows`` when rows are left out, else nothing."""
        return f"{self.table.height:,} of {self.total:,} rows" if self.table.height < self.total else ""

    def column(self, name: str) -> Column:
        """The column of that name; KeyError when there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


class Options(Struct, frozen=True):
    """What a caller may ask of any analysis: at most `top` rows (None: all), and what is `given` of its settings.

    With `members` the table of an analysis that `counts` events has one more column `MEMBERS`: which they are.
    """

    top: int | None = None
    given: Given = ()
    members: bool = False


MEMBERS: Final = "counted"
"""The column with the ids of the events that each row counts."""

SETTING: Final = "setting_chosen"
"""The note that names a setting that was chosen, and its value."""


class Share(Struct, frozen=True, dict=True):
    """One rank's share of a trace, in one window: what a map sees.

    `device` holds the events on the rank's own lanes that overlap `[start, end)`, `anytime` all on these lanes, and
    `threads` all events of its host, whenever they ran (a launch may lie before the window, and what it launched after
    it); lazily, in the schema `EVENTS`, with unclipped times. `lanes` and `steps` are the rows of the trace's frames
    that belong to the rank, steps in the order of their starts, `ops` those of its file. `lanes.begin` is the id of a
    lane's first event, and `lanes.low` its row in `anytime` or `threads`.
    Without a window (not `windowed`) the bounds are those of the trace. Where steps are `asked` for by their numbers,
    the bounds are those of the rank's own, and `hosted` goes over those of all ranks that its host drives.
    `limits` are those of the window of which its file is an export.
    `part` is the number of its file in the trace, and `home` where that lies in a cache.
    `ordinal` is the number that the file gives the rank's device, and `properties` what it says of that. `profiler`
    recorded it. `assigned` has the replicas and partitions of the programs that the file tells of. `known` are the
    answers that were found before to questions about the `host`, `answers` those found in this map to questions about
    the rank. `alone` says that the trace has no other rank.
    """

    rank: int
    host: int
    label: str
    device: pl.LazyFrame
    anytime: pl.LazyFrame
    threads: pl.LazyFrame
    lanes: pl.DataFrame
    steps: pl.DataFrame
    ops: pl.DataFrame
    start: int
    end: int
    windowed: bool
    limits: Limits = UNLIMITED
    part: int = 0
    home: Path | None = None
    facets: Mapping[str, pl.LazyFrame] = field(default_factory=dict)
    ordinal: int | None = None
    properties: Device = UNKNOWN
    profiler: Profiler = "XLA"
    assigned: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    asked: tuple[int, ...] | None = None
    hosted: tuple[int, int] | None = None
    known: Mapping[tuple[OfHost[Any], Given], Any] = field(default_factory=dict)
    answers: dict[OfRank[Any], Any] = field(default_factory=dict)
    alone: bool = False

    @cached_property
    def place(self) -> bytes:
        """Differs where the place of its part in the trace does: hashes of its lanes and steps."""
        return b"".join(frame.hash_rows().to_numpy().tobytes() for frame in (self.lanes, self.steps))

    @property
    def chosen(self) -> pl.Expr:
        """Which of the rank's steps (step, start, end) are meant: those asked for, else those that overlap the window.

        What was asked for is known by its number: the work of a step may run after its mark, and so after the window.
        """
        if self.asked is not None:
            return pl.col("step").is_in(list(self.asked))
        return (pl.col("start") < self.end) & (pl.col("end") > self.start)

    @property
    def on_host(self) -> Share:
        """The same with the window of the host, which is one for all ranks that it drives."""
        return self if self.hosted is None else replace(self, start=self.hosted[0], end=self.hosted[1])

    def facet(self, name: str) -> pl.LazyFrame:
        """What events of the rank's file carry, in a schema of `FACETS`; join it to events by `record`."""
        return self.facets.get(name, empty(name))


T = TypeVar("T")


class OfHost(Struct, Generic[T], frozen=True):
    """A question about the threads of a host: all the ranks that it drives have one answer, and it is asked once.

    `make` answers it from the share of any of these `on_host`, of which it looks at no more than `threads`, the host's
    `lanes` and the window, and from what is chosen of `settings` (their names). Question and answer travel between
    processes, but where it is less work to answer again than to send what is as long as the events (not `travels`).
    """

    make: Callable[[Share, Given], T]
    settings: tuple[str, ...] = ()
    travels: bool = True

    def given(self, given: Given) -> Given:
        """What of these choices the answer depends on."""
        return tuple(choice for choice in given if choice[0] in self.settings)

    def of(self, share: Share, given: Given = ()) -> T:
        """The answer: that which was found before, else now."""
        found = self.found(share, given)
        return self.make(share.on_host, self.given(given)) if found is None else found

    def found(self, share: Share, given: Given = ()) -> T | None:
        """The answer that was found before, None without one: where less than all of it will do, that is made now."""
        return share.known.get((self, self.given(given)))


class OfRank(Struct, Generic[T], frozen=True):
    """A question about a rank that several analyses have, whatever the window: those of one map ask it once.

    `make` answers it from a share, of which it looks at nothing that a window changes, and from what whoever asks has
    read anyway, which is always the same.
    """

    make: Callable[..., T]

    def of(self, share: Share, *read: pl.DataFrame) -> T:
        """The answer: that which was found in this map, else now."""
        if self not in share.answers:
            share.answers[self] = self.make(share, *read)
        return cast("T", share.answers[self])


class Scene(Struct, frozen=True):
    """What a combine may know besides the small tables: no events.

    `spans` has start and end of the window on each rank, which differ where it is one of steps; `read` the notes of
    each file, in the order of `formats` and `facts`; `walled` is whether the files share a wall clock, and `recorded`
    when each of them was recorded by the one that it has, whether or not the trace is on it (Unix, ns).
    """

    hosts: tuple[Host, ...]
    ranks: pl.DataFrame
    steps: pl.DataFrame
    notes: tuple[Note, ...]
    start: int
    end: int
    windowed: bool
    formats: tuple[str, ...]
    facts: tuple[FileFacts, ...]
    spans: tuple[tuple[int, int], ...] = ()
    read: tuple[tuple[Note, ...], ...] = ()
    walled: bool = False
    recorded: tuple[tuple[int, int] | None, ...] = ()

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The window's bounds, None for the whole run."""
        return (self.start, self.end) if self.windowed else None

    @property
    def profilers(self) -> frozenset[Profiler]:
        """Who recorded the files."""
        return frozenset(PROFILERS[form] for form in self.formats)

    @property
    def pytorch(self) -> bool:
        """Whether PyTorch recorded all of them."""
        return self.profilers == {"PyTorch"}

    @property
    def xla(self) -> bool:
        """Whether XLA recorded all of them, to whose users PyTorch's words say nothing."""
        return self.profilers == {"XLA"}


_TYPES: Mapping[Unit, pl.DataType] = {
    "text": pl.String(),
    "prose": pl.String(),
    "note": pl.String(),
    "share": pl.Float64(),
    "rate": pl.Float64(),
    "decimal": pl.Float64(),
    "growth": pl.Float64(),
    "flops": pl.Float64(),
    "flag": pl.Boolean(),
    "host": COVER,
}


def share_of(column: str, base: int) -> pl.Expr:
    """Which part a column is of a base; null without one."""
    return pl.col(column) / base if base else pl.lit(None, pl.Float64)


def blank(columns: Sequence[Column]) -> pl.DataFrame:
    """A table of these columns without rows."""
    return pl.DataFrame(schema={column.name: _TYPES.get(column.unit, pl.Int64()) for column in columns})


def answer(
    analysis: Analysis, table: pl.DataFrame, scene: Scene, options: Options, notes: Sequence[Note] = ()
) -> Result:
    """The result of an analysis: the columns it declares, in their order and types, cut to what was asked for."""
    names = [column.name for column in analysis.columns]
    whole = table.select(names).cast(blank(analysis.columns).schema)
    if options.members and analysis.counts in names and MEMBERS in table.columns:
        none = pl.lit([], pl.List(pl.Int64))
        whole = whole.with_columns(table[MEMBERS].cast(pl.List(pl.Int64))).with_columns(pl.col(MEMBERS).fill_null(none))
    shown = whole if options.top is None else whole.head(options.top)
    told = [*notes, *(note(SETTING, name=name, value=value) for name, value in options.given)]
    return Result(analysis.name, analysis.title, analysis.columns, shown, whole.height, tuple(told), scene.bounds)


def without(analysis: Analysis, scene: Scene, options: Options, *notes: Note) -> Result:
    """The result of an analysis that has no rows here; the notes say why."""
    return answer(analysis, blank(analysis.columns), scene, options, notes)


def stacked(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows of all ranks' tables, one after the other; nothing at all, not even columns, where none has any."""
    filled = [table for table in tables if table.height]
    return pl.concat(filled, how="vertical_relaxed") if filled else pl.DataFrame()


class Analysis(Struct, frozen=True, eq=False):
    """A question about a trace: `per_rank` runs where one rank's events are, `combine` sees only its small tables.

    `question` is what it answers, in the user's words; `definition` says how its numbers are defined and where peers
    differ, for `--explain`. `settings` are what a caller may choose of it. `of_host` are the questions about a host
    that the maps of its ranks have in common. One `of_devices` asks for nothing but the ops of devices where there are
    any: their times, no matter when, but not what launched them, nor in which step. The map of one that `cuts` makes no
    more rows than are asked for. `counts` is the column that says how many events of the trace a row stands for, where
    rows do: those that `Options.members` asks for. `by` has the columns of rows of another sort, under what the setting
    of that name is then.
    """

    name: str
    title: str
    question: str
    definition: str
    columns: tuple[Column, ...]
    per_rank: Callable[[Share, Options], pl.DataFrame]
    combine: Callable[[Sequence[pl.DataFrame], Scene, Options], Result]
    settings: tuple[Setting[Any], ...] = ()
    of_host: tuple[OfHost[Any], ...] = ()
    of_devices: bool = False
    cuts: bool = False
    counts: str = ""
    by: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)

    def shown(self, given: Given) -> Analysis:
        """The same with the columns that its rows have where this is chosen."""
        return replace(self, columns=self.by.get(dict(given).get("by", ""), self.columns))

    def mapped(self, options: Options) -> Options:
        """The options of the map: those of one table, however many rows of it are shown."""
        return options if self.cuts else replace(options, top=None)
