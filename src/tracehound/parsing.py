"""What parses a command line: argparse's parser, as this program speaks, its actions, and values that are checked.

Owns what is said of arguments that are wrong. Knows no command, and of options only that `--format` takes a form.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from argparse import (
    Action,
    ArgumentError,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tracehound import __version__, console, native
from tracehound.draw.wrap import fitted
from tracehound.errors import BAD_INPUT, printable
from tracehound.export import FORMS
from tracehound.report import WRITERS

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

EMPTY = "an empty value; give one, or leave the option out"
"""What is wrong with an option without a value."""

MOST = 1_000_000_000
"""The largest number that an option takes, where nothing else limits it."""

_LACKING = "the following arguments are required"
"""How argparse begins to tell of what is missing, before it looks at what there is."""

_UNKNOWN = re.compile(r"^unrecognized arguments: .*?--([\w-]+)")
"""How argparse begins to tell of options that there are not."""

_NEAR = 0.7
"""How much of an option's name is there where it is misspelt (as `difflib` counts)."""


class Given(Action):
    """Keeps a value that must not be empty: it would stand for all, where a variable of a script is not set."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: object, option_string: str | None = None
    ) -> None:
        """Keep it, or raise ArgumentError."""
        del parser, option_string
        if not str(values).strip():
            raise ArgumentError(self, EMPTY)
        setattr(namespace, self.dest, values)


class Listed(Given):
    """Keeps all values that it is given, with commas between."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: object, option_string: str | None = None
    ) -> None:
        """Put it behind those before, or raise ArgumentError."""
        before = getattr(namespace, self.dest)
        super().__call__(parser, namespace, values, option_string)
        if before:
            setattr(namespace, self.dest, f"{before.rstrip(', ')},{values}")


class Version(Action):
    """Says which version this is, and whether its compiled part is there, and ends."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: object, option_string: str | None = None
    ) -> NoReturn:
        """Print them, and exit with 0."""
        del namespace, values, option_string
        with console.printing():
            print(f"tracehound {__version__} ({'Python alone' if native.library() is None else 'compiled'})")  # noqa: T201
        parser.exit()


class Layout(RawDescriptionHelpFormatter):
    """Help whose own words fit the terminal as the options do."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return fitted(super()._fill_text(text, width, indent), width)


class Parser(ArgumentParser):
    """One that says what is wrong in one line.

    `describe` gives what its help begins with: what that names is imported by who asks for help, and by nobody else.
    """

    describe: Callable[[], str] | None = None
    _given: Sequence[str] = ()

    def parse_known_args(  # type: ignore[override]  # of the overloads only that with a Namespace of ours is called
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        """As argparse does; what was given is kept for who tells what is wrong with it."""
        self._given = list(args or ())
        return super().parse_known_args(args, namespace)

    def format_help(self) -> str:
        """The help, as argparse lays it out."""
        if self.describe is not None:
            self.description = self.describe()
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Exit with `BAD_INPUT` and one line: argparse's, with what may have been meant."""
        strange = [word for word in self._given if word.startswith("--") and not self._knows(word)]
        if strange and message.startswith(_LACKING):
            message = f"unrecognized arguments: {' '.join(strange)}"
        near = self._meant(message)
        remedy = f"did you mean {near}?" if near else f"see {self.prog} --help"
        self.exit(BAD_INPUT, f"tracehound: {printable(message)}; {remedy}\n")

    def _knows(self, word: str) -> bool:
        return word == "--" or word.partition("=")[0] in self._option_string_actions

    def _meant(self, message: str) -> str:
        """The option that may have been meant by one that argparse says there is not; "" for none."""
        unknown = _UNKNOWN.search(message)
        if unknown is None:
            return ""
        options = self._option_string_actions
        forms = [*(writer.name for writer in WRITERS), *(form.name for form in FORMS)]
        if unknown[1] in forms and "--format" in options:
            return f"--format {unknown[1]}"
        return next(iter(difflib.get_close_matches(f"--{unknown[1]}", options, 1, _NEAR)), "")

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        if file is None or file is not sys.stdout:
            super()._print_message(message, file)
            return
        with console.printing():  # argparse passes over what fails
            file.write(message)


def path(text: str) -> Path:
    """A file or a folder, which need not be there."""
    if not text.strip():
        raise ArgumentTypeError(EMPTY)
    return Path(os.path.expanduser(text))  # noqa: PTH111, pathlib raises where there is no such user


def whole_number(least: int, most: int = MOST) -> Callable[[str], int]:
    """What makes a whole number of a value, or tells what the number may be."""

    def number(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
            raise ArgumentTypeError(f"{text!r} is not a whole number from {least:,} to {most:,}")
        return int(text)

    return number
