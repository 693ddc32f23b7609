"""The programs of an XLA profile, their instructions and what is around one of them."""

from __future__ import annotations

from argparse import Namespace

from tracehound import console
from tracehound.analysis import Result
from tracehound.commands.shown import show, tell
from tracehound.commands.traces import is_path, loaded, opened, reading
from tracehound.report import hlo, writer
from tracehound.report.page import Page
from tracehound.trace import Window


def run(asked: Namespace) -> int:
    """Print a page, a table or the text of a program."""
    form = writer(asked.format)
    paths, words = hlo.split(asked.words, is_path)
    with reading(asked) as shop:
        trace = loaded(opened(paths, asked, shop))
        found = hlo.answer(trace, words, asked.depth, asked.top)
    if isinstance(found, Page):
        console.show(form.page(found, console.look(asked)), asked)
        tell(form, found.results, found.runs)
        return 0
    if isinstance(found, Result):
        return show(found, trace, Window(), form, asked)
    if asked.format in hlo.TEXTS:
        console.show(hlo.TEXTS[asked.format](found), asked)
        return 0
    return show(hlo.rows(found, asked.top), trace, Window(), form, asked)
