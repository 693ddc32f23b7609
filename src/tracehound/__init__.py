"""Explore machine-learning performance traces in a terminal."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tracehound.recording import Recorder, record

__all__ = ["EXIT_INTERRUPTED", "Recorder", "__version__", "record"]

__version__ = "0.1.0"

EXIT_INTERRUPTED = 130
"""Exit status after Ctrl-C, the same as a shell's."""

_MODULES = {"Recorder": "tracehound.recording", "record": "tracehound.recording"}
"""The modules of public names, which are imported when they are used: a training job imports this package, too."""


def __getattr__(name: str) -> object:
    """A public name of another module."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415, only those who use the name need it

    return getattr(import_module(_MODULES[name]), name)
