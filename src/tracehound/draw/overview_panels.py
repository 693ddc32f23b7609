"""The panels of the overview: results in a few lines each, of exactly the size asked for, and their places.

Lines are made of pieces of text with a style; the caller chooses the colors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, Protocol

import numpy as np
import polars as pl
from msgspec import Struct
from rich.cells import cell_len, set_cell_size

from tracehound.analysis.breakdown import WORK_IN_PART_OF_RECORDING
from tracehound.analysis.result import Column, Result
from tracehound.analysis.timing.rank_steps import complete_steps
from tracehound.draw.cell_text import format_cell
from tracehound.draw.charts import primitives
from tracehound.draw.charts.analysis_charts import BREAKDOWN_GLYPHS, BREAKDOWN_NAMES
from tracehound.draw.folded_rows import occurrences_text
from tracehound.draw.name_shortening import shorten_names_distinctly
from tracehound.draw.notes import note_text
from tracehound.draw.rank_groups import MANY_RANKS, number_alike_ranks
from tracehound.draw.text_wrapping import shorten_at_word
from tracehound.model.units import (
    CELL_DIGITS,
    count_noun,
    format_count,
    format_duration,
    format_ranks,
    format_share,
)
from tracehound.numeric.intervals import Ints

PanelStyle = Literal[
    "plain", "dim", "strong", "headline", "bar", "slow", "bad", "warn", "compute", "communication", "copy", "idle"
]
"""The style of a piece of a line. The text is complete without it."""

PanelPiece = tuple[str, PanelStyle]
PanelLine = list[PanelPiece]

SLOW_STEP_RATIO: Final = 1.5
"""A step is slow from this multiple of the median on."""

STEP_CHART_LINES: Final = 12
"""Lines of the step chart if there is room."""

LEAST_PANEL_LINES: Final = 3
"""Lines of a panel at least, unless it wants fewer: its title and two more."""

LEAST_LABELED_WIDTH: Final = 28
"""Width from which a chart of steps has labels on its axis."""

_LEVEL_STYLES: Final[Mapping[str, PanelStyle]] = MappingProxyType(
    {"dropped": "bad", "repaired": "warn", "missing": "warn"}
)


class OverviewPanel(NamedTuple):
    """A panel: the note beside its title, and the lines below."""

    note: str
    lines: list[PanelLine]


def draw_panel(result: Result, width: int, height: int, *, windowed: bool = False) -> OverviewPanel:
    """A result in at most `height` lines of `width` cells; `windowed` if it is of a selected window."""
    if result.table.is_empty():
        words = note_text(result.notes[0]) if result.notes else "nothing to show"
        return OverviewPanel("", _wrap_panel_text(words, width, height, "dim"))
    panel = _PANEL_DRAWERS.get(result.analysis, draw_rows_panel)(result, width, height, windowed=windowed)
    return OverviewPanel(panel.note, [_cut_panel_line(line, width) for line in panel.lines[:height]])


def count_wanted_lines(result: Result) -> int:
    """The lines that a result would fill if there were room."""
    rows = result.table.height
    match result.analysis:
        case "steps":
            return STEP_CHART_LINES
        case "breakdown":
            bars = rows if rows <= MANY_RANKS else len(_breakdown_of_groups(result))
            return bars + 1 + (rows > 1) + len(_working_share_lines(result))
        case "findings":
            return 6 * rows
        case "health":
            problems = result.table.filter(pl.col("level") != "info").height
            return max(1, 2 * problems) + (problems < rows)
        case _:
            return max(1, rows)


def draw_steps_panel(result: Result, width: int, height: int, *, windowed: bool) -> OverviewPanel:
    """A column for each whole step, as high as its time on its slowest rank; of a single step, one for each rank.

    The axis has labels. It begins at 0, unless the times differ by so little that this would hide it; steps that differ
    by less than `_STEADY` are as good as equal.
    """
    timed = result.table.drop_nulls("duration")
    whole_steps = complete_steps(timed)
    by_step = whole_steps.group_by("step").agg(pl.col("duration").max()).sort("step")
    if by_step.is_empty():
        return draw_rows_panel(result, width, height, windowed=windowed)
    middle = float(np.median(whole_steps["duration"].to_numpy()))
    inferred = " (inferred)" if result.table["inferred"].any() else ""
    per_rank = by_step.height == 1 and whole_steps.height > 1
    columns = whole_steps.sort("rank") if per_rank else by_step
    lengths = columns["duration"].to_numpy()
    if per_rank:
        note = f"step {by_step['step'][0]}{inferred} on {format_count(whole_steps.height)} ranks"
        footer = [_rank_extremes(columns), f"median {format_duration(round(middle))}"]
    else:
        whole = " whole" if whole_steps.height < timed.height else ""
        note = f"{format_count(len(lengths))}{whole}, median {format_duration(round(middle))}"
        footer = _step_extremes(by_step, inferred, several_ranks=by_step.height < whole_steps.height)
    slow_from = SLOW_STEP_RATIO * middle
    style: PanelStyle = "slow" if lengths.max() > slow_from else "plain"
    words: PanelLine = [(footer[0], style), *((f", {part}", "dim") for part in _fitting_parts(footer, width))]
    chart = _draw_length_chart(lengths, slow_from, width, height - 1) if height > 1 and width >= 16 else []
    return OverviewPanel(note, [*chart, words])


def _rank_extremes(ranks: pl.DataFrame) -> str:
    """The shortest and the longest time of a step, and their ranks."""
    (least_rank, least), (most_rank, most) = (
        (row["rank"], format_duration(row["duration"]))
        for row in (ranks.row(at, named=True) for at in (ranks["duration"].arg_min(), ranks["duration"].arg_max()))
    )
    return f"{least} (rank {least_rank}) to {most} (rank {most_rank})"


def _step_extremes(by_step: pl.DataFrame, inferred: str, *, several_ranks: bool) -> list[str]:
    """The longest step, then which steps there are, and whose time each has."""
    worst = by_step.row(by_step["duration"].arg_max() or 0, named=True)
    ends = [f"steps {by_step['step'][0]} to {by_step['step'][-1]}"] if by_step.height > 1 else []
    whose = ["each on its slowest rank"] if several_ranks else []
    return [f"longest {format_duration(worst['duration'])}: step {worst['step']}{inferred}", *ends, *whose]


def _fitting_parts(parts: Sequence[str], width: int) -> list[str]:
    """The parts behind the first that fit beside it, with a comma before each."""
    fit, left = list[str](), width - cell_len(parts[0])
    for part in parts[1:]:
        left -= cell_len(part) + 2
        if left < 0:
            break
        fit.append(part)
    return fit


def _draw_length_chart(lengths: Ints, slow_from: float, width: int, height: int) -> list[PanelLine]:
    """A column for each length, or for the longest of several; the axis at the left says what top and bottom are."""
    low, high = int(lengths.min()), int(lengths.max())
    floor = round(primitives.scale_floor(low, high)) if high - low >= _STEADY * high else 0
    floor = max(0, floor - (high - floor) // 4) if floor else 0  # so that the shortest has a column, too
    bottom = format_duration(floor, digits=CELL_DIGITS) if floor else "0"
    labels = [format_duration(high, digits=CELL_DIGITS), *([bottom] if height > 1 else [])]
    labeled = width >= LEAST_LABELED_WIDTH
    axis = max(map(len, labels)) + 1 if labeled else 0
    room = width - axis
    bins = np.linspace(0, len(lengths), min(room, len(lengths)) + 1).astype(int)[:-1]
    highest = np.maximum.reduceat(lengths, bins)
    column_width = min(max(1, room // len(highest)), 8)
    gap = column_width > 2
    rows = primitives.draw_columns(np.repeat(highest - floor, column_width), height)
    lines = list[PanelLine]()
    for number, row in enumerate(rows):
        label = labels[0] if number == 0 else labels[-1] if number == height - 1 else ""
        line: PanelLine = [(f"{label:>{axis - 1}}│", "dim")] if labeled else []
        for index, value in enumerate(highest.tolist()):
            text = row[index * column_width : (index + 1) * column_width - gap] + " " * gap
            line.append((text, "slow" if value > slow_from else "bar"))
        lines.append(line)
    return lines


_STEADY: Final = 0.002
"""Share of the longest step by which steps differ at least where the axis does not begin at 0."""


def draw_breakdown_panel(result: Result, width: int, height: int, *, windowed: bool) -> OverviewPanel:
    """A bar for each rank, divided by its time; if not all fit, for groups of alike ranks, below one for all."""
    table = result.table
    shares = [f"{name}_share" for name in BREAKDOWN_GLYPHS]
    span = table["span"].to_numpy()
    total_shares = [float(table[name].fill_null(0).to_numpy() @ span) / max(1, int(span.sum())) for name in shares]
    rows = [(f"rank {rank}", parts) for rank, *parts in table.select("rank", *shares).rows()]
    note = f"% of {'it' if windowed else 'first to last work'}"
    working_notes = _working_share_lines(result)[: max(0, height - LEAST_PANEL_LINES)]
    height -= len(working_notes)
    if len(rows) > height - 1:
        groups = _breakdown_of_groups(result)
        rows = [("all", total_shares), *groups[: max(0, height - 2)]]
        note += f", idlest of {format_count(table.height)} ranks"
    elif 1 < len(rows) <= height - 2:
        rows = [("all", total_shares), *rows]
    room = max(len(label) for label, _ in rows)
    lines = [_draw_breakdown_bar(f"{label:<{room}} ", parts, width) for label, parts in rows]
    return OverviewPanel(note, [*lines[: height - 1], _breakdown_legend(total_shares, width), *working_notes])


@lru_cache(maxsize=8)  # a panel is drawn for each of its lines
def _breakdown_of_groups(result: Result) -> tuple[tuple[str, list[float]], ...]:
    """The label and the mean shares of each group of ranks that are alike, the idlest first."""
    names = [f"{name}_share" for name in BREAKDOWN_GLYPHS]
    groups = (
        result.table.with_columns(number_alike_ranks(result.table, [result.column(name) for name in names]))
        .group_by("group")
        .agg(pl.col("rank"), pl.col(names).fill_null(0).mean())
        .sort(names[-1], pl.col("rank").list.min(), descending=[True, False])
    )
    return tuple((_group_label(ranks), parts) for ranks, *parts in groups.select("rank", *names).rows())


def _group_label(ranks: Sequence[int]) -> str:
    """The ranks of a group, or their number where they are not one range."""
    text = format_ranks(ranks)
    return text if "," not in text else count_noun(len(ranks), "rank")


def _working_share_lines(result: Result) -> list[PanelLine]:
    """The note that devices work only in a small part of the recording, if there is one."""
    return [[(note_text(note), "dim")] for note in result.notes if note.code == WORK_IN_PART_OF_RECORDING]


def _breakdown_style(part: str) -> PanelStyle:
    return next(sort for sort in ("compute", "communication", "copy", "idle") if sort == part)


def _breakdown_legend(total_shares: Sequence[float], width: int) -> PanelLine:
    """The parts of a bar and their shares over all ranks in percent, with short names in narrow panels."""
    line: PanelLine = []
    for (name, glyph), part in zip(BREAKDOWN_GLYPHS.items(), total_shares, strict=True):
        if width >= _WIDE_PANEL:
            line += [
                (f"{glyph} ", _breakdown_style(name)),
                (f"{BREAKDOWN_NAMES.get(name, name)} {part * 100:.0f} %  ", "plain"),
            ]
        else:
            line += [(glyph, _breakdown_style(name)), (f"{name[:4]} {part * 100:.0f} ", "plain")]
    return line if width >= _WIDE_PANEL else [*line, ("%", "plain")]


_WIDE_PANEL: Final = 80
_BUSY_CELLS: Final = len(" 100.00 % busy")


def _draw_breakdown_bar(label: str, parts: Sequence[float | None], line_width: int) -> PanelLine:
    """A label, a bar of parts, and the busy share of the device."""
    busy_width = _BUSY_CELLS if line_width >= 44 else 0
    width = line_width - len(label) - busy_width
    fractions = [part or 0.0 for part in parts]
    bar = primitives.draw_stacked_bar(fractions, [*BREAKDOWN_GLYPHS.values()], max(0, width))
    line: PanelLine = [(label, "plain")]
    at = 0
    for name, glyph in BREAKDOWN_GLYPHS.items():
        length = bar.count(glyph)
        line.append((bar[at : at + length], _breakdown_style(name)))
        at += length
    line.append((bar[at:], "plain"))
    return [*line, (f"{format_share(1 - fractions[-1])} busy".rjust(busy_width), "dim")] if busy_width else line


def draw_ops_panel(result: Result, width: int, height: int, *, windowed: bool) -> OverviewPanel:
    """The ops with most of the time, with a bar for each share. The full width is 100 %."""
    del windowed
    table = result.table.head(height)
    numbers_width = 10 + (11 if width >= 40 else 0)
    room = max(12, width - numbers_width - (width // 4 if width >= 56 else 0))
    bar_width = width - room - numbers_width
    lines = []
    names = [format_cell(Column("name", "text", ""), name) for name in table["name"]]
    short = shorten_names_distinctly(names, room)
    for name, (part, self_time) in zip(names, table.select("share", "self").rows(), strict=True):
        words = short[name]
        bar = primitives.draw_bar(part or 0.0, bar_width) if bar_width > 2 else ""
        pieces: PanelLine = [(words + " " * (room - cell_len(words)), "plain")]
        pieces.append((f" {format_share(part or 0.0, CELL_DIGITS):>8} ", "strong"))
        pieces.append((bar, "bar"))
        if numbers_width > 10:
            pieces.append((f" {format_duration(self_time or 0, digits=CELL_DIGITS):>10}", "dim"))
        lines.append(pieces)
    return OverviewPanel(f"% of op time, {count_noun(result.total, 'op')}", lines)


def draw_health_panel(result: Result, width: int, height: int, *, windowed: bool) -> OverviewPanel:
    """Repaired, dropped, missing and inferred data; all else is only counted."""
    del windowed
    problems = result.table.filter(pl.col("level") != "info")
    infos = result.table.height - problems.height
    counted = count_noun(infos, "info") if infos else ""
    if problems.is_empty():
        return OverviewPanel("", [[("nothing dropped, repaired or missing", "plain")], [(counted, "dim")]])
    below: list[PanelLine] = [[(counted, "dim")]] if counted and height > 1 else []
    room, lines = height - len(below), list[PanelLine]()
    rows = problems.rows(named=True)
    for at, row in enumerate(rows[:room]):
        level, often = row["level"], occurrences_text(row["count"], row.get("files", 1))
        words = f"{often}: {row['what']}" if often else row["what"]
        spare = room - len(lines) - (len(rows) - at - 1)
        first, *rest = _wrap_panel_text(words, max(8, width - 9), max(1, spare), "plain")
        lines += [
            [(f"{level:<9}", _LEVEL_STYLES.get(level, "dim")), *first],
            *([(" " * 9, "plain"), *line] for line in rest),
        ]
    more = len(rows) - room
    return OverviewPanel(f"{more} more" if more > 0 else "", [*lines[:room], *below])


def draw_findings_panel(result: Result, width: int, height: int, *, windowed: bool) -> OverviewPanel:
    """Findings with their cost as a share of a step or of another base; with evidence and advice if there is room.

    Titles come before the rest, and the first has the room for its whole title. The title of the panel names the base
    of the first; a finding with another base names its own.
    """
    del windowed
    rows = result.table.head(max(1, height)).select("finding", "share_of", "cost", "share", "evidence", "advice").rows()
    base = next((base for _, base, *_ in rows if base is not None), None)
    texts = [f"{what} (of {base_name(of)})" if of not in (None, base) else what for what, of, *_ in rows]
    room = max(8, width - 9)
    wanted = [len(_wrap_panel_text(text, room, max(1, height), "plain")) for text in texts]
    rows = rows[: max(1, height + 1 - min(2, wanted[0]))]
    spare = height - len(rows)
    short, lines = _shorten_findings(texts[: len(rows)], room), list[list[PanelLine]]()
    for at, (finding, (*_, cost, part, _, _)) in enumerate(zip(texts, rows, strict=False)):
        amount = format_share(part) if part is not None else format_duration(cost) if cost is not None else "-"
        style: PanelStyle = "headline" if at == 0 else "plain"
        more_lines = min(wanted[at] - 1, max(0, spare))
        spare -= more_lines
        title = _wrap_panel_text(finding, room, more_lines + 1, style) if more_lines else [[(short[finding], style)]]
        lines.append([[(f"{amount:>8} ", "strong"), *title[0]], *_indent_lines(title[1:])])
    for at, below in enumerate(_wrap_finding_texts([row[-2:] for row in rows], room, spare)):
        lines[at] += _indent_lines(below)
    more = result.total - len(rows)
    parts = [*([f"% of {base_name(base)}"] if base is not None else []), *([f"{more} more"] * (more > 0))]
    return OverviewPanel(", ".join(parts), [line for each in lines for line in each])


def _wrap_finding_texts(texts: Sequence[tuple[str, str]], width: int, height: int) -> list[list[PanelLine]]:
    """Evidence and advice of findings on at most `height` lines together, no text on more than three if not all fit."""
    pieces = list[list[tuple[str, PanelStyle]]]()
    for evidence, advice in texts:
        pieces.append([(evidence, "dim")] if evidence else [])
        pieces[-1] += [(f"advice: {advice}", "plain")] if advice else []
    whole = [len(_wrap_panel_text(text, width, height, style)) for piece in pieces for text, style in piece]
    most = height if sum(whole) <= height else 3
    found = list[list[PanelLine]]()
    for piece in pieces:
        below = list[PanelLine]()
        for text, style in piece:
            below += _wrap_panel_text(text, width, min(most, height - len(below)), style)
        height -= len(below)
        found.append(below)
    return found


def _indent_lines(lines: Sequence[PanelLine]) -> list[PanelLine]:
    """Lines below the title of a finding."""
    return [[(" " * 9, "plain"), *line] for line in lines]


def _shorten_findings(texts: Sequence[str], width: int) -> Mapping[str, str]:
    """Each text in `width` cells, cut behind a word; in its middle where several would look alike."""
    short = {text: shorten_at_word(text, width) for text in texts}
    looks = Counter(short.values())
    alike = [text for text in short if looks[short[text]] > 1]
    return {**short, **shorten_names_distinctly(alike, width)}


def base_name(base: str) -> str:
    """The base of a share of a finding, as titles have it."""
    return _BASE_NAMES.get(base, base)


_BASE_NAMES: Final = {"step": "step time", "run": "the run", "window": "the window", "recording": "the recording"}


def draw_rows_panel(result: Result, width: int, height: int, *, windowed: bool) -> OverviewPanel:
    """The first rows of any result: its texts after its first amount."""
    del width, windowed
    texts = [column for column in result.columns if column.unit == "text"]
    amounts = [column for column in result.columns if column.unit in ("time", "share")][:1]
    lines: list[PanelLine] = []
    for row in result.table.head(height).iter_rows(named=True):
        line: PanelLine = [(f"{format_cell(each, row[each.name]):>10} ", "strong") for each in amounts]
        line += [(f"{format_cell(each, row[each.name])}  ", "plain") for each in texts if row[each.name]]
        lines.append(line)
    return OverviewPanel(count_noun(result.total, "row"), lines)


class _DrawPanel(Protocol):
    def __call__(self, result: Result, width: int, height: int, *, windowed: bool) -> OverviewPanel: ...


_PANEL_DRAWERS: Final[Mapping[str, _DrawPanel]] = MappingProxyType(
    {
        "findings": draw_findings_panel,
        "steps": draw_steps_panel,
        "breakdown": draw_breakdown_panel,
        "ops": draw_ops_panel,
        "health": draw_health_panel,
    }
)
"""Results with a drawing of their own."""


def draw_message_panel(words: str, width: int, height: int, sort: PanelStyle) -> OverviewPanel:
    """The text of a panel without rows."""
    lines = [line for text in words.split("\n") for line in _wrap_panel_text(text, width, height, sort)]
    return OverviewPanel("", lines[: max(0, height)])


def _wrap_panel_text(words: str, width: int, height: int, sort: PanelStyle) -> list[PanelLine]:
    lines: list[PanelLine] = []
    text = ""
    if height < 1:
        return []
    for word in words.split():
        if text and cell_len(text) + 1 + cell_len(word) > width:
            lines.append([(text, sort)])
            text = word
        else:
            text = f"{text} {word}".strip()
    lines.append([(text, sort)])
    if len(lines) > height:
        rest = [piece[0] for line in lines[height - 1 :] for piece in line]
        lines = [*lines[: height - 1], [(shorten_at_word(" ".join(rest), width), sort)]]
    return [_cut_panel_line(line, width) for line in lines]


def _cut_panel_line(line: PanelLine, width: int) -> PanelLine:
    """The pieces that fit, the last one cut."""
    fit: PanelLine = []
    left = width
    for text, sort in line:
        if left <= 0:
            break
        size = cell_len(text)
        fit.append((text if size <= left else set_cell_size(text, left - 1) + "…", sort))
        left -= size
    return fit


class PanelArea(Struct, frozen=True):
    """The place of a panel on the overview, in cells: its title is on line `top`."""

    part: str
    left: int
    top: int
    width: int
    height: int


def place_panels(wanted_lines: Mapping[str, int], width: int, height: int) -> list[PanelArea]:
    """The places of panels with these numbers of wanted lines below their titles, column by column.

    There are one to three columns, depending on the width. Panels that do not fit are dropped from the end of their
    column.
    """
    number = 1 if width < 64 else 2 if width < 132 else 3
    columns = [[part for part in column if part in wanted_lines] for column in _PANEL_COLUMNS[number]]
    columns = [column for column in columns if column]
    column_width = (width - 2 * (len(columns) - 1)) // max(1, len(columns))
    areas = []
    for index, column in enumerate(columns):
        shown = column[: max(1, height // LEAST_PANEL_LINES)]
        top = 0
        heights = distribute_height([wanted_lines[part] + 1 for part in shown], height)
        for part, lines in zip(shown, heights, strict=True):
            areas.append(PanelArea(part, index * (column_width + 2), top, column_width, lines))
            top += lines
    return areas


_PANEL_COLUMNS: Final[Mapping[int, tuple[tuple[str, ...], ...]]] = MappingProxyType(
    {
        1: (("findings", "breakdown", "steps", "ops", "health"),),
        2: (("breakdown", "steps"), ("findings", "ops", "health")),
        3: (("breakdown", "steps"), ("ops",), ("findings", "health")),
    }
)
"""The panels of each column, by the number of columns."""


def distribute_height(wanted_heights: Sequence[int], height: int) -> list[int]:
    """Heights that sum up to at most `height`: the least for each, then line by line to those that want more.

    The first that wants more gets two lines for each one of the others.
    """
    heights = [min(LEAST_PANEL_LINES, wanted, height) for wanted in wanted_heights]
    left = height - sum(heights)
    while left > 0:
        unsatisfied = [index for index, wanted in enumerate(wanted_heights) if heights[index] < wanted]
        if not unsatisfied:
            break
        first = unsatisfied[0]
        for index in [first, *unsatisfied] if wanted_heights[first] - heights[first] > 1 else unsatisfied:
            heights[index] += left > 0
            left = max(0, left - 1)
    return heights
