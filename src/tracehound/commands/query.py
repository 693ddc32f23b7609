"""What SQL says of a trace."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from tracehound import console
from tracehound.commands.shown import refuse_forms, show
from tracehound.commands.traces import helpers, is_path, read, reading
from tracehound.errors import TracehoundError, printable
from tracehound.query import TABLES, answer, named, prepare, refuse_idle, settled
from tracehound.report import schema, writer


def run(asked: Namespace) -> int:
    """Print the answer, or what can be asked."""
    if asked.tables:
        refuse_forms(asked, "--tables")
        tables = [named(word) for word in asked.words if not is_path(word)] or TABLES
        chosen = [settled(table, asked.set) for table in tables]
        refuse_idle(tables, asked.set)
        console.show(schema.definitions(chosen, console.look(asked).width), asked)
        return 0
    form = writer(asked.format)
    asked.paths, text = _statement(asked.words)
    query = prepare(text, asked.set)  # what is wrong with it is told before the trace is read
    with reading(asked) as shop:
        trace, window = read(asked, shop)
        result = answer(query, trace, window, asked.top or form.readable, helpers(trace, shop))
    return show(result, trace, window, form, asked)


def _statement(words: Sequence[str]) -> tuple[Sequence[str], str]:
    """The paths and the statement, which is the last word; ``-`` stands for what stdin has."""
    if not words or is_path(words[-1]):
        what = f"{printable(words[-1])} is a path" if words else "which query, of which trace?"
        raise TracehoundError(what, remedy="tracehound query PATH... 'SELECT ...'")
    *paths, text = words
    if not paths:
        prepare(text)
        raise TracehoundError("a query of which trace?", remedy="tracehound query PATH... 'SELECT ...'")
    return paths, _from_stdin() if text == "-" else text


def _from_stdin() -> str:
    """The statement that stdin has, in UTF-8 whatever the locale."""
    if sys.stdin is None:
        raise TracehoundError("stdin is closed", remedy="tracehound query PATH... 'SELECT ...'")
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise TracehoundError("the query is not UTF-8", where=f"stdin, byte {error.start:,}") from error
