"""Small JAX jobs with a profiler server on loopback, each with one planted cause of lost time.

python live_jax.py PORT [CAUSE]
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

CAUSES = ("none", "loader", "recompile", "sleep")

DEVICES = 8


@contextmanager
def jobs(*causes: str) -> Iterator[list[str]]:
    """Jobs with these causes, which step; gives the address of each."""
    with ExitStack() as stack:
        running = [stack.enter_context(_job(cause)) for cause in causes]
        for _, process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == b"stepping\n"
        yield [address for address, _ in running]


@contextmanager
def _job(cause: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    port = free_port()
    environment = os.environ | {
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}",
        "JAX_PLATFORMS": "cpu",
    }
    with subprocess.Popen(
        [sys.executable, Path(__file__), str(port), cause], stdout=subprocess.PIPE, env=environment
    ) as process:
        try:
            yield f"127.0.0.1:{port}", process
        finally:
            process.kill()


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def train(port: int, cause: str) -> None:
    """Step for ten minutes at most."""
    import jax  # noqa: PLC0415, tests import this module
    import numpy as np  # noqa: PLC0415

    jax.profiler.start_server(port)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    weights = np.full((256, 256), 0.01, np.float32)

    def layer(batch: jax.Array) -> jax.Array:
        return jax.numpy.tanh(batch @ weights) @ weights.T

    step = jax.jit(layer)
    rng = np.random.default_rng(0)

    def next_batch() -> np.ndarray:
        if cause == "loader":
            time.sleep(0.05)
        return rng.normal(size=(1024, 256)).astype(np.float32)

    until = time.monotonic() + 600
    number = 0
    while time.monotonic() < until:
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            batch = jax.device_put(next_batch(), sharding)
            if cause == "recompile":
                step = jax.jit(lambda rows, number=number: layer(rows) + number)
            if cause == "sleep":
                time.sleep(0.05)
            for _ in range(3):
                batch = step(batch)
            batch.block_until_ready()
        number += 1
        if number == 3:
            print("stepping", flush=True)


if __name__ == "__main__":
    train(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "none")
