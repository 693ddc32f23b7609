"""Going to source code: from an event or a line of its details to a file on the screen or in an editor.

Files are looked for and read in a thread, since a disk may be slow. Knows the screen that it works for only
as somewhere to come back to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl
from textual.screen import Screen

from tracehound.draw.glyphs import Glyphs
from tracehound.ids import in_part, part_of
from tracehound.store import args
from tracehound.trace import Trace, collected
from tracehound.ui.background.errands import Errands
from tracehound.ui.screens.choice import ChoiceScreen
from tracehound.ui.screens.source import Page, SourceScreen
from tracehound.ui.source.finding import Sources
from tracehound.ui.source.lines import SourceLine, named
from tracehound.ui.source.reading import source_text
from tracehound.ui.terminal.outside import edit, warn
from tracehound.ui.wording.facts import carried, facts, source_lines

UNNAMED = "this names no source line"

ADVICE = "torch.profiler records stacks with with_stack=True, JAX with its Python tracer"


class Visits:
    """One visit after the other; only the newest counts."""

    def __init__(self, screen: Screen[None], sources: Sources, glyphs: Glyphs) -> None:
        self._screen = screen
        self._sources = sources
        self._glyphs = glyphs
        self.errands = Errands(screen, "showing its source")

    def of_event(self, trace: Trace, event: int) -> None:
        """Show the source line of an event; where it has several, let the user choose."""

        def work() -> Callable[[], None]:
            known = facts(trace, event)
            lines = source_lines((*known, *carried(args(trace, event))))
            why = "" if lines else unnamed(trace, event)
            return lambda: self._choose(lines, why)

        self.errands.run(work)

    def read(self, words: str) -> None:
        """Show the source line that `words` name."""
        if (line := self._named(words)) is not None:
            self.errands.run(lambda: self._shown(line))

    def edit(self, words: str) -> None:
        """Open it in the user's editor."""
        if (line := self._named(words)) is not None:
            self.errands.run(lambda: self._edited(line))

    def _named(self, words: str) -> SourceLine | None:
        line = named(words)
        if line is None:
            warn(self._screen.app, UNNAMED)
        return line

    def _choose(self, lines: Sequence[SourceLine], why: str) -> None:
        if not lines:
            warn(self._screen.app, why)
        elif len(lines) == 1:
            self._visit(lines[0])
        else:
            self._screen.app.push_screen(ChoiceScreen(lines, self._glyphs), self._visit)

    def _visit(self, line: SourceLine | None) -> None:
        if line is not None:
            self.errands.run(lambda: self._shown(line))

    def _shown(self, line: SourceLine) -> Callable[[], None]:
        path = self._sources.find(line.file)
        page = Page(path, source_text(path), line.line, line.what)
        return lambda: self._push(page)

    def _push(self, page: Page) -> None:
        self._screen.app.push_screen(SourceScreen(page, self._glyphs))

    def _edited(self, line: SourceLine) -> Callable[[], None]:
        path = self._sources.find(line.file)
        source_text(path)  # what is no text is nothing for an editor either
        return lambda: edit(self._screen.app, path, line.line)


def unnamed(trace: Trace, event: int) -> str:
    """Why no source line of an event is known: no launch, no Python around it, or none in the whole file."""
    found = trace.event(event)
    threads = (pl.col("role") == "thread") & in_part("lane", part_of(event))
    lanes = trace.lanes.filter(threads)["lane"].to_list()
    if collected(trace.events(lanes).filter(pl.col("kind") == "python").select("id").head(1)).is_empty():
        return f"{UNNAMED}; {ADVICE}"
    lane = trace.lanes.row(by_predicate=pl.col("lane") == found["lane"], named=True)
    if lane["rank"] is not None and found["launch"] is None:
        return f"{UNNAMED}: no launch of it is recorded, which would lead to the Python that it runs for"
    return f"{UNNAMED}: no Python is recorded around {'its launch' if found['launch'] is not None else 'it'}"
