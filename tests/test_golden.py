"""The reports of the project's own captures, byte for byte: a change of any number or word shows up in a diff.

Found by discovery: every folder of ``traces`` has a folder of the same name in ``tests/golden``, with the summary and a
file for each analysis. ``pytest --update-golden`` writes them anew; read the diff before you commit it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tracehound.analysis import ANALYSES, Options, named, run
from tracehound.draw.plain import in_ascii
from tracehound.report import Look, about, summarise, writer
from tracehound.store import load, open_paths
from tracehound.trace import Trace, Window

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"
TRACES = sorted(path.name for path in (ROOT / "traces").glob("*") if path.is_dir() and not path.name.startswith("_"))
REPORTS = ("summary", *(analysis.name for analysis in ANALYSES))
WIDTH = 120
ROWS = 12


@cache
def trace(name: str) -> Trace:
    return load(open_paths([ROOT / "traces" / name]))


def written(name: str, report: str) -> str:
    text, look = writer("text"), Look(WIDTH)
    if report == "summary":
        lines = text.summary(summarise(trace(name), Window()), look)
    else:
        result = run(named(report), trace(name), Window(), Options(ROWS))
        lines = text.result(about(trace(name), Window()), result, look)
    return "".join(f"{line.text}\n" for line in lines)


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("name", TRACES)
def test_a_report_is_what_it_was(name: str, report: str, request: pytest.FixtureRequest) -> None:
    path = GOLDEN / name / f"{report}.txt"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written(name, report), encoding="utf-8")
    assert path.is_file(), "no golden report yet: pytest --update-golden"
    assert written(name, report).splitlines() == path.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", TRACES)
def test_the_page_has_a_likeness_in_ascii(name: str) -> None:
    lines = written(name, "summary").splitlines()
    assert [len(in_ascii(line)) for line in lines] == [len(line) for line in lines]


def test_no_golden_report_is_left_behind() -> None:
    known = {(name, report) for name in TRACES for report in REPORTS}
    assert {(path.parent.name, path.stem) for path in GOLDEN.glob("*/*")} <= known
