"""What the user's configuration file chooses of analyses, wherever they are asked for.

Owns the tables of that file that are about analyses: ``[kernels.classes]``, classes of kernels by name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracehound import config
from tracehound.analysis import Analysis
from tracehound.analysis.devices.kernel_classes import OWN
from tracehound.analysis.settings import Given, chosen
from tracehound.errors import TracehoundError, printable


def preferred(analysis: Analysis, words: Sequence[str] = ()) -> Given:
    """What is chosen of an analysis: by ``NAME=VALUE`` words, else by the user's file.

    Raises TracehoundError for what is no choice, with the line of the file where it stands there.
    """
    always = _classes() if OWN in analysis.settings else ""
    return chosen(analysis.settings, [*([f"{OWN.name}={always}"] if always else []), *words])


def _classes() -> str:
    """The classes of the file, as the setting is written."""
    kernels = config.tables().get("kernels", {})
    classes = kernels.get("classes", {}) if isinstance(kernels, dict) else None
    if not isinstance(classes, dict):
        raise _wrong("kernels.classes", "not a table")
    return "; ".join(_class(name, said) for name, said in classes.items())


def _class(name: str, said: object) -> str:
    place = f"kernels.classes.{name}"
    if not isinstance(said, str) or not said.strip():
        raise _wrong(place, "not a regular expression")
    if ";" in f"{name}{said}" or ":" in name:
        raise _wrong(place, "a name may hold no colon, and neither it nor its pattern a semicolon")
    try:
        re.compile(said)
    except re.error as error:
        raise _wrong(place, f"not a regular expression: {error}") from error
    return f"{name}:{said}"


def _wrong(setting: str, why: str) -> TracehoundError:
    path = config.location()
    remedy = '[kernels.classes] has lines such as moe = "expert|router"'
    where = config.line_of(path, setting) if path is not None else ""
    return TracehoundError(f"{printable(setting)}: {why}", path, where, remedy)
