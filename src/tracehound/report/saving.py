"""A result -> a file, in the form that its name asks for.

Owns which ending means which form, and that nothing is overwritten unless that is asked for. Knows no face.
"""

from __future__ import annotations

from io import TextIOWrapper
from pathlib import Path
from types import MappingProxyType
from typing import Final, TextIO

from tracehound.analysis.result import Result
from tracehound.draw.table import UNLIMITED
from tracehound.errors import TracehoundError
from tracehound.report import Writer, paint, writer
from tracehound.report.about import About, Look, noted
from tracehound.whole import whole

ENDINGS: Final = MappingProxyType(
    {".csv": "csv", ".json": "json", ".md": "markdown", ".markdown": "markdown", ".txt": "text"}
)
"""The form that a name asks for by its ending."""


def form_of(path: Path) -> Writer:
    """The form for a file of that name; TracehoundError when its ending means none."""
    name = ENDINGS.get(path.suffix.lower())
    if name is None:
        raise TracehoundError("which form?", path, remedy="end the name with .csv, .json, .md or .txt")
    return writer(name)


def create(path: Path, facts: About, result: Result) -> None:
    """Write a new file. Raises FileExistsError when there is one, TracehoundError when it cannot be written."""
    form = form_of(path)
    try:
        with path.open("x", encoding="utf-8", newline="\n") as stream:
            try:
                _write(stream, form, facts, result)
            except BaseException:
                path.unlink()  # half a table is worse than none
                raise
    except FileExistsError:
        raise
    except (OSError, ValueError) as error:  # a name may hold what no name may
        raise _refused(path, error) from error


def replace(path: Path, facts: About, result: Result) -> None:
    """Write a file in the place of one that is there, all or nothing. Raises TracehoundError when that cannot be."""
    form = form_of(path)
    try:
        with whole(path) as file, TextIOWrapper(file, encoding="utf-8", newline="\n") as stream:
            _write(stream, form, facts, result)
    except (OSError, ValueError) as error:
        raise _refused(path, error) from error


def _write(stream: TextIO, form: Writer, facts: About, result: Result) -> None:
    paint.write(form.result(facts, noted(result, facts), Look(UNLIMITED)), stream, paint.plainly)
    stream.flush()


def _refused(path: Path, error: OSError | ValueError) -> TracehoundError:
    reason = getattr(error, "strerror", None) or str(error)
    return TracehoundError(f"cannot be written: {reason.lower()}", path)
