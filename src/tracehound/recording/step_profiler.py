"""The profiler of a framework, driven step by step, and the choice of the framework."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from tracehound.errors import TracehoundError

Options = Mapping[str, object]
"""Settings of a framework's profiler by name."""


class Process(NamedTuple):
    """The number of this process in its job, and how many processes the job has."""

    rank: int
    ranks: int


class StepProfiler(Protocol):
    """One recording of a framework's profiler. Each method may raise what the profiler raises."""

    def begin_step(self, step: int) -> None:
        """End the step before, if there is one, and begin this one: the first call is for the warm-up step."""

    def write_trace(self) -> Path:
        """Stop the profiler; the file that it wrote, in the folder of the recording."""

    def abandon(self) -> None:
        """Stop the profiler, whose trace is not wanted, so that another recording can start."""


class Framework(NamedTuple):
    """A framework as the recorder sees it."""

    read_process: Callable[[], Process]
    file_name: Callable[[int], str]
    """The name of the file of a rank."""
    make_profiler: Callable[[Path, int, Options], StepProfiler]
    """A profiler that writes into a folder; its warm-up step is the one before the given number."""
    has_option: Callable[[str], bool]
    """True if its profiler has a setting of this name."""


FRAMEWORKS: Final = {"torch": "tracehound.recording.torch_profiler", "jax": "tracehound.recording.jax_profiler"}
"""The module for each framework, by the name that the framework is imported by."""


def find_framework(name: str | None) -> Framework:
    """The framework of this name, else the one that is imported.

    Raises TracehoundError for an unknown name, and without a name if none of the frameworks is imported or both are.
    """
    known = " or ".join(repr(each) for each in FRAMEWORKS)
    imported = [each for each in FRAMEWORKS if each in sys.modules]
    if name is None and len(imported) != 1:
        found = "torch and jax are both imported" if imported else "neither torch nor jax is imported"
        raise TracehoundError(f"tracehound.record: {found}", remedy=f"give framework={known}")
    chosen = imported[0] if name is None else name
    if chosen not in FRAMEWORKS:
        raise TracehoundError(f"tracehound.record: unknown framework {chosen!r}", remedy=f"give framework={known}")
    framework = import_module(FRAMEWORKS[chosen]).FRAMEWORK
    assert isinstance(framework, Framework)  # noqa: S101, for the type checker
    return framework
