"""The user's own keys: what may be said, what is refused, and that the explorer obeys."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from exploring import press, read_once, settled, until
from terminal import Terminal
from tracehound.errors import TracehoundError
from tracehound.store import TraceReader
from tracehound.ui.bindings.key_remapping import UNREACHABLE_KEY, remap_keys, textual_keymap
from tracehound.ui.bindings.keys import KEYS, Key
from tracehound.ui.explorer_app import ExplorerApp
from tracehound.ui.widgets.prompts import SearchInput


def table(text: str, path: Path) -> dict[str, Key]:
    path.write_text(text)
    return {key.id: key for key in remap_keys(tomllib.loads(text), path)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


@pytest.fixture
def opening(samples: Path) -> TraceReader:
    return read_once(samples / "torch_stacks")


def test_without_a_table_nothing_changes(path: Path) -> None:
    assert remap_keys({}, path) == KEYS
    assert textual_keymap(KEYS) == {}


@pytest.mark.parametrize(
    ("written", "name", "shown"),
    [
        ("x", "x", "x"), ("X", "X", "X"), ("&", "ampersand", "&"), (";", "semicolon", ";"), ("ö", "ö", "ö"),
        ("Ctrl+X", "ctrl+x", "Ctrl+X"), ("ctrl+PgDn", "ctrl+pagedown", "Ctrl+PgDn"), ("F5", "f5", "F5"),
        ("shift+home", "shift+home", "⇧Home"), ("alt+shift+left", "alt+shift+left", "Alt+Shift+←"),
        ("shift+alt+left", "alt+shift+left", "Alt+Shift+←"), ("insert", "insert", "Ins"),
        ("ctrl++", "ctrl+plus", "Ctrl++"), ("ctrl+]", "ctrl+right_square_bracket", "Ctrl+]"),
    ],
)  # fmt: skip
def test_how_keys_are_written(written: str, name: str, shown: str, path: Path) -> None:
    key = table(f'[keys]\nsource.copy = "{written}"\n', path)["source.copy"]
    assert (key.keys, key.shown) == ((name,), shown)


@pytest.mark.parametrize("form", ['timeline.fit = ["&", "F6"]', '"timeline.fit" = ["&", "F6"]'])
def test_several_keys_however_the_id_is_spelt(form: str, path: Path) -> None:
    key = table(f"[keys]\n{form}\n", path)["timeline.fit"]
    assert (key.keys, key.shown) == (("ampersand", "f6"), "& F6")


def test_keys_may_change_places(path: Path) -> None:
    keys = table('[keys]\nwalk.next = "N"\nwalk.previous = "n"\n', path)
    assert (keys["walk.next"].keys, keys["walk.previous"].keys) == (("N",), ("n",))


def test_an_action_without_a_key(path: Path) -> None:
    keys = table('[keys]\ntimeline.taller = []\ntimeline.next_gap = "}"\n', path)
    assert textual_keymap(tuple(keys.values())) == {
        "timeline.taller": UNREACHABLE_KEY,
        "timeline.next_gap": "right_curly_bracket",
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('quit = "x"\npane.hots = "y"', "line 3: no action has the id 'pane.hots'; did you mean pane.host?"),
        ('wholly = "y"', "line 2: no action has the id 'wholly'; the ids are in docs/keys.md"),
        ("quit = 3", "line 2: quit is neither a key nor a list of keys"),
        ('quit = ["x", 3]', "line 2: quit is neither a key nor a list of keys"),
        ('quit = "hyper+x"', "line 2: 'hyper+x' is not a key"), ('quit = "xy"', "'xy' is not a key"),
        ('quit = ""', "'' is not a key"), ('quit = "+"\nhelp="ctrl+"', "'ctrl+' is not a key"),
        ('quit = "ctrl+ctrl+x"', "is not a key"), (r'quit = "\u001b"', "is not a key"),
        ('timeline.fit = "f"', "line 2: f is the key of timeline.fit and of timeline.frame; give timeline.frame"),
        ('timeline.fit = "q"', "q is the key of timeline.fit and of quit"), ('quit = "."', ". is the key of quit and"),
        ('help = "x"\nquit = "x"', "x is the key of help and of quit; give one of them another"),
        ('quit = "ctrl+i"', "line 2: a terminal cannot tell Ctrl+I from Tab; write tab, or choose another"),
        ('quit = "Ctrl+M"', "Ctrl+M from Enter"), ('quit = "ctrl+["', "Ctrl+[ from Esc"),
        ('quit = "ctrl+h"', "Ctrl+H from Bksp"),
        ('quit = "escape"', "Esc is the key of quit and of clear"),
    ],
)  # fmt: skip
def test_what_is_refused_is_one_line(text: str, why: str, path: Path) -> None:
    with pytest.raises(TracehoundError) as raised:
        table(f"[keys]\n{text}\n", path)
    assert why in str(raised.value)
    assert str(raised.value).startswith(f"{path}, line ")
    assert str(raised.value).isprintable()


def test_keys_that_are_no_table(path: Path) -> None:
    with pytest.raises(TracehoundError, match="line 1: keys is not a table"):
        table("keys = 3", path)


def test_one_key_may_do_two_things_in_two_panes(path: Path) -> None:
    keys = table('[keys]\ntable.first = "w"\ntable.window = "&"\n', path)
    assert "w" in keys["timeline.zoom_in"].keys
    assert keys["table.first"].keys == ("w",)


@pytest.mark.thorough
async def test_the_explorer_obeys_and_says_so(opening: TraceReader, path: Path) -> None:
    text = '[keys]\npane.steps = "&"\nquit = "Q"\ntimeline.fit = ";"\n'
    app = ExplorerApp(opening, table=tuple(table(text, path).values()))
    async with app.run_test(size=(120, 140)) as pilot:
        await settled(pilot)
        explorer = app.explorer
        await press(pilot, "&")
        assert explorer.pane_stack.active == "steps"
        await press(pilot, "2", "4")
        assert explorer.pane_stack.active == "ops", "the usual key does nothing any more"

        await press(pilot, "T", "w", "0")
        zoomed = explorer.view
        await press(pilot, ";")
        assert explorer.view.end - explorer.view.start == 2 * (zoomed.end - zoomed.start)

        screen = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        assert " & steps " in screen
        assert " ; fit " in screen
        assert " Q quit " in screen
        await press(pilot, "?")
        screen = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        assert any(line.split("Steps")[0].split() == ["│", "&"] for line in _lines(screen, "Steps"))
        await press(pilot, "escape", "/", "Q", "&")
        assert isinstance(pilot.app.focused, SearchInput)
        assert pilot.app.focused.value == "Q&", "typing is typing"


def _lines(screen: str, word: str) -> list[str]:
    return [line[line.index("│") :] for line in screen.splitlines() if word in line and "│" in line]


@pytest.mark.thorough
async def test_the_palette_shows_the_keys_as_they_are(opening: TraceReader, path: Path) -> None:
    app = ExplorerApp(opening, table=tuple(table('[keys]\ntimeline.fit = ";"\n', path).values()))
    async with app.run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "ctrl+p", *"fit", "space", *"the")

        def screen() -> str:
            return "\n".join(strip.text for strip in app.screen._compositor.render_strips())

        await until(pilot, lambda: "Fit the whole run (;)" in screen())


@pytest.mark.thorough
def test_a_bad_configuration_is_one_line(samples: Path, tmp_path: Path) -> None:
    (tmp_path / "tracehound").mkdir()
    (tmp_path / "tracehound" / "config.toml").write_text("[keys]\nquti = 'x'\n")
    with Terminal(str(samples / "torch_stacks"), XDG_CONFIG_HOME=str(tmp_path)) as terminal:
        screen = terminal.wait_for("no action has the id")
        assert "didyoumeanquit?" in "".join(screen.split())
        assert terminal.ended() == 2
