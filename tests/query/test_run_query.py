"""Queries over traces: every table is its frame, every answer what plain Python finds, every error one line."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import tracehound.query.run_query
from building import Building, Lane, stream, thread
from samples import sample
from short import first, some
from tracehound.analysis import ANALYSES, Analysis, Options, get_analysis, run_analysis
from tracehound.draw.notes import note_texts, render_note_columns
from tracehound.errors import TracehoundError
from tracehound.model.trace import Trace, Window, collect_frame
from tracehound.model.units import PS_PER_UNIT
from tracehound.query import ALL_TABLES, SqlTable, answer_query, prepare_query
from tracehound.query.polars_errors import FUNCTION_SYNONYMS, SQL_FUNCTIONS
from tracehound.query.sql_tables import EVENTS_TABLE
from tracehound.store import merge_file_frames

FOLDERS = ("torch_ddp_gloo", "jax_cpu8_b128")
TRIED = first(1, FOLDERS)
NOTHING = merge_file_frames("empty", [])


def rows(statement: str, trace: Trace, window: Window | None = None) -> list[tuple[Any, ...]]:
    return answer_query(prepare_query(statement), trace, window).table.rows()


def refused(statement: str) -> str:
    with pytest.raises(TracehoundError) as raised:
        prepare_query(statement)
    assert str(raised.value).isprintable()
    return str(raised.value)


# --- every table is what it says


@pytest.mark.parametrize("folder", TRIED)
@pytest.mark.parametrize("analysis", some(ANALYSES, ANALYSES[::4]), ids=lambda a: a.name)
def test_an_analysis_is_a_table(analysis: Analysis, folder: str) -> None:
    found = answer_query(prepare_query(f"SELECT * FROM {analysis.name}"), sample(folder))
    expected = render_note_columns(run_analysis(analysis, sample(folder)))
    assert found.table.equals(expected.table)
    shown = [("number" if c.unit in ("id", "depth") else c.unit, c.meaning, c.base) for c in expected.columns]
    assert [(c.unit, c.meaning, c.base) for c in found.columns] == shown


@pytest.mark.parametrize("folder", TRIED)
@pytest.mark.parametrize(
    "analysis", first(4, [each for each in ANALYSES if each.columns_by_setting]), ids=lambda a: a.name
)
def test_an_analysis_is_a_table_with_the_rows_that_are_chosen(analysis: Analysis, folder: str) -> None:
    for sort in analysis.columns_by_setting:
        found = answer_query(prepare_query(f"SELECT * FROM {analysis.name}", [f"by={sort}"]), sample(folder))
        expected = run_analysis(analysis, sample(folder), options=Options(given=(("by", sort),)))
        assert found.table.equals(expected.table)
        assert [(c.meaning, c.base) for c in found.columns] == [(c.meaning, c.base) for c in expected.columns]
        assert note_texts(found.notes)[0] == f"{analysis.name} with by={sort}"


def test_a_choice_is_for_the_analyses_that_have_such_a_setting() -> None:
    query = prepare_query("SELECT s.step FROM step_parts s JOIN steps t ON s.step = t.step", ["by=step", "bounds=mark"])
    assert {table.name: table.given for table in query.tables} == {
        "step_parts": (("bounds", "mark"), ("by", "step")), "steps": (("bounds", "mark"),),
    }  # fmt: skip


@pytest.mark.parametrize("words", [["critical_path.by=event", "by=class"], ["by=class", "critical_path.by=event"]])
def test_a_choice_that_names_an_analysis_is_for_that_alone_and_goes_before_one_for_all(words: list[str]) -> None:
    query = prepare_query("SELECT k.class FROM kernels k JOIN critical_path c ON k.class = c.class", words)
    assert {table.name: table.given for table in query.tables} == {
        "kernels": (("by", "class"),), "critical_path": (("by", "event"),),
    }  # fmt: skip


def test_what_is_for_all_need_not_be_known_to_an_analysis_that_has_its_own_choice() -> None:
    query = prepare_query("SELECT k.name FROM kernels k, critical_path c", ["by=grid", "critical_path.by=event"])
    assert {table.name: dict(table.given)["by"] for table in query.tables} == {
        "kernels": "grid", "critical_path": "event",
    }  # fmt: skip


@pytest.mark.parametrize("folder", TRIED)
def test_events_are_the_frame_with_the_words_of_its_lanes(folder: str) -> None:
    trace = sample(folder)
    frame = collect_frame(trace.events())
    driven = trace.ranks.group_by("host").agg("rank")
    alone = {host: ranks[0] for host, ranks in driven.iter_rows() if len(ranks) == 1}
    lanes = {row["lane"]: row for row in trace.lanes.to_dicts()}
    same = ("name", "kind", "start", "end", "self", "step", "bytes", "depth", "id", "parent", "launch",
            "correlation", "external", "run", "op")  # fmt: skip
    expected = [
        {name: event[name] for name in same}
        | {name: lanes[event["lane"]][name] for name in ("stream", "role", "work")}
        | {"lane": lanes[event["lane"]]["name"], "lane_id": event["lane"], "on_device": event["rank"] is not None}
        | {"rank": alone.get(lanes[event["lane"]]["host"]) if event["rank"] is None else event["rank"]}
        | {"host": trace.hosts[lanes[event["lane"]]["host"]].name, "duration": event["end"] - event["start"]}
        for event in frame.to_dicts()
    ]
    names = ", ".join(f'"{name}"' for name in expected[0])
    assert answer_query(prepare_query(f"SELECT {names} FROM events"), trace).table.to_dicts() == expected


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_small_frames_are_tables(folder: str) -> None:
    trace = sample(folder)
    names = {number: host.name for number, host in enumerate(trace.hosts)}
    ranks = [(r["rank"], r["label"], r["model"], names[r["host"]], r["device"]) for r in trace.ranks.to_dicts()]
    assert rows("SELECT rank, device, model, host, ordinal FROM ranks", trace) == ranks
    lanes = [(r["lane"], r["name"], r["process"], r["events"], r["first"]) for r in trace.lanes.to_dicts()]
    assert rows("SELECT lane_id, lane, process, events, first FROM lanes", trace) == lanes
    marks = [(r["step"], r["name"], r["start"], r["end"], r["end"] - r["start"]) for r in trace.steps.to_dicts()]
    assert rows("SELECT step, name, start, end, duration FROM marks", trace) == marks
    assert (
        rows("SELECT op, name, text, flops FROM hlo", trace) == trace.ops.select("op", "name", "text", "flops").rows()
    )


@pytest.mark.parametrize("table", some(ALL_TABLES, ALL_TABLES[::2]), ids=lambda t: t.name)
def test_all_columns_can_be_written_without_quotes(table: SqlTable) -> None:
    names = [column.name for column in table.columns]
    found = answer_query(prepare_query(f"SELECT {', '.join(names)} FROM {table.name}"), NOTHING)
    assert found.table.columns == names
    each = [f"{table.name}.{name}" for name in names]
    unknown = " OR ".join(f"{name} IS NULL" for name in names)
    found = answer_query(prepare_query(f"SELECT {', '.join(each)} FROM {table.name} WHERE {unknown}"), NOTHING)
    assert found.table.columns == names


@pytest.mark.thorough
@pytest.mark.parametrize("table", ALL_TABLES, ids=lambda t: t.name)
def test_every_column_can_be_written_without_quotes(table: SqlTable) -> None:
    for column in table.columns:
        other = table.columns[0].name
        found = answer_query(
            prepare_query(f"SELECT {other} AS a, {column.name}, {other} AS b FROM {table.name}"), NOTHING
        )
        assert found.table.columns == ["a", column.name, "b"]
        ordered = f"SELECT {table.name}.{column.name} FROM {table.name} WHERE {column.name} IS NULL"
        assert answer_query(prepare_query(ordered), NOTHING).table.columns == [column.name]


@pytest.mark.parametrize("trace", first(1, (lambda: NOTHING, lambda: sample(FOLDERS[0]))), ids=["empty", "real"])
def test_every_table_has_its_columns_and_meanings(trace: Callable[[], Trace]) -> None:
    for table in ALL_TABLES:
        found = answer_query(prepare_query(f"SELECT * FROM {table.name}"), trace())
        assert found.table.columns == [column.name for column in table.columns]
        assert all(column.meaning for column in table.columns)


def test_products_of_bytes_do_not_wrap_around() -> None:
    """Of 2^40 bytes, 2^62 and 2^80 of something; what fits stays a whole number."""
    b = Building()
    for number in range(4):
        b.event(stream(), "copy", 10 * number, 10 * number + 5, "copy", bytes=1 << 40)
    asked = "SELECT sum(bytes) AS one, sum(bytes * 1048576) AS two, sum(bytes * bytes) AS three FROM events"
    found = answer_query(prepare_query(asked), b.trace())
    assert found.table.rows() == [(1 << 42, 1 << 62, float(1 << 82))]
    assert found.table.dtypes == [pl.Int64, pl.Int64, pl.Float64]
    assert [column.unit for column in found.columns] == ["bytes", "count", "number"]


# --- what is asked is what is found

_OPERATORS = {"<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__, "=": int.__eq__, "<>": int.__ne__}


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20), st.sampled_from(["gemm", "all_reduce"])), min_size=1),
    st.sampled_from(sorted(_OPERATORS)),
    st.integers(0, 20_000),
    st.sampled_from(["ps", "ns", "us"]),
)
def test_a_where_on_durations_is_what_python_finds(
    events: list[tuple[int, int, str]], operator: str, amount: int, unit: str
) -> None:
    b = Building(unit=1000)
    for start, length, name in events:
        b.event(stream(), name, start, start + length)
    trace = b.trace()
    limit = amount * PS_PER_UNIT[unit]
    frame = [
        row
        for row in collect_frame(trace.events()).to_dicts()
        if _OPERATORS[operator](row["end"] - row["start"], limit)
    ]
    where = f"WHERE duration {operator} {amount}{unit}"
    expected = [(row["name"], row["start"], row["end"] - row["start"]) for row in frame]
    assert rows(f"SELECT name, start, duration FROM events {where}", trace) == expected
    sums = {name: sum(length for other, _, length in expected if other == name) for name, _, _ in expected}
    grouped = f"SELECT name, sum(duration) FROM events {where} GROUP BY name ORDER BY name"
    assert rows(grouped, trace) == sorted(sums.items())


def test_names_are_searched_as_text() -> None:
    b = Building()
    for name in ("ncclAllReduce", "gemm", "all_reduce"):
        b.event(stream(), name, 0, 1)
    trace = b.trace()
    assert rows("SELECT name FROM events WHERE name LIKE 'all%'", trace) == [("all_reduce",)]
    assert rows("SELECT name FROM events WHERE name ~ '(?i)all_?reduce' ORDER BY name", trace) == [
        ("all_reduce",),
        ("ncclAllReduce",),
    ]
    assert rows("SELECT count(*) FROM events WHERE kind ILIKE 'KERN%' AND lane = 'stream 7'", trace) == [(3,)]


def test_units_follow_times_through_the_query() -> None:
    b = Building()
    b.event(stream(), "gemm", 1, 4, bytes=6_000)
    found = answer_query(
        prepare_query(
            "SELECT start, max(duration) AS longest, avg(end - start) AS mean, count(duration), sum(bytes) AS moved,"
            " avg(bytes),"
            " sum(bytes) / (sum(duration) / 1s) AS rate, sum(duration) / 1us AS us, min(name),"
            " 2us * 3 AS six,"
            " array_agg(duration) AS every, NULL AS nothing, DATE '2026-01-02' AS day, min(duration) > 1ms AS works"
            " FROM events GROUP BY start"
        ),
        b.trace(),
    )
    units = [column.unit for column in found.columns]
    assert units == [
        "instant", "time", "time", "count", "bytes", "bytes", "number", "number", "text", "time", "text", "text",
        "text", "flag",
    ]  # fmt: skip
    assert found.table.row(0) == (
        0, 3_000_000, 3_000_000, 1, 6_000, 6_000.0, 2e9, 3.0, "gemm", 6_000_000, "3000000", None, "2026-01-02", False,
    )  # fmt: skip


def test_what_is_no_single_value_is_refused() -> None:
    statement = "SELECT host FROM (SELECT UNNEST(host) AS host FROM gaps) AS g"
    b = Building()
    b.event(stream(), "a", 0, 1)
    b.event(stream(), "b", 9, 10)
    b.event(thread(), "aten::mm", 0, 10, "op")
    with pytest.raises(TracehoundError, match="column 'host' is not a single value"):
        answer_query(prepare_query(statement), b.trace())


def test_a_window_clips_events_and_narrows_ranks() -> None:
    trace = sample("torch_ddp_gloo")
    low, high = trace.span[0] + 30 * PS_PER_UNIT["ms"], trace.span[0] + 60 * PS_PER_UNIT["ms"]
    window = Window(low, high, ranks=(1,))
    lanes = trace.lanes_of([1])["lane"].to_list()
    expected = sorted(
        (row["id"], max(row["start"], low), min(row["end"], high))
        for row in collect_frame(trace.events(lanes)).to_dicts()
        if row["start"] < high and row["end"] > low
    )
    found = answer_query(
        prepare_query("SELECT id, start, end FROM events WHERE duration > 0ps ORDER BY id"), trace, window
    )
    assert found.table.rows() == [row for row in expected if row[1] < row[2]]
    assert found.window == (low, high)
    cut = "SELECT count(*) FROM events WHERE (start = 0ps OR self IS NULL)"
    assert rows(cut, trace, window)[0][0] > 0
    assert rows("SELECT rank FROM ranks", trace, window) == [(1,)]
    assert {host for (host,) in rows("SELECT host FROM lanes", trace, window)} == {trace.hosts[1].name}
    assert all(high > start >= low for (start,) in rows("SELECT start FROM marks", trace, window))


def test_a_column_without_a_value_is_named() -> None:
    trace = sample("torch_ddp_gloo")
    assert answer_query(prepare_query("SELECT name FROM events"), trace).notes == ()
    found = answer_query(prepare_query("SELECT name, stream, run AS moved FROM events"), trace)
    assert note_texts(found.notes) == ("no value: stream, moved",)


def test_a_time_divided_by_what_converts_picoseconds_is_said_to_be_a_time() -> None:
    b = Building()
    b.event(stream(), "k", 0, 5)
    said = "a time divided by 1e9 is a time in whole picoseconds (ms); divide by a unit to get a number: duration / 1ms"
    (note,) = note_texts(answer_query(prepare_query("select sum(duration) / 1e9 as ms from events"), b.trace()).notes)
    assert note.startswith(said)
    for fine in ("sum(duration) / 1ms as ms", "sum(duration) / 2 as half", "count(*) / 1e3 as k", "duration"):
        assert not answer_query(prepare_query(f"select {fine} from events"), b.trace()).notes, fine


def test_that_work_without_a_launch_has_its_step_by_time_is_said_where_steps_are_asked_for() -> None:
    b = Building()
    b.event(thread(), "ProfilerStep#1", 0, 100, "step", step=1)
    b.event(thread(), "cudaLaunchKernel", 1, 2, "runtime", correlation=7)
    b.event(stream(), "gemm", 10, 40, correlation=7)
    b.event(stream(), "old", 50, 60)
    trace, of_step = b.trace(), "select name from events where step = 1"
    (note,) = note_texts(answer_query(prepare_query(of_step), trace).notes)
    assert note.startswith(
        "25.0 % of device work has no known launch: it counts for the step in which it ran, but may "
        "belong to an earlier one"
    )
    assert not answer_query(prepare_query("select name from events"), trace).notes
    assert not answer_query(prepare_query("select step from steps"), trace).notes
    assert not answer_query(prepare_query(of_step), trace, Window(0, 45 * PS_PER_UNIT["us"])).notes
    assert not answer_query(prepare_query(of_step), trace, Window(steps=(1,))).notes, (
        "of a window of steps the command says it"
    )


def test_that_events_have_two_lengths_is_said_where_their_times_are_asked_for() -> None:
    b = Building(format="xplane")
    for number, own in enumerate((10, 10.05, 20)):
        times = {"device_start": number * 100, "device_end": number * 100 + round(own * PS_PER_UNIT["us"])}
        b.event(Lane("XLA Ops", 0, "ops", work=True), "dot", number * 100, number * 100 + 10, "op", **times)
    trace = b.trace()
    (note,) = note_texts(answer_query(prepare_query("select max(duration), max(self) from events"), trace).notes)
    assert note.startswith("duration, start and end of events are on the trace's clock")
    assert (
        "duration, start and end of events are on the trace's clock; 1 of 3 differ on the device's own "
        "clock (device_duration and self)"
    ) in note
    assert not answer_query(prepare_query("select max(self) from events"), trace).notes
    assert not answer_query(prepare_query("select duration from idle"), trace).notes
    told = {column.name: column.meaning for column in EVENTS_TABLE.columns}
    assert "the trace's clock" in told["duration"]
    assert "the device's own clock" in told["self"]


def test_a_cut_answer_says_how_many_there_are() -> None:
    trace = sample("torch_ddp_gloo")
    ((number,),) = rows("SELECT count(*) FROM events", trace)
    found = answer_query(prepare_query("SELECT name FROM events"), trace, top=7)
    assert (found.table.height, found.total, found.shown_rows_text) == (7, number, f"7 of {number:,} rows")
    assert answer_query(prepare_query("SELECT name FROM events LIMIT 7"), trace, top=7).shown_rows_text == ""


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT k.id FROM events k JOIN events l ON k.launch = l.id WHERE k.launch IS NOT NULL ORDER BY k.id",
        "SELECT id FROM events WHERE parent IN (SELECT id FROM events WHERE parent IS NULL) ORDER BY id",
        "SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY lane_id ORDER BY id) AS n FROM events) AS t"
        " WHERE n < 3 ORDER BY id",
        "SELECT id FROM events UNION ALL SELECT launch FROM events ORDER BY id",
    ],
)
def test_a_query_that_reads_events_twice_ends(statement: str, folder: str) -> None:
    trace = sample(folder)
    events = trace.events().with_columns(pl.col("lane").alias("lane_id"))
    expected = collect_frame(pl.SQLContext(events=events).execute(statement))
    assert answer_query(prepare_query(statement), trace).table.rows() == expected.rows()


# --- older names


@pytest.fixture
def waiting() -> Trace:
    """A device that is busy for a quarter of the time, since the host waits for it."""
    b = Building()
    for number, start in enumerate((0, 700)):
        b.event(thread(), "cudaLaunchKernel", start - 1, start, "runtime", correlation=number)
        b.event(stream(), "rms_norm", start, start + 100, correlation=number)
    b.event(thread(), "cudaStreamSynchronize", 1, 698, "runtime")
    b.event(thread(), "normalisation", 1, 5, "annotation")
    return b.trace()


@pytest.mark.parametrize(
    ("statement", "older"),
    [
        ("SELECT * FROM utilization", "SELECT * FROM utilisation"),
        ("SELECT * FROM utilization_curve", "SELECT * FROM Utilisation_Curve"),
        ("SELECT rank, utilization FROM utilization", "SELECT rank, utilisation FROM utilization"),
        ("SELECT u.utilization FROM utilization u", "SELECT u.utilization FROM utilisation AS u"),
        (
            "SELECT utilization.utilization FROM utilization WHERE utilization > 0.1",
            'SELECT utilisation.utilisation FROM utilisation WHERE "utilisation" > 0.1',
        ),
        ("SELECT max(synchronizing) FROM distributed", "SELECT max(synchronising) FROM distributed"),
        ("SELECT * FROM idle WHERE cause = 'synchronization'", "SELECT * FROM idle WHERE cause = 'synchronisation'"),
    ],
)
def test_older_names_have_the_same_answer(statement: str, older: str, waiting: Trace) -> None:
    expected, found = (answer_query(prepare_query(each), waiting) for each in (statement, older))
    assert found.table.height
    assert found.table.rows() == expected.table.rows()
    assert [(c.unit, c.meaning, c.base) for c in found.columns] == [
        (c.unit, c.meaning, c.base) for c in expected.columns
    ]


def test_columns_have_the_names_of_the_statement(waiting: Trace) -> None:
    def names(statement: str) -> list[str]:
        return answer_query(prepare_query(statement), waiting).table.columns

    assert names("SELECT * FROM utilization") == [column.name for column in get_analysis("utilization").columns]
    assert "utilisation" in names("SELECT * FROM utilisation")
    assert "utilization" not in names("SELECT * FROM utilisation")
    assert names("SELECT utilisation FROM utilization") == ["utilisation"]
    assert rows("SELECT name FROM events WHERE name = 'normalisation'", waiting) == [("normalisation",)]


def test_settings_of_an_analysis_have_its_older_name_too() -> None:
    for word in ("utilisation.by=step", "utilization.by=step"):
        (table,) = prepare_query("SELECT * FROM utilisation", [word]).tables
        assert (table.name, table.given) == ("utilization", (("by", "step"),))


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("SELECT zzz FROM utilisation", "query, column 8: no column 'zzz'"),
        ("SELECT utilisation.occupancyy FROM utilisation", "no column 'occupancyy'; did you mean occupancy?"),
        ("SELECT utilisation FROM events", "query, column 8: no column 'utilisation'"),
        ("SELECT * FROM utilisatio", "query, column 15: no table 'utilisatio'; did you mean utilization"),
    ],
)
def test_errors_of_statements_with_older_names(statement: str, why: str) -> None:
    assert why in refused(statement)


# --- only what is needed


def test_analyses_run_only_when_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    true = tracehound.query.run_query.run_analyses

    def counted(questions: Any, *rest: Any) -> Any:
        asked.extend(analysis.name for analysis, _ in questions)
        return true(questions, *rest)

    monkeypatch.setattr(tracehound.query.run_query, "run_analyses", counted)
    trace = sample("torch_ddp_gloo")
    rows("SELECT host, step FROM events WHERE name = 'steps' LIMIT 1", trace)  # columns that are called like analyses
    assert asked == []
    rows("WITH ops AS (SELECT name FROM events) SELECT s.step FROM Steps AS s, ops LIMIT 1", trace)
    assert asked == ["steps"]


def test_only_the_columns_that_are_named_are_read() -> None:
    trace = sample("torch_ddp_gloo")
    forbidden = pl.col("bytes").map_batches(lambda _: pytest.fail("bytes were read"), return_dtype=pl.Int64)
    scans = [partial(file.frames.scan.with_columns, forbidden) for file in trace.files]
    files = [
        replace(file, source=replace(file.frames, make_scan=scan))
        for file, scan in zip(trace.files, scans, strict=True)
    ]
    watched = replace(trace, files=files)
    assert rows("SELECT max(duration) FROM events", watched) == rows("SELECT max(duration) FROM events", trace)
    with pytest.raises(BaseException, match="bytes were read"):
        rows("SELECT max(bytes) FROM events", watched)


# --- what is wrong


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("SELECT dur FROM events", "query, column 8: no column 'dur'; did you mean duration?"),
        ("SELECT ts FROM events", "no column 'ts'; did you mean start?"),
        ("SELECT e.nme FROM events e WHERE e.nme = 'x'", "query, column 10: no column 'nme'"),
        ("SELECT events.nme FROM events", "no column 'nme'; did you mean name?"),
        ("SELECT zzz FROM events", "no column 'zzz'; tracehound query --tables lists them"),
        ("SELECT zzz FROM ranks", "no column 'zzz'; there are rank, device, model"),
        ("SELECT x.name FROM events", "query, column 8: no table 'x' in this query"),
        ('SELECT name\nFROM events\nWHERE name = "gemm"', "query, line 3, column 14: no column 'gemm'; text stands in"),
        ("SELECT * FROM evnts", "query, column 15: no table 'evnts'; did you mean events?"),
        ("SELECT * FROM zzz", "no table 'zzz'; tracehound query --tables lists them"),
        ("SELECT * FROM 'a.csv'", "no table 'a.csv'"),
        ("SELECT * FORM events", "query, column 10: expected end of statement, found FORM; see"),
        ("SELECT 1.5ms,\n  2us FORM events", "query, line 2, column 12: expected end of statement, found events; see"),
        ("SELECT name FROM events WHERE", "query: expected an expression, but it ends"),
        ("SELECT zzz(name) FROM events", "query, column 8: no function 'zzz'; polars' SQL reference lists them"),
        ("SELECT quantile(duration, 0.9) FROM events", "no function 'quantile'; did you mean quantile_cont(duration"),
        ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY self) FROM events", "did you mean quantile_cont(duration"),
        ("SELECT kind, P95(duration) FROM events", "no function 'p95'; did you mean quantile_cont(duration, 0.95)?"),
        ("SELECT mean(duration) FROM events", "did you mean avg?"),
        ("SELECT medain(duration) FROM events", "did you mean median?"),
        ("SELECT stddev(duration) FROM events", "no stddev of times; take that of numbers: stddev(duration / 1us)"),
        ("SELECT name, duration FROM events GROUP BY name", "'duration' should participate in the GROUP BY clause"),
        ("SELECT l.name FROM events k JOIN events l ON k.launch = l.id GROUP BY k.kind", "'l.name' should participate"),
        ("WITH a AS (SELECT 1) DELETE FROM events", "DELETE"),
        ("SELECT name x, name x FROM events", "duplicate output name 'x'"),
        ("SELECT \x1b[31mx\x07 FROM events", "query, column 8: expected an expression"),
        ('SELECT "\x1b[31m" FROM events', "query: no column"),
    ],
)
def test_what_is_wrong_is_said_before_any_trace_is_read(statement: str, why: str) -> None:
    assert why in refused(statement)


def test_the_functions_that_are_meant_exist() -> None:
    said = []
    for name in (*SQL_FUNCTIONS, *FUNCTION_SYNONYMS.values()):
        try:
            pl.SQLContext(t=pl.LazyFrame({"n": [1]})).execute(f"SELECT {name}(n) FROM t")
        except pl.exceptions.PolarsError as error:
            said.append(str(error))
    assert not any("unsupported function" in words for words in said)


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("SELECT name FROM events WHERE duration > '3us'", "write a time as a number and a unit without quotes: 1.5ms"),
        ("SELECT sum(CASE WHEN duration > 1ms THEN duration ELSE 0 END) FROM events", "write 0ms"),
        ("SELECT name FROM events WHERE name ~ '('", "not a regular expression: unclosed group"),
        ("SELECT CAST(name AS BIGINT) FROM events", "conversion from `str` to `i64` failed"),
        ("SELECT (SELECT id FROM events) AS one FROM events", ""),
    ],
)
def test_what_is_wrong_with_the_rows_is_said_in_one_line(statement: str, why: str) -> None:
    with pytest.raises(TracehoundError) as raised:
        rows(statement, sample("torch_ddp_gloo"))
    assert why in str(raised.value)
    assert str(raised.value).isprintable()


def test_times_and_numbers_can_be_negated() -> None:
    b = Building()
    b.event(stream(), "long", 0, 30)
    b.event(stream(), "short", 40, 50)
    found = rows("SELECT name, -duration, -(depth + 1), 3 -depth FROM events ORDER BY -duration", b.trace())
    assert found == [("long", -30_000_000, -1, 3), ("short", -10_000_000, -1, 3)]


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ("100 / -(depth + 2)", -50), ("10 % -(depth + 3)", 1), ("2 * -count(*)", -2), ("5 - -3", 8),
        ("-depth * 3 - -1", 1),
        ("CASE WHEN depth = 0 THEN -bytes END", -8), ("abs(-bytes)", 8), ("3 -count(*)", 2), ("-(bytes) / -(bytes)", 1),
        ("8 / -bytes * 2", -2),
    ],
)  # fmt: skip
def test_a_sign_binds_before_anything_else(term: str, value: int) -> None:
    b = Building()
    b.event(stream(), "copy", 0, 30, "copy", bytes=8)
    ((found,),) = rows(f"SELECT {term} FROM events", b.trace())
    assert found == value
