"""Recording from inside a training job: `record` makes the profiler of PyTorch or JAX write what analyses need.

Runs in the training process, so it imports neither a framework nor anything that reads traces.
"""

from __future__ import annotations

from tracehound.recording.recorder import Recorder, record

__all__ = ["Recorder", "record"]
