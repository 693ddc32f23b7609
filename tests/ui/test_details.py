"""The details of an event through its keys: walking, finding, copying, and going to the source."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest
from msgspec.structs import replace
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import OptionList

from building import Building, stream, thread
from exploring import explored, in_full, press, settled
from tracehound.draw.fact_layout import Fact, FactSection
from tracehound.store import TraceReader, load_trace, open_trace_files
from tracehound.ui.actions.source_navigation import why_no_source_line
from tracehound.ui.explorer_app import ExplorerApp
from tracehound.ui.panes.details_pane import ARGS_DELAY, NO_EVENT_TEXT, DetailsPane, FactSheet
from tracehound.ui.screens.explorer_screen import ExplorerScreen
from tracehound.ui.screens.source_screen import SourceLineDialog, SourceScreen
from tracehound.ui.source_files import SourceFolders
from tracehound.ui.wording.event_facts import MAX_TEXT, args_facts, event_facts, source_lines

CODE = "\n".join(f"line_{number} = {number}  # {'long ' * 30}" for number in range(1, 81))


def written(folder: Path) -> Path:
    """A kernel, its launch inside an operator inside two Python functions, one of which is in a file that exists."""
    made: list[dict[str, Any]] = []

    def add(cat: str, name: str, tid: int, ts: float, dur: float, **args: object) -> None:
        pid = 0 if cat == "kernel" else 100
        made.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args})

    add("python_function", "model.py(40): forward", 100, 1000, 900, **{"Python id": 1})
    add("python_function", "gone/linear.py(114): forward", 100, 1010, 800, **{"Python id": 2})
    add("cpu_op", "aten::addmm", 100, 1020, 700, **{
        "Input type": ["float", "Scalar"], "Input Dims": [[16, 32], []], "Input Strides": [[32, 1], []],
        "Concrete Inputs": ["", "2"], "note": "bad\x1b[31m [bold]markup[/bold]", "External id": 1,
    })  # fmt: skip
    add("cuda_runtime", "cudaLaunchKernel", 100, 1030, 20, correlation=1)
    add("kernel", "gemm", 7, 1100, 90, correlation=1, device=0, stream=7)
    add("cpu_op", "aten::relu", 200, 1000, 10, **{"Call stack": "model.py(3): run;<built-in>;model.py(5): main"})
    add("cpu_op", "aten::alone", 300, 1000, 10)
    path = folder / "worker0.json"
    document = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Test GPU"}], "traceEvents": made}
    path.write_bytes(orjson.dumps(document))
    (folder / "model.py").write_text(CODE)
    return path


@asynccontextmanager
async def details_of(
    folder: Path, name: str, size: tuple[int, int] = (80, 40)
) -> AsyncIterator[tuple[ExplorerScreen, Pilot[None]]]:
    """The details of the event of that name have the keys."""
    app = ExplorerApp(open_trace_files([written(folder)]), sources=SourceFolders((), folder))
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "slash")
        app.explorer.search_session.prompt.input.value = name
        await settled(pilot)
        await press(pilot, "enter", "9")
        assert isinstance(pilot.app.focused, FactSheet)
        yield app.explorer, pilot


def screen(pilot: Pilot[None]) -> list[str]:
    return [strip.text.rstrip() for strip in pilot.app.screen._compositor.render_strips()]


def under_cursor(explorer: ExplorerScreen) -> str:
    sheet = explorer.selected.details.fact_sheet
    return sheet.render_line(sheet.cursor - sheet.scroll_offset.y).text.strip()


def clipboard(pilot: Pilot[None]) -> str:
    return pilot.app.clipboard


def told(folder: Path, name: str) -> dict[str, list[tuple[str, str]]]:
    trace = load_trace(open_trace_files([written(folder)]))
    event = int(trace.events().collect().filter(name=name)["id"][0])
    from tracehound.store import read_event_args  # noqa: PLC0415

    sections = (*event_facts(trace, event), *args_facts(read_event_args(trace, event)))
    return {section.title: [(fact.label, fact.words) for fact in section.facts] for section in sections}


def test_a_kernel_has_the_python_that_launched_it(tmp_path: Path) -> None:
    sections = told(tmp_path, "gemm")
    assert sections["Python stack, innermost first"] == [
        ("", "gone/linear.py(114): forward"),
        ("", "model.py(40): forward"),
    ]
    assert ("stream", "7") in sections["args"]
    assert ("cat", "kernel") in sections["in the file"]
    assert ("launched by", "cudaLaunchKernel, 70.0 us before") in sections[""]


@pytest.mark.parametrize(("returned", "words"), [(60, "blocked on a copy"), (20, "launching work")])
def test_a_call_that_waits_for_its_copy_is_told_so(returned: float, words: str) -> None:
    """From and to pageable memory cudaMemcpyAsync returns when the copy has ended."""
    b = Building()
    b.event(thread(), "cudaMemcpyAsync", 10, returned, "runtime", correlation=1)
    b.event(stream(), "Memcpy HtoD (Pageable -> Device)", 30, 50, "copy", correlation=1)
    b.event(thread(), "aten::item", 100, 200, "op")
    b.event(thread(), "cudaMemcpyAsync", 110, 190, "runtime", correlation=2)
    b.event(stream(), "Memcpy DtoH (Device -> Pageable)", 150, 180, "copy", correlation=2)
    b.event(thread(), "train.py(3): main", 300, 400, "python")
    trace = b.trace()
    calls = trace.events().filter(pl.col("kind").is_in(["runtime", "python"])).sort("start").collect()["id"]
    told = [{fact.label: fact.words for fact in event_facts(trace, event)[0].facts} for event in calls]
    assert [each.get("the host is") for each in told] == [words, "blocked on a value", None]


@pytest.mark.parametrize(
    ("name", "process", "words"),
    [
        ("python (8)", "python (8)", "python (8)"),
        ("python (8)", "box: python (8)", "box: python (8)"),
        ("python (9)", "box: python (8)", "python (9), box: python (8)"),
        ("on (8)", "box: python (8)", "on (8), box: python (8)"),
    ],
)
def test_a_thread_that_is_called_like_its_process_is_named_once(name: str, process: str, words: str) -> None:
    b = Building()
    b.event(thread(name), "aten::mm", 0, 5, "op")
    trace = b.trace()
    named = replace(trace, hosts=(replace(trace.hosts[0], name=process),))
    assert {fact.label: fact.words for fact in event_facts(named, 0)[0].facts}["lane"] == words


def test_an_operator_has_its_inputs_one_by_one_and_all_its_args(tmp_path: Path) -> None:
    sections = told(tmp_path, "aten::addmm")
    assert sections["inputs"] == [("0", "float [16, 32] strides [32, 1]"), ("1", "Scalar = 2")]
    labels = [label for label, _ in sections["args"]]
    assert labels == ["Input type", "Input Dims", "Input Strides", "Concrete Inputs", "note", "External id"]
    assert ("note", "bad␛[31m [bold]markup[/bold]") in sections["args"]


def test_a_recorded_stack_is_told_frame_by_frame(tmp_path: Path) -> None:
    sections = told(tmp_path, "aten::relu")
    assert sections["Call stack"] == [("", "model.py(3): run"), ("", "<built-in>"), ("", "model.py(5): main")]


def test_args_of_any_shape_are_told() -> None:
    odd = {"args": {"Input Dims": 7, "Concrete Inputs": [None, {"a": 1}], "Call stack": 5, "x": {}}, "d": {}, "n": None}
    sections = args_facts(odd)
    assert [(section.title, len(section.facts)) for section in sections] == [
        ("inputs", 2),
        ("args", 4),
        ("in the file", 2),
    ]
    long = args_facts({"s": "y" * (MAX_TEXT + 5)})[0].facts[0].words
    assert long.endswith(f"(the first {MAX_TEXT:,} of {MAX_TEXT + 5:,} characters)")


def test_source_lines_come_nearest_first_and_once(tmp_path: Path) -> None:
    trace = load_trace(open_trace_files([written(tmp_path)]))
    event = int(trace.events().collect().filter(name="gemm")["id"][0])
    assert [str(line) for line in source_lines(event_facts(trace, event))] == [
        "gone/linear.py:114 forward",
        "model.py:40 forward",
    ]


async def test_keys_of_the_cursor(tmp_path: Path) -> None:
    async with details_of(tmp_path, "addmm", (80, 24)) as (explorer, pilot):
        sheet = explorer.selected.details.fact_sheet
        assert under_cursor(explorer) == "name         aten::addmm"
        for down, up in (("down", "up"), ("j", "k"), ("s", "w"), ("pagedown", "pageup"), ("space", "pageup")):
            await press(pilot, down)
            assert sheet.cursor > 0
            await press(pilot, up)
            assert sheet.cursor == 0
        for last, first in (("end", "home"), ("G", "g")):
            await press(pilot, last)
            assert under_cursor(explorer).startswith("dur")
            await press(pilot, first)
            assert sheet.cursor == 0


async def test_finding(tmp_path: Path) -> None:
    async with details_of(tmp_path, "addmm", (80, 24)) as (explorer, pilot):
        await press(pilot, "f", *"FORWARD")
        assert explorer.header.place == "FORWARD 1 of 3"
        await press(pilot, "enter")
        assert under_cursor(explorer) == "inside       gone/linear.py(114): forward"
        await press(pilot, "n")
        assert under_cursor(explorer) == "gone/linear.py(114): forward"
        await press(pilot, "N", "N")
        assert under_cursor(explorer) == "model.py(40): forward"
        assert explorer.header.place == "FORWARD 3 of 3"
        event = explorer.view.event
        await press(pilot, "escape")
        assert explorer.header.place.startswith("addmm 1 of 1"), "n and N mean the walk again"
        await press(pilot, "n")
        assert explorer.view.event == event
        await press(pilot, "f", *"zebra")
        assert explorer.header.place == "zebra not here"
        await press(pilot, "escape")
        assert explorer.selected.details.fact_sheet.needle == ""
        assert pilot.app.focused is explorer.selected.details.fact_sheet


async def test_copying(tmp_path: Path) -> None:
    async with details_of(tmp_path, "addmm") as (_, pilot):
        await press(pilot, "y")
        assert clipboard(pilot) == "aten::addmm"
        await press(pilot, "j", "Y")
        assert clipboard(pilot) == "kind: op"
        await press(pilot, "c")
        assert "External id: 1" in clipboard(pilot)
        assert "note: bad␛[31m [bold]markup[/bold]" in clipboard(pilot)
        assert "Python stack, innermost first\ngone/linear.py(114): forward\n" in clipboard(pilot)


@pytest.mark.thorough
async def test_a_source_is_read_where_the_current_folder_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with details_of(tmp_path, "addmm", (80, 24)) as (_, pilot):
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        await press(pilot, "f", *"model", "enter", "enter")
        assert isinstance(pilot.app.screen, SourceScreen)
        assert "model.py  line 40 · forward" in screen(pilot)[0]


async def test_enter_on_a_frame_reads_it_and_its_keys(tmp_path: Path) -> None:
    async with details_of(tmp_path, "addmm", (80, 24)) as (explorer, pilot):
        await press(pilot, "f", *"model", "enter", "enter")
        assert isinstance(pilot.app.screen, SourceScreen)
        lines = screen(pilot)
        assert "model.py  line 40 · forward" in lines[0]
        assert any(line.startswith("▌  40  line_40 = 40") for line in lines)
        for away, back in (("j", "k"), ("down", "up"), ("pagedown", "pageup"), ("l", "h"), ("right", "left")):
            await press(pilot, away)
            assert screen(pilot) != lines
            await press(pilot, back)
            assert screen(pilot) == lines
        for end, first in (("G", "g"), ("end", "home")):
            await press(pilot, end)
            assert "line_80" in "".join(screen(pilot))
            await press(pilot, first)
            assert "line_1 " in screen(pilot)[1]
        await press(pilot, "full_stop")
        assert screen(pilot) == lines
        for width, height in ((100, 30), (60, 9), (80, 24)):
            await pilot.resize_terminal(width, height)
            await settled(pilot)
            assert any(line.startswith("▌  40  line_40") for line in screen(pilot)), "the line stays in sight"
        await press(pilot, "y")
        assert clipboard(pilot) == f"{tmp_path}/model.py:40"
        await press(pilot, "q")
        assert pilot.app.screen is explorer


@pytest.mark.thorough
async def test_without_a_source_line_under_the_cursor_those_of_the_event_are_offered(tmp_path: Path) -> None:
    async with details_of(tmp_path, "addmm", (80, 24)) as (explorer, pilot):
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, SourceLineDialog)
        assert pilot.app.screen.query_one(OptionList).option_count == 2
        await press(pilot, "escape")
        assert pilot.app.screen is explorer
        await press(pilot, "O", "j", "enter")
        assert "model.py  line 40" in screen(pilot)[0]


@pytest.mark.thorough
async def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    async with details_of(tmp_path, "gemm", (80, 24)) as (_, pilot):
        await press(pilot, "O", "enter")
        [toast] = pilot.app._notifications
        assert "gone/linear.py is not on this machine" in toast.message
        assert "--source-map .=FOLDER" in toast.message


@pytest.mark.thorough
async def test_that_its_file_has_changed_is_said_below_the_facts_of_an_event(tmp_path: Path) -> None:
    async with details_of(tmp_path, "alone") as (_, pilot):
        (path,) = {part.path for part in pilot.app.explorer.trace.parts}
        os.utime(path, ns=(0, 0))
        await press(pilot, "escape", "slash", *"gemm", "enter", "9")
        shown = "\n".join(screen(pilot))
        assert "launched by" in shown
        assert "the file has changed since it was read; open it again" in " ".join(shown.split())


@pytest.mark.thorough
async def test_what_was_said_before_is_gone_when_a_source_is_shown(tmp_path: Path) -> None:
    app = ExplorerApp(open_trace_files([written(tmp_path)]), sources=SourceFolders((), tmp_path))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settled(pilot)
        await press(pilot, "slash", *"gemm", "enter", "9", "O", "enter")
        assert "looked for" in "\n".join(screen(pilot))
        for key, above in (
            ("O", SourceLineDialog),
            ("down", SourceLineDialog),
            ("enter", SourceScreen),
            ("escape", ExplorerScreen),
        ):
            await press(pilot, key)
            assert isinstance(pilot.app.screen, above)
            assert "looked for" not in "\n".join(screen(pilot))


@pytest.mark.thorough
async def test_an_event_without_a_source_says_so(tmp_path: Path) -> None:
    async with details_of(tmp_path, "alone", (80, 24)) as (_, pilot):
        for key in ("enter", "e", "O"):
            await press(pilot, key)
            [toast] = pilot.app._notifications
            assert "names no source line" in toast.message
            assert "with_stack" not in toast.message, "there are stacks in this trace"


def test_why_an_event_has_no_source_line() -> None:
    b = Building()
    b.event(thread(), "aten::mm", 0, 50, "op")
    b.event(thread(), "cudaLaunchKernel", 10, 20, "runtime", correlation=1)
    b.event(stream(), "gemm", 30, 50, "kernel", correlation=1)
    b.event(stream(), "lost", 60, 70, "kernel")

    def why(name: str) -> str:
        trace = b.trace()
        return why_no_source_line(trace, int(trace.events().collect().filter(name=name)["id"][0]))

    assert "with_stack=True" in why("gemm")
    b.event(thread(), "train.py(3): main", 100, 120, "python")
    assert "no Python is recorded around its launch" in why("gemm")
    assert "no Python is recorded around it" in why("aten::mm")
    assert "no launch of it is recorded" in why("lost")


@pytest.mark.parametrize(
    "name",
    ["a\x1b[2J.py", *in_full("/dev/zero", "/etc/../dev/tty", "../../etc/passwd", "-c.py", "$(touch x).py")],
)
@pytest.mark.thorough
async def test_hostile_names_do_no_harm(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "vim")
    path = written(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"gone/linear.py", orjson.dumps(name)[1:-1]))
    app = ExplorerApp(open_trace_files([path]), sources=SourceFolders((), tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "slash", *"addmm", "enter", "9", "f", *"114", "enter", "e", "enter")
        assert app.screen is app.explorer or isinstance(app.screen, SourceLineDialog)
        assert all(toast.message.isprintable() for toast in app._notifications)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["model.py", "worker0.json"]


@pytest.mark.thorough
async def test_a_click_puts_the_cursor_there_and_a_second_one_opens(tmp_path: Path) -> None:
    async with details_of(tmp_path, "addmm") as (explorer, pilot):
        y = next(y for y in range(40) if "model.py" in explorer.selected.details.fact_sheet.render_line(y).text)
        await pilot.click(FactSheet, offset=(3, y))
        await settled(pilot)
        assert under_cursor(explorer) == "model.py(40): forward"
        await pilot.click(FactSheet, offset=(3, y), times=2)
        await settled(pilot)
        assert isinstance(pilot.app.screen, SourceScreen)


class Alone(App[None]):
    """The pane, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.pane = DetailsPane()

    def compose(self) -> ComposeResult:
        yield self.pane


KNOWN, ARGS = (FactSection("event", (Fact("name", "gemm"),)),), (FactSection("args", (Fact("grid", "1"),)),)


async def test_facts_wait_a_moment_for_the_args() -> None:
    app = Alone()
    async with app.run_test() as pilot:
        before = app.pane.fact_sheet.line_count
        app.pane.show(KNOWN, None)
        assert app.pane.fact_sheet.line_count == before, "nothing is drawn yet"
        app.pane.show(KNOWN, ARGS)
        await pilot.pause(2 * ARGS_DELAY)
        assert "decoding" not in "\n".join(screen(pilot))
        app.pane.show(KNOWN, None)
        await pilot.pause(2 * ARGS_DELAY)
        assert "gemm" in "\n".join(screen(pilot))
        assert "decoding its args" in "\n".join(screen(pilot))


@pytest.mark.parametrize("size", [(80, 40), *in_full((160, 40))])
async def test_the_details_follow_to_the_next_event_and_the_next_gap(tmp_path: Path, size: tuple[int, int]) -> None:
    kernel = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "args": {"device": 0, "stream": 7}}
    times = ((0, 10), (30, 5), (60, 40))
    document = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "Test GPU"}],
        "traceEvents": [{**kernel, "name": f"k{start}", "ts": start, "dur": length} for start, length in times],
    }
    path = tmp_path / "worker0.json"
    path.write_bytes(orjson.dumps(document))
    app = ExplorerApp(open_trace_files([path]))
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "slash", *"k0", "enter", "9")
        for key, words in (("", "10.00 us"), (".", "5.000 us"), ("]", "25.00 us"), ("[", "20.00 us")):
            await press(pilot, *key)
            assert f"duration {words}" in " ".join("\n".join(screen(pilot)).split())
            assert isinstance(pilot.app.focused, FactSheet)
        assert "Selected window" in "\n".join(screen(pilot))


async def test_what_was_to_be_shown_later_is_forgotten_with_its_event() -> None:
    app = Alone()
    async with app.run_test() as pilot:
        app.pane.show(KNOWN, None)
        app.pane.clear()
        await pilot.pause(2 * ARGS_DELAY)
        assert NO_EVENT_TEXT in "\n".join(screen(pilot))


@pytest.mark.parametrize("size", [(140, 40), *in_full((80, 24))])
async def test_esc_closes_what_was_opened_last(opening: TraceReader, size: tuple[int, int]) -> None:
    async with explored(opening, size) as (explorer, pilot):
        layout = explorer.pane_layout
        await press(pilot, "2", "space")
        window = explorer.view.selection
        assert window is not None
        await press(pilot, "z", "9")
        assert layout.details_open
        await press(pilot, "escape")
        assert not layout.details_open
        assert pilot.app.focused is explorer.pane_stack.tables["ops"].table, "which had the focus before"
        assert layout.is_zoomed
        await press(pilot, "escape")
        assert not layout.is_zoomed
        assert explorer.view.selection == window
        await press(pilot, "escape")
        assert explorer.view.selection is None


async def test_details_that_came_with_an_event_leave_with_it(opening: TraceReader) -> None:
    async with explored(opening, (140, 40)) as (explorer, pilot):
        details, layout = explorer.selected.details, explorer.pane_layout
        await press(pilot, "slash", *"gemm", "enter")
        assert explorer.view.event is not None
        assert details.display
        await press(pilot, "n", "escape")
        assert explorer.view.event is None
        assert explorer.walk is not None, "it began before"
        assert not details.display, "nothing empty stays"
        await press(pilot, "n")
        assert details.display
        await press(pilot, "9", "9")
        assert not layout.details_open, "the key that shows them hides them where they have the focus"
        await press(pilot, "n")
        assert explorer.view.event is not None
        assert not details.display, "no event brings back what the user has closed"
        await press(pilot, "9")
        assert details.display
