"""Output of the command hlo: the list of programs, the text of one, and the page of an instruction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from tracehound.analysis.result import Result
from tracehound.draw.text_table import TextLine
from tracehound.errors import TracehoundError, printable
from tracehound.hlo import hlo_programs
from tracehound.hlo.hlo_module import HloModule
from tracehound.hlo.hlo_programs import (
    TraceProgram,
    find_programs,
    programs_with_instruction,
    read_program,
    require_programs,
)
from tracehound.hlo.module_text import module_lines
from tracehound.model.trace import Trace
from tracehound.model.units import join_some
from tracehound.report.result_page import ResultPage

HLO_SCHEMA = "tracehound.hlo/1"


def module_text_lines(module: HloModule) -> Iterator[TextLine]:
    """The module as HLO text, line by line."""
    return (TextLine(printable(line)) for line in module_lines(module))


def module_markdown_lines(module: HloModule) -> Iterator[TextLine]:
    """The module as HLO text in a fenced block."""
    yield TextLine("```hlo")
    yield from module_text_lines(module)
    yield TextLine("```")


MODULE_WRITERS: Final[Mapping[str, Callable[[HloModule], Iterator[TextLine]]]] = {
    "text": module_text_lines,
    "markdown": module_markdown_lines,
}
"""Writers of a module for formats that people read; other formats have a row for each instruction."""


def instruction_page(
    trace: Trace, instances: Sequence[tuple[TraceProgram, HloModule, int]], depth: int, top: int | None
) -> ResultPage:
    """The page of an instruction, in the first program that has one of its name."""
    program, module, row = instances[0]
    facts = hlo_programs.instruction_facts(module, program, row)
    if executions := hlo_programs.executions_sentence(trace, program, module.names[row]):
        facts.append(("executions", executions))
    if len(instances) > 1:
        others = ", ".join(other.title for other, _, _ in instances[1:])
        facts.append(("also in", f"{others}: name the program before the instruction to see it there"))
    if not module.complete:
        facts.append(("damage", "the HLO of this program is damaged; what lies before the damage is shown"))
    present = hlo_programs.recorded_devices(trace)
    sections = (
        hlo_programs.sentences_result(module, row, present),
        hlo_programs.source_stack_result(module, row),
        hlo_programs.inner_instructions_result(module, row, top),
        hlo_programs.neighborhood_result(module, row, depth, top),
    )
    fact_texts = tuple((label, printable(text)) for label, text in facts)
    title = f"%{printable(module.names[row])} of {printable(module.name)}"
    return ResultPage(HLO_SCHEMA, title, fact_texts, tuple(section for section in sections if section is not None))


def instruction_rows(module: HloModule, top: int | None) -> Result:
    """A row for each instruction of a module."""
    shown = hlo_programs.instructions_result(module)
    return shown if top is None else replace(shown, table=shown.table.head(top))


def split_hlo_arguments(words: Sequence[str], is_path: Callable[[str], bool]) -> tuple[Sequence[str], Sequence[str]]:
    """The paths (the first word is always one), and the rest: a program, an instruction, or both."""
    paths = [word for at, word in enumerate(words) if at == 0 or is_path(word)]
    rest = list(words[len(paths) :])
    if len(rest) > 2 or paths != list(words[: len(paths)]):
        raise TracehoundError("a program and an instruction at most", remedy="tracehound hlo PATH... [PROGRAM] [OP]")
    return paths, rest


def answer_hlo_command(
    trace: Trace, words: Sequence[str], depth: int, top: int | None
) -> Result | HloModule | ResultPage:
    """The list of programs, the module of one, or the page of an instruction, depending on the words.

    Raises TracehoundError for names that are in no program.
    """
    programs = require_programs(trace)
    if not words:
        return hlo_programs.programs_result(programs)
    matching = find_programs(programs, words[0])
    if len(words) > 1 and not matching:
        raise TracehoundError(f"no program {printable(words[0])!r}", remedy=_programs_to_name(programs))
    if len(words) == 1 and matching:
        if len(matching) > 1:
            raise TracehoundError(
                f"{len(matching)} programs are called {printable(words[0])}", remedy=_programs_to_name(matching)
            )
        return read_program(matching[0])
    instances = programs_with_instruction(matching or programs, words[-1])
    busy = (
        {program: hlo_programs.op_time(trace, program, words[-1]) for program, _, _ in instances}
        if len(instances) > 1
        else {}
    )
    return instruction_page(trace, sorted(instances, key=lambda instance: -busy.get(instance[0], 0)), depth, top)


def _programs_to_name(found: Sequence[TraceProgram]) -> str:
    return f"name one of {join_some([printable(one.title) for one in found], 8)}"
