"""A page of several results under one title: what a comparison of two runs is told in.

Owns the page and what it says of its runs. Knows no form.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from msgspec import Struct

from tracehound.analysis.result import Column, Result
from tracehound.diff import Comparison, Profile, Verdict
from tracehound.draw.notes import note_text
from tracehound.errors import printable
from tracehound.notes import note

COMPARISON = "tracehound.comparison/1"
CHECK = "tracehound.check/1"

GATE = (
    Column("condition", "text", "what was asked for"),
    Column("verdict", "text", "failed or passed"),
    Column("why", "prose", "what was found"),
)


class Page(Struct, frozen=True):
    """Results under a title. `runs` says what each run is; `failed` is None where nothing was demanded."""

    schema: str
    title: str
    runs: tuple[tuple[str, str], ...]
    results: tuple[Result, ...]
    failed: bool | None = None


def comparison(found: Comparison, verdicts: Sequence[Verdict]) -> Page:
    """The page of a comparison, and of what was demanded of it."""
    runs = (("base", _of(found.base)), ("other", _of(found.other)))
    title = f"{printable(found.base.name)} against {printable(found.other.name)}"
    return _page(COMPARISON, title, runs, found.results, verdicts)


def check(found: Profile, verdicts: Sequence[Verdict]) -> Page:
    """The page of what was demanded of one run."""
    return _page(CHECK, printable(found.name), (("run", _of(found)),), (), verdicts)


def _page(
    schema: str,
    title: str,
    runs: tuple[tuple[str, str], ...],
    results: tuple[Result, ...],
    verdicts: Sequence[Verdict],
) -> Page:
    gate = (_gate(verdicts),) if verdicts else ()
    failed = any(verdict.failed for verdict in verdicts) if verdicts else None
    return Page(schema, title, runs, (*gate, *results), failed)


def _of(run: Profile) -> str:
    return printable(f"{run.name}: {run.about}{f'; {note_text(run.doubt)}' if run.doubt else ''}")


def _gate(verdicts: Sequence[Verdict]) -> Result:
    rows = [(each.condition.text, "failed" if each.failed else "passed", each.why) for each in verdicts]
    table = pl.DataFrame(rows, schema=dict.fromkeys((column.name for column in GATE), pl.String), orient="row")
    notes = (note("tested_alone"),) if any(each.alone for each in verdicts) else ()
    return Result("gate", "Gate", GATE, table, table.height, notes)
