"""Results as text for a terminal: aligned tables that fit the width, with a few charts.

Every line has a role (`TextLine.role`); the caller adds colors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from tracehound.analysis.ranks.rank_step_values import settings_of, shown_value, worst_ranks
from tracehound.analysis.result import Result
from tracehound.draw.cell_text import several_share_bases
from tracehound.draw.charts.analysis_charts import BREAKDOWN_NAMES
from tracehound.draw.charts.primitives import draw_bar, draw_curve, draw_stacked_bar
from tracehound.draw.charts.rank_heat_map import draw_rank_map
from tracehound.draw.charts.roofline_chart import draw_roofline
from tracehound.draw.folded_rows import fold_alike_ranks, occurrences_text
from tracehound.draw.notes import NoteTexts, fold_notes, group_notes_by_role, note_texts, separate_repeated_notes
from tracehound.draw.rank_groups import RANKS_COLUMN
from tracehound.draw.text_table import (
    TextLine,
    body_lines,
    caption_lines,
    caveat_lines,
    headline_lines,
    note_lines,
    table_lines,
    wrap_sentence,
)
from tracehound.errors import printable
from tracehound.model.notes import Note
from tracehound.model.short_names import cut_middle
from tracehound.model.units import format_duration
from tracehound.report.readable_summary import fold_result, readable_results
from tracehound.report.report_header import ReportHeader, ReportStyle, describe_window, header_sentences
from tracehound.report.summary_page import Summary

if TYPE_CHECKING:
    from tracehound.report.result_page import ResultPage

BREAKDOWN_PARTS = (("compute", "█"), ("communication", "▓"), ("copy", "░"), ("idle", " "))
"""The parts of a rank's time and their characters."""

RANK_COLUMNS = ("rank", "ranks", "device", "model", "host", "events", "threads", "host_events")
OP_COLUMNS = ("name", "category", "count", "self", "share")
OP_COLUMNS_WITH_MODULE = ("name", "module", "count", "self", "share")
BREAKDOWN_COLUMNS = (
    *("rank", "ranks", "device", "span", *(f"{part}_share" for part, _ in BREAKDOWN_PARTS)),
    *("least_idle", "most_idle"),
)
FINDING_COLUMNS = ("finding", "cost", "share", "share_of", "evidence", "effects", "advice", "next")
GAP_COLUMNS = ("rank", "ranks", "start", "duration", "after", "why", "why_share", "host")
"""The columns on the page; a report has all columns. Ops with equal names are told apart by their modules."""

SUMMARY_COLUMNS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {"overview": RANK_COLUMNS, "findings": FINDING_COLUMNS, "breakdown": BREAKDOWN_COLUMNS, "gaps": GAP_COLUMNS}
)
"""The columns of each section that does not have all."""

BAR_CELLS = 10
ROOFLINE_LINES = 24
RANK_MAP_LINES = 36
MAP_WIDTH = 160
WORST_RANKS = 10
"""Lines and columns of a rank map at most, and the ranks listed below it."""

CURVE_LINES = 8
"""Lines of the curve of step lengths, and the least number of steps for it."""


def write_result(header: ReportHeader, result: Result, style: ReportStyle) -> Iterator[TextLine]:
    """Title, table and notes; what several ranks or files have in common is one row."""
    result = fold_result(result, style)
    if result.analysis == "health":
        yield from caption_lines(result, style.width, style.unit)
        yield from _write_health_sentences(result, style)
    elif result.analysis == "rank_map" and result.table.height:
        yield from _write_rank_map(result, style)
    else:
        yield from table_lines(result, style.width, style.unit, all_notes=style.all_notes)
    if result.analysis == "roofline":
        yield from _draw_roofline_lines(result, style)
    untimed = replace(header.window, start=None, end=None)
    if not untimed.is_unlimited:
        yield from note_lines([describe_window(header, untimed, style.unit)], style.width)


def write_summary(page: Summary, style: ReportStyle) -> Iterator[TextLine]:
    """The facts of the trace, then a section for each result."""
    yield TextLine(cut_middle(page.about.name, style.width), "title")
    for sentence in header_sentences(page.about, style.unit):
        yield from (TextLine(words) for words in wrap_sentence(sentence, style.width))
    results, repeated = separate_repeated_notes(readable_results(page))
    for result in results:
        section = _summary_section(result)
        yield TextLine("")
        yield from _ruled_headings(section, style)
        yield from _write_section(page, section, style)
    yield from _write_page_notes(results, repeated, style)


def write_page(page: ResultPage, style: ReportStyle) -> Iterator[TextLine]:
    """The runs, then a section for each result."""
    yield TextLine(cut_middle(page.title, style.width), "title")
    for sentence in (*note_texts(page.headline), *page.run_sentences):
        yield from (TextLine(words) for words in wrap_sentence(sentence, style.width))
    results, repeated = separate_repeated_notes(page.results)
    for section in results:
        yield TextLine("")
        yield from _ruled_headings(section, style)
        yield from _write_table(section, style)
    yield from _write_page_notes(results, repeated, style)


def _summary_section(result: Result) -> Result:
    """A result with the columns that it has on the page, without what the page's heading says already."""
    if result.analysis == "overview":
        result = replace(result, notes=tuple(note for note in result.notes if note.code != "trace_total"))
    if result.analysis == "ops":
        has_duplicates = result.table["name"].is_duplicated().any()
        return _select_columns(result, OP_COLUMNS_WITH_MODULE if has_duplicates else OP_COLUMNS)
    names = SUMMARY_COLUMNS.get(result.analysis)
    return _select_columns(result, names) if names else result


def _write_section(page: Summary, result: Result, style: ReportStyle) -> Iterator[TextLine]:
    match result.analysis:
        case "overview":
            yield from body_lines(result, style.width, style.unit)
            yield from caveat_lines(_page_note_texts(result, style), style.width)
        case "breakdown":
            yield from _write_table(result, style)
            if "rank" in result.table.columns:
                yield from _draw_breakdown_bars(result, style.width)
        case "steps":
            yield from _write_table(result, style)
            yield from _draw_step_curve(page.lengths, style, CURVE_LINES if "rank" in result.table.columns else 4)
        case "ops":
            yield from _write_table(result, style, shares=True)
        case "health":
            yield from _write_health_sentences(result, style)
        case _:
            yield from _write_table(result, style)


def _select_columns(result: Result, names: Sequence[str]) -> Result:
    """The result with these of its columns, in its own order."""
    columns = tuple(replace(column, brief=True) for column in result.columns if column.name in names)
    return replace(result, columns=columns, table=result.table.select(column.name for column in columns))


def _write_table(result: Result, style: ReportStyle, *, shares: bool = False) -> Iterator[TextLine]:
    """The headline, the table, and the warnings of one section of a page; with `shares` a bar in each row."""
    texts = _page_note_texts(result, style)
    yield from headline_lines(texts, style.width)
    if texts.headlines and result.table.height == 1 and RANKS_COLUMN in result.columns:
        pass  # all ranks are alike: the headline says it
    elif result.table.height and shares:
        yield from _body_lines_with_bars(result, style)
    elif result.table.height or not result.notes:
        yield from body_lines(result, style.width, style.unit)
    if result.table.height:
        yield from note_lines(several_share_bases(result.columns), style.width)
    yield from caveat_lines(texts, style.width)


def _page_note_texts(result: Result, style: ReportStyle) -> NoteTexts:
    """The notes of a section: all if they are asked for or say why there are no rows, else those never folded."""
    texts = fold_notes(result.notes, unfolded=True)
    return texts if style.all_notes or result.table.is_empty() else replace(texts, caveats=())


def _write_page_notes(results: Sequence[Result], repeated: Sequence[Note], style: ReportStyle) -> Iterator[TextLine]:
    """The notes that several sections have, and the number of folded caveats of the whole page."""
    folded = [note for result in results if result.table.height for note in group_notes_by_role(result.notes).caveats]
    texts = fold_notes([*repeated, *([] if style.all_notes else folded)], unfolded=style.all_notes)
    lines = [*headline_lines(texts, style.width), *caveat_lines(texts, style.width)]
    if lines:
        yield TextLine("")
        yield _ruled_heading("Notes", style.width)
        yield from lines


def _ruled_heading(text: str, width: int) -> TextLine:
    """A heading with a rule up to the width, at most 100 characters long."""
    length = min(width, 100) - len(text) - 1
    return TextLine(f"{text} {'─' * length}" if length > 2 else text, "title")


def _ruled_headings(result: Result, style: ReportStyle) -> Iterator[TextLine]:
    """The title of a section."""
    return (_ruled_heading(title.text, style.width) for title in caption_lines(result, style.width, style.unit))


def _body_lines_with_bars(result: Result, style: ReportStyle) -> Iterator[TextLine]:
    """The table, with a bar at the end of each row: its share relative to the largest one."""
    shares = [share or 0.0 for share in result.table["share"].to_list()]
    most = max(shares) or 1.0
    lines = body_lines(result, style.width - BAR_CELLS - 2, style.unit)
    width = max(len(row.text) for row in lines)
    rest = iter(shares)
    for row in lines:
        drawn = f"{row.text:<{width}}  {draw_bar(next(rest) / most, BAR_CELLS)}" if row.role == "row" else row.text
        yield TextLine(drawn.rstrip(), row.role)


def _draw_breakdown_bars(result: Result, width: int) -> Iterator[TextLine]:
    """A bar for each rank, divided by its time."""
    glyphs = [glyph for _, glyph in BREAKDOWN_PARTS]
    labels = [f"rank {rank}" for rank in result.table["rank"].to_list()]
    room = max((len(label) for label in labels), default=0)
    shares = result.table.select(f"{name}_share" for name, _ in BREAKDOWN_PARTS).rows()
    if not shares or width < room + 20:
        return
    length = min(width, 100) - room - 3
    for label, parts in zip(labels, shares, strict=True):
        yield TextLine(f"{label:<{room}} |{draw_stacked_bar([part or 0.0 for part in parts], glyphs, length)}|")
    legend = "  ".join(
        f"{glyph if glyph.strip() else 'blank'} {BREAKDOWN_NAMES.get(name, name)}" for name, glyph in BREAKDOWN_PARTS
    )
    yield from note_lines([legend], width)


def _draw_step_curve(lengths: Sequence[tuple[int, int]], style: ReportStyle, height: int) -> Iterator[TextLine]:
    """The length of every step as a curve, from zero, if there are enough steps."""
    if len(lengths) < CURVE_LINES:
        return
    numbers, times = zip(*lengths, strict=True)
    most = max(times)
    ticks = [(number, str(number)) for number in (numbers[0], numbers[len(numbers) // 2], numbers[-1])]
    marks = [(0, "0"), (most, format_duration(most))]
    drawn = draw_curve(numbers, times, min(style.width, 100), height, ticks=ticks, marks=marks)
    yield from (TextLine(text.rstrip()) for text in drawn)
    if drawn:
        yield from note_lines(["length of each step on its slowest rank, by number of the step"], style.width)


def _draw_roofline_lines(result: Result, style: ReportStyle) -> Iterator[TextLine]:
    """The ops under their device's roof, as in the explorer."""
    drawn = draw_roofline(result, -1, (min(style.width, 100), ROOFLINE_LINES))
    yield from (TextLine(text.rstrip()) for text in ([""] if drawn else []) + drawn)


def _write_rank_map(result: Result, style: ReportStyle) -> Iterator[TextLine]:
    """The headline, the map of all rows, and the worst ranks with their means; csv and json have the rows."""
    texts = fold_notes(result.notes, unfolded=style.all_notes)
    table = result.uncut_table
    whole = replace(result, table=table, total=table.height)
    yield from caption_lines(replace(whole, columns=()), style.width, style.unit)
    yield from headline_lines(texts, style.width)
    drawn = draw_rank_map(whole, 0, (min(style.width, MAP_WIDTH), RANK_MAP_LINES))
    yield from (TextLine(text.rstrip()) for text in drawn)
    value = shown_value(settings_of(result))
    worst = worst_ranks(table, value, min(WORST_RANKS, result.table.height))
    worst = fold_alike_ranks(worst, [worst.column(value)])
    if worst.total > 1 and (worst.table.height > 1 or RANKS_COLUMN not in worst.columns):
        yield TextLine("")
        yield from table_lines(worst, style.width, style.unit)
    yield from caveat_lines(texts, style.width)


def _write_health_sentences(result: Result, style: ReportStyle) -> Iterator[TextLine]:
    """Level, count, message and place of each row as sentences, since they are text to read."""
    for row in result.table.iter_rows(named=True):
        lead = f"{row['level']} {occurrences_text(row['count'], row.get('files', 1))}".rstrip()
        text = f"{lead}: {row['what']}{' (' + row['where'] + ')' if row['where'] else ''}"
        yield from (TextLine(words) for words in wrap_sentence(printable(text), style.width))
    yield from note_lines(note_texts(result.notes), style.width)
