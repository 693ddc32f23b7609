"""From the end of a capture to its first finding: one command, against a plain client and then a report.

    python tests/benchmarks/live_capture.py --duration 2 --runs 5

A JAX job with a slow loader steps on loopback (`tests/live_jax.py`). Each run captures it once. The plain client is
what gRPC takes at the least: a request, a reply, a file; `tracehound report ... findings` then begins anew. The cache
is empty each time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import measure
from measure import Program

sys.path.insert(0, str(Path(__file__).parents[1]))

from live_jax import jobs
from tracehound.store.worker_pool import default_jobs

TOGETHER, APART = "tracehound capture --findings", "plain client, tracehound report"


def report_command(path: str, cache: str) -> list[str]:
    """The command that prints the findings of a file."""
    return [sys.executable, "-m", "tracehound", "report", path, "findings", "--top", "1", "--cache", cache]


def capture_plainly(address: str, milliseconds: int, path: Path) -> None:
    """Capture with nothing but gRPC, and write the profile to a file."""
    import grpc  # noqa: PLC0415, the other programs have no use for it

    def varint(value: int) -> bytes:
        return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])

    options = bytes([8, 1, 16, 2, 24, 1, 32, 1, 40, 1, 56, 1, 72]) + varint(milliseconds)
    request = b"\x22" + varint(len(options)) + options + b"\x32\x09benchmark" + b"\x48\x01"
    with grpc.insecure_channel(address, [("grpc.max_receive_message_length", -1)]) as channel:
        reply: bytes = channel.unary_unary("/tensorflow.ProfilerService/Profile")(request, timeout=300)
    begin = next(at for at in range(1, 12) if reply[at] < 128) + 1  # the profile is the only field
    path.write_bytes(reply[begin:])


def print_findings_apart(address: str, milliseconds: int, cache: str) -> None:
    """Capture plainly, then print the findings with the program."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "host.xplane.pb"
        capture_plainly(address, milliseconds, path)
        subprocess.run(report_command(str(path), cache), check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duration", type=float, default=2.0, help="seconds that are captured")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--apart", nargs=2, help=argparse.SUPPRESS)
    measure.add_options(parser, default_jobs())
    asked = parser.parse_args()
    milliseconds = round(asked.duration * 1000)
    if asked.apart:
        print_findings_apart(asked.apart[0], milliseconds, asked.apart[1])
        return
    with tempfile.TemporaryDirectory(dir=asked.folder) as name, jobs("loader") as (address,):
        cache, logs = Path(name) / "cache", Path(name) / "logs"
        length = ("--duration", f"{milliseconds}ms")
        answer = ("--findings", "--top", "1", "--cache", str(cache))
        whole = (sys.executable, "-m", "tracehound", "capture", address, str(logs), *length, *answer)
        parts = (sys.executable, __file__, "--apart", address, str(cache), "--duration", str(asked.duration))
        clear = partial(measure.emptied, cache)
        programs = [
            Program(APART, parts, prepare=clear, fault=missing_cause),
            Program(TOGETHER, whole, APART, clear, missing_cause),
        ]
        taken = measure.take_turns(programs, lambda _: asked.runs, measure.limits(asked), [])
    print(measure.machine("tracehound", "grpcio", "jax"))
    print(f"medians of {asked.runs} runs, {asked.duration:g} s captured in each; {measure.quiet(taken)}")
    print(*measure.table(measure.grouped(programs), taken), sep="\n")
    for program in programs:
        after = measure.median(taken[program.name], "wall") - asked.duration
        print(f"{program.name}: {after:.2f} s more than the capture lasts")


def missing_cause(output: str) -> str:
    """A fault if the planted cause is not found."""
    return "" if "data loading" in output else "the planted cause is not the first finding"


if __name__ == "__main__":
    main()
