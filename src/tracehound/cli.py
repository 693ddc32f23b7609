"""The command line: what was asked is done by the command that was named. The only place that picks a face.

Owns exit codes and what is said on stderr when something went wrong. Knows no format, no analysis and no layout.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from contextlib import nullcontext
from importlib import import_module

from tracehound import INTERRUPTED, console
from tracehound.arguments import EXPLORE, parsed
from tracehound.errors import BAD_INPUT, TracehoundError, starved
from tracehound.home import here
from tracehound.stopping import heeding


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; the exit code."""
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except TracehoundError as error:
        console.say(str(error))
        return error.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except (RuntimeError, FileNotFoundError, MemoryError) as error:
        if not (words := _outside(error)):
            raise
        console.say(words)
        return BAD_INPUT
    except BrokenPipeError:
        console.forget()  # nobody reads on: that is their right
        return 0


def _outside(error: Exception) -> str:
    """What is wrong with the machine rather than with the program; nothing where that is not known."""
    if isinstance(error, BrokenExecutor):
        return "a worker process was killed; is there enough memory? --jobs 1 takes less"
    if starved(error):
        return "not enough memory; --jobs 1 and a --window take less, and ulimit -v says whether it is limited"
    if isinstance(error, FileNotFoundError) and here() is None:  # no path from there leads anywhere
        return "the current folder is gone; cd to it again"
    return ""


def _run(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    if sys.stdout is None:
        raise TracehoundError("stdout is closed")
    asked = parsed(arguments)
    command = import_module(f"tracehound.commands.{asked.command}")
    explorer = asked.command == EXPLORE and console.interactive()
    with nullcontext() if explorer else heeding():
        code: int = command.run(asked)
    return code
