"""What an analysis lets its caller choose: thresholds, patterns, ways to group.

Owns how a choice is written and read. Every analysis names its own settings; a caller's choices travel as text in
`Options.given`, so that they can be sent to any executor and told apart in any cache.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from tracehound.errors import TracehoundError, printable
from tracehound.units import parse_duration

T = TypeVar("T")

Given = tuple[tuple[str, str], ...]
"""Names of settings and what was chosen, as people write it."""


class Setting(Struct, Generic[T], frozen=True):
    """One thing that an analysis lets its caller choose.

    `default` is what is taken when nothing is chosen, written as a person would; `read` makes the value of what was
    written, and raises TracehoundError where that cannot be.
    """

    name: str
    default: str
    meaning: str
    read: Callable[[str], T]

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it may be one of; nothing where it is written freely."""
        return self.read.args[0] if isinstance(self.read, partial) and self.read.func is _among else ()

    def of(self, given: Given) -> T:
        """What was chosen, or the default."""
        return self.read(dict(given).get(self.name, self.default))


def whole(text: str) -> int:
    """A whole number, not negative."""
    bare = text.replace(",", "").replace("_", "").strip()
    if not (bare.isascii() and bare.isdigit() and len(bare) < 19):
        raise TracehoundError(f"{printable(text)!r} is not a whole number")
    return int(bare)


def length(text: str) -> int:
    """A length of time, in ps; not negative."""
    ps = parse_duration(text)
    if ps < 0:
        raise TracehoundError(f"{printable(text)!r} is less than no time")
    return ps


def pattern(text: str) -> re.Pattern[str]:
    """A regular expression, found anywhere in a name, whatever its case."""
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise TracehoundError(f"{printable(text)!r} is not a regular expression: {error}") from error


def one_of(*choices: str) -> Callable[[str], str]:
    """One of these words. What it gives can be sent to another process, as settings must."""
    return partial(_among, choices)


def _among(choices: tuple[str, ...], text: str) -> str:
    if text not in choices:
        raise TracehoundError(f"{printable(text)!r} is not one of {', '.join(choices)}")
    return text


RUN_OR_STEP: Final = Setting(
    "by", "run", "what a row is: the run (of each rank) or a step (of each rank)", one_of("run", "step")
)
"""Of analyses that look at ranks, and can look at each of their steps."""


def chosen(settings: Sequence[Setting[Any]], words: Sequence[str]) -> Given:
    """What ``NAME=VALUE`` words choose. Raises TracehoundError for what is no setting, or no value of it."""
    given = dict[str, str]()
    for word in words:
        name, equals, value = word.partition("=")
        found = next((setting for setting in settings if setting.name == name), None)
        if found is None:
            raise TracehoundError(f"no setting {printable(name)!r}", remedy=_hint(settings, name))
        if not equals:
            raise TracehoundError(f"no value for the setting {name}", remedy=f"write {name}=...")
        try:
            found.read(value)
        except TracehoundError as error:
            raise TracehoundError(f"{name}: {error.message}", remedy=error.remedy) from error
        given[name] = value
    return tuple(sorted(given.items()))


def _hint(settings: Sequence[Setting[Any]], name: str) -> str:
    names = [setting.name for setting in settings]
    near = difflib.get_close_matches(name, names, 1)
    if not names:
        return "this analysis has none"
    return f"did you mean {near[0]}=...?" if near else f"there {'are' if len(names) > 1 else 'is'} {', '.join(names)}"
