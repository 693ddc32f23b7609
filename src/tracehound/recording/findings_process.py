"""Findings of a recording, made by a process of their own: ``python -m tracehound.recording.findings_process``.

The training process only starts it. It runs at the lowest priority, waits until all ranks have written their files, and
writes ``findings.txt`` beside them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

FINDINGS_FILE: Final = "findings.txt"

_LONGEST_WAIT: Final = 600.0
"""Seconds after which the findings are made of the files that are there."""

_POLL_SECONDS: Final = 0.5


def start_findings(run: Path, names: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the process for the recording in `run`, in which the ranks leave files with these names. Raises OSError."""
    module = "tracehound.recording.findings_process"
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, str(run), *names],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def write_findings(run: Path, names: Sequence[str], longest_wait: float = _LONGEST_WAIT) -> None:
    """Wait for the files of all ranks, at most `longest_wait` seconds, and write the findings as text."""
    end = time.monotonic() + longest_wait
    while (missing := [name for name in names if not (run / name).exists()]) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
    partial = run / f".{FINDINGS_FILE}.partial"
    try:
        with partial.open("w", encoding="utf-8") as file:
            if missing:
                file.write(f"{len(missing)} of {len(names)} ranks wrote no file within {longest_wait:g} s\n")
                file.flush()
            report = ["report", str(run), "findings", "--width", "0", "--jobs", "1"]
            subprocess.run([sys.executable, "-P", "-m", "tracehound", *report], stdout=file, stderr=file, check=False)
        partial.replace(run / FINDINGS_FILE)
    finally:
        partial.unlink(missing_ok=True)


if __name__ == "__main__":
    os.nice(19)
    write_findings(Path(sys.argv[1]), sys.argv[2:])
