"""Starting the program: ``tracehound`` and ``python -m tracehound``.

Owns what may happen before anything of it is imported: Ctrl-C while that takes its time.
"""

from __future__ import annotations

import sys
from typing import NoReturn

INTERRUPTED = 130
"""Exit status after Ctrl-C, as a shell has it."""


def start() -> NoReturn:
    """Run the command line; ends the process."""
    try:
        from tracehound.cli import main  # noqa: PLC0415, importing it is what can be interrupted

        status = main()
    except KeyboardInterrupt:
        status = INTERRUPTED
    sys.exit(status)


if __name__ == "__main__":
    start()
