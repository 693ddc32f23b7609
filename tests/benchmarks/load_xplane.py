"""How long the ops of an XLA profile take from file to table, beside XProf and a rewrite of it in Rust.

    python tests/benchmarks/load_xplane.py --size 80M,200M,2.1G
    python tests/benchmarks/load_xplane.py --from host.xplane.pb --xprof /opt/venv-xprof/bin/xprof

Profiles of each size are made of a real one (see `grow_xplane`). Every program is a whole process, started anew, the
file in the page cache; they take turns, and the table has the medians. `cpu` is the time of all its processes, and
`peak MB` the most memory that they had together with no file behind it: pages of a mapped profile do not count. Cold
means that nothing was kept of the profile; XProf keeps results in the profile's folder and in that for temporary files,
xprof-rs keeps none. A ratio compares with the first line of its group.

Tracehound is asked for its ops. `get_top_hlo_ops` of the others answers the same; `aggregate_xplane_events` counts and
times every name on every line, whatever the device. XProf finds no ops in a profile of CPU devices, so its table can be
compared with ours only where `--from` is one of a GPU or a TPU.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import measure
from grow_xplane import Grown, grow
from measure import Limits, Program

from tracehound.store.worker_pool import default_jobs

SOURCE = next((Path(__file__).parents[2] / "traces" / "jax_cpu8_b128").rglob("*.xplane.pb"))
COMMANDS = "get_top_hlo_ops,aggregate_xplane_events"
ALL = "1000000"


def ours(profile: Path, kept: Path, jobs: int) -> list[Program]:
    """Tracehound, cold and from its cache, with workers (where it takes them) and without."""
    cold, cached = "ops, cold", "ops, cached"
    empty = partial(measure.emptied, kept)
    programs = [
        Program(cold, _ops(profile, kept, "--jobs", str(jobs)), prepare=empty),
        Program(cached, _ops(profile, kept, "--jobs", str(jobs))),
    ]
    if jobs > 1:
        programs += [
            Program("ops, cold --jobs 1", _ops(profile, kept, "--jobs", "1"), cold, empty),
            Program("ops, cached --jobs 1", _ops(profile, kept, "--jobs", "1"), cached),
        ]
    return programs


def peers(profile: Path, kept: Path, asked: argparse.Namespace) -> list[Program]:
    """The others: cold, and again where something was kept."""
    cold, cached = "ops, cold", "ops, cached"
    fresh = partial(_fresh, profile, kept)
    programs = []
    for name, program in (("xprof", asked.xprof), ("xprof-rs", asked.xprof_rs)):
        missing = "" if shutil.which(program) else "not installed"
        for command in asked.commands.split(","):
            for against, prepare in ((cold, fresh), (cached, measure.nothing)):
                how = f"{name} {command.partition('_')[2]}, {against.rpartition(' ')[2]}"
                what = (program, command, str(profile))
                temporary = {"TMPDIR": str(kept)}
                programs.append(Program(how, what, against, prepare, fault, missing, temporary))
    return programs


def _ops(profile: Path, kept: Path, *more: str, top: str = "20") -> tuple[str, ...]:
    command = (sys.executable, "-m", "tracehound", "report", str(profile), "ops", "--top", top)
    return (*command, "--cache", str(kept), *more)


def _fresh(profile: Path, kept: Path) -> None:
    """Remove what a viewer has left beside the profile and elsewhere."""
    measure.emptied(kept)
    for file in profile.rglob("*"):
        if file.is_file() and not file.name.endswith(".xplane.pb"):
            file.unlink()


def fault(output: str) -> str:
    """What is wrong with the answer of a peer."""
    answer = _answer(output)
    if not answer:
        return "no answer"
    if answer.get("status") in ("ERROR", "NO_DATA"):
        return f"failed: {str(answer.get('error', answer.get('message', '')))[:160]}"
    return ""


def _answer(output: str) -> dict[str, Any]:
    """The JSON object that a peer printed, whatever stands around it."""
    start = output.find("{")
    try:
        found = json.JSONDecoder().raw_decode(output[start:])[0] if start >= 0 else {}
    except ValueError:
        found = {}
    return found if isinstance(found, dict) else {}


def agreement(profile: Path, kept: Path, asked: argparse.Namespace, limits: Limits) -> str:
    """A line on whether executions and total time of every op equal XProf's."""
    if not shutil.which(asked.xprof):
        return "not compared with XProf, which is not installed"
    _fresh(profile, kept)
    command = (asked.xprof, "get_hlo_stats", str(profile), "--limit", ALL)
    theirs = measure.once(Program("", command, fault=fault, environment={"TMPDIR": str(kept)}), limits)
    _fresh(profile, kept)
    if theirs.trouble:
        return f"not compared with XProf: {theirs.trouble}"
    mine = measure.once(Program("", _ops(profile, kept, "--format", "json", top=ALL)), limits)
    if mine.trouble:
        return f"not compared with XProf: {mine.trouble}"
    rows = [row for row in json.loads(mine.output)["rows"] if row["program"]]  # copies and the like belong to none
    held = {(row["name"], row["program"]): (row["count"], row["total"]) for row in rows}
    seen = {(row["op_name"], str(row["program_id"])): row for row in _answer(theirs.output)["records"]}
    same = [key for key, row in seen.items() if key in held and _equal(held[key], row)]
    text = f"{len(same)} of XProf's {len(seen)} ops have its count and total time, of {len(held)} here"
    return text if len(same) == len(seen) == len(held) else f"DIFFERS: {text}"


def _equal(mine: tuple[int, int], row: dict[str, Any]) -> bool:
    """The time of XProf is a float, of microseconds."""
    return mine[0] == row["occurrences"] and math.isclose(mine[1], row["total_time_us"] * 1e6, rel_tol=1e-9)


def compare(size: int, asked: argparse.Namespace) -> None:
    """Make a profile, measure all programs on it, print the table."""
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        profile, kept = Path(name) / "profile", Path(name) / "kept"
        file = profile / "plugins" / "profile" / "run" / "host.xplane.pb"
        file.parent.mkdir(parents=True)
        grown = grow(asked.source, file, size)
        limits = measure.limits(asked)
        checked = agreement(profile, kept, asked, limits)
        measure.say(checked)
        mine = ours(profile, kept, asked.jobs)
        programs = [*mine, *peers(profile, kept, asked)]
        taken = measure.take_turns(
            programs, lambda program: asked.runs if program in mine else asked.peer_runs or asked.runs, limits, [file]
        )
        _print(grown, asked, checked, measure.table(measure.grouped(programs), taken), measure.quiet(taken))


def _print(grown: Grown, asked: argparse.Namespace, checked: str, table: list[str], quiet: str) -> None:
    print()
    print(f"{measure.size_text(grown.size)}, {grown.events:,} events: {asked.source.name} x {grown.copies}")
    print(f"medians of {asked.runs} runs, {asked.peer_runs or asked.runs} of the peers; {quiet}")
    print(checked, *table, sep="\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="80M,200M", help="sizes, comma-separated")
    parser.add_argument("--from", dest="source", type=Path, default=SOURCE, help="the real xplane.pb they are made of")
    parser.add_argument("--xprof", default="xprof", help="the command line of XProf")
    parser.add_argument("--xprof-rs", default="xprof-rs", help="that of xprof-rs")
    parser.add_argument("--commands", default=COMMANDS, help="what the others are asked for, comma-separated")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peer-runs", type=int, help="where the peers take too long for as many")
    measure.add_options(parser, default_jobs())
    asked = parser.parse_args()
    print(measure.machine("tracehound", "polars", "numpy"))
    for size in map(measure.size_of, asked.size.split(",")):
        compare(size, asked)


if __name__ == "__main__":
    main()
