"""Output of report lines: to a stream, with colors if it is a terminal, or to a file in the format of its name.

Colors are the sixteen of the terminal, which fit its background. Files are not overwritten by accident.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from io import TextIOWrapper
from pathlib import Path
from types import MappingProxyType
from typing import Final, TextIO

from tracehound.analysis.result import Result
from tracehound.draw.glyphs import to_ascii
from tracehound.draw.text_table import UNLIMITED_WIDTH, LineRole, TextLine
from tracehound.errors import TracehoundError
from tracehound.report import ReportFormat, find_writer
from tracehound.report.report_header import ReportHeader, ReportStyle, add_doubt_note
from tracehound.system.atomic_file import atomic_write

FORMAT_BY_ENDING: Final = MappingProxyType(
    {".csv": "csv", ".json": "json", ".md": "markdown", ".markdown": "markdown", ".txt": "text"}
)
"""The format for each ending of a file name."""


def writer_for_path(path: Path) -> ReportFormat:
    """The writer for a file of that name. Raises TracehoundError for an unknown ending."""
    name = FORMAT_BY_ENDING.get(path.suffix.lower())
    if name is None:
        raise TracehoundError("which form?", path, remedy="end the name with .csv, .json, .md or .txt")
    return find_writer(name)


def create_result_file(path: Path, header: ReportHeader, result: Result) -> None:
    """Write a new file. Raises FileExistsError if it exists, TracehoundError if it cannot be written."""
    writer = writer_for_path(path)
    try:
        with path.open("x", encoding="utf-8", newline="\n") as stream:
            try:
                _write_result(stream, writer, header, result)
            except BaseException:
                path.unlink()  # a partial table would be misleading
                raise
    except FileExistsError:
        raise
    except (OSError, ValueError) as error:  # ValueError: the name has an invalid character
        raise _write_error(path, error) from error


def replace_result_file(path: Path, header: ReportHeader, result: Result) -> None:
    """Replace an existing file, all or nothing. Raises TracehoundError if that fails."""
    writer = writer_for_path(path)
    try:
        with atomic_write(path) as file, TextIOWrapper(file, encoding="utf-8", newline="\n") as stream:
            _write_result(stream, writer, header, result)
    except (OSError, ValueError) as error:
        raise _write_error(path, error) from error


def _write_result(stream: TextIO, writer: ReportFormat, header: ReportHeader, result: Result) -> None:
    write_lines(
        writer.write_result(header, add_doubt_note(result, header), ReportStyle(UNLIMITED_WIDTH, all_notes=True)),
        stream,
        plain_text,
    )
    stream.flush()


def _write_error(path: Path, error: OSError | ValueError) -> TracehoundError:
    reason = getattr(error, "strerror", None) or str(error)
    return TracehoundError(f"cannot be written: {reason.lower()}", path)


_ROLE_COLORS: Mapping[LineRole, str] = MappingProxyType(
    {"title": "1;36", "headline": "1", "head": "1", "warning": "33", "note": "2", "caption": "2", "detail": "36"}
)


def plain_text(line: TextLine) -> str:
    """The line without color."""
    return line.text


def colored_text(line: TextLine) -> str:
    """The line with the color of its role."""
    code = _ROLE_COLORS.get(line.role)
    return f"\x1b[{code}m{line.text}\x1b[0m" if code and line.text else line.text


def ascii_line(line: TextLine) -> TextLine:
    """The line in ASCII."""
    return TextLine(to_ascii(line.text), line.role)


def wants_color(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """True for a terminal with color: not a dumb one, and NO_COLOR is unset or empty."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM", "dumb") != "dumb"


def write_lines(lines: Iterable[TextLine], stream: TextIO, paint: Callable[[TextLine], str]) -> None:
    """Print the lines one by one; raises BrokenPipeError as soon as the reader is gone."""
    for line in lines:
        stream.write(f"{paint(line)}\n")
