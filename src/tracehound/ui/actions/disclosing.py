"""Going to the HLO of an op, and from there to its executions.

Programs are read in a thread, since they may lie deep in a gzip file; owns the one that was read last, and which op is
meant on a screen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl
from msgspec import Struct
from textual.screen import Screen

from tracehound.draw.glyphs import Glyphs
from tracehound.errors import TracehoundError, printable
from tracehound.formats.inflate import Section
from tracehound.hlo.module import Module
from tracehound.hlo.programs import WITHOUT, Program, asked_for, programs, read
from tracehound.hlo.results import executions, recorded
from tracehound.store import Sections
from tracehound.trace import Trace
from tracehound.ui.actions.visits import Visits
from tracehound.ui.background.errands import Errands
from tracehound.ui.screens.hlo import HloScreen, Leads
from tracehound.ui.source.finding import Sources
from tracehound.ui.state import follow
from tracehound.ui.state.follow import Row
from tracehound.ui.state.leaf import Leaf
from tracehound.ui.state.walk import Walk, walk
from tracehound.ui.widgets.result_table import ResultTable

if TYPE_CHECKING:
    from tracehound.ui.screens.comparison import ComparisonScreen
    from tracehound.ui.screens.explorer import Explorer

NO_OP = "no HLO op here: select an execution of one, or a row of the ops"

NO_OP_COMPARED = "no op here: select an execution of one, or a row of the table of ops (3)"

NO_HLO = "no HLO was recorded of this op: XLA writes it to xplane.pb"

RUNS: Final = ("base", "other run")
"""What the two runs of a comparison are called."""


class Start(Struct, frozen=True):
    """From where one came: the selected event, if it executes the op, and where the timeline begins.

    `go` leads to an execution. `run` says which of several runs it is of.
    """

    event: int | None
    at: int
    go: Callable[[Walk], None]
    run: str = ""


class Pages:
    """Shows the HLO of one op after the other on a screen; only the newest request counts."""

    def __init__(self, screen: Screen[None], visits: Visits, glyphs: Glyphs, give: Section) -> None:
        self.errands = Errands(screen, "showing its HLO")
        self._screen = screen
        self._visits = visits
        self._glyphs = glyphs
        self._give = give
        self._last: tuple[Program, Module] | None = None

    def of_op(self, trace: Trace, op: int, start: Start) -> None:
        """Show an op of the trace."""

        def work() -> Callable[[], None]:
            row = trace.ops.row(by_predicate=pl.col("op") == op, named=True)
            program = next((one for one in programs(trace) if one.program == row["program"]), None)
            return self._shown(trace, program, row["name"], start)

        self.errands.run(work)

    def of_name(self, trace: Trace, title: str, name: str, start: Start) -> None:
        """Show an instruction by its name, in a program by its own."""
        self.errands.run(lambda: self._shown(trace, next(iter(asked_for(programs(trace), title)), None), name, start))

    def _shown(self, trace: Trace, program: Program | None, said: str, start: Start) -> Callable[[], None]:
        if program is None:
            raise TracehoundError(WITHOUT)
        module = self._module(program)
        name = next((name for name in (said, said.removeprefix("%")) if name in module.rows), None)
        if name is None:
            raise TracehoundError(f"{printable(program.title)} has no instruction {printable(said)!r}")
        leaf = Leaf(program, module, module.rows[name], recorded(trace), executions(trace, program, name))
        leads = Leads(self._visits.read, lambda shown, by: self._instance(trace, shown, by, start))
        return lambda: self._push(HloScreen(leaf, self._glyphs, leads, start.run))

    def _module(self, program: Program) -> Module:
        if self._last is None or self._last[0] != program:
            self._last = (program, read(program, self._give))
        return self._last[1]

    def _push(self, screen: HloScreen) -> None:
        self._screen.app.push_screen(screen)

    def _instance(self, trace: Trace, leaf: Leaf, by: int, start: Start) -> None:
        """Leave for an execution: the one after that from which one came, else the next in time."""

        def work() -> Callable[[], None]:
            found = _instances(trace, leaf)
            if not len(found.events):
                raise TracehoundError(f"%{printable(leaf.name)} has no executions of its own in this trace")
            came = found.at(start.event) if start.event is not None else found
            step = came.step(by) if came.place >= 0 else found.after(start.at)
            return lambda: self._leave(step, start)

        self.errands.run(work)

    def _leave(self, found: Walk, start: Start) -> None:
        while isinstance(self._screen.app.screen, HloScreen):
            self._screen.app.pop_screen()
        start.go(found)


class Disclosing:
    """What `%` is about in the explorer of one run."""

    def __init__(self, screen: Explorer, give: Section) -> None:
        self.pages = Pages(screen, screen.visits, screen.glyphs, give)
        self._screen = screen

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
            self.pages.of_name(trace, *named, Start(None, screen.view.start, screen.travels.to))
        elif op is not None:
            self.pages.of_op(trace, op, Start(chosen, screen.view.start, screen.travels.to))
        else:
            screen.key_bar.say(NO_OP)


class DisclosingBoth:
    """What `%` is about where two runs are compared."""

    def __init__(self, screen: ComparisonScreen, sources: Sources) -> None:
        self.visits = Visits(screen, sources, screen.glyphs)
        self.pages = Pages(screen, self.visits, screen.glyphs, Sections().read)
        self._screen = screen

    def of_cursor(self) -> None:
        """Show the HLO of the op of the row under the cursor, in the base where it is there, else in the other run.

        In a timeline it is that of the selected event.
        """
        screen = self._screen
        for at, (side, event) in enumerate(zip(screen.sides, screen.meant, strict=True)):
            op = side.trace.event(event)["op"] if side.trace is not None and event is not None else None
            if side.trace is not None and op is not None:
                start = Start(event, side.timeline.view.start, partial(screen.leave_for, side), RUNS[at])
                self.pages.of_op(side.trace, op, start)
                return
        screen.key_bar.say(NO_OP_COMPARED if screen.meant == (None, None) else NO_HLO)

    @property
    def busy(self) -> bool:
        """Whether something is being read."""
        return self.pages.errands.busy or self.visits.errands.busy

    def close(self) -> None:
        """Nobody waits for anything any more."""
        self.pages.errands.close()
        self.visits.errands.close()


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
