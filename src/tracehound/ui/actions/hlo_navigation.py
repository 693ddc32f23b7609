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
from tracehound.formats.inflate import SectionReader
from tracehound.hlo.hlo_module import HloModule
from tracehound.hlo.hlo_programs import (
    NO_HLO_MESSAGE,
    TraceProgram,
    executions_sentence,
    find_programs,
    programs_of_trace,
    read_program,
    recorded_devices,
)
from tracehound.model.trace import Trace
from tracehound.store import CheckpointedFiles
from tracehound.ui.actions.source_navigation import SourceNavigation
from tracehound.ui.background.background_thread import ScreenTasks
from tracehound.ui.screens.hlo_screen import HloCallbacks, HloScreen
from tracehound.ui.source_files import SourceFolders
from tracehound.ui.state import row_target
from tracehound.ui.state.event_walk import EventWalk, walk_events
from tracehound.ui.state.hlo_page import HloPage
from tracehound.ui.state.row_target import ResultRow
from tracehound.ui.widgets.result_table import ResultTable

if TYPE_CHECKING:
    from tracehound.ui.screens.comparison_screen import ComparisonScreen
    from tracehound.ui.screens.explorer_screen import ExplorerScreen

NO_OP = "no HLO op here: select an execution of one, or a row of the ops"

NO_OP_COMPARED = "no op here: select an execution of one, or a row of the table of ops (3)"

NO_HLO = "no HLO was recorded of this op: XLA writes it to xplane.pb"

RUN_NAMES: Final = ("baseline", "candidate")
"""What the two runs of a comparison are called."""


class NavigationOrigin(Struct, frozen=True):
    """From where one came: the selected event, if it executes the op, and where the timeline begins.

    `go` leads to an execution. `run` says which of several runs it is of.
    """

    event: int | None
    at: int
    go: Callable[[EventWalk], None]
    run: str = ""


class HloPageOpener:
    """Shows the HLO of one op after the other on a screen; only the newest request counts."""

    def __init__(self, screen: Screen[None], visits: SourceNavigation, glyphs: Glyphs, give: SectionReader) -> None:
        self.tasks = ScreenTasks(screen, "showing its HLO")
        self._screen = screen
        self._visits = visits
        self._glyphs = glyphs
        self._give = give
        self._last: tuple[TraceProgram, HloModule] | None = None

    def of_op(self, trace: Trace, op: int, start: NavigationOrigin) -> None:
        """Show an op of the trace."""

        def work() -> Callable[[], None]:
            row = trace.ops.row(by_predicate=pl.col("op") == op, named=True)
            program = next((one for one in programs_of_trace(trace) if one.program == row["program"]), None)
            return self._load_page(trace, program, row["name"], start)

        self.tasks.run(work)

    def of_name(self, trace: Trace, title: str, name: str, start: NavigationOrigin) -> None:
        """Show an instruction by its name, in a program by its own."""
        self.tasks.run(
            lambda: self._load_page(
                trace, next(iter(find_programs(programs_of_trace(trace), title)), None), name, start
            )
        )

    def _load_page(
        self, trace: Trace, program: TraceProgram | None, said: str, start: NavigationOrigin
    ) -> Callable[[], None]:
        if program is None:
            raise TracehoundError(NO_HLO_MESSAGE)
        module = self._module(program)
        name = next((name for name in (said, said.removeprefix("%")) if name in module.row_by_name), None)
        if name is None:
            raise TracehoundError(f"{printable(program.title)} has no instruction {printable(said)!r}")
        leaf = HloPage(
            program,
            module,
            module.row_by_name[name],
            recorded_devices(trace),
            executions_sentence(trace, program, name),
        )
        leads = HloCallbacks(self._visits.read, lambda shown, by: self._instance(trace, shown, by, start))
        return lambda: self._push(HloScreen(leaf, self._glyphs, leads, start.run))

    def _module(self, program: TraceProgram) -> HloModule:
        if self._last is None or self._last[0] != program:
            self._last = (program, read_program(program, self._give))
        return self._last[1]

    def _push(self, screen: HloScreen) -> None:
        self._screen.app.push_screen(screen)

    def _instance(self, trace: Trace, leaf: HloPage, by: int, start: NavigationOrigin) -> None:
        """Leave for an execution: the one after that from which one came, else the next in time."""

        def work() -> Callable[[], None]:
            found = _executions_of_instruction(trace, leaf)
            if not len(found.events):
                raise TracehoundError(f"%{printable(leaf.name)} has no executions of its own in this trace")
            came = found.at(start.event) if start.event is not None else found
            step = came.step(by) if came.place >= 0 else found.after(start.at)
            return lambda: self._leave(step, start)

        self.tasks.run(work)

    def _leave(self, found: EventWalk, start: NavigationOrigin) -> None:
        while isinstance(self._screen.app.screen, HloScreen):
            self._screen.app.pop_screen()
        start.go(found)


class ExplorerHloOpener:
    """Opens the HLO of the op under the cursor, in the explorer of one run."""

    def __init__(self, screen: ExplorerScreen, give: SectionReader) -> None:
        self.pages = HloPageOpener(screen, screen.source_navigation, screen.glyphs, give)
        self._screen = screen

    def of_cursor(self, trace: Trace) -> None:
        """Show the HLO of what the row under the cursor is about, else of the op that the selected event executes.

        Outside of tables the selected event comes first.
        """
        screen, event = self._screen, self._screen.view.event
        if isinstance(screen.focused, ResultTable):
            row = screen.focused.row
        else:
            shown = screen.pane_stack.tables.get(screen.pane_stack.active) if event is None else None
            row = shown.table.row if shown is not None else None
        mine = row_target.event_of_row(trace, row) if row is not None else None
        chosen = event if mine is None else mine
        op = trace.event(chosen)["op"] if chosen is not None else None
        named = _instruction_of_row(row) if row is not None and (mine is None or op is None) else None
        if named is not None:
            self.pages.of_name(
                trace, *named, NavigationOrigin(None, screen.view.start, screen.navigation.go_to_walk_event)
            )
        elif op is not None:
            self.pages.of_op(trace, op, NavigationOrigin(chosen, screen.view.start, screen.navigation.go_to_walk_event))
        else:
            screen.key_bar.say(NO_OP)


class ComparisonHloOpener:
    """Opens the HLO of the op under the cursor, in a comparison of two runs."""

    def __init__(self, screen: ComparisonScreen, sources: SourceFolders) -> None:
        self.source_navigation = SourceNavigation(screen, sources, screen.glyphs)
        self.pages = HloPageOpener(screen, self.source_navigation, screen.glyphs, CheckpointedFiles().read)
        self._screen = screen

    def of_cursor(self) -> None:
        """Show the HLO of the op of the row under the cursor, in the baseline where it is there, else in the candidate.

        In a timeline it is that of the selected event.
        """
        screen = self._screen
        for at, (side, event) in enumerate(zip(screen.sides, screen.cursor_events, strict=True)):
            op = side.trace.event(event)["op"] if side.trace is not None and event is not None else None
            if side.trace is not None and op is not None:
                start = NavigationOrigin(
                    event, side.timeline.view.start, partial(screen.go_to_execution, side), RUN_NAMES[at]
                )
                self.pages.of_op(side.trace, op, start)
                return
        screen.key_bar.say(NO_OP_COMPARED if screen.cursor_events == (None, None) else NO_HLO)

    @property
    def busy(self) -> bool:
        """True while a program is being read."""
        return self.pages.tasks.busy or self.source_navigation.tasks.busy

    def close(self) -> None:
        """Nobody waits for anything any more."""
        self.pages.tasks.close()
        self.source_navigation.tasks.close()


def _instruction_of_row(row: ResultRow) -> tuple[str, str] | None:
    """The program and the instruction that a row names: ``jit_f(12)`` and ``copy-start`` of ``copy-start{0}``."""
    names = (row.get(column) for column in ("buffer", "at", "largest", "name"))
    name = next((name for name in names if isinstance(name, str) and name), None)
    program = row.get("program")
    if name is None or not isinstance(program, int | str) or isinstance(program, bool):
        return None
    return str(program), name.partition("{")[0]


def _executions_of_instruction(trace: Trace, leaf: HloPage) -> EventWalk:
    """All executions of an instruction."""
    same = (pl.col("name") == leaf.name) & (pl.col("program") == leaf.program.program)
    ops = trace.ops.filter(same)["op"].to_list()
    if not ops:
        return walk_events(trace, leaf.name, pl.lit(value=False))
    return walk_events(trace, leaf.name, pl.col("op").is_in(ops))
