"""The profiler of JAX, with the settings that the analyses need."""

from __future__ import annotations

import shutil
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from tracehound.recording.step_profiler import Framework, Options, Process

_SETTINGS: Final[Options] = {"host_tracer_level": 2, "python_tracer_level": 1, "enable_hlo_proto": True}
"""Attributes of `jax.profiler.ProfileOptions`: host events without details, Python calls, the HLO of all programs."""


class JaxProfiler:
    """A recording of `jax.profiler` into `folder` from `first_step` on; the profiler needs no warm-up."""

    def __init__(self, folder: Path, first_step: int, options: Options) -> None:
        self._folder = folder
        self._first_step = first_step
        self._options = options
        self._profiler: Any = import_module("jax.profiler")
        self._running = False
        self._mark: Any = None

    def begin_step(self, step: int) -> None:
        """Start the profiler at the first step, and mark the step."""
        if step < self._first_step:
            return
        if not self._running:
            self._profiler.start_trace(str(self._folder), **self._start_arguments())
            self._running = True
        self._end_mark()
        self._mark = self._profiler.StepTraceAnnotation("train", step_num=step)
        self._mark.__enter__()

    def _start_arguments(self) -> dict[str, object]:
        """The profiler's options as an argument; none for an old JAX, whose profiler has none."""
        if not hasattr(self._profiler, "ProfileOptions"):
            return {}
        settings = self._profiler.ProfileOptions()
        for name, value in {**_SETTINGS, **self._options}.items():
            setattr(settings, name, value)
        return {"profiler_options": settings}

    def _end_mark(self) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            mark.__exit__(None, None, None)

    def write_trace(self) -> Path:
        """Wait for the devices, which would else be cut off in their last step, and stop the profiler.

        Raises OSError if the profiler wrote no xplane.
        """
        self._end_mark()
        jax: Any = import_module("jax")
        with suppress(Exception):  # an error of the job's own arrays is the job's to see
            jax.block_until_ready(jax.live_arrays())
        self._profiler.stop_trace()
        self._running = False
        file = next(self._folder.glob("**/*.xplane.pb"), None)
        if file is None:
            raise OSError("JAX's profiler wrote no xplane.pb")
        return file

    def abandon(self) -> None:
        """Stop the profiler; if it could not write, on a full disk, it can once its unfinished file is removed."""
        self._end_mark()
        if self._running:
            self._running = False
            shutil.rmtree(self._folder, ignore_errors=True)
            self._profiler.stop_trace()


def read_process() -> Process:
    """The index of this process among those of the job."""
    jax: Any = import_module("jax")
    return Process(jax.process_index(), jax.process_count())


def has_option(name: str) -> bool:
    """True if the options of JAX's profiler have an attribute of this name; an old profiler has no options."""
    return hasattr(getattr(import_module("jax.profiler"), "ProfileOptions", None), name)


FRAMEWORK: Final = Framework(read_process, "process_{}.xplane.pb".format, JaxProfiler, has_option)
