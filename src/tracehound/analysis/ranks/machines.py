"""Which ranks have one clock: those of one file, and processes of one machine whose times are the machine's own.

Owns how a machine is known. What the collectives tell of clocks is `offsets`'s.
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from tracehound.analysis.result import Scene
from tracehound.file_facts import FileFacts


def clocks(scene: Scene) -> pl.DataFrame:
    """The clock of each `rank`: the first `part` (file) of the trace that has it, and the first of its `machine`.

    `begun` and `closed` are when the rank was recorded by the wall clock, as far as its file has one (Unix, ns).

    PyTorch's times of what runs on the host are those of the machine's clock, so that its processes need no other, as
    long as the trace is on the wall clock. Times of devices are converted from their own clocks, process by process:
    on one machine they differ by some microseconds.
    """
    part = [scene.hosts[host].part for host in scene.ranks["host"].to_list()]
    driving = {at for at, device in zip(part, scene.ranks["device"].to_list(), strict=True) if device is not None}
    every = set(part)
    own, together = _first(scene, every - driving), _first(scene, every)
    begun, ended = zip(*(scene.recorded[at] or (None, None) for at in part), strict=True) if part else ((), ())
    columns = {
        "part": [own.get(at, at) for at in part],
        "machine": [together[at] for at in part],
        "begun": begun,
        "closed": ended,
    }
    return pl.DataFrame({"rank": scene.ranks["rank"], **columns}, strict=False).cast(pl.Int64)


def _first(scene: Scene, parts: Collection[int]) -> dict[int, int]:
    """Of each of these parts the first that is of the same machine: itself, where none is known."""
    first = dict[str, int]()
    names = {at: machine(scene.facts[at]) if scene.walled else "" for at in sorted(parts)}
    return {at: first.setdefault(name, at) if name else at for at, name in names.items()}


def machine(facts: FileFacts) -> str:
    """The name of the machine that a PyTorch file records; "" without one, or with one that any machine may have."""
    name = facts.machine
    return name if name is not None and not name.startswith("localhost") else ""
