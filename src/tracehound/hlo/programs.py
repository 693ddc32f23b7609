"""The programs of a trace whose HLO its files hold, and reading one of them.

Owns where they are found and by what they are asked for. Reads bytes of files when somebody looks at a program.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from tracehound.errors import TracehoundError, printable
from tracehound.formats.inflate import Section, section
from tracehound.hlo.module import Module, module_of
from tracehound.trace import FileState, Trace

WITHOUT = (
    "no HLO in this trace: XLA profiles (xplane.pb) hold the programs when they are recorded with "
    "enable_hlo_proto, the default of jax.profiler and of torch_xla's xp.trace"
)

LONGEST = 1 << 31
"""Bytes of an HLO proto: protobuf has no longer ones."""


class Program(Struct, frozen=True):
    """A program, and where its proto lies; `part` is the number of the file in the trace, `state` that of the file."""

    name: str
    program: int
    part: int
    path: Path
    offset: int
    size: int
    state: FileState | None = None

    @property
    def title(self) -> str:
        """``jit_f(12190760917235803885)``, as XLA writes it: the id is unsigned."""
        return f"{self.name}({self.program & (1 << 64) - 1})"


def programs(trace: Trace) -> tuple[Program, ...]:
    """The programs of all files, each once: hosts of a job have the same."""
    found: dict[tuple[str, int], Program] = {}
    for number, part in enumerate(trace.parts):
        for one in part.facts.programs:
            made = Program(one.name, one.program, number, part.path, one.offset, one.size, part.state)
            found.setdefault((made.name, made.program), made)
    return tuple(found.values())


def read(program: Program, give: Section = section) -> Module:
    """The module of a program. Raises TracehoundError where there is none any more, or its file has changed."""
    proto = give(program.path, program.offset, min(program.size, LONGEST), program.state)
    module = module_of(proto) if len(proto) == program.size else None
    if module is None:
        what = f"the HLO of {printable(program.name)} cannot be read; did the file change?"
        raise TracehoundError(what, program.path, f"byte {program.offset:,}")
    return module


def of_trace(trace: Trace) -> tuple[Program, ...]:
    """The programs. Raises TracehoundError where there are none."""
    found = programs(trace)
    if not found:
        raise TracehoundError(WITHOUT)
    return found


def asked_for(found: Sequence[Program], text: str) -> tuple[Program, ...]:
    """The programs that are called so: by name, by name and id, by id; none where there is no such."""
    said = text.strip()
    exact = tuple(one for one in found if said in (one.title, str(one.program), str(one.program & (1 << 64) - 1)))
    return exact or tuple(one for one in found if one.name == said)


def holding(found: Sequence[Program], op: str, give: Section = section) -> list[tuple[Program, Module, int]]:
    """The programs that have an instruction of this name, their modules, and its row. Raises as `read`.

    Raises TracehoundError with the nearest names where none has.
    """
    name, held, names = op.strip().removeprefix("%"), [], {one.name for one in found}
    for program in found:
        module = read(program, give)
        if name in module.rows:
            held.append((program, module, module.rows[name]))
        else:
            names.update(module.names)
    if not held:
        near = difflib.get_close_matches(name, names, 3)
        hint = f"did you mean {', '.join(map(printable, near))}?" if near else "name a program to see its instructions"
        raise TracehoundError(f"no program and no instruction {printable(text_of(op))!r}", remedy=hint)
    return held


def text_of(word: str) -> str:
    """A word as it may be said back."""
    return word if len(word) <= 80 else word[:79] + "…"
