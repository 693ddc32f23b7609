"""A result as aligned lines of text for a width, for the text report. Each row is one line and never wraps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size

from tracehound.analysis.result import Column, Result, indented_column, row_depths
from tracehound.draw.cell_text import (
    column_alignment,
    column_heading,
    columns_with_values,
    common_share_base,
    drop_common_base_column,
    format_column,
    format_host_activity,
    is_all_zero,
    mark_distinguishing_column_brief,
    mark_large_times_brief,
    naming_column,
    readable_columns,
    several_share_bases,
)
from tracehound.draw.name_shortening import shorten_name, shorten_names_distinctly
from tracehound.draw.notes import NoteTexts, fold_notes
from tracehound.draw.text_wrapping import wrap_text
from tracehound.errors import printable
from tracehound.model.short_names import cut_middle
from tracehound.model.units import TimeUnit, format_instant

LineRole = Literal["title", "caption", "headline", "head", "row", "detail", "warning", "note"]

NOTES_OPTION: Final = "--notes"
"""The option that shows folded notes."""

COLUMN_GAP = "  "
DETAIL_INDENT = "    "
READABLE_TEXT_WIDTH = 24
"""Text is not cut below this width, in characters, while a column that is not brief can be hidden instead."""

NARROWEST_TEXT_WIDTH = 10
"""Text is not cut below this width while any other column can be hidden instead."""

VERDICT_WIDTH = 18
"""The same limit for the verdict on a change."""

NAME_WIDTH = 24
"""The column that names a row has this width, or a third of the line, while others can be hidden instead."""

UNLIMITED_WIDTH = 1 << 30
"""A width in which every table fits."""


INDENT_STEP = 2
"""Cells for each tree level, if the deepest level fits."""

LEAST_INDENT = 6
"""Cells that names may be indented, however narrow the line is."""


class TextLine(Struct, frozen=True):
    """One line and its role, for which the caller chooses a style."""

    text: str
    role: LineRole = "row"


class _TableColumn(Struct, frozen=True):
    """The cells of a column, its heading of one or two lines, and its width; in a tree the indentation, too.

    Text keeps `floor` cells, however much other text is cut. `void`: an amount that is zero in every row.
    """

    column: Column
    head: tuple[str, str]
    cells: list[str]
    width: int
    leads: Sequence[str] = ()
    floor: int = 0
    void: bool = False

    def min_width(self, words: int) -> int:
        """The least width if text may be cut to so many characters; numbers are never cut."""
        if column_alignment(self.column) == "right":
            return self.width
        return min(self.width, max(words, self.floor) + max(map(len, self.leads), default=0))

    def draw_cells(self, room: int) -> list[str]:
        """The cells of all rows in this width. Different texts stay distinct; indentation is cut last."""
        if self.leads:
            both = zip(self.leads, self.cells, strict=True)
            return [lead + shorten_name(cell, max(1, room - len(lead))) for lead, cell in both]
        if room >= self.width:
            return self.cells
        short = shorten_names_distinctly(self.cells, room)
        return [short[cell] for cell in self.cells]


class _TableLayout(Struct, frozen=True):
    """The columns side by side, the extra lines below each row, and the hidden columns."""

    beside: list[_TableColumn]
    below: list[list[str]]
    missing: list[_TableColumn]


def table_lines(result: Result, width: int, unit: TimeUnit = "auto", *, all_notes: bool = True) -> list[TextLine]:
    """Title, headline, header, rows and notes of a result, in lines of at most `width` characters.

    Several caveats are folded into one line unless `all_notes` is set, or there are no rows, which they explain.
    """
    layout, is_empty = _lay_out_table(result, width, unit), result.table.is_empty()
    texts = fold_notes(result.notes, unfolded=all_notes or is_empty)
    bases = [] if is_empty else several_share_bases([block.column for block in layout.beside])
    hidden = [] if is_empty else _hidden_columns_notes(layout.missing)
    return [
        *caption_lines(result, width, unit),
        *headline_lines(texts, width),
        *_row_lines(layout, width),
        *note_lines([*hidden, *bases], width),
        *caveat_lines(texts, width),
    ]


def headline_lines(texts: NoteTexts, width: int) -> list[TextLine]:
    """The headline of a result."""
    return [TextLine(line, "headline") for text in texts.headlines for line in wrap_sentence(text, width)]


def caveat_lines(texts: NoteTexts, width: int) -> list[TextLine]:
    """The warnings and caveats of a result; the number of those that are folded."""
    warnings = [TextLine(line, "warning") for text in texts.warnings for line in wrap_sentence(text, width)]
    return [*warnings, *note_lines([*texts.caveats, *folded_notes_texts(texts.folded)], width)]


def folded_notes_texts(folded: int) -> list[str]:
    """The line that counts folded notes; nothing if there are none."""
    return [f"{folded} notes ({NOTES_OPTION} shows them)"] if folded else []


def caption_lines(result: Result, width: int, unit: TimeUnit = "auto") -> list[TextLine]:
    """The title with the window, the number of rows shown, and the base of shares if all have the same."""
    facts = [result.title]
    if result.window is not None:
        facts.append(f"window {format_instant(result.window[0], unit)} to {format_instant(result.window[1], unit)}")
    facts.extend(filter(None, (result.shown_rows_text, common_share_base(result))))
    return [TextLine(line, "title") for line in wrap_sentence(" · ".join(facts), width)]


def body_lines(result: Result, width: int, unit: TimeUnit = "auto") -> list[TextLine]:
    """Header and rows; a phrase if there are no rows.

    The narrower the width, the more is hidden or cut, in this order: columns of zeros; columns that are not `brief`
    (see `mark_distinguishing_column_brief` and `mark_large_times_brief`); the middle of text; columns from the right,
    last the one that sorts the rows, a change and its verdict; the text that names a row. If not everything fits side
    by side, host activity has lines of its own below its row. So have sentences, below the full name if that is cut.
    """
    return _row_lines(_lay_out_table(result, width, unit), width)


def note_lines(texts: Sequence[str], width: int) -> list[TextLine]:
    """The notes below a table."""
    return [TextLine(line, "note") for text in texts for line in wrap_sentence(text, width)]


def wrap_sentence(text: str, width: int) -> list[str]:
    """A sentence on lines of at most `width` cells; continued lines are indented."""
    return wrap_text(printable(text), max(width, 8), "  ") or [""]


def _lay_out_table(result: Result, width: int, unit: TimeUnit) -> _TableLayout:
    result = drop_common_base_column(result)
    tree_column, indents = indented_column(result.columns), _tree_indents(result, width)
    columns = mark_distinguishing_column_brief(
        mark_large_times_brief(columns_with_values(readable_columns(result), result.table), result.table), result.table
    )
    details = _sentence_lines(result, [column for column in columns if column.unit == "prose"], width)
    blocks = [
        replace(
            _make_table_column(column, format_column(result, column, unit), indents if column is tree_column else ()),
            void=is_all_zero(column, result.table[column.name]),
        )
        for column in columns
        if column.unit != "prose"
    ]
    if sum(block.width for block in blocks) + len(COLUMN_GAP) * (len(blocks) - 1) <= width:
        return _TableLayout(blocks, details, [])
    host = (
        [block.column.name for block in blocks if block.column.unit == "host"] if width >= READABLE_TEXT_WIDTH else []
    )
    beside = _reserve_name_width([block for block in blocks if block.column.name not in host], width)
    visible = _columns_that_fit(beside, width, _sorting_time_column(result))
    details = (
        [format_host_activity(value, width - len(DETAIL_INDENT)) for value in result.table[host[0]].to_list()]
        if host
        else details
    )
    details = _details_with_full_names(visible, details, width) if details and not host else details
    return _TableLayout(visible, details, [block for block in beside if block not in visible])


def _hidden_columns_notes(blocks: Sequence[_TableColumn]) -> list[str]:
    """The names of hidden columns; columns of zeros come last."""
    names, zeros = (
        ", ".join(column_heading(block.column) for block in blocks if block.void is void) for void in (False, True)
    )
    found = "; ".join(filter(None, (names, f"all zero: {zeros}" if zeros else "")))
    return [f"hidden columns: {found} (--width 0 shows all)"] if found else []


def _details_with_full_names(
    blocks: Sequence[_TableColumn], details: Sequence[list[str]], width: int
) -> list[list[str]]:
    """The lines below the rows, after the full text of the first column if that is cut."""
    room = _column_widths(blocks, width)[0]
    cut_names = ([cell] if cell_len(cell) > room else [] for cell in blocks[0].cells)
    broken = (
        [line for cell in cells for line in wrap_text(cell, max(width - len(DETAIL_INDENT), 8))] for cells in cut_names
    )
    return [[*words, *lines] for words, lines in zip(broken, details, strict=True)]


def _reserve_name_width(blocks: Sequence[_TableColumn], width: int) -> list[_TableColumn]:
    """The columns, with a `floor` for the one that names a row and for the verdict of a comparison."""
    name = naming_column(
        [block.column for block in blocks], {block.column.name: len({*block.cells}) for block in blocks}
    )
    floors = [
        (block, NAME_WIDTH if block.column.name == name else VERDICT_WIDTH * is_comparison_column(block.column))
        for block in blocks
    ]
    return [replace(block, floor=min(floor, width // 3)) for block, floor in floors]


def _sentence_lines(result: Result, columns: Sequence[Column], width: int) -> list[list[str]]:
    """The sentences of every row, each after the name of its column."""
    if not columns:
        return []
    room = max(len(column_heading(column)) for column in columns) + len(COLUMN_GAP)
    found: list[list[str]] = [[] for _ in range(result.table.height)]
    for column in columns:
        for lines, value in zip(found, result.table[column.name].to_list(), strict=True):
            broken = wrap_text(printable(value or ""), max(width - len(DETAIL_INDENT) - room, 8))
            heads = [column_heading(column), *("" for _ in broken[1:])]
            lines.extend(f"{head:<{room}}{text}" for head, text in zip(heads, broken, strict=False))
    return found


def _tree_indents(result: Result, width: int) -> list[str]:
    """The indentation of the names of a tree's rows; empty if the result is no tree."""
    deep = row_depths(result.table, result.columns)
    if deep is None or not len(deep):
        return []
    chosen = fit_tree_indents(int(deep.max()), width)
    return [chosen.indent_at_depth(depth) for depth in deep.tolist()]


def _make_table_column(column: Column, cells: list[str], indents: Sequence[str] = ()) -> _TableColumn:
    """A column as wide as its cells. Its heading breaks at a space if that makes it narrower."""
    sizes = (
        map(cell_len, cells)
        if not indents
        else (len(indent) + cell_len(cell) for indent, cell in zip(indents, cells, strict=True))
    )
    full_heading, widest = column_heading(column), max(sizes, default=0)
    above, _, below = full_heading.rpartition(" ")
    head = (above, below) if above and cell_len(full_heading) > widest else ("", full_heading)
    return _TableColumn(column, head, cells, max(widest, *map(cell_len, head)), indents)


def _row_lines(layout: _TableLayout, width: int) -> list[TextLine]:
    blocks = layout.beside
    if not blocks or not blocks[0].cells:
        return [TextLine(cut_middle("  nothing to show", width), "caption")]
    widths = _column_widths(blocks, width)
    heads = [_row_line([block.head[n] for block in blocks], blocks, widths, width) for n in (0, 1)]
    lines = [TextLine(head, "head") for head in heads if head]
    columns = [block.draw_cells(room) for block, room in zip(blocks, widths, strict=True)]
    for number, cells in enumerate(zip(*columns, strict=True)):
        lines.append(TextLine(_row_line(cells, blocks, widths, width)))
        if layout.below:
            lines += [TextLine(_cut_text(f"{DETAIL_INDENT}{text}", width), "detail") for text in layout.below[number]]
    return lines


def _cut_text(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def _sorting_time_column(result: Result) -> str:
    """The column of times that sorts the rows in descending order; empty if there is none."""
    if result.table.height < 2:
        return ""
    times = [column.name for column in result.columns if column.unit == "time" and column.brief]
    return next((name for name in times if result.table[name].is_sorted(descending=True, nulls_last=True)), "")


def _columns_that_fit(blocks: Sequence[_TableColumn], width: int, leading: str) -> list[_TableColumn]:
    """The columns that fit side by side, at least the first. The `leading` column is hidden last."""
    visible = list(blocks)
    empty = sorted((block for block in blocks if block.void), key=lambda block: not block.column.brief)
    others = [block for block in blocks if not (block.void or block.column.brief)]
    brief = [block for block in blocks if block.column.brief and not block.void]
    brief.sort(
        key=lambda block: not (block is blocks[0] or block.column.name == leading or is_comparison_column(block.column))
    )
    for candidates, least in (
        (empty, READABLE_TEXT_WIDTH),
        (others, READABLE_TEXT_WIDTH),
        (brief, NARROWEST_TEXT_WIDTH),
    ):
        for block in reversed(candidates):
            if _needed_width(visible, least) > width and len(visible) > 1:
                visible = [other for other in visible if other is not block]
    return visible


def is_comparison_column(column: Column) -> bool:
    """True for the main columns of a comparison: changes and verdicts."""
    return column.unit == "difference" or column.name == "verdict"


def _needed_width(blocks: Sequence[_TableColumn], words: int) -> int:
    return sum(block.min_width(words) for block in blocks) + len(COLUMN_GAP) * (len(blocks) - 1)


def _column_widths(blocks: Sequence[_TableColumn], width: int) -> list[int]:
    """The width of each column: all texts are cut to one width, the largest at which all columns fit."""
    low, high = 1, max(block.width for block in blocks)
    while low < high:
        between = (low + high + 1) // 2
        low, high = (between, high) if _needed_width(blocks, between) <= width else (low, between - 1)
    return [block.min_width(low) for block in blocks]


def _row_line(cells: Sequence[str], blocks: Sequence[_TableColumn], widths: Sequence[int], width: int) -> str:
    parts = []
    for text, block, room in zip(cells, blocks, widths, strict=True):
        fit = shorten_name(text, room)
        space = " " * (room - cell_len(fit))
        parts.append(space + fit if column_alignment(block.column) == "right" else fit + space)
    line = COLUMN_GAP.join(parts).rstrip()
    return line if cell_len(line) <= width else cut_middle(line, width)


class TreeIndents(Struct, frozen=True):
    """Indentation of the names of a tree: `step` cells for each level, at most `most`; deeper rows show their level."""

    step: int = INDENT_STEP
    most: int = 1 << 30

    def indent_at_depth(self, depth: int | None) -> str:
        """The text before the name of a row of that depth."""
        deep = max(0, depth or 0)
        if deep * self.step <= self.most:
            return " " * (deep * self.step)
        return f"{deep:>{self.most - 1}} "


def fit_tree_indents(deepest: int, width: int) -> TreeIndents:
    """Indentation for a line of `width` cells: at most a third of it, and one cell a level if two do not fit."""
    most = max(LEAST_INDENT, width // 3)
    return TreeIndents(INDENT_STEP if deepest * INDENT_STEP <= most else 1, most)
