"""The user's configuration file, and the settings of analyses that it holds.

Reads the TOML file, refuses unknown tables, and finds the line of a setting for error messages. The table
``[kernels.classes]`` (kernel classes by name) is read here; the ``[keys]`` table is read by the explorer.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tracehound.analysis import Analysis
from tracehound.analysis.analysis_settings import ChosenSettings, parse_settings
from tracehound.analysis.devices.kernel_classes import CUSTOM_CLASSES
from tracehound.errors import TracehoundError, printable
from tracehound.system import user_dirs

TABLE_NAMES: Final = ("keys", "kernels.classes")
"""The tables that the file may have."""

_MAX_BYTES: Final = 64 << 10
"""A larger file is not a configuration file that a person wrote."""

_TOML_ERROR = re.compile(r"(?P<what>.*) \(at (?P<where>.*)\)", re.DOTALL)
_TABLE_HEADER = re.compile(r"\s*\[+([^\]]*)\]")
_SETTING_LINE = re.compile(r"\s*([\w.\"' -]+?)\s*=")
_DEEP_NAME = re.compile(r"(?<![\w\"'-])(?:[\w\"'-]++\s*+\.\s*+){100}")
"""A dotted name with so many dots that the TOML parser takes seconds."""


def config_path() -> Path | None:
    """The path ``$XDG_CONFIG_HOME/tracehound/config.toml``, by default ``~/.config/tracehound/config.toml``.

    None if there is no home directory.
    """
    own = user_dirs.xdg_dir("XDG_CONFIG_HOME", ".config")
    return None if own is None else own / "tracehound" / "config.toml"


def read_tables(path: Path | None = None) -> Mapping[str, Any]:
    """The tables of the configuration file; empty if there is no file.

    Raises TracehoundError, with the line, if the file is not TOML or has an unknown table, and if it is not a regular
    file or too large.
    """
    path = path or config_path()
    if path is None:
        return {}
    try:
        text = _read_text(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise TracehoundError((error.strerror or "cannot be read").lower(), path) from error
    except UnicodeDecodeError as error:
        raise TracehoundError("not UTF-8", path, f"byte {error.start:,}") from error
    found = _parse_toml(text, path)
    _refuse_unknown_tables(found, path)
    return found


def _read_text(path: Path) -> str:
    """The text of the file; never blocks on a pipe, and never reads more than a configuration file can have."""
    if path.exists() and not path.is_file():
        raise TracehoundError("is a directory" if path.is_dir() else "not a regular file", path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # the file was replaced meanwhile
            raise TracehoundError("not a regular file", path)
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise TracehoundError(f"larger than {_MAX_BYTES >> 10} KiB, which is too much for a configuration file", path)
    return content.decode("utf-8")


def _parse_toml(text: str, path: Path) -> Mapping[str, Any]:
    """The tables of a TOML text; raises TracehoundError if it is not TOML or is nested too deep."""
    if _DEEP_NAME.search(text):
        raise TracehoundError("nested too deep", path)
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise TracehoundError("nested too deep", path) from error
    except ValueError as error:  # also raised for a number with thousands of digits
        said = _TOML_ERROR.fullmatch(str(error))
        what, where = (said["what"], said["where"]) if said else (str(error), "")
        raise TracehoundError(f"not TOML: {what[:1].lower()}{what[1:]}", path, where) from error


def _refuse_unknown_tables(found: Mapping[str, Any], path: Path) -> None:
    """Raise TracehoundError for an unknown table, which most likely is misspelled."""
    kernels = found.get("kernels")
    inside = [f"kernels.{name}" for name in kernels] if isinstance(kernels, dict) else []
    for name in [*found, *inside]:
        if not any(f"{known}.".startswith(f"{name}.") for known in TABLE_NAMES):
            near = difflib.get_close_matches(name, TABLE_NAMES, 1)
            remedy = f"did you mean [{near[0]}]?" if near else f"there are [{'] and ['.join(TABLE_NAMES)}]"
            raise TracehoundError(f"nothing is called {printable(name)!r}", path, setting_line(path, name), remedy)


def setting_line(path: Path, setting: str) -> str:
    """The line that makes a setting such as ``keys.timeline.fit``, or the first setting of a table: ``line 12``.

    Recognizes every TOML spelling of the name. Empty if the line is not found.
    """
    table = ""
    for number, line in enumerate(_read_text(path).splitlines(), 1):
        if header := _TABLE_HEADER.match(line):
            name = table = f"{_strip_quotes(header[1])}."
        elif made := _SETTING_LINE.match(line):
            name = f"{table}{_strip_quotes(made[1])}."
        else:
            continue
        if name.startswith(f"{setting}."):
            return f"line {number}"
    return ""


def _strip_quotes(name: str) -> str:
    """A dotted name without quotes and blanks."""
    return re.sub(r"[\"'\s]", "", name)


def configured_settings(analysis: Analysis, words: Sequence[str] = ()) -> ChosenSettings:
    """The settings of an analysis: from ``NAME=VALUE`` words, else from the user's configuration file.

    Raises TracehoundError for an invalid value, with the line if it comes from the file.
    """
    always = _kernel_classes_setting() if CUSTOM_CLASSES in analysis.settings else ""
    return parse_settings(analysis.settings, [*([f"{CUSTOM_CLASSES.name}={always}"] if always else []), *words])


def _kernel_classes_setting() -> str:
    """The kernel classes of the file, written as the value of the setting."""
    kernels = read_tables().get("kernels", {})
    classes = kernels.get("classes", {}) if isinstance(kernels, dict) else None
    if not isinstance(classes, dict):
        raise _config_error("kernels.classes", "not a table")
    return "; ".join(_kernel_class_setting(name, said) for name, said in classes.items())


def _kernel_class_setting(name: str, said: object) -> str:
    place = f"kernels.classes.{name}"
    if not isinstance(said, str) or not said.strip():
        raise _config_error(place, "not a regular expression")
    if ";" in f"{name}{said}" or ":" in name:
        raise _config_error(place, "a name may hold no colon, and neither it nor its pattern a semicolon")
    try:
        re.compile(said)
    except re.error as error:
        raise _config_error(place, f"not a regular expression: {error}") from error
    return f"{name}:{said}"


def _config_error(setting: str, why: str) -> TracehoundError:
    path = config_path()
    remedy = '[kernels.classes] has lines such as moe = "expert|router"'
    where = setting_line(path, setting) if path is not None else ""
    return TracehoundError(f"{printable(setting)}: {why}", path, where, remedy)
