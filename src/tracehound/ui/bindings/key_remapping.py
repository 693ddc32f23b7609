"""The user's own keys: what the configuration's table ``keys`` says -> the table of keys as it then is.

Owns how a key is written by people, and which keys cannot be: unknown names, and two things on one key. Knows no
widget.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from textual.keys import Keys, _character_to_key

from tracehound.config import setting_line
from tracehound.errors import TracehoundError, printable
from tracehound.model.old_names import current_name
from tracehound.ui.bindings.keys import KEYS, Key

UNREACHABLE_KEY = "unbound"
"""What Textual is told in place of a key for what has none any more: no terminal sends it."""

_MODIFIERS = ("ctrl", "alt", "shift")
_KEY_ALIASES = {
    "pgdn": "pagedown", "pgup": "pageup", "esc": "escape", "bksp": "backspace", "del": "delete", "ins": "insert",
    "return": "enter",
}  # fmt: skip
_INDISTINGUISHABLE = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+left_square_bracket": "escape", "ctrl+h": "backspace"}
"""What a terminal sends for the other, too."""

_KEY_SYMBOLS = {
    "left": "←", "right": "→", "up": "↑", "down": "↓", "pagedown": "PgDn", "pageup": "PgUp", "escape": "Esc",
    "backspace": "Bksp", "delete": "Del", "insert": "Ins",
}  # fmt: skip
_KEY_NAMES = {str(key.value) for key in Keys if "+" not in key.value and not key.value.startswith("<")}


def remap_keys(config: Mapping[str, Any], path: Path) -> tuple[Key, ...]:
    """The table of keys with those that the configuration (read from `path`) changes.

    Raises TracehoundError, with the line, for what is no key, what no key does, and a key that would do two things.
    """
    chosen = dict(_configured_keys(config.get("keys", {}), path))
    table = tuple(_with_keys(key, chosen[key.id]) if key.id in chosen else key for key in KEYS)
    _refuse_clashes(table, chosen, path)
    return table


def textual_keymap(table: Sequence[Key]) -> dict[str, str]:
    """Textual keymap of the keys that differ from `KEYS`."""
    usual = {key.id: key.keys for key in KEYS}
    return {key.id: ",".join(key.keys) or UNREACHABLE_KEY for key in table if key.keys != usual[key.id]}


def _configured_keys(keys: object, path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The actions that the user gives other keys, by id."""
    known = [key.id for key in KEYS]
    if not isinstance(keys, dict):
        raise TracehoundError(
            "keys is not a table", path, setting_line(path, "keys"), "write [keys] and a line for each"
        )
    for name, value in _flatten_table(keys):
        identity, where = current_name(name), setting_line(path, f"keys.{name}")
        if identity not in known:
            near = difflib.get_close_matches(identity, known, 1)
            hint = f"did you mean {near[0]}?" if near else "the ids are in docs/keys.md"
            raise TracehoundError(f"no action has the id {printable(identity)!r}", path, where, hint)
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise TracehoundError(
                f"{identity} is neither a key nor a list of keys", path, where, 'write "x" or ["x", "ctrl+x"]'
            )
        yield identity, tuple(_parse_key(name, path, where) for name in names)


def _flatten_table(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, object]]:
    """Settings by dotted names: TOML makes tables of unquoted ones."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten_table(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _parse_key(written: str, path: Path, where: str) -> str:
    """A key as Textual names it: ``Ctrl+X``, ``PgDn``, ``]``, ``shift+left``."""
    if len(written) == 1 and written.isprintable():
        return _character_to_key(written)
    *modifiers, last = written.split("+") if not written.endswith("+") else [*written[:-2].split("+"), "+"]
    modifiers = [modifier.lower() for modifier in modifiers]
    name = _character_to_key(last.lower()) if len(last) == 1 else _KEY_ALIASES.get(last.lower(), last.lower())
    good = all(modifier in _MODIFIERS for modifier in modifiers) and len(set(modifiers)) == len(modifiers)
    if not good or not (name in _KEY_NAMES or (modifiers and len(last) == 1 and last.isprintable())):
        raise TracehoundError(
            f"{printable(written)!r} is not a key", path, where, "write x, ], space, f5, pagedown, ctrl+x, shift+left"
        )
    found = "+".join([*(modifier for modifier in _MODIFIERS if modifier in modifiers), name])
    if found in _INDISTINGUISHABLE:
        same = _INDISTINGUISHABLE[found]
        what = f"a terminal cannot tell {_format_key(found)} from {_format_key(same)}"
        raise TracehoundError(what, path, where, f"write {same}, or choose another")
    return found


def _with_keys(key: Key, names: tuple[str, ...]) -> Key:
    return replace(key, keys=names, shown=" ".join(map(_format_key, names)) or "-")


def _format_key(name: str) -> str:
    """A key as people write it."""
    *modifiers, last = name.split("+")
    known = {_character_to_key(char): char for char in map(chr, range(33, 127))}
    plain = _KEY_SYMBOLS.get(last) or known.get(last) or (last if len(last) == 1 else last.capitalize())
    if modifiers == ["shift"]:
        return f"⇧{plain}"
    return "+".join(
        [*(modifier.capitalize() for modifier in modifiers), plain.upper() if modifiers and len(plain) == 1 else plain]
    )


def _refuse_clashes(table: Sequence[Key], chosen: Mapping[str, object], path: Path) -> None:
    """Refuse a key that the user gave to two actions which could both be meant."""
    for key in table:
        for other in table:
            if key.id not in chosen or other is key or not _both_reachable(key, other):
                continue
            same = {_textual_key_name(name) for name in key.keys} & {_textual_key_name(name) for name in other.keys}
            if same:
                what = f"{_format_key(min(same))} is the key of {key.id} and of {other.id}"
                remedy = f"give {other.id if other.id not in chosen else 'one of them'} another"
                raise TracehoundError(what, path, setting_line(path, f"keys.{key.id}"), remedy)


_SAME_GROUPS = {"lanes": "timeline"}
"""Groups whose keys work where those of another do."""

_OUTER_GROUPS = ("everywhere", "comparison")
"""Groups whose keys work wherever those of a pane do, each on a screen of its own."""

_INNER_GROUPS = ("arrivals", "map", "flame", "details", "source", "hlo", "prompt")
"""Groups whose keys come before those that work everywhere."""


def _both_reachable(key: Key, other: Key) -> bool:
    """True if both keys work in the same place; Esc may do one thing after the other."""
    if {key.id, other.id} in ({"clear", "timeline.clear"}, {"comparison.back", "timeline.clear"}):
        return False
    places = {_SAME_GROUPS.get(group, group) for group in (key.group, other.group)}
    return len(places) == 1 or (len(places & {*_OUTER_GROUPS}) == 1 and not places & {*_INNER_GROUPS})


def _textual_key_name(name: str) -> str:
    return _character_to_key(name) if len(name) == 1 else name
