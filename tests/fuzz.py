"""A long hunt for inputs that a reader cannot bear: ``python tests/fuzz.py [--seconds 600] [json gzip chrome ...]``.

Small real traces are damaged and read again, in a process of their own with a limit on memory. It is a finding when a
reader raises anything but a TracehoundError, takes too long, dies, loses events without a note, or gives an event that
ends before it starts. Each finding is a line with the number from which `--seed` makes it again; `--keep` saves it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from types import FrameType
from typing import NamedTuple

import polars as pl

from tracehound.errors import TracehoundError
from tracehound.formats import CHROME, KINETO, MEMORY_TIMELINE, XPLANE, Format, detect_format
from tracehound.formats.inflate import read_all
from tracehound.model.trace import FileFrames

TRACES = Path(__file__).resolve().parents[1] / "traces"
PATIENCE = 10
"""Seconds that one input may take; the readers need a tenth of one for the sound files."""

MEMORY = 3 << 30
"""Bytes of address space beyond what the process has at its start."""


WALL = 1_700_000_000_000_000_000
"""A time of a memory timeline, ns."""


class Seed(NamedTuple):
    """A sound file: its bytes, and whether to damage them packed (`gzip`) or as they are."""

    data: bytes
    format: Format
    packed: bool = False
    low: int = 0
    high: int | None = None


class Damaged(NamedTuple):
    """What became of a seed, and by which damages."""

    data: bytes
    how: tuple[str, ...]


class Finding(Exception):  # noqa: N818  # it is no error of this program
    """What is wrong with how an input was read."""


def inflated(pattern: str) -> list[bytes]:
    return [read_all(path)[0] for path in sorted(TRACES.glob(pattern))]


def beginning(text: bytes, events: int) -> bytes:
    """The document with its first events only."""
    at = text.index(b'"traceEvents"')
    for _ in range(events):
        at = text.index(b'"ph"', at + 1)
    return text[: text.rindex(b"}", 0, at) + 1] + b'], "traceName": "x.json"}'


def seeds(target: str) -> list[Seed]:
    """The sound files of a target."""
    documents = inflated("torch_ddp_gloo/*.json.gz")
    if target == "json":
        large = inflated("torch_stacks/*.json.gz")
        return [Seed(beginning(text, 200), KINETO) for text in documents] + [Seed(text, KINETO) for text in large]
    if target == "gzip":
        small = beginning(documents[0], 400)
        half = len(small) // 2
        members = gzip.compress(small[:half]) + gzip.compress(small[half:])
        return [Seed(gzip.compress(small), KINETO, packed=True), Seed(members, KINETO, packed=True)]
    if target == "memory":
        rows = [[WALL + 1000 * at, 1 + at % 4, (-1) ** at * (at << 12), at % 8] for at in range(400)]
        return [Seed(json.dumps(rows).encode(), MEMORY_TIMELINE)]
    if target == "chrome":
        return [Seed(text, CHROME) for text in inflated("torch_xla_s*/**/*.trace.json.gz")]
    profiles = inflated("torch_xla_*/**/*.xplane.pb")
    if target == "xplane":
        return [Seed(data, XPLANE) for data in profiles]
    return [
        Seed(data, XPLANE, low=data.index(b"parameter"), high=data.rindex(b"parameter"))
        for data in profiles
        if b"parameter" in data
    ]


def cut(data: bytearray, at: int, _: Random) -> None:
    del data[at:]


def flip(data: bytearray, at: int, random: Random) -> None:
    data[at] ^= 1 << random.randrange(8)


def insert(data: bytearray, at: int, random: Random) -> None:
    data[at:at] = random.choice([*(bytes([c]) for c in b'"{}[],:\\\0\xff7'), random.randbytes(random.randrange(1, 40))])


def delete(data: bytearray, at: int, random: Random) -> None:
    del data[at : at + random.choice([1, 1, 2, 8, 100])]


def splice(data: bytearray, at: int, random: Random) -> None:
    start = random.randrange(len(data))
    data[at:at] = data[start : start + random.randrange(1, 2000)]


def overwrite(data: bytearray, at: int, random: Random) -> None:
    size = random.choice([1, 4, 30, 500])
    data[at : at + size] = random.choice([bytes(size), b"\xff" * size, random.randbytes(size)])


def number(data: bytearray, at: int, random: Random) -> None:
    """Another value where a number is likely: a digit of text, or a byte of a varint or a length."""
    here = next((i for i in range(at, min(at + 200, len(data))) if chr(data[i]).isdigit()), at)
    if random.random() < 0.5:
        data[here : here + 1] = random.choice(
            [b"9" * 25, b"-1", b"1e999999999", b"0x1f", b"NaN", b"null", b'"7"', b"{}"]
        )
    else:
        data[at : at + 1] = random.choice([b"\x80", b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\x00", b"\x7f"])


def nest(data: bytearray, at: int, random: Random) -> None:
    data[at:at] = random.choice([b"[", b'{"a":', b'{"ph":"X","args":', b"\x0a\x7f"]) * random.choice([10, 400, 100_000])


DAMAGES: tuple[Callable[[bytearray, int, Random], None], ...] = (
    cut, flip, flip, insert, delete, splice, overwrite, number, number, nest,
)  # fmt: skip


def damaged(seed: Seed, random: Random) -> Damaged:
    """The seed with one damage, or with a few."""
    data, how = bytearray(seed.data), list[str]()
    for _ in range(random.choice([1, 1, 1, 2, 3, 8])):
        high = min(len(data), len(data) if seed.high is None else seed.high)
        if high <= seed.low:
            break
        damage = random.choice(DAMAGES)
        at = random.randrange(seed.low, high)
        damage(data, at, random)
        how.append(damage.__name__)
    return Damaged(bytes(data), tuple(how))


def said(part: FileFrames) -> set[tuple[str, str, int]]:
    return {(note.level, note.code, note.count or 0) for note in part.notes}


def drawn(part: FileFrames) -> int:
    """How many events the file itself has: modules may be made of their ops.

    Of one that has none it is the samples of its fullest counter: what happens at one time is one of each.
    """
    if not part.lanes["events"].sum():
        samples = part.counters["lane"].value_counts()["count"].to_list()
        return max(samples, default=0)
    lanes = part.lanes.filter(pl.col("role") != "modules")["lane"]
    return part.events.filter(pl.col("lane").is_in(lanes.to_list())).height


def look(part: FileFrames, known: Format, random: Random) -> None:
    """Raise Finding for what no part may hold, and for args that cannot be shown."""
    late = part.events.filter(pl.col("end") < pl.col("start"))
    if late.height:
        raise Finding(f"{late.height} events end before they start")
    records = part.events["record"].drop_nulls()
    for record in records.sample(min(3, len(records)), seed=random.randrange(1 << 30)):
        try:
            known.reader.args(part, record)
        except TracehoundError:
            continue


DRAWN = {"chrome": 2}
"""So many events an element may be: the op of a CPU lies on its thread and among the ops of the device."""

STATS = 16
"""So many stats an event may have in an xplane. They have the field number of a line's events: behind an event whose
length is damaged they look like events, to whoever reads that wire."""


def tried(found: Damaged, sound: FileFrames, known: Format, path: Path, random: Random) -> None:
    """Read a damaged file. Raises Finding, or whatever the reader raises that it should not."""
    path.write_bytes(found.data)
    try:
        detect_format(path)
        part = known.read(path)
    except TracehoundError as error:
        if "\n" in str(error):
            raise Finding("an error of more than one line") from error
        return
    look(part, known, random)
    lost = drawn(sound) - drawn(part)
    silent = said(part) <= said(sound)
    if (
        lost > len(found.how) * DRAWN.get(known.name, 1)
        and silent
        and (known.name != "xplane" or set(found.how) == {"cut"})
    ):
        raise Finding(f"{lost} events are lost without a note")  # what a wire does not know it may hold: no loss
    most = len(found.how) * (STATS if known.name == "xplane" else 1)
    if -lost > most and not {"splice", "nest"} & set(found.how):
        raise Finding(f"{-lost} events are invented")


def on_alarm(_: int, __: FrameType | None) -> None:
    raise Finding(f"takes more than {PATIENCE} s")


def work(target: str, seed: int, first: int, pipe: Connection) -> None:
    """Try one input after the other and tell of each: its number, then what was found (nothing: all is well)."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    signal.signal(signal.SIGALRM, on_alarm)
    with tempfile.TemporaryDirectory() as folder:
        path, sound = Path(folder) / "trace", list[tuple[Seed, FileFrames]]()
        for one in seeds(target):
            path.write_bytes(one.data)
            sound.append((one, one.format.read(path)))
        for index in range(first, sys.maxsize):
            pipe.send((index, None))
            random = Random(f"{target} {seed} {index}")
            one, part = random.choice(sound)
            signal.alarm(PATIENCE)
            text = ""
            try:
                tried(damaged(one, random), part, one.format, path, random)
            except Finding as found:
                text = str(found)
            except Exception as error:  # noqa: BLE001  # that is what is hunted
                where = traceback.extract_tb(error.__traceback__)[-1]
                text = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"[:300]
            finally:
                signal.alarm(0)
            pipe.send((index, text))


def input_of(target: str, seed: int, index: int) -> Damaged:
    """The input with that number, made again."""
    random = Random(f"{target} {seed} {index}")
    return damaged(random.choice(seeds(target)), random)


def hunt(target: str, seconds: float, seed: int, keep: Path | None) -> int:
    """Try inputs until the time is over; how many findings there were."""
    spawn = multiprocessing.get_context("spawn")
    until, first, findings = math.inf, 0, 0  # the time begins when there is a first answer

    def report(index: int, text: str) -> None:
        nonlocal findings
        findings += 1
        made = input_of(target, seed, index)
        print(f"{target} {index}: {text.splitlines()[0]} [{', '.join(made.how)}]", flush=True)
        if keep:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{target}-{seed}-{index}").write_bytes(made.data)

    while time.monotonic() < until:
        ours, theirs = spawn.Pipe()
        worker = spawn.Process(target=work, args=(target, seed, first, theirs), daemon=True)
        worker.start()
        theirs.close()
        current: int | None = None
        try:
            while time.monotonic() < until and ours.poll(60 if current is None else 3 * PATIENCE):
                index, text = ours.recv()
                current, first = index, index + 1
                until = min(until, time.monotonic() + seconds)
                if text:
                    report(index, text)
            if time.monotonic() < until and current is not None:
                report(current, "hangs and cannot be stopped")
        except EOFError:
            worker.join()
            if current is None:
                raise
            report(current, f"kills the process (exit {worker.exitcode})")
        finally:
            worker.kill()
            worker.join()
    print(f"{target}: {first} inputs, {findings} findings", flush=True)
    return findings


TARGETS = ("json", "gzip", "memory", "chrome", "xplane", "hlo")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all unless told")
    parser.add_argument("--seconds", type=float, default=600, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for the inputs of findings")
    chosen = parser.parse_args()
    if unknown := set(chosen.targets) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    os.environ.setdefault("POLARS_MAX_THREADS", "2")
    return (
        1
        if sum([hunt(target, chosen.seconds, chosen.seed, chosen.keep) for target in chosen.targets or TARGETS])
        else 0
    )


if __name__ == "__main__":
    sys.exit(main())
