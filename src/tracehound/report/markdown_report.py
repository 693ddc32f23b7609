"""Results as Markdown tables, for issues and notes; the same words as the text report, uncut.

Names come from a trace, so all characters special to Markdown or HTML are escaped. In a tree a name has a dot before it
for each level, since spaces would be lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tracehound.analysis.result import Result, indented_column, row_depths
from tracehound.draw.cell_text import (
    column_alignment,
    column_heading,
    columns_with_values,
    drop_common_base_column,
    format_column,
    readable_columns,
    several_share_bases,
)
from tracehound.draw.notes import fold_notes, note_texts, separate_repeated_notes
from tracehound.draw.text_table import UNLIMITED_WIDTH, TextLine, caption_lines, folded_notes_texts
from tracehound.errors import printable
from tracehound.report.readable_summary import fold_result, readable_results
from tracehound.report.report_header import ReportHeader, ReportStyle, describe_window, header_sentences
from tracehound.report.summary_page import Summary

if TYPE_CHECKING:
    from tracehound.report.result_page import ResultPage

LEVEL_PREFIX = "· "

_MARKDOWN_CHARACTERS = re.compile(r"([\\`*_\[\]<>|&~#$])")


def write_result(header: ReportHeader, table: Result, style: ReportStyle) -> Iterator[TextLine]:
    """Title, table and notes; what several ranks or files have in common is one row."""
    table = fold_result(table, style)
    untimed = replace(header.window, start=None, end=None)
    notes = [] if untimed.is_unlimited else [describe_window(header, untimed, style.unit)]
    yield from _write_section(table, style, notes)


def write_summary(page: Summary, style: ReportStyle) -> Iterator[TextLine]:
    """The facts of the trace, then a section for each result."""
    yield TextLine(f"# {escape_markdown(page.about.name)}")
    yield TextLine("")
    yield from _bullet_list(header_sentences(page.about, style.unit))
    yield from _write_page_sections(readable_results(page), style)


def write_page(page: ResultPage, style: ReportStyle) -> Iterator[TextLine]:
    """The runs, then a section for each result."""
    yield TextLine(f"# {escape_markdown(page.title)}")
    yield TextLine("")
    yield from _bullet_list([*note_texts(page.headline), *page.run_sentences])
    yield from _write_page_sections(page.results, style)


def escape_markdown(text: str) -> str:
    """`text` with all special characters escaped."""
    return _MARKDOWN_CHARACTERS.sub(r"\\\1", printable(text))


def _write_page_sections(results: Sequence[Result], style: ReportStyle) -> Iterator[TextLine]:
    """A section for each result, then the notes that several of them have."""
    sections, repeated = separate_repeated_notes(results)
    for table in sections:
        yield TextLine("")
        yield from _write_section(table, style, [])
    if repeated:
        texts = fold_notes(repeated, unfolded=style.all_notes)
        yield from (TextLine(""), TextLine("## Notes"), TextLine(""))
        yield from _bullet_list([*texts.headlines, *texts.warnings, *texts.caveats, *folded_notes_texts(texts.folded)])


def _write_section(table: Result, style: ReportStyle, more: Sequence[str]) -> Iterator[TextLine]:
    texts = fold_notes(table.notes, unfolded=style.all_notes or table.table.is_empty())
    title = " ".join(line.text for line in caption_lines(table, UNLIMITED_WIDTH, style.unit))
    table = drop_common_base_column(table)
    columns = columns_with_values(readable_columns(table), table.table)
    tree_column = indented_column(table.columns)
    yield TextLine(f"## {escape_markdown(title)}")
    yield TextLine("")
    for headline in texts.headlines:
        yield TextLine(f"**{escape_markdown(headline)}**")
        yield TextLine("")
    if table.table.is_empty():
        yield TextLine("nothing to show")
    else:
        yield _table_row([escape_markdown(column_heading(column)) for column in columns])
        yield _table_row(["---:" if column_alignment(column) == "right" else "---" for column in columns])
        cells = (
            [
                f"{prefix}{escape_markdown(word)}"
                for prefix, word in zip(prefixes, format_column(table, column, style.unit), strict=True)
            ]
            for column in columns
            for prefixes in [_tree_prefixes(table, named=column is tree_column)]
        )
        yield from (_table_row(row) for row in zip(*cells, strict=True))
    bases = several_share_bases(columns) if table.table.height else []
    notes = [*bases, *texts.warnings, *texts.caveats, *folded_notes_texts(texts.folded), *more]
    if notes:
        yield TextLine("")
        yield from _bullet_list(notes)


def _tree_prefixes(table: Result, *, named: bool) -> list[str]:
    """The prefixes of a column's cells: empty, except for the column that names the rows of a tree (`named`)."""
    depths_of_rows = row_depths(table.table, table.columns) if named else None
    return (
        [""] * table.table.height
        if depths_of_rows is None
        else [LEVEL_PREFIX * depth for depth in depths_of_rows.tolist()]
    )


def _table_row(cells: Sequence[str]) -> TextLine:
    return TextLine(f"| {' | '.join(cells)} |")


def _bullet_list(texts: Sequence[str]) -> Iterator[TextLine]:
    yield from (TextLine(f"- {escape_markdown(text)}") for text in texts)
