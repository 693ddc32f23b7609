"""How long the pane of the rank map takes to answer a key, with a thousand ranks and a hundred steps.

    python tests/benchmarks/rank_map.py --ranks 1024 --steps 100
    python tests/benchmarks/rank_map.py --job FOLDER --cache FOLDER

The job is made: a file for each rank with a kernel and a collective in each step, and one slow rank. The explorer reads
it in a pseudo-terminal of each size, as in `explorer.py`, and the keys are pressed when it has come to rest with the
map on the screen. `ms` is the time from a key to the last byte that it causes, `cpu` the work of the thread that draws.
`whole` draws the map in memory, without a terminal: what a key costs where the machine does nothing else.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path

import explorer
import measure
import numpy as np
import polars as pl
from explorer import DOWN, MOVE, Action, Size, late
from pressing import Effect, Terminal

sys.path.insert(0, str(Path(__file__).parents[1]))

from jobs import Rank
from tracehound.analysis.rank_map import COLUMNS
from tracehound.analysis.ranks.rank_step_values import headline_note
from tracehound.analysis.result import empty_table
from tracehound.draw.charts import rank_heat_map
from tracehound.draw.charts.rank_matrix import MapView, RankMapData, bin_map, worst_in_bins, zoom_map
from tracehound.store.worker_pool import default_jobs

RIGHT, LEFT, UP = "\x1b[C", "\x1b[D", "\x1b[A"

ACTIONS = (
    Action("map move", (RIGHT, DOWN, LEFT, UP)),
    Action("map page", ("\x1b[6~", "\x1b[5~")),
    Action("map zoom in, out", "++--"),
    Action("map zoomed, move", (RIGHT, DOWN, DOWN, RIGHT), "0++"),
    Action("map all, zoom in", "0+"),
    Action("map value", "v", "0"),
    Action("map order", "b"),
    Action("map full, and back", "z"),
)
"""Keys of the pane, pressed while it has the focus."""

QUIET = 5.0
"""Seconds without a byte after which the whole job is read and the map computed."""

STEP = 10_000
"""Microseconds of a step."""


def write_job(folder: Path, ranks: int, steps: int) -> Path:
    """Write a job with one slow rank in the middle; every first step is long. Returns its folder."""
    folder.mkdir(parents=True)
    for number in range(ranks):
        dice, rank = random.Random(number), Rank(number, ranks, machine=f"node{number // 8}")
        more = 2500 if number == ranks // 2 else 0
        for step in range(steps):
            begin, length = (0, 7 * STEP) if step == 0 else ((step + 6) * STEP, STEP - 100)
            rank.step(step, begin, begin + length + more // 3)
            rank.kernel("gemm", begin + 50, begin + 100, begin + 4000 + dice.randint(0, 200) + more)
            rank.collective(begin + 60, begin + 6500 + dice.randint(0, 200) + more, begin + length - 200, Seq=step)
        with gzip.open(folder / f"rank{number:04}.json.gz", "wt", compresslevel=1) as file:
            json.dump(rank.document(), file)
    return folder


def pressed(job: Path, cache: Path, size: Size, presses: int, jobs: int) -> dict[str, list[Effect]]:
    """What each action causes at each press, in the explorer of the job."""
    words = (sys.executable, "-m", "tracehound", str(job), "--jobs", str(jobs), "--cache", str(cache), "--reset")
    taken = dict[str, list[Effect]]()
    with Terminal(words, size.columns, size.rows, explorer._environment()) as terminal:
        wait_until_read(terminal)
        for key in "Mr":
            terminal.press(key)
        wait_until_read(terminal)
        for action in ACTIONS:
            for key in action.before:
                terminal.press(key)
            taken[action.name] = [terminal.press(key) for key in islice(cycle(action.keys), presses)]
            measure.say(f"{size} {explorer._line(action, taken[action.name], size).strip()}")
        terminal.press("q")
    return taken


def wait_until_read(terminal: Terminal) -> None:
    """Wait until the program neither writes nor works for a while, however long it reads."""
    while terminal.settle(QUIET):
        pass


def made_table(ranks: int, steps: int) -> pl.DataFrame:
    """The rows of the analysis for so many ranks and steps, one rank slow."""
    dice = np.random.default_rng(1)
    rank, step = np.repeat(np.arange(ranks), steps), np.tile(np.arange(steps), ranks)
    slow = rank == ranks // 2
    columns = {
        "rank": rank,
        "host": [f"node{number // 8}" for number in rank],
        "step": step,
        "start": step * 10**12,
        "step_time": (10**12 * (1 + 0.01 * dice.standard_normal(len(rank)) + 0.3 * slow)).astype(np.int64),
        "busy": 0.9 - 0.2 * slow,
        "late": (10**11 * slow).astype(np.int64),
        "partial": np.zeros(len(rank), bool),
    }
    schema = empty_table(COLUMNS).schema
    missing = [pl.lit(None, kind).alias(name) for name, kind in schema.items() if name not in columns]
    return pl.DataFrame(columns).with_columns(missing).select(schema.names()).cast(schema)


def drawn(ranks: int, steps: int, size: Size, rounds: int) -> dict[str, list[float]]:
    """Seconds for the parts of drawing the map in memory."""
    table, room = made_table(ranks, steps), (size.rows - 9, size.columns - 20)
    data = RankMapData(table)
    matrix = data.matrix("step_time", "rank")
    views = [MapView(), *(zoom_map(matrix, MapView(), 1, *room) for _ in range(3))]

    def draw_all(view: MapView) -> None:
        bins = bin_map(matrix, view, *room)
        levels = matrix.levels(worst_in_bins(matrix, bins))
        for line in range(bins.counts[0]):
            rank_heat_map.map_line(matrix, bins, levels, line, 18)
        rank_heat_map.describe_cell(matrix, view, bins)

    parts: dict[str, Callable[[int], object]] = {
        "whole map": lambda number: draw_all(views[number % len(views)]),
        "prepare the rows": lambda _: RankMapData(table),
        "another value, first time": lambda _: RankMapData(table).matrix("late", "value"),
        "another order": lambda number: data.matrix("step_time", ("host", "value", "rank")[number % 3]),
        "headline": lambda _: headline_note(table, "late"),
    }
    return {name: [_timed(part, number) for number in range(rounds)] for name, part in parts.items()}


def _timed(part: Callable[[int], object], number: int) -> float:
    began = time.perf_counter()
    part(number)
    return time.perf_counter() - began


def report(taken: dict[str, list[Effect]], size: Size) -> list[str]:
    """A line for each action."""
    return [str(size), explorer.HEAD.rstrip(), *(explorer._line(each, taken[each.name], size) for each in ACTIONS)]


def main() -> None:
    """Draw in memory, then make a job, read it, and press keys."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument(
        "--sizes", type=lambda text: [Size.of(word) for word in text.split(",")], default="80x24,200x50"
    )
    parser.add_argument("--presses", type=int, default=40, help="of each action")
    parser.add_argument("--jobs", type=int, default=default_jobs(), help="worker processes that read")
    parser.add_argument("--job", type=Path, help="a job that was made before")
    parser.add_argument("--cache", type=Path, help="where it is kept as read, for another time")
    parser.add_argument("--in-memory", action="store_true", help="draw in memory alone")
    asked = parser.parse_args()
    lines = [measure.machine("tracehound", "textual", "polars"), f"{asked.ranks:,} ranks x {asked.steps} steps"]
    for size in asked.sizes:
        lines += ["", f"{size} in memory, ms: median, p95", *_part_lines(asked, size)]
    print(*lines, sep="\n", flush=True)
    if not asked.in_memory:
        with tempfile.TemporaryDirectory() as name:
            job = asked.job or write_job(Path(name) / "job", asked.ranks, asked.steps)
            for size in asked.sizes:
                taken = pressed(job, asked.cache or Path(name) / "cache", size, asked.presses, asked.jobs)
                print("", *report(taken, size), f"target: {MOVE} ms", sep="\n", flush=True)


def _part_lines(asked: argparse.Namespace, size: Size) -> Sequence[str]:
    parts = drawn(asked.ranks, asked.steps, size, asked.presses)
    return [f"{name:26}{1000 * float(np.median(each)):7.1f}{1000 * late(each):7.1f}" for name, each in parts.items()]


if __name__ == "__main__":
    main()
