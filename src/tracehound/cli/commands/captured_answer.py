"""The answer of a capture: the explorer, a page about the profile that was just saved, or its path."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from tracehound.analysis import get_analysis
from tracehound.cli import console
from tracehound.cli.arguments import EXPLORE, to_answer_arguments
from tracehound.config import configured_settings
from tracehound.errors import TracehoundError, printable
from tracehound.model.units import count_noun, format_bytes, join_some
from tracehound.report import find_writer
from tracehound.system.stop_signals import exit_on_signals

FINDINGS = "findings"


def check_answer_options(options: Namespace) -> None:
    """Raise TracehoundError for options that the answer would refuse: a capture must not be made in vain."""
    find_writer(options.format)
    if analysis := _analysis(options):
        configured_settings(get_analysis(analysis), options.set)
    elif options.set:
        raise TracehoundError("--set is for one analysis", remedy="add --findings or --report ANALYSIS")


def show_saved(noun: str, files: Sequence[Path], folder: Path, options: Namespace) -> int:
    """Print how many files were saved, and show the answer about them; returns the exit code.

    They are opened as their `folder`, or one by one if some could not be moved there.
    """
    paths = [str(folder)] if all(file.parent == folder for file in files) else [str(file) for file in files]
    if not options.quiet:
        size = format_bytes(sum(file.stat().st_size for file in files))
        message = f"saved {count_noun(len(files), noun)}, {size}: {join_some(paths, _MAX_PATHS)}"
        console.print_message(printable(message))
    return show_answer(paths, options)


def show_answer(paths: Sequence[str], options: Namespace) -> int:
    """Show the answer that the options choose, and print the command that shows it again; returns the exit code."""
    if options.quiet:
        print_paths(paths)
        return 0
    analysis = _analysis(options)
    if analysis:
        command, words = "report", [*paths, analysis]
    elif options.summary or not console.is_interactive():
        command, words = "summary", [*paths]
    else:
        command, words = EXPLORE, [*paths]
    answer = to_answer_arguments(options, command, words)
    repeat = ["tracehound", *([] if command == EXPLORE else [command]), *words, *_answer_options(options, command)]
    run = import_module(f"tracehound.cli.commands.{command}").run
    if command == EXPLORE:  # it ends the process
        _print_repeat(repeat)
        return int(run(answer))
    with exit_on_signals():
        code = int(run(answer))
    _print_repeat(repeat)
    return code


_MAX_PATHS: Final = 4
"""So many paths are printed."""


def print_paths(paths: Sequence[str]) -> None:
    """Print paths to stdout, one a line."""
    with console.flushed_stdout():
        sys.stdout.writelines(f"{printable(path)}\n" for path in paths)


def _analysis(options: Namespace) -> str:
    """The analysis that is the answer; empty if another one is chosen."""
    return FINDINGS if options.findings else str(options.report)


def _print_repeat(words: Sequence[str]) -> None:
    console.print_message(f"again: {printable(shlex.join(words))}")


def _answer_options(options: Namespace, command: str) -> list[str]:
    """The options of the answer that are not the defaults, as words of a command line."""
    if command == EXPLORE:
        return []
    words = [f"--top={options.top}"] if options.top else []
    if command == "report":
        words += [f"--set={setting}" for setting in options.set]
    if options.format != "text":
        words.append(f"--format={options.format}")
    if options.unit != "auto":
        words.append(f"--unit={options.unit}")
    return words + (["--notes"] if options.notes else [])
