"""Analyses and their results: `Analysis` (a map over ranks and a combine), `Options`, `Result` and `Column`.

A pane or a writer needs only `Result` and `Column`. Results may be trees (a column of unit `depth`), and may carry the
ids of the events that each row counts. Knows no file, width or color.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.analysis.analysis_settings import ChosenSettings, Setting
from tracehound.analysis.rank_trace import (
    RankTrace,
    RunContext,
    SharedHostResult,
)
from tracehound.model.notes import Note, note
from tracehound.model.stacked_frames import stacks_of
from tracehound.numeric.intervals import Ints
from tracehound.numeric.trees import trees_from_depths

Unit = Literal[
    "text", "time", "bytes", "count", "share", "rate", "instant", "flag", "id", "host", "number", "decimal",
    "difference", "growth", "depth", "prose", "flops", "note",
]  # fmt: skip
"""Units of columns, whose values are raw numbers.

`time` and `instant` (since the origin) are in ps, `rate` in bytes per second, `share` is a fraction of the base that
the column names. `id` is an event of the trace (never shown, only followed). `host` is a list of `HOST_ACTIVITY`
structs: the activity of host threads. `number` is any other number, shown as it is, `decimal` one with a fraction, such
as an average of counts. `difference` is a time with its sign, `growth` a difference as a fraction of the compared
value. `depth` is the depth of a row in a tree (0: a root); it is not shown: the first column of text is indented by it,
and rows come depth first. `prose` is a sentence, which is not cut. `flops` is floating point operations per second.
`note` is a `Note` in JSON, shown as a sentence.
"""

TEXT_UNITS: tuple[Unit, ...] = ("text", "prose", "note")
"""Units whose values are text."""

HOST_ACTIVITY = pl.List(
    pl.Struct(
        {"thread": pl.String, "event": pl.String, "inside": pl.String, "share": pl.Float64, "time": pl.Int64},
    )
)


class Column(Struct, frozen=True):
    """One column of a result: its name in the raw table, its unit, and its meaning in one line.

    `base` names the base of a share. Narrow screens keep the `brief` columns; of columns that are parts of one time
    (`is_part`) they prefer the largest. A `non_key` column does not identify a row, however much rows differ in it.
    `null_text` stands for null in text and csv, where null is no unknown value: "all" for the row of all ranks.
    """

    name: str
    unit: Unit
    meaning: str
    base: str = ""
    brief: bool = True
    non_key: bool = False
    is_part: bool = False
    null_text: str = ""


class Result(Struct, frozen=True, eq=False):
    """Raw numbers with their units; `table` holds one column for each of `columns`, in that order.

    `total` is the number of rows before any cut. `about` says what the numbers cover, if that is neither the window nor
    the whole run. A column ``event`` of unit `id` leads from a row to its event in the timeline; the columns ``start``
    (an `instant`) and ``duration`` bound the row's own window. `all_rows` is the table before any cut, where the chart
    of a cut result shows all rows, and where alike rows of ranks are folded. `rows_text` says how many rows the table
    stands for, where that is not told by `total`.
    """

    analysis: str
    title: str
    columns: tuple[Column, ...]
    table: pl.DataFrame
    total: int
    notes: tuple[Note, ...] = ()
    window: tuple[int, int] | None = None
    about: str = ""
    all_rows: pl.DataFrame | None = None
    rows_text: str = ""

    @property
    def shown_rows_text(self) -> str:
        """``40 of 1,312 rows`` if rows are left out, else ""; where rows are folded, what they stand for."""
        if self.rows_text:
            return self.rows_text
        return f"{self.table.height:,} of {self.total:,} rows" if self.table.height < self.total else ""

    @property
    def uncut_table(self) -> pl.DataFrame:
        """The table before any cut."""
        return self.table if self.all_rows is None else self.all_rows

    def column(self, name: str) -> Column:
        """The column of that name; KeyError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


class Options(Struct, frozen=True):
    """Options of any analysis: at most `top` rows (None: all), and the chosen settings (`given`).

    With `members` the table of an analysis with a count column has one more column, `COUNTED_EVENTS`: their ids.
    """

    top: int | None = None
    given: ChosenSettings = ()
    members: bool = False


COUNTED_EVENTS: Final = "counted"
"""Name of the column with the ids of the events that each row counts."""

SETTING_NOTE: Final = "setting_chosen"
"""Code of the note that names a chosen setting and its value."""


_DTYPES: Mapping[Unit, pl.DataType] = {
    "text": pl.String(),
    "prose": pl.String(),
    "note": pl.String(),
    "share": pl.Float64(),
    "rate": pl.Float64(),
    "decimal": pl.Float64(),
    "growth": pl.Float64(),
    "flops": pl.Float64(),
    "flag": pl.Boolean(),
    "host": HOST_ACTIVITY,
}


def fraction_of(column: str, base: int) -> pl.Expr:
    """A column as a fraction of a base; null if the base is 0."""
    return pl.col(column) / base if base else pl.lit(None, pl.Float64)


def empty_table(columns: Sequence[Column]) -> pl.DataFrame:
    """A table of these columns without rows."""
    return pl.DataFrame(schema={column.name: _DTYPES.get(column.unit, pl.Int64()) for column in columns})


def make_result(
    analysis: Analysis, table: pl.DataFrame, context: RunContext, options: Options, notes: Sequence[Note] = ()
) -> Result:
    """The result of an analysis with its declared columns, in their order and types.

    It is cut to the requested number of rows.
    """
    names = [column.name for column in analysis.columns]
    full_table = table.select(names).cast(empty_table(analysis.columns).schema)
    if options.members and analysis.count_column in names and COUNTED_EVENTS in table.columns:
        none = pl.lit([], pl.List(pl.Int64))
        full_table = full_table.with_columns(table[COUNTED_EVENTS].cast(pl.List(pl.Int64))).with_columns(
            pl.col(COUNTED_EVENTS).fill_null(none)
        )
    shown = full_table if options.top is None else full_table.head(options.top)
    all_notes = [
        *notes,
        *_large_share_notes(full_table, analysis.columns),
        *(note(SETTING_NOTE, name=name, value=value) for name, value in options.given),
    ]
    result = Result(
        analysis.name, analysis.title, analysis.columns, shown, full_table.height, tuple(all_notes), context.bounds
    )
    return replace(result, all_rows=full_table) if shown.height < full_table.height else result


def _large_share_notes(table: pl.DataFrame, columns: Sequence[Column]) -> list[Note]:
    """A note with the columns of shares that are above 100 % in some row; none: []."""
    shares = [column.name for column in columns if column.unit == "share"]
    if table.is_empty() or not shares:
        return []
    is_large = table.select(pl.col(shares).fill_nan(None) > _WHOLE)
    names = tuple(name for name in shares if is_large[name].any())
    if not names:
        return []
    rows = int(is_large.select(pl.any_horizontal(names)).to_series().sum())
    most = max(float(table[name].fill_nan(None).fill_null(0).to_numpy().max()) for name in names)
    return [note("shares_above_whole", columns=names, rows=rows, most=most)]


_WHOLE: Final = 1.00005
"""Smaller shares are printed as 100.00 % at most."""


def empty_result(analysis: Analysis, context: RunContext, options: Options, *notes: Note) -> Result:
    """A result without rows; the notes say why."""
    return make_result(analysis, empty_table(analysis.columns), context, options, notes)


def concat_tables(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows of all ranks' tables, one after the other; a frame without columns if none has rows."""
    filled = [table for table in stacks_of(tables) if table.height]
    return pl.concat(filled, how="vertical_relaxed") if filled else pl.DataFrame()


def merge_in_turn(frames: Iterable[pl.DataFrame], merge: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.DataFrame:
    """The rows of many frames, merged with those before as each frame comes; without columns if none has rows.

    The texts of a merged row are those of the first frame that has it: polars keeps all texts of a frame as long as one
    is needed.
    """
    merged = pl.DataFrame()
    for frame in frames:
        if frame.height:
            merged = merge(pl.concat([merged, frame], how="vertical_relaxed")) if merged.height else frame
    return merged


class Analysis(Struct, frozen=True, eq=False):
    """An analysis: `per_rank` runs where one rank's events are, `combine` sees only its small tables.

    `question` is the question it answers, in the user's words; `definition` defines its numbers and says where peers
    differ, for `--explain`. `settings` are its options. `host_computations` are those that the maps of a host's ranks
    have in common. `device_ops_only`: it needs only the times of ops, if devices have any, at any time, but neither
    their launches nor their steps. `rests_on_recorded_work`: its numbers mislead where work of launches was not
    recorded, which a note of its result then says. `limits_rows`: its map makes no more rows than are asked for.
    `count_column` names the column that says how many events of the trace a row stands for; `Options.members` asks for
    their ids. `columns_by_setting` has the columns for values of the setting `by` that give other rows.
    `combine_settings` names settings that only `combine` reads: no rank is mapped again for another value of them.
    """

    name: str
    title: str
    question: str
    definition: str
    columns: tuple[Column, ...]
    per_rank: Callable[[RankTrace, Options], pl.DataFrame]
    combine: Callable[[Sequence[pl.DataFrame], RunContext, Options], Result]
    settings: tuple[Setting[Any], ...] = ()
    host_computations: tuple[SharedHostResult[Any], ...] = ()
    device_ops_only: bool = False
    rests_on_recorded_work: bool = False
    limits_rows: bool = False
    count_column: str = ""
    columns_by_setting: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    combine_settings: tuple[str, ...] = ()

    def with_shown_columns(self, given: ChosenSettings) -> Analysis:
        """This analysis with the columns that its rows have under these settings."""
        return replace(self, columns=self.columns_by_setting.get(dict(given).get("by", ""), self.columns))

    def map_options(self, options: Options) -> Options:
        """The options for the map: without the number of shown rows and the settings that it does not read."""
        given = tuple(choice for choice in options.given if choice[0] not in self.combine_settings)
        return replace(options, top=options.top if self.limits_rows else None, given=given)


COUNTED_COLUMN: Final = pl.col(f"^{COUNTED_EVENTS}$")
"""The column of counted events, if it is there."""

JOINED_EVENTS: Final = COUNTED_COLUMN.explode().drop_nulls()
"""Aggregation of rows: the events of all of them."""

SHARED_EVENTS: Final = COUNTED_COLUMN.first()
"""Aggregation of rows that count the same events, as the ranks of one host do with its threads."""


def collect_counted_events(options: Options, events: str | pl.Expr = "id") -> list[pl.Expr]:
    """Aggregation of events: their ids, if the options ask for them."""
    which = pl.col(events) if isinstance(events, str) else events
    return [which.alias(COUNTED_EVENTS)] if options.members else []


def counted_events_field(options: Options, events: pl.Series) -> dict[str, object]:
    """Field of a single row: these event ids, if the options ask for them."""
    return {COUNTED_EVENTS: events.to_list()} if options.members else {}


def counted_events_per_group(options: Options, group: Ints, events: pl.Series, many: int) -> dict[str, pl.Series]:
    """The events of each of `many` groups, if the options ask for them.

    `group` is the group of each event, -1 for none.
    """
    if not options.members:
        return {}
    known_events = pl.DataFrame({"group": group, COUNTED_EVENTS: events}).filter(pl.col("group") >= 0)
    every = pl.DataFrame({"group": np.arange(many)})
    found = known_events.group_by("group", maintain_order=True).agg(COUNTED_EVENTS)
    return {COUNTED_EVENTS: every.join(found, on="group", how="left", maintain_order="left")[COUNTED_EVENTS]}


def depth_column(columns: Sequence[Column]) -> Column | None:
    """The column with the depth of rows; None if the result is no tree."""
    return next((column for column in columns if column.unit == "depth"), None)


def indented_column(columns: Sequence[Column]) -> Column | None:
    """The column that is indented in a tree: the first one of text; None if there is none, or no tree."""
    if depth_column(columns) is None:
        return None
    return next((column for column in columns if column.unit == "text"), None)


def row_depths(table: pl.DataFrame, columns: Sequence[Column]) -> Ints | None:
    """The depth of each row of an unsorted, unfiltered table; None if it is no tree.

    A result that is a tree only under some setting has null depths otherwise.
    """
    column = depth_column(columns)
    if column is None or 0 < table.height == table[column.name].null_count():
        return None
    return table[column.name].fill_null(0).cast(pl.Int64).to_numpy()


def filter_tree_rows(table: pl.DataFrame, columns: Sequence[Column], test: pl.Expr) -> tuple[pl.DataFrame, int]:
    """The rows that pass a test, in a tree also their ancestors; and how many passed."""
    depths = row_depths(table, columns)
    if depths is None:
        rows = table.filter(test)
        return rows, rows.height
    passed = table.select(test.alias("passed")).to_series()
    mask = np.broadcast_to(passed.to_numpy(), len(depths))  # a test without columns gives one value
    return table.filter(pl.Series(trees_from_depths(depths).with_ancestors(mask))), int(mask.sum())


def keep_heaviest_rows(result: Result, weight: Ints, top: int | None) -> Result:
    """The result with at most `top` rows: the heaviest, where their ancestors count, too."""
    depths = row_depths(result.table, result.columns)
    if top is None or depths is None or top >= result.table.height:
        return result
    return replace(result, table=result.table[trees_from_depths(depths).heaviest_rows(weight, top)])
