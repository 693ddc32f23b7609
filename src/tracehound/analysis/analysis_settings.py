"""Settings of analyses: thresholds, patterns, ways to group, and how their values are parsed.

Each analysis has its own settings; chosen values are kept as text in `Options.given`, so that they can be sent to any
executor and be part of cache keys.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from tracehound.errors import TracehoundError, printable
from tracehound.model.old_names import current_name
from tracehound.model.units import parse_duration

T = TypeVar("T")

ChosenSettings = tuple[tuple[str, str], ...]
"""Names of settings and their chosen values as text."""


class Setting(Struct, Generic[T], frozen=True):
    """One setting of an analysis.

    `default` is the value if none is chosen, as text; `read` parses a text, and raises TracehoundError if it is
    invalid.
    """

    name: str
    default: str
    meaning: str
    read: Callable[[str], T]

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed words; empty if any text may be a value."""
        return self.read.args[0] if isinstance(self.read, partial) and self.read.func is _parse_choice else ()

    def value_in(self, given: ChosenSettings) -> T:
        """The chosen value, or the default."""
        return self.read(dict(given).get(self.name, self.default))


def parse_whole_number(text: str) -> int:
    """A whole number, not negative."""
    bare = text.replace(",", "").replace("_", "").strip()
    if not (bare.isascii() and bare.isdigit() and len(bare) < 19):
        raise TracehoundError(f"{printable(text)!r} is not a whole number")
    return int(bare)


def parse_time_length(text: str) -> int:
    """A length of time in ps, not negative."""
    ps = parse_duration(text)
    if ps < 0:
        raise TracehoundError(f"{printable(text)!r} is less than no time")
    return ps


def parse_pattern(text: str) -> re.Pattern[str]:
    """A regular expression that may match anywhere in a name, in any case."""
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise TracehoundError(f"{printable(text)!r} is not a regular expression: {error}") from error


def choice_parser(*choices: str) -> Callable[[str], str]:
    """Parser that accepts one of these words. It can be pickled, as settings must."""
    return partial(_parse_choice, choices)


def _parse_choice(choices: tuple[str, ...], text: str) -> str:
    """The text, if it is one of the choices."""
    if text not in choices:
        raise TracehoundError(f"{printable(text)!r} is not one of {', '.join(choices)}")
    return text


RUN_OR_STEP: Final = Setting(
    "by", "run", "rows: one per rank (run) or one per step and rank (step)", choice_parser("run", "step")
)
"""Setting of analyses with a row per rank, or per rank and step."""


def parse_settings(settings: Sequence[Setting[Any]], words: Sequence[str]) -> ChosenSettings:
    """Parse words ``NAME=VALUE``; older names of choices become the current ones.

    Raises TracehoundError for an unknown setting or an invalid value.
    """
    given = dict[str, str]()
    for word in words:
        name, equals, value = word.partition("=")
        found = next((setting for setting in settings if setting.name == name), None)
        if found is None:
            raise TracehoundError(f"no setting {printable(name)!r}", remedy=_suggest_setting(settings, name))
        if not equals:
            raise TracehoundError(f"no value for the setting {name}", remedy=f"write {name}=...")
        value = current_name(value) if found.choices else value
        try:
            found.read(value)
        except TracehoundError as error:
            raise TracehoundError(f"{name}: {error.message}", remedy=error.remedy) from error
        given[name] = value
    return tuple(sorted(given.items()))


def _suggest_setting(settings: Sequence[Setting[Any]], name: str) -> str:
    """Hint for an unknown setting."""
    names = [setting.name for setting in settings]
    near = difflib.get_close_matches(name, names, 1)
    if not names:
        return "this analysis has none"
    return f"did you mean {near[0]}=...?" if near else f"there {'are' if len(names) > 1 else 'is'} {', '.join(names)}"
