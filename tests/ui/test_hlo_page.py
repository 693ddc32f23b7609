"""The HLO of an op, from a key in the explorer to the next execution in the timeline."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from exploring import explored, header, in_full, press, read_once, said, selected, settled, until
from hloprotos import F32, array, computation, instruction, module
from tracehound.draw.glyphs import ASCII
from tracehound.hlo.hlo_programs import TraceProgram
from tracehound.ui.explorer_app import ExplorerApp
from tracehound.ui.screens.explorer_screen import ExplorerScreen
from tracehound.ui.screens.hlo_screen import HloScreen, HloView
from tracehound.ui.screens.source_screen import SourceScreen
from tracehound.ui.source_files import SourceFolders, SourceMapping
from tracehound.ui.state.hlo_page import HloPage, HloPageLine
from xspaces import block, whole


def page(app: App[None]) -> list[str]:
    """What stands on the screen of an op."""
    assert isinstance(app.screen, HloScreen)
    view = app.screen.view
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


def view(pilot: Pilot[None]) -> HloView:
    assert isinstance(pilot.app.screen, HloScreen)
    return pilot.app.screen.view


async def show_hlo(explorer: ExplorerScreen, pilot: Pilot[None], *keys: str) -> None:
    """Show the ops, however long that takes, and then the HLO of one."""
    await press(pilot, "2")
    await until(pilot, lambda: explorer.pane_stack.table_pane("ops").table.row is not None)
    await press(pilot, *keys, "%")
    await until(pilot, lambda: isinstance(pilot.app.screen, HloScreen))
    await settled(pilot)


async def to(pilot: Pilot[None], words: str) -> None:
    """Put the cursor on the first line that says so."""
    shown = view(pilot)
    await press(pilot, "home")
    for _ in range(200):
        item = shown.item
        if item is not None and words in (item.words, f"{item.words} {item.what}"):
            return
        await pilot.press("down")
    raise AssertionError(words)


@pytest.mark.parametrize("size", [(80, 24), *in_full((200, 50))])
async def test_the_all_reduce_says_who_takes_part(samples: Path, size: tuple[int, int]) -> None:
    """At the small batch the all-reduce leads: its groups in words, its bytes, its operands."""
    async with explored(read_once(samples / "jax_cpu8_b128"), size) as (explorer, pilot):
        await show_hlo(explorer, pilot, "enter")
        lines = "\n".join(page(pilot.app))
        assert "every device ends with the sum over its group" in lines
        assert "1 group of 8: {0,1,2,3,4,5,6,7}" in lines
        assert "each device gives 512 KiB in 11 arrays" in lines
        assert "32 on 8 ranks, 434 ms in all" in lines
        assert all(len(line) <= size[0] for line in page(pilot.app))
        before = explorer.view.event
        await press(pilot, "n")
        assert isinstance(pilot.app.screen, ExplorerScreen)
        assert selected(explorer) == "all-reduce.11"
        assert explorer.view.event != before
        assert "of 32" in header(explorer)


async def test_the_fusion_is_opened_and_walked_through(samples: Path) -> None:
    """What is inside a product, who uses it, one step to a user and back."""
    async with explored(read_once(samples / "jax_cpu8_b4096"), (160, 44)) as (explorer, pilot):
        await show_hlo(explorer, pilot, "down")
        first = "\n".join(page(pilot.app))
        assert "custom fusion of 1 instruction: 1 dot" in first
        assert "Inside 3 (1 dot)" in first
        assert "%param_0.35" in first
        assert "= %multiply_bitcast_fusion.1" in first
        await to(pilot, "%multiply_tanh_fusion")
        await press(pilot, "space")
        assert [item.words for item in view(pilot)._items if item.depth == 1][-1].startswith("%")
        assert "%tanh" in "\n".join(page(pilot.app))
        await press(pilot, "enter")
        assert page(pilot.app)[0].startswith(" %multiply_tanh_fusion  fusion kLoop")
        await press(pilot, "u")
        assert page(pilot.app)[0].startswith(" %ynn_fusion.28")
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, ExplorerScreen)


@pytest.mark.thorough
async def test_the_text_of_the_computation(samples: Path) -> None:
    async with explored(read_once(samples / "jax_cpu8_b128"), (120, 30)) as (explorer, pilot):
        await show_hlo(explorer, pilot)
        await press(pilot, "t")
        shown = view(pilot)
        assert shown.page is not None
        assert shown.item is not None
        assert shown.page.line(shown.item.row).startswith("%all-reduce.11 = (f32[256,64]{1,0}, ")
        assert any(line.startswith(" %all-reduce.11 = (f32[256,64]{1,0}, ") for line in page(pilot.app))
        await press(pilot, "down", "enter")
        assert not page(pilot.app)[0].startswith(" %all-reduce.11")
        await press(pilot, "u", "u")
        assert page(pilot.app)[0].startswith(" %all-reduce.11")


@pytest.mark.thorough
async def test_the_source_of_the_op_is_read(samples: Path) -> None:
    sources = SourceFolders((SourceMapping("/srv/demo", samples),))
    app = ExplorerApp(read_once(samples / "jax_cpu8_b128"), sources=sources)
    async with app.run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await show_hlo(app.explorer, pilot)
        await press(pilot, "O")
        assert isinstance(app.screen, SourceScreen)
        await press(pilot, "escape")
        assert isinstance(app.screen, HloScreen)


@pytest.mark.thorough
async def test_what_has_no_hlo_says_so(samples: Path) -> None:
    async with explored(read_once(samples / "torch_stacks")) as (explorer, pilot):
        await press(pilot, "2", "%")
        assert "no HLO op here" in said(explorer)


async def test_a_buffer_leads_to_the_instruction_that_defines_it(samples: Path) -> None:
    async with explored(read_once(samples / "jax_cpu8_b128"), (100, 30)) as (explorer, pilot):
        explorer.action_show("hlo_buffers")
        await until(pilot, lambda: explorer.pane_stack.tables["hlo_buffers"].table.row is not None)
        row = explorer.pane_stack.tables["hlo_buffers"].table.row
        assert row is not None
        await press(pilot, "%")
        assert page(pilot.app)[0].startswith(f" %{row['buffer'].partition('{')[0]}  ")


INSIDE = computation(
    2, "fused", 21, instruction(20, "p\x1b[31m", "parameter", array(F32, 8), whole(9, 0)),
    instruction(21, "exp", "exponential", array(F32, 8), operands=(20,)), fused=True,
)  # fmt: skip
MAIN = computation(
    1, "main", 13, instruction(10, "x", "parameter", array(F32, 8)),
    instruction(11, "y", "negate", array(F32, 8), operands=(10,)),
    instruction(12, "f", "fusion", array(F32, 8), block(11, "kLoop"), operands=(11,), calls=(2,)),
    instruction(13, "g", "sine", array(F32, 8), operands=(12,)),
)  # fmt: skip


def leaf(name: str = "f") -> HloPage:
    made = module(INSIDE, MAIN)
    return HloPage(TraceProgram("jit_f", 3, 0, Path("a.pb"), 0, 1), made, made.row_by_name[name])


def told(items: list[HloPageLine]) -> list[tuple[str, int, bool | None]]:
    return [(item.words, item.depth, item.open) for item in items if item.kind in ("title", "op")]


def test_a_page_has_inside_operands_and_users() -> None:
    assert told(leaf().items()) == [
        ("Inside 2 (1 exponential)", 0, None), ("%p\x1b[31m", 0, None), ("%exp", 0, None),
        ("Operands", 0, None), ("%y", 0, False), ("Users", 0, None), ("%g", 0, None),
    ]  # fmt: skip
    assert told(leaf("exp").items())[-2:] == [("Called by", 0, None), ("%f", 0, None)]


def test_branches_unfold_in_their_own_direction() -> None:
    shown = leaf("g")
    operand = next(item for item in shown.items() if item.words == "%f")
    shown = shown.toggle_branch(operand)
    assert told(shown.items()) == [("Operands", 0, None), ("%f", 0, True), ("%y", 1, False)]
    shown = shown.toggle_inner_instructions(operand)
    assert ("%exp", 1, None) in told(shown.items())
    assert told(shown.toggle_inner_instructions(operand).toggle_branch(operand).items()) == [
        ("Operands", 0, None),
        ("%f", 0, False),
    ]
    last = leaf("y")
    assert last.toggle_branch(next(item for item in last.items() if item.words == "%x")) is last


async def test_no_control_character_reaches_the_terminal() -> None:
    class One(App[None]):
        def compose(self) -> ComposeResult:
            yield HloView(leaf(), ASCII)

    app = One()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        shown = app.query_one(HloView)
        text = "".join(shown.render_line(y).text for y in range(24))
        assert "\x1b" not in text
        assert text.isascii()
