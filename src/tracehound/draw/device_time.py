"""What devices and the steps of XLA programs are made of -> bars that are divided as their time is.

Owns which parts are drawn with what. Knows no colours.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import polars as pl

from tracehound.analysis.result import Result
from tracehound.draw.divided import divided

STEP = MappingProxyType(
    {
        "compute": "█",
        "collectives": "▓",
        "input": "i",
        "output": "o",
        "device_to_device": "░",
        "compile": "c",
        "host": "h",
        "other": "∙",
    }
)
"""The parts of a step and what they are drawn with, in the order in which they stand in a bar."""

DEVICE = MappingProxyType(
    {name: STEP[name] for name in ("compute", "collectives", "input", "output", "device_to_device")}
)


def step_time(result: Result, cursor: int, size: tuple[int, int]) -> list[str]:
    """A bar for each step, as long as the step; or for each rank, divided as an average whole step is."""
    table = result.table
    if "step" not in table.columns:
        return _bars(table, [f"rank {rank}" for rank in table["rank"]], STEP, cursor, size)
    several = table["rank"].n_unique() > 1
    labels = [
        f"step {step} rank {rank}" if several else f"step {step}"
        for step, rank in table.select("step", "rank").iter_rows()
    ]
    return _bars(table, labels, STEP, cursor, size)


def duty_cycle(result: Result, cursor: int, size: tuple[int, int]) -> list[str]:
    """A bar for each rank, as long as its device time."""
    labels = [f"rank {rank}" for rank in result.table["rank"]]
    return _bars(result.table, labels, {**DEVICE, "idle": "∙"}, cursor, size)


def _bars(
    table: pl.DataFrame, labels: list[str], glyphs: Mapping[str, str], cursor: int, size: tuple[int, int]
) -> list[str]:
    parts = table.select(pl.col(name).fill_null(0) for name in glyphs).to_numpy().astype(np.int64)
    return divided(labels, parts, glyphs, cursor, size)
