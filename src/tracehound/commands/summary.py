"""One page of what a trace says."""

from __future__ import annotations

from argparse import Namespace

from tracehound import console
from tracehound.commands.shown import tell
from tracehound.commands.traces import helpers, read, reading
from tracehound.report import summarise, writer


def run(asked: Namespace) -> int:
    """Print it in the form that was asked for."""
    form = writer(asked.format)
    with reading(asked) as shop:
        trace, window = read(asked, shop)
        page = summarise(trace, window, asked.top, helpers(trace, shop))
    console.show(form.summary(page, console.look(asked)), asked)
    tell(form, page.results)
    return 0
