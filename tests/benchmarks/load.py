"""How long a PyTorch trace takes from file to columns, to a page and to a table, beside what others need for as much.

    python tests/benchmarks/load.py --size 1G
    python tests/benchmarks/load.py --size 100M --gz --peers json,orjson,hta --hta-python /opt/venv-hta/bin/python

The trace is made of a real one (see `grow_kineto`). Every program is a whole process, started anew, the file in the
page cache; they take turns, and the table has the medians. `cpu` is the time of all its processes, `peak MB` the most
memory that they had together with no file behind it. A ratio compares with the first line of its group. The groups:

columns      every event decoded into columns; `json.loads` makes a document of it, `parse_trace_dataframe` a frame
tables       breakdown, kernels, overlap and idle time of a file never seen; HTA's trace and the same four of its tables
page         the whole summary of a file never seen
table        a first table of a file that was read before, from the cache
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from functools import partial
from pathlib import Path

import measure
from grow_kineto import grow
from measure import Limits, Program

from tracehound.store.worker_pool import default_jobs

HERE = Path(__file__).parent
SOURCE = next((HERE.parents[1] / "traces" / "torch_stacks").glob("*.json.gz"))
PEERS = ("json", "orjson", "hta")
PACKAGES = ("tracehound", "polars", "msgspec", "orjson")


def ours(file: Path, folder: Path, jobs: int) -> list[Program]:
    """Tracehound with workers and without. A cold run begins with an empty folder, a cached one after a cold one."""
    empty = partial(measure.emptied, folder)
    said = "" if jobs == 1 else f" --jobs {jobs}"
    columns, first, page, again = (
        f"{name}{said}" for name in ("columns", "four tables, cold", "summary, cold", "ops, cached")
    )
    programs = [
        Program(columns, _script("columns", file, folder, jobs), prepare=empty),
        Program(first, _script("tables", file, folder, jobs), prepare=empty),
        Program(page, _command("summary", file, folder, jobs), prepare=empty),
        Program(again, _command("report", file, folder, jobs, "ops", "--top", "10")),
        Program(f"trace placed, cold{said}", _script("load", file, folder, jobs), page, empty),
        Program("start, no trace", (sys.executable, "-m", "tracehound", "report", "--list"), again),
    ]
    if jobs > 1:
        programs += [
            Program("columns --jobs 1", _script("columns", file, folder, 1), columns, empty),
            Program("four tables, cold --jobs 1", _script("tables", file, folder, 1), first, empty),
            Program("summary, cold --jobs 1", _command("summary", file, folder, 1), page, empty),
            Program("ops, cached --jobs 1", _command("report", file, folder, 1, "ops", "--top", "10"), again),
        ]
    return programs


def peers(file: Path, asked: argparse.Namespace, columns: str, first: str) -> list[Program]:
    """The others; those that are not there say so."""
    wanted, hta = asked.peers.split(","), asked.hta_python or sys.executable
    found = []
    if "json" in wanted:
        found.append(("json.loads", sys.executable, "json", columns, ""))
    if "orjson" in wanted:
        found.append(("orjson.loads", sys.executable, "orjson", columns, ""))
    if "hta" in wanted:
        version = _version(hta, "HolisticTraceAnalysis")
        missing = "" if version else "not installed"
        name = f"HTA {version}".strip()
        found.append((f"{name} parse_trace_dataframe", hta, "hta-parse", columns, missing))
        found.append((f"{name} four tables", hta, "hta-tables", first, missing))
    programs = [
        Program(name, (python, str(HERE / "peers.py"), way, str(file)), against, missing=missing)
        for name, python, way, against, missing in found
    ]
    if asked.native:
        programs.append(Program(asked.native.name, (str(asked.native), str(file)), columns))
    return programs


def _script(way: str, file: Path, folder: Path, jobs: int) -> tuple[str, ...]:
    return (sys.executable, str(HERE / "ours.py"), way, str(file), "--jobs", str(jobs), "--folder", str(folder))


def _command(command: str, file: Path, folder: Path, jobs: int, *more: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "tracehound", command, str(file), *more, "--jobs", str(jobs), "--cache", str(folder))


def _version(python: str, package: str) -> str:
    """The version of a package in the environment of an interpreter; "" where it is not installed."""
    asking = Program("", (python, "-c", f"from importlib.metadata import version; print(version({package!r}))"))
    return measure.once(asking, Limits(60, 4 << 30)).output.strip()


def agreement(file: Path, folder: Path, jobs: int, limits: Limits) -> str:
    """A line on whether Tracehound holds the events that `json` sees, and as much time."""
    measure.emptied(folder)
    mine = measure.once(Program("", _script("sums", file, folder, jobs)), limits)
    theirs = measure.once(Program("", (sys.executable, str(HERE / "peers.py"), "sums", str(file))), limits)
    if mine.trouble or theirs.trouble:
        return f"not compared with json.loads: {mine.trouble or theirs.trouble}"
    held, seen = json.loads(mine.output), json.loads(theirs.output)
    what = f"{held['events']:,} events of {held['time']:,} ps"
    if (held["events"], held["time"]) == (seen["events"], seen["time"]):
        return f"as in json.loads: {what} (of {seen['elements']:,} elements)"
    return f"DIFFERS from json.loads: {what}, there {seen['events']:,} of {seen['time']:,} ps"


def main() -> None:
    asked = _asked()
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        file, folder = Path(name) / f"trace.json{'.gz' if asked.gz else ''}", Path(name) / "cache"
        grown = grow(asked.source, file, asked.size)
        limits = measure.limits(asked)
        mine = ours(file, folder, asked.jobs)
        columns, first = (program.name for program in mine[:2])
        programs = [*mine, *peers(file, asked, columns, first)]
        checked = agreement(file, folder, asked.jobs, limits)
        measure.say(checked)
        taken = measure.take_turns(
            programs, lambda program: asked.runs if program in mine else asked.peer_runs or asked.runs, limits, [file]
        )
        packed = f", {measure.size_text(file.stat().st_size)} packed" if asked.gz else ""
        print(measure.machine(*PACKAGES))
        made = f"{grown.events:,} elements: {asked.source.name} x {grown.copies}"
        print(f"{measure.size_text(grown.size)} of JSON{packed}, {made}")
        print(f"medians of {asked.runs} runs, {asked.peer_runs or asked.runs} of the peers; {measure.quiet(taken)}")
        print(checked, *measure.table(measure.grouped(programs), taken), sep="\n")


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=measure.size_of, default=measure.size_of("100M"), help="of the JSON, as in 100M")
    parser.add_argument("--gz", action="store_true", help="packed with gzip")
    parser.add_argument("--from", dest="source", type=Path, default=SOURCE, help="the real trace that it is made of")
    parser.add_argument("--peers", default=",".join(PEERS), help="of json, orjson, hta; comma-separated")
    parser.add_argument("--hta-python", help="the interpreter that has HolisticTraceAnalysis")
    parser.add_argument("--native", type=Path, help="a program that parses the file (plain) that it is given")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peer-runs", type=int, help="where the peers take too long for as many")
    measure.add_options(parser, default_jobs())
    return parser.parse_args()


if __name__ == "__main__":
    main()
