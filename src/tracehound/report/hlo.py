"""What the HLO of a program is told in: a list, a text, a page about one instruction.

Owns which results make up a page. Knows no form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from tracehound.analysis.result import Result
from tracehound.draw.table import Line
from tracehound.errors import TracehoundError, printable
from tracehound.hlo import results
from tracehound.hlo.module import Module
from tracehound.hlo.programs import Program, asked_for, holding, of_trace, read
from tracehound.hlo.text import module_lines
from tracehound.report.page import Page
from tracehound.trace import Trace
from tracehound.units import several

SCHEMA = "tracehound.hlo/1"


def text(module: Module) -> Iterator[Line]:
    """The module as HLO text, line by line."""
    return (Line(printable(line)) for line in module_lines(module))


def fenced(module: Module) -> Iterator[Line]:
    """The same for markdown."""
    yield Line("```hlo")
    yield from text(module)
    yield Line("```")


TEXTS: Final[Mapping[str, Callable[[Module], Iterator[Line]]]] = {"text": text, "markdown": fenced}
"""How a module is written in the forms that people read; programs get a row for each instruction."""


def page(trace: Trace, held: Sequence[tuple[Program, Module, int]], depth: int, top: int | None) -> Page:
    """All about an instruction: of the first program that has one of its name."""
    program, module, row = held[0]
    facts = results.facts(module, program, row)
    if ran := results.executions(trace, program, module.names[row]):
        facts.append(("executions", ran))
    if len(held) > 1:
        others = ", ".join(other.title for other, _, _ in held[1:])
        facts.append(("also in", f"{others}: name the program before the instruction to see it there"))
    if not module.whole:
        facts.append(("damage", "the HLO of this program is damaged; what lies before the damage is shown"))
    present = results.recorded(trace)
    sections = (
        results.words(module, row, present),
        results.stack(module, row),
        results.opened(module, row, top),
        results.around(module, row, depth, top),
    )
    shown = tuple((label, printable(told)) for label, told in facts)
    title = f"%{printable(module.names[row])} of {printable(module.name)}"
    return Page(SCHEMA, title, shown, tuple(section for section in sections if section is not None))


def rows(module: Module, top: int | None) -> Result:
    """A row for each instruction of a module."""
    shown = results.lines(module)
    return shown if top is None else replace(shown, table=shown.table.head(top))


def split(words: Sequence[str], is_path: Callable[[str], bool]) -> tuple[Sequence[str], Sequence[str]]:
    """The paths (the first word is one, whatever it is), and what follows: a program, an instruction, or both."""
    paths = [word for at, word in enumerate(words) if at == 0 or is_path(word)]
    rest = list(words[len(paths) :])
    if len(rest) > 2 or paths != list(words[: len(paths)]):
        raise TracehoundError("a program and an instruction at most", remedy="tracehound hlo PATH... [PROGRAM] [OP]")
    return paths, rest


def answer(trace: Trace, words: Sequence[str], depth: int, top: int | None) -> Result | Module | Page:
    """What the words ask for: the list of programs, the module of one, the page of an instruction.

    Raises TracehoundError for what is in no program.
    """
    found = of_trace(trace)
    if not words:
        return results.listing(found)
    named = asked_for(found, words[0])
    if len(words) > 1 and not named:
        raise TracehoundError(f"no program {printable(words[0])!r}", remedy=_named(found))
    if len(words) == 1 and named:
        if len(named) > 1:
            raise TracehoundError(f"{len(named)} programs are called {printable(words[0])}", remedy=_named(named))
        return read(named[0])
    held = holding(named or found, words[-1])
    busy = {program: results.busy(trace, program, words[-1]) for program, _, _ in held} if len(held) > 1 else {}
    return page(trace, sorted(held, key=lambda one: -busy.get(one[0], 0)), depth, top)


def _named(found: Sequence[Program]) -> str:
    return f"name one of {several([printable(one.title) for one in found], 8)}"
