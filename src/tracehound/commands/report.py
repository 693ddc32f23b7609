"""One table of one analysis."""

from __future__ import annotations

import os
import sys
from argparse import Namespace

from tracehound import console
from tracehound.analysis import ANALYSES, LISTING, NAMES, Analysis, Options, named, where
from tracehound.analysis import run as analysed
from tracehound.arguments import COMMANDS
from tracehound.commands.shown import refuse_forms, show
from tracehound.commands.traces import helpers, read, reading
from tracehound.draw.notes import with_sentences
from tracehound.draw.table import UNLIMITED
from tracehound.errors import TracehoundError, printable
from tracehound.preferences import preferred
from tracehound.report import explain, writer


def run(asked: Namespace) -> int:
    """Print it, or what it means."""
    if asked.list:
        refuse_forms(asked, "--list")
        width = console.look(asked).width if sys.stdout.isatty() else UNLIMITED  # a script reads it line by line
        console.show(explain.listing(ANALYSES, width), asked)
        return 0
    form = writer(asked.format)
    analysis = _analysis(asked)
    given = preferred(analysis, asked.set)
    if asked.explain:
        refuse_forms(asked, "--explain")
        console.show(explain.definition(analysis, console.look(asked).width), asked)
        return 0
    if not asked.paths:
        raise TracehoundError(f"{analysis.name} of which trace?", remedy=f"tracehound report PATH... {analysis.name}")
    columns = analysis.shown(given).columns
    where.condition(asked.where, columns)  # what is wrong with it is told before the trace is read
    with reading(asked) as shop:
        trace, window = read(asked, shop, devices=analysis.of_devices and not form.of_trace)
        top = asked.top or form.readable
        result = analysed(analysis, trace, window, Options(None if asked.where else top, given), helpers(trace, shop))
    result = with_sentences(result)
    result = where.kept(result, asked.where, top) if asked.where else result
    return show(result, trace, window, form, asked)


def _analysis(asked: Namespace) -> Analysis:
    """The analysis that the last argument names, which is taken out of the paths."""
    if not asked.paths:
        remedy = f"tracehound report PATH ANALYSIS; {LISTING} names them all"
        raise TracehoundError("which analysis, of which trace?", remedy=remedy)
    *asked.paths, last = asked.paths
    if last in COMMANDS and asked.paths:
        raise TracehoundError(f"{last} is a command, not an analysis", remedy=f"tracehound {last} PATH...")
    if last not in NAMES and os.path.lexists(last):
        early = next((word for word in asked.paths if word in NAMES), None)
        after = f"name {early} after it" if early else f"name an analysis after it; {LISTING} names them all"
        raise TracehoundError(f"{printable(last)} is a path", remedy=after)
    return named(last)
