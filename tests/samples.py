"""The project's own captures, each read once in a process, when a test first asks for it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tracehound.model.trace import Trace
from tracehound.store import load_trace, open_trace_files

TRACES = Path(__file__).resolve().parents[1] / "traces"
NAMES = tuple(sorted(path.name for path in TRACES.iterdir() if path.is_dir() and not path.name.startswith("_")))
FAMILIES = ("torch_ddp_gloo", "jax_cpu8_b4096", "torch_xla_single")
"""One capture of each family of formats: of PyTorch, of JAX, and of PyTorch/XLA."""


@cache
def sample(name: str) -> Trace:
    return load_trace(open_trace_files([TRACES / name]))
