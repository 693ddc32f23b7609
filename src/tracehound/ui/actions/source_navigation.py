"""Going to source code: from an event or a line of its details to a file on the screen or in an editor.

Files are looked for and read in a thread, since a disk may be slow. Knows the screen that it works for only
as somewhere to come back to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl
from textual.screen import Screen

from tracehound.draw.glyphs import Glyphs
from tracehound.model.ids import file_index_of, is_in_file
from tracehound.model.trace import Trace, collect_frame
from tracehound.store import read_event_args
from tracehound.ui.background.background_thread import ScreenTasks
from tracehound.ui.screens.source_screen import SourceLineDialog, SourcePage, SourceScreen
from tracehound.ui.source_files import SourceFolders, SourceLine, parse_source_line, read_source_lines
from tracehound.ui.terminal.outside_programs import notify_warning, open_in_editor
from tracehound.ui.wording.event_facts import args_facts, event_facts, source_lines

NO_SOURCE_LINE = "this names no source line"

RECORDING_ADVICE = "torch.profiler records stacks with with_stack=True, JAX with its Python tracer"


class SourceNavigation:
    """One visit after the other; only the newest counts."""

    def __init__(self, screen: Screen[None], sources: SourceFolders, glyphs: Glyphs) -> None:
        self._screen = screen
        self._sources = sources
        self._glyphs = glyphs
        self.tasks = ScreenTasks(screen, "showing its source")

    def of_event(self, trace: Trace, event: int) -> None:
        """Show the source line of an event; where it has several, let the user choose."""

        def work() -> Callable[[], None]:
            known = event_facts(trace, event)
            lines = source_lines((*known, *args_facts(read_event_args(trace, event))))
            why = "" if lines else why_no_source_line(trace, event)
            return lambda: self._choose(lines, why)

        self.tasks.run(work)

    def read(self, words: str) -> None:
        """Show the source line that `words` name."""
        if (line := self._parse_or_warn(words)) is not None:
            self.tasks.run(lambda: self._load_page(line))

    def edit(self, words: str) -> None:
        """Open it in the user's editor."""
        if (line := self._parse_or_warn(words)) is not None:
            self.tasks.run(lambda: self._prepare_editor(line))

    def _parse_or_warn(self, words: str) -> SourceLine | None:
        line = parse_source_line(words)
        if line is None:
            notify_warning(self._screen.app, NO_SOURCE_LINE)
        return line

    def _choose(self, lines: Sequence[SourceLine], why: str) -> None:
        if not lines:
            notify_warning(self._screen.app, why)
        elif len(lines) == 1:
            self._visit(lines[0])
        else:
            self._screen.app.push_screen(SourceLineDialog(lines, self._glyphs), self._visit)

    def _visit(self, line: SourceLine | None) -> None:
        if line is not None:
            self.tasks.run(lambda: self._load_page(line))

    def _load_page(self, line: SourceLine) -> Callable[[], None]:
        path = self._sources.find(line.file)
        page = SourcePage(path, read_source_lines(path), line.line, line.what)
        return lambda: self._push(page)

    def _push(self, page: SourcePage) -> None:
        self._screen.app.push_screen(SourceScreen(page, self._glyphs))

    def _prepare_editor(self, line: SourceLine) -> Callable[[], None]:
        path = self._sources.find(line.file)
        read_source_lines(path)  # what is no text is nothing for an editor either
        return lambda: open_in_editor(self._screen.app, path, line.line)


def why_no_source_line(trace: Trace, event: int) -> str:
    """The reason why an event has no source line: no launch, no Python around it, or no Python in the whole file."""
    found = trace.event(event)
    threads = (pl.col("role") == "thread") & is_in_file("lane", file_index_of(event))
    lanes = trace.lanes.filter(threads)["lane"].to_list()
    if collect_frame(trace.events(lanes).filter(pl.col("kind") == "python").select("id").head(1)).is_empty():
        return f"{NO_SOURCE_LINE}; {RECORDING_ADVICE}"
    lane = trace.lanes.row(by_predicate=pl.col("lane") == found["lane"], named=True)
    if lane["rank"] is not None and found["launch"] is None:
        return f"{NO_SOURCE_LINE}: no launch of it is recorded, which would lead to the Python that it runs for"
    return f"{NO_SOURCE_LINE}: no Python is recorded around {'its launch' if found['launch'] is not None else 'it'}"
