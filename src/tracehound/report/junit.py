"""What came of conditions, as JUnit XML: a test case for each, for the pages of CI systems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from tracehound.diff import Verdict
from tracehound.draw.table import Line
from tracehound.errors import printable


def junit(title: str, verdicts: Sequence[Verdict]) -> Iterator[Line]:
    """The document; `title` names the suite."""
    failures = sum(verdict.failed for verdict in verdicts)
    suite = Element("testsuite", name=printable(title), tests=str(len(verdicts)), failures=str(failures))
    for verdict in verdicts:
        case = SubElement(suite, "testcase", classname="tracehound", name=printable(verdict.condition.text))
        if verdict.failed:
            SubElement(case, "failure", message=printable(verdict.why))
        else:
            SubElement(case, "system-out").text = printable(verdict.why)
    indent(suite)
    yield Line('<?xml version="1.0" encoding="UTF-8"?>')
    yield Line(tostring(suite, encoding="unicode"))
