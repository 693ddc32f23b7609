"""What a step of inference does: read a prompt (prefill), make tokens (decode), or both at once (mixed).

Owns how engines call such steps, and from what steps that no profiler marked were inferred. Knows no events.
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from tracehound.notes import Note, note

PREFILL, DECODE, MIXED = "prefill", "decode", "mixed"

_COUNTS: Final = re.compile(r"context_(\d++).*?generation_(\d+)")
"""vLLM's ``execute_8192_context_9(...)_generation_37(...)``: requests whose prompt is read, and in decode."""

_WORDS: Final = (
    (MIXED, re.compile(r"(?<![a-z])mixed(?![a-z])", re.IGNORECASE)),
    (PREFILL, re.compile(r"(?<![a-z])(?:prefill|extend|context_?(?:phase|encoding))(?![a-z])", re.IGNORECASE)),
    (DECODE, re.compile(r"(?<![a-z])(?:decode|decoding|generation_?phase|token_?generation)(?![a-z])", re.IGNORECASE)),
)
"""What others put into their names: SGLang's ``step[DECODE bs=32]`` and ``step[EXTEND ...]``, ``prefill``."""


def phase(name: str) -> str | None:
    """The phase of a step of this name; None where the name tells none."""
    if counts := _COUNTS.search(name):
        prompts, tokens = (int(count) > 0 for count in counts.groups())
        return (MIXED if tokens else PREFILL) if prompts else DECODE if tokens else None
    return next((which for which, pattern in _WORDS if pattern.search(name)), None)


def phases(names: pl.Series) -> pl.Series:
    """The phases of steps of these names, null where they tell none."""
    known = {name: phase(name) for name in names.unique().drop_nulls().to_list()}
    return pl.Series("phase", [known.get(name) for name in names.to_list()], pl.String)


def inference(names: pl.Series) -> Note:
    """That steps were inferred from events of these names."""
    name = str(names[0])
    if name.startswith("Optimizer."):
        source = "optimizer"
    elif name.endswith("GraphLaunch"):
        source = "graph"
    else:
        source = "execution" if names.n_unique() == 1 else "annotation"
    return note("inferred_steps", level="inferred", source=source, name=name)
