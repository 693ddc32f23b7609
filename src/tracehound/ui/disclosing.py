"""Going to the HLO of an op, and from there to its executions.

Programs are read in a thread, since they may lie deep in a gzip file; owns the one that was read last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import polars as pl

from tracehound.errors import TracehoundError, printable
from tracehound.formats.inflate import Section
from tracehound.hlo.module import Module
from tracehound.hlo.programs import WITHOUT, Program, asked_for, programs, read
from tracehound.hlo.results import executions, recorded
from tracehound.trace import Trace
from tracehound.ui import follow
from tracehound.ui.errands import Errands
from tracehound.ui.follow import Row
from tracehound.ui.leaf import Leaf
from tracehound.ui.screens.hlo import HloScreen, Leads
from tracehound.ui.walk import Walk, walk
from tracehound.ui.widgets.result_table import ResultTable

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer import Explorer

NO_OP = "no HLO op here: select an execution of one, or a row of the ops"


class Disclosing:
    """One op after the other; only the newest request counts."""

    def __init__(self, screen: Explorer, give: Section) -> None:
        self._screen = screen
        self._give = give
        self.errands = Errands(screen, "showing its HLO")
        self._last: tuple[Program, Module] | None = None
        self._event: int | None = None

    def of_cursor(self, trace: Trace) -> None:
        """Show the HLO of what the row under the cursor is about, else of the op that the selected event executes.

        Outside of tables the selected event comes first.
        """
        screen, event = self._screen, self._screen.view.event
        if isinstance(screen.focused, ResultTable):
            row = screen.focused.row
        else:
            shown = screen.deck.tables.get(screen.deck.active) if event is None else None
            row = shown.table.row if shown is not None else None
        mine = follow.event_of(trace, row) if row is not None else None
        chosen = event if mine is None else mine
        op = trace.event(chosen)["op"] if chosen is not None else None
        named = _named(row) if row is not None and (mine is None or op is None) else None
        if named is not None:
            self._event = None
            self.errands.run(lambda: self._called(trace, *named))
        elif op is not None:
            self._event = chosen
            self.errands.run(lambda: self._executed(trace, op))
        else:
            screen.key_bar.say(NO_OP)

    def _executed(self, trace: Trace, op: int) -> Callable[[], None]:
        """Show an op of the trace."""
        row = trace.ops.row(by_predicate=pl.col("op") == op, named=True)
        program = next((one for one in programs(trace) if one.program == row["program"]), None)
        return self._shown(trace, program, row["name"])

    def _called(self, trace: Trace, title: str, name: str) -> Callable[[], None]:
        """Show an instruction by its name, in a program by its own."""
        return self._shown(trace, next(iter(asked_for(programs(trace), title)), None), name)

    def _shown(self, trace: Trace, program: Program | None, said: str) -> Callable[[], None]:
        if program is None:
            raise TracehoundError(WITHOUT)
        module = self._module(program)
        name = next((name for name in (said, said.removeprefix("%")) if name in module.rows), None)
        if name is None:
            raise TracehoundError(f"{printable(program.title)} has no instruction {printable(said)!r}")
        leaf = Leaf(program, module, module.rows[name], recorded(trace), executions(trace, program, name))
        leads = Leads(self._screen.visits.read, lambda shown, by: self._instance(trace, shown, by))
        return lambda: self._push(HloScreen(leaf, self._screen.glyphs, leads))

    def _module(self, program: Program) -> Module:
        if self._last is None or self._last[0] != program:
            self._last = (program, read(program, self._give))
        return self._last[1]

    def _push(self, screen: HloScreen) -> None:
        self._screen.app.push_screen(screen)

    def _instance(self, trace: Trace, leaf: Leaf, by: int) -> None:
        """Leave for an execution: the one after that from which one came, else the next in time."""
        before, after = self._event, self._screen.view.start

        def work() -> Callable[[], None]:
            found = _instances(trace, leaf)
            if not len(found.events):
                raise TracehoundError(f"%{printable(leaf.name)} has no executions of its own in this trace")
            came = found.at(before) if before is not None else found
            step = came.step(by) if came.place >= 0 else found.after(after)
            return lambda: self._leave(step)

        self.errands.run(work)

    def _leave(self, found: Walk) -> None:
        while isinstance(self._screen.app.screen, HloScreen):
            self._screen.app.pop_screen()
        self._event = found.event
        self._screen.travels.to(found)


def _named(row: Row) -> tuple[str, str] | None:
    """The program and the instruction that a row names: ``jit_f(12)`` and ``copy-start`` of ``copy-start{0}``."""
    names = (row.get(column) for column in ("buffer", "at", "largest", "name"))
    name = next((name for name in names if isinstance(name, str) and name), None)
    program = row.get("program")
    if name is None or not isinstance(program, int | str) or isinstance(program, bool):
        return None
    return str(program), name.partition("{")[0]


def _instances(trace: Trace, leaf: Leaf) -> Walk:
    """All executions of an instruction."""
    same = (pl.col("name") == leaf.name) & (pl.col("program") == leaf.program.program)
    ops = trace.ops.filter(same)["op"].to_list()
    if not ops:
        return walk(trace, leaf.name, pl.lit(value=False))
    return walk(trace, leaf.name, pl.col("op").is_in(ops))
