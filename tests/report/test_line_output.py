"""Colors, only where they are wanted."""

from __future__ import annotations

import io

import pytest

from tracehound.draw.text_table import TextLine
from tracehound.report import report_output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),  # the convention wants it not empty
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_a_terminal_gets_colors_unless_it_refuses(environment: dict[str, str], *, wanted: bool) -> None:
    assert report_output.wants_color(Terminal(), environment) is wanted
    assert not report_output.wants_color(io.StringIO(), environment)


def test_roles_have_colors_and_end_them() -> None:
    out = io.StringIO()
    report_output.write_lines(
        [TextLine("Ops", "title"), TextLine("row"), TextLine("", "note")], out, report_output.colored_text
    )
    assert out.getvalue() == "\x1b[1;36mOps\x1b[0m\nrow\n\n"
    assert report_output.plain_text(TextLine("Ops", "title")) == "Ops"


def test_ascii_keeps_the_role() -> None:
    assert report_output.ascii_line(TextLine("── Ops …", "title")) == TextLine("-- Ops ~", "title")
