"""A page of several results under one title: a comparison of two runs, or a check of one.

Also writes the verdicts of a check as JUnit XML.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracehound.analysis.result import Column, Result
from tracehound.diff import Comparison, GateVerdict, RunProfile, headline_facts
from tracehound.draw.notes import note_text
from tracehound.draw.text_table import TextLine
from tracehound.errors import printable
from tracehound.model.notes import Note, note

COMPARISON_SCHEMA = "tracehound.comparison/1"
CHECK_SCHEMA = "tracehound.check/1"

GATE_COLUMNS = (
    Column("condition", "text", "what was asked for"),
    Column("verdict", "text", "failed or passed"),
    Column("why", "prose", "what was found"),
)


_RUN_LABELS: Final = MappingProxyType({"base": "base (baseline)", "other": "other (candidate)"})
"""The keys of runs, with the words for them."""


class ResultPage(Struct, frozen=True):
    """Results under a title. `runs` describes each run; `failed` is None if there are no conditions.

    `headline` is what a reader must know first, `facts` the same as data.
    """

    schema: str
    title: str
    runs: tuple[tuple[str, str], ...]
    results: tuple[Result, ...]
    failed: bool | None = None
    headline: tuple[Note, ...] = ()
    facts: Mapping[str, Any] | None = None

    @property
    def run_sentences(self) -> list[str]:
        """A line for each run."""
        return [f"{_RUN_LABELS.get(part, part)}: {run}" for part, run in self.runs]


def comparison_page(found: Comparison, verdicts: Sequence[GateVerdict]) -> ResultPage:
    """The page of a comparison, with the verdicts on its conditions."""
    runs = (("baseline", _describe_run(found.baseline)), ("candidate", _describe_run(found.candidate)))
    title = f"{printable(found.baseline.name)} against {printable(found.candidate.name)}"
    page = _build_page(COMPARISON_SCHEMA, title, runs, found.results, verdicts)
    facts = None if found.headline is None else headline_facts(found.headline)
    return replace(page, headline=tuple(found.headline_notes), facts=facts)


def check_page(found: RunProfile, verdicts: Sequence[GateVerdict]) -> ResultPage:
    """The page of the verdicts on one run."""
    return _build_page(CHECK_SCHEMA, printable(found.name), (("run", _describe_run(found)),), (), verdicts)


def _build_page(
    schema: str,
    title: str,
    runs: tuple[tuple[str, str], ...],
    results: tuple[Result, ...],
    verdicts: Sequence[GateVerdict],
) -> ResultPage:
    gate = (_gate_result(verdicts),) if verdicts else ()
    failed = any(verdict.failed for verdict in verdicts) if verdicts else None
    return ResultPage(schema, title, runs, (*gate, *results), failed)


def _describe_run(run: RunProfile) -> str:
    return printable(f"{run.name}: {run.extent_text}{f'; {note_text(run.doubt)}' if run.doubt else ''}")


def _gate_result(verdicts: Sequence[GateVerdict]) -> Result:
    rows = [(each.condition.text, "failed" if each.failed else "passed", each.why) for each in verdicts]
    table = pl.DataFrame(rows, schema=dict.fromkeys((column.name for column in GATE_COLUMNS), pl.String), orient="row")
    notes = (note("tested_alone"),) if any(each.alone for each in verdicts) else ()
    return Result("gate", "Gate", GATE_COLUMNS, table, table.height, notes)


def write_junit(title: str, verdicts: Sequence[GateVerdict]) -> Iterator[TextLine]:
    """The verdicts as JUnit XML for CI systems, a test case for each condition; `title` names the suite."""
    failures = sum(verdict.failed for verdict in verdicts)
    suite = Element("testsuite", name=printable(title), tests=str(len(verdicts)), failures=str(failures))
    for verdict in verdicts:
        case = SubElement(suite, "testcase", classname="tracehound", name=printable(verdict.condition.text))
        if verdict.failed:
            SubElement(case, "failure", message=printable(verdict.why))
        else:
            SubElement(case, "system-out").text = printable(verdict.why)
    indent(suite)
    yield TextLine('<?xml version="1.0" encoding="UTF-8"?>')
    yield TextLine(tostring(suite, encoding="unicode"))
