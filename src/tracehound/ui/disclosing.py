"""Going to the HLO of an op, and from there to its executions.

Owns the thread that reads programs, since they may lie deep in a gzip file, and the one that was read last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import polars as pl

from tracehound.errors import TracehoundError, printable
from tracehound.formats.inflate import Section
from tracehound.hlo.module import Module
from tracehound.hlo.programs import WITHOUT, Program, programs, read
from tracehound.hlo.results import executions, recorded
from tracehound.trace import Trace
from tracehound.ui.background import Background
from tracehound.ui.leaf import Leaf
from tracehound.ui.outside import warn
from tracehound.ui.screens.hlo import HloScreen, Leads
from tracehound.ui.walk import Walk, walk

if TYPE_CHECKING:
    from tracehound.ui.screens.explorer import Explorer

NO_OP = "no HLO op here: select an execution of one, or a row of the ops"


class Disclosing:
    """One op after the other; only the newest request counts."""

    def __init__(self, screen: Explorer, give: Section) -> None:
        self._screen = screen
        self._give = give
        self._background = Background()
        self._last: tuple[Program, Module] | None = None
        self._event: int | None = None

    @property
    def busy(self) -> bool:
        """Whether a program is being read."""
        return self._background.busy

    def close(self) -> None:
        """Nobody waits any more."""
        self._background.close()

    def of_event(self, trace: Trace, event: int | None) -> None:
        """Show the HLO of the op that an event executes."""
        op = trace.event(event)["op"] if event is not None else None
        if op is None:
            self._screen.key_bar.say(NO_OP)
            return
        self._event = event
        self._do(lambda: self._disclosed(trace, op))

    def _disclosed(self, trace: Trace, op: int) -> Callable[[], None]:
        row = trace.ops.row(by_predicate=pl.col("op") == op, named=True)
        program = next((one for one in programs(trace) if one.program == row["program"]), None)
        if program is None:
            raise TracehoundError(WITHOUT)
        module = self._module(program)
        name = next((name for name in (row["name"], row["name"].removeprefix("%")) if name in module.rows), None)
        if name is None:
            raise TracehoundError(f"{printable(program.title)} has no instruction {printable(row['name'])!r}")
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

        self._do(work)

    def _leave(self, found: Walk) -> None:
        while isinstance(self._screen.app.screen, HloScreen):
            self._screen.app.pop_screen()
        self._event = found.event
        self._screen.travels.to(found)

    def _do(self, work: Callable[[], Callable[[], None]]) -> None:
        """Do `work` in the thread, and what it gives back in the screen's; or say there what went wrong."""

        def safely() -> None:
            try:
                then = work()
            except TracehoundError as error:
                then = self._saying(str(error))
            except Exception as error:  # noqa: BLE001 - one damaged program must not end the explorer
                then = self._saying(printable(f"its HLO cannot be shown: {type(error).__name__}: {error}"))
            self._screen.call_later(then)

        self._background.start()
        self._background.submit("hlo", safely)

    def _saying(self, words: str) -> Callable[[], None]:
        return lambda: warn(self._screen.app, words)


def _instances(trace: Trace, leaf: Leaf) -> Walk:
    """All executions of an instruction."""
    same = (pl.col("name") == leaf.name) & (pl.col("program") == leaf.program.program)
    ops = trace.ops.filter(same)["op"].to_list()
    if not ops:
        return walk(trace, leaf.name, pl.lit(value=False))
    return walk(trace, leaf.name, pl.col("op").is_in(ops))
