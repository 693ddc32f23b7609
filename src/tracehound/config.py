"""The user's configuration file.

Owns where it is, that it is TOML, and on which line of it a setting stands. Knows no setting: whoever owns one looks
for its table and says what is wrong with it.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracehound.errors import TracehoundError

_PLACE = re.compile(r"(?P<what>.*) \(at (?P<where>.*)\)", re.DOTALL)
_TABLE = re.compile(r"\s*\[+([^\]]*)\]")
_SETTING = re.compile(r"\s*([\w.\"' -]+?)\s*=")


def location() -> Path:
    """``$XDG_CONFIG_HOME/tracehound/config.toml``, which is ``~/.config/tracehound/config.toml`` by default."""
    home = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (home if home.is_absolute() else Path("~/.config").expanduser()) / "tracehound" / "config.toml"


def tables(path: Path | None = None) -> Mapping[str, Any]:
    """What the file says, table by table; nothing where there is no file.

    Raises TracehoundError with the line on which it is no TOML.
    """
    path = path or location()
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise TracehoundError((error.strerror or "cannot be read").lower(), path) from error
    except UnicodeDecodeError as error:
        raise TracehoundError("not UTF-8", path, f"byte {error.start:,}") from error
    except tomllib.TOMLDecodeError as error:
        said = _PLACE.fullmatch(str(error))
        what, where = (said["what"], said["where"]) if said else (str(error), "")
        raise TracehoundError(f"no TOML: {what[:1].lower()}{what[1:]}", path, where) from error


def line_of(path: Path, setting: str) -> str:
    """``line 12``: where a setting such as ``keys.timeline.fit`` is made, however it is spelt; nothing if unknown."""
    table = ""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if header := _TABLE.match(line):
            table = f"{_bare(header[1])}."
        elif (made := _SETTING.match(line)) and f"{table}{_bare(made[1])}" == setting:
            return f"line {number}"
    return ""


def _bare(name: str) -> str:
    """A dotted name without quotes and blanks."""
    return re.sub(r"[\"'\s]", "", name)
