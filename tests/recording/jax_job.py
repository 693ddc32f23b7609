"""A JAX job that records itself, with one slow thing at a time: ``jax_job.py FOLDER PLANTED...``.

It is run by a test. `process` makes it one of two processes, and `full` writes to a disk without space.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np

import tracehound

STEPS, ROWS, INPUTS = 8, 64, 64


@jax.jit
def train_step(weights: jax.Array, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    loss, gradient = jax.value_and_grad(lambda weights: jnp.tanh(rows @ weights).var())(weights)
    return weights - 0.1 * gradient, loss


def load_batch(step: int, planted: str) -> np.ndarray:
    if planted == "loader":
        time.sleep(0.1)
    return np.ones((ROWS + (step if planted == "recompile" else 0), INPUTS), np.float32)


def train(folder: Path, planted: str) -> None:
    weights = jnp.eye(INPUTS)
    with tracehound.record(folder, steps=3) as recorder:
        for step in range(STEPS):
            weights, loss = train_step(weights, load_batch(step, planted))
            if planted == "sleep":
                time.sleep(0.1)
            float(loss)
            recorder.step()


def main() -> None:
    folder, *planted = sys.argv[1:]
    for each in planted:
        if each == "process":
            index, port = planted[1:]
            jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(index))
            train(Path(folder), each)
            return
        if each == "full":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limits[1]))
            train(Path(folder) / each, each)
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        train(Path(folder) / ("afterwards" if each == "full" else each), each)
    print("trained")


if __name__ == "__main__":
    main()
