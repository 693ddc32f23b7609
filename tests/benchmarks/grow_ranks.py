"""A job of many ranks made of one real PyTorch trace, with one slow rank for which all others wait.

    python tests/benchmarks/grow_ranks.py SOURCE FOLDER RANKS

Each rank has the first events of the source, with its own rank, machine and times; process groups have all ranks. The
slow rank computes longer before each collective, and the collective of every other rank is longer by the same time.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]

SLOW_NS = 2_000_000
"""How much longer the slow rank computes before each collective."""

JITTER_NS = 50_000
"""Every other rank is late by less than this."""

RANKS_PER_MACHINE = 8

MEMBERS_SPELT = 30
"""PyTorch writes so many members of a group beside a call, and the file's head has all of them."""


def slow_rank(ranks: int) -> int:
    """The rank that is slow in a job of so many."""
    return ranks // 3


def write_job(source: Path, folder: Path, ranks: int, events: int = 4000) -> None:
    """Write the files of a job whose ranks have the first so many events of the source. Raises ValueError for none."""
    rank_file = _RankFile.of(source, ranks, events)
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        with gzip.open(folder / f"rank{rank}.pt.trace.json.gz", "wt", compresslevel=1, encoding="utf-8") as file:
            file.write(rank_file.text(rank))


@dataclass(frozen=True)
class _RankFile:
    """The file of any rank: its `head`, and its events as text `pieces` around `start` and `duration` (ns).

    Before collective i compute ends at `computed[i]`, and the collective ends at `ended[i]`.
    """

    head: dict[str, Any]
    ranks: int
    pieces: Sequence[str]
    start: Times
    duration: Times
    computed: Times
    ended: Times

    @classmethod
    def of(cls, source: Path, ranks: int, events: int) -> _RankFile:
        """The file as the source has it."""
        content = source.read_bytes()
        document = json.loads(gzip.decompress(content) if source.suffix == ".gz" else content)
        timed = sorted((each for each in document.pop("traceEvents") if "ts" in each), key=lambda each: each["ts"])
        complete = [each for each in timed if "dur" in each][:events]
        if not complete:
            raise ValueError(f"{source} has no events")
        kept = [each for each in timed if each["ts"] <= complete[-1]["ts"]]
        start = _nanoseconds([each["ts"] for each in kept])
        duration = _nanoseconds([each.get("dur", 0) for each in kept])
        computed, ended = _collectives(kept, start, start + duration)
        pieces = [_text(each, ranks) for each in kept]
        return cls(document, ranks, pieces, start, duration, computed, ended)

    def text(self, rank: int) -> str:
        """The file of one rank as JSON."""
        late = np.random.default_rng(rank).integers(0, JITTER_NS, len(self.computed))
        if rank == slow_rank(self.ranks):
            late[:] = SLOW_NS
        start, end = (self._moved(times, late) for times in (self.start, self.start + self.duration))
        times = zip(self.pieces, _microseconds(start), _microseconds(end - start), strict=True)
        events = ",".join(f'{said}{begin},"dur":{length}}}' for said, begin, length in times)
        return f'{json.dumps(self._head_of(rank))[:-1]},"traceEvents":[{events}]}}'

    def _moved(self, times: Times, late: Times) -> Times:
        """Times of a rank that is so late at each collective, at which everybody is `SLOW_NS` later in the end."""
        moments = np.concatenate([self.computed, self.ended])
        more = np.concatenate([late, SLOW_NS - late])
        order = np.argsort(moments, kind="stable")
        passed = np.append(0, np.cumsum(more[order]))
        return times + passed[np.searchsorted(moments[order], times, side="right")]

    def _head_of(self, rank: int) -> dict[str, Any]:
        """What the file of a rank says about its job."""
        about = self.head.get("distributedInfo", {})
        everyone = {"pg_size": self.ranks, "ranks": list(range(self.ranks))}
        groups = [{**group, **everyone} for group in about.get("pg_config", ())]
        said = {**about, "rank": rank, "world_size": self.ranks, "pg_config": groups}
        return {**self.head, "host_name": f"node{rank // RANKS_PER_MACHINE:04}", "distributedInfo": said}


def _nanoseconds(times: Sequence[float]) -> Times:
    return np.array([round(time * 1000) for time in times], np.int64)


def _microseconds(times: Times) -> list[str]:
    return [f"{time // 1000}.{time % 1000:03}" for time in times.tolist()]


def _text(event: dict[str, Any], ranks: int) -> str:
    """The event as JSON up to the number of its start."""
    said = {name: value for name, value in event.items() if name not in ("ts", "dur")}
    arguments = dict(said.get("args", {}))
    if "Group size" in arguments:
        spelt = [*map(str, range(ranks))] if ranks <= MEMBERS_SPELT else [*map(str, range(29)), "...", str(ranks - 1)]
        arguments |= {"Group size": ranks, "Process Group Ranks": f"[{', '.join(spelt)}]"}
        said["args"] = arguments
    return f'{json.dumps(said)[:-1]},"ts":'


def _collectives(events: Sequence[dict[str, Any]], start: Times, end: Times) -> tuple[Times, Times]:
    """When compute ends before each collective, and when the collective ends; of those that overlap only the first."""
    collective = np.array([_is_collective(each) for each in events])
    device = any(each.get("cat") == "kernel" for each in events)
    compute = np.array([each.get("cat") == ("kernel" if device else "cpu_op") for each in events]) & ~collective
    computed, ended, busy_until = [], [], 0
    for begin, until in zip(start[collective].tolist(), end[collective].tolist(), strict=True):
        last = int(end[compute & (end <= begin)].max(initial=0))
        if last > busy_until:
            computed.append(last)
            ended.append(until)
        busy_until = max(busy_until, until)
    return np.array(computed, np.int64), np.array(ended, np.int64)


def _is_collective(event: dict[str, Any]) -> bool:
    name, cat = event.get("name", ""), event.get("cat")
    point_to_point = "send" in name.lower() or "recv" in name.lower()
    on_device, on_host = cat == "kernel" and name.startswith("nccl"), name.startswith("gloo:")
    return (on_device or on_host) and not point_to_point


def main() -> None:
    """Write a job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("ranks", type=int)
    asked = parser.parse_args()
    write_job(asked.source, asked.folder, asked.ranks)
    print(f"{asked.folder}: {asked.ranks} ranks, rank {slow_rank(asked.ranks)} is slow")


if __name__ == "__main__":
    main()
