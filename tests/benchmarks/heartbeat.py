"""How long the explorer stalls while a large file is read, and under keys: the lateness of a heartbeat inside it.

    python tests/benchmarks/heartbeat.py --size 1000 [--files 1] [--jobs 2]

Makes files of so many MB each of one of the project's own traces (see `grow_kineto`), opens them in a pseudo-terminal,
presses keys meanwhile, and prints how late a timer of 10 ms in the program's event loop was: while it read, and after.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import sys
import tempfile
import time
from contextlib import suppress
from itertools import cycle
from pathlib import Path

import orjson
import pexpect
from grow_kineto import grow

ROOT = Path(__file__).resolve().parents[2]
SOURCE = next((ROOT / "traces" / "torch_stacks").glob("*.json.gz"))

BEAT = 0.01
"""Seconds between two beats."""

KEYS = (
    "j",
    ".",
    ".",
    "w",
    "l",
    "s",
    "]",
    "J",
    "3",
    "\r",
    "T",
    "e",
    ",",
    "0",
    "2",
    "\r",
    "n",
    "T",
    "K",
    "v",
    "l",
    "v",
)
"""What is pressed, over and over: moves, events, gaps, tables, ranges; no Escape, which ends the reading."""

LEAVE = ("\x1b", "\x1b", "T")
"""What leads out of prompts and pages, in which `q` is a letter or closes them."""

EVERY = 0.15
"""Seconds between two keys."""


def job(folder: Path, files: int, size: int) -> None:
    """Write the files of so many ranks, each of about `size` bytes, made of the source."""
    folder.mkdir()
    document = orjson.loads(gzip.decompress(SOURCE.read_bytes()))
    for rank in range(files):
        one = folder.with_name("one.json")
        one.write_bytes(orjson.dumps({"distributedInfo": {"rank": rank, "world_size": files}, **document}))
        grow(one, folder / f"rank{rank}.json", size)
        one.unlink()


def beating(out: Path, arguments: list[str]) -> int:
    """The explorer with a heartbeat in it, whose lateness is written to a file when it ends."""
    from tracehound.cli.main import main  # noqa: PLC0415, only the child needs it
    from tracehound.ui import explorer_app  # noqa: PLC0415

    class Beating(explorer_app.ExplorerApp):
        """The explorer, and a list of (reading or not, seconds late, seconds of its own work)."""

        CSS_PATH = Path(explorer_app.__file__).with_name("explorer.tcss")

        def on_mount(self) -> None:
            self.beats: list[tuple[bool, float, float]] = []
            self.pulse = asyncio.create_task(self.beat())

        async def beat(self) -> None:
            while True:
                began, worked = time.monotonic(), time.thread_time()
                await asyncio.sleep(BEAT)
                late = time.monotonic() - began - BEAT
                self.beats.append((self.explorer.reading.busy, late, time.thread_time() - worked))
                if not self.beats[-1][0] and self.explorer.trace_updates.any_read:
                    _all_read(out).touch()

        def on_unmount(self) -> None:
            self.pulse.cancel()
            out.write_text(json.dumps(self.beats))

    explorer_app.ExplorerApp = Beating  # type: ignore[misc]  # the same program, with a heart
    return main(arguments)


def driven(arguments: list[str], out: Path, rest: float) -> float:
    """Run it in a pseudo-terminal under keys until it has read all, and for a while after; seconds until it ended."""
    child = pexpect.spawn(
        sys.executable,
        [__file__, "--inside", str(out), *arguments],
        dimensions=(50, 160),
        env={**os.environ, "TERM": "xterm-256color", "TEXTUAL_ANIMATIONS": "none"},
    )
    ends = None
    for key in cycle(KEYS):
        _drain(child, EVERY)
        child.send(key)
        ends = time.monotonic() + rest if ends is None and _all_read(out).exists() else ends
        if ends is not None and time.monotonic() > ends:
            break
    for key in LEAVE:
        child.send(key)
        _drain(child, EVERY)
    began = time.monotonic()
    child.send("q")
    with suppress(pexpect.EOF):
        while child.isalive():
            _drain(child, 0.01)
    return time.monotonic() - began


def _all_read(out: Path) -> Path:
    """What is there as soon as everything is read."""
    return out.with_suffix(".read")


def _drain(child: pexpect.spawn[bytes], seconds: float) -> None:
    """Take what it writes for so long."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        with suppress(pexpect.TIMEOUT):
            child.read_nonblocking(1 << 16, timeout=left)


def told(name: str, beats: list[tuple[float, float]]) -> str:
    """One line about so many beats."""
    if not beats:
        return f"{name:8} no beats"
    late = sorted(late for late, _ in beats)
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    parts = (f"{word} {1000 * late[min(len(late) - 1, int(part * len(late)))]:6.1f} ms" for word, part in at.items())
    worked = 1000 * max(worked for _, worked in beats)
    return f"{name:8} {len(late):6} beats late by  {'  '.join(parts)}; the thread's own work at most {worked:.1f} ms"


def main() -> int:
    """Measure, or be measured."""
    if sys.argv[1:2] == ["--inside"]:
        return beating(Path(sys.argv[2]), sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=100, help="MB of each file")
    parser.add_argument("--files", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rest", type=float, default=6.0, help="seconds of keys when all is read")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "job"
        job(folder, asked.files, asked.size * 1_000_000)
        out = Path(name) / "beats.json"
        cache = ["--cache", str(Path(name) / "cache")]
        ended = driven([str(folder), "--jobs", str(asked.jobs), *cache], out, asked.rest)
        beats = json.loads(out.read_bytes())
    print(told("reading", [(late, worked) for reading, late, worked in beats if reading]))
    print(told("after", [(late, worked) for reading, late, worked in beats if not reading]))
    print(f"q ended it in {1000 * ended:.0f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
