"""The settings of an analysis, chosen in the explorer."""

from __future__ import annotations

from pathlib import Path

import pytest

from exploring import explored, press, read_once, said, settled
from tracehound.analysis import ANALYSES
from tracehound.analysis.analysis_settings import Setting, choice_parser, parse_whole_number
from tracehound.ui.actions.pane_settings import SET_BY_CURSOR, settings_of_pane, valid_settings
from tracehound.ui.bindings.keys import KEYS
from tracehound.ui.explorer_app import ExplorerApp
from tracehound.ui.panes import pane_menu
from tracehound.ui.panes.choice_dialogs import SettingsDialog
from tracehound.ui.screens.explorer_screen import ExplorerScreen
from tracehound.ui.state.saved_session import SavedSession

LETTERS = pane_menu.menu_keys(KEYS)


def settings(app: ExplorerApp) -> SettingsDialog:
    assert isinstance(app.screen, SettingsDialog)
    return app.screen


def listed(app: ExplorerApp) -> str:
    screen = settings(app)
    options = screen.options
    return "\n".join(str(options.get_option_at_index(at).prompt) for at in range(options.option_count))


def caption(explorer: ExplorerScreen, pane: str) -> tuple[str, ...]:
    return explorer.pane_stack.tables[pane].caption.text.heading


def test_the_words_that_a_setting_may_be_are_known() -> None:
    assert Setting("by", "a", "", choice_parser("a", "b")).choices == ("a", "b")
    assert Setting("least", "3", "", parse_whole_number).choices == ()
    assert all(setting.default in setting.choices for each in ANALYSES for setting in each.settings if setting.choices)


async def test_another_way_to_group_is_shown_said_copied_and_saved(samples: Path, tmp_path: Path) -> None:
    async with explored(read_once(samples / "jax_cpu8_b128"), (100, 30)) as (explorer, pilot):
        app = explorer.app
        assert isinstance(app, ExplorerApp)
        await press(pilot, "M", LETTERS["hlo_ops"])
        table = explorer.pane_stack.tables["hlo_ops"].table
        assert table.result is not None
        before = table.result.total
        await press(pilot, "B")
        assert "[op]" in listed(app)
        assert "peak" in listed(app)
        await press(pilot, "space")
        assert "[category]" in listed(app)
        await press(pilot, "enter")
        assert table.result is not None
        assert 0 < table.result.total < before
        assert caption(explorer, "hlo_ops")[2] == "by=category"
        assert " ".join(caption(explorer, "hlo_ops")).count("by=category") == 1
        assert str(explorer.pane_stack.tables["hlo_ops"].full_text).count("by=category") == 1
        await press(pilot, "Y")
        assert app.clipboard.endswith("hlo_ops --set by=category")
        path = tmp_path / "out.json"
        await press(pilot, "x")
        app.query_one("#pane-hlo_ops Prompt PromptInput").value = str(path)  # type: ignore[attr-defined]
        await press(pilot, "enter")
        assert "with by=category" in path.read_text()
        kept = explorer.navigation.session_to_save
        assert kept is not None
        assert kept.settings == {"hlo_ops": {"by": "category"}}
        await press(pilot, "B", "backspace", "enter")
        assert table.result.total == before
        assert "by=" not in " ".join(caption(explorer, "hlo_ops"))


@pytest.mark.thorough
async def test_what_was_chosen_is_there_at_the_next_visit(samples: Path) -> None:
    app = ExplorerApp(read_once(samples / "torch_stacks"))
    async with app.run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "M", LETTERS["operators"], "B", "left", "enter")
        kept = app.explorer.navigation.session_to_save
    assert kept is not None
    assert kept.settings == {"operators": {"by": "frame"}}
    app = ExplorerApp(read_once(samples / "torch_stacks"))
    app.explorer.navigation.session = kept
    async with app.run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        assert app.explorer.pane_stack.active == "operators"
        assert "by=frame" in caption(app.explorer, "operators")


@pytest.mark.thorough
async def test_leaving_changes_nothing(samples: Path) -> None:
    async with explored(read_once(samples / "torch_stacks")) as (explorer, pilot):
        await press(pilot, "M", LETTERS["operators"])
        result = explorer.pane_stack.tables["operators"].table.result
        await press(pilot, "B", "space", "escape")
        assert isinstance(pilot.app.screen, ExplorerScreen)
        assert explorer.pane_stack.tables["operators"].table.result is result


@pytest.mark.thorough
async def test_what_is_typed_is_looked_at_before_it_is_taken(samples: Path) -> None:
    async with explored(read_once(samples / "jax_cpu8_b128")) as (explorer, pilot):
        app = explorer.app
        assert isinstance(app, ExplorerApp)
        await press(pilot, "M", LETTERS["roofline"], "B")
        at = [setting.name for setting in settings_of_pane("roofline")].index("peak")
        await press(pilot, *["j"] * at, "space", *"Z9", "enter")
        assert "neither a peak" in str(settings(app)._prompt._remark.render())
        await press(pilot, "backspace", "backspace", *"H100", "enter")
        assert "[H100]" in listed(app)
        await press(pilot, "space", "escape", "enter")
        assert caption(explorer, "roofline")[2] == "peak=H100"


@pytest.mark.thorough
async def test_a_flame_graph_has_settings_too(samples: Path) -> None:
    async with explored(read_once(samples / "torch_stacks")) as (explorer, pilot):
        await press(pilot, "M", LETTERS["stacks"], "B", "space", "enter")
        assert "frames=python" in explorer.pane_stack.flames["stacks"].flame_view.render_line(0).text


@pytest.mark.thorough
async def test_what_has_none_says_so(samples: Path) -> None:
    async with explored(read_once(samples / "torch_stacks")) as (explorer, pilot):
        for pane in ("9", "3", "S", "1"):
            await press(pilot, "T", pane, "B")
            assert said(explorer).strip().endswith("has no settings"), pane


def test_only_what_is_a_choice_still_comes_back() -> None:
    kept = {
        "operators": {"by": "module"}, "hlo_ops": {"by": "no such"}, "nothing": {"by": "x"}, "gaps": {"by": "x"},
        "stacks": {}, SET_BY_CURSOR[0]: {"lane": "x"},
    }  # fmt: skip
    assert valid_settings(kept) == {"operators": (("by", "module"),), "stacks": ()}


@pytest.mark.thorough
async def test_settings_of_another_world_do_no_harm(samples: Path) -> None:
    app = ExplorerApp(read_once(samples / "torch_stacks"))
    view = (await _seen(samples)).view
    app.explorer.navigation.session = SavedSession(
        view, "operators", settings={"operators": {"by": "\x1b[2J"}, "x": {"y": "z"}}
    )
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert app.explorer.results.chosen_settings("operators") == ()
        assert app.explorer.pane_stack.tables["operators"].table.passing_row_count


async def _seen(samples: Path) -> SavedSession:
    """A visit that was left in another place than the first."""
    async with explored(read_once(samples / "torch_stacks")) as (explorer, pilot):
        await press(pilot, "w", "w")
        kept = explorer.navigation.session_to_save
        assert kept is not None
        return kept


async def test_a_key_makes_rows_be_the_next_thing_that_they_can_be(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo")) as (explorer, pilot):
        await press(pilot, "M", LETTERS["critical_path"])
        assert " b by " in explorer.key_bar.render_line(0).text
        await press(pilot, "b")
        assert explorer.results.chosen_settings("critical_path") == (("by", "class"),)
        assert "critical path by class; b again: by event" in said(explorer)
        await press(pilot, "b", "b")
        assert explorer.results.chosen_settings("critical_path") == ()
        await press(pilot, "8", "b")
        assert "rows of health are of one sort" in said(explorer)


@pytest.mark.thorough
async def test_a_setting_stays_when_rows_become_something_else(samples: Path) -> None:
    async with explored(read_once(samples / "torch_ddp_gloo")) as (explorer, pilot):
        explorer.results.set_settings("critical_path", (("near", "10us"),))
        await press(pilot, "M", LETTERS["critical_path"], "b")
        assert explorer.results.chosen_settings("critical_path") == (("by", "class"), ("near", "10us"))
