"""Runs programs side by side and says what each took: wall time, processor time, and memory over all its processes.

Owns the running, the sampling and the table of ratios. Knows no program. Times of one machine in one hour are worth
little: the programs take turns, so that a slow moment meets them all, and what counts is their ratio.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import IO

PROC = Path("/proc")
_ERROR = re.compile(r"[\w.]+(Error|Exception)\b")
"""How a line begins that names what was raised."""

TICK = 0.05
"""Most seconds between two samples of memory; a program that has just begun is looked at more often."""

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""What every program is told, as Tracehound tells itself: threads for products of matrices, which nobody makes here,
take a fifth of a start."""

UNITS = {"K": 10**3, "M": 10**6, "G": 10**9}


def accept(output: str) -> str:  # noqa: ARG001, the form of a check
    """A check of a program's output that finds no fault."""
    return ""


def nothing() -> None:
    """The preparation of a program that needs none."""


@dataclass(frozen=True)
class Program:
    """A program to measure.

    `against` names the program that it is compared with; without one others are compared with it. `prepare` comes
    before every run, and takes no part in it. `fault` looks at what was printed and says what is wrong with it.
    `missing` says why the program cannot be run here; `environment` is added to that of its processes.
    """

    name: str
    command: Sequence[str]
    against: str = ""
    prepare: Callable[[], None] = nothing
    fault: Callable[[str], str] = accept
    missing: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Limits:
    """When a program is stopped: after so many seconds, or at so many bytes of memory."""

    seconds: float
    memory: int


@dataclass(frozen=True)
class Run:
    """What one run took: seconds, seconds of processors, bytes; and `elsewhere`, processors that others kept busy."""

    wall: float
    cpu: float
    memory: int
    elsewhere: float
    trouble: str = ""
    output: str = ""


class Watch(threading.Thread):
    """Samples the memory of a process and all its descendants, and stops them when they pass a limit."""

    def __init__(self, process: int, limits: Limits) -> None:
        super().__init__(daemon=True)
        self.process, self.limits = process, limits
        self.peak, self.stopped = 0, ""
        self._over = threading.Event()
        self._parents: dict[int, int] = {}

    def run(self) -> None:
        began = time.monotonic()
        while not self._over.wait(min(TICK, 0.002 + (time.monotonic() - began) / 10)):
            self.peak = max(self.peak, sum(map(_anonymous, self._family())))
            if self.peak > self.limits.memory:
                self.stopped = f"stopped at {size_text(self.limits.memory)} of memory"
            elif time.monotonic() - began > self.limits.seconds:
                self.stopped = f"stopped after {self.limits.seconds:.0f} s"
            if self.stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process, signal.SIGKILL)
                return

    def end(self) -> None:
        self._over.set()
        self.join()

    def _family(self) -> set[int]:
        """The processes that descend from the one watched; only those not seen before are looked up."""
        here = {int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal()} if PROC.is_dir() else set()
        self._parents = {pid: self._parents.get(pid) or _parent(pid) for pid in here}
        family, size = {self.process}, 0
        while len(family) > size:
            size = len(family)
            family |= {pid for pid, parent in self._parents.items() if parent in family}
        return family


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int((PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
    return 0


def _anonymous(pid: int) -> int:
    """Bytes that a process has for itself: no file behind them."""
    with contextlib.suppress(OSError):
        lines = (PROC / str(pid) / "status").read_text("utf-8", "replace").splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))
    return 0


def _busy() -> float:
    """Seconds that all processors of the machine were busy so far."""
    with contextlib.suppress(OSError):
        fields = [int(word) for word in (PROC / "stat").read_text().split("\n", 1)[0].split()[1:]]
        return (sum(fields[:8]) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")
    return 0.0


def once(program: Program, limits: Limits, warm: Iterable[Path] = ()) -> Run:
    """Run a program once, with the files in `warm` in the page cache."""
    program.prepare()
    for path in warm:
        _touch(path)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        environment = {**ONE_THREAD, **os.environ, **program.environment}
        busy, began = _busy(), time.perf_counter()
        process = subprocess.Popen(program.command, stdout=out, stderr=err, env=environment, start_new_session=True)
        watch = Watch(process.pid, limits)
        watch.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        wall = time.perf_counter() - began
        watch.end()
        process.returncode = os.waitstatus_to_exitcode(status)
        cpu = usage.ru_utime + usage.ru_stime
        output = _text(out)
        trouble = watch.stopped or _trouble(process.returncode, output, _text(err)) or program.fault(output)
        return Run(wall, cpu, watch.peak, max(0.0, _busy() - busy - cpu) / wall, trouble, output)


def _touch(path: Path) -> None:
    buffer = bytearray(1 << 20)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _trouble(code: int, output: str, errors: str) -> str:
    if code == 0:
        return ""
    lines = [line.strip() for line in (errors or output).splitlines() if line.strip()]
    named = [line for line in lines if _ERROR.match(line)] or lines
    return f"failed ({code}): {named[-1][:160] if named else ''}"


def take_turns(
    programs: Sequence[Program], runs: Callable[[Program], int], limits: Limits, warm: Sequence[Path]
) -> dict[str, list[Run]]:
    """Every program so often as `runs` says, one after another in each round; one that failed is not run again."""
    taken: dict[str, list[Run]] = {program.name: [] for program in programs}
    for turn in range(max(map(runs, programs))):
        for program in programs:
            mine = taken[program.name]
            if program.missing or turn >= runs(program) or (mine and mine[-1].trouble):
                continue
            mine.append(once(program, limits, warm))
            say(f"{program.name}: {mine[-1].trouble or f'{mine[-1].wall:.2f} s'}")
    return taken


def table(programs: Sequence[Program], taken: Mapping[str, Sequence[Run]]) -> list[str]:
    """A line for each program: medians, and how many times what the program it is compared with takes."""
    width = max(len(program.name) for program in programs) + 2
    lines = [f"{'':{width}}{'wall s':>9}{'ratio':>7}{'cpu s':>9}{'ratio':>7}{'peak MB':>9}{'ratio':>7}"]
    for program in programs:
        if not program.against:
            lines.append("")
        name, mine = ("  " if program.against else "") + program.name, taken[program.name]
        trouble = program.missing or next((run.trouble for run in mine if run.trouble), "")
        if trouble:
            lines.append(f"{name:{width}}  {trouble}")
            continue
        base = taken.get(program.against, ())
        cells = ""
        for measure, scale, digits in (("wall", 1, 2), ("cpu", 1, 2), ("memory", 1e6, 0)):
            value = median(mine, measure)
            cells += f"{value / scale:9.{digits}f}" + ratio(value, median(base, measure) if base else 0.0)
        lines.append((name.ljust(width) + cells).rstrip())
    return lines


def grouped(programs: Sequence[Program]) -> list[Program]:
    """Each program that others are compared with, and those after it."""
    bases = [program for program in programs if not program.against]
    return [one for base in bases for one in (base, *(other for other in programs if other.against == base.name))]


def median(runs: Sequence[Run], measure: str) -> float:
    """Of the runs without trouble; 0 where there is none."""
    return float(statistics.median([getattr(run, measure) for run in runs if not run.trouble] or [0.0]))


def ratio(value: float, base: float) -> str:
    """How many times the base, in 7 characters."""
    if not base or not value:
        return " " * 7
    times = value / base
    return f"{f'x{times:.1f}' if times >= 10 else f'x{times:.2f}':>7}"


def quiet(taken: Mapping[str, Sequence[Run]]) -> str:
    """A line on what others did meanwhile."""
    shares = [run.elsewhere for runs in taken.values() for run in runs]
    return f"others kept {statistics.median(shares):.2f} processors busy meanwhile (at most {max(shares):.2f})"


def machine(*packages: str) -> str:
    """A line on where this runs."""
    models = [line.partition(":")[2].strip() for line in _lines(PROC / "cpuinfo") if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    versions = ", ".join(f"{package} {metadata.version(package)}" for package in packages)
    return (
        f"{models[0] if models else platform.machine()}, {_cores()} cores, {size_text(memory)}; "
        f"Python {platform.python_version()}, {versions}"
    )


def _cores() -> int:
    """Processors that programs started here may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory() -> int:
    """Bytes that programs can still have."""
    for line in _lines(PROC / "meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 8 << 30


def _lines(path: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return path.read_text("utf-8", "replace").splitlines()
    return []


def add_options(parser: argparse.ArgumentParser, jobs: int) -> None:
    """The options of all benchmarks; `jobs` is how many worker processes there are where nobody says."""
    parser.add_argument("--jobs", type=int, default=jobs, help="worker processes")
    parser.add_argument("--seconds", type=float, default=900, help="a run that takes longer is stopped")
    parser.add_argument("--memory", type=size_of, help="one that takes more, too; else 70%% of what is free")
    parser.add_argument("--folder", type=Path, help="where the files are made that are removed in the end")


def limits(asked: argparse.Namespace) -> Limits:
    """The limits that were asked for."""
    return Limits(asked.seconds, asked.memory or int(0.7 * free_memory()))


def emptied(folder: Path) -> None:
    """Make the folder, or remove what it holds."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)


def size_of(text: str) -> int:
    """Bytes of ``100M``, ``2.1G`` or a plain number. Raises ValueError."""
    return int(float(text[:-1]) * UNITS[text[-1]]) if text[-1:] in UNITS else int(text)


def size_text(size: float) -> str:
    if size < 1e6:
        return f"{size / 1e3:.0f} kB"
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def say(text: str) -> None:
    """A line on how far it is."""
    sys.stderr.write(f"{text}\n")
