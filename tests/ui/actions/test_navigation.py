"""Every way of going somewhere, by its keys: links, steps, times, back and forward, marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from building import US
from exploring import explored, header, in_full, press, read_once, said, selected, settled, until, written
from tracehound.draw.notes import note_texts
from tracehound.store import TraceReader
from tracehound.ui.background.event_links import EventLink, LinkFinder
from tracehound.ui.bindings.keys import KEYS
from tracehound.ui.screens.explorer_screen import ExplorerScreen
from tracehound.ui.widgets.prompts import AnswerInput


def slices() -> list[dict[str, object]]:
    """Two steps of one thread, in each an operator in a Python frame with two launches."""
    made: list[dict[str, object]] = []

    def add(cat: str, name: str, ts: float, dur: float, **args: object) -> None:
        pid, tid = (0, 7) if cat == "kernel" else (100, 100)
        made.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args})

    for step in (1, 2):
        at = 1000 * step
        add("user_annotation", f"ProfilerStep#{step}", at, 1000)
        add("python_function", "train.py(7): forward", at + 100, 300)
        add("cpu_op", "aten::mm", at + 110, 200)
        for number in (0, 1):
            correlation = 2 * step + number
            add("cuda_runtime", "cudaLaunchKernel", at + 120 + 20 * number, 10, correlation=correlation)
            name = f"kernel {number}"
            add("kernel", name, at + 500 + 100 * number, 90, correlation=correlation, device=0, stream=7)
    return made


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("navigation"), slices())


@pytest.fixture
def opening(path: Path) -> TraceReader:
    return read_once(path)


async def test_out_to_the_python_line_and_in_to_the_kernels(opening: TraceReader) -> None:
    async with explored(opening, (120, 30)) as (explorer, pilot):
        await press(pilot, "j", "full_stop")
        assert selected(explorer) == "kernel 0"
        seen = []
        for _ in range(3):
            await press(pilot, "o")
            seen.append(selected(explorer))
        assert seen == ["cudaLaunchKernel", "aten::mm", "train.py(7): forward"]
        assert "around aten::mm" in said(explorer)

        await press(pilot, "i")
        assert selected(explorer) == "cudaLaunchKernel"
        assert "launches in train.py(7): forward: 1 of 2" in said(explorer)
        await press(pilot, "i")
        assert selected(explorer) == "kernel 0"
        await press(pilot, "n", "i")
        assert selected(explorer) == "kernel 1", "n went on to the second launch"
        await press(pilot, "i")
        assert selected(explorer) == "kernel 1"
        assert "runs on the device" in said(explorer)


@pytest.mark.thorough
async def test_links_lead_on_from_the_details_too(opening: TraceReader) -> None:
    async with explored(opening, (200, 50)) as (explorer, pilot):
        await press(pilot, "j", "full_stop", "enter")
        assert pilot.app.focused is explorer.selected.details.fact_sheet
        await press(pilot, "o", "o")
        assert selected(explorer) == "aten::mm"
        assert "aten::mm" in explorer.selected.details.fact_sheet.render_line(0).text
        await press(pilot, "i")
        assert selected(explorer) == "cudaLaunchKernel"
        assert pilot.app.focused is explorer.selected.details.fact_sheet


async def test_links_pressed_in_a_row_are_followed_one_after_the_other(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "j", "full_stop")
        await pilot.press("o", "o", "o")
        await settled(pilot)
        await settled(pilot)
        assert selected(explorer) == "train.py(7): forward"


@pytest.mark.thorough
async def test_a_link_is_dropped_when_one_has_gone_elsewhere(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "j", "full_stop")
        event = explorer.view.event
        assert event is not None
        await press(pilot, "full_stop")
        explorer.post_message(LinkFinder.Linked(event, EventLink(event, "too late")))
        await settled(pilot)
        assert selected(explorer) == "kernel 1"
        assert "too late" not in said(explorer)


async def test_without_an_event_it_says_what_to_do(opening: TraceReader) -> None:
    async with explored(opening, (120, 30)) as (explorer, pilot):
        await press(pilot, "o")
        assert "no event selected: Enter" in said(explorer)


@pytest.mark.thorough
async def test_what_is_said_goes_away(opening: TraceReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracehound.ui.widgets.status_bars.MESSAGE_SECONDS", 0.01)
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "o")
        await until(pilot, lambda: explorer.key_bar.message == "")


async def test_steps(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "right_parenthesis", "left_parenthesis")
        assert explorer.view.selection == (0, 1000 * US)
        await press(pilot, "right_parenthesis")
        assert explorer.view.selection == (1000 * US, 2000 * US)
        assert "filtered to window" in header(explorer)
        await press(pilot, "right_parenthesis")
        assert explorer.view.selection == (1000 * US, 2000 * US)
        assert "no more steps" in said(explorer)
        await press(pilot, "left_parenthesis")
        assert explorer.view.selection == (0, 1000 * US)


async def test_going_to_a_time_and_to_a_step(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        await press(pilot, "w", "w", "w", "g", *"1.5ms")
        assert isinstance(pilot.app.focused, AnswerInput)
        assert not explorer.key_bar.display
        before = explorer.view
        await press(pilot, "enter")
        assert explorer.view.focus == 1500 * US
        assert explorer.view.end - explorer.view.start == before.end - before.start
        assert pilot.app.focused is explorer.timeline
        assert explorer.key_bar.display

        await press(pilot, "g", *"step", "space", "2", "enter")
        assert explorer.view.selection == (1000 * US, 2000 * US)


@pytest.mark.thorough
async def test_what_is_no_place_keeps_the_prompt_open(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        before = explorer.view
        await press(pilot, "g", *"9s", "enter")
        assert isinstance(pilot.app.focused, AnswerInput)
        screen = "\n".join(strip.text for strip in explorer._compositor.render_strips())
        assert "the run goes from 0.000 us to 2.000 ms" in screen
        await press(pilot, *"xyz")
        screen = "\n".join(strip.text for strip in explorer._compositor.render_strips())
        assert " go to 9sxyz " in screen, "what is said leaves room for what is typed"
        assert "not a place; write 12.5ms   +300us   40%   step 12" in screen
        assert "Ente" not in screen, "keys that have no room are left out whole"
        await press(pilot, "escape")
        assert explorer.view == before
        assert pilot.app.focused is explorer.timeline


async def test_what_is_said_is_not_cut_within_a_clause(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, _):
        explorer.key_bar.say("critical path: rank 0 is bound by CPU 99.99 % of 224.1 ms of Step#6, the longest step")
        assert said(explorer).rstrip() == " critical path: rank 0 is bound by CPU 99.99 % of 224.1 ms of Step#6"
        explorer.key_bar.say(f"a, {'b' * 100}")
        assert "…" in said(explorer), "what is left would say next to nothing"


@pytest.mark.parametrize("back", ["u", *in_full("backspace")])
async def test_back_and_forward(opening: TraceReader, back: str) -> None:
    async with explored(opening, (120, 30)) as (explorer, pilot):
        whole = explorer.view
        await press(pilot, "j", "full_stop", "o", "o")
        await press(pilot, back)
        assert selected(explorer) == "cudaLaunchKernel"
        assert "place 2 of 3" in said(explorer)
        await press(pilot, back)
        assert selected(explorer) == "kernel 0"
        await press(pilot, back)
        assert "no place before this one" in said(explorer)
        assert (explorer.view.start, explorer.view.end) == (whole.start, whole.end)
        await press(pilot, "U", "U")
        assert selected(explorer) == "aten::mm"
        await press(pilot, "U")
        assert "no place after this one" in said(explorer)


async def test_back_from_what_a_table_led_to(opening: TraceReader) -> None:
    async with explored(opening) as (explorer, pilot):
        whole = explorer.view
        await press(pilot, "2", "enter")
        assert selected(explorer) is not None
        await press(pilot, "u")
        assert explorer.view == whole


async def test_marks(opening: TraceReader) -> None:
    async with explored(opening, (120, 30)) as (explorer, pilot):
        await press(pilot, "j", "full_stop", "f")
        here = explorer.view
        await press(pilot, "m")
        assert isinstance(pilot.app.focused, AnswerInput)
        await press(pilot, "a")
        assert "marked a" in said(explorer)
        assert pilot.app.focused is explorer.timeline

        await press(pilot, "2", "enter", "T", "0", "apostrophe", "a")
        assert explorer.view == here
        await press(pilot, "u")
        assert explorer.view != here
        await press(pilot, "apostrophe", "b")
        assert "no mark b; set: a" in said(explorer)
        await press(pilot, "m", "escape")
        assert set(explorer.navigation.marks) == {"a"}


def test_every_way_is_on_a_key_and_known(opening: TraceReader) -> None:
    asked = {key.action.split("'")[1] for key in KEYS if key.action.removeprefix("screen.").startswith("travel(")}
    assert asked == set(ExplorerScreen(opening).navigation.ways)


async def test_slices_of_the_lane_under_the_cursor_in_the_window(opening: TraceReader) -> None:
    async with explored(opening, (160, 40)) as (explorer, pilot):
        await press(pilot, "j", "S")
        pane = explorer.pane_stack.tables["slices"]
        result = pane.table.result
        assert result is not None
        assert note_texts(result.notes) == ("4 events, busy 360 us of 2.00 ms",)
        assert sorted(result.table["name"]) == ["kernel 0", "kernel 1"]

        await press(pilot, "T", "right_parenthesis")
        result = pane.table.result
        assert result is not None
        assert note_texts(result.notes) == ("2 events, busy 180 us of 1.00 ms",)

        await press(pilot, "J", "J")
        result = pane.table.result
        assert result is not None
        assert "aten::mm" in result.table["name"].to_list()
        await press(pilot, "2", "K", "S")
        assert pilot.app.focused is pane.table
