"""The user's configuration file.

Owns where it is, that it is TOML, which tables it may have, and on which line of it a setting stands. Knows no
setting: whoever owns one looks for its table and says what is wrong with it.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tracehound import home
from tracehound.errors import TracehoundError, printable

TABLES: Final = ("keys", "kernels.classes")
"""What the file may say something of."""

_LARGEST: Final = 64 << 10
"""Bytes above which it is no file that a person wrote."""

_PLACE = re.compile(r"(?P<what>.*) \(at (?P<where>.*)\)", re.DOTALL)
_TABLE = re.compile(r"\s*\[+([^\]]*)\]")
_SETTING = re.compile(r"\s*([\w.\"' -]+?)\s*=")
_DEEP = re.compile(r"(?<![\w\"'-])(?:[\w\"'-]++\s*+\.\s*+){100}")
"""A name with so many dots that reading it takes seconds."""


def location() -> Path | None:
    """``$XDG_CONFIG_HOME/tracehound/config.toml``, which is ``~/.config/tracehound/config.toml`` by default.

    None where there is no home directory.
    """
    own = home.folder("XDG_CONFIG_HOME", ".config")
    return None if own is None else own / "tracehound" / "config.toml"


def tables(path: Path | None = None) -> Mapping[str, Any]:
    """What the file says, table by table; nothing where there is no file.

    Raises TracehoundError with the line on which it is no TOML, or has a table that nothing is known of; and for what
    is no regular file, or a huge one.
    """
    path = path or location()
    if path is None:
        return {}
    try:
        text = _text(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise TracehoundError((error.strerror or "cannot be read").lower(), path) from error
    except UnicodeDecodeError as error:
        raise TracehoundError("not UTF-8", path, f"byte {error.start:,}") from error
    found = _parse(text, path)
    _refuse_unknown(found, path)
    return found


def _text(path: Path) -> str:
    """The text of the file; opening it waits for nobody, and no more is read than a configuration file has."""
    if path.exists() and not path.is_file():
        raise TracehoundError("is a directory" if path.is_dir() else "not a regular file", path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # another has taken its name
            raise TracehoundError("not a regular file", path)
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise TracehoundError(f"larger than {_LARGEST >> 10} KiB, which is too much for a configuration file", path)
    return content.decode("utf-8")


def _parse(text: str, path: Path) -> Mapping[str, Any]:
    """The tables of a text; raises TracehoundError when it is no TOML, or is nested deeper than anybody would write."""
    if _DEEP.search(text):
        raise TracehoundError("nested too deep", path)
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise TracehoundError("nested too deep", path) from error
    except ValueError as error:  # also for a number of thousands of digits
        said = _PLACE.fullmatch(str(error))
        what, where = (said["what"], said["where"]) if said else (str(error), "")
        raise TracehoundError(f"not TOML: {what[:1].lower()}{what[1:]}", path, where) from error


def _refuse_unknown(found: Mapping[str, Any], path: Path) -> None:
    """Refuse what nobody would look for: most likely it is misspelt."""
    kernels = found.get("kernels")
    inside = [f"kernels.{name}" for name in kernels] if isinstance(kernels, dict) else []
    for name in [*found, *inside]:
        if not any(f"{known}.".startswith(f"{name}.") for known in TABLES):
            near = difflib.get_close_matches(name, TABLES, 1)
            remedy = f"did you mean [{near[0]}]?" if near else f"there are [{'] and ['.join(TABLES)}]"
            raise TracehoundError(f"nothing is called {printable(name)!r}", path, line_of(path, name), remedy)


def line_of(path: Path, setting: str) -> str:
    """``line 12``: where a setting such as ``keys.timeline.fit``, or the first of a table, is made; nothing if unknown.

    It may be spelt in any way.
    """
    table = ""
    for number, line in enumerate(_text(path).splitlines(), 1):
        if header := _TABLE.match(line):
            name = table = f"{_bare(header[1])}."
        elif made := _SETTING.match(line):
            name = f"{table}{_bare(made[1])}."
        else:
            continue
        if name.startswith(f"{setting}."):
            return f"line {number}"
    return ""


def _bare(name: str) -> str:
    """A dotted name without quotes and blanks."""
    return re.sub(r"[\"'\s]", "", name)
