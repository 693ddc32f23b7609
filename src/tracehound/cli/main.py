"""Runs the command of a command line, and turns errors into messages on stderr and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from contextlib import nullcontext
from importlib import import_module

from tracehound import EXIT_INTERRUPTED
from tracehound.cli import console
from tracehound.cli.arguments import CAPTURE, EXPLORE, parse_arguments
from tracehound.errors import EXIT_BAD_INPUT, TracehoundError, is_out_of_memory
from tracehound.system.stop_signals import exit_on_signals
from tracehound.system.user_dirs import current_dir


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit code."""
    try:
        return _run_command(sys.argv[1:] if arguments is None else arguments)
    except TracehoundError as error:
        console.print_message(str(error))
        return error.code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except (RuntimeError, FileNotFoundError, MemoryError) as error:
        if not (words := _machine_error_message(error)):
            raise
        console.print_message(words)
        return EXIT_BAD_INPUT
    except BrokenPipeError:
        console.discard_stdout()  # the reader of a pipe has ended, which is no error
        return 0


def _machine_error_message(error: Exception) -> str:
    """The message for an error of the machine rather than of the program (no memory, no folder); empty for others."""
    if isinstance(error, BrokenExecutor):
        return "a worker process was killed; is there enough memory? --jobs 1 takes less"
    if is_out_of_memory(error):
        return "not enough memory; --jobs 1 and a --window take less, and ulimit -v says whether it is limited"
    if isinstance(error, FileNotFoundError) and current_dir() is None:  # relative paths cannot be resolved
        return "the current folder is gone; cd to it again"
    return ""


def _run_command(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    if sys.stdout is None:
        raise TracehoundError("stdout is closed")
    options = parse_arguments(arguments)
    command = import_module(f"tracehound.cli.commands.{options.command}")
    explorer = options.command in (EXPLORE, CAPTURE) and console.is_interactive()
    with nullcontext() if explorer else exit_on_signals():
        code: int = command.run(options)
    return code
