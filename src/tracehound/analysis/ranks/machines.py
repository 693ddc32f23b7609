"""Which ranks have one clock: those of one file, and processes of one machine whose times are the machine's own.

Owns how a machine is known. What the collectives tell of clocks is `offsets`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from tracehound.analysis.result import Scene


def clocks(scene: Scene) -> pl.DataFrame:
    """The clock of each `rank`: the first `part` (file) of the trace that has it.

    PyTorch's times of what runs on the host are those of the machine's clock, so that its processes need no other, as
    long as the trace is on the wall clock. Times of devices are converted from their own clocks, process by process.
    """
    part = [scene.hosts[host].part for host in scene.ranks["host"].to_list()]
    driving = {at for at, device in zip(part, scene.ranks["device"].to_list(), strict=True) if device is not None}
    first = dict[str, int]()
    clock = dict[int, int]()
    for at in sorted(set(part)):
        name = machine(scene.facts[at]) if scene.walled and at not in driving else ""
        clock[at] = first.setdefault(name, at) if name else at
    return pl.DataFrame(
        {"rank": scene.ranks["rank"].cast(pl.Int64), "part": pl.Series([clock[at] for at in part], dtype=pl.Int64)}
    )


def machine(facts: Mapping[str, Any]) -> str:
    """The name of the machine that a PyTorch file records; "" without one, or with one that any machine may have."""
    name = facts.get("host_name")
    return name if isinstance(name, str) and not name.startswith("localhost") else ""
