"""Starting the program: ``tracehound`` and ``python -m tracehound``.

Owns what may happen before anything of it is imported (Ctrl-C while that takes its time), that no fault of ours shows a
traceback, and that ending does not wait for the interpreter to tidy up.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from typing import NoReturn

from tracehound import INTERRUPTED, heap

FAULT = 70
"""Exit status of a fault of the program itself."""

_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "_RJEM_MALLOC_CONF": "dirty_decay_ms:10000"}
"""What libraries are told before they are imported, unless the user has told them something else.

Threads that numpy starts for products of matrices take a fifth of the start, and nothing here needs one. What polars
is done with is kept for ten seconds, as its allocator does elsewhere, in place of half a second: up to a quarter of
what a pass over millions of events takes is the first touch of pages that were handed back just before.
"""


def prepare() -> None:
    """Settle what cannot be settled any more when the libraries are imported."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    heap.share()


def start() -> NoReturn:
    """Run the command line; ends the process."""
    try:
        gc.disable()  # what is imported stays: looking for garbage in it is a tenth of the start
        prepare()
        from tracehound.cli import main  # noqa: PLC0415, importing it is what can be interrupted

        gc.freeze()
        gc.enable()
        status = main()
    except KeyboardInterrupt:
        status = INTERRUPTED
    except SystemExit as end:
        status = _ended(end)
    except BaseException as error:  # noqa: BLE001, polars' panics are no Exception
        status = _fault(error)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status)


def _ended(end: SystemExit) -> int:
    """The status that Python would end with; words are said."""
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    with suppress(OSError, AttributeError):
        sys.stderr.write(f"{end.code}\n")
    return 1


def _fault(error: BaseException) -> int:
    """Say what went wrong, in one line; where it went wrong too, for those who ask for it."""
    if os.environ.get("TRACEHOUND_DEBUG"):
        raise error
    from tracehound.errors import printable  # noqa: PLC0415, see above

    words = printable(f"{type(error).__name__}: {error}")[:400]
    remedy = "try --no-cache; TRACEHOUND_DEBUG=1 shows where it lies"
    with suppress(OSError, AttributeError):
        sys.stderr.write(f"tracehound: a fault of the program or of its cache: {words}; {remedy}\n")
    return FAULT


if __name__ == "__main__":
    start()
