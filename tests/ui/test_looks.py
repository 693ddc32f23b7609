"""How the explorer looks: pictures that change only on purpose (``pytest --snapshot-update``), at a fixed size each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widget import Widget

from exploring import read_once, settled
from tracehound.store import ReadingProgress, open_trace_files
from tracehound.ui.explorer_app import ComparisonApp, ExplorerApp
from tracehound.ui.source_files import SourceFolders, SourceMapping
from tracehound.ui.themes import DARK
from tracehound.ui.widgets.timeline_area import ReadingPanel

ROOT = Path(__file__).resolve().parents[2]


def explorer(sample: str, **options: Any) -> ExplorerApp:
    return ExplorerApp(read_once(ROOT / "traces" / sample), **options)


def keys(*names: str) -> Any:
    """Waits for the trace, presses the keys, and waits for what they ask for."""

    async def press(pilot: Pilot[None]) -> None:
        await settled(pilot)
        for name in names:
            await pilot.press(name)
            await settled(pilot)

    return press


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLORTERM", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")


WIDE, NARROW = (160, 44), (80, 24)


def test_readme(snap_compare: Any) -> None:
    assert snap_compare(explorer("jax_cpu8_b128"), terminal_size=(140, 40), run_before=keys("3", "enter"))


def test_flame(snap_compare: Any) -> None:
    async def press(pilot: Pilot[None]) -> None:
        await settled(pilot)
        assert isinstance(pilot.app, ExplorerApp)
        pilot.app.explorer.action_show("stacks")
        await keys("z", "j", "l", "enter", "j", "j", "f", *"linear", "enter")(pilot)

    assert snap_compare(explorer("torch_stacks"), terminal_size=(110, 26), run_before=press)


def comparing(**options: Any) -> ComparisonApp:
    openings = [read_once(ROOT / "traces" / name) for name in ("jax_cpu8_b128", "jax_cpu8_b4096")]
    return ComparisonApp(*openings, **options)


def test_comparison(snap_compare: Any) -> None:
    assert snap_compare(comparing(), terminal_size=(140, 40), run_before=keys("m", "n", "3"))


@pytest.mark.thorough
def test_narrow_comparison(snap_compare: Any) -> None:
    assert snap_compare(comparing(alphabet="ascii"), terminal_size=NARROW, run_before=keys("m", "n", "5"))


@pytest.mark.thorough
def test_narrow_gap(snap_compare: Any) -> None:
    assert snap_compare(explorer("jax_cpu8_b128"), terminal_size=NARROW, run_before=keys("3", "enter"))


def test_narrow_ops(snap_compare: Any) -> None:
    assert snap_compare(explorer("jax_cpu8_b4096"), terminal_size=NARROW, run_before=keys("2", "enter", "n"))


@pytest.mark.thorough
def test_wide_ops(snap_compare: Any) -> None:
    assert snap_compare(explorer("jax_cpu8_b4096"), terminal_size=WIDE, run_before=keys("2", "enter"))


@pytest.mark.thorough
def test_no_device(snap_compare: Any) -> None:
    assert snap_compare(explorer("torch_ddp_gloo"), terminal_size=NARROW, run_before=keys("7"))


@pytest.mark.thorough
def test_stacks(snap_compare: Any) -> None:
    assert snap_compare(explorer("torch_stacks"), terminal_size=WIDE, run_before=keys("2", "enter"))


def test_overview(snap_compare: Any) -> None:
    assert snap_compare(explorer("jax_cpu8_b128"), terminal_size=(200, 50), run_before=keys("1"))


@pytest.mark.thorough
def test_narrow_overview(snap_compare: Any) -> None:
    assert snap_compare(explorer("torch_ddp_gloo"), terminal_size=NARROW, run_before=keys("1"))


def test_menu(snap_compare: Any) -> None:
    assert snap_compare(explorer("torch_ddp_gloo"), terminal_size=NARROW, run_before=keys("M"))


@pytest.mark.thorough
def test_rank_map(snap_compare: Any) -> None:
    assert snap_compare(
        explorer("jax_cpu8_b128"), terminal_size=NARROW, run_before=keys("M", "r", "z", "v", "b", "b", "b", "l")
    )


def test_critical_path(snap_compare: Any) -> None:
    assert snap_compare(explorer("torch_ddp_gloo"), terminal_size=(140, 40), run_before=keys("P", "n", "n"))


@pytest.mark.thorough
def test_critical_path_in_sixteen_colors(snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLORTERM")
    monkeypatch.setenv("TERM", "xterm")
    assert snap_compare(explorer("torch_ddp_gloo"), terminal_size=NARROW, run_before=keys("P"))


@pytest.mark.thorough
def test_help(snap_compare: Any) -> None:
    assert snap_compare(explorer("torch_ddp_gloo"), terminal_size=NARROW, run_before=keys("question_mark"))


@pytest.mark.thorough
def test_search(snap_compare: Any) -> None:
    typed = keys("slash", *"all_reduce")
    assert snap_compare(explorer("torch_ddp_gloo"), terminal_size=NARROW, run_before=typed)


@pytest.mark.thorough
def test_ascii(snap_compare: Any) -> None:
    app = explorer("jax_cpu8_b128", alphabet="ascii")
    assert snap_compare(app, terminal_size=NARROW, run_before=keys("3", "enter"))


def test_no_color(snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "NO_COLOR", "1")
    app = explorer("jax_cpu8_b128")
    assert snap_compare(app, terminal_size=NARROW, run_before=keys("3", "enter"))


@pytest.mark.thorough
def test_details(snap_compare: Any) -> None:
    pressed = keys("slash", *"aten::addmm", "enter", "9", "z", "f", *"forward", "enter", "n")
    assert snap_compare(explorer("torch_stacks"), terminal_size=(100, 44), run_before=pressed)


@pytest.mark.thorough
def test_source(snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    app = explorer("torch_stacks", sources=SourceFolders((SourceMapping("", ROOT / "traces"),)))
    pressed = keys("slash", *"aten::addmm", "enter", "O", "j", "j", "enter")
    assert snap_compare(app, terminal_size=(100, 30), run_before=pressed)


@pytest.mark.thorough
def test_choice(snap_compare: Any) -> None:
    pressed = keys("slash", *"aten::addmm", "enter", "O")
    assert snap_compare(explorer("torch_stacks"), terminal_size=NARROW, run_before=pressed)


@pytest.mark.thorough
def test_light(snap_compare: Any) -> None:
    app = explorer("torch_stacks", theme="light")
    assert snap_compare(app, terminal_size=(140, 40), run_before=keys("2", "enter", "9"))


@pytest.mark.thorough
def test_sixteen_colors(snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLORTERM")
    monkeypatch.setenv("TERM", "xterm")
    app = explorer("jax_cpu8_b128")
    assert snap_compare(app, terminal_size=NARROW, run_before=keys("2", "enter", "9", "f", *"hlo", "enter"))


@pytest.mark.thorough
def test_details_without_color(snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "NO_COLOR", "1")
    app = explorer("jax_cpu8_b128")
    assert snap_compare(app, terminal_size=NARROW, run_before=keys("2", "enter", "9", "f", *"hlo", "enter"))


def test_reading(snap_compare: Any) -> None:
    """What stands there before the first picture: two files are being read, the others wait."""
    files = open_trace_files([ROOT / "traces" / name for name in ("torch_ddp_gloo", "torch_stacks")]).files
    reading = ReadingProgress(files[0].path, 0, 3, 400_000, 1_000_000, 2_400_000, 2.0, {
        files[0].path: (files[0].size // 3, 1_600_000), files[2].path: (files[2].size // 2, 800_000),
    })  # fmt: skip
    panel = ReadingPanel(files)
    panel.reading = reading
    assert snap_compare(Alone(panel), terminal_size=(80, 12))


class Alone(App[None]):
    """One widget in the colors of the explorer."""

    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self._widget = widget
        self.register_theme(DARK)
        self.theme = DARK.name

    def compose(self) -> ComposeResult:
        yield self._widget


@pytest.mark.thorough
def test_hlo_of_a_collective(snap_compare: Any) -> None:
    assert snap_compare(explorer("jax_cpu8_b128"), terminal_size=NARROW, run_before=keys("2", "%"))


@pytest.mark.thorough
def test_hlo_of_a_fusion(snap_compare: Any) -> None:
    app = explorer("jax_cpu8_b4096")
    assert snap_compare(app, terminal_size=WIDE, run_before=keys("2", "down", "%", "G", "up", "up"))
