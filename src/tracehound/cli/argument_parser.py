"""The argparse parser of the command line, with one-line errors, its actions, and checked values."""

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

from tracehound import __version__
from tracehound.cli import console
from tracehound.draw.text_wrapping import rewrap_text
from tracehound.errors import EXIT_BAD_INPUT, TracehoundError, printable
from tracehound.export import EXPORT_FORMATS
from tracehound.model.units import PS_PER_S, parse_duration
from tracehound.numeric import native
from tracehound.report import WRITERS

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

EMPTY_VALUE = "an empty value; give one, or leave the option out"
"""The error of an option with an empty value."""

MAX_NUMBER = 1_000_000_000
"""The largest number that an option takes if it has no limit of its own."""

_MISSING_PREFIX = "the following arguments are required"
"""The beginning of argparse's message about missing arguments, which it prints before it checks unknown options."""

_UNRECOGNIZED_OPTION = re.compile(r"^unrecognized arguments: .*?--([\w-]+)")
"""The beginning of argparse's message about an unknown option."""

_MIN_SIMILARITY = 0.7
"""The similarity (of `difflib`) from which an unknown option counts as a misspelled one."""


class NonEmptyAction(Action):
    """Stores a value that must not be empty: an unset variable of a script would select everything."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: object, option_string: str | None = None
    ) -> None:
        """Store the value, or raise ArgumentError."""
        del parser, option_string
        if not str(values).strip():
            raise ArgumentError(self, EMPTY_VALUE)
        setattr(namespace, self.dest, values)


class CommaListAction(NonEmptyAction):
    """Stores all values of a repeated option, joined by commas."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: object, option_string: str | None = None
    ) -> None:
        """Append the value, or raise ArgumentError."""
        before = getattr(namespace, self.dest)
        super().__call__(parser, namespace, values, option_string)
        if before:
            setattr(namespace, self.dest, f"{before.rstrip(', ')},{values}")


class VersionAction(Action):
    """Prints the version, says if the C library is there, and exits."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: object, option_string: str | None = None
    ) -> NoReturn:
        """Print the version and exit with 0."""
        del namespace, values, option_string
        with console.flushed_stdout():
            print(f"tracehound {__version__} ({'Python alone' if native.library() is None else 'compiled'})")  # noqa: T201
        parser.exit()


class WrappedHelpFormatter(RawDescriptionHelpFormatter):
    """Help formatter that wraps free text to the width of the terminal."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return rewrap_text(super()._fill_text(text, width, indent), width)


class CommandParser(ArgumentParser):
    """An argument parser that reports errors in one line.

    `make_description` returns the first part of the help; it imports its modules only when help is printed.
    """

    make_description: Callable[[], str] | None = None
    _arguments: Sequence[str] = ()

    def parse_known_args(  # type: ignore[override]  # only the overload with our Namespace is called
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        """Parse as argparse does, and remember the arguments for error messages."""
        self._arguments = list(args or ())
        return super().parse_known_args(args, namespace)

    def format_help(self) -> str:
        """The help text of argparse, with the description made now."""
        if self.make_description is not None:
            self.description = self.make_description()
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Exit with `EXIT_BAD_INPUT` and one line: argparse's message and the option that was probably meant."""
        strange = [word for word in self._arguments if word.startswith("--") and not self._is_known_option(word)]
        if strange and message.startswith(_MISSING_PREFIX):
            message = f"unrecognized arguments: {' '.join(strange)}"
        near = self._suggest_option(message)
        remedy = f"did you mean {near}?" if near else f"see {self.prog} --help"
        self.exit(EXIT_BAD_INPUT, f"tracehound: {printable(message)}; {remedy}\n")

    def _is_known_option(self, word: str) -> bool:
        return word == "--" or word.partition("=")[0] in self._option_string_actions

    def _suggest_option(self, message: str) -> str:
        """The known option that is most similar to an unrecognized one; "" for none."""
        unknown = _UNRECOGNIZED_OPTION.search(message)
        if unknown is None:
            return ""
        options = self._option_string_actions
        forms = [*(writer.name for writer in WRITERS), *(form.name for form in EXPORT_FORMATS)]
        if unknown[1] in forms and "--format" in options:
            return f"--format {unknown[1]}"
        return next(iter(difflib.get_close_matches(f"--{unknown[1]}", options, 1, _MIN_SIMILARITY)), "")

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        if file is None or file is not sys.stdout:
            super()._print_message(message, file)
            return
        with console.flushed_stdout():  # argparse ignores failures
            file.write(message)


def path_argument(text: str) -> Path:
    """The path of a file or folder, which need not exist."""
    if not text.strip():
        raise ArgumentTypeError(EMPTY_VALUE)
    return Path(os.path.expanduser(text))  # noqa: PTH111, pathlib raises for an unknown user


def path_or_url_argument(text: str) -> str:
    """The path or the URL of a file, which need not exist."""
    return text if "://" in text else str(path_argument(text))


def duration_argument(text: str) -> float:
    """A time longer than 0 with its unit (``2s``, ``500ms``), in seconds. Raises ArgumentTypeError for others."""
    try:
        seconds = parse_duration(text) / PS_PER_S
    except TracehoundError as error:
        raise ArgumentTypeError(f"{printable(error.message)}, {error.remedy}") from error
    if seconds <= 0:
        raise ArgumentTypeError(f"{printable(text)} is no time to record; give a longer one, such as 2s")
    return seconds


def whole_number_argument(least: int, most: int = MAX_NUMBER) -> Callable[[str], int]:
    """A converter of values to whole numbers, which raises ArgumentTypeError outside of the limits."""

    def number(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
            raise ArgumentTypeError(f"{text!r} is not a whole number from {least:,} to {most:,}")
        return int(text)

    return number
