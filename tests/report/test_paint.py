"""Colours, only where they are wanted."""

from __future__ import annotations

import io

import pytest

from tracehound.draw.table import Line
from tracehound.report import paint


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
def test_a_terminal_gets_colours_unless_it_refuses(environment: dict[str, str], *, wanted: bool) -> None:
    assert paint.colours(Terminal(), environment) is wanted
    assert not paint.colours(io.StringIO(), environment)


def test_roles_have_colours_and_end_them() -> None:
    out = io.StringIO()
    paint.write([Line("Ops", "title"), Line("row"), Line("", "note")], out, paint.coloured)
    assert out.getvalue() == "\x1b[1;36mOps\x1b[0m\nrow\n\n"
    assert paint.plainly(Line("Ops", "title")) == "Ops"


def test_ascii_keeps_the_role() -> None:
    assert paint.ascii_of(Line("── Ops …", "title")) == Line("-- Ops ~", "title")
