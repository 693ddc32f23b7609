"""The profiler of PyTorch, with the settings that the analyses need."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, Final

from tracehound.recording.step_profiler import Framework, Options, Process

_SETTINGS: Final[Options] = {"record_shapes": True, "with_stack": True}
"""Arguments of `torch.profiler.profile`. Its default activities are the CPU and each kind of device that is there."""


class TorchProfiler:
    """A recording of `torch.profiler.profile` into `folder`; the step before `first_step` warms the profiler up."""

    def __init__(self, folder: Path, first_step: int, options: Options) -> None:
        self._file = folder / "trace.json"
        self._first_step = first_step
        self._options = options
        self._profile: Any = None

    def begin_step(self, step: int) -> None:
        """Start the profiler at the warm-up step; later only mark the step."""
        if self._profile is not None:
            self._profile.step()
            return
        profiler = import_module("torch.profiler")
        action, first = profiler.ProfilerAction, self._first_step
        settings: Mapping[str, object] = {**_SETTINGS, **self._options}
        self._profile = profiler.profile(
            schedule=lambda number: action.WARMUP if number < first else action.RECORD, **settings
        )
        self._profile.step_num = step  # marks carry the number of the job's step
        self._profile.start()

    def write_trace(self) -> Path:
        """Stop the profiler and write plain JSON: compressing it would hold up the job for several times as long.

        Raises OSError if the file is not complete, of which the profiler only prints a message.
        """
        self._profile.stop()
        self._profile.export_chrome_trace(str(self._file))
        if not _is_complete(self._file):
            raise OSError("PyTorch's profiler could not write its file: is the disk full?")
        return self._file

    def abandon(self) -> None:
        """Stop the profiler."""
        if self._profile is not None:
            self._profile.stop()


def _is_complete(file: Path) -> bool:
    """True if a file exists and ends as a JSON object does."""
    with suppress(OSError), file.open("rb") as content:
        content.seek(max(0, file.stat().st_size - 16))
        return content.read().rstrip().endswith(b"}")
    return False


def read_process() -> Process:
    """The rank of this process: of `torch.distributed`, else of the environment that torchrun sets, else 0 of 1."""
    distributed: Any = import_module("torch.distributed")
    if distributed.is_available() and distributed.is_initialized():
        return Process(distributed.get_rank(), distributed.get_world_size())
    return Process(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))


def has_option(name: str) -> bool:
    """True if `torch.profiler.profile` has an argument of this name, but for the schedule."""
    return name != "schedule" and name in signature(import_module("torch.profiler").profile).parameters


FRAMEWORK: Final = Framework(read_process, "rank{}.pt.trace.json".format, TorchProfiler, has_option)
