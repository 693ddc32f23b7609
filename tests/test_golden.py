"""The reports of the project's own captures, byte for byte: a change of any number or word shows up in a diff.

Found by discovery: every folder of ``traces`` has a folder of the same name in ``tests/golden``, with the summary and a
file for each analysis. The short run has those of one capture of each family.
``pytest --update-golden -m '' tests/test_golden.py`` writes all of them anew; read the diff before you commit it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from samples import FAMILIES, NAMES, sample
from short import some
from tracehound.analysis import ANALYSES, Options, get_analysis, run_analysis
from tracehound.draw.glyphs import to_ascii
from tracehound.model.trace import Window
from tracehound.report import ReportStyle, build_header, find_writer, summarize_trace

GOLDEN = Path(__file__).with_name("golden")
REPORTS = ("summary", *(analysis.name for analysis in ANALYSES))
WIDTH = 120
ROWS = 12


@cache
def page(name: str) -> str:
    """The summary, made once for all that is said of it."""
    lines = find_writer("text").write_summary(summarize_trace(sample(name), Window()), ReportStyle(WIDTH))
    return "".join(f"{line.text}\n" for line in lines)


def written(name: str, report: str) -> str:
    if report == "summary":
        return page(name)
    result = run_analysis(get_analysis(report), sample(name), Window(), Options(ROWS))
    style = ReportStyle(WIDTH, all_notes=True)
    lines = find_writer("text").write_result(build_header(sample(name), Window()), result, style)
    return "".join(f"{line.text}\n" for line in lines)


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("name", some(NAMES, FAMILIES))
def test_a_report_is_what_it_was(name: str, report: str, request: pytest.FixtureRequest) -> None:
    path = GOLDEN / name / f"{report}.txt"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written(name, report), encoding="utf-8")
    assert path.is_file(), "no golden report yet: pytest --update-golden -m '' tests/test_golden.py"
    assert written(name, report).splitlines() == path.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", some(NAMES, FAMILIES))
def test_the_page_has_a_likeness_in_ascii(name: str) -> None:
    lines = written(name, "summary").splitlines()
    assert [len(to_ascii(line)) for line in lines] == [len(line) for line in lines]


def test_no_golden_report_is_left_behind() -> None:
    known = {(name, report) for name in NAMES for report in REPORTS}
    assert {(path.parent.name, path.stem) for path in GOLDEN.glob("*/*")} <= known
