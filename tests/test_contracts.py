"""What is true of every analysis on every trace."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path

import orjson
import polars as pl
import pytest

import tracehound
from building import Building, stream, thread
from samples import FAMILIES, sample
from tracehound.analysis import ANALYSES, Analysis, Options, get_analysis, run_analysis
from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.result import COUNTED_EVENTS, Result, empty_table
from tracehound.draw.charts.analysis_charts import draw_chart
from tracehound.draw.charts.bar_charts import label_columns
from tracehound.draw.folded_rows import fold_rows
from tracehound.draw.glyphs import to_ascii
from tracehound.draw.notes import render_note_columns
from tracehound.draw.text_table import UNLIMITED_WIDTH
from tracehound.errors import TracehoundError
from tracehound.model.trace import Trace, Window
from tracehound.report import ReportStyle, build_header, find_writer
from tracehound.store import merge_file_frames

WIDE = ReportStyle(UNLIMITED_WIDTH)
FORMS = ("text", "markdown", "csv", "json")

EMPTY, ONE_EVENT, HOST_ONLY = "empty", "one event", "host only"
SMALLEST = "torch_xla_single"
RANKS = {"jax_cpu8_b4096": (0, 1)}
"""Of which ranks of the largest the short run asks: what an analysis does with eight it does with two."""
IN_SHORT = [
    (name, analysis) for name in (EMPTY, *FAMILIES) for analysis in (ANALYSES[::3] if name in RANKS else ANALYSES)
]
"""A third of the analyses is asked of the largest: the golden reports of it are of all."""
ALIKE = (
    (ONE_EVENT,),
    (HOST_ONLY,),
    ("torch_stacks",),
    ("torch_ddp_gloo",),
    ("torch_xla_irdebug",),
    ("torch_xla_remote", "torch_xla_spmd4"),
    ("jax_cpu8_b128", "jax_cpu8_b4096"),
)
IN_FULL = [(names[number % len(names)], one) for names in ALIKE for number, one in enumerate(ANALYSES)]
"""The full run asks all of them of a trace of each kind: of two that are alike each has half of the analyses."""

Chosen = Callable[[ChosenSettings], Result]
"""The answer with something chosen, in a window that the caller knows."""


def one_event() -> Trace:
    b = Building()
    b.event(stream(), "gemm", 5, 5)
    return b.trace()


def host_only() -> Trace:
    b = Building()
    b.event(thread(), "aten::mm", 0, 1, "op")
    return b.trace()


def trace_named(name: str) -> Trace:
    made = {EMPTY: lambda: merge_file_frames("empty", []), ONE_EVENT: one_event, HOST_ONLY: host_only}
    return made[name]() if name in made else sample(name)


class Answers:
    """What an analysis says about a trace: each question is asked once, however many properties look at its answer."""

    def __init__(self, analysis: Analysis, trace: Trace, ranks: tuple[int, ...] | None = None) -> None:
        self.analysis, self.trace, self.ranks = analysis, trace, ranks
        self._known: dict[tuple[Window, Options], Result] = {}

    def __call__(self, window: Window | None = None, options: Options | None = None) -> Result:
        asked = window or self.everything, options or Options()
        if asked not in self._known:
            self._known[asked] = self.again(*asked)
        return self._known[asked]

    def again(self, window: Window | None = None, options: Options | None = None) -> Result:
        return run_analysis(self.analysis, self.trace, window or self.everything, options)

    def counted(self, window: Window, given: ChosenSettings) -> Result:
        """The rows with the events that they count, of an analysis that has such."""
        return self(window, Options(given=given, members=bool(self.analysis.count_column)))

    @cached_property
    def everything(self) -> Window:
        return Window(ranks=self.ranks)

    def between(self, start: int, end: int) -> Window:
        return Window(start, end, self.ranks)

    @cached_property
    def edges(self) -> tuple[int, int, int]:
        """Three times of the trace, in their order."""
        low, high = self.trace.span
        return low + (high - low) // 7, low + (high - low) // 2, high - (high - low) // 9

    @cached_property
    def part(self) -> Window:
        return self.between(*self.edges[:2])

    @cached_property
    def instant(self) -> Window:
        middle = sum(self.trace.span) // 2
        return self.between(middle, middle)


def ways(analysis: Analysis) -> Iterator[ChosenSettings]:
    """What may be chosen of an analysis, one setting at a time."""
    yield ()
    for setting in analysis.settings:
        yield from (((setting.name, choice),) for choice in setting.choices if choice != setting.default)


# --- properties of the answers of one analysis about one trace


def is_what_it_declares(answers: Answers, window: Window, top: int | None) -> None:
    result = answers(window, Options(top))
    assert result.analysis == answers.analysis.name
    assert result.table.schema == empty_table(answers.analysis.columns).schema
    assert result.total >= result.table.height
    assert top is None or result.table.height <= top
    assert result.table.height or result.notes, "an empty table says why"


def has_shares_that_are_fractions(answers: Answers, window: Window) -> None:
    table = answers(window).table
    for column in answers.analysis.columns:
        if column.unit == "share":
            values = table[column.name].drop_nulls()
            assert values.is_between(0, 1.000001).all(), (column.name, values.max())


def has_the_columns_of_each_sort(answers: Answers, chosen: Chosen) -> None:
    sorts = [choice for setting in answers.analysis.settings if setting.name == "by" for choice in setting.choices]
    assert {*answers.analysis.columns_by_setting} <= {*sorts}
    for sort in sorts:
        given = (("by", sort),)
        assert chosen(given).columns == answers.analysis.with_shown_columns(given).columns


def has_all_rows_in_every_form(answers: Answers, result: Result) -> None:
    facts = build_header(answers.trace, Window())
    told = {
        form: "".join(f"{line.text}\n" for line in find_writer(form).write_result(facts, result, WIDE))
        for form in FORMS
    }
    rows = [line for line in told["markdown"].splitlines() if line.startswith("| ")]
    assert len(rows[2:]) == fold_rows(render_note_columns(result)).table.height, (
        "what ranks and files have in common is one row"
    )
    assert len(orjson.loads(told["json"])["rows"]) == result.table.height
    sums = [column.name for column in result.columns if column.null_text]  # rows of all ranks, which csv leaves out
    own = result.table.filter([pl.col(name).is_not_null() for name in sums]) if sums else result.table
    assert len(list(csv.reader(told["csv"].splitlines()))[1:]) == own.height


def is_the_same_again(answers: Answers) -> None:
    first, second = answers(), answers.again()
    assert first.table.equals(second.table)
    assert first.notes == second.notes


def has_a_chart_with_a_likeness_in_ascii(answers: Answers) -> None:
    result = answers()
    lines = draw_chart(result, "", 0, (100, 20))
    told = "".join(map(str, result.table.to_dicts()))
    unlike = {char for line in lines for char in line if to_ascii(char) == "?" and char not in told}
    assert not unlike - {"?"}


def has_rows_that_labels_tell_apart(answers: Answers) -> None:
    found = answers()
    depth = [column.name for column in found.columns if column.unit == "depth"]
    if not (found.table.is_empty() or depth or found.analysis in ("findings", "health", "collectives")):
        chosen = [column.name for column in label_columns(found)]
        assert found.table.select(pl.struct(chosen).n_unique()).item() == found.table.height, chosen


def names_events_that_exist(answers: Answers) -> None:
    table = answers().table.head(20)
    for column in answers.analysis.columns:
        if column.unit == "id":
            for event in table[column.name].drop_nulls():
                assert answers.trace.event(event)["id"] == event


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


def adds_up_over_windows_side_by_side(answers: Answers) -> None:
    low, middle, high = answers.edges
    sums = [
        {column: answers(window).table[column].sum() or 0 for column in ADDS_UP[answers.analysis.name]}
        for window in (answers.between(low, high), answers.part, answers.between(middle, high))
    ]
    for column, whole in sums[0].items():
        parts = sums[1][column] + sums[2][column]
        assert parts == pytest.approx(whole, abs=1000), f"{column}: ps that rounding does not explain"


def adds_up_to_the_span(answers: Answers, window: Window) -> None:
    table = answers(window).table
    parts = table.select(pl.sum_horizontal("compute", "communication", "copy", "idle")).to_series()
    assert parts.to_list() == table["span"].to_list()


def names_as_many_events_as_it_counts(answers: Answers, window: Window, given: ChosenSettings) -> None:
    """The explorer walks through these events, and charts their lengths."""
    told = answers.counted(window, given)
    names = [column.name for column in told.columns]
    if answers.analysis.count_column in names and told.table.height:
        found = told.table.select(
            answers.analysis.count_column, pl.col(COUNTED_EVENTS).list.n_unique().cast(pl.Int64)
        ).rows()
        assert [(count, named) for count, named in found if count != named] == [], given


def has_the_same_rows_with_their_events(answers: Answers, window: Window) -> None:
    told = answers.counted(window, ())
    shown = told.table.select([column.name for column in told.columns])
    assert shown.equals(answers(window).table), "the rows are the same"


def keeps_its_word(answers: Answers, asked: Iterable[tuple[Window, int | None]], chosen: Chosen) -> None:
    """Each property, of the windows and numbers of rows that are asked for and of the rows of each sort."""
    analysis = answers.analysis
    for window, top in asked:
        is_what_it_declares(answers, window, top)
    for window in (answers.everything, answers.part):
        has_shares_that_are_fractions(answers, window)
    has_the_columns_of_each_sort(answers, chosen)
    for result in (answers(), *(chosen((("by", by),)) for by in analysis.columns_by_setting)):
        has_all_rows_in_every_form(answers, result)
    has_a_chart_with_a_likeness_in_ascii(answers)
    has_rows_that_labels_tell_apart(answers)
    names_events_that_exist(answers)
    if analysis.name in ADDS_UP:
        adds_up_over_windows_side_by_side(answers)
    if analysis.name == "breakdown":
        for window in (answers.everything, answers.part):
            adds_up_to_the_span(answers, window)
    if analysis.count_column:
        has_the_same_rows_with_their_events(answers, answers.part)
        for given in ways(analysis):
            names_as_many_events_as_it_counts(answers, answers.part, given)


@pytest.mark.parametrize(("name", "analysis"), IN_SHORT, ids=lambda value: getattr(value, "name", value))
def test_an_analysis_keeps_its_word(name: str, analysis: Analysis) -> None:
    answers = Answers(analysis, trace_named(name), RANKS.get(name))
    asked = [(answers.everything, None), (answers.part, None)]
    if name in (EMPTY, SMALLEST):
        asked += [(answers.everything, 2), (answers.instant, 2)]
        is_the_same_again(answers)
    keeps_its_word(answers, asked, lambda given: answers.counted(answers.part, given))


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "analysis"), IN_FULL, ids=lambda value: getattr(value, "name", value))
def test_an_analysis_keeps_its_word_wherever_it_is_asked(name: str, analysis: Analysis) -> None:
    answers = Answers(analysis, trace_named(name))
    low, high = answers.trace.span
    windows = (Window(low, (low + high) // 3), Window(ranks=(0,)), answers.instant)
    asked = [(Window(), None), (Window(), 2), *((window, None) for window in windows)]
    is_the_same_again(answers)
    keeps_its_word(answers, asked, lambda given: answers(options=Options(given=given)))
    if analysis.count_column:
        has_the_same_rows_with_their_events(answers, Window())
        names_as_many_events_as_it_counts(answers, Window(), ())


# --- properties of all analyses


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda a: a.name)
def test_an_analysis_explains_itself(analysis: Analysis) -> None:
    assert analysis.question.endswith("?")
    assert len(analysis.definition) > 80
    for column in analysis.columns:
        assert column.meaning
        assert (column.unit == "share") == bool(column.base), f"{column.name}: a share names its base"


NOT_EVENTS = {
    "critical_path": "stretches of the path, of which an event may have several; the path itself is walked in order",
    "health": "what the loader and the checks found: no events",
    "idle": "pauses, in which nothing ran",
    "rank_map": "kernels of a step; a row leads to its step, and `kernels` through the kernels",
}
"""What analyses count where that is no event of the trace, so that no row of theirs leads through several."""

COUNTS = ("count", "calls", "copies", "launches")


def test_what_counts_events_can_name_them() -> None:
    trace = one_event()
    for analysis in ANALYSES:
        for given in ways(analysis):
            counting = {*COUNTS} & {
                column.name for column in run_analysis(analysis, trace, None, Options(0, given)).columns
            }
            assert not counting or bool(analysis.count_column) != (analysis.name in NOT_EVENTS), (analysis.name, given)


def test_an_unknown_analysis_is_named() -> None:
    with pytest.raises(TracehoundError, match="did you mean gaps"):
        get_analysis("gap")


def test_events_are_collected_in_one_way() -> None:
    source = Path(tracehound.__file__).parent
    for path in source.rglob("*.py"):
        if path.name != "trace.py" and path.parent.name in ("analysis", "draw", "ui", "report", "panes", "widgets"):
            assert ".collect(" not in path.read_text("utf-8"), f"{path}: use trace.collected"
