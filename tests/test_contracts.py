"""What is true of every analysis on every trace."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import orjson
import polars as pl
import pytest

import tracehound
from building import Building, stream, thread
from tracehound.analysis import ANALYSES, Analysis, Options, named, run
from tracehound.analysis.result import MEMBERS, blank
from tracehound.analysis.settings import Given
from tracehound.draw.plain import in_ascii
from tracehound.draw.plots import plot
from tracehound.draw.table import UNLIMITED
from tracehound.errors import TracehoundError
from tracehound.report import Look, about, writer
from tracehound.store import load, open_paths, place
from tracehound.trace import Trace, Window

WIDE = Look(UNLIMITED)
FORMS = ("text", "markdown", "csv", "json")

SAMPLES = Path(__file__).resolve().parents[1] / "traces"


def one_event() -> Trace:
    b = Building()
    b.event(stream(), "gemm", 5, 5)
    return b.trace()


def host_only() -> Trace:
    b = Building()
    b.event(thread(), "aten::mm", 0, 1, "op")
    return b.trace()


def sample_traces() -> Iterator[tuple[str, Trace]]:
    yield "empty", place("empty", [])
    yield "one event", one_event()
    yield "host only", host_only()
    for folder in sorted(path for path in SAMPLES.iterdir() if path.is_dir() and not path.name.startswith("_")):
        yield folder.name, load(open_paths([folder]))


@pytest.fixture(scope="module", params=sample_traces(), ids=lambda pair: pair[0])
def trace(request: pytest.FixtureRequest) -> Trace:
    return request.param[1]


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda a: a.name)
@pytest.mark.parametrize("top", [None, 2])
def test_a_result_is_what_it_declares(analysis: Analysis, trace: Trace, top: int | None) -> None:
    middle = sum(trace.span) // 2
    for window in (Window(), Window(trace.span[0], middle), Window(ranks=(0,)), Window(middle, middle)):
        result = run(analysis, trace, window, Options(top))
        assert result.analysis == analysis.name
        assert result.table.schema == blank(analysis.columns).schema
        assert result.total >= result.table.height
        assert top is None or result.table.height <= top
        assert result.table.height or result.notes, "an empty table says why"


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda a: a.name)
def test_rows_of_another_sort_have_the_columns_that_are_declared_for_them(analysis: Analysis, trace: Trace) -> None:
    sorts = [choice for setting in analysis.settings if setting.name == "by" for choice in setting.choices]
    assert {*analysis.by} <= {*sorts}
    for sort in sorts:
        given = (("by", sort),)
        assert run(analysis, trace, options=Options(given=given)).columns == analysis.shown(given).columns


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda a: a.name)
def test_every_form_has_all_rows_of_a_result(analysis: Analysis, trace: Trace) -> None:
    facts = about(trace, Window())
    for given in ((), *((("by", by),) for by in analysis.by)):
        result = run(analysis, trace, options=Options(given=given))
        told = {form: "".join(f"{line.text}\n" for line in writer(form).result(facts, result, WIDE)) for form in FORMS}
        rows = [line for line in told["markdown"].splitlines() if line.startswith("| ")]
        assert len(rows[2:]) == len(orjson.loads(told["json"])["rows"]) == result.table.height
        assert len(list(csv.reader(told["csv"].splitlines()))[1:]) == result.table.height


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda a: a.name)
def test_the_same_input_gives_the_same_rows(analysis: Analysis, trace: Trace) -> None:
    first, second = run(analysis, trace), run(analysis, trace)
    assert first.table.equals(second.table)
    assert first.notes == second.notes


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda a: a.name)
def test_what_a_chart_draws_has_a_likeness_in_ascii(analysis: Analysis, trace: Trace) -> None:
    result = run(analysis, trace)
    lines = plot(result, "", 0, (100, 20))
    told = "".join(map(str, result.table.to_dicts()))
    unlike = {char for line in lines for char in line if in_ascii(char) == "?" and char not in told}
    assert not unlike - {"?"}


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda a: a.name)
def test_events_named_in_a_result_exist(analysis: Analysis, trace: Trace) -> None:
    table = run(analysis, trace, options=Options(20)).table
    for column in analysis.columns:
        if column.unit == "id":
            for event in table[column.name].drop_nulls():
                assert trace.event(event)["id"] == event


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda a: a.name)
def test_an_analysis_explains_itself(analysis: Analysis) -> None:
    assert analysis.question.endswith("?")
    assert len(analysis.definition) > 80
    for column in analysis.columns:
        assert column.meaning
        assert (column.unit == "share") == bool(column.base), f"{column.name}: a share names its base"


def test_shares_are_fractions(trace: Trace) -> None:
    low, high = trace.span
    for window in (Window(), Window(low + (high - low) // 7, low + (high - low) // 2)):
        for analysis in ANALYSES:
            table = run(analysis, trace, window).table
            for column in analysis.columns:
                if column.unit == "share":
                    values = table[column.name].drop_nulls()
                    assert values.is_between(0, 1.000001).all(), (analysis.name, column.name, values.max())


ADDS_UP = {
    "annotations": ("total", "self", "device"),
    "breakdown": ("compute", "communication", "copy", "idle"),
    "collectives": ("total", "wait"),
    "distributed": ("computation", "overlap", "communication", "other"),
    "duty_cycle": ("compute", "collectives", "input", "output", "idle"),
    "hlo_ops": ("self", "total"),
    "idle": ("idle",),
    "kernels": ("total",),
    "modules": ("host_total", "device_total"),
    "operators": ("host_self", "device_self"),
    "ops": ("self", "total"),
    "overlap": ("first", "second", "both", "exposed"),
    "slices": ("self", "total"),
    "stacks": ("self", "device_self"),
}
"""What of a time is that of its first part and that of the rest."""


@pytest.mark.parametrize("name", ADDS_UP)
def test_windows_side_by_side_add_up_to_the_window_of_both(name: str, trace: Trace) -> None:
    low, high = trace.span
    edges = low + (high - low) // 7, low + (high - low) // 2, high - (high - low) // 9
    sums = [
        {column: run(named(name), trace, Window(start, end)).table[column].sum() or 0 for column in ADDS_UP[name]}
        for start, end in ((edges[0], edges[2]), edges[:2], edges[1:])
    ]
    for column, whole in sums[0].items():
        parts = sums[1][column] + sums[2][column]
        assert parts == pytest.approx(whole, abs=1000), f"{column}: ps that rounding does not explain"


def test_the_parts_of_a_breakdown_add_up(trace: Trace) -> None:
    for window in (Window(), Window(trace.span[0], sum(trace.span) // 3)):
        table = run(named("breakdown"), trace, window).table
        parts = table.select(pl.sum_horizontal("compute", "communication", "copy", "idle")).to_series()
        assert parts.to_list() == table["span"].to_list()


NOT_EVENTS = {
    "critical_path": "stretches of the path, of which an event may have several; the path itself is walked in order",
    "health": "what the loader and the checks found: no events",
    "idle": "pauses, in which nothing ran",
}
"""What analyses count where that is no event of the trace, so that no row of theirs leads through several."""

COUNTS = ("count", "calls", "copies", "launches")


def test_what_counts_events_can_name_them() -> None:
    for analysis in ANALYSES:
        for given in ways(analysis):
            counting = {*COUNTS} & {
                column.name for column in run(analysis, one_event(), None, Options(0, given)).columns
            }
            assert not counting or bool(analysis.counts) != (analysis.name in NOT_EVENTS), (analysis.name, given)


@pytest.mark.parametrize("analysis", [each for each in ANALYSES if each.counts], ids=lambda a: a.name)
def test_rows_name_as_many_events_as_they_count(analysis: Analysis, trace: Trace) -> None:
    """The explorer walks through these events, and charts their lengths."""
    low, high = trace.span
    part = Window(low + (high - low) // 7, low + (high - low) // 2)
    for given, window in [((), Window()), *((given, part) for given in ways(analysis))]:
        told = run(analysis, trace, window, Options(None, given, members=True))
        names = [column.name for column in told.columns]
        if window == Window():
            assert told.table.select(names).equals(run(analysis, trace).table), "the rows are the same"
        if analysis.counts in names and told.table.height:
            found = told.table.select(analysis.counts, pl.col(MEMBERS).list.n_unique().cast(pl.Int64)).rows()
            assert [(count, named) for count, named in found if count != named] == [], given


def ways(analysis: Analysis) -> Iterator[Given]:
    """What may be chosen of an analysis, one setting at a time."""
    yield ()
    for setting in analysis.settings:
        yield from (((setting.name, choice),) for choice in setting.choices if choice != setting.default)


def test_an_unknown_analysis_is_named() -> None:
    with pytest.raises(TracehoundError, match="did you mean gaps"):
        named("gap")


def test_events_are_collected_in_one_way() -> None:
    source = Path(tracehound.__file__).parent
    for path in source.rglob("*.py"):
        if path.name != "trace.py" and path.parent.name in ("analysis", "draw", "ui", "report", "panes", "widgets"):
            assert ".collect(" not in path.read_text("utf-8"), f"{path}: use trace.collected"
