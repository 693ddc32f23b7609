"""The explorer while a folder of files is read."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import polars as pl
import pytest
from textual.pilot import Pilot

from building import US
from exploring import in_full, until
from tracehound.draw.notes import note_texts
from tracehound.errors import TracehoundError
from tracehound.model.notes import Note
from tracehound.model.trace import FileFrames
from tracehound.store import CancelledError, ClockAlignment, ReadingProgress, TraceReader, open_trace_files
from tracehound.ui.background import analysis_runner
from tracehound.ui.background.trace_loader import TraceLoader
from tracehound.ui.explorer_app import ExplorerApp
from tracehound.ui.panes.pane_menu import menu_entries
from tracehound.ui.screens.explorer_screen import ExplorerScreen
from tracehound.ui.screens.menu_screen import MenuList, MenuScreen


def written(folder: Path, rank: int) -> Path:
    events = [
        {"ph": "X", "cat": "kernel", "name": f"k{number} of {rank}", "pid": 0, "tid": 7, "ts": 100 * number + rank,
         "dur": 50, "args": {"device": 0, "stream": 7}}
        for number in range(9)
    ]  # fmt: skip
    document = {
        "deviceProperties": [{"id": 0, "name": "Test GPU"}],
        "distributedInfo": {"rank": rank, "world_size": 30},
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "traceEvents": events,
    }
    path = folder / f"rank{rank:02}.json"
    path.write_bytes(orjson.dumps(document))
    return path


class Gated(TraceReader, dict=True):
    """An opening whose files are read when they are let through."""

    def read_files(
        self, listen: object, cancelled: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[int, FileFrames]]:
        del listen
        self.order = list[int]()
        self.bad = dict[int, str]()
        self.taken = 0
        self.go = threading.Semaphore(0)
        self.started.set()
        for _ in range(len(self.files)):
            while not self.go.acquire(timeout=0.01):
                if cancelled():
                    raise CancelledError
            number = self.order.pop(0)
            if number in self.bad:
                self.notes.append(Note("dropped", "file_not_read", values=(("why", self.bad[number]),)))
                continue
            found = self.files[number]
            yield number, found.format.read(found.path, lambda *_: None)
            self.taken += 1
        if len(self.bad) == len(self.files):
            raise TracehoundError("is damaged", self.files[0].path)

    def let(self, *numbers: int) -> None:
        """Have these files read."""
        self.order += numbers
        self.go.release(len(numbers))


class Silent(TraceReader, dict=True):
    """An opening of which nothing comes until it is let go."""

    def placeholder(self, number: int) -> FileFrames:
        del number
        self.go.wait()
        raise CancelledError


def gated(folder: Path, ranks: int) -> Gated:
    for rank in range(ranks):
        written(folder, rank)
    real = open_trace_files([folder])
    opening = Gated(real.name, real.files, real.notes, real.context)
    opening.started = threading.Event()
    return opening


@asynccontextmanager
async def exploring(
    opening: Gated, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[ExplorerScreen, Pilot[None]]]:
    app = ExplorerApp(opening)
    async with app.run_test(size=size) as pilot:
        await until(pilot, opening.started.is_set)
        await until(pilot, lambda: app.explorer.trace is not None)
        await quiet(app.explorer, pilot)
        yield app.explorer, pilot
        app.explorer.reading.cancel()


async def quiet(explorer: ExplorerScreen, pilot: Pilot[None]) -> None:
    """Everything that is known is shown."""
    await pilot.pause()
    await until(pilot, lambda: not explorer.background.busy and not explorer.timeline.lane_loader.busy)
    await pilot.pause()


async def let(explorer: ExplorerScreen, pilot: Pilot[None], opening: Gated, *numbers: int) -> None:
    """Read files one by one, and show each."""
    for number in numbers:
        trace = explorer.trace
        opening.let(number)
        await until(pilot, lambda trace=trace: explorer.trace is not trace)
        await quiet(explorer, pilot)


def timeline(explorer: ExplorerScreen) -> list[str]:
    widget = explorer.timeline
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]


def ranks_read(explorer: ExplorerScreen) -> str:
    """What the overview says of how much is read."""
    return explorer.pane_stack.overview.sections["overview/ops"].so_far


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rest between two snapshots."""
    monkeypatch.setattr("tracehound.ui.background.trace_loader.MIN_PAUSE", 0.0)
    monkeypatch.setattr("tracehound.ui.background.trace_loader.PAUSE_RATIO", 0.0)


async def test_every_rank_has_its_place_before_anything_is_read(tmp_path: Path) -> None:
    async with exploring(gated(tmp_path, 4)) as (explorer, _):
        seen = [line for line in timeline(explorer) if "rank " in line]
        assert [line.split()[2] for line in seen] == ["0", "1", "2", "3"]
        assert all(line.endswith("not read yet") for line in seen)
        assert not explorer.trace_updates.any_read


@pytest.mark.thorough
async def test_panes_say_that_there_is_nothing_to_work_out_yet(tmp_path: Path) -> None:
    opening = gated(tmp_path, 4)
    async with exploring(opening) as (explorer, pilot):
        assert "loading..." in explorer.pane_stack.overview.sections["overview/ops"].message
        await let(explorer, pilot, opening, 2)
        assert not explorer.pane_stack.overview.sections["overview/ops"].message
        await pilot.press("2")
        await quiet(explorer, pilot)
        assert "1 of 4 ranks read" in explorer.pane_stack.table_pane("ops").caption.render_line(0).text


@pytest.mark.thorough
async def test_the_first_of_what_comes_into_sight_is_shown_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracehound.ui.background.trace_loader.PAUSE_RATIO", 1e9)
    opening = gated(tmp_path, 30)
    async with exploring(opening) as (explorer, pilot):
        opening.let(20)
        await let(explorer, pilot, opening, 1)
        shown = explorer.trace
        opening.let(2)
        await until(pilot, lambda: opening.taken == 3)
        await quiet(explorer, pilot)
        assert explorer.trace is shown, "what it takes to place it again is not spent for every rank in sight"
        await pilot.press("end")
        await quiet(explorer, pilot)
        await let(explorer, pilot, opening, 19)


@pytest.mark.thorough
async def test_what_is_in_sight_is_wanted_first(tmp_path: Path) -> None:
    opening = gated(tmp_path, 30)
    async with exploring(opening) as (explorer, pilot):
        assert opening.wanted_files == frozenset(range(len(opening.wanted_files)))
        assert 5 < len(opening.wanted_files) < 15
        await pilot.press("end")
        await quiet(explorer, pilot)
        assert max(opening.wanted_files) == 29
        assert 0 not in opening.wanted_files
        await pilot.press("home")
        await quiet(explorer, pilot)
        assert 0 in opening.wanted_files


async def test_ranks_fill_in_where_they_stand(tmp_path: Path) -> None:
    opening = gated(tmp_path, 4)
    async with exploring(opening, (120, 40)) as (explorer, pilot):
        await let(explorer, pilot, opening, 2)
        assert explorer.trace_updates.any_read
        lines = timeline(explorer)
        at = next(y for y, line in enumerate(lines) if "rank 2" in line)
        assert "k0 of" in lines[at + 1]
        assert sum("not read yet" in line for line in lines) == 3
        assert explorer.trace is not None
        assert explorer.trace.event(2 << 32)["name"] == "k0 of 2"
        assert "1 of 4 ranks read" in ranks_read(explorer)

        await let(explorer, pilot, opening, 0, 3, 1)
        assert not any("not read yet" in line for line in timeline(explorer))
        assert "ranks read" not in ranks_read(explorer)
        assert opening.wanted_files == frozenset()


async def test_answers_are_renewed_now_and_then_and_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[tuple[int, ...] | None]()
    run = analysis_runner.run_analysis
    monkeypatch.setattr(
        analysis_runner,
        "run_analysis",
        lambda analysis, trace, window, *more: (asked.append(window.ranks), run(analysis, trace, window, *more))[1],
    )
    monkeypatch.setattr(analysis_runner, "MIN_PAUSE", 600.0)  # a machine under load is slow
    opening = gated(tmp_path, 4)
    async with exploring(opening) as (explorer, pilot):
        assert asked == [], "nothing is asked of heads"
        await let(explorer, pilot, opening, 0, 1, 2)
        assert asked == [(0,)] * 5, "a section each; the header has the findings of that section"
        assert "1 of 4 ranks read" in ranks_read(explorer)
        await let(explorer, pilot, opening, 3)
        assert asked == [(0,)] * 5 + [None] * 5


async def test_a_file_that_cannot_be_read_is_left_out_and_the_cursor_stays(tmp_path: Path) -> None:
    opening = gated(tmp_path, 3)
    async with exploring(opening) as (explorer, pilot):
        await let(explorer, pilot, opening, 2)
        await pilot.press("j", "enter")
        assert explorer.trace is not None
        assert explorer.view.event is not None
        before = explorer.trace.event(explorer.view.event)
        opening.bad[0] = "is damaged"
        opening.let(0)
        await let(explorer, pilot, opening, 1)
        assert [part.path.name for part in explorer.trace.parts] == ["rank01.json", "rank02.json"]
        assert explorer.view.event is not None
        assert explorer.view.event >> 32 == 1
        assert explorer.trace.event(explorer.view.event)["name"] == before["name"]
        assert explorer.view.lane == explorer.trace.event(explorer.view.event)["lane"]
        assert "incomplete: see health" in explorer.header.facts


@pytest.mark.thorough
async def test_when_nothing_can_be_read_the_explorer_ends(tmp_path: Path) -> None:
    opening = gated(tmp_path, 2)
    async with exploring(opening) as (explorer, pilot):
        opening.bad.update({0: "is damaged", 1: "is damaged"})
        opening.let(0, 1)
        app = explorer.app
        assert isinstance(app, ExplorerApp)
        await until(pilot, lambda: app.failure is not None)
        assert "is damaged" in str(app.failure)


@pytest.mark.thorough
async def test_when_polars_panics_the_screen_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def panics(*_: object) -> None:
        raise pl.exceptions.PanicException("index out of bounds")

    opening = gated(tmp_path, 2)
    async with exploring(opening) as (explorer, pilot):
        await let(explorer, pilot, opening, 1)
        monkeypatch.setattr(opening, "merge_on_final_clock", panics)
        opening.let(0)
        await until(pilot, lambda: not explorer.reading.busy)
        await quiet(explorer, pilot)
        assert explorer.header.news == "reading failed: PanicException: index out of bounds"


@pytest.mark.thorough
async def test_esc_stops_reading_and_what_is_read_stays(tmp_path: Path) -> None:
    opening = gated(tmp_path, 4)
    async with exploring(opening) as (explorer, pilot):
        await let(explorer, pilot, opening, 1)
        await pilot.press("escape")
        await until(pilot, lambda: not explorer.reading.busy)
        await quiet(explorer, pilot)
        assert explorer.header.news == "stopped: 1 of 4 files read"
        assert sum(line.endswith("not read yet") for line in timeline(explorer)) == 3
        assert explorer.trace_updates.any_read
        assert "1 of 4 ranks read" in ranks_read(explorer)


async def test_esc_shows_all_that_is_read_on_its_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracehound.ui.background.trace_loader.MIN_PAUSE", 60.0)
    opening = gated(tmp_path, 6)
    opening.choose_clock = lambda *_: ClockAlignment("wall", {4: 7 * US}, uncertainty=5 * US)
    async with exploring(opening, (120, 50)) as (explorer, pilot):
        await let(explorer, pilot, opening, 1)
        opening.let(4, 0, 3)
        await until(pilot, lambda: opening.taken == 4)
        await quiet(explorer, pilot)
        assert "1 of 6 ranks read" in ranks_read(explorer), "the next look at it is a minute away"
        await pilot.press("escape")
        await until(pilot, lambda: not explorer.reading.busy)
        await quiet(explorer, pilot)
        assert explorer.header.news == "stopped: 4 of 6 files read"
        assert "4 of 6 ranks read" in ranks_read(explorer)
        unread = [line.split()[2] for line in timeline(explorer) if line.endswith("not read yet")]
        assert unread == ["2", "5"]
        trace = explorer.trace
        assert trace is not None
        assert [trace.event(rank << 32)["start"] for rank in (0, 1, 3, 4)] == [0, US, 3 * US, (4 + 7) * US]
        assert "clock aligned by collective end times (±5.00 us): see clocks" in note_texts(trace.notes)


async def test_a_rank_says_how_far_its_file_is(tmp_path: Path) -> None:
    opening = gated(tmp_path, 2)
    async with exploring(opening) as (explorer, pilot):
        path, size = opening.files[1].path, opening.files[1].size
        reading = ReadingProgress(path, 0, 2, size // 2, 2 * size, 10, 1.0, {path: (size // 2 + 1, 10)})
        explorer.post_message(TraceLoader.Progressed(reading))
        await quiet(explorer, pilot)
        ranks = [line for line in timeline(explorer) if "rank " in line]
        assert ranks[0].endswith("not read yet")
        assert ranks[1].endswith("reading 50 %")


@pytest.mark.parametrize("alphabet", ["unicode", *in_full("ascii")])
@pytest.mark.thorough
async def test_before_anything_is_drawn_every_file_says_how_far_it_is(tmp_path: Path, alphabet: str) -> None:
    files = gated(tmp_path, 30).files
    opening = Silent("many", files)
    opening.go = threading.Event()
    app = ExplorerApp(opening, alphabet)
    async with app.run_test(size=(80, 40)) as pilot:
        await pilot.pause()
        panel = app.explorer.timeline_area.panel
        size = files[29].size
        running = {files[29].path: (size // 2 + 1, 1_200_000)}
        panel.reading = ReadingProgress(files[29].path, 3, 30, size, 30 * size, 1_200_000, 2.0, running)
        lines = [line for y in range(panel.size.height) if (line := panel.render_line(y).text.strip())]
        assert lines[0] == "reading"
        assert lines[1].startswith("rank29.json")
        assert "50 %" in lines[1]
        assert "1,200,000 events" in lines[1]
        assert any(line.startswith("and ") for line in lines), "not all have room"
        assert lines[-1].startswith("4 of 30 files")
        assert lines[-1].endswith("Esc stops reading")
        assert alphabet == "unicode" or "".join(lines).isascii()
        await pilot.press("escape")
        opening.go.set()
        await until(pilot, lambda: not app.explorer.reading.busy)
        await pilot.pause()
        assert panel.render_line(0).text.strip() == "stopped"


@pytest.mark.thorough
async def test_the_menu_offers_everything_until_all_is_read(tmp_path: Path) -> None:
    opening = gated(tmp_path, 2)
    async with exploring(opening) as (explorer, pilot):
        opening.let(0)
        await until(pilot, lambda: explorer.trace_updates.any_read)
        read = menu_entries(explorer.keys, explorer.trace)
        assert any(entry.lacks for _, under in read for entry in under), "of what is read something is missing"
        await pilot.press("M")
        await until(pilot, lambda: isinstance(pilot.app.screen, MenuScreen))
        assert not any(entry.lacks for entry in pilot.app.screen.query_one(MenuList)._entries)
        await pilot.press("escape")
        opening.let(1)
        await until(pilot, lambda: explorer.trace_updates.complete_trace is not None)
        await pilot.press("M")
        await until(pilot, lambda: isinstance(pilot.app.screen, MenuScreen))
        assert any(entry.lacks for entry in pilot.app.screen.query_one(MenuList)._entries)


class Late(Gated, dict=True):
    """A gated opening that takes its time until there is a trace at all."""

    def placeholder(self, number: int) -> FileFrames:
        self.opened.wait()
        return super().placeholder(number)


@asynccontextmanager
async def exploring_late(folder: Path, ranks: int) -> AsyncIterator[tuple[ExplorerScreen, Pilot[None], Late]]:
    real = gated(folder, ranks)
    opening = Late(real.name, real.files, real.notes, real.context)
    opening.started, opening.opened = threading.Event(), threading.Event()
    app = ExplorerApp(opening)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert app.explorer.trace is None
        yield app.explorer, pilot, opening
        opening.opened.set()
        app.explorer.reading.cancel()


async def there_is_a_trace(explorer: ExplorerScreen, pilot: Pilot[None], opening: Late) -> None:
    opening.opened.set()
    await until(pilot, opening.started.is_set)
    await until(pilot, lambda: explorer.trace is not None)
    await quiet(explorer, pilot)


async def test_keys_that_are_typed_while_a_trace_is_read_go_to_the_pane_that_they_opened(tmp_path: Path) -> None:
    async with exploring_late(tmp_path, 4) as (explorer, pilot, opening):
        await pilot.press("2", "enter")
        table = explorer.pane_stack.table_pane("ops").table
        assert pilot.app.focused is table
        await until(pilot, lambda: "when the rows are there" in explorer.key_bar.message)
        await there_is_a_trace(explorer, pilot, opening)
        assert pilot.app.focused is table, "the timeline has come and takes nothing away"
        await let(explorer, pilot, opening, 2)
        assert explorer.view.event is not None, "Enter went to the first row"
        assert pilot.app.focused is table


async def test_a_key_still_acts_when_another_pane_is_shown_before_its_rows_come(tmp_path: Path) -> None:
    async with exploring_late(tmp_path, 4) as (explorer, pilot, opening):
        await pilot.press("3", "enter", "t")
        await there_is_a_trace(explorer, pilot, opening)
        await let(explorer, pilot, opening, 2)
        assert explorer.view.selection is not None, "the first gap is selected"
        await quiet(explorer, pilot)
        assert explorer.pane_stack.active == "host"
        assert "in the " in explorer.pane_stack.tables["host"].caption.render_line(0).text, "and its window counts"


@pytest.mark.parametrize(
    "keys",
    [(":", *"SELECT lane FROM lanes", "enter"), *in_full(("slash", *"k0", "enter"), ("slash", *"k0"))],
)
async def test_what_is_asked_before_there_is_a_trace_is_answered(tmp_path: Path, keys: tuple[str, ...]) -> None:
    async with exploring_late(tmp_path, 4) as (explorer, pilot, opening):
        await pilot.press(*keys)
        await there_is_a_trace(explorer, pilot, opening)
        await let(explorer, pilot, opening, 2)
        table = explorer.pane_stack.table_pane("query" if keys[0] == ":" else "search").table
        await until(pilot, lambda: table.line_count > 0)
        assert (explorer.view.event is not None) == (keys[0] == "slash" and keys[-1] == "enter")


async def test_letters_after_a_choice_of_the_menu_go_to_that_pane(tmp_path: Path) -> None:
    async with exploring_late(tmp_path, 4) as (explorer, pilot, opening):
        await pilot.press("M", "k", "f", *"k0")
        await there_is_a_trace(explorer, pilot, opening)
        await let(explorer, pilot, opening, 2)
        kernels = explorer.pane_stack.tables["kernels"]
        assert kernels.filter_prompt.input.value == "k0"
        assert kernels.filter_prompt.input.has_focus
        assert kernels.table.passing_row_count == 1


async def test_esc_forgets_the_keys_that_wait_for_rows(tmp_path: Path) -> None:
    async with exploring(gated(tmp_path, 4)) as (explorer, pilot):
        await pilot.press("2", "down", "enter", "escape")
        assert explorer.reading.busy, "that key was for those before it"
        opening = explorer._opening
        assert isinstance(opening, Gated)
        await let(explorer, pilot, opening, 2)
        assert explorer.view.event is None
        assert explorer.pane_stack.table_pane("ops").table.cursor == 0
