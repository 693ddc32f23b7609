"""Random keys, clicks, drags and resizes for the explorer, in a terminal of its own, until it dies.

    python tests/soak.py                                  three traces of the project, two minutes in total
    python tests/soak.py TRACE ... --minutes 10 --seed 7  these traces; they share the minutes
    python tests/soak.py TRACE --diff OTHER               two runs side by side
    python tests/soak.py TRACE --palette 1000             open, search and leave the command palette so many times

A seed gives the same input again, with the same pauses; what it does may differ, since it depends on time.
Exit status 1 when the program ends with a status that is not 0, or does not redraw after a resize; then it says with
which command to try again, what was typed last, and what the program wrote last. A program that was left by a command
starts again.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pexpect

from terminal import KEYS, Terminal

TRACES = Path(__file__).resolve().parents[1] / "traces"
USUAL = (
    TRACES / "torch_ddp_gloo",
    TRACES / "jax_cpu8_b128/plugins/profile/2026_11_21_06_31_26/demo.xplane.pb",
    TRACES / "torch_xla_spmd4/plugins/profile/2026_11_21_03_02_51/vm.trace.json.gz",
)
"""A Kineto trace of two ranks, an xplane.pb of eight, and a trace.json.gz of four."""

Input = tuple[str, float]
"""What is typed, ``120x40`` for a resize, and the seconds until the next."""

PALETTE, ESCAPE, ENTER = "\x10", "\x1b", "\r"
NAMED = (
    *KEYS.values(),
    "\x1b[5~",
    "\x1b[6~",
    "\x1b[H",
    "\x1b[F",
    "\x1b[Z",
    "\x7f",
    "\x1b[3~",
    "\x1bOP",
    "\x0c",
    "\x1a",
)
"""Keys with names: arrows, pages, ends, Backspace, Delete, F1, Ctrl+L, Ctrl+Z."""

LETTERS = [chr(code) for code in range(33, 127) if chr(code) != "q"]
WORDS = ("gemm", "show ", "tim", "a", "change the theme", "self > 1ms", "select * from events", "~.*")
PAUSES = (0.0, 0.0, 0.005, 0.02, 0.02, 0.05, 0.1, 0.3)
SIZES = ((80, 24), (140, 40), (200, 50), (60, 16), (250, 70), (30, 8), (10, 3), (1, 1))
LOOK = 20
"""After so many inputs it is looked whether the program still answers."""

LAST = 3 * LOOK
"""Inputs that are shown when it does not."""

_SIZE = re.compile(r"(\d+)x(\d+)")


def resize(dice: random.Random) -> str:
    """Another size of the terminal."""
    columns, rows = dice.choice(SIZES)
    return f"{columns}x{rows}"


def mouse(dice: random.Random) -> str:
    """A click, a drag, a turn of the wheel, or a move of the mouse."""
    x, y, to_x, to_y = (dice.randint(1, most) for most in (140, 40, 140, 40))
    press, release = f"\x1b[<0;{x};{y}M", f"\x1b[<0;{x};{y}m"
    drag = f"{press}\x1b[<32;{to_x};{to_y}M\x1b[<0;{to_x};{to_y}m"
    wheel = f"\x1b[<{dice.choice((64, 65))};{x};{y}M"
    return dice.choice((press + release, (press + release) * 2, drag, wheel * 3, f"\x1b[<35;{x};{y}M"))


def anything(dice: random.Random) -> Iterator[Input]:
    """Inputs of every kind, without end; keys most of all."""
    while True:
        kind = dice.choices(("letter", "key", "mouse", "word", "palette", "resize"), (50, 25, 12, 4, 4, 5))[0]
        match kind:
            case "letter":
                typed = dice.choice(LETTERS)
            case "key":
                typed = dice.choice(NAMED)
            case "mouse":
                typed = mouse(dice)
            case "word":
                typed = dice.choice(WORDS)
            case "palette":
                typed = PALETTE
            case _:
                typed = resize(dice)
        yield typed, dice.choice(PAUSES)


def palette(dice: random.Random, rounds: int) -> Iterator[Input]:
    """The command palette, opened, searched and left so many times; what it led to is left, too."""
    pauses = (0.0, 0.0, 0.005, 0.01, 0.03, 0.1, 0.2, 0.4)
    for _ in range(rounds):
        yield PALETTE, dice.choice(pauses)
        yield dice.choice(("a", "se", "tim", "change the theme", "")), dice.choice(pauses)
        if dice.random() < 0.2:
            yield resize(dice), dice.choice(pauses)
        click = f"\x1b[<0;{(x := dice.randint(1, 140))};{(y := dice.randint(1, 40))}M\x1b[<0;{x};{y}m"
        yield dice.choice((ESCAPE, ENTER, click, click, PALETTE + ESCAPE, ESCAPE + ENTER)), dice.choice(pauses)
        if dice.random() < 0.3:
            yield ESCAPE, 0.15


class Soaked(Terminal):
    """The explorer in a terminal; what it wrote last is kept as it is, since to draw it would take most of the time."""

    tail = b""

    def drain(self, seconds: float = 0.05) -> None:
        """Read what the program writes for so long."""
        until = time.monotonic() + seconds
        while True:
            try:
                data = self.child.read_nonblocking(1 << 16, timeout=max(0.0, until - time.monotonic()))
            except pexpect.TIMEOUT:
                return
            except pexpect.EOF:
                self.child.wait()
                return
            self.sent += len(data)
            self.tail = (self.tail + data)[-6000:]

    def take(self, inputs: Sequence[Input]) -> int:
        """Type, or resize, and read for the pauses; how many it took until it ended."""
        for count, (typed, pause) in enumerate(inputs):
            try:
                if size := _SIZE.fullmatch(typed):
                    self.child.setwinsize(int(size[2]), int(size[1]))
                else:
                    self.child.send(typed)
            except OSError:
                self.drain(1.0)
                return count
            self.drain(pause)
        return len(inputs)

    def answers(self, patience: float) -> bool:
        """True when it draws the screen anew at another size, in so many seconds; one that is busy may miss some."""
        until, wider = time.monotonic() + patience, False
        rows, columns = self.child.getwinsize()
        self.drain()
        before = self.sent
        while self.sent == before and self.child.isalive():
            if time.monotonic() > until:
                return False
            wider = not wider
            self.child.setwinsize(rows, columns + wider)
            looked = time.monotonic()
            while self.sent == before and self.child.isalive() and time.monotonic() < looked + 1:
                self.drain()
        self.child.setwinsize(rows, columns)
        return True

    @property
    def wrote(self) -> str:
        """The words of what it wrote last."""
        return re.sub(r"\x1b\[[0-9;?<>=]*[A-Za-z]", "", self.tail.decode("utf-8", "replace"))[-2500:]


def soak(args: Sequence[str], inputs: Iterator[Input], seconds: float, patience: float = 30.0) -> tuple[int, str]:
    """How many inputs the explorer of these arguments took, and what went wrong, if anything."""
    until, count, wrong = time.monotonic() + seconds, 0, ""
    last = deque[str](maxlen=LAST)
    more = True
    while more and not wrong and time.monotonic() < until:
        with TemporaryDirectory() as folder:
            given = {"TRACEHOUND_CACHE": f"{folder}/cache", "TRACEHOUND_DEBUG": "1", "EDITOR": "true"}
            with Soaked(*args, columns=140, rows=40, before=f"cd {folder};", **given) as terminal:
                while more and not wrong and terminal.child.isalive() and time.monotonic() < until:
                    batch = list(islice(inputs, LOOK))
                    last.extend(typed for typed, _ in batch)
                    count += terminal.take(batch)
                    more = len(batch) == LOOK
                    wrong = "" if terminal.answers(patience) else f"no answer in {patience:g} s"
                if not terminal.child.isalive() and (terminal.child.exitstatus or terminal.child.signalstatus):
                    wrong = f"ended with status {terminal.child.exitstatus}, signal {terminal.child.signalstatus}"
                if wrong:
                    wrong = f"{wrong}\nlast inputs: {list(last)}\nlast output:\n{terminal.wrote}"
    return count, wrong


def main(words: Sequence[str] | None = None) -> int:
    """Soak each trace, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path, default=list(USUAL))
    parser.add_argument("--diff", type=Path)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--palette", type=int, default=0, metavar="ROUNDS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=float, default=30.0, help="seconds until no answer is a hang")
    asked = parser.parse_args(words)
    status = 0
    for trace in asked.traces:
        dice, begun = random.Random(asked.seed), time.monotonic()
        diff = ("--diff", str(asked.diff.resolve())) if asked.diff else ()
        inputs = palette(dice, asked.palette) if asked.palette else anything(dice)
        seconds = float("inf") if asked.palette else asked.minutes * 60 / len(asked.traces)
        count, wrong = soak((str(trace.resolve()), *diff), inputs, seconds, asked.patience)
        print(f"{trace}: {count:,} inputs in {time.monotonic() - begun:.0f} s, seed {asked.seed}", flush=True)
        if wrong:
            status = 1
            rounds = ("--palette", str(asked.palette)) if asked.palette else ()
            again = " ".join((str(trace), *diff, "--seed", str(asked.seed), *rounds))
            print(f"{wrong}\ntry again: python tests/soak.py {again}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
