"""The tables of a query: their names, columns and meanings, and a trace's frames in that form.

Owns the words of the tables. An analysis is a table under its own name; frames of the model with the name of an
analysis (`steps`, `ops`) have other names here: `marks`, `hlo`. Knows no SQL.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis import ANALYSES
from tracehound.analysis.analysis_settings import ChosenSettings, parse_settings
from tracehound.analysis.rank_trace import overlapping_events
from tracehound.analysis.result import Column, Result, Unit, empty_table
from tracehound.analysis.window_bounds import lane_windows
from tracehound.config import configured_settings
from tracehound.errors import TracehoundError, printable
from tracehound.model.old_names import current_name, old_name
from tracehound.model.trace import Trace, Window
from tracehound.query.answer_columns import ColumnOrigin

TIME_TYPE: Final = pl.Duration("us")
"""The type of times in a query: whole picoseconds, which polars takes for microseconds.

So their type identifies times everywhere: sums, means and differences of times are times, a time divided by a time is
a number, and a time compared with text is an error."""


WIDE_TYPE: Final = pl.Int128()
"""The type of bytes and operations in a query: products of them, and sums of products, would not fit in 64 bits, and
polars would wrap them around."""


class SqlTable(Struct, frozen=True):
    """A table of a query; `given` are the chosen settings of an analysis."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    given: ChosenSettings = ()

    @property
    def schema(self) -> pl.Schema:
        """The types of its columns in a query."""
        whole = empty_table(self.columns).schema
        timed = {column.name: TIME_TYPE for column in self.columns if column.unit in ("time", "instant")}
        large = [column.name for column in self.columns if column.unit == "bytes" or column.name.endswith("flops")]
        return pl.Schema({**whole, **timed, **{name: WIDE_TYPE for name in large if whole[name] == pl.Int64}})


EVENTS_TABLE = SqlTable(
    "events",
    "everything that was recorded, a row for each event of each lane",
    (
        Column("name", "text", "what ran: a kernel, an HLO op, an operator, a call, an annotation"),
        Column("kind", "text", "kernel, collective, copy, memset, op, runtime, annotation, step, module, python, ..."),
        Column("duration", "time", "from start to end, on the trace's clock; on the device's own: device_duration"),
        Column("start", "instant", "start since the trace began"),
        Column("end", "instant", "end since the trace began"),
        Column(
            "self",
            "time",
            "length less what the events nested inside cover, on the device's own clock where it has one (TPU); unknown"
            " where a window cuts the event",
        ),
        Column("rank", "number", "rank of its device; on a host, the rank it drives, null where it drives several"),
        Column("step", "number", "step that it belongs to: by its launch, else by its start"),
        Column("lane", "text", "name of its lane: a stream, a line of a device, a thread"),
        Column("stream", "number", "number of the device stream"),
        Column("host", "text", "machine or process"),
        Column("role", "text", "what its lane shows: stream, ops, modules, steps, annotations, thread, counter, ..."),
        Column("on_device", "flag", "it ran on a device and not on a thread of a host"),
        Column("work", "flag", "it keeps its device busy: what busy and idle times count"),
        Column("bytes", "bytes", "moved, or the message of a collective"),
        Column("depth", "number", "row inside the lane"),
        Column("id", "id", "of the event: what launch, parent and the event columns of other tables point to"),
        Column("parent", "id", "id of the innermost event of the lane around it"),
        Column("launch", "id", "id of the host event that enqueued it"),
        Column("correlation", "number", "id that a runtime call shares with its device events (Kineto)"),
        Column("external", "number", "External id: the operator active at the launch (Kineto)"),
        Column("run", "number", "one execution of a module (XLA); TPUs each count their own"),
        Column("op", "number", "its row in hlo (XLA)"),
        Column("lane_id", "number", "its row in lanes"),
        Column("device_duration", "time", "length on the device's own clock, where it has one (TPU)"),
    ),
)

LANES_TABLE = SqlTable(
    "lanes",
    "the rows of the timeline: streams, lines of a device, threads, counters",
    (
        Column("lane_id", "number", "what events.lane_id points to"),
        Column("lane", "text", "its name"),
        Column("rank", "number", "rank of its device; for a host, the rank it drives, null where it drives several"),
        Column("host", "text", "machine or process"),
        Column("role", "text", "what it shows: stream, ops, modules, steps, annotations, thread, counter, ..."),
        Column("on_device", "flag", "it is a device's and no thread of a host"),
        Column("work", "flag", "its events keep the device busy"),
        Column("process", "text", "process, as the file names it"),
        Column("thread", "text", "thread, as the file names it"),
        Column("stream", "number", "number of the device stream"),
        Column("events", "count", "events on it, of the whole run"),
        Column("first", "instant", "start of its first event"),
        Column("last", "instant", "end of its last event"),
        Column("unit", "text", "of the values of a counter, as far as the file tells"),
    ),
)

COUNTERS_TABLE = SqlTable(
    "counters",
    "the samples of counters: memory, utilization, queue lengths; a value holds until the next sample",
    (
        Column("lane", "text", "name of the counter"),
        Column("time", "instant", "of the sample, since the trace began"),
        Column("value", "number", "the value from then on"),
        Column("unit", "text", "of the value, as far as the file tells"),
        Column("rank", "number", "rank of its device; on a host, the rank it drives, null where it drives several"),
        Column("host", "text", "machine or process"),
        Column("on_device", "flag", "it is a device's and not its host's"),
        Column("lane_id", "number", "its row in lanes"),
    ),
)

RANKS_TABLE = SqlTable(
    "ranks",
    "the accelerators of the job",
    (
        Column("rank", "number", "rank"),
        Column("device", "text", "device as the file names it"),
        Column("model", "text", "model of the device"),
        Column("host", "text", "machine or process that drives it"),
        Column("ordinal", "number", "number of the device on its host"),
        Column("inferred", "flag", "the file did not say which rank it is"),
    ),
)

MARKS_TABLE = SqlTable(
    "marks",
    "where steps begin and end, as they were marked or inferred; `steps` has what the device did in each",
    (
        Column("step", "number", "number of the step"),
        Column("rank", "number", "rank; null when it was marked on a host, for all its ranks"),
        Column("host", "text", "machine or process"),
        Column("name", "text", "name of the mark"),
        Column("duration", "time", "from start to end"),
        Column("start", "instant", "start since the trace began"),
        Column("end", "instant", "end since the trace began"),
        Column("inferred", "flag", "not marked by the profiler"),
        Column("event", "id", "id of the mark"),
    ),
)

HLO_TABLE = SqlTable(
    "hlo",
    "what is known of each HLO op, whenever it ran (XLA); `ops` has what it took",
    (
        Column("op", "number", "what events.op points to"),
        Column("name", "text", "name of the op"),
        Column("category", "text", "HLO category or opcode"),
        Column("module", "text", "XLA module"),
        Column("program", "number", "id of the module's program"),
        Column("framework", "text", "op of the framework: jit(step)/layer0/dot_general"),
        Column("source", "text", "file:line"),
        Column("text", "text", "the HLO line"),
        Column("flops", "number", "floating point operations of one execution"),
        Column("bytes_accessed", "bytes", "memory that one execution reads and writes"),
        Column("normalized_flops", "number", "flops in those of the peak's type (TPU: bf16)"),
        Column("hbm_bytes", "bytes", "of bytes_accessed those of the device's main memory"),
        Column("host_bytes", "bytes", "of its operands and results those that lie in the host's memory"),
        Column("estimated_flops", "number", "flops by the shapes of the HLO, where the file does not count"),
        Column("estimated_bytes", "bytes", "bytes by the shapes of the HLO, where the file does not count"),
        Column("dtype", "text", "element type that a matrix product or convolution multiplies"),
        Column("twin", "text", "first op with the same HLO, where the compiler says so"),
    ),
)

MODEL_TABLES = (EVENTS_TABLE, LANES_TABLE, COUNTERS_TABLE, RANKS_TABLE, MARKS_TABLE, HLO_TABLE)

ALL_TABLES: tuple[SqlTable, ...] = (
    *MODEL_TABLES,
    *(SqlTable(analysis.name, analysis.question, analysis.columns) for analysis in ANALYSES),
)
"""All tables: the frames of the model, then the analyses."""


def table_with_settings(table: SqlTable, words: Sequence[str] = ()) -> SqlTable:
    """The table with the settings from ``NAME=VALUE`` words and from the user's file, where it is an analysis.

    A word counts where the analysis has a setting of its name; ``ANALYSIS.NAME=VALUE`` for that analysis alone, and
    before one for all. Raises TracehoundError, which names the analysis, for what is no setting or value of it.
    """
    analysis = _ANALYSES.get(table.name)
    if analysis is None:
        return table
    before = f"{analysis.name}."
    words = _with_current_analyses(words)
    own = [word.removeprefix(before) for word in words if word.startswith(before)]
    names = {setting.name for setting in analysis.settings} - {word.partition("=")[0] for word in own}
    for_all = [word for word in words if word.partition("=")[0] in names]
    called = [replace(setting, name=before + setting.name) for setting in analysis.settings]
    parse_settings(called, [before + word for word in (*for_all, *own)])
    given = configured_settings(analysis, [*for_all, *own])
    return replace(table, columns=analysis.with_shown_columns(given).columns, given=given)


def refuse_unused_settings(tables: Sequence[SqlTable], words: Sequence[str]) -> None:
    """Raise TracehoundError for a word that sets nothing in any of these tables, which already have their settings."""
    words = _with_current_analyses(words)
    among = [_ANALYSES[table.name] for table in tables if table.name in _ANALYSES]
    known = {setting.name: setting for analysis in among for setting in analysis.settings}
    others = [word for word in words if not any(word.startswith(f"{analysis.name}.") for analysis in among)]
    for word in others:
        name = word.partition("=")[0]
        of, dot, _ = name.partition(".")
        if dot and of in _ANALYSES:
            raise TracehoundError(f"no setting {printable(name)!r}", remedy=f"no table here is {of}")
        if not known:
            raise TracehoundError(
                f"no setting {printable(name)!r}", remedy="settings are of analyses, and no table here has any"
            )
    parse_settings([*known.values()], [word for word in others if word.partition("=")[0] not in known])


def _with_current_analyses(words: Sequence[str]) -> list[str]:
    """The words; the analysis of ``ANALYSIS.NAME=VALUE`` under its current name."""
    parts = (word.partition(".") for word in words)
    return [f"{current_name(analysis)}{dot}{setting}" for analysis, dot, setting in parts]


_ANALYSES: Final = {analysis.name: analysis for analysis in ANALYSES}


def empty_frame(table: SqlTable) -> pl.LazyFrame:
    """The table without rows: enough to check a statement."""
    return pl.LazyFrame(schema=table.schema)


def frames_by_name(table: SqlTable, frame: pl.LazyFrame, names: Collection[str]) -> dict[str, pl.LazyFrame]:
    """The frame of a table under its name, and its older name if that is among the `names` in a statement.

    Columns, too, have their older names if those are among the names; under the older name of the table they all do.
    """
    frames = {table.name: _with_names_of_columns(table, frame, names)}
    if (old := old_name(table.name)) is not None and old in names:
        older = [name for column in table.columns if (name := old_name(column.name)) is not None]
        frames[old] = _with_names_of_columns(table, frame, {*names, *older})
    return frames


def _with_names_of_columns(table: SqlTable, frame: pl.LazyFrame, names: Collection[str]) -> pl.LazyFrame:
    """The frame with the older names of columns that are among the names; if the current ones are, too, with both."""
    if not any(old_name(column.name) in names for column in table.columns):
        return frame
    return frame.select(
        pl.col(column.name).alias(name) for column in table.columns for name in _names_of_column(column.name, names)
    )


def _names_of_column(name: str, names: Collection[str]) -> list[str]:
    old = old_name(name)
    if old is None or old not in names:
        return [name]
    return [name, old] if name in names else [old]


def model_frames(trace: Trace, window: Window, events: pl.LazyFrame | None = None) -> Mapping[str, pl.LazyFrame]:
    """The tables of `MODEL_TABLES` by name, lazily; narrowed to the window, which clips events and marks.

    `events` are those of the table of events before they are clipped; None: all on the lanes of the window.
    """
    hosts = {number: host.name for number, host in enumerate(trace.hosts)}
    host = pl.col("host").replace_strict(hosts, default=None, return_dtype=pl.String)
    lanes = _with_driven_ranks(trace.lanes_of(window.ranks), trace.ranks).with_columns(host)
    ranks = trace.ranks.lazy().with_columns(host)
    marks = trace.steps.lazy().with_columns(host)
    if window.ranks is not None:
        of_host = pl.col("rank").is_null() & pl.col("host").is_in(lanes["host"].unique().to_list())
        marks = marks.filter(pl.col("rank").is_in(list(window.ranks)) | of_host)
        ranks = ranks.filter(pl.col("rank").is_in(list(window.ranks)))
    if window.steps is not None:
        marks = marks.filter(pl.col("step").is_in(list(window.steps)))
    bounds = window.clip_bounds(*trace.span) if window.limits_time else None
    of_lane = bounds if window.steps is None else _window_of_lane(trace, window)
    if events is None:
        events = trace.events(None if window.ranks is None else lanes["lane"].to_list())
    return {
        EVENTS_TABLE.name: _cast_to_table(_with_lane_columns(_clip_to_window(events, of_lane), lanes), EVENTS_TABLE),
        LANES_TABLE.name: _cast_to_table(lanes.lazy().rename({"lane": "lane_id", "name": "lane"}), LANES_TABLE),
        COUNTERS_TABLE.name: _cast_to_table(_counter_samples(trace, lanes, window), COUNTERS_TABLE),
        RANKS_TABLE.name: _cast_to_table(ranks.rename({"device": "ordinal", "label": "device"}), RANKS_TABLE),
        MARKS_TABLE.name: _cast_to_table(_clip_to_window(marks, bounds).with_columns(_DURATION), MARKS_TABLE),
        HLO_TABLE.name: _cast_to_table(trace.ops.lazy(), HLO_TABLE),
    }


def analysis_frame(result: Result, table: SqlTable) -> pl.LazyFrame:
    """The whole table of an analysis."""
    return _cast_to_table(result.table.lazy(), table)


_DURATION = (pl.col("end") - pl.col("start")).alias("duration")


def _cast_to_table(frame: pl.LazyFrame, table: SqlTable) -> pl.LazyFrame:
    """The columns of the table, in its order and types. Only columns that a query names are ever computed."""
    return frame.select(pl.col(name).cast(kind) for name, kind in table.schema.items())


def _window_of_lane(trace: Trace, window: Window) -> tuple[pl.Expr, pl.Expr]:
    """Start and end of a window of steps on the lane of a row; null on a lane that has none of them."""
    spans = lane_windows(trace, window)
    lanes = pl.Series(list(spans), dtype=pl.Int64)
    low, high = (
        pl.col("lane").replace_strict(lanes, pl.Series([span[side] for span in spans.values()], dtype=pl.Int64),
                                      default=None, return_dtype=pl.Int64)
        for side in (0, 1)
    )  # fmt: skip
    return low, high


def _clip_to_window(frame: pl.LazyFrame, bounds: tuple[int, int] | tuple[pl.Expr, pl.Expr] | None) -> pl.LazyFrame:
    """The rows that overlap the window, clipped to it; values of a whole event are null in a clipped one."""
    if bounds is None:
        return frame
    low, high = bounds
    whole = pl.col("start").ge(low) & pl.col("end").le(high)
    measures = [name for name in ("self", "device_end") if name in frame.collect_schema()]
    return overlapping_events(frame, low, high).with_columns(
        pl.col("start").clip(lower_bound=low),
        pl.col("end").clip(upper_bound=high),
        *(pl.when(whole).then(name).alias(name) for name in measures),
    )


def _counter_samples(trace: Trace, lanes: pl.DataFrame, window: Window) -> pl.LazyFrame:
    """The samples of these lanes within the window, with columns of their lanes."""
    samples = trace.counters.lazy()
    if window.steps is not None:
        low, high = _window_of_lane(trace, window)
        samples = samples.filter((pl.col("time") >= low) & (pl.col("time") < high))
    if window.start is not None:
        samples = samples.filter(pl.col("time") >= window.start)
    if window.end is not None:
        samples = samples.filter(pl.col("time") < window.end)
    samples = samples.rename({"lane": "lane_id"})
    said = lanes.lazy().select("unit", "rank", "host", "on_device", pl.col("lane").alias("lane_id"), lane="name")
    return samples.join(said, on="lane_id", maintain_order="left")


def _with_driven_ranks(lanes: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """The lanes with a rank also for those of hosts, where the host drives a single rank."""
    alone = ranks.group_by("host").agg(pl.col("rank").first().alias("driven"), pl.len()).filter(pl.col("len") == 1)
    return lanes.join(alone.drop("len"), on="host", how="left", maintain_order="left").with_columns(
        pl.coalesce("rank", "driven"), pl.col("rank").is_not_null().alias("on_device")
    )


def _with_lane_columns(events: pl.LazyFrame, lanes: pl.DataFrame) -> pl.LazyFrame:
    """The events with columns of their lanes: looked up, not joined, so that unused columns are left out."""

    def lane_column(column: str) -> pl.Expr:
        values = lanes[column].cast(pl.String) if column == "role" else lanes[column]
        found = pl.col("lane").replace_strict(lanes["lane"], values, default=None, return_dtype=values.dtype)
        return found.alias(column)

    return events.with_columns(
        *(lane_column(name) for name in ("rank", "stream", "host", "role", "on_device", "work")),
        _DURATION,
        lane_column("name").alias("lane"),
        pl.col("lane").alias("lane_id"),
        (pl.col("device_end") - pl.col("device_start")).alias("device_duration"),
    )


def answer_column(name: str, kind: pl.DataType, origin: ColumnOrigin | None, tables: Sequence[SqlTable]) -> Column:
    """The column of an answer: that of its origin if the type allows, else one with the unit of its type."""
    table_name, column_name = ("", "") if origin is None else map(current_name, (origin.table, origin.name))
    for table in tables:
        for known in table.columns:
            of_it = table_name in ("", table.name) and known.name == column_name
            if of_it and _type_fits_column(known, kind, table.schema[known.name]):
                return Column(name, _ANSWER_UNITS.get(known.unit, known.unit), known.meaning, known.base)
    if kind.is_integer():
        return Column(name, "count", "")
    if kind.is_numeric():
        return Column(name, "number", "")
    return Column(name, "time" if kind == TIME_TYPE else "flag" if kind == pl.Boolean else "text", "")


_ANSWER_UNITS: Final[Mapping[Unit, Unit]] = {"id": "number", "depth": "number", "note": "text"}
"""Units that change in an answer: its rows come in any order, and notes in them are sentences already."""


def _type_fits_column(known: Column, kind: pl.DataType, declared: pl.DataType) -> bool:
    """True where a column of that type can have the known unit: a mean of bytes is bytes, a count of times no time."""
    if known.unit == "bytes":
        return kind.is_numeric()
    return kind == declared or (kind.is_integer() and declared.is_integer())
