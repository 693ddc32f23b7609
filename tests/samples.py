"""The project's own captures, each read once in a process, when a test first asks for it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tracehound.store import load, open_paths
from tracehound.trace import Trace

TRACES = Path(__file__).resolve().parents[1] / "traces"
NAMES = tuple(sorted(path.name for path in TRACES.iterdir() if path.is_dir() and not path.name.startswith("_")))
FAMILIES = ("torch_ddp_gloo", "jax_cpu8_b4096", "torch_xla_single")
"""One capture of each family of formats: of PyTorch, of JAX, and of PyTorch/XLA."""


@cache
def sample(name: str) -> Trace:
    return load(open_paths([TRACES / name]))


def some(names: Iterable[str], chosen: Iterable[str] = FAMILIES) -> list[Any]:
    """Parameters of a test: these captures; those that are not chosen are left to the thorough run."""
    quick = set(chosen)
    return [name if name in quick else pytest.param(name, marks=pytest.mark.thorough) for name in names]
