"""How long the explorer takes from a key to the last byte that it causes, and how many bytes those are.

    python tests/benchmarks/explorer.py
    python tests/benchmarks/explorer.py --events 500K --sizes 80x24 --only pan,zoom --from trace.json.gz

The trace is made of a real one (see `grow_kineto`) and read into a cache first. Then the program runs in a
pseudo-terminal of 256 colors of each size, and every action is a few keys, pressed when the program has come to rest.
`ms` is the time to the last byte, `cpu` the work of the thread that draws, medians of all presses; `bytes` are all that
a key causes. What comes in two steps (a letter, then what it matches) counts until the second. The targets are those
of a slow line and of an impatient person: 50 ms for every move, 150 ms for what looks at the whole trace, 10 kB for a
screen that moves, 1.5 kB for a selection that moves.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from math import ceil
from pathlib import Path

import measure
from grow_kineto import Grown, grow
from ours import loaded
from pressing import Effect, Terminal

from tracehound.store import load_trace, open_trace_files
from tracehound.store.worker_pool import default_jobs

SOURCE = next((Path(__file__).parents[2] / "traces" / "torch_stacks").glob("*.json.gz"))
PACKAGES = ("tracehound", "textual", "polars")

MOVE, WHOLE = 50, 150
"""Milliseconds for a move, and for what looks at the whole trace."""

SCREEN, LINES = 10_000, 1_500
"""Bytes for a screen that moves, at 80x24, and for a selection that moves."""

ENTER, DOWN, UP, PAGE_DOWN, PAGE_UP = "\r", "\x1b[B", "\x1b[A", "\x1b[6~", "\x1b[5~"
CLOSE = "0wwww"
"""The whole run, then a sixteenth of it."""
CLOSER = "0wwwwwwwwwwww"
"""The whole run, then so little of it that single events can be seen."""

RESTED = 1.0
"""Seconds of rest after which a program that has just been started has read its trace."""

IDLE = 4.0
"""Seconds in which nobody presses a key."""


@dataclass(frozen=True)
class Action:
    """Something a person does: `keys`, one after the other, over and over, after `before`.

    `within` is for the 95th percentile of the time, in ms; `bytes` for the median of the bytes, and only on a screen
    of 80x24 where it is about all of it. None is no target. `once` is for what cannot be done again: it works out what
    is known from then on.
    """

    name: str
    keys: Sequence[str]
    before: Sequence[str] = ()
    within: int | None = MOVE
    bytes: int | None = None
    once: bool = False


ACTIONS = (
    Action("zoom in", "w", "T0"),
    Action("zoom out", "s", "T0wwwwwwwwwwwwwwwwwwww"),
    Action("pan", "lllhhh", "T" + CLOSE, bytes=SCREEN),
    Action("pan, close", "lllhhh", "T" + CLOSER, bytes=SCREEN),
    Action("page pan", "LLLHHH", "T" + CLOSE, bytes=SCREEN),
    Action("fit, zoom in", "w0", "T0"),
    Action("lane down, up", "JK", "T" + CLOSER, bytes=LINES),
    Action("row down, up", "jjjkkk", "T" + CLOSER + "J.", bytes=LINES),
    Action("next event", ".", "T" + CLOSER + "J.j", bytes=LINES),
    Action("next gap", "]", "T" + CLOSE),
    Action("search, first letter", "a", "T0/", WHOLE, once=True),
    Action("search, further letters", "ten::embedding", (), WHOLE, once=True),
    Action("next match", "n", (ENTER,)),
    Action("pane, first time", "2345678t", (), None, once=True),
    Action("pane, again", "2345678t"),
    Action("table move", (DOWN, DOWN, UP), "4", bytes=LINES),
    Action("table page", (PAGE_DOWN, PAGE_DOWN, PAGE_UP), "4"),
    Action("sort", ">", "4", WHOLE),
    Action("timeline lower, higher", "{{}}", "T" + CLOSE),
    Action("full, and back", "z", "T" + CLOSE),
    Action("table full, and back", "z", "2"),
)  # fmt: skip


@dataclass(frozen=True)
class Size:
    """Columns and rows of a terminal."""

    columns: int
    rows: int

    @classmethod
    def of(cls, text: str) -> Size:
        """A size written as ``80x24``. Raises ValueError."""
        columns, rows = map(int, text.split("x"))
        return cls(columns, rows)

    def __str__(self) -> str:
        return f"{self.columns}x{self.rows}"


def driven(
    arguments: Sequence[str], size: Size, actions: Sequence[Action], presses: int
) -> tuple[dict[str, list[Effect]], int]:
    """What each action causes at each press, and the bytes that are sent while nobody presses a key."""
    taken = dict[str, list[Effect]]()
    with Terminal(
        (sys.executable, "-m", "tracehound", *arguments), size.columns, size.rows, _environment()
    ) as terminal:
        terminal.settle(RESTED)
        for action in actions:
            for key in action.before:
                terminal.press(key)
            keys = action.keys if action.once else islice(cycle(action.keys), presses)
            taken[action.name] = [terminal.press(key) for key in keys]
            measure.say(f"{size} {_line(action, taken[action.name], size).strip()}")
        idle = terminal.watch(IDLE)
        terminal.press("q")
    return taken, idle


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    return {**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8", "TEXTUAL_ANIMATIONS": "none"}


HEAD = f"{'':26}{'ms':>7}{'p95':>7}{'cpu':>7}{'target':>8}{'':7}{'bytes':>9}{'p95':>9}{'target':>9}\n"


def table(actions: Sequence[Action], taken: dict[str, list[Effect]], idle: int, size: Size) -> list[str]:
    """A line for each action: medians, 95th percentiles, and whether the targets are met."""
    return [
        f"{size}",
        HEAD.rstrip(),
        *(_line(action, taken[action.name], size) for action in actions if action.name in taken),
        f"{f'idle, {IDLE:.0f} s':70}{idle:10,}{'':9}{'0':>9}{_met(idle, 0)}",
    ]


def _line(action: Action, effects: Sequence[Effect], size: Size) -> str:
    if not any(effect.sent for effect in effects):
        return f"{action.name:26}  nothing happens"
    times, sizes = [1000 * effect.seconds for effect in effects], [effect.sent for effect in effects]
    work = 1000 * statistics.median(effect.work for effect in effects)
    line = f"{action.name:26}{statistics.median(times):7.0f}{late(times):7.0f}{work:7.0f}"
    line += f"{action.within:8}{_met(late(times), action.within)}" if action.within is not None else " " * 15
    line += f"{statistics.median(sizes):10,.0f}{late(sizes):9,.0f}"
    asked = action.bytes if action.bytes != SCREEN or size == Size(80, 24) else None
    line += f"{asked:9,}{_met(statistics.median(sizes), asked)}" if asked is not None else ""
    return line.rstrip()


def _met(value: float, target: float) -> str:
    return "  met   " if value <= target else "  MISSED"


def late(values: Sequence[float]) -> float:
    """The 95th percentile: one of the values, of fewer than 20 the largest."""
    return sorted(values)[ceil(0.95 * len(values)) - 1]


def made(source: Path, target: Path, events: int) -> Grown:
    """Write a trace that has so many events on its lanes."""
    one = int(load_trace(open_trace_files([source])).lanes["events"].sum())
    copies = max(1, ceil(events / one))
    alone = grow(source, target, 0)
    return alone if copies == 1 else grow(source, target, alone.size * copies)


def prepared(asked: argparse.Namespace, folder: Path) -> tuple[Path, Path]:
    """The trace that is asked for, made in the folder unless one is given, and where it is kept as read."""
    cache = asked.cache or folder / "cache"
    if asked.trace is not None:
        return asked.trace, cache
    trace = folder / "trace.json"
    grown = made(asked.source, trace, asked.events)
    measure.say(f"{trace.name}: {measure.size_text(grown.size)}, {grown.copies} x {asked.source.name}")
    return trace, cache


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which trace is measured, and how it is read."""
    parser.add_argument("--events", type=measure.size_of, default=5_000_000, help="on the lanes, as in 500K or 5M")
    parser.add_argument("--from", dest="source", type=Path, default=SOURCE, help="the real trace that it is made of")
    parser.add_argument("--trace", type=Path, help="a trace to take as it is, in place of one that is made")
    parser.add_argument("--cache", type=Path, help="where it is kept as read, for another time")
    parser.add_argument("--jobs", type=int, default=default_jobs(), help="worker processes")
    parser.add_argument("--folder", type=Path, help="where the trace is made that is removed in the end")


def main() -> None:
    """Make a trace, read it, and press keys."""
    asked = _asked()
    actions = [action for action in ACTIONS if any(action.name.startswith(word) for word in asked.only.split(","))]
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        trace, cache = prepared(asked, Path(name))
        arguments = [str(trace), "--jobs", str(asked.jobs), "--cache", str(cache), "--reset"]
        events = int(loaded(trace, asked.jobs, cache).lanes["events"].sum())
        lines = [measure.machine(*PACKAGES), f"{events:,} events on lanes, {asked.presses} presses of each key"]
        for size in asked.sizes:
            taken, idle = driven(arguments, size, actions, asked.presses)
            lines += ["", *table(actions, taken, idle, size)]
        print(*lines, sep="\n")


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--sizes", type=_sizes, default="80x24,200x50", help="of the terminal")
    parser.add_argument("--only", default="", help="actions whose names begin so; comma-separated")
    parser.add_argument("--presses", type=int, default=20, help="of each action")
    return parser.parse_args()


def _sizes(text: str) -> list[Size]:
    return [Size.of(word) for word in text.split(",")]


if __name__ == "__main__":
    main()
