"""Starts the program: ``tracehound`` and ``python -m tracehound``.

Handles Ctrl-C during the imports, reports faults of the program in one line without a traceback, and ends the process
without waiting for the interpreter's cleanup.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from typing import NoReturn

from tracehound import EXIT_INTERRUPTED
from tracehound.system import malloc

EXIT_FAULT = 70
"""Exit status of a fault of the program itself."""

_LIBRARY_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "_RJEM_MALLOC_CONF": "dirty_decay_ms:500,oversize_threshold:2097152",
}
"""Environment variables that libraries read when they are imported, unless the user has set them.

The threads that numpy starts for matrix products take a fifth of the start-up time, and nothing here needs them.
Polars' allocator keeps freed memory for half a second, its default, but arrays of more than two megabytes go back at
once: kept, they take a tenth of all memory, and no time is saved by it."""


def prepare_environment() -> None:
    """Set everything that must be set before the libraries are imported."""
    for name, value in _LIBRARY_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    malloc.use_single_arena()


def start() -> NoReturn:
    """Run the command line; ends the process."""
    try:
        gc.disable()  # imported modules stay: collecting garbage among them takes a tenth of the start
        prepare_environment()
        from tracehound.cli.main import main  # noqa: PLC0415, Ctrl-C may come during this import

        gc.freeze()
        gc.enable()
        status = main()
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    except SystemExit as end:
        status = _exit_status_of(end)
    except BaseException as error:  # noqa: BLE001, polars' panics are no Exception
        status = _report_fault(error)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status)


def _exit_status_of(end: SystemExit) -> int:
    """The exit status that Python would use; prints the message of the exit, if it has one."""
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    with suppress(OSError, AttributeError):
        sys.stderr.write(f"{end.code}\n")
    return 1


def _report_fault(error: BaseException) -> int:
    """Print what went wrong in one line; raise the error again if TRACEHOUND_DEBUG is set."""
    if os.environ.get("TRACEHOUND_DEBUG"):
        raise error
    from tracehound.errors import printable  # noqa: PLC0415, see above

    words = printable(f"{type(error).__name__}: {error}")[:400]
    remedy = "try --no-cache; TRACEHOUND_DEBUG=1 shows where it lies"
    with suppress(OSError, AttributeError):
        sys.stderr.write(f"tracehound: a fault of the program or of its cache: {words}; {remedy}\n")
    return EXIT_FAULT


if __name__ == "__main__":
    start()
